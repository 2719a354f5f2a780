"""The way to the dead-letter queue, from both ends: what is handed over, what is stored there, and the answer.

A dead letter says of itself why it is one: headers that every receiver, and Spark, sees beside the sender's own. When it became one is
when the dead-letter queue stored it, which every delivery says.

A dispatch hands over what expires, so nothing here dispatches: whoever has these commands carried out does, behind them.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import repeat, takewhile
from typing import TYPE_CHECKING

import msgpack

from actors.batch import OFFSET_BYTES, BinaryColumn, MessageBatch, unpack_headers
from actors.errors import BatchError
from actors.exchanges.delayed import is_waiting_queue
from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES
from actors.exchanges.message_tables import may_have_further
from actors.headers import readable_headers
from actors.limits import MAX_NAME_BYTES
from actors.queue.operations.passing_on import pass_on, pass_on_some
from actors.queue.state.entries import OVER_LIMIT, TOO_LATE
from actors.queue.structures.deadlines import each_due
from actors.queue.structures.ranges import merged
from actors.queue.vocabulary.budgets import TIMER_BUDGET
from actors.queue.vocabulary.deaths import (
    BEFORE,
    DEATH_BYTES,
    DEATH_HEADERS,
    ERROR,
    EXCHANGE,
    HISTORY,
    KEY,
    NAMES,
    QUEUE,
    REASON,
    Death,
    History,
    deaths_of,
)
from actors.queue.vocabulary.events import MessagesAdded, MessagesDropped, MessagesExpired, MessagesMoved
from actors.queue.vocabulary.letters import DeadLettersMoved
from actors.queue.vocabulary.replies import EXPIRED, MAX_RECEIVES, MAXLEN, REJECTED, UNTRIED, DeadLetter, Tell
from actors.queue.vocabulary.settings import DEAD_LETTER_PART_BYTES, DEAD_LETTER_TIMEOUT, REJECTED_FAILURES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.batch import HeaderValue
    from actors.queue.state.core import QueueCore
    from actors.queue.state.entries import Span
    from actors.queue.structures.ranges import Range
    from actors.queue.vocabulary.letters import StoreDeadLetters
    from actors.queue.vocabulary.published import Published
    from actors.queue.vocabulary.settings import QueueSettings

MOST_BEFORE = 16
"""Of them, at most. A dead letter that has died so in so many goes to no exchange any more."""

_REASON_KEY: bytes = msgpack.packb(REASON)
_PACKED_KEY: bytes = msgpack.packb(KEY)
_PACKED_BEFORE: bytes = msgpack.packb(BEFORE)
_PACKED_HISTORY: bytes = msgpack.packb(HISTORY)
FIXMAP, FIXMAP_MOST = 0x80, 15
MAP16, MAP16_BYTES = 0xDE, 3


@dataclass(frozen=True, slots=True)
class Facts:
    """The headers of a dead letter.

    Attributes:
        names: how many there are.
        packed: they, without the map that is around them.
        expired: whether nobody has tried it before its time was over, or it was too much.
        death: the same among all deaths of what has died before; its key is that of messages without a key of their own.
        sent_us: when the queue that they leave had stored them.
        keyed: whether a message's own key is what it was routed by.
    """

    names: int
    packed: bytes
    expired: bool = False
    death: Death | None = None
    sent_us: int = 0
    keyed: bool = False


def packed_facts(
    reason: str,
    queue: str,
    sent_us: int,
    deliveries: int,
    error: str | None = None,
    published: Published | None = None,
) -> Facts:
    """What is to be said of a dead letter; ``error`` where a receiver has said why, ``published`` where it came through an exchange."""
    headers = dict(zip(NAMES, (reason, queue, str(sent_us), str(deliveries)), strict=True))
    if error is not None:
        headers[ERROR] = error
    exchange, key = ("", queue) if published is None else published
    if published is not None:
        headers[EXCHANGE] = exchange
    packed = b"".join(packed for item in headers.items() for packed in map(msgpack.packb, item))
    death = Death(queue, reason, exchange, key.encode())
    return Facts(len(headers), packed, reason in UNTRIED, death, sent_us, published is not None)


def with_facts(batch: MessageBatch, facts: Facts) -> MessageBatch:
    """The same messages with one more set of headers on each. Where none has any, it costs no loop over them."""
    count = len(batch)
    if batch.headers is None:
        one = _map(facts.names) + facts.packed
        offsets = array("i", range(0, (count + 1) * len(one), len(one)))
        column = BinaryColumn(memoryview(offsets), memoryview(one * count))
    else:
        keys = repeat(b"") if batch.keys is None else batch.keys.tolist()
        column = BinaryColumn.from_values(
            [_added(*each, facts) for each in zip(batch.headers.tolist(), keys, strict=False)]
        )
    return MessageBatch(batch.payloads, batch.ids, batch.keys, column)


def readdressed(batch: MessageBatch, key: str, common: str | None = None) -> MessageBatch:
    """Dead letters with another key, which their headers say that they had before. A key too long to route by stays in its place.

    Args:
        batch: the messages.
        key: which each is to have.
        common: by which those were published that have no key of their own; None for what was sent to the queue itself.
    """
    encoded, count = key.encode(), len(batch)
    if batch.keys is None and common is None:
        offsets = array("i", range(0, (count + 1) * len(encoded), len(encoded)))
        return MessageBatch(
            batch.payloads, batch.ids, BinaryColumn(memoryview(offsets), memoryview(encoded * count)), batch.headers
        )
    least = (common or "").encode()
    before = [least] * count if batch.keys is None else [old or least for old in batch.keys.tolist()]
    keys = [encoded if len(old) <= MAX_ROUTING_KEY_BYTES else old for old in before]
    headers = [b""] * count if batch.headers is None else batch.headers.tolist()
    said = [
        packed
        if (new == old or (not old and common is None)) and not may_have_further(packed)
        else _extended(packed, Facts(1, _PACKED_KEY + msgpack.packb(old)))
        for packed, old, new in zip(headers, before, keys, strict=True)
    ]
    return MessageBatch(batch.payloads, batch.ids, BinaryColumn.from_values(keys), BinaryColumn.from_values(said))


def _added(packed: bytes, key: bytes, facts: Facts) -> bytes:
    """One message's headers with ``facts``, which replace those of an earlier death; ``key`` is its own."""
    if _REASON_KEY not in packed:
        return _extended(packed, facts)
    headers = readable_headers(packed)
    if headers is None:
        return _extended(packed, facts)
    kept = {name: value for name, value in headers.items() if name not in DEATH_HEADERS}
    rest: bytes = msgpack.packb(kept) if kept else b""
    names, more = facts.names, facts.packed
    before = _before(headers) if facts.expired else ""
    if before:
        names, more = names + 1, more + _PACKED_BEFORE + msgpack.packb(before)
    history = None if facts.death is None else _history(headers, key, facts, facts.death)
    if history is not None:
        names, more = names + 1, more + _PACKED_HISTORY + msgpack.packb(history.packed())
    return _extended(rest, Facts(names, more))


