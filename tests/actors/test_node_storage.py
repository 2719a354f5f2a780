"""A node's directory: a follower folds what is committed, a leader confirms what is confirmed, and a follower it is again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest

from actors.batch import Message, MessageBatch
from actors.errors import DiskBehindError, StorageError
from actors.queue.queue_directory import QueueDirectory
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.events import MessagesAcknowledged, MessagesAdded
from actors.queue.vocabulary.settings import QueueSettings
from actors.storage import Storage, checkpoints, codec, leader_storage, pin_journal
from actors.storage.after_repair import set_mark
from actors.storage.failures import LeadershipLostError
from actors.storage.leader_storage import LeaderStorage
from actors.storage.node_news import NodeHooks
from actors.storage.node_shipping import NodeShipping
from actors.storage.node_storage import NodeStorage
from journal import (
    JournalDamagedError,
    JournalOptions,
    ManualCommitter,
    OsFiles,
    ShippedRecord,
    TransferSource,
    TransferTarget,
)
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.node_cluster import DATA, SMALL, WHOLE, Member, Trio, at_once, until
from tests.actors.stored_queues import Connection, turns
from tests.fault.disk import SimulatedDisk
from tests.fault.faulty_files import Fault, FaultyFiles, Kind
from tests.journal.replicas import logs, on_the_wire, plain

LARGE = 10**9


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        run_in_virtual_time(test(*arguments, **fixtures))

    return run


def add(storage: LeaderStorage, number: int, count: int = 1, size: int = 20) -> int:
    """Store messages; returns the event's number."""
    log = storage.contents.queues[number].log
    event = MessagesAdded(log.next_sequence, MessageBatch.from_payloads([bytes(size)] * count), 1_000_000)
    lsn = storage.record(number, event)
    log.apply(event, lsn)
    return lsn


def done(storage: LeaderStorage, number: int, start: int, stop: int) -> None:
    """Acknowledge messages; it is gathered."""
    event = MessagesAcknowledged(((start, stop),))
    storage.record(number, event)
    storage.contents.queues[number].log.apply(event, 0)


async def leading(options: JournalOptions = SMALL) -> tuple[Trio, LeaderStorage]:
    """A cluster whose leader has a queue, of which all know."""
    trio = Trio(Random(1), options)
    storage = (await trio.lead((0, 1))).start(trio.led.failures.append)
    storage.declare("q", None)
    await trio.round()
    return trio, storage


async def folded(node: NodeStorage) -> None:
    """Everything that is committed is folded."""
    await until(lambda: node.folded == node.log.committed)


def follower(trio: Trio) -> Member:
    return next(member for member in trio.members if member is not trio.led)


# A follower.


@on_loop
async def test_a_follower_has_what_is_committed_and_nothing_else() -> None:
    trio, storage = await leading()
    member = follower(trio)
    committed = add(storage, 0, 3)
    await trio.round()
    add(storage, 0, 5)
    await trio.ship(trio.members.index(member))
    member.run()
    await member.folded()
    assert member.storage.contents.queues[0].log.stored_messages == 3
    assert member.node.folded == committed + 1 < member.node.journal.durable_lsn
    await trio.round()
    await member.folded()
    assert member.state() == trio.led.state()
    assert member.storage.contents.queues[0].log.stored_messages == 8


@on_loop
async def test_a_follower_folds_in_steps_between_which_others_have_their_turn() -> None:
    trio, storage = await leading(WHOLE)
    trio.lags = {2}
    for _ in range(400):
        add(storage, 0)
    await trio.round()
    member = follower(trio)
    trio.lags = set()
    member.node.commit(trio.committed)
    found = []
    while member.node._followed.behind:
        found.append(member.node.folded)
        await asyncio.sleep(0)
    assert len(found) >= 3
    assert max(later - earlier for earlier, later in pairwise(found)) <= 128


@on_loop
async def test_a_follower_holds_no_payloads() -> None:
    trio, storage = await leading(WHOLE)
    for _ in range(50):
        add(storage, 0, 10, 1000)
    await trio.round()
    member = follower(trio)
    await member.folded()
    assert member.storage.statistics()["cache_bytes"] == 0
    assert not member.storage.contents.tables[0]._entries
    assert trio.led.storage.statistics()["cache_bytes"] > 400_000


