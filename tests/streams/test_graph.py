"""Descriptions: immutable, composable, run any number of times."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, TypeVar

import pytest

from streams import Flow, Processor, Publisher, Sink, Source, Subscriber, Subscription
from streams.testkit import run_in_virtual_time


def test_run_blocking_runs_from_synchronous_code() -> None:
    assert Source.of(1, 2, 3).map(lambda n: n * 2).to(Sink.fold(0, int.__add__)).run_blocking() == 12


def test_run_blocking_is_refused_on_a_running_loop() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"await graph\.run\(\)"):
            Source.of(1).to(Sink.ignore()).run_blocking()

    run_in_virtual_time(main())


def test_run_without_a_loop_names_what_to_call_instead() -> None:
    with pytest.raises(RuntimeError, match="run_blocking"):
        Source.of(1).to(Sink.ignore()).run()


def test_run_blocking_raises_the_streams_failure() -> None:
    with pytest.raises(OSError, match="broken"):
        Source.failed(OSError("broken")).to(Sink.ignore()).run_blocking()


def test_a_graph_runs_any_number_of_times_and_also_at_once() -> None:
    graph = Source.of(1, 2, 3).scan(0, int.__add__).grouped(2).to(Sink.collect())

    async def main() -> None:
        results = await asyncio.gather(graph.run(), graph.run())
        assert results == [[[0, 1], [3, 6]]] * 2
        assert await graph.run() == results[0]

    run_in_virtual_time(main())


def test_flows_and_sinks_compose_before_there_is_a_source() -> None:
    double = Flow[int, int].identity().map(lambda n: n * 2)
    both = double.via(Flow[int, int].identity().filter(lambda n: n > 2))
    sink = both.to(Sink.collect())
    assert Source.of(1, 2, 3).to(sink).run_blocking() == [4, 6]
    assert Source.of(1, 2, 3).via(both).map(str).to(Sink.collect()).run_blocking() == ["4", "6"]


def test_operators_leave_what_they_are_called_on_as_it_is() -> None:
    source = Source.of(1, 2, 3)
    source.map(str).take(1)
    assert source.to(Sink.collect()).run_blocking() == [1, 2, 3]


def test_names_tell_what_a_graph_is_made_of() -> None:
    graph = Source.of(1).map(str).via(Flow[str, str].identity().take(1)).to(Sink.collect())
    assert graph.name == "iterable -> map -> identity -> take -> collect"
    assert repr(graph) == f"<RunnableGraph {graph.name}>"


@pytest.mark.parametrize("wrong", [print, Source.of(1), Flow[Any, Any].identity()])
def test_to_takes_only_sinks(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"to\(\) takes a sink"):
        Source.of(1).to(wrong)
    with pytest.raises(TypeError, match=r"to\(\) takes a sink"):
        Flow[Any, Any].identity().to(wrong)


@pytest.mark.parametrize("wrong", [print, Source.of(1), Sink.ignore()])
def test_via_takes_only_flows(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"via\(\) takes a flow"):
        Source.of(1).via(wrong)
    with pytest.raises(TypeError, match=r"via\(\) takes a flow"):
        Flow[Any, Any].identity().via(wrong)


class Shout(Processor[str, str], Subscription):
    """A processor written by hand, as a user would."""

    def __init__(self) -> None:
        self.upstream: Subscription | None = None
        self.downstream: Subscriber[str] | None = None

    def subscribe(self, subscriber: Subscriber[str]) -> None:
        self.downstream = subscriber
        subscriber.on_subscribe(self)

    def on_subscribe(self, subscription: Subscription) -> None:
        self.upstream = subscription

    def request(self, n: int) -> None:
        assert self.upstream is not None
        self.upstream.request(n)

    def cancel(self) -> None:
        assert self.upstream is not None
        self.upstream.cancel()

    def on_next(self, element: str) -> None:
        assert self.downstream is not None
        self.downstream.on_next(element.upper())

    def on_error(self, error: BaseException) -> None:
        assert self.downstream is not None
        self.downstream.on_error(error)

    def on_complete(self) -> None:
        assert self.downstream is not None
        self.downstream.on_complete()


def test_a_processor_written_by_hand_is_a_flow() -> None:
    flow = Flow.from_processor(Shout)
    assert Source.of("a", "b", "c").via(flow).take(2).to(Sink.collect()).run_blocking() == ["A", "B"]


def test_publishers_and_subscribers_written_by_hand_are_sources_and_sinks() -> None:
    class One(Publisher[int], Subscription):
        def subscribe(self, subscriber: Subscriber[int]) -> None:
            self.subscriber = subscriber
            subscriber.on_subscribe(self)

        def request(self, n: int) -> None:
            self.subscriber.on_next(1)
            self.subscriber.on_complete()

        def cancel(self) -> None: ...

    class Keep(Subscriber[int]):
        def __init__(self) -> None:
            self.seen: list[object] = []

        def on_subscribe(self, subscription: Subscription) -> None:
            subscription.request(1)

        def on_next(self, element: int) -> None:
            self.seen.append(element)

        def on_error(self, error: BaseException) -> None:
            self.seen.append(error)

        def on_complete(self) -> None:
            self.seen.append("end")

    keep = Keep()
    Source.from_publisher(One).to(Sink.from_subscriber(lambda: keep)).run_blocking()
    assert keep.seen == [1, "end"]
    failing = Keep()
    with pytest.raises(OSError, match="broken"):
        Source.failed(OSError("broken")).to(Sink.from_subscriber(lambda: failing)).run_blocking()
    assert isinstance(failing.seen[0], OSError)


def test_the_stage_that_the_guide_shows_works() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "streams.md").read_text()
    example = next(block for block in guide.split("```python\n") if "class EverySecond" in block).split("```")[0]
    names: dict[str, Any] = {"Flow": Flow, "Subscriber": Subscriber, "Subscription": Subscription, "T": TypeVar("T")}
    exec(example, names)
    source = Source.from_iterable(range(1001)).via(names["flow"])
    assert source.take(300).to(Sink.collect()).run_blocking() == list(range(0, 600, 2))
    assert "every_second" in source.name
