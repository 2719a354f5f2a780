"""The messages that handlers are at work on: they stay theirs for longer than the visibility timeout, up to a bound."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Iterable

from transport.clients.delivery import Delivery


class AtWork:
    """What has been begun and is not over. `begin` and `end` are for any thread, `still` is for the loop's.

    Args:
        longest: seconds after its beginning in which a message is still counted.
        loop: whose clock it goes by.
    """

    def __init__(self, longest: float, loop: AbstractEventLoop) -> None:
        self._longest = longest
        self._loop = loop
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
