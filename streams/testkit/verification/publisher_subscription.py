"""Rules 3.2 to 3.17: what a publisher's subscription does when it is requested from, and when it is cancelled."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any, Final, Generic, TypeVar

from streams.contract import UNBOUNDED, Publisher
from streams.testkit.verification.base import checks, made, optional, skip
from streams.testkit.verification.cost import COSTLY, is_quick
from streams.testkit.verification.environment import Environment, fail
from streams.testkit.verification.manual_subscriber import EagerSubscriber, ManualSubscriber
from streams.testkit.verification.publisher_base import PublisherHooks, with_publisher

T = TypeVar("T")

ELEMENTS_IN_A_REQUEST: Final = 10_000
"""Elements that a call of request may give before it returns: more of them starve everything else on the loop (3.4)."""

RECURSION_ROUNDS: Final = 100
"""Elements asked for one by one from within on_next: a stack that grows with each would show."""

FURTHER_CALLS: Final = 1_000
"""Calls of cancel, and of request, on a subscription that is over."""

MESSAGES: Final = ("3.9", "at least 1", "positive")
"""One of these should be in the message of the error that rule 3.9 demands, so that who reads it knows what is wrong."""


class CountingSubscriber(ManualSubscriber[T], Generic[T]):
    """Counts what comes while `counted` calls something, and cancels when that does not end."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        self._before: int | None = None

    def counted(self, call: Any) -> int:
        """Calls ``call``; gives the signals that came from within it."""
        before = self._before = self.count + self.ended
        call()
        self._before = None
        return self.count + self.ended - before

    def received(self, _element: T) -> None:
        """Stops what does not stop."""
        if self._before is not None and self.count - self._before > ELEMENTS_IN_A_REQUEST:
            self.cancel()


