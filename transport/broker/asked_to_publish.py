"""A request to publish: what of it is still to be sent, and what comes of it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from transport.broker.served import RefusalError
from transport.errors import FrameTooLargeError
from transport.wire.frames import MAX_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.batch import MessageBatch


WOKEN_A_TURN: Final = 32
"""Requests that go on in a turn of the loop: each writes its answer then, a tenth of a millisecond's work."""


class Wakes:
    """Wakes those who ask to publish a few at a time: thousands that waited may all be stored at once, or their queue be deleted."""

    __slots__ = ("_left", "_line", "_scheduled")

    def __init__(self) -> None:
        self._line: deque[asyncio.Future[None]] = deque()
        self._left = WOKEN_A_TURN
        self._scheduled = False

    def wake(self, waiter: asyncio.Future[None]) -> None:
        """Have it go on: now, or in a turn to come."""
        self._line.append(waiter)
        self._wake()

    def _turn(self) -> None:
        self._scheduled, self._left = False, WOKEN_A_TURN
        self._wake()

    def _wake(self) -> None:
        while self._line and self._left:
            waiter = self._line.popleft()
            if not waiter.done():
                self._left -= 1
                waiter.set_result(None)
        if self._left < WOKEN_A_TURN and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)


class NotAllStoredError(RefusalError):
    """A request was not carried out, or not to its end.

    Attributes:
        stored: how many of its messages are known to be stored.
        returned: which of these no queue took, where the request was to an exchange and wants to know.
    """

    returned: tuple[int, ...] = ()

    def __init__(self, code: str, text: str, stored: int) -> None:
        super().__init__(code, text)
        self.stored = stored


class NoRoomInTimeError(NotAllStoredError):
    """There was no room in time for a request, or not for all of it."""

    def __init__(self, text: str, stored: int) -> None:
        super().__init__("queue-full", text, stored)


class Piece(NamedTuple):
    """Messages that are sent together.

    Attributes:
        batch: of them.
        delay: as of ``OfferBatch``.
        ttl: likewise.
        priority: likewise.
    """

    batch: MessageBatch
    delay: float | None = None
    ttl: float | None = None
    priority: int = 0


class Asked:
    """A request: what of it is still to be sent, and who waits for the numbers of its messages.

    Nearly every request waits once, from when it is sent until it is stored; so one who waits is woken, and looks for itself.
    """

    __slots__ = (
        "_for_room",
        "_waiter",
        "_wakes",
        "error",
        "numbers",
        "over",
        "rest",
        "sent",
        "sent_at",
        "under_way",
        "without_room",
    )

    def __init__(self, pieces: Iterable[Piece], wakes: Wakes) -> None:
        self._wakes = wakes
        self.rest = deque(pieces)
        # Parts that are sent and not confirmed; first number and count of those that are stored.
        self.under_way = 0
        self.numbers: list[tuple[int | None, int]] = []
        # Whether nothing more of it is to be sent, there was no room for it at once, and nothing more is to come of it.
        self.sent = self.without_room = self.over = False
        self.sent_at = 0.0
        self.error: NotAllStoredError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._for_room = False

    @property
    def stored(self) -> int:
        """Messages of it that are stored, or were before."""
        return sum(count for _, count in self.numbers)

    async def until(self, holds: Callable[[Asked], bool]) -> None:
        """Wait until something is so, or it is over."""
        while not (self.over or holds(self)):
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    async def for_room(self, seconds: float) -> None:
        """Wait until it is sent, but not for longer than that."""
        self._for_room = True
        try:
            async with asyncio.timeout(seconds):
                await self.until(lambda it: it.sent)
        except TimeoutError:
            pass
        finally:
            self._for_room = False

    def all_sent(self) -> None:
        """Nothing of it is still to be sent."""
        self.sent = True
        if self._for_room:
            self.wake()

    def wake(self) -> None:
        """Whoever waits looks again."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            self._wakes.wake(waiter)

    def settle(self) -> None:
        """Whoever asked is answered when nothing of it is under way, and nothing more is to be sent."""
        if not self.rest and not self.under_way:
            self.over = True
            self.wake()

    def fail(self, code: str, text: str) -> None:
        """It is not carried out; what of it is under way is not waited for."""
        self.rest.clear()
        if not self.over:
            self.over, self.error = True, NotAllStoredError(code, text, self.stored)
            self.wake()

    def raise_error(self) -> NoReturn:
        """Raise what it failed on, which is not kept: it will lead to frames that lead to this."""
        error, self.error = self.error, None
        assert error is not None, "it has failed"
        try:
            raise error
        finally:
            del error

    def look_for_room(self, turns: int) -> None:
        """See whether it is sent after so many turns of the loop."""
        if self.sent or self.over:
            return
        if turns:
            asyncio.get_running_loop().call_soon(self.look_for_room, turns - 1)
        else:
            self.without_room = True
            self.wake()


def check_frames(batch: MessageBatch) -> None:
    """Raise FrameTooLargeError for a batch with a message that no frame holds."""
    if batch.nbytes <= MAX_BODY_BYTES:
        return
    for number in range(len(batch)):
        if (size := batch.slice(number, number + 1).nbytes) > MAX_BODY_BYTES:
            raise FrameTooLargeError(size, MAX_BODY_BYTES, what="message", advice="send a reference to it")
