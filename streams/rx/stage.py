"""The stages around operators of reactivex: elements go in one by one, what comes out waits for demand.

Operators that give at most one element for one pass demand on as it is, and ask for another where nothing came out. Those that expand
are given one element when what they made of the last is out. Either way what they do is through when they return; what comes at any
other time is a fault (`NotSynchronousError`), as is one that has not ended when its source has.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from streams.contract import Subscriber
from streams.errors import FAILURES, ExpansionLimitError, NotSynchronousError, null_element
from streams.materialize import Materialization
from streams.rx.expansion import Unfinished, assemble
from streams.rx.recognise import Step
from streams.rx.scheduler import InlineScheduler
from streams.stages.stage import OVER, ControlledStage, discard


class Entry(Observable[Any]):
    """The source that the operators see: hands on what the stage is sent.

    Attributes:
        observer: who has subscribed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.observer: abc.ObserverBase[Any] | None = None

    def _subscribe_core(
        self,
        observer: abc.ObserverBase[Any],
        scheduler: abc.SchedulerBase | None = None,  # noqa: ARG002 - the signature is reactivex's
    ) -> abc.DisposableBase:
        if self.observer is not None:
            raise NotSynchronousError(
                "an operator in Flow.rx subscribes to its source a second time, and a flow has its source once: "
                "use RestartSource or broadcast"
            )
        self.observer = observer
        return Disposable()


class RxStage(ControlledStage[Any, Any]):
    """Operators that give at most one element for one, and whatever they keep back at the end.

    Args:
        downstream: where the output goes.
        m: the run.
        steps: the operators.
        name: names them in failures.
    """

    __slots__ = (
        "_busy",
        "_ended",
        "_failure",
        "_feed",
        "_m",
        "_observer",
        "_steps",
        "_subscription",
        "_upstream_over",
        "_waiting",
    )

    def __init__(self, downstream: Subscriber[Any], m: Materialization, steps: tuple[Step, ...], name: str) -> None:
        super().__init__(downstream, name)
        self._m = m
        self._steps = steps
        self._waiting: deque[Any] = deque()
        """What has come out of the operators. More than one only of what they give at the end, which their arguments bound."""
        self._feed: Any = discard
        self._observer: Any = None
        self._subscription: abc.DisposableBase | None = None
        self._busy = False
        self._upstream_over = False
        self._ended = False
        """Whether the operators have ended: the stage ends when nothing waits any more."""
        self._failure: BaseException | None = None

    def on_next(self, element: Any) -> None:
        """Gives the operators ``element``, and passes on what they make of it."""
        if element is None:
            raise null_element(self._name)
        try:
            self._feed(element)
        except FAILURES as error:  # what a user's function raises where its operator does not catch it
            self._fail(error)
            return
        if self._ended:
            self._settle()
        elif self._waiting:
            output = self._waiting.popleft()
            if output is None:
                self._refuse_none()
                return
            self._demand -= 1
            self._push(output)
        else:
            self._upstream.request(1)

    def on_complete(self) -> None:
        """Tells the operators; what they give then still waits for demand."""
        if not self._upstream_over:
            self._upstream_over = True
            self._upstream = OVER
            self._tell_end(None)

    def _failed(self, error: BaseException) -> None:
        if not self._upstream_over:
            self._upstream_over = True
            self._upstream = OVER
            self._tell_end(error)

    def _tell_end(self, error: BaseException | None) -> None:
        if not self._ended:
            observer = self._observer
            try:
                if error is None:
                    observer.on_completed()
                else:
                    observer.on_error(error)
            except FAILURES as failure:  # as in on_next
                self._fail(failure)
                return
            if not self._ended:
                self._fail(error or self._not_through("when its source had ended"))
                return
        if self._failure is not None and self._failure is not error:
            self._failure.add_note(f"in the stage {self._name}")
        self._drain()

    def _subscribed(self) -> None:
        self._busy = True
        self._open()
        self._downstream.on_subscribe(self)
        self._busy = False
        self._settle()

    def _open(self) -> None:
        """Subscribes to the operators; what they give at once waits until downstream has been told of its subscription."""
        entry = Entry()
        try:
            end = assemble(entry, self._steps, self._unfinished())
            self._subscription = end.subscribe(
                self._output(), self._chain_failed, self._chain_completed, scheduler=InlineScheduler(self._m.loop)
            )
        except FAILURES as error:  # whatever an operator raises goes down the stream
            self._end_with(error)
        self._observer = entry.observer
        if self._observer is not None:
            self._feed = self._observer.on_next
        elif not self._ended:
            self._end_with(self._not_through("with the subscription"))

    def _output(self) -> Any:
        return self._waiting.append

    def _unfinished(self) -> Unfinished:
        return Unfinished()

    def _chain_completed(self) -> None:
        self._ended = True

    def _chain_failed(self, error: BaseException) -> None:
        self._end_with(error)

    def _end_with(self, error: BaseException) -> None:
        """Keeps the failure for when all that came before it is out; the first one counts."""
        if not self._ended:
            self._ended = True
            self._failure = error

    def _demanded(self, n: int) -> None:
        if self._ended or self._waiting:
            self._drain()
        else:
            self._upstream.request(n)

    def _settle(self) -> None:
        """Cancels upstream, if the operators have ended by themselves, and emits what can be."""
        if self._ended and not self._upstream_over:
            self._upstream_over = True
            if self._failure is not None:
                self._failure.add_note(f"in the stage {self._name}")
            self._upstream.cancel()
        self._drain()

    def _drain(self) -> None:
        """Emits what waits, under demand, and then the end; a call from within only leaves its mark, so the stack stays flat."""
        if self._busy:
            return
        self._busy = True
        while not self._done and self._step():
            pass
        self._busy = False

    def _step(self) -> bool:
        """Does the next thing that can be done; says whether there was one."""
        if self._waiting:
            if not self._demand:
                return False
            output = self._waiting.popleft()
            if output is None:
                self._refuse_none()
                return False
            self._demand -= 1
            self._push(output)
            return True
        if self._ended:
            failure = self._failure
            self._finish()
            if failure is None:
                self._downstream.on_complete()
            else:
                self._downstream.on_error(failure)
        return False

    def _refuse_none(self) -> None:
        self._fail(
            null_element(
                f"{self._name} has given None; give its operators another default value, or leave it out with ops.filter"
            )
        )

    def _not_through(self, when: str) -> NotSynchronousError:
        return NotSynchronousError(
            f"{self._name} was not through {when}: it waits for a timer, a thread, a future or another source; "
            "use map_async, flat_map_concat, flat_map_merge or merge"
        )

    def _finish(self) -> None:
        super()._finish()
        self._ended = True
        self._feed = discard
        self._observer = self._failure = None
        self._steps = ()
        self._waiting.clear()
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            try:
                subscription.dispose()
            except FAILURES as error:  # finally_action is user code, and nobody is left to be told
                self._m.report(f"{self._name} failed while it was being disposed of", error)


