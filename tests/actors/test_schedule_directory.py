"""Schedules over a journal and in memory: what is stored and when, what is in the way of it, and what becomes of it by commands."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import msgpack
import pytest

from actors.errors import DiskBehindError, StorageError
from actors.exchanges.errors import ExchangeNotFoundError
from actors.queue import schedule_directory
from actors.queue.schedule_directory import LOOK_SECONDS
from actors.queue.schedule_storing import Storing
from actors.queue.scheduled import FAILS, ON_ITS_WAY, OVER, PAUSED, WAITS
from actors.queue.vocabulary.settings import QueueSettings
from actors.scheduling import schedule as declared
from actors.scheduling.errors import (
    InvalidScheduleError,
    ScheduleExistsError,
    ScheduleLimitError,
    ScheduleNotFoundError,
)
from actors.scheduling.limits import MAX_SCHEDULED_HEADERS_BYTES, MAX_SCHEDULED_PAYLOAD_BYTES
from actors.scheduling.schedule import PROGRESS_SECTION, SECTION, Schedule
from actors.storage import Storage, codec, snapshot, storage_options
from actors.storage.together import decode_together
from journal import Journal, OsFiles
from tests.actors.schedules_bench import START, Schedules
from tests.actors.stored_queues import durable, run_in_virtual_time, turns, with_and_without_journal

both = with_and_without_journal(Schedules)


def records(folder: Path) -> list[tuple[int, memoryview]]:
    """Kind and payload of what a journal has that nobody has open."""
    journal = Journal.open(folder, storage_options(), OsFiles())
    found = [(record.kind, memoryview(bytes(record.payload))) for record in journal.replay()]
    journal.abandon()
    return found


@both
async def test_at_each_time_one_message_is_stored_that_says_its_schedule_and_its_time(bench: Schedules) -> None:
    bench.declare("every 10s", payload=b"do", headers=(("kind", "beat"),), key="k", ttl=60.0)
    await bench.passes(35)
    (first, *_), messages = bench.headers("q"), bench.messages("q")
    assert bench.times() == [10, 20, 30]
    assert first == {"kind": "beat", "penstock-schedule": "s", "penstock-scheduled-for": "2023-11-14T22:13:30Z"}
    assert [(bytes(each.payload), each.key) for each in messages] == [(b"do", b"k")] * 3
    there = bench.schedules.get("s")
    assert (there.progress.fired, there.state, there.next_time()) == (3, ON_ITS_WAY, START + 40)
    assert bench.schedules.counts.fired == 3


@both
async def test_a_cron_expression_goes_by_the_clock_of_its_zone(bench: Schedules) -> None:
    # It is 23:13:20 in Berlin.
    bench.declare("15 23 * * *", zone="Europe/Berlin")
    await bench.passes(24 * 3600)
    assert bench.times() == [100]


@both
async def test_it_is_stored_in_its_second_and_there_is_no_timer_without_a_schedule(bench: Schedules) -> None:
    assert bench.schedules._timer is None
    bench.declare("every 10s")
    await bench.passes(9.99)
    assert bench.times() == []
    await bench.passes(0.02)
    assert bench.times() == [10]
    assert bench.schedules._timer is not None
    bench.schedules.delete("s")
    await bench.passes(30)
    assert (bench.times(), bench.schedules._timer, list(bench.schedules)) == ([10], None, [])


@both
async def test_a_queue_that_is_not_there_is_made_when_the_schedule_is(bench: Schedules) -> None:
    bench.declare(queue="new")
    await bench.passes(10)
    assert bench.times("new") == [10]


@both
async def test_an_exchange_has_it_stored_in_every_queue_that_it_leads_to(bench: Schedules) -> None:
    await bench.bound("topic", "x", a="eu.*", b="#", c="us.*")
    bench.declare(exchange="x", routing_key="eu.tea", payload=b"p")
    await bench.passes(20)
    assert [bench.times(name) for name in "abc"] == [[10, 20], [10, 20], []]
    assert bench.queues.exchanges.publishing.counts.read("x").published == 2
    with pytest.raises(ExchangeNotFoundError, match="there is no exchange 'y'"):
        bench.declare(name="t", exchange="y")


# --- what is in the way


@both
async def test_a_message_waits_for_room_in_a_full_queue_and_later_times_do_not_pile_up(bench: Schedules) -> None:
    bench.queues.declare("small", QueueSettings(max_messages=2))
    bench.declare("every 10s", queue="small")
    await bench.passes(305)
    there = bench.schedules.get("s")
    assert bench.times("small") == [10, 20]
    assert (there.state, there.progress.waiting) == (WAITS, START + 30)
    assert there.error.startswith("queue small is full")
    assert (bench.schedules.waiting, bench.schedules.counts.waited) == (1, 1)
    await bench.acknowledge("small", 2)
    await bench.passes(1)
    # What waited is there; of those that were missed meanwhile none, by the schedule's own wish, and then it goes on.
    assert bench.times("small") == [30, 300]
    assert (there.progress.missed, there.error) == (26, None)


@pytest.mark.parametrize(("missed", "more"), [("once", [290]), ("all", list(range(40, 300, 10)))])
def test_what_passed_while_one_waited_is_made_up_for_as_the_schedule_says(
    tmp_path: Path, missed: str, more: list[int]
) -> None:
    @durable
    async def run(folder: Path) -> None:
        bench = Schedules(folder)
        bench.queues.declare("small", QueueSettings(max_messages=2))
        bench.declare("every 10s", queue="small", missed=missed)
        await bench.passes(305)
        changed = bench.queues.alter("small", {"max_messages": 1_000})
        bench.queues.get("small").tell(changed)
        await bench.passes(1)
        assert bench.times("small") == [10, 20, 30, *more, 300]
        await bench.close()

    run(tmp_path)


@both
async def test_a_queue_that_rejects_holds_it_back_too(bench: Schedules) -> None:
    bench.queues.declare("small", QueueSettings(max_messages=1, overflow="reject"))
    bench.declare("every 10s", queue="small")
    await bench.passes(25)
    there = bench.schedules.get("s")
    assert (bench.times("small"), there.state) == ([10], WAITS)
    assert "is full" in there.error
    await bench.acknowledge("small", 1)
    await bench.passes(1)
    assert bench.times("small") == [20]


@both
async def test_a_queue_that_drops_its_oldest_is_never_full_for_a_schedule(bench: Schedules) -> None:
    bench.queues.declare("small", QueueSettings(max_messages=2, overflow="drop-head"))
    bench.declare("every 10s", queue="small")
    await bench.passes(45)
    assert bench.times("small") == [30, 40]
    assert (bench.schedules.get("s").error, bench.schedules.counts.waited) == (None, 0)


@both
async def test_one_that_a_rejecting_queue_can_never_take_is_tried_once_a_minute_and_not_for_ever(
    bench: Schedules,
) -> None:
    bench.queues.declare("small", QueueSettings(max_bytes=2048, overflow="reject"))
    bench.declare("every 10s", queue="small", payload=bytes(2048))
    tries = 0
    full = bench.schedules._storing.full

    def counted(*arguments: Any) -> Any:
        nonlocal tries
        tries += 1
        return full(*arguments)

    with mock.patch.object(bench.schedules._storing, "full", counted):
        await bench.passes(10 + 3 * LOOK_SECONDS + 1)
    assert tries == 4
    assert "larger than queue 'small' may hold" in bench.schedules.get("s").error


@both
async def test_a_queue_that_has_no_room_for_another_delay_has_it_wait(bench: Schedules) -> None:
    bench.queues.declare("late", QueueSettings(delay=5.0, exclusive=True))
    bench.declare("every 10s", queue="late")
    with mock.patch("actors.queue.operations.sending.MAX_DELAYED", 0):
        await bench.passes(11)
        there = bench.schedules.get("s")
        assert (there.state, there.progress.waiting) == (WAITS, START + 10)
        assert "MAX_DELAYED" in there.error
    await bench.passes(LOOK_SECONDS)
    assert bench.times("late")[0] == 10


@both
async def test_while_senders_are_paused_it_waits_and_then_goes_on_at_once(bench: Schedules) -> None:
    bench.declare("every 10s")
    bench.queues.pause_senders("the disk is full")
    await bench.passes(15)
    assert (bench.times(), bench.schedules.get("s").error) == ([], "queue q takes nothing now: the disk is full")
    bench.queues.pause_senders(None)
    await bench.passes(0.1)
    assert bench.times() == [10]


@both
async def test_a_queue_that_is_deleted_leaves_the_schedule_which_says_so_and_goes_on_with_another(
    bench: Schedules,
) -> None:
    bench.declare("every 10s", queue="other")
    bench.queues.delete("other")
    await bench.passes(25)
    there = bench.schedules.get("s")
    assert (there.state, there.error) == (FAILS, "there is no queue 'other'")
    assert (there.progress.failed, bench.schedules.counts.failed) == (2, 2)
    bench.queues.get_or_create("other")
    await bench.passes(10)
    assert (bench.times("other"), there.state, there.error) == ([30], ON_ITS_WAY, None)


@both
async def test_a_message_that_waits_in_front_of_a_queue_that_is_deleted_waits_no_more(bench: Schedules) -> None:
    bench.queues.declare("small", QueueSettings(max_messages=1))
    bench.declare("0 * * * *", queue="small")
    bench.store(b"full", name="small")
    await bench.passes(3_600)
    there = bench.schedules.get("s")
    assert there.state == WAITS
    bench.queues.delete("small")
    await bench.passes(LOOK_SECONDS)
    assert (there.state, there.progress.waiting, there.progress.failed) == (FAILS, 0, 1)


@both
async def test_an_exchange_that_leads_nowhere_or_is_gone_fails_each_time(bench: Schedules) -> None:
    await bench.bound("topic", "x", a="eu.*")
    bench.declare("every 10s", exchange="x", routing_key="us.tea")
    await bench.passes(10)
    there = bench.schedules.get("s")
    assert there.error == "exchange 'x' has no queue for the routing key 'us.tea'"
    assert bench.queues.exchanges.publishing.counts.read("x").unroutable == 1
    bench.queues.exchanges._carry_out(bench.queues.exchanges.exchanges.decide.delete("x"))
    await bench.passes(10)
    assert there.error == "there is no exchange 'x': declare it first"
    assert there.progress.failed == 2


@both
async def test_what_fails_is_told_to_the_log_once(bench: Schedules) -> None:
    with mock.patch.object(schedule_directory.logger, "warning") as warned:
        bench.declare("every 10s", queue="other")
        bench.queues.delete("other")
        await bench.passes(100)
    assert warned.call_count == 1


# --- clocks


@both
async def test_a_clock_that_is_set_back_stores_nothing_twice(bench: Schedules) -> None:
    bench.declare("every 10s")
    await bench.passes(30)
    bench.time_of_day = START + 5
    await bench.passes(25)
    assert bench.times() == [10, 20, 30]
    await bench.passes(15)
    assert bench.times() == [10, 20, 30, 40]


@both
async def test_a_clock_that_is_set_forward_is_noticed_within_a_minute_and_the_rest_is_missed(bench: Schedules) -> None:
    bench.declare("0 * * * *", missed="once")
    await bench.passes(1)
    bench.time_of_day = START + 3 * 3600
    await bench.passes(LOOK_SECONDS)
    assert bench.times() == [2_800 + 2 * 3_600]
    assert bench.schedules.get("s").progress.missed == 2


# --- what commands change


@both
async def test_what_is_declared_twice_goes_on_and_something_else_has_to_be_a_replacement(bench: Schedules) -> None:
    assert bench.declare("every 10s", payload=b"1")
    await bench.passes(15)
    assert not bench.declare("every 10s", payload=b"1")
    with pytest.raises(ScheduleExistsError, match="is there with another payload: replace it"):
        bench.declare("every 10s", payload=b"2")
    assert bench.declare("every 10s", payload=b"2", replaces=True)
    await bench.passes(12)
    assert bench.times() == [10, 25], "it counts from when it was replaced"
    assert bench.holds("q") == [[b"1", b"2"]]
    assert bench.schedules.get("s").progress.fired == 1


@both
async def test_headers_in_another_order_say_the_same(bench: Schedules) -> None:
    assert bench.declare(headers=(("a", "1"), ("b", "2"), ("c", b"3")))
    assert not bench.declare(headers=(("c", b"3"), ("b", "2"), ("a", "1")))
    with pytest.raises(ScheduleExistsError, match="another headers"):
        bench.declare(headers=(("b", "1"), ("a", "2"), ("c", b"3")))


@both
async def test_nothing_comes_of_a_schedule_that_is_paused_and_nothing_is_made_up_for(bench: Schedules) -> None:
    bench.declare("every 10s", missed="all")
    assert bench.schedules.pause("s")
    assert not bench.schedules.pause("s")
    await bench.passes(55)
    there = bench.schedules.get("s")
    assert (bench.times(), there.state, there.next_time()) == ([], PAUSED, None)
    assert bench.schedules.resume("s")
    assert not bench.schedules.resume("s")
    await bench.passes(10)
    assert bench.times() == [60]


@both
async def test_what_waits_is_kept_through_a_pause(bench: Schedules) -> None:
    bench.queues.declare("small", QueueSettings(max_messages=1))
    bench.declare("every 10s", queue="small")
    await bench.passes(25)
    bench.schedules.pause("s")
    await bench.acknowledge("small", 1)
    await bench.passes(100)
    assert bench.times("small") == []
    bench.schedules.resume("s")
    await bench.passes(1)
    assert bench.times("small") == [20]


@both
async def test_one_that_has_no_more_times_is_over(bench: Schedules) -> None:
    bench.declare("every 10s")
    with mock.patch.object(bench.schedules.get("s").course.times.__class__, "after", return_value=None):
        await bench.passes(30)
        assert (bench.times(), bench.schedules.get("s").state) == ([], OVER)


@both
async def test_a_schedule_that_is_not_there_is_told_of(bench: Schedules) -> None:
    for act in (bench.schedules.get, bench.schedules.delete, bench.schedules.pause, bench.schedules.resume):
        with pytest.raises(ScheduleNotFoundError, match="there is no schedule 'nope'"):
            act("nope")


@both
async def test_each_limit_has_a_name_and_what_is_over_it_changes_nothing(bench: Schedules) -> None:
    with pytest.raises(ScheduleLimitError, match="MAX_SCHEDULED_PAYLOAD_BYTES of"):
        bench.declare(payload=bytes(MAX_SCHEDULED_PAYLOAD_BYTES + 1))
    with pytest.raises(ScheduleLimitError, match="MAX_SCHEDULED_HEADERS_BYTES of"):
        bench.declare(headers=(("h", "x" * MAX_SCHEDULED_HEADERS_BYTES),))
    with pytest.raises(ScheduleLimitError, match="MAX_SCHEDULED_KEY_BYTES of"):
        bench.declare(key="k" * 256)
    with pytest.raises(ScheduleLimitError, match="MAX_ROUTING_KEY_BYTES of"):
        bench.declare(exchange="amq.topic", routing_key="k" * 256)
    with mock.patch.object(schedule_directory, "MAX_SCHEDULES", 1):
        bench.declare(payload=b"1")
        with pytest.raises(ScheduleLimitError, match="schedules: 2 exceed MAX_SCHEDULES of 1"):
            bench.declare(name="t")
    with mock.patch.object(schedule_directory, "MAX_SCHEDULES_BYTES", bench.schedules._bytes):
        with pytest.raises(ScheduleLimitError, match="MAX_SCHEDULES_BYTES"):
            bench.declare(name="t")
        bench.declare(payload=b"2", replaces=True)
        bench.schedules.delete("s")
        bench.declare(payload=b"3")
    assert list(bench.schedules) == ["s"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"queue": "q", "exchange": "x"}, "needs a queue or an exchange, and not both"),
        ({}, "needs a queue or an exchange, and not both"),
        ({"queue": "a b"}, "is no name of a queue"),
        ({"queue": "q", "routing_key": "k"}, "a routing key is for an exchange"),
        ({"exchange": "x", "key": "k"}, "has its routing key for a key"),
        ({"queue": "q", "missed": "never"}, "there are skip, once, all"),
        ({"queue": "q", "ttl": -1.0}, "is not between 0"),
        ({"queue": "q", "priority": 256}, "is not between 0 and 255"),
        ({"queue": "q", "headers": (("h", 1),)}, "must be a string"),
        ({"queue": "q", "headers": tuple((f"h{n}", "") for n in range(200))}, "headers on one message exceed"),
        (
            {"queue": "q", "headers": (("penstock-scheduled-for", "now"),)},
            "is the broker's to say: call yours by another",
        ),
        ({"queue": "q", "zone": "Nowhere"}, "there is no time zone"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(said: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidScheduleError) as refused:
        Schedule("s", "every 1s", **said).check()
    assert why in str(refused.value)


@both
async def test_what_is_of_no_use_later_expires_where_nobody_wants_it(bench: Schedules) -> None:
    bench.declare("every 10s", ttl=0.0)
    await bench.passes(25)
    there = bench.schedules.get("s")
    assert (there.progress.fired, there.error) == (2, None)
    assert bench.messages("q") == []


@both
async def test_each_queue_has_a_message_at_its_own_level(bench: Schedules) -> None:
    for name, most in (("plain", None), ("few", 2), ("many", 9)):
        bench.queues.declare(name, QueueSettings(max_priority=most))
    await bench.bound("topic", "x", plain="#", few="#", many="#")
    bench.declare("every 10s", exchange="x", priority=5)
    await bench.passes(11)
    states = [bench.queues.state(name) for name in ("plain", "few", "many")]
    assert [state.log.table.at(0).level for state in states] == [0, 2, 5]


def test_a_schedule_without_a_priority_is_stored_as_it_always_was_and_one_with_it_is_read_again() -> None:
    plain = Schedule("s", "every 1s", queue="q", ttl=1.5, version=3, paused=True)
    before = msgpack.packb([1, *plain[1:-1]])
    assert plain.encoded() == before
    assert declared.decoded("s", before) == plain
    level = plain._replace(priority=7)
    assert declared.decoded("s", level.encoded()) == level
    assert level.differs_from(plain) == "priority"
    with pytest.raises(StorageError, match="a newer version"):
        declared.decoded("s", msgpack.packb([1, *level[1:], 0]))


@both
async def test_very_many_replacements_leave_nothing_behind(bench: Schedules) -> None:
    for number in range(300):
        bench.declare("0 0 1 1 *", payload=b"%d" % number, replaces=True)
        await turns()
    assert len(bench.schedules._line) <= 9


# --- the journal


@durable
async def test_a_start_finds_schedules_as_they_were_and_goes_on_with_what_passed_meanwhile(folder: Path) -> None:
    bench = Schedules(folder)
    for name, missed in (("skips", "skip"), ("once", "once"), ("all", "all")):
        bench.declare("every 10s", name, queue=name, missed=missed)
    bench.declare("every 10s", "paused", queue="paused")
    bench.schedules.pause("paused")
    await bench.passes(25)
    await bench.die()
    again = Schedules(folder)
    again.time_of_day = START + 75
    await again.passes(1)
    assert again.times("skips") == [10, 20, 70]
    assert again.times("once") == [10, 20, 60, 70]
    assert again.times("all") == [10, 20, 30, 40, 50, 60, 70]
    assert again.times("paused") == []
    assert again.schedules.get("skips").progress.missed == 4
    assert again.schedules.get("paused").state == PAUSED
    await again.die()


@durable
async def test_a_message_that_waited_is_stored_by_the_next_start(folder: Path) -> None:
    bench = Schedules(folder)
    bench.queues.declare("small", QueueSettings(max_messages=1))
    bench.declare("every 10s", queue="small")
    await bench.passes(25)
    await bench.die()
    again = Schedules(folder)
    again.time_of_day = START + 500
    await again.passes(1)
    assert again.schedules.get("s").progress.waiting == START + 20
    await again.acknowledge("small", 1)
    await again.passes(1)
    assert again.times("small")[0] == 20
    await again.die()


@durable
async def test_the_message_and_how_far_the_schedule_is_are_one_record(folder: Path) -> None:
    bench = Schedules(folder)
    bench.declare("every 10s", payload=b"p")
    await bench.passes(10)
    await bench.die()
    found = [decode_together(payload) for kind, payload in records(folder) if kind == codec.TOGETHER]
    (stored,) = [each for each in found if each.events]
    assert [entry.section for entry in stored.entries] == [PROGRESS_SECTION]
    assert len(found) == 2, "what was declared is one record too"


@durable
async def test_a_transient_queue_has_it_too(folder: Path) -> None:
    bench = Schedules(folder)
    bench.queues.declare("passing", QueueSettings(durable=False))
    bench.declare("every 10s", queue="passing")
    await bench.passes(20)
    assert bench.times("passing") == [10, 20]
    await bench.die()
    again = Schedules(folder)
    again.time_of_day = START + 25
    await again.passes(5)
    assert again.schedules.get("s").state == FAILS
    assert again.schedules.get("s").progress.fired == 2
    await again.die()


@durable
async def test_a_disk_that_is_behind_is_waited_for(folder: Path) -> None:
    bench = Schedules(folder)
    bench.declare("every 10s")
    with mock.patch.object(Storage, "_check_pending", side_effect=DiskBehindError(2, 1)):
        await bench.passes(11)
    assert bench.times() == []
    assert "wait" in bench.schedules.get("s").error
    await bench.passes(LOOK_SECONDS)
    assert bench.times()[-1] == 70
    await bench.die()


@durable
async def test_what_waits_for_the_disk_is_not_counted_as_published(folder: Path) -> None:
    bench = Schedules(folder)
    await bench.bound("topic", "x", a="#")
    bench.declare("every 10s", exchange="x", routing_key="k")
    with mock.patch.object(Storage, "_check_pending", side_effect=DiskBehindError(2, 1)):
        await bench.passes(11)
    assert bench.queues.exchanges.publishing.counts.read("x").published == 0
    await bench.passes(LOOK_SECONDS)
    assert bench.queues.exchanges.publishing.counts.read("x").published == len(bench.times("a")) == 2
    await bench.die()


@durable
async def test_what_was_not_stored_for_a_queue_is_just_gone_is_not_dealt_with_and_tried_again(folder: Path) -> None:
    bench = Schedules(folder)
    await bench.bound("topic", "x", a="#")
    bench.declare("every 10s", exchange="x", routing_key="k")
    with mock.patch.object(bench.queues._storage._contents, "takes", return_value=False):
        await bench.passes(11)
    there = bench.schedules.get("s")
    assert (there.state, there.progress.waiting, there.progress.fired) == (WAITS, START + 10, 0)
    assert there.error == "one of its queues is just gone: a"
    assert bench.queues.exchanges.publishing.counts.read("x").published == 0
    await bench.passes(LOOK_SECONDS)
    assert bench.times("a") == [10, 60, 70]
    assert (there.error, there.progress.fired) == (None, 3)
    await bench.die()


@pytest.mark.parametrize("journal", [True, False])
def test_whatever_a_schedule_meets_the_others_go_on_and_it_is_tried_again(
    tmp_path: Path, journal: bool, loop_reports: list[str]
) -> None:
    real = Storing.full

    def full(self: Storing, names: tuple[str, ...], batch: Any, ttl: Any) -> Any:
        if names == ("bad",):
            raise RuntimeError("a defect")
        return real(self, names, batch, ttl)

    async def run() -> None:
        bench = Schedules(tmp_path / "data" if journal else None)
        for name in ("bad", "good", "last"):
            bench.declare("every 10s", name, queue=name)
        with mock.patch.object(Storing, "full", full):
            await bench.passes(25)
        assert [bench.times(name) for name in ("good", "last")] == [[10, 20], [10, 20]]
        there = bench.schedules.get("bad")
        assert (there.state, there.error) == (FAILS, "it could not be looked at: RuntimeError('a defect')")
        assert len(loop_reports) == 1, "it is not tried all the time"
        await bench.passes(2 * LOOK_SECONDS)
        assert bench.times("bad")[-1] == 140
        assert there.error is None
        await bench.close()

    run_in_virtual_time(run())


@durable
async def test_an_older_program_refuses_a_directory_with_schedules_and_reads_it_when_they_are_gone(
    folder: Path,
) -> None:
    bench = Schedules(folder)

    def version() -> int:
        return int(msgpack.unpackb(b"".join(bench.storage._contents.snapshot()))["version"])

    before = version()
    bench.declare("every 10s")
    assert before < version() == snapshot.SCHEDULES_VERSION
    bench.schedules.delete("s")
    assert version() < snapshot.SCHEDULES_VERSION
    await bench.settled()
    await bench.die()
    # One that knows no schedules looks for an event of this kind among those of a record of several queues.
    with pytest.raises(StorageError, match="the unknown kind 37: this directory was written by a newer version"):
        codec.decode(codec.ENTRY_PUT, memoryview(b""))
    assert [kind for kind, _ in records(folder)][-2:] == [codec.TOGETHER] * 2


@durable
async def test_a_schedule_of_a_newer_program_is_refused(folder: Path) -> None:
    bench = Schedules(folder)
    bench.declare("every 10s")
    with mock.patch.object(declared, "_FORMAT", 9):
        bench.declare("every 10s", "t")
    await bench.settled()
    await bench.die()
    with pytest.raises(StorageError, match="schedule 't' says more than this program knows"):
        Schedules(folder)


@durable
async def test_one_whose_zone_this_machine_has_not_stands_still_and_says_so(folder: Path) -> None:
    bench = Schedules(folder)
    bench.declare("0 8 * * *", zone="Europe/Berlin")
    await bench.settled()
    await bench.die()
    with mock.patch("actors.scheduling.expressions.ZoneInfo", side_effect=OSError):
        again = Schedules(folder)
        there = again.schedules.get("s")
        assert (there.state, there.next_time()) == (FAILS, None)
        assert "there is no time zone 'Europe/Berlin'" in there.error
        await again.passes(24 * 3600)
        assert again.times() == []
    again.schedules.delete("s")
    assert len(again.schedules) == 0
    await again.die()


@durable
async def test_a_checkpoint_has_schedules_and_how_far_they_are(folder: Path) -> None:
    bench = Schedules(folder)
    bench.declare("every 10s")
    await bench.passes(20)
    bench.storage._checkpoints.make()
    bench.storage._checkpoints._advance(whole=True)
    await bench.settled()
    await bench.close()
    again = Schedules(folder)
    assert SECTION in dict(again.storage.sections)
    again.time_of_day = START + 28
    await again.passes(5)
    assert again.times() == [10, 20, 30]
    await again.die()


@both
async def test_many_that_are_due_at_once_leave_others_their_turn(bench: Schedules) -> None:
    for number in range(100):
        bench.declare("every 10s", f"s{number}", queue=f"q{number % 7}")
    await bench.passes(1)
    fired: list[int] = []
    turn = bench.schedules._turn

    def counted() -> None:
        turn()
        fired.append(bench.schedules.counts.fired)

    with (
        mock.patch.object(bench.schedules, "_turn", counted),
        mock.patch.object(schedule_directory, "TURN_SECONDS", 0.0),
    ):
        await bench.passes(10)
    assert fired[-1] == 100
    assert max(after - before for before, after in pairwise([0, *fired])) == 1
