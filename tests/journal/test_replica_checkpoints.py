"""A replica's checkpoints wait for what they contain to be committed, and leave the log to those who lag."""

from __future__ import annotations

from typing import Any

import pytest

from journal import JournalOptions, JournalUsageError, LogGoneError, ShippedRecord, UnknownItemError
from journal.format import COMPACTED
from tests.fault.disk import SimulatedDisk
from tests.journal.replicas import DIRECTORY, SMALL, Node, log_of, logs, ship


def checkpoints(node: Node) -> list[str]:
    return [name for name in node.disk.names(DIRECTORY) if name.startswith("checkpoint-")]


def test_a_checkpoint_is_stored_when_all_that_it_contains_is_committed_and_gives_disk_back_only_then() -> None:
    leader = Node().lead(1)
    leader.events(30)
    leader.run()
    before, segments = checkpoints(leader), logs(leader.disk)
    done: list[bool] = []
    leader.journal.checkpoint(b"state", lambda *_: 0, lambda: done.append(True))
    leader.run()
    leader.journal.committed(30)
    leader.run()
    assert (checkpoints(leader), logs(leader.disk), done) == (before, segments, [])
    assert leader.journal.checkpointing
    leader.journal.committed(31)
    leader.run()
    assert done == [True]
    assert len(checkpoints(leader)) == 2
    assert not leader.journal.checkpointing
    leader.checkpoint(live=lambda *_: 0)
    assert len(logs(leader.disk)) == 1


def test_what_is_appended_until_the_state_is_stored_counts_as_contained() -> None:
    leader = Node().lead(1)
    leader.events(2)
    list(leader.journal.prepare_checkpoint(lambda *_: 0))
    leader.journal.cut_checkpoint()
    leader.event(b"behind the cut")
    done: list[bool] = []
    leader.journal.store_checkpoint(b"state", lambda: done.append(True))
    leader.journal.committed(3)
    leader.run()
    assert done == []
    leader.journal.committed(4)
    leader.run()
    assert done == [True]
    again = leader.killed(starts=False)
    assert [record.lsn for record in again.journal.replay()] == [3]
    assert again.journal.truncation_floor == 4, "the state may contain the record behind the cut"


def test_a_checkpoint_that_is_not_committed_is_never_stored_and_the_tail_can_be_cut_off() -> None:
    leader = Node().lead(1)
    leader.items(0, 0, 5)
    leader.commit()
    leader.checkpoint(b"first")
    leader.event(b"never committed")
    leader.journal.checkpoint(b"second", lambda *_: 0)
    again = leader.closed(starts=False)
    assert again.journal.checkpoint_payload == b"first"
    again.journal.truncate(2)
    assert again.journal.next_lsn == 2
    assert bytes(again.journal.read(0, 4).payload) == b"items"


def test_what_is_uncommitted_can_be_shipped_whatever_nobody_wants_of_it() -> None:
    """The leader's state runs ahead: items may be acknowledged by a record that is not committed either."""
    leader = Node().lead(1)
    for number in range(30):
        leader.items(0, number, 1, bytes(100))
    leader.run()
    leader.journal.committed(12)
    leader.journal.checkpoint(b"state", lambda *_: 0)
    leader.run()
    assert leader.journal.log_start <= 12
    follower = Node()
    follower.journal.append_shipped([])
    assert [row[0] for row in log_of(leader, 12)] == list(range(12, 31))


def test_a_follower_s_checkpoint_is_of_what_it_has_applied_and_the_rest_is_read_again() -> None:
    leader, follower = Node().lead(1), Node()
    for number in range(30):
        leader.items(0, number, 1, b"%d." % number + bytes(100))
    ship(leader, follower)
    follower.run()
    follower.journal.committed(20)
    follower.applied(18, live=lambda stream, first, stop: max(0, min(stop, 17) - first))
    again = follower.killed(starts=False)
    assert [record.lsn for record in again.journal.replay()] == list(range(18, 31))
    assert again.journal.committed_lsn == 20
    assert log_of(again, 18) == log_of(leader, 18)
    assert [again.journal.locate(0, number) is not None for number in range(30)] == [True] * 30
    again = Node(again.disk.restart())
    assert again.journal.next_lsn == 31


