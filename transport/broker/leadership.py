"""Whether a broker leads its cluster: told by the node that it is a part of, and asked for each connection that comes.

A broker that is alone has none of this. One that does not lead lets in nobody who wants a queue of it: it answers in the words of each
protocol that it does not lead, and where the leader is. Clients come again by themselves, or go there. When it stops leading, those inside
are told the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from transport.broker.last_good import FilesOfANode
from transport.wire.address import parse_address
from transport.wire.contact_points import MAX_TOLD_ADDRESSES, written
from transport.wire.messages import NOT_LEADER, SILENT, Options, Welcome

if TYPE_CHECKING:
    from transport.broker.cluster_port import Cluster
    from transport.broker.port import Greeting
    from transport.broker.served import Connections, Served

CLUSTER_SILENCE: Final = 2.0
"""Seconds: a broker of a cluster says something to each native client in half of them, and one that says nothing for all of them has most
likely a successor by then. Members give a silent leader 1.5 s."""
NOBODY: Final[Mapping[str, Sequence[str]]] = MappingProxyType({})
"""The leader's addresses where it is not known."""

logger = logging.getLogger("penstock.broker")


class Leadership:
    """One broker's. It follows until it is told to lead.

    Args:
        silence: seconds, as of `CLUSTER_SILENCE`.
        cluster: the node that the broker is a part of, for administration; None where there is nothing to be seen of it.
        files: what the brokers of that node have read; None for one whose broker is the first.

    Attributes:
        leads: whether it leads.
        cluster: as given.
        trouble: what is wrong with the node itself, for whoever asks why the broker cannot be used; "" for nothing.
        files: as given.
    """

    def __init__(
        self, silence: float = CLUSTER_SILENCE, cluster: Cluster | None = None, files: FilesOfANode | None = None
    ) -> None:
        self.files = files or FilesOfANode()
        self.leads = False
        self.cluster = cluster
        self.trouble = ""
        self._silence_ms = max(2, round(silence * 1000))
        self._leader: Mapping[str, tuple[str, ...]] = MappingProxyType({})
        self._connections: Connections | None = None

    def lead(self) -> None:
        """Whoever comes from now on is let in."""
        self.leads = True
        self._leader = MappingProxyType({})

    def follow(self, leader: Mapping[str, Sequence[str]] = NOBODY) -> None:
        """Whoever comes from now on is told where the leader is, and so is everybody inside, who goes. Said again where that changes.

        Args:
            leader: its addresses, ``host:port``, as clients reach it, by the names of listeners: ``send``, ``receive``, ``http``, ``amqp``.
                Those of a listener that is not there are not known.
        """
        self._leader = MappingProxyType(
            {name: tuple(each)[:MAX_TOLD_ADDRESSES] for name, each in leader.items() if each}
        )
        led, self.leads = self.leads, False
        if not led or self._connections is None:
            return
        inside = list(self._connections.standing.values())
        if inside:
            logger.warning("this broker leads no more: its %d connections are ended", len(inside))
        for connection in inside:
            self.refuse(connection)

    def leader(self, listener: str) -> tuple[str, ...]:
        """Where the leader has that listener, as far as it is known."""
        return self._leader.get(listener, ())

    def why(self, listener: str) -> str:
        """What one who came to that listener is told."""
        leader = self.leader(listener)
        if leader:
            where = f"its leader is at {' or '.join(leader)}"
        elif others := next(iter(self._leader.values()), ()):
            # It leads, and the cluster knows of no such listener there.
            where = f"its leader is on {parse_address(others[0]).host}"
        else:
            where = "its leader is not known yet: try again soon"
        return f"this broker does not lead its cluster; {where}"

    def refuse(self, connection: Served[object]) -> None:
        """End ``connection``, in the words of its protocol."""
        connection.not_leading(self.why(connection.listener), written(self.leader(connection.listener)))

    # The broker's

    def begin(self, connections: Connections, greet: Greeting) -> Greeting:
        """The broker starts: these are those inside. Makes its WELCOME, from that of one that is alone."""
        self._connections = connections

        def greet_of_cluster(options: Options) -> Welcome:
            return greet(options | {SILENT: self._silence_ms})

        return greet_of_cluster

    def unready(self) -> tuple[str, str] | None:
        """Code and text of why the broker cannot be used; None where it leads."""
        if self.leads:
            return None
        return NOT_LEADER, f"{self.why('http')}; {self.trouble}" if self.trouble else self.why("http")
