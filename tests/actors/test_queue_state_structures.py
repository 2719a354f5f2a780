"""The structures under `QueueState`, each against the plainest thing that does the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import MessageBatch
from actors.errors import InvalidRequestError
from actors.queue.state.entries import Entry, MemoryEntryTable, Span
from actors.queue.structures import ranges as queue_ranges
from actors.queue.structures import spans as queue_spans
from actors.queue.structures.deadlines import MIN_COMPACTED, DeadlineHeap
from actors.queue.structures.ranges import RangeSet, checked_ranges, merged
from actors.queue.structures.spans import SpanMap
from actors.queue.vocabulary.events import MessagesAdded

RANGES = st.tuples(st.integers(0, 60), st.integers(1, 15)).map(lambda pair: (pair[0], sum(pair)))

NEAR_RANGES = st.tuples(st.integers(0, 15), st.integers(1, 4)).map(lambda pair: (pair[0], sum(pair)))
"""So few numbers that ranges touch, as they must to be joined."""


@given(st.lists(st.tuples(st.booleans(), RANGES), max_size=30), st.sampled_from([1, 2, 512]))
def test_a_range_set_is_a_set(commands: list[tuple[bool, tuple[int, int]]], chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_ranges, "CHUNK_RANGES", chunk)
        ranges, model = RangeSet(), set[int]()
        for adds, (start, stop) in commands:
            numbers = set(range(start, stop))
            assert {n for part in ranges.gaps(start, stop) for n in range(*part)} == numbers - model
            assert list(ranges.each_gap(start, stop)) == ranges.gaps(start, stop)
            assert ranges.count_within(start, stop) == len(numbers & model)
            assert ranges.meeting(start, stop) == [part for part in ranges if part[0] < stop and part[1] > start]
            if adds:
                assert ranges.add(start, stop) == len(numbers - model)
                model |= numbers
            else:
                removed = ranges.remove(start, stop)
                assert {n for part in removed for n in range(*part)} == numbers & model
                model -= numbers
            assert {n for part in ranges for n in range(*part)} == model
            assert bool(ranges) == bool(model)
            flat = [edge for part in ranges for edge in part]
            assert flat == sorted(set(flat)), "neither overlapping nor touching"
            assert len(ranges) == len(flat) // 2
            assert all(1 <= len(starts) <= 2 * chunk for starts in ranges._starts)
            for position in range(80):
                reach = ranges.reach(position)
                assert set(range(position, reach)) <= model
                assert reach not in model
        assert ranges == RangeSet(ranges) == ranges.copy() == RangeSet.of_disjoint(flat if commands else [])


def test_no_change_of_a_large_range_set_moves_more_than_a_short_list() -> None:
    """What a change costs is how much it moves: with 100,000 ranges no list is longer than with 1,000."""
    ranges = RangeSet((n, n + 1) for n in range(0, 200_000, 2))
    for n in range(100_001, 200_000, 6):
        ranges.add(n, n + 1)
    for n in range(2, 100_000, 4):
        assert ranges.remove(n, n + 1) == [(n, n + 1)]
    longest = max(map(len, ranges._starts))
    assert longest <= 2 * queue_ranges.CHUNK_RANGES
    assert len(ranges._starts) < 4 * 100_000 / queue_ranges.CHUNK_RANGES
    assert ranges.count_within(0, 200_000) == 100_000 + len(range(100_001, 200_000, 6)) - 25_000


@given(data=st.data(), chunk=st.sampled_from([1, 2, 512]))
def test_a_span_map_cuts_and_joins_like_a_dictionary_of_messages(data: st.DataObject, chunk: int) -> None:
    entry = entry_of(0, [b"x"] * 80)
    spans, model = SpanMap(), dict[int, int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_spans, "CHUNK_SPANS", chunk)
        for _ in range(data.draw(st.integers(1, 25))):
            start, stop = data.draw(NEAR_RANGES)
            deliveries = data.draw(st.integers(0, 1))
            command = data.draw(st.sampled_from(["insert", "join", "join", "join", "cut", "pop"]))
            free = not model.keys() & set(range(start, stop))
            if command in ("insert", "join") and free:
                span = Span(start, stop, entry, deliveries, False)
                (spans.insert if command == "insert" else spans.join)(span)
                model |= dict.fromkeys(range(start, stop), deliveries)
            elif command == "pop":
                popped = spans.pop_exactly(start, stop)
                if popped is not None:
                    assert (popped.start, popped.stop) == (start, stop)
                    for number in range(start, stop):
                        assert model.pop(number) == popped.deliveries
            elif command == "cut":
                before = list(spans)
                taken, rest = spans.cut(start, stop)
                got = {n: span.deliveries for span in taken for n in range(span.start, span.stop)}
                assert got == {n: d for n, d in model.items() if start <= n < stop}
                assert (rest is not None) == (rest in list(spans) and rest not in before)
                model = {n: d for n, d in model.items() if not start <= n < stop}
            assert {n: span.deliveries for span in spans for n in range(span.start, span.stop)} == model
            listed = list(spans)
            assert [span.start for span in listed] == sorted(span.start for span in listed)
            assert len(spans) == len(listed)
            assert spans.first() is (listed[0] if listed else None)
            for position in range(82):
                after = [span for span in listed if span.stop > position]
                assert spans.first_from(position) is (after[0] if after else None)
                inside = bool(after) and after[0].start <= position
                assert spans.reach(position) == (after[0].stop if inside else position)
    assert len(spans.clear()) == len(listed)
    assert not spans


def test_neighbours_are_joined_only_if_they_can_be_delivered_as_one() -> None:
    entry, other = (entry_of(first, [b"x"] * 4) for first in (0, 4))
    spans = SpanMap()
    for span in (
        Span(1, 2, entry, 1, True),
        Span(0, 1, entry, 1, True),
        Span(2, 3, entry, 2, True),
        Span(3, 4, entry, 1, True),
        Span(4, 6, other, 1, True),
        Span(6, 8, other, 1, False),
    ):
        spans.join(span)
    assert [(span.start, span.stop) for span in spans] == [(0, 2), (2, 3), (3, 4), (4, 6), (6, 8)]


def entry_of(first: int, payloads: list[bytes]) -> Entry:
    table = MemoryEntryTable(0)
    table.add(MessagesAdded(first, MessageBatch.from_payloads(payloads), 0), 1)
    entry = table.at(first)
    assert entry is not None
    return entry


class Item:
    def __init__(self) -> None:
        self.deadline: float | None = None
        self.heap: object | None = None


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20)), max_size=60))
def test_a_deadline_heap_gives_what_is_due_and_not_what_was_forgotten(commands: list[tuple[int, int]]) -> None:
    heap, model = DeadlineHeap[Item](), dict[Item, float]()
    for command, number in commands:
        if command == 0:
            item = Item()
            heap.push(item, float(number))
            model[item] = float(number)
        elif command == 1 and model:
            item = list(model)[number % len(model)]
            heap.forget(item)
            del model[item]
            if number % 2:
                heap.push(item, float(number))
                model[item] = float(number)
        elif command == 2:
            due = heap.pop_due(float(number))
            earliest = min(model.values(), default=None)
            if due is None:
                assert earliest is None or earliest > number
            else:
                assert model.pop(due) == earliest
                assert due.deadline is None
        assert heap.earliest() == min(model.values(), default=None)
        assert len(heap) == len(model)


def test_what_went_from_one_heap_to_another_is_due_there_only_though_at_the_same_time() -> None:
    leases, delays = DeadlineHeap[Item](), DeadlineHeap[Item]()
    first, other = Item(), Item()
    leases.push(first, 10.0)
    leases.push(other, 20.0)
    leases.forget(first)
    delays.push(first, 10.0)
    assert leases.earliest() == 20.0
    assert leases.pop_due(10.0) is None
    assert delays.pop_due(10.0) is first
    assert len(leases) == 1


def test_a_deadline_heap_is_at_most_half_dead() -> None:
    heap = DeadlineHeap[Item]()
    items = [Item() for _ in range(1000)]
    for number, item in enumerate(items):
        heap.push(item, float(number))
    for item in items[1:]:
        heap.forget(item)
        assert len(heap._heap) <= max(MIN_COMPACTED + 1, 2 * len(heap) + 1)
    heap.forget(items[0])
    assert len(heap._heap) == 0


def test_ranges_are_checked_before_anything_is_done() -> None:
    assert checked_ranges([(5, 2), (0, 3)]) == [(0, 3), (5, 7)]
    with pytest.raises(InvalidRequestError):
        checked_ranges([(5, 2), (9, 0)])
    assert checked_ranges([(5, 2), (0, 6)]) == [(0, 6), (5, 7)]
    assert merged([(0, 2), (2, 5), (6, 7)]) == ((0, 5), (6, 7))
    assert merged([(0, 9), (2, 5), (8, 10), (10, 11)]) == ((0, 11),)
