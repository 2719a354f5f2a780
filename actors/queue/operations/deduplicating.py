"""What of a batch a queue stores that remembers ids: not what has the id of a message that it has stored within its window.

Each queue judges for itself, in the instant in which it stores: so what comes together is judged in its order, and of what cannot be stored
no id is remembered. What is staged is judged when its transaction is committed. Dead letters, and what somebody moves, are not judged.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from actors.errors import NextTurnError, TransactionTooLargeError
from actors.queue.operations.refusing import NoRoom
from actors.queue.state.accepted_ids import check_lengths, ids_of
from actors.queue.state.deduplication import IdsDue
from actors.queue.state.senders import joined_batches
from actors.queue.structures.ranges import merged
from actors.queue.vocabulary.events import MessagesAdded, MessagesDeduplicated
from actors.queue.vocabulary.replies import SentMessages, Tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actors.batch import MessageBatch
    from actors.queue.state.accepted_ids import AcceptedIds
    from actors.queue.state.core import QueueCore
    from actors.queue.state.log import QueueLog
    from actors.queue.state.senders import Incoming
    from actors.queue.state.stage import Stage
    from actors.queue.structures.ranges import Range
    from actors.queue.vocabulary.stages import StageKey

MAX_STAGED_IDS: Final = 100_000
"""Ids of a queue in open transactions: each is looked at in the instant of its commit, and all of them are in memory until then."""
Core = TypeVar("Core", bound="QueueCore")
Runs: TypeAlias = "tuple[tuple[int | None, int], ...]"
"""Of messages in their order: the number of the first, and how many follow one another from there; None for duplicates."""


class Judged(NamedTuple):
    """What is stored of a batch.

    Attributes:
        batch: the messages that are no duplicates; None where there are none.
        until_us: until when their ids count; 0 where they have none.
        duplicates: of each message of the batch whether it is one; empty where none is.
    """

    batch: MessageBatch | None
    until_us: int = 0
    duplicates: tuple[bool, ...] = ()


def judge(accepted: AcceptedIds, batch: MessageBatch, wall_us: int) -> Judged:
    """What is stored of a batch at the time of day ``wall_us``. Nothing is remembered of it before it is."""
    accepted.forget(wall_us)
    ids = ids_of(batch)
    if ids is None:
        return Judged(batch)
    seen: set[bytes] = set()
    duplicates: list[bool] = []
    for digest in ids:
        known = digest is not None and (digest in accepted or digest in seen)
        duplicates.append(known)
        if digest is not None:
            seen.add(digest)
    if not any(duplicates):
        accepted.look(batch, ids)
        return Judged(batch, accepted.until_us)
    parts: list[MessageBatch] = []
    at = 0
    for known, run in groupby(duplicates):
        stop = at + sum(1 for _ in run)
        if not known:
            parts.append(batch.slice(at, stop))
        at = stop
    kept = None if not parts else parts[0].compact() if len(parts) == 1 else joined_batches(parts)
    if kept is not None:
        accepted.look(kept, [digest for digest, known in zip(ids, duplicates, strict=True) if not known])
    return Judged(kept, accepted.until_us, tuple(duplicates))


def judge_staged(accepted: AcceptedIds, batch: MessageBatch) -> Judged:
    """All of a batch that is staged is stored; its ids count when it is published."""
    return Judged(batch, 0 if ids_of(batch) is None else accepted.until_us)


def check_ids(core: QueueCore, accepted: AcceptedIds, batch: MessageBatch, stage: StageKey | None) -> None:
    """Raise the QueueError for which a batch cannot be stored: an id that is too long, or too many of them in open transactions."""
    check_lengths(batch)
    if stage is None or (ids := ids_of(batch)) is None:
        return
    count, most = core.log.staged_ids + len(ids) - ids.count(None), min(accepted.limit, MAX_STAGED_IDS)
    if count > most:
        raise TransactionTooLargeError(core.name, stage.writer, stage.version, "MAX_STAGED_IDS", most, count)


def check_own_ids(core: QueueCore, accepted: AcceptedIds, batch: MessageBatch, stage: StageKey | None) -> None:
    """The same for a sender's batch, which counts in this turn of the queue; raises NextTurnError behind so many ids."""
    if core.ids_left is not None:
        if core.ids_left <= 0:
            raise NextTurnError
        core.ids_left -= batch.count
    check_ids(core, accepted, batch, stage)


def judged_beside(core: QueueCore, batch: MessageBatch, wall_us: int, stage: StageKey | None) -> Judged:
    """What a queue that remembers ids stores of a batch that comes beside its senders; raises QueueError as `check_ids`."""
    accepted = core.log.accepted
    assert accepted is not None, "it was looked at"
    check_ids(core, accepted, batch, stage)
    return judge(accepted, batch, wall_us) if stage is None else judge_staged(accepted, batch)


