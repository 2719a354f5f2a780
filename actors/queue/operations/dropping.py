"""Limits that drop: what a queue is to let go of where more is ready than its limits say, the oldest first.

Where there are levels it is the head that goes, as RabbitMQ has it: the oldest of the highest level.

Only what is ready counts, and only that goes: not what receivers hold, is reserved or staged, or waits for a delay. What comes to a queue
without a place for dead letters has what goes for it in its own record, as far as that is known before it is delivered (`in_record`).
Whatever else leads over a limit is seen behind what did (`drop_over`): what came back, what others have stored, other settings. What
came back is dropped before anything is delivered, and what has come after it, so that whoever waits has it first. There are steps, as there
may be a million messages to drop.

Where a queue or an exchange is named for dead letters, they leave by the outbox, as what expires does. While some wait there for those
before them, the others stay ready, and may be delivered, be the queue over its limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from actors.queue.operations.dead_letters import hand_over
from actors.queue.operations.dispatch import dispatch
from actors.queue.operations.expiring import is_at_hand
from actors.queue.state.counted import Counted, share
from actors.queue.state.entries import OVER_LIMIT
from actors.queue.state.leveled_ready import LeveledReady
from actors.queue.structures.ranges import merged
from actors.queue.vocabulary.budgets import COUNT_BUDGET, DROP_BUDGET
from actors.queue.vocabulary.events import MessagesDropped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.queue.state.core import QueueCore
    from actors.queue.structures.ranges import Range


class Dropped(NamedTuple):
    """What is dropped for a batch.

    Attributes:
        ranges: the numbers.
        bytes: of those of them that were ready before the batch came, as far as they are counted.
    """

    ranges: tuple[Range, ...]
    bytes: int = 0


NOTHING = Dropped(())


def in_record(core: QueueCore, messages: int, size: int, ttl_us: int | None) -> Dropped:
    """What is dropped for a batch of so many messages and bytes, which is stored next and ready at once; in the same record as it.

    Nothing where somebody waits, who has it before any is dropped; nor where dead letters have a place, for they leave in records of their
    own; nor for what has no time to live, which may expire as it comes; nor in a queue with levels, where it may be the head itself. What
    the record takes beside the batch is not known.
    """
    if ttl_us == 0 or core.ring.waiting or core.settings.dead_letters_named or core.judging is not None:
        return NOTHING
    if isinstance(core.ready, LeveledReady):
        return NOTHING
    more, more_bytes = _over(core, messages, size + core.batch_overhead)
    if more <= 0 and more_bytes <= 0:
        return NOTHING
    there, first = core.ready.messages, core.log.next_sequence
    ranges, left = _oldest(core, more, more_bytes)
    dropped, size = sum(stop - start for start, stop in ranges), _bytes_of(core, ranges)
    if left and dropped == there and more > there:
        # It is more than the limit by itself: its own oldest go too.
        ranges.append((first, first + min(messages, more - there)))
    return Dropped(merged(ranges), size)


def let_go(core: QueueCore, dropped: Dropped) -> None:
    """What a record says is dropped is ready no more; what it says of numbers that are not known yet is for who makes them known."""
    ready = core.ready
    counted = ready.bytes if isinstance(ready, Counted) else 0
    for start, stop in dropped.ranges:
        if start < ready.known:
            ready.drop(start, stop)
    if isinstance(ready, Counted):
        # Of batches that are gone nobody knows the bytes any more.
        ready.bytes = counted - dropped.bytes


def drop_over(core: QueueCore, now: float) -> None:
    """Drop what is over a limit, as much as may go at once; ``core.unfinished_at`` says that there is more to do."""
    ready = core.ready
    if core.judging is not None:
        # It comes back here behind the last step of that.
        return
    if isinstance(ready, Counted) and not ready.is_counted and _may_be_over_in_bytes(core):
        ready.count_on(COUNT_BUDGET)
        if not ready.is_counted:
            core.unfinished_at = now
    messages, size = _over(core)
    if messages <= 0 and size <= 0:
        return
    if core.settings.dead_letters_named:
        _leave(core, messages, size, now)
    else:
        ranges = merged(sorted(_oldest(core, messages, size)[0]))
        let_go(core, Dropped(ranges, _bytes_of(core, ranges)))
        core.commit(MessagesDropped(ranges))
        if max(_over(core)) > 0:
            core.unfinished_at = now
    if core.ttl_below:
        # What is the head now may have expired.
        dispatch(core, now)


def _over(core: QueueCore, messages: int = 0, size: int = 0) -> tuple[int, int]:
    """By how many messages and bytes what is ready would be over the limits with so much more; 0 or less where it would not be."""
    settings, ready = core.settings, core.ready
    over = 0 if settings.max_messages is None else ready.messages + messages - settings.max_messages
    over_bytes = 0
    if settings.max_bytes is not None and core.log.stored_bytes + size > settings.max_bytes:
        assert isinstance(ready, Counted), "it counts where there is such a limit"
        over_bytes = ready.bytes + size - settings.max_bytes
    return over, over_bytes


def _may_be_over_in_bytes(core: QueueCore) -> bool:
    """Whether the limit of bytes may be passed: what is ready is no more than what is stored."""
    most = core.settings.max_bytes
    return most is not None and core.log.stored_bytes > most


def _oldest(core: QueueCore, messages: int, size: int) -> tuple[list[Range], int]:
    """The oldest of what is ready, of so many messages and bytes, and how many more batches might have been touched."""
    ranges: list[Range] = []
    left = DROP_BUDGET
    for start, stop in core.ready.in_order():
        for extent in core.log.table.extents(start, stop):
            low, high = max(start, extent.first), min(stop, extent.stop)
            total = extent.size + core.batch_overhead
            count = _how_many(extent.first, extent.stop, total, low, high, messages, size)
            ranges.append((low, low + count))
            messages -= count
            size -= share(extent.first, extent.stop, total, low, low + count)
            left -= 1
            if left == 0 or (messages <= 0 and size <= 0):
                return ranges, left
    return ranges, left


def _bytes_of(core: QueueCore, ranges: Iterable[Range]) -> int:
    """The bytes of what is ready, as far as they are counted."""
    ready = core.ready
    return sum(ready.size_of(*each) for each in ranges) if isinstance(ready, Counted) else 0


def _how_many(first: int, stop: int, total: int, low: int, high: int, messages: int, size: int) -> int:
    """How many of the first of a batch's messages ``low`` <= n < ``high`` make up for so many messages and bytes, or all of them."""
    count = max(0, min(messages, high - low))
    if size > 0:
        # About so many, and then exactly.
        count = max(count, min(high - low, size * (stop - first) // max(1, total)))
        while low + count < high and share(first, stop, total, low, low + count) < size:
            count += 1
    return count


def _leave(core: QueueCore, messages: int, size: int, now: float) -> None:
    """Have the oldest leave for where dead letters go, as long as none of them waits for others."""
    ready, outbox, overhead = core.ready, core.outbox, core.batch_overhead
    left = DROP_BUDGET
    while (messages > 0 or size > 0) and not outbox.waiting:
        span = ready.first()
        if span is None or (span.entry.large and not is_at_hand(core, span.entry)):
            return
        if left == 0:
            core.unfinished_at = now
            return
        entry, start = span.entry, span.start
        total = entry.extent_bytes + overhead
        count = _how_many(entry.first, entry.stop, total, start, span.stop, messages, size)
        messages -= count
        size -= share(entry.first, entry.stop, total, start, start + count)
        left -= 1
        span = ready.take(span, count)
        span.reason = OVER_LIMIT
        outbox.add(span)
        hand_over(core, now)
