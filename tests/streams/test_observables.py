"""reactivex observables as sources and sinks: bounded, on the loop's thread, disposed of."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import reactivex
from reactivex import operators
from reactivex.disposable import Disposable
from reactivex.scheduler import NewThreadScheduler
from reactivex.subject import Subject

from streams import BufferOverflowError, Keep, OverflowStrategy, Sink, Source, StreamClosedError
from streams.testkit import TestSink, TestSource, run_in_virtual_time, settle

FAIL = OverflowStrategy.FAIL
DEADLINE = 20.0


async def within(awaitable: Any) -> Any:
    async with asyncio.timeout(DEADLINE):
        return await awaitable


async def same(element: int) -> int:
    return element


def in_thread(call: Callable[[], object]) -> None:
    """Calls it in another thread and waits for that."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(DEADLINE)
    assert not thread.is_alive()


class Watched:
    """An observable that is pushed to by hand and counts its subscriptions and disposals."""

    def __init__(self) -> None:
        self.subject: Subject[Any] = Subject()
        self.subscribed = self.disposed = 0
        self.observable: Any = reactivex.create(self._subscribe)

    def _subscribe(self, observer: Any, scheduler: Any = None) -> Any:
        self.subscribed += 1
        inner = self.subject.subscribe(observer)

        def dispose() -> None:
            self.disposed += 1
            inner.dispose()

        return Disposable(dispose)


# Sources


def test_an_observable_is_a_source_for_any_number_of_runs() -> None:
    source = Source.from_observable(reactivex.of(1, 2, 3), 10, FAIL)
    for _ in range(2):
        assert source.map(lambda n: n * 2).to(Sink.collect()).run_blocking() == [2, 4, 6]
    assert Source.from_observable(reactivex.empty(), 1, FAIL).to(Sink.collect()).run_blocking() == []


@pytest.mark.parametrize(
    ("overflow", "kept"),
    [
        (OverflowStrategy.DROP_HEAD, [1, 4, 5]),
        (OverflowStrategy.DROP_TAIL, [1, 2, 5]),
        (OverflowStrategy.DROP_NEW, [1, 2, 3]),
        (OverflowStrategy.DROP_BUFFER, [1, 4, 5]),
    ],
)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["on the loop", "in a thread"])
def test_what_nobody_asks_for_waits_up_to_the_size_and_then_the_strategy_decides(
    overflow: OverflowStrategy, kept: list[int], elsewhere: bool
) -> None:
    async def main() -> None:
        watched, sink = Watched(), TestSink[int]()
        running = Source.from_observable(watched.observable, 2, overflow).to(sink).run()
        sink.request(1)
        await settle()
        watched.subject.on_next(1)

        def push() -> None:
            for n in (2, 3, 4, 5):
                watched.subject.on_next(n)
            watched.subject.on_completed()

        in_thread(push) if elsewhere else push()
        sink.request(9)
        await sink.expect_next(*kept)
        await sink.expect_complete()
        await running

    run_in_virtual_time(main())


@pytest.mark.parametrize("elsewhere", [False, True], ids=["on the loop", "in a thread"])
def test_with_the_strategy_fail_one_element_too_many_fails_the_stream_and_disposes(elsewhere: bool) -> None:
    async def main() -> None:
        watched, sink = Watched(), TestSink[int]()
        running = Source.from_observable(watched.observable, 2, FAIL).to(sink).run()
        await settle()

        def push() -> None:
            for n in range(5):
                watched.subject.on_next(n)

        in_thread(push) if elsewhere else push()
        await sink.expect_error(BufferOverflowError)
        assert watched.disposed == 1
        running.abandon()

    run_in_virtual_time(main())


def test_a_thread_that_runs_ahead_of_the_loop_is_held_to_the_size_whatever_downstream_asks_for() -> None:
    async def main() -> None:
        watched = Watched()
        running = Source.from_observable(watched.observable, 3, OverflowStrategy.DROP_HEAD).to(Sink.collect()).run()
        await settle()

        def push() -> None:
            for n in range(1000):
                watched.subject.on_next(n)
            watched.subject.on_completed()

        in_thread(push)  # the loop has no turn meanwhile
        assert await running == [997, 998, 999]

    run_in_virtual_time(main())


