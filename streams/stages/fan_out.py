"""One publisher feeds several sinks: broadcast, balance and partition.

None of them has a queue: upstream is asked for what the sinks together can take at once. What that is differs, and is all that differs.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import StreamClosedError, null_element
from streams.materialize import Materialization
from streams.shapes import SinkLike
from streams.stages.stage import UNSUBSCRIBED, describe, reject

T = TypeVar("T")

BALANCE_PREFETCH: Final = 64
"""Elements asked for and not yet given to a sink: all that can be left over when sinks that asked for them cancel."""


class Outlet(Publisher[T], Subscription, Generic[T]):
    """One output: the publisher that one sink subscribes to.

    Attributes:
        demand: what its sink has asked for and not got.
        open: its sink has not cancelled.
        subscriber: its sink, once that has subscribed.
    """

    __slots__ = ("_hub", "demand", "open", "subscriber")

    def __init__(self, hub: FanOut[T]) -> None:
        self._hub = hub
        self.demand = 0
        self.open = True
        self.subscriber: Subscriber[T] | None = None

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Serves the one sink this outlet is for."""
        if subscriber is None:
            raise null_element("subscribe")
        if self.subscriber is not None:
            reject(subscriber, StreamClosedError("an outlet of a fan-out has one subscriber"))
            return
        self.subscriber = subscriber
        subscriber.on_subscribe(self)
        self._hub.joined(self)

    def request(self, n: int) -> None:
        """Adds to this sink's demand."""
        if not self.open:
            return
        if n < 1:
            self._hub.fail(invalid_demand(n))
            return
        self.demand = add_demand(self.demand, n)
        self._hub.demanded()

    def cancel(self) -> None:
        """This sink takes no more; the others go on."""
        if self.open:
            self.open = False
            self._hub.left(self)


class FanOut(Subscriber[T], Generic[T]):
    """The upstream side: asks, and hands each element to the sinks it is for.

    Args:
        outputs: how many sinks.
    """

    __slots__ = ("_again", "_busy", "_completed", "_done", "_outstanding", "_upstream", "outlets")

    name = "fan_out"
    refill_at: ClassVar[int] = 0
    """Elements on their way at which more is asked for, even if no sink has said anything new."""

    def __init__(self, outputs: int) -> None:
        self.outlets: tuple[Outlet[T], ...] = tuple(Outlet(self) for _ in range(outputs))
        self._upstream: Subscription = UNSUBSCRIBED
        self._outstanding = 0
        self._again = False
        self._busy = False
        self._completed = False
        self._done = False

    def on_subscribe(self, subscription: Subscription) -> None:
        """Asks for what the sinks have asked for already."""
        if self._upstream is not UNSUBSCRIBED or self._done:
            subscription.cancel()
            return
        self._upstream = subscription
        self.demanded()

    def on_next(self, element: T) -> None:
        """Hands on one."""
        if element is None:
            raise null_element(self.name)
        if self._done:
            return
        self._outstanding -= 1
        self._busy = True
        self._hand_on(element)
        self._busy = False
        if self._again or self._outstanding <= self.refill_at:
            self.demanded()

    def on_error(self, error: BaseException) -> None:
        """Every sink learns of the failure."""
        self._end(lambda subscriber: subscriber.on_error(error))

    def on_complete(self) -> None:
        """Every sink learns of the end, once nothing waits for one of them."""
        self._completed = True
        self.demanded()

    def fail(self, error: BaseException) -> None:
        """A failure here: upstream is cancelled and every sink learns of it."""
        self._upstream.cancel()
        self.on_error(error)

    def joined(self, outlet: Outlet[T]) -> None:
        """A sink has subscribed; after the end it learns at once that there is nothing."""
        if self._done and outlet.open and outlet.subscriber is not None:
            outlet.open = False
            outlet.subscriber.on_complete()

    def left(self, _outlet: Outlet[T]) -> None:
        """A sink has cancelled; when all have, so has this."""
        if not any(outlet.open for outlet in self.outlets):
            self._done = True
            self._upstream.cancel()
        else:
            self.demanded()

    def demanded(self) -> None:
        """Asks upstream for what can be handed on now and is not on its way."""
        if self._busy or self._done:
            self._again = True
            return
        self._busy = True
        self._again = False
        while not self._done and self._settle():
            pass
        self._busy = False
        if self._done or self._upstream is UNSUBSCRIBED:
            return
        if self._completed:
            if not self._holds():
                self._end(lambda subscriber: subscriber.on_complete())
            return
        more = self._capacity() - self._outstanding
        if more > 0:
            self._outstanding += more
            self._upstream.request(more)

    def _end(self, signal: Callable[[Subscriber[T]], None]) -> None:
        if self._done:
            return
        self._done = True
        for outlet in self.outlets:
            if outlet.open:
                outlet.open = False
                if outlet.subscriber is not None:
                    signal(outlet.subscriber)

    def _give(self, outlet: Outlet[T], element: T) -> None:
        outlet.demand -= 1
        assert outlet.subscriber is not None, "demand comes from a subscriber"
        outlet.subscriber.on_next(element)

    def _settle(self) -> bool:
        """Hands on one element that waits for demand; False if none can move."""
        return False

    def _holds(self) -> bool:
        """Elements wait for a sink's demand."""
        return False

    @abstractmethod
    def _hand_on(self, element: T) -> None:
        """Gives ``element`` to whom it is for."""

    @abstractmethod
    def _capacity(self) -> int:
        """How many elements could be on their way, given the sinks' demand and what waits."""


