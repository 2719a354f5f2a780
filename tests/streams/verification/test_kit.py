"""How the kit itself behaves: what it skips, what it says, and that nothing it is given makes it hang or pass by mistake."""

from __future__ import annotations

import asyncio
import unittest
from collections.abc import Coroutine
from typing import Any

import pytest

from streams import UNBOUNDED, Publisher, Subscriber, Subscription
from streams.testkit import VirtualTimeLoop
from streams.testkit.verification import (
    IdentityProcessorVerification,
    PublisherVerification,
    SubscriberBlackboxVerification,
    SubscriberWhiteboxVerification,
    Verification,
)
from tests.streams.verification.originals import Failed, Numbers, NumbersSubscription

KINDS = ("required", "optional", "stochastic", "untested")
VERIFICATIONS = (
    PublisherVerification,
    SubscriberWhiteboxVerification,
    SubscriberBlackboxVerification,
    IdentityProcessorVerification,
)


class OfNumbers(PublisherVerification[int]):
    def create_publisher(self, elements: int) -> Publisher[int]:
        return Numbers(elements)


def names(verification: type[Verification]) -> list[str]:
    return [name for name in dir(verification) if name.startswith("test_")]


def fails(verification: Verification, name: str) -> str:
    with pytest.raises(AssertionError) as caught:
        getattr(verification, name)()
    return str(caught.value)


def skips(verification: Verification, name: str) -> str:
    with pytest.raises(unittest.SkipTest) as caught:
        getattr(verification, name)()
    return str(caught.value)


@pytest.mark.parametrize("verification", VERIFICATIONS)
def test_a_tests_name_says_what_kind_it_is_and_which_rule_it_tests(verification: type[Verification]) -> None:
    for name in names(verification):
        _, kind, rule = name.split("_", 2)
        assert kind in KINDS, name
        assert rule.startswith(("spec", "create_publisher", "validate", "exercise")), name
        assert getattr(verification, name).__doc__, f"{name} does not say what it tests"


def test_the_two_sides_of_a_processor_have_no_test_of_the_same_name() -> None:
    both = set(names(PublisherVerification)) & set(names(SubscriberWhiteboxVerification))
    assert both == set(), "one would hide the other in IdentityProcessorVerification"


def test_a_publisher_that_gives_too_few_elements_is_skipped_where_it_takes_more() -> None:
    class Short(OfNumbers):
        max_elements = 4

    reason = skips(Short(), "test_required_spec101_no_more_elements_come_than_were_requested")
    assert reason == "needs 5 elements, and the publisher gives 4 at most"
    assert "endless" in skips(Short(), "test_optional_spec304_a_request_returns_while_there_are_elements_left")
    Short().test_required_spec102_it_may_end_with_fewer_elements_than_were_requested()


def test_a_publisher_that_does_not_end_is_skipped_where_the_end_is_needed() -> None:
    class Endless(OfNumbers):
        completes = False

        def create_publisher(self, elements: int) -> Publisher[int]:
            return Numbers(UNBOUNDED)

    assert "completes" in skips(Endless(), "test_required_spec105_a_finite_stream_ends_with_on_complete")
    Endless().test_required_spec101_no_more_elements_come_than_were_requested()


def test_without_a_failing_publisher_the_rules_of_failures_are_skipped() -> None:
    assert "create_failed_publisher" in skips(OfNumbers(), "test_optional_spec104_a_failure_is_signalled_by_on_error")


def test_what_cannot_be_tested_is_skipped_with_the_reason() -> None:
    class Whitebox(SubscriberWhiteboxVerification[int]):
        pass

    untested = [name for name in names(Whitebox) if name.startswith("test_untested")]
    assert [skips(Whitebox(), name)[:15] for name in untested] == ["nothing to test"]


class Stubborn(NumbersSubscription):
    """Takes request(0) for what it is, but does not say why."""

    def refuse(self, n: int) -> None:
        self.fail(ValueError("no"))


class OfStubborn(PublisherVerification[int]):
    def create_publisher(self, elements: int) -> Publisher[int]:
        numbers = Numbers(elements)
        numbers.subscription = Stubborn
        return numbers


def test_an_optional_test_that_fails_is_skipped_unless_the_verification_is_strict() -> None:
    class Strict(OfStubborn):
        strict = True

    name = "test_optional_spec309_the_error_says_what_was_wrong"
    assert "Reactive Streams 3.9" in skips(OfStubborn(), name)
    assert fails(Strict(), name).startswith("Reactive Streams 3.9: the error should say")


class Silent(Publisher[int]):
    def subscribe(self, subscriber: Subscriber[int]) -> None:
        if subscriber is None:
            raise TypeError("2.13")
        subscriber.on_subscribe(Nothing())


class Nothing(Subscription):
    def request(self, n: int) -> None: ...

    def cancel(self) -> None: ...


class OfSilent(PublisherVerification[int]):
    def create_publisher(self, elements: int) -> Publisher[int]:
        return Silent()

    def create_failed_publisher(self) -> Publisher[int]:
        return Silent()


SILENCE_IS_RIGHT = {
    # Nothing is requested here but after a cancellation, or nobody is there to signal to.
    "test_required_spec109_subscribing_none_raises_type_error",
    "test_required_spec306_requests_after_a_cancel_without_any_request_do_nothing",
    "test_optional_spec304_a_request_returns_while_there_are_elements_left",
    "test_optional_spec111_several_subscribers_are_supported",
    "test_required_validate_bounded_depth_is_at_least_1",
    "test_required_validate_max_elements_is_not_negative",
}


