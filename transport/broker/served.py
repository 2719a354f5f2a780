"""The broker's end of accepted connections, whatever protocol they carry: how many there may be, which there are, and each of them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, NamedTuple, Protocol, TypeVar

from actors.exchanges.errors import StoppingError
from transport.broker.descriptors import POLITE_REFUSALS
from transport.errors import BrokerError, LimitExceededError, TransportError
from transport.wire.messages import NOT_LEADER

if TYPE_CHECKING:
    from actors import LoopActorRef
    from transport.broker.strangers import Entrant
    from transport.security.principal import Principal
    from transport.shell.connection import Connection

E = TypeVar("E")
SHUTTING_DOWN = (StoppingError.code, str(StoppingError()))
_NO_RECEIVERS: Final[Mapping[str, Collection[Any]]] = MappingProxyType({})


class RefusalError(BrokerError):
    """A refusal on its way to the client; the text goes as it is."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(code, text)
        self.args = (text,)


class Facts(NamedTuple):
    """What a connection says of itself that may use more than one queue.

    Attributes:
        virtual_host: where it is, in its protocol's words; None as long as it is not open.
        product: what its client calls itself, with its version; empty where it does not say.
        channels: how many are open.
        consumers: of all channels.
        prefetch: messages that these may hold together; None where one of them may hold any number.
        demand: messages that may still come to those that have a limit.
        in_flight: messages that the client has and has not settled.
    """

    virtual_host: str | None
    product: str
    channels: int
    consumers: int
    prefetch: int | None
    demand: int
    in_flight: int


class Rights(Protocol):
    """What somebody may have the broker do, while they are connected: `transport.broker.operations.Operations`."""

    principal: Principal

    def renew(self, principal: Principal) -> bool:
        """They may do something else from now on; whether that still allows what they do."""


class Connections:
    """Every connection, from when it is accepted to its end.

    Attributes:
        most: how many there may be.
        configured: how many there might be if enough files could be open.
        standing: those that are told of, by number.
        numbers: how many there ever were; the next one's number.
        ending: whether the broker stops, and takes no more.
        bytes_gone: by listener, bytes in and out of connections that stood and are over.
    """

    def __init__(self, configured: int) -> None:
        self.most = self.configured = configured
        self.standing: dict[int, Served[Any]] = {}
        self.numbers = 0
        self.ending = False
        self.bytes_gone: dict[str, tuple[int, int]] = {}
        self._accepted: set[int] = set()
        self._awaited: list[tuple[set[int], asyncio.Future[None]]] = []

    def has_room(self) -> bool:
        """Whether one more may be accepted; some above the limit are, to be refused in good order."""
        return len(self._accepted) < self.most + POLITE_REFUSALS

    def accept(self) -> int:
        """The number of a connection that is accepted."""
        number = self.numbers
        self.numbers += 1
        self._accepted.add(number)
        return number

    def add(self, connection: Served[Any]) -> None:
        """Take in one that stands; raises LimitExceededError where there is no room, and RefusalError where the broker stops."""
        if self.ending:
            raise RefusalError(*SHUTTING_DOWN)
        if len(self.standing) >= self.most:
            raise LimitExceededError(self.too_many())
        self.standing[connection.number] = connection

    def remove(self, connection: Served[Any]) -> None:
        """Forget one that is over."""
        self._accepted.discard(connection.number)
        shell = connection.connection
        if self.standing.pop(connection.number, None) is not None and shell is not None:
            before = self.bytes_gone.get(connection.listener, (0, 0))
            self.bytes_gone[connection.listener] = before[0] + shell.bytes_in, before[1] + shell.bytes_out
        for numbers, gone in self._awaited:
            numbers.discard(connection.number)
            if not numbers and not gone.done():
                gone.set_result(None)

    async def drain(self, listener: str, seconds: float) -> None:
        """Have each of one listener come to an end in good order, and wait until they have, but for ``seconds`` at most."""
        leaving = [each for each in self.standing.values() if each.listener == listener]
        for each in leaving:
            try:
                each.drain()
            except Exception as error:  # noqa: BLE001 - a defect in one connection's end is no reason for another's
                if each.connection is not None:
                    each.connection.fail(error)
        await self._gone({each.number for each in leaving} & self._accepted, seconds)

    async def all_gone(self, seconds: float) -> bool:
        """Wait until there are none, those too that are accepted and do not stand yet; whether that is so within ``seconds``."""
        await self._gone(set(self._accepted), seconds)
        return not self._accepted

    async def _gone(self, numbers: set[int], seconds: float) -> None:
        if not numbers:
            return
        awaited = numbers, asyncio.get_running_loop().create_future()
        self._awaited.append(awaited)
        try:
            await asyncio.wait([awaited[1]], timeout=max(0.0, seconds))
        finally:
            self._awaited.remove(awaited)

    def too_many(self) -> str:
        """Why one more is refused, and what to do."""
        more = "raise max_connections" if self.most == self.configured else "raise ulimit -n"
        return f"{self.most} connections are open, which is the limit; close some, or {more}"


