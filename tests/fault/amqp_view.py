"""What the clients of one broker know of it, by what it has said: queues, exchanges, and what each channel holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tests.fault.amqp_peer import Heard
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.tables import EMPTY_TABLE

SESSIONS: Final = (0, 1)
CHANNELS: Final = (1, 2, 3)
DEAD: Final = "dead"
"""Exchange and queue of dead letters: they are there from the beginning, and nothing dies there."""

Place = tuple[int, int]
"""A session, and a channel of it."""


class Operation(NamedTuple):
    """What a client does.

    Attributes:
        session: on which connection.
        channel: on which channel of it.
        method: what it says. Names are ours: those that a broker has given are translated.
        properties: of what is published.
        bodies: one message each.
    """

    session: int
    channel: int
    method: Method
    properties: bytes = b""
    bodies: tuple[bytes, ...] = ()

    def __str__(self) -> str:
        """On one line, as it can be read in a report."""
        names = type(self.method).__slots__
        said = {
            name: value for name in names if (value := getattr(self.method, name)) not in (0, False, "", EMPTY_TABLE)
        }
        text = ", ".join(f"{name}={value!r}" for name, value in said.items())
        content = f" {[body[:20] for body in self.bodies]} with {self.properties.hex()}" if self.bodies else ""
        return f"{self.session}.{self.channel} {self.method.NAME}({text}){content}"


@dataclass(slots=True)
class ChannelView:
    """What is known of one channel.

    Attributes:
        tag: of its consumer; empty for none.
        queue: that it consumes from.
        no_ack: whether it settles nothing.
        priority: of its consumer.
        held: tags that are not settled, in order.
        confirms: whether it is in confirm mode.
        last_queue: the queue that an empty name means.
    """

    tag: str = ""
    queue: str = ""
    no_ack: bool = False
    priority: int = 0
    held: list[int] = field(default_factory=list)
    confirms: bool = False
    last_queue: str = ""


@dataclass(slots=True)
class View:
    """All of it.

    Attributes:
        prefix: the beginning of all names, other in each episode.
        queues: those that are there, with the session that has each for itself.
        limited: those of them that were declared with a limit that rejects: it counts what is held too.
        single: those with a single active consumer.
        active: where the active consumer of each of these is.
        ready: messages that were ready in each of the queues when that was asked last.
        exchanges: those that are there, beside the broker's own.
        channels: all of both sessions.
        counts_consumers: whether both say alike how many consumers a queue has: RabbitMQ takes who has got a message of a quorum queue, and
            has not settled it, for one.
    """

    prefix: str
    queues: dict[str, int | None] = field(default_factory=dict)
    limited: set[str] = field(default_factory=set)
    single: set[str] = field(default_factory=set)
    active: dict[str, Place] = field(default_factory=dict)
    ready: dict[str, int] = field(default_factory=dict)
    _came: list[Place] = field(default_factory=list)
    exchanges: set[str] = field(default_factory=set)
    counts_consumers: bool = True
    channels: dict[Place, ChannelView] = field(
        default_factory=lambda: {(session, channel): ChannelView() for session in SESSIONS for channel in CHANNELS}
    )

    def named(self, name: str) -> str:
        """A name of this episode's own."""
        return f"{self.prefix}{name}"

    def consumed(self) -> set[str]:
        """Queues that have a consumer."""
        return {each.queue for each in self.channels.values() if each.tag}

    def consumers(self, queue: str) -> list[Place]:
        """Where a queue has consumers, in the order in which they came."""
        return [place for place in self._came if self.channels[place].queue == queue]

    def expect(self, operation: Operation) -> None:
        """What may be there once this is done: what is asked then, to find out."""
        method = operation.method
        if isinstance(method, entity.ExchangeDeclare) and method.exchange.startswith(self.prefix):
            self.exchanges.add(method.exchange)
        if isinstance(method, entity.QueueDeclare) and method.queue.startswith(self.prefix):
            self.queues.setdefault(method.queue, operation.session if method.exclusive else None)
            said = {entry.name: entry.value for entry in method.arguments}
            if {"x-max-length", "x-max-length-bytes"} & said.keys() and str(said.get("x-overflow")).startswith(
                "reject"
            ):
                self.limited.add(method.queue)

    def follow(self, operation: Operation, heard: Mapping[int, Sequence[Heard]], probed: Mapping[str, Any]) -> None:
        """An operation is done: what came of it on each session, and what there is."""
        # What is settled was delivered before, and what is delivered again came of that.
        if not any(each.name in ("channel.close", "connection.close") for each in heard[operation.session]):
            self._succeeded(operation)
        for session, said in heard.items():
            for each in said:
                self._follow(operation, session, each)
        for name, facts in probed.items():
            kind, _, named = name.partition(" ")
            if isinstance(facts, str) and facts.startswith("NOT_FOUND"):
                self._gone(kind, named)
            elif kind == "queue" and not isinstance(facts, str):
                self.ready[named] = facts[0]
        self._find_active()

    def _find_active(self) -> None:
        """Of a queue with a single active consumer it is the one that it was, as long as that is there."""
        self._came = [place for place in self._came if self.channels[place].tag]
        self._came += [place for place, each in self.channels.items() if each.tag and place not in self._came]
        self.active = {queue: place for queue, place in self.active.items() if place in self.consumers(queue)}
        for queue in self.single:
            if queue not in self.active and (there := self.consumers(queue)):
                self.active[queue] = max(there, key=lambda place: self.channels[place].priority)

    def _gone(self, kind: str, name: str) -> None:
        if kind == "exchange":
            self.exchanges.discard(name)
            return
        self.queues.pop(name, None)
        self.limited.discard(name)
        self.single.discard(name)
        self.ready.pop(name, None)
        for channel in self.channels.values():
            if channel.queue == name:
                channel.tag = channel.queue = ""

    def _follow(self, operation: Operation, session: int, heard: Heard) -> None:
        if heard.name == "connection.close":
            for place in self.channels:
                if place[0] == session:
                    self.channels[place] = ChannelView()
            return
        channel = self.channels.get((session, heard.channel))
        if channel is None:
            return
        if heard.name == "channel.close":
            self.channels[session, heard.channel] = ChannelView()
        elif heard.name == "queue.declare-ok":
            channel.last_queue = heard.facts["queue"]
            assert isinstance(operation.method, entity.QueueDeclare)
            if not operation.method.passive:
                self.queues[channel.last_queue] = session if operation.method.exclusive else None
                self._declared(operation.method, channel.last_queue)
        elif heard.name == "basic.consume-ok":
            assert isinstance(operation.method, basic.BasicConsume)
            channel.tag = heard.facts["consumer_tag"]
            channel.queue = operation.method.queue or channel.last_queue
            channel.no_ack = operation.method.no_ack
            priority = operation.method.arguments.get("x-priority")
            channel.priority = priority if isinstance(priority, int) else 0
        elif heard.name == "basic.cancel":
            channel.tag = channel.queue = ""
        elif (heard.name == "basic.deliver" and not channel.no_ack) or (
            heard.name == "basic.get-ok" and not getattr(operation.method, "no_ack", False)
        ):
            channel.held.append(heard.facts["delivery_tag"])

    def _succeeded(self, operation: Operation) -> None:
        method = operation.method
        channel = self.channels.get((operation.session, operation.channel))
        if channel is None:
            return
        if isinstance(method, connection.ChannelClose):
            self.channels[operation.session, operation.channel] = ChannelView()
        elif isinstance(method, basic.ConfirmSelect):
            channel.confirms = True
        elif isinstance(method, entity.QueueDeclare) and method.nowait:
            channel.last_queue = method.queue
            self._declared(method, method.queue)
        elif isinstance(method, basic.BasicCancel) and method.consumer_tag == channel.tag:
            channel.tag = channel.queue = ""
        elif isinstance(method, basic.BasicRecover | basic.BasicRecoverAsync):
            self._settle(channel, 0, 0, multiple=True)
        elif isinstance(method, basic.BasicAck | basic.BasicNack):
            self._settle(channel, method.delivery_tag, method.delivery_tag, multiple=method.multiple)
        elif isinstance(method, basic.BasicReject):
            self._settle(channel, method.delivery_tag, method.delivery_tag, multiple=False)

    def _declared(self, method: entity.QueueDeclare, queue: str) -> None:
        """It is there, and is what was declared."""
        if method.arguments.get("x-single-active-consumer") is True:
            self.single.add(queue)

    def _settle(self, channel: ChannelView, first: int, last: int, *, multiple: bool) -> None:
        """Tags are settled; 0 with ``multiple`` is all there are."""
        if multiple:
            channel.held = [tag for tag in channel.held if last and tag > last]
        else:
            channel.held = [tag for tag in channel.held if not first <= tag <= last]
