"""A stream within a stream: the publisher that a stage feeds beside, or instead of, its downstream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import StreamClosedError, null_element
from streams.materialize import Materialization
from streams.publishers.nobody import NOBODY
from streams.stages.stage import discard, reject

T = TypeVar("T")


class SubstreamHub(Protocol):
    """The stage that feeds a substream."""

    __slots__ = ()

    def demanded_by(self, substream: Substream[Any], n: int) -> None:
        """The substream's subscriber has asked for ``n`` more; ``substream.demand`` says so already."""
        ...

    def left_by(self, substream: Substream[Any]) -> None:
        """The substream's subscriber has cancelled: nothing goes to it any more."""
        ...

    def joined_by(self, substream: Substream[Any]) -> None:
        """The substream has its subscriber."""
        ...


class Substream(Publisher[T], Subscription, Generic[T]):
    """A publisher for one subscriber, fed by a stage that takes what it gives off ``demand``. It has no buffer.

    It is the beginning of a graph too (`create`), so that a flat_map can run it.

    Args:
        hub: the stage; None until there is one.
        key: what its elements have in common, where that is what it is for.

    Attributes:
        demand: what its subscriber has asked for and the stage has not taken off.
        open: neither has it ended nor has its subscriber cancelled.
        run: the run that it was created in as a source, if it was.
    """

    __slots__ = ("_ended", "_error", "_push", "_subscriber", "_taken", "demand", "hub", "key", "open", "run")

    name = "substream"

    def __init__(self, hub: SubstreamHub | None = None, key: Any = None) -> None:
        self.hub = hub
        self.key = key
        self.demand = 0
        self.open = True
        self.run: Materialization | None = None
        self._push: Callable[[T], None] = discard
        self._subscriber: Subscriber[T] = NOBODY
        self._taken = False
        self._ended = False
        self._error: BaseException | None = None

    # The subscriber's side

    def create(self, m: Materialization, /) -> tuple[Publisher[T], None]:
        """Itself: it can be run once."""
        self.run = m
        return self, None

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Serves one subscriber; another gets `StreamClosedError` (1.9). After the end it learns of that at once."""
        if subscriber is None:
            raise null_element("subscribe")
        if self._taken:
            reject(subscriber, StreamClosedError("a substream has, or had, its one subscriber"))
            return
        self._taken = True
        self._subscriber = subscriber
        self._push = subscriber.on_next
        if self.open and self.hub is not None:
            self.hub.joined_by(self)
        subscriber.on_subscribe(self)
        if self._ended:
            self._tell()

    def request(self, n: int) -> None:
        """Adds to the demand."""
        if not self.open:
            return
        if n < 1:
            subscriber = self._subscriber
            self.cancel()
            subscriber.on_error(invalid_demand(n))
            return
        self.demand = add_demand(self.demand, n)
        if self.hub is not None:
            self.hub.demanded_by(self, n)

    def cancel(self) -> None:
        """Tells the stage, and forgets the subscriber (3.13)."""
        self._forget()
        self._ended = False
        if self.open:
            self.open = False
            if self.hub is not None:
                self.hub.left_by(self)

    # The stage's side

    @property
    def subscribed(self) -> bool:
        """It has, or had, its subscriber."""
        return self._taken

    def give(self, element: T) -> None:
        """One element, which was asked for; goes nowhere once the subscriber has cancelled."""
        self._push(element)

    def end(self, error: BaseException | None = None) -> None:
        """The end, or the failure; to the subscriber that comes, if none has come yet."""
        if not self.open:
            return
        self.open = False
        self._ended = True
        self._error = error
        if self._taken:
            self._tell()

    def _tell(self) -> None:
        self._ended = False
        subscriber, error = self._subscriber, self._error
        self._forget()
        if error is None:
            subscriber.on_complete()
        else:
            subscriber.on_error(error)

    def _forget(self) -> None:
        self._subscriber = NOBODY
        self._push = discard


def decline(element: object) -> None:
    """Cancels ``element`` if it is a substream: one that is never subscribed to would hold up the others, and its stage, for ever."""
    if isinstance(element, Substream):
        element.cancel()