@on_loop
async def test_the_log_and_the_disk_of_a_follower_stay_bounded_and_its_start_begins_at_its_checkpoint() -> None:
    trio, storage = await leading(replace(SMALL, cluster_log_bytes=5 * SMALL.segment_bytes))
    member = follower(trio)
    for number in range(600):
        add(storage, 0, 1, 200)
        done(storage, 0, number, number + 1)
        if number % 10 == 9:
            storage._gathered.write()
            await trio.round()
            await turns()
        if number % 100 == 99:
            # What was acknowledged gives its room back within two seconds, but for the log that is kept for others.
            for _ in range(3):
                await elapse(25.0)
                await trio.round()
    assert member.storage.checkpoints.made >= 5
    facts = member.node.journal.statistics()
    assert facts.disk_bytes < 15 * SMALL.segment_bytes
    assert member.node.journal.next_lsn - member.node.journal.checkpoint_lsn < 2 * SMALL.checkpoint_records
    await member.folded()
    before = member.state()
    number = trio.members.index(member)
    trio.replace(number, trio.members[number].disk.restart())
    again = trio.members[number]
    assert again.node.folded == again.node.journal.checkpoint_lsn > 500
    again.node.commit(trio.committed)
    await again.folded()
    assert again.state() == before


@on_loop
async def test_who_was_away_for_long_needs_no_transfer_from_a_follower_that_has_come_to_lead() -> None:
    trio, storage = await leading()
    away, former, other = 2, trio.leader, follower(trio)
    await trio.round()
    trio.lags = {away}
    for number in range(400):
        add(storage, 0, 1, 200)
        done(storage, 0, number, number + 1)
        if number % 10 == 9:
            storage._gathered.write()
            await trio.round()
            await elapse(30.0)
            other.run()
    assert other.storage.checkpoints.made >= 5
    assert other.node.journal.checkpoint_lsn > 300
    assert former is not None
    trio.die(former)
    trio.lags = {former}
    await trio.lead((trio.members.index(other), away))
    assert not trio.seen["filled"]
    assert trio.members[away].node.journal.log_start == 1


@on_loop
async def test_a_follower_without_room_gives_back_what_it_keeps_for_others() -> None:
    trio, storage = await leading()
    member = follower(trio)
    for number in range(400):
        add(storage, 0, 1, 200)
        done(storage, 0, number, number + 1)
        if number % 10 == 9:
            storage._gathered.write()
            await trio.round()
            await turns()
    before = member.node.journal.statistics().disk_bytes
    assert before > 15 * SMALL.segment_bytes
    member.node.spare_room(True)
    for _ in range(4):
        await elapse(25.0)
        member.run()
    assert member.node.journal.statistics().disk_bytes < before / 2
    member.node.spare_room(False)
    assert member.node.journal._kept_from == 0


@on_loop
async def test_a_follower_whose_journal_is_full_has_appended_what_it_could_and_goes_on_behind_that() -> None:
    trio, storage = await leading()
    number = next(number for number, member in enumerate(trio.members) if member is not trio.led)
    await trio.round()
    options = replace(SMALL, max_pending_bytes=2_000)
    leader, taken = trio.led.node.journal, Member(trio.members[number].disk.restart(), options=options)
    for _ in range(20):
        add(storage, 0, 1, 200)
    records = list(on_the_wire(leader.read_log(taken.node.log.end)))
    taken.node.append(records)
    assert records[0].lsn < taken.node.log.end < records[-1].lsn
    assert not taken.failures
    taken.run()
    while taken.node.log.end <= records[-1].lsn:
        taken.node.append([record for record in records if record.lsn >= taken.node.log.end])
        taken.run()
    assert plain(taken.node.journal.read_log(records[0].lsn)) == plain(records)


def test_what_a_follower_is_sent_in_a_turn_is_on_the_disk_at_its_end_by_one_sync_of_its_own_thread(
    tmp_path: Path,
) -> None:
    class Noting(OsFiles):
        threads: ClassVar[list[int]] = []

        def sync(self, file: int) -> None:
            self.threads.append(threading.get_ident())
            super().sync(file)

    def sent(lsn: int) -> list[ShippedRecord]:
        return [ShippedRecord(lsn, 1, codec.EPOCH_BEGAN, 0, (codec.encode_number(1),))]

    async def main() -> int:
        synced = asyncio.Event()
        node = NodeStorage.open(tmp_path / "data", files=Noting())
        failures: list[StorageError] = []
        node.start(NodeHooks(lambda: None, synced.set, failures.append))

        async def turn(*records: list[ShippedRecord]) -> bool:
            """Append; whether all of it is on the disk when the turn is over."""
            Noting.threads.clear()
            synced.clear()
            for each in records:
                node.append(each)
            end = node.log.end
            await asyncio.sleep(0)
            here = node.log.durable == end and synced.is_set()
            while node.log.durable < end:
                await asyncio.wait_for(synced.wait(), 30)
                synced.clear()
            return here

        # The first makes a segment: that is the writer's.
        assert not await turn(sent(1))
        writer = node.journal._writer
        assert writer is not None
        # A thread that was told to write may still be on its way to rest, and then it does that too.
        for _ in range(1_000):
            writer.last_sync_seconds = writer.slowest_sync_seconds = (
                0.0  # a sync is quick by the test's word, and not by the machine's
            )
            lsn = node.log.end
            if await turn(sent(lsn), sent(lsn + 1)) and Noting.threads == [threading.get_ident()]:
                break
        else:
            raise AssertionError("no turn was committed by the loop's thread")
        # What is held when the node ends is on the disk too.
        node.append(sent(node.log.end))
        end = node.log.end
        await asyncio.wait_for(node.close(), 30)
        assert failures == []
        return end

    end = asyncio.run(main())
    again = NodeStorage.open(tmp_path / "data")
    assert again.log.end == end
    again.journal.abandon()


