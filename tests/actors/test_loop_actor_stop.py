"""The end of a loop actor, on its own loop: stopping, failing to start or stop, what ends the program, what is freed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pykka
import pytest

from actors.runtime._pykka import ActorStop
from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_ref import LoopActorRef
from actors.runtime.loop_registry import LoopActorRegistry
from tests.actors.loop_actors import Recorder, fail, run


def test_what_is_told_before_the_stop_is_handled_and_what_is_asked_after_fails() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        ref = Recorder.start(log)
        before = ref.ask("before", block=False)
        stopped = ref.stop(block=False)
        after = ref.ask("after", block=False)
        assert await stopped is True
        assert await before == ["start", "before"]
        with pytest.raises(pykka.ActorDeadError, match="stopped before handling"):
            await after
        assert log == ["start", "before", "stop"]

    run(scenario())


def test_a_dead_actor_is_reported() -> None:
    async def scenario() -> None:
        ref = Recorder.start()
        assert await ref.stop(block=False) is True
        assert await ref.stop(block=False) is False
        ref.stop_nowait()
        with pytest.raises(pykka.ActorDeadError, match="not found"):
            ref.tell("late")
        late = ref.ask("late", block=False)
        with pytest.raises(pykka.ActorDeadError, match="not found"):
            await late
        with pytest.raises(pykka.ActorDeadError):
            ref.proxy()
        assert ref.actor_inbox.empty()

    run(scenario())


def test_every_stop_of_a_living_actor_answers_true_and_on_stop_runs_once() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        ref = Recorder.start(log)
        ref.stop_nowait()
        stops = [ref.stop(block=False) for _ in range(5)]
        assert len(ref.actor_inbox.queue) == 1
        assert [await stop for stop in stops] == [True] * 5
        assert log == ["start", "stop"]

    run(scenario())


def test_one_that_has_nothing_else_to_do_can_be_stopped_now_and_others_after_what_they_have() -> None:
    async def scenario() -> None:
        logs: list[list[Any]] = [[], [], []]
        idle, busy, at_work = (Recorder.start(log) for log in logs)
        assert await idle.ask("idle", block=False)
        assert await at_work.ask("idle", block=False)
        idle.stop_now()
        assert not idle.is_alive()
        assert logs[0] == ["start", "idle", "stop"]
        idle.stop_now()
        busy.tell("told before")
        busy.stop_now()
        busy.stop_now()
        assert busy.is_alive()
        at_work.tell(lambda actor: actor.actor_ref.stop_now())
        at_work.tell("still handled")
        assert await busy.stopped() is None
        assert await at_work.stopped() is None
        assert logs[1] == ["start", "told before", "stop"]
        assert logs[2] == ["start", "idle", "still handled", "stop"]

    run(scenario())


def test_an_actor_stops_itself_after_what_it_has() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        ref = Recorder.start(log)
        ref.tell(lambda actor: actor.stop())
        ref.tell("still handled")
        assert await ref.stopped() is None
        assert log == ["start", "still handled", "stop"]

    run(scenario())


def test_pykkas_own_stop_message_stops_the_actor() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        ref = Recorder.start(log)
        ref.tell(ActorStop())
        assert await ref.stopped() is None
        assert log == ["start", "stop"]

    run(scenario())


def test_actor_stopped_is_an_event_whenever_it_is_asked_for() -> None:
    async def scenario() -> None:
        asked_early, asked_late = Recorder.start(), Recorder.start()
        event = asked_early.actor_stopped
        assert not event.is_set()
        await asked_early.stop(block=False)
        await asked_late.stop(block=False)
        assert event.is_set()
        assert asked_late.actor_stopped.is_set()

    run(scenario())


def test_a_failing_on_start_stops_the_actor_and_fails_what_waits(caplog: pytest.LogCaptureFixture) -> None:
    class Unstartable(Recorder):
        def on_start(self) -> None:
            raise LookupError("no table")

    async def scenario() -> None:
        log: list[Any] = []
        ref = Unstartable.start(log)
        asked = ref.ask(1, block=False)
        failure = await ref.stopped()
        assert isinstance(failure, LookupError)
        with pytest.raises(pykka.ActorDeadError):
            await asked
        assert log == []

    run(scenario())
    assert "no table" in caplog.text


def test_a_failing_on_stop_is_logged_and_the_actor_stops_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    class Unstoppable(LoopActor):
        def on_stop(self) -> None:
            raise LookupError("cannot close")

    async def scenario() -> None:
        ref = Unstoppable.start()
        assert await ref.stop(block=False) is True
        assert isinstance(await ref.stopped(), LookupError)
        assert LoopActorRegistry.get_by_urn(ref.actor_urn) is None

    run(scenario())
    assert "cannot close" in caplog.text


def test_what_ends_the_program_stops_the_actor_and_reaches_the_loop() -> None:
    log: list[Any] = []
    refs: list[LoopActorRef[Recorder]] = []

    async def scenario() -> None:
        ref = Recorder.start(log)
        refs.append(ref)
        ref.tell(fail(SystemExit(3)))
        await ref.ask("never handled", block=False)

    with pytest.raises(SystemExit, match="3"):
        run(scenario())
    assert not refs[0].is_alive()
    assert log == ["start"]


def test_stopped_actors_and_their_messages_are_freed_without_the_collector() -> None:
    class Payload:
        pass

    async def scenario() -> None:
        actors: list[weakref.ref[Any]] = []
        payloads: list[weakref.ref[Any]] = []
        refs = [Recorder.start() for _ in range(10)]
        gc.collect()
        gc.disable()
        try:
            for ref in refs:
                payload = Payload()
                payloads.append(weakref.ref(payload))
                actors.append(ref._actor_weakref)
                ref.tell(lambda actor: actor.schedule(3600, "never"))
                ref.stop_nowait()
                ref.tell(payload)
                del payload
            assert all(actor() is not None for actor in actors)
            await asyncio.gather(*(_ended(ref) for ref in refs))
            assert [actor() for actor in actors] == [None] * 10
            assert [payload() for payload in payloads] == [None] * 10
        finally:
            gc.enable()

    async def _ended(ref: LoopActorRef[Any]) -> None:
        await ref.stopped()

    run(scenario())


def test_an_actor_without_refs_lives_until_it_stops() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        urn = Recorder.start(log).actor_urn
        gc.collect()
        ref = LoopActorRegistry.get_by_urn(urn)
        assert ref is not None
        assert await ref.ask("alive", block=False) == ["start", "alive"]

    run(scenario())
