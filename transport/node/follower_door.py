"""What clients meet at a node that does not lead: a broker without anything stored, which says who leads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from transport.broker.broker import Broker
from transport.broker.leadership import Leadership
from transport.config.cluster_together import without_cluster
from transport.gateways.listeners import configured_listeners

if TYPE_CHECKING:
    from transport.broker.cluster_port import Cluster
    from transport.broker.last_good import FilesOfANode
    from transport.config.config import BrokerConfig

DOOR_SECONDS: Final = 0.1
"""For those at a door to take their leave: who comes to lead waits for so long with opening its ports, be they silent or slow."""


class FollowerDoor:
    """What stands in the broker's place: one without anything stored, which tells whoever comes who leads."""

    def __init__(self, config: BrokerConfig, files: FilesOfANode | None = None) -> None:
        self._files = files
        # It keeps nothing, so it declares nothing.
        self._config = without_cluster(config, directory=None, queues={})
        self._leader: dict[str, list[str]] = {}
        self._trouble = ""
        self._cluster: Cluster | None = None
        self._leadership = Leadership()
        self.broker: Broker | None = None

    def shows(self, cluster: Cluster) -> None:
        """What administrators are told of the cluster here, from the next `open` on."""
        self._cluster = cluster

    async def open(self) -> None:
        """See `Door`."""
        self._leadership = Leadership(cluster=self._cluster, files=self._files)
        self._leadership.trouble = self._trouble
        self._leadership.follow(self._leader)
        broker = Broker(self._config, listeners=configured_listeners(self._config), leadership=self._leadership)
        await broker.__aenter__()
        self.broker = broker

    async def close(self) -> None:
        """See `Door`."""
        broker, self.broker = self.broker, None
        if broker is not None:
            broker.leave_within(DOOR_SECONDS)
            await broker.__aexit__(None, None, None)

    def leader(self, addresses: dict[str, list[str]]) -> None:
        """Who leads, by where it is reached; nobody is known where it is empty."""
        self._leader = addresses
        self._leadership.follow(addresses)

    def troubled(self, trouble: str) -> None:
        """What is wrong with the node, for whoever asks whether it can be used; "" for nothing."""
        self._trouble = self._leadership.trouble = trouble
