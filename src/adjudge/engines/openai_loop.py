"""An event loop in a thread of its own, for callers that know nothing of asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    """An event loop that runs in a thread until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), daemon=True)
        self._thread.start()

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns in the end."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def stream(self, produce: Callable[[Callable[[T], None]], Awaitable[None]]) -> Iterator[T]:
        """Yield what `produce` hands to the function that it is called with, as it comes.

        What `produce` raises is raised after that. Closing the iterator cancels it and waits
        until it has ended.
        """
        loop = self._loop
        queue: SimpleQueue[list[T] | asyncio.Task[None]] = SimpleQueue()
        fresh: list[T] = []
        tasks: list[asyncio.Task[None]] = []

        def hand_over() -> None:
            if fresh:
                queue.put(fresh.copy())
                fresh.clear()

        def emit(item: T) -> None:
            if not fresh:  # all that comes in one turn of the loop crosses over at once
                loop.call_soon(hand_over)
            fresh.append(item)

        def end(task: asyncio.Task[None]) -> None:
            hand_over()
            queue.put(task)

        async def work() -> None:
            await produce(emit)

        def begin() -> None:
            tasks.append(loop.create_task(work()))
            tasks[0].add_done_callback(end)

        loop.call_soon_threadsafe(begin)
        ended: asyncio.Task[None] | None = None
        try:
            while isinstance(batch := queue.get(), list):
                yield from batch
            ended = batch
            ended.result()
        finally:
            if ended is None and not loop.is_closed():
                loop.call_soon_threadsafe(lambda: [task.cancel() for task in tasks])
                while isinstance(batch := queue.get(), list):
                    pass

    def close(self, last: Callable[[], None]) -> None:
        """End all work, call `last` in the thread and end it; more calls do nothing."""
        if self._loop.is_closed() or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._stop(last)))
        if threading.current_thread() is not self._thread:
            self._thread.join()

    async def _stop(self, last: Callable[[], None]) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        last()
        await asyncio.sleep(0)  # lines that were closed say so in the loop's next turn
        self._loop.stop()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
