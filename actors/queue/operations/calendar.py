"""What waits long for its time: into the calendar when it is sent, from slot to slot as its time comes near, and into the queue at last.

What is due within a minute waits in the queue, as all of it does where there is no calendar: in memory, and in an exclusive queue, whose
messages are in the order in which they were sent. Everything else waits in the calendar's slots, on the disk: of a slot the memory has a
few hundred bytes, whatever is in it.

A slot is opened some seconds before its time, and longer before where there is much in it. It is read piece by piece, in the order in which
it came. What was read is sorted by when it is due, and moved in groups: those of a wide slot to narrower ones, those of a narrow one into
the queue, as messages with the delay that they still have. Behind a piece it is the turn of the slot that comes first, be that another: so
a wide one with very much in it holds nothing up that is due before. A group moves by one record, which says what has left and what is
there now. So no message is lost, and none is there twice, wherever a crash comes. All that is slow is done before a message is due; then it
is as any other whose delay ends.

Due times are times of day. What is in the calendar goes by that clock whenever it is set, and what is due within a minute by the clock of
deadlines.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Final

from actors.errors import DiskBehindError
from actors.exchanges.delayed import is_waiting_queue
from actors.queue.state.calendar import WIDEST, WIDTHS_US, slot_of
from actors.queue.state.feeder import Feeder, Group, Run, feeder_of
from actors.queue.state.senders import JOINED_BYTES, joined_batches
from actors.queue.structures.deadlines import US_PER_SECOND
from actors.queue.structures.ranges import merged
from actors.queue.vocabulary.calendar import NEAR_BATCHES, NEAR_SECONDS, Left, Place, Scheduled
from actors.queue.vocabulary.events import CalendarPurged, MessagesAdded, MessagesScheduled
from actors.queue.vocabulary.settings import MAX_DELAYED
from actors.queue.vocabulary.waiting import having_waited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.batch import MessageBatch
    from actors.queue.operations.deduplicating import Runs
    from actors.queue.state.calendar import Calendar, Slot
    from actors.queue.state.core import QueueCore
    from actors.queue.state.entries import CalendarStreams

MIB: Final = 2**20
LEADS_SECONDS: Final = (5.0, 60.0, 600.0)
"""How long before its time a slot of each width is opened, at least;"""
LEAD_PER_MESSAGE_US: Final = 200
"""and so many microseconds longer for each message in it, so that much is moved in time beside other work;"""
LEAD_PER_MIB_US: Final = 20_000
"""and so many for each MiB, all of which the disk takes once more."""
LOOK_SECONDS: Final = 10.0
"""A time of day is no deadline of the loop's clock: somebody may set the one and not the other. So no sleep is longer than this."""
BEHIND_SECONDS: Final = 0.5
"""When the disk is behind, it is tried again after so long."""
QUANTUM_US: Final = 10_000
"""What is due within so much time comes together, when the last of it is due."""
QUANTA: Final = 50
"""Of the narrowest slot, where there is very much in it: so many parts come together, each when the last of it is due. A piece of it would
fall apart into single messages otherwise."""
MANY_PIECES: Final = 8
"""Very much is more than so many pieces: then more than ten thousand a second are due."""
PIECE_MESSAGES: Final = 32_768
PIECE_BYTES: Final = 4 * MIB
"""What is read of a slot and sorted at a time: it is in memory."""
READ_RUNS: Final = 64
"""Messages, or batches that are due at one time, read in one go: a few milliseconds of work;"""
GROUPED_RUNS: Final = 512
"""as many of these sorted into groups,"""
MOVED_GROUPS: Final = 32
"""and groups moved."""
MOVED_BATCHES: Final = MAX_DELAYED * 3 // 4
"""Batches that wait in memory, above which nothing moves there that is not due: the rest is for what receivers return with a delay."""
EXPIRED_US: Final = 1_000
"""What is of no use any more comes into the queue as if it had come so much earlier, with less time than that."""
GROUP_MESSAGES: Final = 1_024
"""Messages of one group, which all have their times and places in the record's header."""


def keeps_calendar(core: QueueCore) -> bool:
    """Whether what waits long for its time may wait without a number: not in memory, nor where all is in the order it was sent in."""
    return core.log.table.calendar is not None and not core.settings.exclusive


def delayed_messages(core: QueueCore) -> int:
    """Messages that wait for a delay, wherever they do."""
    calendar = core.log.calendar
    return core.ready.delayed.messages + (0 if calendar is None else calendar.messages)


