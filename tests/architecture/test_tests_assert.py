"""A test that asserts nothing cannot fail, and so tells nothing."""

from __future__ import annotations

import ast
from typing import Any

import pytest

# By the first word of its name, a helper from elsewhere that fails the test when what it states does not hold.
ASSERTING_WORDS = {"assert", "verify", "check", "expect", "require"}
ASSERTING_NAMES = {"raises", "warns", "fail", "run_state_machine_as_test"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def asserts(node: ast.AST, local: dict[str, Function], seen: set[str]) -> bool:
    """Whether a node asserts something itself or through what it names of its own module's functions."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Assert):
            if not isinstance(inner.test, ast.Constant):
                return True
        elif isinstance(inner, ast.Call):
            function = inner.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            word = name.lstrip("_").split("_", 1)[0]
            if name not in local and (name in ASSERTING_NAMES or word in ASSERTING_WORDS):
                return True
        if isinstance(inner, ast.Name) and inner.id in local and inner.id not in seen:
            seen.add(inner.id)
            if asserts(local[inner.id], local, seen):
                return True
    return False


def without_assertion(source: Any) -> list[str]:
    """The tests of a module that cannot fail."""
    tree = source.tree
    local = {node.name: node for node in tree.body if isinstance(node, Function)}
    tests = [node for node in ast.walk(tree) if isinstance(node, Function) and node.name.startswith("test_")]
    return [
        f"{source.path}:{test.lineno} {test.name} asserts nothing"
        for test in tests
        if not asserts(test, local, {test.name})
    ]


def test_every_test_asserts_something(tests: Any) -> None:
    modules = [source for source in tests if source.path.rsplit("/", 1)[-1].startswith("test_")]
    assert modules, "no tests found: the test looks in the wrong place"
    found = [violation for source in modules for violation in without_assertion(source)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "def test_a(): f()",
        "def test_a(): assert True",
        "async def test_a(): await f()",
        "class TestA:\n    def test_a(self): self.f()",
        "def helper(): g()\ndef test_a(): helper()",
        "def check_it(): g()\ndef test_a(): check_it()",
        "def test_a(): test_a()",
    ],
)
def test_a_test_without_an_assertion_is_found(snippet: Any, text: str) -> None:
    assert len(without_assertion(snippet(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def test_a(): assert f()",
        "def test_a():\n    async def main(): assert f()\n    asyncio.run(main())",
        "def test_a():\n    with pytest.raises(ValueError): f()",
        "def helper(): assert g()\ndef test_a(): helper()",
        "def inner(): assert g()\ndef outer(): inner()\ndef test_a(): run(outer)",
        "def test_a(probe): probe.expect_next(1)",
        "def test_a(): verify_publisher(p)",
    ],
)
def test_a_test_with_an_assertion_passes(snippet: Any, text: str) -> None:
    assert without_assertion(snippet(text)) == []
