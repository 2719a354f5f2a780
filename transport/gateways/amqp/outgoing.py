"""What is much for one connection, written in slices: as its socket takes them, and a few in a turn of the loop.

A message may have a hundred megabytes. Written at once all of it would be unsent, and take a turn of the loop for itself. So only a slice
is, and what is said behind it waits. Frames stay whole: it is cut between two of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from transport.gateways.amqp.writing import BODY_END

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from transport.wire.receiving import Part

LARGE_BYTES: Final = 1 << 20
"""Of a message, or of several together, above which they are written in slices."""
SLICE_BYTES: Final = 512 << 10
"""Of one slice, and a frame beyond."""
TURN_SLICES: Final = 4
"""In one turn of the loop: a quick peer takes each at once."""


class Outgoing:
    """Of one connection.

    Args:
        send: writes frames.
        soon: does something in the next turn of the loop.
        changed: told that something waits here, or nothing any more.

    Attributes:
        waiting: slices, and what is written behind them.
    """

    def __init__(
        self,
        send: Callable[[Sequence[Part]], None],
        soon: Callable[[Callable[[], None]], None],
        changed: Callable[[], None],
    ) -> None:
        self.waiting: deque[Sequence[Part]] = deque()
        self._send = send
        self._soon = soon
        self._changed = changed
        self._writable = True
        self._asked = self._over = False

    @property
    def is_free(self) -> bool:
        """Whether the socket takes more, and nothing waits here."""
        return self._writable and not self.waiting

    def put(self, parts: Sequence[Part]) -> None:
        """Write frames behind all that waits. Bodies have `BODY_END` for a part of its own: they are cut behind one."""
        if self._over:
            return
        waited = bool(self.waiting)
        at = size = 0
        for end, part in enumerate(parts, 1):
            size += len(part)
            if size >= SLICE_BYTES and part is BODY_END:
                self.waiting.append(parts[at:end])
                at, size = end, 0
        if at < len(parts):
            self.waiting.append(parts[at:])
        if not waited:
            self._changed()
            self._go_on()

    def writable_changed(self, writable: bool) -> None:
        """Whether the socket takes more."""
        self._writable = writable
        if writable and self.waiting:
            # Not within what says so, which is the transport's.
            self._ask()

    def end(self) -> None:
        """Write no more."""
        self._over = True
        self.waiting.clear()
        # Its connection knows it: without a cycle both are free at once.
        self._send = self._soon = self._changed = _nothing

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._soon(self._again)

    def _again(self) -> None:
        self._asked = False
        self._go_on()

    def _go_on(self) -> None:
        waiting = self.waiting
        if not waiting:
            return
        for _ in range(TURN_SLICES):
            if not waiting or not self._writable:
                break
            self._send(waiting.popleft())
        if not waiting:
            self._changed()
        elif self._writable:
            self._ask()


def _nothing(*_: object) -> None:
    """Done for a connection that is over."""
