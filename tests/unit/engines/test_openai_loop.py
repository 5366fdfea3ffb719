"""The thread that asyncio runs in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator

import pytest

from adjudge.engines.openai_loop import Background


@pytest.fixture
def background() -> Iterator[Background]:
    made = Background()
    yield made
    made.close(lambda: None)


def test_a_result_comes_from_another_thread(background: Background) -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return threading.get_ident()

    assert background.result(work()) != threading.get_ident()


def test_what_is_emitted_comes_in_order(background: Background) -> None:
    async def produce(emit: Callable[[int], None]) -> None:
        for i in range(100):
            emit(i)
            if i % 7 == 0:
                await asyncio.sleep(0)

    assert list(background.stream(produce)) == list(range(100))


def test_an_error_comes_after_what_was_emitted(background: Background) -> None:
    async def produce(emit: Callable[[int], None]) -> None:
        emit(1)
        raise ValueError("broken")

    stream = background.stream(produce)
    assert next(stream) == 1
    with pytest.raises(ValueError, match="broken"):
        next(stream)


def test_closing_a_stream_cancels_its_work_and_waits_for_the_end(background: Background) -> None:
    ended = []

    async def produce(emit: Callable[[int], None]) -> None:
        emit(1)
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            ended.append(True)

    stream = background.stream(produce)
    assert next(stream) == 1
    stream.close()  # type: ignore[attr-defined]
    assert ended == [True]


def test_closing_ends_all_work_and_can_be_repeated() -> None:
    background = Background()
    closed = []

    async def produce(emit: Callable[[int], None]) -> None:
        emit(1)
        await asyncio.sleep(3600)

    stream = background.stream(produce)
    assert next(stream) == 1
    background.close(lambda: closed.append(1))
    with pytest.raises(asyncio.CancelledError, match=r"^$"):
        next(stream)
    background.close(lambda: closed.append(2))
    assert closed == [1]
