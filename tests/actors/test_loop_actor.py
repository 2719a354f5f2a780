"""The life of a loop actor, on its own loop: starting, telling, asking, proxies, what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pykka
import pytest

from actors.errors import AsyncHandlerError, BlockingCallOnLoopError, NoEventLoopError
from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_ref import LoopActorRef
from actors.runtime.loop_registry import LoopActorRegistry
from tests.actors.loop_actors import Recorder, fail, run

pytestmark = pytest.mark.event_loop


def test_an_actor_starts_handles_in_order_and_stops() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        ref = Recorder.start(log)
        assert log == []
        ref.tell(1)
        ref.tell(2)
        assert await ref.ask(3, block=False) == ["start", 1, 2, 3]
        ref.tell(4)
        assert await ref.stop(block=False) is True
        assert log == ["start", 1, 2, 3, 4, "stop"]
        assert not ref.is_alive()

    run(scenario())


def test_start_returns_the_typed_ref_and_passes_its_arguments_on() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        ref: LoopActorRef[Recorder] = Recorder.start(log=log)
        assert isinstance(ref, pykka.ActorRef)
        assert ref.actor_class is Recorder
        assert ref.actor_urn.startswith("urn:uuid:")
        assert ref.loop is asyncio.get_running_loop()
        assert str(ref) == f"Recorder ({ref.actor_urn})"

    run(scenario())


def test_starting_without_a_loop_is_refused() -> None:
    with pytest.raises(NoEventLoopError, match="start Recorder on one, or pass"):
        Recorder.start()


def test_starting_on_a_closed_loop_is_refused() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    with pytest.raises(NoEventLoopError, match="closed"):
        Recorder.start(loop=loop)


def test_the_loop_is_not_known_in_init() -> None:
    class Early(LoopActor):
        def __init__(self) -> None:
            super().__init__()
            _ = self.loop

    async def scenario() -> None:
        with pytest.raises(NoEventLoopError, match="use on_start"):
            Early.start()
        assert LoopActorRegistry.get_by_class(Early) == []

    run(scenario())


def test_forgetting_to_call_the_base_init_is_reported() -> None:
    class Forgetful(LoopActor):
        def __init__(self) -> None:
            pass

    async def scenario() -> None:
        with pytest.raises(AssertionError, match="super"):
            Forgetful.start()

    run(scenario())


def test_what_is_told_in_init_is_handled_after_on_start() -> None:
    class Eager(Recorder):
        def __init__(self) -> None:
            super().__init__()
            self.actor_ref.tell("from init")

    async def scenario() -> None:
        assert await Eager.start().ask("asked", block=False) == ["start", "from init", "asked"]

    run(scenario())


def test_telling_never_runs_the_handler_at_once() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        ref = Recorder.start(log)

        def tell_itself(actor: Any) -> None:
            actor.actor_ref.tell("inner")
            log.append("outer")

        await ref.ask(tell_itself, block=False)
        assert await ref.ask("end", block=False) == ["start", "outer", "inner", "end"]

    run(scenario())


def test_ten_thousand_tells_between_two_actors_do_not_recurse() -> None:
    class Player(LoopActor):
        other: LoopActorRef[Any]

        def on_receive(self, message: int) -> None:
            if message == 0:
                finished.set()
            else:
                self.other.tell(message - 1)

    finished = asyncio.Event()

    async def scenario() -> None:
        first, second = Player.start(), Player.start()
        await first.ask(pykka.messages.ProxySetAttr(("other",), second), block=False)
        await second.ask(pykka.messages.ProxySetAttr(("other",), first), block=False)
        first.tell(10_000)
        await finished.wait()
        assert first.is_alive()

    run(scenario())


def test_none_is_a_message_like_any_other() -> None:
    async def scenario() -> None:
        ref = Recorder.start()
        ref.tell(None)
        assert await ref.ask("end", block=False) == ["start", None, "end"]

    run(scenario())


def test_an_actor_may_become_another_behaviour_between_two_messages() -> None:
    async def scenario() -> None:
        ref = Recorder.start()
        ref.tell(lambda actor: setattr(actor, "on_receive", lambda message: ("changed", message)))
        assert await ref.ask(1, block=False) == ("changed", 1)

    run(scenario())


def test_handlers_run_in_one_context_whoever_wakes_the_actor() -> None:
    from contextvars import ContextVar

    name: ContextVar[str] = ContextVar("name", default="none")

    async def scenario() -> None:
        name.set("starter")
        ref = Recorder.start()
        name.set("teller")
        assert await ref.ask(lambda _actor: name.get(), block=False) == "starter"
        assert await ref.ask(lambda _actor: name.get(), block=False) == "starter"

    run(scenario())


def test_a_failing_ask_raises_in_the_caller_and_the_actor_lives() -> None:
    async def scenario() -> None:
        ref = Recorder.start()
        with pytest.raises(ZeroDivisionError, match="one"):
            await ref.ask(fail(ZeroDivisionError("one")), block=False)
        assert await ref.ask("after", block=False) == ["start", "after"]

    run(scenario())


def test_a_cancelled_result_in_a_handler_does_not_cancel_the_caller() -> None:
    from actors.errors import ActorError

    async def scenario() -> None:
        ref = Recorder.start()
        with pytest.raises(ActorError, match="cancelled") as caught:
            await ref.ask(fail(asyncio.CancelledError()), block=False)
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert ref.is_alive()

    run(scenario())


def test_blocking_calls_on_the_loop_are_refused_and_send_nothing() -> None:
    async def scenario() -> None:
        log: list[Any] = []
        ref = Recorder.start(log)
        with pytest.raises(BlockingCallOnLoopError, match="nothing was sent"):
            ref.ask("blocking")
        with pytest.raises(BlockingCallOnLoopError, match="nothing was sent"):
            ref.stop()
        future = ref.ask("awaited", block=False)
        with pytest.raises(BlockingCallOnLoopError, match="await the future"):
            future.get(timeout=1)
        assert await future == ["start", "awaited"]
        assert future.get() == ["start", "awaited"]
        assert ref.is_alive()

    run(scenario())


def test_an_unhandled_message_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        ref = LoopActor.start()
        ref.tell("what is this")
        assert await ref.ask("and this", block=False) is None

    run(scenario())
    assert "what is this" in caplog.text


def test_a_coroutine_handler_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(AsyncHandlerError, match=r"Wrong\.on_receive is a coroutine"):

        class Wrong(LoopActor):
            async def on_receive(self, message: Any) -> None:
                pass


def test_an_impossible_limit_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(ValueError, match="at least 1"):

        class Wrong(LoopActor):
            max_inbox = 0


def test_a_coroutine_returned_from_a_handler_is_closed_and_a_failure() -> None:
    made: list[Coroutine[Any, Any, None]] = []

    async def work() -> None:
        raise AssertionError("must never run")

    def sneaky(_actor: LoopActor) -> Any:
        made.append(work())
        return made[-1]

    async def scenario() -> None:
        ref = Recorder.start()
        with pytest.raises(AsyncHandlerError, match="plain function"):
            await ref.ask(sneaky, block=False)
        ref.tell(sneaky)
        assert isinstance(await ref.stopped(), AsyncHandlerError)

    run(scenario())
    assert [coroutine.cr_frame for coroutine in made] == [None, None]  # type: ignore[attr-defined]  # a real coroutine


def test_a_proxy_calls_reads_defers_and_stops() -> None:
    class Account(LoopActor):
        def __init__(self) -> None:
            super().__init__()
            self.balance = 10

        def add(self, amount: int) -> int:
            self.balance += amount
            return self.balance

    async def scenario() -> None:
        ref = Account.start()
        proxy = ref.proxy()
        assert await proxy.add(5) == 15
        proxy.add.defer(5)
        assert await proxy.balance == 20
        with pytest.raises(AttributeError, match="no attribute"):
            _ = proxy.nothing
        with pytest.raises(BlockingCallOnLoopError):
            proxy.balance = 1
        await proxy.stop()
        assert await ref.stopped() is None

    run(scenario())
