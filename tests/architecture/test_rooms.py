"""The rooms of actors and transport: what a file may import goes by the folder that it is in.

A room is a folder's own files. Arrows go from a room to those that stand before it, and no file imports one that imports it.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOMS = (
    # errors and batches: what everybody speaks of
    "actors",
    "actors.runtime",
    "actors.exchanges",
    "actors.scheduling",
    "actors.replication",
    "actors.queue.structures",
    "actors.queue.vocabulary",
    "actors.queue.state",
    "actors.storage",
    "actors.queue.operations",
    "actors.queue",
    # the check of the packages' names alone
    "transport",
    "transport.wire",
    "transport.security",
    "transport.config",
    "transport.shell",
    "transport.tcp",
    "transport.clients",
    "transport.consumer",
    "transport.picture",
    "transport.cluster",
    "transport.broker",
    "transport.gateways.smq",
    "transport.gateways.amqp",
    "transport.gateways.http.console",
    "transport.gateways.http",
    "transport.gateways",
    "transport.node",
    "transport.testing",
    "transport.cli",
)
"""From the ground up."""

KNOW_EACH_OTHER = {
    frozenset(
        {
            "streams.flow",
            "streams.operators.asynchronous",
            "streams.operators.batching",
            "streams.operators.buffering",
            "streams.operators.elementwise",
            "streams.operators.every",
            "streams.operators.failures",
            "streams.operators.fan_in",
            "streams.operators.fan_out",
            "streams.operators.merging",
            "streams.operators.substreams",
            "streams.operators.timing",
            "streams.operators.watching",
            "streams.operators.zipping",
            "streams.source",
            "streams.substream",
        }
    ): "an operator says what it gives: a source behind a source, a flow behind a flow",
    frozenset({"actors.runtime.loop_actor", "actors.runtime.loop_ref", "actors.runtime.loop_registry"}): (
        "an actor has a ref, a ref names its actor's class, and the registry gives refs, as in Pykka"
    ),
    frozenset({"actors.queue.state.entries", "actors.queue.state.receivers"}): (
        "a lease knows its receiver, and the receiver what it holds"
    ),
    frozenset({"transport.shell.connection", "transport.shell.connection_handler"}): (
        "a connection tells its handler which connection it is"
    ),
    frozenset({"transport.gateways.amqp.channel", "transport.gateways.amqp.channel_methods"}): (
        "a channel knows what each method does, which is about the channel that it was said on"
    ),
}
"""Circles for types only, each with its reason."""


class Graph:
    """Which module imports which: ``at_run_time``, inside of functions too, or for ``types`` alone."""

    def __init__(self, sources: Iterable[Any]) -> None:
        self.modules = {source.module: source for source in sources}
        self.at_run_time: dict[str, set[str]] = defaultdict(set)
        self.types: dict[str, set[str]] = defaultdict(set)
        self._exports = {name: source.exports() for name, source in self.modules.items() if source.is_init}
        for name, source in self.modules.items():
            if source.is_init:
                continue  # a front door leads to whatever is behind it
            for_types = nodes_for_types(source.tree)
            for node in ast.walk(source.tree):
                found = {module for module in self._imported(node) if module != name}
                (self.types if id(node) in for_types else self.at_run_time)[name] |= found

    def _imported(self, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in self.modules)
        elif isinstance(node, ast.ImportFrom) and node.module in self.modules:
            yield from (self._defines(node.module, alias.name) for alias in node.names)

    def _defines(self, module: str, name: str) -> str:
        """The module that ``name`` comes from, through whatever doors."""
        if f"{module}.{name}" in self.modules:
            return f"{module}.{name}"
        behind = self._exports.get(module, {}).get(name)
        return module if behind is None or behind not in self.modules else self._defines(behind, name)

    def everything(self) -> dict[str, set[str]]:
        """At run time or for types."""
        return {name: self.at_run_time[name] | self.types[name] for name in self.modules}


def nodes_for_types(tree: ast.Module) -> set[int]:
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return {id(node) for block in blocks for statement in block.body for node in ast.walk(statement)}


def circles(graph: dict[str, set[str]]) -> list[frozenset[str]]:
    """Sets of modules each of which imports each other of its set, by whatever way."""
    reached = {name: reachable(graph, name) for name in graph}
    found = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return sorted((circle for circle in found if len(circle) > 1), key=sorted)


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for name in graph.get(waiting.pop(), ()):
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen


def room_of(module: str, packages: set[str]) -> str:
    return module if module in packages else module.rpartition(".")[0]


def upward(graph: Graph) -> list[str]:
    """Imports from a room of one that stands behind it, or in no room at all."""
    packages = {name for name, source in graph.modules.items() if source.is_init}
    found = []
    for name, imported in sorted(graph.everything().items()):
        room = room_of(name, packages)
        for other in sorted(imported):
            where = room_of(other, packages)
            if {room, where} <= set(ROOMS) and ROOMS.index(where) > ROOMS.index(room):
                found.append(f"{name} imports {other}: {room} stands below {where}")
    return found


def test_every_module_of_actors_and_transport_is_in_a_room(product: Any) -> None:
    of_ours = [source for source in product if source.package in ("actors", "transport")]
    packages = {source.module for source in of_ours if source.is_init}
    assert {room_of(source.module, packages) for source in of_ours} == set(ROOMS)


def test_no_room_imports_one_that_stands_above_it(product: Any) -> None:
    found = upward(Graph(product))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("package", ["streams", "journal", "actors", "transport", "spark_bridge"])
def test_no_module_imports_one_that_imports_it(product: Any, package: str) -> None:
    graph = Graph(source for source in product if source.package == package)
    assert [sorted(circle) for circle in circles(graph.at_run_time)] == []


def test_modules_know_each_other_only_for_types_and_for_a_reason(product: Any) -> None:
    assert set(circles(Graph(product).everything())) == set(KNOW_EACH_OTHER)


@pytest.mark.parametrize(
    ("path", "text", "at_run_time"),
    [
        ("transport/wire/a.py", "from transport.clients.b import B", True),
        ("transport/wire/a.py", "import transport.clients.b", True),
        ("transport/wire/a.py", "def f():\n    from transport.clients import b", True),
        ("transport/wire/a.py", "from transport import B", True),
        ("transport/wire/a.py", "if TYPE_CHECKING:\n    from transport.clients.b import B", False),
    ],
)
def test_an_import_upward_and_a_circle_are_found(snippet: Any, path: str, text: str, at_run_time: bool) -> None:
    graph = Graph(
        [
            snippet(text, path),
            snippet("from transport.wire.a import C", "transport/clients/b.py"),
            snippet("", "transport/__init__.py", stub="from .clients.b import B"),
            snippet("", "transport/wire/__init__.py"),
            snippet("", "transport/clients/__init__.py"),
        ]
    )
    assert upward(graph) == [
        "transport.wire.a imports transport.clients.b: transport.wire stands below transport.clients"
    ]
    both = frozenset({"transport.wire.a", "transport.clients.b"})
    assert circles(graph.everything()) == [both]
    assert circles(graph.at_run_time) == ([both] if at_run_time else [])


def test_an_import_downward_passes(snippet: Any) -> None:
    graph = Graph(
        [
            snippet("from actors.errors import E", "transport/wire/a.py"),
            snippet("from transport.wire.a import C", "transport/clients/b.py"),
            snippet("E = 1", "actors/errors.py"),
        ]
    )
    assert upward(graph) == []
    assert circles(graph.everything()) == []
