"""One publisher feeds several subscribers: broadcast, balance, partition and unzip.

None of them has a queue: upstream is asked for what the outputs together can take at once. What that is differs, and is all that differs.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import FAILURES, StreamClosedError, null_element
from streams.materialize import Materialization
from streams.plain import plain
from streams.shapes import SinkLike
from streams.stages.all_done import all_done
from streams.stages.stage import UNSUBSCRIBED, describe, discard, reject
from streams.supervision import Decider, Directive, judge

T = TypeVar("T")

BALANCE_PREFETCH: Final = 64
"""Elements asked for and not yet given to a sink: all that can be left over when sinks that asked for them cancel."""


class Outlet(Publisher[T], Subscription, Generic[T]):
    """One output: the publisher that one sink subscribes to.

    Attributes:
        demand: what its sink has asked for and not got.
        open: its sink has neither cancelled nor been told the end.
        push: gives an element to the sink; one that is not asked for must not be given.
    """

    __slots__ = ("_hub", "_subscriber", "demand", "open", "push")

    def __init__(self, hub: FanOut[Any]) -> None:
        self._hub = hub
        self._subscriber: Subscriber[T] | None = None
        self.demand = 0
        self.open = True
        self.push: Callable[[T], None] = discard

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Serves the one sink this outlet is for."""
        if subscriber is None:
            raise null_element("subscribe")
        if self._subscriber is not None or not self.open:
            reject(subscriber, StreamClosedError(f"an output of {self._hub.name} has, or had, its one subscriber"))
            return
        self._subscriber = subscriber
        self.push = subscriber.on_next
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
        """This sink takes no more, and is forgotten (3.13); the others go on."""
        if self.open:
            self._close()
            self._hub.left(self)

    def end(self, error: BaseException | None) -> None:
        """Tells the sink the end; one that has not come yet is told when it does."""
        subscriber = self._subscriber
        if not self.open or subscriber is None:
            return
        self._close()
        if error is None:
            subscriber.on_complete()
        else:
            subscriber.on_error(error)

    def _close(self) -> None:
        self.open = False
        self.demand = 0
        self.push = discard
        self._subscriber = None


