"""What a node is told of its directory, on its loop: each thing once, for all that has come of it until then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.errors import StorageError
from actors.storage.failures import LeadershipLostError, storage_error
from actors.storage.options import ACKNOWLEDGE_DELAY
from journal import JournalError

if TYPE_CHECKING:
    from journal import ReplicatedJournal

logger = logging.getLogger("penstock.storage")


class NodeHooks(NamedTuple):
    """What the node is told, on the loop.

    Attributes:
        appended: who leads has appended something: `Replica.appended`. Once for all that comes in a turn; for what nobody waits for later.
        synced: the log's ``durable`` has moved: `Replica.synced`. Once for however many commits of the journal there are until it is told.
        failed: the directory can be read or written no more: the node has to end. Not told of that it leads no more.
    """

    appended: Callable[[], None]
    synced: Callable[[], None]
    failed: Callable[[StorageError], None]


class NodeNews:
    """Of one journal that is open, until `stop`.

    Args:
        loop: the node's; None as long as it was not started.
        hooks: whom to tell; likewise.
        synced: what is done before the hook is told.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop | None, hooks: NodeHooks | None, synced: Callable[[], None]
    ) -> None:
        self.loop = loop
        self.hooks = hooks
        self._before_synced = synced
        self._journal: ReplicatedJournal | None = None
        self._told = self._announced = self._stopped = False
        self._known = 0  # what was durable when it was told last
        self._later: asyncio.TimerHandle | None = None
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def on(self) -> asyncio.AbstractEventLoop:
        """The loop of a node that was started."""
        assert self.loop is not None, "the node was started"
        return self.loop

    def start_journal(self, journal: ReplicatedJournal, committer: Any, failed: Callable[[Exception], None]) -> None:
        """Have the journal take records."""
        journal.on_appended = self._note_appended
        self._journal = journal
        self._known = journal.durable_lsn
        journal.start(self._note_durable, lambda error: self._on_loop(failed, error), committer)

    def stop(self) -> None:
        """There is no more to be told: the journal is about to be closed. Whoever waits looks what that means."""
        self._stopped = True
        if self._later is not None:
            self._later.cancel()
        self.wake()

    async def wait(self) -> None:
        """Until more is on the disk, or folded, or nothing will be."""
        changed = self.on.create_future()
        self._waiting.append(changed)
        await changed

    def wake(self) -> None:
        """Have whoever waits look again."""
        waiting, self._waiting = self._waiting, []
        for changed in waiting:
            if not changed.done():
                changed.set_result(None)

    def failed(self, error: StorageError) -> None:
        """The storage has come to its end."""
        self.wake()
        if self.hooks is not None and not isinstance(error, LeadershipLostError):
            self.hooks.failed(error)

    def _note_durable(self, _lsn: int) -> None:
        """On the thread that has committed; where that is the loop's own it says so itself (`durable`)."""
        assert self._journal is not None
        if not (self._told or self._journal.alone.committing):
            self._told = True
            self._on_loop(self._synced)

    def durable(self) -> None:
        """The loop itself may have committed something, or the thread while it did not say so: tell what was not told yet."""
        assert self._journal is not None
        if not self._told and self._journal.durable_lsn > self._known:
            self._synced()

    def _on_loop(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            self.on.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            logger.debug("the journal has news after the loop was closed: nobody is left to tell")

    def _synced(self) -> None:
        self._told = False
        if self._stopped:
            return
        assert self._journal is not None
        # Read behind the first line: what is committed from there on another call tells.
        self._known = self._journal.durable_lsn
        self.wake()
        self._before_synced()
        if self.hooks is not None:
            self.hooks.synced()

    def _note_appended(self, lazy: bool) -> None:
        """Say so when this turn is over, or in a while where nobody waits for it."""
        if self._announced:
            return
        if not lazy:
            self._announced = True
            self.on.call_soon(self._announce)
        elif self._later is None:
            self._later = self.on.call_later(ACKNOWLEDGE_DELAY, self._announce)

    def _announce(self) -> None:
        self._announced = False
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if not self._stopped and self.hooks is not None:
            self.hooks.appended()


class Failing:
    """A journal that fails within it is the end of the node's directory.

    Args:
        fail: told of it.
    """

    def __init__(self, fail: Callable[[StorageError], None]) -> None:
        self._fail = fail

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, JournalError | OSError):
            failure = storage_error(error)
            self._fail(failure)
            raise failure from error
        if isinstance(error, StorageError):
            self._fail(error)
