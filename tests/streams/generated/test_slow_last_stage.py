"""A slow last stage holds every kind of pipeline to its pace. The long form, with memory, is slow_last_stage.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from streams import Flow, OverflowStrategy
from tests.streams.catalogue import every
from tests.streams.catalogue.case import FlowCase, SourceCase
from tests.streams.generated.pacing import pace_flow, pace_source
from tests.streams.generated.slow_last_stage import ALLOWED_GROWTH

ROOT = Path(__file__).parents[3]
ELEMENTS = 1_500
"""Enough for every buffer to fill and empty several times."""
STEP = 7
"""Divides no buffer's size."""


@pytest.mark.parametrize("case", every.flows(), ids=lambda case: case.name)
def test_upstream_is_never_further_ahead_than_the_operator_says(case: FlowCase) -> None:
    outcome = pace_flow(case, ELEMENTS, STEP)
    assert outcome.held_back, outcome
    assert case.ends or max(outcome.given, outcome.got) >= ELEMENTS


@pytest.mark.parametrize("case", [case for case in every.sources() if case.endless], ids=lambda case: case.name)
def test_a_source_without_end_gives_what_is_asked_for(case: SourceCase) -> None:
    assert pace_source(case, ELEMENTS, STEP).got >= ELEMENTS


@pytest.mark.parametrize(
    ("operator", "held_back"),
    [
        (Flow[int, int].identity().map(lambda n: n), True),
        (Flow[int, int].identity().buffer(64), False),
        (Flow[int, int].identity().buffer(2, OverflowStrategy.DROP_HEAD), False),
    ],
)
def test_an_operator_that_says_it_holds_nothing_and_does_is_caught(operator: Flow[int, int], held_back: bool) -> None:
    assert pace_flow(FlowCase("broken", lambda: operator), ELEMENTS, STEP).held_back == held_back


def test_an_operator_that_ends_an_endless_stream_is_caught() -> None:
    with pytest.raises(AssertionError, match="has ended"):
        pace_flow(FlowCase("broken", lambda: Flow[int, int].identity().take(50)), ELEMENTS, STEP)


def hoarded(emits: str) -> int:
    """The growth that is seen when an operator keeps 20,000 times 1,000 bytes; "nothing" keeps none."""
    kept: list[bytes] = []

    def keep(n: int) -> int:
        kept.append(bytes(1_000))
        return n

    start = Flow[int, int].identity()
    flows = {
        "each": start.map(keep),
        "at the end": start.fold(0, lambda _, n: keep(n)),
        "nothing": start.map(abs),
    }
    return pace_flow(FlowCase("hoarding", lambda: flows[emits], ahead=None), 20_000, 500).growth


@pytest.mark.parametrize(("emits", "caught"), [("each", True), ("at the end", True), ("nothing", False)])
def test_an_operator_that_keeps_what_has_passed_is_caught(emits: str, caught: bool) -> None:
    # In a process of its own, as the long form: this one may have memory to spare that other tests have used.
    program = f"from {__name__} import hoarded; print(hoarded({emits!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert (int(done.stdout) > ALLOWED_GROWTH) == caught