def waits_long(core: QueueCore, delay_us: int) -> bool:
    """Whether what is sent with this delay goes to the calendar."""
    return keeps_calendar(core) and (
        delay_us > NEAR_SECONDS * US_PER_SECOND or core.delayed_batches() - core.incoming_delayed >= NEAR_BATCHES
    )


def slot_for(due_us: int, wall_us: int, most: int = WIDEST) -> tuple[int, int]:
    """Width and index of the slot for what is due then, of the ``most``th width at most; never of one that is about to be opened."""
    width, index = slot_of(due_us, wall_us, most)
    while width and index * WIDTHS_US[width] - wall_us <= LEADS_SECONDS[width] * US_PER_SECOND:
        width, index = slot_of(due_us, wall_us, width - 1)
    return width, index


def place_in(core: QueueCore, width: int, index: int, level: int) -> Place:
    """Where in the calendar messages wait that are for a slot."""
    streams, calendar = core.log.table.calendar, core.log.calendar
    assert streams is not None, "whoever asks has asked whether there is a calendar"
    stream: int | None = None
    if calendar is not None:
        slot = calendar.slot(width, index)
        stream = calendar.free_stream() if slot is None else slot.stream
    return Place(streams.number, streams.new_stream() if stream is None else stream, width, index, level)


def next_position(core: QueueCore, place: Place) -> int:
    """The position that the next message in a slot gets."""
    return 0 if core.log.calendar is None else core.log.calendar.next_of(place.stream)


def scheduled_at(core: QueueCore, added: MessagesAdded, delay_us: int) -> Scheduled:
    """Where and until when messages wait that are sent with this delay."""
    sent_us, ttl_us = added.enqueued_us, added.ttl_us
    place = place_in(core, *slot_for(sent_us + delay_us, sent_us), added.priority)
    return Scheduled(place, (sent_us + delay_us,), ends=() if ttl_us is None else (sent_us + ttl_us,))


def in_calendar(added: MessagesAdded, first: int, scheduled: Scheduled) -> MessagesScheduled:
    """A batch as it waits."""
    place = scheduled.place
    assert place is not None, "it waits somewhere"
    return MessagesScheduled(
        first,
        added.batch,
        added.enqueued_us,
        added.producers,
        temporary=added.temporary,
        published=added.published,
        # The journal has it in the stream that is so far from the queue's: of what waits that is the slot's.
        priority=place.stream - place.queue,
        ids_until_us=added.ids_until_us,
        scheduled=scheduled,
    )


def schedule(
    core: QueueCore, added: MessagesAdded, delay_us: int, now: float, group: set[int], told: dict[int, Runs]
) -> None:
    """Store messages that were sent with this delay in the calendar; of ``added`` all holds but its number and its delay.

    ``group`` has the identities of what was accepted; whatever was to be ``told`` of its numbers, it has none, but for its duplicates.
    """
    scheduled = scheduled_at(core, added, delay_us)
    place = scheduled.place
    assert place is not None
    first = next_position(core, place)
    core.commit(in_calendar(added, first, scheduled))
    note_scheduled(core, place, now)
    feeder_of(core).came |= group
    for item in group:
        core.total_deduplicated += sum(count for number, count in told.pop(item, ()) if number is None)


def note_scheduled(core: QueueCore, place: Place, now: float) -> None:
    """Messages have come to a slot: look in time."""
    calendar, feeder = core.log.calendar, feeder_of(core)
    slot = None if calendar is None else calendar.streams.get(place.stream)
    if slot is not None:
        feeder.at = min(feeder.at or now + LOOK_SECONDS, _when(core, slot, now))


def feed(core: QueueCore, now: float) -> None:
    """Go on with moving what is due soon, if it is time; a step of some milliseconds."""
    feeder, calendar, streams = core.feeder, core.log.calendar, core.log.table.calendar
    if feeder is None or feeder.at is None or feeder.at > now:
        return
    if calendar is None or streams is None or not calendar.messages:
        feeder.clear()
        return
    if core.clocks.time_us(now) < feeder.opened_us - NEAR_SECONDS * US_PER_SECOND:
        # The time of day was set back: what was about to move waits where it is, and not in memory until it has come again.
        feeder.clear()
        feeder.opened_us, feeder.at = 0, now
    try:
        if feeder.groups:
            _move_groups(core, feeder, now)
        elif feeder.sorted:
            _group(core, feeder, calendar, now)
        elif feeder.reading or _open(core, feeder, calendar, now):
            _read(core, feeder, calendar, streams, now)
    except DiskBehindError:
        feeder.at = now + BEHIND_SECONDS


