"""The broker: two listening addresses, the queues, and the connections between them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from actors import QueueDirectory, StorageError
from actors.storage import Storage, storage_options
from transport.broker.administration_commands import LONG_AT_ONCE, refusal, run_command
from transport.broker.broker_connection import BrokerConnection, RefusalError
from transport.broker.descriptors import POLITE_REFUSALS, connections_allowed
from transport.broker.enlisted import EnlistedTotal
from transport.broker.listener import Listen, Listening, listen
from transport.broker.memory import memory_limit
from transport.broker.watermarks import Watermarks
from transport.config.config import BrokerConfig
from transport.errors import LimitExceededError
from transport.shell.connection import FrameConnection
from transport.shell.partial_frames import LOOK_SECONDS, PartialFrames, partial_bytes_limit
from transport.shell.turns import Turns
from transport.shell.unsent import UnsentTotal, unsent_bytes_limit
from transport.wire.address import Address, parse_address
from transport.wire.codec import encode
from transport.wire.messages import Command, Error, Result
from transport.wire.protocol import RECEIVING_ROLES, SENDING_ROLES, Protocol, Side
from transport.wire.version import installed_version

SHUTDOWN_TIMEOUT = 5.0
"""Seconds that connections have to take their last frame when the broker stops."""
SHUTTING_DOWN = ("shutting-down", "the broker is stopping; connect again later")
EPOCH_START = 1_577_836_800
"""2020-01-01 in Unix time, where epochs are counted from."""
EPOCHS_A_SECOND = 8
"""A broker in memory cannot count its starts; none restarts faster. 32 bits hold them until 2037, and begin anew then."""
EPOCHS = 1 << 32
"""What the ids of messages have room for."""

logger = logging.getLogger("penstock.broker")


class Broker:
    """A broker on the running event loop; an async context manager.

    ``async with Broker(config) as broker: await broker.serve_forever()``

    Attributes:
        config: its options.
        queues: its queues.
        watermarks: how it stands with memory and disk.
        connections: every connection by number.
        max_connections: how many there may be: as configured, or fewer where the limit of open files allows fewer.
        long_commands: who may make a long answer now; the others wait.
        partial: frames of all connections that are not complete, or wait to be handled.
        unsent: what waits for the sockets of all connections.
        enlisted: what transactions have enlisted and not committed.
        epoch: greater at each start.
        version: the distribution's version.

    Args:
        config: its options.
        storage: where its queues are durable, instead of what the options say.
        listen: how it listens, instead of on the machine's network.
    """

    def __init__(
        self, config: BrokerConfig | None = None, *, storage: Storage | None = None, listen: Listen = listen
    ) -> None:
        self.config = config or BrokerConfig()
        self.max_connections = self.config.max_connections
        self._storage = storage
        self._listen_on = listen
        self.connections: dict[int, BrokerConnection] = {}
        self.epoch = epoch_at(time.time())
        self.version = installed_version() or "unknown"
        self.queues: QueueDirectory
        self.watermarks: Watermarks
        self._loop: asyncio.AbstractEventLoop
        self._turns: Turns
        self._servers: list[Listening] = []
        self._bound: list[str] = []
        self._accepted: set[int] = set()
        self._ending = False
        self._served = False
        self._next_number = 0
        self._started_at = 0.0
        self.enlisted = EnlistedTotal()
        self._looking: asyncio.TimerHandle | None = None
        self.partial = PartialFrames(partial_bytes_limit(memory_limit()), self._look_later)
        self.unsent = UnsentTotal(unsent_bytes_limit(memory_limit()))
        self.long_commands = asyncio.Semaphore(LONG_AT_ONCE)
        self._commands: set[asyncio.Task[None]] = set()
        self._transactions: set[asyncio.Task[None]] = set()
        self._stopping: asyncio.Future[None]
        self._drained: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        """Recover what is stored and bind both addresses.

        Raises:
            StorageError: what is stored cannot be opened.
            OSError: an address is taken.
            LimitExceededError: this process may have too few files open.
        """
        self._loop = asyncio.get_running_loop()
        self._started_at = self._loop.time()
        self._turns = Turns(self._loop)
        self._stopping = self._loop.create_future()
        if self._storage is None and self.config.directory is not None:
            self._storage = _open_storage(self.config, self.config.directory)
        storage = self._storage
        if storage is not None:
            storage.start(self._storage_failed)
            self.epoch = storage.epoch
        async with AsyncExitStack() as undo:
            if storage is not None:
                undo.callback(storage.close)
            self.queues = QueueDirectory(
                self.config.queue_settings(),
                time.time,
                self.config.max_queues,
                storage,
                self.config.queues,
                transaction_timeout=self.config.transaction_timeout,
            )
            undo.push_async_callback(self._stop_queues)
            self.watermarks = Watermarks(self.config, storage.directory if storage is not None else None, self.queues)
            undo.callback(self.watermarks.stop)
            self.watermarks.start(self._loop)
            self._limit_connections()
            if len(self.queues) > self.config.max_queues:
                self._warn_once_started(
                    f"there are {len(self.queues)} queues, more than the {self.config.max_queues} of max_queues: clients can make no more; "
                    "delete some, or raise it"
                )
            undo.callback(self._close_servers)
            for address, roles in (
                (self.config.send_address, SENDING_ROLES),
                (self.config.receive_address, RECEIVING_ROLES),
            ):
                server = await self._listen(parse_address(address), roles)
                self._servers.append(server)
                self._bound.append(str(Address(*server.sockets[0].getsockname()[:2])))
            self._warn_of_strangers()
            undo.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Tell every client and stop; raises StorageError where the journal cannot be closed in good order."""
        self.watermarks.stop()
        self._close_servers()
        self._ending = True
        for task in self._commands | self._transactions:
            task.cancel()
        for connection in list(self.connections.values()):
            connection.refused(*SHUTTING_DOWN)
        if self._accepted:
            # Those too that are accepted and do not stand yet: they are told when they do.
            self._drained = self._loop.create_future()
            await asyncio.wait([self._drained], timeout=SHUTDOWN_TIMEOUT)
        if self._looking is not None:
            self._looking.cancel()
        await self._stop_queues()
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

    @property
    def send_address(self) -> str:
        """Where senders connect, with the port that was really bound; still told when the broker has ended."""
        return self._bound[0]

    @property
    def receive_address(self) -> str:
        """Where receivers connect, with the port that was really bound; still told when the broker has ended."""
        return self._bound[1]

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

    # For its connections

    def add_connection(self, connection: BrokerConnection) -> None:
        """Take it in; raises LimitExceededError where there is no room, and BrokerError where the broker stops."""
        if self._ending:
            raise RefusalError(*SHUTTING_DOWN)
        if len(self.connections) >= self.max_connections:
            raise LimitExceededError(self._too_many())
        self.connections[connection.number] = connection

    def remove_connection(self, connection: BrokerConnection) -> None:
        """Forget it."""
        self._accepted.discard(connection.number)
        self.connections.pop(connection.number, None)
        if not self._accepted and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def command(self, connection: BrokerConnection, frame: Command) -> asyncio.Task[None]:
        """Run an administrative command and answer it; each connection has one under way at most."""
        task = self._loop.create_task(self._run_command(connection, frame), name=f"command {frame.name:.40}")
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)
        return task

    def end_transaction(self, work: Coroutine[None, None, None]) -> None:
        """Commit or abort, whatever becomes of the connection that asked; each has one under way at most."""
        task = self._loop.create_task(work, name="end a transaction")
        self._transactions.add(task)
        task.add_done_callback(self._transactions.discard)

    # Inside

    def _storage_failed(self, error: StorageError) -> None:
        """Nothing is confirmed any more: accept nothing, tell everybody, and have whoever serves end the process."""
        if not self._served:
            logger.critical("the broker stops: %s", error)
        for server in self._servers:
            server.close()
        for connection in list(self.connections.values()):
            connection.refused("journal-failed", f"the broker can store nothing any more and stops: {error}")
        if not self._stopping.done():
            self._stopping.set_exception(error)

    async def _run_command(self, connection: BrokerConnection, frame: Command) -> None:
        try:
            connection.send(Result(frame.request, await run_command(self, frame.name, frame.arguments)))
        except Exception as error:
            known = refusal(error)
            if known is None:
                logger.error("command %s failed on a defect of ours", frame.name, exc_info=error)
                known = ("internal-error", "the command failed; the broker's log has the reason")
            connection.send(Error(*known, close=False))
        finally:
            connection.go_on()

    def _limit_connections(self) -> None:
        self.max_connections = connections_allowed(self.config.max_connections)
        if self.max_connections < self.config.max_connections:
            self._warn_once_started(
                f"the limit of open files (ulimit -n) allows {self.max_connections} connections, not the "
                f"{self.config.max_connections} of max_connections: raise it, or set fewer"
            )

    def _warn_of_strangers(self) -> None:
        bound = [Address(*each.getsockname()[:2]) for server in self._servers for each in server.sockets]
        if reachable := [str(address) for address in bound if not address.is_loopback]:
            self._warn_once_started(
                f"anybody who reaches {' or '.join(reachable)} may read, write and delete everything here: "
                "there is no authentication yet; let only those reach it whom you trust"
            )

    def _warn_once_started(self, text: str) -> None:
        """Say ``text`` behind whatever the program says first of a broker that stands."""
        self._loop.call_soon(logger.warning, "%s", text)

    def _too_many(self) -> str:
        more = "raise max_connections" if self.max_connections == self.config.max_connections else "raise ulimit -n"
        return f"{self.max_connections} connections are open, which is the limit; close some, or {more}"

    async def _listen(self, address: Address, roles: frozenset[str]) -> Listening:
        last_words = b"".join(encode(Error("limit-exceeded", self._too_many(), close=True)))
        return await self._listen_on(
            lambda: self._accept(roles), self._has_room, last_words, address.host, address.port
        )

    def _look_later(self) -> None:
        """Somebody waits for the memory of frames that are not complete: end those that do not go on."""
        if self._looking is None:
            self._looking = self._loop.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._looking = None
        if self.partial.look():
            self._look_later()

    def _has_room(self) -> bool:
        """Whether one more may be accepted; some above the limit are, to be refused in good order."""
        return len(self._accepted) < self.max_connections + POLITE_REFUSALS

    def _accept(self, roles: frozenset[str]) -> FrameConnection:
        protocol = Protocol(Side.BROKER, roles)
        number = self._next_number
        self._next_number += 1
        self._accepted.add(number)
        handler = BrokerConnection(self, protocol, number, self._loop.time())
        heartbeat = self.config.heartbeat
        return FrameConnection(protocol, handler, self._loop, heartbeat, self._turns, self.partial, self.unsent)

    def _close_servers(self) -> None:
        for server in self._servers:
            server.close()

    async def _stop_queues(self) -> None:
        for queue in self.queues.values():
            await queue.stop(block=False)


def epoch_at(now: float) -> int:
    """The epoch of a broker in memory that starts at ``now``, seconds since 1970; whatever the clock says, it fits the messages' ids.

    It grows from one start to the next but where it begins anew: in 2037, and at the beginning of 2020 for a clock that was set before.
    """
    return int((now - EPOCH_START) * EPOCHS_A_SECOND) % EPOCHS


def _open_storage(config: BrokerConfig, directory: str) -> Storage:
    options = storage_options(segment_bytes=config.segment_bytes, sync=config.sync, sync_interval=config.sync_interval)
    return Storage.open(Path(directory), options, cache_bytes=config.cache_bytes)
