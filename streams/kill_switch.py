"""Kill switches: end a stream from outside, at a place in it: downstream completes or fails, upstream is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast
from weakref import WeakKeyDictionary

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import invalid_demand
from streams.errors import null_element
from streams.flow import Flow
from streams.materialize import Materialization
from streams.stages.stage import ControlledStage, StagePublisher
from streams.type_variables import V_co

T = TypeVar("T")
K = TypeVar("K", bound="KillSwitch")


class KillSwitch:
    """Ends the streams that run through it. The first call counts; it may come from any thread.

    On the thread of a stream's loop, while that runs, the stream ends there and then; else in the loop's next turn.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._stages: WeakKeyDictionary[_KillSwitchStage[Any], None] = WeakKeyDictionary()
        """In the order in which they began; weak, for a shared switch may outlive any number of streams. Who runs is held by its stream."""
        self._used = False
        self._error: BaseException | None = None

    def shutdown(self) -> None:
        """Downstream completes, upstream is cancelled."""
        self._use(None)

    def abort(self, error: BaseException) -> None:
        """Downstream fails with ``error``, upstream is cancelled."""
        if not isinstance(error, BaseException):
            raise TypeError(f"abort() takes an exception, not {type(error).__name__}; shutdown() needs none")
        self._use(error)

    def _use(self, error: BaseException | None) -> None:
        with self._lock:
            if self._used:
                return
            self._used = True
            self._error = error
            stages = tuple(self._stages)
            self._stages.clear()
        for stage in stages:
            stage.switch(error)

    def _joined(self, stage: _KillSwitchStage[Any]) -> bool:
        """Whether a stage that begins may go on; it is remembered then, and if not, ended."""
        with self._lock:
            if not self._used:
                self._stages[stage] = None
                return True
        stage.end(self._error)
        return False

    def _left(self, stage: _KillSwitchStage[Any]) -> None:
        """A stage has ended by itself."""
        with self._lock:
            self._stages.pop(stage, None)

    def _flow(self) -> PassThrough[Self]:
        def materialize(publisher: Publisher[Any], m: Materialization) -> tuple[Publisher[Any], Self]:
            return StagePublisher(publisher, lambda downstream: _KillSwitchStage(downstream, m, self)), self

        return _pass_through(materialize, self.name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {'used' if self._used else f'of {len(self._stages)} streams'}>"


class UniqueKillSwitch(KillSwitch):
    """Ends the one stream that materialized it."""


class SharedKillSwitch(KillSwitch):
    """Ends every stream that runs through its `flow`, on whatever loop; one that is started afterwards ends at once."""

    @property
    def flow(self) -> PassThrough[SharedKillSwitch]:
        """Lets everything through until the switch is used; materializes the switch. For any number of streams."""
        return self._flow()


if TYPE_CHECKING:

    class PassThrough(Flow[Any, Any, V_co]):
        """A flow for streams of whatever type, which it leaves as they are; ``V`` is what it materializes."""

        def attach_flow(self, publisher: Publisher[T], m: Materialization, /) -> Publisher[T]:
            """As any flow."""
            ...

        def create_flow(self, publisher: Publisher[T], m: Materialization, /) -> tuple[Publisher[T], V_co]:
            """As any flow."""
            ...


def _pass_through(
    materialize: Callable[[Publisher[Any], Materialization], tuple[Publisher[Any], K]], name: str
) -> PassThrough[K]:
    flow: Any = Flow.valued(materialize, name)
    return cast("PassThrough[K]", flow)


class KillSwitches:
    """Where kill switches come from."""

    @staticmethod
    def single() -> PassThrough[UniqueKillSwitch]:
        """A flow that lets everything through, and materializes a `UniqueKillSwitch` that ends it."""

        def materialize(publisher: Publisher[Any], m: Materialization) -> tuple[Publisher[Any], UniqueKillSwitch]:
            return UniqueKillSwitch("kill_switch")._flow().create_flow(publisher, m)

        return _pass_through(materialize, "kill_switch")

    @staticmethod
    def shared(name: str) -> SharedKillSwitch:
        """A switch for several streams; ``name`` is seen in the names of their graphs."""
        return SharedKillSwitch(name)


class _KillSwitchStage(ControlledStage[T, T]):
    """One stream at the place of its switch."""

    __slots__ = ("__weakref__", "_in_push", "_m", "_switch", "_told", "_used")

    def __init__(self, downstream: Subscriber[T], m: Materialization, switch: KillSwitch) -> None:
        super().__init__(downstream, switch.name)
        self._m = m
        self._switch = switch
        self._told = False
        """Downstream has a subscription."""
        self._in_push = False
        """Downstream is being given an element: the end must not come before that has returned (1.3)."""
        self._used: tuple[BaseException | None] | None = None
        """How the switch was used within such a push."""
        switch._joined(self)

    def on_subscribe(self, subscription: Subscription) -> None:
        """Passes the subscription on, or cancels it if the switch has been used."""
        if subscription is None:
            raise null_element(self._name)
        if self._done:
            subscription.cancel()
        else:
            super().on_subscribe(subscription)

    def on_next(self, element: T) -> None:
        """Passes on ``element``."""
        if element is None:
            raise null_element(self._name)
        self._in_push = True
        try:
            self._push(element)
        finally:
            self._in_push = False
        if self._used is not None:
            (error,), self._used = self._used, None
            self._signal_end(error)

    def request(self, n: int) -> None:
        """Asks upstream: the demand is not this stage's business."""
        if self._done:
            return
        if n < 1:
            self._fail(invalid_demand(n))
            return
        self._upstream.request(n)

    def cancel(self) -> None:
        """Cancels upstream."""
        self._used = None
        super().cancel()

    def switch(self, error: BaseException | None) -> None:
        """The switch has been used, on whatever thread."""
        if asyncio._get_running_loop() is self._m.loop:
            self._m.in_context(self._m.call, self.end, error)
        else:
            self._m.call_from_thread(self._m.call, self.end, error)

    def end(self, error: BaseException | None) -> None:
        """Completes, or fails with ``error``; upstream is cancelled, now or when it comes."""
        if self._done:
            return
        self._finish()
        self._upstream.cancel()
        if not self._told:
            self._told = True
            self._downstream.on_subscribe(self)  # whatever upstream still has to say, this comes first (1.9)
        if self._in_push:
            self._used = (error,)
        else:
            self._signal_end(error)

    def _signal_end(self, error: BaseException | None) -> None:
        if error is None:
            self._downstream.on_complete()
        else:
            self._downstream.on_error(error)

    def _subscribed(self) -> None:
        self._told = True
        super()._subscribed()

    def _finish(self) -> None:
        super()._finish()
        self._switch._left(self)