def purge_calendar(core: QueueCore) -> int:
    """Drop all that waits in the calendar; returns how many messages."""
    calendar = core.log.calendar
    if calendar is None or not calendar.messages:
        return 0
    messages = calendar.messages
    core.commit(CalendarPurged(tuple((slot.stream, slot.next) for slot in calendar.streams.values() if slot.messages)))
    if core.feeder is not None:
        core.feeder.clear()
    core.grant()
    return messages


def next_due_us(core: QueueCore, now: float) -> int | None:
    """When the next of what waits for a delay is due, about, microseconds since the epoch; None where nothing waits."""
    calendar, near = core.log.calendar, core.ready.delayed.due.earliest()
    times = [] if near is None else [core.clocks.time_us(max(near, now))]
    if calendar is not None and (slot := calendar.first()) is not None:
        times.append(max(slot.first_due_us, slot.start_us))
    return min(times, default=None)


def _opens_us(slot: Slot) -> int:
    lead = round(LEADS_SECONDS[slot.width] * US_PER_SECOND)
    return slot.start_us - lead - slot.messages * LEAD_PER_MESSAGE_US - slot.bytes * LEAD_PER_MIB_US // MIB


def _when(core: QueueCore, slot: Slot, now: float) -> float:
    """When to look at a slot: when it is opened, or sooner."""
    seconds = (_opens_us(slot) - core.clocks.time_us(now)) / US_PER_SECOND
    return now + min(max(0.0, seconds), LOOK_SECONDS)


def _open(core: QueueCore, feeder: Feeder, calendar: Calendar, now: float) -> bool:
    """Begin a piece of the slot whose time it is, of several of the first; returns whether there is one."""
    wall_us = core.clocks.time_us(now)
    open_slots = [slot for slot in calendar.used() if _opens_us(slot) <= wall_us]
    if not open_slots:
        feeder.at = min(_when(core, slot, now) for slot in calendar.used())
        return False
    slot = min(open_slots, key=lambda each: (each.start_us, -each.width))
    # What comes to it from now on is for the next time.
    feeder.stream, feeder.position, feeder.stop = slot.stream, slot.gone.reach(0), slot.next
    feeder.reading, feeder.opened_us = True, wall_us
    feeder.begin_piece()
    return True


def _read(core: QueueCore, feeder: Feeder, calendar: Calendar, streams: CalendarStreams, now: float) -> None:
    """Read on in the slot that is open; behind a piece of it, or its end, what was read is sorted."""
    slot, feeder.at = calendar.streams[feeder.stream], now
    runs = feeder.runs
    most = len(runs) + READ_RUNS
    while len(runs) < most:
        feeder.position = slot.gone.reach(feeder.position)
        if feeder.position >= feeder.stop or feeder.messages >= PIECE_MESSAGES or feeder.bytes >= PIECE_BYTES:
            # By when it is due, and no two have one position.
            runs.sort()
            feeder.sorted = True
            return
        event = streams.read(feeder.stream, feeder.position)
        if event is None or event.first > feeder.position:
            raise core.log.table.lost(feeder.position)
        stop = min(feeder.stop, event.first + len(event.batch))
        for start, end in slot.gone.gaps(feeder.position, stop):
            runs += _runs(event, start, end)
            feeder.messages += end - start
        feeder.bytes += event.batch.nbytes
        feeder.position = stop


def _runs(event: MessagesScheduled, start: int, stop: int) -> Iterator[Run]:
    scheduled = event.scheduled
    assert scheduled.place is not None, "it waits"
    due, ends, first = scheduled.due, scheduled.ends, event.first
    rest = first, event.batch, scheduled.place.level
    if len(due) == 1 and len(ends) <= 1:
        yield Run(due[0], start, stop, *rest, ends[0] if ends else None, event.published)
        return
    count = len(event.batch)
    times = list(zip(_each(due, count), _each(ends, count) if ends else repeat(None), strict=False))
    position = start
    for at in range(start + 1, stop + 1):
        due_us, end_us = times[position - first]
        if at == stop or times[at - first] != (due_us, end_us):
            yield Run(due_us, position, at, *rest, end_us, event.published)
            position = at


def _each(times: tuple[int, ...], count: int) -> tuple[int, ...]:
    return times if len(times) == count else times * count


