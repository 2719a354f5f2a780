"""One publisher after the other: concat and or_else, which create sources when their turn comes; the hub of prepend, which does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import FAILURES, null_element
from streams.materialize import Materialization
from streams.shapes import SourceLike
from streams.stages.fan_in import FanIn, Inlet
from streams.stages.stage import UNSUBSCRIBED, one_at_a_time

T = TypeVar("T")


class Concat(Subscription, Generic[T]):
    """One publisher after the other, each created when its turn comes; demand not met by one goes to the next.

    Args:
        downstream: where all goes.
        m: the run.
        rest: the sources, in order.
        name: names it in failures.
    """

    __slots__ = ("_busy", "_demand", "_done", "_downstream", "_m", "_over", "_rest", "_upstream", "name")

    def __init__(
        self, downstream: Subscriber[T], m: Materialization, rest: Iterator[SourceLike[T]], name: str = "concat"
    ) -> None:
        self._downstream: Subscriber[T] | None = downstream
        self._m = m
        self._rest = rest
        self._demand = 0
        self._upstream: Subscription = UNSUBSCRIBED
        self._done = False
        self._busy = False
        self._over = False
        self.name = name

    def open(self) -> None:
        """Begins with the first."""
        assert self._downstream is not None, "opened before its end"
        self._downstream.on_subscribe(self)
        self.ended()

    def request(self, n: int) -> None:
        """Asks the publisher whose turn it is."""
        if self._done:
            return
        if n < 1:
            self.fail(invalid_demand(n))
            return
        self._demand = add_demand(self._demand, n)
        self._upstream.request(n)

    def cancel(self) -> None:
        """Ends here; what has not had its turn is never created."""
        if not self._done:
            self._let_go().cancel()

    def fail(self, error: BaseException) -> None:
        """Ends with ``error``."""
        if not self._done:
            downstream = self._downstream
            assert downstream is not None, "there until the end"
            self._let_go().cancel()
            downstream.on_error(error)

    def failed(self, error: BaseException) -> None:
        """The publisher whose turn it is has failed; its subscription is over, and not cancelled (2.3)."""
        self._upstream = UNSUBSCRIBED
        self.fail(error)

    def subscribed(self, subscription: Subscription) -> None:
        """The next publisher is there: it gets the demand that is left."""
        if self._done:
            subscription.cancel()
            return
        self._upstream = subscription
        if self._demand:
            subscription.request(self._demand)

    def passed(self, element: T) -> None:
        """One element."""
        downstream = self._downstream
        if downstream is not None:
            self._demand -= 1
            downstream.on_next(element)

    def ended(self) -> None:
        """On to the next."""
        self._over = True
        self._upstream = UNSUBSCRIBED
        self._advance()

    @one_at_a_time
    def _advance(self) -> None:
        """Creates the next; those that end at once are gone through in the loop."""
        while self._over and not self._done:
            self._over = False
            source = self._next()
            if source is None:
                self._complete()
                break
            try:
                publisher, _ = source.create(self._m)
            except FAILURES as error:  # a source that cannot be created is a failure of the stream
                self.fail(error)
                break
            publisher.subscribe(_ConcatInlet(self))

    def _next(self) -> SourceLike[T] | None:
        return next(self._rest, None)

    def _complete(self) -> None:
        downstream = self._downstream
        assert downstream is not None, "there until the end"
        self._let_go()
        downstream.on_complete()

    def _let_go(self) -> Subscription:
        """It is over: forgets downstream (3.13) and what has not had its turn; gives what upstream there is."""
        upstream, self._upstream = self._upstream, UNSUBSCRIBED
        self._done = True
        self._downstream = None
        self._rest = iter(())
        return upstream


class OrElse(Concat[T], Generic[T]):
    """A publisher, and if that ends without an element, the next."""

    __slots__ = ("_passed",)

    def __init__(self, downstream: Subscriber[T], m: Materialization, rest: Iterator[SourceLike[T]], name: str) -> None:
        super().__init__(downstream, m, rest, name)
        self._passed = False

    def passed(self, element: T) -> None:
        """One element: none of the others is wanted any more."""
        self._passed = True
        super().passed(element)

    def _next(self) -> SourceLike[T] | None:
        return None if self._passed else super()._next()


class _ConcatInlet(Subscriber[T], Generic[T]):
    """The subscription to the publisher whose turn it is."""

    __slots__ = ("_concat", "_over", "_subscribed")

    def __init__(self, concat: Concat[T]) -> None:
        self._concat = concat
        self._subscribed = False
        self._over = False

    def on_subscribe(self, subscription: Subscription) -> None:
        """Takes its turn; a second subscription is cancelled (2.5)."""
        if subscription is None:
            raise null_element(self._concat.name)
        if self._subscribed:
            subscription.cancel()
            return
        self._subscribed = True
        self._concat.subscribed(subscription)

    def on_next(self, element: T) -> None:
        """Passes on one."""
        if element is None:
            raise null_element(self._concat.name)
        if not self._over:
            self._concat.passed(element)

    def on_error(self, error: BaseException) -> None:
        """Fails the whole."""
        if error is None:
            raise null_element(self._concat.name)
        if not self._over:
            self._over = True
            self._concat.failed(error)

    def on_complete(self) -> None:
        """Its turn is over."""
        if not self._over:
            self._over = True
            self._concat.ended()


class _Given(Generic[T]):
    """A publisher that is there, as a source: the stream's own, before the others."""

    __slots__ = ("_publisher",)

    def __init__(self, publisher: Publisher[T]) -> None:
        self._publisher = publisher

    def create(self, _m: Materialization, /) -> tuple[Publisher[T], Any]:
        """The publisher."""
        return self._publisher, None


