"""What the tests try every accepted operator of reactivex with, and the table in docs/reactivex.md that they prove.

``python -m tests.streams.rx.table`` prints the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import reactivex
from reactivex import operators as ops
from reactivex.notification import OnCompleted, OnNext
from reactivex.subject import Subject

from streams.rx.table import OPERATORS, REASONS, Kind, Operator

RxOperator = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Trial:
    """One way to use an operator.

    Attributes:
        make: makes it, anew for each run.
        elements: what flows in.
    """

    make: Callable[[], RxOperator]
    elements: Iterable[Any] = range(7)


def even(n: int) -> bool:
    return n % 2 == 0


def at_odd(_element: Any, index: int) -> bool:
    return index % 2 == 1


def twice(n: Any) -> Any:
    return reactivex.of(n, n)


def halves(n: int) -> Any:
    return reactivex.of(n // 2) if n > 1 else reactivex.empty()


def add(a: int, b: int) -> int:
    return a + b


PAIRS = [(1, 2), (3, 4), (5, 6)]
REPEATED = [3, 3, 1, 1, 3, 2]
NOTIFICATIONS = [OnNext(1), OnNext(2), OnCompleted(), OnNext(3)]


class Plucked:
    value = 4


TRIALS: dict[str, list[Trial]] = {
    "all": [Trial(lambda: ops.all(even)), Trial(lambda: ops.all(lambda n: n < 9))],
    "as_observable": [Trial(ops.as_observable)],
    "average": [Trial(ops.average), Trial(lambda: ops.average(lambda n: n * 2)), Trial(ops.average, [])],
    "buffer_with_count": [
        Trial(lambda: ops.buffer_with_count(3)),
        Trial(lambda: ops.buffer_with_count(3, 1)),
        Trial(lambda: ops.buffer_with_count(2, 3)),
    ],
    "concat_all": [Trial(lambda: ops.concat_all(), [twice(1), reactivex.empty(), twice(2)])],  # noqa: PLW0108 - not in all versions
    "concat_map": [Trial(lambda: ops.concat_map(twice))],
    "contains": [Trial(lambda: ops.contains(3)), Trial(lambda: ops.contains(30))],
    "count": [Trial(ops.count), Trial(lambda: ops.count(even)), Trial(ops.count, [])],
    "default_if_empty": [Trial(lambda: ops.default_if_empty(9)), Trial(lambda: ops.default_if_empty(9), [])],
    "dematerialize": [Trial(ops.dematerialize, NOTIFICATIONS), Trial(ops.dematerialize, NOTIFICATIONS[:2])],
    "distinct": [Trial(ops.distinct, REPEATED), Trial(lambda: ops.distinct(even)), Trial(lambda: ops.distinct(None, add))],
    "distinct_until_changed": [Trial(ops.distinct_until_changed, REPEATED), Trial(lambda: ops.distinct_until_changed(even))],
    "do": [Trial(lambda: ops.do(Subject()))],
    "do_action": [Trial(lambda: ops.do_action(even))],
    "element_at": [Trial(lambda: ops.element_at(2)), Trial(lambda: ops.element_at(20))],
    "element_at_or_default": [
        Trial(lambda: ops.element_at_or_default(2, 9)),
        Trial(lambda: ops.element_at_or_default(20, 9)),
    ],
    "expand": [Trial(lambda: ops.expand(halves))],
    "filter": [Trial(lambda: ops.filter(even)), Trial(lambda: ops.filter(lambda _: False))],
    "filter_indexed": [Trial(lambda: ops.filter_indexed(at_odd))],
    "finally_action": [Trial(lambda: ops.finally_action(lambda: None))],
    "find": [Trial(lambda: ops.find(lambda n, _i, _s: n == 4))],
    "find_index": [Trial(lambda: ops.find_index(lambda n, _i, _s: n == 4)), Trial(lambda: ops.find_index(lambda *_: False))],
    "first": [Trial(ops.first), Trial(lambda: ops.first(lambda n: n > 2)), Trial(ops.first, [])],
    "first_or_default": [
        Trial(lambda: ops.first_or_default(None, 9)),
        Trial(lambda: ops.first_or_default(lambda n: n > 2, 9)),
        Trial(lambda: ops.first_or_default(None, 9), []),
    ],
    "flat_map": [Trial(lambda: ops.flat_map(twice)), Trial(lambda: ops.flat_map(lambda n: [n] * n)), Trial(lambda: ops.flat_map(twice(1)))],
    "flat_map_indexed": [Trial(lambda: ops.flat_map_indexed(lambda n, i: [n, i]))],
    "ignore_elements": [Trial(ops.ignore_elements)],
    "is_empty": [Trial(ops.is_empty), Trial(ops.is_empty, [])],
    "last": [Trial(ops.last), Trial(lambda: ops.last(even)), Trial(ops.last, [])],
    "last_or_default": [
        Trial(lambda: ops.last_or_default(9)),
        Trial(lambda: ops.last_or_default(9, even)),
        Trial(lambda: ops.last_or_default(9), []),
    ],
    "map": [Trial(lambda: ops.map(str)), Trial(lambda: ops.map(lambda n: 6 // (3 - n)))],
    "map_indexed": [Trial(lambda: ops.map_indexed(add))],
    "materialize": [Trial(ops.materialize)],
    "max": [Trial(ops.max, REPEATED), Trial(lambda: ops.max(lambda a, b: b - a), REPEATED), Trial(ops.max, [])],
    "max_by": [Trial(lambda: ops.max_by(even)), Trial(lambda: ops.max_by(even, lambda a, b: b - a))],
    "merge_all": [Trial(ops.merge_all, [twice(1), reactivex.empty(), twice(2)])],
    "min": [Trial(ops.min, REPEATED), Trial(lambda: ops.min(lambda a, b: b - a), REPEATED), Trial(ops.min, [])],
    "min_by": [Trial(lambda: ops.min_by(even)), Trial(lambda: ops.min_by(even, lambda a, b: b - a))],
    "pairwise": [Trial(ops.pairwise)],
    "pluck": [Trial(lambda: ops.pluck("k"), [{"k": 1}, {"k": 2}, {}])],
    "pluck_attr": [Trial(lambda: ops.pluck_attr("value"), [Plucked(), Plucked(), 1])],
    "reduce": [Trial(lambda: ops.reduce(add)), Trial(lambda: ops.reduce(add, 10)), Trial(lambda: ops.reduce(add), [])],
    "scan": [Trial(lambda: ops.scan(add)), Trial(lambda: ops.scan(add, 10))],
    "single": [Trial(ops.single), Trial(ops.single, [4]), Trial(lambda: ops.single(lambda n: n == 4)), Trial(ops.single, [])],
    "single_or_default": [
        Trial(lambda: ops.single_or_default(None, 9)),
        Trial(lambda: ops.single_or_default(None, 9), []),
        Trial(lambda: ops.single_or_default(lambda n: n > 9, 9)),
    ],
    "single_or_default_async": [Trial(lambda: ops.single_or_default_async(True, 9), []), Trial(ops.single_or_default_async, [4])],
    "skip": [Trial(lambda: ops.skip(3)), Trial(lambda: ops.skip(30))],
    "skip_last": [Trial(lambda: ops.skip_last(3)), Trial(lambda: ops.skip_last(30))],
    "skip_while": [Trial(lambda: ops.skip_while(lambda n: n < 3))],
    "skip_while_indexed": [Trial(lambda: ops.skip_while_indexed(lambda _n, i: i < 3))],
    "slice": [Trial(ops.slice), Trial(lambda: ops.slice(1, 6, 2)), Trial(lambda: ops.slice(-3, -1)), Trial(lambda: ops.slice(2, -2))],
    "some": [Trial(ops.some), Trial(lambda: ops.some(lambda n: n > 3)), Trial(lambda: ops.some(lambda n: n > 30))],
    "starmap": [Trial(lambda: ops.starmap(add), PAIRS), Trial(ops.starmap, PAIRS)],
    "starmap_indexed": [Trial(lambda: ops.starmap_indexed(lambda a, b: a * b), PAIRS)],
    "start_with": [Trial(lambda: ops.start_with(8, 9)), Trial(lambda: ops.start_with(8, 9), [])],
    "sum": [Trial(ops.sum), Trial(lambda: ops.sum(lambda n: n * 2)), Trial(ops.sum, [])],
    "take": [Trial(lambda: ops.take(3)), Trial(lambda: ops.take(0)), Trial(lambda: ops.take(30))],
    "take_last": [Trial(lambda: ops.take_last(3)), Trial(lambda: ops.take_last(30)), Trial(lambda: ops.take_last(3), [])],
    "take_last_buffer": [Trial(lambda: ops.take_last_buffer(3)), Trial(lambda: ops.take_last_buffer(3), [])],
    "take_while": [Trial(lambda: ops.take_while(lambda n: n < 3)), Trial(lambda: ops.take_while(lambda n: n < 3, inclusive=True))],
    "take_while_indexed": [Trial(lambda: ops.take_while_indexed(lambda _n, i: i < 3))],
    "tap": [Trial(lambda: ops.tap(even))],
    "time_interval": [Trial(ops.time_interval)],
    "timestamp": [Trial(ops.timestamp)],
    "zip_with_iterable": [Trial(lambda: ops.zip_with_iterable("abc")), Trial(lambda: ops.zip_with_iterable("abcdefghi"))],
    "zip_with_list": [Trial(lambda: ops.zip_with_list([7, 8, 9]))],
}  # fmt: skip
"""For each operator that `Flow.rx` accepts, at least one use of it."""

CLOCK = {"time_interval", "timestamp"}
"""What these give depends on the time."""

WITHOUT_ELEMENTS = {"ignore_elements"}
"""These let nothing through, ever."""

UNDER_DEMAND = {
    Kind.ONE_TO_ONE: "asks for what it is asked for",
    Kind.FILTERING: "asks for one more for each dropped; cancels upstream when it has enough",
    Kind.COUNTING: "asks for one more until a group is full; what is left at the end waits for demand",
    Kind.REDUCING: "asks for one more for each element; cancels upstream when the answer is known",
    Kind.EXPANDING: "asks for one when all that it made of the last is out",
}


def shown(name: str) -> str:
    return f"`{name}`"


def line(name: str, row: Operator) -> str:
    """A row of the table in the documentation."""
    if row.kind.accepted:
        return f"| `{name}` | {row.kind.value} | {row.holds} | |"
    instead = ", ".join(map(shown, row.instead))
    return f"| `{name}` | **refused**: {row.kind.value} | | {instead}{': ' + row.hint if row.hint else ''} |"


def table() -> str:
    """What docs/reactivex.md has, between its two marks."""
    kinds = [f"| {kind.value} | accepted | {does} |" for kind, does in UNDER_DEMAND.items()]
    kinds += [f"| {kind.value} | refused | {reason} |" for kind, reason in REASONS.items()]
    accepted = sum(row.kind.accepted for row in OPERATORS.values())
    return "\n".join(
        [
            "| Class | | What it does |",
            "|---|---|---|",
            *kinds,
            "",
            f"{len(OPERATORS)} operators, of which {accepted} are accepted and {len(OPERATORS) - accepted} refused:",
            "",
            "| Operator | Class | Holds | Use instead |",
            "|---|---|---|---|",
            *(line(name, row) for name, row in OPERATORS.items()),
        ]
    )


if __name__ == "__main__":
    print(table())
