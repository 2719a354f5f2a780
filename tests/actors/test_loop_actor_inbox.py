"""The inbox: its bound, its order, one wake-up a drain, and a busy actor that leaves the others their turn."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Any

import pykka
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.errors import InboxOverflowError
from actors.runtime._loop_inbox import LoopInbox
from actors.runtime._pykka import Envelope
from actors.runtime.loop_actor import DRAIN_BUDGET, LoopActor
from actors.runtime.loop_future import LoopFuture
from tests.actors.loop_actors import run


class Keeper(LoopActor):
    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Any] = []

    def on_receive(self, message: Any) -> list[Any]:
        self.kept.append(message)
        return self.kept


class Small(Keeper):
    max_inbox = 3


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts what is scheduled, from its own thread and from others."""

    def __init__(self) -> None:
        super().__init__()
        self.soon = 0
        self.threadsafe = 0

    def call_soon(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # passes all on
        self.soon += 1
        return super().call_soon(*args, **kwargs)

    def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # passes all on
        self.threadsafe += 1
        return super().call_soon_threadsafe(*args, **kwargs)


def test_a_full_inbox_refuses_the_sender_and_says_what_to_do() -> None:
    async def scenario() -> None:
        ref = Small.start()
        for number in range(3):
            ref.tell(number)
        with pytest.raises(InboxOverflowError, match=r"Small \(urn.*is full at 3 messages.*max_inbox") as caught:
            ref.tell(3)
        assert caught.value.bound == 3
        assert caught.value.actor == str(ref)
        with pytest.raises(InboxOverflowError):
            ref.ask(3, block=False)
        assert len(ref.actor_inbox.queue) == 3

    run(scenario())


def test_a_full_inbox_takes_messages_again_after_a_drain() -> None:
    async def scenario() -> None:
        ref = Small.start()
        for number in range(2):
            ref.tell(number)
        await ref.ask(2, block=False)
        for number in (3, 4):
            ref.tell(number)
        assert await ref.ask(5, block=False) == [0, 1, 2, 3, 4, 5]

    run(scenario())


def test_a_full_inbox_can_be_stopped() -> None:
    async def scenario() -> None:
        ref = Small.start()
        asks = [ref.ask(number, block=False) for number in range(3)]
        assert await ref.stop(block=False) is True
        assert await asks[-1] == [0, 1, 2]

    run(scenario())


def test_many_tells_cost_one_wake_up() -> None:
    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, CountingLoop)

        async def scenario() -> None:
            ref = Keeper.start()
            await ref.ask("started", block=False)
            before = loop.soon, loop.threadsafe
            for number in range(100):
                ref.tell(number)
            assert (loop.soon - before[0], loop.threadsafe - before[1]) == (1, 0)
            await ref.stop(block=False)

        runner.run(scenario())


def test_many_tells_from_a_thread_cost_one_thread_safe_wake_up() -> None:
    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, CountingLoop)

        async def scenario() -> None:
            ref = Keeper.start()
            await ref.ask("started", block=False)
            before = loop.soon, loop.threadsafe

            def tell_all() -> None:
                for number in range(100):
                    ref.tell(number)

            # The loop's thread waits here, so no drain can come between the tells.
            sender = threading.Thread(target=tell_all)
            sender.start()
            sender.join(timeout=30)
            assert loop.threadsafe - before[1] == 1
            assert len(await ref.ask("end", block=False)) == 102
            await ref.stop(block=False)

        runner.run(scenario())


def test_a_busy_actor_leaves_others_their_turn_after_its_budget() -> None:
    class Greedy(Keeper):
        def on_receive(self, message: Any) -> Any:
            self.actor_ref.tell(message)
            return super().on_receive(message)

    async def scenario() -> None:
        greedy, modest = Greedy.start(), Keeper.start()
        actor = greedy._actor_weakref()
        assert actor is not None
        kept = actor.kept
        del actor
        await modest.ask("started", block=False)
        assert kept == []
        greedy.tell("again")
        await modest.ask("my turn", block=False)
        # One drain before the modest actor's, and one more before the answer reaches this task.
        assert DRAIN_BUDGET <= len(kept) <= 2 * DRAIN_BUDGET
        await greedy.stop(block=False)

    run(scenario())


