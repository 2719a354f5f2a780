"""The rules for publishers, over every source, and over what comes out of every operator."""

from __future__ import annotations

import unittest
from typing import Any

import pytest

from streams import UNBOUNDED, Publisher, Source
from streams.testkit.verification import PublisherVerification
from tests.streams.catalogue import every
from tests.streams.catalogue.case import FlowCase, SourceCase
from tests.streams.verification.runs import Runs, flowing_in, mostly, numbers, rules_of, verify_each_rule


class Sources(Runs, PublisherVerification[Any]):
    case: SourceCase

    def create_publisher(self, elements: int) -> Publisher[Any]:
        if elements >= UNBOUNDED:
            if self.case.endless is None:
                raise unittest.SkipTest("the source is not endless")
            return self.publisher_of(self.case.endless())
        if self.case.exactly is None:
            assert self.case.endless is not None, "a source of no kind"
            return self.publisher_of(self.case.endless().take(elements))
        return self.publisher_of(self.case.exactly(elements))


@pytest.mark.parametrize("case", every.sources(), ids=lambda case: case.name)
def test_a_source_keeps_each_rule_for_publishers(case: SourceCase) -> None:
    verify_each_rule(Sources, case)


ONE_FOR_ONE = {
    "conflate": "how many come out of several depends on when they are asked for",
    "conflate_with_seed": "how many come out of several depends on when they are asked for",
    "reduce": "one comes out of however many, and a failure of none",
}
"""Operators that are verified with one element only, and why."""


class Operators(Runs, PublisherVerification[Any]):
    case: FlowCase

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


@pytest.mark.parametrize("case", mostly(every.flows()), ids=lambda case: case.name)
def test_what_comes_out_of_an_operator_keeps_each_rule_for_publishers(case: FlowCase) -> None:
    verify_each_rule(Operators, case)


def test_only_what_is_named_is_verified_with_one_element_only() -> None:
    unforetold = [case for case in every.flows() if not case.model and not case.identity]
    assert {case.name for case in unforetold if case.ahead is None} == set(ONE_FOR_ONE)
    assert {case.name for case in unforetold if case.ends} == set()


class OneTooFew(Operators):
    """Breaks a rule: what it is asked for has one element more."""

    def create_publisher(self, elements: int) -> Publisher[Any]:
        return self.publisher_of(numbers(elements - 1) if elements < UNBOUNDED else numbers(elements))


def test_of_a_case_that_breaks_rules_each_of_them_is_named_and_the_others_are_tried_all_the_same() -> None:
    with pytest.raises(ExceptionGroup, match="map does not keep") as caught:
        verify_each_rule(OneTooFew, next(case for case in every.flows() if case.name == "map"))
    named = {note.removeprefix("in ") for error in caught.value.exceptions for note in error.__notes__}
    assert {rule for rule in named if "_spec101_" in rule or "_spec105_" in rule}
    assert named < set(rules_of(OneTooFew))
