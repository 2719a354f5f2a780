"""What happens to an actor whose handler fails: a policy the class declares, and the limit on restarts."""

from __future__ import annotations

import enum
from collections import deque

DEFAULT_MAX_RESTARTS = 5
"""An actor that fails more often than this within the window is broken, not unlucky."""
DEFAULT_RESTART_WINDOW = 60.0
"""Seconds over which restarts are counted."""


class Supervision(enum.Enum):
    """The policy for a failing ``tell``; a failing ``ask`` always answers its caller and the actor lives on."""

    STOP = "stop"
    """Log, call ``on_failure``, stop; asks still in the inbox fail. pykka's behaviour and the default."""
    RESUME = "resume"
    """Log and go on with the next message, state as the failed handler left it."""
    RESTART = "restart"
    """Log, cancel timers, call ``on_restart`` to renew the state, go on; at the limit of restarts, STOP."""


class RestartBudget:
    """Counts restarts in a sliding window of time; holds at most ``max_restarts`` times."""

    __slots__ = ("_times", "_window")

    def __init__(self, max_restarts: int, window: float) -> None:
        self._times: deque[float] = deque(maxlen=max_restarts)
        self._window = window

    def take(self, now: float) -> bool:
        """Count a restart at ``now`` (loop seconds); False if it would be one too many and was not counted."""
        times = self._times
        while times and now - times[0] >= self._window:
            times.popleft()
        if len(times) == times.maxlen:
            return False
        times.append(now)
        return True