class FanOut(Subscriber[T], Generic[T]):
    """The upstream side: asks, and hands each element to the sinks it is for.

    Args:
        outputs: how many sinks.
        eager_cancel: the first sink that cancels ends the whole: upstream is cancelled, the others are told the end. Else the last does.

    Attributes:
        decider: what is done when a function of the user's fails; None where no `with_supervision` holds.
        outlets: the sinks' publishers.
    """

    __slots__ = (
        "_again",
        "_busy",
        "_completed",
        "_done",
        "_eager_cancel",
        "_error",
        "_outstanding",
        "_upstream",
        "decider",
        "outlets",
    )

    name: ClassVar[str] = "fan_out"
    refill_at: ClassVar[int] = 0
    """Elements on their way at which more is asked for, even if no sink has said anything new."""

    def __init__(self, outputs: int, eager_cancel: bool = False) -> None:
        self.decider: Decider | None = None
        self.outlets: tuple[Outlet[Any], ...] = tuple(Outlet(self) for _ in range(outputs))
        self._eager_cancel = eager_cancel
        self._upstream: Subscription = UNSUBSCRIBED
        self._outstanding = 0
        self._again = False
        self._busy = False
        self._completed = False
        self._done = False
        self._error: BaseException | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        """Asks for what the sinks have asked for already; a second subscription is cancelled (2.5)."""
        if subscription is None:
            raise null_element(self.name)
        if self._upstream is not UNSUBSCRIBED or self._completed:
            subscription.cancel()
            return
        self._upstream = subscription
        self.demanded()

    def on_next(self, element: T) -> None:
        """Hands on one."""
        if element is None:
            raise null_element(self.name)
        if self._completed:
            return
        self._outstanding -= 1
        busy, self._busy = self._busy, True
        self._hand_on(element)
        self._busy = busy
        if self._again or self._outstanding <= self.refill_at:
            self.demanded()

    def on_error(self, error: BaseException) -> None:
        """Every sink learns of the failure."""
        if error is None:
            raise null_element(self.name)
        if not self._completed:
            self._end(error)

    def on_complete(self) -> None:
        """Every sink learns of the end, once nothing waits for one of them."""
        self._completed = True
        self._upstream = UNSUBSCRIBED  # it is over, and must not be used any more (2.4)
        self.demanded()

    def fail(self, error: BaseException) -> None:
        """A failure here: upstream is cancelled and every sink learns of it."""
        self._upstream.cancel()
        self._end(error)

    def joined(self, outlet: Outlet[Any]) -> None:
        """A sink has subscribed; after the end it learns at once how it ended."""
        if self._done:
            outlet.end(self._error)

    def left(self, _outlet: Outlet[Any]) -> None:
        """A sink has cancelled; when all have, so has this."""
        if self._done:
            return
        if self._eager_cancel or not any(outlet.open for outlet in self.outlets):
            self._upstream.cancel()
            self._finish()
            self._completed = True  # and not ended: others may still have to get the element that is being handed on
        self.demanded()

    def demanded(self) -> None:
        """Asks upstream for what can be handed on now and is not on its way; a call from within only leaves its mark."""
        if self._busy or self._done:
            self._again = True
            return
        self._busy = self._again = True
        while self._again and not self._done:
            self._again = False
            while not self._done and self._settle():
                pass
            self._ask()
        self._busy = False

    def _ask(self) -> None:
        if self._done:
            return
        if self._completed:
            if not self._holds():
                self._end(None)
            return
        more = self._capacity() - self._outstanding
        if more > 0 and self._upstream is not UNSUBSCRIBED:
            self._outstanding += more
            self._upstream.request(more)

    def _end(self, error: BaseException | None) -> None:
        if self._done:
            return
        self._done = self._completed = True
        self._error = error
        self._finish()
        for outlet in self.outlets:
            outlet.end(error)

    def _finish(self) -> None:
        """It is over; subclasses that hold something let go of it here. May be called twice."""

    def _function_failed(self, error: BaseException, function: Any) -> None:
        """A function that the user gave has raised ``error``, or has returned what cannot be handed on.

        Without a decider that ends the whole. Else the element is left out: nothing was gathered, and the sinks' demand is as it was.
        """
        directive, error, function = judge(None if self._done else self.decider, error, function)
        if directive is Directive.STOP:
            error.add_note(f"in the stage {describe(self.name, function)}")
            self.fail(error)

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
                outlet.demand -= 1
                outlet.push(element)

    def _capacity(self) -> int:
        return min((outlet.demand for outlet in self.outlets if outlet.open), default=0)


class UnzipWith(Broadcast[T], Generic[T]):
    """Each sink gets its part of every element, at the pace of the slowest that is still there.

    Args:
        outputs: how many sinks.
        f: gives the parts of an element, as many as there are sinks; None for an element that is those parts.
        eager_cancel: the first sink that cancels ends the whole.
    """

    __slots__ = ("_f",)

    name = "unzip_with"

    def __init__(self, outputs: int, f: Callable[[T], Sequence[Any]] | None, eager_cancel: bool = False) -> None:
        super().__init__(outputs, eager_cancel)
        self._f = f

    def _hand_on(self, element: T) -> None:
        f = self._f
        try:
            parts: Any = element if f is None else f(element)
            if len(parts) != len(self.outlets):
                raise ValueError(f"an element of {len(parts)} parts came for {len(self.outlets)} outputs")
            for part in parts:
                if part is None:
                    raise null_element(self.name)
        except FAILURES as error:  # whatever user code raises is the stream's failure
            self._function_failed(error, f or tuple)
            return
        for part, outlet in zip(parts, self.outlets, strict=True):
            if outlet.open:
                outlet.demand -= 1
                outlet.push(part)


