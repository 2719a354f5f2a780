"""Queues that go when nobody has used them for as long as their settings say, each with its messages and its bindings."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from actors.errors import StorageError
from actors.queue.structures.deadlines import DeadlineHeap, each_due

if TYPE_CHECKING:
    from actors.queue.state.use import Use
    from actors.queue.vocabulary.settings import QueueSettings

TURN_QUEUES: Final = 16
TURN_SECONDS: Final = 0.001
"""Looked at in one turn of the loop, and for how long, but for one that takes longer: thousands may have been left at the same time. What
their actors do at their end comes on top, in the next turn."""

logger = logging.getLogger("penstock.queue")


class Queues(Protocol):
    """What it asks of the broker's queues; see ``QueueDirectory``."""

    def settings_of(self, name: str) -> QueueSettings:
        """The settings that a queue has."""

    def use(self, name: str) -> Use | None:
        """Who uses a queue; None where there is no such queue."""

    def delete(self, name: str) -> None:
        """Remove a queue, with its bindings."""


@dataclass(eq=False, slots=True)
class _Unused:
    """A queue that nobody may consume from, until it is looked at."""

    name: str
    deadline: float | None = None
    heap: object | None = None


class ExpiringQueues:
    """Which queues are to be looked at, and when. Lives on the broker's loop; it is no actor, like the ``QueueDirectory`` that has it.

    There is one timer, for the first of them. A queue is in the line from when it has no consumer until it is looked at and has one. What
    uses it meanwhile is only noted (`Use`), and asked for at its time.

    Args:
        queues: the broker's.
    """

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._line: DeadlineHeap[_Unused] = DeadlineHeap()
        self._unused: dict[str, _Unused] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._unused)

    def look_at(self, name: str) -> None:
        """Nobody consumes from a queue any more, or it has other settings: look at it when it may be due."""
        expires = self._queues.settings_of(name).expires
        if expires is not None:
            self._await(name, asyncio.get_running_loop().time() + expires)

    def deleted(self, name: str) -> None:
        """A queue is deleted, by whomever."""
        unused = self._unused.pop(name, None)
        if unused is not None:
            self._line.forget(unused)

    def end(self) -> None:
        """Nothing expires any more: the broker ends."""
        if self._timer is not None:
            self._timer.cancel()
        self._line, self._unused, self._timer = DeadlineHeap(), {}, None

    def _await(self, name: str, due: float) -> None:
        unused = self._unused.get(name)
        if unused is None:
            unused = self._unused[name] = _Unused(name)
        elif unused.deadline is not None and unused.deadline <= due:
            # What is looked at too early is looked at again.
            return
        else:
            self._line.forget(unused)
        self._line.push(unused, due)
        self._set_timer()

    def _set_timer(self) -> None:
        due = self._line.earliest()
        if self._timer is not None:
            if due is not None and self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = None if due is None else asyncio.get_running_loop().call_at(due, self._look)

    def _look(self) -> None:
        """Delete what is due, as much as a turn has; the rest is due at once."""
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for unused in each_due(self._line.pop_due, now, TURN_QUEUES):
            del self._unused[unused.name]
            self._judge(unused.name, now)
            if loop.time() - now >= TURN_SECONDS:
                break
        self._set_timer()

    def _judge(self, name: str, now: float) -> None:
        expires, use = self._queues.settings_of(name).expires, self._queues.use(name)
        if expires is None or use is None or use.consumers:
            # It never expires by now, or its last consumer has it looked at again.
            return
        if use.since + expires > now:
            self._await(name, use.since + expires)
            return
        try:
            self._queues.delete(name)
        except StorageError as error:
            # The broker has been told, and is about to end. The next start has the queue, and counts anew.
            logger.debug("queue %s is not deleted, though nobody uses it: %s", name, error)
        else:
            logger.info("queue %s has expired, with what it held: nobody used it for %.12g s", name, expires)
