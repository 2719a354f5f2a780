"""The operations of transactions on one queue: stage, publish, discard.

What is staged has its numbers and is stored like any other message, and nobody can receive it. A commit is applied to the logs of all
queues at once (``staged.ended_stages``). Each queue then acts on it: its messages are ready from there on, in their old place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.errors import (
    InvalidRequestError,
    QueueLimitError,
    StageDiscardedError,
    TransactionCommittedError,
)
from actors.queue.operations.dispatch import dispatch
from actors.queue.operations.dropping import drop_over
from actors.queue.operations.sending import detach_sender, refuse_sender
from actors.queue.state.entries import spans_of, stored_entry
from actors.queue.state.newest import OF_STAGE, check_newest
from actors.queue.state.senders import Sender
from actors.queue.structures.deadlines import US_PER_SECOND, each_due
from actors.queue.vocabulary.budgets import TIMER_BUDGET
from actors.queue.vocabulary.events import StagesDiscarded
from actors.queue.vocabulary.replies import SenderAttached, Superseded, Tell
from actors.queue.vocabulary.settings import MAX_STAGE_NAME, MAX_STAGES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.batch import MessageBatch
    from actors.queue.state.core import QueueCore
    from actors.queue.state.stage import Stage
    from actors.queue.vocabulary.commands import AttachSender, DiscardTransaction, EndStages
    from actors.queue.vocabulary.distributed import DropStages
    from actors.queue.vocabulary.replies import Connection
    from actors.queue.vocabulary.stages import StageKey

MAX_VERSION = 2**63 - 1
"""The largest version: what a signed number of eight bytes holds."""


def check_stage(key: StageKey) -> None:
    """Raise InvalidRequestError for a writer, a version or a stage that cannot be."""
    for what, name in (("writer", key.writer), ("stage", key.name)):
        if len(name) > MAX_STAGE_NAME:
            raise InvalidRequestError(f"the name of a {what} has {len(name)} characters; {MAX_STAGE_NAME} are allowed")
    if not key.writer:
        raise InvalidRequestError("a transaction's writer has a name")
    if not 0 <= key.version <= MAX_VERSION:
        raise InvalidRequestError(f"version {key.version} of a writer is not between 0 and {MAX_VERSION}")


def attach_stage(core: QueueCore, command: AttachSender, now: float) -> None:
    """Make a sender known that stages."""
    connection, key = command.connection, command.stage
    assert key is not None, "who stages has a stage"
    check_stage(key)
    if connection in core.senders:
        raise InvalidRequestError("this connection is attached as a sender already")
    stages, staged = core.log.stages, core.staged
    if key not in stages and len(stages) >= MAX_STAGES:
        raise QueueLimitError("MAX_STAGES", MAX_STAGES, "commit or abort what is staged, or write fewer partitions")
    older = staged.senders.get(key)
    _check_way(core, key, older, through_exchange=command.shared is not None)
    check_newest(older, command, OF_STAGE)
    if older is not None:
        detach_stage(core, older.connection, now)
        core.effects.append(Tell(older.connection, Superseded()))
    messages = stages[key].messages if key in stages else 0
    sender = Sender(connection, None, messages, staged.capacity, key, arrival=command.arrival)
    core.senders[connection] = sender
    staged.attached(sender, key)
    if command.shared is not None:
        sender.permits.queue = command.shared
    else:
        levels = core.settings.max_priority or 0
        core.tell(connection, SenderAttached(messages or None, core.is_committed(key), max_priority=levels))


def _check_way(core: QueueCore, key: StageKey, sender: Sender | None, *, through_exchange: bool) -> None:
    """Raise InvalidRequestError where a stage is written in the other way: the numbers of the two are not the same."""
    stage = core.log.stages.get(key)
    other = sender is not None and (sender.permits.queue is not None) != through_exchange
    if other or (stage is not None and (stage.numbers is not None) != through_exchange):
        way = "by a sender to this queue" if through_exchange else "through an exchange"
        raise InvalidRequestError(
            f"stage {key.name!r} of version {key.version} of writer {key.writer!r} is written {way} in queue {core.name!r}: "
            "name another stage"
        )


def check_staged_beside(core: QueueCore, key: StageKey, batch: MessageBatch, *, delayed: bool) -> None:
    """Raise the QueueError for which a batch that comes through an exchange cannot be staged: as of one that a sender sends here."""
    stages, staged = core.log.stages, core.staged
    if core.versions.covers(key.writer, key.version):
        raise TransactionCommittedError(key.writer, key.version)
    if key not in stages and len(stages) >= MAX_STAGES:
        raise QueueLimitError("MAX_STAGES", MAX_STAGES, "commit or abort what is staged, or write fewer partitions")
    _check_way(core, key, staged.senders.get(key) or _on_its_way(core, key), through_exchange=True)
    waiting = core.delayed_batches() if delayed else None
    staged.check_room(key, len(batch), batch.nbytes + core.log.table.overhead, waiting)


def _on_its_way(core: QueueCore, key: StageKey) -> Sender | None:
    """The sender of a stage whose connection has ended, and of which something is accepted and not stored."""
    if not core.staged.incoming_messages:
        return None
    return next((item.sender for item in core.incoming if item.sender.stage == key), None)


def detach_stage(core: QueueCore, connection: Connection, now: float) -> None:
    """Forget a sender, if it is one; what it staged stays for a while."""
    sender = core.senders.get(connection)
    if sender is not None:
        core.staged.detached(sender, now)
        detach_sender(core, connection, now)


def end_stages(core: QueueCore, command: EndStages, now: float) -> None:
    """Act on a commit."""
    core.depend_on(command.after)
    for key in command.discarded:
        core.staged.take(key)
    for key in command.published:
        stage = core.staged.take(key)
        if stage is not None:
            _make_ready(core, stage, now)
    winners = frozenset(command.published)
    # One that goes with its connection is no version of anybody's, and ends no other's sender.
    if not winners or not all(key.passing for key in winners):
        for key, sender in list(core.staged.senders.items()):
            if key not in winners and core.versions.covers(key.writer, key.version):
                refuse_sender(core, sender, TransactionCommittedError(key.writer, key.version), now)
    dispatch(core, now)
    if core.drops:
        drop_over(core, now)
    core.grant()


def drop_stages(core: QueueCore, command: DropStages, _now: float) -> None:
    """Act on stages' being discarded by others; one of the name that was begun since is another."""
    core.depend_on(command.after)
    for key in command.stages:
        stage = core.staged.stages.get(key)
        if stage is not None and stage.first < command.below:
            core.staged.take(key)
    core.grant()


