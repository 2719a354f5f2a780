"""What the actor of a connection that publishes to an exchange asks of whoever routes and stores, and is asked by it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.errors import QueueError
    from actors.queue.state.routed import Routed
    from actors.queue.vocabulary.distributed import OfferThere, StageTallied, Unroutable
    from actors.queue.vocabulary.stages import StageKey
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

    def begin(self, sender: Publisher) -> int | None:
        """A sender is there; returns the number behind the last message that any queue has of it.

        One that stages hears what it goes on with by ``attached``, or is refused by a QueueError.
        """

    def leave(self, sender: Publisher) -> None:
        """A sender is gone."""

    def offer(self, sender: Publisher, offer: OfferThere) -> None:
        """Have a batch stored with all that comes in the same turn."""

    def room_made(self, sender: Publisher) -> None:
        """The queues that had no room for what a sender has offered have some, or it waits for them no more."""

    def tally(self, sender: Publisher, request: int) -> None:
        """Answer ``TallyStage``; raises QueueError."""


class Publisher(Protocol):
    """Who publishes; see ``ExchangeSender``, which has what each of these is.

    Attributes:
        failed: why nothing of it is stored any more; whoever stores sets it.
        answers: how many of its batches are stored and not confirmed yet; whoever stores counts them.
        arrival: its connection's number, in the order in which they were accepted.
    """

    exchange: str
    within: str
    routing_key: str | None
    producer: str | None
    stage: StageKey | None
    temporary: bool
    mandatory: bool
    in_parts: bool
    failed: QueueError | None
    answers: int
    arrival: int

    @property
    def actor_ref(self) -> LoopActorRef[Any]:
        """By which queues know it."""

    @property
    def awaits_room(self) -> bool:
        """Whether what it has offered waits for the room of a queue."""

    def has_room(self, parts: Iterable[Routed], *, keyed: bool) -> bool:
        """Whether a batch may be stored as to the room of its queues."""

    def waits_from(self, sequence: int) -> None:
        """What has this number, and all behind it, waits for room."""

    def attached(self, last_number: int | None, committed: bool) -> None:
        """A stage goes on with this number."""

    def tell(self, reply: StageTallied) -> None:
        """Tell the client what it is told in its turn among the confirmations."""

    def stored(self, queues: Iterable[str], messages: int, size: int) -> None:
        """Messages of it are stored in these queues."""

    def settled(self, batch: MessageBatch, records: int, *, rejected: bool) -> None:
        """Nothing of a batch is to be stored any more."""

    def rejected(self, sequence: int) -> None:
        """A queue rejects what has this number."""

    def rejects(self, sequence: int) -> str | None:
        """Why what has this number is rejected; None where it is not."""

    def returned(self, unroutable: Unroutable) -> None:
        """No queue takes some messages of the batch that is confirmed next."""

    def confirmed(self, up_to: int, rejected: str | None) -> None:
        """The next batch is as durable as it becomes, or was rejected."""

    def look_again(self) -> None:
        """Definitions have changed."""

    def end(self, code: str, text: str) -> None:
        """Nothing more is taken; the client is told, once."""