@on_loop
async def test_a_follower_that_ends_leaves_a_checkpoint_of_all_that_it_has_folded() -> None:
    trio, storage = await leading()
    add(storage, 0, 3)
    await trio.round()
    member = follower(trio)
    await member.folded()
    before, number = member.state(), trio.members.index(member)
    await member.node.close()
    await member.node.close()
    again = trio.members[number] = Member(member.disk.restart())
    assert again.node.folded == trio.committed == again.node.journal.next_lsn
    assert again.state() == before


@on_loop
async def test_a_follower_far_behind_makes_no_checkpoint_for_each_few_records() -> None:
    trio, storage = await leading(WHOLE)
    for _ in range(300):
        add(storage, 0)
    await trio.round()
    member = Member(SimulatedDisk())  # which is due a checkpoint after 60 records
    member.node.append(on_the_wire(trio.led.node.journal.read_log(1)))
    member.run()
    made = []
    for lsn in range(10, 290, 20):
        member.node.commit(lsn)
        await member.folded()
        await turns()
        member.run()
        made.append(member.storage.checkpoints.made)
    assert made[:6] == [0] * 6
    assert 1 <= made[-1] <= 4


@on_loop
async def test_ids_are_forgotten_by_a_follower_as_messages_come_later() -> None:
    trio = Trio(Random(1), WHOLE)
    storage = (await trio.lead((0, 1))).start(trio.led.failures.append)
    storage.declare("q", QueueSettings(deduplication_window=1.0))
    log = storage.contents.queues[0].log
    for second in range(20):
        batch = MessageBatch.from_messages([Message(b"", deduplication_id=f"{second}-{n}") for n in range(1200)])
        now_us = 1_000_000 * (1 + second)
        event = MessagesAdded(log.next_sequence, batch, now_us, ids_until_us=now_us + 1_000_000)
        log.apply(event, storage.record(0, event))
        await trio.round()
    member = follower(trio)
    await member.folded()
    accepted = member.storage.contents.queues[0].log.accepted
    assert accepted is not None
    assert len(accepted) == 1200
    assert log.accepted is not None
    assert len(log.accepted) == 20 * 1200, "a log itself forgets nothing: its queue does"


@on_loop
async def test_a_record_that_a_follower_cannot_read_ends_its_node_and_names_the_file() -> None:
    trio, storage = await leading(JournalOptions(segment_bytes=4096, log_tail_bytes=1))
    for _ in range(20):
        add(storage, 0, 1, 500)
    member = follower(trio)
    await trio.ship(trio.members.index(member))
    member.run()
    first = DATA / logs(member.disk, DATA)[1]
    content = bytearray(member.disk.content(first))
    content[2000] ^= 1
    member.disk.replace(first, bytes(content))
    member.node.journal._tail._records.clear()  # they are in memory, for nobody else comes behind them
    member.node.commit(member.node.journal.durable_lsn)
    for _ in range(10):
        await asyncio.sleep(0)
    (failure,) = member.failures
    assert isinstance(failure.__cause__, JournalDamagedError)
    assert first.name in str(failure)
    folded = member.node.folded
    member.node.commit(member.node.journal.durable_lsn)
    await turns()
    assert member.node.folded == folded
    assert len(member.failures) == 1


# What a directory was before.


@on_loop
async def test_a_broker_that_was_alone_is_the_first_node_with_all_that_it_has() -> None:
    disk, committer = SimulatedDisk(), ManualCommitter()
    alone = Storage.open(DATA, SMALL, files=disk, committer=committer).start(lambda _: None)
    number = alone.declare("q", None).number
    log = alone.queues[0].log
    for at in range(3):
        event = MessagesAdded(log.next_sequence, MessageBatch.from_payloads([b"m%d" % at]), 1)
        log.apply(event, alone.record(number, event))
        committer.run()
    alone._journal.abandon()
    for _ in range(2):
        member = Member(disk.restart())
        assert member.storage.contents.queues[0].log.stored_messages == 3
        assert member.node.store_id == alone.store_id
        disk = member.disk
        member.gone()
    trio = Trio(Random(1), SMALL, members=1)
    trio.replace(0, disk.restart())
    member = trio.members[0]
    member.node.lead(1)
    storage = (await member.node.opened()).start(member.failures.append)
    assert storage.contents.queues[0].log.stored_messages == 3
    assert storage.store_id == alone.store_id
    add(storage, number)
    member.run()
    member.node.commit(member.node.journal.next_lsn)
    again = Member(member.disk.restart())
    again.node.commit(again.node.journal.next_lsn)
    await again.folded()
    assert again.storage.contents.queues[0].log.stored_messages == 4


