"""Of three one holds something, and others are filled from it, though nothing can be committed before they are."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import wraps
from typing import Any

from actors.batch import MessageBatch
from actors.queue.vocabulary.events import MessagesAcknowledged, MessagesAdded
from actors.storage import Storage
from actors.storage.replica_checkpoints import COMMIT_SECONDS
from journal import ManualCommitter, TransferSource, TransferTarget
from streams.testkit import run_in_virtual_time, settle
from tests.actors.node_cluster import DATA, SMALL, Member
from tests.actors.stored_queues import turns
from tests.fault.disk import SimulatedDisk
from tests.journal.replicas import on_the_wire


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run() -> None:
        run_in_virtual_time(test())

    return run


def add(storage: Storage, number: int) -> None:
    log = storage.queues[number].log
    event = MessagesAdded(log.next_sequence, MessageBatch.from_payloads([b"m"]), 0)
    log.apply(event, storage.record(number, event))


def of_a_broker_that_was_alone(messages: int) -> SimulatedDisk:
    """Its directory, as it is once a checkpoint has come: there is no log before that."""
    disk, committer = SimulatedDisk(), ManualCommitter()
    alone = Storage.open(DATA, SMALL, files=disk, committer=committer).start(lambda _: None)
    number = alone.declare("q", None).number
    for _ in range(messages):
        add(alone, number)
    alone._checkpoints.make()
    alone._checkpoints._advance(whole=True)
    committer.run()
    alone._journal.abandon()
    return disk.restart()


async def given(member: Member, seconds: float = 0.0) -> TransferSource | None:
    """What it gives to one that is to be filled, while nobody confirms anything; None where it does not come to that."""
    ready: list[TransferSource] = []
    source = member.node.give(ready.append)
    for part in range(6):
        member.run()
        await turns()
        await settle(seconds / 6 if part < 5 else 0.0)
    return source if ready == [source] else None


def filled(source: TransferSource) -> Member:
    disk = SimulatedDisk()
    target = TransferTarget(DATA, SMALL, disk)
    for piece in source.records():
        target.add(on_the_wire(piece))
    for part in source.state():
        target.add_state(part)
    target.finish(source.head())
    source.release()
    return Member(disk)


def stored(member: Member) -> int:
    return member.storage.contents.queues[0].log.stored_messages


@on_loop
async def test_who_leads_and_has_nothing_but_beginnings_of_epochs_uncommitted_gives_a_transfer_at_once() -> None:
    member = Member(of_a_broker_that_was_alone(3))
    for epoch in (1, 2):
        # It starts anew, and leads again, before anybody follows.
        first = member.node.journal.next_lsn
        member.node.lead(epoch)
        member.run()
        source = await given(member)
        assert source is not None
        assert source.lsn <= first, "what is not committed is in no state that another one is given"
        other = filled(source)
        assert stored(other) == 3
        assert other.node.journal.next_lsn == source.lsn
        other.gone()
        disk = member.disk
        member.gone()
        member = Member(disk.restart())
    member.gone()


@on_loop
async def test_a_message_that_comes_while_that_state_is_gathered_has_it_wait_until_that_is_committed() -> None:
    member = Member(of_a_broker_that_was_alone(3))
    member.node.lead(1)
    storage = (await member.node.opened()).start(member.failures.append)
    member.run()
    journal = member.node.journal
    storage.checkpoints._before_storing = lambda: iter([add(storage, 0)])  # type: ignore[method-assign,func-returns-value]
    assert await given(member) is None, "the state has a message that no other node has"
    assert journal.checkpointing
    member.node.commit(journal.next_lsn)
    member.run()
    assert not journal.checkpointing
    member.gone()


async def behind(leader: Member, other: Member) -> None:
    """All that the leader's log has and another's has not, shipped."""
    other.node.append(on_the_wire(list(leader.node.journal.read_log(other.node.journal.next_lsn))))
    other.run()
    await turns()


@on_loop
async def test_where_only_the_one_to_be_filled_could_commit_a_checkpoint_it_is_given_the_one_before_that() -> None:
    member = Member(of_a_broker_that_was_alone(3))
    member.node.lead(1)
    storage = (await member.node.opened()).start(member.failures.append)
    member.run()
    journal: Any = member.node.journal
    number = storage.queues[0].number
    before = journal.checkpoint_lsn
    # Two are there no more: of what comes now nothing is committed.
    for _ in range(40):
        add(storage, number)
    done = MessagesAcknowledged(((0, 3),))
    storage.queues[number].log.apply(done, storage.record(number, done))
    member.run()
    source = await given(member, 5 * COMMIT_SECONDS)
    assert source is not None
    assert source.lsn == before
    assert journal.checkpointing, "that of all that there is waits for the one that is filled"
    other = filled(source)
    assert stored(other) == 3, "what is acknowledged by nothing that is committed is there"
    await behind(member, other)
    assert other.node.journal.next_lsn == journal.next_lsn
    for each in (member, other):
        each.node.commit(journal.next_lsn)
        each.run()
        await each.folded()
    assert not journal.checkpointing
    assert stored(other) == stored(member)
    for each in (member, other):
        each.gone()


@on_loop
async def test_no_checkpoint_is_made_for_who_has_been_given_the_one_before() -> None:
    member = Member(of_a_broker_that_was_alone(3))
    member.node.lead(1)
    storage = (await member.node.opened()).start(member.failures.append)
    member.run()
    journal = member.node.journal
    add(storage, 0)
    made = storage.checkpoints.made
    first = member.node.give(lambda _: None)
    for _ in range(6):
        member.run()
        await turns()
    assert journal.held_lsn == journal.next_lsn
    # It comes while that of the first waits for commits, and would have one of its own.
    assert await given(member, 5 * COMMIT_SECONDS) is not None
    assert first.is_there
    member.node.commit(journal.next_lsn)
    for _ in range(6):
        member.run()
        await turns()
    assert not journal.checkpointing
    assert storage.checkpoints.made == made + 1
    member.gone()


@on_loop
async def test_a_checkpoint_that_is_committed_in_time_is_the_one_that_is_given() -> None:
    member = Member(of_a_broker_that_was_alone(3))
    member.node.lead(1)
    storage = (await member.node.opened()).start(member.failures.append)
    member.run()
    add(storage, 0)
    ready: list[TransferSource] = []
    source = member.node.give(ready.append)
    member.run()
    await settle(1.5 * COMMIT_SECONDS)
    assert not ready
    member.node.commit(member.node.journal.next_lsn)
    for _ in range(3):
        member.run()
        await turns()
    await settle(5 * COMMIT_SECONDS)
    assert ready == [source]
    assert source.lsn == member.node.journal.checkpoint_lsn
    member.gone()


@on_loop
async def test_a_checkpoint_is_waited_for_as_long_as_commits_go_on_however_slowly() -> None:
    member = Member(of_a_broker_that_was_alone(3))
    member.node.lead(1)
    storage = (await member.node.opened()).start(member.failures.append)
    member.run()
    for _ in range(6):
        add(storage, 0)
    journal = member.node.journal
    ready: list[TransferSource] = []
    source = member.node.give(ready.append)
    while journal.committed_lsn < journal.next_lsn:
        member.run()
        await turns()
        await settle(0.9 * COMMIT_SECONDS)
        assert not ready
        member.node.commit(journal.committed_lsn + 1)
    for _ in range(3):
        member.run()
        await turns()
    assert ready == [source]
    assert source.lsn == journal.checkpoint_lsn
    member.gone()


@on_loop
async def test_the_log_behind_the_checkpoint_before_is_there_for_who_is_filled_however_little_is_kept_of_it() -> None:
    member = Member(of_a_broker_that_was_alone(3), replace(SMALL, cluster_log_bytes=SMALL.segment_bytes))
    member.node.lead(1)
    storage = (await member.node.opened()).start(member.failures.append)
    member.run()
    journal: Any = member.node.journal
    number = storage.queues[0].number
    member.node.commit(journal.next_lsn)
    first = await given(member)
    assert first is not None
    # It takes its time. Meanwhile much comes, is committed, and is done with; then what comes is committed no more.
    for _ in range(400):
        add(storage, number)
    done = MessagesAcknowledged(((0, 403),))
    storage.queues[number].log.apply(done, storage.record(number, done))
    member.run()
    member.node.commit(journal.next_lsn)
    add(storage, number)
    member.run()
    later = member.node.give(lambda _: None)
    first.release()
    for _ in range(6):
        member.run()
        await turns()
    await settle(5 * COMMIT_SECONDS)
    assert later.is_there
    assert journal.log_start <= later.lsn
    other = filled(later)
    await behind(member, other)
    assert other.node.journal.next_lsn == journal.next_lsn
    for each in (member, other):
        each.gone()
