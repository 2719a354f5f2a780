"""Listening for one protocol: an address, the protocol that its connections carry, and what handles what they say.

A broker has a list of these. Much is the same for all: what a connection may take of memory and of the loop's turns, how long it has for
what, how many there may be, and how they end with the broker. That is in the shell (`transport.shell`) and in `Served`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from transport.broker.acceptor import Intake, Listen, Listening
from transport.broker.entrance import Entrance
from transport.broker.operations import Operations
from transport.broker.port import Greeting
from transport.broker.served import Connections, Served
from transport.broker.strangers import Entrant
from transport.errors import LocalProtocolError
from transport.security.principal import Principal
from transport.shell.connection import Connection
from transport.shell.partial_frames import PartialFrames, PartialRoom
from transport.shell.prompt_connection import PromptConnection
from transport.shell.turns import Turns
from transport.shell.unsent import UnsentTotal
from transport.wire.address import Address, parse_address
from transport.wire.carried import CarriedProtocol

if TYPE_CHECKING:
    import ssl

    from actors.storage import DurableMap

E = TypeVar("E")
P = TypeVar("P", bound=CarriedProtocol[Any])


@dataclass(frozen=True, slots=True)
class Host:
    """What a broker gives its listeners.

    Attributes:
        loop: where it lives.
        heartbeat: seconds, where the protocol has one.
        connections: where each counts.
        turns: what the loop has for all of them.
        partial: what all of them keep of what is not complete.
        unsent: what waits for the sockets of all of them.
        listen: how it listens.
        operations: the door, for a principal.
        greeting: makes WELCOME of what a role is told: every role is told more.
        entrance: who may come in.
        tls: gives what connections under TLS are made with; None where there is no TLS.
        memory: what gateways have to remember.
        epoch: the number of the broker's life.
    """

    loop: asyncio.AbstractEventLoop
    heartbeat: float
    connections: Connections
    turns: Turns
    partial: PartialFrames
    unsent: UnsentTotal
    listen: Listen
    operations: Callable[[Principal], Operations]
    greeting: Greeting
    entrance: Entrance
    tls: Callable[[], ssl.SSLContext | None]
    memory: DurableMap
    epoch: int

    def accept(self, protocol: CarriedProtocol[E], handler: Served[E]) -> Connection[E]:
        """The shell of a connection that has come, within what all may take together."""
        shell = PromptConnection if protocol.splits else Connection
        connection = shell(protocol, handler, self.loop, self.heartbeat, self.turns, self.unsent)
        protocol.receiver.keep_in(PartialRoom(self.partial, connection))
        return connection


class Listener(Generic[P]):
    """One address of a broker.

    Args:
        name: what it is for.
        address: host:port; port 0 for any that is free.
        protocol: makes the protocol of a connection.
        handler: makes its handler, of what the broker gives and the protocol.
        protected: whether the protocol asks who somebody is, and is carried by TLS where the broker has a certificate. One that is not is
            plain, and stays on this machine unless the broker is insecure.

    Attributes:
        name: as given.
        protected: as given.
    """

    def __init__(
        self,
        name: str,
        address: str,
        protocol: Callable[[], P],
        handler: Callable[[Host, P], Served[Any]],
        *,
        protected: bool = False,
    ) -> None:
        self.name = name
        self.protected = protected
        self._address = address
        self._protocol = protocol
        self._handler = handler
        self._listening: Listening | None = None
        self._host: Host | None = None
        self._bound: tuple[Address, ...] = ()

    @property
    def wanted(self) -> Address:
        """Where it is to listen, as it was told."""
        return parse_address(self._address)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where it listens, with the ports that were really bound; still told when it is closed. One for each family of addresses."""
        return self._bound

    async def start(self, host: Host) -> None:
        """Take connections from now on.

        Raises:
            OSError: the address cannot be bound.
            LocalProtocolError: it does already, for each broker needs listeners of its own; or others could reach it, and may not.
        """
        if self._listening is not None:
            raise LocalProtocolError(
                f"the listener {self.name!r} takes connections already: give each broker listeners of its own"
            )
        address = self.wanted
        intake = Intake(
            partial(self.accept, host),
            host.connections.has_room,
            host.entrance.unopened,
            host.turns.endings,
            self._refusal(host.connections.too_many()),
            self._refusal(host.entrance.unopened.too_many_of_one),
            host.tls if self.protected else lambda: None,
            host.entrance.not_secured,
        )
        listening = await host.listen(intake, address.host, address.port)
        self._listening, self._host = listening, host
        self._bound = tuple(Address(*each.getsockname()[:2]) for each in listening.sockets)

    def accept(self, host: Host, entrant: Entrant | None = None) -> Connection[Any]:
        """The shell of a connection that has come, with its place among those that are not let in yet."""
        protocol = self._protocol()
        handler = self._handler(host, protocol)
        handler.listener = self.name
        handler.entrant = entrant
        return host.accept(protocol, handler)

    async def drain(self, deadline: float) -> None:
        """Take no more connections, and have those that were taken end in good order; not beyond ``deadline``, the loop's time.

        What a connection does for it is its handler's business: `Served.drain`.
        """
        self.close()
        if self._host is not None:
            await self._host.connections.drain(self.name, deadline - self._host.loop.time())

    def close(self) -> None:
        """Take no more connections; those that were taken stay."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()

    def _refusal(self, text: str) -> bytes:
        return b"".join(self._protocol().last_words("limit-exceeded", text))