@on_loop
async def test_a_directory_that_was_repaired_is_no_replica() -> None:
    member = Member()
    member.gone()
    disk = member.disk.restart()
    set_mark(disk, DATA)
    with pytest.raises(StorageError, match=r"was repaired.*filled anew"):
        Member(disk)
    # It was let go of.
    disk.unlink(DATA / "repaired")
    Member(disk).gone()


# To lead.


@on_loop
async def test_who_has_folded_everything_leads_without_reading_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    trio, storage = await leading()
    add(storage, 0, 100)
    await trio.round()
    member = follower(trio)
    await member.folded()
    contents = member.storage.contents
    trio.die(trio.members.index(trio.led))
    monkeypatch.setattr("actors.storage.followed.FollowedContents._apply", None)
    member.node.lead(2)
    opened = await member.node.opened()
    assert opened.contents is contents
    assert opened.contents.queues[0].log.stored_messages == 100
    assert (opened.epoch, opened.store_id) == (2, storage.store_id)


@on_loop
async def test_what_the_log_holds_uncommitted_is_folded_before_it_opens() -> None:
    trio, storage = await leading(WHOLE)
    for _ in range(300):
        add(storage, 0)
    member = follower(trio)
    await trio.ship(trio.members.index(member))
    member.run()
    await member.folded()
    assert member.storage.contents.queues[0].log.stored_messages == 0
    member.node.lead(2)
    opening = asyncio.ensure_future(member.node.opened())
    await asyncio.sleep(0)
    assert not opening.done()
    opened = await opening
    assert opened.contents.queues[0].log.stored_messages == 300


@on_loop
async def test_no_checkpoint_is_cut_while_a_leader_folds_what_is_uncommitted() -> None:
    trio, storage = await leading()
    for _ in range(400):
        add(storage, 0)
    member = follower(trio)
    await trio.ship(trio.members.index(member))
    member.run()
    await member.folded()
    member.storage.checkpoints.make()  # its first slice: it is not cut yet
    member.node.lead(2)
    made = member.storage.checkpoints.made
    while member.node._followed.behind:
        await asyncio.sleep(0)
        member.run()
        assert member.storage.checkpoints.made == made
    await turns()
    member.run()
    assert member.storage.checkpoints.made == made + 1
    # It is of what is not committed, and waits for that.
    before = member.node.journal.checkpoint_lsn
    found = Member(member.disk.restart())
    assert found.node.journal.checkpoint_lsn < before
    found.gone()
    member.node.commit(member.node.journal.durable_lsn)
    member.run()
    found = Member(member.disk.restart())
    assert found.node.journal.checkpoint_lsn == before
    assert found.storage.contents.queues[0].log.stored_messages == 400
    found.gone()


@on_loop
async def test_a_checkpoint_that_a_follower_has_cut_waits_for_what_it_folds_as_a_leader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoints, "SLICE_WORK", 1)
    trio, storage = await leading(WHOLE)
    storage.declare("other", None)
    add(storage, 0, 3)
    await trio.round()
    for _ in range(5):
        add(storage, 1)
    member = follower(trio)
    await trio.ship(trio.members.index(member))
    member.run()
    await member.folded()
    cut = member.node.folded
    member.storage.checkpoints.make()
    while member.node.journal._cut is None:
        member.storage.checkpoints._advance()
    member.node.lead(2)
    await member.node.opened()
    await turns()
    member.run()
    assert member.storage.checkpoints.made == 1
    found = Member(member.disk.restart())
    assert found.node.journal.checkpoint_lsn == 1, "it has what is not committed"
    found.gone()
    member.node.commit(member.node.journal.durable_lsn)
    member.run()
    found = Member(member.disk.restart())
    assert found.node.journal.checkpoint_lsn == cut
    assert found.storage.contents.queues[1].log.stored_messages == 5
    found.gone()


