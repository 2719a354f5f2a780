"""What a seed means for groups and for deduplication: which queues have them, and what their messages say. Drawn apart from all else."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from tests.simulation.said import NOTHING, Says

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.programs import ProducerPlan, QueuePlan, WriterPlan

GROUPS_CHANCE: Final = 0.17
"""That a queue has groups, of those that can have them;"""
IDS_CHANCE: Final = 0.2
"""and that it looks at ids, likewise: each comes to a bit more than a tenth of all."""
WINDOWS: Final = ((0.5, 8), (1.0, 20), (2.0, 40), (0.5, 1_000_000), (5.0, 1_000_000), (60.0, 1_000_000))
"""Seconds of the window, and how many ids there may be: so many, and so long, that a run's messages pass in some minutes."""
MANY_IDS: Final = 1_000
"""With so many, transactions may have ids: what is staged at a time may not be more than the queue remembers."""


def draw_said(
    seed: int, queues: Sequence[QueuePlan], names: Sequence[str], features: frozenset[str]
) -> tuple[list[QueuePlan], dict[str, Says]]:
    """The queues, with groups and windows for those of these names that are drawn; and what is said in which."""
    random = Random(f"groups and ids {seed}")
    found: list[QueuePlan] = []
    said: dict[str, Says] = {}
    for queue in queues:
        drawn, says = _draw(random, queue, features) if queue.name in names else (queue, NOTHING)
        if says != NOTHING:
            said[queue.name] = says
        found.append(drawn)
    return found, said


def _draw(random: Random, queue: QueuePlan, features: frozenset[str]) -> tuple[QueuePlan, Says]:
    says, settings, rules = NOTHING, queue.settings, queue.rules
    grouped, identified = random.random() < GROUPS_CHANCE, random.random() < IDS_CHANCE
    groups, free = random.choice((1, 3, 20)), random.choice((0.0, 0.2, 0.7))
    (window, most), again = random.choice(WINDOWS), random.choice((0.1, 0.5))
    shared, nameless = random.choice((0.0, 0.5, 1.0)), random.choice((0.0, 0.3))
    if grouped and "groups" in features and not settings.exclusive and settings.max_priority is None:
        settings, rules = replace(settings, groups=True), replace(rules, groups=True)
        says = replace(says, groups=groups, free=free)
    tasks = rules.tasks
    # What is dropped, or refused and sent again, has left its id, and nobody has seen whether it was stored.
    seen = tasks is None or not (tasks.vanishes or tasks.drops_head or tasks.refused_die)
    if identified and seen and "ids" in features:
        settings = replace(settings, deduplication_window=window, max_deduplication_ids=most)
        rules = replace(rules, window=window, most_ids=most)
        says = replace(says, again=again, shared=shared, nameless=nameless)
    return replace(queue, settings=settings, rules=rules), says


def say(producers: Sequence[ProducerPlan], said: dict[str, Says]) -> list[ProducerPlan]:
    """The producers, with what they say."""
    return [replace(each, says=said.get(each.queue, NOTHING)) for each in producers]


def stage(writers: Sequence[WriterPlan], said: dict[str, Says], queues: Sequence[QueuePlan]) -> tuple[WriterPlan, ...]:
    """The writers, likewise."""
    few = {each.name for each in queues if each.rules.most_ids is not None and each.rules.most_ids < MANY_IDS}
    told = {name: replace(says, again=None) if name in few else says for name, says in said.items()}
    return tuple(
        replace(each, says=tuple((name, told[name]) for name in each.queues if name in told)) for each in writers
    )
