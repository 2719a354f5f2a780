"""The kit itself: it passes what is correct, and each of its rules' tests catches what is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.streams.verification.mutants import (
    PASSED,
    Mutant,
    OfAdding,
    OfAddingThree,
    OfNumbers,
    OfPassOn,
    OfTold,
    outcome,
)
from tests.streams.verification.mutants_table import RULES, WITHOUT, every_mutant, table

FEWEST = 49
PAGE = Path(__file__).resolve().parents[3] / "docs" / "verification-mutants.md"


class TestNumbers(OfNumbers):
    """What the mutants are made of passes."""


class TestTold(OfTold):
    """What the mutants are made of passes."""


class TestAdding(OfAdding):
    """What the mutants are made of passes."""


class TestAddingThree(OfAddingThree):
    """What the mutants are made of passes."""


class TestPassOn(OfPassOn):
    """What the mutants are made of passes."""


@pytest.mark.parametrize("mutant", every_mutant(), ids=lambda mutant: f"{mutant.rule}-{mutant.name}")
def test_a_mutant_is_caught_by_a_test_of_its_rule_that_the_original_passes(mutant: Mutant) -> None:
    tests = mutant.tests()
    assert tests, f"the kit has no test of rule {mutant.rule} for a {mutant.kind}"
    caught = mutant.caught_by()
    assert caught, f"{mutant.name} breaks rule {mutant.rule} ({mutant.how}), and none of {tests} fails"
    assert {name: outcome(mutant.original, name) for name in caught} == dict.fromkeys(caught, PASSED)


def test_every_rule_that_can_be_broken_has_a_mutant() -> None:
    mutants = every_mutant()
    assert {mutant.rule for mutant in mutants} == set(RULES) - set(WITHOUT)
    assert len(mutants) >= FEWEST


def test_a_mutant_that_crashes_is_not_taken_for_caught() -> None:
    class OfNothing(OfNumbers):
        def create_publisher(self, elements: int) -> OfNothing:  # type: ignore[override]  # what crashes
            raise LookupError("no publisher")

    with pytest.raises(LookupError, match="no publisher"):
        outcome(OfNothing, "test_required_spec101_no_more_elements_come_than_were_requested")


def test_the_table_in_the_documentation_is_what_the_kit_does() -> None:
    assert PAGE.read_text() == table(), (
        "run: python -m tests.streams.verification.mutants_table > docs/verification-mutants.md"
    )
