"""AMQP as the shell of a connection carries it: what its peer says as events, what is said as bytes, and the last words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.contents import MAX_MESSAGE_BYTES
from transport.gateways.amqp.errors import AmqpError, WrongProtocolError, short_text
from transport.gateways.amqp.events import Event, Heartbeat, MethodReceived, Published, Settled
from transport.gateways.amqp.frames import FrameDecoder
from transport.gateways.amqp.layout import PROTOCOL_HEADER
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.publishing import LEAST_GROUP_MESSAGES
from transport.gateways.amqp.refusals import of_connection
from transport.gateways.amqp.writing import HEARTBEAT, method_frame
from transport.wire.carried import ANSWERED, Answered, DataProtocol
from transport.wire.receiving import Part
from transport.wire.work import RECEIVED_BYTES_A_UNIT

MESSAGES_A_UNIT: Final = 8
"""Messages, or acknowledgements, that are one unit of work in their connection's share of a turn."""
A_PUBLISH: Final = 4
"""Units of what is published alike, however many messages. That is half of what it takes to route, append and confirm it: so a client that
publishes a message and acknowledges another has what it needs in any case (`turns.LEAST`). Where it was all of it, such clients stood in
line behind those who flood, and their p99 was 47 ms in place of 8."""
A_RETURN: Final = 3
"""Units of each message where some may go back, as no queue takes them."""
AN_ANSWER: Final = 2
"""Units of acknowledgements that come together: their queue hears of them, and delivers what may follow."""
A_METHOD: Final = 8
"""Units of a method that is none of `UNITS`."""
UNITS: Final = {
    entity.QueueDeclare.INDEX: 64,
    entity.QueueDelete.INDEX: 40,
    entity.ExchangeDeclare.INDEX: 32,
    entity.ExchangeDelete.INDEX: 32,
    entity.QueueBind.INDEX: 32,
    entity.QueueUnbind.INDEX: 32,
    entity.ExchangeBind.INDEX: 32,
    entity.ExchangeUnbind.INDEX: 32,
    basic.BasicConsume.INDEX: 48,
    basic.BasicGet.INDEX: 10,
    connection.ChannelOpen.INDEX: 16,
    connection.ConnectionStartOk.INDEX: 32,
    connection.ConnectionOpen.INDEX: 16,
}
"""Of methods that take long, at some eight microseconds each. Who says many of them at once has a few done in a turn, and nobody else
waits for the rest: where each was one, clients that did nothing but declare made the turns ten times as long."""
MOST_PAID_BYTES: Final = 256 << 10
"""Of a message, for which the turn pays that it is handled in: what came before was paid for as it came."""
SIGNS_A_TIMEOUT: Final = 3
"""A peer that is silent for so many of the shell's intervals is given up. AMQP has it after two of its heartbeats."""


class Said(NamedTuple):
    """A method of the broker's."""

    channel: int
    method: Method


class Written(NamedTuple):
    """Frames of the broker's, as they are."""

    parts: Sequence[Part]


class AmqpProtocol(DataProtocol[Event | Said | Written]):
    """The broker's side of one connection.

    Args:
        max_message_bytes: of one message's body.

    Attributes:
        frames: of what the client says; told of channels, and of the agreed size of a frame.
        error: what ends the connection, where that is AMQP's own error.
    """

    noun = "frame"
    is_open = False

    def __init__(self, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        super().__init__()
        self.frames = FrameDecoder(max_message_bytes)
        self.error: AmqpError | None = None

    def opened(self, frame_max: int, heartbeat: int) -> None:
        """The handshake is over, with this agreed on."""
        self.frames.frame_max = frame_max
        self.heartbeat = heartbeat * 2 / SIGNS_A_TIMEOUT if heartbeat else None
        # Whether what it publishes is taken nobody knows yet.
        self.gave_back()
        self.is_open = True

    def receive_data(self, data: memoryview) -> None:
        """Take what has come."""
        self.frames.receive(data)

    def read(self) -> Event | Answered | None:
        """As `DataProtocol.read`; a heartbeat asks for nothing."""
        try:
            event = self.frames.next_event()
        except AmqpError as error:
            self.error = error
            raise
        if type(event) is Published:
            count = len(event.bodies)
            messages = A_RETURN * count if self.frames.publishing.grows() else count // MESSAGES_A_UNIT
            size = min(event.size, MOST_PAID_BYTES)
            self.work = self.due = A_PUBLISH + messages + size // RECEIVED_BYTES_A_UNIT
        elif type(event) is Settled:
            self.work = self.due = AN_ANSWER + len(event.tags) // MESSAGES_A_UNIT
        elif type(event) is MethodReceived:
            self.work = self.due = UNITS.get(event.method.INDEX, A_METHOD)
        elif event is not None:
            self.work = self.due = 1
            if type(event) is Heartbeat:
                return ANSWERED
        return event

    def gave_back(self) -> None:
        """Something that the client has published was taken by no queue, and goes back: that may be so with what follows."""
        self.frames.publishing.most_messages = LEAST_GROUP_MESSAGES

    @property
    def waiting(self) -> bool:
        """As `DataProtocol.waiting`."""
        return self.frames.waiting

    @property
    def kept(self) -> int:
        """As `DataProtocol.kept`."""
        return self.frames.kept

    def let_go(self) -> None:
        """As `DataProtocol.let_go`: a message that has begun may be large."""
        self.frames.let_go()

    @property
    def pieces(self) -> int:
        """As `DataProtocol.pieces`: frames of contents."""
        return self.frames.pieces

    @property
    def whole(self) -> int:
        """As `DataProtocol.whole`."""
        return self.frames.whole

    def send(self, event: Event | Said | Written) -> Sequence[Part]:
        """The bytes of a method, or frames as they are."""
        if type(event) is Written:
            return event.parts
        assert type(event) is Said, "the broker says methods"
        return [method_frame(event.channel, event.method)]

    def ping(self) -> Sequence[Part]:
        """A heartbeat."""
        return [HEARTBEAT]

    def last_words(self, code: str, text: str) -> Sequence[Part]:
        """``connection.close``; where it was not AMQP that began, the header of what is spoken here (AMQP 0-9-1, 4.2.2)."""
        error = self.error
        if error is not None:
            # It is kept where it was raised: what it came through leads back there, and nobody looks at that any more.
            error.__traceback__ = error.__context__ = None
        if isinstance(error, WrongProtocolError):
            return [PROTOCOL_HEADER]
        if error is None or str(error) != text:
            error = of_connection(code, text)
        said = connection.ConnectionClose(
            reply_code=error.reply_code,
            reply_text=short_text(str(error)),
            class_id=error.class_id,
            method_id=error.method_id,
        )
        return [method_frame(0, said)]
