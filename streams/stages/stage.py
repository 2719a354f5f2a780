"""What stages are made of: the signals every operator treats alike, so that each says only what is its own.

A `Stage` passes its upstream's subscription on, so demand goes through it without a call. A `ControlledStage` stands between:
downstream requests from it, and it requests what it needs from upstream. Neither has a queue or a task: on_next calls on_next.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import null_element
from streams.materialize import Materialization
from streams.supervision import Decider, Directive, judge

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
I_contra = TypeVar("I_contra", contravariant=True)
O = TypeVar("O")  # noqa: E741 - as above
O_co = TypeVar("O_co", covariant=True)


def discard(_element: Any) -> None:
    """Takes the place of a stage's output once it has ended: elements still on their way go nowhere (rules 1.7 and 2.8)."""


def describe(name: str, function: Any) -> str:
    """A stage's name in an error: ``map(parse)``."""
    return f"{name}({getattr(function, '__qualname__', None) or type(function).__name__})"


class _Unsubscribed(Subscription):
    """Stands for the subscription that has not come yet, or is over."""

    __slots__ = ()

    def request(self, n: int) -> None:
        """Nobody to ask."""

    def cancel(self) -> None:
        """Nothing to stop."""


NONE: Final[Any] = object()
"""Stands where there is no element."""
UNSUBSCRIBED: Final = _Unsubscribed()
OVER: Final = _Unsubscribed()
"""Stands for a subscription that has ended (2.4) where work goes on; unlike `UNSUBSCRIBED`, no other takes its place (2.5)."""


def reject(subscriber: Subscriber[Any], error: BaseException) -> None:
    """Refuses a subscriber as rule 1.9 wants it: on_subscribe first, then the error."""
    subscriber.on_subscribe(UNSUBSCRIBED)
    subscriber.on_error(error)


class Stage(Subscriber[I], Generic[I, O]):
    """An operator whose downstream requests straight from its upstream. Subclasses give ``on_next``.

    Args:
        downstream: where its output goes; it calls ``self._push(element)``, which is ``downstream.on_next``.
        name: names it in failures.
    """

    __slots__ = ("_decider", "_done", "_downstream", "_name", "_push", "_upstream")

    def __init__(self, downstream: Subscriber[O], name: str) -> None:
        self._downstream = downstream
        self._push: Callable[[O], None] = downstream.on_next
        self._upstream: Subscription = UNSUBSCRIBED
        self._done = False
        self._name = name
        self._decider: Decider | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        """Passes the subscription on; a second one is cancelled (2.5)."""
        if subscription is None:
            raise null_element(self._name)
        if self._upstream is not UNSUBSCRIBED:
            subscription.cancel()
            return
        self._upstream = subscription
        self._subscribed()

    def on_error(self, error: BaseException) -> None:
        """Passes the failure on."""
        if error is None:
            raise null_element(self._name)
        if not self._done:
            self._failed(error)

    def on_complete(self) -> None:
        """Passes the end on."""
        if not self._done:
            self._finish()
            self._downstream.on_complete()

    def _subscribed(self) -> None:
        self._downstream.on_subscribe(self._upstream)

    def _failed(self, error: BaseException) -> None:
        """Upstream has failed."""
        self._finish()
        self._downstream.on_error(error)

    def _finish(self) -> None:
        """The stage has ended; subclasses that hold something let go of it here. Called once."""
        self._done = True
        self._push = discard

    def _fail(self, error: BaseException, where: str | None = None) -> None:
        """Ends the stage with a failure of its own: upstream is cancelled, downstream learns why and where."""
        if self._done:
            return
        error.add_note(f"in the stage {where or self._name}")
        self._finish()
        self._upstream.cancel()
        self._downstream.on_error(error)

    def _function_failed(self, error: BaseException, function: Any, element: Any = NONE) -> None:
        """A function that the user gave has raised ``error``, or has returned what is no element.

        Without a decider that ends the stage, unless it failed on an ``element`` that deals with failures itself. A stage that goes on
        has left the element behind when this returns.
        """
        if self._done:
            return
        directive, error, function = judge(self._decider, error, function, element)
        if directive is Directive.STOP:
            self._fail(error, describe(self._name, function))
        elif directive is Directive.RESUME:
            self._dropped()
        else:
            self._restarted()

    def _dropped(self) -> None:
        """The element at hand is left out under supervision: asks for another in its place, where that is how demand goes here."""
        self._upstream.request(1)

    def _restarted(self) -> None:
        """The stage begins anew under supervision, without the element at hand."""
        self._reset()
        self._dropped()

    def _reset(self) -> None:
        """Forgets what was gathered from elements, as at the beginning; stages that have such a state say how."""

    def _complete_early(self) -> None:
        """Ends the stage before its upstream does."""
        if self._done:
            return
        self._finish()
        self._upstream.cancel()
        self._downstream.on_complete()


