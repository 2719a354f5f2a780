"""`SubscriberWhiteboxVerification`: everything a subscriber must do that tells a probe what it gets, and moves as its puppet does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

from streams.contract import Subscriber
from streams.testkit.verification.base import Verification, checks, made, named_as, not_tested, refuses_none
from streams.testkit.verification.environment import Environment, fail
from streams.testkit.verification.manual_publisher import ManualPublisher, ManualSubscription
from streams.testkit.verification.whitebox_probe import Puppet, WhiteboxProbe

T = TypeVar("T")
W = TypeVar("W", bound="SubscriberWhiteboxVerification[Any]")

IN_ORDER: Final = 20
"""Elements sent in a row where their order is looked at."""


class WhiteboxStage(ManualPublisher[T], Generic[T]):
    """A publisher in the kit's hands, the subscriber under test behind it, and the probe that it tells what it gets.

    Attributes:
        subscriber: the subscriber under test.
        probe: its probe.
        puppet: its strings.
    """

    puppet: Puppet

    def __init__(
        self, env: Environment, subscriber: Subscriber[T], probe: WhiteboxProbe[T], create_element: Callable[[int], T]
    ) -> None:
        super().__init__(env, subscriber, create_element)
        self.subscriber = subscriber
        self.probe = probe


def with_stage(body: Callable[[W, WhiteboxStage[Any]], Awaitable[None]]) -> Callable[[W], None]:
    """Makes a test of a coroutine method that takes a stage whose subscriber has its subscription."""

    def test(self: W) -> None:
        async def check() -> None:
            await body(self, await self.stage())

        self._verify(check)

    return named_as(test, body)


class SubscriberWhiteboxVerification(Verification, Generic[T]):
    """The rules of Reactive Streams 1.0.4 for subscribers.

    They are tests of the subscriber that a subclass makes and opens up to a probe::

        class TestCollector(SubscriberWhiteboxVerification[int]):
            def create_subscriber(self, probe: WhiteboxProbe[int]) -> Subscriber[int]:
                return CollectorThatTells(probe)

            def create_element(self, n: int) -> int:
                return n

    Elements must be equal where their numbers are.

    Attributes:
        ordered: elements are taken in the order in which they come; if not, only that each is taken once is checked.
        recovers: a failure is not told to the probe as it came: the subscriber is a processor's that puts something in its place (4.2).
    """

    ordered: bool = True
    recovers: bool = False

    _lost_error_rule = "2.13"

    def create_subscriber(self, probe: WhiteboxProbe[T]) -> Subscriber[T] | Awaitable[Subscriber[T]]:
        """A new subscriber that tells ``probe`` whatever it gets, and requests only what its puppet is told to.

        It calls ``probe.register_on_subscribe(puppet)`` once, with an object that makes it request and cancel, then
        ``register_on_next(element)``, ``register_on_error(error)`` and ``register_on_complete()``. It may be a coroutine function.
        """
        raise NotImplementedError("a subscriber's verification needs create_subscriber")

    def create_element(self, n: int) -> T:
        """The element with number ``n``, from 0."""
        raise NotImplementedError("a subscriber's verification needs create_element")

    async def new_stage(self) -> WhiteboxStage[T]:
        """A new subscriber, before on_subscribe."""
        probe: WhiteboxProbe[T] = WhiteboxProbe(self.env)
        subscriber = await made(self.create_subscriber(probe))
        return WhiteboxStage(self.env, subscriber, probe, self.create_element)

    async def stage(self) -> WhiteboxStage[T]:
        """A new subscriber that has its subscription."""
        stage = await self.new_stage()
        stage.subscribe()
        stage.puppet = await stage.probe.puppet()
        return stage

    @with_stage
    async def test_required_exercise_whitebox_happy_path(self, stage: WhiteboxStage[T]) -> None:
        """Request, element, request, element, cancel."""
        stage.puppet.trigger_request(1)
        stage.puppet.trigger_request(1)
        await stage.subscription.expect_demand(1, "2.1")
        await stage.probe.expect_next(stage.next(), "2.13")
        stage.puppet.trigger_request(1)
        await stage.subscription.expect_demand(1, "2.1")
        await stage.probe.expect_next(stage.next(), "2.13")
        stage.puppet.signal_cancel()
        await stage.subscription.expect_cancel("2.6")

    @with_stage
    async def test_required_spec201_demand_is_signalled_by_request(self, stage: WhiteboxStage[T]) -> None:
        """A subscriber that is to get elements asks for them, and takes what it has asked for."""
        stage.puppet.trigger_request(1)
        await stage.subscription.expect_request("2.1")
        await stage.probe.expect_next(stage.next(), "2.1")

    test_untested_spec202_signals_are_dispatched_asynchronously_where_they_take_long = not_tested(
        "what takes long is the subscriber's to say; the rule is a recommendation"
    )

    @with_stage
    async def test_required_spec203_on_complete_does_not_use_the_subscription(self, stage: WhiteboxStage[T]) -> None:
        """Neither request nor cancel is called from within on_complete."""
        stage.puppet.trigger_request(2)
        stage.complete()
        await stage.probe.expect_complete("2.3")

    @with_stage
    async def test_required_spec203_on_error_does_not_use_the_subscription(self, stage: WhiteboxStage[T]) -> None:
        """Neither request nor cancel is called from within on_error."""
        stage.puppet.trigger_request(2)
        await self._fails(stage, "2.3")

    @with_stage
    async def test_required_spec204_the_subscription_is_not_used_after_on_complete(
        self, stage: WhiteboxStage[T]
    ) -> None:
        """Nor later: on_complete has cancelled it."""
        await self._one_element(stage, "2.4")
        stage.complete()
        await self.env.quiet()

    @with_stage
    async def test_required_spec204_the_subscription_is_not_used_after_on_error(self, stage: WhiteboxStage[T]) -> None:
        """Nor later: on_error has cancelled it."""
        await self._one_element(stage, "2.4")
        stage.error()
        await self.env.quiet()

    @with_stage
    async def test_required_spec205_a_second_subscription_is_cancelled(self, stage: WhiteboxStage[T]) -> None:
        """The first one stays in use."""
        second: ManualPublisher[T] = self._another(stage)
        second.subscribe()
        await second.subscription.expect_cancel("2.5", "the second subscription to be cancelled")
        if stage.subscription.cancelled:
            fail("2.5", "the first subscription was cancelled when a second came")
        await self._one_element(stage, "2.5")

    @with_stage
    async def test_required_spec206_a_subscription_that_is_not_needed_is_cancelled(
        self, stage: WhiteboxStage[T]
    ) -> None:
        """A subscriber that wants no more says so by cancel, and does not just forget its subscription."""
        await self._one_element(stage, "2.6")
        stage.puppet.signal_cancel()
        await stage.subscription.expect_cancel(
            "2.6", "the subscription to be cancelled by a subscriber that wants no more"
        )

    @with_stage
    async def test_required_spec207_the_subscription_is_used_on_the_loops_thread_only(
        self, stage: WhiteboxStage[T]
    ) -> None:
        """All calls of request and cancel are made there, one after the other."""
        for _ in range(IN_ORDER):
            stage.puppet.trigger_request(1)
            await stage.subscription.expect_demand(1, "2.7")
            await stage.probe.expect_next(stage.next(), "2.7")
        stage.puppet.signal_cancel()
        await stage.subscription.expect_cancel("2.7")

    @with_stage
    async def test_required_spec208_elements_after_cancel_are_put_up_with(self, stage: WhiteboxStage[T]) -> None:
        """What was requested may still come; so may the end."""
        stage.puppet.trigger_request(2)
        await stage.subscription.expect_demand(1, "2.8")
        stage.puppet.signal_cancel()
        await stage.subscription.expect_cancel("2.8")
        stage.next()
        stage.puppet.trigger_request(1)
        stage.puppet.trigger_request(1)
        stage.complete()

    @with_stage
    async def test_required_spec209_on_complete_is_taken_after_a_request(self, stage: WhiteboxStage[T]) -> None:
        """With demand left."""
        stage.puppet.trigger_request(1)
        stage.complete()
        await stage.probe.expect_complete("2.9")

    @with_stage
    async def test_required_spec209_on_complete_is_taken_without_a_request(self, stage: WhiteboxStage[T]) -> None:
        """Without demand."""
        stage.complete()
        await stage.probe.expect_complete("2.9")

    @with_stage
    async def test_required_spec210_on_error_is_taken_after_a_request(self, stage: WhiteboxStage[T]) -> None:
        """With demand left."""
        stage.puppet.trigger_request(1)
        stage.puppet.trigger_request(1)
        await self._fails(stage, "2.10")

    @with_stage
    async def test_required_spec210_on_error_is_taken_without_a_request(self, stage: WhiteboxStage[T]) -> None:
        """Without demand."""
        await self._fails(stage, "2.10")

    @with_stage
    async def test_required_spec211_signals_are_processed_whole_and_in_order(self, stage: WhiteboxStage[T]) -> None:
        """Elements that come in a row are each processed once, in their order, and the end after them."""
        sent: list[T] = []
        while len(sent) < IN_ORDER:
            stage.puppet.trigger_request(IN_ORDER - len(sent))
            await stage.subscription.expect_demand(1, "2.11")
            sent += [stage.next() for _ in range(min(stage.subscription.demand, IN_ORDER - len(sent)))]
        stage.complete()
        if self.ordered:
            for element in sent:
                await stage.probe.expect_next(element, "2.11")
        else:
            await stage.probe.expect_elements(sent, "2.11")
        await stage.probe.expect_complete("2.11")

    @with_stage
    async def test_required_spec213_on_subscribe_none_raises_type_error(self, stage: WhiteboxStage[T]) -> None:
        """The one case in which a subscriber raises."""
        refuses_none(stage.subscriber.on_subscribe, "2.13", "on_subscribe")

    @with_stage
    async def test_required_spec213_on_next_none_raises_type_error(self, stage: WhiteboxStage[T]) -> None:
        """None is no element."""
        stage.puppet.trigger_request(1)
        await stage.subscription.expect_demand(1, "2.1")
        refuses_none(stage.subscriber.on_next, "2.13", "on_next")

    @with_stage
    async def test_required_spec213_on_error_none_raises_type_error(self, stage: WhiteboxStage[T]) -> None:
        """None is no error."""
        refuses_none(stage.subscriber.on_error, "2.13", "on_error")

    @with_stage
    async def test_required_spec213_signals_return_normally(self, stage: WhiteboxStage[T]) -> None:
        """on_subscribe, on_next and on_error, each called as it should be, raise nothing."""
        await self._one_element(stage, "2.13")
        stage.error()

    @with_stage
    async def test_required_spec301_a_subscription_that_was_turned_down_is_left_alone(
        self, stage: WhiteboxStage[T]
    ) -> None:
        """It is cancelled, never requested from; the subscriber's own subscription is used as before."""
        second: ManualPublisher[T] = self._another(stage)
        second.subscribe()
        await self._one_element(stage, "3.1")
        self._untouched(second.subscription, "a subscription that the subscriber had turned down")

    @checks
    async def test_required_spec301_a_subscriber_uses_its_own_subscription_only(self) -> None:
        """Of two subscribers neither requests from, nor cancels, what is the other's."""
        stage, other = await self.stage(), await self.stage()
        await self.env.quiet()
        other.subscription.requests.clear()  # what it asks for by itself
        await self._one_element(stage, "3.1")
        self._untouched(other.subscription, "the subscription of another subscriber")
        stage.puppet.signal_cancel()
        await stage.subscription.expect_cancel("3.1")
        if other.subscription.cancelled:
            fail("3.1", "cancel was called on the subscription of another subscriber")

    @with_stage
    async def test_required_spec308_a_request_brings_as_many_elements_as_it_is_for(
        self, stage: WhiteboxStage[T]
    ) -> None:
        """Two elements for a request of two; what more is triggered adds up."""
        stage.puppet.trigger_request(2)
        await stage.subscription.expect_demand(1, "3.8")
        await stage.probe.expect_next(stage.next(), "3.8")
        await stage.subscription.expect_demand(1, "3.8")
        await stage.probe.expect_next(stage.next(), "3.8")
        await stage.probe.expect_nothing("3.8", "two elements were sent")
        stage.puppet.trigger_request(3)
        await stage.subscription.expect_demand(1, "3.8")

    @checks
    async def test_required_spec310_on_next_is_taken_from_within_request(self) -> None:
        """A publisher may signal before request returns."""
        stage = await self.new_stage()
        sent: list[T] = []
        await self._answered(stage, "3.10", lambda: sent.append(stage.next()))
        await stage.probe.expect_next(sent[0], "3.10")

    @checks
    async def test_required_spec311_on_complete_is_taken_from_within_request(self) -> None:
        """A publisher may end before request returns."""
        stage = await self.new_stage()
        await self._answered(stage, "3.11", stage.complete)
        await stage.probe.expect_complete("3.11")

    @checks
    async def test_required_spec311_on_error_is_taken_from_within_request(self) -> None:
        """A publisher may fail before request returns."""
        stage = await self.new_stage()
        errors: list[BaseException] = []
        await self._answered(stage, "3.11", lambda: errors.append(stage.error()))
        await self._takes(stage, errors[0], "3.11")

    @staticmethod
    async def _answered(stage: WhiteboxStage[T], rule: str, answer: Callable[[], object]) -> None:
        """Lets the subscriber request, and answers its first request before that returns."""
        stage.subscription.answer_once(answer)
        stage.subscribe()
        puppet = await stage.probe.puppet()
        puppet.trigger_request(1)
        await stage.subscription.expect_request(rule)

    async def _fails(self, stage: WhiteboxStage[T], rule: str) -> None:
        """Signals a failure, which the subscriber is to take."""
        await self._takes(stage, stage.error(), rule)

    async def _takes(self, stage: WhiteboxStage[T], error: BaseException, rule: str) -> None:
        if self.recovers:
            await self.env.quiet()
        else:
            await stage.probe.expect_error(error, rule)

    async def _one_element(self, stage: WhiteboxStage[T], rule: str) -> None:
        stage.puppet.trigger_request(1)
        await stage.subscription.expect_demand(1, rule)
        await stage.probe.expect_next(stage.next(), rule)

    def _another(self, stage: WhiteboxStage[T]) -> ManualPublisher[T]:
        return ManualPublisher(self.env, stage.subscriber, self.create_element, "the second subscription")

    @staticmethod
    def _untouched(subscription: ManualSubscription, what: str) -> None:
        if subscription.requests:
            fail("3.1", f"request({subscription.requests[0]}) was called on {what}")
