"""What the actor of a connection that publishes to an exchange asks of whoever routes and stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from actors.queue.exchange_sender import ExchangeSender
    from actors.queue.vocabulary.commands import OfferBatch
    from actors.runtime.loop_ref import LoopActorRef


class Publishing(Protocol):
    """What routes and stores; see ``ExchangePublishing``."""

    def targets(self, exchange: str, routing_key: str | None) -> Iterable[str]:
        """The queues that a message may go to; raises QueueError where there is no such exchange."""

    def queue(self, name: str) -> LoopActorRef[Any] | None:
        """A queue; None where there is none of this name."""

    @property
    def generation(self) -> int:
        """Another number when targets may be others."""

    def begin(self, sender: ExchangeSender) -> int | None:
        """A sender is there; returns the number behind the last message that any queue has of it.

        One that stages hears what it goes on with by ``attached``, or is refused by a QueueError.
        """

    def leave(self, sender: ExchangeSender) -> None:
        """A sender is gone."""

    def offer(self, sender: ExchangeSender, offer: OfferBatch) -> None:
        """Have a batch stored with all that comes in the same turn."""

    def room_made(self, sender: ExchangeSender) -> None:
        """The queues that had no room for what a sender has offered have some, or it waits for them no more."""

    def tally(self, sender: ExchangeSender, request: int) -> None:
        """Answer ``TallyStage``; raises QueueError."""
