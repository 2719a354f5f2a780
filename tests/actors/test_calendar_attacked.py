"""What waits for its time while the clock is set, records are lost, a delay cannot be, or very much is due at once."""

from __future__ import annotations

from math import inf, nan
from random import Random
from unittest import mock

import pytest

from actors.batch import MessageBatch
from actors.errors import InvalidRequestError
from actors.limits import MAX_DELAY_SECONDS
from actors.queue.operations import calendar
from actors.queue.operations.calendar import feed
from actors.queue.vocabulary.calendar import NEAR_SECONDS
from actors.queue.vocabulary.settings import QueueSettings
from actors.storage import codec, repair_storage
from journal.names import parse_segment
from journal.scan import SegmentScan
from tests.actors.calendar_lives import DATA, US, CalendarLife
from tests.actors.storage_lives import in_loop
from tests.fault.damaged_files import flip

DAY = 86_400.0
YEAR = 365 * DAY


def set_clock(life: CalendarLife, seconds: float) -> None:
    """Set the time of day forward, or back."""
    life.offset_us += round(seconds * US)


def passes(life: CalendarLife, seconds: float) -> None:
    """Let so much time pass, and some more; what comes is acknowledged."""
    life.pass_time(seconds)
    life.sync()
    life.wait(20.0)
    life.sync()


@in_loop
def test_a_clock_that_is_a_year_behind_and_set_right_brings_everything_at_its_time() -> None:
    life = CalendarLife()
    near = [life.send(delay)[0] for delay in (5.0, 59.0)]
    for delay in (70.0, 3_000.0, 3 * DAY):
        life.send(delay)
    life.sync()
    for payload in near:
        # What waits in the queue goes by the clock of deadlines, and the others are a year away.
        life.sent[payload].due_us -= round(YEAR * US)
    life.kill(clock=-YEAR)
    life.pass_time(70.0)
    life.sync()
    assert life.order == near
    set_clock(life, YEAR)
    passes(life, 4 * DAY)
    life.check()
    assert len(life.order) == 5


@in_loop
def test_a_clock_that_is_set_back_while_a_slot_moves_leaves_the_rest_where_it_is() -> None:
    """Nothing is taken into memory for as long as the clock was set back by."""
    life = CalendarLife()
    for number in range(8):
        life.send(100.0 + number)
    life.sync()
    with mock.patch.multiple(calendar, MOVED_GROUPS=1):
        life.now += 96.0
        while life.log.calendar is None or life.log.calendar.messages == 8:
            life.now = max(life.now, life.queue.next_deadline() or 0.0)
            feed(life.queue, life.now)
        set_clock(life, -YEAR)
        life.queue.note_time(life.now, life.wall_us)
        for _ in range(20):
            feed(life.queue, life.now)
    assert life.log.calendar.messages == 7
    assert (life.queue.ready.delayed.due.earliest() or inf) < life.now + NEAR_SECONDS
    set_clock(life, YEAR)
    life.wait(200.0)
    life.check()
    assert len(life.order) == 8


@in_loop
def test_a_clock_that_was_set_back_makes_no_delay_longer_whatever_was_sent_behind_it() -> None:
    """The newest batch that waits was stored by the clock as it is now; an older one was not."""
    life = CalendarLife()
    life.send(59.0)
    set_clock(life, -DAY)
    life.send(59.0)
    life.sync()
    life.kill()
    with mock.patch.object(life, "_take", wraps=life._take):
        deadlines = life.queue.ready.delayed.due
        assert (deadlines.earliest() or inf) <= life.now + 59.0
        life.now += 60.0
        life.queue.tick(life.now, life.wall_us)
        assert not life.queue.ready.delayed.messages


@pytest.mark.parametrize("ahead", [False, True], ids=["waits for later than it", "waits for sooner than it"])
@in_loop
def test_a_slot_whose_purge_is_lost_with_a_damaged_record_holds_up_nothing_that_came_behind(ahead: bool) -> None:
    """Its stream is another slot's by then, and the repaired log has both under one name."""
    first, second = (300.0, 40 * DAY) if ahead else (40 * DAY, 300.0)
    life = CalendarLife()
    life.send(first)
    life.sync()
    life.purge()
    sent = life.send(second)
    life.sync()
    assert life.log.calendar is not None
    assert len(life.log.calendar.streams) == 1, "one stream, for the one and then the other"
    life.storage._journal.abandon()
    life.disk = life.disk.restart()
    for name in [name for name in life.disk.names(DATA) if parse_segment(name) is not None]:
        with SegmentScan(life.disk, DATA / name) as scan:
            purges = [(each.offset, each.end) for each in scan.records() if each.kind == codec.CALENDAR_PURGED]
        for start, end in purges:
            life.disk.replace(DATA / name, flip(life.disk.content(DATA / name), start + 28, end, Random(1)))
    assert repair_storage(DATA, life.disk)
    # What was purged is there again.
    life.sent = {b"0": life.sent.get(b"0") or type(life.sent[sent[0]])(life.wall_us + round(first * US), 0)} | life.sent
    life._begin()
    assert life.queue.statistics(life.now).delayed == 2
    life.wait(min(first, second) + 1.0)
    life.sync()
    assert len(life.order) == 1, "the one that is due"
    life.wait(NEAR_SECONDS)
    assert not life.log.delayed, "the other is not in memory"
    passes(life, 41 * DAY)
    assert sorted(life.order) == [b"0", b"1"]


@in_loop
def test_delays_at_the_edge_are_what_they_say_and_others_are_refused() -> None:
    life = CalendarLife()
    life.send(0.0)
    life.send(NEAR_SECONDS)
    assert life.log.calendar is None
    life.send(NEAR_SECONDS + 1e-6)
    life.send(MAX_DELAY_SECONDS)
    assert life.log.calendar is not None
    assert life.log.calendar.messages == 2
    before = life.log.total_in
    for impossible in (-1e-9, -1.0, nan, inf, -inf, MAX_DELAY_SECONDS + 1.0):
        with pytest.raises(InvalidRequestError, match="a delay of"):
            life.queue.accept("s", life.sequence, MessageBatch.from_payloads([b"m"]), impossible)
    assert life.log.total_in == before
    with pytest.raises(ValueError, match="a delay of"):
        QueueSettings(delay=nan)


@in_loop
def test_a_limit_that_is_lower_than_what_waits_lets_all_of_it_come_and_takes_nothing_more() -> None:
    life = CalendarLife()
    life.send(100.0, 20)
    life.send(3 * DAY, 20)
    life.sync()
    life.settings = QueueSettings(max_messages=5, visibility_timeout=12 * 3600.0)
    life.kill()
    figures = life.queue.statistics(life.now)
    assert (figures.delayed, figures.full) == (40, True)
    for _ in range(5):
        passes(life, DAY)
    life.check()
    assert len(life.order) == 40


@in_loop
def test_very_much_that_is_due_in_one_second_comes_and_the_memory_holds_some_of_it() -> None:
    """As ten million would: more pieces of a slot than are taken at a time, and more groups than may wait."""
    small = {"PIECE_MESSAGES": 64, "GROUP_MESSAGES": 8, "MOVED_BATCHES": 20, "MANY_PIECES": 4}
    with mock.patch.multiple(calendar, **small):
        life = CalendarLife()
        for number in range(250):
            life.send(100.0 + number / 250, 4)
        life.sync()
        most = 0
        for _ in range(400):
            life.wait(0.5)
            most = max(most, len(life.queue.ready.delayed))
        life.check()
    assert len(life.order) == 1000
    assert most <= 20
