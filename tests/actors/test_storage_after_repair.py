"""What a start gives up after a repair stays given up, though it is killed before its first checkpoint is durable."""

from __future__ import annotations

import pytest

from actors.batch import MessageBatch
from actors.errors import StorageError
from actors.queue.vocabulary.stages import StageKey, WriterVersion
from actors.storage import Storage, repair_storage
from actors.storage.after_repair import set_mark
from journal import ManualCommitter
from streams.testkit import run_in_virtual_time
from tests.actors import storage_lives as lives
from tests.actors.driven import QueueState
from tests.fault.disk import ROOT, SimulatedDisk

DATA = ROOT / "data"
KEY = StageKey("writer", 1, "stage")


class Life:
    """One process over a disk: a storage of one queue."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.committer = ManualCommitter()
        self.storage = Storage.open(DATA, files=disk, committer=self.committer)
        self.failures: list[StorageError] = []
        self.storage.start(self.failures.append)
        stored = self.storage.queues[0] if self.storage.queues else self.storage.declare("q", None)
        self.queue = QueueState(
            "q",
            stored.number,
            log=stored.log,
            record=lambda event: self.storage.record(stored.number, event),
            versions=self.storage.versions,
        )

    def stage(self, *payloads: bytes) -> None:
        """Send them to the stage, which must be empty."""
        assert self.queue.attach_stage("c", KEY, 0.0).messages == 0
        self.queue.request_capacity("c", 100, 10**9)
        self.queue.send("c", 0, MessageBatch.from_payloads(list(payloads)), 0.0, 1)

    def killed(self) -> SimulatedDisk:
        """The disk, with every record and no further checkpoint."""
        writer = self.committer._writer
        assert writer is not None
        while writer.queue:
            writer.commit()
        assert self.failures == []
        self.storage._journal.abandon()
        return self.disk.restart()


def test_a_stage_that_begins_anew_after_a_repair_is_committed_without_what_it_held_before() -> None:
    async def main() -> None:
        before = Life(SimulatedDisk())
        before.stage(b"old", b"old")
        disk = before.killed()
        set_mark(disk, DATA)
        after = Life(disk)
        after.stage(b"new", b"new")
        after.storage.commit(WriterVersion(KEY.writer, KEY.version), {0: [KEY.name]})
        assert after.queue.log.stored() == [(2, 4)]
        log = Life(after.killed()).queue.log
        assert log.stored() == [(2, 4)]
        assert (log.stored_messages, log.total_discarded) == (2, 2)

    run_in_virtual_time(main())


def without_declaration(killed: bool) -> tuple[SimulatedDisk, list[str]]:
    """A repaired directory whose last queue has three messages, two of them with another, and no declaration; and what repair said."""
    life = lives.Life(reserve_bytes=0)
    number = life.storage.declare("gone", None).number
    life.logs = life.storage._contents.logs()
    for _ in range(2):
        life.storage.record_all({0: life.added(0, b"kept"), number: life.added(number, b"kept")})
        life.run()
    life.record(number, life.added(number, b"alone"))
    life.run()
    if killed:
        life.storage._journal.abandon()
    else:
        life.storage._journal.close()
    disk = life.disk.restart()
    for name in disk.names(DATA):
        if (content := disk.content(DATA / name)).count(b"gone"):
            disk.replace(DATA / name, content.replace(b"gone", b"GONE"))
    return disk, repair_storage(DATA, disk)


@pytest.mark.parametrize("killed", [False, True])
def test_a_queue_whose_declaration_is_lost_gives_no_other_its_number_and_what_is_lost_with_it_is_said(
    killed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        disk, said = without_declaration(killed)
        assert any("is lost" in line for line in said)
        after = lives.Life(disk)
        assert (
            "3 messages of queue number 3 are lost: the record that declared the queue was damaged" in caplog.messages
        )
        assert after.held(0) == [b"kept"] * 2
        stored = after.storage.declare("new", None)
        assert stored.number == 4
        after.logs = after.storage._contents.logs()
        after.record(stored.number, after.added(stored.number, b"first"))
        after.run()
        assert after.held(stored.number) == [b"first"]
        assert lives.Life.held(after.closed(), stored.number) == [b"first"]

    run_in_virtual_time(main())
