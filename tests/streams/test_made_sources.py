"""Sources made of a function, a state or an awaitable: unfold, cycle, range, future, lazy, never."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reactivex

from streams import Flow, Keep, OverflowStrategy, Sink, Source, Subscriber
from streams.testkit import TestPublisher, TestSink, elapse, run_in_virtual_time, settle


def taken(source: Source[Any], count: int = 1000) -> list[Any]:
    return source.take(count).to(Sink.collect()).run_blocking()


def fibonacci(state: tuple[int, int]) -> tuple[tuple[int, int], int] | None:
    a, b = state
    return ((b, a + b), a) if a < 50 else None


# unfold


def test_unfold_gives_the_elements_of_its_states_until_none() -> None:
    source = Source.unfold((0, 1), fibonacci)
    assert taken(source) == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]
    assert taken(source, 3) == [0, 1, 1]  # anew for each run


def test_unfold_async_gives_the_elements_of_its_states_until_none() -> None:
    async def later(state: tuple[int, int]) -> tuple[tuple[int, int], int] | None:
        await asyncio.sleep(0)
        return fibonacci(state)

    assert taken(Source.unfold_async((0, 1), later)) == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]


def test_unfold_calls_its_function_only_for_what_is_asked_for() -> None:
    async def main() -> None:
        calls: list[int] = []

        def step(state: int) -> tuple[int, int]:
            calls.append(state)
            return state + 1, state

        sink = TestSink[int]()
        running = Source.unfold(0, step).to(sink).run()
        await sink.expect_no_message()
        assert calls == []
        await sink.request_next(0, 1)
        assert calls == [0, 1]
        running.abandon()

    run_in_virtual_time(main())


def test_a_function_of_unfold_that_raises_fails_the_stream_and_is_named() -> None:
    def broken(state: int) -> tuple[int, int]:
        return state - 1, 1 // state

    async def broken_later(state: int) -> tuple[int, int]:
        return broken(state)

    for source, name in ((Source.unfold(2, broken), "unfold"), (Source.unfold_async(2, broken_later), "unfold_async")):
        with pytest.raises(ZeroDivisionError) as caught:
            source.to(Sink.collect()).run_blocking()
        assert caught.value.__notes__[0].startswith(f"in the source {name}(test_a_function_of_unfold")
    with pytest.raises(TypeError, match="unpack"):
        Source.unfold(0, lambda state: state).to(Sink.collect()).run_blocking()  # type: ignore[arg-type, return-value]


# cycle and range


def test_cycle_repeats_an_iterable_without_end() -> None:
    assert taken(Source.cycle([1, 2, 3]), 7) == [1, 2, 3, 1, 2, 3, 1]
    turns = iter([[1], [2, 3], []])
    source = Source.cycle(lambda: next(turns))
    with pytest.raises(ValueError, match="nothing to repeat"):
        taken(source)


def test_cycle_closes_the_generator_it_has_opened() -> None:
    closed: list[int] = []

    def numbers() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(1)

    assert taken(Source.cycle(numbers), 4) == [1, 2, 1, 2]
    assert closed == [1, 1]


def test_what_cannot_be_gone_through_twice_is_refused_by_cycle() -> None:
    with pytest.raises(TypeError, match="list_iterator can be gone through once only"):
        Source.cycle(iter([1]))
    with pytest.raises(TypeError, match="not int"):
        Source.cycle(3)  # type: ignore[arg-type]  # what is tested


def test_range_is_python_s() -> None:
    assert taken(Source.range(3)) == [0, 1, 2]
    assert taken(Source.range(5, 0, -2)) == [5, 3, 1]
    with pytest.raises(ValueError, match="zero"):
        Source.range(1, 2, 0)


# future


def test_future_gives_what_it_waits_for_and_completes_with_it() -> None:
    async def main() -> None:
        async def answer() -> int:
            await elapse(1)
            return 42

        sink = TestSink[int]()
        running = Source.future(answer).to(sink).run()
        await sink.expect_no_message(5)
        sink.request(1)
        await sink.expect_no_message(0.5)
        await sink.expect_next(42)
        await sink.expect_complete()
        await running
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = loop.create_future()
        done.set_result(1)
        in_thread: concurrent.futures.Future[int] = concurrent.futures.Future()
        in_thread.set_result(2)
        for awaited, result in ((done, 1), (in_thread, 2), (answer(), 42)):
            assert await Source.future(awaited).run_with(Sink.collect()) == [result]

    run_in_virtual_time(main())


def test_a_future_that_fails_or_gives_none_fails_the_stream() -> None:
    async def broken() -> int:
        raise OSError("broken")

    async def none() -> None:
        return None

    with pytest.raises(OSError, match="broken") as caught:
        taken(Source.future(broken))
    assert "in the source future" in caught.value.__notes__
    with pytest.raises(TypeError, match=r"2\.13"):
        taken(Source.future(none))
    with pytest.raises(TypeError, match="not int"):
        Source.future(3)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(TypeError, match="await"):
        taken(Source.future(lambda: 3))  # type: ignore[arg-type, return-value]  # what is tested


def test_cancelling_the_stream_cancels_its_own_coroutine_and_no_future_of_others() -> None:
    async def main() -> None:
        cancelled = asyncio.Event()

        async def own() -> int:
            try:
                return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]
            finally:
                cancelled.set()

        of_others = asyncio.get_running_loop().create_future()
        in_thread: concurrent.futures.Future[int] = concurrent.futures.Future()
        for awaited in (own, of_others, in_thread):
            running = Source.future(awaited).to(Sink.collect()).run()
            await settle()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert cancelled.is_set()
        assert not of_others.cancelled()
        assert not in_thread.cancelled()
        in_thread.set_exception(OSError("nobody waits"))
        of_others.set_result(1)
        await settle()
        gc.collect()

    run_in_virtual_time(main())


def test_a_coroutine_that_is_cancelled_before_it_has_begun_is_closed_and_a_function_not_even_called() -> None:
    async def never_begun() -> int:
        raise AssertionError("it has begun")

    def never_called() -> Any:
        raise AssertionError("it was called")

    async def main() -> None:
        coroutine = never_begun()
        for awaited in (coroutine, never_called):
            sink = TestSink[int]()
            running = Source.future(awaited).to(sink).run()
            sink.request(1)
            sink.cancel()
            await running
        assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
        with pytest.raises(RuntimeError, match="already awaited"):
            await Source.future(coroutine).run_with(Sink.ignore())

    run_in_virtual_time(main())


def test_a_future_that_is_cancelled_by_its_owner_fails_the_stream() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        running = Source.future(future).recover(lambda error: type(error).__name__).to(Sink.collect()).run()
        await settle()
        future.cancel()
        assert await running == ["CancelledError"]

    run_in_virtual_time(main())


# lazy and never


def test_lazy_makes_its_source_when_it_is_first_asked_for_something() -> None:
    async def main() -> None:
        made: list[int] = []

        def make() -> Source[int]:
            made.append(1)
            return Source.of(1, 2, 3)

        sink = TestSink[int]()
        running = Source.lazy(make).to(sink).run()
        await sink.expect_no_message()
        assert made == []
        sink.request(1)
        sink.request(1)
        await sink.expect_next(1, 2)
        await sink.request_next(3)
        await sink.expect_complete()
        await running
        assert made == [1]

    run_in_virtual_time(main())


def test_a_lazy_source_that_is_not_asked_is_not_made_and_one_that_is_cancelled_is_cancelled() -> None:
    async def main() -> None:
        ended: list[Any] = []
        source = Source.lazy(lambda: Source.never().watch_termination(ended.append))
        await source.run_with(Sink.cancelled())
        assert ended == []
        running = source.to(Sink.ignore()).run()
        await settle()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [type(end) for end in ended] == [asyncio.CancelledError]

    run_in_virtual_time(main())


def test_a_lazy_source_whose_subscription_comes_after_the_cancellation_cancels_that() -> None:
    class Late(TestPublisher[int]):
        def subscribe(self, subscriber: Subscriber[int]) -> None:
            self._subscriber = subscriber

    async def main() -> None:
        late, sink = Late(), TestSink[int]()
        running = Source.lazy(lambda: Source.from_publisher(lambda: late)).to(sink).run()
        sink.request(1)
        sink.cancel()
        late.subscriber.on_subscribe(late)
        assert late.cancelled
        await running

    run_in_virtual_time(main())


def test_a_function_of_lazy_that_raises_or_returns_no_source_fails_the_stream() -> None:
    def broken() -> Source[int]:
        raise OSError("broken")

    with pytest.raises(OSError, match="broken") as caught:
        taken(Source.lazy(broken))
    assert any("lazy" in note and "broken" in note for note in caught.value.__notes__)
    with pytest.raises(TypeError, match="must return a source, not int"):
        taken(Source.lazy(lambda: 3))  # type: ignore[arg-type, return-value]  # what is tested


def test_the_handle_of_a_lazy_source_can_be_taken_in_its_function() -> None:
    async def main() -> None:
        handles: list[Any] = []
        lazy = Source.lazy(lambda: Source.queue(1).map_materialized(handles.append))
        running = lazy.to(Sink.collect(), Keep.left).run()
        await settle()
        assert running.value is None
        handles[0].complete()
        assert await running == []

    run_in_virtual_time(main())


def test_never_neither_gives_nor_ends() -> None:
    async def main() -> None:
        sink = TestSink[int]()
        running = Source.never().to(sink).run()
        sink.request(1)
        await sink.expect_no_message(1e6)
        sink.cancel()
        sink.request(1)
        await running

    run_in_virtual_time(main())


def test_a_request_for_less_than_one_ends_these_sources_as_well() -> None:
    async def main() -> None:
        for source in (Source.never(), Source.lazy(lambda: Source.of(1)), Source.future(settle)):
            sink = TestSink[Any]()
            running = source.to(sink).run()
            sink.request(0)
            assert "3.9" in str(await sink.expect_error(ValueError))
            running.abandon()

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Source.queue(1, "drop_head"), "queue: overflow must be one of OverflowStrategy, not 'drop_head'"),
        (lambda: Source.from_observable(object(), 1, "fail"), "from_observable: overflow must be one of"),
        (lambda: Source.from_async_iterable([1]), "from_async_iterable: needs an asynchronous iterable .* not list"),
        (lambda: Source.file(5), "file: file must be a path or an open binary file, not int"),
        (lambda: Source.lines(5), "lines: file must be a path or an open binary file, not int"),
        (lambda: Sink.file(5), "file: file must be a path or an open binary file, not int"),
    ],
)
def test_what_cannot_be_meant_is_refused_when_it_is_described(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        make()


async def coroutine_function(_n: Any) -> int:
    return 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: Source.of(1).map(coroutine_function),
        lambda: Source.of(1).filter(coroutine_function),
        lambda: Source.of(1).map_blocking(1, coroutine_function),
        lambda: Source.of(1).group_by(2, coroutine_function),
        lambda: Sink.foreach(coroutine_function),
        lambda: Sink.fold(0, coroutine_function),  # type: ignore[arg-type]
    ],
)
def test_a_coroutine_function_that_nobody_would_await_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="coroutine function, which nobody here would await: map_async"):
        make()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Source.of(1).via(len), "function len: is it to be called.* operator of reactivex into Flow.rx"),  # type: ignore[call-overload]
        (lambda: Source.of(1).to(Sink.collect), "function collect: is it to be called"),  # type: ignore[call-overload]
        (lambda: Source.of(1).to(Flow[int, int].identity()), "to.. takes a sink, not Flow; a flow goes into via"),  # type: ignore[call-overload]
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        make()


def test_a_failed_source_run_again_and_again_fails_with_the_same_short_story() -> None:
    error = ValueError("no")

    async def main() -> None:
        source = Source.failed(error)
        for _ in range(20):
            with pytest.raises(ValueError, match="no"):
                await source.run_with(Sink.ignore())

    run_in_virtual_time(main())
    assert len(error.__notes__) == 1
    depth, entry = 0, error.__traceback__
    while entry is not None:
        depth, entry = depth + 1, entry.tb_next
    assert depth < 10


def test_a_subscriber_that_raises_at_the_end_fails_the_run_instead_of_hanging_it() -> None:
    class Faulty(TestSink[int]):
        def on_error(self, error: BaseException) -> None:
            raise RuntimeError("against rule 2.13")

        def on_complete(self) -> None:
            raise RuntimeError("against rule 2.13")

    async def nothing() -> Any:
        return
        yield

    async def main() -> None:
        for source in (Source.failed(ValueError()), Source.iterable(lambda: 5), Source.from_async_iterable(nothing)):  # type: ignore[arg-type, return-value]
            sink = Faulty()
            running = source.to(sink).run()
            await sink.expect_subscription()
            sink.request(1)
            with pytest.raises(RuntimeError, match=r"against rule 2\.13"):
                await running

    run_in_virtual_time(main())


def test_recovering_with_what_is_no_source_says_so() -> None:
    async def main() -> None:
        with pytest.raises(TypeError, match="recover_with: the function must return a source or None, not list"):
            await Source.failed(ValueError()).recover_with(-1, lambda _: [1]).run_with(Sink.ignore())  # type: ignore[arg-type, return-value]

    run_in_virtual_time(main())


def broken() -> Any:
    raise ValueError("no more")
    yield


async def broken_later() -> Any:
    raise ValueError("no more")
    yield


@pytest.mark.parametrize(
    "behind", [lambda s: s, lambda s: s.map(str), lambda s: s.take(5)], ids=["sink", "map", "take"]
)
@pytest.mark.parametrize(
    ("source", "note"),
    [
        (Source.iterable(broken), "in the source iterable"),
        (Source.from_iterable(broken), "in the source iterable"),
        (Source.cycle(broken), "in the source cycle"),
        (Source.from_async_iterable(broken_later), "in the source async iterable"),
        (Source.unfold(0, lambda n: 1 // n), "in the source unfold"),  # type: ignore[arg-type, return-value]
        (
            Source.from_observable(reactivex.throw(ValueError("no")), 1, OverflowStrategy.FAIL),
            "in the source observable",
        ),
        (Source.single(0).flat_map_concat(lambda _: Source.iterable(broken)), "in the source iterable"),
    ],
)
def test_what_a_source_fails_with_names_the_source(
    source: Source[Any], note: str, behind: Callable[[Any], Any]
) -> None:
    async def main() -> None:
        await behind(source).run_with(Sink.ignore())

    with pytest.raises((ValueError, ZeroDivisionError)) as caught:
        run_in_virtual_time(main())
    assert sum(text.startswith(note) for text in caught.value.__notes__) == 1
    assert sum(text.startswith("in the source") for text in caught.value.__notes__) == 1


def test_a_function_that_chooses_a_flow_is_named_when_it_fails() -> None:
    def chosen(prefix: list[int]) -> Any:
        raise ValueError(prefix)

    async def main() -> None:
        await Source.of(1, 2).flat_map_prefix(1, chosen).run_with(Sink.ignore())

    with pytest.raises(ValueError, match=r"\[1\]") as caught:
        run_in_virtual_time(main())
    assert any("flat_map_prefix(" in note and "chosen" in note for note in caught.value.__notes__)
