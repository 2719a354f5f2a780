"""The messages that handlers are at work on: they stay theirs for longer than the visibility timeout, up to a bound."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Iterable

from transport.clients.behind import group_of
from transport.clients.delivery import Delivery


class AtWork:
    """What has been begun and is not over. `begin` and `end` are for any thread, `still` is for the loop's.

    Args:
        longest: seconds after its beginning in which a message is still counted.
        loop: whose clock it goes by.

    Attributes:
        gave_back: whether `give_back_behind` has found something, ever.
    """

    def __init__(self, longest: float, loop: AbstractEventLoop) -> None:
        self._longest = longest
        self._loop = loop
        self.gave_back = False
        self._begun: dict[Delivery, float] = {}
        """No lock: each of a dictionary's own calls is whole."""

    def begin(self, delivery: Delivery) -> Delivery:
        """A handler has it, or waits for others to go with it."""
        self._begun[delivery] = self._loop.time()
        return delivery

    def end(self, deliveries: Iterable[Delivery]) -> None:
        """The handler is done with these."""
        for delivery in deliveries:
            self._begun.pop(delivery, None)

    def still(self) -> list[Delivery]:
        """Those that are to be extended now: not over, not for too long, and not extended by the handler itself, which knows better."""
        since = self._loop.time() - self._longest
        # To go through the items makes objects, which may begin a collection, whose finalizers let other threads go on. A copy does not.
        return [
            delivery
            for delivery, begun in self._begun.copy().items()
            if begun > since and not delivery.is_extended_by_hand
        ]

    def give_back_behind(self, failed: Delivery) -> None:
        """Of the group of a message that has failed, what waits behind it goes back, untried; the handler is done with that one."""
        group = group_of(failed)
        if group is None:
            return
        behind = [each for each in self._begun.copy() if each.sequence > failed.sequence and group_of(each) == group]
        self.end(behind)
        for each in behind:
            self.gave_back = True
            each.__untaken__()
