"""What a user says of a publisher, and how a test gets one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from streams.contract import UNBOUNDED, Publisher, Subscriber
from streams.testkit.verification.base import Verification, made, named_as, skip
from streams.testkit.verification.environment import fail
from streams.testkit.verification.manual_subscriber import ManualSubscriber

T = TypeVar("T")
P = TypeVar("P", bound="PublisherHooks[Any]")
S = TypeVar("S", bound=ManualSubscriber[Any])


class PublisherHooks(Verification, Generic[T]):
    """The hooks of a publisher's verification.

    Attributes:
        max_elements: elements the publisher can give at most; a test that needs more is skipped.
        completes: it signals its end; if not, tests that need the end are skipped.
        bounded_depth: calls of on_next that may be under way at once, each from within a request in the one before (3.3).
    """

    max_elements: int = UNBOUNDED
    completes: bool = True
    bounded_depth: int = 1

    def create_publisher(self, elements: int) -> Publisher[T] | Awaitable[Publisher[T]]:
        """A new publisher of exactly that many elements; of endless ones for `UNBOUNDED`. It may be a coroutine function.

        It is called on the running loop. Raise ``unittest.SkipTest`` for a number that there can be no publisher for.
        """
        raise NotImplementedError("a publisher's verification needs create_publisher")

    def create_failed_publisher(self) -> Publisher[T] | Awaitable[Publisher[T] | None] | None:
        """A publisher that fails every subscriber at once; None if there can be no such."""
        return None

    def subscribe_to(self, publisher: Publisher[T], subscriber: Subscriber[T]) -> None:
        """Subscribes; that it raises is against rule 1.9.

        Raises:
            AssertionError: it has raised.
        """
        try:
            publisher.subscribe(subscriber)
        except Exception as error:  # noqa: BLE001 - a subscribe that raises anything breaks the rule
            fail("1.9", f"subscribe must return normally and fail by on_error, but raised {error!r}")

    async def attach(self, publisher: Publisher[T], subscriber: S) -> S:
        """Subscribes, and waits for on_subscribe."""
        self.subscribe_to(publisher, subscriber)
        await subscriber.subscription_comes()
        return subscriber

    async def subscribe(self, publisher: Publisher[T]) -> ManualSubscriber[T]:
        """A new subscriber that has been told on_subscribe."""
        return await self.attach(publisher, ManualSubscriber(self.env))


Body = Callable[[P, Publisher[Any]], Awaitable[None]]


def with_publisher(elements: int, *, to_the_end: bool = False) -> Callable[[Body[P]], Callable[[P], None]]:
    """Makes a test of a coroutine method that takes a publisher of ``elements``.

    Args:
        elements: how many it must have.
        to_the_end: the test needs on_complete after them.
    """

    def decorate(body: Body[P]) -> Callable[[P], None]:
        def test(self: P) -> None:
            if elements > self.max_elements:
                skip(f"needs {_number(elements)} elements, and the publisher gives {self.max_elements} at most")
            if to_the_end and not self.completes:
                skip("needs a publisher that completes")

            async def check() -> None:
                await body(self, await made(self.create_publisher(elements)))

            self._verify(check)

        return named_as(test, body)

    return decorate


def with_failed_publisher(body: Body[P]) -> Callable[[P], None]:
    """Makes a test of a coroutine method that takes a publisher that fails its subscribers."""

    def test(self: P) -> None:
        async def check() -> None:
            publisher = await made(self.create_failed_publisher())
            if publisher is None:
                skip("needs a publisher that fails: see create_failed_publisher")
            await body(self, publisher)

        self._verify(check)

    return named_as(test, body)


def _number(elements: int) -> str:
    return "endless" if elements >= UNBOUNDED else str(elements)
