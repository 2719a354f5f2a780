"""Timers of a loop actor: a message to itself, later."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from actors.runtime._loop_inbox import LoopInbox


@dataclass(eq=False, repr=False, slots=True)
class TimerHandle:
    """One pending message; made by ``LoopActor.schedule`` and ``schedule_at``, used on the loop's thread.

    Attributes:
        when: the time on the loop's clock, in seconds.
    """

    loop: InitVar[asyncio.AbstractEventLoop]
    when: float
    _message: Any
    _inbox: LoopInbox
    _pending: set[TimerHandle]
    _handle: asyncio.TimerHandle | None = field(init=False)

    def __post_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._pending.add(self)
        self._handle = loop.call_at(self.when, self._fire)

    def cancel(self) -> None:
        """Never tell the message; nothing happens if it was told already."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.cancel()
            self._pending.discard(self)
            self._message = None

    def pending(self) -> bool:
        """Whether the message is still to be told."""
        return self._handle is not None

    def _fire(self) -> None:
        self._handle = None
        self._pending.discard(self)
        self._inbox.offer_beyond_bound(self._message)
        self._message = None
