"""Loop actors and other threads: starting, asking, stopping from outside, threading actors on either end, dead loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pykka
import pytest

from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_future import LoopFuture, ask
from actors.runtime.loop_ref import LoopActorRef
from actors.runtime.loop_registry import LoopActorRegistry

pytestmark = pytest.mark.event_loop

DEADLINE = 30.0


class Echo(LoopActor):
    def on_receive(self, message: Any) -> Any:
        if callable(message):
            return message(self)
        return message, threading.get_ident()


class ThreadEcho(pykka.ThreadingActor):
    use_daemon_thread = True

    def on_receive(self, message: Any) -> Any:
        return message(self) if callable(message) else (message, threading.get_ident())


@pytest.fixture
def loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that runs in a thread of its own until the end of the test; its actors are stopped with it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
        for ref in LoopActorRegistry.get_all(loop):
            ref.stop(timeout=DEADLINE)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(timeout=DEADLINE)
        loop.close()


def closed_loop_with(*actor_classes: type[LoopActor]) -> list[LoopActorRef[Any]]:
    """Actors that were started on a loop which was then closed under them."""
    loop = asyncio.new_event_loop()

    async def start() -> list[LoopActorRef[Any]]:
        refs = [actor_class.start() for actor_class in actor_classes]
        for ref in refs:
            await ref.ask("started", block=False)
        return refs

    refs = loop.run_until_complete(start())
    loop.close()
    return refs


def test_an_actor_started_from_another_thread_handles_on_the_loops(loop_in_thread: asyncio.AbstractEventLoop) -> None:
    ref = Echo.start(loop=loop_in_thread)
    message, thread = ref.ask("hello", timeout=DEADLINE)
    assert message == "hello"
    assert thread != threading.get_ident()
    assert ref.ask("again", block=False).get(timeout=DEADLINE) == ("again", thread)


def test_stopping_from_another_thread_blocks_until_stopped(loop_in_thread: asyncio.AbstractEventLoop) -> None:
    ref = Echo.start(loop=loop_in_thread)
    assert ref.stop(timeout=DEADLINE) is True
    assert not ref.is_alive()
    assert ref.stop(timeout=DEADLINE) is False
    with pytest.raises(pykka.ActorDeadError):
        ref.ask("late", timeout=DEADLINE)


def test_a_blocking_ask_gives_up_after_its_timeout(loop_in_thread: asyncio.AbstractEventLoop) -> None:
    release = threading.Event()
    ref = Echo.start(loop=loop_in_thread)
    ref.tell(lambda _actor: release.wait(DEADLINE))
    with pytest.raises(pykka.Timeout):
        ref.ask("waits", timeout=0.001)
    with pytest.raises(pykka.Timeout):
        ref.stop(timeout=0.001)
    release.set()
    assert ref.stopped().get(timeout=DEADLINE) is None
    assert not ref.is_alive()


def test_a_proxy_works_from_another_thread(loop_in_thread: asyncio.AbstractEventLoop) -> None:
    proxy = Echo.start(loop=loop_in_thread).proxy()
    proxy.colour = "red"
    assert proxy.colour.get(timeout=DEADLINE) == "red"


def test_a_threading_actor_asks_a_loop_actor(loop_in_thread: asyncio.AbstractEventLoop) -> None:
    echo = Echo.start(loop=loop_in_thread)
    asker = ThreadEcho.start()
    try:
        answer, thread = asker.ask(lambda _actor: echo.ask("across", timeout=DEADLINE), timeout=DEADLINE)
    finally:
        asker.stop(timeout=DEADLINE)
    assert answer == "across"
    assert thread not in {threading.get_ident(), 0}


def test_a_task_awaits_a_threading_actors_answer_without_blocking_its_loop() -> None:
    release = threading.Event()

    async def scenario() -> None:
        ref = ThreadEcho.start()
        answer = ask(ref, lambda _actor: release.wait(DEADLINE))
        # Were the loop blocked by the await, nothing would release the actor.
        asyncio.get_running_loop().call_soon(release.set)
        async with asyncio.timeout(DEADLINE):
            assert await answer is True
            stopped = ref.stop(block=False)
            assert await asyncio.get_running_loop().run_in_executor(None, lambda: stopped.get(timeout=DEADLINE))
            with pytest.raises(pykka.ActorDeadError):
                await ask(ref, "late")

    asyncio.run(scenario())


def test_a_failing_threading_actor_answers_the_awaiting_task_with_its_exception() -> None:
    def fail(_actor: Any) -> None:
        raise LookupError("in the thread")

    async def scenario() -> None:
        ref = ThreadEcho.start()
        async with asyncio.timeout(DEADLINE):
            with pytest.raises(LookupError, match="in the thread"):
                await ask(ref, fail)
        ref.tell(lambda actor: actor.stop())
        await asyncio.get_running_loop().run_in_executor(None, ref.actor_stopped.wait, DEADLINE)

    asyncio.run(scenario())


def test_a_loop_actor_gets_a_threading_actors_answer_as_a_message() -> None:
    class Asker(LoopActor):
        def __init__(self, worker: pykka.ActorRef[Any]) -> None:
            super().__init__()
            self.worker = worker

        def on_receive(self, message: Any) -> None:
            if message == "begin":
                me = self.actor_ref
                self.worker.tell(lambda _worker: me.tell(("done", threading.get_ident())))
            else:
                answers.put_nowait(message)

    answers: asyncio.Queue[Any] = asyncio.Queue()

    async def scenario() -> None:
        worker = ThreadEcho.start()
        Asker.start(worker).tell("begin")
        async with asyncio.timeout(DEADLINE):
            done, thread = await answers.get()
            assert done == "done"
            assert thread != threading.get_ident()
            await asyncio.get_running_loop().run_in_executor(None, lambda: worker.stop(timeout=DEADLINE))
            assert await LoopActorRegistry.shutdown() == 1

    asyncio.run(scenario())


def test_every_ask_of_a_stopping_actor_is_answered(loop_in_thread: asyncio.AbstractEventLoop) -> None:
    for _ in range(20):
        ref = Echo.start(loop=loop_in_thread)
        barrier = threading.Barrier(3)
        futures: list[list[Any]] = [[], []]

        def send(mine: list[Any], ref: LoopActorRef[Any] = ref, barrier: threading.Barrier = barrier) -> None:
            barrier.wait(DEADLINE)
            mine.extend(ref.ask(number, block=False) for number in range(100))

        threads = [threading.Thread(target=send, args=(mine,)) for mine in futures]
        for thread in threads:
            thread.start()
        barrier.wait(DEADLINE)
        ref.stop_nowait()
        for thread in threads:
            thread.join(DEADLINE)
        for mine in futures:
            assert len(mine) == 100
            handled = [_handled(future, number) for number, future in enumerate(mine)]
            # Once one was refused so was every later one of the same sender.
            assert handled == sorted(handled, reverse=True)


def _handled(future: LoopFuture[Any], number: int) -> bool:
    try:
        assert future.get(timeout=DEADLINE)[0] == number
    except pykka.ActorDeadError:
        return False
    return True


def test_an_idle_actor_whose_loop_was_closed_is_dead() -> None:
    [ref] = closed_loop_with(Echo)
    assert not ref.is_alive()
    with pytest.raises(pykka.ActorDeadError):
        ref.tell("late")
    assert LoopActorRegistry.get_by_urn(ref.actor_urn) is None
    assert ref.stop(timeout=DEADLINE) is False
    assert isinstance(ref.stopped().get(timeout=DEADLINE), pykka.ActorDeadError)
    with pytest.raises(pykka.ActorDeadError):
        ref.watch(lambda _failure: None)


def test_messages_that_a_closed_loop_left_unhandled_fail() -> None:
    loop = asyncio.new_event_loop()
    ref = Echo.start(loop=loop)
    asked = ref.ask("never run", block=False)
    loop.close()
    with pytest.raises(pykka.ActorDeadError):
        ref.tell("late")
    for _ in range(2):
        late = ref.ask("late", block=False)
        with pytest.raises(pykka.ActorDeadError):
            late.get(timeout=DEADLINE)
    with pytest.raises(pykka.ActorDeadError, match="stopped before handling"):
        asked.get(timeout=DEADLINE)
    assert ref.actor_inbox.empty()


def test_an_ask_that_finds_its_loop_closed_fails_its_future() -> None:
    loop = asyncio.new_event_loop()
    ref = Echo.start(loop=loop)
    loop.close()
    late = ref.ask("late", block=False)
    with pytest.raises(pykka.ActorDeadError):
        late.get(timeout=DEADLINE)
    assert ref.actor_inbox.empty()


def test_a_new_loop_clears_the_registry_of_actors_lost_with_a_closed_one() -> None:
    lost = closed_loop_with(Echo, Echo)
    assert LoopActorRegistry.get_by_class(Echo) == []

    async def scenario() -> None:
        assert [ref.actor_inbox.closed for ref in lost] == [False, False]
        ref = Echo.start()
        assert [ref.actor_inbox.closed for ref in lost] == [True, True]
        assert [ref._actor_weakref() for ref in lost] == [None, None]
        assert LoopActorRegistry.get_all() == [ref]
        await LoopActorRegistry.shutdown()

    asyncio.run(scenario())


def test_an_actor_on_another_loop_is_told_when_a_watched_ones_loop_was_closed(
    loop_in_thread: asyncio.AbstractEventLoop,
) -> None:
    [lost] = closed_loop_with(Echo)
    told = threading.Event()
    failures: list[BaseException | None] = []

    def callback(failure: BaseException | None) -> None:
        failures.append(failure)
        told.set()

    watcher = Echo.start(loop=loop_in_thread)
    # Starting on a new loop has found the lost actor already, or the tell does; either way the watcher hears of it.
    watcher.ask(lambda actor: actor.watch(lost, callback) and None, timeout=DEADLINE)
    with pytest.raises(pykka.ActorDeadError):
        lost.tell("notice")
    assert told.wait(DEADLINE)
    assert len(failures) == 1
    assert isinstance(failures[0], pykka.ActorDeadError)
