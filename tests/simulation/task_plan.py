"""Draws which queues have levels, limits that drop, failures that count, and messages that wait for as much as a year."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Final

from actors import QueueSettings
from tests.simulation.judged import QueueRules
from tests.simulation.programs import ConsumerPlan, ProducerPlan, QueuePlan, TakerPlan
from tests.simulation.task_rules import LEAST_ROOM, task_rules

TASK_FEATURES: Final = frozenset({"levels", "drops", "retries", "calendar"})
CHANCE: Final = 0.15
"""Each one's, in each queue that programs send to."""
NEAR: Final = (58.0, 59.999, 60.0, 60.001, 61.0, 90.0)
"""Seconds about where the calendar begins."""
FAR: Final = (3_600.0, 86_400.0, 2_592_000.0, 366 * 86_400.0)
MAX_LATER: Final = 120
"""Messages of a program that have times of their own, at most."""
MAX_WAITING: Final = 12
"""The same where they wait in memory."""
LEAPS: Final = (1.0, 4.0)


@dataclass(frozen=True, slots=True)
class Tasks:
    """What was drawn, and what of a plan it has changed."""

    queues: list[QueuePlan]
    producers: list[ProducerPlan]
    consumers: list[ConsumerPlan]
    leaps: float | None
    timed: bool


def draw_tasks(
    seed: int,
    durable: bool,
    features: frozenset[str],
    queues: list[QueuePlan],
    producers: list[ProducerPlan],
    consumers: list[ConsumerPlan],
    takers: tuple[TakerPlan, ...],
) -> Tasks:
    """The same plan with these features, where they are drawn; each has a chance of its own, whatever the others have."""
    tasks = Tasks(queues, producers, consumers, None, timed=False)
    altered = {taker.queue for taker in takers if taker.alters is not None}
    for name in dict.fromkeys(producer.queue for producer in producers):
        drawn = {each: Random(f"{each} {seed} {name}") for each in sorted(TASK_FEATURES & features)}
        chosen = {each: random for each, random in drawn.items() if random.random() < CHANCE}
        if "levels" in chosen:
            tasks = _levels(tasks, name, chosen["levels"])
        if "drops" in chosen:
            tasks = _drops(tasks, name, chosen["drops"])
        if "retries" in chosen:
            tasks = _retries(tasks, name, chosen["retries"])
        if "calendar" in chosen:
            tasks = _calendar(tasks, name, chosen["calendar"], durable, name in altered)
    own = {each.queue for each in producers}
    return replace(tasks, queues=[_ruled(each, own, altered) for each in tasks.queues])


def _ruled(queue: QueuePlan, own: set[str], altered: set[str]) -> QueuePlan:
    """A queue that programs send to, and its dead letters, with what the checker holds them to."""
    fed_by = queue.rules.fed_by
    dead_of = fed_by[0] if fed_by and queue.name == f"{fed_by[0]}.dead" else None
    if queue.name not in own and dead_of is None:
        return queue
    return replace(queue, rules=replace(queue.rules, tasks=task_rules(queue.settings, queue.name in altered, dead_of)))


def _settings_of(tasks: Tasks, name: str) -> QueueSettings:
    return next(queue.settings for queue in tasks.queues if queue.name == name)


def _altered(tasks: Tasks, name: str, settings: QueueSettings, drops: bool) -> Tasks:
    return replace(
        tasks,
        queues=[
            replace(each, settings=settings, rules=replace(each.rules, drops=each.rules.drops or drops))
            if each.name == name
            else each
            for each in tasks.queues
        ],
    )


def _with_dead(tasks: Tasks, name: str) -> Tasks:
    """The same with a queue for dead letters, where it has none."""
    if any(each.name == f"{name}.dead" for each in tasks.queues):
        return tasks
    dead = QueueSettings()
    plan = QueuePlan(f"{name}.dead", dead, QueueRules(dead.visibility_timeout, fed_by=(name,)))
    return replace(tasks, queues=[*tasks.queues, plan])


