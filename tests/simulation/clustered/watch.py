"""What is seen of the nodes' directories from outside: who leads which epoch, and what every one of them holds for committed.

The first node that says that a record is committed fixes what it is. Whoever says so of it later has to have the same one.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from actors.storage.node_storage import NodeStorage
from tests.simulation.clustered.checker import Leads
from tests.simulation.judged import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.storage.leader_storage import LeaderStorage
    from journal import ShippedRecord, TransferSource

PARTED: Final = "logs-parted"
TWO_LEADERS: Final = "two-leaders-of-an-epoch"
STATES: Final = "states-differ"
BEHIND: Final = "behind"
OUT_OF_STEP: Final = "confirmed-without-who-is-in-step"
PIECE_BYTES: Final = 256 * 1024


class Watch:
    """Of one run.

    Attributes:
        findings: what must not be.
        leaders: of each epoch who has led it.
        leads: who has led when, for the checker of histories.
        seen: how often what has happened, for those who want to know what a run has tried.
        ends: where the logs of directories ended that nobody has open, by their ids.
        on_lead: told, in the very call, that a node is about to lead, before anybody can hear from it: its name and its epoch.
        on_append: told who has appended what a leader has sent.
        on_confirmed: told who is about to tell that something is confirmed, its epoch, and below which record all is.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.findings: list[Finding] = []
        self.leaders: dict[int, str] = {}
        self.leads = Leads()
        self.seen: dict[str, int] = {}
        self.now = now
        self.ends: dict[str, int] = {}
        self.on_lead: Callable[[str, int], None] = _nobody
        self.on_append: Callable[[str], None] = _nobody
        self.on_confirmed: Callable[[str, int, int], None] = _nobody
        self._truth: dict[int, tuple[int, int, int, bytes]] = {}

    def came_to_lead(self, name: str, epoch: int) -> None:
        """Somebody leads."""
        self.note("lead")
        if self.leaders.setdefault(epoch, name) != name:
            self.find(TWO_LEADERS, f"{name} leads epoch {epoch}, which {self.leaders[epoch]} has led")
        self.on_lead(name, epoch)

    def committed(self, name: str, records: Iterable[Any]) -> None:
        """Somebody holds these for committed."""
        truth = self._truth
        for record in records:
            payload = hashlib.blake2b(record.whole(), digest_size=8).digest()
            fact = (record.epoch, record.kind, record.flags, payload)
            known = truth.setdefault(record.lsn, fact)
            if known != fact:
                self.find(PARTED, f"{name} holds {fact} for record {record.lsn}, of which {known} was committed")
                return

    @property
    def last(self) -> int:
        """The last record that anybody has held for committed; 0 for none."""
        return max(self._truth, default=0)

    def find(self, kind: str, text: str) -> None:
        """Something is not as it must be."""
        self.findings.append(Finding(kind, self.now(), text))

    def note(self, what: str) -> None:
        """Something has happened."""
        self.seen[what] = self.seen.get(what, 0) + 1


class WatchedStorage(NodeStorage):
    """A node's directory that says what it does.

    Attributes:
        name: the node's; set before it does anything.
        watch: is told.
        looked: every record below it was looked at.
    """

    name: str
    watch: Watch
    looked = 0

    def watched(self, name: str, watch: Watch) -> WatchedStorage:
        """The same, told whose it is."""
        self.name, self.watch = name, watch
        self._appended: deque[tuple[float, int]] = deque()
        return self

    def append(self, records: Iterable[ShippedRecord]) -> None:
        super().append(records)
        self.watch.on_append(self.name)

    def confirm(self, lsn: int) -> None:
        self.watch.on_confirmed(self.name, self._storage.cluster_epoch, lsn)
        super().confirm(lsn)

    def commit(self, lsn: int) -> None:
        super().commit(lsn)
        self.look()
        if self._leading:
            self._settle()

    def lead(self, epoch: int) -> None:
        self._appended.clear()
        super().lead(epoch)
        self.watch.came_to_lead(self.name, epoch)

    async def truncate(self, lsn: int) -> Any:
        truncated = await super().truncate(lsn)
        self.watch.note("truncated")
        return truncated

    async def reopen(self, between: Callable[[], None] | None = None) -> None:
        await super().reopen(between)
        self.watch.note("reopened" if between is None else "installed")

    def give(self, ready: Callable[[TransferSource], None]) -> TransferSource:
        self.watch.note("given")
        return super().give(ready)

    async def opened(self) -> LeaderStorage:
        storage = await super().opened()
        self.watch.note("opened")
        return storage

    def _settle(self) -> None:
        """Note what that says of what this node has heard: until when all of it is committed."""
        appended, journal, now = self._appended, self.journal, self.watch.now()
        if not self._storage._gathered:
            appended.append((now, journal.next_lsn))
        while appended and appended[0][1] <= journal.committed_lsn:
            time, _ = appended.popleft()
            self.watch.leads.settled.setdefault(self._storage.cluster_epoch, []).append((now, time))

    def look(self) -> None:
        """Compare what is committed here, and was not looked at yet, with what others hold."""
        journal = self.journal
        stop = min(journal.committed_lsn, journal.next_lsn)
        at = max(self.looked, journal.log_start)
        while at < stop:
            records = [each for each in journal.log_piece(at, PIECE_BYTES).read() if each.lsn < stop]
            self.watch.committed(self.name, records)
            at = records[-1].lsn + 1
        self.looked = max(at, self.looked)


def _nobody(*_: object) -> None:
    """Who is told while nobody asks."""