@on_loop
async def test_a_defect_that_keeps_a_record_from_being_folded_ends_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    trio, storage = await leading()
    add(storage, 0)
    member = follower(trio)

    def fails(*_: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr("actors.queue.state.log.QueueLog.apply", fails)
    await trio.ship(trio.members.index(member))
    member.run()
    member.node.commit(member.node.journal.durable_lsn)
    await turns()
    (failure,) = member.failures
    assert "cannot be folded: KeyError('a defect')" in str(failure)


@on_loop
async def test_a_node_that_cannot_lead_says_so_and_ends() -> None:
    member = Member()
    await member.node.promise(5)
    with pytest.raises(StorageError, match="epoch 5 was promised"):
        member.node.lead(4)
    assert len(member.failures) == 1


# What is durable.


@on_loop
async def test_durable_is_what_is_confirmed_and_not_what_is_synced_here() -> None:
    trio, storage = await leading()
    lsn = add(storage, 0)
    waiting = asyncio.ensure_future(storage.synced(lsn))
    told: list[int] = []
    storage.when_durable(lambda: told.append(storage.durable))
    trio.led.run()
    await turns()
    assert trio.led.node.journal.durable_lsn == lsn + 1
    assert storage.durable < lsn
    assert not waiting.done()
    assert told == []
    trio.led.node.confirm(lsn + 1)
    await turns()
    assert storage.durable == lsn
    assert waiting.done()
    assert told == [lsn]
    trio.led.node.confirm(lsn)
    assert storage.durable == lsn, "it never goes back"


@on_loop
async def test_a_sender_is_confirmed_and_a_receiver_served_only_when_that_is_confirmed() -> None:
    trio, storage = await leading()
    queues = QueueDirectory(QueueSettings(), lambda: 1.0, storage=storage)
    queue = queues.get("q")
    sent, received = [], []
    sender, receiver = Connection.start(sent), Connection.start(received)
    queue.tell(commands.AttachSender("p", connection=sender))
    queue.tell(commands.RequestCapacity(10, LARGE, connection=sender))
    queue.tell(commands.AttachReceiver(connection=receiver))
    queue.tell(commands.DemandSignalled(10, LARGE, connection=receiver))
    await turns()
    await trio.round()
    await turns()
    queue.tell(commands.OfferBatch(0, MessageBatch.from_payloads([b"m"]), None, None, sender, 0))
    await turns()
    trio.led.run()
    await turns()
    assert not [each for each in sent if isinstance(each, replies.SentMessages)]
    assert not [each for each in received if isinstance(each, replies.ReceivedMessages)]
    await trio.round()
    await turns()
    assert [each.up_to for each in sent if isinstance(each, replies.SentMessages)] == [1]
    assert [each.first for each in received if isinstance(each, replies.ReceivedMessages)] == [0]
    await queues.stop()


def test_what_comes_alone_to_a_leader_is_shipped_and_then_committed_by_the_thread_of_its_loop(tmp_path: Path) -> None:
    happened: list[str] = []

    class Noting(OsFiles):
        def sync(self, file: int) -> None:
            happened.append("synced here" if threading.get_ident() == here else "synced elsewhere")
            super().sync(file)

    here = threading.get_ident()

    async def main() -> None:
        synced = asyncio.Event()
        node = NodeStorage.open(tmp_path / "data", files=Noting())
        failures: list[StorageError] = []
        node.start(NodeHooks(lambda: happened.append("shipped"), synced.set, failures.append))
        node.lead(1)
        storage = (await node.opened()).start(failures.append)

        async def alone() -> list[str]:
            """Append one that may be alone; what happened until it was on the disk."""
            end = node.log.end
            while node.log.durable < end:
                synced.clear()
                await asyncio.wait_for(synced.wait(), 30)
            happened.clear()
            held = storage.begin_alone(1)
            node.journal.append(codec.EPOCH_BEGAN, [codec.encode_number(1)])
            if held:
                storage.end_alone()
            end = node.log.end
            while node.log.durable < end:
                synced.clear()
                await asyncio.wait_for(synced.wait(), 30)
            return list(happened)

        await alone()
        writer = node.journal._writer
        assert writer is not None
        # A thread that was told to write may still be on its way to rest, and then it does that too.
        for _ in range(1_000):
            # A sync is quick by the test's word, and not by the machine's.
            writer.last_sync_seconds = writer.slowest_sync_seconds = 0.0
            if await alone() == ["shipped", "synced here"]:
                break
        else:
            raise AssertionError(happened)
        storage.close()
        await asyncio.wait_for(node.close(), 30)
        assert failures == []

    asyncio.run(main())


@on_loop
async def test_senders_are_held_back_by_what_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_storage, "PENDING_HIGH_BYTES", 2000)
    monkeypatch.setattr(leader_storage, "PENDING_LOW_BYTES", 500)
    monkeypatch.setattr(leader_storage, "MAX_PENDING_BYTES", 3000)
    trio, storage = await leading(WHOLE)
    told: list[bool] = []
    storage.on_behind = told.append
    add(storage, 0, 1, 1500)
    assert told == []
    add(storage, 0, 1, 1500)
    assert told == [True]
    trio.led.run()
    await turns()
    assert told == [True], "it is on this disk, and nowhere else"
    with pytest.raises(DiskBehindError):
        add(storage, 0)
    assert storage.statistics()["uncommitted_bytes"] > 3000
    await trio.round()
    assert told == [True, False]
    add(storage, 0)


