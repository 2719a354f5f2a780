"""What is delivered to an idle actor is handled at once; the rules of actors hold all the same."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pykka
import pytest

from actors.errors import InboxOverflowError
from actors.runtime.loop_actor import LoopActor
from actors.runtime.supervision import Supervision
from tests.actors.loop_actors import Recorder, run

pytestmark = pytest.mark.event_loop


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_an_idle_actor_has_handled_it_when_deliver_returns() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        ref = Recorder.start(log)
        await turns()
        for number in range(3):
            ref.deliver(number)
            assert log == ["start", *range(number + 1)]
        ref.tell("told")
        await turns()
        assert log[-1] == "told"

    run(scenario())


def test_an_actor_that_has_not_started_or_has_something_to_do_gets_it_in_its_turn() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        ref = Recorder.start(log)
        ref.deliver("first")
        assert log == []
        await turns()
        ref.tell("second")
        ref.deliver("third")
        assert log == ["start", "first"]
        await turns()
        assert log == ["start", "first", "second", "third"]

    run(scenario())


def test_an_actor_at_work_is_never_entered_again_be_it_by_itself_or_by_another() -> None:
    depth, deepest = [0], [0]

    class Echo(LoopActor):
        def __init__(self) -> None:
            super().__init__()
            self.other: Any = None
            self.seen = 0

        def on_receive(self, message: Any) -> None:
            depth[0] += 1
            deepest[0] = max(deepest[0], depth[0])
            assert depth[0] <= 2, "one of each"
            if type(message) is not int:
                self.other = message
            elif message:
                self.seen += 1
                self.other.deliver(message - 1)
                self.actor_ref.deliver(0)
            depth[0] -= 1

    async def scenario() -> None:
        one, other = Echo.start(), Echo.start()
        one.tell(other)
        other.tell(one)
        await turns()
        one.deliver(10_000)
        for _ in range(20_000):
            await asyncio.sleep(0)
            if not one.waiting + other.waiting:
                break
        proxies = one.proxy(), other.proxy()
        assert [await proxy.seen for proxy in proxies] == [5_000, 5_000]
        assert deepest == [2]

    run(scenario())


def test_it_is_handled_in_the_actors_own_context() -> None:
    where: contextvars.ContextVar[str] = contextvars.ContextVar("where")

    async def scenario() -> None:
        found: list[str] = []
        where.set("at the start")
        ref = Recorder.start()
        await turns()
        where.set("at the delivery")
        ref.deliver(lambda _actor: found.append(where.get()))
        assert found == ["at the start"]

    run(scenario())


def test_a_handler_that_raises_is_the_actors_own_failure_and_its_policy_decides() -> None:
    class Restarting(Recorder):
        supervision = Supervision.RESTART

        def on_restart(self, failure: BaseException) -> None:
            self.log.append(type(failure))

    def fails(_actor: Any) -> None:
        raise RuntimeError("a defect")

    async def scenario() -> None:
        lasting: list[Any] = []
        ending: list[Any] = []
        kept, stopped = Restarting.start(lasting), Recorder.start(ending)
        await turns()
        kept.deliver(fails)
        kept.deliver("on")
        assert lasting == ["start", RuntimeError, "on"]
        stopped.deliver(fails)
        assert not stopped.is_alive()
        assert ending == ["start", ("failure", RuntimeError)]
        with pytest.raises(pykka.ActorDeadError):
            stopped.deliver("too late")

    run(scenario())


def test_an_actor_that_stops_itself_meanwhile_does_so_behind_it() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        ref = Recorder.start(log)
        await turns()

        def stops(actor: Any) -> None:
            actor.stop()
            actor.actor_ref.deliver("behind the stop")
            log.append("done")

        ref.deliver(stops)
        assert log == ["start", "done"]
        await turns()
        assert log == ["start", "done", "stop"]
        with pytest.raises(pykka.ActorDeadError):
            ref.deliver("too late")

    run(scenario())


def test_what_is_told_from_within_is_handled_in_the_next_turn() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        ref = Recorder.start(log)
        await turns()
        ref.deliver(lambda actor: actor.actor_ref.tell("next"))
        assert log == ["start"]
        await turns()
        assert log == ["start", "next"]

    run(scenario())


def test_from_another_thread_it_is_told() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        handled: asyncio.Future[int] = loop.create_future()
        ref = Recorder.start()
        await turns()
        await asyncio.to_thread(ref.deliver, lambda _actor: handled.set_result(threading.get_ident()))
        assert await handled == threading.get_ident()

    run(scenario())


def test_tells_from_a_thread_beside_deliveries_are_all_handled_one_at_a_time() -> None:
    async def scenario() -> None:
        at_work, handled = [0], [0]

        def one(_actor: Any) -> None:
            at_work[0] += 1
            assert at_work[0] == 1
            handled[0] += 1
            at_work[0] -= 1
            if handled[0] == 40_000:
                all_handled.set()

        all_handled = asyncio.Event()
        ref = Recorder.start()
        await turns()
        thread = threading.Thread(target=lambda: [ref.tell(one) for _ in range(20_000)])
        thread.start()
        for number in range(20_000):
            ref.deliver(one)
            if number % 100 == 0:
                await asyncio.sleep(0)
        await asyncio.to_thread(thread.join)
        await all_handled.wait()
        assert ref.waiting == 0

    run(scenario())


def test_a_full_inbox_refuses_it_as_it_refuses_what_is_told() -> None:
    class Narrow(Recorder):
        max_inbox = 1

    async def scenario() -> None:
        ref = Narrow.start()
        await turns()
        ref.tell("waits")
        with pytest.raises(InboxOverflowError):
            ref.deliver("one too many")

    run(scenario())
