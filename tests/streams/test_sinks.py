"""Sinks and what they result in."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from streams import EmptyStreamError, LimitExceededError, Sink, Source, Subscriber, Subscription
from streams.testkit import TestPublisher, TestSource, run_in_virtual_time, settle


@dataclass
class Delivery:
    acknowledged: int = 0

    def acknowledge(self) -> None:
        self.acknowledged += 1


def test_each_sink_results_in_what_it_says() -> None:
    def result_of(sink: Sink[int, object]) -> object:
        return Source.of(1, 2, 3).to(sink).run_blocking()

    seen: list[int] = []
    assert result_of(Sink.foreach(seen.append)) == 3
    assert seen == [1, 2, 3]
    assert result_of(Sink.collect()) == [1, 2, 3]
    assert result_of(Sink.fold("", lambda text, n: text + str(n))) == "123"
    assert result_of(Sink.ignore()) is None
    assert result_of(Sink.head()) == 1
    assert result_of(Sink.last()) == 3


def test_collect_fails_at_the_element_after_its_limit() -> None:
    assert Source.of(1, 2).to(Sink.collect(2)).run_blocking() == [1, 2]
    with pytest.raises(LimitExceededError, match="2 elements") as caught:
        Source.repeat(1).to(Sink.collect(2)).run_blocking()
    assert caught.value.limit == 2
    with pytest.raises(ValueError, match="limit"):
        Sink.collect(-1)


@pytest.mark.parametrize("sink", [Sink.head(), Sink.last()])
def test_a_sink_that_needs_an_element_fails_without_one(sink: Sink[object, object]) -> None:
    with pytest.raises(EmptyStreamError):
        Source.empty().to(sink).run_blocking()


def test_head_asks_for_one_and_cancels() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.to(Sink.head()).run()
        await source.probe.expect_request(1)
        source.probe.send_next(7)
        assert source.probe.cancelled
        source.probe.subscriber.on_next(8)
        source.probe.subscriber.on_error(OSError("late"))
        assert await running == 7

    run_in_virtual_time(main())


def test_acknowledge_acknowledges_each_element_once_and_counts() -> None:
    deliveries = [Delivery() for _ in range(5)]
    assert Source.from_iterable(deliveries).to(Sink.acknowledge()).run_blocking() == 5
    assert [delivery.acknowledged for delivery in deliveries] == [1] * 5


def test_acknowledge_of_what_cannot_be_acknowledged_says_what_to_do() -> None:
    with pytest.raises(TypeError, match="must return the delivery"):
        Source.of("text").to(Sink.acknowledge()).run_blocking()  # type: ignore[type-var]  # what is tested


def test_an_acknowledgement_that_fails_fails_the_stream_with_its_own_error() -> None:
    class Lost:
        def acknowledge(self) -> None:
            raise AttributeError("inner")

    with pytest.raises(AttributeError, match="inner"):
        Source.of(Lost()).to(Sink.acknowledge()).run_blocking()


@pytest.mark.parametrize(
    "sink", [Sink.foreach(lambda n: 1 // n), Sink.fold(1, lambda state, n: state // n)], ids=["foreach", "fold"]
)
def test_a_function_that_raises_cancels_upstream_and_is_not_called_again(sink: Sink[int, object]) -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.to(sink).run()
        source.probe.send_next(1, 0)
        assert source.probe.cancelled
        source.probe.subscriber.on_next(0)
        source.probe.subscriber.on_complete()
        with pytest.raises(ZeroDivisionError) as caught:
            await running
        assert "in the sink" in caught.value.__notes__[0]
        assert "lambda" in caught.value.__notes__[0]

    run_in_virtual_time(main())


ALL_SINKS = {
    "foreach": lambda: Sink.foreach(str),
    "collect": Sink.collect,
    "fold": lambda: Sink.fold(0, lambda state, _: state),
    "ignore": Sink.ignore,
    "head": Sink.head,
    "last": Sink.last,
    "acknowledge": Sink.acknowledge,
    "foreach_async": lambda: Sink.foreach_async(1, lambda _: asyncio.sleep(0)),
}


@pytest.mark.parametrize("name", ALL_SINKS)
def test_the_rules_for_subscribers_hold_2_5_and_2_13(name: str) -> None:
    async def main() -> None:
        source = TestSource[object]()
        running = source.to(ALL_SINKS[name]()).run()  # type: ignore[operator]  # sinks of several types
        await source.probe.expect_request()
        second = TestPublisher[object]()
        second.subscribe(source.probe.subscriber)
        assert second.cancelled
        assert not source.probe.cancelled
        with pytest.raises(TypeError, match=r"2\.13"):
            source.probe.subscriber.on_next(None)
        with pytest.raises(TypeError, match=r"2\.13"):
            source.probe.subscriber.on_error(None)  # type: ignore[arg-type]  # what is tested
        running.cancel()
        assert source.probe.cancelled
        source.probe.subscriber.on_next(Delivery())
        source.probe.subscriber.on_complete()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())


def test_a_sink_that_is_cancelled_before_its_subscription_comes_cancels_that() -> None:
    class Late(TestPublisher[int]):
        def subscribe(self, subscriber: Subscriber[int]) -> None:
            self._subscriber = subscriber

    async def main() -> None:
        publisher = Late()
        running = Source.from_publisher(lambda: publisher).to(Sink.ignore()).run()
        running.cancel()
        publisher.subscriber.on_subscribe(publisher)
        assert publisher.cancelled
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())


def test_a_subscriber_of_ones_own_that_cancels_ends_the_sink_well() -> None:
    class Two(Subscriber[int]):
        def __init__(self) -> None:
            self.seen: list[int] = []

        def on_subscribe(self, subscription: Subscription) -> None:
            self.subscription = subscription
            subscription.request(5)

        def on_next(self, element: int) -> None:
            self.seen.append(element)
            if len(self.seen) == 2:
                self.subscription.cancel()

        def on_error(self, error: BaseException) -> None:
            raise AssertionError(error)

        def on_complete(self) -> None:
            raise AssertionError("complete")

    async def main() -> None:
        two = Two()
        source = TestSource[int]()
        running = source.to(Sink.from_subscriber(lambda: two)).run()
        source.probe.send_next(1, 2)
        await running
        assert source.probe.cancelled
        source.probe.subscriber.on_complete()
        await settle()
        assert two.seen == [1, 2]

    run_in_virtual_time(main())
