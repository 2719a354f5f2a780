"""Rules 1.1 to 1.10, 2.12 and 2.13, as a publisher must keep them: what it signals, in which order, and when."""

from __future__ import annotations

import contextlib
import random
from typing import Any, Final, Generic, TypeVar

from streams.contract import UNBOUNDED, Publisher, Subscriber, Subscription
from streams.testkit.verification.base import made, optional, refuses_none
from streams.testkit.verification.environment import Environment, fail
from streams.testkit.verification.manual_subscriber import COMPLETE, ERROR, NEXT, EagerSubscriber, ManualSubscriber
from streams.testkit.verification.publisher_base import PublisherHooks, with_failed_publisher, with_publisher

T = TypeVar("T")

SERIAL_ROUNDS: Final = 10
"""Publishers that the test of rule 1.3 takes, each with other requests."""


class RaisingSubscriber(Subscriber[Any]):
    """Raises from its first on_next, against rule 2.13.

    Attributes:
        subscription: what it was given.
        signals: how many came after on_subscribe.
    """

    def __init__(self) -> None:
        self.subscription: Subscription | None = None
        self.signals: list[str] = []

    def on_subscribe(self, subscription: Subscription) -> None:
        """Keeps the subscription."""
        self.subscription = subscription

    def on_next(self, element: Any) -> None:
        """Raises."""
        self.signals.append(f"{NEXT}({element!r})")
        if len(self.signals) == 1:
            raise BrokenSubscriberError("a subscriber that raises from on_next")

    def on_error(self, error: BaseException) -> None:
        """Counts."""
        self.signals.append(f"{ERROR}({error!r})")

    def on_complete(self) -> None:
        """Counts."""
        self.signals.append(COMPLETE)


class BrokenSubscriberError(Exception):
    """What the subscriber that breaks rule 2.13 raises."""


