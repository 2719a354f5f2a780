"""`SubscriberBlackboxVerification`: what can be seen of any subscriber from outside, by the way it uses its subscription."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

from streams.contract import Subscriber
from streams.testkit.verification.base import Verification, checks, made, named_as, not_tested, refuses_none, skip
from streams.testkit.verification.environment import Environment, fail
from streams.testkit.verification.manual_publisher import ManualPublisher

T = TypeVar("T")
B = TypeVar("B", bound="SubscriberBlackboxVerification[Any]")

MOST_ELEMENTS: Final = 512
"""Elements sent to a subscriber that asks for very many."""


class BlackboxStage(ManualPublisher[T], Generic[T]):
    """A publisher in the kit's hands, with the subscriber under test behind it.

    Attributes:
        subscriber: the subscriber under test.
    """

    def __init__(self, env: Environment, subscriber: Subscriber[T], create_element: Callable[[int], T]) -> None:
        super().__init__(env, subscriber, create_element)
        self.subscriber = subscriber


def with_stage(body: Callable[[B, BlackboxStage[Any]], Awaitable[None]]) -> Callable[[B], None]:
    """Makes a test of a coroutine method that takes a stage whose subscriber has its subscription."""

    def test(self: B) -> None:
        async def check() -> None:
            stage = await self.new_stage()
            stage.subscribe()
            await body(self, stage)

        self._verify(check)

    return named_as(test, body)


class SubscriberBlackboxVerification(Verification, Generic[T]):
    """The rules of Reactive Streams 1.0.4 for subscribers, as far as they can be seen from outside.

    They are tests of the subscriber that a subclass makes::

    class TestPrinter(SubscriberBlackboxVerification[int]):
        def create_subscriber(self) -> Subscriber[int]:
            return Printer()

        def create_element(self, n: int) -> int:
            return n
    """

    _lost_error_rule = "2.13"

    def create_subscriber(self) -> Subscriber[T] | Awaitable[Subscriber[T]]:
        """A new subscriber; it may be a coroutine function."""
        raise NotImplementedError("a subscriber's verification needs create_subscriber")

    def create_element(self, n: int) -> T:
        """The element with number ``n``, from 0."""
        raise NotImplementedError("a subscriber's verification needs create_element")

    def trigger_request(self, subscriber: Subscriber[T]) -> None:
        """Makes a subscriber request that does not do so by itself."""

    async def new_stage(self) -> BlackboxStage[T]:
        """A new subscriber, before on_subscribe."""
        subscriber = await made(self.create_subscriber())
        return BlackboxStage(self.env, subscriber, self.create_element)

    @with_stage
    async def test_required_spec201_blackbox_demand_is_signalled_by_request(self, stage: BlackboxStage[T]) -> None:
        """A subscriber asks for elements, and takes as many as it has asked for, or cancels."""
        await self._request(stage, "2.1")
        for _ in range(min(stage.subscription.demand, MOST_ELEMENTS)):
            if stage.subscription.cancelled:
                return
            stage.next()
        stage.complete()

    test_untested_spec202_blackbox_signals_are_dispatched_asynchronously_where_they_take_long = not_tested(
        "what takes long is the subscriber's to say; the rule is a recommendation"
    )

    @with_stage
    async def test_required_spec203_blackbox_on_complete_does_not_use_the_subscription(
        self, stage: BlackboxStage[T]
    ) -> None:
        """Neither request nor cancel is called from within on_complete."""
        await self._request(stage, "2.3")
        stage.complete()

    @with_stage
    async def test_required_spec203_blackbox_on_error_does_not_use_the_subscription(
        self, stage: BlackboxStage[T]
    ) -> None:
        """Neither request nor cancel is called from within on_error."""
        await self._request(stage, "2.3")
        stage.error()

    @with_stage
    async def test_required_spec204_blackbox_the_subscription_is_not_used_after_on_complete(
        self, stage: BlackboxStage[T]
    ) -> None:
        """Nor later: on_complete has cancelled it."""
        await self._one_element(stage, "2.4")
        if stage.subscription.cancelled:
            skip("the subscriber cancels after its first element")
        stage.complete()
        await self.env.quiet()

    @with_stage
    async def test_required_spec204_blackbox_the_subscription_is_not_used_after_on_error(
        self, stage: BlackboxStage[T]
    ) -> None:
        """Nor later: on_error has cancelled it."""
        await self._one_element(stage, "2.4")
        if stage.subscription.cancelled:
            skip("the subscriber cancels after its first element")
        stage.error()
        await self.env.quiet()

    @with_stage
    async def test_required_spec205_blackbox_a_second_subscription_is_cancelled(self, stage: BlackboxStage[T]) -> None:
        """The first one stays in use."""
        before = stage.subscription.cancelled
        second = ManualPublisher(self.env, stage.subscriber, self.create_element, "the second subscription")
        second.subscribe()
        await second.subscription.expect_cancel("2.5", "the second subscription to be cancelled")
        if stage.subscription.cancelled > before:
            fail("2.5", "the first subscription was cancelled when a second came")
        stage.complete()

    @with_stage
    async def test_required_spec207_blackbox_the_subscription_is_used_on_the_loops_thread_only(
        self, stage: BlackboxStage[T]
    ) -> None:
        """All calls of request and cancel are made there, while elements come."""
        await self._request(stage, "2.7")
        for _ in range(MOST_ELEMENTS):
            if not await self._wants_more(stage):
                break
            stage.next()
        if not stage.subscription.cancelled:
            stage.complete()
        await self.env.quiet()

    @with_stage
    async def test_optional_spec208_blackbox_elements_after_cancel_are_put_up_with(
        self, stage: BlackboxStage[T]
    ) -> None:
        """What was requested may still come, and so may the end; skipped for a subscriber that does not cancel by itself."""
        await self._request(stage, "2.8")
        for _ in range(MOST_ELEMENTS):
            if not await self._wants_more(stage):
                break
            stage.next()
        if not stage.subscription.cancelled:
            skip(f"the subscriber does not cancel by itself within {MOST_ELEMENTS} elements")
        stage.next()
        stage.complete()

    @with_stage
    async def test_required_spec209_blackbox_on_complete_is_taken_after_a_request(
        self, stage: BlackboxStage[T]
    ) -> None:
        """With demand left."""
        await self._request(stage, "2.9")
        stage.complete()
        await self.env.quiet()

    @checks
    async def test_required_spec209_blackbox_on_complete_is_taken_without_a_request(self) -> None:
        """Before anything has been requested, or sent."""
        stage = await self.new_stage()
        stage.subscribe()
        stage.complete()
        await self.env.quiet()

    @with_stage
    async def test_required_spec210_blackbox_on_error_is_taken_after_a_request(self, stage: BlackboxStage[T]) -> None:
        """With demand left."""
        await self._request(stage, "2.10")
        stage.error()
        await self.env.quiet()

    @checks
    async def test_required_spec210_blackbox_on_error_is_taken_without_a_request(self) -> None:
        """Before anything has been requested, or sent."""
        stage = await self.new_stage()
        stage.subscribe()
        stage.error()
        await self.env.quiet()

    @checks
    async def test_required_spec213_blackbox_on_subscribe_none_raises_type_error(self) -> None:
        """The one case in which a subscriber raises."""
        stage = await self.new_stage()
        refuses_none(stage.subscriber.on_subscribe, "2.13", "on_subscribe")

    @with_stage
    async def test_required_spec213_blackbox_on_next_none_raises_type_error(self, stage: BlackboxStage[T]) -> None:
        """None is no element."""
        await self._request(stage, "2.13")
        refuses_none(stage.subscriber.on_next, "2.13", "on_next")

    @with_stage
    async def test_required_spec213_blackbox_on_error_none_raises_type_error(self, stage: BlackboxStage[T]) -> None:
        """None is no error."""
        refuses_none(stage.subscriber.on_error, "2.13", "on_error")

    @with_stage
    async def test_required_spec213_blackbox_signals_return_normally(self, stage: BlackboxStage[T]) -> None:
        """on_subscribe, on_next and on_error, each called as it should be, raise nothing."""
        await self._one_element(stage, "2.13")
        stage.error()

    @with_stage
    async def test_required_spec301_blackbox_a_subscription_that_was_turned_down_is_left_alone(
        self, stage: BlackboxStage[T]
    ) -> None:
        """It is cancelled, never requested from; the subscriber's own subscription is used as before."""
        second = ManualPublisher(self.env, stage.subscriber, self.create_element, "the second subscription")
        second.subscribe()
        await self._one_element(stage, "3.1")
        await self.env.quiet()
        if second.subscription.requests:
            fail("3.1", "request was called on a subscription that the subscriber had turned down")

    @checks
    async def test_required_spec311_blackbox_on_complete_is_taken_from_within_request(self) -> None:
        """A publisher may end before request returns."""
        await self._ends_within_request(lambda stage: stage.complete())

    @checks
    async def test_required_spec311_blackbox_on_error_is_taken_from_within_request(self) -> None:
        """A publisher may fail before request returns."""
        await self._ends_within_request(lambda stage: stage.error())

    async def _ends_within_request(self, end: Callable[[BlackboxStage[T]], object]) -> None:
        stage = await self.new_stage()
        stage.subscription.answer_once(lambda: end(stage))
        stage.subscribe()
        await self._request(stage, "3.11")
        await self.env.quiet()

    @checks
    async def test_required_spec310_blackbox_on_next_is_taken_from_within_request(self) -> None:
        """A publisher may signal before request returns."""
        stage = await self.new_stage()
        stage.subscription.answer_once(stage.next)
        stage.subscribe()
        await self._request(stage, "3.10")
        await self.env.quiet()
        if not stage.subscription.cancelled:
            stage.complete()

    async def _request(self, stage: BlackboxStage[T], rule: str) -> None:
        """Waits for the first request; one that cancels without any has nothing more to show."""
        self.trigger_request(stage.subscriber)
        if not await stage.subscription.is_used(rule):
            skip("the subscriber cancels without having requested anything")

    async def _one_element(self, stage: BlackboxStage[T], rule: str) -> None:
        if stage.subscription.demand < 1:
            stage.subscription.requests.clear()
            await self._request(stage, rule)
        stage.next()

    async def _wants_more(self, stage: BlackboxStage[T]) -> bool:
        """Whether there is demand, or comes some when it is triggered."""
        subscription = stage.subscription
        if subscription.demand < 1 and not subscription.cancelled:
            self.trigger_request(stage.subscriber)
        return await subscription.wants_more()
