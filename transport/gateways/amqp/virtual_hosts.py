"""Virtual hosts: who may enter one, and the exchanges that are there from the start in each (AMQP 0-9-1, 3.1.3).

A virtual host whose names have no beginning has those of the broker. Every other has its own, so that what is published to ``amq.topic``
in one virtual host is bound in no other: the broker keeps them as ``shop/amq.topic``, as it keeps all that is declared there.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Final

from actors.errors import QueueError
from transport.broker.listener import Listener
from transport.errors import LocalProtocolError
from transport.gateways.amqp.connection_methods import ConnectionOpen
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.names import Names
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.security.principal import ANYONE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from transport.broker.listener import Host
    from transport.broker.operations import Operations
    from transport.broker.served import Served
    from transport.gateways.amqp.protocol import AmqpProtocol

PREDECLARED: Final = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.headers": "headers",
    "amq.match": "headers",
    "amq.topic": "topic",
}
"""Kinds by name; the default exchange is the broker's for all, and leads each to its own queues."""


def entered(virtual_hosts: Mapping[str, str], name: str, operations: Operations) -> Names:
    """The names of a virtual host that somebody enters.

    Args:
        virtual_hosts: those that there are, each with the beginning of its names.
        name: the one that is asked for.
        operations: the door, for whoever asks.

    Raises:
        AmqpError: NOT_ALLOWED: there is none of this name, or nothing in it is for whoever asks.
    """
    beginning = virtual_hosts.get(name)
    if beginning is None:
        raise AmqpError(ReplyCode.NOT_ALLOWED, f"vhost {name} not found", ConnectionOpen.INDEX)
    if not operations.has_rights_within(beginning):
        text = f"access to vhost '{name}' refused for user '{operations.principal.name}'"
        raise AmqpError(ReplyCode.NOT_ALLOWED, text, ConnectionOpen.INDEX)
    return Names(name, beginning)


class HostsListener(Listener["AmqpProtocol"]):
    """A listener that has the exchanges of virtual hosts made before it takes connections.

    Args:
        name: of the listener.
        address: host:port.
        protocol: makes the protocol of a connection.
        handler: makes its handler.
        virtual_hosts: those that there are, each with the beginning of its names.
        protected: as of `Listener`.
    """

    def __init__(
        self,
        name: str,
        address: str,
        protocol: Callable[[], AmqpProtocol],
        handler: Callable[[Host, AmqpProtocol], Served[Any]],
        virtual_hosts: Mapping[str, str],
        *,
        protected: bool,
    ) -> None:
        super().__init__(name, address, protocol, handler, protected=protected)
        self._virtual_hosts = virtual_hosts

    async def start(self, host: Host) -> None:
        """As of `Listener`, with its errors; a virtual host that cannot have its exchanges is one too."""
        for name, beginning in self._virtual_hosts.items():
            if beginning:
                await _declare(host.operations(ANYONE), name, beginning)
        await super().start(host)


async def _declare(operations: Operations, virtual_host: str, beginning: str) -> None:
    """Have the exchanges of one virtual host, together; those that are there are as they are to be, or there is no start."""
    await asyncio.gather(
        *(_declare_one(operations, virtual_host, beginning, name, kind) for name, kind in PREDECLARED.items())
    )


async def _declare_one(operations: Operations, virtual_host: str, beginning: str, name: str, kind: str) -> None:
    said = {"name": beginning + name, "kind": kind, "arguments": json.dumps({})}
    try:
        # The broker's own doing: nobody has asked.
        await operations.command("exchange.create", said, changes=False)
    except QueueError as error:
        raise LocalProtocolError(f"the virtual host {virtual_host!r:.255} cannot have {name}: {error}") from error
    except TimeoutError as error:
        why = "the journal has not stored it in time: start again, or look at the disk"
        raise LocalProtocolError(f"the virtual host {virtual_host!r:.255} cannot have {name}: {why}") from error
