"""One publisher of several that a stage takes from in turn: made during the run, and let go of when it has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.errors import FAILURES, null_element
from streams.materialize import Materialization
from streams.stages.stage import UNSUBSCRIBED

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class InnerOwner(Protocol[T_contra]):
    """Whoever takes from an `Inner`."""

    def inner_subscribed(self, subscription: Subscription) -> None:
        """It is there: it wants to know the demand."""
        ...

    def inner_next(self, element: T_contra) -> None:
        """One element."""
        ...

    def inner_ended(self, error: BaseException | None) -> None:
        """It has failed with ``error``, or completed."""
        ...

    def cancel(self) -> None:
        """Downstream is to be considered as having cancelled."""
        ...


class Inner(Subscriber[T], Generic[T]):
    """The subscription to such a publisher, and the part of the run that belongs to it. After `cancel` the owner hears no more.

    Args:
        owner: gets the signals.
        m: the run.
        name: the owner's, for errors.
    """

    __slots__ = ("_m", "_name", "_owner", "_part", "_subscription")

    def __init__(self, owner: InnerOwner[T], m: Materialization, name: str) -> None:
        self._owner: InnerOwner[T] | None = owner
        self._m = m
        self._name = name
        self._part = m.part(self._part_failed)
        self._subscription: Subscription = UNSUBSCRIBED

    def open(self, make: Callable[[Materialization], Publisher[T]]) -> None:
        """Subscribes to what ``make`` gives; if that cannot be made, it has failed."""
        try:
            publisher = make(self._part)
        except FAILURES as error:  # what cannot be made is a failure like any other
            self._end(error)
            return
        publisher.subscribe(self)

    def request(self, n: int) -> None:
        """Asks for ``n`` more, if it is there to be asked; if not, `InnerOwner.inner_subscribed` comes."""
        self._subscription.request(n)

    def cancel(self) -> None:
        """Wants no more."""
        if self._owner is not None:
            subscription = self._let_go()
            subscription.cancel()

    def on_subscribe(self, subscription: Subscription) -> None:
        """Takes one; a second is cancelled (2.5)."""
        if subscription is None:
            raise null_element(self._name)
        if self._owner is None or self._subscription is not UNSUBSCRIBED:
            subscription.cancel()
            return
        self._subscription = subscription
        self._owner.inner_subscribed(subscription)

    def on_next(self, element: T) -> None:
        """Hands on one."""
        if element is None:
            raise null_element(self._name)
        owner = self._owner
        if owner is None:
            return
        try:
            owner.inner_next(element)
        except FAILURES as error:  # a subscriber has raised (2.13): it ends the whole run, and not just this part of it
            owner.cancel()
            self._m.fail(error)

    def on_error(self, error: BaseException) -> None:
        """It has failed."""
        if error is None:
            raise null_element(self._name)
        self._end(error)

    def on_complete(self) -> None:
        """It has ended."""
        self._end(None)

    def _part_failed(self, error: BaseException) -> None:
        """Something of its part of the run has failed."""
        self._subscription.cancel()
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        owner = self._owner
        if owner is not None:
            self._let_go()
            owner.inner_ended(error)

    def _let_go(self) -> Any:
        """Forgets the owner (3.13); the part of the run ends in a moment, when what is going on in it has returned."""
        self._owner = None
        subscription, self._subscription = self._subscription, UNSUBSCRIBED
        self._m.loop.call_soon(self._part.end)
        return subscription
