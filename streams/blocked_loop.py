"""Says which stage holds up the event loop, while it does: in the loop's debug mode only.

A thread looks at the loop's thread from time to time. A callback of the loop that it meets again after ``loop.slow_callback_duration``
(0.1 s unless set) is taking too long; the frames in it tell the stage, and the line of the user's code. The loop itself is left alone:
nothing wakes it, and its clock may be virtual. The thread starts with the first run on a loop, and ends with the last.

Debug mode is ``PYTHONASYNCIODEBUG=1``, ``asyncio.run(..., debug=True)`` or ``loop.set_debug(True)``. Loops that are not asyncio's own
keep their callbacks out of sight; nothing is reported of them.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import operator
import sys
import threading
import time
from asyncio import base_events
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from streams.materialize import Materialization

logger = logging.getLogger("penstock.streams")

DEFAULT_SLOW: Final = 0.1
"""Seconds that a callback may take, where the loop does not say: what asyncio's do."""
MIN_SLOW: Final = 0.01
"""Seconds below which the watch does not go, whatever the loop says: looking costs time, too."""
MAX_REPORTS: Final = 256
"""Places told of by one watch; a program that blocks in more of them knows by then."""

_PACKAGE: Final = __name__.partition(".")[0]
_RUN_ONCE: Final[CodeType] = base_events.BaseEventLoop._run_once.__code__  # type: ignore[attr-defined]  # what every callback is called from
_lock: Final = threading.Lock()
_watches: Final[dict[asyncio.AbstractEventLoop, _Watch]] = {}


def watch(m: Materialization) -> None:
    """Watches the loop of ``m``, which is this thread's, until `unwatch`."""
    with _lock:
        found = _watches.get(m.loop)
        if found is None:
            found = _watches[m.loop] = _Watch(m.loop)
            found.thread.start()
        found.runs.add(m)


def unwatch(m: Materialization) -> None:
    """``m`` has ended; one that was not watched is none the worse."""
    if not _watches:
        return
    with _lock:
        found = _watches.get(m.loop)
        if found is not None:
            found.runs.discard(m)
            if not found.runs:
                del _watches[m.loop]
                found.stopped.set()


class _Watch:
    """The watch over one loop.

    Attributes:
        runs: those that are running on it.
        stopped: tells the thread to end.
        thread: looks at the loop's.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.runs: set[Materialization] = set()
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._look, name="stream watch", daemon=True)
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._told: set[CodeType] = set()

    def _look(self) -> None:
        """Meets a callback, and meets it again: the frame of its call is the same object as long as it lasts."""
        slow = max(MIN_SLOW, getattr(self._loop, "slow_callback_duration", DEFAULT_SLOW))
        met: FrameType | None = None
        since = 0.0
        while not self.stopped.wait(slow / 2):
            frames = _callback(_current_frames().get(self._loop_thread))
            callback = frames[-1] if frames else None
            if callback is None or callback is not met:
                met, since = callback, time.monotonic()
            elif (lasted := time.monotonic() - since) >= slow:
                self._tell(frames, lasted)
            del frames, callback

    def _tell(self, frames: list[FrameType], lasted: float) -> None:
        stage, place = self._blame(frames)
        if stage is None or place.f_code in self._told or len(self._told) >= MAX_REPORTS:
            return
        self._told.add(place.f_code)
        code = place.f_code
        logger.warning(
            "the stage %s has held up the event loop for %.2g s, in %s (%s:%d): "
            "what blocks belongs in a thread, with map_blocking(parallelism, f)",
            stage,
            lasted,
            code.co_qualname,
            code.co_filename,
            place.f_lineno,
        )

    def _blame(self, frames: list[FrameType]) -> tuple[str | None, FrameType]:
        """The stage at work, None if it is none of ours; and the frame of the user's code that it has called, or its own."""
        for i, frame in enumerate(frames):
            stage = _stage_of(frame)
            if stage is not None:
                return stage, next(_users(frames[:i]), frame)
        place = next(_users(frames), frames[0])
        task = asyncio.current_task(self._loop)
        if task is not None and any(run.owns(task) for run in tuple(self.runs)):
            return task.get_name(), place
        if any(_module(frame) == _PACKAGE for frame in frames):
            return "at the beginning of the stream", place
        return None, place


def _current_frames() -> dict[int, FrameType]:
    """The innermost frame of each thread.

    Python 3.11 holds a lock of the interpreter while it makes them. Garbage collected meanwhile may want that lock, to start or end a
    thread, and the process stands still for ever (CPython issue 106883). So nothing is collected meanwhile. The three calls are one
    to the interpreter: no other thread runs between them. From 3.12 on, nothing is collected within such a call.
    """
    if sys.version_info >= (3, 12) or not gc.isenabled():
        return sys._current_frames()
    _, frames, _ = map(operator.call, (gc.disable, sys._current_frames, gc.enable))
    return cast("dict[int, FrameType]", frames)


def _callback(frame: FrameType | None) -> list[FrameType]:
    """The frames of the loop's callback that is being called, the innermost first; none if the loop waits for one."""
    frames: list[FrameType] = []
    while frame is not None:
        if frame.f_code is _RUN_ONCE:
            # What _run_once calls itself, the selector for one, is no callback; a callback is in Handle._run.
            return frames if frames and frames[-1].f_code is asyncio.Handle._run.__code__ else []
        frames.append(frame)
        frame = frame.f_back
    return []


def _stage_of(frame: FrameType) -> str | None:
    """The stage or sink that a frame belongs to, by its name."""
    local = frame.f_locals
    owner: Any = local.get("self", local.get("stage"))
    # Of its class: what a user's object answers to is code of the user's, and has no business in this thread.
    if owner is None or not hasattr(type(owner), "on_next"):
        return None
    # A fused stage is several operators; which of them is at work, the line of its compiled text tells.
    step = getattr(owner, "_step_at", {}).get(frame.f_lineno, -1)
    if step >= 0:
        return str(owner._steps[step].name)
    return str(getattr(owner, "_name", None) or getattr(owner, "name", None) or type(owner).__name__)


def _users(frames: list[FrameType]) -> Iterator[FrameType]:
    """Of ``frames``, the innermost first, those that are neither asyncio's nor ours; the outermost first."""
    return (frame for frame in reversed(frames) if _module(frame) not in {_PACKAGE, "asyncio"})


def _module(frame: FrameType) -> str:
    """The top-level package that a frame's code is from."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
