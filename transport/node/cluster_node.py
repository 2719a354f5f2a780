"""A node of a cluster from its start to its end: it finds its cluster or forms it with others, then it follows and leads by turns."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from actors.replication.document import ASYNC, DocumentError
from actors.replication.forming import Form, Forming, Here, Join, Leave
from actors.replication.limits import LOOK_SECONDS
from actors.replication.register import RegisterError
from actors.replication.replica import Replica
from actors.storage import ShippedRecord, storage_options
from actors.storage.node_news import NodeHooks
from actors.storage.node_shipping import NodeShipping
from actors.storage.node_storage import NodeStorage
from transport.broker.broker import Broker
from transport.broker.last_good import FilesOfANode
from transport.broker.leadership import Leadership
from transport.broker.reload import Reloads
from transport.cluster.etcd import EtcdRegister
from transport.cluster.etcd_child import EtcdChild
from transport.cluster.hello import START_BYTES, Identity
from transport.cluster.link_settings import read_keys, warning_of
from transport.cluster.links import ClusterLinks
from transport.cluster.meeting import Meeting, ask, stranger
from transport.cluster.node import Node
from transport.cluster.node_work import NodeWork
from transport.cluster.plan import plan_of
from transport.config.cluster_together import without_cluster
from transport.errors import LocalProtocolError, TransportError
from transport.gateways.listeners import configured_listeners
from transport.node.administered import OTHER_PLACES, NodeAdministration
from transport.node.room import Room
from transport.node.service import Service
from transport.wire.address import parse_address

if TYPE_CHECKING:
    from actors.replication.document import ClusterDocument
    from actors.replication.register import Register
    from actors.storage.leader_storage import LeaderStorage
    from transport.broker.cluster_port import Cluster
    from transport.cluster.link_settings import LinkKeys
    from transport.config.config import BrokerConfig

DOOR_SECONDS: Final = 0.1
"""For those at a door to take their leave: who comes to lead waits for so long with opening its ports, be they silent or slow."""
ETCD_FOLDER: Final = "etcd"
"""In the data directory."""
LINK_KEYS: Final = "keys of the links"
REGISTER_KEYS: Final = "keys of the register"
"""What is read anew, as the log names it."""

logger = logging.getLogger("penstock.cluster")


class FollowerDoor:
    """What stands in the broker's place: one without anything stored, which tells whoever comes who leads."""

    def __init__(self, config: BrokerConfig, files: FilesOfANode | None = None) -> None:
        self._files = files
        # It keeps nothing, so it declares nothing.
        self._config = without_cluster(config, directory=None, queues={})
        self._leader: dict[str, list[str]] = {}
        self._cluster: Cluster | None = None
        self._leadership = Leadership()
        self.broker: Broker | None = None

    def shows(self, cluster: Cluster) -> None:
        """What administrators are told of the cluster here, from the next `open` on."""
        self._cluster = cluster

    async def open(self) -> None:
        """See `Door`."""
        self._leadership = Leadership(cluster=self._cluster, files=self._files)
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


