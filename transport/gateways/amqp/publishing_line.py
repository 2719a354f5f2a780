"""What a channel publishes to one exchange: offered as there is room, in order, and sent again where a queue has rejected it.

An exchange's sender (`actors.queue.exchange_sender`) grants room, answers batch by batch, and says of a mark when all is stored
that was offered before it. It may find only then that a queue has no room: it says so, and what it has waits as if it was not offered.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from actors import OfferBatch
from actors.batch import MessageBatch
from actors.queue.vocabulary.commands import CaughtUp, ExplainWait
from actors.queue.vocabulary.distributed import OfferCopies, RoomAwaited, Unroutable
from actors.queue.vocabulary.replies import CapacityGranted, SentMessages, WaitExplained
from transport.gateways.amqp.basic_methods import BasicReturn
from transport.gateways.amqp.carried_properties import properties_of
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.properties import NO_PROPERTIES
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.waiting_total import LARGE_BYTES
from transport.gateways.amqp.writing import content_frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors import LoopActorRef
    from actors.queue.connection_actor import Port
    from actors.queue.vocabulary.replies import Reply
    from transport.gateways.amqp.confirms import Confirms
    from transport.wire.receiving import Part

    Ref = LoopActorRef[Any]

PIECE_BYTES: Final = 1_024
"""What a piece that waits counts as, beside its messages: empty ones take memory too."""
WHY_BLOCKED: Final = 0
WHY_LARGE: Final = 1
"""What a queue's reason is asked for: to be told to a client that is read no more, or to refuse a large message that it keeps waiting."""


class Returned(NamedTuple):
    """A message that no queue took."""

    exchange: str
    routing_key: bytes
    headers: bytes
    body: bytes

    def frames(self, channel: int, frame_max: int) -> list[Part]:
        """It, as its client has it back on a channel."""
        said = BasicReturn(
            reply_code=ReplyCode.NO_ROUTE,
            reply_text="NO_ROUTE",
            exchange=self.exchange,
            routing_key=self.routing_key.decode(),
        )
        return content_frames(channel, said, properties_of(self.headers) or NO_PROPERTIES, self.body, frame_max)


class Host(Protocol):
    """The channel, as what it publishes sees it."""

    @property
    def user(self) -> str | None:
        """Who publishes; None where nobody has said who they are."""

    def check_published_to(self, exchange: str) -> None:
        """Whether messages can be published to an exchange; raises AmqpError."""

    def publisher(self, exchange: str, port: Port, *, mandatory: bool) -> Ref:
        """Attach what publishes to an exchange; raises AmqpError where it is not there, or not for this client."""

    def answers_due(self) -> None:
        """Something is to be confirmed: `Publishing.confirms` says what, asked for once this turn is over."""

    def returned(self, messages: Sequence[Returned]) -> None:
        """No queue has taken these, and the client wants to know."""

    def publishing_failed(self, code: str, text: str) -> None:
        """Nothing more can be published there."""

    def waiting_changed(self) -> None:
        """`Publishing.waiting_bytes` is other than it was."""

    def check_waiting(self, more: int, *, counted: bool = False) -> None:
        """Whether so many bytes may wait for room, ``counted`` or not; raises AmqpError where others take the memory."""

    def fail(self, error: AmqpError) -> None:
        """The channel ends."""

    def explained(self, text: str | None) -> None:
        """Why what was published waits, in a queue's words; None where no queue keeps it waiting."""


class Piece(NamedTuple):
    """Messages that are offered together.

    Attributes:
        batch: what they are.
        ttl: seconds; None for what their queues say.
        first: the number of the first among the channel's publishes; 0 where nothing is confirmed.
        further: routing keys that each has beside its own.
        priority: of all of them.
    """

    batch: MessageBatch
    ttl: float | None
    first: int
    further: tuple[str, ...] = ()
    priority: int = 0

    @property
    def size(self) -> int:
        """What it counts as while it waits, bytes."""
        return self.batch.nbytes + PIECE_BYTES + sum(map(len, self.further))

    def cut(self, count: int) -> tuple[Piece, Piece]:
        """The first ``count`` of them and the others."""
        after = self.first + count if self.first else 0
        batch = self.batch
        return self._replace(batch=batch.slice(0, count)), self._replace(
            batch=batch.slice(count, batch.count), first=after
        )


class Lines(Protocol):
    """The lines of one channel, as each of them sees them.

    Attributes:
        confirms: what the client is to be told; None where it does not ask for confirms.
        waiting_bytes: of what waits for room.
    """

    confirms: Confirms | None
    waiting_bytes: int

    def marked(self) -> None:
        """A line may have stored what it had."""

    def free(self) -> None:
        """A line has stored all that it had."""

    def forget(self, line: Line) -> None:
        """A line has ended; what is published there next begins another."""


