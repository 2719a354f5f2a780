"""Sources, flows and sinks that are made anew after they have ended, each time after a longer pause."""

from __future__ import annotations

import asyncio
import math
import random
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.errors import FAILURES, null_element, storable
from streams.materialize import Materialization, Part
from streams.plain import truth
from streams.shapes import FlowLike, SinkLike, SourceLike, create_sink
from streams.stages.feed import Feed
from streams.stages.inner import Inner
from streams.stages.stage import OVER, ControlledStage

T = TypeVar("T")
R = TypeVar("R")
M = TypeVar("M")

MAX_DOUBLINGS: Final = 62
"""Restarts after which the pause is at its maximum, whatever that is: a larger power of two tells nothing more."""


@dataclass(frozen=True, slots=True)
class RestartSettings:
    """When to begin again. The pause before the nth restart in a row is ``min_backoff * 2 ** (n - 1)``, up to ``max_backoff``.

    Attributes:
        min_backoff: seconds before the first restart.
        max_backoff: seconds before a restart, at most, but for the random part.
        random_factor: adds up to this part of the pause, at random, so that many streams that failed together do not return together.
        max_restarts: restarts in a row; the next end is the stream's. None for any number.
        max_restarts_within: seconds after a restart without an end, after which counting begins anew; ``min_backoff`` unless given.
        restart_on: says which failures are worth a restart; all are, unless given.
        random: gives numbers from 0 up to 1.

    Raises:
        ValueError: a value is out of its range.
    """

    min_backoff: float
    max_backoff: float
    random_factor: float = 0.2
    max_restarts: int | None = None
    max_restarts_within: float | None = None
    restart_on: Callable[[BaseException], bool] | None = None
    random: Callable[[], float] = field(default=random.random, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.min_backoff <= self.max_backoff:
            raise ValueError(f"0 < min_backoff <= max_backoff must hold, not {self.min_backoff} and {self.max_backoff}")
        if not math.isfinite(self.max_backoff):
            raise ValueError(f"max_backoff must be a number of seconds, not {self.max_backoff}")
        if not 0 <= self.random_factor < math.inf:
            raise ValueError(f"random_factor must be 0 or a number above, but is {self.random_factor}")
        if self.max_restarts is not None and self.max_restarts < 0:
            raise ValueError(f"max_restarts must not be negative, but is {self.max_restarts}")
        if self.max_restarts_within is not None and not self.max_restarts_within > 0:
            raise ValueError(f"max_restarts_within must be more than 0, not {self.max_restarts_within}")


class NoPartError(TypeError):
    """A user's function has not returned what it is for. It would not the next time either, so this is no failure to restart on."""


def _made(part: Any, method: str, name: str, kind: str) -> Any:
    if not hasattr(part, method):
        raise NoPartError(f"{name}: the function must return a {kind}, not {type(part).__name__}")
    return part


class Backoff:
    """Counts restarts, and says how long to wait for the next.

    Args:
        settings: as given by the user.
        clock: seconds, of the loop.
        only_on_failures: completion is the end.
    """

    __slots__ = ("_clock", "_fresh_at", "_only_on_failures", "_restarts", "_settings", "_within")

    def __init__(self, settings: RestartSettings, clock: Callable[[], float], only_on_failures: bool) -> None:
        self._settings = settings
        self._clock = clock
        self._only_on_failures = only_on_failures
        self._within = settings.max_restarts_within or settings.min_backoff
        self._restarts = 0
        self._fresh_at = 0.0

    def started(self) -> None:
        """It runs, from now on."""
        self._fresh_at = self._clock() + self._within

    def pause(self, error: BaseException | None) -> float | None:
        """Seconds until the next start after an end, with ``error`` or without; None if there is none."""
        settings = self._settings
        if error is None:
            if self._only_on_failures:
                return None
        elif (
            isinstance(error, NoPartError)
            or not isinstance(error, FAILURES)
            or (settings.restart_on is not None and not truth(settings.restart_on(error)))
        ):
            return None
        if self._clock() >= self._fresh_at:
            self._restarts = 0
        if settings.max_restarts is not None and self._restarts >= settings.max_restarts:
            return None
        pause = min(settings.max_backoff, settings.min_backoff * 2.0 ** min(self._restarts, MAX_DOUBLINGS))
        self._restarts += 1
        return pause * (1.0 + settings.random() * settings.random_factor)


class _Restarting(ControlledStage[T, R], Generic[T, R]):
    """What sources and flows have in common: an inside, its end, and the pause before the next. Demand outlives all of them."""

    __slots__ = ("_backoff", "_inner", "_m", "_timer")

    def __init__(self, downstream: Subscriber[R], m: Materialization, backoff: Backoff, name: str) -> None:
        super().__init__(downstream, name)
        self._m = m
        self._backoff = backoff
        self._inner: Inner[R] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def inner_subscribed(self, subscription: Subscription) -> None:
        """The inside is there: it gets the demand that there is."""
        if self._demand:
            subscription.request(self._demand)

    def inner_next(self, element: R) -> None:
        """Passes on one."""
        self._demand -= 1
        self._push(element)

    def inner_ended(self, error: BaseException | None) -> None:
        """The inside is over; begins the pause, or ends."""
        self._inner = None
        if self._done:
            return
        try:
            pause = None if self._is_last() else self._backoff.pause(error)
        except FAILURES as fault:  # the user's predicate is at fault
            error, pause = fault, None
        if pause is not None:
            if self._has_more():
                self._timer = self._m.loop.call_later(pause, self._m.call, self._begin)
                return
            error = self._error_of_upstream()  # another inside would be told just that
        # What a subscriber raises when it is told is the whole run's failure, and not that of the part that has just ended.
        if error is not None:
            self._m.call(self._fail, error)
        else:
            self._m.call(self._complete_early)

    def _demanded(self, n: int) -> None:
        if self._inner is not None:
            self._inner.request(n)

    def _begin(self) -> None:
        self._timer = None
        self._backoff.started()
        self._inner = Inner(self, self._m, self._name)
        self._inner.open(self._make)

    @abstractmethod
    def _make(self, part: Materialization) -> Publisher[R]:
        """A new inside."""

    def _is_last(self) -> bool:
        """It was the last, however it has ended."""
        return False

    def _has_more(self) -> bool:
        """There is something for another to do."""
        return True

    def _error_of_upstream(self) -> BaseException | None:
        """How upstream has ended, where there is no more."""
        return None

    def _finish(self) -> None:
        super()._finish()
        if self._timer is not None:
            self._timer.cancel()
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.cancel()


class RestartingSource(_Restarting[Any, T], Generic[T]):
    """Takes from one source after another; nothing is upstream of it but they."""

    __slots__ = ("__weakref__", "_factory")

    def __init__(
        self, downstream: Subscriber[T], m: Materialization, backoff: Backoff, factory: Callable[[], SourceLike[T]]
    ) -> None:
        super().__init__(downstream, m, backoff, "restart_source")
        self._factory = factory

    def on_next(self, element: Any) -> None:
        """Nothing is upstream."""

    def drained(self) -> None:
        """Nothing more comes, and no other source."""
        self._complete_early()

    def open(self) -> None:
        """Begins."""
        self._m.on_drain(self)
        self._downstream.on_subscribe(self)
        if not self._done:
            self._begin()

    def _make(self, part: Materialization) -> Publisher[T]:
        source: SourceLike[T] = _made(self._factory(), "create", self._name, "source")
        return source.create(part)[0]


class RestartingFlow(_Restarting[T, R], Generic[T, R]):
    """Puts one flow after another between its upstream and its downstream."""

    __slots__ = ("_factory", "_feed")

    def __init__(
        self, downstream: Subscriber[R], m: Materialization, backoff: Backoff, factory: Callable[[], FlowLike[T, R]]
    ) -> None:
        super().__init__(downstream, m, backoff, "restart_flow")
        self._factory = factory
        self._feed: Feed[T] = Feed()

    def on_next(self, element: T) -> None:
        """Hands ``element`` to the inside, or keeps it for the next."""
        if element is None:
            raise null_element(self._name)
        if not self._done:
            self._feed.next(element)

    def on_complete(self) -> None:
        """Tells the inside, which ends in its own time; in a pause with nothing held, that is the end."""
        self._upstream = OVER
        self._feed.end(None)
        if self._inner is None and self._feed.exhausted:
            super().on_complete()

    def _failed(self, error: BaseException) -> None:
        self._upstream = OVER
        self._feed.end(error)
        if self._inner is None and not self._done:
            super()._failed(error)

    def _subscribed(self) -> None:
        self._feed.subscribed(self._upstream)
        super()._subscribed()
        if not self._done:
            self._begin()

    def inner_ended(self, error: BaseException | None) -> None:
        """As a source's, and what still comes is kept for the next."""
        self._feed.end_turn()
        super().inner_ended(error)

    def _make(self, part: Materialization) -> Publisher[R]:
        flow: FlowLike[T, R] = _made(self._factory(), "attach_flow", self._name, "flow")
        return flow.attach_flow(self._feed.next_turn(), part)

    def _is_last(self) -> bool:
        return self._feed.finishing

    def _has_more(self) -> bool:
        return not self._feed.exhausted

    def _error_of_upstream(self) -> BaseException | None:
        return self._feed.error

    def _finish(self) -> None:
        super()._finish()
        self._feed.close()


class RestartingSink(Subscriber[T], Generic[T, M]):
    """Hands what comes to one sink after another.

    Attributes:
        future: the outcome of the last of them.
    """

    __slots__ = ("_backoff", "_factory", "_feed", "_m", "_part", "_sink", "_timer", "_upstream", "future")

    name = "restart_sink"

    def __init__(self, m: Materialization, backoff: Backoff, factory: Callable[[], SinkLike[T, M]]) -> None:
        self.future: asyncio.Future[M] = m.loop.create_future()
        self._m = m
        self._backoff = backoff
        self._factory = factory
        self._feed: Feed[T] = Feed()
        self._upstream: Subscription | None = None
        self._part: Part | None = None
        self._sink: asyncio.Future[M] | None = None
        self._timer: asyncio.TimerHandle | None = None
        m.on_cancel(self.cancel)

    def on_subscribe(self, subscription: Subscription) -> None:
        """Begins; a second subscription is cancelled (2.5)."""
        if subscription is None:
            raise null_element(self.name)
        if self._upstream is not None or self.future.done():
            subscription.cancel()
            return
        self._upstream = subscription
        self._feed.subscribed(subscription)
        self._begin()

    def on_next(self, element: T) -> None:
        """Hands ``element`` to the sink, or keeps it for the next."""
        if element is None:
            raise null_element(self.name)
        if not self.future.done():
            self._feed.next(element)

    def on_error(self, error: BaseException) -> None:
        """Upstream has failed, and so has the sink of now; if there is none, this one."""
        if error is None:
            raise null_element(self.name)
        self._upstream = OVER
        self._feed.end(error)
        if self._sink is None and not self.future.done():
            self._stop()
            self.future.set_exception(storable(error))

    def on_complete(self) -> None:
        """Upstream has ended. In a pause a last sink begins when that is over, for what is held and for the result."""
        self._upstream = OVER
        self._feed.end(None)

    def cancel(self) -> None:
        """Takes nothing more; the future is cancelled."""
        if not self.future.done():
            self._stop()
            self.future.cancel()

    def _begin(self) -> None:
        self._timer = None
        self._backoff.started()
        self._part = part = self._m.part(self._part_failed)
        try:
            made = _made(self._factory(), "attach_sink", self.name, "sink")
            sink, _ = create_sink(made, self._feed.next_turn(), part)
        except FAILURES as error:  # a sink that cannot be made has failed
            self._sink_ended(None, error)
            return
        self._sink = sink
        sink.add_done_callback(self._sink_done)

    def _sink_done(self, sink: asyncio.Future[M]) -> None:
        if sink is self._sink:
            self._m.call(self._sink_ended, sink, asyncio.CancelledError() if sink.cancelled() else sink.exception())
        elif not sink.cancelled():
            _ = sink.exception()  # retrieved: its time was over before

    def _part_failed(self, error: BaseException) -> None:
        self._sink_ended(None, error)

    def _sink_ended(self, sink: asyncio.Future[M] | None, error: BaseException | None) -> None:
        """The sink is over, with a result or ``error``; begins the pause, or ends."""
        if self.future.done():
            return
        self._sink = None
        last = self._feed.finishing or (sink is not None and sink.cancelled())
        self._feed.end_turn()
        self._end_part()
        try:
            pause = None if last else self._backoff.pause(error)
        except FAILURES as fault:  # the user's predicate is at fault
            error, pause = fault, None
        if pause is not None:
            self._timer = self._m.loop.call_later(pause, self._m.call, self._begin)
            return
        self._stop()
        if isinstance(error, asyncio.CancelledError):
            self.future.cancel()
        elif error is not None:
            self.future.set_exception(storable(error))
        elif sink is not None:
            self.future.set_result(sink.result())

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._feed.close()
        self._end_part()
        self._sink = None
        if self._upstream is not None:
            self._upstream.cancel()

    def _end_part(self) -> None:
        part, self._part = self._part, None
        if part is not None:
            part.cancel()
            self._m.loop.call_soon(part.end)


def attach_restarting_sink(
    publisher: Publisher[T], m: Materialization, backoff: Backoff, factory: Callable[[], SinkLike[T, M]]
) -> asyncio.Future[M]:
    """Subscribes a restarting sink; its future."""
    sink: RestartingSink[T, M] = RestartingSink(m, backoff, factory)
    publisher.subscribe(sink)
    return sink.future
