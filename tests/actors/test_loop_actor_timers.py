"""Timers of an actor, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from actors.errors import InboxOverflowError, NoEventLoopError, TooManyTimersError
from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_ref import LoopActorRef

pytestmark = pytest.mark.event_loop


class ClockedLoop(asyncio.SelectorEventLoop):
    """Its time stands still until a test moves it."""

    now = 100.0

    def time(self) -> float:
        return self.now


def run(scenario: Callable[[ClockedLoop], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=ClockedLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, ClockedLoop)
        runner.run(scenario(loop))


class Alarm(LoopActor):
    max_timers = 3

    def __init__(self) -> None:
        super().__init__()
        self.rung: list[Any] = []

    def on_receive(self, message: Any) -> Any:
        if callable(message):
            return message(self)
        self.rung.append((self.loop.time(), message))
        return list(self.rung)


async def rung(ref: LoopActorRef[Any]) -> list[Any]:
    # The first ask may be handled before due timers are looked at in the same turn; the second comes after them.
    await ref.ask(lambda _actor: None, block=False)
    await ref.ask(lambda _actor: None, block=False)
    kept: list[Any] = await ref.ask(lambda actor: list(actor.rung), block=False)
    return kept


def test_a_message_comes_when_it_is_due_and_not_before() -> None:
    async def scenario(loop: ClockedLoop) -> None:
        ref = Alarm.start()
        await ref.ask(lambda actor: actor.schedule(5, "five").when, block=False)
        await ref.ask(lambda actor: actor.schedule_at(103, "three").when, block=False)
        loop.now = 102.0
        assert await rung(ref) == []
        loop.now = 103.0
        assert await rung(ref) == [(103.0, "three")]
        loop.now = 200.0
        assert await rung(ref) == [(103.0, "three"), (200.0, "five")]
        await ref.stop(block=False)

    run(scenario)


def test_a_cancelled_timer_is_not_told() -> None:
    async def scenario(loop: ClockedLoop) -> None:
        ref = Alarm.start()

        def schedule_and_cancel(actor: Alarm) -> list[bool]:
            timer = actor.schedule(1, "never")
            pending = [timer.pending()]
            timer.cancel()
            timer.cancel()
            return [*pending, timer.pending()]

        assert await ref.ask(schedule_and_cancel, block=False) == [True, False]
        loop.now += 10
        assert await rung(ref) == []
        await ref.stop(block=False)

    run(scenario)


def test_stopping_cancels_every_pending_timer() -> None:
    async def scenario(loop: ClockedLoop) -> None:
        ref = Alarm.start()
        timers = [await ref.ask(lambda actor: [actor.schedule(1, "never")], block=False) for _ in range(3)]
        await ref.stop(block=False)
        assert [timer.pending() for [timer] in timers] == [False] * 3
        loop.now += 10
        other = Alarm.start()
        assert await rung(other) == []
        assert ref.actor_inbox.empty()
        await other.stop(block=False)

    run(scenario)


def test_timers_have_a_bound_and_those_that_fired_or_were_cancelled_do_not_count() -> None:
    async def scenario(loop: ClockedLoop) -> None:
        ref = Alarm.start()

        def fill(actor: Alarm) -> None:
            for _ in range(3):
                actor.schedule(1, "tick")

        await ref.ask(fill, block=False)
        with pytest.raises(TooManyTimersError, match="already has 3 timers") as caught:
            await ref.ask(lambda actor: actor.schedule(1, "one too many"), block=False)
        assert caught.value.bound == 3
        loop.now += 1
        assert len(await rung(ref)) == 3
        await ref.ask(fill, block=False)
        await ref.stop(block=False)

    run(scenario)


def test_a_due_timer_is_told_even_to_a_full_inbox() -> None:
    class Tight(Alarm):
        max_inbox = 2

    async def scenario(loop: ClockedLoop) -> None:
        ref = Tight.start()
        timer = (await ref.ask(lambda actor: [actor.schedule(1, "due")], block=False))[0]
        ref.tell("a")
        last_sent = ref.ask("b", block=False)
        with pytest.raises(InboxOverflowError):
            ref.tell("one too many")
        # What the loop does when the timer is due; it cannot be made to do so before it drains the inbox.
        timer._fire()
        assert len(ref.actor_inbox.queue) == 3
        assert await last_sent == [(100.0, "a"), (100.0, "b")]
        assert await rung(ref) == [(100.0, "a"), (100.0, "b"), (100.0, "due")]
        await ref.stop(block=False)

    run(scenario)


def test_a_timer_before_the_start_is_refused() -> None:
    class Early(LoopActor):
        def __init__(self) -> None:
            super().__init__()
            self.schedule(1, "early")

    async def scenario(loop: ClockedLoop) -> None:
        with pytest.raises(NoEventLoopError):
            Early.start(loop=loop)

    run(scenario)
