"""The end of a replica's log is cut off: exactly that, durably, with a copy kept, whatever the cutting is interrupted by."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from journal import (
    JournalDamagedError,
    JournalFailedError,
    JournalUsageError,
    ReplicatedJournal,
    Truncated,
    diverged_records,
    verify,
)
from journal.names import parse_checkpoint
from tests.fault.disk import SimulatedDisk
from tests.fault.faulty_files import Fault, FaultyFiles, Kind, Panic
from tests.journal.replicas import DIRECTORY, SMALL, Node, Plain, log_of, logs, plain

COMMITTED = 8
"""Records below it are in the checkpoint."""
STREAMS = 3
EVERY_FOURTH = (0, *(pytest.param(turn, marks=pytest.mark.soak) for turn in range(1, 4)))
"""Every fourth call, which comes to calls of every kind; and where there is time, the others."""


@cache
def parted() -> tuple[SimulatedDisk, list[Plain]]:
    """A log of three epochs over several segments, a checkpoint in the midst, and sealed segments behind that a start has listed."""
    node = Node().lead(1)
    for number in range(30):
        if number == COMMITTED - 1:
            node.commit()
            node.checkpoint()
        if number in (12, 20):
            node.journal.lead(number)
        node.items(number % STREAMS, number, 1, b"%d." % number + bytes(110)) if number % 4 else node.several(
            range(STREAMS), number, b"%d." % number + bytes(60)
        )
        if number % 3 == 0:
            node.run()
    node.run()
    again = node.killed(starts=False)
    assert len(logs(again.disk)) > 4
    return again.disk.restart(), log_of(again)


def opened(disk: SimulatedDisk | FaultyFiles) -> Node:
    return Node(disk, starts=False)


def whole_log() -> list[Plain]:
    return parted()[1]


def first_of_segments() -> list[int]:
    return [segment.header.first_lsn for segment in opened(parted()[0].restart()).journal._catalog.segments]


def holds_exactly(node: Node, lsn: int) -> None:
    """The node's log is that of before, up to a record, and so are its items; it goes on from there."""
    kept = [row for row in whole_log() if row[0] < lsn]
    assert log_of(node, kept[0][0] if kept else lsn) == kept
    assert node.journal.next_lsn == lsn
    assert node.journal.position == (kept[-1][1], kept[-1][0])
    assert [first for _, first in node.journal.epoch_starts() if first >= lsn] == []
    assert [found for found in verify(DIRECTORY, node.disk.restart()) if found.fatal] == []
    for number in range(30):
        stream = number % STREAMS
        found = node.journal.locate(stream, number)
        assert (found is not None) == (number + 1 < lsn), number
        if found is not None:
            assert bytes(node.journal.read(stream, number).payload).startswith(b"%d." % number)


@pytest.mark.parametrize("lsn", range(COMMITTED, 32))
def test_the_log_ends_where_it_is_cut_and_goes_on_there(lsn: int) -> None:
    node = opened(parted()[0].restart())
    start = node.journal.epoch
    cut = node.journal.truncate(lsn)
    gone = [row for row in whole_log() if row[0] >= lsn]
    assert cut.records == len(gone)
    assert sum(cut.items.values()) == sum(STREAMS if row[2] == 3 else 1 for row in gone)
    assert plain(record for path in cut.kept for record in diverged_records(node.disk, path)) == gone
    holds_exactly(node, lsn)
    again = node.killed(starts=False)
    holds_exactly(again, lsn)
    assert again.reports == []
    again.start()
    again.lead(90)
    assert again.event(b"other") == lsn
    again.run()
    last = again.closed(starts=False)
    assert log_of(last)[-1] == (lsn, 90, 1, 0, b"other")
    assert last.journal.epoch > start
    assert last.disk.names(DIRECTORY).count("newest") == 1


def test_cuts_are_there() -> None:
    """The cuts above are in the segment of the checkpoint, at the beginnings of segments and beside them, and behind the end."""
    assert len([first for first in first_of_segments() if COMMITTED < first < 30]) > 3


def test_nothing_is_cut_that_is_contained_in_the_checkpoint_or_committed() -> None:
    node = opened(parted()[0].restart())
    assert node.journal.truncation_floor == COMMITTED
    for lsn in (0, 1, COMMITTED - 1):
        with pytest.raises(JournalUsageError, match=f"below {COMMITTED} is committed"):
            node.journal.truncate(lsn)
    holds_exactly(node, 31)


def test_where_there_is_nothing_to_cut_nothing_is_done() -> None:
    node = opened(FaultyFiles(parted()[0].restart()))
    calls = len(node.disk.calls)
    for lsn in (31, 99):
        assert node.journal.truncate(lsn) == Truncated(0, {}, ())
    assert len(node.disk.calls) == calls


def test_a_journal_that_is_started_or_closed_is_not_cut() -> None:
    node = Node(parted()[0].restart())
    with pytest.raises(JournalUsageError, match="between open and start"):
        node.journal.truncate(20)
    node.journal.close()
    with pytest.raises(JournalUsageError, match="between open and start"):
        node.journal.truncate(20)


def test_a_place_that_is_cut_again_and_again_keeps_each_copy() -> None:
    node = opened(parted()[0].restart())
    kept = list(node.journal.truncate(20).kept)
    for turn in range(3):
        node.start()
        node.lead(90 + turn).event(b"turn %d" % turn)
        node.run()
        node = node.killed(starts=False)
        kept += node.journal.truncate(20).kept
    assert len(set(kept)) == len(kept)
    found = plain(record for path in kept for record in diverged_records(node.disk, path))
    assert found[:11] == whole_log()[19:]
    assert [row[4] for row in found[11:]] == [b"turn 0", b"turn 1", b"turn 2"]


