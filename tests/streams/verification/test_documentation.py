"""docs/verification.md lists the kit's tests, all of them, and its example passes them."""

from __future__ import annotations

import re
import unittest
from pathlib import Path

import pytest

from streams.testkit.verification import (
    IdentityProcessorVerification,
    PublisherVerification,
    SubscriberBlackboxVerification,
    SubscriberWhiteboxVerification,
)

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "verification.md").read_text()
ROW = re.compile(r"^\| [\d.-]+ \| `(\w+)` \| (.*) \|$", re.MULTILINE)
REFERENCE = "The 59 tests of the reference kit"
FURTHER = "Tests that the reference kit does not have"
EXAMPLE = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)


def listed(heading: str) -> list[tuple[str, str]]:
    """The rows under a heading: our test, and the other column."""
    part = PAGE.split(f"## {heading}", 1)[1].split("\n## ", 1)[0]
    return [(match[1], match[2]) for match in ROW.finditer(part)]


def names_in_the_kit() -> set[str]:
    return {
        name.removeprefix("test_")
        for verification in (
            IdentityProcessorVerification,
            PublisherVerification,
            SubscriberBlackboxVerification,
            SubscriberWhiteboxVerification,
        )
        for name in dir(verification)
        if name.startswith("test_")
    }


def test_every_test_of_the_reference_kit_has_its_counterpart() -> None:
    rows = listed(REFERENCE)
    assert len(rows) == 59
    assert len({ours for ours, _ in rows}) == 59
    assert len({theirs for _, theirs in rows}) == 59


def test_the_page_lists_every_test_of_the_kit_and_no_other() -> None:
    names = [ours for heading in (REFERENCE, FURTHER) for ours, _ in listed(heading)]
    assert sorted(names) == sorted(names_in_the_kit())


def test_a_counterpart_is_of_the_same_kind_and_rule() -> None:
    for ours, theirs in listed(REFERENCE):
        for pattern in (r"^(required|optional|stochastic)", r"spec(\d+)"):
            here, there = re.search(pattern, ours), re.search(pattern, theirs)
            if here and there:
                assert here[1] == there[1], (ours, theirs)


def example() -> PublisherVerification[int]:
    assert EXAMPLE is not None, "the page has no example"
    names: dict[str, type[PublisherVerification[int]]] = {}
    exec(compile(EXAMPLE[1], "docs/verification.md", "exec"), names)
    return names["TestCountdown"]()


TESTS_OF_THE_EXAMPLE = [name for name in dir(PublisherVerification) if name.startswith("test_")]


@pytest.mark.parametrize("name", TESTS_OF_THE_EXAMPLE)
def test_the_pages_example_passes(name: str) -> None:
    assert f"{len(TESTS_OF_THE_EXAMPLE)} tests" in PAGE
    skipped = ""
    try:
        getattr(example(), name)()
    except unittest.SkipTest as reason:
        skipped = str(reason)
    assert not skipped or skipped.startswith("needs ")
