"""A node of a cluster from its start to its end: it finds its cluster or forms it with others, then it follows and leads by turns."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from actors.errors import StorageError
from actors.replication.document import ASYNC
from actors.replication.replica import Replica
from actors.storage import ShippedRecord
from actors.storage.damaged_replica import Whose, put_aside, whose_replica
from actors.storage.failures import Damage, damage_of
from actors.storage.node_news import NodeHooks
from actors.storage.node_shipping import NodeShipping
from actors.storage.node_storage import NodeStorage
from transport.broker.broker import Broker
from transport.broker.last_good import FilesOfANode
from transport.broker.leadership import Leadership
from transport.broker.reload import Reloads
from transport.cluster.etcd import EtcdRegister
from transport.cluster.etcd_child import EtcdChild
from transport.cluster.etcd_settings import ETCD_FOLDER
from transport.cluster.hello import START_BYTES, Identity
from transport.cluster.link_settings import read_keys, warning_of
from transport.cluster.links import ClusterLinks
from transport.cluster.meeting import stranger
from transport.cluster.node import Node
from transport.cluster.node_work import NodeWork
from transport.cluster.plan import plan_of
from transport.cluster.tidings import NOTHING, Tidings
from transport.errors import LocalProtocolError
from transport.gateways.listeners import configured_listeners
from transport.node.administered import NodeAdministration
from transport.node.damaged import DamagedNode
from transport.node.finding import ClusterFinder
from transport.node.follower_door import FollowerDoor
from transport.node.machine import THIS_MACHINE, Machine
from transport.node.room import Room
from transport.node.service import Service
from transport.node.told import Told

if TYPE_CHECKING:
    from actors.replication.register import Register
    from actors.storage.leader_storage import LeaderStorage
    from transport.cluster.link_settings import LinkKeys
    from transport.config.config import BrokerConfig

HAND_OVER_DRAIN_SECONDS: Final = 1.0
"""Of ``drain``, at most, where another node can lead next: clients that read need some milliseconds, and the others come again there."""
LINK_KEYS: Final = "keys of the links"
REGISTER_KEYS: Final = "keys of the register"
"""What is read anew, as the log names it."""

NO_DIRECTORY: Final = "f" * 32
"""In the place of the id of a directory that cannot be opened."""

logger = logging.getLogger("penstock.cluster")


class ClusterNode:
    """One node, on the running loop; an async context manager. ``serve_forever`` waits for its end.

    Attributes:
        config: of its broker.
        service: what clients meet.
        node: what carries out; while it is a member.
        told: what this node and the others tell of their directories.
        damaged: what it is while its directory is damaged; None while it is not.

    Args:
        config: with ``cluster``.
        register: in the place of the one that ``cluster`` names.
        machine: what it runs on.

    Raises:
        LocalProtocolError: the settings cannot be.
    """

    def __init__(
        self, config: BrokerConfig, *, register: Register | None = None, machine: Machine = THIS_MACHINE
    ) -> None:
        self.config = config
        self.plan = plan_of(config)
        self._keys: LinkKeys = read_keys(self.plan.links)
        self._register = register
        self._machine = machine
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._files = FilesOfANode()
        self._door = FollowerDoor(config, self._files, machine)
        self.service = Service(self._make_broker, self._door)
        self._storage: NodeStorage | None = None
        self.administration: NodeAdministration
        self.room: Room
        self._links: ClusterLinks | None = None
        self._finder: ClusterFinder | None = None
        self.node: Node | None = None
        self.told = Told()
        self.damaged: DamagedNode | None = None
        self._damage: Damage | None = None
        self._met: asyncio.Future[Damage] = self._loop.create_future()
        self._heals = False
        self._kept = AsyncExitStack()
        self._as_member = AsyncExitStack()
        self._life: asyncio.Task[None] | None = None

    @property
    def storage(self) -> NodeStorage:
        """The directory; not while it is damaged."""
        assert self._storage is not None, "it is open"
        return self._storage

    async def __aenter__(self) -> Self:
        """Open the directory, and take connections; the cluster is looked for behind that.

        Raises:
            StorageError: the directory cannot be opened.
            LocalProtocolError: a file of the settings cannot be used.
            OSError: an address is taken.
        """
        config = self.config
        assert config.directory is not None, "the settings were checked"
        if (warning := warning_of(self.plan.links)) is not None:
            logger.warning("%s", warning)
        async with AsyncExitStack() as stack:
            directory = Path(config.directory)
            self._options = self._machine.journal_options(
                segment_bytes=config.segment_bytes,
                sync=config.sync,
                sync_interval=config.sync_interval,
                cluster_log_bytes=config.cluster_log_bytes,
            )
            await self._open()
            stack.push_async_callback(self._close)
            if self.plan.own_etcd is not None:
                folder, met = directory / ETCD_FOLDER, self.plan.first
                etcd = EtcdChild(self.plan.own_etcd, folder, insecure=config.insecure, brokers=met)
                await etcd.start()
                stack.push_async_callback(etcd.stop)
            if self._register is None:
                self._register = EtcdRegister(self.plan.register)
            self.room = Room(directory, config.disk_floor, self._pending, self._room_changed)
            self.administration = self._administration(self._register)
            self._door.shows(self.administration)
            self.administration.start()
            stack.callback(self.administration.stop)
            stack.push_async_callback(self._end)
            await self.service.follow()
            self._life = asyncio.create_task(self._live())
            self._life.add_done_callback(self._life_ended)
            self._kept = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Have another node lead, if this one does, and end."""
        if self._life is not None and not self._life.done():
            self._life.cancel()
            await asyncio.gather(self._life, return_exceptions=True)
        failed = self._ended.done()
        try:
            # The mode `all` would wait for it until it is silent for long.
            self.told.say(self.told.own._replace(ending=True))
            if self.node is not None and failed:
                # Whoever leads next is not to wait for what cannot be kept any more.
                await self.node.stop()
            await self.service.drain(0.0 if failed else self._drain_seconds())
            if self.node is not None:
                await self.node.hand_over()
        finally:
            if not self._ended.done():
                self._ended.set_result(None)
            await self._kept.aclose()

    def _drain_seconds(self) -> float:
        """For an end in good order. Where another node may lead next, everybody waits for that: one that reads nothing is not to be why."""
        others_wait = self.node is not None and self.node.replica.could_hand_over
        return min(self.config.drain, HAND_OVER_DRAIN_SECONDS) if others_wait else self.config.drain

    async def _open(self) -> None:
        """Open the directory, or find that it is damaged."""
        config, directory = self.config, self._directory
        try:
            self._storage = await asyncio.to_thread(
                lambda: self._machine.open_storage(directory, self._options, config.cache_bytes)
            )
        except StorageError as error:
            damage = damage_of(error, directory)
            if damage is None or await asyncio.to_thread(whose_replica, directory) is None:
                raise
            self._met_damage(damage)
            return
        kept = await asyncio.to_thread(self._storage.kept)
        self._heals = config.cluster_auto_heal and kept.damaged > 0 and not self._storage.journal.cluster_id

    async def _end(self) -> None:
        """Be a member no more."""
        stack, self._as_member = self._as_member, AsyncExitStack()
        await stack.aclose()

    async def _close(self) -> None:
        """Let go of the directory."""
        storage, self._storage = self._storage, None
        if storage is not None:
            await storage.close()

    @property
    def _directory(self) -> Path:
        assert self.config.directory is not None, "the settings were checked"
        return Path(self.config.directory)

    async def reloads(self) -> Reloads:
        """What can be read anew, of what clients meet now. A broker that stands later reads all of it when it starts."""
        await self.service.standing()
        broker = self.service.broker or self._door.broker
        reloads = Reloads() if broker is None else broker.reloads
        if not reloads.has(LINK_KEYS):
            reloads.add(LINK_KEYS, lambda _: self._read_keys_again())
            if isinstance(self._register, EtcdRegister):
                read_again = self._register.read_again
                reloads.add(REGISTER_KEYS, lambda _: asyncio.to_thread(read_again))
        return reloads

    async def _read_keys_again(self) -> None:
        """For links from now on: those that stand have been proved."""
        self._keys = await asyncio.to_thread(read_keys, self.plan.links)
        for each in (self._links, self._finder, self.damaged, self.administration):
            if each is not None:
                each.use(self._keys)

    async def serve_forever(self) -> None:
        """Wait until the node cannot go on, or this is cancelled; raises why."""
        await asyncio.shield(self._ended)

    def _administration(self, register: Register) -> NodeAdministration:
        return NodeAdministration(self, self._keys, register, auto_heal=self.config.cluster_auto_heal)

    @property
    def me(self) -> Identity:
        """Who it says it is, to one that is of no cluster yet."""
        directory = NO_DIRECTORY if self._storage is None else self._storage.directory_id
        return stranger(self.plan.name, directory, self.plan.replication)

    @property
    def linked(self) -> frozenset[str]:
        """The directories to whom there is a connection."""
        if self.damaged is not None:
            return self.damaged.linked
        return frozenset() if self._links is None else self._links.connected

    @property
    def appended_bytes(self) -> int:
        """Appended to its log since that was opened."""
        return 0 if self._storage is None else self._storage.journal.appended_bytes

    def hold_senders(self, holds: bool) -> None:
        """Have the broker that stands grant senders nothing, or do so again."""
        broker = self.service.broker
        if broker is not None:
            broker.queues.hold_senders(holds)

    def looked_at(self) -> Tidings:
        """What there is to tell of its directory by now; it blocks for as long as that takes to be listed."""
        storage = self._storage
        if storage is None:
            return self.told.own
        kept = storage.kept()
        return Tidings(
            cut_records=storage.cut_records,
            cut_messages=storage.cut_messages,
            kept_files=kept.files,
            kept_bytes=kept.nbytes,
            kept_damaged=kept.damaged,
            doubt=storage.log.doubt > 0,
        )

    # Becoming a member

    async def _live(self) -> None:
        """Be a member. With a directory that is damaged be none, until that is put aside, and another one is in its place."""
        while True:
            if self._damage is None:
                await self._be_member()
                self._met_damage(await self._met)
                await self._leave()
            assert self._damage is not None
            await self._be_damaged(self._damage)
            self._damage, self._met = None, self._loop.create_future()
            await self._open()

    def _met_damage(self, damage: Damage) -> None:
        self._damage = damage
        logger.critical(
            "this node has met damage, and leaves its cluster until it is filled anew (penstock cluster heal %s): %s",
            self.plan.name,
            damage,
        )

    async def _leave(self) -> None:
        """Lead and follow no more: what was said of the directory does not hold any more."""
        assert self.node is not None
        await self.node.stop()
        self._door.leader({})
        self._door.troubled(f"this node has met damage: {self._damage}")
        await self.service.follow()
        self.node = self._links = None
        await self._end()
        try:
            await self._close()
        except StorageError as error:
            logger.info("the directory is let go of: %s", error)

    async def _be_damaged(self, damage: Damage) -> None:
        """Until whoever leads has it filled anew: then its directory is empty."""
        assert self._register is not None
        self._door.troubled(f"this node has met damage: {damage}")
        whose = await asyncio.to_thread(whose_replica, self._directory) or Whose(None, None)
        self.told.own = Tidings(str(damage), self.config.cluster_auto_heal and damage.known)
        self.damaged = DamagedNode(self.plan, self._keys, self._register, whose, self.told)
        try:
            await self.damaged.healed()
        finally:
            self.damaged, self.told.own = None, NOTHING
        folder = await asyncio.to_thread(put_aside, self._directory)
        self._door.troubled("")
        logger.warning("the damaged journal lies in %s now, and this node waits to be filled anew", folder)

    async def _be_member(self) -> None:
        assert self._register is not None
        listen = self._machine.listen_to_nodes
        self._finder = ClusterFinder(
            self.plan, self._keys, self._register, self.storage, heals=self._heals, listen=listen
        )
        version, document = await self._finder.found()
        journal = self.storage.journal
        if document.mode != ASYNC and self.config.sync != "always":
            raise LocalProtocolError(
                f"the mode of this cluster is {document.mode!r}, and a node that forgets what it has answered breaks what that promises: "
                "use --sync always"
            )
        shipping = NodeShipping(self.storage, self._options)
        await shipping.join(document.cluster)
        me = Identity(
            document.cluster, journal.directory_id, self.plan.name, self.plan.replication, os.urandom(START_BYTES)
        )
        relay = _Relay(self.told)
        links = ClusterLinks(
            me,
            self.plan.links,
            self._keys,
            relay,
            make_record=ShippedRecord,
            chance=self._machine.chance(),
            listen=listen,
        )
        work = NodeWork(
            self.storage, self.service, links, shipping, self._leader_known, self.room.behind, lambda: self.room.full
        )
        writer = f"{self.plan.name}-{os.urandom(8).hex()}"
        replica = Replica(self._loop.time(), journal.directory_id, self.storage.log, writer, self._machine.limits)
        replica.takeover.knows(version, document)
        node = Node(replica, work, links, self._register, self._fail)
        work.node = node
        relay.begin(node, work)
        self.storage.start(NodeHooks(node.appended, node.synced, self._fail))
        await links.start()
        self._as_member.push_async_callback(self._end_member, node, work, links)
        self.node, self._links = node, links
        self.told.begin(links)
        node.start()
        self.room.start()
        self._as_member.callback(self.room.stop)

    async def _end_member(self, node: Node, work: NodeWork, links: ClusterLinks) -> None:
        await node.stop()
        await work.close()
        self.told.end()
        await links.close()

    def _life_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error if isinstance(error, Exception) else RuntimeError(str(error)))

    # While it is one

    def _make_broker(self, storage: LeaderStorage) -> Broker:
        leadership = Leadership(cluster=self.administration, files=self._files)
        leadership.lead()
        listeners = configured_listeners(self.config)
        return Broker(
            self.config, storage=storage, listen=self._machine.listen, listeners=listeners, leadership=leadership
        )

    def _leader_known(self, directory: str) -> None:
        document = None if self.node is None else self.node.replica.document
        found: dict[str, list[str]] = {}
        for member in () if document is None else document.members.values():
            if member.directory == directory:
                found = {name: [place] for name, place in member.places._asdict().items() if place is not None}
        # Where it is not known who leads, a former leader's address would have clients go there in vain.
        self._door.leader(found)

    def _pending(self) -> int:
        return self.storage.journal.pending_bytes

    def _room_changed(self, full: bool) -> None:
        self.storage.spare_room(full)
        if self.node is not None:
            self.node.room(full)

    def _fail(self, error: Exception) -> None:
        """It cannot go on: the process ends. Where its directory is damaged, it goes on as no member."""
        if self._met.done():
            logger.info("this node is about to leave for damage: %s", error)
        elif self.node is not None and (damage := damage_of(error, self._directory)) is not None:
            self._met.set_result(damage)
            # Whoever is here is told, and the next start has to know of the place.
            self.storage.fail(error)
        elif not self._ended.done():
            self._ended.set_exception(error)


class _Relay:
    """What links tell goes to the transfers or to the node, from when that is there."""

    def __init__(self, told: Told) -> None:
        self._told = told

    def begin(self, node: Node, work: NodeWork) -> None:
        self._node = node
        self._work = work

    def connected(self, peer: str) -> None:
        self._told.connected(peer)
        self._node.connected(peer)

    def lost(self, peer: str) -> None:
        self._node.lost(peer)

    def received(self, peer: str, message: object) -> None:
        if not (self._work.transfers.received(peer, message) or self._told.received(peer, message)):
            self._node.received(peer, message)  # type: ignore[arg-type]  # what is of no transfer is of the vocabulary

    def unknown(self, peer: str, name: str) -> None:
        self._node.unknown(peer, name)
