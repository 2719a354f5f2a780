"""A queue whose calendar is on the disk: what waits there, what it counts for, and when it comes."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from actors.batch import Message, MessageBatch
from actors.errors import QueueLimitError
from actors.queue.operations import calendar, receiving, sending
from actors.queue.operations.calendar import LEADS_SECONDS, next_due_us
from actors.queue.vocabulary.calendar import WIDTHS_SECONDS
from actors.queue.vocabulary.commands import AlterQueue
from actors.queue.vocabulary.replies import SentMessages, Tell
from actors.queue.vocabulary.settings import MAX_DELAYED, QueueSettings
from actors.storage import repair_storage, verify_storage
from tests.actors.calendar_lives import DATA, US, CalendarLife
from tests.actors.driven import Deliver
from tests.actors.storage_lives import in_loop

HOUR, DAY = 3_600.0, 86_400.0


def slots(life: CalendarLife) -> list[int]:
    """The widths of the slots that hold messages."""
    return sorted(slot.width for slot in (life.log.calendar.used() if life.log.calendar is not None else ()))


@in_loop
def test_what_is_due_soon_waits_in_the_queue_and_what_is_due_later_has_no_number_yet() -> None:
    life = CalendarLife()
    life.send(59.0)
    assert (life.log.next_sequence, life.log.calendar) == (1, None)
    life.send(61.0, 3)
    life.send(3 * DAY, 2)
    life.send(300 * DAY)
    assert life.log.next_sequence == 1
    assert slots(life) == [0, 1, 2]
    statistics = life.queue.statistics(life.now)
    assert (statistics.delayed, statistics.stored_messages, statistics.total_in) == (7, 7, 7)
    life.check()


@in_loop
def test_a_confirmation_of_what_waits_in_the_calendar_tells_that_it_has_no_number_and_below_which_it_gets_none() -> (
    None
):
    life = CalendarLife()
    batches = [MessageBatch.from_payloads([payload]) for payload in (b"a", b"b", b"c")]
    for number, (batch, delay) in enumerate(zip(batches, (0.0, 100.0, 0.0), strict=True)):
        life.queue.accept("s", number, batch, delay)
    life.queue.store(life.now, life.wall_us)
    told = [
        each.reply for each in life.queue.effects if isinstance(each, Tell) and isinstance(each.reply, SentMessages)
    ]
    assert [(each.up_to, each.first, each.numbers) for each in told] == [
        (1, 0, None),
        (2, 1, ((None, 1),)),
        (3, 1, None),
    ]


@in_loop
def test_duplicates_of_what_waits_long_are_left_out_and_counted() -> None:
    life = CalendarLife()
    altered = replace(life.settings, deduplication_window=60.0)
    life.queue.execute(AlterQueue(altered), life.now, life.wall_us)
    messages = [Message(b"x", deduplication_id=name) for name in ("1", "1", "2")]
    for at in (0, 3):
        life.queue.send("s", at, MessageBatch.from_messages(messages), life.now, life.wall_us, DAY)
    assert life.log.calendar is not None
    assert life.log.calendar.messages == 2
    assert life.queue.statistics(life.now).total_deduplicated == 1 + 3


@in_loop
def test_messages_come_at_their_times_and_by_them_whatever_order_they_were_sent_in() -> None:
    life = CalendarLife()
    sent = {delay: life.send(delay)[0] for delay in (7_000.0, 100.0, 3_000.0, 200.0, 61.0, 100.5)}
    for _ in range(80):
        life.wait(100.0)
        life.check()
    assert life.order == [sent[delay] for delay in sorted(sent)]


@in_loop
def test_what_is_due_at_one_time_comes_within_a_hundredth_of_a_second_of_it() -> None:
    life = CalendarLife()
    life.send(100.0, 50)
    life.sync()
    life.wait(99.99)
    life.sync()
    assert not life.order
    life.wait(0.011)
    life.sync()
    assert len(life.order) == 50


@in_loop
def test_what_became_due_while_nobody_was_there_comes_at_once_by_when_it_was_due() -> None:
    life = CalendarLife()
    delays = [5 * DAY, 61.0, 2 * DAY, 7_000.0, 70.0, 2_500.0]
    sent = {delay: life.send(delay)[0] for delay in delays}
    later = life.send(30 * DAY)[0]
    life.sync()
    life.kill(away=10 * DAY)
    life.sync()
    assert life.order == [sent[delay] for delay in sorted(sent)]
    assert not life.sent[later].delivered


@in_loop
def test_a_message_is_written_again_three_times_at_most() -> None:
    life = CalendarLife()
    life.send(300 * DAY)
    before = life.storage._journal.next_lsn
    for _ in range(301):
        life.pass_time(DAY)
        life.sync()
    assert len(life.order) == 1
    assert life.storage._journal.next_lsn - before <= 3 + 1, "three moves, and an acknowledgement"


@in_loop
def test_a_slot_is_opened_before_its_time_and_not_long_before() -> None:
    life = CalendarLife()
    width, lead = WIDTHS_SECONDS[0], LEADS_SECONDS[0]
    life.send(10 * width + 0.5)
    life.wait(9 * width - lead - 1.0)
    assert life.log.next_sequence == 0
    life.wait(width + lead)
    assert life.log.next_sequence == 1
    assert not life.order


@in_loop
def test_a_slot_is_opened_the_longer_before_its_time_the_more_bytes_it_has() -> None:
    life = CalendarLife(segment_bytes=16 * calendar.MIB)
    batch = MessageBatch.from_payloads([bytes(calendar.MIB)])
    for at in range(4):
        life.queue.send("s", at, batch, life.now, life.wall_us, 300.0)
    (slot,) = life.log.calendar.used() if life.log.calendar is not None else ()
    opened = slot.start_us - LEADS_SECONDS[0] * US - 4 * calendar.LEAD_PER_MIB_US
    life.wait((opened - life.wall_us) / US - 0.01)
    assert life.log.next_sequence == 0
    life.wait(0.02)
    assert life.log.next_sequence > 0


@in_loop
def test_a_slot_that_takes_long_to_move_keeps_nothing_waiting_that_is_due_before() -> None:
    life = CalendarLife()
    width = WIDTHS_SECONDS[1]
    begins = 4 * width - life.wall_us / US % width
    for at in range(600):
        # Each is looked at by itself.
        life.send(begins + 1.0 + 3.0 * at)
    assert slots(life) == [1]
    (much,) = life.log.calendar.used() if life.log.calendar is not None else ()
    small = {"PIECE_MESSAGES": 20, "READ_RUNS": 2, "GROUPED_RUNS": 2, "MOVED_GROUPS": 1}
    with mock.patch.multiple(calendar, **small):
        life.wait((much.start_us - life.wall_us) / US - LEADS_SECONDS[1] - 2.0)
        assert life.log.next_sequence == 0
        sent = life.send(61.0)[0]
        # A turn of the loop takes a tenth of a second.
        while not life.sent[sent].delivered and life.wall_us < life.sent[sent].due_us + 2 * US:
            life.queue.tick(life.now, life.wall_us)
            life.sync()
            life._take()
            life.now += 0.1
    assert life.sent[sent].delivered, f"{much.messages} of 600 have not moved"


@in_loop
def test_levels_of_messages_that_waited_are_kept() -> None:
    life = CalendarLife(levels=3)
    low = life.send(100.0, priority=0)[0]
    high = life.send(100.0, priority=2)[0]
    life.queue.cancel_demand("r")
    life.wait(101.0)
    life.queue.receive("r", 10, 10**6, life.now)
    life.settle()
    life.sync()
    assert life.order == [high, low]


@in_loop
def test_the_time_to_live_does_not_stop_in_the_calendar() -> None:
    life = CalendarLife()
    life.send(100.0, ttl=99.0)
    useful = life.send(3_000.0, ttl=3_001.0)[0]
    life.send(3_000.0, ttl=2_000.0)
    life.sent = {useful: life.sent[useful], **life.sent}
    for _ in range(40):
        life.wait(100.0)
    life.sync()
    assert life.order == [useful]
    assert life.queue.statistics(life.now).total_expired == 2
    assert life.log.stored_messages == 0 or life.queue.statistics(life.now).in_flight


@in_loop
def test_a_purge_drops_what_waits_and_what_comes_behind_it_waits_again() -> None:
    life = CalendarLife()
    life.send(100.0, 3)
    life.send(3 * DAY, 2)
    life.send(5.0)
    life.sync()
    assert life.purge() == 6
    assert (life.log.stored_messages, life.log.stored_bytes) == (0, 0)
    kept = life.send(100.0)[0]
    life.sync()
    life.kill(power=True)
    life.wait(101.0)
    life.check()
    assert life.order == [kept]


@in_loop
def test_what_waits_counts_towards_the_limit_of_the_queue() -> None:
    life = CalendarLife()
    life.settings = QueueSettings(max_messages=3, overflow="reject")
    life.kill()
    life.send(100.0, 2)
    life.send(3 * DAY)
    life.send(3 * DAY)
    assert life.log.stored_messages == 3
    assert life.queue.statistics(life.now).total_rejected == 1


@in_loop
def test_more_may_wait_than_has_room_in_memory_but_where_all_is_in_order() -> None:
    life = CalendarLife()
    with mock.patch.object(calendar, "NEAR_BATCHES", 2), mock.patch.object(sending, "MAX_DELAYED", 2):
        for _ in range(5):
            life.send(10.0)
        assert life.log.calendar is not None
        assert (len(life.queue.ready.delayed), life.queue.statistics(life.now).delayed) == (2, 5)
        life.wait(10.1)
        life.check()
        life.settings = QueueSettings(exclusive=True)
        life.kill()
        life.send(10.0)
        life.send(3 * DAY)
        with pytest.raises(QueueLimitError, match="MAX_DELAYED"):
            life.send(10.0)


@in_loop
def test_what_moves_in_leaves_room_in_memory_for_what_is_returned_with_a_delay() -> None:
    assert calendar.MOVED_BATCHES < MAX_DELAYED
    life = CalendarLife()
    for at in range(6):
        life.send(100.0 + at)
    with mock.patch.object(calendar, "MOVED_BATCHES", 3), mock.patch.object(receiving, "MAX_DELAYED", 4):
        life.wait(99.0)
        life.send(0.0)
        life.settle()
        held = life.queue.receivers["r"].held.first()
        assert held is not None
        life.queue.negative_acknowledge("r", [(held.start, 1)], 5.0, life.now)
        assert len(life.queue.ready.delayed) == 4


@in_loop
def test_what_waits_comes_by_the_time_of_day_when_that_is_set() -> None:
    life = CalendarLife()
    early, late = life.send(5_000.0)[0], life.send(20_000.0)[0]
    life.offset_us += 6_000 * US
    life.wait(calendar.LOOK_SECONDS + 1.0)
    assert life.order == [] or life.order == [early]
    life.sync()
    assert life.order == [early]
    life.offset_us -= 6_000 * US
    life.wait(10_000.0)
    life.sync()
    assert life.order == [early]
    life.wait(10_001.0)
    life.sync()
    assert life.order == [early, late]


@in_loop
def test_a_calendar_uses_the_streams_of_slots_that_are_over_again() -> None:
    life = CalendarLife()
    for _ in range(30):
        life.send(100.0)
        life.send(3_000.0)
        life.wait(50.0)
        life.checkpoint()
    assert life.log.calendar is not None
    assert len(life.log.calendar.streams) < 30
    life.wait(4_000.0)
    life.check()


@in_loop
def test_the_next_due_time_is_told() -> None:
    life = CalendarLife()
    assert next_due_us(life.queue, life.now) is None
    life.send(3_000.0)
    assert next_due_us(life.queue, life.now) == life.wall_us + 3_000 * US
    life.send(5.0)
    assert next_due_us(life.queue, life.now) == life.wall_us + 5 * US
    assert life.queue.statistics(life.now).next_due_us == life.wall_us + 5 * US


@in_loop
def test_a_queue_that_is_deleted_leaves_nothing_of_its_calendar() -> None:
    life = CalendarLife()
    life.send(100.0, 3)
    life.sync()
    number = life.queue.number
    assert life.storage._contents.calendars
    life.storage.delete(number)
    life.checkpoint()
    assert not life.storage._contents.calendars
    life.storage._journal.abandon()
    life.disk = life.disk.restart()
    before = life.storage._contents.next_queue
    life._begin()
    assert life.queue.number >= before
    assert life.log.calendar is None


@in_loop
def test_a_repaired_directory_gives_up_what_has_no_record_and_keeps_the_rest() -> None:
    life = CalendarLife(segment_bytes=4096)
    kept: list[bytes] = []
    for _ in range(60):
        kept += life.send(3 * DAY, 4)
        life.sync()
    life.checkpoint()
    life.storage.close()
    assert not [finding for finding in verify_storage(DATA, life.disk) if finding.fatal]
    victims = sorted(
        path for path in life.disk.files(DATA) if path.endswith(".segment") and not path.startswith("spare")
    )
    path = DATA / victims[0]
    content = bytearray(life.disk.content(path))
    middle = len(content) // 3
    content[middle : middle + 8] = bytes(8 * [0xFF])
    life.disk.replace(path, bytes(content))
    repair_storage(DATA, life.disk)
    life._begin()
    lost = life.log.total_purged
    assert 0 < lost < len(kept)
    assert life.queue.statistics(life.now).delayed == len(kept) - lost
    life.pass_time(4 * DAY)
    life.sync()
    assert len(life.order) == len(kept) - lost


@in_loop
def test_what_is_delivered_waits_for_its_record_as_all_else() -> None:
    life = CalendarLife()
    payload = life.send(70.0)[0]
    life.sync()
    life.pass_time(71.0)
    assert life.told
    assert isinstance(life.told[0][1], Deliver)
    life.kill(power=True)
    life.sync()
    assert life.order == [payload]