def test_what_threads_push_arrives_on_the_loop_s_thread_whole_and_in_order() -> None:
    async def main() -> None:
        seen: list[int] = []
        observable = reactivex.range(0, 2000).pipe(operators.subscribe_on(NewThreadScheduler()))
        source = Source.from_observable(observable, 2000, FAIL).map(lambda n: (n, threading.get_ident()))
        elements = await within(source.run_with(Sink.collect()))
        seen = [n for n, _ in elements]
        assert seen == list(range(2000))
        assert {thread for _, thread in elements} == {threading.get_ident()}

    asyncio.run(main())


def test_a_scheduler_may_be_given_that_the_observable_is_subscribed_with() -> None:
    used: list[Any] = []
    scheduler = NewThreadScheduler()

    def subscribe(observer: Any, given: Any = None) -> Any:
        used.append(given)
        observer.on_completed()
        return Disposable()

    source = Source.from_observable(reactivex.create(subscribe), 1, FAIL, scheduler=scheduler)
    assert source.to(Sink.collect()).run_blocking() == []
    assert used == [scheduler]


def test_an_observable_without_end_that_pushes_while_it_is_subscribed_to_is_stopped_by_a_cancellation() -> None:
    endless: Any = reactivex.repeat_value(1)
    source = Source.from_observable(endless, 10, FAIL)
    assert source.take(5).to(Sink.collect()).run_blocking() == [1] * 5
    with pytest.raises(BufferOverflowError):
        source.buffer(5).map_async(1, same).to(Sink.collect()).run_blocking()


def test_cancelling_disposes_and_subscribing_waits_for_the_run() -> None:
    async def main() -> None:
        watched = Watched()
        source = Source.from_observable(watched.observable, 1, FAIL)
        sink = TestSink[int]()
        running = source.to(sink).run()
        assert watched.subscribed == 0
        await settle()
        assert watched.subscribed == 1
        sink.cancel()
        sink.cancel()
        assert watched.disposed == 1
        watched.subject.on_next(1)
        in_thread(lambda: watched.subject.on_next(2))
        await running
        early = source.to(TestSink[int]()).run()
        early.cancel()  # before its turn to subscribe
        with pytest.raises(asyncio.CancelledError):
            await early
        assert watched.subscribed == 1

    run_in_virtual_time(main())


def test_the_observable_s_failure_comes_after_what_it_gave_and_none_is_refused() -> None:
    async def main() -> None:
        sink = TestSink[int]()
        broken = reactivex.concat(reactivex.of(1, 2), reactivex.throw(OSError("broken")))
        running = Source.from_observable(broken, 5, FAIL).to(sink).run()
        await settle()
        await sink.request_next(1, 2)
        await sink.expect_error(OSError)
        running.abandon()

    run_in_virtual_time(main())
    with pytest.raises(TypeError, match=r"2\.13"):
        Source.from_observable(reactivex.of(None), 1, FAIL).to(Sink.collect()).run_blocking()
    with pytest.raises(AttributeError, match="pipe"):
        Source.from_observable(3, 1, FAIL).to(Sink.collect()).run_blocking()  # type: ignore[arg-type]  # what is tested


def test_back_pressure_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="cannot be held back"):
        Source.from_observable(reactivex.of(1), 1, OverflowStrategy.BACKPRESSURE)
    with pytest.raises(ValueError, match="size"):
        Source.from_observable(reactivex.of(1), 0, FAIL)


def test_a_fault_in_disposing_is_reported_and_changes_nothing(loop_reports: list[str]) -> None:
    def fault() -> None:
        raise OSError("cannot let go")

    async def main() -> None:
        observable: Any = reactivex.create(lambda _observer, _scheduler=None: Disposable(fault))
        sink = TestSink[int]()
        running = Source.from_observable(observable, 1, FAIL).to(sink).run()
        await settle()
        sink.cancel()
        await running

    run_in_virtual_time(main())
    assert any("being disposed of" in report for report in loop_reports)


def test_a_cancelled_observable_source_lets_go_of_its_subscriber() -> None:
    async def main() -> None:
        watched, sink = Watched(), TestSink[int]()
        running = Source.from_observable(watched.observable, 1, FAIL).to(sink).run()
        await settle()
        subscription = await sink.expect_subscription()
        sink.cancel()
        await running
        gone = weakref.ref(sink)
        del sink, running
        gc.collect()
        assert gone() is None
        assert subscription is not None

    run_in_virtual_time(main())


# Sinks


