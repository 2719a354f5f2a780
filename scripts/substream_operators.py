"""Writes ``streams/operators/of_substreams.pyi``: to the type checker, each operator on substreams, as the operators' own overloads say it.

At run time substreams have the operators of sources and flows themselves. Their overloads know sources and flows only, so the same are
written down here once more, with `SubSource` for a source and `SubFlow` for a flow.

    python scripts/substream_operators.py           # writes it
    python scripts/substream_operators.py --check   # fails where it is not what the operators say
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

OPERATORS = Path(__file__).resolve().parent.parent / "streams" / "operators"
STUB = OPERATORS / "of_substreams.pyi"
OF_THEIR_OWN = {"via", "to", "with_supervision"}
"""Methods that `SubSource` and `SubFlow` define."""
KINDS = {"SourceLike": ("Source", "SubSource"), "FlowLike": ("Flow", "SubFlow")}
CLASSES = {"SourceLike": "class OfSubSource(Generic[T]):", "FlowLike": "class OfSubFlow(Generic[I, T]):"}


def _itself(function: ast.FunctionDef) -> ast.arg:
    return (function.args.posonlyargs + function.args.args)[0]


def _overloads(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Each overload of an operator, with the protocol that its ``self`` has."""
    for cls in tree.body:
        if not isinstance(cls, ast.ClassDef):
            continue
        for function in cls.body:
            if isinstance(function, ast.FunctionDef) and any(
                ast.unparse(d) == "overload" for d in function.decorator_list
            ):
                of = _itself(function).annotation
                if isinstance(of, ast.Subscript):
                    yield ast.unparse(of.value), function


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Other names of operators: ``flat_map = map_concat``."""
    for cls in tree.body:
        if isinstance(cls, ast.ClassDef):
            for line in cls.body:
                if (
                    isinstance(line, ast.Assign)
                    and isinstance(line.value, ast.Name)
                    and isinstance(line.targets[0], ast.Name)
                ):
                    yield line.targets[0].id, line.value.id


def _declaration(function: ast.FunctionDef, name: str, kind: str, overloaded: bool) -> str:
    theirs, ours = KINDS[kind]
    arguments = function.args
    of = _itself(function).annotation
    assert isinstance(of, ast.Subscript)
    element = of.slice.elts[1] if isinstance(of.slice, ast.Tuple) else of.slice
    itself = (
        ""
        if ast.unparse(element) in {"T", "Any"}
        else f": {ours}[{'I, ' if kind == 'FlowLike' else ''}{ast.unparse(element)}]"
    )
    _itself(function).annotation = None
    listed = ast.unparse(arguments).replace("self", f"self{itself}", 1)
    assert function.returns is not None
    returns = ast.unparse(function.returns)
    if returns.startswith(f"{theirs}["):
        returns = ours + returns.removeprefix(theirs)
    elif returns.startswith(ours):
        returns = "Any"  # substreams of substreams: put together they are substreams again, and no source
    decorator = "    @overload\n" if overloaded else ""
    return f"{decorator}    def {name}({listed}) -> {returns}: ...\n"


def _imports_and_variables(trees: list[ast.Module]) -> tuple[set[str], set[str]]:
    """The lines by which the operators' modules know their names."""
    imports: set[str] = set()
    variables: set[str] = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.ImportFrom) and node.module not in {None, "__future__"}:
            imports |= {f"from {node.module} import {alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            imports |= {f"import {alias.name}" for alias in node.names}
        elif isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("TypeVar("):
            variables.add(ast.unparse(node))
    return imports, variables


def _class(trees: list[ast.Module], kind: str) -> list[str]:
    """The lines of one class."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for tree in trees:
        for protocol, function in _overloads(tree):
            if protocol == kind and function.name not in OF_THEIR_OWN:
                found.setdefault(function.name, []).append(function)
    for tree in trees:
        for other, name in _aliases(tree):
            found[other] = [ast.parse(ast.unparse(f)).body[0] for f in found[name]]  # type: ignore[misc]  # functions
    lines = [CLASSES[kind]]
    for name in sorted(found):
        lines += [_declaration(f, name, kind, len(found[name]) > 1) for f in found[name]]
    return lines


def text() -> str:
    """What the stub must be."""
    trees = [ast.parse(path.read_text()) for path in sorted(OPERATORS.glob("*.py"))]
    imports, variables = _imports_and_variables(trees)
    classes = [line for kind in KINDS for line in _class(trees, kind)]
    used = set(re.findall(r"\w+", "".join(classes)))
    lines = "\n".join(
        [
            "# Written by scripts/substream_operators.py, from the operators' own overloads.",
            "from typing import Generic",
            *sorted(line for line in imports if line.rsplit(" ", 1)[1] in used | {"TypeVar"}),
            *sorted(line for line in variables if line.split(" ", 1)[0] in used),
            *classes,
        ]
    )
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--select=F401,I,UP", "--fix", "--exit-zero", "--quiet"], ["format"]):
        lines = subprocess.run(  # noqa: S603 - our own linter
            [*ruff, *command, f"--stdin-filename={STUB}", "-"],
            input=lines,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
    return lines


def main() -> int:
    """Writes or checks the stub."""
    if "--check" in sys.argv[1:]:
        if STUB.read_text() == text():
            return 0
        print(f"{STUB.name} is not what the operators say: run python scripts/substream_operators.py")
        return 1
    STUB.write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