def test_items_behind_what_a_follower_has_applied_are_kept_though_its_state_does_not_know_them() -> None:
    leader, follower = Node().lead(1), Node()
    for number in range(30):
        leader.items(0, number, 1, bytes(100))
    ship(leader, follower)
    follower.run()
    follower.journal.committed(31)
    follower.applied(4, live=lambda *_: 0)
    follower.applied(4, live=lambda *_: 0)
    assert [bytes(follower.journal.read(0, number).payload) for number in range(7, 30)] == [bytes(100)] * 23
    follower.applied(31, live=lambda *_: 0)
    with pytest.raises(UnknownItemError):
        follower.journal.read(0, 10)


@pytest.mark.parametrize("lsn", [3, 9])
def test_a_follower_s_checkpoint_is_neither_of_the_uncommitted_nor_before_what_was_prepared(lsn: int) -> None:
    leader, follower = Node().lead(1), Node()
    leader.events(10)
    ship(leader, follower)
    follower.journal.committed(8)
    with pytest.raises(JournalUsageError, match="more than is committed"):
        follower.journal.prepare_checkpoint(lambda *_: 0, 9)
    list(follower.journal.prepare_checkpoint(lambda *_: 0, 5))
    with pytest.raises(JournalUsageError, match="where 5 was prepared, and 8 is committed"):
        follower.journal.cut_checkpoint(lsn)


def test_segments_that_are_filled_while_a_follower_prepares_are_not_taken_for_dead() -> None:
    leader, follower = Node().lead(1), Node()
    for number in range(40):
        leader.items(number, 0, 1, bytes(100))
    ship(leader, follower, 20)
    follower.run()
    follower.journal.committed(21)
    steps = follower.journal.prepare_checkpoint(lambda *_: 0, 21)
    ship(leader, follower)
    follower.run()
    list(steps)
    follower.journal.cut_checkpoint(21)
    follower.journal.store_checkpoint(b"")
    follower.run()
    assert [number for number in range(40) if follower.journal.locate(number, 0) is None] == list(range(18))
    assert log_of(follower.killed(starts=False), 21) == log_of(leader, 21)


def test_epochs_are_known_at_the_edge_of_a_checkpoint_without_the_records_before_it() -> None:
    leader = Node().lead(3)
    leader.events(30)
    leader.commit()
    for _ in range(2):
        leader.checkpoint(live=lambda *_: 0)
    again = leader.killed(starts=False)
    start = again.journal.log_start
    assert start > 20
    assert again.journal.position == (3, 30)
    assert again.journal.epoch_of(start - 1) == 3
    assert again.journal.epoch_starts() == [(3, start)]
    with pytest.raises(LogGoneError):
        again.journal.epoch_of(start - 2)


def test_epochs_before_the_log_are_forgotten_but_for_the_last() -> None:
    leader = Node()
    for epoch in range(1, 60):
        leader.lead(epoch).event(bytes(60))
    leader.commit()
    leader.checkpoint(live=lambda *_: 0)
    leader.checkpoint(live=lambda *_: 0)
    start = leader.journal.log_start
    assert leader.journal.epoch_starts() == [(epoch, epoch) for epoch in range(start, 60)]
    assert leader.killed(starts=False).journal.epoch_starts() == leader.journal.epoch_starts()


def test_of_very_many_epochs_the_oldest_are_forgotten_and_the_log_begins_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("journal.epochs.MOST_EPOCHS", 10)
    leader = Node()
    leader.journal.keep_log(1)
    for epoch in range(1, 60):
        leader.lead(epoch).event(b"")
    leader.commit()
    leader.checkpoint()
    assert leader.journal.log_start == 51
    for node in (leader, leader.killed(starts=False)):
        assert node.journal.log_start == 51
        assert node.journal.epoch_of(50) == 50
        assert [row[0] for row in log_of(node)] == list(range(51, 60))


KEEPING = JournalOptions(segment_bytes=1024, spare_segments=1, cluster_log_bytes=4096)


def full(options: JournalOptions = SMALL) -> Node:
    leader = Node(options=options).lead(1)
    for number in range(60):
        leader.items(number % 3, number, 1, bytes(100))
    leader.commit()
    return leader