def discard_transaction(core: QueueCore, command: DiscardTransaction, now: float) -> int:
    """Drop all that a transaction has staged; returns how many messages."""
    writer, version = command.writer, command.version
    discarded = discard(core, [key for key in core.log.stages if key[:2] == (writer, version)])
    for key, sender in list(core.staged.senders.items()):
        if key[:2] == (writer, version):
            # What it would send on from is no more.
            refuse_sender(core, sender, StageDiscardedError(core.name, key.name), now)
    return discarded


def discard(core: QueueCore, keys: Iterable[StageKey]) -> int:
    """Drop stages, those of them that there are and that are not committed; returns how many messages."""
    stages = core.log.stages
    there = tuple(key for key in keys if key in stages)
    if not there:
        return 0
    messages = sum(stages[key].messages for key in there)
    core.commit(StagesDiscarded(there, core.log.next_sequence))
    for key in there:
        core.staged.take(key)
    core.grant()
    return messages


def end_absences(core: QueueCore, now: float) -> None:
    """Drop the stages whose sender has been away too long."""
    discard(core, list(each_due(core.staged.pop_given_up, now, TIMER_BUDGET)))


def _make_ready(core: QueueCore, stage: Stage, now: float) -> None:
    for start, stop in stage.ranges:
        if not stage.ids:
            core.ready.publish(start, stop)
            continue
        # What is gone of it already are duplicates.
        core.total_deduplicated += stop - start
        for part in core.log.acknowledged.gaps(start, stop):
            core.ready.publish(*part)
            core.total_deduplicated -= part[1] - part[0]
        # What is published comes only now.
        core.arrived_from = min(core.arrived_from, start)
    for first, (stop, due_us) in stage.delayed.items():
        due = core.clocks.due(first, due_us)
        if due > now + core.settings.delay:
            due = min(due, _due_as_stored(core, first, due_us))
        if due <= now:
            core.log.delay_ended(first)
            continue
        for part in core.ready.carve(first, stop):
            for span in spans_of(core.log.table, *part):
                core.ready.delay(span, due)


def _due_as_stored(core: QueueCore, first: int, due_us: int) -> float:
    """When a batch's delay is over by its age: its time of day says too much if that was set back over a restart."""
    entry = stored_entry(core.log.table, first).read()
    return (core.clocks.instant_us(first, entry.enqueued_us) + due_us - entry.enqueued_us) / US_PER_SECOND
