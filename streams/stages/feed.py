"""One upstream, several downstreams in turn: what comes goes to the one whose turn it is, and waits, a little, where there is none."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import StreamClosedError, null_element
from streams.stages.stage import UNSUBSCRIBED, discard, one_at_a_time, reject

T = TypeVar("T")

FEED_WINDOW: Final = 16
"""Elements asked of upstream at a time, whatever the demand: what has been asked for when there is nobody to take it has to be held."""


class Feed(Generic[T]):
    """The upstream of a stage whose inside is made anew now and then: a `Turn` for each.

    Elements that a turn has been given are its own. Those it has asked for, and that come after it, go to the next.

    Attributes:
        finishing: the turn of now has been told the end: there is nothing for another.
        exhausted: the same, or upstream has ended while nothing was held.
        error: what upstream has failed with.
    """

    __slots__ = ("_asked", "_busy", "_held", "_over", "_turn", "_upstream", "error", "finishing")

    def __init__(self) -> None:
        self._upstream: Subscription = UNSUBSCRIBED
        self._asked = 0
        self._held: deque[T] = deque()
        self._turn: Turn[T] | None = None
        self._over = False
        self.error: BaseException | None = None
        self._busy = False
        self.finishing = False

    @property
    def exhausted(self) -> bool:
        """There is nothing for another turn."""
        return self.finishing or (self._over and not self._held)

    def subscribed(self, upstream: Subscription) -> None:
        """Upstream is there."""
        self._upstream = upstream

    def next_turn(self) -> Turn[T]:
        """The turn of another; the one before gets no more."""
        self.end_turn()
        turn = self._turn = Turn(self)
        return turn

    def end_turn(self) -> None:
        """Nobody's turn: what comes is held."""
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.let_go()

    def next(self, element: T) -> None:
        """One element of upstream."""
        self._asked -= 1
        self._held.append(element)
        self._drain()

    def end(self, error: BaseException | None) -> None:
        """Upstream has ended; a failure overtakes what is held."""
        self._over = True
        self._upstream = UNSUBSCRIBED
        self.error = error
        if error is not None:
            self._held.clear()
        self._drain()

    def close(self) -> None:
        """Holds nothing any more."""
        self.end_turn()
        self._held.clear()
        self._over = True

    def demanded(self) -> None:
        """The turn of now has asked for more, or begun."""
        self._drain()

    @one_at_a_time
    def _drain(self) -> None:
        """Gives what is held under demand, tells the end, asks for more."""
        held = self._held
        while (turn := self._turn) is not None and turn.joined:
            if held and turn.demand:
                turn.demand -= 1
                turn.push(held.popleft())
            elif self._over and not held:
                self.finishing = True
                subscriber = turn.subscriber
                self.end_turn()
                _tell_end(subscriber, self.error)
            else:
                more = min(turn.demand, FEED_WINDOW) - self._asked
                if more < 1 or (turn.demand > FEED_WINDOW and more < FEED_WINDOW // 2):
                    break
                self._asked += more
                self._upstream.request(more)


class Turn(Publisher[T], Subscription, Generic[T]):
    """The upstream of one inside: for one subscriber.

    Attributes:
        demand: what it has asked for and not been given.
        joined: it is subscribed to.
        push: gives it an element.
        subscriber: whose turn it is, once there is one.
    """

    __slots__ = ("_feed", "demand", "joined", "push", "subscriber")

    def __init__(self, feed: Feed[T]) -> None:
        self._feed: Feed[T] | None = feed
        self.subscriber: Subscriber[T] | None = None
        self.demand = 0
        self.joined = False
        self.push: Callable[[T], Any] = discard

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Serves one subscriber; another gets `StreamClosedError` (1.9)."""
        if subscriber is None:
            raise null_element("subscribe")
        feed = self._feed
        if self.subscriber is not None or feed is None:
            reject(
                subscriber, StreamClosedError("this publisher is for one subscriber, and for as long as it is its turn")
            )
            return
        self.subscriber = subscriber
        self.push = subscriber.on_next
        subscriber.on_subscribe(self)
        self.joined = True
        feed.demanded()

    def request(self, n: int) -> None:
        """Adds to the demand."""
        feed = self._feed
        if feed is None:
            return
        if n < 1:
            subscriber = self.subscriber
            feed.end_turn()
            _tell_end(subscriber, invalid_demand(n))
            return
        self.demand = add_demand(self.demand, n)
        if self.joined:
            feed.demanded()

    def cancel(self) -> None:
        """Wants no more; what it has asked for is held for the next turn."""
        if self._feed is not None:
            self._feed.end_turn()

    def let_go(self) -> None:
        """It is over: forgets both sides (3.13)."""
        self._feed = None
        self.subscriber = None
        self.push = discard
        self.demand = 0


def _tell_end(subscriber: Subscriber[Any] | None, error: BaseException | None) -> None:
    if subscriber is not None:
        if error is None:
            subscriber.on_complete()
        else:
            subscriber.on_error(error)
