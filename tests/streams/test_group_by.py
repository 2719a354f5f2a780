"""group_by: who gets what, how many substreams there may be, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import (
    Flow,
    Sink,
    Source,
    SubFlow,
    SubSource,
    Supervision,
    TooManySubstreamsError,
)
from streams.materialize import Part
from streams.stages.flatten import SUBSTREAM_PREFETCH, Inner
from streams.stages.substream import Substream
from streams.substream import LASTING
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle
from tests.streams.catalogue import every
from tests.streams.parities import by_parity, parity, send
from tests.streams.substream_probes import immediate, later, live


def test_operators_work_on_each_substream() -> None:
    source = Source.from_iterable(range(6)).group_by(3, lambda n: n % 3)
    assert isinstance(source, SubSource)
    sums = source.map(lambda n: n * 10).scan(0, int.__add__).drop(1).merge_substreams()
    assert sorted(sums.to(Sink.collect()).run_blocking()) == [0, 10, 20, 30, 50, 70]


def test_a_flow_can_be_grouped() -> None:
    flow = Flow[int, int].identity().group_by(2, parity)
    assert isinstance(flow, SubFlow)
    lists = flow.grouped(10).merge_substreams()
    result = Source.from_iterable(range(5)).via(lists).to(Sink.collect()).run_blocking()
    assert sorted(result) == [[0, 2, 4], [1, 3]]


def test_substreams_can_be_grouped_again() -> None:
    halves = Source.from_iterable(range(10)).group_by(2, parity)
    quarters = halves.group_by(3, lambda n: n // 4).grouped(10)
    nested = quarters.merge_substreams()
    assert isinstance(nested, SubSource)
    lists = nested.merge_substreams().to(Sink.collect()).run_blocking()
    assert sorted(lists) == [[0, 2], [1, 3], [4, 6], [5, 7], [8], [9]]


def test_each_substream_can_have_a_sink_and_the_result_is_how_many_there_were() -> None:
    sums: list[int] = []
    each: Sink[int, Any] = Flow[int, int].identity().fold(0, int.__add__).to(Sink.foreach(sums.append))
    assert Source.from_iterable(range(6)).group_by(3, lambda n: n % 3).to(each).run_blocking() == 3
    assert sorted(sums) == [3, 5, 7]
    of_flow: Sink[int, int] = Flow[int, int].identity().group_by(3, parity).to(Sink.ignore())
    assert Source.from_iterable(range(6)).to(of_flow).run_blocking() == 2


def test_the_run_waits_for_the_sinks_of_the_substreams() -> None:
    async def main() -> None:
        stored: list[int] = []

        async def store(n: int) -> None:
            await elapse(n)
            stored.append(n)

        assert await Source.of(1, 2, 3).group_by(3, lambda n: n).to(Sink.foreach_async(1, store)).run() == 3
        assert stored == [1, 2, 3]
        assert asyncio.get_running_loop().time() == pytest.approx(3)

    run_in_virtual_time(main())


def test_the_sink_of_a_substream_that_fails_fails_the_run_and_stops_the_others() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.group_by(3, parity).to(Sink.foreach(lambda n: 1 // n)).run()
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        await source.probe.expect_request(1)
        source.probe.send_next(0)
        with pytest.raises(ZeroDivisionError):
            await running
        assert source.probe.cancelled

    run_in_virtual_time(main())


def test_more_keys_than_allowed_fail_the_stream_naming_key_and_limit() -> None:
    with pytest.raises(TooManySubstreamsError, match=r"'c'.* 2 ") as failure:
        Source.of("a", "b", "a", "c").group_by(2, str).merge_substreams().to(Sink.ignore()).run_blocking()
    assert (failure.value.limit, failure.value.key) == (2, "c")


def test_a_failure_of_the_stage_reaches_every_substream_and_upstream_is_cancelled() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        running = source.via(by_parity(most=1)).to(out).run()
        substream = await send(source, out, 0)
        out.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        await out.expect_error(TooManySubstreamsError)
        await substream.expect_error(TooManySubstreamsError)
        assert source.probe.cancelled
        with pytest.raises(TooManySubstreamsError):
            await running

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("key", "kind", "message"),
    [
        (lambda n: 1 // n, ZeroDivisionError, "by zero"),
        (lambda _: None, TypeError, "no key"),
        (lambda _: [], TypeError, "unhashable"),
    ],
)
def test_a_key_that_cannot_be_had_fails_the_stream_naming_the_stage(
    key: Callable[[int], Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message) as failure:
        Source.of(0).group_by(2, key).merge_substreams().to(Sink.ignore()).run_blocking()
    assert any("group_by" in note for note in failure.value.__notes__)


@pytest.mark.parametrize("end", ["merge_substreams", "concat_substreams", "to"])
def test_a_substream_that_cannot_be_run_fails_the_stream_and_frees_upstream(end: str) -> None:
    def broken(publisher: Any, m: Any) -> Any:
        raise OSError("cannot be attached")

    async def main() -> None:
        source = TestSource[int]()
        groups = source.group_by(2, parity).via(Flow[int, int](broken))
        graph = groups.to(Sink.ignore()) if end == "to" else getattr(groups, end)().to(Sink.ignore())
        running = graph.run()
        await source.probe.expect_request(1)
        source.probe.send_next(0)
        with pytest.raises(OSError, match="cannot be attached"):
            await running
        assert source.probe.cancelled

    run_in_virtual_time(main())


@pytest.mark.parametrize("most", [0, -1])
def test_there_must_be_room_for_a_substream(most: int) -> None:
    with pytest.raises(ValueError, match="max_substreams must be more than 0"):
        Source.of(1).group_by(most, parity)


def test_what_is_no_sink_or_flow_is_refused() -> None:
    substreams = Source.of(1).group_by(1, parity)
    with pytest.raises(TypeError, match="takes a sink"):
        substreams.to(Flow.identity())  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="takes a flow"):
        substreams.via(Sink.ignore())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="parallelism"):
        substreams.merge_substreams_with_parallelism(0)


def test_upstream_is_held_to_what_the_merged_substreams_ask_ahead() -> None:
    async def main() -> None:
        given = 0

        def count(n: int) -> int:
            nonlocal given
            given += 1
            return n

        sink = TestSink[int]()
        Source.from_iterable(range(10**6)).map(count).group_by(2, parity).merge_substreams().to(sink).run()
        await sink.expect_subscription()
        sink.request(1)
        await sink.expect_next(0)
        await settle()
        assert given <= 1 + 2 * SUBSTREAM_PREFETCH + 1
        sink.cancel()

    run_in_virtual_time(main())


def test_endless_keys_take_no_more_memory_than_their_limit() -> None:
    sizes: list[int] = []

    def look(n: int) -> None:
        if n % 4_000 == 3_999:
            sizes.append(live(Substream, Part, Inner))

    groups = Source.from_iterable(range(8_000)).group_by(4, lambda n: n, allow_closed_substream_recreation=True)
    assert groups.take(1).merge_substreams().to(Sink.foreach(look)).run_blocking() == 8_000
    assert len(sizes) == 2
    assert max(sizes) <= 3 * 2 * 4, "substreams that are over are still held"


def test_the_stack_stays_flat_however_many_substreams_come_and_go_on_the_spot() -> None:
    count = 20_000
    groups = immediate(range(count)).group_by(1, lambda n: n, allow_closed_substream_recreation=True)
    assert groups.take(1).merge_substreams().to(Sink.foreach(lambda _: None)).run_blocking() == count


def test_fewer_substreams_at_a_time_do_where_they_end_by_themselves() -> None:
    groups = Source.from_iterable([1, 2, 3, 4]).group_by(4, lambda n: n)
    assert groups.take(1).concat_substreams().to(Sink.collect()).run_blocking() == [1, 2, 3, 4]
    assert groups.take(1).merge_substreams_with_parallelism(1).to(Sink.collect()).run_blocking() == [1, 2, 3, 4]


@pytest.mark.parametrize("flow", [False, True], ids=["source", "flow"])
def test_what_could_only_hang_is_refused(flow: bool) -> None:
    """Fewer at a time than there may be, and none ends before the stream."""
    start: Any = Flow[int, int].identity() if flow else Source.range(10)
    for lasting in (
        start.group_by(2, parity),
        start.group_by(2, parity).map(str).filter(bool).scan("", str.__add__),
        start.group_by(2, parity).via(Flow[int, int].identity().map(str).grouped(2)),
        start.group_by(2, parity).map(str).with_supervision(Supervision.resuming),
    ):
        with pytest.raises(
            ValueError, match=r"concat_substreams takes 1 of the up to 2 substreams .* merge_substreams\(\)"
        ):
            lasting.concat_substreams()
        with pytest.raises(ValueError, match="merge_substreams_with_parallelism takes 1 of"):
            lasting.merge_substreams_with_parallelism(1)
        lasting.merge_substreams_with_parallelism(2)
    start.group_by(1, parity).concat_substreams()
    start.group_by(2, parity).map(str).take(1).concat_substreams()
    start.group_by(2, parity).via(Flow.from_stage(lambda downstream, _m: downstream, "of my own")).concat_substreams()
    start.split_when(parity).map(str).concat_substreams()


def test_every_operator_that_is_said_to_last_lasts() -> None:
    ends = {case.name.split(",")[0] for case in every.flows() if case.ends}
    assert LASTING & ends <= {"buffer", "delay"}, "whose strategy FAIL fails all"
    assert {name for name in dir(Flow) if not name.startswith("_")} >= LASTING - {"identity"}


@pytest.mark.parametrize("when", range(6))
def test_cancelling_the_run_at_any_step_leaves_nothing_behind(when: int) -> None:
    async def run() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.group_by(2, parity).map_async(1, later).merge_substreams().to(sink).run()
        await sink.expect_subscription()
        steps: list[Callable[[], object]] = [
            lambda: sink.request(1),
            lambda: source.probe.send_next(0),
            lambda: source.probe.send_next(1),
            lambda: source.probe.send_next(2),
            lambda: sink.request(2),
        ]
        for step in steps[:when]:
            step()
            await settle()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert source.probe.cancelled
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def main() -> None:
        before = live(Substream, Part)
        await run()
        assert live(Substream, Part) == before

    run_in_virtual_time(main())


@given(
    elements=st.lists(st.integers(0, 50), max_size=60),
    keys=st.integers(1, 6),
    asks=st.lists(st.integers(1, 9), max_size=30),
    slow=st.booleans(),
)
def test_merged_substreams_are_all_elements_in_order_within_each_key(
    elements: list[int], keys: int, asks: list[int], slow: bool
) -> None:
    async def main() -> None:
        sink = TestSink[int]()
        groups = Source.from_iterable(elements).group_by(keys, lambda n: n % keys)
        running = (groups.map_async(2, later) if slow else groups).merge_substreams().to(sink).run()
        await sink.expect_subscription()
        for n in asks:
            sink.request(n)
            await settle(0.1)
        sink.request(len(elements) + 1)
        await running
        seen = [signal.element for signal in sink._signals if hasattr(signal, "element")]
        assert sink.violations == []
        if not slow:
            assert seen == elements
        for each in range(keys):
            assert [n for n in seen if n % keys == each] == [n for n in elements if n % keys == each]
        assert len(seen) == len(elements)

    run_in_virtual_time(main())
