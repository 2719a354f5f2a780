"""Source.queue and Sink.queue against plain models: offers, pulls, ends and cancellations in any order."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streams import (
    Keep,
    Materialization,
    OverflowStrategy,
    QueueOfferResult,
    Sink,
    SinkQueue,
    Source,
    SourceQueue,
    StreamClosedError,
)
from streams.testkit import TestPublisher, TestSource, TestSubscriber, VirtualTimeLoop, settle
from tests.examples_tried import tried

MACHINE = settings(deadline=None, max_examples=tried(60), stateful_step_count=30)


class OnALoop(RuleBasedStateMachine):
    """A machine whose rules run on an event loop, until nothing is ready."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()

    def run(self, step: Any, *arguments: Any) -> Any:
        async def within() -> Any:
            result = step(*arguments)
            if asyncio.iscoroutine(result):
                result = await result
            await settle()
            return result

        return self.loop.run_until_complete(within())

    def start(self, coroutine: Any) -> asyncio.Task[Any]:
        async def within() -> asyncio.Task[Any]:
            task = asyncio.ensure_future(coroutine)
            await settle()
            return task

        return self.loop.run_until_complete(within())

    def teardown(self) -> None:
        self.loop.run_until_complete(self.end())
        self.loop.close()

    async def end(self) -> None:
        """Leaves nothing behind."""


class SourceQueueModel(OnALoop):
    """What was taken comes out, in order, as demand allows; nothing is taken after the end; nobody waits for ever."""

    @initialize(bound=st.integers(1, 3))
    def begin(self, bound: int) -> None:
        self.bound = bound
        self.next = 0
        self.waiting: deque[int] = deque()
        self.offering: dict[int, asyncio.Task[Any]] = {}
        self.demand = 0
        self.expected: list[Any] = []
        self.closed = self.over = False
        self.probe = TestSubscriber[int]()
        self.run(self._begin)

    async def _begin(self) -> None:
        self.m = Materialization(asyncio.get_running_loop())
        publisher, self.queue = Source.queue(self.bound).create(self.m)
        assert isinstance(self.queue, SourceQueue)
        publisher.subscribe(self.probe)
        self.watching = asyncio.ensure_future(self.queue.watch_completion())

    def flow(self) -> None:
        """What the queue must have done by now, by the model."""
        while True:
            if self.demand and self.waiting:
                self.demand -= 1
                self.expected.append(self.waiting.popleft())
            elif self.offering and len(self.waiting) < self.bound:
                n = next(iter(self.offering))
                assert self.offering.pop(n).result() is QueueOfferResult.ENQUEUED
                self.waiting.append(n)
            else:
                break
        if self.closed and not self.over and not self.waiting and not self.offering:
            self.over = True
            self.expected.append("complete")

    @rule()
    def offer(self) -> None:
        n, self.next = self.next, self.next + 1
        if self.closed:
            with pytest.raises(StreamClosedError):
                self.run(self.queue.offer, n)
            return
        room = len(self.waiting) < self.bound and not self.offering
        assert bool(self.run(self.queue.offer, n)) is room
        if room:
            self.waiting.append(n)
        self.flow()

    @rule()
    def offer_wait(self) -> None:
        n, self.next = self.next, self.next + 1
        task = self.start(self.queue.offer_wait(n))
        if self.closed:
            assert isinstance(task.exception(), StreamClosedError)
            return
        self.offering[n] = task
        self.flow()

    @precondition(lambda self: self.offering)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        n = data.draw(st.sampled_from(sorted(self.offering)))
        self.run(self.offering.pop(n).cancel)
        self.flow()

    @rule(n=st.integers(1, 3))
    def request(self, n: int) -> None:
        self.run(self.probe.request, n)
        if not self.over:
            self.demand += n
        self.flow()

    @rule()
    def complete(self) -> None:
        self.run(self.queue.complete)
        self.closed = True
        self.flow()

    def _ends_at_once(self, *signals: Any) -> None:
        for task in self.offering.values():
            assert isinstance(task.exception(), StreamClosedError)
        self.offering.clear()
        self.waiting.clear()
        self.expected += signals
        self.closed = self.over = True

    @rule()
    def fail(self) -> None:
        self.run(self.queue.fail, OSError("broken"))
        if not self.closed:
            self._ends_at_once("OSError")

    @rule()
    def demand_nonsense(self) -> None:
        self.run(self.probe.request, 0)
        if not self.over:
            self._ends_at_once("ValueError")

    @rule()
    def cancel(self) -> None:
        self.run(self.probe.cancel)
        if not self.over:
            self._ends_at_once()

    @invariant()
    def what_came_is_what_was_expected(self) -> None:
        if not hasattr(self, "queue"):
            return
        came = [
            getattr(signal, "element", None) if hasattr(signal, "element") else _name(signal)
            for signal in self.probe._signals
        ]
        assert came == self.expected
        assert self.probe.violations == []
        assert len(self.queue) == len(self.waiting)
        assert not any(task.done() for task in self.offering.values())
        assert self.watching.done() is self.over

    async def end(self) -> None:
        if hasattr(self, "queue"):
            await self.m._settle()
            await asyncio.wait([self.watching, *self.offering.values()])
            for task in self.offering.values():
                assert isinstance(task.exception(), StreamClosedError)
            _ = self.watching.exception()


