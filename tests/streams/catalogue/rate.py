"""Cases of the operators that look at one element at a time, put elements together, pass them at another pace, and look on."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable
from typing import Any

from streams import Flow, LogLevels, OverflowStrategy, ThrottleMode
from tests.streams.catalogue.case import FlowCase

LONG = 1e12
"""Seconds that no test lets pass, not even in virtual time."""
MANY = 10**12
"""Elements that no test sends."""
ROOMY = 100_000
"""More than any test sends of which nothing may be dropped: see ``Runs.max_elements``."""
QUIET = logging.getLogger("tests.streams.catalogue")
SILENT = LogLevels(element=None, finish=None, failure=None)


def start() -> Flow[int, int]:
    return Flow.identity()


def same(values: list[Any]) -> list[Any]:
    return values


def itself(value: Any) -> Any:
    return value


def add(left: int, right: int) -> int:
    return left + right


def append(left: list[int], right: int) -> list[int]:
    return [*left, right]


def small(value: int) -> bool:
    return value < 50


def grouped(values: list[int], size: int) -> list[list[int]]:
    return [values[i : i + size] for i in range(0, len(values), size)]


def slid(values: list[int], size: int, step: int) -> list[list[int]]:
    """All windows that are full, and one that is not if it has something that no other has."""
    windows, covered = [], 0
    for begin in range(0, len(values), step):
        end = min(begin + size, len(values))
        if end > covered:
            windows.append(values[begin:end])
            covered = end
    return windows


def weigh(value: int) -> int:
    """1, 2, 3, 1, 2, 3, ..."""
    return value % 3 + 1


def grouped_by_weight(values: list[int], most: float, weight: Callable[[int], float] = weigh) -> list[list[int]]:
    groups: list[list[int]] = []
    total = most
    for value in values:
        if not groups or total >= most or total + weight(value) > most:
            groups.append([])
            total = 0
        groups[-1].append(value)
        total += weight(value)
    return groups


def interspersed(values: list[int]) -> list[int]:
    between = list(itertools.chain.from_iterable((-2, value) for value in values))[1:]
    return [-1, *between, -3]


def running_totals(values: list[int]) -> list[int]:
    """What `stateful_map` below makes of them: the sums, then the last one's negative."""
    totals = list(itertools.accumulate(values))
    return [*totals, last_words(totals[-1] if totals else 0)]


def last_words(total: int) -> int:
    return -total or -MANY


def sequence(value: int) -> Iterable[int]:
    return itertools.count(value)


ELEMENTWISE = [
    FlowCase(
        "map",
        lambda: start().map(lambda n: n + 1),
        lambda xs: [x + 1 for x in xs],
        identity=lambda: start().map(itself),
    ),
    FlowCase(
        "filter",
        lambda: start().filter(lambda n: n % 2),
        lambda xs: [x for x in xs if x % 2],
        ratio=2.0,
        identity=lambda: start().filter(lambda _: True),
    ),
    FlowCase(
        "filter_not",
        lambda: start().filter_not(lambda n: n % 3),
        lambda xs: [x for x in xs if not x % 3],
        ratio=3.0,
        identity=lambda: start().filter_not(lambda _: False),
    ),
    FlowCase(
        "map_concat",
        lambda: start().map_concat(lambda n: (n,) * 3),
        lambda xs: [x for x in xs for _ in range(3)],
        ratio=1 / 3,
        ahead=1,
        identity=lambda: start().map_concat(lambda n: (n,)),
    ),
    FlowCase(
        "flat_map",
        lambda: start().flat_map(lambda n: range(n % 3)),
        lambda xs: [y for x in xs for y in range(x % 3)],
        ahead=1,
        identity=lambda: start().flat_map(lambda n: [n]),
    ),
    FlowCase(
        "stateful_map",
        lambda: start().stateful_map(lambda: 0, lambda total, n: (total + n, total + n), last_words),
        running_totals,
        identity=lambda: start().stateful_map(lambda: 0, lambda state, n: (state, n)),
    ),
    FlowCase("zip_with_index", lambda: start().zip_with_index(), lambda xs: [(x, i) for i, x in enumerate(xs)]),
    FlowCase("intersperse", lambda: start().intersperse(-2, start=-1, end=-3), interspersed, ratio=0.5, ahead=1),
    FlowCase("take", lambda: start().take(7), lambda xs: xs[:7], ends=True, identity=lambda: start().take(MANY)),
    FlowCase("take, endless", lambda: start().take(MANY), same),
    FlowCase(
        "take_while",
        lambda: start().take_while(small),
        lambda xs: list(itertools.takewhile(small, xs)),
        ends=True,
        identity=lambda: start().take_while(lambda _: True),
    ),
    FlowCase(
        "take_while, inclusive",
        lambda: start().take_while(small, inclusive=True),
        lambda xs: [*itertools.takewhile(small, xs), *itertools.islice(itertools.dropwhile(small, xs), 1)],
        ends=True,
        identity=lambda: start().take_while(lambda _: True, inclusive=True),
    ),
    FlowCase("drop", lambda: start().drop(7), lambda xs: xs[7:], ahead=7, identity=lambda: start().drop(0)),
    FlowCase(
        "drop_while",
        lambda: start().drop_while(small),
        lambda xs: list(itertools.dropwhile(small, xs)),
        ahead=50,
        identity=lambda: start().drop_while(lambda _: False),
    ),
    FlowCase("scan", lambda: start().scan(0, add), lambda xs: list(itertools.accumulate(xs, initial=0))),
    FlowCase("fold", lambda: start().fold(5, add), lambda xs: [sum(xs, 5)], ahead=None),
    FlowCase("reduce", lambda: start().reduce(max), ahead=None),
]

