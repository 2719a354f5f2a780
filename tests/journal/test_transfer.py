"""A replica that has nothing is filled: with the records that are wanted before a checkpoint, and with that; then the log goes on."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest

from journal import (
    Journal,
    JournalDamagedError,
    JournalError,
    JournalFailedError,
    JournalLockedError,
    JournalOptions,
    JournalUsageError,
    ReplicaError,
    ShippedRecord,
    TransferHead,
    TransferSource,
    TransferTarget,
    TransferUnfinishedError,
    repair,
    verify,
)
from journal.format import COMPACTED, ITEMS
from journal.items import ITEMS_PREFIX
from journal.pins import Pins
from tests.fault.disk import ROOT, SimulatedDisk
from tests.fault.faulty_files import Fault, FaultyFiles, Kind, Panic
from tests.journal.replicas import DIRECTORY, SMALL, Node, log_of, logs, plain, ship

NEW = ROOT / "new"
STREAMS = (0, 1, 2, 7, 8)


def live(stream: int, first: int, stop: int) -> int:
    """One item of five; and of the streams of one record stream 7 alone, of every third."""
    if stream == 8:
        return 0
    step = 3 if stream == 7 else 5
    return sum(1 for item in range(first, stop) if item % step == 0)


def filled(options: JournalOptions = SMALL) -> Node:
    """A leader with records of every kind over many segments."""
    leader = Node(options=options).lead(2)
    more(leader, 0, 90)
    leader.commit()
    return leader


def more(leader: Node, first: int, stop: int) -> None:
    for number in range(first, stop):
        leader.items(number % 3, number, 1, b"%d." % number + bytes(60))
        leader.several([7, 8], number, b"%d;" % number + bytes(30))
        leader.event(b"event %d" % number)


def source_of(leader: Node, state: bytes = b"the state") -> TransferSource:
    """A transfer that is ready."""
    ready: list[TransferSource] = []
    source = leader.journal.begin_transfer(ready.append)
    leader.checkpoint(state, live=live)
    assert ready == [source]
    return source


def fill(source: TransferSource, target: TransferTarget, most: int = 1 << 20) -> None:
    for piece in source.records(target.next_lsn, most):
        target.add(piece)
    target.begin_state()
    for part in source.state(most):
        target.add_state(part)
    target.finish(source.head())


def wanted(node: Node) -> dict[tuple[int, int], bytes]:
    """The live items that can be read."""
    found = {}
    for stream in STREAMS:
        for span in node.journal.spans(stream, 0, 1 << 30):
            for item in range(span.first, span.stop):
                if live(stream, item, item + 1):
                    found[stream, item] = bytes(node.journal.read(stream, item).payload)
    return found


def joined(disk: Any, options: JournalOptions = SMALL) -> Node:
    return Node(disk, options, directory=NEW)


@pytest.mark.parametrize("most", [1, 300, 1 << 20])
def test_a_replica_that_was_filled_has_every_live_item_and_goes_on_with_the_log(most: int) -> None:
    leader = filled()
    source = source_of(leader, b"s" * 1000)
    more(leader, 90, 95)
    disk = SimulatedDisk()
    fill(source, TransferTarget(NEW, SMALL, disk), most)
    source.release()
    assert [found for found in verify(NEW, disk.restart()) if found.fatal] == []
    node = joined(disk)
    assert node.reports == []
    assert node.journal.checkpoint_payload == b"s" * 1000
    assert node.journal.position == (2, source.lsn - 1)
    assert node.journal.log_start == node.journal.next_lsn == node.journal.truncation_floor == source.lsn
    assert node.journal.epoch_of(source.lsn - 1) == 2
    before = {key: payload for key, payload in wanted(leader).items() if key[1] < 90}
    assert wanted(node) == before
    ship(leader, node)
    assert wanted(node) == wanted(leader)
    assert log_of(node) == log_of(leader, source.lsn)
    node.run()
    again = Node(node.disk.restart(), directory=NEW)
    assert wanted(again) == wanted(leader)
    assert again.journal.position == leader.journal.position


def test_only_records_with_live_items_are_sent_in_bounded_pieces() -> None:
    leader = filled()
    source = source_of(leader)
    pieces = list(source.records(most=500))
    assert all(sum(record.size for record in piece) <= 500 for piece in pieces)
    sent = [record.lsn for piece in pieces for record in piece]
    assert sent == sorted(set(sent))
    kinds = {record.lsn: record.kind for piece in pieces for record in piece}
    alive = {3 * n + 1 for n in range(90) if n % 5 == 0} | {3 * n + 2 for n in range(90) if n % 3 == 0}
    active = leader.journal._catalog.segments[-1].header.first_lsn
    assert {lsn for lsn in sent if lsn < active} == {lsn for lsn in alive if lsn < active}
    assert set(kinds.values()) == {2, 3}, "what has no items is in the state"
    assert plain(record for piece in source.records(100) for record in piece) == [
        row for row in plain(record for piece in pieces for record in piece) if row[0] >= 100
    ]


def test_a_long_record_is_a_piece_of_its_own() -> None:
    leader = Node().lead(1)
    for number, size in enumerate((5000, 20, 20)):
        leader.items(0, 5 * number, 1, bytes(size))
    leader.commit()
    source = source_of(leader)
    assert [[record.size for record in piece] for piece in source.records(most=100)] == [[5016], [36, 36]]
    disk = SimulatedDisk()
    fill(source, TransferTarget(NEW, SMALL, disk), 100)
    assert wanted(joined(disk)) == wanted(leader)


def test_what_the_transfer_reads_stays_until_it_is_released() -> None:
    leader = filled()
    source = source_of(leader)
    before = plain(record for piece in source.records() for record in piece)
    for turn in range(4):
        more(leader, 100 + 20 * turn, 120 + 20 * turn)
        leader.commit()
        leader.checkpoint(live=lambda *_: 0)
    assert leader.journal.statistics().disk_bytes > sum(len(payload) for *_, payload in before)
    assert plain(record for piece in source.records() for record in piece) == before
    assert source.head().lsn == source.lsn
    held = leader.journal.pins.held_bytes
    assert held
    source.release()
    source.release()
    leader.checkpoint(live=lambda *_: 0)
    assert leader.journal.pins.held_bytes == 0
    for reads in (lambda: list(source.records()), source.head, lambda: list(source.state())):
        with pytest.raises(ReplicaError, match="let go"):
            reads()


def test_transfers_that_are_released_before_they_are_prepared_cost_no_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[TransferSource] = []
    choose = TransferSource.choose

    def counted(source: TransferSource, live: Any) -> Any:
        asked.append(source)
        return choose(source, live)

    monkeypatch.setattr(TransferSource, "choose", counted)
    leader = filled()
    for _ in range(3):
        leader.journal.begin_transfer(lambda _: None).release()
    wants = leader.journal.begin_transfer(lambda _: None)
    assert leader.journal._wanted == leader.journal._begun == [wants], "nothing is kept of those that have gone"
    list(leader.journal.prepare_checkpoint(live))
    assert asked == [wants]
    assert leader.journal._wanted == []


def test_a_transfer_that_is_released_while_it_is_read_says_so() -> None:
    leader = filled()
    source = source_of(leader)
    reading = source.records(most=1)
    next(reading)
    source.release()
    leader.checkpoint(live=lambda *_: 0)
    leader.checkpoint(live=lambda *_: 0)
    with pytest.raises(ReplicaError, match="let go"):
        list(reading)


@pytest.mark.parametrize("when", ["before", "prepared", "cut"])
def test_a_transfer_that_is_released_before_it_is_ready_holds_nothing(when: str) -> None:
    leader = filled()
    ready: list[TransferSource] = []
    source = leader.journal.begin_transfer(ready.append)
    if when == "before":
        source.release()
    list(leader.journal.prepare_checkpoint(live))
    if when == "prepared":
        source.release()
    leader.journal.cut_checkpoint()
    if when == "cut":
        source.release()
    leader.journal.store_checkpoint(b"")
    leader.run()
    assert ready == []
    assert leader.journal.pins.names == frozenset()


def test_several_transfers_and_a_backup_hold_their_files_at_once() -> None:
    leader = filled()
    first = source_of(leader)
    leader.journal.checkpoint(b"backup", lambda _, first, stop: stop - first)
    pin = leader.journal.pins.take()
    leader.run()
    second = source_of(leader)
    first.release()
    assert leader.journal.pins.pinned
    leader.journal.pins.release()
    assert {name for name in leader.journal.pins.names if name.endswith(".segment")}
    assert pin.checkpoint_lsn <= second.lsn
    assert list(second.records())
    second.release()
    assert leader.journal.pins.names == frozenset()


def stood_in_for(leader: Node) -> TransferSource:
    """A transfer of the checkpoint that is stored, for the next one waits for what nobody commits."""
    ready: list[TransferSource] = []
    leader.event(b"not committed")
    source = leader.journal.begin_transfer(ready.append)
    leader.journal.checkpoint(b"later", live)
    leader.run()
    assert ready == []
    leader.journal.give_stored()
    assert ready == [source]
    return source


def test_the_checkpoint_that_is_stored_is_given_with_all_records_that_it_may_refer_to() -> None:
    leader = filled()
    leader.checkpoint(b"the state", live)
    source = stood_in_for(leader)
    disk = SimulatedDisk()
    fill(source, TransferTarget(NEW, SMALL, disk))
    node = joined(disk)
    assert wanted(node) == wanted(leader)
    assert node.journal.checkpoint_payload == b"the state"
    ship(leader, node)
    assert node.journal.position == leader.journal.position


def test_damage_in_the_segment_that_was_not_full_at_that_checkpoint_is_found_and_no_record_left_out() -> None:
    leader = filled()
    leader.checkpoint(b"the state", live)
    segment = leader.journal._catalog.segments[-1]
    assert not segment.sealed
    assert segment.stop_lsn > segment.header.first_lsn + 1, "it has records"
    content = bytearray(leader.disk.content(segment.path))
    content[segment.end - 1] ^= 1
    source = stood_in_for(leader)
    leader.disk.replace(segment.path, bytes(content))
    with pytest.raises(JournalDamagedError, match="checksum"):
        list(source.records())


def test_a_checkpoint_of_a_journal_that_was_repaired_is_refused_also_where_it_was_stored_before() -> None:
    leader = filled()
    leader.checkpoint(b"the state", live)
    stored = leader.journal._housekeeping.stored
    assert stored is not None
    first, second, *others = stored.segments
    source = leader.journal.begin_transfer(lambda _: None)
    source.stand_in(stored._replace(segments=(second, first, *others)))
    with pytest.raises(ReplicaError, match="lie between those of others"):
        list(source.records())


def test_what_is_appended_while_it_is_asked_for_is_sent() -> None:
    leader = filled()
    ready: list[TransferSource] = []
    source = leader.journal.begin_transfer(ready.append)
    for step, _ in enumerate(leader.journal.prepare_checkpoint(live)):
        number = 1000 + 5 * step
        leader.items(step % 3, number, 1, b"late %d" % step + bytes(80))
        leader.items(100 + step, 0, 1, b"new %d" % step)
    assert step > 5
    leader.journal.cut_checkpoint()
    leader.journal.store_checkpoint(b"")
    leader.commit()
    assert ready == [source]
    disk = SimulatedDisk()
    fill(source, TransferTarget(NEW, SMALL, disk))
    node = joined(disk)
    assert wanted(node) == wanted(leader)
    for late in range(step + 1):
        assert bytes(node.journal.read(100 + late, 0).payload) == b"new %d" % late


def test_what_nobody_can_be_asked_about_any_more_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("journal.transfer_source.TRANSFER_QUESTIONS", 3)
    leader = filled()
    source = source_of(leader)
    assert len([record for piece in source.records() for record in piece]) > 100
    disk = SimulatedDisk()
    fill(source, TransferTarget(NEW, SMALL, disk))
    assert wanted(joined(disk)) == wanted(leader)


def test_a_damaged_record_is_not_sent() -> None:
    leader = filled()
    source = source_of(leader)
    path = DIRECTORY / logs(leader.disk)[0]
    content = bytearray(leader.disk.content(path))
    content[content.index(b"0;" + bytes(30))] ^= 1
    leader.disk.replace(path, bytes(content))
    with pytest.raises(JournalDamagedError) as damage:
        list(source.records())
    assert damage.value.file == path


def test_a_damaged_index_and_segment_fail_the_transfer_and_not_the_checkpoint() -> None:
    leader = filled()
    again = leader.killed().lead(3)
    again.journal.committed(again.journal.next_lsn)
    path = DIRECTORY / logs(again.disk)[0]
    again.disk.replace(path, again.disk.content(path)[:-30])
    again.disk.unlink(path.with_suffix(".index"))
    ready: list[TransferSource] = []
    source = again.journal.begin_transfer(ready.append)
    again.checkpoint(live=live)
    assert ready == [source]
    with pytest.raises(JournalDamagedError):
        list(source.records())


@cache
def in_memory() -> tuple[list[ShippedRecord], bytes, TransferHead, dict[tuple[int, int], bytes]]:
    """What a source gives, and what has to be read of it."""
    leader = filled()
    source = source_of(leader, b"t" * 300)
    records = [record for piece in source.records() for record in piece]
    return records, b"".join(source.state()), source.head(), wanted(leader)


def take_all(target: TransferTarget) -> None:
    records, state, head, _ = in_memory()
    for record in records:
        target.add([record])
    target.begin_state()
    target.add_state(state)
    target.finish(head)


def complete(disk: Any) -> None:
    """The directory opens, and holds all that was sent."""
    assert [found for found in verify(NEW, disk.restart()) if found.fatal] == []
    node = joined(disk)
    _, state, head, items = in_memory()
    assert wanted(node) == items
    assert (node.journal.checkpoint_payload, node.journal.next_lsn) == (state, head.lsn)
    kinds = [segment.header.kind for segment in node.journal._catalog.segments[:-1]]
    assert set(kinds) == {COMPACTED}
    node.lead(9).event()
    node.run()


def test_nothing_opens_a_directory_that_is_not_filled_yet() -> None:
    disk = SimulatedDisk()
    target = TransferTarget(NEW, SMALL, disk)
    for record in in_memory()[0]:
        target.add([record])
    with pytest.raises(JournalLockedError):
        TransferTarget(NEW, SMALL, disk)
    target.close()
    for opens in (
        lambda: Journal.open(NEW, SMALL, disk.restart()),
        lambda: joined(disk.restart()),
        lambda: repair(NEW, disk.restart()),
        lambda: verify(NEW, disk.restart()),
    ):
        with pytest.raises(TransferUnfinishedError, match="filled by another member"):
            opens()


def test_an_interrupted_transfer_goes_on_behind_the_last_whole_segment() -> None:
    disk = SimulatedDisk()
    records = in_memory()[0]
    seen = set()
    for count in range(0, len(records), 3):
        target = TransferTarget(NEW, SMALL, disk)
        seen.add(target.next_lsn)
        target.add(records[:count])
        target.close()
    assert len(seen) > 3
    target = TransferTarget(NEW, SMALL, disk)
    assert target.next_lsn > records[-15].lsn
    take_all(target)
    complete(disk)


def test_a_segment_that_was_damaged_meanwhile_is_sent_again() -> None:
    disk = SimulatedDisk()
    target = TransferTarget(NEW, SMALL, disk)
    target.add(in_memory()[0])
    target.close()
    names = logs(disk, NEW)
    assert len(names) > 3
    content = bytearray(disk.content(NEW / names[1]))
    content[200] ^= 1
    disk.replace(NEW / names[1], bytes(content))
    target = TransferTarget(NEW, SMALL, disk)
    assert logs(disk, NEW) == names[:1]
    take_all(target)
    complete(disk)


def test_it_goes_on_from_another_leader_with_a_later_checkpoint() -> None:
    leader, other = filled(), Node()
    disk = SimulatedDisk()
    source = source_of(leader)
    target = TransferTarget(NEW, SMALL, disk)
    target.add([record for piece in source.records() for record in piece][:30])
    target.close()
    ship(leader, other)
    other.run()
    other.journal.committed(other.journal.next_lsn)
    other = other.killed().lead(9)
    more(other, 90, 130)
    other.commit()
    target = TransferTarget(NEW, SMALL, disk)
    assert target.next_lsn > 0
    fill(source_of(other, b"later"), target)
    node = joined(disk)
    assert wanted(node) == wanted(other)
    assert node.journal.checkpoint_payload == b"later"
    assert node.journal.position == other.journal.position


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (ShippedRecord(200, 1, 1, 0, (b"event",)), "has no items"),
        (ShippedRecord(200, 1, 2, ITEMS, (b"short",)), "does not follow"),
        (ShippedRecord(200, 1, 2, ITEMS, (ITEMS_PREFIX.pack(3, 5, 1) + bytes(900),)), "come twice"),
        (ShippedRecord(200, 1, 2, ITEMS, (ITEMS_PREFIX.pack(3, 5, 1),)), "come twice"),
    ],
)
def test_what_cannot_be_from_a_journal_is_refused(record: ShippedRecord, why: str) -> None:
    target = TransferTarget(NEW, SMALL, SimulatedDisk())
    target.add([ShippedRecord(100, 1, 2, ITEMS, (ITEMS_PREFIX.pack(3, 5, 4) + bytes(500),))])
    with pytest.raises(ReplicaError, match=why):
        target.add([record])


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head._replace(lsn=100),
        lambda head: head._replace(state_bytes=head.state_bytes + 1),
        lambda head: head._replace(epoch_first=head.lsn),
        lambda head: head._replace(epoch_first=-1),
    ],
)
def test_a_head_that_does_not_fit_is_refused_and_the_transfer_can_go_on(change: Any) -> None:
    disk = SimulatedDisk()
    target = TransferTarget(NEW, SMALL, disk)
    records, state, head, _ = in_memory()
    target.add(records)
    target.begin_state()
    target.add_state(b"of another")
    target.begin_state()
    target.add_state(state)
    with pytest.raises(ReplicaError, match="does not fit"):
        target.finish(change(head))
    target.close()
    take_all(TransferTarget(NEW, SMALL, disk))
    complete(disk)


def test_where_more_has_come_than_belongs_to_the_head_of_another_leader_the_next_transfer_begins_anew() -> None:
    disk = SimulatedDisk()
    target = TransferTarget(NEW, SMALL, disk)
    records, state, head, _ = in_memory()
    target.add(records)
    target.add_state(state)
    with pytest.raises(ReplicaError, match="does not fit"):
        target.finish(head._replace(lsn=records[-1].lsn))
    target.close()
    again = TransferTarget(NEW, SMALL, disk)
    assert again.next_lsn == 0
    take_all(again)
    complete(disk)


def test_a_disk_that_refuses_that_note_is_said_as_everywhere() -> None:
    files = FaultyFiles(SimulatedDisk())
    target = TransferTarget(NEW, SMALL, files)
    records, state, head, _ = in_memory()
    target.add(records)
    target.add_state(state)
    renamed = sum(call.operation == "rename" for call in files.calls)
    files._faults = (Fault(renamed, Kind.ENOSPC, "rename"),)
    with pytest.raises(JournalFailedError):
        target.finish(head._replace(lsn=records[-1].lsn))
    target.close()


def test_a_state_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("journal.transfer_target.MAX_STATE_BYTES", 10)
    target = TransferTarget(NEW, SMALL, SimulatedDisk())
    target.add_state(bytes(10))
    with pytest.raises(ReplicaError, match="more than 10 bytes"):
        target.add_state(b"1")


def lagging() -> Node:
    """A replica with some of the log, closed."""
    node = Node(directory=NEW)
    node.journal.promise(7)
    node.journal.join("orders")
    ship(filled(), node, 40)
    node.run()
    node.journal.close()
    return node


def test_a_directory_with_a_journal_is_filled_only_where_that_is_given_up() -> None:
    node = lagging()
    before = node.disk.files(NEW)
    with pytest.raises(ReplicaError, match="holds a journal"):
        TransferTarget(NEW, SMALL, node.disk)
    assert node.disk.files(NEW) == before


def test_a_replica_that_lags_is_filled_as_the_one_that_it_was() -> None:
    node = lagging()
    target = TransferTarget(NEW, SMALL, node.disk, replace=True)
    assert (target.directory_id, target.promised) == (node.journal.directory_id, 7)
    take_all(target)
    complete(node.disk)
    again = joined(node.disk.restart())
    assert (again.journal.directory_id, again.journal.promised, again.journal.cluster_id) == (
        node.journal.directory_id,
        7,
        "orders",
    )


def test_a_replica_does_not_come_back_with_less_than_it_had() -> None:
    node = Node(directory=NEW).lead(1)
    node.events(300)
    node.run()
    node.journal.abandon()
    target = TransferTarget(NEW, SMALL, node.disk, replace=True)
    with pytest.raises(ReplicaError, match="has had every record below 301"):
        take_all(target)
    target.close()
    with pytest.raises(ReplicaError, match="has had every record below 301"):
        take_all(TransferTarget(NEW, SMALL, node.disk))


def test_a_damaged_replica_is_filled_under_another_id() -> None:
    node = Node(directory=NEW).lead(1)
    node.events(300)
    node.journal.close()
    path = NEW / logs(node.disk, NEW)[3]
    node.disk.replace(path, node.disk.content(path)[:-30])
    with pytest.raises(JournalDamagedError):
        TransferTarget(NEW, SMALL, node.disk, replace=True)
    target = TransferTarget(NEW, SMALL, node.disk, replace=True, new_id=True)
    assert target.directory_id != node.journal.directory_id
    assert target.promised == 0
    take_all(target)
    complete(node.disk)


def calls_of(act: Any, disk: SimulatedDisk) -> int:
    files = FaultyFiles(disk)
    act(files)
    return len(files.calls)


def whole_transfer(files: Any, *, replace: bool = False) -> None:
    take_all(TransferTarget(NEW, SMALL, files, replace=replace))


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("turn", [0, *(pytest.param(turn, marks=pytest.mark.soak) for turn in range(1, 7))])
def test_a_death_or_power_loss_at_any_call_leaves_nothing_that_is_half_a_journal(turn: int, replace: bool) -> None:
    begin = lagging().disk if replace else SimulatedDisk()
    calls = calls_of(lambda files: whole_transfer(files, replace=replace), begin.restart())
    assert calls > 100
    finished = 0
    for call in sorted({*range(turn, calls, 7), *range(calls - 4, calls)}):
        disk = begin.restart()
        with pytest.raises(Panic):
            whole_transfer(FaultyFiles(disk, Fault(call, Kind.PANIC_AFTER)), replace=replace)
        for left in (disk.restart(), *(disk.crash(Random(100 * call + seed)) for seed in range(2))):
            finished += settled(left, replace)
    assert finished


def settled(disk: SimulatedDisk, replace: bool) -> bool:
    """Whether what is there is the journal that was sent. If not, it is that from before, or is filled again."""
    try:
        node = joined(disk)
    except TransferUnfinishedError:
        whole_transfer(disk.restart(), replace=False)
        return False
    if node.journal.checkpoint_payload is None:
        node.journal.close()
        assert len(log_of(Node(disk.restart(), directory=NEW))) == (40 if replace else 0)
        whole_transfer(disk, replace=True)
        complete(disk)
        return False
    node.journal.abandon()
    complete(disk.restart())
    return True


def test_a_file_system_that_refuses_is_said_and_lets_the_directory_go() -> None:
    calls = calls_of(whole_transfer, SimulatedDisk())
    failed = 0
    for call in range(0, calls, 9):
        disk = SimulatedDisk()
        files = FaultyFiles(disk, Fault(call, Kind.EIO))
        target = None
        try:
            target = TransferTarget(NEW, SMALL, files)
            take_all(target)
        except (JournalFailedError, JournalDamagedError, JournalUsageError):
            failed += 1
        except JournalError as error:  # pragma: no cover - a finding
            raise AssertionError(call) from error
        if target is not None:
            target.close()
        names = disk.names(NEW) if NEW.name in disk.names(ROOT) else []
        if "transfer" in names or not any(name.startswith("checkpoint-") for name in names):
            whole_transfer(disk)
        complete(disk.restart())
    assert failed > 10


def test_without_a_hold_what_the_transfer_reads_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above of what stays must be able to fail."""
    monkeypatch.setattr(Pins, "hold", lambda *_: 0)
    leader = filled()
    source = source_of(leader)
    for turn in range(4):
        more(leader, 100 + 20 * turn, 120 + 20 * turn)
        leader.commit()
        leader.checkpoint(live=lambda *_: 0)
    with pytest.raises(JournalDamagedError):
        list(source.records())
