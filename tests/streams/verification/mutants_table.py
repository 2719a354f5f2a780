"""Which test of the verification kit catches which mutant: prints docs/verification-mutants.md."""

from __future__ import annotations

import importlib
from typing import Final

from tests.streams.verification.mutants import MUTANTS, Mutant

MODULES: Final = ("mutant_publishers", "mutant_subscribers", "mutant_processors")

RULES: Final = tuple(
    [f"1.{n}" for n in range(1, 12)]
    + [f"2.{n}" for n in range(1, 14)]
    + [f"3.{n}" for n in range(1, 18)]
    + [f"4.{n}" for n in range(1, 3)]
)
"""All 43 of Reactive Streams 1.0.4."""

WITHOUT: Final = {"2.2": "a recommendation, and what it recommends depends on what the subscriber suspects"}
"""Rules that nothing can be seen to break, and why."""

HEAD: Final = """\
# The verification kit against broken publishers, subscribers and processors

`streams.testkit.verification` is held against {count} mutants. Each is a correct publisher, subscriber or processor
(`tests/streams/verification/originals.py`) with one thing broken. It is caught by a test whose name has the rule's
number; the original passes the same test. Written by `python -m tests.streams.verification.mutants_table`; a test fails
when it is not what the kit does.

| Rule | Mutant | What is broken | Caught by |
|---|---|---|---|
"""


def every_mutant() -> list[Mutant]:
    """All mutants, by rule."""
    for module in MODULES:
        importlib.import_module(f"tests.streams.verification.{module}")
    return sorted(MUTANTS, key=lambda mutant: RULES.index(mutant.rule))


def table() -> str:
    """The page; runs every mutant."""
    mutants = every_mutant()
    lines = [
        f"| {mutant.rule} | `{mutant.name}`, a {mutant.kind} | {mutant.how} | "
        + ", ".join(f"`{name.removeprefix('test_')}`" for name in mutant.caught_by())
        + " |\n"
        for mutant in mutants
    ]
    without = "".join(f"\nRule {rule} has none: {why}.\n" for rule, why in WITHOUT.items())
    return HEAD.format(count=len(mutants)) + "".join(lines) + without


if __name__ == "__main__":
    print(table(), end="")
