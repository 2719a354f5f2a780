"""The scheduler that reactivex's operators are given: it runs what is due, at once, and refuses what is not."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections import deque
from datetime import datetime, timedelta
from typing import Any

from reactivex import abc, typing
from reactivex.disposable import SingleAssignmentDisposable
from reactivex.scheduler.periodicscheduler import PeriodicScheduler

from streams.errors import NotSynchronousError


class InlineScheduler(PeriodicScheduler):
    """Runs actions in the caller's stack, one after the other: one that is scheduled by another waits until that is through.

    A trampoline of reactivex's own is shared by all of its thread, and would leave an action for later where another stream is in it.

    Args:
        loop: its clock is what ``now`` goes by, from the time of day when this was made: virtual time moves it too.
    """

    def __init__(self, loop: AbstractEventLoop) -> None:
        super().__init__()
        self._time = loop.time
        self._started = loop.time()
        self._began = super().now
        self._due: deque[tuple[Any, Any, SingleAssignmentDisposable]] = deque()
        self._running = False

    @property
    def now(self) -> datetime:
        """The time of day, in UTC and without a time zone, as all of reactivex's."""
        return self._began + timedelta(seconds=self._time() - self._started)

    def schedule(self, action: abc.ScheduledAction[Any], state: Any = None) -> abc.DisposableBase:
        """Runs ``action``, now or after the one that is under way."""
        disposable = SingleAssignmentDisposable()
        self._due.append((action, state, disposable))
        if not self._running:
            self._running = True
            try:
                self._run()
            finally:
                self._running = False
                self._due.clear()
        return disposable

    def schedule_relative(
        self, duetime: typing.RelativeTime, action: abc.ScheduledAction[Any], state: Any = None
    ) -> abc.DisposableBase:
        """Runs what is due at once.

        Raises:
            NotSynchronousError: it is due later.
        """
        seconds = self.to_seconds(duetime)
        if seconds > 0:
            raise _timer(seconds)
        return self.schedule(action, state)

    def schedule_absolute(
        self, duetime: typing.AbsoluteTime, action: abc.ScheduledAction[Any], state: Any = None
    ) -> abc.DisposableBase:
        """As `schedule_relative`."""
        return self.schedule_relative(self.to_datetime(duetime) - self.now, action, state)

    def schedule_periodic(
        self,
        period: typing.RelativeTime,
        action: typing.ScheduledPeriodicAction[Any],  # noqa: ARG002 - the signature is reactivex's
        state: Any = None,  # noqa: ARG002 - as above
    ) -> abc.DisposableBase:
        """Refuses.

        Raises:
            NotSynchronousError: always.
        """
        raise _timer(self.to_seconds(period))

    def _run(self) -> None:
        while self._due:
            action, state, disposable = self._due.popleft()
            if not disposable.is_disposed:
                disposable.disposable = self.invoke_action(action, state)


def _timer(seconds: float) -> NotSynchronousError:
    return NotSynchronousError(
        f"an operator in Flow.rx wants a timer of {seconds:g} s, which knows nothing of demand: "
        "use delay, throttle, grouped_within or idle_timeout"
    )
