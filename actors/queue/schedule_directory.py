"""The schedules of a broker: each has messages stored at its times, each time once, whatever is killed.

What a schedule stores and how far it is with it is one record. So there is no instant at which a message is there and its time is not
dealt with, or the other way round; what is not recorded is found by the next start, and judged by the clock then.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from pykka import ActorDeadError

from actors.errors import DiskBehindError, InboxOverflowError, QueueError, StorageError
from actors.queue.directory_errors import QueueNotFoundError
from actors.queue.schedule_storing import Queues, Storing, message_of
from actors.queue.scheduled import RoomListener, ScheduleCounts, Scheduled
from actors.queue.vocabulary.distributed import AwaitRoom
from actors.scheduling.course import Course, Fire, begun
from actors.scheduling.errors import (
    InvalidScheduleError,
    ScheduleExistsError,
    ScheduleLimitError,
    ScheduleNotFoundError,
)
from actors.scheduling.limits import MAX_SCHEDULES, MAX_SCHEDULES_BYTES
from actors.scheduling.schedule import PROGRESS_SECTION, SECTION, Progress, Schedule, decoded, decoded_progress
from actors.storage.durable_map import EntryPut, MemoryMap

if TYPE_CHECKING:
    from actors.queue.distribution import Distributor
    from actors.queue.exchange_directory import ExchangeDirectory
    from actors.runtime.loop_ref import LoopActorRef
    from actors.storage import Storage

LOOK_SECONDS: Final = 60.0
"""A time of day is no deadline of the loop's clock: somebody may set the one and not the other. So no sleep is longer than this. A message
that waits is tried again as often, if nobody has said before that there is room."""
TURN_SECONDS: Final = 0.005
"""For which messages are stored in one turn of the loop; one always is."""
SHOWN: Final = 3
"""Queues that an error names."""
LINE_SHARE: Final = 4
"""How many times as many as there are schedules the line of what is due may have, with what is not true any more."""
logger = logging.getLogger("penstock.schedules")


class ScheduleDirectory:
    """Every schedule of a broker. Lives on the broker's loop; it is no actor, like the ``QueueDirectory`` that has it.

    There is one timer, for the first of them, and none where there are no schedules.

    Args:
        queues: the broker's.
        storage: where what is durable of them is recorded; None for a broker in memory.
        exchanges: the broker's.
        distributor: stores what is due.
        wall_clock: seconds since the epoch.

    Attributes:
        counts: what all of them have come to.
    """

    def __init__(
        self,
        queues: Queues,
        storage: Storage | None,
        exchanges: ExchangeDirectory,
        distributor: Distributor,
        wall_clock: Callable[[], float],
    ) -> None:
        self._queues = queues
        self._storage = storage
        self._map = MemoryMap() if storage is None else storage
        self._storing = Storing(queues, exchanges, distributor)
        self._wall_clock = wall_clock
        self.counts = ScheduleCounts()
        self._there: dict[str, Scheduled] = {}
        self._bytes = 0
        self._line: list[tuple[float, str]] = []
        self._ready: deque[str] = deque()
        self._turn_is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._listener: LoopActorRef[RoomListener] | None = None
        self._ended = False
        progress = self._map.section(PROGRESS_SECTION)
        for name, value in self._map.section(SECTION).items():
            schedule, far = decoded(name, value), progress.get(name)
            self._bytes += len(value)
            self._keep(schedule, None if far is None else decoded_progress(name, far))
        for name in self._there:
            self._plan(name)

    def __len__(self) -> int:
        return len(self._there)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._there))

    def get(self, name: str) -> Scheduled:
        """A schedule as it stands, to be looked at only; raises ScheduleNotFoundError."""
        try:
            return self._there[name]
        except KeyError:
            raise ScheduleNotFoundError(name) from None

    @property
    def waiting(self) -> int:
        """How many have a message that waits for room."""
        return sum(bool(each.progress.waiting) for each in self._there.values())

    # --- what commands change; whoever asked is answered when all that was recorded is durable

    def declare(self, schedule: Schedule, *, replaces: bool = False) -> bool:
        """A schedule is to be there, and begins now. One that is there and says the same goes on as it does.

        A queue that is not there is made, as by who sends to it.

        Args:
            schedule: what is said of it.
            replaces: whether it takes the place of one that says something else, and begins anew.

        Returns:
            whether something has changed.

        Raises:
            ScheduleError: it cannot be, a limit is reached, or there is one that says something else.
            QueueError: its exchange is not there, its queue cannot be made, or nothing more can be remembered.
            StorageError: it cannot be recorded. Nothing has changed.
        """
        name, now = schedule.name, self._now()
        before = self._there.get(name)
        schedule = schedule._replace(begins=now, version=1, paused=False)
        schedule.check()
        if before is not None:
            differs = before.schedule.differs_from(schedule)
            if not differs:
                return False
            if not replaces:
                raise ScheduleExistsError(name, differs)
            old = before.schedule
            schedule = schedule._replace(version=old.version + 1, paused=old.paused)
        elif len(self._there) >= MAX_SCHEDULES:
            raise ScheduleLimitError(
                "schedules", len(self._there) + 1, "MAX_SCHEDULES", MAX_SCHEDULES, "remove one first"
            )
        value = schedule.encoded()
        whole = self._bytes - self._size(name) + len(value)
        if whole > MAX_SCHEDULES_BYTES:
            raise ScheduleLimitError(
                "bytes of all schedules", whole, "MAX_SCHEDULES_BYTES", MAX_SCHEDULES_BYTES, "remove one first"
            )
        self._storing.check(schedule)
        self._write(name, (SECTION, value), (PROGRESS_SECTION, begun(schedule).encoded()))
        self._bytes = whole
        self._keep(schedule, None)
        self._plan(name)
        return True

    def delete(self, name: str) -> None:
        """A schedule is to be gone, and with it what waits of it; raises ScheduleNotFoundError, StorageError."""
        self.get(name)
        size = self._size(name)
        self._write(name, (SECTION, None), (PROGRESS_SECTION, None))
        self._bytes -= size
        del self._there[name]

    def pause(self, name: str) -> bool:
        """Nothing is to come of a schedule until it is resumed; returns whether something has changed. Errors as of `delete`."""
        there = self.get(name)
        if there.schedule.paused:
            return False
        schedule = there.schedule._replace(paused=True)
        self._write(name, (SECTION, schedule.encoded()))
        self._keep(schedule, there.progress)
        return True

    def resume(self, name: str) -> bool:
        """A schedule is to go on: with what waits, and with the times that come from now on. As of `pause`."""
        there = self.get(name)
        if not there.schedule.paused:
            return False
        schedule = there.schedule._replace(paused=False)
        progress = there.progress.resumed(self._now())
        self._write(name, (SECTION, schedule.encoded()), (PROGRESS_SECTION, progress.encoded()))
        self._keep(schedule, progress)
        self._plan(name)
        return True

    # --- what others tell

    def look(self) -> None:
        """What waits may go on: senders are granted again, there is room, or a queue is no more."""
        for name, there in self._there.items():
            if there.error is not None:
                self._plan(name)

    def end(self) -> None:
        """Nothing is stored any more: the broker ends."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._listener is not None:
            self._listener.stop_nowait()
            self._listener = None

    # --- inside

    def _now(self) -> int:
        return int(self._wall_clock())

    def _size(self, name: str) -> int:
        return len(self._map.get(SECTION, name) or b"")

    def _keep(self, schedule: Schedule, progress: Progress | None) -> None:
        """Have a schedule as it is now."""
        try:
            course = Course(schedule, schedule.times(), progress)
        except (InvalidScheduleError, ScheduleLimitError) as error:
            # It was declared on another machine, or the time zones here were others.
            logger.warning("schedule %s stands still: %s", schedule.name, error)
            self._there[schedule.name] = Scheduled(schedule, progress or begun(schedule), None, str(error))
        else:
            self._there[schedule.name] = Scheduled(schedule, course.progress, course)

    def _write(self, name: str, *values: tuple[str, bytes | None]) -> None:
        self._record(self._changes(name, *values))

    def _changes(self, name: str, *values: tuple[str, bytes | None]) -> list[EntryPut]:
        """What gives entries of the map under the schedule's name other values."""
        sections = self._map.sections
        changes = [sections.change(section, name, value) for section, value in values]
        found = [change for change in changes if change is not None]
        return [change._replace(number=sections.number + at) for at, change in enumerate(found, 1)]

    def _record(self, changes: Sequence[EntryPut]) -> None:
        if self._storage is not None:
            self._storage.record_with_entries({}, changes)
        else:
            self._apply(changes)

    def _apply(self, changes: Sequence[EntryPut]) -> None:
        for change in changes:
            self._map.sections.apply(change)

    def _plan(self, name: str) -> None:
        """Look at a schedule in a turn of the loop that comes."""
        there = self._there[name]
        if there.course is None or there.planned:
            return
        there.planned = True
        self._ready.append(name)
        self._plan_turn()

    def _plan_turn(self) -> None:
        if not self._turn_is_due:
            self._turn_is_due = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _wait_until(self, there: Scheduled, due: float | None) -> None:
        if due == there.due:
            return
        there.due = due
        if due is not None:
            heappush(self._line, (due, there.schedule.name))
        if len(self._line) > LINE_SHARE * (len(self._there) + 1):
            # What is replaced again and again leaves one behind each time.
            self._line = [(each.due, name) for name, each in self._there.items() if each.due is not None]
            heapify(self._line)

    def _set_timer(self) -> None:
        """Sleep until the first is due. What the line has of those that are due at another time, or are gone, is dropped."""
        while self._line and not self._is_due_at(*self._line[0]):
            heappop(self._line)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._line and not self._ended:
            seconds = min(max(0.0, self._line[0][0] - self._wall_clock()), LOOK_SECONDS)
            self._timer = asyncio.get_running_loop().call_later(seconds, self._wake)

    def _is_due_at(self, due: float, name: str) -> bool:
        there = self._there.get(name)
        return there is not None and there.due == due

    def _wake(self) -> None:
        self._timer = None
        now = self._wall_clock()
        while self._line and self._line[0][0] <= now:
            due, name = heappop(self._line)
            if self._is_due_at(due, name):
                self._there[name].due = None
                self._plan(name)
        if not self._turn_is_due:
            self._set_timer()

    def _turn(self) -> None:
        """Carry out what is due, for as long as a turn may be."""
        self._turn_is_due = False
        if self._ended:
            return
        ends = False
        try:
            self._carry_out()
        except StorageError as error:
            # The broker has been told, and is about to end; the next start goes on.
            logger.debug("schedules stop with the broker: %s", error)
            ends = True
        finally:
            # Whatever one of them has met, the others go on.
            if not ends:
                if self._ready:
                    self._plan_turn()
                self._set_timer()

    def _carry_out(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + TURN_SECONDS
        while self._ready:
            name = self._ready.popleft()
            there = self._there.get(name)
            if there is None:
                continue
            there.planned = False
            try:
                goes_on = self._step(there)
            except StorageError:
                raise
            except Exception as error:
                # A defect, which the loop reports. What was to be done is tried again.
                self._waits(there, f"it could not be looked at: {error!r:.200}")
                raise
            if goes_on:
                self._plan(name)
            if loop.time() >= until:
                break

    def _step(self, there: Scheduled) -> bool:
        """Carry out what a schedule has to do now, one thing; whether there may be more."""
        course = there.course
        if course is None:
            return False
        step = course.step(self._now())
        if step is None:
            self._wait_until(there, course.next_time())
            return False
        try:
            if isinstance(step, Fire):
                return self._fire(there, step)
            missed = step.progress.missed - there.progress.missed
            self._write(there.schedule.name, (PROGRESS_SECTION, step.progress.encoded()))
        except DiskBehindError as error:
            self._waits(there, str(error))
            return False
        logger.warning("schedule %s: %d times have passed that were missed", there.schedule.name, missed)
        self._is(there, step.progress)
        return True

    def _fire(self, there: Scheduled, step: Fire) -> bool:
        schedule, name = there.schedule, there.schedule.name
        batch = message_of(schedule, step.time)
        try:
            names = self._storing.targets(schedule, batch)
            full = self._storing.full(names, batch, schedule.ttl)
            if full is None:
                changes = self._changes(name, (PROGRESS_SECTION, step.stored.encoded()))
                if not self._storing.store(schedule, names, batch, changes):
                    # Nothing has happened, and the time is not dealt with.
                    full = names[0], f"one of its queues is just gone: {', '.join(names[:SHOWN])}"
        except DiskBehindError:
            raise
        except QueueError as error:
            self._write(name, (PROGRESS_SECTION, step.failed.encoded()))
            if there.error != str(error):
                logger.warning("schedule %s has stored nothing: %s", name, error)
            self._is(there, step.failed)
            there.error = str(error)
            return True
        if full is None:
            if self._storage is None:
                self._apply(changes)
            self._is(there, step.stored)
            there.error = None
            return True
        queue, why = full
        if step.waits is not None:
            self._write(name, (PROGRESS_SECTION, step.waits.encoded()))
            logger.warning("schedule %s waits: %s", name, why)
            self.counts.waited += 1
            self._is(there, step.waits)
        self._waits(there, why)
        self._await_room(queue)
        return False

    def _is(self, there: Scheduled, progress: Progress) -> None:
        """It is so far, and what was counted on the way is so for all."""
        before, counts = there.progress, self.counts
        counts.fired += progress.fired - before.fired
        counts.missed += progress.missed - before.missed
        counts.failed += progress.failed - before.failed
        assert there.course is not None, "it has taken a step"
        there.progress = there.course.progress = progress

    def _waits(self, there: Scheduled, why: str) -> None:
        there.error = why
        now = self._wall_clock()
        if there.due is None or not now < there.due <= now + LOOK_SECONDS:
            self._wait_until(there, now + LOOK_SECONDS)

    def _await_room(self, name: str) -> None:
        """Hear of room in a queue that has none. Where it has some, and does not take the message all the same, it is tried again later."""
        if not self._storing.is_closed(name):
            return
        if self._listener is None:
            self._listener = RoomListener.start(self.look)
        with suppress(ActorDeadError, InboxOverflowError, QueueNotFoundError):
            self._queues.get(name).tell(AwaitRoom(self._listener))
