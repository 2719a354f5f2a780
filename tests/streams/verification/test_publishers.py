"""The rules for publishers, over every source, and over what comes out of every operator."""

from __future__ import annotations

import unittest
from typing import Any

import pytest

from streams import UNBOUNDED, Publisher, Source
from streams.testkit.verification import PublisherVerification
from tests.streams.catalogue import every
from tests.streams.catalogue.case import FlowCase, SourceCase
from tests.streams.verification.runs import Runs, flowing_in, mostly, numbers


class TestSources(Runs, PublisherVerification[Any]):
    case: SourceCase

    @pytest.fixture(autouse=True, params=every.sources(), ids=lambda case: case.name)
    def _case(self, request: pytest.FixtureRequest) -> None:
        self.case = request.param

    def create_publisher(self, elements: int) -> Publisher[Any]:
        if elements >= UNBOUNDED:
            if self.case.endless is None:
                raise unittest.SkipTest("the source is not endless")
            return self.publisher_of(self.case.endless())
        if self.case.exactly is None:
            assert self.case.endless is not None, "a source of no kind"
            return self.publisher_of(self.case.endless().take(elements))
        return self.publisher_of(self.case.exactly(elements))


ONE_FOR_ONE = {
    "conflate": "how many come out of several depends on when they are asked for",
    "conflate_with_seed": "how many come out of several depends on when they are asked for",
    "reduce": "one comes out of however many, and a failure of none",
}
"""Operators that are verified with one element only, and why."""


class TestOperators(Runs, PublisherVerification[Any]):
    case: FlowCase

    @pytest.fixture(autouse=True, params=mostly(every.flows()), ids=lambda case: case.name)
    def _case(self, request: pytest.FixtureRequest) -> None:
        self.case = request.param

    def create_publisher(self, elements: int) -> Publisher[Any]:
        if self.case.model is not None:
            source = numbers(flowing_in(self.case, elements)).via(self.case.flow())
        elif self.case.identity is not None:
            source = numbers(elements).via(self.case.identity())
        elif self.case.name in ONE_FOR_ONE:
            if elements != 1:
                raise unittest.SkipTest(ONE_FOR_ONE[self.case.name])
            source = numbers(1).via(self.case.flow())
        else:
            source = self._endless(elements)
        return self.publisher_of(source)

    def _endless(self, elements: int) -> Source[Any]:
        """What comes out of an operator whose elements cannot be foretold: cut off where it is enough."""
        endless = numbers(UNBOUNDED).via(self.case.flow())
        return endless if elements >= UNBOUNDED else endless.take(elements)

    def create_failed_publisher(self) -> Publisher[Any] | None:
        # Others may have something to say before they fail.
        if self.recovers or self.case.identity is None:
            return None
        return self.publisher_of(Source.failed(OSError("as it is meant to")).via(self.case.identity()))


def test_only_what_is_named_is_verified_with_one_element_only() -> None:
    unforetold = [case for case in every.flows() if not case.model and not case.identity]
    assert {case.name for case in unforetold if case.ahead is None} == set(ONE_FOR_ONE)
    assert {case.name for case in unforetold if case.ends} == set()
