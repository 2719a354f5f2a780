"""A broker's life in a thread of its own: how it starts, ends, is killed, and is asked something from other threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from actors import StorageError
from actors.storage import Storage, TroubledFiles, storage_options
from transport.broker.broker import Broker
from transport.config.config import BrokerConfig
from transport.errors import LocalProtocolError
from transport.gateways.listeners import configured_listeners
from transport.testing.jumping_loop import JumpingLoop
from transport.testing.watched_queues import (
    WatchedQueues,
    Watching,
)

if TYPE_CHECKING:
    from transport.security.access import Access

DEADLINE = 10.0
"""Seconds that anything asked of a broker may take, unless told."""
HEARTBEAT = 3600.0
"""Seconds: three of them can be put forward before a connection counts as silent."""
DRAIN = 2.0
"""Seconds of an orderly end, at most: clients in a test are near."""
KILL_GRACE = 0.25
"""Seconds that a kill waits for the loop to break the connections before the disk dies under it."""
ANY_PORT = "127.0.0.1:0"
TEST_SETTINGS: Mapping[str, Any] = {
    "send_address": ANY_PORT,
    "receive_address": ANY_PORT,
    "heartbeat": HEARTBEAT,
    # What the machine that tests has in use, and has left, is no part of the test.
    "memory_watermark": 1.0,
    "disk_floor": 0,
}
"""Settings of a broker for tests, where they are not a broker's usual ones."""

T = TypeVar("T")


