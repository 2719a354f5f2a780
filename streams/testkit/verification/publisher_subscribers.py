"""Rule 1.11: a publisher with several subscribers, if it supports them."""

from __future__ import annotations

from typing import Generic, TypeVar

from streams.contract import Publisher
from streams.testkit.verification.base import optional, skip
from streams.testkit.verification.environment import fail
from streams.testkit.verification.manual_subscriber import ManualSubscriber
from streams.testkit.verification.publisher_base import PublisherHooks, with_publisher

T = TypeVar("T")


class MultiSubscribeRules(PublisherHooks[T], Generic[T]):
    """What a publisher does for several subscribers. These tests are skipped where the second is refused by on_error."""

    @with_publisher(1)
    async def test_optional_spec111_several_subscribers_are_supported(self, publisher: Publisher[T]) -> None:
        """A second subscriber is not refused, nor is the first disturbed."""
        for subscriber in await self._several(publisher, 2):
            subscriber.cancel()

    @with_publisher(1)
    async def test_optional_spec111_every_subscriber_gets_elements_or_the_end(self, publisher: Publisher[T]) -> None:
        """Whether the elements are shared out or repeated, nobody waits for ever."""
        subscribers = await self._several(publisher, 2)
        for subscriber in subscribers:
            subscriber.request(1)
        for subscriber in subscribers:
            await subscriber.signal("1.11", "an element or the end, for each of two subscribers")
            subscriber.cancel()

    @optional
    @with_publisher(5, to_the_end=True)
    async def test_optional_spec111_multicast_the_same_elements_come_in_the_same_order_one_by_one(
        self, publisher: Publisher[T]
    ) -> None:
        """Three subscribers, each at a pace of its own, get the same."""
        a, b, c = await self._several(publisher, 3)
        got: dict[str, list[T]] = {"a": [], "b": [], "c": []}
        for name, subscriber, n in (
            ("a", a, 1),
            ("b", b, 2),
            ("a", a, 1),
            ("c", c, 3),
            ("c", c, 1),
            ("c", c, 1),
            ("b", b, 3),
            ("a", a, 2),
            ("a", a, 1),
        ):
            subscriber.request(n)
            got[name] += await subscriber.elements(n, "1.11")
        for subscriber in (c, b, a):
            subscriber.request(1)
            await subscriber.complete("1.11")
        self._same(got["a"], got["b"], got["c"])

    @optional
    @with_publisher(3)
    async def test_optional_spec111_multicast_the_same_elements_come_in_the_same_order_all_at_once(
        self, publisher: Publisher[T]
    ) -> None:
        """Three subscribers that ask for everything before anything has come get the same."""
        subscribers = await self._several(publisher, 3)
        for subscriber in subscribers:
            subscriber.request(4)
        self._same(*[await subscriber.elements(3, "1.11") for subscriber in subscribers])
        for subscriber in subscribers:
            subscriber.cancel()

    @optional
    @with_publisher(3, to_the_end=True)
    async def test_optional_spec111_multicast_the_end_comes_to_all(self, publisher: Publisher[T]) -> None:
        """Three subscribers get the same elements, and each is told the end."""
        subscribers = await self._several(publisher, 3)
        for subscriber in subscribers:
            subscriber.request(4)
        self._same(*[await subscriber.elements(3, "1.11") for subscriber in subscribers])
        for subscriber in subscribers:
            await subscriber.complete("1.11")

    async def _several(self, publisher: Publisher[T], n: int) -> list[ManualSubscriber[T]]:
        """That many subscribers, none of which has been refused."""
        subscribers = [await self.subscribe(publisher) for _ in range(n)]
        await self.env.quiet()
        self.env.verify()
        if subscribers[0].ended:
            fail("1.11", "the first subscriber was told the end when others subscribed")
        if any(subscriber.ended for subscriber in subscribers):
            skip("the publisher refuses further subscribers")
        return subscribers

    @staticmethod
    def _same(expected: list[T], *others: list[T]) -> None:
        for i, other in enumerate(others, 2):
            if other != expected:
                fail("1.11", f"subscriber {i} got {other!r}, but subscriber 1 got {expected!r}")
