"""A journal that is a replica: records of a leader's epoch, read by lsn and appended elsewhere as they are."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from journal import Journal, JournalDamagedError, JournalOptions, JournalUsageError, ReplicaError, ShippedRecord, verify
from journal.format import CLOSED, ITEMS, SEVERAL
from journal.items import ITEMS_PREFIX
from journal.scan import SegmentScan
from tests.fault.disk import SimulatedDisk
from tests.journal.replicas import DIRECTORY, SMALL, Node, log_of, logs, on_the_wire, plain, ship


def test_what_is_appended_is_of_the_epoch_that_was_led_in() -> None:
    node = Node().lead(3)
    node.event(b"one")
    node.journal.lead(7)
    node.event(b"two")
    assert [(lsn, epoch) for lsn, epoch, *_ in log_of(node)] == [(1, 3), (2, 7)]
    assert node.journal.position == (7, 2)
    node.run()
    again = node.killed(starts=False)
    assert log_of(again) == [(1, 3, 1, 0, b"one"), (2, 7, 1, 0, b"two")]
    assert again.journal.position == (7, 2)
    assert again.journal.epoch_starts() == [(3, 1), (7, 2)]


def test_a_log_without_a_record_has_the_least_position() -> None:
    node = Node()
    assert (node.journal.position, node.journal.log_start, log_of(node)) == ((0, 0), 1, [])
    assert node.journal.epoch_of(0) == 0
    assert node.journal.epoch_starts() == []
    with pytest.raises(JournalUsageError, match="no record 1"):
        node.journal.epoch_of(1)


def test_the_starts_are_counted_apart_from_the_epochs_of_leaders() -> None:
    node = Node().lead(90)
    node.event()
    for start in range(2, 5):
        node = node.closed()
        assert node.journal.epoch == start
    assert node.journal.position == (90, 1)


def test_a_clean_stop_appends_nothing() -> None:
    node = Node().lead(1)
    node.event()
    again = node.closed()
    assert again.journal.next_lsn == 2
    with SegmentScan(again.disk, DIRECTORY / logs(again.disk)[0]) as scan:
        assert [record.kind for record in scan.records()] == [1]


def test_only_who_leads_appends_and_only_who_follows_is_sent() -> None:
    node = Node()
    with pytest.raises(JournalUsageError, match="who leads appends"):
        node.event()
    node.lead(1)
    with pytest.raises(JournalUsageError, match="leads in epoch 1"):
        node.journal.append_shipped([ShippedRecord(1, 1, 1, 0, (b"",))])
    for epoch in (0, 1 << 32):
        with pytest.raises(JournalUsageError, match="an epoch of a cluster"):
            node.journal.lead(epoch)


def test_nobody_leads_in_an_epoch_below_one_that_was_promised_or_has_records() -> None:
    node = Node()
    node.journal.promise(5)
    with pytest.raises(JournalUsageError, match="epoch 5 was promised"):
        node.journal.lead(4)
    node.journal.append_shipped([ShippedRecord(1, 7, 1, 0, (b"",))])
    with pytest.raises(JournalUsageError, match="epoch 7"):
        node.journal.lead(6)
    node.journal.lead(7)


def test_what_is_not_committed_is_counted_in_bytes() -> None:
    leader, follower = Node(), Node()
    assert leader.journal.uncommitted_bytes == 0
    leader.lead(1)
    for _ in range(3):
        leader.event(bytes(72))
    assert leader.journal.uncommitted_bytes == 300
    leader.run()
    assert leader.journal.uncommitted_bytes == 300, "though it is durable here"
    leader.journal.committed(3)
    assert leader.journal.uncommitted_bytes == 100
    leader.journal.committed(2)
    leader.journal.committed(4)
    assert leader.journal.uncommitted_bytes == 0
    ship(leader, follower)
    assert follower.journal.uncommitted_bytes == 0, "who follows asks nobody for less"
    follower.lead(2).event(bytes(172))
    assert follower.journal.uncommitted_bytes == 200


def a_mixed_log() -> Node:
    """A leader with records of every kind, over several segments, of three epochs, partly written."""
    leader = Node().lead(1)
    leader.event(b"")
    for number in range(12):
        leader.items(number % 3, 10 * number, 3, b"%d" % number * 40)
        leader.several([5, 6, 9], number, b"%d" % number * 30)
        leader.event(bytes(number))
        if number in (4, 8):
            leader.run()
            leader.journal.lead(number)
    assert len(leader.journal._catalog.segments) > 3
    return leader


def reads(node: Node) -> list[Any]:
    """Every item that a node finds, by stream."""
    journal = node.journal
    found = []
    for stream in (0, 1, 2, 5, 6, 9):
        for span in journal.spans(stream, 0, 1 << 30):
            stored = journal.read(stream, span.first)
            found.append((stream, span, stored.lsn, stored.kind, bytes(stored.payload), stored.alike))
    return found


def test_a_follower_has_the_leader_s_log_and_reads_its_items() -> None:
    leader, follower = a_mixed_log(), Node()
    ship(leader, follower)
    assert log_of(follower) == log_of(leader)
    assert reads(follower) == reads(leader) != []
    assert follower.journal.position == leader.journal.position
    assert follower.journal.epoch_starts() == leader.journal.epoch_starts()
    follower.run()
    leader.run()
    for node in (follower.killed(starts=False), follower.closed(starts=False)):
        assert log_of(node) == log_of(leader)
        assert reads(node) == reads(leader)
        assert node.journal.epoch_starts() == leader.journal.epoch_starts()
        assert {row[3] for row in log_of(node)} == {0, ITEMS, SEVERAL}


def test_records_of_several_epochs_that_come_at_once_keep_each_its_own() -> None:
    follower = Node()
    records = [ShippedRecord(lsn, epoch, 1, 0, (b"%d" % lsn,)) for lsn, epoch in enumerate((1, 1, 2, 5, 5, 9), 1)]
    follower.journal.append_shipped(records)
    follower.run()
    assert follower.durable[-1] == 7
    assert log_of(follower.killed(starts=False)) == plain(records)


def test_payloads_that_are_in_memory_are_not_copied() -> None:
    leader = Node().lead(1)
    payload = b"x" * 5000
    leader.journal.append_items(2, 0, 0, 1, [memoryview(payload)])
    (record,) = leader.journal.read_log(1)
    assert record.payload[0] == ITEMS_PREFIX.pack(0, 0, 1)
    assert record.payload[1].obj is payload  # type: ignore[union-attr]
    leader.run()
    (record,) = leader.journal.read_log(1)
    assert record.payload[1].obj is payload, "it stays in memory for the others"  # type: ignore[union-attr]
    assert record.size == 16 + 5000 == len(record.whole())


def test_a_part_of_what_is_sent_is_appended_without_a_copy() -> None:
    follower = Node()
    frame = bytes(40) + ITEMS_PREFIX.pack(4, 7, 2) + b"y" * 9000
    follower.journal.append_shipped([ShippedRecord(1, 1, 2, ITEMS, (memoryview(frame)[40:],))])
    (record,) = follower.journal.read_log(1)
    assert record.whole().obj is frame, "and is applied from where it is"
    assert bytes(follower.journal.read(4, 8).payload) == b"y" * 9000


@pytest.mark.parametrize("sizes", [(3, 13), (16, 5), (20, 1), (0, 21), (1,) * 21])
def test_a_record_may_come_in_buffers_of_any_size(sizes: tuple[int, ...]) -> None:
    whole, parts, at = ITEMS_PREFIX.pack(1, 2, 3) + b"12345", [], 0
    for size in sizes:
        parts.append(whole[at : at + size])
        at += size
    follower = Node()
    follower.journal.append_shipped([ShippedRecord(1, 1, 2, ITEMS, (*parts, whole[at:]))])
    assert bytes(follower.journal.read(1, 4).payload) == b"12345"
    follower.run()
    assert log_of(follower.killed(starts=False)) == [(1, 1, 2, ITEMS, whole)]


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (ShippedRecord(4, 2, 1, 0, (b"",)), "does not follow"),
        (ShippedRecord(2, 2, 1, 0, (b"",)), "does not follow"),
        (ShippedRecord(3, 1, 1, 0, (b"",)), "does not follow"),
        (ShippedRecord(3, 2, CLOSED, 0, (b"",)), "no leader appends"),
        (ShippedRecord(3, 2, 256, 0, (b"",)), "no leader appends"),
        (ShippedRecord(3, 2, 1, 3, (b"",)), "no leader appends"),
        (ShippedRecord(3, 0, 1, 0, (b"",)), "an epoch of a cluster"),
        (ShippedRecord(3, 2, 1, ITEMS, (b"short",)), "cannot be one"),
        (ShippedRecord(3, 2, 1, ITEMS, ()), "cannot be one"),
        (ShippedRecord(3, 2, 1, ITEMS, (ITEMS_PREFIX.pack(0, 0, 0),)), "cannot be one"),
        (ShippedRecord(3, 2, 1, SEVERAL, (b"\1\0\0\0\0\0\0\0",)), "cannot be one"),
        (ShippedRecord(3, 2, 1, ITEMS, (ITEMS_PREFIX.pack(0, 4, 1),)), "do not follow"),
    ],
)
def test_a_record_that_does_not_follow_is_refused_and_nothing_of_it_is_there(record: ShippedRecord, why: str) -> None:
    follower = Node()
    before = [
        ShippedRecord(1, 1, 1, 0, (b"a",)),
        ShippedRecord(2, 2, 2, ITEMS, (ITEMS_PREFIX.pack(0, 4, 1) + b"b",)),
    ]
    with pytest.raises(JournalUsageError, match=why):
        follower.journal.append_shipped([*before, record])
    follower.journal.append_shipped([ShippedRecord(3, 2, 1, 0, (b"c",))])
    follower.run()
    assert [row[0] for row in log_of(follower.killed(starts=False))] == [1, 2, 3]


def test_a_record_of_several_streams_that_does_not_follow_in_one_of_them_is_entered_under_none() -> None:
    leader, follower = Node().lead(1), Node()
    leader.several([1, 2], 0)
    ship(leader, follower)
    record = next(iter(on_the_wire(leader.journal.read_log(1))))
    with pytest.raises(JournalUsageError, match="do not follow"):
        follower.journal.append_shipped([record._replace(lsn=2)])
    assert [follower.journal.locate(stream, 0).stop for stream in (1, 2)] == [1, 1]  # type: ignore[union-attr]
    assert follower.journal.next_lsn == 2


def test_the_log_is_read_from_any_record_over_segments_and_from_what_is_not_written() -> None:
    leader = a_mixed_log()
    whole = log_of(leader)
    for small in (0, 300, 1 << 20):
        leader.journal._tail._limit = small
        leader.event()
        whole = [*whole, *plain([ShippedRecord(len(whole) + 1, 8, 1, 0, (b"event",))])]
        for lsn in range(1, len(whole) + 2):
            assert log_of(leader, lsn) == whole[lsn - 1 :]
        leader.run()
        for lsn in range(1, len(whole) + 2):
            assert log_of(leader, lsn) == whole[lsn - 1 :]
    with pytest.raises(JournalUsageError, match="no record"):
        leader.journal.read_log(len(whole) + 2)


def test_records_that_are_appended_while_the_log_is_read_are_read_too() -> None:
    leader = Node(options=JournalOptions(segment_bytes=512, log_tail_bytes=1)).lead(1)
    leader.events(3)
    reading = leader.journal.read_log(1)
    read = [next(reading)]
    for _ in range(20):
        leader.events(2)
        leader.run()
        read += [next(reading), next(reading)]
    read += reading
    assert [record.lsn for record in read] == list(range(1, 44))
    assert plain(read) == log_of(leader)


def test_pieces_go_on_where_the_one_before_ended() -> None:
    leader = a_mixed_log()
    leader.run()
    whole = log_of(leader)
    again = leader.killed(starts=False)
    for most in (1, 200, 1 << 20):
        read: list[ShippedRecord] = []
        while len(read) < len(whole):
            piece = again.journal.log_piece(len(read) + 1, most).read()
            assert piece
            assert sum(record.size for record in piece[:-1]) < most
            read += piece
        assert plain(read) == whole
    with pytest.raises(JournalUsageError, match="no record"):
        again.journal.log_piece(len(whole) + 1)


def test_a_damaged_record_is_not_shipped_and_those_before_it_are() -> None:
    leader = Node().lead(1)
    leader.events(4)
    leader.run()
    disk = leader.disk.restart()
    node = Node(disk, starts=False)
    path = DIRECTORY / logs(disk)[0]
    content = bytearray(disk.content(path))
    content[content.index(b"2." + bytes(100))] ^= 1
    disk.replace(path, bytes(content))
    reading = node.journal.read_log(1)
    assert [next(reading).lsn, next(reading).lsn] == [1, 2]
    with pytest.raises(JournalDamagedError) as damage:
        next(reading)
    assert damage.value.file == path


def test_a_broker_that_was_alone_becomes_the_first_replica_with_all_that_it_holds() -> None:
    disk = SimulatedDisk()
    for _ in range(3):
        alone = Journal.open(DIRECTORY, SMALL, disk)
        list(alone.replay())
        alone.start(lambda _: None, lambda _: None, Node().committer)
        alone.append_items(2, 0, 10 * alone.epoch, 1, [b"old"])
        alone.close()
    node = Node(disk.restart(), starts=False)
    assert [record.kind for record in node.journal.replay()] == [2, 2, 2]
    lsn = node.journal.next_lsn
    assert node.journal.position == (0, lsn - 1)
    assert (node.journal.log_start, node.journal.truncation_floor, node.journal.epoch) == (lsn, lsn, 4)
    node.start()
    node.lead(1).event()
    node.run()
    again = node.killed(starts=False)
    assert log_of(again) == [(lsn, 1, 1, 0, b"event")]
    assert again.journal.epoch_starts() == [(1, lsn)]
    assert again.journal.epoch == 5
    assert bytes(again.journal.read(0, 20).payload) == b"old"


def test_a_replica_is_not_opened_as_another_journal() -> None:
    node = Node().lead(1)
    node.event()
    node.journal.close()
    with pytest.raises(ReplicaError, match="member of a cluster"):
        Journal.open(DIRECTORY, SMALL, node.disk.restart())
    with pytest.raises(JournalUsageError, match=r"ReplicatedJournal\.open"):
        Journal.open(DIRECTORY, JournalOptions(replicated=True), SimulatedDisk())
    disk = node.disk.restart()
    disk.unlink(DIRECTORY / "replica")
    with pytest.raises(ReplicaError):
        Journal.open(DIRECTORY, SMALL, disk)


def test_an_epoch_that_goes_back_is_damage() -> None:
    node = Node().lead(4)
    node.event()
    node.run()
    node.journal._writer.write_epoch(3)  # type: ignore[union-attr]
    node.event()
    node.run()
    with pytest.raises(JournalDamagedError, match="record 2 is of epoch 3, and one before it of epoch 4"):
        node.killed()


def stopped(*, clean: bool) -> Node:
    node = Node(options=JournalOptions(segment_bytes=4096)).lead(1)
    for _ in range(3):
        node.events(2)
        node.run()
    if clean:
        node.journal.close()
    return node


def flipped(node: Node, what: bytes) -> SimulatedDisk:
    disk: SimulatedDisk = node.disk.restart()
    path = DIRECTORY / logs(disk)[0]
    content = bytearray(disk.content(path))
    content[content.rindex(what)] ^= 1
    disk.replace(path, bytes(content))
    return disk


def test_after_a_clean_stop_a_damaged_last_group_is_damage_and_no_torn_tail() -> None:
    disk = flipped(stopped(clean=True), b"1." + bytes(100))
    assert [finding.fatal for finding in verify(DIRECTORY, disk)] == [True]
    with pytest.raises(JournalDamagedError, match="record 6 was durable"):
        Node(disk)


def test_after_a_death_the_last_group_may_be_torn_and_is_cut_off() -> None:
    disk = flipped(stopped(clean=False), b"1." + bytes(100))
    assert [finding.fatal for finding in verify(DIRECTORY, disk)] == [False]
    assert Node(disk).journal.next_lsn == 6


def test_a_record_of_a_later_group_proves_the_one_before_it_durable() -> None:
    node = stopped(clean=False)
    node.event(b"last")
    node.run()
    with pytest.raises(JournalDamagedError, match="record 5 was durable"):
        Node(flipped(node, b"0." + bytes(100)))


def test_what_was_durable_when_an_epoch_was_promised_is_missed() -> None:
    node = stopped(clean=False)
    node.journal.promise(2)
    with pytest.raises(JournalDamagedError, match="record 6 was durable"):
        Node(flipped(node, b"1." + bytes(100)))


def test_the_last_group_is_written_again_by_a_start() -> None:
    """A sync that failed in the last run may have left it in memory only, marked as written."""
    node = Node().lead(1)
    node.events(2)
    node.committer.run()
    (file,) = [number for number, each in node.disk._descriptors.items() if each.path.suffix == ".segment"]
    node.event(b"unsynced")
    node.journal._writer._files = _WithoutSync(node.disk, file)  # type: ignore[union-attr, assignment]
    node.run()
    again = node.killed(starts=False)
    assert again.journal.next_lsn == 4
    for seed in range(20):
        assert Node(again.disk.crash(Random(seed)), starts=False).journal.next_lsn == 4


class _WithoutSync:
    def __init__(self, inner: SimulatedDisk, file: int) -> None:
        self._inner = inner
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def sync(self, file: int) -> None:
        self._inner.fail_sync(file)
