"""split_when and split_after: where a stream is cut, and what holds up what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import Flow, Materialization, Publisher, Sink, Source, SubFlow, SubSource
from streams.materialize import Part
from streams.operators.substreams import SPLIT_BREADTH
from streams.stages.flatten import Inner
from streams.stages.substream import Substream
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle
from tests.streams.substream_probes import immediate, later, live, raw, subscribed


def third(n: int) -> bool:
    return n % 3 == 0


def cut(kind: str, stream: Any, predicate: Callable[[int], object]) -> Any:
    return getattr(stream, kind)(predicate)


def pieces(kind: str, elements: list[int], predicate: Callable[[int], object]) -> list[list[int]]:
    """What the substreams hold, made with lists."""
    lists: list[list[int]] = []
    begins = True
    for element in elements:
        if begins or (kind == "split_when" and predicate(element)):
            lists.append([])
        lists[-1].append(element)
        begins = kind == "split_after" and bool(predicate(element))
    return lists


every_kind = pytest.mark.parametrize("kind", ["split_when", "split_after"])
whole = Flow[int, int].identity().grouped(1000)


@pytest.mark.parametrize(
    ("kind", "lists"),
    [("split_when", [[0, 1, 2], [3, 4, 5], [6, 7]]), ("split_after", [[0], [1, 2, 3], [4, 5, 6], [7]])],
)
def test_the_stream_is_cut_before_or_after_the_elements_picked(kind: str, lists: list[list[int]]) -> None:
    split = cut(kind, Source.from_iterable(range(8)), third)
    assert isinstance(split, SubSource)
    assert split.via(whole).concat_substreams().to(Sink.collect()).run_blocking() == lists
    flow = cut(kind, Flow.identity(), third)
    assert isinstance(flow, SubFlow)
    merged = flow.via(whole).merge_substreams()
    assert Source.from_iterable(range(8)).via(merged).to(Sink.collect()).run_blocking() == lists


@every_kind
def test_no_substream_is_empty(kind: str) -> None:
    assert cut(kind, Source.empty(), third).to(Sink.ignore()).run_blocking() == 0
    assert cut(kind, Source.of(0), third).to(Sink.ignore()).run_blocking() == 1
    assert cut(kind, Source.of(0, 3, 6), third).via(whole).to(Sink.head()).run_blocking() == 3


def test_the_predicate_is_asked_once_of_an_element_and_of_none_that_begins_the_first_substream() -> None:
    asked: list[int] = []

    def ask(n: int) -> bool:
        asked.append(n)
        return third(n)

    Source.from_iterable(range(5)).split_when(ask).concat_substreams().to(Sink.ignore()).run_blocking()
    assert asked == [1, 2, 3, 4]
    asked.clear()
    Source.from_iterable(range(5)).split_after(ask).concat_substreams().to(Sink.ignore()).run_blocking()
    assert asked == [0, 1, 2, 3, 4]


@every_kind
def test_each_substream_can_have_a_sink_and_the_run_waits_for_all(kind: str) -> None:
    async def main() -> None:
        seen: list[int] = []

        async def store(n: int) -> None:
            await elapse(1)
            seen.append(n)

        count = await cut(kind, Source.from_iterable(range(1, 7)), third).to(Sink.foreach_async(1, store)).run()
        assert count == len(pieces(kind, [1, 2, 3, 4, 5, 6], third))
        assert sorted(seen) == [1, 2, 3, 4, 5, 6]

    run_in_virtual_time(main())


def test_no_more_sinks_are_at_work_than_the_breadth_and_all_substreams_get_one() -> None:
    async def main() -> None:
        at_work = 0
        most = 0

        async def store(_: int) -> None:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            await elapse(1)
            at_work -= 1

        source = Source.from_iterable(range(3 * SPLIT_BREADTH)).split_when(lambda _: True)
        assert await source.to(Sink.foreach_async(2, store)).run() == 3 * SPLIT_BREADTH
        assert most == SPLIT_BREADTH
        assert asyncio.get_running_loop().time() == pytest.approx(3)

    run_in_virtual_time(main())


def test_what_the_sink_of_a_substream_owns_ends_with_it() -> None:
    async def main() -> None:
        ended: list[float] = []

        class Owner:
            def attach_sink(self, publisher: Publisher[int], m: Materialization, /) -> asyncio.Future[Any]:
                m.on_end(lambda: ended.append(m.loop.time()))
                return Sink.foreach_async(2, elapse).attach_sink(publisher, m)

        assert await Source.of(3, 1, 2).split_when(lambda _: True).to(Owner()).run() == 3
        assert ended == pytest.approx([1, 2, 3])

    run_in_virtual_time(main())


@every_kind
def test_a_predicate_that_fails_fails_the_stream_and_the_open_substream(kind: str) -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        running = source.via(raw(cut(kind, Flow.identity(), lambda n: 1 // n > 1))).to(out).run()
        await out.expect_subscription()
        out.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        substream = subscribed(await out.expect_next())
        await substream.request_next(1)
        substream.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(0)
        await substream.expect_error(ZeroDivisionError)
        error = await out.expect_error(ZeroDivisionError)
        assert any(kind in note for note in error.__notes__)
        assert source.probe.cancelled
        with pytest.raises(ZeroDivisionError):
            await running

    run_in_virtual_time(main())


def test_a_cut_ends_the_substream_and_the_element_waits_until_the_next_is_wanted() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        running = source.via(raw(Flow[int, int].identity().split_when(third))).to(out).run()
        await out.expect_subscription()
        out.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        first = subscribed(await out.expect_next())
        await first.request_next(1)
        await source.probe.expect_no_request()
        first.request(5)
        await source.probe.expect_request(1)
        source.probe.send_next(3)
        await first.expect_complete()
        await source.probe.expect_no_request()
        source.probe.send_complete()
        await out.expect_no_message()
        out.request(1)
        second = subscribed(await out.expect_next())
        await second.request_next(3)
        await second.expect_complete()
        await out.expect_complete()
        await running

    run_in_virtual_time(main())


@every_kind
def test_a_substream_that_is_cancelled_drops_its_elements_up_to_the_next_cut(kind: str) -> None:
    firsts = cut(kind, Source.from_iterable(range(9)), third).take(1).concat_substreams()
    assert firsts.to(Sink.collect()).run_blocking() == [each[0] for each in pieces(kind, list(range(9)), third)]


@every_kind
def test_a_declined_stream_goes_on_to_the_end_of_the_open_substream(kind: str) -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        source.via(raw(cut(kind, Flow.identity(), third))).to(out).run()
        await out.expect_subscription()
        out.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        substream = subscribed(await out.expect_next())
        out._subscription.cancel()  # type: ignore[union-attr]  # without ending the probe's run, as its cancel would
        substream.request(9)
        await substream.expect_next(1)
        source.probe.send_next(2)
        await substream.expect_next(2)
        assert not source.probe.cancelled
        source.probe.send_next(3)
        if kind == "split_after":
            await substream.expect_next(3)
        await substream.expect_complete()
        assert source.probe.cancelled
        out.cancel()

    run_in_virtual_time(main())


@every_kind
def test_when_downstream_and_the_open_substream_cancel_upstream_is_cancelled(kind: str) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        cut(kind, source, third).concat_substreams().to(sink).run()
        await sink.expect_subscription()
        sink.request(5)
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        await sink.expect_next(1)
        sink.cancel()
        await source.probe.expect_cancellation()

    run_in_virtual_time(main())


@every_kind
def test_a_failure_upstream_reaches_the_open_substream(kind: str) -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        running = source.via(raw(cut(kind, Flow.identity(), third))).to(out).run()
        await out.expect_subscription()
        out.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        substream = subscribed(await out.expect_next())
        source.probe.send_error(OSError("broken"))
        await substream.expect_error(OSError)
        await out.expect_error(OSError)
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


@every_kind
def test_substreams_that_are_over_are_let_go_of(kind: str) -> None:
    sizes: list[int] = []

    def look(n: int) -> None:
        if n % 4_000 == 3_999:
            sizes.append(live(Substream, Part, Inner))

    cut(kind, Source.from_iterable(range(8_000)), third).concat_substreams().to(Sink.foreach(look)).run_blocking()
    assert len(sizes) == 2
    assert max(sizes) <= 3 * 2


@every_kind
@pytest.mark.parametrize("end", ["concat_substreams", "merge_substreams"])
def test_the_stack_stays_flat_however_short_the_substreams_are(kind: str, end: str) -> None:
    split = getattr(cut(kind, immediate(range(10_000)), lambda _: True), end)()
    assert split.to(Sink.foreach(lambda _: None)).run_blocking() == 10_000


@every_kind
@given(
    elements=st.lists(st.integers(0, 20), max_size=50),
    asks=st.lists(st.integers(1, 9), max_size=20),
    slow=st.booleans(),
    end=st.sampled_from(["concat_substreams", "merge_substreams"]),
)
def test_substreams_put_together_again_are_what_was_cut(
    kind: str, elements: list[int], asks: list[int], slow: bool, end: str
) -> None:
    async def main() -> None:
        sink = TestSink[Any]()
        split = cut(kind, Source.from_iterable(elements), third)
        running = getattr((split.map_async(2, later) if slow else split).via(whole), end)().to(sink).run()
        await sink.expect_subscription()
        for n in asks:
            sink.request(n)
            await settle(0.1)
        sink.request(len(elements) + 1)
        await running
        seen = [signal.element for signal in sink._signals if hasattr(signal, "element")]
        assert sink.violations == []
        expected = pieces(kind, elements, third)
        if slow and end == "merge_substreams":
            assert sorted(seen) == sorted(expected)
        else:
            assert seen == expected

    run_in_virtual_time(main())
