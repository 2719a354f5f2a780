"""The actor of one connection that publishes to an exchange: it has room of every queue that a message of it may go to.

To each of these queues it is a sender like any other, with a share of its room. Its client may send what the fullest of them has granted.
What has gone to some of the queues is used there; of the others it keeps what it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pykka import ActorDeadError

from actors.errors import DemandExceededError, InvalidRequestError, QueueError, SequenceGapError
from actors.exchanges.vocabulary import DEFAULT_EXCHANGE
from actors.queue.connection_actor import Port
from actors.queue.operations.sending import NO_TIMING
from actors.queue.state.unanswered import Unanswered
from actors.queue.vocabulary.commands import AttachSender, CaughtUp, ExplainWait, Left, OfferBatch, RequestCapacity
from actors.queue.vocabulary.distributed import StageTallied, TallyStage
from actors.queue.vocabulary.replies import (
    CapacityGranted,
    QueueDeleted,
    Refused,
    RoomGranted,
    SenderAttached,
    SentMessages,
    Superseded,
    WaitExplained,
)
from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_ref import LoopActorRef

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue.exchange_port import Publishing
    from actors.queue.state.routed import Routed
    from actors.queue.vocabulary.distributed import Unroutable
    from actors.queue.vocabulary.needed import Needed
    from actors.queue.vocabulary.stages import StageKey
    from actors.runtime._loop_inbox import Watch

FIRST_MESSAGES: Final = 1_024
FIRST_BYTES: Final = 256 * 1024
"""The first window: one good batch, as of a sender to one queue."""
MOST_MESSAGES: Final = 65_536
MOST_BYTES: Final = 16 * 1024 * 1024
"""The largest window."""
PIECE_MESSAGES: Final = 16
"""The window grows where a record has as many of its messages: keys whose queues overlap and alternate make a record of each, and whoever
sends much of that at a time keeps the others waiting."""


class _Target:
    """A queue: what it has granted that is not used, and what it is asked for beside that."""

    __slots__ = ("asked_bytes", "asked_messages", "bytes", "messages", "queue", "watch")

    def __init__(self, queue: LoopActorRef[Any], watch: Watch) -> None:
        self.queue = queue
        self.watch = watch
        self.messages = self.bytes = self.asked_messages = self.asked_bytes = 0


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
    ) -> None:
        super().__init__()
        self.exchange = exchange
        self.routing_key = routing_key
        self.producer = producer if stage is None else None
        self.stage = stage
        self.temporary = temporary
        self.mandatory = mandatory
        self._publishing = publishing
        self._port = port
        self._targets: dict[str, _Target] = {}
        # Queues where something leads that was sent before they were known: it waits until they have room.
        self._awaited: set[str] = set()
        self._generation = -1
        self._needed = needed
        self._window, self._byte_window = (FIRST_MESSAGES, FIRST_BYTES) if needed is None else needed[:2]
        self._used = self._used_bytes = 0
        # Records that what was sent since it grew has become, beyond one for each batch.
        self._pieces = 0
        # Granted to the client and not used; below zero where a last message led beyond it.
        self._credit = self._byte_credit = 0
        self._unanswered = Unanswered()
        # Sent, and not stored yet: any queue may have to take it.
        self._pending_messages = self._pending_bytes = 0
        self._expected: int | None = None
        self._rejected_from: int | None = None
        # Why nothing of it is stored any more; whoever stores sets it.
        self.failed: QueueError | None = None
        # How many of its batches are stored and not confirmed yet; whoever stores counts them.
        self.answers = 0
        # Marks that wait until all is stored that was sent before them, and those that wait until it is confirmed too.
        self._stored_marks = self._marks = 0
        self._grants_soon = False
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
        for name in list(self._targets):
            self._leave(name)

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
            self._port.tell(message)
        elif kind is CaughtUp:
            self._mark(message)
        elif kind is Refused:
            self.end(message.code, message.text)
        elif kind is TallyStage:
            self._tally(message)
        elif kind is Superseded:
            self.end("taken-over", "a newer connection carries this stage")
        elif kind is not QueueDeleted:  # which the watch tells too, and of which queue
            super().on_receive(message)

    # What the client says.

    def _offer(self, offer: OfferBatch) -> None:
        if self._ended:
            return
        count, size = len(offer.batch), offer.batch.nbytes
        try:
            self._check(offer, count, size)
        except QueueError as error:
            self.end(error.code, str(error))
            return
        known = 0 if self._expected is None else min(max(0, self._expected - offer.sequence), count)
        self._unanswered.add(offer.sequence, count, size, known)
        self._credit -= count
        self._byte_credit -= size
        self._used += count
        self._used_bytes += size
        if known:
            # It was sent before on this connection.
            if known == count:
                if len(self._unanswered) == 1:
                    self._answered()
                return
            offer = offer._replace(sequence=offer.sequence + known, batch=offer.batch.slice(known, count))
        if offer.sequence == self._rejected_from:
            self._rejected_from = None
        if self._rejected_from is None:
            self._expected = offer.sequence + count - known
        self._pending_messages += count - known
        self._pending_bytes += offer.batch.nbytes
        self._publishing.offer(self, offer)

    def _check(self, offer: OfferBatch, count: int, size: int) -> None:
        if self.stage is not None and (offer.delay is not None or offer.ttl is not None):
            raise InvalidRequestError(NO_TIMING)
        if self._expected is not None and offer.sequence > self._expected and self._rejected_from is None:
            raise SequenceGapError(self._expected, offer.sequence)
        beyond = size > self._byte_credit and offer.batch.prefix_bytes(count - 1) >= self._byte_credit
        if count > self._credit or beyond:
            raise DemandExceededError(count, size, self._credit, self._byte_credit)

    def _tally(self, asked: TallyStage) -> None:
        if self._ended:
            return
        try:
            self._publishing.tally(self, asked.request)
        except QueueError as error:
            self.end(error.code, str(error))

    def _explain(self, asked: ExplainWait) -> None:
        """Ask the queue that has granted least."""
        if not self._targets:
            self._port.tell(WaitExplained(asked.request, None, ""))
            return
        fullest = min(
            self._targets.values(), key=lambda target: (min(target.messages, target.bytes) > 0, target.messages)
        )
        with suppress(ActorDeadError):
            fullest.queue.tell(ExplainWait(asked.request, self.actor_ref))

    def _mark(self, mark: CaughtUp) -> None:
        if mark.answered and self._unanswered:
            self._marks += 1
        elif self._pending_messages:
            self._stored_marks += 1
        else:
            self._port.caught_up()

    # What comes of it.

    def attached(self, last_number: int | None, committed: bool) -> None:
        """A stage goes on with this number: what comes behind it without a gap is taken."""
        self._attached = True
        self._expected = last_number or 0
        self.tell(SenderAttached(last_number, committed))
        self._grant()

    def tell(self, reply: SenderAttached | StageTallied) -> None:
        """Tell the client what it is told in its turn among the confirmations."""
        if not self._ended:
            self._port.tell(reply)

    def stored(self, queues: Iterable[str], batch: MessageBatch) -> None:
        """Messages of it are stored in these queues, which have counted them against what they had granted."""
        count, size = len(batch), batch.nbytes
        for name in queues:
            target = self._targets.get(name)
            if target is not None:
                target.messages = max(0, target.messages - count)
                target.bytes = max(0, target.bytes - size)

    def settled(self, batch: MessageBatch, records: int) -> None:
        """Nothing of a batch is to be stored any more; it has become a part of so many records."""
        self._pending_messages -= len(batch)
        self._pending_bytes -= batch.nbytes
        self._pieces += max(0, records - 1)
        if not self._pending_messages:
            marks, self._stored_marks = self._stored_marks, 0
            for _ in range(marks):
                self._port.caught_up()

    def rejected(self, sequence: int) -> None:
        """A queue rejects what has this number: all behind it is rejected too, until this number comes again, be it another message."""
        self._expected = self._rejected_from = sequence

    def rejects(self, sequence: int) -> str | None:
        """Why what has this number is rejected, for something before it was; None where nothing was."""
        first = self._rejected_from
        if first is None or sequence <= first:
            return None
        return f"messages sent before, from number {first} on, were rejected"

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

    def _answered(self) -> None:
        """Something was answered, and there may be room for more; what comes next and was sent before is answered with it."""
        if self._ended:
            return
        for up_to, rejected in self._unanswered.known():
            self._port.tell(SentMessages(up_to, None, rejected))
        if not self._targets_are_known():
            return
        self._ask()
        self._grant()
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
        for name in [name for name in self._targets if name not in wanted]:
            self._leave(name)
        for name in wanted:
            if name not in self._targets:
                self._join(name)
        self._ask()

    def _join(self, name: str) -> None:
        queue = self._publishing.queue(name)
        if queue is None:
            return
        target = self._targets[name] = _Target(queue, self.watch(queue, lambda _failure: self._gone(name, queue)))
        with suppress(ActorDeadError):
            target.queue.tell(AttachSender(stage=self.stage, connection=self.actor_ref, shared=name))

    @property
    def awaits_room(self) -> bool:
        """Whether what it has offered waits for the room of a queue."""
        return bool(self._awaited)

    def has_room(self, parts: Iterable[Routed], *, keyed: bool) -> bool:
        """Whether a batch may be stored as to the room of its queues.

        Through the default exchange, and of keys that were not named at first, where it leads is known only when it comes. A queue that is
        new to this sender has to grant it something before; what it grants counts from then on.
        """
        named = not keyed or self.routing_key is None
        if self._ended or (named and self.exchange != DEFAULT_EXCHANGE):
            return True
        new = {queue for part in parts for queue in part.queues if queue not in self._targets}
        if new:
            for name in sorted(new):
                self._join(name)
            self._awaited |= new & self._targets.keys()
            self._ask()
        return not self._awaited

    def _has_come(self, name: str) -> None:
        """A queue has room for what waits for it, or nothing waits for it any more."""
        if name in self._awaited:
            self._awaited.discard(name)
            if not self._awaited:
                self._publishing.room_made(self)

    def _leave(self, name: str) -> None:
        target = self._targets.pop(name)
        self._has_come(name)
        target.watch.cancel()
        with suppress(ActorDeadError):
            target.queue.tell(Left(connection=self.actor_ref))

    def _gone(self, name: str, queue: LoopActorRef[Any]) -> None:
        """A queue has ended: deleted, or failed for good. One that comes in its place is found by the next look."""
        target = self._targets.get(name)
        if target is not None and target.queue is queue:
            del self._targets[name]
            self._has_come(name)
            self._generation = -1
            self._grant()

    def _granted(self, granted: RoomGranted) -> None:
        target = self._targets.get(granted.queue)
        if target is None:
            return
        target.messages += granted.messages
        target.asked_messages -= granted.messages
        target.bytes += granted.bytes
        target.asked_bytes -= granted.bytes
        if target.messages > 0 and target.bytes > 0:
            self._has_come(granted.queue)
        if len(self._targets) == 1:
            self._grant()
        elif not self._grants_soon:
            # The others' come in the same turn: to look at all for each would take their number squared.
            self._grants_soon = True
            asyncio.get_running_loop().call_soon(self._grant_soon)

    def _grant_soon(self) -> None:
        self._grants_soon = False
        self._grant()

    def _ask(self) -> None:
        """Ask each queue for what is missing to a whole window, in steps of half of it."""
        self._widen()
        for target in self._targets.values():
            messages = self._window - target.messages - target.asked_messages
            size = self._byte_window - target.bytes - target.asked_bytes
            if messages * 2 < self._window and size * 2 < self._byte_window:
                continue
            messages, size = max(0, messages), max(0, size)
            target.asked_messages += messages
            target.asked_bytes += size
            with suppress(ActorDeadError):
                target.queue.tell(RequestCapacity(messages, size, self.actor_ref))

    def _widen(self) -> None:
        if self._needed is not None or self._pieces * PIECE_MESSAGES > self._used:
            return
        if self._used >= self._window and self._window < MOST_MESSAGES:
            self._used = self._pieces = 0
            self._window = min(MOST_MESSAGES, self._window * 2)
        if self._used_bytes >= self._byte_window and self._byte_window < MOST_BYTES:
            self._used_bytes, self._byte_window = 0, min(MOST_BYTES, self._byte_window * 2)

    def _grant(self) -> None:
        """Let the client send what the fullest queue has room for, within the window: in good pieces, or where it has nothing left."""
        messages = self._window - self._unanswered.messages
        size = self._byte_window - self._unanswered.bytes
        for target in self._targets.values():
            messages = min(messages, target.messages - self._pending_messages)
            size = min(size, target.bytes - self._pending_bytes)
        messages = max(0, messages - max(0, self._credit))
        size = max(0, size - max(0, self._byte_credit))
        if self._byte_credit < 0 < size:
            # What the last message led beyond its permit is made good.
            size -= self._byte_credit
        useful = messages * 2 >= self._window or size * 2 >= self._byte_window
        stuck = (self._credit <= 0 < messages) or (self._byte_credit <= 0 < size)
        if (useful or stuck) and self._attached and not self._ended:
            self._credit += messages
            self._byte_credit += size
            self._port.tell(CapacityGranted(messages, size))
