"""Sources that emit on the spot: iterables, and the empty and failed streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, repeat
from typing import Any, Final, Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import FAILURES, add_place, null_element
from streams.materialize import Materialization
from streams.stages.fused import BulkSource, Fused

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

EMIT_BUDGET: Final = 1024
"""Elements emitted in one turn of the loop: an endless iterable under unbounded demand leaves turns for everybody else."""

SIZED: Final = (tuple, list, range, bytes, str)
"""Types whose iterators know exactly how much is left, so that the end follows the last element without another request."""


ONE: Final = (None,)
"""A batch of one, ready made."""


class IterablePublisher(Publisher[T_co], Generic[T_co]):
    """Publishes an iterable, opened anew for each subscriber.

    Args:
        m: the run.
        opened: gives the iterable; called in the first turn after the subscription.
        name: the source's, in failures of the iterable; None where these say themselves where they come from.
    """

    __slots__ = ("_m", "_name", "_opened")

    def __init__(self, m: Materialization, opened: Callable[[], Iterable[T_co]], name: str | None = None) -> None:
        self._m = m
        self._opened = opened
        self._name = name

    def subscribe(self, subscriber: Subscriber[T_co]) -> None:
        """Begins in the loop's next turn, when the whole graph is together."""
        if subscriber is None:
            raise null_element("subscribe")
        emitter = _Emitter(self._m, subscriber, self._opened, self._name)
        self._m.on_drain(emitter)
        subscriber.on_subscribe(emitter)
        self._m.loop.call_soon(emitter.start)


class _Emitter(Subscription, Generic[T]):
    """One subscription to an iterable.

    ``_busy`` is held while elements are being emitted, and while a turn to emit is scheduled. Requests that come meanwhile only add up. So
    a subscriber that requests in on_next does not deepen the stack (3.3). Every ``EMIT_BUDGET`` elements the loop gets a turn, however the
    demand for them came.

    Attributes:
        done: the stream has ended, or the subscriber has cancelled.
    """

    __slots__ = (
        "__weakref__",
        "_budget",
        "_bulk",
        "_busy",
        "_demand",
        "_elements",
        "_end",
        "_iterator",
        "_m",
        "_name",
        "_opened",
        "_sized",
        "_subscriber",
        "done",
    )

    def __init__(
        self, m: Materialization, subscriber: Subscriber[T], opened: Callable[[], Iterable[T]], name: str | None
    ) -> None:
        self._m = m
        self._name = name
        self._subscriber = subscriber
        self._opened = opened
        self._iterator: Iterator[T] = iter(())
        self._end = _End()
        self._elements: Iterator[T] = iter(())
        self._sized = False
        self._demand = 0
        self._budget = EMIT_BUDGET
        self._busy = True
        self._bulk: Callable[[Iterator[T], BulkSource], int] | None = None
        self.done = False

    def request(self, n: int) -> None:
        """Adds to the demand, and meets it unless that is happening already."""
        if self.done:
            return
        if n < 1:
            self._fail(invalid_demand(n))
            return
        self._demand = add_demand(self._demand, n)
        if not self._busy:
            self._busy = True
            self._drain()

    def cancel(self) -> None:
        """No element follows."""
        if not self.done:
            self.done = True
            if not self._busy:
                self._close()

    def drained(self) -> None:
        """Nothing more comes."""
        if not self.done:
            self.cancel()
            self._subscriber.on_complete()

    def start(self) -> None:
        """The first turn: opens the iterable and emits what was requested since."""
        if self.done:
            return
        try:
            iterable = self._opened()
            self._iterator = iter(iterable)
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._m.call(self.iterable_failed, error)
            return
        except BaseException as error:  # the loop is to end; this stream ends with it
            self.done = True
            self._m.fail(error)
            raise
        self._sized = type(iterable) in SIZED
        if isinstance(self._subscriber, Fused):
            self._bulk = self._subscriber.run
            self._elements = self._iterator if self._sized else chain(self._iterator, self._end)
        self._drain()

    def _drain(self) -> None:
        """Emits under demand until that, the budget or the iterable is used up."""
        if self.done:
            self._close()
            return
        try:
            while self._budget and self._demand:
                batch = min(self._budget, self._demand)
                self._budget -= batch
                self._demand -= batch
                if not (self._emit(batch) if self._bulk is None else self._emit_in_bulk(batch, self._bulk)):
                    return
        except (
            BaseException
        ) as error:  # a subscriber has raised: to be treated as cancelled (2.13), and never unnoticed
            self.done = True
            self._m.fail(error)
            self._close()
            if not isinstance(error, FAILURES):
                raise
            return
        if not self._budget:
            self._m.loop.call_soon(self._next_turn)
        else:
            self._busy = False
            if self._nothing_left():
                self._complete()

    def _nothing_left(self) -> bool:
        """The end is known without another element being taken."""
        return self._sized and self._iterator.__length_hint__() == 0  # type: ignore[attr-defined]  # SIZED iterators have it

    def _next_turn(self) -> None:
        self._budget = EMIT_BUDGET
        self._drain()

    def refuse_none(self) -> None:
        """The iterable has given None."""
        self._fail(null_element("the iterable of the source"))

    def iterable_failed(self, error: BaseException) -> None:
        """The iterable has raised."""
        if self._name is not None:
            add_place(error, f"in the source {self._name}")
        self._fail(error)

    def _emit_in_bulk(self, count: int, run: Callable[[Iterator[T], BulkSource], int]) -> bool:
        """Has a fused stage take ``count`` elements by itself; False once the stream is over."""
        dropped = run(islice(self._elements, count), self)
        self._demand = add_demand(self._demand, dropped)
        if self.done:
            self._close()
            return False
        if self._end.reached or self._nothing_left():
            self._complete()
            return False
        return True

    def _emit(self, count: int) -> bool:
        """Emits ``count`` elements, and then each that is asked for by itself, as many stages do; False once the stream is over."""
        advance = self._iterator.__next__
        push = self._subscriber.on_next
        batch: Iterable[None] = repeat(None, count)
        while True:
            for _ in batch:
                try:
                    element = advance()
                except StopIteration:
                    self._complete()
                    return False
                except FAILURES as error:  # the iterable is user code
                    self.iterable_failed(error)
                    return False
                if element is None:
                    self.refuse_none()
                    return False
                push(element)
                if self.done:
                    self._close()
                    return False
            if self._demand != 1 or not self._budget:
                return True
            self._demand = 0
            self._budget -= 1
            batch = ONE

    def _complete(self) -> None:
        self.done = True
        self._subscriber.on_complete()

    def _fail(self, error: BaseException) -> None:
        self.done = True
        if not self._busy:
            self._close()
        self._subscriber.on_error(error)

    def _close(self) -> None:
        """Lets go of an iterable that is not used up; a generator of the stream's own runs its ``finally`` now."""
        iterator, self._iterator = self._iterator, iter(())
        close = getattr(iterator, "close", None)
        if close is None:
            return
        try:
            close()
        except FAILURES as error:  # nobody is subscribed any more
            self._m.report("the iterable of a source failed while it was being closed", error)