@on_loop
async def test_a_leader_hears_of_what_it_appends_once_a_turn_and_of_what_nobody_waits_for_later() -> None:
    trio, storage = await leading()
    await elapse(1.0)
    told = trio.led.told
    told.clear()
    for _ in range(5):
        add(storage, 0)
    assert told["appended"] == 0
    await asyncio.sleep(0)
    assert told["appended"] == 1
    done(storage, 0, 0, 3)
    await elapse(0.016)  # it is gathered for so long
    assert told["appended"] == 1
    await elapse(0.03)
    assert told["appended"] == 2
    trio.led.run()
    trio.led.run()
    await asyncio.sleep(0)
    assert told["synced"] == 1
    await trio.round()


@on_loop
async def test_what_was_acknowledged_and_has_no_record_is_in_no_checkpoint_of_a_leader() -> None:
    trio, storage = await leading()
    add(storage, 0, 10)
    await trio.round()
    done(storage, 0, 0, 4)
    storage.checkpoints.make()
    done(storage, 0, 4, 6)
    storage.checkpoints._advance(whole=True)
    assert not storage._gathered
    before = storage.contents.queues[0].log.stored_messages
    await trio.round()
    member = follower(trio)
    await member.folded()
    assert member.storage.contents.queues[0].log.stored_messages == before == 4
    found = Member(trio.led.disk.restart())
    assert found.storage.contents.queues[0].log.stored_messages == 4
    found.gone()


@on_loop
async def test_a_leader_gives_a_transfer_though_another_checkpoint_waits_to_be_committed() -> None:
    trio, storage = await leading()
    add(storage, 0, 10)
    storage.checkpoints.make()
    storage.checkpoints._advance(whole=True)
    trio.led.run()
    assert trio.led.node.journal.checkpointing, "it is not committed yet"
    ready: list[TransferSource] = []
    source = trio.led.node.give(ready.append)
    await turns()
    assert ready == []
    for _ in range(4):
        await trio.round()
        await turns()
    assert ready == [source]
    disk = SimulatedDisk()
    target = TransferTarget(DATA, SMALL, disk)
    for piece in source.records():
        target.add(on_the_wire(piece))
    for part in source.state():
        target.add_state(part)
    target.finish(source.head())
    source.release()
    member = Member(disk)
    assert member.storage.contents.queues[0].log.stored_messages == 10
    assert member.storage.store_id == storage.store_id
    member.gone()


# To follow again.


@on_loop
async def test_whoever_waits_when_it_leads_no_more_is_told_so_and_nothing_is_recorded() -> None:
    trio, storage = await leading()
    queues = QueueDirectory(QueueSettings(), lambda: 1.0, storage=storage)
    queue, sent = queues.get("q"), []
    sender = Connection.start(sent)
    queue.tell(commands.AttachSender("p", connection=sender))
    queue.tell(commands.RequestCapacity(10, LARGE, connection=sender))
    await turns()
    await trio.round()
    await turns()
    queue.tell(commands.OfferBatch(0, MessageBatch.from_payloads([b"m"]), None, None, sender, 0))
    await turns()
    waiting = asyncio.ensure_future(storage.synced())
    asked = queue.ask(commands.PurgeQueue(), block=False)
    await turns()
    end = trio.led.node.journal.next_lsn
    failures = trio.led.failures
    trio.led.node.step_down("another leads")
    trio.led.node.confirm(end)
    await turns()
    (failure,) = failures
    assert isinstance(failure, LeadershipLostError)
    assert "another leads" in str(failure)
    with pytest.raises(LeadershipLostError):
        await waiting
    for attempt in (
        lambda: add(storage, 0),
        lambda: storage.declare("other", None),
        lambda: storage.put("section", "key", b"value"),
        lambda: storage.delete(0),
    ):
        with pytest.raises(LeadershipLostError):
            attempt()
    assert storage.durable < end - 1
    assert not [each for each in sent if isinstance(each, replies.SentMessages)]
    await queues.stop()
    with pytest.raises(Exception, match="stopped before its answer was durable"):
        await asked
    assert not [each for each in sent if isinstance(each, replies.SentMessages)]
    storage.close()
    assert trio.led.node.journal.next_lsn == end


