"""What the stage around reactivex's operators asks for, bounds, and refuses while it runs."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from datetime import timedelta
from typing import Any

import pytest
import reactivex
from reactivex import operators as ops
from reactivex.scheduler import CurrentThreadScheduler, NewThreadScheduler, TimeoutScheduler
from reactivex.subject import Subject

from streams import UNBOUNDED, ExpansionLimitError, Flow, NotSynchronousError, Sink, Source
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle


def has(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not hasattr(ops, name), reason=f"this version of reactivex has no {name}")


def collected(flow: Flow[Any, Any], values: Any = range(10)) -> list[Any]:
    return Source.from_iterable(values).via(flow).to(Sink.collect()).run_blocking()


def test_demand_goes_through_operators_that_do_not_expand_as_it_is() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.via(Flow.rx(ops.map(lambda n: n + 1), ops.filter(lambda n: n > 1))).to(sink).run()
        sink.request(7)
        await source.probe.expect_request(7)
        source.probe.send_next(1, 0)
        await sink.expect_next(2)
        await source.probe.expect_request(1)
        await source.probe.expect_no_request()
        sink.request(UNBOUNDED)
        await source.probe.expect_request(UNBOUNDED)
        sink.cancel()

    run_in_virtual_time(main())


def test_an_expansion_is_given_one_element_when_the_last_is_out() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.via(Flow.rx(ops.flat_map(lambda n: [n] * 3))).to(sink).run()
        sink.request(2)
        await source.probe.expect_request(1)
        source.probe.send_next(5)
        await sink.expect_next(5, 5)
        await source.probe.expect_no_request()
        sink.request(1)
        await sink.expect_next(5)
        await source.probe.expect_no_request()
        sink.request(1)
        await source.probe.expect_request(1)
        sink.cancel()

    run_in_virtual_time(main())


def test_operators_that_have_enough_cancel_upstream_at_once() -> None:
    async def main() -> None:
        for flow in (Flow.rx(ops.take(2)), Flow.rx(ops.flat_map(lambda n: [n]), ops.take(2))):
            source, sink = TestSource[int](), TestSink[int]()
            running = source.via(flow).to(sink).run()
            sink.request(1)
            await settle()
            source.probe.send_next(1)
            await sink.expect_next(1)
            assert not source.probe.cancelled
            sink.request(1)
            await settle()
            source.probe.send_next(2)
            assert source.probe.cancelled
            await sink.expect_next(2)
            await sink.expect_complete()
            await running

    run_in_virtual_time(main())


def test_upstream_is_cancelled_by_an_early_end_though_elements_still_wait() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.via(Flow.rx(ops.flat_map(lambda n: [n] * 5), ops.take(3))).to(sink).run()
        sink.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(8)
        await sink.expect_next(8)
        assert source.probe.cancelled
        await sink.expect_no_message()
        sink.request(2)
        await sink.expect_next(8, 8)
        await sink.expect_complete()
        await running

    run_in_virtual_time(main())


def test_operators_that_want_nothing_complete_without_demand() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.via(Flow.rx(ops.take(0))).to(sink).run()
        await sink.expect_complete()
        assert source.probe.cancelled
        await source.probe.expect_no_request()

    run_in_virtual_time(main())


def test_what_is_left_at_the_end_waits_for_demand() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.via(Flow.rx(ops.take_last(3))).to(sink).run()
        sink.request(1)
        await source.probe.expect_request(1)
        for n in range(5):
            source.probe.send_next(n)
            await source.probe.expect_request(1)
        source.probe.send_complete()
        await sink.expect_next(2)
        await sink.expect_no_message()
        sink.request(1)
        await sink.expect_next(3)
        await sink.expect_no_message()
        sink.request(5)
        await sink.expect_next(4)
        await sink.expect_complete()
        await running

    run_in_virtual_time(main())


def test_a_failure_comes_after_what_the_operators_gave_before_it() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.via(Flow.rx(ops.flat_map(lambda n: [n, n]))).to(sink).run()
        sink.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        source.probe.send_error(KeyError("upstream"))
        await sink.expect_next(1)
        await sink.expect_no_message()
        sink.request(1)
        await sink.expect_next(1)
        await sink.expect_error(KeyError)
        running.abandon()

    run_in_virtual_time(main())


def test_a_function_that_raises_fails_the_stream_and_is_named() -> None:
    def burst(_element: int) -> int:
        raise KeyError("burst")

    for flow in (Flow.rx(ops.skip(1), ops.map(burst)), Flow.rx(ops.start_with(1), ops.map(burst))):
        with pytest.raises(KeyError) as caught:
            collected(flow)
        assert any("rx(" in note and "map)" in note for note in caught.value.__notes__)


def test_upstreams_failure_is_not_put_down_to_the_operators() -> None:
    def fail() -> Any:
        yield 1
        raise KeyError("upstream")

    with pytest.raises(KeyError) as caught:
        Source.from_iterable(fail).via(Flow.rx(ops.map(str))).to(Sink.ignore()).run_blocking()
    assert not any(note.startswith("in the stage rx") for note in caught.value.__notes__)


@pytest.mark.parametrize(
    "operators",
    [[ops.find(lambda *_: False)], [ops.map(lambda _: None)], [ops.flat_map(lambda _: [1, None])]],
    ids=["default", "result", "expansion"],
)
def test_an_operator_that_gives_none_fails_the_stream_with_advice_rule_2_13(operators: list[Any]) -> None:
    with pytest.raises(TypeError, match=r"another default value.*2\.13"):
        collected(Flow.rx(*operators))


@pytest.mark.parametrize("operator", [ops.map(str), ops.flat_map(lambda n: [n])], ids=["direct", "expanding"])
def test_a_stage_that_is_sent_none_raises_type_error_rule_2_13(operator: Any) -> None:
    async def main() -> None:
        source, sink = TestSource[Any](), TestSink[Any]()
        source.via(Flow.rx(operator)).to(sink).run()
        sink.request(1)
        with pytest.raises(TypeError, match=r"2\.13"):
            source.probe.subscriber.on_next(None)
        sink.cancel()

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    "endless",
    [
        lambda: reactivex.repeat_value(1),
        lambda: reactivex.from_iterable(iter(int, 1)),
        lambda: reactivex.generate(0, lambda _: True, lambda n: n + 1),
    ],
    ids=["repeat_value", "iterable", "generate"],
)
def test_an_expansion_without_end_fails_at_its_limit(endless: Any) -> None:
    with pytest.raises(ExpansionLimitError, match=r"more than 100 elements.*max_expansion.*flat_map_concat"):
        collected(Flow.rx(ops.flat_map(lambda _: endless()), max_expansion=100))


def test_an_expansion_to_its_limit_goes_through_and_one_more_fails() -> None:
    assert collected(Flow.rx(ops.flat_map(range), max_expansion=7), [7, 7]) == [*range(7), *range(7)]
    with pytest.raises(ExpansionLimitError) as caught:
        collected(Flow.rx(ops.flat_map(range), max_expansion=7), [7, 8])
    assert caught.value.limit == 7
    with pytest.raises(ValueError, match="max_expansion"):
        Flow.rx(ops.map(str), max_expansion=0)


@pytest.mark.parametrize(
    "operator",
    [
        lambda: ops.flat_map(lambda _: reactivex.never()),
        lambda: ops.flat_map(lambda _: Subject()),
        lambda: ops.flat_map_indexed(lambda _, _i: reactivex.never()),
        pytest.param(lambda: ops.concat_map(lambda _: reactivex.never()), marks=has("concat_map")),
        lambda: ops.flat_map(reactivex.never()),
        lambda: reactivex.compose(ops.map(lambda _: reactivex.never()), ops.merge_all()),
        pytest.param(
            lambda: reactivex.compose(ops.map(lambda _: reactivex.never()), ops.concat_all()), marks=has("concat_all")
        ),
    ],
)
def test_a_sequence_that_goes_on_later_fails_the_stream_with_the_element_that_made_it(operator: Any) -> None:
    seen: list[int] = []
    with pytest.raises(NotSynchronousError, match=r"not through with an element.*flat_map_merge"):
        collected(Flow.rx(ops.do_action(seen.append), operator()))
    assert seen == [0]


def test_a_future_in_flat_map_fails_the_stream_with_the_name_of_map_async() -> None:
    async def main() -> None:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        with pytest.raises(NotSynchronousError, match="map_async"):
            await Source.of(1).via(Flow.rx(ops.flat_map(lambda _: future))).run_with(Sink.collect())

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    "operator",
    [
        lambda: ops.flat_map(lambda _: reactivex.timer(1.0)),
        lambda: ops.flat_map(lambda n: reactivex.of(n).pipe(ops.delay(1.0))),
        lambda: ops.flat_map(lambda _: reactivex.interval(1.0)),
    ],
)
def test_a_timer_in_an_expansion_is_refused_before_it_is_started(operator: Any) -> None:
    before = threading.active_count()
    with pytest.raises(NotSynchronousError, match=r"timer|not through"):
        collected(Flow.rx(operator()))
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("custom", "message"),
    [
        (lambda source: source.pipe(ops.delay(1.0)), "timer of 1 s"),
        (lambda source: source.pipe(ops.repeat(2)), "a second time"),
        (lambda source: source.pipe(ops.merge(reactivex.never())), "when its source had ended"),
        (lambda source: reactivex.never(), "with the subscription"),
        (lambda source: source.pipe(ops.delay(0.001, scheduler=TimeoutScheduler())), "when its source had ended"),
        (lambda source: source.pipe(ops.observe_on(NewThreadScheduler())), r"of its own accord|had ended"),
    ],
    ids=["timer", "repeat", "merge", "never", "own scheduler", "thread"],
)
def test_an_operator_taken_on_trust_that_is_not_synchronous_fails_the_stream(custom: Any, message: str) -> None:
    with pytest.raises(NotSynchronousError, match=message):
        collected(Flow.rx(custom, trust=True))


def test_what_an_operator_gives_of_its_own_accord_fails_the_stream() -> None:
    async def main(signal: str, *arguments: Any) -> None:
        other: Subject[int] = Subject()
        source, sink = TestSource[int](), TestSink[int]()
        running = source.via(Flow.rx(lambda s: s.pipe(ops.merge(other)), trust=True)).to(sink).run()
        sink.request(5)
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        await sink.expect_next(1)
        getattr(other, signal)(*arguments)
        error = await sink.expect_error(NotSynchronousError)
        assert error.__cause__ is (arguments[0] if signal == "on_error" else None)
        assert source.probe.cancelled
        running.abandon()
        other.on_next(3)
        await sink.expect_no_message()

    run_in_virtual_time(main("on_next", 2))
    run_in_virtual_time(main("on_error", KeyError("other")))


def test_what_comes_on_another_thread_never_reaches_downstream_there() -> None:
    other: Subject[int] = Subject()

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.via(Flow.rx(lambda s: s.pipe(ops.merge(other)), trust=True)).to(sink).run()
        sink.request(5)
        await source.probe.expect_request(1)
        await asyncio.to_thread(other.on_next, 2)
        await sink.expect_error(NotSynchronousError)
        running.abandon()

    asyncio.run(main())


def test_an_operator_of_ones_own_runs_on_trust() -> None:
    def every_second(source: reactivex.Observable[int]) -> reactivex.Observable[int]:
        return source.pipe(ops.filter_indexed(lambda _, i: i % 2 == 1), ops.start_with(-1))

    assert collected(Flow.rx(every_second, ops.map(str), trust=True)) == ["-1", "1", "3", "5", "7", "9"]


def test_an_operator_that_gives_no_observable_fails_the_stream() -> None:
    with pytest.raises(TypeError, match="no observable but int"):
        collected(Flow.rx(lambda _source: 5, trust=True))


def test_a_flow_can_be_run_again_and_starts_anew() -> None:
    flow = Flow.rx(ops.scan(lambda a, b: a + b), ops.take(3), ops.flat_map(lambda n: [n, n]))
    assert collected(flow) == collected(flow) == [0, 0, 1, 1, 3, 3]


def test_the_clock_of_the_operators_is_the_loops() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[Any]()
        source.via(Flow.rx(ops.time_interval(), ops.map(lambda t: t.interval))).to(sink).run()
        sink.request(2)
        await source.probe.expect_request()
        for seconds in (2.5, 7.0):
            await elapse(seconds)
            source.probe.send_next(1)
            assert await sink.expect_next() == timedelta(seconds=seconds)
        sink.cancel()

    run_in_virtual_time(main())


def test_an_expansion_is_synchronous_inside_of_another_streams_trampoline() -> None:
    """reactivex puts work off where its thread is in a subscription already, as in whatever an observable's subscriber does."""
    result: list[Any] = []

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        flow = Flow.rx(ops.start_with(0), ops.flat_map(lambda n: reactivex.of(n, n)))
        running = source.via(flow).to(sink).run()
        sink.request(9)
        await source.probe.expect_request(1)

        def inside(*_: Any) -> None:
            source.probe.send_next(7)
            result.append(len(sink._signals))

        CurrentThreadScheduler.singleton().schedule(inside)
        await sink.expect_next(0, 0, 7, 7)
        assert result == [4]
        sink.cancel()
        await running

    run_in_virtual_time(main())


