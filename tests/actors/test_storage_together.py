"""Records of several queues: all of them get theirs in one instant, or none."""

from __future__ import annotations

from actors.batch import MessageBatch
from actors.queue.vocabulary.events import (
    Event,
    MessagesAcknowledged,
    MessagesAdded,
    MessagesMoved,
)
from actors.storage import verify_storage
from tests.actors.storage_lives import DATA, KEY, Life, facts, in_loop


@in_loop
def test_what_goes_into_several_queues_is_in_all_of_them_in_one_instant_and_after_a_start() -> None:
    life = Life()
    batch = MessageBatch.from_payloads([b"1", b"2"])
    before = life.storage._journal.next_lsn
    lsn = life.storage.record_all({n: MessagesAdded(0, batch, 1_000_000) for n in range(3)})
    assert lsn == before
    assert life.storage._journal.next_lsn == before + 1, "one record"
    assert [life.held(n) for n in range(3)] == [[b"1", b"2"]] * 3
    life.run()
    assert life.storage.durable == lsn
    again = life.killed()
    assert [life.held(n) for n in range(3)] == [[b"1", b"2"]] * 3
    assert [facts(log) for log in again.logs.values()] == [facts(log) for log in life.logs.values()]
    after = again.closed()
    assert [after.held(n) for n in range(3)] == [[b"1", b"2"]] * 3
    assert [facts(log) for log in after.logs.values()] == [facts(log) for log in life.logs.values()]


@in_loop
def test_every_queue_counts_its_messages_as_if_they_were_recorded_alone() -> None:
    life, alone = Life(), Life()
    batch = MessageBatch.from_payloads([b"1", b"2"])
    life.storage.record_all({n: MessagesAdded(0, batch, 1_000_000) for n in range(3)})
    for n in range(3):
        alone.record(n, MessagesAdded(0, batch, 1_000_000))
    life.run()
    for run in (life, life.killed()):
        assert [facts(log) for log in run.logs.values()] == [facts(log) for log in alone.logs.values()]
        sizes = [run.storage._journal.locate(n, 0) for n in range(3)]
        assert sizes == [alone.storage._journal.locate(n, 0) for n in range(3)]
    again = life.killed()
    for n in range(3):
        again.record(n, MessagesAcknowledged(((0, 2),)))
    assert [(log.stored_messages, log.stored_batches, log.stored_bytes) for log in again.logs.values()] == [
        (0, 0, 0)
    ] * 3


