"""Nodes of a cluster in this process, on real sockets of loopback, over a register in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.replication.register import RegisterMovedError, RegisterUnavailableError, Versioned
from tests.free_ports import free_ports
from transport.clients.administration import Administration
from transport.config.config import BrokerConfig
from transport.node.cluster_node import ClusterNode

if TYPE_CHECKING:
    from actors.replication.document import ClusterDocument

DEADLINE = 30.0


class Register:
    """In memory, with a switch."""

    def __init__(self) -> None:
        self.version = 0
        self.document: ClusterDocument | None = None
        self.up = True

    async def read(self) -> Versioned:
        await asyncio.sleep(0)
        self._see()
        return Versioned(self.version, self.document)

    async def swap(self, version: int, document: ClusterDocument) -> int:
        await asyncio.sleep(0)
        self._see()
        if version != self.version:
            raise RegisterMovedError(self.version)
        self.version, self.document = self.version + 1, document
        return self.version

    def _see(self) -> None:
        if not self.up:
            raise RegisterUnavailableError("it is switched off")


class Nodes:
    """The nodes of one cluster, by name."""

    def __init__(
        self, folder: Path, first: str = "abc", names: str = "abcd", *, amqp: bool = False, **settings: Any
    ) -> None:
        self.folder = folder
        self.register = Register()
        self.running: dict[str, ClusterNode] = {}
        self._settings = settings
        found = iter(free_ports(5 * len(names)))
        self._ports = {name: [next(found) for _ in range(5)] for name in names}
        self._amqp = amqp
        self._first = ",".join(f"{name}=127.0.0.1:{self._ports[name][2]}" for name in first)
        secret = folder / "secret"
        secret.write_text("0123456789abcdef0123456789abcdef\n")
        secret.chmod(0o600)

    def config(self, name: str) -> BrokerConfig:
        send, receive, links, http, amqp = (f"127.0.0.1:{port}" for port in self._ports[name])
        return BrokerConfig(
            send,
            receive,
            directory=str(self.folder / name),
            http=http,
            amqp=amqp if self._amqp else None,
            cluster="etcd://127.0.0.1:1/tests",
            cluster_node=name,
            cluster_members=self._first,
            cluster_address=links,
            cluster_advertise="127.0.0.1",
            cluster_secret_file=str(self.folder / "secret"),
            **({"drain": 0.0} | self._settings),
        )

    def send(self, *names: str) -> str:
        """Where administrators reach these, or those that run."""
        return ",".join(f"127.0.0.1:{self._ports[name][0]}" for name in names or self.running)

    def elsewhere(self, name: str) -> None:
        """Clients reach a node elsewhere from its next start on, and the other nodes where they did."""
        links = self._ports[name][2]
        self._ports[name] = free_ports(5)
        self._ports[name][2] = links

    def links(self, name: str) -> str:
        """Where the other nodes reach one."""
        return f"127.0.0.1:{self._ports[name][2]}"

    def http(self, name: str) -> str:
        return f"http://127.0.0.1:{self._ports[name][3]}"

    async def start(self, name: str) -> ClusterNode:
        node = ClusterNode(self.config(name), register=self.register)
        await node.__aenter__()
        self.running[name] = node
        return node

    async def stop(self, name: str) -> None:
        await self.running.pop(name).__aexit__()

    async def stands(self, holds: Callable[[dict[str, Any]], bool], *names: str) -> dict[str, Any]:
        """How the cluster stands, as these nodes see it, or whichever answers, once ``holds`` of it."""
        async with asyncio.timeout(DEADLINE):
            while True:
                async with Administration(self.send(*names), any_node=True) as administration:
                    facts = await administration.cluster()
                if holds(facts):
                    return facts
                await _passed(0.05)

    async def leader(self) -> str:
        """Who leads, once somebody does and its broker stands."""
        async with asyncio.timeout(DEADLINE):
            while True:
                for name, node in self.running.items():
                    if node.service.broker is not None:
                        return name
                await _passed(0.05)


async def _passed(seconds: float) -> None:
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await passed.wait()


@asynccontextmanager
async def cluster(folder: Path, **settings: Any) -> AsyncIterator[Nodes]:
    """Three nodes, one of which leads."""
    nodes = Nodes(folder, **settings)
    async with AsyncExitStack() as stack:

        async def stop() -> None:
            for name in list(nodes.running):
                await nodes.stop(name)

        stack.push_async_callback(stop)
        for name in "abc":
            await nodes.start(name)
        await nodes.leader()
        yield nodes