def test_cancelling_disposes_of_the_operators_and_drops_every_reference_rule_3_13() -> None:
    class Function:
        def __call__(self, element: Any) -> Any:
            return element

    async def main(operator: Any) -> list[str]:
        disposed: list[str] = []
        function = Function()
        reference = weakref.ref(function)
        flow = Flow.rx(ops.map(function), operator, ops.finally_action(lambda: disposed.append("disposed")))
        source, sink = TestSource[int](), TestSink[int]()
        running = source.via(flow).to(sink).run()
        sink.request(1)
        await settle()
        source.probe.send_next(1)
        sink.cancel()
        sink.cancel()
        assert disposed == ["disposed"]
        await running
        del flow, function
        gc.collect()
        # The probes still hold the stage.
        assert source.probe.subscriber is not None
        assert reference() is None
        return disposed

    for operator in (ops.skip(0), ops.flat_map(lambda n: [n] * 3), ops.buffer_with_count(5)):
        assert run_in_virtual_time(main(operator)) == ["disposed"]


def test_a_final_action_that_raises_on_cancel_is_reported(loop_reports: Any) -> None:
    def burst() -> None:
        raise KeyError("burst")

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.via(Flow.rx(ops.finally_action(burst))).to(sink).run()
        sink.request(1)
        await settle()
        sink.cancel()
        await running
        assert source.probe.cancelled

    run_in_virtual_time(main())
    assert any("disposed" in str(report) for report in loop_reports)


def test_request_of_nothing_fails_the_stream_rule_3_9() -> None:
    async def main() -> None:
        for operator in (ops.map(str), ops.start_with(1)):
            source, sink = TestSource[int](), TestSink[Any]()
            running = source.via(Flow.rx(operator)).to(sink).run()
            await sink.expect_subscription()
            sink.request(0)
            assert "3.9" in str(await sink.expect_error(ValueError))
            assert source.probe.cancelled
            running.abandon()

    run_in_virtual_time(main())


def test_what_drops_everything_neither_recurses_nor_stalls() -> None:
    assert collected(Flow.rx(ops.filter(lambda _: False)), range(50_000)) == []
    assert collected(Flow.rx(ops.flat_map(lambda _: [])), range(5_000)) == []
