"""The process of ``penstock broker --cluster``: a node between its start and its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from transport.broker.descriptors import raise_soft_limit
from transport.broker.memory import collect_rarely
from transport.cli._run import tell
from transport.cli._signals import broker_signals
from transport.cli.exit_codes import EXIT_USAGE
from transport.errors import LocalProtocolError
from transport.node.cluster_node import ClusterNode

if TYPE_CHECKING:
    from transport.cli._supervisor import Supervisor
    from transport.config.config import BrokerConfig

VERB = "broker"


async def serve_node(config: BrokerConfig, supervisor: Supervisor) -> int:
    """All of it; returns the exit code."""
    raise_soft_limit(config.max_connections)
    stopped = asyncio.Event()
    with broker_signals(VERB, stopped.set, lambda: None):
        try:
            node = ClusterNode(config)
        except LocalProtocolError as error:
            tell(VERB, str(error))
            return EXIT_USAGE
        async with node:
            collect_rarely()
            tell(
                VERB,
                f"node {config.cluster_node}: sending {node.plan.places[0]}, receiving {node.plan.places[1]}, other nodes "
                f"{node.plan.links.address}, journal in {config.directory}",
            )
            supervisor.ready()
            supervisor.watch(asyncio.get_running_loop())
            serving = asyncio.create_task(node.serve_forever())
            ending = asyncio.create_task(stopped.wait())
            try:
                await asyncio.wait([serving, ending], return_when=asyncio.FIRST_COMPLETED)
                supervisor.stopping()
            finally:
                ending.cancel()
            if serving.done():
                serving.result()
            serving.cancel()
        supervisor.leave()
    return 0
