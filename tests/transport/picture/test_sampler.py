"""The sampler reads while somebody looks, what has changed and no more; in virtual time, over real queues."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from typing import Any
from unittest import mock

import pytest

from actors.batch import MessageBatch
from actors.queue.changes import MOST_NAMES, Changes, Reader
from actors.queue.queue_actor import QueueActor
from actors.queue.vocabulary import commands
from streams.testkit import elapse, run_in_virtual_time, settle
from tests.actors.stored_queues import StoredQueues
from transport.broker.memory import THRESHOLDS
from transport.errors import LimitExceededError
from transport.picture import sampler as module
from transport.picture.letting_go import PART
from transport.picture.pressure import Kind, Pressure
from transport.picture.sampler import (
    KEPT_SAMPLES,
    LINGER_SECONDS,
    MOST_LOOKS,
    MOST_WATCHED,
    SAMPLE_SECONDS,
    Sample,
    Sampler,
)
from transport.picture.slices import TURNS_BETWEEN


class Bench(StoredQueues):
    """Queues in memory, and a sampler of them that says what it reads."""

    def __init__(self) -> None:
        super().__init__(None)
        self.sampler = Sampler(self.queues, asyncio.get_running_loop().time)
        self.read: list[str] = []
        read = self.queues.read

        def noted(name: str, *, parties: bool = True) -> Any:
            self.read.append(name)
            return read(name, parties=parties)

        self.queues.read = noted  # type: ignore[method-assign] # to see what is read

    def make(self, *names: str) -> None:
        for name in names:
            self.queues.get_or_create(name)

    async def sender(self, name: str) -> Callable[[int], Coroutine[Any, Any, None]]:
        """What sends so many messages to a queue."""
        queue = self.queues.get_or_create(name)
        connection, _ = await self.connect(
            queue,
            lambda ref: commands.AttachSender(None, connection=ref),
            lambda ref: commands.RequestCapacity(10_000, 10**7, connection=ref),
        )
        sent = 0

        async def send(count: int) -> None:
            nonlocal sent
            payloads = MessageBatch.from_payloads([b"x"] * count)
            queue.tell(commands.OfferBatch(sent, payloads, None, None, connection=connection))
            sent += count
            await settle()

        return send

    def reads(self) -> list[str]:
        """What was read since this was called last."""
        found, self.read[:] = sorted(self.read), []
        return found


def bench(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        async def main() -> None:
            made = Bench()
            try:
                await test(made)
            finally:
                made.sampler.end()
                await made.close()

        run_in_virtual_time(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def timers() -> list[Any]:
    return [each for each in asyncio.get_running_loop()._scheduled if not each.cancelled()]  # type: ignore[attr-defined]


def tasks() -> set[str]:
    return {task.get_name() for task in asyncio.all_tasks()}


@bench
async def test_nobody_looks_and_there_is_no_task_no_timer_and_nothing_noted(bench: Bench) -> None:
    bench.make("a")
    send = await bench.sender("a")
    before = len(timers())
    with bench.sampler.looking() as look:
        assert await look.next()
        assert bench.queues.changes.names is not None
        assert bench.sampler.running
    await settle()
    assert not bench.sampler.running
    assert bench.queues.changes.names is None
    assert "penstock sampler" not in tasks()
    assert len(timers()) == before
    bench.reads()
    await send(3)
    await elapse(10)
    assert bench.reads() == []
    assert bench.sampler.samples == {}


@bench
async def test_the_first_round_reads_all_and_the_next_what_has_changed(bench: Bench) -> None:
    bench.make("a", "b", "c")
    send = await bench.sender("b")
    with bench.sampler.looking() as look:
        await look.next()
        assert bench.reads() == ["a", "b", "c"]
        await look.next()
        assert bench.reads() == []
        await send(4)
        await look.next()
        assert bench.reads() == ["b"]
        assert bench.sampler.samples["b"].came == pytest.approx(4 / SAMPLE_SECONDS)
        # Its rate is not at rest yet: it is read until it is.
        await look.next()
        assert bench.reads() == ["b"]
        assert bench.sampler.samples["b"].came == 0
        assert bench.sampler.samples["b"].pressure.kind is Kind.NO_RECEIVER
        while bench.sampler._restless:
            await look.next()
        bench.reads()
        await look.next()
        assert bench.reads() == []


@bench
async def test_a_queue_that_is_deleted_is_seen_no_more_and_one_made_again_has_no_rates_of_the_one_before(
    bench: Bench,
) -> None:
    send = await bench.sender("a")
    await send(7)
    with bench.sampler.looking() as look:
        look.watch(["a"])
        await look.next()
        bench.queues.delete("a")
        await look.next()
        assert "a" not in bench.sampler.samples
        assert bench.sampler.history("a") == []
        bench.make("a")
        await look.next()
        assert bench.sampler.samples["a"].came == 0
        # Within one round.
        send = await bench.sender("a")
        await send(5)
        await look.next()
        bench.queues.delete("a")
        send = await bench.sender("a")
        await send(2)
        await look.next()
        assert bench.sampler.samples["a"].figures.total_in == 2
        assert bench.sampler.samples["a"].came == 0


@bench
async def test_who_asks_once_has_it_run_on_for_a_while_and_then_no_more(bench: Bench) -> None:
    bench.make("a")
    await bench.sampler.glance()
    assert bench.sampler.samples["a"].came == 0
    await elapse(LINGER_SECONDS - 1)
    assert bench.sampler.running
    await bench.sampler.glance()
    await elapse(LINGER_SECONDS - 1)
    assert bench.sampler.running
    await elapse(2)
    assert not bench.sampler.running
    assert timers() == []


@bench
async def test_who_asks_once_waits_for_the_first_round_however_long_that_takes(bench: Bench) -> None:
    bench.make("a")
    may_end = asyncio.Event()
    round_ = bench.sampler._round

    async def long() -> None:
        await may_end.wait()
        await round_()

    with mock.patch.object(bench.sampler, "_round", long):
        glances = [asyncio.ensure_future(bench.sampler.glance()) for _ in range(2)]
        await elapse(3 * LINGER_SECONDS)
        may_end.set()
        await settle()
    assert all(glance.done() and glance.exception() is None for glance in glances)
    assert list(bench.sampler.samples) == ["a"]
    await elapse(LINGER_SECONDS + 1)
    assert not bench.sampler.running
    assert timers() == []


@bench
async def test_a_broker_that_stops_does_so_for_who_waits_for_the_first_round(bench: Bench) -> None:
    bench.make("a")
    glance = asyncio.ensure_future(bench.sampler.glance())
    await asyncio.sleep(0)
    bench.sampler.end()
    await settle()
    assert glance.done()
    assert not bench.sampler.running
    assert timers() == []


@bench
async def test_a_queue_at_rest_that_fails_for_good_is_seen_no_more(bench: Bench) -> None:
    bench.make("a", "b")
    queue = bench.queues.get("a")
    with bench.sampler.looking() as look:
        await look.next()
        await look.next()
        for _ in range(QueueActor.max_restarts):
            queue.tell(object())
        await settle()
        while "a" in bench.sampler._restless or bench.queues.changes.names:
            await look.next()
        queue.tell(object())
        await queue.stopped()
        await look.next()
        await look.next()
        assert list(bench.sampler.samples) == ["b"]


@bench
async def test_a_broker_that_stops_tells_those_who_wait_and_those_who_come_later(bench: Bench) -> None:
    with bench.sampler.looking() as look:
        await look.next()
        waiting = asyncio.ensure_future(look.next())
        await settle()
        bench.sampler.end()
        assert await waiting is False
        assert await look.next() is False
    with bench.sampler.looking() as later:
        assert await later.next() is False
    await bench.sampler.glance()
    assert not bench.sampler.running
    assert timers() == []


@bench
async def test_so_many_look_and_no_more(bench: Bench) -> None:
    looks = [bench.sampler.look() for _ in range(MOST_LOOKS)]
    with pytest.raises(LimitExceededError, match="256 look at this broker"):
        bench.sampler.look()
    looks.pop().close()
    looks.append(bench.sampler.look())
    for look in looks:
        look.close()
        look.close()
    assert not bench.sampler.running


@bench
async def test_a_queue_that_cannot_be_read_hinders_no_other(bench: Bench) -> None:
    bench.make("a", "b", "c")
    read = bench.queues.read

    def breaks(name: str, *, parties: bool = True) -> Any:
        if name == "b":
            raise ZeroDivisionError("a defect")
        return read(name, parties=parties)

    with mock.patch.object(bench.queues, "read", breaks), bench.sampler.looking() as look:
        await look.next()
        assert set(bench.sampler.samples) == {"a", "c"}
        assert await look.next()
    with bench.sampler.looking() as look:
        await look.next()
        assert set(bench.sampler.samples) == {"a", "b", "c"}


@bench
async def test_a_round_that_fails_is_followed_by_the_next(bench: Bench) -> None:
    bench.make("a")

    def breaks(_changes: Any) -> set[str]:
        raise ZeroDivisionError("a defect")

    with bench.sampler.looking() as look:
        await look.next()
        with mock.patch.object(Reader, "take", breaks):
            assert await look.next()
        assert await look.next()


@bench
async def test_samples_are_kept_of_what_is_watched_two_minutes_of_them(bench: Bench) -> None:
    bench.make("a", "b")
    with bench.sampler.looking() as one, bench.sampler.looking() as other:
        one.watch(["a"])
        other.watch(["a"])
        for _ in range(KEPT_SAMPLES + 5):
            await one.next()
        assert len(bench.sampler.history("a")) == KEPT_SAMPLES
        assert bench.sampler.history("b") == []
        one.watch(["b"])
        await one.next()
        assert len(bench.sampler.history("a")) == KEPT_SAMPLES
        assert len(bench.sampler.history("b")) == 1
        other.watch([])
        assert bench.sampler.history("a") == []
        one.watch(str(number) for number in range(MOST_WATCHED + 9))
        assert len(bench.sampler._watchers) == MOST_WATCHED


@bench
async def test_a_long_round_lets_others_have_their_turns(bench: Bench) -> None:
    bench.make(*(f"q{number}" for number in range(50)))
    turns = 0
    over = False

    async def beside() -> None:
        nonlocal turns
        while not over:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.ensure_future(beside())
    # Each queue takes a slice.
    with mock.patch("transport.picture.slices.SLICE_SECONDS", 0.0), bench.sampler.looking() as look:
        await look.next()
    over = True
    await other
    assert turns >= 50 * TURNS_BETWEEN


@bench
async def test_what_a_round_replaces_is_freed_behind_it_so_that_python_looks_for_cycles_among_few(bench: Bench) -> None:
    bench.make(*(f"q{number:04}" for number in range(1_500)))
    before = gc.get_threshold()
    with bench.sampler.looking() as look:
        await look.next()
        found: list[int] = []

        def noted(phase: str, info: dict[str, int]) -> None:
            if phase == "start":
                found.append(len(gc.get_objects(generation=0)))

        for name in bench.queues.names:
            bench.queues.changes.note(name)
        gc.collect()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(noted)
        try:
            await look.next()
        finally:
            gc.callbacks.remove(noted)
            gc.set_threshold(*before)
        # So many were made that Python has looked often, and each time soon.
        assert len(found) > 1_500 // THRESHOLDS[0]
        assert max(found) < 1.5 * THRESHOLDS[0]
        for _ in range(1_500 // PART + 1):
            await asyncio.sleep(0)
        assert sum(type(each) is Sample for each in gc.get_objects()) == 1_500


@bench
async def test_while_messages_move_one_moment_is_no_judgement(bench: Bench) -> None:
    send = await bench.sender("a")
    with bench.sampler.looking() as look:
        await look.next()
        assert bench.sampler.samples["a"].pressure.kind is Kind.IDLE
        await send(1)
        await look.next()
        sample = bench.sampler.samples["a"]
        assert (sample.judged, sample.pressure.kind) == (Kind.NO_RECEIVER, Kind.FLOWING)
        await send(1)
        await look.next()
        assert bench.sampler.samples["a"].pressure.kind is Kind.NO_RECEIVER


def test_a_full_queue_that_takes_more_in_steps_is_full_all_the_while() -> None:
    full = Pressure(Kind.LIMIT_REACHED, "queue a is full: receiver r asks for no more; sender s waits")
    slow = Pressure(Kind.RECEIVER_SLOW, "queue a has 7 messages ready: receiver r asks for no more")
    for recent in ((full, slow, full, slow), (slow, full, slow, full), (full, full, slow, slow), (full, slow, full)):
        assert module._over_time(recent, "a") == full
    assert module._over_time((full, slow, slow, slow), "a") == slow


@bench
async def test_a_queue_that_was_idle_for_long_is_not_called_idle_when_messages_come(bench: Bench) -> None:
    send = await bench.sender("a")
    with bench.sampler.looking() as look:
        for _ in range(3):
            # Somebody who comes and goes has it read, and judged, each time.
            await bench.connect(bench.queues.get("a"), lambda ref: commands.AttachSender(None, connection=ref))
            await look.next()
            assert bench.sampler.samples["a"].pressure.kind is Kind.IDLE
        for kind in (Kind.FLOWING, Kind.NO_RECEIVER):
            await send(1)
            await look.next()
            assert bench.sampler.samples["a"].pressure.kind is kind


def test_changes_are_noted_only_while_somebody_wants_to_know() -> None:
    changes = Changes()
    changes.note("nobody")
    assert changes.names is None
    reader = changes.read()
    assert changes.names == set()
    changes.names |= {"a", "b"}
    assert reader.take() == {"a", "b"}
    assert reader.take() == set()
    reader.end()
    assert changes.names is None


def test_each_who_wants_to_know_is_told_once_of_what_has_changed_since_they_began() -> None:
    changes = Changes()
    one = changes.read()
    changes.note("a")
    other = changes.read()
    changes.note("b")
    assert other.take() == {"b"}
    changes.note("c")
    assert one.take() == {"a", "b", "c"}
    assert other.take() == {"c"}
    one.end()
    changes.note("d")
    assert other.take() == {"d"}
    other.end()
    assert changes.names is None


def test_of_too_many_queues_that_come_and_go_no_names_are_kept_and_all_is_read_again() -> None:
    changes = Changes()
    reader, other = changes.read(), changes.read()
    for number in range(MOST_NAMES + 1):
        changes.note(str(number))
        other.take()
    assert reader.take() is None
    assert reader.take() == set()
    changes.note("a")
    assert (reader.take(), other.take()) == ({"a"}, {"a"})


@bench
async def test_a_queue_is_read_as_it_stands_with_its_parties_or_without(bench: Bench) -> None:
    send = await bench.sender("a")
    await send(2)
    whole, bare = bench.queues.read("a"), bench.queues.read("a", parties=False)
    assert whole is not None
    assert bare is not None
    assert (whole.ready, len(whole.connections), whole.attached_senders) == (2, 1, 1)
    assert (bare.ready, len(bare.connections), bare.attached_senders) == (2, 0, 1)
    assert bench.queues.read("nobody") is None
    bench.queues.delete("a")
    assert bench.queues.read("a") is None