@pytest.mark.parametrize("name", sorted(set(names(OfSilent)) - SILENCE_IS_RIGHT))
def test_a_publisher_that_never_signals_does_not_pass(name: str) -> None:
    class Strict(OfSilent):
        strict = True

    assert fails(Strict(), name).startswith("Reactive Streams ")


class Deaf(Subscriber[int]):
    def on_subscribe(self, subscription: Subscription) -> None: ...

    def on_next(self, element: int) -> None: ...

    def on_error(self, error: BaseException) -> None: ...

    def on_complete(self) -> None: ...


class OfDeafWithin(SubscriberWhiteboxVerification[int]):
    def create_subscriber(self, probe: Any) -> Subscriber[int]:
        return Deaf()

    def create_element(self, n: int) -> int:
        return n


@pytest.mark.parametrize("name", [name for name in names(OfDeafWithin) if "untested" not in name])
def test_a_subscriber_that_does_nothing_does_not_pass(name: str) -> None:
    assert fails(OfDeafWithin(), name).startswith("Reactive Streams ")


class Flooding(NumbersSubscription):
    """Goes on for ever, whatever was requested, and whatever its subscriber raises."""

    def request(self, n: int) -> None:
        while True:
            try:
                subscriber = self.subscriber
                assert subscriber is not None
                subscriber.on_next(0)
            except Exception:  # noqa: BLE001 - what is to be stopped nevertheless
                continue

    def cancel(self) -> None: ...


class OfFlooding(PublisherVerification[int]):
    def create_publisher(self, elements: int) -> Publisher[int]:
        numbers = Numbers(elements)
        numbers.subscription = Flooding
        return numbers


def test_a_publisher_that_never_returns_is_stopped() -> None:
    message = fails(OfFlooding(), "test_required_spec101_no_more_elements_come_than_were_requested")
    assert message.startswith("Reactive Streams 1.1: 2 elements have come, but 1 were requested")
    assert "there is no end to them" in message
    assert len(message.splitlines()) < 20, "what is broken over and over is told once or twice"


class Losing(NumbersSubscription):
    def request(self, n: int) -> None:
        asyncio.get_running_loop().call_soon(self.lose)

    def lose(self) -> None:
        raise LookupError("lost")


def test_an_error_that_is_lost_in_the_loop_fails_the_test() -> None:
    class OfLosing(PublisherVerification[int]):
        def create_publisher(self, elements: int) -> Publisher[int]:
            numbers = Numbers(elements)
            numbers.subscription = Losing
            return numbers

    message = fails(OfLosing(), "test_required_spec102_it_may_end_with_fewer_elements_than_were_requested")
    assert message.startswith("Reactive Streams 1.4: an error was lost in the event loop")
    assert "LookupError('lost')" in message


def test_hooks_may_be_coroutine_functions_and_tear_down_is_called_on_the_loop() -> None:
    torn_down: list[float] = []

    class Asynchronous(PublisherVerification[int]):
        async def create_publisher(self, elements: int) -> Publisher[int]:
            await asyncio.sleep(0)
            return Numbers(elements)

        async def create_failed_publisher(self) -> Publisher[int] | None:
            return Failed()

        async def tear_down(self) -> None:
            torn_down.append(asyncio.get_running_loop().time())

    verification = Asynchronous()
    verification.test_required_spec102_it_may_end_with_fewer_elements_than_were_requested()
    verification.test_optional_spec104_a_failure_is_signalled_by_on_error()
    assert torn_down == [0.0, 1.0]


def test_tear_down_is_called_after_a_failure_too() -> None:
    torn_down: list[str] = []

    class Torn(OfSilent):
        async def tear_down(self) -> None:
            torn_down.append("down")

    fails(Torn(), "test_required_spec102_it_may_end_with_fewer_elements_than_were_requested")
    assert torn_down == ["down"]


def test_the_deadline_is_the_verifications() -> None:
    class Patient(OfSilent):
        timeout = 1000.0

    message = fails(Patient(), "test_required_spec102_it_may_end_with_fewer_elements_than_were_requested")
    assert message == "Reactive Streams 1.2: expected element 1 of 3 that were requested, but nothing came for 1000 s"


def test_a_verification_runs_on_an_ordinary_loop() -> None:
    class Real(OfNumbers):
        silence = 0.001

        def run(self, coro: Coroutine[Any, Any, Any]) -> Any:
            return asyncio.run(coro)

    verification = Real()
    verification.test_required_spec101_no_more_elements_come_than_were_requested()
    assert not isinstance(verification.env.loop, VirtualTimeLoop)


@pytest.mark.parametrize("verification", VERIFICATIONS)
def test_a_hook_that_is_missing_is_named(verification: type[Verification]) -> None:
    name = next(name for name in names(verification) if "spec" in name and "untested" not in name and "104" not in name)
    with pytest.raises(NotImplementedError, match="verification needs create_"):
        getattr(verification(), name)()


def test_a_validation_refuses_settings_that_make_no_sense() -> None:
    class Senseless(OfNumbers):
        max_elements = -1
        bounded_depth = 0

    verification = Senseless()
    with pytest.raises(AssertionError, match="max_elements must not be negative"):
        verification.test_required_validate_max_elements_is_not_negative()
    with pytest.raises(AssertionError, match="bounded_depth must be at least 1"):
        verification.test_required_validate_bounded_depth_is_at_least_1()