def _levels(tasks: Tasks, name: str, random: Random) -> Tasks:
    most, dead_too = random.choice((1, 3, 9, 255)), random.random() < 0.5
    settings = _settings_of(tasks, name)
    if settings.groups:
        return tasks
    tasks = _altered(tasks, name, replace(settings, max_priority=most), drops=False)
    if dead_too and any(each.name == f"{name}.dead" for each in tasks.queues):
        tasks = _altered(tasks, f"{name}.dead", QueueSettings(max_priority=random.choice((1, most))), drops=False)
    priorities = random.choice(((0, 1), tuple(range(min(most, 4) + 1)), (0, most // 2, most, min(255, most + 2))))
    producers = [
        replace(each, priorities=priorities) if each.queue == name and random.random() < 0.8 else each
        for each in tasks.producers
    ]
    return replace(tasks, producers=producers)


def _drops(tasks: Tasks, name: str, random: Random) -> Tasks:
    overflow = random.choice(("drop-head", "drop-head", "reject-dead-letter"))
    by_count, buries = random.random() < 0.7, random.random() < 0.6 or overflow == "reject-dead-letter"
    settings = replace(
        _settings_of(tasks, name),
        overflow=overflow,
        max_messages=random.choice((8, 60)) if by_count else None,
        max_bytes=None if by_count else random.choice((20_000, 200_000)),
        dead_letter_queue=f"{name}.dead" if buries else None,
    )
    tasks = _altered(tasks, name, settings, drops=True)
    if buries:
        tasks = _with_dead(tasks, name)
    producers = [
        replace(each, drops=overflow == "reject-dead-letter") if each.queue == name else each
        for each in tasks.producers
    ]
    return replace(tasks, producers=producers, timed=True)


def _retries(tasks: Tasks, name: str, random: Random) -> Tasks:
    settings = _settings_of(tasks, name)
    drops_failed = random.random() < 0.25 and not settings.dead_letters_named
    settings = replace(
        settings,
        max_receives=random.choice((2, 3, 5)),
        retry_delay=random.choice((0.2, 1.0, 5.0)),
        retry_max_delay=random.choice((1.0, 4.0, 60.0)),
        drop_failed=drops_failed,
    )
    tasks = _altered(tasks, name, settings, drops=True)
    if not drops_failed:
        tasks = _with_dead(tasks, name)
    # Now somebody else receives from it.
    queues = [
        replace(each, rules=replace(each.rules, taken_only=False)) if each.name == name else each
        for each in tasks.queues
    ]
    fails = ConsumerPlan(
        f"{name}-consumer-who-fails",
        name,
        max_in_flight=random.choice((1, 10, 100)),
        late=random.choice((0.0, 0.3)),
        returned=random.choice((0.3, 0.6)),
        forgotten=random.choice((0.0, 0.1)),
        extended=0.0,
        stays=random.choice((1.0, 8.0)),
    )
    return replace(tasks, queues=queues, consumers=[*tasks.consumers, fails], timed=True)


def _calendar(tasks: Tasks, name: str, random: Random, durable: bool, altered: bool) -> Tasks:
    # In an exclusive queue, as in memory, all of it is in memory, and goes by the clock that nobody sets.
    far = durable and not _settings_of(tasks, name).exclusive
    times = random.choice(((0.0, 0.0, *NEAR), NEAR, (0.0, *NEAR, *FAR), FAR) if far else ((0.0, *NEAR),))
    # Where no leap helps a queue with little room takes as long for its messages as they wait.
    room = (_settings_of(tasks, name).max_messages or MAX_LATER) if far else MAX_WAITING // 2
    if altered:
        # Somebody may leave it no more than that, and what waits takes of it.
        room = min(room, LEAST_ROOM)
    producers = [
        replace(each, later=times, timed=random.random() < 0.5, total=min(each.total, MAX_LATER, 2 * room))
        if each.queue == name
        else each
        for each in tasks.producers
    ]
    leaps = random.choice(LEAPS) if durable else None
    return replace(tasks, producers=producers, leaps=leaps or tasks.leaps, timed=True)
