"""The leases of a queue with groups: what somebody holds has its groups, and they are free when nothing of them is held."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from actors.queue.state.receivers import LeaseTable

if TYPE_CHECKING:
    from actors.queue.state.entries import Span
    from actors.queue.state.groups import Groups, GroupSpan
    from actors.queue.state.receivers import Receiver


class GroupedLeases(LeaseTable):
    """As ``LeaseTable``.

    Args:
        groups: the queue's.
    """

    __slots__ = ("_groups",)

    def __init__(self, groups: Groups) -> None:
        super().__init__()
        self._groups = groups

    def grant(self, receiver: Receiver, span: Span, deadline: float) -> None:
        """See ``LeaseTable``."""
        super().grant(receiver, span, deadline)
        self._groups.hold(cast("GroupSpan", span), receiver)

    def take_exactly(self, receiver: Receiver, start: int, stop: int) -> bool:
        """See ``LeaseTable``."""
        span = receiver.held.first_from(start)
        if not super().take_exactly(receiver, start, stop):
            return False
        self._groups.let_go(cast("GroupSpan", span))
        return True

    def take(self, receiver: Receiver, start: int, stop: int) -> list[Span]:
        """See ``LeaseTable``."""
        return self._let_go(super().take(receiver, start, stop))

    def take_all(self, receiver: Receiver) -> list[Span]:
        """See ``LeaseTable``."""
        return self._let_go(super().take_all(receiver))

    def expire(self, now: float) -> tuple[Receiver, Span] | None:
        """See ``LeaseTable``."""
        found = super().expire(now)
        if found is not None:
            self._groups.let_go(cast("GroupSpan", found[1]))
        return found

    def _let_go(self, spans: list[Span]) -> list[Span]:
        for span in spans:
            self._groups.let_go(cast("GroupSpan", span))
        return spans
