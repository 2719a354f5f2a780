"""A replica's log is read on other threads while its own writes, fills segments, and gives them back."""

from __future__ import annotations

import queue
import threading
from pathlib import Path

from journal import JournalOptions, LogGoneError, LogPiece, ReplicatedJournal, ShippedRecord, ThreadCommitter
from tests.journal.replicas import plain

RECORDS = 4000
SEGMENT = 32 * 1024
DEADLINE = 60.0


class Running:
    """A replica on real files with threads of its own; ``wait`` is until all is durable."""

    def __init__(self, directory: Path, options: JournalOptions) -> None:
        self.journal = ReplicatedJournal.open(directory, options)
        self.failures: list[Exception] = []
        self._durable = threading.Condition()
        self.journal.start(self._on_durable, self.failures.append, ThreadCommitter())

    def _on_durable(self, _: int) -> None:
        with self._durable:
            self._durable.notify_all()

    def wait(self) -> None:
        with self._durable:
            assert self._durable.wait_for(lambda: self.journal.durable_lsn == self.journal.next_lsn, DEADLINE)

    def append(self, number: int) -> None:
        size = number * 37 % 400
        if number % 3:
            self.journal.append(1, [b"%d." % number, bytes(size)])
        else:
            self.journal.append_items(2, number % 5, number, 1, [b"%d." % number, bytes(size)])


class Reader:
    """A thread that reads pieces, as they are given to it, and keeps what was in them."""

    def __init__(self) -> None:
        self.given: queue.Queue[LogPiece | None] = queue.Queue(1)
        self.read: queue.Queue[list[ShippedRecord] | Exception] = queue.Queue(1)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while (piece := self.given.get(timeout=DEADLINE)) is not None:
            try:
                found: list[ShippedRecord] | Exception = piece.read()
            except Exception as error:  # noqa: BLE001 - whoever reads it is told
                found = error
            self.read.put(found, timeout=DEADLINE)

    def end(self) -> None:
        self.given.put(None, timeout=DEADLINE)
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()


def fed(tmp_path: Path, options: JournalOptions) -> tuple[Running, Running]:
    """A leader that appends, and a follower fed by another thread's reads."""
    leader = Running(tmp_path / "leader", options)
    follower = Running(tmp_path / "follower", options)
    leader.journal.lead(3)
    leader.journal.keep_log(1)
    reader, under_way = Reader(), False
    for number in range(RECORDS):
        leader.append(number)
        if number % 500 == 499:
            leader.journal.lead(number)
        if number % 40 == 0:
            leader.journal.committed(number)
            if leader.journal.checkpoint_due():
                leader.journal.checkpoint(b"", lambda *_: 0)
        if under_way and not reader.read.empty():
            under_way = False
            follower.journal.append_shipped(_records(reader.read.get(timeout=DEADLINE)))
        if not under_way and number % 7 == 0:
            reader.given.put(leader.journal.log_piece(follower.journal.next_lsn, 4000), timeout=DEADLINE)
            under_way = True
    if under_way:
        follower.journal.append_shipped(_records(reader.read.get(timeout=DEADLINE)))
    while follower.journal.next_lsn < leader.journal.next_lsn:
        reader.given.put(leader.journal.log_piece(follower.journal.next_lsn), timeout=DEADLINE)
        follower.journal.append_shipped(_records(reader.read.get(timeout=DEADLINE)))
    reader.end()
    return leader, follower


def _records(found: list[ShippedRecord] | Exception) -> list[ShippedRecord]:
    if isinstance(found, Exception):
        raise found
    return found


def test_a_follower_that_is_fed_by_another_thread_has_the_leader_s_log(tmp_path: Path) -> None:
    options = JournalOptions(segment_bytes=SEGMENT, log_tail_bytes=8000, checkpoint_records=600, spare_segments=2)
    leader, follower = fed(tmp_path, options)
    leader.wait()
    follower.wait()
    assert len(leader.journal._catalog.segments) > 10
    logs = [plain(each.journal.read_log(1)) for each in (leader, follower)]
    assert logs[0] == logs[1]
    assert len(logs[0]) == RECORDS
    assert leader.journal.epoch_starts() == follower.journal.epoch_starts()
    for each in (leader, follower):
        each.journal.close()
        assert each.failures == []
    again = ReplicatedJournal.open(tmp_path / "follower", options)
    assert plain(again.read_log(again.log_start)) == logs[0][again.log_start - 1 :]


def test_a_reader_that_is_overtaken_by_giving_back_and_recycling_gets_records_or_is_told_that_they_are_gone(
    tmp_path: Path,
) -> None:
    options = JournalOptions(segment_bytes=SEGMENT, log_tail_bytes=1, spare_segments=3, checkpoint_records=10**6)
    leader = Running(tmp_path / "leader", options)
    leader.journal.lead(1)
    reader, found, gone = Reader(), 0, 0
    for number in range(RECORDS):
        leader.append(number)
        if number % 150 != 149:
            continue
        leader.wait()
        leader.journal.committed(leader.journal.next_lsn)
        # The piece is planned, and while it is read all before is given back, and written over.
        start = leader.journal.log_start
        reader.given.put(leader.journal.log_piece(start), timeout=DEADLINE)
        stored = threading.Event()
        leader.journal.checkpoint(b"", lambda *_: 0, stored.set)
        for late in range(100):
            leader.journal.append(1, [b"%d." % late, bytes(300)])
        read = reader.read.get(timeout=DEADLINE)
        if isinstance(read, LogGoneError):
            assert read.log_start > start
            gone += 1
        else:
            assert not isinstance(read, Exception), read
            assert [record.lsn for record in read] == list(range(start, start + len(read)))
            assert all(b"".join(record.payload).rstrip(b"\0").endswith(b".") for record in read)
            found += 1
        assert stored.wait(DEADLINE)
        leader.wait()
    reader.end()
    assert found + gone > 20
    leader.journal.close()
    assert leader.failures == []
