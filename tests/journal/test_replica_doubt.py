"""What a start of a replica cuts off the end of its log may have been answered for: that is noted before it cuts, until it is over."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgpack
import pytest

from journal import Journal, JournalDamagedError, ReplicatedJournal, verify
from journal.enclosed import disclose
from journal.names import REPLICA
from journal.replica_file import _HEAD, Replica, pack_replica, unpack_replica
from journal.scan import SegmentScan
from tests.fault.disk import SimulatedDisk
from tests.fault.faulty_files import Fault, FaultyFiles, Kind, Panic
from tests.journal.harness import DIRECTORY as ALONE
from tests.journal.harness import Opened, segments
from tests.journal.replicas import DIRECTORY, SMALL, Node, logs


def led(*groups: int) -> Node:
    """A replica that has promised epoch 3 and led it, with so many records of a hundred bytes in each group."""
    node = Node()
    node.journal.promise(3)
    node.lead(3)
    for count in groups:
        node.events(count)
        node.run()
    return node


def places(disk: SimulatedDisk) -> tuple[Path, list[int], int]:
    """The last segment, where its records begin, and where they end."""
    path = DIRECTORY / logs(disk)[-1]
    with SegmentScan(disk, path) as scan:
        return path, [record.offset for record in scan.records()], scan.end


def started(disk: SimulatedDisk, path: Path, content: bytes) -> Node:
    again = disk.restart()
    again.replace(path, content)
    return Node(again, starts=False)


@pytest.mark.parametrize("at", [0, 5, 30, -1])
def test_a_replica_whose_last_write_is_damaged_is_in_doubt_of_what_it_had_promised(at: int) -> None:
    node = led(1, 1)
    path, offsets, end = places(node.disk)
    content = bytearray(node.disk.content(path))
    content[offsets[-1] + at if at >= 0 else end - 1] ^= 4
    found = started(node.disk, path, bytes(content))
    assert (found.journal.next_lsn, found.journal.doubt) == (2, 3)
    assert any("cut off" in report for report in found.reports)


def test_wherever_a_write_is_torn_off_it_is_in_doubt_as_long_as_something_of_it_is_there() -> None:
    node = led(1, 2)
    path, offsets, end = places(node.disk)
    content = node.disk.content(path)
    for stop in range(offsets[1], end + 1):
        torn = content[:stop].ljust(len(content), b"\0")
        found = started(node.disk, path, torn)
        begun = stop not in (*offsets, end) and torn[found.journal._active.end :].strip(b"\0") != b""
        # A record whose last bytes are zeros is whole where only these are left out.
        whole = torn == content or not begun
        assert found.journal.doubt == (0 if whole or found.journal.next_lsn == 4 else 3), stop


def test_zeros_and_a_log_that_ends_whole_are_no_doubt() -> None:
    node = led(1, 1)
    path, _, end = places(node.disk)
    content = node.disk.content(path)
    assert started(node.disk, path, content[:end].ljust(len(content), b"\0")).journal.doubt == 0
    assert started(node.disk, path, content[:end]).journal.doubt == 0
    assert node.closed(starts=False).journal.doubt == 0


@pytest.mark.parametrize(("damaged", "seen"), [((0,), True), ((20,), True), ((30,), True), ((0, 20), False)])
def test_in_a_file_that_is_written_over_damage_is_seen_where_mark_or_number_of_the_record_is_left(
    damaged: tuple[int, ...], seen: bool
) -> None:
    """docs/cluster-damage.md says so: what an older record had there cannot be told from what damage has left."""
    node = Node()
    node.journal.promise(3)
    node.lead(3)
    for count in (12, 12, 12, 12):
        node.events(count)
        node.commit()
        node.checkpoint(live=lambda *_: 0)
    assert [segment.header.recycled for segment in node.journal._catalog.segments] == [True]
    for _ in range(2):
        node.events(1)
        node.run()
    path, offsets, _ = places(node.disk)
    content = bytearray(node.disk.content(path))
    for at in damaged:
        content[offsets[-1] + at] ^= 4
    found = started(node.disk, path, bytes(content))
    assert found.journal.next_lsn == node.journal.next_lsn - 1
    assert found.journal.doubt == (3 if seen else 0)


def test_what_is_known_to_have_been_durable_is_damage_and_no_doubt() -> None:
    node = led(1, 1)
    node.journal.promise(4)
    path, offsets, _ = places(node.disk)
    content = bytearray(node.disk.content(path))
    content[offsets[-1] + 5] ^= 4
    with pytest.raises(JournalDamagedError, match="record 2 was durable"):
        started(node.disk, path, bytes(content))


def doubtful() -> SimulatedDisk:
    """A disk whose log ends in a write that is damaged."""
    node = led(1, 1)
    path, offsets, _ = places(node.disk)
    content = bytearray(node.disk.content(path))
    content[offsets[-1] + 30] ^= 4
    disk = node.disk.restart()
    disk.replace(path, bytes(content))
    return disk


def test_doubt_outlives_starts_that_find_nothing_more_until_it_is_ended() -> None:
    node = Node(doubtful(), starts=False)
    assert node.journal.doubt == 3
    again = node.killed()
    assert again.journal.doubt == 3
    again.journal.promise(5)
    again = again.closed()
    assert (again.journal.doubt, again.journal.promised) == (3, 5)
    again.journal.end_doubt(2)
    assert again.journal.doubt == 3, "of an earlier one"
    again.journal.end_doubt(3)
    assert again.journal.doubt == 0
    assert again.killed().journal.doubt == 0


def test_a_second_cut_is_of_what_is_promised_by_then() -> None:
    node = Node(doubtful())
    node.journal.promise(7)
    node.lead(7).events(1)
    node.run()
    path, offsets, _ = places(node.disk)
    content = bytearray(node.disk.content(path))
    content[offsets[-1] + 30] ^= 4
    again = started(node.disk, path, bytes(content))
    assert again.journal.doubt == 7
    again.journal.end_doubt(3)
    assert again.journal.doubt == 7


def test_wherever_a_start_that_cuts_is_killed_or_loses_power_the_next_one_is_in_doubt() -> None:
    calls = 0
    while True:
        disk = doubtful()
        files = FaultyFiles(disk, Fault(calls, Kind.PANIC_AFTER))
        try:
            Node(files, starts=False)
        except Panic:
            for seed in range(4):
                found = Node(disk.crash(Random(seed)), starts=False)
                assert (found.journal.next_lsn, found.journal.doubt) == (2, 3), (calls, seed)
            assert Node(disk.restart(), starts=False).journal.doubt == 3, calls
        else:
            break
        calls += 1
    assert calls > 20


def test_a_replica_that_has_promised_nothing_has_answered_nobody() -> None:
    opened = Opened(SimulatedDisk())
    opened.event(b"kept")
    opened.run()
    opened.event(b"torn" * 20)
    opened.run()
    path = ALONE / segments(opened.disk)[-1]
    content = bytearray(opened.disk.content(path))
    content[-100:] = content[-100:]
    content[48 + 28 + 4 + 40] ^= 1
    disk = opened.disk.restart()
    disk.replace(path, bytes(content))
    journal = ReplicatedJournal.open(ALONE, SMALL, disk, lambda _: None)
    assert (journal.next_lsn, journal.doubt) == (2, 0)


def test_a_journal_alone_has_no_file_that_says_so() -> None:
    opened = Opened(SimulatedDisk())
    opened.event(b"torn" * 20)
    opened.run()
    path = ALONE / segments(opened.disk)[-1]
    content = bytearray(opened.disk.content(path))
    content[48 + 40] ^= 1
    disk = opened.disk.restart()
    disk.replace(path, bytes(content))
    Journal.open(ALONE, SMALL, disk, lambda _: None)
    assert REPLICA not in disk.names(ALONE)


def test_a_journal_that_was_let_go_writes_nothing_more_of_it() -> None:
    node = Node(doubtful())
    node.journal.close()
    again = Node(node.disk.restart(), starts=False)
    node.journal.end_doubt(3)
    assert (again.journal.doubt, again.killed().journal.doubt) == (3, 3)


def test_without_doubt_the_file_is_as_the_version_before_has_it_and_with_it_an_older_program_refuses_it() -> None:
    plain = Replica("ab" * 16, "orders", 7, 99, 1, 2)
    _, version, body = disclose(_HEAD, pack_replica(plain), "replica's file")
    assert (version, "doubt" in msgpack.unpackb(body)) == (1, False)
    doubted = plain._replace(doubt=7)
    assert disclose(_HEAD, pack_replica(doubted), "replica's file").version == 2
    assert unpack_replica(pack_replica(doubted)) == doubted


def test_verify_says_of_a_replica_in_doubt_what_it_says_of_any() -> None:
    node = Node(doubtful())
    node.journal.close()
    assert [each for each in verify(DIRECTORY, node.disk) if each.fatal] == []