def test_an_id_of_a_segment_that_was_cut_off_is_not_used_again() -> None:
    node = opened(parted()[0].restart())
    ids = {segment.header.segment_id for segment in node.journal._catalog.segments}
    node.journal.truncate(COMMITTED)
    node = node.killed()
    left = {segment.header.segment_id for segment in node.journal._catalog.segments}
    assert len(left) < len(ids)
    node.lead(90).events(20)
    node.run()
    made = {segment.header.segment_id for segment in node.journal._catalog.segments} - left
    assert made
    assert not made & ids


def test_it_says_what_was_cut_off_and_where_it_is_kept() -> None:
    node = opened(parted()[0].restart())
    cut = node.journal.truncate(28)
    (said,) = node.reports
    assert "the records from 28 on were never committed, and are cut off: 3 of them, with 5 messages" in said
    assert all(path.name in said for path in cut.kept)


def test_what_was_durable_and_is_cut_off_is_not_missed_later() -> None:
    node = Node(parted()[0].restart())
    node.journal.close()
    node = opened(node.disk.restart())
    node.journal.truncate(12)
    holds_exactly(node.killed(starts=False), 12)


def test_recycled_segments_are_cut_like_others() -> None:
    node = Node().lead(1)
    for count in (12, 12, 12, 12):
        node.events(count)
        node.commit()
        node.checkpoint(live=lambda *_: 0)
    assert [segment.header.recycled for segment in node.journal._catalog.segments] == [True]
    lsn = node.journal.next_lsn
    node.events(20)
    node.run()
    again = node.killed(starts=False)
    whole = log_of(again, lsn)
    assert again.journal.truncate(lsn + 3).records == 17
    assert log_of(again.killed(starts=False), lsn) == whole[:3]


LSNS = (COMMITTED, 9, 17, 26)


@cache
def calls_of_a_cut(lsn: int) -> int:
    files = FaultyFiles(parted()[0].restart())
    node = opened(files)
    before = len(files.calls)
    node.journal.truncate(lsn)
    return len(files.calls) - before


def struck(lsn: int, call: int, kind: Kind) -> tuple[SimulatedDisk, Exception | None]:
    """The disk of a process that was cutting the log when its ``call``-th call was struck, and what it was told."""
    disk = parted()[0].restart()
    files = FaultyFiles(disk)
    node = opened(files)
    files._faults = (Fault(len(files.calls) + call, kind),)
    try:
        node.journal.truncate(lsn)
    except Panic:
        return disk, None
    except (JournalFailedError, JournalDamagedError) as failure:
        # That a file cannot be read counts as damage, here as everywhere.
        return disk, failure
    return disk, None


def judged(disk: SimulatedDisk, lsn: int) -> int:
    """The log that a start finds is that of before up to the cut, or up to a record behind it; where it ends. Then it is cut."""
    assert [found for found in verify(DIRECTORY, disk.restart()) if found.fatal] == []
    node = opened(disk)
    found = node.journal.next_lsn
    assert lsn <= found <= 31
    holds_exactly(node, found)
    node.journal.truncate(lsn)
    holds_exactly(node, lsn)
    holds_exactly(node.killed(starts=False), lsn)
    return found


@pytest.mark.parametrize("turn", EVERY_FOURTH)
@pytest.mark.parametrize("lsn", LSNS)
def test_a_process_that_dies_at_any_call_leaves_the_log_up_to_the_cut_or_behind_it(lsn: int, turn: int) -> None:
    ends = []
    for call in range(turn, calls_of_a_cut(lsn), 4):
        for kind in (Kind.PANIC_BEFORE, Kind.PANIC_WITHIN, Kind.PANIC_AFTER):
            disk, _ = struck(lsn, call, kind)
            ends.append(judged(disk.restart(), lsn))
    assert {lsn, 31} <= set(ends)


@pytest.mark.parametrize("turn", EVERY_FOURTH)
@pytest.mark.parametrize("lsn", LSNS)
def test_a_power_loss_at_any_call_leaves_the_log_up_to_the_cut_or_behind_it(lsn: int, turn: int) -> None:
    ends = []
    for call in range(turn, calls_of_a_cut(lsn), 4):
        disk, _ = struck(lsn, call, Kind.PANIC_AFTER)
        ends += [judged(disk.crash(Random(1000 * call + seed)), lsn) for seed in range(4)]
    assert {lsn, 31} <= set(ends)


def test_a_cut_that_has_returned_is_durable() -> None:
    for lsn in LSNS:
        node = opened(parted()[0].restart())
        node.journal.truncate(lsn)
        for seed in range(10):
            holds_exactly(opened(node.disk.crash(Random(seed))), lsn)


@pytest.mark.parametrize("lsn", LSNS)
def test_a_file_system_that_refuses_is_said_and_the_directory_is_let_go(lsn: int) -> None:
    failed = 0
    for call in range(0, calls_of_a_cut(lsn), 3):
        disk, failure = struck(lsn, call, Kind.EIO)
        failed += failure is not None
        judged(disk if failure is not None else disk.restart(), lsn)
    assert failed > 10


def test_the_older_checkpoint_lists_nothing_that_is_gone() -> None:
    node = opened(parted()[0].restart())
    node.journal.truncate(COMMITTED)
    names = [name for name in node.disk.names(DIRECTORY) if parse_checkpoint(name) is not None]
    assert names
    again = ReplicatedJournal.open(DIRECTORY, SMALL, node.disk.restart())
    assert again.next_lsn == COMMITTED
