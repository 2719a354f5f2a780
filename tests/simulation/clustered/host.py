"""The nodes of a cluster and their hosts: start, stop in good order, kill, power off, freeze. Between the simulation and the product."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from actors import ask
from actors.queue.vocabulary.commands import GetStatistics
from actors.replication.document import ALL
from streams.testkit import elapse
from tests.fault.last_write import damage_last_write
from tests.simulation.clustered.machine import NodeDisk, machine
from tests.simulation.clustered.watch import OUT_OF_STEP, Watch, WatchedStorage
from tests.simulation.history import Crashed, DroppedInAll, History, Noted, Started
from transport.broker.broker import Broker
from transport.config.config import BrokerConfig
from transport.node.cluster_node import ClusterNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.storage.leader_storage import LeaderStorage
    from actors.storage.node_storage import NodeStorage
    from tests.simulation.clustered.plan import ClusterPlan
    from tests.simulation.loop import Process, SimulatedLoop
    from tests.simulation.network import Network
    from tests.simulation.register import SimulatedRegister

DATA: Final = Path("/disk/data")
"""Of each host."""
FIRST_PORT: Final = 7100
SENDERS, RECEIVERS, NODES = 1, 2, 3
START_TIMEOUT: Final = 120.0
"""Virtual seconds that a start, or a stop in good order, may take: whoever hands over waits for others."""


def port(name: str, what: int) -> int:
    """Where a node is reached: the network tells hosts apart by their ports."""
    return FIRST_PORT + 10 * (ord(name) - ord("a")) + what


def places(names: tuple[str, ...], what: int) -> str:
    """The contact points of several nodes."""
    return ",".join(f"{name}.example:{port(name, what)}" for name in names)


class SimulatedNode(ClusterNode):
    """A node of the product, that says when a broker of its stands."""

    stands: Callable[[Broker, int], None]

    def _make_broker(self, storage: LeaderStorage) -> Broker:
        broker = super()._make_broker(storage)
        self.stands(broker, storage.epoch)
        return broker


class NodeHost:
    """A host that runs one node at a time.

    Attributes:
        name: the node's.
        process: its life, None between two.
        node: the node in it.
        storage: its directory, as it was opened last; None between two lives.
        failed: why the node has ended by itself.
    """

    def __init__(self, name: str, cluster: Cluster) -> None:
        self.name = name
        self.process: Process | None = None
        self.node: SimulatedNode | None = None
        self.storage: WatchedStorage | None = None
        self.lives = 0
        self._ended: asyncio.Future[None]
        self._cluster = cluster
        plan = cluster.plan
        self._disk = NodeDisk(name, cluster.loop, Random(f"disk {plan.seed} {name}"), plan.base.commit_delay)

    async def start(self) -> None:
        """Start the node; it need not be a member when this returns."""
        cluster = self._cluster
        self.lives += 1
        self.process = process = cluster.loop.process(self.name)
        self._disk.begin_life()
        self._ended = cluster.loop.create_future()
        opening = process.spawn(self._open())
        either: set[asyncio.Future[Any]] = {opening, self._ended}
        await asyncio.wait(either, timeout=START_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        if process.alive:
            self.node = opening.result()
            process.spawn(self.node.serve_forever()).add_done_callback(self._served)

    async def stop(self) -> None:
        """Stop in good order."""
        process, node = self.process, self.node
        assert process is not None
        assert node is not None
        self.node = None
        closing = process.spawn(node.__aexit__(None, None, None))
        await asyncio.wait({closing, self._ended}, timeout=START_TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        if process.alive:
            closing.result()
            self._end(silent=False)
            self._disk.stop()

    def kill(self) -> None:
        """As kill -9: what was written stays written."""
        self._crash(power=False)

    def power_off(self) -> None:
        """As a pulled plug: the connections fall silent."""
        self._crash(power=True)

    def lose_disk(self) -> None:
        """Its disk is no more, and there is an empty one in its place."""
        self._crash(power=True)
        self._disk.wipe()

    def damage_last_write(self) -> bool:
        """While it is down: whether the last write on its disk is damaged by now, so that a start takes it for a torn one."""
        return damage_last_write(self._disk.disk, DATA)

    @property
    def in_doubt(self) -> bool:
        """Whether it is down, or may have cut something that it had answered for."""
        return self.storage is None or self.storage.log.doubt > 0

    # Inside

    async def _open(self) -> SimulatedNode:
        cluster, name = self._cluster, self.name
        life = self.lives
        register = cluster.register.client(name)
        links = Random(f"links {cluster.plan.seed} {name} {life}")
        runs_on = machine(self._disk, self._open_storage, lambda: links, cluster.plan.limits)
        node = SimulatedNode(cluster.config(name), register=register, machine=runs_on)
        node.stands = lambda broker, epoch: cluster.stands(self, broker, epoch)
        await node.__aenter__()
        return node

    def _open_storage(self, directory: Path, options: Any, cache_bytes: int, disk: NodeDisk) -> NodeStorage:
        opened = WatchedStorage.open(
            directory, options, files=disk.files, cache_bytes=cache_bytes, committer=disk.make_committer
        )
        assert isinstance(opened, WatchedStorage)
        self.storage = opened.watched(self.name, self._cluster.watch)
        return self.storage

    def _served(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._cluster.failed(f"node {self.name}", error)

    def _crash(self, power: bool) -> None:
        process = self.process
        assert process is not None
        jobs = list(process.jobs)
        self._end(silent=power)
        process.call(self._disk.die, power, jobs)

    def _end(self, silent: bool) -> None:
        assert self.process is not None
        process, self.process, self.node = self.process, None, None
        if self.storage is not None:
            self._cluster.watch.ends[self.storage.directory_id] = self.storage.log.end
            self.storage = None
        self._cluster.network.kill(process, silent)
        self._cluster.loop.kill(process)
        if not self._ended.done():
            self._ended.set_result(None)
        self._cluster.gone(self)


class Cluster:
    """All of them, and what stands in a single broker's place.

    Attributes:
        hosts: by name.
        leading: the host whose broker stood last, as far as it runs; None where it is gone.
    """

    def __init__(
        self,
        plan: ClusterPlan,
        loop: SimulatedLoop,
        network: Network,
        register: SimulatedRegister,
        history: History,
        secret: str,
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self.plan = plan
        self.loop = loop
        self.network = network
        self.register = register
        self.failed = failed
        self.watch = Watch(loop.time)
        if plan.mode == ALL:
            self.watch.on_confirmed = self._look_who_is_in_step
        self.leading: NodeHost | None = None
        self._broker: Broker | None = None
        self._lives = 0
        self._history = history
        self._secret = secret
        self.hosts = {name: NodeHost(name, self) for name in plan.names}

    def config(self, name: str) -> BrokerConfig:
        """Of a node."""
        plan = self.plan
        return BrokerConfig(
            send_address=f"{name}.example:{port(name, SENDERS)}",
            receive_address=f"{name}.example:{port(name, RECEIVERS)}",
            directory=str(DATA),
            # Its network is simulated too, and reaches nobody.
            insecure=True,
            heartbeat=plan.base.heartbeat,
            transaction_timeout=plan.base.transaction_timeout,
            # What the machine that simulates has in use, and has left, is no part of the simulation.
            memory_watermark=1.0,
            disk_floor=0,
            drain=plan.drain,
            queues={queue.name: queue.settings for queue in plan.base.queues},
            cluster="etcd://register.example:2379/orders",
            cluster_node=name,
            cluster_members=",".join(f"{each}={each}.example:{port(each, NODES)}" for each in plan.names),
            cluster_address=f"{name}.example:{port(name, NODES)}",
            cluster_advertise=f"{name}.example",
            cluster_mode=plan.mode,
            cluster_secret_file=self._secret,
        )

    @property
    def contact_points(self) -> str:
        """Where administrators connect to."""
        return places(self.plan.names, SENDERS)

    async def start(self) -> None:
        """Start all, and wait until one leads."""
        await asyncio.gather(*(host.start() for host in self.hosts.values()))
        await self.led()

    async def led(self) -> None:
        """Wait until a broker stands and answers."""
        async with asyncio.timeout(START_TIMEOUT):
            while self._standing() is None:
                await elapse(0.1)

    def stands(self, host: NodeHost, broker: Broker, epoch: int) -> None:
        """A broker is about to stand on a host: whatever stood before confirms nothing any more."""
        self._note_gone("another leads")
        self.leading, self._broker = host, broker
        self._lives += 1
        self.watch.leads.lives.append((f"{host.name} {host.lives}", epoch))
        self._history.add(Noted(self.loop.time(), f"{host.name} leads, epoch {epoch}"))
        self._history.add(Started(self.loop.time(), self._lives))

    def gone(self, host: NodeHost) -> None:
        """A host has ended."""
        if self.leading is host:
            self._note_gone("killed")

    async def stop(self) -> None:
        """All of them, in good order, the leader last."""
        hosts = sorted(self.hosts.values(), key=lambda host: host is self.leading)
        for host in hosts[:-1]:
            await host.stop()
        await hosts[-1].stop()

    def note_connection(self, number: int) -> bool:
        """Note whose a new connection is; whether it is a client's."""
        link = self.network.links[number]
        host = self.hosts[chr(ord("a") + (link.port - FIRST_PORT) // 10)]
        self.watch.leads.connections[number] = f"{host.name} {host.lives}"
        return link.port % 10 != NODES

    async def stored(self, queue: str) -> int:
        """Messages that a queue still has; 1 while nobody can say so."""
        broker = self._standing()
        return 1 if broker is None else int((await self._statistics(broker, queue)).stored_messages)

    async def dropped(self, queue: str) -> DroppedInAll:
        """How many messages a queue has dropped."""
        await self.led()
        broker = self._standing()
        assert broker is not None
        return DroppedInAll(self.loop.time(), queue, (await self._statistics(broker, queue)).total_dropped)

    # Inside

    def _look_who_is_in_step(self, name: str, epoch: int, lsn: int) -> None:
        """In the mode ``all`` whatever is confirmed is on every disk that the document lists as in step."""
        document = self.register.history[-1].document
        if document.epoch != epoch:
            return  # another one leads by now, whose members may be others
        ends = self.watch.ends | {
            host.storage.directory_id: host.storage.log.end for host in self.hosts.values() if host.storage is not None
        }
        for other, member in document.members.items():
            # A disk that is lost has no end any more; of one that is there, no more than its end can be durable.
            if member.in_step and not member.learner and (end := ends.get(member.directory, lsn)) < lsn:
                self.watch.find(
                    OUT_OF_STEP, f"{name} confirms what is below {lsn}, and {other}, in step, has what is below {end}"
                )

    async def _statistics(self, broker: Broker, queue: str) -> Any:
        assert self.leading is not None
        assert self.leading.process is not None
        return await self.leading.process.spawn(_ask(broker.queues.get(queue), GetStatistics()))

    def _standing(self) -> Broker | None:
        host = self.leading
        if host is None or host.node is None or host.node.service.broker is None:
            return None
        return host.node.service.broker

    def _note_gone(self, how: str) -> None:
        if self.leading is not None:
            self.leading = None
            self._history.add(Crashed(self.loop.time(), how))


async def _ask(ref: Any, message: Any) -> Any:
    return await ask(ref, message)
