"""The Reactive Streams contract (version 1.0.4): who may call what, and when.

Every signal is a plain call on the thread of the event loop that runs the stream, so signals are serial (rule 1.3) without locks. The rules
that the types cannot say:

* a publisher sends at most as many elements as were requested (1.1) and nothing after on_error or on_complete (1.7);
* ``on_subscribe`` comes first (1.9), once for each subscriber (2.5: a second subscription is cancelled);
* ``request(n)`` with n < 1 ends the stream with ``ValueError`` (3.9); requests add up, saturating at `UNBOUNDED` (3.17);
* ``cancel()`` is idempotent (3.7) and stops the elements in the end (3.12), though some may still be on their way (2.8);
* ``None`` is not an element (2.13): it is refused with ``TypeError``.

Any object of the right shape is accepted; deriving from these classes is a convenience.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, Protocol, TypeVar, runtime_checkable

T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)

UNBOUNDED: Final = 2**63 - 1
"""Demand that is never used up (rule 3.17)."""


@runtime_checkable
class Subscription(Protocol):
    """One subscriber's link to one publisher: demand and cancellation go up through it."""

    __slots__ = ()

    @abstractmethod
    def request(self, n: int) -> None:
        """Asks for ``n`` more elements; ``n`` < 1 ends the stream with ``ValueError`` (3.9)."""

    @abstractmethod
    def cancel(self) -> None:
        """Asks the publisher to stop; nothing happens the second time (3.7)."""


@runtime_checkable
class Subscriber(Protocol[T_contra]):
    """Receives the signals of one subscription."""

    __slots__ = ()

    @abstractmethod
    def on_subscribe(self, subscription: Subscription) -> None:
        """The first signal; no element comes before ``subscription.request`` has been called."""

    @abstractmethod
    def on_next(self, element: T_contra) -> None:
        """One element.

        Raises:
            TypeError: the element is None (2.13). Nothing else may be raised.
        """

    @abstractmethod
    def on_error(self, error: BaseException) -> None:
        """The stream has failed; the last signal."""

    @abstractmethod
    def on_complete(self) -> None:
        """The stream has ended; the last signal."""


@runtime_checkable
class Publisher(Protocol[T_co]):
    """A possibly endless sequence that moves only under its subscriber's demand."""

    __slots__ = ()

    @abstractmethod
    def subscribe(self, subscriber: Subscriber[T_co]) -> None:
        """Calls ``subscriber.on_subscribe``, at once or later; a publisher that refuses then calls on_error (1.9)."""


@runtime_checkable
class Processor(Subscriber[T_contra], Publisher[T_co], Protocol[T_contra, T_co]):
    """A stage: subscriber of what is above it and publisher to what is below, bound by both sets of rules (4.1)."""

    __slots__ = ()
