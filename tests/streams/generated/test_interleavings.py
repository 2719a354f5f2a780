"""Any order of request, element, completion, failure and cancellation, through every operator: the rules hold at both ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import Flow, Publisher, Source, Subscriber, Subscription
from streams.testkit import elapse, run_in_virtual_time, settle
from tests.examples_tried import tried
from tests.streams.catalogue import every
from tests.streams.catalogue.case import FlowCase
from tests.streams.generated.ends import HandPublisher, RuleKeeper
from tests.streams.generated.pacing import finish

SILENCE = 100.0
"""Virtual seconds after the end in which nothing may come: more than any timer in the catalogue."""
Event = tuple[str, Any]

events: st.SearchStrategy[list[Event]] = st.lists(
    st.one_of(
        st.tuples(st.just("request"), st.sampled_from([1, 1, 2, 5, 64, 1000])),
        st.tuples(st.just("send"), st.integers(1, 6)),
        st.tuples(st.just("elapse"), st.sampled_from([0.0, 0.1, 1.0, 10.0])),
        st.sampled_from([("complete", None), ("fail", None), ("cancel", None), ("request", 0), ("cancel run", None)]),
    ),
    max_size=14,
)


async def what_is_broken(flow: Flow[Any, Any], happening: list[Event]) -> list[str]:
    """The rules that ``flow`` breaks between two ends that keep them, when these things happen."""
    beginning, end = HandPublisher(), RuleKeeper()
    running = Source.from_publisher(lambda: beginning).via(flow).to(end).run()
    await settle()
    for event, n in happening:
        match event:
            case "request":
                end.request(n)
            case "send":
                beginning.send(n)
            case "elapse":
                await elapse(n)
            case "complete":
                beginning.end(None)
            case "fail":
                beginning.end(ValueError("upstream has failed"))
            case "cancel":
                end.cancel()
            case "cancel run":
                running.cancel()
        await settle()
    running.abandon()
    await settle()
    end.expect_silence()
    await elapse(SILENCE)
    await finish(running)
    left = {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}
    return beginning.violations + end.violations + [f"left behind: {name}" for name in left]


@pytest.mark.parametrize("case", [case for case in every.flows() if case.virtual_time], ids=lambda case: case.name)
@given(happening=events)
@settings(max_examples=tried(15))
def test_the_rules_hold_whatever_happens(case: FlowCase, happening: list[Event]) -> None:
    assert run_in_virtual_time(what_is_broken(case.flow(), happening)) == []


class Careless(Subscriber[int], Subscription):
    """Passes everything on, and breaks one rule."""

    def __init__(self, downstream: Subscriber[int], fault: str) -> None:
        self.downstream, self.fault = downstream, fault
        self.upstream: Subscription | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        self.upstream = subscription
        self.downstream.on_subscribe(self)

    def request(self, n: int) -> None:
        assert self.upstream is not None
        self.upstream.request(n)

    def cancel(self) -> None:
        assert self.upstream is not None
        self.upstream.cancel()

    def on_next(self, element: int) -> None:
        self.downstream.on_next(None if self.fault == "spoils" else element)  # type: ignore[arg-type]
        if self.fault == "doubles":
            self.downstream.on_next(element)

    def on_error(self, error: BaseException) -> None:
        self.downstream.on_error(error)

    def on_complete(self) -> None:
        self.downstream.on_complete()
        if self.fault == "ends twice":
            self.downstream.on_complete()


@pytest.mark.parametrize(
    ("fault", "happening", "rule"),
    [
        ("doubles", [("request", 1), ("send", 1)], "1.1"),
        ("ends twice", [("complete", None)], "1.7"),
        ("spoils", [("request", 1), ("send", 1)], "2.13"),
    ],
)
def test_a_stage_that_breaks_a_rule_is_caught(fault: str, happening: list[Event], rule: str) -> None:
    flow: Flow[int, int] = Flow(lambda publisher, _m: _Broken(publisher, fault))
    broken = run_in_virtual_time(what_is_broken(flow, happening))
    assert any(text.startswith(rule) for text in broken), broken


class _Broken(Publisher[int]):
    def __init__(self, upstream: Publisher[int], fault: str) -> None:
        self._upstream, self._fault = upstream, fault

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        self._upstream.subscribe(Careless(subscriber, self._fault))
