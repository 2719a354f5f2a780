"""Queues over a storage that commits when the test says so, and connections that keep what they are told."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import pytest

from actors.errors import StorageError
from actors.queue.queue_directory import QueueDirectory
from actors.queue.vocabulary.settings import DEFAULT_TRANSACTION_TIMEOUT, QueueSettings
from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_ref import LoopActorRef
from actors.runtime.loop_registry import LoopActorRegistry
from actors.storage import Storage
from journal import ManualCommitter, OsFiles
from journal.files import Buffer
from streams.testkit import run_in_virtual_time

Ref = LoopActorRef[Any]
Q = TypeVar("Q", bound="StoredQueues")


class Connection(LoopActor):
    """Keeps what it is told."""

    def __init__(self, told: list[Any]) -> None:
        super().__init__()
        self._told = told

    def on_receive(self, message: Any) -> None:
        self._told.append(message)


class BrokenFiles(OsFiles):
    """A disk that fails when the test says so."""

    def __init__(self) -> None:
        self.broken = False

    def write(self, file: int, parts: Sequence[Buffer], offset: int) -> int:
        if self.broken:
            raise OSError(errno.EIO, "Input/output error")
        return super().write(file, parts, offset)


async def turns() -> None:
    """Let everything that is under way on the loop come to its end."""
    for _ in range(20):
        await asyncio.sleep(0)


class StoredQueues:
    """A queue directory over a storage; without a folder it is in memory.

    Attributes:
        failures: what the storage has said of its own end.
        time_of_day: what the queues take it for.
    """

    def __init__(
        self,
        folder: Path | None,
        settings: QueueSettings | None = None,
        *,
        transaction_timeout: float = DEFAULT_TRANSACTION_TIMEOUT,
        **storage: Any,
    ) -> None:
        self.committer = ManualCommitter()
        self.failures: list[StorageError] = []
        self.time_of_day = 1_700_000_000.0
        self._storage = None
        if folder is not None:
            self._storage = Storage.open(folder, committer=self.committer, **storage).start(self.failures.append)
        self.queues = QueueDirectory(
            settings or QueueSettings(),
            lambda: self.time_of_day,
            storage=self._storage,
            transaction_timeout=transaction_timeout,
        )

    @property
    def storage(self) -> Storage:
        assert self._storage is not None
        return self._storage

    async def connect(self, queue: Ref, *messages: Callable[[Ref], Any]) -> tuple[Ref, list[Any]]:
        told: list[Any] = []
        ref: Ref = Connection.start(told)
        for message in messages:
            queue.tell(message(ref))
        await turns()
        return ref, told

    async def commit(self) -> None:
        self.committer.run()
        await turns()

    async def settled(self) -> None:
        """What is under way comes to the storage, is committed, and is answered."""
        await turns()
        await self.commit()

    def commit_groups(self, number: int) -> None:
        """So many groups of one record each; what comes behind them waits."""
        writer = self.committer._writer
        assert writer is not None
        with mock.patch("journal.writer.GROUP_RECORDS", 1):
            for _ in range(number):
                writer.commit()

    async def die(self) -> None:
        """What is not committed is lost, as with the process; the folder can be opened again."""
        self.storage._journal.abandon()
        for queue in self.queues.values():
            await queue.stop(block=False)

    async def close(self) -> None:
        for queue in self.queues.values():
            await queue.stop(block=False)
        if self._storage is not None:
            self._storage.close()
        await asyncio.gather(*(ref.stop(block=False) for ref in LoopActorRegistry.get_all()))


def durable(test: Callable[[Path], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    """Run a test with a folder for its storage."""

    def run(tmp_path: Path) -> None:
        run_in_virtual_time(test(tmp_path / "data"))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def with_and_without_journal(bench: Callable[[Path | None], Q]) -> Callable[[Callable[[Q], Any]], Any]:
    """What runs a test with queues that ``bench`` makes, over a journal and in memory, in virtual time."""

    def both(test: Callable[[Q], Any]) -> Any:
        @pytest.mark.parametrize("journal", [True, False])
        def run(tmp_path: Path, journal: bool) -> None:
            async def main() -> None:
                queues = bench(tmp_path / "data" if journal else None)
                await test(queues)
                await queues.close()

            run_in_virtual_time(main())

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return both
