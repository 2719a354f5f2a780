"""One interest in the end of an actor, and how it is told."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.runtime._loop_inbox import LoopInbox

    WatchCallback = Callable[[BaseException | None], None]

logger = logging.getLogger("penstock.actors")

WATCH_LOCK = threading.RLock()
"""Guards the ends of all actors against those who ask about them from other threads; never held over a callback."""


@dataclass(eq=False, repr=False, slots=True)
class Watched:
    """In a watching actor's own inbox: an actor it watches has ended."""

    watch: Watch
    failure: BaseException | None


@dataclass(eq=False, repr=False, slots=True)
class Watch:
    """A callback for the end of ``target``: ``callback(failure)``, failure being None after an ordinary stop.

    With a ``watcher`` the callback runs as one of that actor's messages, on its loop; without, on the target's loop.
    """

    target: LoopInbox
    callback: WatchCallback
    watcher: LoopInbox | None = None
    group: set[Watch] | None = None
    cancelled: bool = False

    def __post_init__(self) -> None:
        if self.group is not None:
            self.group.add(self)

    def cancel(self) -> None:
        """Never call back; from the thread where the callback would run this holds without exception."""
        self.cancelled = True
        self.target.unwatch(self)
        self.leave_group()

    def leave_group(self) -> None:
        """Drop out of the watcher's own set of watches that are still to come."""
        if self.group is not None:
            self.group.discard(self)

    def deliver(self, failure: BaseException | None) -> None:
        """Tell the watcher, or call back here and now; a failing callback is logged, as others wait their turn."""
        if self.cancelled:
            return
        if self.watcher is not None:
            self.watcher.offer_beyond_bound(Watched(self, failure))
            return
        try:
            self.callback(failure)
        except Exception:
            logger.exception("a callback watching %s failed", self.target.name)