@in_loop
def test_what_several_queues_get_alike_is_stored_once_and_what_differs_for_each() -> None:
    life = Life()
    batch = MessageBatch.from_payloads([bytes(5_000)])
    life.run()
    life.storage.record_all({n: MessagesAdded(0, batch, 1_000_000) for n in range(3)})
    assert life.storage.statistics()["pending_bytes"] < 6_000
    life.run()
    life.storage.record_all({n: MessagesAdded(1, batch, 1_000_000, ttl_us=1 + n // 2) for n in range(3)})
    assert 10_000 < life.storage.statistics()["pending_bytes"] < 11_000
    life.run()
    again = life.killed()
    entry = again.logs[2].table.at(1)
    assert entry is not None
    assert bytes(entry.batch.payloads[0]) == bytes(5_000)


@in_loop
def test_a_write_that_is_torn_anywhere_leaves_it_in_no_queue() -> None:
    life = Life(segment_bytes=4096, reserve_bytes=0)
    for n in range(3):
        life.record(n, life.added(n, b"before"))
    life.record(0, life.added(0, b"staged", stage=KEY))
    life.run()
    events: dict[int, Event] = {
        0: MessagesMoved(((0, 1),)),
        1: life.added(1, b"one"),
        2: life.added(2, b"two", b"three"),
    }
    life.storage.record_all(events)
    life.run()
    (path,) = [
        DATA / name for name in life.disk.names(DATA) if name.endswith(".segment") and name.startswith("0" * 19)
    ][-1:]
    life.storage._journal.abandon()
    disk = life.disk.restart()
    file = disk.open(path)
    whole = disk.read(file, disk.size(file), 0)
    disk.close(file)
    end = len(whole.rstrip(b"\0"))
    for cut in (*range(48, end), end):
        torn = disk.restart()
        file = torn.open(path, write=True)
        torn.truncate(file, cut)
        torn.sync(file)
        torn.close(file)
        after = Life(torn, segment_bytes=4096, reserve_bytes=0)
        held = [after.held(n) for n in range(3)]
        if cut == end:
            assert held == [[], [b"before", b"one"], [b"before", b"two", b"three"]]
        else:
            assert held == [[b"before"]] * 3
        after.storage._journal.abandon()


@in_loop
def test_a_checkpoint_has_it_in_every_queue_whatever_the_queues_have_made_of_it() -> None:
    life = Life()
    life.storage.record_all({n: life.added(n, b"x") for n in range(3)})
    life.checkpoint()
    again = life.killed()
    assert [again.held(n) for n in range(3)] == [[b"x"]] * 3
    assert again.storage._journal.checkpoint_payload is not None


@in_loop
def test_it_is_kept_on_the_disk_as_long_as_one_queue_wants_it_and_then_given_back() -> None:
    life = Life(segment_bytes=16 * 1024, spare_segments=0, reserve_bytes=0)
    batches = 40
    for number in range(batches):
        batch = MessageBatch.from_payloads([b"%d" % number + bytes(2_000)])
        life.storage.record_all({n: MessagesAdded(number, batch, 1) for n in range(3)})
        life.run()
    full = life.storage.statistics()["disk_bytes"]
    assert full < 2 * batches * 2_000 + 32 * 1024, "it is there once"
    for n in (0, 2):
        life.record(n, MessagesAcknowledged(((0, batches),)))
    for _ in range(3):
        life.checkpoint()
    assert [life.held(n) for n in (0, 2)] == [[], []]
    assert [payload.rstrip(b"\0") for payload in life.held(1)] == [b"%d" % number for number in range(batches)]
    life.record(1, MessagesAcknowledged(((0, 30),)))
    for _ in range(4):
        life.checkpoint()
    assert life.storage.statistics()["disk_bytes"] < full / 2
    assert len(life.held(1)) == 10
    again = life.closed()
    assert len(again.held(1)) == 10
    again.storage.close()
    assert verify_storage(DATA, again.disk) == []


@in_loop
def test_a_queue_that_was_deleted_gets_nothing_and_then_nobody_does() -> None:
    life = Life()
    for n in range(3):
        life.record(n, life.added(n, b"x"))
    gets: dict[int, Event] = {0: MessagesMoved(((0, 1),)), 1: life.added(1, b"y")}
    loses: dict[int, Event] = {1: MessagesMoved(((0, 1),)), 2: life.added(2, b"z")}
    life.storage.delete(1)
    before = life.storage._journal.next_lsn
    assert life.storage.record_all(gets) == 0
    assert life.storage._journal.next_lsn == before
    assert life.held(0) == [b"x"]
    assert life.storage.record_all(loses) == before, "what it would have lost is another's all the same"
    life.run()
    for run in (life, life.killed()):
        assert run.held(0) == [b"x"]
        assert run.held(2) == [b"x", b"z"]


@in_loop
def test_a_start_after_a_repair_keeps_messages_whose_new_queue_nobody_knows() -> None:
    life = Life()
    life.record(0, life.added(0, b"x"))
    batch = MessageBatch.from_payloads([b"x"])
    events = {0: MessagesMoved(((0, 1),)), 2: life.added(2, b"y"), 9: MessagesAdded(0, batch, 1)}
    life.storage._contents.apply(events, None, 7)
    assert (life.held(0), life.logs[2].next_sequence) == ([b"x"], 1)


@in_loop
def test_nothing_is_no_record() -> None:
    life = Life()
    before = life.storage._journal.next_lsn
    assert life.storage.record_all({}) == 0
    assert life.storage._journal.next_lsn == before
