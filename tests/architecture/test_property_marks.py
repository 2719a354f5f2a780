"""A test that runs a state machine by itself is marked `hypothesis`: `make soak` finds property tests by that, to give them fresh seeds."""

from __future__ import annotations

import ast
from typing import Any

import pytest

RUNS = "run_state_machine_as_test"
MARK = "pytest.mark.hypothesis"


def unmarked(source: Any) -> list[str]:
    """The tests that hypothesis does not mark, as it does those with ``@given``, and nobody else has."""
    if RUNS not in source.text:
        return []
    return [
        f"{source.path}:{test.lineno} {test.name} calls {RUNS} and has no @{MARK}"
        for test in ast.walk(source.tree)
        if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")
        if any(isinstance(inner, ast.Name) and inner.id == RUNS for inner in ast.walk(test))
        if MARK not in {ast.unparse(decorator) for decorator in test.decorator_list}
    ]


def test_every_test_that_runs_a_state_machine_is_marked(tests: Any) -> None:
    found = [violation for source in tests for violation in unmarked(source)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("decorator", "count"), [("", 1), (f"@{MARK}\n", 0), ("@pytest.mark.soak\n", 1)])
def test_one_without_its_mark_is_found(snippet: Any, decorator: str, count: int) -> None:
    assert len(unmarked(snippet(f"{decorator}def test_a(): {RUNS}(Machine)"))) == count