def _history(headers: Mapping[str, HeaderValue], key: bytes, facts: Facts, death: Death) -> History | None:
    """All deaths of what has died before, this one too; ``key`` is its own."""
    routed_by = key if key and facts.keyed else death.key
    found = deaths_of(headers, routed_by)
    return None if found is None else found.died(death._replace(key=routed_by[:MAX_ROUTING_KEY_BYTES]), facts.sent_us)


def _extended(packed: bytes, facts: Facts) -> bytes:
    """One message's headers with more of them; what is no map of headers stays as it is."""
    if not packed:
        return _map(facts.names) + facts.packed
    if FIXMAP <= packed[0] <= FIXMAP + FIXMAP_MOST:
        return _map(packed[0] - FIXMAP + facts.names) + packed[1:] + facts.packed
    if packed[0] == MAP16 and len(packed) >= MAP16_BYTES:
        return _map(int.from_bytes(packed[1:MAP16_BYTES], "big") + facts.names) + packed[MAP16_BYTES:] + facts.packed
    return packed


def _before(headers: Mapping[str, HeaderValue]) -> str:
    """Where a message has expired, or was too much, by the headers of an earlier death, if nobody has tried it since."""
    queue = headers.get(QUEUE)
    if headers.get(REASON) not in UNTRIED or not isinstance(queue, str) or len(queue) > MAX_NAME_BYTES:
        return ""
    return " ".join([*expired_before(headers), queue][-MOST_BEFORE:])


def expired_before(headers: Mapping[str, HeaderValue] | None) -> tuple[str, ...]:
    """The queues that a dead letter's headers name as `BEFORE`."""
    before = (headers or {}).get(BEFORE)
    if not isinstance(before, str) or len(before) > MOST_BEFORE * (MAX_NAME_BYTES + 1):
        return ()
    return tuple(before.split(" ")[-MOST_BEFORE:])


def say_before(batch: MessageBatch) -> bool:
    """Whether any of these dead letters may have expired somewhere before; it costs no loop over them."""
    return batch.headers is not None and _PACKED_BEFORE in bytes(batch.headers.data)