@on_loop
async def test_a_leader_that_was_is_a_follower_of_the_next_and_what_it_alone_had_is_gone() -> None:
    trio, storage = await leading()
    add(storage, 0, 2)
    await trio.round()
    add(storage, 0, 5)
    former = trio.members.index(trio.led)
    trio.led.node.step_down("another leads")
    assert isinstance(trio.led.failures.pop(), LeadershipLostError)
    storage.close()
    await trio.led.node.reopen()
    trio.leader = None
    member = trio.members[former]
    await member.folded()
    assert member.storage.contents.queues[0].log.stored_messages == 2
    successor = await trio.lead([n for n in range(3) if n != former])
    successor.start(trio.led.failures.append)
    add(successor, 0, 1)
    await trio.round()
    await member.folded()
    assert trio.seen["truncated"] == 1
    assert member.state() == trio.led.state()
    assert member.storage.contents.queues[0].log.stored_messages == 3
    assert not member.node._leading


@on_loop
async def test_a_log_that_is_cut_is_as_it_was_to_whoever_looks_meanwhile() -> None:
    trio, storage = await leading()
    add(storage, 0, 2)
    await trio.round()
    may = asyncio.Event()

    async def later(function: Callable[[], Any]) -> Any:
        await may.wait()
        return function()

    member = follower(trio)
    add(storage, 0, 5)
    await trio.ship(trio.members.index(member))
    member.run()
    node, log = member.node, member.node.log
    node._apart = later
    before = (log.start, log.end, log.durable, log.committed, log.promised, list(log.epoch_starts()))
    epochs = [log.epoch_of(lsn) for lsn in range(log.start - 1, log.end)]
    cutting = asyncio.ensure_future(node.truncate(log.end - 1))
    await turns()
    assert not cutting.done()
    assert (log.start, log.end, log.durable, log.committed, log.promised, list(log.epoch_starts())) == before
    assert [log.epoch_of(lsn) for lsn in range(log.start - 1, log.end)] == epochs
    may.set()
    truncated = await cutting
    assert truncated.records == 1
    assert (log.end, log.committed) == (before[1] - 1, before[3])
    node._apart = at_once
    await trio.round()
    await member.folded()
    assert member.state() == trio.led.state()


@on_loop
async def test_a_transfer_comes_into_the_place_of_a_directory_that_is_closed() -> None:
    trio, storage = await leading()
    add(storage, 0, 2)
    await trio.round()
    member, seen = follower(trio), []

    def install() -> None:
        # Nobody has it now.
        seen.append(member.node.journal._lock)

    await member.node.reopen(install)
    assert seen == [None]
    await trio.round()
    await member.folded()
    assert member.state() == trio.led.state()


# A disk that fails, and a backup.


@pytest.mark.parametrize("operation", ["write", "sync"])
@on_loop
async def test_a_disk_that_fails_ends_a_follower_which_is_told_once(operation: str) -> None:
    trio, storage = await leading()
    files = FaultyFiles(SimulatedDisk())
    member = Member(files)
    member.node.append(on_the_wire(trio.led.node.journal.read_log(1)))
    member.run()
    add(storage, 0)
    files._faults = (Fault(files._counts.get(operation, 0), Kind.EIO, operation),)
    member.node.append(on_the_wire(trio.led.node.journal.read_log(member.node.log.end)))
    member.committers[-1].run()
    await turns()
    (failure,) = member.failures
    assert "Input/output error" in str(failure)
    with pytest.raises(StorageError):
        await member.node.promise(9)
    with pytest.raises(StorageError):
        member.node.append(())
    await turns()
    assert len(member.failures) == 1


@on_loop
async def test_a_leader_is_backed_up_as_of_what_is_committed() -> None:
    trio, storage = await leading()
    end = add(storage, 0, 10) + 1
    pinning = asyncio.ensure_future(pin_journal(storage))
    for _ in range(5):
        await turns()
        trio.led.run()
    assert not pinning.done(), "its checkpoint waits to be committed"
    await trio.round()
    await turns()
    pinned = await pinning
    assert pinned.lsn >= end
    assert (pinned.epoch, pinned.store_id) == (1, storage.store_id)
    pinned.release()
    await turns()
    await trio.round()


# What a leader has in memory only.


