"""Nothing reads or writes beside the checkout: whoever clones it has what its tests need, and finds nothing left behind."""

from __future__ import annotations

import re
from typing import Any

import pytest

# Put together here, so that this file keeps the rule too.
ROOT = "ROOT"
LEAVES = re.compile(rf"\b(?:{ROOT}|REPOSITORY|CHECKOUT)\.parent\b|[\"'](?:\.\./)+shared\b|\bparent / [\"']shared[\"']")


def leaving(source: Any) -> list[str]:
    lines = enumerate(source.text.splitlines(), 1)
    return [f"{source.path}:{number} leaves the checkout" for number, line in lines if LEAVES.search(line)]


def test_no_file_is_looked_for_or_put_beside_the_checkout(tracked: Any) -> None:
    programs = [source for source in tracked if source.path.endswith(".py") or source.path.startswith("scripts/")]
    assert len(programs) > 100, "the test looks in the wrong place"
    found = [violation for source in programs for violation in leaving(source)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", ["{r}.parent / 'data'", "dir={r}.parent)", "open('../{s}/x')", "parent / '{s}'"])
def test_a_path_out_of_the_checkout_is_found(snippet: Any, text: str) -> None:
    assert len(leaving(snippet(text.format(r=ROOT, s="sha" + "red")))) == 1


def test_paths_inside_are_left_alone(snippet: Any) -> None:
    assert leaving(snippet(f"{ROOT} = Path(__file__).parent.parent; {ROOT} / 'docs'; path.parent / 'x'")) == []
