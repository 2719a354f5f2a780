"""What the probes expect: that each expectation is met by what it is for, and by nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from streams import UNBOUNDED, Sink, Source, Subscriber
from streams.testkit import TestPublisher, TestSink, TestSource, TestSubscriber, elapse, run_in_virtual_time, settle
from streams.testkit.verification import SubscriberWhiteboxVerification, WhiteboxProbe


async def fails(awaitable: Awaitable[Any], match: str) -> None:
    with pytest.raises(AssertionError, match=match):
        await awaitable


def joined(timeout: float = 3.0) -> tuple[TestPublisher[int], TestSubscriber[int]]:
    """Both probes, with a demand for 9 elements between them."""
    publisher, subscriber = TestPublisher[int](timeout), TestSubscriber[int](timeout)
    publisher.subscribe(subscriber)
    subscriber.request(9)
    return publisher, subscriber


def both(check: Callable[[TestPublisher[int], TestSubscriber[int]], Awaitable[None]]) -> None:
    async def main() -> None:
        await check(*joined())

    run_in_virtual_time(main())


def test_elements_are_expected_in_any_order() -> None:
    async def check(publisher: TestPublisher[int], subscriber: TestSubscriber[int]) -> None:
        publisher.send_next(3, 1, 2, 2)
        assert await subscriber.expect_next_unordered(1, 2, 2, 3) == [3, 1, 2, 2]
        publisher.send_next(1, 1)
        await fails(subscriber.expect_next_unordered(1, 2), r"expected one of next \[2\], got next 1")
        await fails(subscriber.expect_next_unordered(1), r"one of next \[1\], but nothing came for 3 s")

    both(check)


def test_a_number_of_elements_is_expected() -> None:
    async def check(publisher: TestPublisher[int], subscriber: TestSubscriber[int]) -> None:
        publisher.send_next(1, 2)
        assert await subscriber.expect_next_n(2) == [1, 2]
        publisher.send_next(3)
        publisher.send_complete()
        await fails(subscriber.expect_next_n(2), "expected element 2 of 2, got complete")

    both(check)


def test_an_element_or_the_end_is_expected() -> None:
    async def check(publisher: TestPublisher[int], subscriber: TestSubscriber[int]) -> None:
        publisher.send_next(1, 2, 3)
        assert await subscriber.expect_next_or_complete() == 1
        assert await subscriber.expect_next_or_complete(2) == 2
        await fails(subscriber.expect_next_or_complete(4), "expected next 4 or complete, got next 3")
        publisher.send_complete()
        assert await subscriber.expect_next_or_complete(4) is None

    both(check)


def test_a_failure_is_no_element_and_no_end() -> None:
    async def check(publisher: TestPublisher[int], subscriber: TestSubscriber[int]) -> None:
        publisher.send_error(KeyError("x"))
        await fails(subscriber.expect_next_or_complete(), r"expected next or complete, got error KeyError\('x'\)")

    both(check)


def test_an_element_or_a_failure_is_expected() -> None:
    async def check(publisher: TestPublisher[int], subscriber: TestSubscriber[int]) -> None:
        publisher.send_next(1, 2)
        assert await subscriber.expect_next_or_error(1) == 1
        await fails(subscriber.expect_next_or_error(1), "expected next 1 or error BaseException, got next 2")
        error = KeyError("x")
        publisher.send_error(error)
        assert await subscriber.expect_next_or_error(kind=LookupError) is error

    both(check)


def test_the_kind_of_a_failure_matters() -> None:
    async def check(publisher: TestPublisher[int], subscriber: TestSubscriber[int]) -> None:
        publisher.send_error(KeyError("x"))
        await fails(subscriber.expect_next_or_error(kind=OSError), "expected error OSError, got error KeyError")

    both(check)


def test_a_stream_without_elements_is_expected_with_its_subscription() -> None:
    async def main() -> None:
        empty, failed, full = TestSink[int](), TestSink[int](), TestSink[int]()
        Source.empty().to(empty).run()
        await empty.expect_subscription_and_complete()
        running = Source.failed(KeyError("x")).to(failed).run()
        assert isinstance(await failed.expect_subscription_and_error(KeyError), KeyError)
        Source.of(1, 2).to(full).run()
        await fails(full.expect_subscription_and_complete(), "expected complete, got next 1")
        full.cancel()
        with pytest.raises(KeyError):
            await running

    run_in_virtual_time(main())


def test_a_subscription_and_its_failure_need_no_demand_to_be_expected() -> None:
    async def main() -> None:
        publisher, subscriber = TestPublisher[int](), TestSubscriber[int]()
        publisher.subscribe(subscriber)
        publisher.send_error(OSError("x"))
        await subscriber.expect_subscription_and_error(OSError, request=0)
        await publisher.expect_no_request()

    run_in_virtual_time(main())


def test_elements_are_received_for_a_time() -> None:
    async def main() -> None:
        sink = TestSink[int]()
        Source.tick(1.0).to(sink).run()
        await sink.expect_subscription()
        sink.request(UNBOUNDED)
        assert await sink.receive_within(3.5) == [0, 1, 2, 3]
        assert await sink.receive_within(10.0, most=2) == [4, 5]
        await sink.expect_next(6)
        sink.cancel()

    run_in_virtual_time(main())


def test_elements_are_received_while_something_holds() -> None:
    async def check(publisher: TestPublisher[int], subscriber: TestSubscriber[int]) -> None:
        publisher.send_next(1)
        asyncio.get_running_loop().call_later(1.0, publisher.send_next, 2, 5, 6)
        assert await subscriber.receive_while(lambda n: n < 5) == [1, 2]
        await subscriber.expect_next(5, 6)
        publisher.send_next(1, 2, 3)
        assert await subscriber.receive_while(lambda _: True, most=2) == [1, 2]
        await subscriber.expect_next(3)
        await fails(subscriber.receive_while(lambda _: True), "an element, or what ends them, but nothing came")
        publisher.send_complete()
        assert await subscriber.receive_while(lambda _: True) == []
        await subscriber.expect_complete()

    both(check)


def test_a_whole_stream_is_received_up_to_a_bound() -> None:
    async def main() -> None:
        sink, long = TestSink[int](), TestSink[int]()
        Source.from_iterable(range(5)).to(sink).run()
        assert await sink.to_strict() == [0, 1, 2, 3, 4]
        Source.repeat(1).to(long).run()
        await fails(long.to_strict(most=10), "expected complete after at most 10 elements, got more")
        long.cancel()

    run_in_virtual_time(main())


def test_within_bounds_what_is_inside_and_says_what_it_waited_for() -> None:
    async def check(publisher: TestPublisher[int], subscriber: TestSubscriber[int]) -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(1.5, publisher.send_next, 1)
        with pytest.raises(AssertionError, match="was to take 1 s at most: expected next 1, but nothing came"):
            async with subscriber.within(1.0):
                await subscriber.expect_next(1)
        assert loop.time() == 1.0
        async with subscriber.within(1.0):
            await subscriber.expect_next(1)
        with pytest.raises(AssertionError, match=r"was to take 1 s at most$"):
            async with publisher.within(1.0):
                await elapse(2.0)
        assert loop.time() == 2.5

    both(check)


def test_within_gives_expectations_all_of_its_time_and_not_the_probes_timeout() -> None:
    async def check(publisher: TestPublisher[int], subscriber: TestSubscriber[int]) -> None:
        asyncio.get_running_loop().call_later(50.0, publisher.send_next, 1)
        async with subscriber.within(60.0):
            assert subscriber.remaining == 60.0
            await subscriber.expect_next(1)
            assert subscriber.remaining == 10.0
            async with subscriber.within(5.0):
                assert subscriber.remaining == 5.0
        assert subscriber.remaining == 3.0
        await fails(subscriber.expect_next(), "nothing came for 3 s")

    both(check)


def test_within_may_bound_from_below() -> None:
    async def check(publisher: TestPublisher[int], subscriber: TestSubscriber[int]) -> None:
        asyncio.get_running_loop().call_later(2.0, publisher.send_next, 1)
        async with subscriber.within(3.0, at_least=2.0):
            await subscriber.expect_next(1)
        publisher.send_next(2)
        with pytest.raises(AssertionError, match="at least 2 s, but took 0 s"):
            async with subscriber.within(3.0, at_least=2.0):
                await subscriber.expect_next(2)

    both(check)


def test_within_lets_failures_and_timeouts_of_what_is_inside_through() -> None:
    async def check(publisher: TestPublisher[int], subscriber: TestSubscriber[int]) -> None:
        publisher.send_next(1)
        with pytest.raises(AssertionError, match="expected next 2, got next 1"):
            async with subscriber.within(1.0):
                await subscriber.expect_next(2)
        with pytest.raises(TimeoutError, match="of its own"):
            async with subscriber.within(1.0):
                raise TimeoutError("of its own")
        assert subscriber.remaining == 3.0

    both(check)


def test_demand_is_expected_in_as_many_requests_as_it_takes() -> None:
    async def check(publisher: TestPublisher[int], subscriber: TestSubscriber[int]) -> None:
        assert await publisher.expect_demand(9) == 9
        asyncio.get_running_loop().call_later(1.0, subscriber.request, 1)
        assert await publisher.expect_demand(10) == 10
        publisher.send_next(1)
        await fails(publisher.expect_demand(10), "expected demand for 10")

    both(check)


def test_a_cancellation_that_may_not_come_is_noticed() -> None:
    async def check(publisher: TestPublisher[int], subscriber: TestSubscriber[int]) -> None:
        await publisher.expect_no_cancellation(5.0)
        subscriber.cancel()
        await publisher.expect_cancellation()
        await fails(publisher.expect_no_cancellation(), "expected no cancellation, got one")

    both(check)


def test_what_was_not_asked_for_can_be_sent_on_purpose() -> None:
    async def main() -> None:
        publisher, subscriber = TestPublisher[int](), TestSubscriber[int]()
        publisher.subscribe(subscriber)
        publisher.unsafe_send_next(1)
        await fails(subscriber.expect_next(1), "1.1: 1 came without demand")

    run_in_virtual_time(main())


def test_after_the_end_a_publisher_probe_takes_no_request() -> None:
    async def check(publisher: TestPublisher[int], subscriber: TestSubscriber[int]) -> None:
        await publisher.expect_request(9)
        publisher.send_complete()
        await subscriber.expect_complete()
        subscriber.request(1)
        subscriber.request(-1)
        await publisher.expect_no_request()
        await subscriber.expect_no_message()

    both(check)


def test_an_invalid_request_fails_the_stream_of_a_publisher_probe() -> None:
    async def check(publisher: TestPublisher[int], subscriber: TestSubscriber[int]) -> None:
        subscriber.request(0)
        assert "3.9" in str(await subscriber.expect_error(ValueError))
        await publisher.expect_cancellation()

    both(check)


def test_a_publisher_probe_refuses_nobody_as_a_subscriber() -> None:
    async def main() -> None:
        with pytest.raises(TypeError, match=r"2\.13"):
            TestPublisher[int]().subscribe(None)  # type: ignore[arg-type]  # what is tested

    run_in_virtual_time(main())


def test_a_test_source_fails_and_completes_its_run() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.to(Sink.collect()).run()
        await source.probe.expect_demand()
        source.probe.send_next(1, 2)
        source.probe.send_complete()
        assert await running == [1, 2]
        await settle()

    run_in_virtual_time(main())


class TestSubscriberProbe(SubscriberWhiteboxVerification[int]):
    """The probe keeps the rules itself."""

    def create_subscriber(self, probe: WhiteboxProbe[int]) -> Subscriber[int]:
        class Puppet:
            def trigger_request(self, n: int) -> None:
                subscriber.request(n)

            def signal_cancel(self) -> None:
                subscriber.cancel()

        class Telling(TestSubscriber[int]):
            def on_subscribe(self, subscription: Any) -> None:
                first = self._subscription is None
                super().on_subscribe(subscription)
                if first:
                    probe.register_on_subscribe(Puppet())

            def on_next(self, element: int) -> None:
                super().on_next(element)
                probe.register_on_next(element)

            def on_error(self, error: BaseException) -> None:
                super().on_error(error)
                probe.register_on_error(error)

            def on_complete(self) -> None:
                super().on_complete()
                probe.register_on_complete()

        subscriber = Telling()
        return subscriber

    def create_element(self, n: int) -> int:
        return n