def test_the_log_is_kept_for_who_lags_though_nobody_wants_its_items() -> None:
    leader = full()
    leader.journal.keep_log(20)
    for _ in range(3):
        leader.checkpoint(live=lambda *_: 0)
    assert 13 < leader.journal.log_start <= 20
    whole = log_of(leader, 20)
    assert [row[0] for row in whole] == list(range(20, 61))
    again = leader.killed()
    assert log_of(again, 20) == whole
    again.journal.committed(61)
    again.journal.keep_log(20)
    again.checkpoint(live=lambda *_: 0)
    assert log_of(again, 20) == whole, "a start goes on keeping it"
    again.journal.keep_log(45)
    again.checkpoint(live=lambda *_: 0)
    assert 38 < again.journal.log_start <= 45
    again.journal.keep_log(None)
    again.checkpoint(live=lambda *_: 0)
    assert again.journal.log_start > 50


def test_the_log_that_is_kept_is_not_combined() -> None:
    leader = full()
    leader.journal.keep_log(20)

    def few(stream: int, first: int, stop: int) -> int:
        return sum(1 for item in range(first, stop) if item % 9 == 0 and item % 3 == stream)

    for _ in range(4):
        leader.checkpoint(live=few)
    kinds = [segment.header.kind for segment in leader.journal._catalog.segments]
    assert kinds.count(COMPACTED) == 1, "what is before it was"
    assert [row[0] for row in log_of(leader, 20)] == list(range(20, 61))
    assert all(leader.journal.locate(0, item) for item in range(0, 60, 9))


def test_beyond_its_limit_the_oldest_of_the_log_goes_and_a_reader_is_told_where_it_begins() -> None:
    leader = full(KEEPING)
    reading = leader.journal.read_log(2)
    assert next(reading).lsn == 2
    leader.journal.keep_log(1)
    leader.checkpoint(live=lambda *_: 0)
    start = leader.journal.log_start
    assert 61 - 35 < start < 61 - 14
    assert 4096 - 1024 < leader.journal.log_bytes_from(start) <= 4096
    assert leader.journal.log_bytes_from(60) == leader.journal._catalog.segments[-1].end
    for reads in (lambda: leader.journal.read_log(start - 1), lambda: leader.journal.log_piece(3)):
        with pytest.raises(LogGoneError) as gone:
            reads()
        assert gone.value.log_start == start
    leader.journal._tail._records.clear()
    with pytest.raises(LogGoneError) as gone:
        list(reading)
    assert (gone.value.lsn, gone.value.log_start) == (3, start)
    assert str(gone.value) == f"the log does not hold record 3 any more: it begins with {start}"


def test_a_piece_whose_segment_was_given_back_and_written_over_says_so() -> None:
    leader = full(JournalOptions(segment_bytes=1024, spare_segments=9, log_tail_bytes=1))
    leader.journal._tail = type(leader.journal._tail)(1, leader.journal.next_lsn)
    pieces = [leader.journal.log_piece(lsn) for lsn in (1, 9)]
    leader.checkpoint(live=lambda *_: 0)
    with pytest.raises(LogGoneError):
        pieces[0].read()
    for number in range(60, 150):
        leader.items(number % 3, number, 1, bytes(100))
    leader.commit()
    with pytest.raises(LogGoneError):
        pieces[1].read()


def test_a_segment_that_is_recycled_while_it_is_read_is_not_damage() -> None:
    leader = full(JournalOptions(segment_bytes=1024, spare_segments=9))
    leader.journal._tail = type(leader.journal._tail)(1, leader.journal.next_lsn)
    piece = leader.journal.log_piece(1)
    disk: SimulatedDisk = leader.disk

    class Overtaken:
        """When the file is open, it is given back and written over."""

        def __getattr__(self, name: str) -> Any:
            return getattr(disk, name)

        def size(self, file: int) -> int:
            leader.checkpoint(live=lambda *_: 0)
            for number in range(60, 150):
                leader.items(number % 3, number, 1, bytes(100))
            leader.commit()
            return disk.size(file)

    piece._files = Overtaken()  # type: ignore[attr-defined]
    with pytest.raises(LogGoneError):
        piece.read()


def test_a_long_record_is_a_piece_of_its_own() -> None:
    leader = Node(options=JournalOptions(segment_bytes=1 << 16)).lead(1)
    leader.event(bytes(5000))
    leader.event(b"short")
    leader.run()
    assert [record.size for record in leader.journal.log_piece(1, 100).read()] == [5000]
    again = leader.killed(starts=False)
    assert [record.size for record in again.journal.log_piece(1, 100).read()] == [5000]
    assert again.journal.log_piece(2).read() == [ShippedRecord(2, 1, 1, 0, (b"short",))]
