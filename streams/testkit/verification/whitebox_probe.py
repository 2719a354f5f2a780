"""The probe that a subscriber under test tells what it gets, and through which a test tells it what to do."""

from __future__ import annotations

import asyncio
from typing import Any, Generic, Protocol, TypeVar

from streams.contract import Subscriber, Subscription
from streams.errors import null_element
from streams.testkit.verification.environment import Environment
from streams.testkit.verification.manual_publisher import Downstream

T_contra = TypeVar("T_contra", contravariant=True)


class Puppet(Protocol):
    """Makes the subscriber under test use its subscription."""

    def trigger_request(self, n: int) -> None:
        """The subscriber is to request ``n`` elements; it may ask for them in several requests, or for more."""
        ...

    def signal_cancel(self) -> None:
        """The subscriber is to cancel."""
        ...


class WhiteboxProbe(Generic[T_contra]):
    """Is told by the subscriber under test what it gets; see `SubscriberWhiteboxVerification.create_subscriber`."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._puppet: Puppet | None = None
        self._registered = asyncio.Event()
        self._seen: Downstream[Any] = Downstream(env)

    # What the subscriber calls

    def register_on_subscribe(self, puppet: Puppet) -> None:
        """on_subscribe has come; not to be called for a second subscription, which is cancelled (2.5)."""
        if self._puppet is not None:
            self._env.violated("2.5", "the subscriber has taken a second subscription")
            return
        self._puppet = puppet
        self._env.wake(self._registered)

    def register_on_next(self, element: T_contra) -> None:
        """An element has come."""
        self._seen.record("on_next", element)

    def register_on_error(self, error: BaseException) -> None:
        """The failure has come."""
        self._seen.record("on_error", error)

    def register_on_complete(self) -> None:
        """The end has come."""
        self._seen.record("on_complete")

    # What a test does

    async def puppet(self) -> Puppet:
        """Waits for the subscriber's puppet."""
        while self._puppet is None:
            await self._env.wait(self._registered, "2.13", "the subscriber to call register_on_subscribe")
        return self._puppet

    async def expect_next(self, element: Any, rule: str) -> None:
        """Waits until the subscriber says that it has got ``element``."""
        await self._seen.expect("on_next", element, rule)

    async def expect_elements(self, elements: list[Any], rule: str) -> None:
        """Waits until the subscriber says that it has got these elements, in any order."""
        await self._seen.expect_all("on_next", elements, rule)

    async def expect_error(self, error: BaseException, rule: str) -> None:
        """Waits until the subscriber says that it has got this very error."""
        await self._seen.expect("on_error", error, rule)

    async def expect_complete(self, rule: str) -> None:
        """Waits until the subscriber says that it has been told the end."""
        await self._seen.expect("on_complete", None, rule)

    async def expect_nothing(self, rule: str, why: str) -> None:
        """Waits for a while: the subscriber may get nothing."""
        await self._seen.nothing(rule, why)


class ProbingSubscriber(Subscriber[Any]):
    """A subscriber that tells a probe all it gets: what is put behind a stage whose consuming side is to be tested."""

    def __init__(self, probe: WhiteboxProbe[Any]) -> None:
        self._probe = probe
        self._subscribed = False

    def on_subscribe(self, subscription: Subscription) -> None:
        """The subscription becomes the puppet; a second one is cancelled (2.5)."""
        if subscription is None:
            raise null_element("on_subscribe")
        if self._subscribed:
            subscription.cancel()
            return
        self._subscribed = True
        self._probe.register_on_subscribe(_SubscriptionPuppet(subscription))

    def on_next(self, element: Any) -> None:
        """Tells."""
        if element is None:
            raise null_element("on_next")
        self._probe.register_on_next(element)

    def on_error(self, error: BaseException) -> None:
        """Tells."""
        if error is None:
            raise null_element("on_error")
        self._probe.register_on_error(error)

    def on_complete(self) -> None:
        """Tells."""
        self._probe.register_on_complete()


class _SubscriptionPuppet:
    """Requests from, and cancels, the subscription that a stage gives its subscriber."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def trigger_request(self, n: int) -> None:
        self._subscription.request(n)

    def signal_cancel(self) -> None:
        self._subscription.cancel()
