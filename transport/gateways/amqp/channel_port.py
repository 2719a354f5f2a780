"""What a channel asks of its connection, and what its parts ask of the channel."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from actors import LoopActorRef
    from transport.broker.operations import Operations
    from transport.gateways.amqp.basic_methods import BasicConsume
    from transport.gateways.amqp.claims import Claims
    from transport.gateways.amqp.departures import Departures
    from transport.gateways.amqp.direct_reply import DirectReply
    from transport.gateways.amqp.errors import AmqpError
    from transport.gateways.amqp.held_back import HeldBack
    from transport.gateways.amqp.method import Method
    from transport.gateways.amqp.names import Names
    from transport.gateways.amqp.pace import Pace
    from transport.gateways.amqp.receivers import Receivers
    from transport.gateways.amqp.transacting import Transacting
    from transport.gateways.amqp.waiting_total import WaitingTotal
    from transport.wire.receiving import Part

    Ref = LoopActorRef[Any]


class Waiting(NamedTuple):
    """What a connection counts of a channel.

    Attributes:
        bytes: that wait.
        consumers: that it has.
    """

    bytes: int = 0
    consumers: int = 0


class ChannelPort(Protocol):
    """The channel, as its parts see it.

    Attributes:
        number: its number on the connection.
        link: its connection.
        names: of its connection's virtual host.
        last_queue: the queue that was declared last.
        direct_reply: where the channel hears direct replies.
        counted: what its connection has counted of it.
        transacting: its transactions; None where it has none.
    """

    counted: Waiting
    transacting: Transacting | None
    number: int
    link: Link
    names: Names
    last_queue: str
    direct_reply: DirectReply

    def waiting_changed(self) -> None:
        """What it has waiting, or how many consumers it has, is other than it was."""

    def counts(self) -> Waiting:
        """What there is to be counted."""

    def queue_named(self, name: str) -> str:
        """The queue that a method means; raises AmqpError, NOT_FOUND, where it means none."""

    def check_there(self, queue: str) -> None:
        """Whether a queue is there that may be asked for a message, be it consumed exclusively or not; raises AmqpError."""

    def check_consumed(self, queue: str, asked: BasicConsume) -> tuple[int, int]:
        """Whether one more may receive from a queue, or have it for itself.

        The queue's number, and the consumer's priority; raises AmqpError.
        """

    def run(self, method: Method, work: Coroutine[None, None, Method | None]) -> None:
        """Have a command carried out. What the client has said behind it waits."""

    def carried_out(self) -> None:
        """A command is, and was answered."""

    def go_on(self) -> None:
        """Do what has waited, up to the next method that has to wait."""

    def say(self, method: Method) -> None:
        """Write a method."""

    def answer(self, nowait: bool, method: Method) -> None:
        """Write the answer to one that waits for it."""

    def cancelled(self, tag: str) -> None:
        """The queue of a consumer with this tag is gone."""

    def fail(self, error: AmqpError) -> None:
        """Have the channel end, or its connection, for what nobody waits for."""


class Link(Protocol):
    """The connection, as its channels see it.

    Attributes:
        operations: the door, for whoever it is.
        names: of what is in the connection's virtual host.
        frame_max: bytes of a frame that its client takes.
        capabilities: what its client says it can do.
        claims: who consumes from which queue.
        departures: consumers that leave, of all connections.
        pace: of what is delivered, by all connections.
        waiting_total: what all connections have published that waits for room.
        held_back: what its transactions keep until they are committed.
        lines: as of `channel_publishing.Connected`.
        owner: what the connection's own queues go with; None where it has none.
        receivers: the actors that receive for it.
        broker_ends: as of `departures.Connected`.
    """

    broker_ends: bool
    claims: Claims
    departures: Departures
    pace: Pace
    receivers: Receivers
    waiting_total: WaitingTotal
    held_back: HeldBack
    lines: int
    owner: Ref | None
    operations: Operations
    names: Names
    frame_max: int
    capabilities: frozenset[str]

    def own(self) -> Ref:
        """What the connection's own queues go with, from now on."""

    def say(self, channel: int, method: Method) -> None:
        """Write a method."""

    def write(self, parts: Sequence[Part], size: int = 0, *, returned: bool = False) -> None:
        """Write frames as they are, with about ``size`` bytes of bodies: much of that is written in slices.

        Of a client whose messages are ``returned``, as no queue took them, fewer are handled at a time.
        """

    def run(self, channel: ChannelPort, method: Method, work: Coroutine[None, None, Method | None]) -> None:
        """Have a command carried out; what it returns is said, and meanwhile nothing more of the client is handled."""

    def window(self) -> int:
        """Bytes that may be on their way to one more consumer."""

    def soon(self, work: Callable[[], None]) -> None:
        """Do something once this turn of the loop is over."""

    def channel_failed(self, channel: ChannelPort, error: AmqpError) -> None:
        """A channel, or the connection, is to end with this error."""

    def channel_closed(self, channel: ChannelPort) -> None:
        """The client has closed a channel, and it has ended."""

    def waiting_changed(self, channel: ChannelPort) -> None:
        """What a channel has waiting, or how many consumers it has, is other than it was."""

    def blocked(self, reason: str | None) -> None:
        """Why no more of the client is read, as was asked; None where no queue keeps it waiting."""
