"""The cases of the generated tests are right about what reactivex's operators do."""

from __future__ import annotations

import math

import pytest

from streams import Sink, Source
from streams.testkit import TestSink, TestSource, run_in_virtual_time, settle
from tests.streams.catalogue.case import FlowCase
from tests.streams.catalogue.rx import FLOWS

each_case = pytest.mark.parametrize("case", FLOWS, ids=lambda case: case.name)


@each_case
@pytest.mark.parametrize("count", [0, 1, 2, 7, 40])
def test_a_case_says_what_comes_out(case: FlowCase, count: int) -> None:
    numbers = list(range(count))
    for flow, expected in ((case.flow, case.model), (case.identity, list)):
        if flow is not None and expected is not None:
            result = Source.from_iterable(numbers).via(flow()).to(Sink.collect()).run_blocking()
            assert result == expected(numbers)


@each_case
def test_a_case_says_how_far_upstream_is_ahead(case: FlowCase) -> None:
    asked = 12

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[object]()
        running = source.via(case.flow()).to(sink).run()
        await settle()
        for _ in range(asked):
            sink.request(1)
            await settle()
            while source.probe.demand.outstanding and not source.probe.cancelled and source.probe.demand.taken < 100:
                source.probe.send_next(source.probe.demand.taken)
        if not math.isinf(case.ratio):
            assert case.ahead is not None
            assert source.probe.demand.requested <= asked * case.ratio + case.ahead
        sink.cancel()
        running.abandon()

    run_in_virtual_time(main())