class Line:
    """What a channel publishes to one exchange: the port of its sender.

    Args:
        lines: which it is one of.
        host: the channel.
        exchange: the exchange's name.
        mandatory: whether what no queue takes is returned.

    Attributes:
        actor: what sends.
        marking: whether it is to say when it has stored what it had.
    """

    def __init__(self, lines: Lines, host: Host, exchange: str, *, mandatory: bool) -> None:
        self._lines = lines
        self._host = host
        self._exchange = exchange
        self._waiting: deque[Piece] = deque()
        self._sent: deque[Piece] = deque()
        self._messages = self._bytes = 0
        self._sequence = 0
        # What was sent behind a message that its queue rejects comes back too, and is sent again. One at a time, until something is
        # taken: where all are rejected, each would be sent again behind each before it.
        self._back: list[Piece] = []
        self._rejected_at: int | None = None
        self._singly = False
        # What the sender has and cannot store for want of room: bytes.
        self._held = 0
        # Whether nothing is offered: it is over, or the sender has something that waits.
        self._stands = False
        self._over = self.marking = self._marked = False
        # Sent to the actor and not answered; and what was offered behind the last of them, which is sent again.
        self._marks = self._behind = 0
        self.actor = host.publisher(exchange, self, mandatory=mandatory)

    @property
    def busy(self) -> bool:
        """Whether something is not stored yet."""
        return bool(self._waiting or self._sent)

    @property
    def waits(self) -> bool:
        """Whether something waits for room."""
        return bool(self._waiting or self._held)

    def take(self, piece: Piece) -> None:
        """Offer what has come, when there is room for it.

        Raises:
            AmqpError: there is none, and the message is too large to wait beside what others have published. It is not taken.
        """
        batch = piece.batch
        if not self._waiting and self._may_offer and batch.count <= self._messages and batch.nbytes <= self._bytes:
            # As nearly everything does it goes on at once, and waits for nothing.
            self._send(piece)
            return
        self._waiting.append(piece)
        self._lines.waiting_bytes += piece.size
        self._offer()
        try:
            if piece.size > LARGE_BYTES and self._waiting and self._waiting[-1] is piece:
                if self._sent or len(self._waiting) > 1:
                    self._host.check_waiting(piece.size)
                else:
                    # By itself it is about to go, unless its queue is known to be full.
                    self.actor.deliver(ExplainWait(WHY_LARGE, self.actor))
        except AmqpError:
            self._waiting.pop()
            self._lines.waiting_bytes -= piece.size
            raise
        finally:
            self._host.waiting_changed()

    def mark(self) -> None:
        """Say, by `Lines.marked`, when all is stored that has come until now."""
        self.marking = self.busy and not self._over
        self._marked = False
        self._send_mark()

    def _send_mark(self) -> None:
        """The mark goes behind what is offered last."""
        if self.marking and not self._marked and not self._waiting and not self._back:
            self._marked = True
            self._marks += 1
            self._behind = 0
            self.actor.deliver(CaughtUp())

    def wait_no_more(self) -> None:
        """As `channel_publishing.Publishing.wait_no_more`."""
        dropped = [*self._back, *self._waiting]
        self._drop()
        for piece in dropped:
            self._answer(piece, stored=False)
        if self._sent:
            self._marks += 1
            self.actor.deliver(CaughtUp(answered=True))

    def end(self) -> None:
        """Nothing more is offered, and what waits is dropped, where it is offered too."""
        self._is_over()
        self.actor.stop_nowait()
        # It knows this line: without a cycle both are free at once.
        del self.actor

    # Told by the actor

    def tell(self, reply: Reply) -> None:
        """Room or none, what became of a piece, or what no queue took of the next."""
        if isinstance(reply, CapacityGranted):
            self._messages += reply.messages
            self._bytes += reply.bytes
            self._offer()
            self._host.waiting_changed()
        elif isinstance(reply, SentMessages):
            self._settled(reply)
        elif isinstance(reply, Unroutable):
            self._unroutable(reply)
        elif isinstance(reply, RoomAwaited):
            self._room_awaited(reply.first)
        elif isinstance(reply, WaitExplained):
            # It may have room by now, and is about to say so.
            waits = self.waits and reply.reason is not None
            if reply.request == WHY_BLOCKED:
                self._host.explained(reply.text if waits else None)
            elif waits:
                self._judge(self._waiting)

    def caught_up(self) -> None:
        """All is stored that was offered before the mark; what a queue has rejected meanwhile may be offered again."""
        self._marks -= 1
        if self._marks:
            # It is that of one before, and what was offered since may not be stored.
            return
        self._marked = False
        self.marking = bool(self._waiting or self._back or (self._behind and self._sent)) and not self._over
        self._send_mark()
        self._lines.marked()

    def refused(self, code: str, text: str, close: bool) -> None:  # noqa: ARG002 - it is always the end
        """There is no such exchange any more, what was published cannot be, or the broker ends."""
        if self._over:
            return
        if code == "not-found" and not self.busy:
            # The exchange is deleted, and nothing was on its way there.
            self._lines.forget(self)
            return
        self._is_over()
        self._host.publishing_failed(code, text)

    # Inside

    def _offer(self) -> None:
        """Offer what there is room for, in order."""
        waiting = self._waiting
        while waiting and self._may_offer:
            piece = waiting[0]
            batch = piece.batch
            fitting = min(self._messages, batch.count_within(max(0, self._bytes)), batch.count)
            if fitting <= 0:
                break
            self._lines.waiting_bytes -= piece.size
            if fitting < batch.count:
                piece, waiting[0] = piece.cut(fitting)
                self._lines.waiting_bytes += waiting[0].size
            else:
                waiting.popleft()
            self._send(piece)
        self._send_mark()

    @property
    def _may_offer(self) -> bool:
        """Whether something may be offered, where there is room."""
        return not self._stands and self._rejected_at is None and not (self._singly and self._sent)

    def _send(self, piece: Piece) -> None:
        """Offer a piece that there is room for."""
        batch, actor = piece.batch, self.actor
        count = batch.count
        self._messages -= count
        self._bytes -= batch.nbytes
        self._sent.append(piece)
        offer = OfferBatch(self._sequence, batch, None, piece.ttl, actor, piece.priority)
        self._sequence += count
        self._behind += 1
        actor.deliver(offer if not piece.further else OfferCopies(*offer, piece.further))

    def _settled(self, reply: SentMessages) -> None:
        piece = self._sent.popleft()
        if reply.rejected is None:
            self._singly = False
            self._answer(piece, stored=True)
        else:
            self._rejected(piece, reply.up_to - piece.batch.count)
        if not self._sent and self._rejected_at is not None:
            # All that was behind it has come back: it goes again, from the number where the queue goes on.
            self._sequence, self._rejected_at = self._rejected_at, None
            self._waiting.extendleft(reversed(self._back))
            self._back = []
        if self._waiting or self.marking:
            self._offer()
        if not (self._waiting or self._sent):
            self._lines.free()
        self._host.waiting_changed()

    def _rejected(self, piece: Piece, sequence: int) -> None:
        """A queue takes all of a batch or nothing: of several messages there may be room for some."""
        if self._rejected_at is not None:
            self._comes_back(piece)
            return
        self._rejected_at = sequence
        self._singly = True
        if piece.batch.count > 1:
            self._comes_back(*piece.cut(piece.batch.count // 2))
        else:
            self._answer(piece, stored=False)

    def _comes_back(self, *pieces: Piece) -> None:
        self._back += pieces
        self._lines.waiting_bytes += sum(piece.size for piece in pieces)

    def _room_awaited(self, first: int | None) -> None:
        """What has been offered from a number on waits for room, and so does what comes; or nothing does any more."""
        if self._over:
            return
        held = [] if first is None else self._sent_from(first)
        self._count_held(sum(piece.size for piece in held))
        self._stands = bool(held)
        self._offer()
        self._host.waiting_changed()
        if self._held:
            self._judge(held)

    def _sent_from(self, first: int) -> list[Piece]:
        """What was offered from a number on, and is not settled."""
        found: list[Piece] = []
        behind = self._sequence
        for piece in reversed(self._sent):
            if behind <= first:
                break
            behind -= len(piece.batch)
            found.append(piece)
        return found

    def _count_held(self, size: int) -> None:
        self._lines.waiting_bytes += size - self._held
        self._held = size

    def _judge(self, pieces: Iterable[Piece]) -> None:
        """These wait for a queue that has no room: with a large one among them that may be too much."""
        sizes = [piece.size for piece in pieces]
        if max(sizes, default=0) <= LARGE_BYTES:
            return
        try:
            self._host.check_waiting(sum(sizes), counted=True)
        except AmqpError as error:
            # Its client is to publish it again: it is not stored after all, as others are that a channel leaves behind.
            self._drop()
            self._count_held(0)
            self._host.fail(error)
            if not self._over:
                self._lines.forget(self)
            self._host.waiting_changed()

    def _answer(self, piece: Piece, *, stored: bool) -> None:
        confirms = self._lines.confirms
        if piece.first and confirms is not None:
            confirms.settle(piece.first, piece.batch.count, stored=stored)
            self._host.answers_due()

    def _unroutable(self, reply: Unroutable) -> None:
        """It is told just before the piece is settled."""
        batch = self._sent[0].batch
        base = self._sequence - sum(piece.batch.count for piece in self._sent)
        found = [
            Returned(
                self._exchange,
                b"" if batch.keys is None else batch.keys[at],
                b"" if batch.headers is None else batch.headers[at],
                batch.payloads[at],
            )
            for first, count in reply.ranges
            for at in range(first - base, first - base + count)
        ]
        self._host.returned(found)

    def _is_over(self) -> None:
        self._over = self._stands = True
        self.marking = False
        self._drop()
        self._count_held(0)

    def _drop(self) -> None:
        self._lines.waiting_bytes -= sum(piece.size for piece in [*self._waiting, *self._back])
        self._waiting.clear()
        self._back.clear()
