"""How fast a server is asked: requests in flight, and per minute."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable

#: The part of a minute's allowance that may be used at once.
BURST = 0.1


class Window:
    """How many requests may be in flight: additive increase, multiplicative decrease.

    Begins with the most. Each answer adds its share of one more per round trip; a sign of
    overload halves it, once for all requests that were under way at the time.

    Parameters
    ----------
    most
        The upper bound.
    now
        The time in seconds.
    """

    def __init__(self, most: int, now: Callable[[], float]) -> None:
        self._most, self._now = most, now
        self._halved = -math.inf
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.size = float(most)

    async def enter(self) -> None:
        """Wait until one more request may be under way, first come, first served; count it."""
        if self._in_flight < int(self.size) and not self._waiting:
            self._in_flight += 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():  # it had just been let in
                self.leave()
            raise

    def leave(self) -> None:
        """Count one request less, and let in who waits."""
        self._in_flight -= 1
        while self._waiting and self._in_flight < int(self.size):
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._in_flight += 1

    def answered(self) -> None:
        """Note an answer."""
        if self.size < self._most:
            self.size = min(float(self._most), self.size + 1 / self.size)

    def overloaded(self, sent: float) -> None:
        """Note that a request that was sent then met a server with too much to do."""
        if sent > self._halved:
            self._halved = self._now()
            self.size = max(1.0, self.size / 2)


class Bucket:
    """A token bucket: an allowance per minute that refills evenly.

    Parameters
    ----------
    per_minute
        The allowance.
    now
        The time in seconds.
    """

    def __init__(self, per_minute: int, now: Callable[[], float]) -> None:
        self._now, self._rate = now, per_minute / 60
        self._most = max(1.0, per_minute * BURST)
        self._level, self._seen = self._most, now()

    def take(self, amount: float) -> float:
        """Take so much, and return the seconds to wait until it is there."""
        now = self._now()
        self._level = min(self._most, self._level + (now - self._seen) * self._rate)
        self._seen = now
        self._level -= amount
        return max(0.0, -self._level / self._rate)