class Balance(FanOut[T], Generic[T]):
    """Each element goes to one sink that has asked for it, in turn.

    Args:
        outputs: how many sinks.
        wait_for_all: upstream is asked for nothing before every sink has asked for something.
        eager_cancel: the first sink that cancels ends the whole.
    """

    __slots__ = ("_turn", "_waited_for", "_waiting")

    name = "balance"
    refill_at = BALANCE_PREFETCH // 2

    def __init__(self, outputs: int, wait_for_all: bool = False, eager_cancel: bool = False) -> None:
        super().__init__(outputs, eager_cancel)
        self._turn = deque(self.outlets)
        self._waited_for = wait_for_all
        self._waiting: deque[T] = deque()
        """Elements whose sink has cancelled since they were asked for."""

    def _hand_on(self, element: T) -> None:
        outlet = None if self._waiting else self._next_outlet()
        if outlet is None:
            self._waiting.append(element)
        else:
            outlet.demand -= 1
            outlet.push(element)

    def _next_outlet(self) -> Outlet[T] | None:
        turn = self._turn
        for _ in range(len(turn)):
            outlet = turn[0]
            turn.rotate(-1)
            if outlet.demand:
                return outlet
        return None

    def _settle(self) -> bool:
        if not self._waiting:
            return False
        outlet = self._next_outlet()
        if outlet is None:
            return False
        outlet.demand -= 1
        outlet.push(self._waiting.popleft())
        return True

    def _holds(self) -> bool:
        return bool(self._waiting)

    def _capacity(self) -> int:
        if self._waited_for:
            if any(outlet.open and not outlet.demand for outlet in self.outlets):
                return 0
            self._waited_for = False
        return min(sum(outlet.demand for outlet in self.outlets), BALANCE_PREFETCH)

    def _finish(self) -> None:
        self._waiting.clear()


class Partition(FanOut[T], Generic[T]):
    """Each element goes to the sink that a function names; one whose sink has not asked for it holds up the rest.

    Args:
        outputs: how many sinks.
        f: gives the index of the sink.
        eager_cancel: the first sink that cancels ends the whole; else elements for it are dropped.
    """

    __slots__ = ("_f", "_place", "_waiting")

    name = "partition"

    def __init__(self, outputs: int, f: Callable[[T], int], eager_cancel: bool = False) -> None:
        super().__init__(outputs, eager_cancel)
        self._f = f
        self._waiting: T | None = None
        self._place: Outlet[T] | None = None

    def _hand_on(self, element: T) -> None:
        try:
            index = self._f(element)
            if type(index) is not int:
                plain(index)
            if not 0 <= index < len(self.outlets):
                raise IndexError(f"the function has returned {index!r} for one of {len(self.outlets)} sinks")
        except FAILURES as error:  # whatever user code raises is the stream's failure
            self._function_failed(error, self._f)
            return
        outlet = self.outlets[index]
        if outlet.demand:
            outlet.demand -= 1
            outlet.push(element)
        elif outlet.open:
            self._waiting, self._place = element, outlet
        # Else its sink has cancelled: nobody else wants this element.

    def _settle(self) -> bool:
        element, outlet = self._waiting, self._place
        if element is None or outlet is None or (outlet.open and not outlet.demand):
            return False
        self._waiting = self._place = None
        if outlet.open:
            outlet.demand -= 1
            outlet.push(element)
        return True

    def _holds(self) -> bool:
        return self._waiting is not None

    def _capacity(self) -> int:
        """What every sink could take, whichever the elements are for; else one, to see whose it is."""
        if self._waiting is not None:
            return 0
        demands = [outlet.demand for outlet in self.outlets if outlet.open]
        return max(min(demands, default=0), 1 if any(demands) else 0)

    def _finish(self) -> None:
        self._waiting = self._place = None


def attach_fan_out(
    publisher: Publisher[T], m: Materialization, hub: FanOut[T], sinks: Sequence[SinkLike[T, Any]]
) -> asyncio.Future[list[Any]]:
    """Attaches ``sinks`` to ``hub`` and that to ``publisher``; the future is done when all sinks are, or one has failed."""
    hub.decider = m.decider
    results = [sink.attach_sink(outlet, m) for sink, outlet in zip(sinks, hub.outlets, strict=True)]
    publisher.subscribe(hub)
    return all_done(m, results)