def _name(signal: Any) -> str:
    return type(signal.error).__name__ if hasattr(signal, "error") else "complete"


class SinkQueueModel(OnALoop):
    """Every element sent is pulled once, in order, by those who pulled first; no more is asked for than there is room for."""

    @initialize(prefetch=st.integers(1, 4))
    def begin(self, prefetch: int) -> None:
        self.prefetch = prefetch
        self.sent = self.pulled = 0
        self.waiting: deque[int] = deque()
        self.pulls: deque[asyncio.Task[Any]] = deque()
        self.ended: Any = None
        self.run(self._begin)

    async def _begin(self) -> None:
        source = TestSource[int]()
        self.probe: TestPublisher[int] = source.probe
        self.running = source.to(Sink.queue(self.prefetch), Keep.right).run()
        self.queue: SinkQueue[int] = self.running.value

    def flow(self) -> None:
        while self.pulls and (self.waiting or self.ended):
            task = self.pulls.popleft()
            if self.waiting:
                assert task.result() == self.waiting.popleft()
                self.pulled += 1
            elif isinstance(self.ended, type):
                assert isinstance(task.exception(), self.ended)
            else:
                assert task.result() is None

    @rule()
    def pull(self) -> None:
        self.pulls.append(self.start(self.queue.pull()))
        self.flow()

    @precondition(lambda self: self.pulls)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(list(self.pulls)))
        self.run(task.cancel)
        self.pulls.remove(task)
        self.flow()

    @precondition(lambda self: not self.ended and self.probe.demand.outstanding)
    @rule(data=st.data(), give_up=st.booleans())
    def send(self, data: st.DataObject, give_up: bool) -> None:
        count = data.draw(st.integers(1, self.probe.demand.outstanding))
        elements = range(self.sent, self.sent + count)
        self.sent += count
        self.waiting.extend(elements)
        cancelled = self.pulls.popleft() if give_up and self.pulls else None

        def step() -> None:
            self.probe.send_next(*elements)
            if cancelled is not None:
                cancelled.cancel()

        self.run(step)
        self.flow()

    @precondition(lambda self: not self.ended)
    @rule(how=st.sampled_from(["complete", "fail", "cancel", "run"]))
    def finish(self, how: str) -> None:
        if how == "complete":
            self.run(self.probe.send_complete)
            self.ended = "complete"
        elif how == "fail":
            self.run(self.probe.send_error, OSError("broken"))
            self.ended = OSError
        elif how == "cancel":
            self.run(self.queue.cancel)
            self.waiting.clear()
            self.ended = "cancelled"
        else:
            self.run(self.running.cancel)
            self.ended = StreamClosedError
        self.flow()

    @invariant()
    def bounds_hold_and_nobody_waits_beside_an_element(self) -> None:
        if not hasattr(self, "queue"):
            return
        assert len(self.queue) == len(self.waiting) <= self.prefetch
        assert not any(task.done() for task in self.pulls)
        assert not (self.pulls and self.waiting)
        assert self.probe.demand.requested <= self.pulled + self.prefetch
        assert self.ended or self.probe.demand.requested > self.pulled

    async def end(self) -> None:
        if hasattr(self, "queue"):
            self.running.abandon()
            self.queue.cancel()
            if self.pulls:
                await asyncio.wait(self.pulls)
                _ = [task.exception() for task in self.pulls]
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self.running


SourceQueueModel.TestCase.settings = MACHINE
SinkQueueModel.TestCase.settings = MACHINE


class TestSourceQueueModel(SourceQueueModel.TestCase):  # type: ignore[name-defined, misc]  # made by hypothesis
    """Offers, demand, ends and cancellations in any order."""


class TestSinkQueueModel(SinkQueueModel.TestCase):  # type: ignore[name-defined, misc]  # as above
    """Pulls, elements, ends and cancellations in any order."""


def test_every_overflow_strategy_keeps_the_bound_of_a_source_queue() -> None:
    async def longest(overflow: OverflowStrategy) -> int:
        m = Materialization(asyncio.get_running_loop())
        _, queue = Source.queue(3, overflow).create(m)
        lengths = []
        for n in range(20):
            queue.offer(n)
            lengths.append(len(queue))
        await m._settle()
        return max(lengths)

    strategies = [overflow for overflow in OverflowStrategy if overflow is not OverflowStrategy.FAIL]
    assert [asyncio.run(longest(overflow)) for overflow in strategies] == [3] * len(strategies)
