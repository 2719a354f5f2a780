"""Queues that go when nobody uses them: RabbitMQ's rule for ``x-expires``, over a journal and in memory."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import StorageError
from actors.limits import MAX_QUEUE_EXPIRY_SECONDS, NO_DEADLINE
from actors.queue import expiring_queues
from actors.queue.vocabulary import commands, prefetch, replies, takes
from actors.queue.vocabulary.settings import QueueSettings, dead_letter_settings
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.publishing_bench import batch_of, defined
from tests.actors.stored_queues import BrokenFiles, Ref, StoredQueues, durable, turns, with_and_without_journal
from tests.examples_tried import tried

MINUTE = 60.0
SETTINGS = QueueSettings(expires=MINUTE)
SHORTLY = 0.001


class Bench(StoredQueues):
    """Queues that expire."""

    @property
    def names(self) -> list[str]:
        return list(self.queues)

    async def attach(self, queue: str, message: type[Any] = commands.AttachReceiver, **said: Any) -> Ref:
        ref, _ = await self.connect(self.queues.get(queue), lambda ref: message(connection=ref, **said))
        return ref

    async def tell(self, name: str, message: Any) -> None:
        self.queues.get(name).tell(message)
        await turns()

    async def leave(self, name: str, ref: Ref) -> None:
        await self.tell(name, commands.Left(connection=ref))

    async def take(self, name: str, ref: Ref, request: int) -> None:
        await self.tell(name, takes.TakeMessages(request, 1, 1, connection=ref))

    async def is_there_for(self, name: str, seconds: float) -> bool:
        """Whether it is there for so long, and then gone."""
        await elapse(seconds - SHORTLY)
        before = name in self.names
        await elapse(2 * SHORTLY)
        return before and name not in self.names


both = with_and_without_journal(Bench)


@both
async def test_it_goes_with_what_it_holds_and_what_led_to_it_and_nothing_is_dead_lettered(bench: Bench) -> None:
    bench.queues.declare("q", QueueSettings(expires=MINUTE, max_receives=1, dead_letter_queue="dead"))
    decide = bench.queues.exchanges.exchanges.decide
    await defined(bench, decide.declare("x", "fanout"))
    await defined(bench, decide.bind("x", "q"))
    bench.queues.distributor.store(["q"], batch_of(b"1", b"2"))
    bench.queues.get_or_create("other")
    assert await bench.is_there_for("q", MINUTE)
    assert bench.names == ["other"]
    assert bench.queues.exchanges.exchanges.route("x", ("",)) == ()
    assert len(bench.queues.expiring) == 0


@both
async def test_who_receives_or_subscribes_keeps_it_and_its_time_begins_when_the_last_has_gone(bench: Bench) -> None:
    bench.queues.declare("q", SETTINGS)
    one, other = await bench.attach("q"), await bench.attach("q", takes.AttachTaker)
    reader = await bench.attach("q", commands.OpenSubscription, name="s", mode="own")
    await elapse(10 * MINUTE)
    await bench.leave("q", one)
    await elapse(10 * MINUTE)
    await other.stop(block=False)
    await elapse(10 * MINUTE)
    assert "q" in bench.names
    await reader.stop(block=False)
    await turns()
    assert await bench.is_there_for("q", MINUTE)


@both
async def test_who_sends_does_not_keep_it_and_hears_that_it_is_gone(bench: Bench) -> None:
    bench.queues.declare("q", SETTINGS)
    await elapse(MINUTE / 2)
    _, told = await bench.connect(
        bench.queues.get("q"),
        lambda ref: commands.AttachSender(None, connection=ref),
        lambda ref: commands.RequestCapacity(5, 1_000, connection=ref),
        lambda ref: commands.OfferBatch(0, batch_of(b"1"), None, None, connection=ref),
    )
    assert await bench.is_there_for("q", MINUTE / 2)
    await turns()
    assert isinstance(told[-1], replies.QueueDeleted)


@both
async def test_taking_single_messages_declaring_and_altering_have_it_count_anew(bench: Bench) -> None:
    bench.queues.declare("q", SETTINGS)
    number = bench.queues.number_of("q")
    getter = await bench.attach("q", told_visibility=NO_DEADLINE)
    for request, use in enumerate(
        (
            lambda request: bench.take("q", getter, request),
            lambda request: bench.take("q", getter, request),
            lambda _: _done(bench.queues.declare("q", SETTINGS)),
            lambda _: _done(bench.queues.used("q")),
            lambda _: bench.tell("q", bench.queues.alter("q", {"max_receives": 3})),
        )
    ):
        await elapse(MINUTE - SHORTLY)
        await use(request)
        assert bench.queues.number_of("q") == number, "it is the same queue"
    # It holds nothing back that it is connected.
    assert await bench.is_there_for("q", MINUTE)


async def _done(_: object) -> None:
    pass


@both
async def test_who_has_withdrawn_its_demand_for_good_does_not_keep_it_and_who_pauses_does(bench: Bench) -> None:
    bench.queues.declare("q", SETTINGS)
    ref = await bench.attach("q")
    await bench.tell("q", prefetch.DemandWithdrawn(ref))
    await elapse(5 * MINUTE)
    await bench.tell("q", prefetch.DemandWithdrawn(ref, ends=True))
    await elapse(MINUTE / 2)
    # That it leaves in the end is no use.
    await bench.leave("q", ref)
    assert await bench.is_there_for("q", MINUTE / 2)


@both
async def test_a_setting_that_is_altered_holds_from_then_on(bench: Bench) -> None:
    bench.queues.declare("never", QueueSettings())
    bench.queues.declare("ever", SETTINGS)
    bench.queues.declare("later", SETTINGS)
    bench.queues.declare("sooner", SETTINGS)
    await elapse(MINUTE / 2)
    bench.queues.alter("never", {"expires": MINUTE})
    bench.queues.alter("ever", {"expires": None})
    bench.queues.alter("later", {"expires": 3 * MINUTE})
    bench.queues.alter("sooner", {"expires": 1.0})
    assert await bench.is_there_for("sooner", 1.0)
    assert await bench.is_there_for("never", MINUTE - 1.0 - SHORTLY)
    assert await bench.is_there_for("later", 2 * MINUTE - SHORTLY)
    await elapse(100 * MINUTE)
    assert bench.names == ["ever"]


@both
async def test_one_that_is_deleted_and_made_anew_has_all_its_time(bench: Bench) -> None:
    bench.queues.declare("q", SETTINGS)
    await elapse(MINUTE / 2)
    bench.queues.delete("q")
    bench.queues.declare("q", SETTINGS)
    assert await bench.is_there_for("q", MINUTE)


@both
async def test_a_queue_that_has_failed_counts_anew_with_nobody_connected(bench: Bench) -> None:
    bench.queues.declare("q", SETTINGS)
    await bench.attach("q")
    await elapse(5 * MINUTE)
    await bench.tell("q", object())
    assert await bench.is_there_for("q", MINUTE)


@durable
async def test_its_time_counts_anew_from_each_start_and_what_has_expired_stays_away(folder: Path) -> None:
    bench = Bench(folder)
    bench.queues.declare("q", SETTINGS)
    bench.queues.distributor.store(["q"], batch_of(b"1"))
    await bench.settled()
    await elapse(MINUTE / 2)
    await bench.die()
    bench.queues.end()
    bench = Bench(folder)
    assert bench.queues.settings_of("q") == SETTINGS
    assert await bench.is_there_for("q", MINUTE)
    await bench.settled()
    await bench.die()
    bench = Bench(folder)
    assert bench.names == []
    await bench.close()


@durable
async def test_a_broker_that_ends_deletes_nothing_any_more(folder: Path) -> None:
    bench = Bench(folder)
    bench.queues.declare("q", SETTINGS)
    bench.queues.end()
    await elapse(10 * MINUTE)
    assert bench.names == ["q"]
    await bench.close()


@durable
async def test_a_disk_that_has_failed_is_not_asked_again(folder: Path) -> None:
    files = BrokenFiles()
    bench = Bench(folder, files=files)
    bench.queues.declare("q", SETTINGS)
    await bench.settled()
    with mock.patch.object(bench.queues, "delete", side_effect=StorageError("gone")) as deleted:
        await elapse(10 * MINUTE)
    assert deleted.call_count == 1
    await bench.close()


@both
async def test_thousands_that_are_due_at_once_go_a_few_in_each_turn(bench: Bench) -> None:
    count = 10 * expiring_queues.TURN_QUEUES + 1
    for number in range(count):
        bench.queues.declare(f"q{number}", SETTINGS)
    gone: list[int] = []
    loop, delete, turn = asyncio.get_running_loop(), bench.queues.delete, 0

    def next_turn() -> None:
        nonlocal turn
        turn += 1
        if bench.names:
            loop.call_soon(next_turn)

    def deleted(name: str) -> None:
        if not gone:
            loop.call_soon(next_turn)
        gone.append(turn)
        delete(name)

    await elapse(MINUTE - SHORTLY)
    with mock.patch.object(bench.queues, "delete", deleted):
        await elapse(2 * SHORTLY)
    assert len(gone) == count
    assert max(map(gone.count, set(gone))) == expiring_queues.TURN_QUEUES


def test_times_that_cannot_be_are_refused_and_a_queue_for_dead_letters_has_none() -> None:
    for expires in (0.0, -1.0, MAX_QUEUE_EXPIRY_SECONDS + 1):
        with pytest.raises(ValueError, match=r"the queue expires after .*, which is not above 0 and at most 3660d"):
            QueueSettings(expires=expires)
    assert QueueSettings(expires=MAX_QUEUE_EXPIRY_SECONDS).expires == MAX_QUEUE_EXPIRY_SECONDS
    assert dead_letter_settings(SETTINGS).expires is None


@dataclass
class Model:
    """When each queue was used last, and how many keep it."""

    times: dict[str, float | None] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)

    def passed(self, now: float) -> None:
        for name, expires in list(self.times.items()):
            if expires is not None and not self.kept[name] and self.used[name] + expires <= now:
                self.gone(name)

    def gone(self, name: str) -> None:
        for facts in (self.times, self.used, self.kept):
            facts.pop(name, None)


QUEUES = st.sampled_from(("a", "b", "c"))
TIMES = st.sampled_from((None, 2.0, 3.0, 7.0))
STEPS = st.one_of(
    st.tuples(st.just("declare"), QUEUES, TIMES),
    st.tuples(st.sampled_from(("come", "go", "end", "take", "use", "send", "delete")), QUEUES, st.none()),
    st.tuples(st.just("alter"), QUEUES, TIMES),
    st.tuples(st.just("pass"), st.just(""), st.sampled_from((0.5, 1.0, 2.0, 4.0))),
    st.tuples(st.sampled_from(("kill", "close")), st.just(""), st.none()),
)


@settings(max_examples=tried(36), deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_whatever_happens_through_restarts_a_queue_is_there_as_long_as_it_was_used(steps: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        run_in_virtual_time(_follow(Path(folder), steps))


async def _follow(folder: Path, steps: list[tuple[str, str, Any]]) -> None:
    bench, model, loop = Bench(folder), Model(), asyncio.get_running_loop()
    refs: dict[str, list[Ref]] = {}
    # Never at the very time at which something is due.
    await elapse(0.25)
    for number, (what, name, value) in enumerate(steps):
        now = loop.time()
        there = name in model.times
        if what == "pass":
            await elapse(value)
            model.passed(loop.time())
            refs = {each: kept for each, kept in refs.items() if each in model.times}
        elif what in ("kill", "close"):
            await bench.settled()
            bench.queues.end()
            await (bench.die if what == "kill" else bench.close)()
            bench, refs = Bench(folder), {}
            model.kept = dict.fromkeys(model.times, 0)
            model.used = dict.fromkeys(model.times, now)
        elif what == "declare" and (not there or model.times[name] == value):
            bench.queues.declare(name, QueueSettings(expires=value))
            model.times[name], model.used[name] = value, now
            model.kept.setdefault(name, 0)
        elif there and what == "alter":
            await bench.tell(name, bench.queues.alter(name, {"expires": value}))
            model.times[name], model.used[name] = value, now
        elif there and what == "come":
            refs.setdefault(name, []).append(await bench.attach(name))
            model.kept[name] += 1
        elif there and what in ("go", "end") and refs.get(name):
            ref = refs[name].pop(0)
            await (bench.leave(name, ref) if what == "go" else ref.stop(block=False))
            await turns()
            model.kept[name] -= 1
            model.used[name] = now
        elif there and what == "take":
            getter = await bench.attach(name)
            await bench.take(name, getter, number)
            model.used[name] = now
        elif there and what == "use":
            bench.queues.used(name)
            model.used[name] = now
        elif there and what == "send":
            bench.queues.distributor.store([name], batch_of(b"1"))
        elif there and what == "delete":
            bench.queues.delete(name)
            refs.pop(name, None)
            model.gone(name)
        await turns()
        assert bench.names == sorted(model.times), (number, what)
    await bench.close()
