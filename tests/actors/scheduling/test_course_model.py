"""Whatever is killed, blocked or paused, and however the clock is set: each time of a schedule is dealt with once.

The model is written down as sets: what was due is judged all at once. What it is compared with takes one step at a time, and each step is
a record; a kill leaves a beginning of the records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.scheduling import course as courses
from actors.scheduling.course import Course, Fire, begun
from actors.scheduling.limits import MISSED_SECONDS
from actors.scheduling.schedule import ALL, MISSED, ONCE, SKIP, Progress, Schedule
from tests.examples_tried import tried

MOST = 5
"""Times that are made up for, here."""
START = 1_700_000_000
EXPRESSIONS = ("every 1s", "every 7s", "every 30s", "* * * * *", "*/15 * * * * *")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("passes"), st.sampled_from([0, 1, 2, 5, MISSED_SECONDS, 11, 40, 100, 400])),
        st.tuples(st.just("is set back"), st.sampled_from([1, 10, 100, 1_000])),
        st.tuples(st.just("kill"), st.integers(0, 9)),
        st.just(("looks",)),
        st.just(("blocked",)),
        st.just(("open",)),
        st.just(("nowhere",)),
        st.just(("pause",)),
        st.just(("resume",)),
        st.just(("synced",)),
    ),
    max_size=40,
)


@dataclass(slots=True)
class Record:
    """What one step leaves: the progress, whether the schedule is paused, and the time that was stored with it."""

    progress: Progress
    paused: bool
    stored: int | None = None


@dataclass(slots=True)
class World:
    """One schedule, its records, and the clock."""

    schedule: Schedule
    now: int = START
    way: str = "open"
    records: list[Record] = field(default_factory=list)
    durable: int = 1
    course: Course = field(init=False)

    def __post_init__(self) -> None:
        self.records.append(Record(begun(self.schedule), False))
        self._begin()

    def _begin(self) -> None:
        last = self.records[-1]
        schedule = self.schedule._replace(paused=last.paused)
        self.course = Course(schedule, schedule.times(), last.progress)

    @property
    def progress(self) -> Progress:
        return self.records[-1].progress

    @property
    def paused(self) -> bool:
        return self.records[-1].paused

    @property
    def stored(self) -> list[int]:
        return [record.stored for record in self.records if record.stored is not None]

    def record(self, progress: Progress, stored: int | None = None) -> None:
        self.records.append(Record(progress, self.paused, stored))
        self.course.progress = progress

    def looks(self) -> None:
        """Every step that there is, as the directory takes them."""
        for _ in range(10_000):
            step = self.course.step(self.now)
            if step is None:
                return
            if not isinstance(step, Fire):
                self.record(step.progress)
            elif self.way == "open":
                self.record(step.stored, step.time)
            elif self.way == "nowhere":
                self.record(step.failed)
            else:
                if step.waits is not None:
                    self.record(step.waits)
                return
        raise AssertionError("it never ends")

    def kill(self, kept: int) -> None:
        """A beginning of the records is left, all that was durable among it."""
        del self.records[max(self.durable, len(self.records) - kept) :]
        self._begin()

    def pause(self) -> None:
        self.records.append(Record(self.progress, True))
        self._begin()

    def resume(self) -> None:
        if self.paused:
            self.records.append(Record(self.course.progress.resumed(self.now), False))
            self._begin()


def chosen(due: list[int], now: int, policy: str) -> tuple[list[int], list[int]]:
    """What is stored of the times that are due, and what of them is passed over, by the set."""
    missed = [time for time in due if now - time > MISSED_SECONDS]
    made_up = {SKIP: [], ONCE: missed[-1:], ALL: missed[-MOST:]}[policy]
    return made_up + due[len(missed) :], [time for time in missed if time not in made_up]


def due_of(world: World) -> list[int]:
    times, found = world.course.times, []
    following = times.after(world.progress.through)
    while following is not None and following <= world.now:
        found.append(following)
        following = times.after(following)
    return found


def expected(world: World) -> tuple[list[int], int]:
    """The times that a look stores, or finds no place for, and the one that waits behind it."""
    waiting = [world.progress.waiting] if world.progress.waiting else []
    if world.paused:
        return [], world.progress.waiting
    if world.way == "blocked":
        if waiting:
            return [], waiting[0]
        stored, _ = chosen(due_of(world), world.now, world.schedule.missed)
        return [], stored[0] if stored else 0
    return waiting + chosen(due_of(world), world.now, world.schedule.missed)[0], 0


def act(world: World, what: str, *arguments: Any) -> None:
    if what == "passes":
        world.now += arguments[0]
    elif what == "is set back":
        world.now -= arguments[0]
    elif what in ("blocked", "open", "nowhere"):
        world.way = what
    elif what == "synced":
        world.durable = len(world.records)
    elif what == "looks":
        before, (meant, waits) = world.stored, expected(world)
        failed, nowhere = world.progress.failed, world.way == "nowhere"
        world.looks()
        assert world.stored == before + ([] if nowhere else meant)
        assert world.progress.failed == failed + (len(meant) if nowhere else 0)
        assert world.progress.waiting == waits
        if not world.paused and world.way != "blocked":
            assert due_of(world) == []
    else:
        getattr(world, what)(*arguments)


def lived(expression: str, policy: str, steps: list[tuple[Any, ...]]) -> World:
    world = World(Schedule("s", expression, queue="q", missed=policy, begins=START, version=1))
    for step in steps:
        act(world, *step)
        stored = world.stored
        assert stored == sorted(set(stored)), "no time is there twice, and each comes in its turn"
        assert all(world.course.times.after(time - 1) == time for time in stored), "what is no time is not there"
        assert world.progress.fired == len(stored)
    return world


@pytest.fixture(autouse=True)
def few_are_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courses, "MAX_MISSED", MOST)


@given(st.sampled_from(EXPRESSIONS), st.sampled_from(MISSED), STEPS)
@settings(max_examples=tried(1_000), suppress_health_check=[])
def test_each_time_is_dealt_with_once_whatever_happens(
    expression: str, policy: str, steps: list[tuple[Any, ...]]
) -> None:
    lived(expression, policy, steps)


@given(
    st.sampled_from(["every 1s", "every 3s", "*/5 * * * * *"]),
    st.lists(st.sampled_from([("passes", 1), ("passes", 4), ("looks",), ("kill", 0), ("kill", 3)]), max_size=60),
)
@settings(max_examples=tried(300))
def test_through_any_kills_each_time_is_there_exactly_once(expression: str, steps: list[tuple[Any, ...]]) -> None:
    world = World(Schedule("s", expression, queue="q", missed=ALL, begins=START, version=1))
    for step in steps:
        # No kill is so long that more is missed than is made up for.
        if step[0] == "passes":
            world.looks()
        act(world, *step)
    world.looks()
    times, meant = world.course.times, []
    following = times.after(START)
    while following is not None and following <= world.now:
        meant.append(following)
        following = times.after(following)
    assert world.stored == meant


@given(st.sampled_from(["every 1s", "every 7s"]), st.sampled_from(MISSED), STEPS)
@settings(max_examples=tried(300))
def test_every_time_of_an_interval_is_counted_as_one_thing(
    expression: str, policy: str, steps: list[tuple[Any, ...]]
) -> None:
    world = lived(expression, policy, [step for step in steps if step[0] not in ("pause", "resume")])
    progress = world.progress
    seconds = int(expression.split()[1][:-1])
    waits = bool(progress.waiting)
    counted = progress.fired + progress.missed + progress.failed + waits
    assert counted == (progress.through - START) // seconds


def test_progress_of_another_version_of_the_schedule_is_not_its_own() -> None:
    schedule = Schedule("s", "every 1s", queue="q", begins=START, version=3)
    course = Course(schedule, schedule.times(), Progress(2, START + 100, START + 50))
    assert course.progress == begun(schedule)


def test_a_message_that_waits_is_kept_while_times_pass_that_are_skipped() -> None:
    world = World(Schedule("s", "every 1s", queue="q", begins=START, version=1), way="blocked")
    world.now += 1
    world.looks()
    world.now += 1_000
    world.looks()
    assert world.stored == []
    assert world.progress.waiting == START + 1
    world.way = "open"
    world.looks()
    assert world.stored == [START + 1, *range(START + 1_001 - MISSED_SECONDS, START + 1_002)]
    assert world.progress.missed == 1_001 - MISSED_SECONDS - 2


def test_what_is_made_up_for_is_judged_anew_behind_a_wait() -> None:
    world = World(Schedule("s", "every 1s", queue="q", missed=ALL, begins=START, version=1), way="blocked")
    for step in (("passes", 50), ("looks",), ("passes", 100), ("open",), ("looks",)):
        act(world, *step)
    first = START + 50 - MISSED_SECONDS - MOST
    behind = START + 150 - MISSED_SECONDS
    assert world.stored == [first, *range(behind - MOST, START + 151)]