class SignalRules(PublisherHooks[T], Generic[T]):
    """What a publisher signals."""

    @with_publisher(1, to_the_end=True)
    async def test_required_create_publisher_of_1_gives_1_element(self, publisher: Publisher[T]) -> None:
        """The hook keeps its word: one element, then the end."""
        await self._exactly(publisher, 1)

    @with_publisher(3, to_the_end=True)
    async def test_required_create_publisher_of_3_gives_3_elements(self, publisher: Publisher[T]) -> None:
        """The hook keeps its word: three elements, then the end."""
        await self._exactly(publisher, 3)

    async def _exactly(self, publisher: Publisher[T], n: int) -> None:
        subscriber = await self.subscribe(publisher)
        for i in range(n):
            subscriber.request(1)
            await subscriber.element("1.1", f"element {i + 1} of the {n} that create_publisher was asked for")
        subscriber.request(1)
        await subscriber.complete("1.5")

    def test_required_validate_max_elements_is_not_negative(self) -> None:
        """A publisher gives no fewer than no elements."""
        assert self.max_elements >= 0, f"max_elements must not be negative, but is {self.max_elements}"

    def test_required_validate_bounded_depth_is_at_least_1(self) -> None:
        """A call of on_next is one call deep."""
        assert self.bounded_depth >= 1, f"bounded_depth must be at least 1, but is {self.bounded_depth}"

    @with_publisher(5)
    async def test_required_spec101_no_more_elements_come_than_were_requested(self, publisher: Publisher[T]) -> None:
        """No element without demand, and every element that there is demand for."""
        subscriber = await self.subscribe(publisher)
        await subscriber.nothing("1.1", "nothing has been requested")
        subscriber.request(1)
        await subscriber.element("1.1")
        await subscriber.nothing("1.1", "the one element that was requested has come")
        subscriber.request(1)
        subscriber.request(2)
        await subscriber.elements(3, "1.1")
        await subscriber.nothing("1.1", "the four elements that were requested have come")
        subscriber.cancel()

    @with_publisher(3, to_the_end=True)
    async def test_required_spec102_it_may_end_with_fewer_elements_than_were_requested(
        self, publisher: Publisher[T]
    ) -> None:
        """Three elements for a request of ten, then on_complete."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(10)
        await subscriber.elements(3, "1.2")
        await subscriber.complete("1.2")

    @with_publisher(10, to_the_end=True)
    async def test_stochastic_spec103_signals_are_serial(self, publisher: Publisher[T]) -> None:
        """All on the loop's thread, none within another, however they are requested from within and without signals."""
        numbers = random.Random(103)  # noqa: S311 - which requests it makes is no secret
        for round_ in range(SERIAL_ROUNDS):
            if round_:
                publisher = await made(self.create_publisher(10))
            first = tuple(numbers.randint(1, 3) for _ in range(numbers.randint(0, 2)))
            subscriber = EagerSubscriber[T](self.env, first, then=numbers.randint(0, 2))
            await self.attach(publisher, subscriber)
            taken = 0
            while taken < 10:
                subscriber.request(numbers.randint(1, 4))
                await subscriber.element("1.3", f"element {taken + 1} of 10")
                taken += 1
            await subscriber.complete("1.3")
            self._check_depth("1.3", subscriber)

    @with_failed_publisher
    async def test_optional_spec104_a_failure_is_signalled_by_on_error(self, publisher: Publisher[T]) -> None:
        """A publisher that fails calls on_error, without demand, once."""
        subscriber = await self.subscribe(publisher)
        await subscriber.error("1.4")
        await subscriber.nothing("1.4", "the publisher has failed")

    @with_publisher(3, to_the_end=True)
    async def test_required_spec105_a_finite_stream_ends_with_on_complete(self, publisher: Publisher[T]) -> None:
        """on_complete comes after the last element, however they are asked for, and once."""
        subscriber = await self.subscribe(publisher)
        for _ in range(3):
            subscriber.request(1)
            await subscriber.element("1.5")
        subscriber.request(1)
        await subscriber.complete("1.5")
        await subscriber.nothing("1.5", "the stream has ended")

    @with_publisher(0, to_the_end=True)
    async def test_optional_spec105_an_empty_stream_ends_with_on_complete(self, publisher: Publisher[T]) -> None:
        """on_complete comes where no element does; a publisher that cannot be empty skips this in create_publisher."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(1)
        await subscriber.complete("1.5")
        await subscriber.nothing("1.5", "the stream has ended")

    @with_publisher(1, to_the_end=True)
    async def test_required_spec106_a_subscription_is_cancelled_by_the_end(self, publisher: Publisher[T]) -> None:
        """After on_complete requests, also invalid ones, and cancellations are of no effect."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(2)
        await subscriber.element("1.6")
        await subscriber.complete("1.6")
        await self._is_cancelled(subscriber)

    @with_publisher(3)
    async def test_required_spec106_a_subscription_is_cancelled_by_a_failure(self, publisher: Publisher[T]) -> None:
        """After on_error requests, also invalid ones, and cancellations are of no effect."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(0)
        await subscriber.error("1.6", ValueError)
        await self._is_cancelled(subscriber)

    async def _is_cancelled(self, subscriber: ManualSubscriber[T]) -> None:
        subscriber.request(1)
        subscriber.request(-1)
        subscriber.cancel()
        subscriber.request(0)
        await subscriber.nothing("1.6", "the end has cancelled the subscription")

    @with_publisher(1, to_the_end=True)
    async def test_required_spec107_nothing_comes_after_on_complete(self, publisher: Publisher[T]) -> None:
        """Not even if more was, and is, requested."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(10)
        await subscriber.element("1.7")
        await subscriber.complete("1.7")
        subscriber.request(10)
        await subscriber.nothing("1.7", "the stream has ended")

    @with_publisher(3)
    async def test_required_spec107_nothing_comes_after_on_error(self, publisher: Publisher[T]) -> None:
        """Not even if there are elements left, and demand for them."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(-1)
        await subscriber.error("1.7", ValueError)
        subscriber.request(10)
        await subscriber.nothing("1.7", "the stream has failed")

    @with_publisher(3)
    async def test_required_spec108_a_cancelled_subscriber_is_signalled_no_more(self, publisher: Publisher[T]) -> None:
        """What was on its way may come; after that neither elements nor the end."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(1)
        await subscriber.element("1.8")
        subscriber.cancel()
        await subscriber.in_flight()
        subscriber.request(5)
        await subscriber.nothing("1.8", "the subscription was cancelled, and what was on its way has come")

    @optional
    @with_publisher(3)
    async def test_optional_spec108_cancelling_within_on_next_stops_the_signals_at_once(
        self, publisher: Publisher[T]
    ) -> None:
        """A publisher on its subscriber's thread sees that it has been cancelled before it signals again."""
        subscriber = await self.attach(publisher, EagerSubscriber[T](self.env, (UNBOUNDED,), stop=1))
        await subscriber.element("1.8")
        await subscriber.nothing("1.8", "it was cancelled from within on_next")

    @optional
    @with_publisher(1, to_the_end=True)
    async def test_optional_spec108_cancelling_within_the_last_on_next_stops_the_end_too(
        self, publisher: Publisher[T]
    ) -> None:
        """A subscriber that cancels with the last element is not told the end."""
        subscriber = await self.attach(publisher, EagerSubscriber[T](self.env, (UNBOUNDED,), stop=1))
        await subscriber.element("1.8")
        await subscriber.nothing("1.8", "it was cancelled from within on_next")

    @with_publisher(1)
    async def test_required_spec109_subscribing_none_raises_type_error(self, publisher: Publisher[T]) -> None:
        """There is nobody to signal the error to."""
        refuses_none(publisher.subscribe, "1.9", "subscribe")

    @with_publisher(1)
    async def test_required_spec109_on_subscribe_comes_before_all_else(self, publisher: Publisher[T]) -> None:
        """on_subscribe is the first signal, and subscribe returns normally."""
        subscriber = ManualSubscriber[T](self.env)
        self.subscribe_to(publisher, subscriber)
        await subscriber.subscription_comes()
        subscriber.request(1)
        await subscriber.element("1.9")

    @with_failed_publisher
    async def test_required_spec109_a_subscriber_is_refused_by_on_error_after_on_subscribe(
        self, publisher: Publisher[T]
    ) -> None:
        """A publisher that cannot serve a subscriber calls on_subscribe, then on_error, and does not raise."""
        subscriber = ManualSubscriber[T](self.env)
        self.subscribe_to(publisher, subscriber)
        await subscriber.error("1.9")
        if subscriber.subscription is None:
            fail("1.9", "on_error came without on_subscribe")

    @with_publisher(1)
    async def test_required_spec110_every_further_subscriber_is_served_or_refused(
        self, publisher: Publisher[T]
    ) -> None:
        """Whether it is served or refused by on_error, subscribe returns normally and on_subscribe comes."""
        first = await self.subscribe(publisher)
        for _ in range(2):
            further = await self.subscribe(publisher)
            further.cancel()
            await further.in_flight()
        first.request(1)
        await first.element("1.10", "the first subscriber's element, whoever else has subscribed")

    @with_publisher(1)
    async def test_required_spec212_on_subscribe_is_called_once(self, publisher: Publisher[T]) -> None:
        """Not again when it is requested from, nor at the end."""
        subscriber = await self.subscribe(publisher)
        subscriber.request(1)
        await subscriber.element("2.12")
        await self.env.quiet()
        if subscriber.subscriptions != 1:
            fail("2.12", f"on_subscribe was called {subscriber.subscriptions} times")

    @with_publisher(5)
    async def test_required_spec213_a_subscriber_that_raises_is_considered_cancelled(
        self, publisher: Publisher[T]
    ) -> None:
        """It gets no further signal. Where the error is raised is the publisher's choice: to its caller, in its run, in the loop."""
        subscriber = RaisingSubscriber()
        errors = _CountedErrors(self.env)
        self.subscribe_to(publisher, subscriber)
        await self.env.quiet()
        if subscriber.subscription is None:
            fail("1.9", "on_subscribe has not come")
        with contextlib.suppress(BrokenSubscriberError):
            subscriber.subscription.request(2)
        await self.env.quiet()
        errors.forgive()
        if not subscriber.signals:
            fail("2.13", "the first element, which was requested, has not come")
        if len(subscriber.signals) > 1:
            fail("2.13", f"after a subscriber had raised from on_next, it was sent {subscriber.signals[1]}")

    def _check_depth(self, rule: str, subscriber: ManualSubscriber[T]) -> None:
        if subscriber.deepest > self.bounded_depth:
            fail(
                rule,
                f"{subscriber.deepest} calls of on_next were under way at once, one within the other; "
                f"bounded_depth allows {self.bounded_depth}",
            )


class _CountedErrors:
    """Tells what the subscriber that raises has left in the loop from what was there before."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._before = len(env.violations)

    def forgive(self) -> None:
        """Forgets the errors that are the subscriber's."""
        violations = self._env.violations
        kept = [text for text in violations[self._before :] if BrokenSubscriberError.__name__ not in text]
        violations[self._before :] = kept
