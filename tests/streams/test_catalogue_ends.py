"""The catalogue's sources, sinks and framing flows do what their cases say."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from streams import Keep, Sink, Source
from streams.testkit import run_in_virtual_time
from tests.streams.catalogue.case import FlowCase, SinkCase, SourceCase
from tests.streams.catalogue.ends import FLOWS, SINKS, SOURCES

WAITS_FOR_SOMEBODY = {"queue", "as_async_iterator", "as_observable", "as_publisher"}


def run(case: Any, main: Any) -> Any:
    return (run_in_virtual_time if case.virtual_time else asyncio.run)(main)


@pytest.mark.parametrize("case", SOURCES, ids=lambda case: case.name)
def test_a_source_has_exactly_as_many_elements_and_an_endless_one_goes_on(case: SourceCase) -> None:
    async def main() -> None:
        if case.exactly is not None:
            for count in (0, 1, 2, 50):
                assert len(await case.exactly(count).run_with(Sink.collect())) == count
        if case.endless is not None:
            assert len(await case.endless().take(3000).run_with(Sink.collect())) == 3000

    assert case.exactly or case.endless
    run(case, main())


@pytest.mark.parametrize("case", SINKS, ids=lambda case: case.name)
def test_a_sink_results_in_what_its_case_says(case: SinkCase) -> None:
    async def main() -> None:
        for numbers in ([], [3], [3, 1, 2, 5, 4]):
            if case.result is not None:
                assert await Source.from_iterable(numbers).run_with(case.sink()) == case.result(numbers)
        if case.name not in WAITS_FOR_SOMEBODY:
            await Source.of(1).run_with(case.sink())
        running = Source.never().to(case.sink(), Keep.none).run()
        running.abandon()
        # One that wants nothing is done before it can be cancelled.
        with contextlib.nullcontext() if case.name == "cancelled" else pytest.raises(asyncio.CancelledError):
            await running

    run(case, main())


@pytest.mark.parametrize("case", FLOWS, ids=lambda case: case.name)
def test_a_framing_flow_lets_its_numbers_through(case: FlowCase) -> None:
    numbers = list(range(200))
    assert case.model is not None
    assert Source.from_iterable(numbers).via(case.flow()).to(Sink.collect()).run_blocking() == case.model(numbers)
