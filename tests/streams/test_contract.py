"""What a subscriber that breaks rule 2.13 does to the run it is in, over every source; the rules themselves are in verification/."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from streams import Materialization, Publisher, Sink, StreamClosedError, Subscriber
from streams.testkit import TestSubscriber, run_in_virtual_time
from tests.streams.catalogue import every
from tests.streams.catalogue.case import FlowCase, SourceCase
from tests.streams.verification.runs import numbers

DEADLINE = 30.0


class Broken(Subscriber[Any]):
    def on_subscribe(self, subscription: Any) -> None:
        subscription.request(1)

    def on_next(self, element: Any) -> None:
        raise OSError("a broken subscriber")

    def on_error(self, error: BaseException) -> None: ...

    def on_complete(self) -> None: ...


def attach_broken(publisher: Publisher[Any], m: Materialization) -> asyncio.Future[None]:
    publisher.subscribe(Broken())
    return m.loop.create_future()


async def fails(graph: Any) -> None:
    running = graph.run()
    with pytest.raises(OSError, match="a broken subscriber"):
        async with asyncio.timeout(DEADLINE):
            await running


@pytest.mark.parametrize("case", every.sources(), ids=lambda case: case.name)
def test_a_subscriber_that_raises_fails_the_run_of_a_source(case: SourceCase) -> None:
    source = case.exactly(3) if case.exactly else case.endless().take(3)  # type: ignore[misc]  # it has one or the other
    main = fails(source.to(Sink(attach_broken)))
    if case.virtual_time:
        run_in_virtual_time(main)
    else:
        asyncio.run(main)


@pytest.mark.parametrize("case", [case for case in every.flows() if case.identity], ids=lambda case: case.name)
def test_a_subscriber_that_raises_fails_the_run_of_an_operator(case: FlowCase) -> None:
    assert case.identity is not None
    main = fails(numbers(3).via(case.identity()).to(Sink(attach_broken)))
    if case.virtual_time:
        run_in_virtual_time(main)
    else:
        asyncio.run(main)


def test_a_publisher_for_one_subscriber_refuses_another_with_an_error_signal() -> None:
    async def main() -> None:
        running = numbers(3).run_with(Sink.as_publisher(), lambda _source, publisher: publisher)
        first, second = TestSubscriber[int](), TestSubscriber[int]()
        running.value.subscribe(first)
        running.value.subscribe(second)
        await second.expect_subscription_and_error(StreamClosedError)
        assert await first.to_strict() == [0, 1, 2]
        await running

    run_in_virtual_time(main())
