"""Reading that may never end, as from a disk or a mount that does not answer: it has a deadline, and does not keep the process.

(The threads of `asyncio.to_thread` would: the loop, and then the interpreter, wait for them at the end.)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Final, Generic, TypeVar

T = TypeVar("T")

READ_SECONDS: Final = 30.0
"""After which a file is given up. The largest users file that there may be takes a few seconds of a processor."""
STUCK: Final = "it is still being read since the last time, as from a disk or a mount that does not answer"


class Unhurried(Generic[T]):
    """One thing that is read now and then, by a thread that is left behind where it gets nowhere: one such thread at a time, at most.

    Args:
        read: reads it. It is called in a thread.
        late: the error that says that it could not be read in time; it is given why.
        seconds: the deadline.
    """

    def __init__(self, read: Callable[[], T], late: Callable[[str], Exception], seconds: float = READ_SECONDS) -> None:
        self._read = read
        self._late = late
        self._seconds = seconds
        self._under_way: Future[T] | None = None

    def now(self) -> T:
        """What ``read`` returns, for who has no loop to serve; raises what it raises, or the error of who is late."""
        reading = self._begin()
        wait([reading], self._seconds)
        return self._outcome(reading, self._seconds)

    async def later(self, seconds: float | None = None) -> T:
        """As of `now`, for who has one; within ``seconds``, where it is to be another time."""
        seconds = self._seconds if seconds is None else seconds
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def tell(_: Future[T]) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(ended.set)

        reading = self._begin()
        reading.add_done_callback(tell)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await ended.wait()
        return self._outcome(reading, seconds)

    def _outcome(self, reading: Future[T], seconds: float) -> T:
        if not reading.done():
            raise self._late(f"it could not be read within {seconds:g} s, and is given up")
        return reading.result()

    def _begin(self) -> Future[T]:
        if self._under_way is not None and not self._under_way.done():
            raise self._late(STUCK)
        reading: Future[T] = Future()
        try:
            threading.Thread(target=self._work, args=(reading,), name="penstock reading", daemon=True).start()
        except RuntimeError as error:
            raise self._late(f"this process may begin no thread ({error})") from error
        self._under_way = reading
        return reading

    def _work(self, reading: Future[T]) -> None:
        try:
            result = self._read()
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to who has asked
            reading.set_exception(error)
        else:
            reading.set_result(result)
