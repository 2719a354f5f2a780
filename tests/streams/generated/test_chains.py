"""Operators one after the other, at random, against the same done on plain lists."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streams import Sink, Source
from streams.testkit import TestSink, run_in_virtual_time
from tests.examples_tried import tried
from tests.streams.catalogue import every
from tests.streams.catalogue.case import FlowCase

MODELLED = sorted((case for case in every.flows() if case.model and case.virtual_time), key=lambda case: case.name)
LONGEST = 200
"""Elements between two operators at most: chains of those that multiply would grow without bound."""


def as_number(value: Any) -> int:
    """What the next operator in a chain gets for what one made: operators of the catalogue take numbers."""
    if isinstance(value, bool | float):
        return int(value)
    return value if isinstance(value, int) else len(str(value))


class Chain(list[FlowCase]):
    """Shows a failing chain by its operators' names."""

    def __repr__(self) -> str:
        return " -> ".join(case.name for case in self) or "nothing"

    def behind(self, source: Source[int]) -> Source[int]:
        for case in self:
            source = source.take(LONGEST).via(case.flow()).map(as_number)
        return source

    def of(self, numbers: list[int]) -> list[int]:
        for case in self:
            assert case.model is not None
            numbers = [as_number(value) for value in case.model(numbers[:LONGEST])]
        return numbers


chains = st.lists(st.sampled_from(MODELLED), max_size=5).map(Chain)
numbers = st.lists(st.integers(0, 9), max_size=20)


@given(chain=chains, given_numbers=numbers, in_bulk=st.booleans())
@settings(max_examples=tried(400))
def test_a_chain_gives_what_lists_give(chain: Chain, given_numbers: list[int], in_bulk: bool) -> None:
    async def main() -> list[int]:
        source = Source.from_iterable(given_numbers if in_bulk else iter(given_numbers))
        return await chain.behind(source).run_with(Sink.collect())

    assert run_in_virtual_time(main()) == chain.of(given_numbers)


@given(chain=chains, given_numbers=numbers, requests=st.lists(st.integers(1, 5), max_size=8))
@settings(max_examples=tried(200))
def test_a_chain_gives_what_is_asked_for_and_no_more(
    chain: Chain, given_numbers: list[int], requests: list[int]
) -> None:
    async def main() -> None:
        expected = chain.of(given_numbers)
        sink = TestSink[int]()
        running = chain.behind(Source.from_iterable(given_numbers)).to(sink).run()
        await sink.expect_subscription()
        for n in requests:
            if len(expected) < n:
                break
            sink.request(n)
            assert await sink.expect_n(n) == expected[:n]
            expected = expected[n:]
        sink.request(len(expected) + 1)
        assert await sink.expect_n(len(expected)) == expected
        await sink.expect_complete()
        await running

    run_in_virtual_time(main())