BATCHING = [
    FlowCase("grouped", lambda: start().grouped(4), lambda xs: grouped(xs, 4), ratio=4.0),
    FlowCase("sliding", lambda: start().sliding(4), lambda xs: slid(xs, 4, 1), ahead=3),
    FlowCase("sliding, with gaps", lambda: start().sliding(2, 5), lambda xs: slid(xs, 2, 5), ratio=5.0),
    FlowCase("sliding, step", lambda: start().sliding(5, 2), lambda xs: slid(xs, 5, 2), ratio=2.0, ahead=3),
    FlowCase(
        "grouped_weighted",
        lambda: start().grouped_weighted(5, weigh),
        lambda xs: grouped_by_weight(xs, 5),
        ratio=2.0,
        ahead=1,
    ),
    FlowCase("grouped_within", lambda: start().grouped_within(4, LONG), lambda xs: grouped(xs, 4), ratio=4.0, ahead=4),
    FlowCase(
        "grouped_within, weighted",
        lambda: start().grouped_within(100, LONG, max_weight=5, weight=weigh),
        lambda xs: grouped_by_weight(xs, 5),
        ratio=2.0,
        ahead=3,
    ),
]

BUFFERING = [
    FlowCase("buffer", lambda: start().buffer(8), same, ahead=8, identity=lambda: start().buffer(8)),
    *(
        FlowCase(
            f"buffer, {overflow.value}",
            lambda overflow=overflow: start().buffer(8, overflow),
            ahead=None,
            identity=lambda overflow=overflow: start().buffer(ROOMY, overflow),
        )
        for overflow in OverflowStrategy
        if overflow not in {OverflowStrategy.BACKPRESSURE, OverflowStrategy.FAIL}
    ),
    FlowCase(
        "buffer, fail",
        # Whatever there is more of than has room is a failure: behind what is held back there never is.
        lambda: start().take(ROOMY).buffer(ROOMY, OverflowStrategy.FAIL),
        lambda xs: xs[:ROOMY],
        ahead=None,
        ends=True,
        identity=lambda: start().buffer(ROOMY, OverflowStrategy.FAIL),
    ),
    FlowCase("conflate", lambda: start().conflate(add), ahead=None),
    FlowCase("conflate_with_seed", lambda: start().conflate_with_seed(lambda n: (n, n), lambda _, n: (n, n)), ahead=None),
    FlowCase(
        "batch",
        lambda: start().batch(6, lambda n: [n], append),
        # Where downstream takes less than there is, six go into one.
        ratio=6.0,
        ahead=6,
        identity=lambda: start().batch(1, itself, add),
    ),
    FlowCase(
        "batch_weighted",
        lambda: start().batch_weighted(5, weigh, lambda n: [n], append),
        ratio=2.0,
        ahead=3,
        identity=lambda: start().batch_weighted(1, lambda _: 1, itself, add),
    ),
    FlowCase("expand", lambda: start().expand(sequence), ahead=1, identity=lambda: start().expand(lambda n: (n,))),
    FlowCase(
        "extrapolate", lambda: start().extrapolate(sequence, 7), ahead=1, identity=lambda: start().extrapolate(lambda _: ())
    ),
]  # fmt: skip

