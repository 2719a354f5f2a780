"""Sinks and what they result in."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass

import pytest

from streams import EmptyStreamError, LimitExceededError, Sink, Source, Subscriber, Subscription
from streams.testkit import TestPublisher, TestSource, run_in_virtual_time, settle


@dataclass
class Delivery:
    acknowledged: int = 0

    def acknowledge(self) -> None:
        self.acknowledged += 1


async def same_state(state: int, _element: object) -> int:
    return state


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
    assert result_of(Sink.head_option()) == 1
    assert result_of(Sink.last_option()) == 3
    assert result_of(Sink.take_last(2)) == [2, 3]
    assert result_of(Sink.take_last(9)) == [1, 2, 3]
    assert result_of(Sink.reduce(lambda a, b: a * 10 + b)) == 123
    assert result_of(Sink.cancelled()) is None


def test_collect_fails_at_the_element_after_its_limit() -> None:
    assert Source.of(1, 2).to(Sink.collect(2)).run_blocking() == [1, 2]
    with pytest.raises(LimitExceededError, match="2 elements") as caught:
        Source.repeat(1).to(Sink.collect(2)).run_blocking()
    assert caught.value.limit == 2
    with pytest.raises(ValueError, match="limit"):
        Sink.collect(-1)


@pytest.mark.parametrize("sink", [Sink.head(), Sink.last(), Sink.reduce(max)])
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
    "sink",
    [
        Sink.foreach(lambda n: 1 // n),
        Sink.fold(1, lambda state, n: state // n),
        Sink.reduce(lambda state, n: state // n),
    ],
    ids=["foreach", "fold", "reduce"],
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
    "fold_async": lambda: Sink.fold_async(0, same_state),
    "reduce": lambda: Sink.reduce(lambda state, _: state),
    "head": Sink.head,
    "head_option": Sink.head_option,
    "last": Sink.last,
    "last_option": Sink.last_option,
    "take_last": lambda: Sink.take_last(1),
    "on_complete": lambda: Sink.on_complete(str),
    "queue": Sink.queue,
    "as_async_iterator": Sink.as_async_iterator,
    "file": lambda: Sink.file(io.BytesIO()),
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

    if name == "file":  # its thread takes no virtual time
        asyncio.run(main())
    else:
        run_in_virtual_time(main())


def test_the_sinks_with_a_default_have_it_where_there_is_no_element() -> None:
    assert Source.empty().to(Sink.head_option()).run_blocking() is None
    assert Source.empty().to(Sink.last_option()).run_blocking() is None
    assert Source.empty().to(Sink.take_last(3)).run_blocking() == []
    with pytest.raises(ValueError, match="count"):
        Sink.take_last(0)


def test_cancelled_cancels_at_once_every_subscription() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.to(Sink.cancelled()).run()
        assert source.probe.cancelled
        await source.probe.expect_no_request()
        second = TestPublisher[int]()
        second.subscribe(source.probe.subscriber)
        assert second.cancelled
        for signal in (source.probe.subscriber.on_subscribe, source.probe.subscriber.on_next):
            with pytest.raises(TypeError, match=r"2\.13"):
                signal(None)  # type: ignore[arg-type]  # what is tested
        assert await running is None

    run_in_virtual_time(main())


def test_fold_async_awaits_each_step_before_it_asks_for_the_next_element() -> None:
    async def main() -> None:
        steps: asyncio.Queue[asyncio.Future[str | None]] = asyncio.Queue()

        async def step(state: str | None, n: int) -> str | None:
            future: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
            steps.put_nowait(future)
            return f"{state}{n}{await future}"

        source = TestSource[int]()
        running = source.to(Sink.fold_async(None, step)).run()
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        (await steps.get()).set_result("a")
        await source.probe.expect_request(1)
        source.probe.send_next(2)
        source.probe.send_complete()
        last = await steps.get()
        await settle()
        assert not running.done()
        last.set_result("b")
        assert await running == "None1a2b"

    run_in_virtual_time(main())


def test_fold_async_may_come_to_none_and_names_the_function_that_raises() -> None:
    async def to_none(state: object, n: int) -> None:
        return None

    async def broken(state: int, n: int) -> int:
        return state // n

    assert Source.of(1, 2).to(Sink.fold_async(0, to_none)).run_blocking() is None  # type: ignore[arg-type]
    assert Source.empty().to(Sink.fold_async(7, broken)).run_blocking() == 7
    with pytest.raises(ZeroDivisionError) as caught:
        Source.of(1, 0).to(Sink.fold_async(1, broken)).run_blocking()
    assert any("fold_async(" in note and "broken" in note for note in caught.value.__notes__)


def test_on_complete_tells_once_how_the_stream_ended() -> None:
    async def main() -> None:
        told: list[object] = []
        assert await Source.of(1, 2).run_with(Sink.on_complete(told.append)) is None
        failure = OSError("broken")
        with pytest.raises(OSError, match="broken"):
            await Source.failed(failure).run_with(Sink.on_complete(told.append))
        running = Source.never().to(Sink.on_complete(told.append)).run()
        await settle()
        running.cancel()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert told[:2] == [None, failure]
        assert [type(error) for error in told[2:]] == [asyncio.CancelledError]

    run_in_virtual_time(main())


def test_a_function_of_on_complete_that_raises_fails_a_completed_stream_and_is_reported_otherwise(
    loop_reports: list[str],
) -> None:
    calls: list[object] = []

    def broken(error: BaseException | None) -> None:
        calls.append(error)
        raise LookupError("a fault")

    with pytest.raises(LookupError, match="a fault") as caught:
        Source.of(1).to(Sink.on_complete(broken)).run_blocking()
    assert "in the sink on_complete(" in caught.value.__notes__[0]
    assert loop_reports == []
    with pytest.raises(OSError, match="first"):
        Source.failed(OSError("first")).to(Sink.on_complete(broken)).run_blocking()
    assert len(calls) == 2
    assert "broken) failed" in loop_reports[0]


def test_what_is_still_on_its_way_when_the_sink_is_over_is_not_acknowledged() -> None:
    async def main() -> None:
        source = TestSource[Delivery]()
        running = source.to(Sink.acknowledge()).run()
        done, late = Delivery(), Delivery()
        source.probe.send_next(done)
        running.cancel()
        source.probe.subscriber.on_next(late)
        assert (done.acknowledged, late.acknowledged) == (1, 0)
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())


def test_foreach_async_names_the_function_that_raises() -> None:
    async def broken(n: int) -> float:
        return 1 / n

    with pytest.raises(ZeroDivisionError) as caught:
        Source.of(0).to(Sink.foreach_async(2, broken)).run_blocking()
    assert any("foreach_async(" in note and "broken" in note for note in caught.value.__notes__)


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
