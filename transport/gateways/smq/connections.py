"""Both ports of the simple message queue, between their wire and the door: a source is a sender, a sink a receiver of one at a time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from actors import OfferBatch, QueueSettings, Writable
from actors.batch import BinaryColumn, MessageBatch
from actors.queue.vocabulary.commands import Acknowledged, DemandSignalled
from actors.queue.vocabulary.replies import CapacityGranted, ReceivedMessages, ReceiverAttached, Reply, SentMessages
from transport.broker.attached import Attached
from transport.broker.listener import Host, Listener
from transport.config.listener_names import SMQ_SINK, SMQ_SOURCE
from transport.errors import LimitExceededError
from transport.gateways.smq import protocol as wire
from transport.security.principal import ALL_OF_RESOURCE, Grant, Grants, Principal

MOST_EARLY: Final = 65_536
"""Messages that a sink may have accepted beforehand: whoever says no more than Yes and takes nothing would have the loop to itself."""
MOST_UNCONFIRMED: Final = 8
"""Groups that a source may have under way: meanwhile the next ones gather, and are stored together."""


@dataclass(frozen=True, slots=True)
class Place:
    """The queue that all connections use, and what it is made with where it is not there. They are all one user, who has no other."""

    queue: str
    settings: QueueSettings | None = None

    @property
    def principal(self) -> Principal:
        """Who they are: nobody says."""
        return Principal("smq", grants=Grants([Grant(self.queue, ALL_OF_RESOURCE)]))

    def listeners(self, source: str | None, sink: str | None) -> list[Listener[Any]]:
        """Where sources and sinks connect."""
        made: Any = (SMQ_SOURCE, source, wire.SourceProtocol, Source), (SMQ_SINK, sink, wire.SinkProtocol, Sink)
        return [Listener(name, at, protocol, partial(handler, self)) for name, at, protocol, handler in made if at]


class Source(Attached[wire.SourceMessages | wire.Yes]):
    """A connection of the port of sources. It is read while the queue has room; its protocol is told for how much."""

    def __init__(self, place: Place, host: Host, protocol: wire.SourceProtocol) -> None:
        super().__init__(host, place.principal, SMQ_SOURCE, place.queue)
        self._place, self._protocol = place, protocol
        self._sequence = self._messages = self._bytes = 0
        self._unconfirmed: deque[int] = deque()
        self._reading, self._ending = True, False

    def attach(self) -> None:
        """As a sender without a name: what is sent again is stored again."""
        self.actor = self.operations.sender(self._place.queue, self, None, settings=self._place.settings)
        self._settle()

    def event_received(self, event: wire.SourceMessages | wire.Yes, work: int) -> None:  # noqa: ARG002 - as `Served` has it
        """Messages that came together are stored together. The last word ends the connection once all are confirmed."""
        assert type(event) is wire.SourceMessages
        count = len(event.payloads)
        if count:
            ids = None if event.ids is None else memoryview(event.ids)
            batch = MessageBatch(BinaryColumn.from_values(event.payloads), ids)
            self._unconfirmed.append(count)
            self._messages -= count
            self._bytes -= batch.nbytes
            sequence, self._sequence = self._sequence, self._sequence + count
            self.ask(OfferBatch(sequence, batch, None, None, self.actor))
        self._ending |= not count
        self._settle()

    def drain(self) -> None:
        """As `Served.drain`: what has come is stored and confirmed first."""
        self._ending = True
        self._settle()

    def tell(self, reply: Reply) -> None:
        """Yes for each message, once it is as durable as the broker makes it."""
        if isinstance(reply, CapacityGranted):
            self._messages += reply.messages
            self._bytes += reply.bytes
        elif isinstance(reply, SentMessages):
            if reply.rejected is not None:
                self.refused("queue-full", reply.rejected)
            elif self.connection is not None:
                self.connection.send(wire.Yes(self._unconfirmed.popleft()))
        self._settle()

    def _settle(self) -> None:
        """Read on or not, or end."""
        if self.connection is None:
            return
        if self._ending and not self._unconfirmed:
            self.connection.close()
        # What describes a group takes less than the heads that its messages came with, but for four bytes.
        limits = min(wire.MAX_GROUP_MESSAGES, self._messages), max(1, self._bytes - 4)
        self._protocol.most_messages, self._protocol.most_bytes = limits
        room = min(self._messages, self._bytes) > 0 and len(self._unconfirmed) < MOST_UNCONFIRMED
        if (room and not self._ending) is not self._reading:
            self._reading = not self._reading
            (self.connection.resume_reading if self._reading else self.connection.pause_reading)()


class Sink(Attached[wire.SinkMessage | wire.Yes]):
    """A connection of the port of sinks. The next ones wait in the queue's line, connected and silent."""

    def __init__(self, place: Place, host: Host, _protocol: wire.SinkProtocol) -> None:
        super().__init__(host, place.principal, SMQ_SINK, place.queue)
        self._place, self._accepted = place, 0
        self._held: tuple[int, int] | None = None  # number and bytes of the message that is outstanding

    def attach(self) -> None:
        """As a receiver."""
        place = self._place
        self.actor, _, self._prefix, _ = self.operations.receiver(place.queue, self, settings=place.settings)

    def event_received(self, event: wire.SinkMessage | wire.Yes, work: int) -> None:  # noqa: ARG002 - as `Served` has it
        """Yes, to this message or the next ones."""
        assert type(event) is wire.Yes
        self._accepted += event.accepted
        if self._accepted > MOST_EARLY:
            raise LimitExceededError(f"it accepts {self._accepted} messages beforehand, {MOST_EARLY} at most may be")
        self._accept()

    def tell(self, reply: Reply) -> None:
        """One message; the next when it is accepted."""
        if isinstance(reply, ReceiverAttached):
            self.ask(DemandSignalled(1, 1))
        elif isinstance(reply, ReceivedMessages) and self.connection is not None:
            number, batch = reply.first, reply.batch
            given = self._prefix + number.to_bytes(8, "big") if batch.ids is None else bytes(batch.ids)
            replayed = reply.possibly_replayed or reply.delivery_count > 1
            self._held = number, batch.nbytes
            self.connection.send(wire.SinkMessage(given, batch.payloads.data, replayed))
            self._accept()

    def writable_changed(self, writable: bool) -> None:
        """A sink that does not read is given no more, whatever it has accepted beforehand."""
        self.ask(Writable(writable))

    def _accept(self) -> None:
        if self._accepted and self._held is not None:
            (number, size), self._held = self._held, None
            self._accepted -= 1
            self.ask(Acknowledged(((number, 1),), self.actor), DemandSignalled(1, size))
