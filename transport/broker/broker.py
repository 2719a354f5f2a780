"""The broker: its listeners, the queues, and the connections between them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

from actors import QueueDirectory, StorageError
from actors.storage import DurableMap, MemoryMap, Storage, storage_options
from actors.storage.failures import LeadershipLostError
from transport.broker import audit
from transport.broker.acceptor import Listen, listen
from transport.broker.backups import Backups
from transport.broker.broker_connection import native_listeners
from transport.broker.certificates import Certificates, key_readers
from transport.broker.commands import Commands
from transport.broker.descriptors import connections_allowed
from transport.broker.enlisted import EnlistedTotal
from transport.broker.entrance import Entrance
from transport.broker.epochs import epoch_at
from transport.broker.leadership import Leadership
from transport.broker.listener import Host, Listener
from transport.broker.listings import Listed
from transport.broker.memory import collect_young, memory_limit, resident_bytes
from transport.broker.opened_files import open_files
from transport.broker.operations import Operations, Services
from transport.broker.port import Tasks
from transport.broker.publishers import Publishers
from transport.broker.readiness import why_unready
from transport.broker.reload import Reloads
from transport.broker.served import SHUTTING_DOWN, Connections, Served
from transport.broker.takers import Takers
from transport.broker.watermarks import Watermarks
from transport.config.config import BrokerConfig
from transport.config.exposure import check_listener, problems_together, warnings_of
from transport.errors import LocalProtocolError
from transport.picture.metrics import Metrics
from transport.picture.sampler import Sampler
from transport.security.users_file import UsersFileError
from transport.shell.ends import LINGER
from transport.shell.partial_frames import LOOK_SECONDS, PartialFrames, partial_bytes_limit
from transport.shell.turns import Turns
from transport.shell.unsent import UnsentTotal, unsent_bytes_limit
from transport.wire.address import Address
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.messages import VERSION, Options, Welcome
from transport.wire.version import installed_version

SHUTDOWN_TIMEOUT = 5.0
"""Seconds that connections have to take their last frame when the broker stops."""
CUT_TIMEOUT = 1.0
"""Seconds in which the loop must have ended those that had not; there is nothing in it to wait for."""
LAST_WORDS_SHARE = 0.25
"""Of the time that a drain has, at most: what is kept for those who have to be told though they had not been heard out."""

logger = logging.getLogger("penstock.broker")


class Broker:
    """A broker on the running event loop; an async context manager.

    ``async with Broker(config) as broker: await broker.serve_forever()``

    Attributes:
        config: its options.
        queues: its queues.
        memory: the map beside them, for gateways: in its storage, or in memory where the queues are.
        watermarks: how it stands with memory and disk.
        partial: frames of all connections that are not complete, or wait to be handled.
        unsent: what waits for the sockets of all connections.
        reloads: what it can read anew while it runs.
        enlisted: what transactions have enlisted and not committed.
        epoch: greater at each start.
        version: the distribution's version.

    Args:
        config: its options.
        storage: where its queues are durable, instead of what the options say.
        listen: how it listens, instead of on the machine's network.
        listeners: where it takes connections, of which protocols, in place of `native_listeners` at the addresses of the options. A broker
            that is to have those too is given ``[*native_listeners(send, receive), mine]``, one with gateways `configured_listeners`.
        queue_directory: makes its queues, from the arguments of `QueueDirectory`; tests give one that watches them.
        leadership: of one that is in a cluster: whether it leads. As long as it does not, it lets nobody in.

    Raises:
        LocalProtocolError: the options ask for a gateway, and ``listeners`` are not given.
    """

    def __init__(
        self,
        config: BrokerConfig | None = None,
        *,
        storage: Storage | None = None,
        listen: Listen = listen,
        listeners: Sequence[Listener[Any]] | None = None,
        queue_directory: Callable[..., QueueDirectory] = QueueDirectory,
        leadership: Leadership | None = None,
    ) -> None:
        self._queue_directory = queue_directory
        self.config = config or BrokerConfig()
        config = self.config
        if listeners is None and config.gateways:
            raise LocalProtocolError(
                "the options ask for a gateway: give the broker listeners=configured_listeners(config), of transport.gateways.listeners"
            )
        self._listeners = (
            native_listeners(config.send_address, config.receive_address) if listeners is None else listeners
        )
        self._storage = storage
        self._leadership = leadership
        self._listen_on = listen
        self._connections = Connections(self.config.max_connections)
        self.epoch = epoch_at(time.time())
        self.version = installed_version() or "unknown"
        self.queues: QueueDirectory
        self.memory: DurableMap
        self.watermarks: Watermarks
        self._loop: asyncio.AbstractEventLoop
        self._turns: Turns
        self._served = False
        self._started_at = 0.0
        self.enlisted = EnlistedTotal()
        self.reloads = Reloads()
        self._looking: asyncio.TimerHandle | None = None
        self.partial = PartialFrames(partial_bytes_limit(memory_limit()), self._look_later)
        self.unsent = UnsentTotal(unsent_bytes_limit(memory_limit()))
        self._tasks = Tasks()
        self._publishers = Publishers()
        self._sampler: Sampler
        self._metrics: Metrics
        self._ends_at: float | None = None
        self._entrance: Entrance
        self._certificates = Certificates(config, None if leadership is None else leadership.files)
        if config.users_file is not None:
            self.reloads.add("users", lambda _: self._entrance.reload())
        if config.tls_certificate is not None:
            self.reloads.add("certificates", lambda _: self._certificates.reload())
        self._stopping: asyncio.Future[None]

    async def __aenter__(self) -> Self:
        """Recover what is stored and bind every address.

        Raises:
            LocalProtocolError: the users or the certificates cannot be read, or strangers could reach a listener and use it.
            StorageError: what is stored cannot be opened.
            OSError: an address is taken; the text names the settings that say another.
            LimitExceededError: this process may have too few files open.
        """
        self._loop = asyncio.get_running_loop()
        self._started_at = self._loop.time()
        self._turns = Turns(self._loop, collect_young)
        self._stopping = self._loop.create_future()
        self._entrance = Entrance(self.config.users_file, self._connections, self.now, self.config.max_unauthenticated)
        self._entrance.leadership = self._leadership
        self._check_settings()
        await open_files(self._entrance, self._certificates, self._leadership)
        if self._storage is None and self.config.directory is not None:
            self._storage = _open_storage(self.config, self.config.directory)
        storage = self._storage
        self.memory = MemoryMap() if storage is None else storage
        if storage is not None:
            storage.start(self._storage_failed)
            self.epoch = storage.epoch
        async with AsyncExitStack() as undo:
            undo.callback(self._entrance.close)
            self._entrance.watch()
            if storage is not None:
                undo.callback(storage.close)
            self.queues = self._queue_directory(
                self.config.queue_settings(),
                time.time,
                self.config.max_queues,
                storage,
                self.config.declared_queues(),
                transaction_timeout=self.config.transaction_timeout,
            )
            undo.push_async_callback(self.queues.stop)
            self._takers = Takers(self.queues.acknowledged)
            self.watermarks = Watermarks(self.config, storage.directory if storage is not None else None, self.queues)
            undo.callback(self.watermarks.stop)
            self.watermarks.start(self._loop)
            self._limit_connections()
            if len(self.queues) > self.config.max_queues:
                self._warn_once_started(
                    f"there are {len(self.queues)} queues, more than the {self.config.max_queues} of max_queues: clients can make no more; "
                    "delete some, or raise it"
                )
            undo.callback(self._close_listeners)
            host = self._host()
            for listener in self._listeners:
                try:
                    await listener.start(host)
                except OSError as error:
                    raise _unbound(error, self.config) from error
            self._look_who_can_reach()
            undo.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Tell every client and stop; raises StorageError where the journal cannot be closed in good order."""
        self.watermarks.stop()
        self._close_listeners()
        self._connections.ending = True
        self._takers.end()
        self._publishers.end()
        self._sampler.end()
        self._metrics.end()
        self._tasks.cancel()
        self._entrance.close()
        for connection in list(self.connections.values()):
            connection.refused(*SHUTTING_DOWN)
        if not await self._connections.all_gone(
            SHUTDOWN_TIMEOUT if self._ends_at is None else self._ends_at - self.now()
        ):
            for connection in list(self.connections.values()):
                connection.cut()
            await self._connections.all_gone(CUT_TIMEOUT)
        if self._looking is not None:
            self._looking.cancel()
        await self.queues.stop()
        if not self._stopping.done():
            self._stopping.set_result(None)
        elif not self._stopping.cancelled():
            # Whoever serves has been told; whoever does not has been told by the log.
            self._stopping.exception()
        if self._storage is not None:
            self._storage.close()

    async def serve_forever(self) -> None:
        """Wait until the broker is stopped or this is cancelled; raises StorageError when nothing can be stored any more."""
        self._served = True
        try:
            await asyncio.shield(self._stopping)
        finally:
            self._served = False

    async def drain(self, seconds: float) -> None:
        """Come to an end in good order, within ``seconds`` with what leaving the broker takes; leave it then.

        Nothing new is accepted, granted or delivered. What clients had sent is stored and confirmed, what they asked for is answered, what
        receivers hold goes back without a failure, and each is told to connect again later.
        """
        self._ends_at = self.now() + seconds
        deadline = self._ends_at - min(LINGER, seconds * LAST_WORDS_SHARE)
        self._connections.ending = True
        self._takers.drain()
        self._publishers.drain()
        self._sampler.end()
        await asyncio.gather(*(listener.drain(deadline) for listener in self._listeners))
        await self._tasks.finished(deadline - self.now())

    def lead_no_more(self) -> None:
        """Its node leads the cluster no more: those inside are told so, each in the words of its protocol, and go."""
        if self._leadership is not None:
            self._leadership.follow()

    def leave_within(self, seconds: float) -> None:
        """However slowly its clients take their leave, whoever ends it does not wait for them for longer than so many seconds from now."""
        ends_at = self.now() + seconds
        self._ends_at = ends_at if self._ends_at is None else min(ends_at, self._ends_at)

    async def reload_users(self) -> bool:
        """Read the users file anew; whether that was possible. Where it was not, the users stay as they were, and the log says why.

        Connections that came in with what is good no longer, or do what they may no longer do, are ended; no others are disturbed.
        """
        try:
            await self._entrance.reload()
        except UsersFileError as error:
            audit.not_read("users", error)
            return False
        return True

    async def reload_certificates(self) -> bool:
        """Read the certificate, its key and the client CA anew, for those who connect from then on; as of `reload_users`."""
        try:
            await self._certificates.reload()
        except LocalProtocolError as error:
            audit.not_read("certificates", error)
            return False
        return True

    @property
    def send_address(self) -> str:
        """Where senders connect, with the port that was really bound; still told when the broker has ended."""
        return str(self.addresses("send")[0])

    @property
    def receive_address(self) -> str:
        """Where receivers connect, with the port that was really bound; still told when the broker has ended."""
        return str(self.addresses("receive")[0])

    def addresses(self, name: str) -> tuple[Address, ...]:
        """Where the listener ``name`` takes connections; LookupError where there is none, or it has not started."""
        for listener in self._listeners:
            if listener.name == name and listener.addresses:
                return listener.addresses
        raise LookupError(f"this broker has no listener {name!r} that has started")

    @property
    def connections(self) -> dict[int, Served[Any]]:
        """Every connection that stands, by number; to be looked at only."""
        return self._connections.standing

    @property
    def max_connections(self) -> int:
        """How many there may be: as configured, or fewer where the limit of open files allows fewer."""
        return self._connections.most

    @property
    def uptime(self) -> float:
        """Seconds since the start."""
        return self.now() - self._started_at

    def now(self) -> float:
        """Monotonic seconds, the loop's."""
        return self._loop.time()

    def id_prefix(self, queue: str) -> bytes:
        """The first 8 bytes of the ids generated for ``queue``'s messages: the store's, which outlives the broker, and the queue's."""
        store = self.epoch if self._storage is None else self._storage.store_id
        return store.to_bytes(4, "big") + self.queues.number_of(queue).to_bytes(4, "big")

    # Inside

    def _storage_failed(self, error: StorageError) -> None:
        """Nothing is confirmed any more: accept nothing, tell everybody, and have whoever serves end the process."""
        if not self._served and not isinstance(error, LeadershipLostError):
            logger.critical("the broker stops: %s", error)
        self._close_listeners()
        for connection in list(self.connections.values()):
            connection.refused("journal-failed", f"the broker can store nothing any more and stops: {error}")
        if not self._stopping.done():
            self._stopping.set_exception(error)

    def _services(self) -> Services:
        """What the door opens on."""
        backups = Backups(self._storage, lambda: self.watermarks.disk.reached)
        listed = Listed(self.queues, self.connections, self.now, lambda: self._entrance.users)
        self._sampler = Sampler(self.queues, self.now)
        self._metrics = Metrics(self.queues, self._connections, self._describe)
        unready = partial(why_unready, self._connections, self._storage, self._leadership)
        commands = Commands(listed, self._describe, self.id_prefix, backups, self._sampler, self._metrics, unready)
        commands.cluster = self._metrics.cluster = None if self._leadership is None else self._leadership.cluster
        return Services(
            self.queues,
            self.enlisted,
            commands,
            self.id_prefix,
            self._tasks,
            self.memory,
            self._takers,
            self._publishers,
        )

    def _describe(self) -> dict[str, Any]:
        """What ``stats`` says of the broker itself."""
        return {
            "version": self.version,
            "epoch": self.epoch,
            "uptime_s": round(self.uptime, 3),
            "rss_bytes": resident_bytes(),
            "connections": len(self.connections),
            **self.watermarks.statistics(),
        }

    def _greet(self, options: Options) -> Welcome:
        """WELCOME, with what every role is told beside ``options``."""
        options |= {"max_frame": MAX_FRAME_BYTES, "heartbeat_ms": max(1, round(self.config.heartbeat * 1000))}
        return Welcome(VERSION, self.epoch, options)

    def _limit_connections(self) -> None:
        self._connections.most = connections_allowed(self.config.max_connections)
        if self.max_connections < self.config.max_connections:
            self._warn_once_started(
                f"the limit of open files (ulimit -n) allows {self.max_connections} connections, not the "
                f"{self.config.max_connections} of max_connections: raise it, or set fewer"
            )

    def _check_settings(self) -> None:
        for _, problem in problems_together(self.config):
            raise LocalProtocolError(problem)
        for listener in self._listeners:
            check_listener(f"listener {listener.name}", listener.wanted, self.config, protected=listener.protected)

    def _look_who_can_reach(self) -> None:
        """Refuse what a name has turned out to stand for, as its address would have been; where it is allowed, say so."""
        listening = []
        for listener in self._listeners:
            for address in listener.addresses:
                check_listener(f"listener {listener.name}", address, self.config, protected=listener.protected)
                listening.append((address, listener.protected))
        for text in warnings_of(listening, self.config):
            self._warn_once_started(text)
        if (text_of_key := key_readers(self.config)) is not None:
            self._warn_once_started(text_of_key)

    def _warn_once_started(self, text: str) -> None:
        """Say ``text`` behind whatever the program says first of a broker that stands."""
        self._loop.call_soon(logger.warning, "%s", text)

    def _host(self) -> Host:
        """What the listeners are given."""
        return Host(
            self._loop,
            self.config.heartbeat,
            self._connections,
            self._turns,
            self.partial,
            self.unsent,
            self._listen_on,
            partial(Operations, self._services()),
            self._greet if self._leadership is None else self._leadership.begin(self._connections, self._greet),
            self._entrance,
            lambda: self._certificates.context,
            self.memory,
            self.epoch,
        )

    def _look_later(self) -> None:
        """Somebody waits for the memory of frames that are not complete: end those that do not go on."""
        if self._looking is None:
            self._looking = self._loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._looking = None
        if self.partial.look():
            self._look_later()

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()


def _unbound(error: OSError, config: BrokerConfig) -> OSError:
    """An error of the same number that says how a program has the broker listen elsewhere; its cause is ``error``."""
    settings = ", ".join(f"{name}=..." for name in config.addresses())
    advice = f"choose others with BrokerConfig({settings}); port 0 takes any that is free"
    return OSError(error.errno, f"{error.strerror or error}; {advice}")


def _open_storage(config: BrokerConfig, directory: str) -> Storage:
    options = storage_options(segment_bytes=config.segment_bytes, sync=config.sync, sync_interval=config.sync_interval)
    return Storage.open(Path(directory), options, cache_bytes=config.cache_bytes)
