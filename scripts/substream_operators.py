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
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from scripts.formatted import formatted

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
    Kind("ValuedFlow", "Flow", "SubFlow", "SubSubFlow", "I, T"),
    Kind("ValuedFlow", "Flow", "SubSubFlow", "", "I, T"),
)
WITH = {"SourceWith": "SourceLike", "FlowWith": "ValuedFlow"}
"""Overloads for what has a materialized value say what holds of substreams: theirs is what they are made of, whatever comes in."""

OF_NESTED = (
    ("asyncio", "Future"),
    ("streams.graph", "RunnableGraph"),
    ("streams.keep", "Combine"),
    ("streams.shapes", "FlowLike"),
    ("streams.shapes", "SinkLike"),
    ("streams.shapes", "With"),
    ("streams.shapes", "Without"),
    ("streams.sink", "Sink"),
    ("streams.substream", "Substreams"),
    ("streams.supervision", "Decider"),
    ("streams.type_variables", "V_co"),
)
NESTED = """\
# Substreams of substreams are at run time what they are made of. So their own methods are said here alone.
class SubSubSource(Substreams[T, V_co], OfSubSubSource[T, V_co], Generic[T, V_co]):
    def via(self, flow: FlowLike[T, R], combine: Combine = ...) -> SubSubSource[R, V_co]: ...
    def with_supervision(self, decider: Decider) -> SubSubSource[T, V_co]: ...
    def merge_substreams(self) -> SubSource[T, V_co]: ...
    def merge_substreams_with_parallelism(self, parallelism: int) -> SubSource[T, V_co]: ...
    def concat_substreams(self) -> SubSource[T, V_co]: ...
    @overload
    def to(self: With, sink: SinkLike[T, Any]) -> RunnableGraph[int, V_co]: ...
    @overload
    def to(self: Without[V], sink: SinkLike[T, Any]) -> RunnableGraph[int, V | Future[int]]: ...
    @overload
    def to(self, sink: SinkLike[T, Any], combine: Callable[[V_co, Future[int]], X]) -> RunnableGraph[int, X]: ...

class SubSubFlow(Substreams[T, V_co], OfSubSubFlow[I, T, V_co], Generic[I, T, V_co]):
    def via(self, flow: FlowLike[T, R], combine: Combine = ...) -> SubSubFlow[I, R, V_co]: ...
    def with_supervision(self, decider: Decider) -> SubSubFlow[I, T, V_co]: ...
    def merge_substreams(self) -> SubFlow[I, T, V_co]: ...
    def merge_substreams_with_parallelism(self, parallelism: int) -> SubFlow[I, T, V_co]: ...
    def concat_substreams(self) -> SubFlow[I, T, V_co]: ...
    @overload
    def to(self: With, sink: SinkLike[T, Any]) -> Sink[I, int, V_co]: ...
    @overload
    def to(self: Without[V], sink: SinkLike[T, Any]) -> Sink[I, int, V | Future[int]]: ...
    @overload
    def to(self, sink: SinkLike[T, Any], combine: Callable[[V_co, Future[int]], X]) -> Sink[I, int, X]: ...
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


def _declaration(function: ast.FunctionDef, name: str, kind: Kind) -> str:
    """An operator on substreams: what comes out of it has the materialized value of what it is called on."""
    function = copy.deepcopy(function)
    arguments = function.args
    of = _itself(function).annotation
    assert isinstance(of, ast.Subscript)
    assert isinstance(of.slice, ast.Tuple)
    element = ast.unparse(of.slice.elts[-2])
    itself = "" if element in {"T", "Any"} else f": {kind.ours}[{kind.variables.removesuffix('T')}{element}, V_co]"
    _itself(function).annotation = None
    for argument in arguments.args:
        if argument.arg == "combine":  # for one of many there is nothing to combine
            argument.annotation = ast.Name("Combine")
            if len(arguments.defaults) < len(arguments.args) - arguments.args.index(argument):
                arguments.defaults.append(ast.Constant(...))
    for index, argument in enumerate(arguments.kwonlyargs):
        if argument.arg == "combine":
            argument.annotation = ast.Name("Combine")
            arguments.kw_defaults[index] = ast.Constant(...)
    listed = ast.unparse(arguments).replace("self", f"self{itself}", 1)
    listed = re.sub(r"(?:Valued|Short)Sink\[(\w+), [^]]*\]", r"SinkLike[\1, Any]", listed)
    assert isinstance(function.returns, ast.Subscript)
    *shape, value = (
        function.returns.slice.elts if isinstance(function.returns.slice, ast.Tuple) else [function.returns.slice]
    )
    assert ast.unparse(value) in {"V", "X"}, ast.unparse(function)
    given = ast.unparse(function.returns.value)
    # Put together they are substreams again, and no source. Three deep is too deep to be said.
    ours = kind.ours if given == kind.of else kind.substreams
    returns = f"{ours}[{', '.join(map(ast.unparse, shape))}, V_co]" if ours else "Any"
    return f"    def {name}({listed}) -> {returns}: ...\n"


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


def _without_combine(functions: list[ast.FunctionDef]) -> list[ast.FunctionDef]:
    """The overloads but for those that another one, with a ``combine`` that may be left out, says as well."""

    def arguments(function: ast.FunctionDef) -> list[str]:
        given = function.args
        return [argument.arg for argument in given.posonlyargs + given.args + given.kwonlyargs]

    combined = [arguments(function)[:-1] for function in functions if arguments(function)[-1:] == ["combine"]]
    return [function for function in functions if arguments(function) not in combined]


def _class(trees: list[ast.Module], kind: Kind) -> list[str]:
    """The lines of one class."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for tree in trees:
        for protocol, function in _overloads(tree):
            if WITH.get(protocol, protocol) == kind.protocol and function.name not in OF_THEIR_OWN:
                found.setdefault(function.name, []).append(function)
    for tree in trees:
        for other, name in _aliases(tree):
            found[other] = [ast.parse(ast.unparse(f)).body[0] for f in found[name]]  # type: ignore[misc]  # functions
    lines = [f"class Of{kind.ours}(Generic[{kind.variables}, V_co]):"]
    for name in sorted(found):
        said = dict.fromkeys(_declaration(function, name, kind) for function in _without_combine(found[name]))
        lines += [f"    @overload\n{line}" if len(said) > 1 else line for line in said]
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
    return formatted(lines, STUB, "F401", "I", "UP")


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