class _End(Iterator[Any]):
    """Chained behind an iterator, it notes that this has come to its end; asking for another element would be more than was requested.

    Attributes:
        reached: the end was come to.
    """

    __slots__ = ("reached",)

    def __init__(self) -> None:
        self.reached = False

    def __next__(self) -> Any:
        self.reached = True
        raise StopIteration


class _Once:
    """An iterator of the caller's: runs go on with it, one after the other, until it has come to its end."""

    __slots__ = ("_end", "_iterator")

    def __init__(self, iterator: Iterable[Any]) -> None:
        self._iterator = iterator
        self._end = _End()

    def open(self) -> Iterable[Any]:
        """What is left of it, without its ``close``: the caller may go on with what the stream leaves.

        Raises:
            RuntimeError: a run before has used it up.
        """
        if self._end.reached:
            raise used_up(self._iterator)
        return chain(self._iterator, self._end)


def used_up(iterator: object) -> RuntimeError:
    """The error of a run over an iterator that a run before has used up."""
    return RuntimeError(
        f"the source was given {type(iterator).__name__}, an iterator, which can be gone through once and is used up: give a "
        "function that makes it, for each run"
    )


def opener(iterable: Iterable[T] | Callable[[], Iterable[T]]) -> Callable[[], Iterable[T]]:
    """What opens ``iterable`` for a run. A factory is called for each run, and what it gives is closed at the end.

    Raises:
        TypeError: it is neither iterable nor callable.
    """
    if isinstance(iterable, Iterable):
        if isinstance(
            iterable, Iterator
        ):  # without opening it: that is for the run, and for its thread where it may block
            return _Once(iterable).open
        return lambda: iterable
    if callable(iterable):
        return iterable
    raise TypeError(f"a source needs an iterable or a function that returns one, not {type(iterable).__name__}")