class ExpandingRxStage(RxStage):
    """Operators of which one at least may give more than one element for one, or was taken on trust.

    Args:
        downstream: where the output goes.
        m: the run.
        steps: the operators.
        name: names them in failures.
        max_expansion: elements that may come out of them at once.
    """

    __slots__ = ("_asked", "_counted", "_feeding", "_limit", "_opened", "_opening", "_room", "_thread")

    def __init__(
        self,
        downstream: Subscriber[Any],
        m: Materialization,
        steps: tuple[Step, ...],
        name: str,
        max_expansion: int,
    ) -> None:
        super().__init__(downstream, m, steps, name)
        self._limit = max_expansion
        self._room = 0
        self._asked = False
        self._feeding = False
        self._opening = False
        self._opened = False
        self._counted = Unfinished()
        self._thread = threading.get_ident()

    def on_next(self, element: Any) -> None:
        """Gives the operators ``element``; what they make of it waits for demand."""
        if element is None:
            raise null_element(self._name)
        self._asked = False
        if self._ended:
            return
        self._begin()
        try:
            self._feed(element)
        except FAILURES as error:  # what a user's function raises where its operator does not catch it
            self._end_with(error)
        self._feeding = False
        if self._counted.count and not self._ended:
            self._end_with(self._not_through("with an element"))
        self._settle()

    def _tell_end(self, error: BaseException | None) -> None:
        self._begin()
        try:
            super()._tell_end(error)
        finally:
            self._feeding = False

    def _open(self) -> None:
        self._begin()
        super()._open()
        self._feeding = False
        self._opened = not self._waiting

    def _begin(self) -> None:
        self._feeding = True
        self._room = len(self._waiting) + self._limit

    def _output(self) -> Any:
        return self._collect

    def _unfinished(self) -> Unfinished:
        return self._counted

    def _collect(self, output: Any) -> None:
        if self._is_stray():
            return
        if len(self._waiting) >= self._room:
            self._room = -1  # whoever catches this and goes on gets it again
            self._end_with(ExpansionLimitError(self._name, self._limit))
            self._waiting.clear()
            # Raised as well as kept: nothing else gets a sequence without end off the loop.
            raise ExpansionLimitError(self._name, self._limit)
        self._waiting.append(output)

    def _chain_completed(self) -> None:
        if not self._is_stray():
            super()._chain_completed()

    def _chain_failed(self, error: BaseException) -> None:
        if not self._is_stray(error):
            super()._chain_failed(error)

    def _is_stray(self, cause: BaseException | None = None) -> bool:
        """Whether this signal comes at a time, or on a thread, that is not the stage's; it fails the stage then."""
        here = threading.get_ident() == self._thread
        if here and self._feeding:
            return False
        if not self._done:
            error = NotSynchronousError(
                f"{self._name} gave something of its own accord: it has a timer, a thread or another source; "
                "use flat_map_merge, merge or a source queue"
            )
            error.__cause__ = cause
            if here:
                self._m.call(self._fail, error)
            else:
                self._m.call_from_thread(self._m.call, self._fail, error)
        return True

    def _demanded(self, n: int) -> None:  # noqa: ARG002 - the whole demand counts
        if self._opened:
            self._drain()
        elif not self._opening:
            # In the loop's next turn, when the whole graph is together, as every source begins.
            self._opening = True
            self._m.loop.call_soon(self._m.call, self._begin_output)

    def _begin_output(self) -> None:
        self._opened = True
        self._drain()

    def _step(self) -> bool:
        if not self._opened and self._waiting:
            return False
        if super()._step():
            return True
        if self._done or self._ended or self._asked or self._waiting or not self._demand:
            return False
        self._asked = True
        self._upstream.request(1)
        return True