def comes_round(span: Span, queue: str) -> bool:
    """Whether what has no time to live has come back to the queue in which it has expired, and nobody has tried it since.

    Queues that hand such messages on to one another would never come to rest.
    """
    if span.entry.ttl_us != 0:
        return False
    batch = span.entry.part(span.start, span.stop)
    if batch.headers is None or not say_before(batch):
        return False
    try:
        return all(queue in expired_before(unpack_headers(packed)) for packed in batch.headers.tolist())
    except BatchError:
        return False


def leading(batch: MessageBatch, queue: str) -> tuple[int, bool]:
    """How many of the first of these, which expire, are alike: have expired in a queue, and nobody has tried them since, or have not.

    Returns:
        how many, and whether they have.
    """
    if batch.headers is None or _REASON_KEY not in bytes(batch.headers.data):
        return len(batch), False
    found = (queue in _before(readable_headers(packed) or {}).split(" ") for packed in batch.headers)
    first = next(found)
    return 1 + sum(1 for _ in takewhile(first.__eq__, found)), first


def _map(count: int) -> bytes:
    return bytes([FIXMAP + count]) if count <= FIXMAP_MOST else bytes([MAP16]) + count.to_bytes(2, "big")


MAP_BYTES = 3 + OFFSET_BYTES
"""What headers take beside themselves: a map around them, and an offset."""
BEFORE_BYTES = len(_PACKED_BEFORE) + 3 + MAX_NAME_BYTES + 1
"""What the name of one queue more takes, of those where it has expired before."""
KEY_BYTES = OFFSET_BYTES + len(_PACKED_KEY) + 2 + 2 * MAX_ROUTING_KEY_BYTES
"""What another key takes, at most, and the one before in the headers."""
AGAIN_BYTES = len(_PACKED_HISTORY) + 16 + 2 * DEATH_BYTES
"""What another death of what has died before takes, at most: the one before is put among all deaths too."""


def hand_over(core: QueueCore, now: float) -> int:
    """Ask for what leaves to be stored in the dead-letter queue, as much as may be under way; where it is dropped, drop it.

    Returns:
        of a queue that waits for an exchange what that cost, as of `PASS_BUDGET`; else 0.
    """
    if core.settings.drop_failed:
        _drop(core)
    elif core.outbox.waiting and is_waiting_queue(core.name):
        return pass_on_some(core, now)
    else:
        while (span := core.outbox.next_to_send()) is not None:
            hand_over_span(core, span, now)
    return 0


def _drop(core: QueueCore) -> None:
    """What leaves goes nowhere: it has failed too often, and nobody has named a place."""
    dropped: list[Range] = []
    while (span := core.outbox.next_to_send()) is not None:
        dropped.append((span.start, span.stop))
    if dropped:
        core.commit(MessagesDropped(merged(dropped)))
        core.grant()


def hand_over_span(core: QueueCore, span: Span, now: float) -> None:
    """Ask for a span, which is in no structure, to be stored in the dead-letter queue, and wait for the answer.

    Its messages get headers that say why they are dead, so of a span of many small ones it is the first only, and the rest waits.
    """
    if is_waiting_queue(core.name):
        pass_on(core, span, now)
        return
    reason, error = _why(span)
    entry, to = span.entry, core.settings.dead_letter_queue
    batch = entry.part(span.start, span.stop)
    facts = packed_facts(reason, core.name, entry.enqueued_us, span.deliveries, error, entry.published)
    settings = core.settings
    count, again = fitting(batch, more_bytes(settings, batch, facts)), False
    if facts.expired and to is not None:
        # It would come round for ever, and nobody would have tried it.
        count, again = leading(batch.slice(0, count), to)
    if count < len(batch):
        core.outbox.add(span.part(span.start + count, span.stop))
        span, batch = span.part(span.start, span.start + count), batch.slice(0, count)
    core.outbox.sent.insert(span, now + DEAD_LETTER_TIMEOUT)
    core.effects.append(
        DeadLetter(
            None if again else to,
            with_facts(batch, facts),
            ((span.start, span.stop),),
            max(entry.event, core.barrier),
            entry.published,
            settings.dead_letter_exchange,
            settings.dead_letter_routing_key,
            facts.expired,
            again,
            reason == MAXLEN,
            entry.level,
        )
    )


def _why(span: Span) -> tuple[str, str | None]:
    """Why a span leaves, which is not for settings to say that have changed since, and what a receiver said of it."""
    if span.reason is OVER_LIMIT:
        return MAXLEN, None
    if span.reason is TOO_LATE:
        return EXPIRED, None
    return REJECTED if span.failures == REJECTED_FAILURES else MAX_RECEIVES, span.reason