class _ConcatPublisher(Publisher[Any]):
    """One source's publisher after the other's, anew for each subscriber."""

    __slots__ = ("_m", "_make", "_name", "_sources")

    def __init__(
        self, make: type[Concat[Any]], m: Materialization, sources: Sequence[SourceLike[Any]], name: str
    ) -> None:
        self._make = make
        self._m = m
        self._sources = sources
        self._name = name

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        """Begins with the first."""
        if subscriber is None:
            raise null_element("subscribe")
        self._make(subscriber, self._m, iter(self._sources), self._name).open()


class ConcatFlow:
    """A flow that other sources follow.

    Args:
        others: the sources that follow, in order.
        name: of the operator.
        make: how one follows the other.
    """

    __slots__ = ("_make", "_others", "name")

    def __init__(self, others: Sequence[SourceLike[Any]], name: str, make: type[Concat[Any]] = Concat) -> None:
        self._others = tuple(others)
        self._make = make
        self.name = name

    def followed_by(self, flow: ConcatFlow) -> ConcatFlow | None:
        """Both in one, so that any number of them is one stage; None if they are not of the same kind."""
        if self._make is not Concat or flow._make is not Concat or flow.name != self.name:
            return None
        return ConcatFlow((*self._others, *flow._others), self.name)

    def attach_flow(self, publisher: Publisher[Any], m: Materialization) -> Publisher[Any]:
        """The others are created when their turn comes."""
        return _ConcatPublisher(self._make, m, (_Given(publisher), *self._others), self.name)


class ConcatInputs(FanIn[T], Generic[T]):
    """One input after the other, for inputs that are all there from the start: only the one whose turn it is gets asked."""

    __slots__ = ("_turn",)

    name = "concat"

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs)
        self._turn = 0

    def subscribed(self, inlet: Inlet[Any]) -> None:
        """Asks at once if it is this input's turn."""
        if inlet.index == self._turn and self._demand:
            inlet.upstream.request(self._demand)

    def arrived(self, inlet: Inlet[Any], element: Any) -> None:  # noqa: ARG002 - only one is ever asked
        """Passes on one."""
        self._demand -= 1
        self._push(element)

    def ended(self, inlet: Inlet[Any]) -> None:  # noqa: ARG002 - it may be one whose turn has not come
        """On to the next that has not ended."""
        self._advance()
        self.drain()

    @one_at_a_time
    def _advance(self) -> None:
        """Asks the next; those that end when they are asked are gone through in the loop."""
        while self._next_turn() and self._demand:
            self.inlets[self._turn].upstream.request(self._demand)

    def _next_turn(self) -> bool:
        """Passes over the inputs that have ended; False if the turn stays, or there is no other."""
        before = self._turn
        while self._turn < len(self.inlets) and self.inlets[self._turn].completed:
            self._turn += 1
        return before < self._turn < len(self.inlets)

    def _demanded(self, n: int) -> None:
        if self._turn < len(self.inlets) and not self.inlets[self._turn].completed:
            self.inlets[self._turn].upstream.request(n)

    def _emit_next(self) -> bool:
        return False  # nothing waits here

    def _exhausted(self) -> bool:
        return self._turn == len(self.inlets)