def kept_of(batch: MessageBatch, names: Iterable[str], judged: Mapping[str, Judged] | None) -> MessageBatch | None:
    """What the first of some queues stores of a batch; None where it stores nothing."""
    found = None if judged is None else judged.get(next(iter(names), ""))
    return batch if found is None else found.batch


def without_duplicates(
    added: dict[str, tuple[Core, MessagesAdded | MessagesDeduplicated]],
    judged: Mapping[str, Judged],
    *,
    recorded: bool = False,
) -> int:
    """Have each of several queues get what is no duplicate there; with ``recorded`` there is an event of each.

    Returns:
        by which event the messages are stored of which others are duplicates, where there is no event of these; else 0.
    """
    before = 0
    for name, found in judged.items():
        if name not in added:
            continue
        core, event = added[name]
        assert isinstance(event, MessagesAdded), "nothing else is judged"
        core.total_deduplicated += sum(found.duplicates)
        if found.batch is not None:
            added[name] = core, replace(event, batch=found.batch, ids_until_us=found.until_us)
        elif event.producers or event.temporary or recorded:
            added[name] = core, MessagesDeduplicated(event.producers, event.temporary)
        else:
            del added[name]
            before = max(before, core.log.added_by, core.log.published_by)
    return before


def why_not(core: QueueCore, accepted: AcceptedIds, batch: MessageBatch | None) -> tuple[bool, str | None]:
    """Whether there is anything new in a batch, and why a queue that rejects has no room for its ids; None where it has.

    Where the batch is not at hand (None) anything may be new, and have an id.
    """
    if batch is None:
        new, ids = True, {b""}
    else:
        found = ids_of(batch) or [None] * batch.count
        coming = accepted.coming
        ids = {each for each in found if each is not None and each not in accepted and each not in coming}
        new = bool(ids) or None in found
    return new, _no_room(core, accepted, ids)


def why_not_staged(core: QueueCore, stages: Iterable[Stage]) -> str | None:
    """Why a queue that rejects has no room for the ids of what a transaction publishes there; None where it has."""
    accepted = core.log.accepted
    if accepted is None:
        return None
    ids = {digest for stage in stages for digest in stage.ids.values()}
    return _no_room(core, accepted, {digest for digest in ids if digest not in accepted})


def _no_room(core: QueueCore, accepted: AcceptedIds, new: set[bytes]) -> str | None:
    if len(new) <= max(0, accepted.room - len(accepted.coming)):
        return None
    return NoRoom(
        f"queue {core.name!r} remembers {len(accepted)} ids of max_deduplication_ids {accepted.limit}, and stores no more new ones "
        "before the oldest are over"
    )


def forget_ids(core: QueueCore, now: float) -> None:
    """Forget the ids whose window is over, and have those who wait for that go on."""
    if core.log.accepted is None:
        return
    core.log.accepted.forget(core.clocks.time_us(now))
    for heap in core.heaps:
        if isinstance(heap, IdsDue):
            heap.looked_at = now
    core.grant()


def numbered(group: Iterable[Incoming], duplicates: tuple[bool, ...], first: int) -> dict[int, Runs]:
    """The numbers of what is stored of each batch of a group, by the batches' identity, from ``first`` on."""
    numbers: dict[int, Runs] = {}
    at = 0
    for item in group:
        runs: list[tuple[int | None, int]] = []
        for known, run in groupby(duplicates[at : at + item.new]):
            count = sum(1 for _ in run)
            runs.append((None if known else first, count))
            first += 0 if known else count
        at += item.new
        numbers[id(item)] = tuple(runs)
    return numbers


def tell_numbers(core: QueueCore, item: Incoming, runs: Runs, number: int) -> int:
    """Confirm a batch of which something was a duplicate, and the rest is stored from ``number`` on; returns how much that is."""
    duplicates = sum(count for first, count in runs if first is None)
    core.total_deduplicated += duplicates
    sent = SentMessages(item.up_to, None if item.known else number, None, None if item.known else runs)
    # What it is a duplicate of others may have stored where the queue sees no new number, or may have published just now.
    after = max(core.last_event, core.log.added_by, core.log.published_by)
    core.effects.append(Tell(item.sender.connection, sent, after))
    return item.new - duplicates


def duplicates_of(log: QueueLog, published: Iterable[StageKey], wall_us: int) -> tuple[int, tuple[Range, ...]]:
    """What a commit is to say of the ids that are published in a queue: until when they count, and which messages are duplicates."""
    accepted = log.accepted
    stages = [log.stages[key] for key in published if log.stages[key].ids]
    if accepted is None or not stages:
        return 0, ()
    accepted.forget(wall_us)
    found: list[Range] = []
    seen: set[bytes] = set()
    for number, digest in sorted(each for stage in stages for each in stage.ids.items()):
        if digest in accepted or digest in seen:
            found.append((number, number + 1))
        seen.add(digest)
    return accepted.until_us, merged(found)