def more_bytes(settings: QueueSettings, batch: MessageBatch, facts: Facts) -> int:
    """How many bytes more each message of a batch takes as a dead letter, at most."""
    keyed = settings.dead_letter_queue or settings.dead_letter_routing_key is not None
    more = len(facts.packed) + MAP_BYTES + (KEY_BYTES if keyed else 0)
    # What it says of earlier deaths is in the batch but for the last of them.
    if batch.headers is not None and _REASON_KEY in bytes(batch.headers.data):
        more += AGAIN_BYTES + (BEFORE_BYTES if facts.expired else 0)
    return more


def fitting(batch: MessageBatch, more: int) -> int:
    """How many of the first messages make a batch that fits a frame with so many bytes more on each; one in any case."""
    most = DEAD_LETTER_PART_BYTES
    count = min(batch.count_within(most), most // more if more else len(batch))
    if count > 1 and batch.prefix_bytes(count) > most:
        count -= 1
    return max(1, count)


def store_dead_letters(core: QueueCore, command: StoreDeadLetters, now: float) -> None:
    """Store what another queue could not get rid of."""
    log, wall_us, origin = core.log, core.wall_us, command.origin
    first = log.next_sequence
    ttl_us = core.usual_timing[1]
    core.note_time(now, wall_us)
    # It is a part of what the other queue stores, and outlives that here.
    batch = command.batch.compact()
    # In one instant they are here and not there.
    level = core.settings.level_of(command.priority)
    added = MessagesAdded(first, batch, wall_us, ttl_us=ttl_us, published=command.published, priority=level)
    core.commit(added, {origin.queue: MessagesMoved(origin.ranges)})
    core.ready.add(log.next_sequence, len(batch))
    if ttl_us is not None:
        core.ttl_below = log.next_sequence
    core.effects.append(Tell(command.source, DeadLettersMoved(origin.ranges), core.last_event))


def has_room(core: QueueCore) -> bool:
    """Whether the queue takes dead letters that an exchange has for it: as its senders see it, once full not before a good piece is free.

    What senders were granted and have not sent is not counted: they may hold all there is for as long as they like.
    """
    return core.capacity.note_stored(*core.taken())


def room_for_letters(core: QueueCore, batch: MessageBatch) -> int:
    """How many of the first of these dead letters the queue has room for; the last may lead beyond its bytes, as a sender's may."""
    if not has_room(core):
        return 0
    log, settings = core.log, core.settings
    count = len(batch)
    if core.drops:
        return count
    if settings.max_messages is not None:
        count = min(count, settings.max_messages - log.stored_messages - core.incoming_messages)
    if settings.max_bytes is not None:
        size = settings.max_bytes - log.stored_bytes - core.incoming_bytes - core.batch_overhead
        count = min(count, batch.count_within(size))
    return max(1, count)


def take_back(core: QueueCore, start: int, stop: int) -> None:
    """Have what was handed over, and is stored nowhere, be judged by the settings that there are now: it leaves again, or stays."""
    for span in core.outbox.sent.cut(start, stop):
        for part in core.log.acknowledged.gaps(span.start, span.stop):
            core.put_back(span.part(*part).taken_back(), None)


def dead_letters_moved(core: QueueCore, command: DeadLettersMoved, now: float) -> None:
    """The dead-letter queue has these messages."""
    core.log.apply(MessagesMoved(command.ranges))
    for start, stop in command.ranges:
        core.outbox.drop(start, stop)
    hand_over(core, now)
    core.grant()


def drop_letters(core: QueueCore, ranges: tuple[Range, ...], now: float, *, over_limit: bool = False) -> None:
    """What was handed over, and is stored nowhere, goes nowhere: it has just expired, or was too much."""
    core.commit(MessagesDropped(ranges) if over_limit else MessagesExpired(ranges))
    for start, stop in ranges:
        core.outbox.drop(start, stop)
    hand_over(core, now)
    core.grant()


def hand_over_again(core: QueueCore, now: float) -> None:
    """Hand over what was not answered for in time, if it is still here, and what waits since the start."""
    hand_over(core, now)
    for span in each_due(core.outbox.sent.pop_due, now, TIMER_BUDGET):
        parts = core.log.acknowledged.gaps(span.start, span.stop)
        for start, stop in parts:
            if core.settings.drop_failed:
                # The place that it was handed to is none any more.
                core.outbox.add(span.part(start, stop))
                hand_over(core, now)
            else:
                hand_over_span(core, span.part(start, stop), now)
        if parts != [(span.start, span.stop)]:
            hand_over(core, now)
            core.grant()
