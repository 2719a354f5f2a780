"""What every set of ready messages can be told, be it of a queue with levels or without."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actors.queue.state.entries import Span
    from actors.queue.structures.ranges import Range


class Receivable:
    """The messages of a queue that nobody holds: see ``ReadyRanges``, which says what each of these does."""

    __slots__ = ()

    def add(self, stop: int, count: int) -> None:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def add_delayed(self, stop: int, count: int, due: float) -> None:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def add_staged(self, stop: int, count: int) -> None:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def publish(self, start: int, stop: int) -> None:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def carve(self, start: int, stop: int) -> list[Range]:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def put_back(self, span: Span) -> None:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def take(self, span: Span, count: int) -> Span:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def remove(self, start: int, stop: int) -> list[Range]:
        """See ``ReadyRanges``."""
        raise NotImplementedError

    def take_out(self, span: Span, *, delayed: bool) -> None:
        """See ``ReadyRanges``."""
        raise NotImplementedError
