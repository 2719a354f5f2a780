"""`IdentityProcessorVerification`: a processor that lets elements through is bound by the rules of both its sides (4.1)."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Iterable
from typing import Generic, TypeVar

from streams.contract import UNBOUNDED, Processor, Publisher, Subscriber
from streams.materialize import Materialization
from streams.publishers.iterable import IterablePublisher
from streams.testkit.verification.base import checks, made, skip
from streams.testkit.verification.environment import fail
from streams.testkit.verification.manual_publisher import ManualPublisher
from streams.testkit.verification.manual_subscriber import ManualSubscriber
from streams.testkit.verification.publisher import PublisherVerification
from streams.testkit.verification.whitebox import SubscriberWhiteboxVerification
from streams.testkit.verification.whitebox_probe import ProbingSubscriber, WhiteboxProbe

T = TypeVar("T")


class IdentityProcessorVerification(PublisherVerification[T], SubscriberWhiteboxVerification[T], Generic[T]):
    """The rules of Reactive Streams 1.0.4 for both sides of a processor that lets every element through, in order, and adds none.

    They are tests of the processor that a subclass makes::

        class TestBuffer(IdentityProcessorVerification[int]):
            def create_processor(self, buffer_size: int) -> Processor[int, int]:
                return Buffer(buffer_size)

            def create_element(self, n: int) -> int:
                return n

    Attributes:
        buffer_size: what `create_processor` is given.
        max_support_of_subscribers: subscribers the processor serves at once.
        coordinated_emission: with several subscribers, it moves only when all of them have asked.
    """

    _lost_error_rule = "4.1"

    buffer_size: int = 16
    max_support_of_subscribers: int = 1
    coordinated_emission: bool = False

    def create_processor(self, buffer_size: int) -> Processor[T, T] | Awaitable[Processor[T, T]]:
        """A new processor with a buffer of that many elements, if it has a buffer; it may be a coroutine function."""
        raise NotImplementedError("a processor's verification needs create_processor")

    async def create_publisher(self, elements: int) -> Publisher[T]:
        """A processor that is fed by a publisher of that many elements."""
        numbers: Iterable[int] = itertools.count() if elements >= UNBOUNDED else range(elements)
        processor = await made(self.create_processor(self.buffer_size))
        feed = IterablePublisher(Materialization(self.env.loop), lambda: map(self.create_element, numbers))
        feed.subscribe(processor)
        return processor

    async def create_failed_publisher(self) -> Publisher[T] | None:
        """A processor whose upstream has failed; None if it recovers from that."""
        if self.recovers:
            return None
        processor = await made(self.create_processor(self.buffer_size))
        upstream = ManualPublisher(self.env, processor, self.create_element)
        upstream.subscribe()
        upstream.error()
        return processor

    async def create_subscriber(self, probe: WhiteboxProbe[T]) -> Subscriber[T]:
        """A processor with a subscriber behind it that tells ``probe`` what comes out, and whose demand is the puppet's."""
        processor = await made(self.create_processor(self.buffer_size))
        processor.subscribe(ProbingSubscriber(probe))
        return processor

    @checks
    async def test_required_spec401_elements_go_through_in_order_under_demand(self) -> None:
        """What comes in goes out, no more of it than was requested, and then the end."""
        upstream, downstream = await self._between()
        await downstream.nothing("4.1", "nothing has been sent, or requested")
        sent: list[T] = []
        for n in (1, 2, 3):
            downstream.request(n)
            for _ in range(n):
                await upstream.subscription.expect_demand(1, "4.1")
                sent.append(upstream.next())
            got = await downstream.elements(n, "4.1")
            if not self._agree(sent[-n:], got):
                fail("4.1", f"{sent[-n:]!r} went in, but {got!r} came out")
        upstream.complete()
        await downstream.complete("4.1")

    @checks
    async def test_required_spec401_a_cancellation_goes_up(self) -> None:
        """Its only subscriber's: the processor needs its own subscription no more."""
        upstream, downstream = await self._between()
        downstream.request(1)
        await upstream.subscription.expect_demand(1, "4.1")
        downstream.cancel()
        await upstream.subscription.expect_cancel("4.1", "the subscriber's cancellation to go up")

    @checks
    async def test_required_spec402_a_failure_goes_down_at_once(self) -> None:
        """Without any demand; the very error, and once."""
        if self.recovers:
            skip("the processor recovers from a failure")
        upstream, downstream = await self._between()
        error = upstream.error()
        got = await downstream.error("4.2")
        if got is not error:
            fail("4.2", f"{error!r} went in, but {got!r} came out")
        await downstream.nothing("4.2", "the stream has failed")

    @checks
    async def test_required_spec402_a_failure_goes_down_with_demand_left(self) -> None:
        """After the elements that were asked for."""
        upstream, downstream = await self._between()
        downstream.request(2)
        await upstream.subscription.expect_demand(1, "4.2")
        sent = upstream.next()
        if (got := await downstream.element("4.2")) != sent:
            fail("4.2", f"{sent!r} went in, but {got!r} came out")
        error = upstream.error()
        if self.recovers:
            await downstream.signal("4.2", "what the processor puts in the place of a failure")
        elif (failure := await downstream.error("4.2")) is not error:
            fail("4.2", f"{error!r} went in, but {failure!r} came out")

    @checks
    async def test_required_spec402_a_failure_cancels_the_subscription(self) -> None:
        """Whether the processor recovers or not, it does not use its subscription any more, whatever is requested of it."""
        upstream, downstream = await self._between()
        downstream.request(1)
        await upstream.subscription.expect_demand(1, "4.2")
        upstream.error()
        await self.env.quiet()
        downstream.request(1)
        downstream.cancel()
        await self.env.quiet()

    @checks
    async def test_required_spec104_a_failure_goes_to_all_subscribers(self) -> None:
        """Also to those that have asked for nothing."""
        upstream, first, second = await self._between_two()
        first.request(1)
        if self.coordinated_emission:
            second.request(1)
        await upstream.subscription.expect_demand(1, "1.4")
        sent = upstream.next()
        for subscriber in (first, second) if self.coordinated_emission else (first,):
            if (got := await subscriber.element("1.4")) != sent:
                fail("1.4", f"{sent!r} went in, but {got!r} came out")
        error = upstream.error()
        for subscriber in (first, second):
            if (failure := await subscriber.error("1.4")) is not error:
                fail("1.4", f"{error!r} went in, but {failure!r} came out")

    @checks
    async def test_required_spec201_it_requests_what_was_requested_of_it_long_ago(self) -> None:
        """Demand of one subscriber is not forgotten when another comes."""
        upstream, first = await self._between(subscribers=2)
        first.request(20)
        for _ in range(3):
            await self._one(upstream, first)
        second = await self.attach(self._processor, ManualSubscriber[T](self.env))
        if not self.coordinated_emission:
            await self._one(upstream, first)
        await second.nothing("2.1", "the second subscriber has not requested anything")
        second.request(1)
        if self.coordinated_emission:
            await self._one(upstream, first, second)
        await upstream.subscription.expect_demand(1, "2.1")
        upstream.complete()

    def _agree(self, sent: list[T], got: list[T]) -> bool:
        return sent == got if self.ordered else all(sent.count(element) == got.count(element) for element in sent)

    async def _one(self, upstream: ManualPublisher[T], *subscribers: ManualSubscriber[T]) -> None:
        await upstream.subscription.expect_demand(1, "2.1")
        sent = upstream.next()
        for subscriber in subscribers:
            if (got := await subscriber.element("2.1")) != sent:
                fail("2.1", f"{sent!r} went in, but {got!r} came out")

    async def _between(self, subscribers: int = 1) -> tuple[ManualPublisher[T], ManualSubscriber[T]]:
        """A processor with both sides in the kit's hands."""
        if subscribers > self.max_support_of_subscribers:
            skip(f"needs {subscribers} subscribers; the processor supports {self.max_support_of_subscribers}")
        self._processor = await made(self.create_processor(self.buffer_size))
        upstream = ManualPublisher(self.env, self._processor, self.create_element)
        upstream.subscribe()
        return upstream, await self.subscribe(self._processor)

    async def _between_two(self) -> tuple[ManualPublisher[T], ManualSubscriber[T], ManualSubscriber[T]]:
        upstream, first = await self._between(subscribers=2)
        return upstream, first, await self.subscribe(self._processor)
