"""flat_map_concat and flat_map_merge: sources of a stream's elements, run in the same run, and let go of one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import Flow, Materialization, Sink, Source, Subscriber, Subscription
from streams.materialize import Part
from streams.stages.flatten import SUBSTREAM_PREFETCH, Inner
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle
from tests.streams.substream_probes import immediate, later, live


def flat(kind: str, stream: Any, f: Callable[[Any], Any], breadth: int = 4) -> Any:
    return stream.flat_map_concat(f) if kind == "flat_map_concat" else stream.flat_map_merge(breadth, f)


def up_to(n: int) -> Source[int]:
    return Source.from_iterable(range(n))


every_kind = pytest.mark.parametrize("kind", ["flat_map_concat", "flat_map_merge"])


def test_sources_come_one_after_the_other() -> None:
    flow = Flow[int, int].identity().flat_map_concat(up_to)
    assert up_to(4).via(flow).to(Sink.collect()).run_blocking() == [0, 0, 1, 0, 1, 2]


def test_merged_sources_run_at_the_same_time() -> None:
    async def main() -> None:
        async def wait(n: int) -> int:
            await elapse(n)
            return n

        waits = Source.of(3, 1, 2).flat_map_merge(3, lambda n: Source.single(n).map_async(1, wait))
        assert await waits.to(Sink.collect()).run() == [1, 2, 3]
        assert asyncio.get_running_loop().time() == pytest.approx(3)

    run_in_virtual_time(main())


def test_no_more_sources_are_open_than_the_breadth() -> None:
    async def main() -> None:
        outer, sink = TestSource[int](), TestSink[int]()
        inner = [TestSource[int]() for _ in range(3)]
        running = outer.flat_map_merge(2, lambda n: inner[n]).to(sink).run()
        await outer.probe.expect_no_request()
        await sink.expect_subscription()
        sink.request(1)
        await outer.probe.expect_request(2)
        outer.probe.send_next(0, 1)
        await outer.probe.expect_no_request()
        for each in inner[:2]:
            await each.probe.expect_request(SUBSTREAM_PREFETCH)
        inner[0].probe.send_next(7, 8)
        inner[0].probe.send_complete()
        await sink.expect_next(7)
        await outer.probe.expect_no_request()
        sink.request(1)
        await sink.expect_next(8)
        await outer.probe.expect_request(1)
        outer.probe.send_next(2)
        await inner[2].probe.expect_request(SUBSTREAM_PREFETCH)
        sink.cancel()
        assert inner[1].probe.cancelled
        assert inner[2].probe.cancelled
        assert not inner[0].probe.cancelled
        assert outer.probe.cancelled
        await running

    run_in_virtual_time(main())


def test_room_in_a_merged_source_is_asked_for_in_steps_of_half() -> None:
    async def main() -> None:
        inner, sink = TestSource[int](), TestSink[int]()
        Source.single(0).flat_map_merge(2, lambda _: inner).to(sink).run()
        await sink.expect_subscription()
        sink.request(SUBSTREAM_PREFETCH // 2)
        await inner.probe.expect_request(SUBSTREAM_PREFETCH)
        inner.probe.send_next(*range(SUBSTREAM_PREFETCH))
        await inner.probe.expect_request(SUBSTREAM_PREFETCH // 2)
        await inner.probe.expect_no_request()
        await sink.expect_next(*range(SUBSTREAM_PREFETCH // 2))
        await sink.expect_no_message()
        sink.cancel()

    run_in_virtual_time(main())


def test_concatenated_sources_get_the_demand_there_is_and_hold_nothing() -> None:
    async def main() -> None:
        outer, sink = TestSource[int](), TestSink[int]()
        inner = [TestSource[int]() for _ in range(2)]
        running = outer.flat_map_concat(lambda n: inner[n]).to(sink).run()
        await outer.probe.expect_no_request()
        sink.request(3)
        await outer.probe.expect_request(1)
        outer.probe.send_next(0)
        await inner[0].probe.expect_request(3)
        sink.request(2)
        await inner[0].probe.expect_request(2)
        inner[0].probe.send_next(1, 2)
        inner[0].probe.send_complete()
        await sink.expect_next(1, 2)
        await outer.probe.expect_request(1)
        outer.probe.send_next(1)
        await inner[1].probe.expect_request(3)
        outer.probe.send_complete()
        inner[1].probe.send_next(3, 4, 5)
        await sink.expect_next(3, 4, 5)
        inner[1].probe.send_complete()
        await sink.expect_complete()
        await running

    run_in_virtual_time(main())


@every_kind
def test_the_stream_ends_when_upstream_and_the_last_source_have(kind: str) -> None:
    async def main() -> None:
        outer, inner, sink = TestSource[int](), TestSource[int](), TestSink[int]()
        flat(kind, outer, lambda _: inner).to(sink).run()
        await sink.expect_subscription()
        sink.request(9)
        await outer.probe.expect_request()
        outer.probe.send_next(0)
        outer.probe.send_complete()
        await sink.expect_no_message()
        inner.probe.send_next(1)
        inner.probe.send_complete()
        await sink.expect_next(1)
        await sink.expect_complete()

    run_in_virtual_time(main())


@every_kind
def test_a_source_that_fails_fails_the_whole_and_stops_the_others(kind: str) -> None:
    async def main() -> None:
        outer, sink = TestSource[int](), TestSink[int]()
        inner = [TestSource[int]() for _ in range(2)]
        running = flat(kind, outer, lambda n: inner[n]).to(sink).run()
        await sink.expect_subscription()
        sink.request(9)
        await outer.probe.expect_request()
        outer.probe.send_next(0)
        if kind == "flat_map_merge":
            outer.probe.send_next(1)
        inner[0].probe.send_error(OSError("broken"))
        await sink.expect_error(OSError)
        assert outer.probe.cancelled
        assert inner[1].probe.cancelled is (kind == "flat_map_merge")
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


@every_kind
def test_a_failure_upstream_stops_the_sources(kind: str) -> None:
    async def main() -> None:
        outer, inner, sink = TestSource[int](), TestSource[int](), TestSink[int]()
        running = flat(kind, outer, lambda _: inner).to(sink).run()
        await sink.expect_subscription()
        sink.request(9)
        await outer.probe.expect_request()
        outer.probe.send_next(0)
        outer.probe.send_error(OSError("broken"))
        await sink.expect_error(OSError)
        assert inner.probe.cancelled
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


def cannot_be_created(_: int) -> Source[int]:
    def create(_m: Materialization) -> Any:
        raise OSError("no such file")

    return Source(create)


@every_kind
@pytest.mark.parametrize(
    ("f", "kind_of_error", "message"),
    [
        (lambda n: 1 // n, ZeroDivisionError, "by zero"),
        (lambda _: None, TypeError, "returns a source, not NoneType"),
        (lambda _: [1, 2], TypeError, "returns a source, not list"),
        (cannot_be_created, OSError, "no such file"),
    ],
)
def test_a_function_that_gives_no_source_fails_the_stream_naming_the_stage(
    kind: str, f: Callable[[int], Any], kind_of_error: type[Exception], message: str
) -> None:
    with pytest.raises(kind_of_error, match=message) as failure:
        flat(kind, Source.of(0), f).to(Sink.ignore()).run_blocking()
    assert any(f"in the stage {kind}" in note for note in failure.value.__notes__)


def test_there_must_be_room_for_a_source() -> None:
    with pytest.raises(ValueError, match="breadth must be more than 0"):
        Source.of(1).flat_map_merge(0, Source.single)


@every_kind
@pytest.mark.parametrize("state", ["no demand", "waiting for an element", "a source is at work", "draining"])
def test_cancelling_in_any_state_stops_everything(kind: str, state: str) -> None:
    async def run() -> None:
        outer, inner, sink = TestSource[int](), TestSource[int](), TestSink[int]()
        running = flat(kind, outer, lambda _: inner).to(sink).run()
        await sink.expect_subscription()
        if state != "no demand":
            sink.request(1)
            await outer.probe.expect_request()
        if state in {"a source is at work", "draining"}:
            outer.probe.send_next(0)
            await inner.probe.expect_request()
        if state == "draining":
            outer.probe.send_complete()
            inner.probe.send_next(1)
        sink.cancel()
        sink.cancel()
        assert outer.probe.cancelled is (state != "draining")
        assert inner.probe.cancelled is (state in {"a source is at work", "draining"})
        await running

    async def main() -> None:
        before = live(Part, Inner)
        await run()
        assert live(Part, Inner) == before

    run_in_virtual_time(main())


@every_kind
def test_elements_on_their_way_after_the_end_go_nowhere_rule_2_8(kind: str) -> None:
    async def main() -> None:
        outer, inner, sink = TestSource[int](), TestSource[int](), TestSink[int]()
        running = flat(kind, outer, lambda _: inner).to(sink).run()
        await sink.expect_subscription()
        sink.request(5)
        await outer.probe.expect_request()
        outer.probe.send_next(0)
        sink.cancel()
        inner.probe.subscriber.on_next(1)
        inner.probe.subscriber.on_complete()
        outer.probe.subscriber.on_next(0)
        outer.probe.subscriber.on_complete()
        await sink.expect_no_message()
        await running

    run_in_virtual_time(main())


@every_kind
def test_none_is_refused_of_a_source_rule_2_13(kind: str) -> None:
    async def main() -> None:
        inner: TestSource[Any] = TestSource()
        running = flat(kind, Source.of(0), lambda _: inner).to(Sink.ignore()).run()
        await inner.probe.expect_request()
        subscriber = inner.probe.subscriber
        for signal in (subscriber.on_next, subscriber.on_error, subscriber.on_subscribe):
            with pytest.raises(TypeError, match=r"2\.13"):
                signal(None)  # type: ignore[arg-type]
        running.abandon()

    run_in_virtual_time(main())


@every_kind
def test_a_second_subscription_of_a_source_is_cancelled_rule_2_5(kind: str) -> None:
    class Second(Subscription):
        cancelled = False

        def request(self, n: int) -> None:
            raise AssertionError("a second subscription is not to be asked")

        def cancel(self) -> None:
            self.cancelled = True

    async def main() -> None:
        inner = TestSource[int]()
        running = flat(kind, Source.of(0), lambda _: inner).to(Sink.ignore()).run()
        await inner.probe.expect_request()
        second = Second()
        inner.probe.subscriber.on_subscribe(second)
        assert second.cancelled
        running.abandon()
        await settle()
        late = Second()
        inner.probe.subscriber.on_subscribe(late)
        assert late.cancelled

    run_in_virtual_time(main())


@every_kind
def test_what_a_source_registers_with_its_run_is_done_when_the_source_is_over(kind: str) -> None:
    async def main() -> None:
        ended: list[int] = []
        later_on: list[int] = []

        def registering(n: int) -> Source[int]:
            def create(m: Materialization) -> Any:
                m.on_end(lambda: ended.append(n))
                return Source.single(n).create(m)

            return Source(create)

        async def look(n: int) -> None:
            await settle()
            later_on.append(len(ended))

        await flat(kind, Source.of(0, 1, 2), registering, breadth=1).to(Sink.foreach_async(1, look)).run()
        assert ended == [0, 1, 2]
        assert later_on[1] >= 1, "the first source's work was put off to the end of the run"

    run_in_virtual_time(main())


@every_kind
def test_tasks_of_a_source_end_with_it(kind: str) -> None:
    async def main() -> None:
        closed: list[int] = []

        async def count(n: int) -> AsyncIterator[int]:
            try:
                for i in range(n):
                    yield i
            finally:
                closed.append(n)

        firsts = flat(kind, Source.of(5, 6), lambda n: Source.from_async_iterable(lambda: count(n)).take(1), breadth=1)
        assert await firsts.to(Sink.collect()).run() == [0, 0]
        assert closed == [5, 6]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())


@every_kind
def test_sources_that_are_over_are_let_go_of(kind: str) -> None:
    sizes: list[int] = []

    def look(n: int) -> None:
        if n % 4_000 == 3_999:
            sizes.append(live(Part, Inner))

    flat(kind, up_to(8_000), Source.single).to(Sink.foreach(look)).run_blocking()
    assert len(sizes) == 2
    assert max(sizes) <= 2 * 4


@every_kind
@pytest.mark.parametrize("elements", [(), (1,), (1, 2, 3)])
def test_the_stack_stays_flat_however_many_sources_emit_and_end_on_the_spot(
    kind: str, elements: tuple[int, ...]
) -> None:
    sources = 20_000
    flattened = flat(kind, immediate(range(sources)), lambda _: immediate(elements))
    assert flattened.to(Sink.foreach(lambda _: None)).run_blocking() == sources * len(elements)


@every_kind
def test_the_stack_stays_flat_when_downstream_asks_for_one_at_a_time(kind: str) -> None:
    class OneByOne(Subscriber[int]):
        count = 0

        def on_subscribe(self, subscription: Subscription) -> None:
            self.subscription = subscription
            subscription.request(1)

        def on_next(self, element: int) -> None:
            self.count += 1
            self.subscription.request(1)

        def on_error(self, error: BaseException) -> None:
            raise AssertionError(error)

        def on_complete(self) -> None:
            """The end."""

    subscriber = OneByOne()
    flattened = flat(kind, immediate(range(20_000)), lambda n: immediate((n,)))
    flattened.to(Sink.from_subscriber(lambda: subscriber)).run_blocking()
    assert subscriber.count == 20_000


Asks = st.lists(st.integers(1, 9), max_size=20)


async def asked(stream: Any, asks: list[int], most: int) -> list[Any]:
    """What comes out of ``stream`` when it is asked for so many at a time."""
    sink = TestSink[Any]()
    running = stream.to(sink).run()
    await sink.expect_subscription()
    for n in asks:
        sink.request(n)
        await settle(0.1)
    sink.request(most + 1)
    await running
    assert sink.violations == []
    return [signal.element for signal in sink._signals if hasattr(signal, "element")]


def inner_of(elements: list[int], how: str) -> Source[int]:
    match how:
        case "immediate":
            return immediate(elements)
        case "slow":
            return Source.from_iterable(elements).map_async(2, later)
        case _:
            return Source.from_iterable(elements)


Inners = st.lists(
    st.tuples(
        st.lists(st.integers(0, 20), max_size=SUBSTREAM_PREFETCH + 4), st.sampled_from(["immediate", "slow", "turn"])
    ),
    max_size=10,
)


@given(inners=Inners, asks=Asks)
def test_flat_map_concat_is_what_lists_give(inners: list[tuple[list[int], str]], asks: list[int]) -> None:
    async def main() -> None:
        stream = Source.from_iterable(inners).flat_map_concat(lambda inner: inner_of(*inner))
        expected = [element for elements, _ in inners for element in elements]
        assert await asked(stream, asks, len(expected)) == expected

    run_in_virtual_time(main())


@given(inners=Inners, asks=Asks, breadth=st.integers(1, 4))
def test_flat_map_merge_gives_all_elements_in_order_within_each_source(
    inners: list[tuple[list[int], str]], asks: list[int], breadth: int
) -> None:
    async def main() -> None:
        numbered = Source.from_iterable(list(enumerate(inners)))
        stream = numbered.flat_map_merge(breadth, lambda pair: inner_of(*pair[1]).map(lambda n: (pair[0], n)))
        count = sum(len(elements) for elements, _ in inners)
        seen = await asked(stream, asks, count)
        for number, (elements, _) in enumerate(inners):
            assert [n for source, n in seen if source == number] == elements
        assert len(seen) == count

    run_in_virtual_time(main())
