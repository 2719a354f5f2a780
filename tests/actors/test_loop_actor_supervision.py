"""Failing handlers under each policy, the limit on restarts, and watching for an actor's end."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from typing import Any

import pykka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import AsyncHandlerError, StorageError
from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_ref import LoopActorRef
from actors.runtime.loop_registry import LoopActorRegistry
from actors.runtime.supervision import RestartBudget, Supervision
from tests.actors.loop_actors import run


class Worker(LoopActor):
    """Raises a message that is an exception, runs one that is callable, keeps any other."""

    def __init__(self, log: list[Any]) -> None:
        super().__init__()
        self.log = log

    def on_stop(self) -> None:
        self.log.append("stop")

    def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
        assert traceback is not None
        self.log.append(("on_failure", exception_value))

    def on_restart(self, failure: BaseException) -> None:
        self.log.append(("on_restart", failure))

    def on_receive(self, message: Any) -> Any:
        if isinstance(message, BaseException):
            raise message
        if callable(message):
            return message(self)
        self.log.append(message)
        return None


class Stopping(Worker):
    supervision = Supervision.STOP


class Resuming(Worker):
    supervision = Supervision.RESUME


class Restarting(Worker):
    supervision = Supervision.RESTART
    max_restarts = 2


def test_stop_is_the_default_policy() -> None:
    assert LoopActor.supervision is Supervision.STOP


def test_under_stop_a_failing_tell_ends_the_actor_and_fails_what_is_left(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        log: list[Any] = []
        error = ValueError("bad message")
        ref = Stopping.start(log)
        ref.tell("good")
        ref.tell(error)
        ref.tell("dropped")
        left = ref.ask("left", block=False)
        stopped = ref.stop(block=False)
        assert await ref.stopped() is error
        with pytest.raises(pykka.ActorDeadError, match="stopped before handling"):
            await left
        assert await stopped is True
        assert log == ["good", ("on_failure", error)]
        assert LoopActorRegistry.get_by_urn(ref.actor_urn) is None

    run(scenario())
    [record] = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "Stopping (urn" in record.getMessage()
    assert record.exc_info is not None


def test_what_ends_the_broker_and_was_told_is_not_logged_by_every_actor_that_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Renewed(Worker):
        supervision = Supervision.RESTART

    async def scenario() -> None:
        for told in (True, False):
            log: list[Any] = []
            actor = Renewed.start(log)
            failure = StorageError("the journal is damaged")
            failure.told = told
            actor.tell(failure)
            await asyncio.sleep(0)
            assert log == [("on_failure" if told else "on_restart", failure)]
            assert actor.is_alive() is not told
            assert len(caplog.records) == (not told)

    run(scenario())


def test_a_failing_on_failure_is_logged_and_the_first_failure_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    class Clumsy(Stopping):
        def on_failure(self, exception_type: Any, exception_value: Any, traceback: Any) -> None:
            raise LookupError("in on_failure")

    async def scenario() -> None:
        error = ValueError("first")
        ref = Clumsy.start([])
        ref.tell(error)
        assert await ref.stopped() is error

    run(scenario())
    assert "in on_failure" in caplog.text


def test_under_resume_the_actor_goes_on_with_the_next_message(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        log: list[Any] = []
        ref = Resuming.start(log)
        for number in range(100):
            ref.tell(ValueError(number))
            ref.tell(number)
        assert await ref.stop(block=False) is True
        assert log == [*range(100), "stop"]

    run(scenario())
    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 100


def test_under_restart_the_state_is_renewed_and_the_actor_goes_on() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        error = ValueError("once")
        ref = Restarting.start(log)
        ref.tell(error)
        ref.tell("after")
        await ref.ask("asked", block=False)
        assert log == [("on_restart", error), "after", "asked"]
        assert ref.is_alive()

    run(scenario())


def test_a_restart_cancels_the_timers() -> None:
    async def scenario() -> None:
        timers: list[Any] = []
        ref = Restarting.start([])
        ref.tell(lambda actor: timers.append(actor.schedule(3600, "never")))
        ref.tell(ValueError("once"))
        await ref.ask("after", block=False)
        assert [timer.pending() for timer in timers] == [False]

    run(scenario())


def test_one_failure_beyond_the_limit_of_restarts_stops_the_actor(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        log: list[Any] = []
        errors = [ValueError(number) for number in range(3)]
        ref = Restarting.start(log)
        for error in errors:
            ref.tell(error)
        assert await ref.stopped() is errors[2]
        assert log == [("on_restart", errors[0]), ("on_restart", errors[1]), ("on_failure", errors[2])]

    run(scenario())
    assert "failed more than 2 times in 60.0 s" in caplog.text


def test_failures_further_apart_than_the_window_never_stop_the_actor() -> None:
    class SteppedLoop(asyncio.SelectorEventLoop):
        now = 0.0

        def time(self) -> float:
            return self.now

    with asyncio.Runner(loop_factory=SteppedLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, SteppedLoop)

        async def scenario() -> None:
            log: list[Any] = []
            ref = Restarting.start(log)
            for number in range(20):
                ref.tell(ValueError(number))
                await ref.ask("alive", block=False)
                loop.now += Restarting.restart_window / 2
            assert log.count("alive") == 20
            await ref.stop(block=False)

        runner.run(scenario())


def test_an_actor_that_cannot_be_renewed_stops_with_that_failure(caplog: pytest.LogCaptureFixture) -> None:
    class Hopeless(Restarting):
        def on_restart(self, failure: BaseException) -> None:
            raise LookupError("cannot renew")

    async def scenario() -> None:
        log: list[Any] = []
        ref = Hopeless.start(log)
        ref.tell(ValueError("first"))
        failure = await ref.stopped()
        assert isinstance(failure, LookupError)
        assert log == [("on_failure", failure)]

    run(scenario())
    assert "first" in caplog.text
    assert "cannot renew" in caplog.text


@pytest.mark.parametrize("policy", [Stopping, Resuming, Restarting])
def test_under_every_policy_a_failing_ask_only_answers_its_caller(policy: type[Worker]) -> None:
    async def scenario() -> None:
        log: list[Any] = []
        ref = policy.start(log)
        for _ in range(10):
            with pytest.raises(ValueError, match="asked"):
                await ref.ask(ValueError("asked"), block=False)
        assert ref.is_alive()
        assert log == []

    run(scenario())


def test_a_coroutine_hook_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(AsyncHandlerError, match=r"Wrong\.on_restart"):

        class Wrong(LoopActor):
            async def on_restart(self, failure: BaseException) -> None:  # type: ignore[override]  # what is refused
                pass


@given(
    limit=st.integers(min_value=0, max_value=5),
    gaps=st.lists(st.floats(min_value=0, max_value=20, allow_nan=False), max_size=40),
)
def test_a_restart_budget_allows_no_more_than_its_limit_in_any_window(limit: int, gaps: list[float]) -> None:
    window = 10.0
    budget = RestartBudget(limit, window)
    now = 0.0
    granted: list[float] = []
    for gap in gaps:
        now += gap
        before = [time for time in granted if now - time < window]
        assert budget.take(now) is (len(before) < limit)
        if len(before) < limit:
            granted.append(now)


def test_a_watch_is_called_once_with_none_after_an_ordinary_stop() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        ref = Stopping.start(log)
        ref.watch(lambda failure: log.append(("watched", failure)))
        await ref.stop(block=False)
        await ref.stopped()
        assert log == ["stop", ("watched", None)]

    run(scenario())


def test_a_watch_is_called_with_the_failure() -> None:
    async def scenario() -> None:
        seen: list[Any] = []
        error = ValueError("end")
        ref = Stopping.start([])
        ref.watch(seen.append)
        ref.tell(error)
        assert await ref.stopped() is error
        assert seen == [error]

    run(scenario())


def test_a_watch_of_a_stopped_actor_is_called_in_the_loops_next_turn() -> None:
    async def scenario() -> None:
        called: asyncio.Queue[Any] = asyncio.Queue()
        error = ValueError("earlier")
        ref = Stopping.start([])
        ref.tell(error)
        await ref.stopped()
        ref.watch(called.put_nowait)
        assert called.empty()
        assert await called.get() is error

    run(scenario())


def test_a_cancelled_watch_is_not_called_and_a_failing_one_does_not_harm_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_failure: BaseException | None) -> None:
        raise LookupError("in the callback")

    async def scenario() -> None:
        seen: list[str] = []
        ref = Stopping.start([])
        ref.watch(lambda _failure: seen.append("cancelled")).cancel()
        ref.watch(fail)
        ref.watch(lambda _failure: seen.append("last"))
        await ref.stop(block=False)
        assert seen == ["last"]

    run(scenario())
    assert "in the callback" in caplog.text


def test_an_actor_watches_another_through_its_own_inbox() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        error = ValueError("end")
        watched, watcher = Stopping.start([]), Resuming.start(log)
        await watcher.ask(lambda actor: actor.watch(watched, log.append) and None, block=False)
        watcher.tell("before")
        watched.tell(error)
        await watched.stopped()
        await watcher.ask("after", block=False)
        assert log == ["before", error, "after"]
        actor = watcher._actor_weakref()
        assert actor is not None
        assert not actor._watching

    run(scenario())


def test_a_watch_callback_of_an_actor_fails_under_the_actors_policy() -> None:
    def fail(_failure: BaseException | None) -> None:
        raise LookupError("in the callback")

    async def scenario() -> None:
        watched, watcher = Stopping.start([]), Stopping.start([])
        await watcher.ask(lambda actor: actor.watch(watched, fail) and None, block=False)
        watched.stop_nowait()
        assert isinstance(await watcher.stopped(), LookupError)

    run(scenario())


def test_a_stopped_watcher_is_neither_called_nor_kept() -> None:
    async def scenario() -> None:
        seen: list[Any] = []
        watched, watcher = Stopping.start([]), Resuming.start([])
        await watcher.ask(lambda actor: actor.watch(watched, seen.append) and None, block=False)
        assert len(watched.actor_inbox._watches or ()) == 1
        actor: weakref.ref[Any] = watcher._actor_weakref
        await watcher.stop(block=False)
        assert len(watched.actor_inbox._watches or ()) == 0
        assert actor() is None
        await watched.stop(block=False)
        assert seen == []

    run(scenario())


def test_a_watch_cancelled_after_the_end_but_before_its_turn_is_not_called() -> None:
    async def scenario() -> None:
        seen: list[Any] = []
        watches: list[Any] = []
        watched, watcher = Stopping.start([]), Resuming.start([])
        await watcher.ask(lambda actor: watches.append(actor.watch(watched, seen.append)), block=False)
        watched.watch(lambda _failure: watches[0].cancel())
        await watched.stop(block=False)
        await watcher.ask("after", block=False)
        assert seen == []

    run(scenario())


def test_a_failed_actor_is_freed_with_the_last_ref_to_it() -> None:
    async def scenario() -> None:
        ref: LoopActorRef[Any] = Stopping.start([])
        actor = ref._actor_weakref
        ref.tell(ValueError("end"))
        await ref.stopped()
        gc.collect()
        # The failure is kept for late watchers, and its traceback holds the handler's frame.
        assert actor() is not None
        del ref
        gc.collect()
        assert actor() is None

    # A captured log record would hold the failure, and so the actor.
    logging.disable(logging.CRITICAL)
    try:
        run(scenario())
    finally:
        logging.disable(logging.NOTSET)
