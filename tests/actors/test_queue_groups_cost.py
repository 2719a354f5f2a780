"""What is forgotten of the numbers of one group goes in steps, however many wait. Counted, never timed."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from actors.queue.state.groups import Group, Groups
from actors.queue.structures.numbers import Numbers
from actors.queue.structures.ranges import Range, RangeSet
from tests.actors.counted_work import instructions

BUDGET = 64
RANGES = 1_000


def one_group(numbers: Iterator[Range]) -> tuple[Groups, Group]:
    """Groups of which one has waiting numbers, and is to be trimmed."""
    groups = Groups()
    group = groups._known[b"one"] = Group(b"one", held=1)
    for part in numbers:
        groups.park(group, *part)
    groups.trim()
    return groups, group


@pytest.mark.parametrize(
    "waiting",
    [
        [(at, at + 1) for at in range(0, 2 * RANGES, 2)],
        [(0, 2 * RANGES)],
        [(at, at + 100) for at in range(0, 2 * RANGES, 200)],
    ],
    ids=["many ranges", "one range that is many", "some of each"],
)
def test_a_step_looks_at_so_many_ranges_of_a_group_and_the_next_one_goes_on(waiting: list[Range]) -> None:
    looked: list[Range] = []

    def which(start: int, stop: int) -> Iterator[Range]:
        for at in range(start + start % 2, stop, 2):
            looked.append((at, at + 1))
            yield at, at + 1

    groups, group = one_group(iter(waiting))
    steps, works = [], []
    while groups.is_behind:
        before = len(looked)
        works.append(instructions(lambda: groups.step(which, BUDGET)))
        steps.append(len(looked) - before)
        assert groups.ranges == len(group.waiting)
    assert max(steps) <= BUDGET
    assert len(steps) >= len(looked) // BUDGET > 1
    assert max(works) <= 4 * sorted(works)[len(works) // 2]
    assert list(group.waiting) == [(at, at + 1) for part in waiting for at in range(*part) if at % 2 == 0]
    assert looked == list(group.waiting), "each is looked at once"


def test_what_comes_and_goes_between_the_steps_of_a_trimming_is_neither_lost_nor_kept() -> None:
    random = Random(18)
    for _ in range(200):
        numbers, wanted = Numbers(), RangeSet()
        known: set[int] = set()
        gone: set[int] = set()
        for _ in range(random.randrange(1, 40)):
            start = random.randrange(300)
            stop = start + random.randrange(1, 9)
            numbers.add(start, stop)
            known.update(range(start, stop))
        for number in sorted(known):
            if random.random() < 0.5:
                gone.add(number)
            else:
                wanted.add(number, number + 1)

        def which(start: int, stop: int, wanted: RangeSet = wanted) -> Iterator[Range]:
            for low, high in wanted.meeting(start, stop):
                yield max(start, low), min(stop, high)

        position: int | None = 0
        while position is not None and numbers:
            before = position
            position, done = numbers.keep(which, position, random.randrange(1, 6))
            assert position is None or (position > before and done > 0), "each step gets on"
            if random.random() < 0.3:
                start = random.randrange(300)
                numbers.add(start, start + 3)
                wanted.add(start, start + 3)
                known.update(range(start, start + 3))
                gone.difference_update(range(start, start + 3))
            if numbers and random.random() < 0.2:
                first = numbers.first()[0]
                numbers.drop_below(first + 1)
                known.discard(first)
        assert {number for part in numbers for number in range(*part)} == known - gone