@on_loop
async def test_a_take_over_begins_as_a_start_after_a_crash_does() -> None:
    """Leases are over, acknowledgements without a record are forgotten, transient queues are gone, and waits end when they were to."""
    trio = Trio(Random(1), SMALL)
    storage = (await trio.lead((0, 1))).start(trio.led.failures.append)
    queues = QueueDirectory(QueueSettings(), lambda: 1.0 + asyncio.get_running_loop().time(), storage=storage)
    queues.declare("kept", QueueSettings(max_receives=5, retry_delay=30.0))
    queues.declare("passing", QueueSettings(durable=False))
    for name in ("kept", "passing"):
        queues.distributor.store([name], MessageBatch.from_payloads([b"a", b"b", b"c"]))
    queue, told = queues.get("kept"), []
    receiver = Connection.start(told)
    queue.tell(commands.AttachReceiver(connection=receiver))
    queue.tell(commands.DemandSignalled(3, LARGE, connection=receiver))
    await turns()
    await trio.round()
    await turns()
    assert [each.first for each in told if isinstance(each, replies.ReceivedMessages)] == [0]
    queue.tell(commands.Rejected(((0, 1),), connection=receiver))  # it waits for 30 s now
    await turns()
    await elapse(1.0)
    await trio.round()
    queue.tell(commands.Acknowledged(((1, 1),), connection=receiver))
    await turns()
    former = trio.members.index(trio.led)
    trio.die(former)
    await queues.stop()
    successor = (await trio.lead([n for n in range(3) if n != former])).start(trio.led.failures.append)
    again = QueueDirectory(QueueSettings(), lambda: 1.0 + asyncio.get_running_loop().time(), storage=successor)
    assert list(again) == ["kept"]
    queue, told = again.get("kept"), []
    receiver = Connection.start(told)
    queue.tell(commands.AttachReceiver(connection=receiver))
    queue.tell(commands.DemandSignalled(3, LARGE, connection=receiver))
    await turns()
    await trio.round()
    await turns()

    def numbers() -> list[int]:
        found = [each for each in told if isinstance(each, replies.ReceivedMessages)]
        return [number for each in found for number in range(each.first, each.first + len(each.batch))]

    assert numbers() == [1, 2], "the acknowledged one comes again, and the one that failed waits"
    await elapse(40.0)
    await trio.round()
    await turns()
    assert numbers() == [1, 2, 0]
    await again.stop()


def test_a_node_works_with_threads_and_a_real_disk(tmp_path: Any) -> None:
    async def main() -> None:
        node = NodeStorage.open(tmp_path / "data", JournalOptions(checkpoint_records=50))
        synced, appended = asyncio.Event(), asyncio.Event()
        failures: list[StorageError] = []

        async def confirmed() -> None:
            end = node.journal.next_lsn
            while node.log.durable < end:
                synced.clear()
                await asyncio.wait_for(synced.wait(), 30)
            node.commit(end)
            node.confirm(end)

        node.start(NodeHooks(appended.set, synced.set, failures.append))
        await node.promise(1)
        node.lead(1)
        await asyncio.wait_for(appended.wait(), 30)
        await confirmed()
        storage = (await node.opened()).start(failures.append)
        storage.declare("q", None)
        for _ in range(200):
            add(storage, 0)
        await confirmed()
        await asyncio.wait_for(storage.synced(), 30)
        node.step_down("the test says so")
        assert isinstance(failures.pop(), LeadershipLostError)
        storage.close()
        await node.reopen()
        await node.truncate(node.log.end)
        await asyncio.wait_for(folded(node), 30)
        assert node._storage.contents.queues[0].log.stored_messages == 200
        await node.close()
        assert failures == []

    asyncio.run(main())


@on_loop
async def test_a_promise_that_a_greater_one_has_overtaken_is_kept_by_that() -> None:
    """Each waits for a thread of its own, and those come to the file in any order."""
    turn = asyncio.Event()
    calls: list[Callable[[], Any]] = []

    async def apart(function: Callable[[], Any]) -> Any:
        calls.append(function)
        if len(calls) == 1:
            await turn.wait()
        return function()

    node = NodeStorage.open(DATA, SMALL, files=SimulatedDisk(), committer=ManualCommitter, apart=apart)
    failures: list[StorageError] = []
    node.start(NodeHooks(lambda: None, lambda: None, failures.append))
    first = asyncio.ensure_future(node.promise(5))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(node.promise(6))
    await asyncio.sleep(0)
    turn.set()
    await asyncio.gather(first, second)
    assert node.log.promised == 6
    assert not failures


@on_loop
async def test_what_is_read_of_a_log_that_is_cut_meanwhile_is_of_another_one() -> None:
    trio, storage = await leading()
    add(storage, 0, 2)
    await trio.round()
    behind = follower(trio)
    add(storage, 0, 5)
    await trio.ship(trio.members.index(behind))
    behind.run()
    disk = behind.disk.restart()
    behind.gone()
    member = Member(disk)  # its journal is not started, so it is cut as it stands
    shipping = NodeShipping(member.node, SMALL)
    before = shipping.same_log()
    await member.node.truncate(member.node.log.end - 1)
    assert shipping.same_log() is not before


def test_a_promise_does_not_wait_for_the_threads_of_the_loop(tmp_path: Path) -> None:
    """They look up names, for one, which takes as long as nobody answers."""
    held = threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(64):
            loop.run_in_executor(None, held.wait)
        node = NodeStorage.open(tmp_path / "data")
        node.start(NodeHooks(lambda: None, lambda: None, lambda _: None))
        try:
            await asyncio.wait_for(node.promise(3), 10)
            await asyncio.wait_for(node.close(), 10)
        finally:
            held.set()
        assert node.log.promised == 3

    asyncio.run(main())
