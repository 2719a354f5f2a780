"""also_to, divert_to and wire_tap: who gets what, who holds up whom, and that no side sink's work or failure gets lost."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import Flow, Keep, Materialization, Publisher, Sink, Source, StreamClosedError
from streams.stages.side_run import LAST_WORK_TIMEOUT
from streams.testkit import TestSink, TestSource, TestSubscriber, elapse, run_in_virtual_time, settle
from tests.streams.substream_probes import later

KINDS = ["also_to", "divert_to", "wire_tap"]
every_kind = pytest.mark.parametrize("kind", KINDS)


def beside(kind: str, stream: Any, sink: Any, combine: Any = Keep.left) -> Any:
    """``stream`` with ``sink`` beside it; what is diverted are the odd numbers."""
    if kind == "divert_to":
        return stream.divert_to(sink, lambda n: n % 2, combine)
    return getattr(stream, kind)(sink, combine)


@pytest.mark.parametrize(
    ("kind", "here", "there"),
    [
        ("also_to", [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]),
        ("divert_to", [0, 2, 4], [1, 3]),
        ("wire_tap", [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]),
    ],
)
def test_each_output_gets_its_elements_in_order(kind: str, here: list[int], there: list[int]) -> None:
    async def main() -> None:
        running = beside(kind, Source.from_iterable(range(5)), Sink.collect(), Keep.right).to(Sink.collect()).run()
        assert await running == here
        assert await running.value == there

    run_in_virtual_time(main())


@every_kind
def test_the_side_sinks_value_is_kept_only_if_that_is_asked_for(kind: str) -> None:
    async def main() -> None:
        queue, tap = beside(kind, Source.queue(4), Sink.collect(), Keep.both).to(Sink.ignore()).run().value
        queue.offer(1)
        queue.complete()
        assert await tap in ([1], [])
        kept = beside(kind, Source.queue(4), Sink.collect()).to(Sink.ignore()).run()
        kept.value.complete()
        assert await kept is None

    run_in_virtual_time(main())


@every_kind
def test_a_flow_can_have_a_sink_beside_it(kind: str) -> None:
    seen: list[int] = []
    flow: Flow[int, int] = beside(kind, Flow.identity(), Sink.foreach(seen.append))
    assert Source.of(1, 2, 3).via(flow).to(Sink.collect()).run_blocking() == ([2] if kind == "divert_to" else [1, 2, 3])
    assert seen == ([1, 3] if kind == "divert_to" else [1, 2, 3])


@every_kind
def test_the_run_is_not_over_before_the_side_sink_is(kind: str) -> None:
    async def main() -> None:
        done: list[int] = []

        async def store(n: int) -> None:
            await elapse(n)
            done.append(n)

        await beside(kind, Source.of(1, 3), Sink.foreach_async(2, store)).to(Sink.ignore()).run()
        assert done == [1, 3]
        assert asyncio.get_running_loop().time() == pytest.approx(3)

    run_in_virtual_time(main())


@every_kind
def test_a_side_sink_that_fails_fails_the_run(kind: str) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = beside(kind, source, Sink.foreach(lambda n: 1 // (n - 3))).to(sink).run()
        sink.request(9)
        await settle()
        source.probe.send_next(1)
        source.probe.send_next(3)
        if kind != "divert_to":
            await sink.expect_next(1, 3)
        await sink.expect_error(ZeroDivisionError)
        assert source.probe.cancelled
        with pytest.raises(ZeroDivisionError):
            await running

    run_in_virtual_time(main())


@every_kind
def test_a_side_sink_that_fails_after_the_last_element_fails_the_run(kind: str) -> None:
    async def fail(n: int) -> None:
        await elapse(n)
        raise OSError("disk full")

    async def main() -> None:
        with pytest.raises(OSError, match="disk full"):
            await beside(kind, Source.of(1), Sink.foreach_async(1, fail)).to(Sink.ignore()).run()

    run_in_virtual_time(main())


@every_kind
def test_work_of_the_side_sink_is_finished_when_downstream_has_enough(kind: str) -> None:
    async def main() -> None:
        done: list[int] = []

        async def store(n: int) -> None:
            await elapse(2)
            done.append(n)

        source = Source.from_iterable([1, 2, 3, 4, 5, 6])
        head = await beside(kind, source, Sink.foreach_async(4, store)).to(Sink.head()).run()
        assert head == (2 if kind == "divert_to" else 1)
        assert done == [1]
        assert asyncio.get_running_loop().time() == pytest.approx(2)

    run_in_virtual_time(main())


@every_kind
def test_a_side_sink_that_does_not_end_after_the_run_is_cancelled_and_reported(
    kind: str, loop_reports: list[str]
) -> None:
    async def main() -> None:
        cancelled: list[int] = []

        async def hang(n: int) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                cancelled.append(n)
                raise

        source = Source.from_iterable([1, 2, 3])
        await beside(kind, source, Sink.foreach_async(1, hang)).to(Sink.head()).run()
        assert cancelled == [1]
        assert asyncio.get_running_loop().time() == pytest.approx(LAST_WORK_TIMEOUT)

    run_in_virtual_time(main())
    assert any("had not ended" in report for report in loop_reports)


@every_kind
def test_a_failure_after_the_run_has_ended_is_reported(kind: str, loop_reports: list[str]) -> None:
    async def fail(_: int) -> None:
        await elapse(1)
        raise OSError("disk full")

    async def main() -> None:
        source = Source.from_iterable([1, 2, 3])
        await beside(kind, source, Sink.foreach_async(1, fail)).to(Sink.head()).run()

    run_in_virtual_time(main())
    assert any("failed after the run had ended" in report and "disk full" in report for report in loop_reports)


@every_kind
def test_a_failure_while_downstream_no_longer_listens_fails_the_run(kind: str) -> None:
    async def fail(_: int) -> None:
        await elapse(1)
        raise OSError("disk full")

    async def later(n: int) -> int:
        await elapse(5)
        return n

    async def main() -> None:
        source = beside(kind, Source.from_iterable([1, 2, 3]), Sink.foreach_async(1, fail)).take(1)
        with pytest.raises(OSError, match="disk full"):
            await source.map_async(1, later).to(Sink.ignore()).run()

    run_in_virtual_time(main())


@every_kind
def test_a_failure_upstream_reaches_both(kind: str) -> None:
    async def main() -> None:
        source, here, there = TestSource[int](), TestSink[int](), TestSink[int]()
        running = beside(kind, source, there).to(here).run()
        await there.expect_subscription()
        source.probe.send_error(OSError("broken"))
        await here.expect_error(OSError)
        await there.expect_error(OSError)
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


@every_kind
def test_cancelling_the_run_stops_both_and_upstream(kind: str) -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = beside(kind, source, Sink.collect(), Keep.right).to(Sink.ignore()).run()
        await source.probe.expect_request()
        running.cancel()
        await source.probe.expect_cancellation()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert running.value.cancelled()

    run_in_virtual_time(main())


@every_kind
def test_a_run_that_is_cancelled_and_abandoned_reports_nothing(kind: str) -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = beside(kind, source, Sink.collect()).to(Sink.ignore()).run()
        await settle()
        running.abandon()
        await settle()
        assert running.done()

    run_in_virtual_time(main())


@every_kind
def test_when_downstream_cancels_the_side_sink_gets_its_end(kind: str) -> None:
    async def main() -> None:
        source, here, there = TestSource[int](), TestSink[int](), TestSink[int]()
        running = beside(kind, source, there).to(here).run()
        await here.expect_subscription()
        here.cancel()
        await there.expect_complete()
        assert source.probe.cancelled
        here.cancel()
        await running

    run_in_virtual_time(main())


@pytest.mark.parametrize("kind", ["also_to", "divert_to"])
def test_when_the_side_sink_has_enough_the_stream_ends(kind: str) -> None:
    async def main() -> None:
        source, here = TestSource[int](), TestSink[int]()
        running = beside(kind, source, Sink.head()).to(here).run()
        here.request(9)
        await settle()
        source.probe.send_next(1)
        if kind == "also_to":
            await here.expect_next(1)
        await here.expect_complete()
        assert source.probe.cancelled
        await running

    run_in_virtual_time(main())


def test_a_tap_that_has_enough_leaves_the_stream_as_it_is() -> None:
    async def main() -> None:
        running = Source.from_iterable(range(5)).wire_tap(Sink.head(), Keep.right).to(Sink.collect()).run()
        assert await running == [0, 1, 2, 3, 4]
        assert await running.value == 0

    run_in_virtual_time(main())


@every_kind
def test_a_side_sink_that_cancels_before_the_stream_begins_is_noticed(kind: str) -> None:
    class Declines:
        def attach_sink(self, publisher: Publisher[int], m: Materialization, /) -> asyncio.Future[None]:
            subscriber = TestSubscriber[int]()
            publisher.subscribe(subscriber)
            subscriber.cancel()
            done: asyncio.Future[None] = m.loop.create_future()
            done.set_result(None)
            return done

    expected = [0, 1, 2] if kind == "wire_tap" else []
    assert beside(kind, Source.from_iterable(range(3)), Declines()).to(Sink.collect()).run_blocking() == expected


@every_kind
def test_each_source_of_a_flat_map_has_a_side_sink_of_its_own_which_is_waited_for(kind: str) -> None:
    async def main() -> None:
        stored: list[int] = []

        async def store(n: int) -> None:
            await elapse(1)
            stored.append(n)

        def inner(n: int) -> Source[int]:
            stream: Source[int] = beside(kind, Source.of(n, n), Sink.foreach_async(1, store))
            return stream

        flattened = Source.of(1, 3).flat_map_concat(inner)
        await flattened.to(Sink.ignore()).run()
        assert stored[0] == 1
        assert stored[-1] == 3
        assert asyncio.get_running_loop().time() == pytest.approx(len(stored))
        stored.clear()
        await Source.of(1, 3).flat_map_concat(inner).merge(Source.single(2)).to(Sink.head()).run()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())


def test_each_substream_has_a_side_sink_of_its_own() -> None:
    sums: list[int] = []
    each: Sink[int, Any] = Flow[int, int].identity().fold(0, int.__add__).to(Sink.foreach(sums.append))
    groups = Source.from_iterable(range(6)).group_by(2, lambda n: n % 2).also_to(each).merge_substreams()
    assert groups.to(Sink.collect()).run_blocking() == list(range(6))
    assert sorted(sums) == [6, 9]


def test_work_of_a_side_sink_is_finished_when_its_source_is_left() -> None:
    async def main() -> None:
        stored: list[int] = []

        async def store(n: int) -> None:
            await elapse(1)
            stored.append(n)

        inner = Source.from_iterable(range(9)).also_to(Sink.foreach_async(1, store))
        assert await Source.of(0).flat_map_concat(lambda _: inner).take(1).to(Sink.collect()).run() == [0]
        assert stored == [0]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())


@every_kind
def test_a_run_that_is_cancelled_tells_downstream_nothing_of_the_side_sinks_cancellation(kind: str) -> None:
    async def main() -> None:
        source, here = TestSource[int](), TestSink[int]()
        running = beside(kind, source, Sink.ignore()).to(here).run()
        await here.expect_subscription()
        running.cancel()
        await here.expect_no_message()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert source.probe.cancelled

    run_in_virtual_time(main())


@every_kind
def test_a_side_sink_is_cancelled_at_the_end_of_a_run_that_has_not_told_it_the_end(kind: str) -> None:
    class Leaves:
        """Is done at once, and cancels nothing."""

        def attach_sink(self, publisher: Publisher[int], m: Materialization, /) -> asyncio.Future[None]:
            publisher.subscribe(TestSubscriber[int]())
            done: asyncio.Future[None] = m.loop.create_future()
            done.set_result(None)
            return done

    async def main() -> None:
        source = TestSource[int]()
        running = beside(kind, source, Sink.collect(), Keep.right).to(Leaves()).run()
        await running
        assert running.value.cancelled()
        assert source.probe.cancelled is (kind != "wire_tap")
        assert asyncio.get_running_loop().time() < LAST_WORK_TIMEOUT

    run_in_virtual_time(main())


@every_kind
def test_what_a_side_sink_owns_ends_with_the_run(kind: str) -> None:
    seen: list[str] = []

    class Owner:
        def attach_sink(self, publisher: Publisher[int], m: Materialization, /) -> asyncio.Future[Any]:
            async def idle() -> None:
                try:
                    await m.loop.create_future()
                finally:
                    seen.append("task")

            m.spawn(idle(), "idle")
            m.on_end(lambda: seen.append("end"))
            return Sink.ignore().attach_sink(publisher, m)

    async def main() -> None:
        await beside(kind, Source.of(1, 2), Owner()).map_async(1, later).to(Sink.ignore()).run()
        assert seen == ["task", "end"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())


@every_kind
def test_a_side_sink_that_cannot_be_attached_fails_the_run_at_its_start(kind: str) -> None:
    class Broken:
        def attach_sink(self, publisher: Publisher[int], m: Materialization, /) -> asyncio.Future[None]:
            raise OSError("no such sink")

    async def main() -> None:
        with pytest.raises(OSError, match="no such sink"):
            beside(kind, Source.of(1), Broken()).to(Sink.ignore()).run()
        await settle()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())


@every_kind
def test_a_request_of_the_side_sink_for_less_than_one_fails_it_and_the_run_rule_3_9(kind: str) -> None:
    async def main() -> None:
        source, here, there = TestSource[int](), TestSink[int](), TestSink[int]()
        running = beside(kind, source, there).to(here).run()
        await there.expect_subscription()
        there.request(0)
        await there.expect_error(ValueError)
        await here.expect_error(ValueError)
        assert source.probe.cancelled
        with pytest.raises(ValueError, match=r"3\.9"):
            await running

    run_in_virtual_time(main())


@every_kind
def test_a_request_of_downstream_for_less_than_one_fails_both_rule_3_9(kind: str) -> None:
    async def main() -> None:
        source, here, there = TestSource[int](), TestSink[int](), TestSink[int]()
        running = beside(kind, source, there).to(here).run()
        await here.expect_subscription()
        here.request(-1)
        await here.expect_error(ValueError)
        await there.expect_error(ValueError)
        assert source.probe.cancelled
        with pytest.raises(ValueError, match=r"3\.9"):
            await running

    run_in_virtual_time(main())


@every_kind
def test_a_second_subscriber_is_refused_rule_1_9(kind: str) -> None:
    async def main() -> None:
        m = Materialization(asyncio.get_running_loop())
        flow: Flow[int, int] = beside(kind, Flow.identity(), Sink.ignore())
        publisher = flow.attach_flow(TestSource[int]().probe, m)
        first, second = TestSubscriber[int](), TestSubscriber[int]()
        publisher.subscribe(first)
        publisher.subscribe(second)
        await second.expect_error(StreamClosedError)
        await first.expect_no_message()
        first.cancel()
        await m._settle()

    run_in_virtual_time(main())


@every_kind
def test_a_subscriber_that_has_cancelled_is_not_kept_alive_rule_3_13(kind: str) -> None:
    async def main() -> None:
        m = Materialization(asyncio.get_running_loop())
        source = TestSource[int]()
        flow: Flow[int, int] = beside(kind, Flow.identity(), Sink.ignore())
        publisher = flow.attach_flow(source.probe, m)
        subscriber = TestSubscriber[int]()
        publisher.subscribe(subscriber)
        subscriber.request(3)
        source.probe.send_next(0)
        subscriber.cancel()
        kept = weakref.ref(subscriber)
        del subscriber
        source.probe._subscriber = None
        gc.collect()
        assert kept() is None, "held by what the run keeps of its side sink"
        await m._settle()

    run_in_virtual_time(main())


def test_also_to_moves_at_the_pace_of_the_slower() -> None:
    async def main() -> None:
        source, here, there = TestSource[int](), TestSink[int](), TestSink[int]()
        running = source.also_to(there).to(here).run()
        here.request(5)
        await source.probe.expect_no_request()
        there.request(2)
        await source.probe.expect_request(2)
        source.probe.send_next(1, 2)
        await here.expect_next(1, 2)
        await there.expect_next(1, 2)
        there.request(9)
        await source.probe.expect_request(3)
        source.probe.send_complete()
        await here.expect_complete()
        await there.expect_complete()
        await running

    run_in_virtual_time(main())


def test_with_also_to_both_get_the_element_at_which_either_has_enough() -> None:
    async def main() -> None:
        ours = Source.from_iterable(range(9)).also_to(Sink.collect(), Keep.right).take(2).to(Sink.collect()).run()
        assert await ours == [0, 1]
        assert await ours.value == [0, 1]
        theirs: Sink[int, list[int]] = Flow[int, int].identity().take(2).to(Sink.collect())
        other = Source.from_iterable(range(9)).also_to(theirs, Keep.right).to(Sink.collect()).run()
        assert await other == [0, 1]
        assert await other.value == [0, 1]

    run_in_virtual_time(main())


def test_an_element_to_be_diverted_waits_for_the_side_sink_and_holds_up_the_rest() -> None:
    async def main() -> None:
        source, here, there = TestSource[int](), TestSink[int](), TestSink[int]()
        running = source.divert_to(there, lambda n: n % 2).to(here).run()
        here.request(9)
        await source.probe.expect_request(1)
        source.probe.send_next(2)
        await here.expect_next(2)
        await source.probe.expect_request(1)
        source.probe.send_next(3)
        await source.probe.expect_no_request()
        await here.expect_no_message()
        source.probe.send_complete()
        await here.expect_no_message()
        there.request(1)
        await there.expect_next(3)
        await there.expect_complete()
        await here.expect_complete()
        await running

    run_in_virtual_time(main())


def test_divert_to_asks_without_bound_where_both_do() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.divert_to(Sink.collect(), lambda n: n % 2, Keep.right).to(Sink.collect()).run()
        await source.probe.expect_request()
        source.probe.send_next(*range(100))
        source.probe.send_complete()
        assert await running == list(range(0, 100, 2))
        assert await running.value == list(range(1, 100, 2))

    run_in_virtual_time(main())


def test_a_predicate_of_divert_to_that_fails_fails_both() -> None:
    async def main() -> None:
        running = Source.of(0).divert_to(Sink.collect(), lambda n: 1 // n, Keep.right).to(Sink.collect()).run()
        with pytest.raises(ZeroDivisionError) as failure:
            await running
        assert any("divert_to" in note for note in failure.value.__notes__)
        assert isinstance(running.value.exception(), ZeroDivisionError)

    run_in_virtual_time(main())


def test_a_tap_never_holds_up_the_stream_and_the_youngest_element_waits_for_it() -> None:
    async def main() -> None:
        source, here, tap = TestSource[int](), TestSink[int](), TestSink[int]()
        running = source.wire_tap(tap).to(here).run()
        here.request(5)
        await source.probe.expect_request(5)
        tap.request(1)
        source.probe.send_next(1, 2, 3)
        await here.expect_next(1, 2, 3)
        await tap.expect_next(1)
        await tap.expect_no_message()
        tap.request(2)
        await tap.expect_next(3)
        source.probe.send_next(4, 5)
        await tap.expect_next(4)
        await here.expect_next(4, 5)
        source.probe.send_complete()
        await tap.expect_complete()
        await here.expect_complete()
        await running

    run_in_virtual_time(main())


def test_a_function_can_be_a_tap() -> None:
    seen: list[int] = []
    assert Source.of(1, 2).wire_tap(seen.append).to(Sink.collect()).run_blocking() == [1, 2]
    assert seen == [1, 2]


def test_a_function_that_taps_and_fails_fails_the_stream() -> None:
    with pytest.raises(ZeroDivisionError) as failure:
        Source.of(0).wire_tap(lambda n: 1 // n).to(Sink.collect()).run_blocking()
    assert any("wire_tap" in note for note in failure.value.__notes__)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Source.of(1).also_to(Flow.identity()),  # type: ignore[call-overload]
        lambda: Source.of(1).divert_to(3, bool),  # type: ignore[call-overload]
        lambda: Source.of(1).wire_tap(3),  # type: ignore[call-overload]
    ],
)
def test_what_is_no_sink_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match="takes a sink"):
        make()


@every_kind
def test_none_is_refused_rule_2_13(kind: str) -> None:
    async def main() -> None:
        source: TestSource[Any] = TestSource()
        running = beside(kind, source, Sink.ignore()).to(Sink.ignore()).run()
        await source.probe.expect_request()
        with pytest.raises(TypeError, match=r"2\.13"):
            source.probe.send_next(None)
        running.abandon()

    run_in_virtual_time(main())


@every_kind
@given(
    count=st.integers(0, 40),
    script=st.lists(st.tuples(st.booleans(), st.integers(1, 9)), max_size=20),
    leave=st.none() | st.integers(0, 19),
)
def test_nothing_is_lost_or_sent_unasked_whoever_asks_when(
    kind: str, count: int, script: list[tuple[bool, int]], leave: int | None
) -> None:
    """The probes fail on elements not asked for. Downstream may leave in the middle."""

    async def main() -> None:
        here, there = TestSink[int](), TestSink[int]()
        running = beside(kind, Source.from_iterable(range(count)), there).to(here).run()
        left = False
        for step, (ours, n) in enumerate(script):
            await settle()
            if step == leave and not left:
                left = True
                here.cancel()
            if not (ours and left):
                (here if ours else there).request(n)
        await settle()
        there.request(count + 1)
        if not left:
            here.request(count + 1)
        await running
        assert here.violations == there.violations == []
        mine = [signal.element for signal in here._signals if hasattr(signal, "element")]
        theirs = [signal.element for signal in there._signals if hasattr(signal, "element")]
        whole = list(range(count))
        ours_in_all = whole[::2] if kind == "divert_to" else whole
        theirs_in_all = whole[1::2] if kind == "divert_to" else whole
        assert mine == (ours_in_all[: len(mine)] if left else ours_in_all)
        if kind == "wire_tap":
            assert theirs == sorted(set(theirs) & set(whole))
        else:
            assert theirs == (theirs_in_all[: len(theirs)] if left else theirs_in_all)
        if kind == "also_to":
            assert len(theirs) == len(mine)

    run_in_virtual_time(main())
