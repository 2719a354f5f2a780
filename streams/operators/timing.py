"""Operators about time: pace, delay and time-outs. Seconds are those of the loop's clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.materialize import Materialization
from streams.operators.via import Via, functions, member, not_negative, positive, positive_amount
from streams.overflow import OverflowStrategy
from streams.shapes import SourceLike, ValuedFlow
from streams.stages.buffer import DELAY_SIZE, Delay
from streams.stages.keep_alive import KeepAlive
from streams.stages.stage import StageFlow
from streams.stages.throttle import Throttle, ThrottleMode
from streams.stages.timed import DropWithin, InitialDelay, TakeWithin
from streams.stages.timeouts import BackpressureTimeout, CompletionTimeout, IdleTimeout, InitialTimeout

if TYPE_CHECKING:
    from streams.contract import Subscriber
    from streams.flow import Flow
    from streams.source import Source

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")
V = TypeVar("V")


class TimingOperators(Via):
    """Operators about time: pace, delay and time-outs."""

    @overload
    def throttle(
        self: SourceLike[T, V],
        elements: int,
        per: float,
        maximum_burst: int | None = ...,
        cost: Callable[[T], float] | None = ...,
        mode: ThrottleMode = ...,
    ) -> Source[T, V]: ...
    @overload
    def throttle(
        self: ValuedFlow[I, T, V],
        elements: int,
        per: float,
        maximum_burst: int | None = ...,
        cost: Callable[[T], float] | None = ...,
        mode: ThrottleMode = ...,
    ) -> Flow[I, T, V]: ...
    def throttle(
        self,
        elements: int,
        per: float,
        maximum_burst: int | None = None,
        cost: Callable[[Any], float] | None = None,
        mode: ThrottleMode = ThrottleMode.SHAPING,
    ) -> Any:
        """At most ``elements`` in ``per`` seconds, evenly spread; after a pause ``maximum_burst`` of them may pass at once.

        Args:
            elements: how many, or what they may cost.
            per: seconds.
            maximum_burst: 0 spreads the first one too; None for what passes in a tenth of a second, at least 1.
            cost: an element's cost, not negative; None for 1 each.
            mode: whether one that comes too soon waits for its time, or fails the stream with `RateExceededError`.
        """
        if cost is not None:
            functions("throttle", cost=cost)
        positive("throttle", "elements", elements)
        positive_amount("throttle", "per", per)
        if per == math.inf:
            raise ValueError("throttle: per must be finite, or nothing would pass after the first burst")
        member("throttle", "mode", mode, ThrottleMode)
        if maximum_burst is not None:
            not_negative("throttle", "maximum_burst", maximum_burst)
            if mode is ThrottleMode.ENFORCING and not maximum_burst:
                raise ValueError(
                    "throttle: with ThrottleMode.ENFORCING maximum_burst must be at least 1, or nothing could pass"
                )
        return self.via(
            StageFlow(
                lambda downstream, m: Throttle(downstream, m, elements, per, maximum_burst, cost, mode), "throttle"
            )
        )

    @overload
    def delay(
        self: SourceLike[T, V], seconds: float, size: int = ..., overflow: OverflowStrategy = ...
    ) -> Source[T, V]: ...
    @overload
    def delay(
        self: ValuedFlow[I, T, V], seconds: float, size: int = ..., overflow: OverflowStrategy = ...
    ) -> Flow[I, T, V]: ...
    def delay(
        self, seconds: float, size: int = DELAY_SIZE, overflow: OverflowStrategy = OverflowStrategy.BACKPRESSURE
    ) -> Any:
        """Every element ``seconds`` after it came; ``size`` of them can wait, ``overflow`` says what happens to more.

        A failure does not wait. Where upstream is held back, no more than ``size`` elements pass in ``seconds``.
        """
        positive_amount("delay", "seconds", seconds)
        positive("delay", "size", size)
        member("delay", "overflow", overflow, OverflowStrategy)
        return self.via(StageFlow(lambda downstream, m: Delay(downstream, m, seconds, size, overflow), "delay"))

    @overload
    def initial_delay(self: SourceLike[T, V], seconds: float) -> Source[T, V]: ...
    @overload
    def initial_delay(self: ValuedFlow[I, T, V], seconds: float) -> Flow[I, T, V]: ...
    def initial_delay(self, seconds: float) -> Any:
        """Asks upstream for nothing in the first ``seconds``."""
        return self._timed("initial_delay", InitialDelay, seconds)

    @overload
    def take_within(self: SourceLike[T, V], seconds: float) -> Source[T, V]: ...
    @overload
    def take_within(self: ValuedFlow[I, T, V], seconds: float) -> Flow[I, T, V]: ...
    def take_within(self, seconds: float) -> Any:
        """What comes in the first ``seconds``; then the stream ends."""
        return self._timed("take_within", TakeWithin, seconds)

    @overload
    def drop_within(self: SourceLike[T, V], seconds: float) -> Source[T, V]: ...
    @overload
    def drop_within(self: ValuedFlow[I, T, V], seconds: float) -> Flow[I, T, V]: ...
    def drop_within(self, seconds: float) -> Any:
        """Drops what comes in the first ``seconds``."""
        return self._timed("drop_within", DropWithin, seconds)

    @overload
    def idle_timeout(self: SourceLike[T, V], seconds: float) -> Source[T, V]: ...
    @overload
    def idle_timeout(self: ValuedFlow[I, T, V], seconds: float) -> Flow[I, T, V]: ...
    def idle_timeout(self, seconds: float) -> Any:
        """Fails with `StreamTimeoutError` when no element has come for ``seconds``, whether one was asked for or not."""
        return self._timed("idle_timeout", IdleTimeout, seconds)

    @overload
    def completion_timeout(self: SourceLike[T, V], seconds: float) -> Source[T, V]: ...
    @overload
    def completion_timeout(self: ValuedFlow[I, T, V], seconds: float) -> Flow[I, T, V]: ...
    def completion_timeout(self, seconds: float) -> Any:
        """Fails with `StreamTimeoutError` when the stream has not ended after ``seconds``."""
        return self._timed("completion_timeout", CompletionTimeout, seconds)

    @overload
    def initial_timeout(self: SourceLike[T, V], seconds: float) -> Source[T, V]: ...
    @overload
    def initial_timeout(self: ValuedFlow[I, T, V], seconds: float) -> Flow[I, T, V]: ...
    def initial_timeout(self, seconds: float) -> Any:
        """Fails with `StreamTimeoutError` when the first element has not come after ``seconds``."""
        return self._timed("initial_timeout", InitialTimeout, seconds)

    @overload
    def backpressure_timeout(self: SourceLike[T, V], seconds: float) -> Source[T, V]: ...
    @overload
    def backpressure_timeout(self: ValuedFlow[I, T, V], seconds: float) -> Flow[I, T, V]: ...
    def backpressure_timeout(self, seconds: float) -> Any:
        """Fails with `StreamTimeoutError` when downstream has had all it asked for, and asks for no more for ``seconds``."""
        return self._timed("backpressure_timeout", BackpressureTimeout, seconds)

    @overload
    def keep_alive(self: SourceLike[T, V], seconds: float, make: Callable[[], T]) -> Source[T, V]: ...
    @overload
    def keep_alive(self: ValuedFlow[I, T, V], seconds: float, make: Callable[[], T]) -> Flow[I, T, V]: ...
    def keep_alive(self, seconds: float, make: Callable[[], Any]) -> Any:
        """Emits ``make()`` when nothing has passed for ``seconds``; if downstream asks for nothing then, as soon as it does."""
        functions("keep_alive", make=make)
        positive_amount("keep_alive", "seconds", seconds)
        return self.via(StageFlow(lambda downstream, m: KeepAlive(downstream, m, seconds, make), "keep_alive"))

    def _timed(
        self,
        name: str,
        stage: Callable[[Subscriber[Any], Materialization, float], Subscriber[Any]],
        seconds: float,
    ) -> Any:
        positive_amount(name, "seconds", seconds)
        return self.via(StageFlow(lambda downstream, m: stage(downstream, m, seconds), name))