class ControlledStage(Stage[I, O], Subscription, Generic[I, O]):
    """An operator that stands between its downstream's demand and its upstream's.

    Subclasses give ``on_next`` and `_demanded`, and take what they emit off ``self._demand``.
    """

    __slots__ = ("_demand",)

    def __init__(self, downstream: Subscriber[O], name: str) -> None:
        super().__init__(downstream, name)
        self._demand = 0

    def request(self, n: int) -> None:
        """Adds to the demand of downstream."""
        if self._done:
            return
        if n < 1:
            self._fail(invalid_demand(n))
            return
        self._demand = add_demand(self._demand, n)
        self._demanded(n)

    def cancel(self) -> None:
        """Cancels upstream and lets go of what the stage holds."""
        if not self._done:
            self._finish()
            self._upstream.cancel()

    def _subscribed(self) -> None:
        self._downstream.on_subscribe(self)

    def _demanded(self, n: int) -> None:
        """Downstream has asked for ``n`` more; ``self._demand`` says so already."""
        raise NotImplementedError


class Busy(Protocol):
    """What may be called from within itself, by a subscriber that requests in on_next or a source that ends while it is asked.

    Attributes:
        _busy: it is at work.
    """

    _busy: bool


B = TypeVar("B", bound=Busy)


def one_at_a_time(work: Callable[[B], None]) -> Callable[[B], None]:
    """``work``, a method with a loop; a call from within only leaves its mark, which is whatever the caller has changed before it.

    So the stack stays flat (3.3): the loop that goes on looks again at what there is to do.
    """

    @functools.wraps(work)
    def guarded(itself: B) -> None:
        if itself._busy:
            return
        itself._busy = True
        work(itself)
        itself._busy = False

    return guarded


class DrainingStage(ControlledStage[I, O], Generic[I, O]):
    """A stage that holds elements back and emits them in one place: whatever happens, `_drain` looks what can be done now.

    A call of `_drain` from within itself, by a subscriber that requests in on_next, only leaves its mark: ``self._busy`` is set meanwhile
    (3.3). Where `_drain` is called for each element its first lines say that by themselves: `one_at_a_time` would add 3 to 7% to one.
    Upstream's end leaves ``self._completed``; the stage ends when nothing is held any more.
    """

    __slots__ = ("_busy", "_completed")

    def __init__(self, downstream: Subscriber[O], name: str) -> None:
        super().__init__(downstream, name)
        self._busy = False
        self._completed = False

    def on_complete(self) -> None:
        """Ends once what is held is out."""
        self._completed = True
        self._upstream = OVER
        self._drain()

    def _demanded(self, n: int) -> None:  # noqa: ARG002 - the whole demand counts
        self._drain()

    def _drained(self) -> None:
        """Upstream has ended, and nothing is held any more: the stage completes; `on_complete` would only look again."""
        super().on_complete()

    @abstractmethod
    def _drain(self) -> None:
        """Emits what is held, under demand, and asks for more; calls `_drained` when it is its time."""


def supervised(stage: Subscriber[I], m: Materialization) -> Subscriber[I]:
    """``stage``, under the decider that holds at its place in the graph, if there is one."""
    if m.decider is not None and isinstance(stage, Stage):
        stage._decider = m.decider
    return stage


class PassingStage(Stage[I, I], Generic[I]):
    """A stage that lets every element through, and has its say at the end alone."""

    __slots__ = ()

    def on_next(self, element: I) -> None:
        """Passes on ``element``."""
        if element is None:
            raise null_element(self._name)
        self._push(element)


class StagePublisher(Publisher[O_co], Generic[I, O_co]):
    """What a stage makes of a publisher: each subscriber gets a stage of its own."""

    __slots__ = ("_make", "_upstream")

    def __init__(self, upstream: Publisher[I], make: Callable[[Subscriber[O_co]], Subscriber[I]]) -> None:
        self._upstream = upstream
        self._make = make

    def subscribe(self, subscriber: Subscriber[O_co]) -> None:
        """Subscribes a new stage in front of ``subscriber``."""
        if subscriber is None:
            raise null_element("subscribe")
        publisher: StagePublisher[Any, Any] = self
        stage: Subscriber[Any] = self._make(subscriber)
        while type(publisher._upstream) is StagePublisher:  # a loop, so that a long line of stages needs no deep stack
            publisher = publisher._upstream
            stage = publisher._make(stage)
        publisher._upstream.subscribe(stage)


class StageFlow(Generic[I_contra, O_co]):
    """A flow of one stage: what `via` is given by the operators.

    Args:
        make: makes the stage that feeds the given downstream.
    """

    __slots__ = ("_make", "name")

    def __init__(
        self, make: Callable[[Subscriber[O_co], Materialization], Subscriber[I_contra]], name: str = "stage"
    ) -> None:
        self._make = make
        self.name = name

    def attach_flow(self, publisher: Publisher[I_contra], m: Materialization) -> Publisher[O_co]:
        """Puts the stage behind ``publisher``."""
        make = self._make
        if m.decider is None:
            return StagePublisher(publisher, lambda downstream: make(downstream, m))
        return StagePublisher(publisher, lambda downstream: supervised(make(downstream, m), m))
