"""The rules for processors, over every operator in the form that lets everything through.

What holds for publishers and for subscribers is verified over the same operators by `Operators` and `Stages`: here are the
tests that only a processor has, and all of them over one flow, for `Flow.to_processor` itself.
"""

from __future__ import annotations

import itertools

import pytest

from streams import Processor
from streams.testkit.verification import (
    IdentityProcessorVerification,
    PublisherVerification,
    SubscriberWhiteboxVerification,
)
from tests.streams.catalogue import every
from tests.streams.catalogue.case import FlowCase
from tests.streams.verification import test_publishers, test_subscribers
from tests.streams.verification.runs import SAME_STAGE, Runs, rules_of, verify_each_rule

NO_IDENTITY: dict[str, set[str]] = {
    "what comes out is made of what came in, or is more, or is in pairs, in any form of the operator": {
        "zip", "zip, of three", "zip_all", "zip_latest", "zip_latest_with", "merge_latest", "zip_with_index", "intersperse",
        "graph, diamond", "graph, unzip", "scan", "rx, scan", "rx, pairwise", "rx, start_with",
    },
    "elements go together, in a list or into one": {
        "grouped", "sliding", "sliding, with gaps", "sliding, step", "grouped_weighted", "grouped_within", "grouped_within, weighted",
        "fold", "reduce", "conflate", "conflate_with_seed", "rx, buffer_with_count", "rx, count",
    },
    "what has come in waits for what comes after it": {"prefix_and_tail", "flat_map_prefix", "rx, skip_last", "rx, take_last"},
    "another source's elements come between": {"merge, endless other", "interleave, endless other", "graph, concat"},
    "numbers are text on their way": {"lines", "framing, delimiter of one byte", "framing, delimiter", "framing, length_field"},
}  # fmt: skip
"""Operators that have no form that lets everything through as it comes, and why. As subscribers and as publishers they are verified."""


def test_only_what_is_named_is_not_verified_as_a_processor() -> None:
    verified = {case.name for case in every.flows() if case.identity}
    named = [name for names in (*NO_IDENTITY.values(), SAME_STAGE) for name in names]
    assert sorted(named) == sorted(case.name for case in every.flows() if not case.identity)
    assert set(SAME_STAGE.values()) <= verified


WITH_IDENTITY = [case for case in every.flows() if case.identity]

BOTH_SIDES = {
    name
    for side in (PublisherVerification, SubscriberWhiteboxVerification)
    for name in dir(side)
    if name.startswith("test_")
}
"""The tests of a processor that are tests of a publisher, or of a subscriber."""


def without_both_sides(verification: type) -> type:
    """Leaves a processor's verification the tests that are a processor's alone."""
    for name in BOTH_SIDES:
        setattr(verification, name, None)
    return verification


class _Flows(Runs, IdentityProcessorVerification[int]):
    case: FlowCase

    test_untested_spec202_signals_are_dispatched_asynchronously_where_they_take_long = None

    def create_processor(self, buffer_size: int) -> Processor[int, int]:
        assert self.case.identity is not None
        return self.processor_of(self.case.identity())

    def create_element(self, n: int) -> int:
        return n


@without_both_sides
class FlowsAsProcessors(_Flows):
    """What only a processor has."""


@pytest.mark.parametrize("case", WITH_IDENTITY, ids=lambda case: case.name)
def test_a_flow_keeps_each_rule_that_only_processors_have(case: FlowCase) -> None:
    verify_each_rule(FlowsAsProcessors, case)


def test_a_flow_as_a_processor_keeps_all_rules() -> None:
    """`Flow.to_processor` is the same for every flow; "map" stands for all."""
    verify_each_rule(_Flows, next(case for case in WITH_IDENTITY if case.name == "map"))


def test_no_rule_is_verified_twice_for_an_operator_and_none_is_left_out() -> None:
    classes = (
        test_publishers.Operators,
        test_subscribers.Stages,
        test_subscribers.EveryStage,
        FlowsAsProcessors,
    )
    publisher, stage, outside, processor = (set(rules_of(verification)) for verification in classes)
    assert {case.name for case in WITH_IDENTITY} | {case.name for case in test_subscribers.WITHOUT_IDENTITY} == {
        case.name for case in every.flows()
    }
    assert not {case.name for case in WITH_IDENTITY} & {case.name for case in test_subscribers.WITHOUT_IDENTITY}
    for first, second in itertools.combinations((publisher, stage, processor), 2):
        assert not first & second
    assert not publisher & outside
    assert publisher | stage | processor == set(rules_of(_Flows))
    assert len(processor) == len([name for name in vars(IdentityProcessorVerification) if name.startswith("test_")])