class ClusterNode:
    """One node, on the running loop; an async context manager. ``serve_forever`` waits for its end.

    Attributes:
        config: of its broker.
        service: what clients meet.
        node: what carries out; once it is a member.

    Args:
        config: with ``cluster``.
        register: in the place of the one that ``cluster`` names.

    Raises:
        LocalProtocolError: the settings cannot be.
    """

    def __init__(self, config: BrokerConfig, *, register: Register | None = None) -> None:
        self.config = config
        self.plan = plan_of(config)
        self._keys: LinkKeys = read_keys(self.plan.links)
        self._register = register
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._files = FilesOfANode()
        self._door = FollowerDoor(config, self._files)
        self.service = Service(self._make_broker, self._door)
        self.storage: NodeStorage
        self.administration: NodeAdministration
        self.room: Room
        self._links: ClusterLinks | None = None
        self._meeting: Meeting | None = None
        self.node: Node | None = None
        self._kept = AsyncExitStack()
        self._said = ""
        self._member: asyncio.Task[None] | None = None

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
            self._options = storage_options(
                segment_bytes=config.segment_bytes,
                sync=config.sync,
                sync_interval=config.sync_interval,
                cluster_log_bytes=config.cluster_log_bytes,
            )
            self.storage = await asyncio.to_thread(
                lambda: NodeStorage.open(directory, self._options, cache_bytes=config.cache_bytes)
            )
            stack.push_async_callback(self.storage.close)
            if self.plan.own_etcd is not None:
                etcd = EtcdChild(self.plan.own_etcd, directory / ETCD_FOLDER, insecure=config.insecure)
                await etcd.start()
                stack.push_async_callback(etcd.stop)
            if self._register is None:
                self._register = EtcdRegister(self.plan.register)
            self.room = Room(directory, config.disk_floor, self._pending, self._room_changed)
            self.administration = self._administration(self._register)
            self._door.shows(self.administration)
            self.administration.start()
            stack.callback(self.administration.stop)
            await self.service.follow()
            self._member = asyncio.create_task(self._be_member())
            self._member.add_done_callback(self._member_ended)
            self._kept = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Have another node lead, if this one does, and end."""
        if self._member is not None and not self._member.done():
            self._member.cancel()
            await asyncio.gather(self._member, return_exceptions=True)
        failed = self._ended.done()
        try:
            if self.node is not None and failed:
                # Whoever leads next is not to wait for what cannot be kept any more.
                await self.node.stop()
            await self.service.drain(0.0 if failed else self.config.drain)
            if self.node is not None:
                await self.node.hand_over()
        finally:
            if not self._ended.done():
                self._ended.set_result(None)
            await self._kept.aclose()

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
        for each in (self._links, self._meeting, self.administration):
            if each is not None:
                each.use(self._keys)

    async def serve_forever(self) -> None:
        """Wait until the node cannot go on, or this is cancelled; raises why."""
        await asyncio.shield(self._ended)

    def _administration(self, register: Register) -> NodeAdministration:
        me = stranger(self.plan.name, self.storage.directory_id, self.plan.places[2])

        def connected() -> frozenset[str]:
            return frozenset() if self._links is None else self._links.connected

        return NodeAdministration(
            self.plan.name,
            me,
            self._keys,
            register,
            lambda: self.node,
            connected,
            lambda: self.storage.journal.appended_bytes,
            lambda: self.room.full,
        )

    # Becoming a member

    async def _be_member(self) -> None:
        version, document = await self._find_cluster()
        journal = self.storage.journal
        if document.mode != ASYNC and self.config.sync != "always":
            raise LocalProtocolError(
                f"the mode of this cluster is {document.mode!r}, and a node that forgets what it has answered breaks what that promises: "
                "use --sync always"
            )
        shipping = NodeShipping(self.storage, self._options)
        await shipping.join(document.cluster)
        me = Identity(
            document.cluster, journal.directory_id, self.plan.name, self.plan.places[2], os.urandom(START_BYTES)
        )
        relay = _Relay()
        links = self._links = ClusterLinks(me, self.plan.links, self._keys, relay, make_record=ShippedRecord)
        work = NodeWork(
            self.storage, self.service, links, shipping, self._leader_known, self.room.behind, lambda: self.room.full
        )
        writer = f"{self.plan.name}-{os.urandom(8).hex()}"
        replica = Replica(self._loop.time(), journal.directory_id, self.storage.log, writer)
        replica.takeover.knows(version, document)
        assert self._register is not None
        node = Node(replica, work, links, self._register, self._fail)
        work.node = node
        relay.begin(node, work)
        self.storage.start(NodeHooks(node.appended, node.synced, self._fail))
        await links.start()
        self._kept.push_async_callback(self._end_member, node, work, links)
        self.node = node
        node.start()
        self.room.start()
        self._kept.callback(self.room.stop)

    async def _end_member(self, node: Node, work: NodeWork, links: ClusterLinks) -> None:
        await node.stop()
        await work.close()
        await links.close()

    async def _find_cluster(self) -> tuple[int, ClusterDocument]:
        """Until the document names this directory."""
        plan, journal = self.plan, self.storage.journal
        writer = f"{plan.name}-{os.urandom(8).hex()}"
        copied = not journal.cluster_id and journal.next_lsn > 1 and journal.epoch_of(journal.next_lsn - 1) > 0
        forming = Forming(self._here(), plan.first, writer, lambda: os.urandom(16).hex(), plan.mode, copied=copied)
        me = stranger(plan.name, self.storage.directory_id, plan.places[2])
        meeting = self._meeting = Meeting(me, self._here, self._keys)
        await meeting.open(parse_address(plan.links.address))
        try:
            while True:
                step = await self._look(forming)
                if isinstance(step, Join):
                    return step.version, step.document
                if isinstance(step, Leave):
                    raise LocalProtocolError(step.why)
                if not isinstance(step, Form):
                    await self._rest(LOOK_SECONDS)
        finally:
            meeting.close()

    async def _rest(self, seconds: float) -> None:
        """Until so much time has passed; who stops the node cancels it."""
        rested = asyncio.Event()
        self._loop.call_later(seconds, rested.set)
        await rested.wait()

    async def _look(self, forming: Forming) -> object:
        """Read the register, and do what follows; what the next step is."""
        assert self._register is not None
        try:
            version, document = await self._register.read()
            if document is None and self.plan.name == min(self.plan.first, default=""):
                await self._meet(forming)
            step = forming.read(version, document)
            if isinstance(step, Form):
                logger.warning("this node forms the cluster of %s", ", ".join(step.document.members))
                await self._register.swap(version, step.document)
        except RegisterError as error:
            self._say(f"the register cannot be asked: {error}")
            return None
        except DocumentError as error:
            self._say(f"what the register holds is no document that this program knows: {error}")
            return None
        if not isinstance(step, Join | Form | Leave):
            self._say(step.why)
        return step

    async def _meet(self, forming: Forming) -> None:
        """Ask the others who they are."""
        plan = self.plan
        me = stranger(plan.name, self.storage.directory_id, plan.places[2])
        others = {name: address for name, address in plan.first.items() if name != plan.name}
        found = await asyncio.gather(
            *(ask(me, address, self._keys) for address in others.values()), return_exceptions=True
        )
        for name, here in zip(others, found, strict=True):
            if isinstance(here, Here) and here.name == name:
                forming.heard(here)
                continue
            forming.lost(name)  # what it said before may be of a directory that is gone
            if isinstance(here, Here):
                self._say(f"at {others[name]} there is the node {here.name!r}, and {name!r} was to be there")
            elif isinstance(here, TransportError):
                logger.info("the node %s: %s", name, here)
            else:
                raise here

    def _here(self) -> Here:
        journal = self.storage.journal
        return Here(self.plan.name, journal.cluster_id, journal.next_lsn, self.plan.member(journal.directory_id))

    def _say(self, why: str) -> None:
        """Say why nothing happens, when that is another reason than before."""
        if why != self._said:
            self._said = why
            logger.warning("this node waits: %s", why)

    def _member_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error if isinstance(error, Exception) else RuntimeError(str(error)))

    # While it is one

    def _make_broker(self, storage: LeaderStorage) -> Broker:
        leadership = Leadership(cluster=self.administration, files=self._files)
        leadership.lead()
        listeners = configured_listeners(self.config)
        return Broker(self.config, storage=storage, listeners=listeners, leadership=leadership)

    def _leader_known(self, directory: str) -> None:
        document = None if self.node is None else self.node.replica.document
        found: dict[str, list[str]] = {}
        for member in () if document is None else document.members.values():
            if member.directory == directory:
                found = {"send": [member.send], "receive": [member.receive]}
                found |= {name: [text] for name in OTHER_PLACES if (text := getattr(member, name)) is not None}
        # Where it is not known who leads, a former leader's address would have clients go there in vain.
        self._door.leader(found)

    def _pending(self) -> int:
        return self.storage.journal.pending_bytes

    def _room_changed(self, full: bool) -> None:
        self.storage.spare_room(full)
        if self.node is not None:
            self.node.room(full)

    def _fail(self, error: Exception) -> None:
        if not self._ended.done():
            self._ended.set_exception(error)


class _Relay:
    """What links tell goes to the transfers or to the node, from when that is there."""

    def begin(self, node: Node, work: NodeWork) -> None:
        self._node = node
        self._work = work

    def connected(self, peer: str) -> None:
        self._node.connected(peer)

    def lost(self, peer: str) -> None:
        self._node.lost(peer)

    def received(self, peer: str, message: object) -> None:
        if not self._work.transfers.received(peer, message):
            self._node.received(peer, message)  # type: ignore[arg-type]  # what is of no transfer is of the vocabulary

    def unknown(self, peer: str, name: str) -> None:
        self._node.unknown(peer, name)
