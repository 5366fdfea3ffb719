"""Requests in flight and per minute, on clocks that tests turn."""

from __future__ import annotations

import asyncio

import pytest

from adjudge.engines.openai_pace import Bucket, Window


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def test_a_window_begins_with_the_most() -> None:
    assert Window(64, Clock()).size == 64


def test_overload_halves_it_once_for_all_that_was_under_way() -> None:
    clock = Clock()
    window = Window(64, clock)
    clock.time = 2.0
    for sent in (0.5, 1.0, 1.5):
        window.overloaded(sent)
    assert window.size == 32
    clock.time = 3.0
    window.overloaded(2.5)
    assert window.size == 16


def test_it_never_falls_below_one() -> None:
    clock = Clock()
    window = Window(2, clock)
    for step in range(1, 5):
        clock.time = step
        window.overloaded(step - 0.5)
    assert window.size == 1


def test_answers_add_one_per_round_trip_up_to_the_most() -> None:
    clock = Clock()
    window = Window(64, clock)
    clock.time = 1.0
    window.overloaded(0.5)
    for _ in range(32):
        window.answered()
    assert window.size == pytest.approx(33, abs=0.02)
    for _ in range(10_000):
        window.answered()
    assert window.size == 64


def test_no_more_are_under_way_than_it_says() -> None:
    clock = Clock()
    window = Window(4, clock)
    most, now = 0, 0

    async def one(i: int) -> None:
        nonlocal most, now
        await window.enter()
        now += 1
        most = max(most, now)
        if i == 10:
            clock.time = 1.0
            window.overloaded(0.5)
        await asyncio.sleep(0)
        now -= 1
        window.leave()

    async def run() -> None:
        await asyncio.gather(*(one(i) for i in range(50)))

    asyncio.run(run())
    assert most == 4
    assert window.size == 2


def test_cancelled_waiters_hold_nobody_up() -> None:
    window = Window(1, Clock())

    async def run() -> None:
        await window.enter()
        waiting = [asyncio.ensure_future(window.enter()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        window.leave()
        await asyncio.wait_for(waiting[1], 5)
        waiting[2].cancel()

    asyncio.run(run())


def test_a_bucket_lets_a_tenth_of_a_minutes_allowance_through_at_once() -> None:
    clock = Clock()
    bucket = Bucket(600, clock)  # ten a second
    assert [bucket.take(1) for _ in range(60)] == [0.0] * 60
    assert bucket.take(1) == pytest.approx(0.1)
    assert bucket.take(5) == pytest.approx(0.6)


def test_a_bucket_refills_evenly_and_not_above_its_most() -> None:
    clock = Clock()
    bucket = Bucket(600, clock)
    bucket.take(60)
    clock.time = 0.5
    assert [bucket.take(1) for _ in range(5)] == [0.0] * 5
    assert bucket.take(1) == pytest.approx(0.1)
    clock.time = 1000.0
    assert bucket.take(60) == 0.0
    assert bucket.take(1) == pytest.approx(0.1)


def test_a_minute_lets_no_more_through_than_it_says() -> None:
    clock = Clock()
    bucket = Bucket(120, clock)
    times = []
    for _ in range(300):
        clock.time += bucket.take(1)
        times.append(clock.time)
    # The first of a burst, then one every half second.
    assert times[11] == 0.0
    assert times[-1] == pytest.approx((300 - 12) / 2, abs=0.01)