TIMING = [
    FlowCase(
        "throttle",
        lambda: start().throttle(1_000_000, 1.0, 1000),
        same,
        identity=lambda: start().throttle(1_000_000, 1.0),
    ),
    FlowCase("throttle, one by one", lambda: start().throttle(1_000_000, 1.0, 1), same),
    FlowCase(
        "throttle, cost",
        lambda: start().throttle(1_000_000, 1.0, 10, weigh),
        same,
    ),
    FlowCase("throttle, enforcing", lambda: start().throttle(MANY, 1.0, MANY, mode=ThrottleMode.ENFORCING), same),
    FlowCase("delay", lambda: start().delay(1e-3), same, ahead=16, identity=lambda: start().delay(1e-3)),
    *(
        FlowCase(
            f"delay, {overflow.value}",
            lambda overflow=overflow: start().delay(1e-3, 8, overflow),
            ahead=None,
            identity=lambda overflow=overflow: start().delay(1e-3, ROOMY, overflow),
        )
        for overflow in OverflowStrategy
        if overflow not in {OverflowStrategy.BACKPRESSURE, OverflowStrategy.FAIL}
    ),
    FlowCase(
        "delay, fail",
        lambda: start().take(ROOMY).delay(1e-3, ROOMY, OverflowStrategy.FAIL),
        lambda xs: xs[:ROOMY],
        ahead=None,
        ends=True,
        identity=lambda: start().delay(1e-3, ROOMY, OverflowStrategy.FAIL),
    ),
    FlowCase(
        "initial_delay", lambda: start().initial_delay(0.5), same, identity=lambda: start().initial_delay(1e-6)
    ),
    FlowCase("take_within", lambda: start().take_within(LONG), same, identity=lambda: start().take_within(LONG)),
    FlowCase("drop_within", lambda: start().drop_within(1e-9), same, identity=lambda: start().drop_within(1e-9)),
    FlowCase("idle_timeout", lambda: start().idle_timeout(LONG), same, identity=lambda: start().idle_timeout(LONG)),
    FlowCase(
        "completion_timeout",
        lambda: start().completion_timeout(LONG),
        same,
        identity=lambda: start().completion_timeout(LONG),
    ),
    FlowCase(
        "initial_timeout", lambda: start().initial_timeout(LONG), same, identity=lambda: start().initial_timeout(LONG)
    ),
    FlowCase(
        "backpressure_timeout",
        lambda: start().backpressure_timeout(LONG),
        same,
        identity=lambda: start().backpressure_timeout(LONG),
    ),
    FlowCase(
        "keep_alive",
        lambda: start().keep_alive(LONG, lambda: -1),
        same,
        identity=lambda: start().keep_alive(LONG, lambda: -1),
    ),
]  # fmt: skip

WATCHING = [
    FlowCase(
        "watch_termination",
        lambda: start().watch_termination(),
        same,
        identity=lambda: start().watch_termination(),
    ),
    FlowCase(
        "watch_termination, callback",
        lambda: start().watch_termination(lambda _: None),
        same,
        identity=lambda: start().watch_termination(lambda _: None),
    ),
    FlowCase("monitor", lambda: start().monitor(), same, identity=lambda: start().monitor()),
    FlowCase(
        "log",
        lambda: start().log("case", logger=QUIET, levels=SILENT),
        same,
        identity=lambda: start().log("case", logger=QUIET, levels=SILENT),
    ),
]

FLOWS = [*ELEMENTWISE, *BATCHING, *BUFFERING, *TIMING, *WATCHING]
