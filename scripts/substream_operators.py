"""Writes ``streams/operators/of_substreams.pyi``: to the type checker, each operator on substreams, as the operators' own overloads say it.

At run time substreams have the operators of sources and flows themselves. Their overloads know sources and flows only, so the same are
written down here once more, with `SubSource` for a source and `SubFlow` for a flow, and again for the substreams of substreams.

    python scripts/substream_operators.py           # writes it
    python scripts/substream_operators.py --check   # fails where it is not what the operators say
"""

from __future__ import annotations

import ast
import copy
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

OPERATORS = Path(__file__).resolve().parent.parent / "streams" / "operators"
STUB = OPERATORS / "of_substreams.pyi"
OF_THEIR_OWN = {"via", "to", "with_supervision"}
"""Methods that `SubSource` and `SubFlow` define."""


class Kind(NamedTuple):
    """What operators are written down for.

    Attributes:
        protocol: of the overloads that are taken.
        of: what these give back.
        ours: what is given back here.
        substreams: what of these is said of it where the overloads say it of their own.
        variables: of the class.
    """

    protocol: str
    of: str
    ours: str
    substreams: str
    variables: str


KINDS = (
    Kind("SourceLike", "Source", "SubSource", "SubSubSource", "T"),
    Kind("SourceLike", "Source", "SubSubSource", "", "T"),
    Kind("FlowLike", "Flow", "SubFlow", "SubSubFlow", "I, T"),
    Kind("FlowLike", "Flow", "SubSubFlow", "", "I, T"),
)

OF_NESTED = (
    ("streams.graph", "RunnableGraph"),
    ("streams.sink", "Sink"),
    ("streams.substream", "Substreams"),
    ("streams.supervision", "Decider"),
)
NESTED = """\
# Substreams of substreams are at run time what they are made of. So their own methods are said here alone.
class SubSubSource(Substreams[T], OfSubSubSource[T], Generic[T]):
    def via(self, flow: FlowLike[T, R], combine: Combine = ...) -> SubSubSource[R]: ...
    def with_supervision(self, decider: Decider) -> SubSubSource[T]: ...
    def merge_substreams(self) -> SubSource[T]: ...
    def merge_substreams_with_parallelism(self, parallelism: int) -> SubSource[T]: ...
    def concat_substreams(self) -> SubSource[T]: ...
    def to(self, sink: SinkLike[T, Any], combine: Combine = ...) -> RunnableGraph[int]: ...

class SubSubFlow(Substreams[T], OfSubSubFlow[I, T], Generic[I, T]):
    def via(self, flow: FlowLike[T, R], combine: Combine = ...) -> SubSubFlow[I, R]: ...
    def with_supervision(self, decider: Decider) -> SubSubFlow[I, T]: ...
    def merge_substreams(self) -> SubFlow[I, T]: ...
    def merge_substreams_with_parallelism(self, parallelism: int) -> SubFlow[I, T]: ...
    def concat_substreams(self) -> SubFlow[I, T]: ...
    def to(self, sink: SinkLike[T, Any], combine: Combine = ...) -> Sink[I, int]: ...
"""


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


def _declaration(function: ast.FunctionDef, name: str, kind: Kind, overloaded: bool) -> str:
    function = copy.deepcopy(function)
    arguments = function.args
    of = _itself(function).annotation
    assert isinstance(of, ast.Subscript)
    element = of.slice.elts[1] if isinstance(of.slice, ast.Tuple) else of.slice
    itself = (
        ""
        if ast.unparse(element) in {"T", "Any"}
        else f": {kind.ours}[{kind.variables.removesuffix('T')}{ast.unparse(element)}]"
    )
    _itself(function).annotation = None
    listed = ast.unparse(arguments).replace("self", f"self{itself}", 1)
    assert function.returns is not None
    returns = ast.unparse(function.returns)
    if returns.startswith(f"{kind.of}["):
        returns = kind.ours + returns.removeprefix(kind.of)
    elif returns.startswith(f"Sub{kind.of}["):
        # Put together they are substreams again, and no source. Three deep is too deep to be said.
        returns = kind.substreams + returns.removeprefix(f"Sub{kind.of}") if kind.substreams else "Any"
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


def _class(trees: list[ast.Module], kind: Kind) -> list[str]:
    """The lines of one class."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for tree in trees:
        for protocol, function in _overloads(tree):
            if protocol == kind.protocol and function.name not in OF_THEIR_OWN:
                found.setdefault(function.name, []).append(function)
    for tree in trees:
        for other, name in _aliases(tree):
            found[other] = [ast.parse(ast.unparse(f)).body[0] for f in found[name]]  # type: ignore[misc]  # functions
    lines = [f"class Of{kind.ours}(Generic[{kind.variables}]):"]
    for name in sorted(found):
        lines += [_declaration(f, name, kind, len(found[name]) > 1) for f in found[name]]
    return lines


def text() -> str:
    """What the stub must be."""
    trees = [ast.parse(path.read_text()) for path in sorted(OPERATORS.glob("*.py"))]
    imports, variables = _imports_and_variables(trees)
    imports |= {f"from {module} import {name}" for module, name in OF_NESTED}
    classes = [line for kind in KINDS for line in _class(trees, kind)]
    used = set(re.findall(r"\w+", "".join([*classes, NESTED])))
    lines = "\n".join(
        [
            "# Written by scripts/substream_operators.py, from the operators' own overloads.",
            "from typing import Generic",
            *sorted(line for line in imports if line.rsplit(" ", 1)[1] in used | {"TypeVar"}),
            *sorted(line for line in variables if line.split(" ", 1)[0] in used),
            *classes,
            NESTED,
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