def _group(core: QueueCore, feeder: Feeder, calendar: Calendar, now: float) -> None:
    """Go on with putting what was sorted into groups that move together; behind all of it the first of them is last."""
    slot, wall_us = calendar.streams[feeder.stream], core.clocks.time_us(now)
    width, feeder.at = slot.width, now
    # Only where a repair has lost what left it the slot has what is due behind it.
    stop_us = (slot.index + 1) * WIDTHS_US[0] if not width else 0
    quantum_us = QUANTUM_US if slot.messages < MANY_PIECES * PIECE_MESSAGES else WIDTHS_US[0] // QUANTA
    groups, filled = feeder.forming, feeder.filled
    end = feeder.grouped + GROUPED_RUNS
    for run in feeder.runs[feeder.grouped : end]:
        batch, due_us = run.batch, run.due_us
        where, ends = (-1, max(due_us, wall_us) // quantum_us), run.end_us
        if width or due_us >= stop_us:
            where, ends = slot_for(due_us, wall_us, width - 1 if width else WIDEST), None if ends is None else 0
        key = (where, run.level, ends, run.published, batch.ids is None, batch.keys is None, batch.headers is None)
        count = run.stop - run.start
        size = batch.nbytes * count // len(batch)
        runs, messages, total = filled.get(key, (None, 0, 0))
        if runs is None or messages + count > GROUP_MESSAGES or total + size > JOINED_BYTES:
            runs, messages, total = [], 0, 0
            groups.append(Group(*where, runs))
        runs.append(run)
        filled[key] = runs, messages + count, total + size
    feeder.grouped = end
    if end >= len(feeder.runs):
        groups.reverse()
        feeder.groups = groups
        feeder.begin_piece()
        feeder.reading = False


def _move_groups(core: QueueCore, feeder: Feeder, now: float) -> None:
    """Move some of the groups; where too much waits in memory already, only those that are due."""
    feeder.at = now
    groups, wall_us = feeder.groups, core.clocks.time_us(now)
    core.note_time(now, wall_us)
    for _ in range(MOVED_GROUPS):
        if not groups:
            break
        group = groups[-1]
        if group.width >= 0:
            _move_down(core, feeder, group, wall_us)
        else:
            due_us = group.runs[-1].due_us
            if due_us > wall_us and len(core.ready.delayed) >= MOVED_BATCHES:
                feeder.at = now + (due_us - wall_us) / US_PER_SECOND
                break
            _move_in(core, feeder, group, wall_us, now)
        groups.pop()


def _move_down(core: QueueCore, feeder: Feeder, group: Group, wall_us: int) -> None:
    """Have a group be in a narrower slot."""
    runs = group.runs
    run = runs[0]
    place = place_in(core, group.width, group.slot, run.level)
    due = [each.due_us for each in runs for _ in range(each.start, each.stop)]
    ends = [each.end_us for each in runs for _ in range(each.start, each.stop) if each.end_us is not None]
    scheduled = Scheduled(place, _shortest(due), (_left(feeder, runs),), (), _shortest(ends))
    first = next_position(core, place)
    moved = MessagesAdded(first, _batch(runs), wall_us, published=run.published)
    core.commit(in_calendar(moved, first, scheduled))


def _shortest(times: list[int]) -> tuple[int, ...]:
    return tuple(times) if len(set(times)) > 1 else tuple(times[:1])


def _move_in(core: QueueCore, feeder: Feeder, group: Group, wall_us: int, now: float) -> None:
    """Have a group be in the queue, with what is left of its delay."""
    runs, log = group.runs, core.log
    run, first, ttl_us = runs[0], log.next_sequence, None
    if run.end_us is not None:
        if run.end_us <= wall_us:
            # It is of no use any more, as it would not be if it came with no time left.
            wall_us -= EXPIRED_US
        ttl_us = max(1, run.end_us - wall_us)
    delay_us = max(0, runs[-1].due_us - wall_us)
    core.commit(
        MessagesScheduled(
            first,
            # At an exchange it has waited then, and is not judged by what it says of its wait.
            having_waited(_batch(runs)) if is_waiting_queue(core.name) else _batch(runs),
            wall_us,
            delay_us=delay_us,
            ttl_us=ttl_us,
            published=run.published,
            priority=core.settings.level_of(run.level),
            scheduled=Scheduled(left=(_left(feeder, runs),)),
        )
    )
    stop = log.next_sequence
    if delay_us:
        core.ready.add_delayed(stop, stop - first, now + delay_us / US_PER_SECOND)
    else:
        core.ready.add(stop, stop - first)
    if ttl_us is not None:
        core.ttl_below = stop


def _left(feeder: Feeder, runs: list[Run]) -> Left:
    return Left(feeder.stream, merged(sorted((run.start, run.stop) for run in runs)))


def _batch(runs: list[Run]) -> MessageBatch:
    """The messages of a group, in its order, in memory of their own."""
    parts = [run.batch.slice(run.start - run.first, run.stop - run.first) for run in runs]
    return parts[0].compact() if len(parts) == 1 else joined_batches(parts)
