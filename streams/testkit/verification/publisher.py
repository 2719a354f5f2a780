"""`PublisherVerification`: everything a publisher must do."""

from __future__ import annotations

from typing import Generic, TypeVar

from streams.testkit.verification.publisher_signals import SignalRules
from streams.testkit.verification.publisher_subscribers import MultiSubscribeRules
from streams.testkit.verification.publisher_subscription import SubscriptionRules

T = TypeVar("T")


class PublisherVerification(SignalRules[T], MultiSubscribeRules[T], SubscriptionRules[T], Generic[T]):
    """The rules of Reactive Streams 1.0.4 for publishers.

    They are tests of the publisher that a subclass makes::

        class TestNumbers(PublisherVerification[int]):
            def create_publisher(self, elements: int) -> Publisher[int]:
                return Numbers(elements)

    Only `create_publisher` must be given. Tests named ``required`` must pass; those named ``optional`` are skipped, with the reason,
    where the publisher does not do what the rules do not insist on. A failure's message begins with the rule:
    ``Reactive Streams 1.7: ...``.
    """
