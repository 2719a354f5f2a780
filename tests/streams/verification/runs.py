"""Publishers, subscribers and processors of the toolkit as the kit needs them: each in a run of its own, which ends with the test."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import unittest
from bisect import bisect_left
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from streams import UNBOUNDED, Flow, Keep, Materialization, Processor, Publisher, Running, Sink, Source, Subscriber
from streams.testkit import run_in_virtual_time
from tests.streams.catalogue.case import FlowCase, SinkCase, SourceCase

RECOVERING = ("recover", "map_error", "on_error_complete", "restart", "flow restart", "supervis")
"""Operators, by the beginning of their names, after which a failure is not the failure that it was (4.2)."""

FED = 5_000
"""Elements at most through an operator that does not hold upstream back: none may be dropped, so there is room for every one."""

SEARCHED = 64
"""Elements that may flow into an operator, beyond 16 for each that is to come out, until that many do."""


SHARING = ("file", "lines")
"""Sources whose cases read an open file, from where it stands."""


SAME_STAGE = {
    "graph, broadcast, one output": "graph, broadcast",
    "graph, partition, one output": "graph, partition, unordered",
    "group_by, closed substreams recreated": "group_by",
    "map_async, waiting": "map_async",
    "map_async_partitioned, waiting": "map_async_partitioned",
    "map_async_unordered, waiting": "map_async_unordered",
    "restart_flow, failing": "restart_flow",
    "restart_flow, on_failures_with_backoff, failing": "restart_flow, on_failures_with_backoff",
    "rx, a chain": "rx, flat_map of one",
    "rx, distinct_until_changed": "rx, filter",
    "rx, flat_map": "rx, flat_map of one",
    "rx, flat_map of observables": "rx, flat_map of one",
    "split_after, merged": "split_after",
    "split_when, merged": "split_when",
    "split_when, merge_substreams_with_parallelism": "group_by, merge_substreams_with_parallelism",
    "take, endless": "take",
    "throttle, cost": "throttle",
    "throttle, enforcing": "throttle",
    "throttle, one by one": "throttle",
    "with_supervision, filter and scan": "with_supervision, map",
    "with_supervision, map_async": "with_supervision, map",
}
"""Cases whose stage is verified in the form that another case has; in their own, with `make soak`."""


def mostly(cases: list[FlowCase]) -> list[Any]:
    """These, as parameters: those whose stage another case has only where there is time."""
    return [pytest.param(case, marks=[pytest.mark.soak] if case.name in SAME_STAGE else []) for case in cases]


class Captured(Publisher[Any]):
    """An upstream that does nothing but keep the subscriber it is given."""

    def __init__(self) -> None:
        self.subscriber: Subscriber[Any] | None = None

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        assert self.subscriber is None, "a stage that subscribes twice"
        self.subscriber = subscriber

    def as_source(self) -> Source[Any]:
        return Source(lambda _m: (self, None), "kit")

    def taken(self) -> Subscriber[Any]:
        assert self.subscriber is not None, "nothing has subscribed to the upstream"
        return self.subscriber


class Runs:
    """The part of a verification that starts what it tests in runs, and ends them.

    Attributes:
        case: what is tested.
    """

    case: FlowCase | SourceCase | SinkCase
    _runs: list[Running[Any]]

    @property
    def recovers(self) -> bool:
        return self.case.name.startswith(RECOVERING)

    @property
    def ordered(self) -> bool:
        return "unordered" not in self.case.name

    @property
    def timeout(self) -> float:
        return 60.0 if self.case.virtual_time else 10.0

    @property
    def max_elements(self) -> int:
        held_back = not isinstance(self.case, FlowCase) or self.case.ahead is not None
        return UNBOUNDED if held_back else FED

    @property
    def strict(self) -> bool:
        # Several subscribers do not get the same in the same order where there is no order, or one file that they share.
        return self.ordered and self.case.name not in SHARING

    @property
    def silence(self) -> float:
        return 1.0 if self.case.virtual_time else 0.02

    def run(self, coro: Coroutine[Any, Any, Any]) -> Any:
        return run_in_virtual_time(coro) if self.case.virtual_time else asyncio.run(coro)

    def publisher_of(self, source: Source[Any]) -> Publisher[Any]:
        """The publisher of a run of ``source`` whose sink leaves it to the test."""
        publishers: list[Publisher[Any]] = []

        def attach(publisher: Publisher[Any], m: Materialization) -> asyncio.Future[None]:
            publishers.append(publisher)
            return m.loop.create_future()

        self.keep(source.to(Sink(attach, "kit")).run())
        return publishers[0]

    def subscriber_of(self, sink: Sink[Any, Any]) -> Subscriber[Any]:
        """The subscriber that ``sink`` gives its upstream."""
        upstream = Captured()
        self.keep(upstream.as_source().to(sink, Keep.right).run())
        return upstream.taken()

    def processor_of(self, flow: Flow[Any, Any]) -> Processor[Any, Any]:
        """The processor that ``flow`` becomes."""
        running = flow.to_processor().run()
        self.keep(running)
        processor: Processor[Any, Any] = running.value
        return processor

    def value(self) -> Any:
        """What the last run has materialized."""
        return self._runs[-1].value

    def keep(self, running: Running[Any]) -> None:
        if not hasattr(self, "_runs"):
            self._runs = []
        self._runs.append(running)

    async def tear_down(self) -> None:
        runs, self._runs = getattr(self, "_runs", []), []
        for running in runs:
            running.cancel()
        for running in runs:
            # However it ends: a test that breaks a rule on purpose has made it fail.
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await running


def rules_of(verification: type) -> list[str]:
    """The names of the tests that a verification has, without those that it leaves out."""
    return [name for name in dir(verification) if name.startswith("test_") and getattr(verification, name) is not None]


def verify_each_rule(verification: Callable[[], Runs], case: FlowCase | SourceCase | SinkCase) -> None:
    """Runs all tests of a verification over a case, each on an instance of its own, and tells of every one that fails.

    One test of pytest's for a case, not one for each of its rules: twelve thousand cost more to collect and to report than to run.
    """
    broken: list[Exception] = []
    held = 0
    for rule in rules_of(type(verification())):
        verified = verification()
        verified.case = case
        try:
            getattr(verified, rule)()
        except unittest.SkipTest:
            continue
        except Exception as error:  # noqa: BLE001 - every rule that is broken is told of, whatever it was broken by
            error.add_note(f"in {rule}")
            broken.append(error)
        held += 1
    if broken:
        raise ExceptionGroup(f"{case.name} does not keep {len(broken)} of {held} rules", broken)
    assert held, f"every rule is skipped for {case.name}"


def numbers(elements: int) -> Source[int]:
    """0, 1, 2, ..."""
    return Source.iterable(itertools.count if elements >= UNBOUNDED else lambda: range(elements))


def flowing_in(case: FlowCase, elements: int) -> int:
    """How many numbers must flow into an operator for ``elements`` to come out."""
    model = case.model
    assert model is not None
    if elements >= UNBOUNDED:
        return UNBOUNDED
    most = 16 * elements + SEARCHED
    needed = bisect_left(range(most), elements, key=lambda n: len(model(list(range(n)))))
    if len(model(list(range(needed)))) != elements:
        raise unittest.SkipTest(f"the operator cannot give exactly {elements} elements")
    return needed