class Served(ABC, Generic[E]):
    """Handler of one accepted connection.

    Args:
        connections: where it counts.
        now: monotonic seconds.
        role: what it is for, where that is known from the start.

    Attributes:
        number: this connection's number in the broker's life.
        listener: the name of the one that took it.
        role: what it is for, once that is known.
        queue: the queue's name, once it has one.
        exchange: the exchange's name, of one that publishes to an exchange.
        client_id: the client's name, if it gave one.
        opened_at: monotonic seconds.
        connection: its shell, while it stands.
        actor: its actor, if it has one; it ends with the connection.
        operations: the door, for whoever it is; None as long as that is not known.
        entrant: its place among those that are not let in yet, as long as it is one of them.
        receivers: of one that may use more than one queue, the actors that receive for it, by queue.
        opens_at_once: whether it is let in as it comes, for its protocol asks nobody who they are. Where not, `opened` is to be called.
    """

    opens_at_once: ClassVar[bool] = True

    def __init__(self, connections: Connections, now: float, role: str | None = None) -> None:
        self._connections = connections
        self.number = connections.accept()
        self.opened_at = now
        self.role = role
        self.listener = ""
        self.queue: str | None = None
        self.exchange: str | None = None
        self.client_id: str | None = None
        self.connection: Connection[E] | None = None
        self.actor: LoopActorRef[Any] | None = None
        self.operations: Rights | None = None
        self.entrant: Entrant | None = None
        self.receivers: Mapping[str, Collection[LoopActorRef[Any]]] = _NO_RECEIVERS

    def connection_opened(self, connection: Connection[E]) -> None:
        """Take the connection in, or say that there are too many."""
        self.connection = connection
        self._connections.add(self)
        if self.opens_at_once:
            self.opened()

    def opened(self) -> None:
        """It is let in, and takes no place of those any more that are not."""
        entrant, self.entrant = self.entrant, None
        if entrant is not None:
            entrant.leave()

    @abstractmethod
    def event_received(self, event: E, work: int) -> None:
        """What the client says; an error raised ends the connection with its ``code``; one that has none is a defect of ours."""

    async def facts(self) -> Facts | None:
        """What it has to say of itself, where it may use more than one queue; None where its queue knows."""
        return None

    def writable_changed(self, writable: bool) -> None:
        """The client takes less, or again more, than is written to it. Meanwhile nothing more that it says is handled."""

    def drain(self) -> None:
        """The broker is about to end: begin nothing more, answer what is under way, and end. At once, unless a protocol has more to do."""
        self.refused(*SHUTTING_DOWN)

    def connection_ending(self, error: Exception | None) -> None:  # noqa: ARG002 - it comes once more
        """Nothing more is taken or given. Its actor, if it has one, stops, which gives everything back to its queue."""
        if self.actor is not None:
            self.actor.stop_nowait()

    def connection_closed(self, error: Exception | None) -> None:
        """Forget the connection."""
        try:
            self.connection_ending(error)
        finally:
            self._connections.remove(self)
            self.opened()
            # Each of them knows this one; without a cycle all are free at once.
            self.connection = self.actor = None

    def is_news(self, error: Exception | None) -> bool:
        """Whether the log is to have a line of what ended it: not of a client that left, or that the broker has sent away itself."""
        return isinstance(error, TransportError) and error.code != NOT_LEADER and not self._connections.ending

    def cut(self) -> None:
        """End the connection at once: there was time enough for its last words."""
        if self.connection is not None:
            self.connection.abort(RefusalError(*SHUTTING_DOWN))

    def not_leading(self, text: str, leader: str) -> None:  # noqa: ARG002 - for a protocol that has a place for it
        """End the connection, for this broker does not lead its cluster; ``leader`` is where that is, as contact points."""
        self.refused(NOT_LEADER, text)

    def refused(self, code: str, text: str) -> None:
        """End the connection with its protocol's last words."""
        if self.connection is not None:
            self.connection.fail(RefusalError(code, text))