class Hosting:
    """A broker's life in a thread of its own; arguments and attributes as of `HostedBroker`."""

    __test__ = False

    def __init__(self, *, directory: Path | None = None, access: Access | None = None, **settings: Any) -> None:
        if "directory" in settings:
            raise LocalProtocolError("directory is given twice")
        kept = None if directory is None else str(directory)
        self._config = BrokerConfig(**{**TEST_SETTINGS, **settings, "directory": kept})
        self._access = access
        self._watching = Watching()
        self._ahead = 0.0
        self._files = TroubledFiles()
        self._broker: Broker | None = None
        self._loop: JumpingLoop | None = None
        self._thread: threading.Thread | None = None
        self._end: asyncio.Future[bool] | None = None
        self._ended = threading.Event()
        # Whoever ends it while another does waits, and finds it ended.
        self._ending = threading.Lock()
        self.running = False
        self.failure: StorageError | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- its life

    def start(self, within: float = DEADLINE) -> None:
        """Start it, at the addresses that it had before if it has ended.

        Raises:
            LocalProtocolError: it is running.
            OSError, StorageError, LocalProtocolError: it cannot start.
            TimeoutError: it has not started in time.
        """
        if self._thread is not None:
            if self.running:
                raise LocalProtocolError("the broker is running: stop() or kill() it first")
            self._join(within)
        self._files = TroubledFiles()
        self.failure = None
        self._ended.clear()
        started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="penstock-test-broker", daemon=True)
        self._thread.start()
        try:
            started.result(within)
        except concurrent.futures.TimeoutError:
            raise TimeoutError(f"the broker has not started within {within:g} s") from None
        except BaseException:
            self._join(within)
            raise

    def stop(self, within: float = DEADLINE) -> None:
        """End it in good order, as SIGTERM does: what was sent is stored, and clients are told."""
        with self._ending:
            self._finish(DRAIN, within)

    def close(self, within: float = DEADLINE) -> None:
        """End it at once, telling its clients; nothing where it has ended."""
        # Whatever the test has made of the disk, the test is over.
        self._files.slow(0)
        with self._ending:
            if self.running:
                # It may end by itself meanwhile, as on a disk that fails.
                with suppress(LocalProtocolError):
                    self._finish(0.0, within)
            self._join(within)

    def restart(self, within: float = DEADLINE) -> None:
        """`stop`, and `start`."""
        self.stop(within)
        self.start(within)

    def kill(self, within: float = DEADLINE) -> None:
        """End it as ``kill -9`` does: connections break, nothing more is written or synced. What was written to the disk is there still."""

        async def die() -> None:
            self._files.die()
            self._cut()
            self._say_end(True)

        dying = self._begin(die(), "killing the broker")
        concurrent.futures.wait([dying], KILL_GRACE)
        # A loop that stands in a slow sync hears of nothing else.
        self._files.die()
        self._join(within)

    def wait_for_end(self, within: float = DEADLINE) -> None:
        """Return when it has ended by itself, as it does on a disk that fails; TimeoutError where it does not."""
        if not self._ended.wait(within):
            raise TimeoutError(f"the broker has not ended within {within:g} s")
        self._join(within)

    @property
    def send_address(self) -> str:
        """Where senders and administrators connect; the same after a restart."""
        return self._config.send_address

    @property
    def receive_address(self) -> str:
        """Where receivers connect; the same after a restart."""
        return self._config.receive_address

    # --- inside

    def _run(self, started: concurrent.futures.Future[None]) -> None:
        with asyncio.Runner(loop_factory=partial(JumpingLoop, self._ahead)) as runner:
            try:
                runner.run(self._serve(started))
            except BaseException as error:
                if not started.done():
                    started.set_exception(error)
                elif isinstance(error, StorageError):
                    self.failure = error
                else:
                    raise
            finally:
                self.running = False
                self._files.let_go()
                self._ended.set()

    async def _serve(self, started: concurrent.futures.Future[None]) -> None:
        loop = self._loop = asyncio.get_running_loop()  # type: ignore[assignment]  # of the factory above
        assert isinstance(loop, JumpingLoop)
        config, storage = self._config, None
        if config.directory is not None:
            options = storage_options(
                segment_bytes=config.segment_bytes, sync=config.sync, sync_interval=config.sync_interval
            )
            storage = Storage.open(Path(config.directory), options, files=self._files, cache_bytes=config.cache_bytes)
        broker = Broker(
            config,
            storage=storage,
            listeners=configured_listeners(config),
            queue_directory=partial(_watched, self._watching, loop),
        )
        await broker.__aenter__()
        self._broker = broker
        # Where it starts again clients find it where it was.
        self._config = replace(config, send_address=broker.send_address, receive_address=broker.receive_address)
        end = self._end = loop.create_future()
        serving = asyncio.ensure_future(broker.serve_forever())
        self.running = True
        started.set_result(None)
        killed = False
        try:
            await asyncio.wait([end, serving], return_when=asyncio.FIRST_COMPLETED)
            killed = end.done() and end.result()
        finally:
            self.running = False
            # Nobody can store anything on the disk of a broker that was killed, itself included.
            unheard = (StorageError,) if killed else ()
            with suppress(*unheard):
                await broker.__aexit__(None, None, None)
            with suppress(*unheard):
                await serving

    def _say_end(self, killed: bool) -> None:
        if self._end is not None and not self._end.done():
            self._end.set_result(killed)

    def _finish(self, drain: float, within: float) -> None:
        async def end() -> None:
            if drain:
                await self._of_broker().drain(drain)
            self._say_end(False)

        self._call(end(), within, "ending the broker")
        self._join(within)

    def _join(self, within: float) -> None:
        thread = self._thread
        if thread is not None:
            thread.join(within)
            if thread.is_alive():
                raise TimeoutError(f"the broker has not ended within {within:g} s")
            self._thread, self._broker, self._loop, self._end = None, None, None, None

    def _call(self, work: Coroutine[Any, Any, T], within: float, what: str) -> T:
        """What ``work`` gives on the broker's loop."""
        future = self._begin(work, what)
        try:
            return future.result(within)
        except concurrent.futures.CancelledError:
            raise LocalProtocolError(f"{what}: the broker has ended meanwhile") from None
        except concurrent.futures.TimeoutError as error:
            if future.done() and not future.cancelled() and future.exception() is error:
                raise
            future.cancel()
            raise TimeoutError(f"{what}: not done within {within:g} s") from None

    def _begin(self, work: Coroutine[Any, Any, T], what: str) -> concurrent.futures.Future[T]:
        loop = self._loop
        if not self.running or loop is None:
            work.close()
            raise LocalProtocolError(f"{what}: the broker is not running; start() it")
        return asyncio.run_coroutine_threadsafe(work, loop)

    def _cut(self) -> int:
        connections = list(self._of_broker().connections.values())
        for connection in connections:
            connection.cut()
        return len(connections)

    def _of_broker(self) -> Broker:
        assert self._broker is not None, "it is there while its loop runs"
        return self._broker

    def _of_running(self) -> JumpingLoop:
        if not self.running or self._loop is None:
            raise LocalProtocolError("the broker is not running; start() it")
        return self._loop


def _watched(
    watching: Watching, loop: JumpingLoop, settings: Any, _wall: Callable[[], float], *rest: Any, **options: Any
) -> Any:
    """The directory of the broker's queues, on the clock that jumps."""
    return WatchedQueues(watching, settings, loop.wall_time, *rest, **options)
