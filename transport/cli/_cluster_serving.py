"""The process of ``penstock broker`` in a cluster: a node between its start and its end."""

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
    from transport.cli._reloading import Reloading
    from transport.cli._supervisor import Supervisor
    from transport.config.config import BrokerConfig

VERB = "broker"


async def serve_node(config: BrokerConfig, supervisor: Supervisor, reloading: Reloading, without: str | None) -> int:
    """All of it; returns the exit code. ``without`` says what it does without, if anything."""
    raise_soft_limit(config.max_connections)
    stopped = asyncio.Event()
    with broker_signals(VERB, stopped.set, reloading.ask):
        try:
            node = ClusterNode(config)
        except LocalProtocolError as error:
            tell(VERB, str(error))
            return EXIT_USAGE
        async with node:
            collect_rarely()
            tell(VERB, _where(node, config))
            if without is not None:
                tell(VERB, without)
            supervisor.ready()
            supervisor.watch(asyncio.get_running_loop())
            rereading = asyncio.create_task(reloading.whenever_asked(node.reloads))
            serving = asyncio.create_task(node.serve_forever())
            ending = asyncio.create_task(stopped.wait())
            try:
                await asyncio.wait([serving, ending], return_when=asyncio.FIRST_COMPLETED)
                supervisor.stopping()
            finally:
                ending.cancel()
                rereading.cancel()
            if serving.done():
                serving.result()
            serving.cancel()
        supervisor.leave()
    return 0


def _where(node: ClusterNode, config: BrokerConfig) -> str:
    """Where others reach it, for the line that says that it stands."""
    clients = node.plan.clients
    scheme = "http" if config.tls_certificate is None else "https"
    console = "" if clients.http is None else f", console {scheme}://{clients.http}/"
    return (
        f"node {config.cluster_node}: sending {clients.send}, receiving {clients.receive}, "
        f"other nodes {node.plan.replication}{console}, journal in {config.directory}"
    )