class Recorded:
    """An observer that keeps what it is told, and on which threads."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.threads: set[int] = set()
        self.done = asyncio.Event()

    def on_next(self, element: Any) -> None:
        self.threads.add(threading.get_ident())
        self.told.append(element)

    def on_error(self, error: BaseException) -> None:
        self.told.append(type(error))
        self.done.set()

    def on_completed(self) -> None:
        self.told.append("completed")
        self.done.set()


def test_a_stream_is_an_observable_that_moves_once_it_has_an_observer() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.to(Sink.as_observable(), Keep.right).run()
        await source.probe.expect_no_request(100)
        seen = Recorded()
        running.value.pipe(operators.map(lambda n: n * 2)).subscribe(seen)
        assert await source.probe.expect_request() == 2**63 - 1
        source.probe.send_next(1, 2)
        source.probe.send_complete()
        assert seen.told == [2, 4, "completed"]
        assert await running is None

    run_in_virtual_time(main())


def test_disposing_cancels_the_stream() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.to(Sink.as_observable(), Keep.right).run()
        seen = Recorded()
        disposable = running.value.subscribe(seen)
        source.probe.send_next(1)
        disposable.dispose()
        disposable.dispose()
        assert source.probe.cancelled
        source.probe.subscriber.on_next(2)
        assert seen.told == [1]
        assert await running is None

    run_in_virtual_time(main())


def test_the_failure_reaches_the_observer_and_the_handle_and_a_second_observer_is_refused() -> None:
    async def main() -> None:
        running = Source.of(1, 0).map(lambda n: 1 // n).to(Sink.as_observable()).run()
        first, second = Recorded(), Recorded()
        running.value.subscribe(first)
        running.value.subscribe(second)
        with pytest.raises(ZeroDivisionError):
            await running
        assert first.told == [1, ZeroDivisionError]
        assert second.told == [StreamClosedError]

    run_in_virtual_time(main())


def test_an_observer_that_raises_fails_the_run() -> None:
    def burst(_element: int) -> None:
        raise OSError("broken")

    async def main() -> None:
        source = TestSource[int]()
        running = source.to(Sink.as_observable(), Keep.right).run()
        running.value.subscribe(burst)
        source.probe.send_next(1)
        assert source.probe.cancelled
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


def test_a_cancelled_run_fails_its_observer() -> None:
    async def main() -> None:
        running = Source.never().to(Sink.as_observable()).run()
        seen = Recorded()
        running.value.subscribe(seen)
        running.cancel()
        assert seen.told == [StreamClosedError]
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())


def test_observers_may_subscribe_and_dispose_on_other_threads_and_are_called_on_the_loop_s() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        running = Source.range(100).to(Sink.as_observable()).run()
        seen = Recorded()
        in_thread(lambda: running.value.subscribe(seen))
        await within(seen.done.wait())
        assert seen.told == [*range(100), "completed"]
        assert seen.threads == {threading.get_ident()}
        await within(running)
        stopped = asyncio.Event()
        endless = Source.repeat(1).watch_termination(lambda _: stopped.set()).to(Sink.as_observable()).run()
        disposables = [endless.value.subscribe(Recorded())]
        in_thread(disposables[0].dispose)
        await within(stopped.wait())
        await within(endless)
        assert loop.is_running()

    asyncio.run(main())


def test_an_observer_that_comes_when_the_loop_is_closed_is_told_so() -> None:
    async def main() -> Any:
        running = Source.never().to(Sink.as_observable()).run()
        running.abandon()
        return running.value

    observable = asyncio.run(main())
    seen = Recorded()
    in_thread(lambda: observable.subscribe(seen))
    assert seen.told == [StreamClosedError]


def test_the_rules_for_subscribers_hold_for_the_bridge_to_an_observer() -> None:
    async def main() -> None:
        source = TestSource[Any]()
        running = source.to(Sink.as_observable(), Keep.right).run()
        running.value.subscribe(Recorded())
        for signal in (source.probe.subscriber.on_next, source.probe.subscriber.on_error):
            with pytest.raises(TypeError, match=r"2\.13"):
                signal(None)  # type: ignore[arg-type]  # what is tested
        running.abandon()

    run_in_virtual_time(main())


def test_there_and_back_again() -> None:
    async def main() -> None:
        running = Source.range(50).to(Sink.as_observable()).run()
        back = Source.from_observable(running.value, 50, FAIL).to(Sink.collect()).run()
        assert await back == list(range(50))
        await running

    run_in_virtual_time(main())