class Broadcast(FanOut[T], Generic[T]):
    """Every sink gets every element, at the pace of the slowest that is still there."""

    __slots__ = ()

    name = "broadcast"

    def _hand_on(self, element: T) -> None:
        for outlet in self.outlets:
            if outlet.open:
                self._give(outlet, element)

    def _capacity(self) -> int:
        return min((outlet.demand for outlet in self.outlets if outlet.open), default=0)


class Balance(FanOut[T], Generic[T]):
    """Each element goes to one sink that has asked for it, in turn."""

    __slots__ = ("_turn", "_waiting")

    name = "balance"
    refill_at = BALANCE_PREFETCH // 2

    def __init__(self, outputs: int) -> None:
        super().__init__(outputs)
        self._turn = deque(self.outlets)
        self._waiting: deque[T] = deque()
        """Elements whose sink has cancelled since they were asked for."""

    def _hand_on(self, element: T) -> None:
        outlet = self._next_outlet()
        if outlet is None or self._waiting:
            self._waiting.append(element)
        else:
            self._give(outlet, element)

    def _next_outlet(self) -> Outlet[T] | None:
        turn = self._turn
        for _ in range(len(turn)):
            outlet = turn[0]
            turn.rotate(-1)
            if outlet.open and outlet.demand:
                return outlet
        return None

    def _settle(self) -> bool:
        if not self._waiting:
            return False
        outlet = self._next_outlet()
        if outlet is None:
            return False
        self._give(outlet, self._waiting.popleft())
        return True

    def _holds(self) -> bool:
        return bool(self._waiting)

    def _capacity(self) -> int:
        wanted = sum(outlet.demand for outlet in self.outlets if outlet.open)
        return min(wanted, BALANCE_PREFETCH)


class Partition(FanOut[T], Generic[T]):
    """Each element goes to the sink that a function names; one whose sink has not asked for it holds up the rest.

    Args:
        outputs: how many sinks.
        f: gives the index of the sink.
    """

    __slots__ = ("_f", "_place", "_waiting")

    name = "partition"

    def __init__(self, outputs: int, f: Callable[[T], int]) -> None:
        super().__init__(outputs)
        self._f = f
        self._waiting: T | None = None
        self._place: Outlet[T] | None = None

    def _hand_on(self, element: T) -> None:
        try:
            index = self._f(element)
            if not 0 <= index < len(self.outlets):
                raise IndexError(f"the function has returned {index!r} for one of {len(self.outlets)} sinks")
        except Exception as error:  # noqa: BLE001 - whatever user code raises is the stream's failure
            error.add_note(f"in the stage {describe(self.name, self._f)}")
            self.fail(error)
            return
        outlet = self.outlets[index]
        if not outlet.open:
            return  # its sink has cancelled: nobody else wants this element
        if outlet.demand:
            self._give(outlet, element)
        else:
            self._waiting, self._place = element, outlet

    def _settle(self) -> bool:
        element, outlet = self._waiting, self._place
        if element is None or outlet is None or (outlet.open and not outlet.demand):
            return False
        self._waiting = self._place = None
        if outlet.open:
            self._give(outlet, element)
        return True

    def _holds(self) -> bool:
        return self._waiting is not None

    def _capacity(self) -> int:
        """What every sink could take, whichever the elements are for; else one, to see whose it is."""
        if self._waiting is not None:
            return 0
        demands = [outlet.demand for outlet in self.outlets if outlet.open]
        return max(min(demands, default=0), 1 if any(demands) else 0)


def attach_fan_out(
    publisher: Publisher[T], m: Materialization, hub: FanOut[T], sinks: Sequence[SinkLike[T, Any]]
) -> asyncio.Future[list[Any]]:
    """Attaches ``sinks`` to ``hub`` and that to ``publisher``; the future is done when all sinks are, or one has failed."""
    results = [sink.attach_sink(outlet, m) for sink, outlet in zip(sinks, hub.outlets, strict=True)]
    publisher.subscribe(hub)
    return _all_done(m, results)


def _all_done(m: Materialization, results: Sequence[asyncio.Future[Any]]) -> asyncio.Future[list[Any]]:
    together: asyncio.Future[list[Any]] = m.loop.create_future()
    left = len(results)

    def done(result: asyncio.Future[Any]) -> None:
        nonlocal left
        left -= 1
        error = None if result.cancelled() else result.exception()
        if together.done():
            return
        if error is not None:
            together.set_exception(error)
        elif result.cancelled():
            together.cancel()
        elif not left:
            together.set_result([result.result() for result in results])

    for result in results:
        result.add_done_callback(done)
    return together