def test_one_drain_handles_no_more_than_the_budget() -> None:
    class Counted(Keeper):
        drain_budget = 10

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, CountingLoop)

        async def scenario() -> None:
            ref = Counted.start()
            await ref.ask("started", block=False)
            for number in range(95):
                ref.tell(number)
            handled: list[int] = []
            turn_over = asyncio.Event()
            actor = ref._actor_weakref()
            assert actor is not None
            kept = actor.kept
            del actor

            def look() -> None:
                handled.append(len(kept) - 1)
                if ref.actor_inbox.empty():
                    turn_over.set()
                else:
                    loop.call_soon(look)

            loop.call_soon(look)
            await turn_over.wait()
            assert handled == [10, 20, 30, 40, 50, 60, 70, 80, 90, 95]
            await ref.stop(block=False)

        runner.run(scenario())


@settings(max_examples=25, deadline=None)
@given(
    from_threads=st.lists(st.integers(min_value=0, max_value=300), min_size=1, max_size=3),
    from_loop=st.lists(st.integers(min_value=1, max_value=100), min_size=1, max_size=5),
    budget=st.sampled_from([1, 2, 7, DRAIN_BUDGET]),
)
def test_messages_from_one_sender_are_handled_once_each_in_the_order_sent(
    from_threads: list[int], from_loop: list[int], budget: int
) -> None:
    class Budgeted(Keeper):
        drain_budget = budget

    def expected() -> dict[str, list[int]]:
        return {f"thread {index}": list(range(count)) for index, count in enumerate(from_threads)} | {
            "loop": list(range(sum(from_loop)))
        }

    async def scenario() -> None:
        ref = Budgeted.start()
        barrier = threading.Barrier(len(from_threads) + 1)

        def send(sender: str, count: int) -> None:
            barrier.wait(timeout=30)
            for number in range(count):
                ref.tell((sender, number))

        threads = [
            threading.Thread(target=send, args=(f"thread {index}", count)) for index, count in enumerate(from_threads)
        ]
        for thread in threads:
            thread.start()
        barrier.wait(timeout=30)
        number = 0
        for burst in from_loop:
            for _ in range(burst):
                ref.tell(("loop", number))
                number += 1
            await ref.ask(("mark", 0), block=False)
        for thread in threads:
            thread.join(timeout=30)
        received = await ref.ask(("mark", 0), block=False)
        by_sender: dict[str, list[int]] = {sender: [] for sender in expected()}
        for sender, value in received:
            if sender != "mark":
                by_sender[sender].append(value)
        assert by_sender == expected()

    run(scenario())


def test_a_message_appended_just_before_the_drain_says_idle_is_not_forgotten() -> None:
    """A sender that looked at ``idle`` too early does not wake the actor, so the drain must look once more."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        drained: asyncio.Queue[list[Any]] = asyncio.Queue()
        inbox = LoopInbox("an actor", 10)
        token = inbox._token

        def drain() -> None:
            drained.put_nowait(list(inbox.queue))
            inbox.queue.clear()
            inbox.reschedule()

        class TokenWithARace:
            acquire = staticmethod(token.acquire)

            @staticmethod
            def release() -> None:
                if drained.qsize() == 1:
                    inbox.queue.append("raced")
                token.release()

        inbox._token = TokenWithARace()  # type: ignore[assignment]  # the lock, with a sender in between
        inbox.queue.append("first")
        inbox.open(loop, drain)
        # One turn for the first drain, one for the second.
        await loop.run_in_executor(None, lambda: None)
        assert [await drained.get(), await drained.get()] == [["first"], ["raced"]]
        assert inbox.idle
        inbox.close()

    run(scenario())


def test_an_ask_appended_just_after_the_end_is_answered() -> None:
    """The sender saw an open inbox; the actor then closed it and failed what it found, which was not this ask."""

    async def scenario() -> None:
        inbox = LoopInbox("an actor", 10)

        class QueueWithARace(deque[Any]):
            def append(self, item: Any) -> None:
                inbox.close()
                inbox.fail_undelivered()
                super().append(item)

        inbox.queue = QueueWithARace()
        future: LoopFuture[Any] = LoopFuture()
        inbox.offer_ask(Envelope("late", reply_to=future))
        with pytest.raises(pykka.ActorDeadError, match="stopped before handling"):
            await future

    run(scenario())


def test_the_inbox_speaks_pykkas_protocol() -> None:
    async def scenario() -> None:
        ref = Keeper.start()
        inbox = ref.actor_inbox
        future = ref.actor_class._create_future()
        inbox.put(Envelope("told"))
        inbox.put(Envelope("asked", reply_to=future))
        assert not inbox.empty()
        assert await future == ["told", "asked"]
        inbox.put(Envelope("taken"))
        assert inbox.get().message == "taken"
        assert inbox.empty()
        with pytest.raises(IndexError):
            inbox.get()

    run(scenario())
