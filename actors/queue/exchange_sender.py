"""The actor of one connection that publishes to an exchange: it has room of every queue that a message of it may go to (``Room``)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

from pykka import ActorDeadError

from actors.errors import InvalidRequestError, QueueError, SequenceGapError
from actors.exchanges.errors import StoppingError
from actors.exchanges.vocabulary import DEFAULT_EXCHANGE
from actors.queue.connection_actor import Port
from actors.queue.exchange_room import ROOM_REQUEST, Room
from actors.queue.operations.sending import NO_TIMING
from actors.queue.state.newest import OF_STAGE, TakenOverError
from actors.queue.state.routed import ways_of
from actors.queue.state.unanswered import Unanswered, behind_rejected
from actors.queue.vocabulary.commands import CaughtUp, ExplainWait, OfferBatch
from actors.queue.vocabulary.distributed import OfferCopies, RoomAwaited, StageTallied, TallyStage
from actors.queue.vocabulary.replies import (
    QueueDeleted,
    Refused,
    RoomGranted,
    SenderAttached,
    SentMessages,
    Superseded,
    WaitExplained,
)
from actors.runtime.loop_actor import LoopActor

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue.exchange_port import Publishing
    from actors.queue.state.routed import Routed
    from actors.queue.vocabulary.distributed import OfferThere, Unroutable
    from actors.queue.vocabulary.needed import Needed
    from actors.queue.vocabulary.stages import StageKey


class ExchangeSender(LoopActor):
    """Takes `OfferBatch` from its connection, and the room that queues grant.

    Args:
        publishing: routes and stores what comes.
        exchange: where it publishes.
        routing_key: of all that has no key of its own; None where each message has one.
        producer: the name under which the client may send again what it sent, or None.
        port: the way back to the client.
        temporary: nobody comes under the name when the client has ended.
        mandatory: the client is told of what no queue takes.
        stage: what the client sends is held back under this until its transaction is committed, and the numbers are the stage's; the
            producer is not looked at. None for what can be received at once.
        needed: what it is to have room for, and where; None for one that goes on sending.
        within: through the default exchange, what stands before a routing key in the name of its queue.
        in_parts: where a queue rejects some of a batch, nothing of it is stored in any, for the client sends it again in parts, down to
            single messages. Without that the other queues have what one rejects, which is right for a message that comes alone. A client
            that sends in parts may send one message first, by which its queue is found.
        arrival: the connection's number, in the order in which they were accepted.
    """

    def __init__(
        self,
        publishing: Publishing,
        exchange: str,
        routing_key: str | None,
        producer: str | None,
        port: Port,
        *,
        temporary: bool = False,
        mandatory: bool = False,
        stage: StageKey | None = None,
        needed: Needed | None = None,
        within: str = "",
        in_parts: bool = False,
        arrival: int = 0,
    ) -> None:
        super().__init__()
        self.arrival = arrival
        self.exchange = exchange
        self.within = within if exchange == DEFAULT_EXCHANGE else ""
        self.in_parts = in_parts
        self.routing_key = routing_key
        self.producer = producer if stage is None else None
        self.stage = stage
        self.temporary = temporary
        self.mandatory = mandatory
        self._publishing = publishing
        self._port = port
        self._needed = needed
        # It is this actor's alone: without a cycle both are free at once.
        watch, gone, come = (
            partial(_of, WeakMethod(each)) for each in (self.watch, self._queue_gone, self._room_has_come)
        )
        self._room = Room(
            self.actor_ref, publishing.queue, watch, stage, needed, gone, come, one_first=in_parts, arrival=arrival
        )
        # The first number of what waits for the room of a queue, and of which the client was told so; None where it was told of none.
        self._waits_from = 0
        self._told_waits: int | None = None
        self._generation = -1
        self._unanswered = Unanswered()
        self._expected: int | None = None
        # What is stored next has to have this number, and be the one that comes again; and whether that has still to come.
        self._rejected_from: int | None = None
        self._comes_again = False
        # Why nothing of it is stored any more; whoever stores sets it.
        self.failed: QueueError | None = None
        # How many of its batches are stored and not confirmed yet; whoever stores counts them.
        self.answers = 0
        # Marks that wait until all is stored that was sent before them, and those that wait until it is confirmed too.
        self._stored_marks = self._marks = 0
        # Batches that are rejected, and the client has not heard it. What it sends again of them was sent before the mark.
        self._rejections = 0
        self._looks_soon = False
        self._ended = False
        # What a stage goes on with may be told later.
        self._attached = stage is None

    def on_start(self) -> None:
        """Become known to the queues, and tell the client."""
        try:
            self._look_for_targets()
            known = self._publishing.begin(self)
        except QueueError as error:
            self.end(error.code, str(error))
            return
        if self.stage is None:
            self._port.tell(SenderAttached(None, next_sequence=known))
            self._grant()

    def on_stop(self) -> None:
        """The connection is gone: the queues have their room back."""
        self._ended = True
        self._publishing.leave(self)
        self._room.leave()

    def on_failure(self, *_args: object) -> None:
        """A defect of ours ends this connection only."""
        self.end("internal-error", "the publishing connection's actor failed; connect again")
        self.on_stop()

    def on_receive(self, message: Any) -> None:
        """Dispatch by type, the frequent ones first."""
        kind = type(message)
        if kind is OfferBatch:
            self._offer(message)
        elif kind is RoomGranted:
            self._granted(message)
        elif kind is ExplainWait:
            self._explain(message)
        elif kind is WaitExplained:
            self._explained(message)
        elif kind is CaughtUp:
            self._mark(message)
        elif kind is Refused:
            self.end(message.code, message.text)
        elif kind is OfferCopies:
            self._offer(message)
        elif kind is TallyStage:
            self._tally(message)
        elif kind is Superseded:
            self.end(TakenOverError.code, OF_STAGE)
        elif kind is not QueueDeleted:  # which the watch tells too, and of which queue
            super().on_receive(message)

    # What the client says.

    def _offer(self, offer: OfferThere) -> None:
        if self._ended:
            return
        count, size = offer.batch.count, offer.batch.nbytes
        try:
            self._check(offer, count, size)
        except QueueError as error:
            self.end(error.code, str(error))
            return
        known = 0 if self._expected is None else min(max(0, self._expected - offer.sequence), count)
        self._unanswered.add(offer.sequence, count, size, known)
        self._room.use(count, size)
        if known:
            # It was sent before on this connection.
            if known == count:
                if len(self._unanswered) == 1:
                    self._answered()
                return
            offer = offer._replace(sequence=offer.sequence + known, batch=offer.batch.slice(known, count))
        if offer.sequence == self._expected:
            self._comes_again = False
        if not self._comes_again:
            self._expected = offer.sequence + count - known
        self._room.offered(offer.batch)
        self._publishing.offer(self, offer)

    def _check(self, offer: OfferThere, count: int, size: int) -> None:
        if self.stage is not None and (offer.delay is not None or (offer.ttl is not None and not self.stage.passing)):
            raise InvalidRequestError(NO_TIMING)
        if self._expected is not None and offer.sequence > self._expected and not self._comes_again:
            raise SequenceGapError(self._expected, offer.sequence)
        self._room.check(offer.batch, count, size)

    def _tally(self, asked: TallyStage) -> None:
        if self._ended:
            return
        try:
            self._publishing.tally(self, asked.request)
        except QueueError as error:
            self.end(error.code, str(error))

    def _explain(self, asked: ExplainWait) -> None:
        """Ask the queue that has granted least."""
        fullest = self._room.fullest()
        if fullest is None:
            self._port.tell(WaitExplained(asked.request, None, ""))
            return
        with suppress(ActorDeadError):
            fullest.tell(ExplainWait(asked.request, self.actor_ref))

    def _explained(self, answer: WaitExplained) -> None:
        """What the client has asked it is told; what was asked for its sake, where something waits."""
        if answer.request != ROOM_REQUEST:
            self._port.tell(answer)
        elif answer.reason is not None and self._room.is_awaited and self._told_waits != self._waits_from:
            self._told_waits = self._waits_from
            self.tell(RoomAwaited(self._waits_from))

    def _mark(self, mark: CaughtUp) -> None:
        if mark.answered and self._unanswered:
            self._marks += 1
            self._wait_no_more()
        elif self.failed is not None or self._rejections or not self._room.is_settled:
            self._stored_marks += 1
        else:
            self._port.caught_up()

    def _wait_no_more(self) -> None:
        """Somebody waits for all answers, as at the broker's end: what waits for the room of a queue would keep them from that."""
        if self._marks and self._room.is_awaited and self.failed is None:
            self.failed = StoppingError()
            self._publishing.room_made(self)

    # What comes of it.

    def attached(self, last_number: int | None, committed: bool) -> None:
        """A stage goes on with this number: what comes behind it without a gap is taken."""
        self._attached = True
        self._expected = last_number or 0
        self.tell(SenderAttached(last_number, committed))
        self._grant()

    def tell(self, reply: SenderAttached | StageTallied | RoomAwaited) -> None:
        """Tell the client, unless it is told nothing more. Some it is told in its turn among the confirmations."""
        if not self._ended:
            self._port.tell(reply)

    def stored(self, queues: Iterable[str], messages: int, size: int) -> None:
        """Messages of it are stored in these queues, which have counted them against what they had granted."""
        self._room.stored(queues, messages, size)

    def settled(self, batch: MessageBatch, records: int, *, rejected: bool) -> None:
        """Nothing of a batch is to be stored any more; it has become a part of so many records, or is to be told of as rejected."""
        self._rejections += rejected
        if self._room.settled(batch, records):
            self._tell_of_marks()

    def _tell_of_marks(self) -> None:
        """All is stored that was sent before the marks that wait for that, unless something is rejected and may come again.

        Where something has failed that never is so: the client is told of the end, and what it has said behind it is not done.
        """
        if self._stored_marks and self.failed is None and not self._rejections and self._room.is_settled:
            marks, self._stored_marks = self._stored_marks, 0
            for _ in range(marks):
                self._port.caught_up()

    def rejected(self, sequence: int) -> None:
        """A queue rejects what has this number: all behind it is rejected too, until this number comes again, be it another message."""
        self._expected = self._rejected_from = sequence
        self._comes_again = True

    def rejects(self, sequence: int) -> str | None:
        """Why what has this number is rejected, for something before it was; None where nothing was, or it comes again with this.

        It is asked of what came in the order in which it came.
        """
        first = self._rejected_from
        if first is None or sequence < first:
            return None
        if sequence == first:
            self._rejected_from = None
            return None
        return behind_rejected(first)

    def returned(self, unroutable: Unroutable) -> None:
        """No queue takes some messages of the batch that is confirmed next."""
        if not self._ended:
            self._port.tell(unroutable)

    def confirmed(self, up_to: int, rejected: str | None) -> None:
        """The next batch is as durable as it becomes, or was rejected by a queue; in order."""
        self._unanswered.answered(rejected is not None)
        if not self._ended:
            self._port.tell(SentMessages(up_to, None, rejected))
        self._answered()
        if rejected is not None:
            self._rejections -= 1
            self._tell_of_marks()

    def _answered(self) -> None:
        """Something was answered, and there may be room for more; what comes next and was sent before is answered with it."""
        if self._ended:
            return
        for up_to, rejected in self._unanswered.known():
            self._port.tell(SentMessages(up_to, None, rejected))
        if len(self._room) > 1:
            self._look_soon()
        else:
            self._look()
        if self._marks and not self._unanswered:
            for _ in range(self._marks):
                self._port.caught_up()
            self._marks = 0

    def look_again(self) -> None:
        """Definitions have changed: the queue that had no room may be none of its own any more."""
        if not self._ended and self._targets_are_known():
            self._grant()

    def _targets_are_known(self) -> bool:
        """Look for the queues where they may be others; False where that has ended this sender."""
        if self._generation != self._publishing.generation:
            try:
                self._look_for_targets()
            except QueueError as error:
                if self._unanswered and self._room.is_settled:
                    # All that was offered is stored: the client hears that first, and it is looked again with the answer.
                    self._generation = -1
                else:
                    self.end(error.code, str(error))
                return False
        return True

    def end(self, code: str, text: str) -> None:
        """Nothing more is taken; the client is told, once."""
        if not self._ended:
            self._ended = True
            self._port.refused(code, text, close=True)

    # Room.

    def _look_for_targets(self) -> None:
        self._generation = self._publishing.generation
        keys = (self.routing_key,) if self._needed is None or self._needed.keys is None else self._needed.keys
        wanted = dict.fromkeys(name for key in keys for name in self._publishing.targets(self.exchange, key))
        self._room.look(wanted)

    def _queue_gone(self) -> None:
        self._generation = -1
        self._grant()

    def _room_has_come(self) -> None:
        self._publishing.room_made(self)
        if self._told_waits is not None and not self._ended:
            # Behind the turn in which it goes on: it may wait for another queue then.
            asyncio.get_running_loop().call_soon(self._tell_room_has_come)

    def _tell_room_has_come(self) -> None:
        if self._told_waits is not None and not self._room.is_awaited:
            self._told_waits = None
            self.tell(RoomAwaited(None))

    def waits_from(self, sequence: int) -> None:
        """What has this number, and all behind it, waits for room."""
        self._waits_from = sequence

    @property
    def awaits_room(self) -> bool:
        """Whether what it has offered waits for the room of a queue."""
        return self._room.is_awaited

    def has_room(self, parts: Iterable[Routed], *, keyed: bool) -> bool:
        """Whether a batch may be stored as to the room of its queues.

        Through the default exchange, and of keys that were not named at first, where it leads is known only when it comes. A queue that is
        new to this sender has to grant it something before; what it grants counts from then on.
        """
        named = not keyed or self.routing_key is None
        if self._ended or (named and self.exchange != DEFAULT_EXCHANGE):
            return True
        there = self._room.there_is_some(queue for queues in ways_of(parts) for queue in queues)
        if not there and self._marks:
            asyncio.get_running_loop().call_soon(self._wait_no_more)
        return there

    def _granted(self, granted: RoomGranted) -> None:
        if not self._room.granted(granted):
            return
        if len(self._room) == 1:
            self._grant()
        else:
            self._look_soon()

    def _look_soon(self) -> None:
        """Much comes in one turn: to look at all queues for each of it would take their number as often."""
        if not self._looks_soon:
            self._looks_soon = True
            asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._looks_soon = False
        if not self._ended and self._targets_are_known():
            self._room.ask()
            self._grant()

    def _grant(self) -> None:
        """Let the client send more, if it may."""
        if self._attached and not self._ended:
            granted = self._room.grant(self._unanswered.messages, self._unanswered.bytes)
            if granted is not None:
                self._port.tell(granted)


def _of(method: WeakMethod[Any], *arguments: Any) -> Any:
    """Call a method of who has a room, as long as it is there."""
    found = method()
    return None if found is None else found(*arguments)
