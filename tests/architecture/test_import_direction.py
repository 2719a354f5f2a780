"""Who may import whom, and that an import inside a function is an import too."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

MAY_IMPORT: dict[str, set[str]] = {
    "streams": set(),
    "journal": set(),
    "actors": {"streams", "journal"},
    "transport": {"actors", "streams"},
    "spark_bridge": {"transport"},
    "pyspark_penstock": {"spark_bridge"},
}
# Not the product: it must work without them.
AROUND_IT = {"tests", "examples", "benchmarks", "scripts"}
# `pip install penstock-mq` does without the extra that brings these.
OF_THE_EXTRA = {"pyspark", "pyarrow", "pandas", "numpy"}
FOR_SPARK = ("spark_bridge", "pyspark_penstock")
# What brings pyarrow to the clients that are asked for Arrow, with a word for whoever has none.
FOR_ARROW = "transport/clients/_pyarrow.py"
# Likewise opentelemetry-api, of the extra `otel`, to those that are traced.
FOR_TRACING = "transport/clients/_opentelemetry.py"
# What a Spark executor may load of transport: what a client is made of, and never the broker.
CLIENT_ROOMS = {"errors", "wire", "clients"}
# Of the room that brokers and clients share, what is of clients alone.
OF_CLIENTS = {"transport.security.access", "transport.security.access_sources"}


def imports(tree: ast.Module) -> Iterator[tuple[int, str, str | None]]:
    """(line, module, name imported from it) for every import anywhere in a module; relative ones keep their dots."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, None
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, "." * node.level + (node.module or ""), alias.name
        elif isinstance(node, ast.Call) and node.args:
            function = node.func
            called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
            first = node.args[0]
            if called in {"import_module", "__import__"} and isinstance(first, ast.Constant):
                yield node.lineno, str(first.value), None


def violations(source: Any, transport_names: dict[str, str]) -> list[str]:
    """What a module imports and should not. `transport_names`: name re-exported by transport -> module it is from."""
    package = source.package
    found = []
    for line, module, name in imports(source.tree):
        at = f"{source.path}:{line}"
        top = module.split(".", 1)[0]
        if module.startswith("."):
            found.append(f"{at} imports relatively")
        elif top in AROUND_IT:
            found.append(f"{at} imports {top}, which is no part of the product")
        elif top in MAY_IMPORT and top != package and top not in MAY_IMPORT[package]:
            found.append(f"{at} imports {top}; {package} may import {sorted(MAY_IMPORT[package]) or 'none of ours'}")
        elif top in OF_THE_EXTRA and package not in FOR_SPARK and (top, source.path) != ("pyarrow", FOR_ARROW):
            found.append(f"{at} imports {top}; only {' and '.join(FOR_SPARK)} may")
        elif top == "opentelemetry" and source.path != FOR_TRACING:
            found.append(f"{at} imports {top}; only {FOR_TRACING} may")
        elif package == "spark_bridge" and top == "transport" and not of_a_client(module, name, transport_names):
            found.append(f"{at} imports {module}{f' ({name})' if name else ''}; spark_bridge may import only clients")
    return list(dict.fromkeys(found))  # one for a statement that imports several names


def of_a_client(module: str, name: str | None, transport_names: dict[str, str]) -> bool:
    if module == "transport":
        if name is None:
            return False  # it gives everything, the broker too
        module = transport_names.get(name, f"transport.{name}")
    parts = module.split(".")
    # What transport re-exports from elsewhere it has made a part of its own interface.
    return parts[0] != "transport" or parts[1] in CLIENT_ROOMS or module in OF_CLIENTS


@pytest.fixture
def transport_names(product: Any) -> dict[str, str]:
    (door,) = (source for source in product if source.path == "transport/__init__.py")
    return dict(door.exports())


def test_every_import_goes_in_the_agreed_direction(product: Any, transport_names: dict[str, str]) -> None:
    assert product, "no modules found: the test looks in the wrong place"
    found = [violation for source in product for violation in violations(source, transport_names)]
    assert not found, "\n".join(found)


def test_the_agreed_direction_has_no_cycle() -> None:
    done: set[str] = set()
    while len(done) < len(MAY_IMPORT):
        ready = {package for package, needs in MAY_IMPORT.items() if package not in done and needs <= done}
        assert ready, f"a cycle among {set(MAY_IMPORT) - done}"
        done |= ready


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("streams/a.py", "import actors"),
        ("streams/a.py", "from actors.batch import MessageBatch"),
        ("streams/a.py", "def f():\n    from transport import Sender"),
        ("streams/a.py", "if TYPE_CHECKING:\n    from actors import LoopActor"),
        ("streams/a.py", "import importlib\nimportlib.import_module('actors.batch')"),
        ("streams/a.py", "from .b import c"),
        ("streams/__init__.py", "from . import b"),
        ("journal/a.py", "import streams"),
        ("actors/a.py", "import transport.wire.messages as wire"),
        ("actors/queue/a.py", "import spark_bridge"),
        ("transport/a.py", "from journal import Journal"),
        ("transport/cli/a.py", "def f():\n    import spark_bridge"),
        ("transport/a.py", "import pyarrow as pa"),
        ("transport/clients/a.py", "def f():\n    import pyarrow"),
        ("transport/clients/_pyarrow.py", "import numpy"),
        ("transport/clients/a.py", "def f():\n    from opentelemetry import trace"),
        ("spark_bridge/a.py", "import opentelemetry.trace"),
        ("transport/a.py", "import pyspark_penstock"),
        ("spark_bridge/a.py", "from pyspark_penstock import DefaultSource"),
        ("pyspark_penstock/a.py", "def f():\n    from transport import Sender"),
        ("streams/a.py", "from tests.streams import helpers"),
        ("spark_bridge/a.py", "import actors"),
        ("spark_bridge/a.py", "import transport"),
        ("spark_bridge/a.py", "from transport import Broker"),
        ("spark_bridge/a.py", "from transport import broker"),
        ("spark_bridge/a.py", "from transport.broker.broker import anything"),
        ("spark_bridge/a.py", "import transport.cli.app"),
    ],
)
def test_an_import_against_the_direction_is_found(snippet: Any, path: str, text: str) -> None:
    assert (
        len(
            violations(snippet(text, path), {"Broker": "transport.broker.broker", "Sender": "transport.clients.sender"})
        )
        == 1
    )


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("streams/a.py", "import asyncio\nfrom streams.b import c\nimport reactivex"),
        ("actors/a.py", "from streams import Source\nimport journal.segments"),
        ("transport/clients/_pyarrow.py", "import pyarrow as pa"),
        ("transport/clients/_opentelemetry.py", "from opentelemetry import trace"),
        ("transport/a.py", "from actors import QueueActor\nfrom streams import Source"),
        ("spark_bridge/a.py", "from transport import Sender, MessageBatch\nimport pyspark"),
        (
            "pyspark_penstock/a.py",
            "from pyspark.sql.datasource import DataSource\nfrom spark_bridge import PenstockDataSource",
        ),
        (
            "spark_bridge/a.py",
            "from transport.clients.receiver_session import x\nfrom transport.wire import address",
        ),
    ],
)
def test_an_import_in_the_direction_passes(snippet: Any, path: str, text: str) -> None:
    assert (
        violations(snippet(text, path), {"Sender": "transport.clients.sender", "MessageBatch": "transport.wire.values"})
        == []
    )
