"""Rules every module of the product keeps, each with a snippet that breaks it."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_LINES = 450
# Each runs whatever code the bytes or the text it is given name.
RUNS_WHAT_IT_READS = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}
RUNS_TEXT = {"eval", "exec"}
# Puts loops together from texts of its own, as dataclasses does; tests/streams/test_fused.py holds that nothing else gets in.
COMPILES_ITS_OWN_TEXT = {("streams/stages/fused.py", "exec")}
OPENS_LATE = "__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)"
LEFT_OVER = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" * 3]) + r")\b")


def sleeps(source: Any) -> list[str]:
    """Where a module sleeps instead of waiting for what it waits for; a sleep that is only handed on counts.

    ``asyncio.sleep(0)`` is no sleep: it gives the loop a turn.
    """
    if "sleep" not in source.text:
        return []
    turns = {id(node.func) for node in ast.walk(source.tree) if isinstance(node, ast.Call) and is_of_zero(node)}
    modules = {"time", "asyncio"}
    bound = {alias.asname or alias.name for alias in aliases(source.tree) if alias.name in modules}
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module in {*modules, "asyncio.tasks"}:
            found += [f"{source.path}:{node.lineno} imports sleep" for alias in node.names if alias.name == "sleep"]
        elif isinstance(node, ast.Attribute) and node.attr == "sleep" and getattr(node.value, "id", None) in bound:
            if id(node) in turns and getattr(node.value, "id", None) == "asyncio":
                continue
            found.append(f"{source.path}:{node.lineno} sleeps")
    return found


def is_of_zero(call: ast.Call) -> bool:
    """Whether all that a call is given is a 0."""
    return not call.keywords and [getattr(argument, "value", None) for argument in call.args] == [0]


def aliases(tree: ast.Module) -> Iterator[ast.alias]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from node.names


def private_of_pykka(source: Any) -> list[str]:
    """Where a module uses what pykka does not offer; one module names it for all."""
    if source.path == "actors/runtime/_pykka.py":
        return []
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            found += [f"{source.path}:{node.lineno} {a.name}" for a in node.names if a.name.startswith("pykka._")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "pykka":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [f"{source.path}:{node.lineno} {name}" for name in names if "._" in name]
    return found


def code_from_data(source: Any) -> list[str]:
    """Where a module could run what it was sent."""
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [(node.module or "").split(".")[0]]
        else:
            may = isinstance(node, ast.Name) and (source.path, node.id) in COMPILES_ITS_OWN_TEXT
            if isinstance(node, ast.Name) and node.id in RUNS_TEXT and not may:
                found.append(f"{source.path}:{node.lineno} uses {node.id}")
            continue
        found += [f"{source.path}:{node.lineno} imports {name}" for name in names if name in RUNS_WHAT_IT_READS]
    return found


def too_long(source: Any) -> list[str]:
    lines = source.text.count("\n")
    return [f"{source.path} has {lines} lines; at most {MOST_LINES}"] if lines > MOST_LINES else []


def undocumented(source: Any) -> list[str]:
    return [] if ast.get_docstring(source.tree) else [f"{source.path} has no docstring"]


def more_than_re_exports(source: Any) -> list[str]:
    """What an `__init__` holds beyond a docstring, imports, and an `__all__` of names that those imports bind.

    One that opens late has its names in a stub; tests/architecture/test_late_doors.py is about those.
    """
    if not source.is_init:
        return []
    found = []
    imported: set[str] = set()
    public: list[str] | None = None
    for node in source.tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            imported |= {alias.asname or alias.name for alias in node.names}
        elif ast.unparse(node) == OPENS_LATE:
            imported.clear()
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__all__":
            public = list(ast.literal_eval(node.value))
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            found.append(f"{source.path}:{node.lineno} does more than re-export")
    if public is None and imported:
        found.append(f"{source.path} has no __all__")
    found += [f"{source.path} lists {name}, which it does not import" for name in public or () if name not in imported]
    return found


def left_over(source: Any) -> list[str]:
    lines = enumerate(source.text.splitlines(), 1)
    return [
        f"{source.path}:{number} has a leftover {hit[0]}" for number, line in lines if (hit := LEFT_OVER.search(line))
    ]


def check(rule: Callable[[Any], list[str]], sources: tuple[Any, ...]) -> None:
    assert sources, "no files found: the test looks in the wrong place"
    found = [violation for source in sources for violation in rule(source)]
    assert not found, "\n".join(found)


def test_the_product_never_sleeps(product: Any) -> None:
    check(sleeps, product)


def test_the_product_names_what_is_private_to_pykka_in_one_place(product: Any) -> None:
    check(private_of_pykka, product)


def test_the_tests_never_sleep(tests: Any) -> None:
    check(sleeps, tests)


def test_the_product_runs_nothing_that_it_reads(product: Any) -> None:
    check(code_from_data, product)


def test_every_module_can_be_read_in_one_sitting(product: Any) -> None:
    check(too_long, product)


def test_every_module_says_what_it_is(product: Any) -> None:
    check(undocumented, product)


def test_an_init_only_re_exports(product: Any) -> None:
    check(more_than_re_exports, product)


def test_nothing_is_left_over_anywhere(tracked: Any) -> None:
    check(left_over, tracked)


BROKEN = [
    (sleeps, "import time\ntime.sleep(1)"),
    (private_of_pykka, "from pykka._envelope import Envelope"),
    (private_of_pykka, "from pykka.messages import _ActorStop, ProxyCall"),
    (private_of_pykka, "import pykka._types"),
    (sleeps, "import asyncio\nasync def f():\n    await asyncio.sleep(0.1)"),
    (sleeps, "import asyncio as aio\nwait = aio.sleep"),
    (sleeps, "from asyncio import sleep"),
    (sleeps, "def f():\n    from time import sleep as pause"),
    (code_from_data, "import pickle"),
    (code_from_data, "def f():\n    from marshal import loads"),
    (code_from_data, "import cloudpickle.cloudpickle as c"),
    (code_from_data, "eval('1')"),
    (code_from_data, "run = exec"),
    (too_long, "x = 1\n" * (MOST_LINES + 1)),
    (undocumented, "x = 1"),
    (undocumented, ""),
    (more_than_re_exports, "from streams.a import b"),
    (more_than_re_exports, "from streams.a import b\n__all__ = ['b', 'c']"),
    (more_than_re_exports, "from streams.a import b\n__all__ = ['b']\nb.start()"),
    (more_than_re_exports, "from streams.a import b\n__all__ = ['b']\ndef f(): ..."),
    (more_than_re_exports, "__version__ = '1'"),
    (left_over, "x = 1  # " + "TO" + "DO later"),
    (left_over, '"""Works. ' + "FIX" + 'ME: not always."""'),
]


@pytest.mark.parametrize(("rule", "text"), BROKEN)
def test_a_broken_rule_is_found(snippet: Any, rule: Callable[[Any], list[str]], text: str) -> None:
    assert len(rule(snippet(text, "streams/__init__.py"))) == 1


WHOLE = '''"""Says what it is."""
import asyncio
import time
from streams.a import b
__all__ = ["b"]
'''


@pytest.mark.parametrize(
    "rule", [sleeps, private_of_pykka, code_from_data, too_long, undocumented, more_than_re_exports, left_over]
)
def test_a_kept_rule_passes(snippet: Any, rule: Callable[[Any], list[str]]) -> None:
    assert rule(snippet(WHOLE, "streams/__init__.py")) == []


def test_a_sleep_of_something_else_is_no_sleep(snippet: Any) -> None:
    assert sleeps(snippet("import time\nclock.sleep(1)\nstart = time.monotonic()")) == []
    assert sleeps(snippet("import asyncio\nasync def f():\n    await asyncio.sleep(0)")) == []