class SubscriptionRules(PublisherHooks[T], Generic[T]):
    """What a publisher's subscription does."""

    @with_publisher(6)
    async def test_required_spec302_requests_within_on_subscribe_and_on_next_are_allowed(
        self, publisher: Publisher[T]
    ) -> None:
        """Three requests from within on_subscribe, and one from within each on_next, are all met."""
        subscriber = await self.attach(publisher, EagerSubscriber[T](self.env, (1, 1, 1), then=1))
        await subscriber.elements(6, "3.2")
        subscriber.cancel()

    @checks
    async def test_required_spec303_recursion_is_bounded(self) -> None:
        """A request from within on_next does not call on_next within it, beyond `bounded_depth`."""
        rounds = min(max(RECURSION_ROUNDS, self.bounded_depth + 1), self.max_elements)
        if rounds <= self.bounded_depth:
            skip(f"needs {self.bounded_depth + 1} elements, and the publisher gives {self.max_elements} at most")
        publisher = await made(self.create_publisher(rounds))
        subscriber = await self.attach(publisher, EagerSubscriber[T](self.env, (1,), then=1, stop=rounds))
        await subscriber.elements(rounds, "3.3")
        if subscriber.deepest > self.bounded_depth:
            fail(
                "3.3",
                f"{subscriber.deepest} calls of on_next were under way at once, each within a request in the one before; "
                f"bounded_depth allows {self.bounded_depth}",
            )

    @optional
    @with_publisher(UNBOUNDED)
    async def test_optional_spec304_a_request_returns_while_there_are_elements_left(
        self, publisher: Publisher[T]
    ) -> None:
        """An endless publisher that is asked for everything gives the loop a turn."""
        subscriber = await self.attach(publisher, CountingSubscriber[T](self.env))
        came = subscriber.counted(lambda: subscriber.request(UNBOUNDED))
        subscriber.cancel()
        if came > ELEMENTS_IN_A_REQUEST:
            fail("3.4", f"request({UNBOUNDED}) gave more than {ELEMENTS_IN_A_REQUEST} elements without returning")

    @with_publisher(5)
    async def test_required_spec305_cancel_signals_nothing_and_returns_quickly(self, publisher: Publisher[T]) -> None:
        """No signal comes from within cancel, and its work does not grow with the demand that is left."""
        subscriber = await self.attach(publisher, CountingSubscriber[T](self.env))
        subscriber.request(1)
        await subscriber.element("3.5")
        quick = True

        def cancel() -> None:
            nonlocal quick
            quick = is_quick(subscriber.cancel)

        came = subscriber.counted(cancel)
        if not quick:
            fail("3.5", f"cancel() ran more than {COSTLY} lines of Python, and was stopped")
        if came:
            fail("3.5", f"{came} signals came from within cancel()")

    @with_publisher(5)
    async def test_required_spec305_cancel_is_quick_with_much_demand_left(self, publisher: Publisher[T]) -> None:
        """A cancellation from within on_next, of a subscriber that has asked for very much, runs few lines."""
        quick: list[bool] = []

        class Leaving(ManualSubscriber[T]):
            def received(self, _element: T) -> None:
                if not quick:
                    quick.append(is_quick(self.cancel))

        subscriber = await self.attach(publisher, Leaving(self.env))
        subscriber.request(2**40)
        await subscriber.element("3.5")
        await subscriber.in_flight()
        if quick != [True]:
            fail("3.5", f"cancel() ran more than {COSTLY} lines of Python, and was stopped")

    @with_publisher(5)
    async def test_required_spec305_cancel_is_idempotent(self, publisher: Publisher[T]) -> None:
        """However often it is called, also from within on_next, nothing comes of it."""

        class Insistent(ManualSubscriber[T]):
            def received(self, _element: T) -> None:
                for _ in range(3):
                    self.cancel()

        subscriber = await self.attach(publisher, Insistent(self.env))
        subscriber.request(1)
        await subscriber.element("3.5")
        for _ in range(FURTHER_CALLS):
            subscriber.cancel()
        await subscriber.nothing("3.5", "it was cancelled")

    @with_publisher(5)
    async def test_required_spec306_requests_after_cancel_do_nothing(self, publisher: Publisher[T]) -> None:
        """Neither valid ones nor invalid ones."""
        subscriber = await self._cancelled(publisher, "3.6")
        for n in (1, 1, 3, UNBOUNDED, 0, -1):
            subscriber.request(n)
        await subscriber.nothing("3.6", "it was cancelled before it was requested from")

    @with_publisher(3)
    async def test_required_spec306_requests_after_a_cancel_without_any_request_do_nothing(
        self, publisher: Publisher[T]
    ) -> None:
        """A subscription may be cancelled before it is used."""
        subscriber = await self.subscribe(publisher)
        subscriber.cancel()
        for _ in range(3):
            subscriber.request(1)
        await subscriber.nothing("3.6", "it was cancelled before it was requested from")

    @with_publisher(3)
    async def test_required_spec307_further_cancels_do_nothing(self, publisher: Publisher[T]) -> None:
        """Neither at once nor later, and they raise nothing."""
        subscriber = await self._cancelled(publisher, "3.7")
        subscriber.cancel()
        subscriber.cancel()
        await subscriber.nothing("3.7", "it was cancelled")
        subscriber.cancel()
        await subscriber.nothing("3.7", "it was cancelled")

    @with_publisher(10)
    async def test_required_spec308_requests_add_up(self, publisher: Publisher[T]) -> None:
        """Requests made before, between and within signals give as many elements as their sum."""
        subscriber = await self.attach(publisher, EagerSubscriber[T](self.env, (1, 2)))
        subscriber.request(1)
        subscriber.request(2)
        await subscriber.elements(6, "3.8")
        subscriber.request(1)
        subscriber.request(1)
        await subscriber.elements(2, "3.8")
        await subscriber.nothing("3.8", "the 8 elements that were requested have come")
        subscriber.cancel()

    @with_publisher(10)
    async def test_required_spec309_a_request_of_zero_signals_value_error(self, publisher: Publisher[T]) -> None:
        """By on_error; request itself returns normally."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(0)
        await subscriber.error("3.9", ValueError)

    @with_publisher(10)
    async def test_required_spec309_a_negative_request_signals_value_error(self, publisher: Publisher[T]) -> None:
        """By on_error; request itself returns normally."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(-(2**31))
        await subscriber.error("3.9", ValueError)

    @with_publisher(10)
    async def test_required_spec309_an_invalid_request_between_valid_ones_signals_value_error(
        self, publisher: Publisher[T]
    ) -> None:
        """A subscription that has given elements is no more forgiving."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(1)
        await subscriber.element("3.9")
        subscriber.request(-1)
        await subscriber.error("3.9", ValueError)

    @optional
    @with_publisher(10)
    async def test_optional_spec309_the_error_says_what_was_wrong(self, publisher: Publisher[T]) -> None:
        """Its message has the rule's number, or says that a request must be positive."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(-1)
        message = str(await subscriber.error("3.9", ValueError))
        if not any(part in message for part in MESSAGES):
            fail("3.9", f"the error should say that a request must be positive, but says: {message}")

    @with_publisher(20)
    async def test_required_spec312_cancel_stops_the_elements(self, publisher: Publisher[T]) -> None:
        """Those on their way may come, but no more than were requested, and then none."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(10)
        subscriber.request(5)
        await subscriber.element("3.12")
        subscriber.cancel()
        await subscriber.in_flight()
        if subscriber.count > 15:
            fail("3.12", f"{subscriber.count} elements have come, but 15 were requested before the cancellation")
        await subscriber.nothing("3.12", "it was cancelled, and what was on its way has come")

    @with_publisher(20)
    async def test_required_spec313_a_cancelled_subscriber_is_let_go(self, publisher: Publisher[T]) -> None:
        """No reference to it is left with the publisher, which itself is still there."""
        gone = asyncio.Event()
        subscriber = await self._left(publisher, gone)
        await self.env.quiet()
        # References in a circle hold nothing for long, and are no fault. What the test made is young; the rest takes long to look through.
        for generation in (1, 2):
            if subscriber() is not None:
                gc.collect(generation)
        if subscriber() is not None:
            await self.env.wait(gone, "3.13", "the cancelled subscriber to be let go while its publisher is there")

    async def _left(self, publisher: Publisher[T], gone: asyncio.Event) -> weakref.ref[ManualSubscriber[T]]:
        """A subscriber that has cancelled, and that nobody but the publisher may still hold."""
        subscriber = await self.subscribe(publisher)
        env = self.env
        subscriber.request(1)
        await subscriber.element("3.13")
        subscriber.cancel()
        return weakref.ref(subscriber, lambda _: env.wake(gone))

    @with_publisher(3)
    async def test_required_spec314_a_subscriber_after_a_cancelled_one_is_served_or_told_the_end(
        self, publisher: Publisher[T]
    ) -> None:
        """A publisher may shut down when its subscriber cancels; then it tells the next one so."""
        await self._cancelled(publisher, "3.14")
        subscriber = await self.subscribe(publisher)
        subscriber.request(1)
        await subscriber.signal("3.14", "an element or the end, for a subscriber that has come after a cancelled one")

    @with_publisher(3, to_the_end=True)
    async def test_required_spec315_cancel_returns_normally(self, publisher: Publisher[T]) -> None:
        """After the end, and after a cancellation."""
        subscriber = await self._ended(publisher, "3.15")
        for _ in range(FURTHER_CALLS):
            subscriber.cancel()
        await subscriber.nothing("3.15", "the stream has ended")

    @with_publisher(3)
    async def test_required_spec315_cancel_returns_normally_after_a_failure(self, publisher: Publisher[T]) -> None:
        """A failure leaves nothing that cancel could stumble on."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(0)
        await subscriber.error("3.15", ValueError)
        subscriber.cancel()
        await subscriber.nothing("3.15", "the stream has failed")

    @with_publisher(3, to_the_end=True)
    async def test_required_spec316_request_returns_normally(self, publisher: Publisher[T]) -> None:
        """After the end, whatever is asked for."""
        subscriber = await self._ended(publisher, "3.16")
        for n in (1, UNBOUNDED, 0, -1):
            subscriber.request(n)
        await subscriber.nothing("3.16", "the stream has ended")

    @with_publisher(3)
    async def test_required_spec316_request_returns_normally_for_invalid_demand(self, publisher: Publisher[T]) -> None:
        """The error is signalled, not raised; a second one is neither."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(0)
        await subscriber.error("3.16", ValueError)
        subscriber.request(-1)
        await subscriber.nothing("3.16", "the stream has failed")

    @with_publisher(3, to_the_end=True)
    async def test_required_spec317_demand_may_be_as_large_as_unbounded(self, publisher: Publisher[T]) -> None:
        """A request for 2**63 - 1 elements gives all there are."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(UNBOUNDED)
        await subscriber.elements(3, "3.17")
        await subscriber.complete("3.17")

    @with_publisher(3, to_the_end=True)
    async def test_required_spec317_demand_may_add_up_to_unbounded(self, publisher: Publisher[T]) -> None:
        """Requests whose sum is 2**63 - 1 give all there are."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(UNBOUNDED // 2)
        subscriber.request(UNBOUNDED // 2)
        subscriber.request(1)
        await subscriber.elements(3, "3.17")
        await subscriber.complete("3.17")

    @with_publisher(20)
    async def test_required_spec317_demand_beyond_unbounded_is_no_error(self, publisher: Publisher[T]) -> None:
        """Requests whose sum is far beyond 2**63 - 1 give elements, and no on_error."""
        subscriber = EagerSubscriber[T](self.env, (1,), then=UNBOUNDED - 1, stop=11)
        await self.attach(publisher, subscriber)
        await subscriber.elements(11, "3.17")
        await subscriber.in_flight()
        if subscriber.ended and subscriber.count < 20:
            fail("3.17", "demand beyond 2**63 - 1 has ended the stream")

    async def _cancelled(self, publisher: Publisher[T], rule: str) -> ManualSubscriber[T]:
        """A subscriber that has had an element and has cancelled; what was on its way has come."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(1)
        await subscriber.element(rule)
        subscriber.cancel()
        await subscriber.in_flight()
        return subscriber

    async def _ended(self, publisher: Publisher[T], rule: str) -> ManualSubscriber[T]:
        """A subscriber that has had three elements and the end."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(10)
        await subscriber.elements(3, rule)
        await subscriber.complete(rule)
        return subscriber
