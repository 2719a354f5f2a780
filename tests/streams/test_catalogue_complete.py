"""Everything public has a case in the catalogue, so that what is generated from it is about everything; and cases do what they say."""

from __future__ import annotations

import asyncio
import inspect
import re
from typing import Any

import pytest

import streams
from streams import Source, junctions
from streams.operators.every import Operators
from streams.testkit import run_in_virtual_time
from tests.streams.catalogue import every
from tests.streams.catalogue.case import SinkCase

OWNERS: tuple[tuple[type, str, list[str]], ...] = (
    (streams.Flow, "{}", [case.name for case in every.flows()]),
    (streams.Framing, "framing, {}", [case.name for case in every.flows()]),
    (streams.KillSwitches, "kill_switch, {}", [case.name for case in every.flows()]),
    (streams.RestartFlow, "restart_flow, {}", [case.name for case in every.flows()]),
    (streams.BidiFlow, "bidi_flow, {}", [case.name for case in every.flows()]),
    (streams.Source, "{}", [case.name for case in every.sources()]),
    (streams.RestartSource, "restart_source, {}", [case.name for case in every.sources()]),
    (streams.Sink, "{}", [case.name for case in every.sinks()]),
    (streams.RestartSink, "restart_sink, {}", [case.name for case in every.sinks()]),
)
"""Classes with factories: how the names of their cases begin, and where these are."""

UNDER_ANOTHER_NAME = {
    "via": "framing, delimiter",
    "Flow.from_stage": "lines",
    "Framing.encode_length_field": "framing, length_field",
    "RestartFlow.with_backoff": "restart_flow",
    "RestartSource.with_backoff": "restart_source",
    "RestartSource.on_failures_with_backoff": "restart_source",
    "RestartSink.with_backoff": "restart_sink",
    "BidiFlow.from_functions": "bidi_flow, join",
    "BidiFlow.from_flows": "bidi_flow, join",
    "Source.empty": "merge",
    "SubSource.merge_substreams": "split_when, merged",
    "SubSource.concat_substreams": "split_when",
    "SubSource.merge_substreams_with_parallelism": "group_by, merge_substreams_with_parallelism",
    "SubSource.to": "group_by, to a sink each",
    "Source.broadcast": "broadcast",
    "Source.balance": "balance",
    "Source.partition": "partition",
}
"""What is public, and the case in which it takes part."""

WITHOUT_A_CASE = {
    "Source.failed": "it has no element; the verification has it before every operator",
    "Source.never": "it has no element and no end: there is nothing to pace",
    "Junction": "it is the protocol of the others",
}
"""What is public and has no case, and why."""

METHODS: dict[type, set[str]] = {
    streams.Source: {"broadcast", "balance", "partition"},
    streams.SubSource: {"merge_substreams", "merge_substreams_with_parallelism", "concat_substreams", "to"},
}
"""Methods that stand for operators and are none."""
ALL_NAMES = {case.name for cases in (every.flows(), every.sources(), every.sinks()) for case in cases}
WAITS_FOR_SOMEBODY = {"queue", "as_async_iterator", "as_observable", "as_publisher"}
"""Sinks that are done only when somebody has pulled, subscribed or observed to the end."""


def public(owner: type) -> list[str]:
    return [name for name in dir(owner) if not name.startswith("_")]


def factories(owner: type) -> list[str]:
    return [
        name for name in public(owner) if isinstance(inspect.getattr_static(owner, name), staticmethod | classmethod)
    ]


def has_case(beginning: str, names: list[str]) -> bool:
    """One of ``names`` is ``beginning``, or that and a variant after a comma."""
    return any(name == beginning or name.startswith(f"{beginning},") for name in names)


def without_case() -> set[str]:
    """What is public and begins no case's name."""
    flows = [case.name for case in every.flows()]
    missing = {name for name in public(Operators) if not has_case(name, flows)}
    for owner, beginning, names in OWNERS:
        missing |= {
            f"{owner.__name__}.{name}" for name in factories(owner) if not has_case(beginning.format(name), names)
        }
    for name in junctions.__all__:
        stage = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
        is_junction = hasattr(getattr(junctions, name), "outputs")
        if is_junction and not (has_case(f"graph, {stage}", flows) or has_case(stage, flows)):
            missing.add(name)
    return missing | {f"{owner.__name__}.{name}" for owner, names in METHODS.items() for name in names}


def test_everything_public_has_a_case_or_is_named_here() -> None:
    assert without_case() == UNDER_ANOTHER_NAME.keys() | WITHOUT_A_CASE.keys()
    assert not UNDER_ANOTHER_NAME.keys() & WITHOUT_A_CASE.keys()
    assert set(UNDER_ANOTHER_NAME.values()) <= ALL_NAMES


def test_an_operator_without_a_case_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Operators, "brand_new", lambda self: self, raising=False)
    monkeypatch.setattr(streams.Sink, "brand_new", staticmethod(streams.Sink.ignore), raising=False)
    new = without_case() - UNDER_ANOTHER_NAME.keys() - WITHOUT_A_CASE.keys()
    assert new == {"brand_new", "Sink.brand_new"}


@pytest.mark.parametrize(
    "case", [case for case in every.sinks() if case.name not in WAITS_FOR_SOMEBODY], ids=lambda case: case.name
)
def test_a_sink_results_in_what_its_case_says(case: SinkCase) -> None:
    async def main() -> list[Any]:
        return [await Source.from_iterable(numbers).run_with(case.sink()) for numbers in given]

    # Some fail where there is nothing.
    given = [[3], [3, 1, 2, 5, 4]] if case.result is None else [[], [3], [3, 1, 2, 5, 4]]
    results = run_in_virtual_time(main()) if case.virtual_time else asyncio.run(main())
    assert len(results) == len(given)
    assert case.result is None or results == [case.result(numbers) for numbers in given]
