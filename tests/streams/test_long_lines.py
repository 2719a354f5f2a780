"""Streams of many operators one behind the other: what fits Python's stack, and what is said where it does not."""

from __future__ import annotations

import functools
import sys
import traceback
from typing import Any

import pytest

from streams import Flow, Sink, Source, StreamTooDeepError
from streams.errors import SURE_OPERATORS
from streams.testkit import run_in_virtual_time
from tests.streams.catalogue import every
from tests.streams.catalogue.case import FlowCase

DEEPER = 5_000


def line(count: int, start: Any) -> Any:
    """``count`` operators that cannot be made one."""
    return functools.reduce(lambda stream, _: stream.take(10), range(count), start)


def test_a_thousand_concats_are_one_operator() -> None:
    together = functools.reduce(Source.concat, (Source.of(n) for n in range(1_000)))
    assert together.to(Sink.collect()).run_blocking() == list(range(1_000))
    flow = functools.reduce(lambda flow, n: flow.concat(Source.of(n)), range(1, 1_000), Flow[int, int].identity())
    assert Source.of(0).via(flow).to(Sink.collect()).run_blocking() == list(range(1_000))


def test_a_line_that_does_not_fit_the_stack_says_so_and_what_does() -> None:
    message = rf"300 operators .* than the {sys.getrecursionlimit()} that Python allows. {SURE_OPERATORS} always fit"
    with pytest.raises(StreamTooDeepError, match=message):
        line(300, Source.range(5)).to(Sink.collect()).run_blocking()


def test_describing_a_long_line_needs_no_stack_and_a_greater_limit_runs_it() -> None:
    stream = line(300, Source.range(5))
    flow = Source.range(5).via(line(300, Flow[int, int].identity()))
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(DEEPER)
    try:
        assert stream.to(Sink.collect()).run_blocking() == list(range(5))
        assert flow.to(Sink.collect()).run_blocking() == list(range(5))
    finally:
        sys.setrecursionlimit(limit)


def test_a_users_own_recursion_is_told_as_it_is() -> None:
    def endless(n: int) -> int:
        return endless(n)

    with pytest.raises(RecursionError) as raised:
        Source.of(1).map(endless).to(Sink.ignore()).run_blocking()
    assert type(raised.value) is RecursionError


def test_a_users_own_recursion_in_a_long_line_is_the_cause() -> None:
    def endless(n: int) -> int:
        return endless(n)

    with pytest.raises(StreamTooDeepError) as raised:
        line(SURE_OPERATORS + 1, Source.of(1)).map(endless).to(Sink.ignore()).run_blocking()
    cause = raised.value.__cause__
    assert type(cause) is RecursionError
    assert any(frame.name == "endless" for frame in traceback.extract_tb(cause.__traceback__, -3))


@pytest.mark.parametrize(
    "case", [case for case in every.flows() if case.identity and case.virtual_time], ids=lambda case: case.name
)
def test_as_many_as_always_fit_do(case: FlowCase) -> None:
    """They may fail for other reasons, time-outs among them, but not for the stack."""
    assert case.identity is not None
    stream = functools.reduce(lambda source, _: source.via(case.identity()), range(SURE_OPERATORS), Source.range(3))

    async def main() -> None:
        await stream.completion_timeout(1).on_error_complete(TimeoutError).to(Sink.ignore()).run()

    run_in_virtual_time(main())
