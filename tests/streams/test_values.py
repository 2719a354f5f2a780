"""Materialized values: whose is kept, and the open ends that a run can have."""

from __future__ import annotations

import pytest

from streams import Flow, Keep, Sink, Source, StreamClosedError
from streams.testkit import TestSubscriber, run_in_virtual_time, settle


def named(value: object) -> Flow[int, int]:
    return Flow.valued(lambda publisher, _m: (publisher, value), "named")


@pytest.mark.parametrize(
    ("combine", "kept"),
    [(Keep.left, "a"), (Keep.right, "b"), (Keep.both, ("a", "b")), (Keep.none, None), (lambda a, b: a + b, "ab")],
)
def test_joined_flows_keep_the_value_that_combine_makes_of_theirs(combine: object, kept: object) -> None:
    async def main() -> None:
        flow = named("a").via(named("b"), combine)  # type: ignore[call-overload]
        running = Source.of(1, 2).via(flow, Keep.right).to(Sink.collect(), Keep.left).run()
        assert running.value == kept
        assert await running == [1, 2]

    run_in_virtual_time(main())


def test_the_first_value_there_is_is_kept_unless_told_otherwise() -> None:
    async def main() -> None:
        assert Source.of(1).via(named("a")).via(named("b")).map(str).to(Sink.ignore()).run().value == "a"
        queue, flow = Source.queue(1).via(named("a"), Keep.both).to(Sink.ignore()).run().value
        queue.complete()
        assert flow == "a"
        assert Source.of(1).via(named("a").map_materialized(str.upper)).to(Sink.ignore()).run().value == "A"

    run_in_virtual_time(main())


def test_a_flow_is_a_processor_between_a_publisher_and_a_subscriber() -> None:
    async def main() -> None:
        running = Flow[int, int].identity().map(lambda n: n * 2).take(2).to_processor().run()
        out = TestSubscriber[int]()
        running.value.subscribe(out)
        publisher = Source.from_iterable(range(10)).to(Sink.as_publisher()).run()
        publisher.value.subscribe(running.value)
        out.request(5)
        await out.expect_next(0, 2)
        await out.expect_complete()
        await running
        await publisher

    run_in_virtual_time(main())


def test_a_publisher_of_a_cancelled_run_fails_its_subscriber() -> None:
    async def main() -> None:
        running = Source.repeat(1).to(Sink.as_publisher(), Keep.right).run()
        out = TestSubscriber[int]()
        running.value.subscribe(out)
        out.request(1)
        await out.expect_next(1)
        running.cancel()
        await out.expect_error(StreamClosedError)
        await settle()
        assert running.done()

    run_in_virtual_time(main())


def test_what_ended_before_it_had_a_subscriber_is_told_to_the_one_that_comes() -> None:
    async def main() -> None:
        running = Source.empty().to(Sink.as_publisher(), Keep.right).run()
        await settle()
        out, late = TestSubscriber[int](), TestSubscriber[int]()
        running.value.subscribe(out)
        await out.expect_complete()
        running.value.subscribe(late)
        await late.expect_error(StreamClosedError)
        await running

    run_in_virtual_time(main())
