"""Packages that load what they give when it is asked for: what their stubs promise is there, and nothing else is loaded."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LATE = (
    "streams",
    "streams.junctions",
    "streams.testkit",
    "journal",
    "actors",
    "actors.storage",
    "transport",
    "transport.tcp",
    "transport.testing",
    "spark_bridge",
)
SECONDS = 60.0
OURS = ("streams", "journal", "actors", "transport", "spark_bridge")


def run(program: str) -> Any:
    """What the last line says, as JSON, that a process of its own prints when it runs ``program``."""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, timeout=SECONDS, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def all_loaded(program: str) -> list[str]:
    """Every module that a process of its own has loaded when it has run ``program``."""
    return list(run(f"{program}\nimport json, sys; print(json.dumps([*sys.modules]))"))


def loaded(program: str) -> list[str]:
    """Our modules among them."""
    return [name for name in all_loaded(program) if name.split(".")[0] in OURS]


def test_every_package_that_opens_late_is_known_here(product: Any) -> None:
    assert sorted(source.module for source in product if source.stub) == sorted(LATE)


@pytest.mark.parametrize("name", LATE)
def test_a_package_gives_what_its_stub_promises(product: Any, name: str) -> None:
    (source,) = (source for source in product if source.module == name)
    (promised,) = (ast.literal_eval(node.value) for node in ast.parse(source.stub).body if isinstance(node, ast.Assign))
    package = importlib.import_module(name)
    assert sorted(promised) == sorted(source.exports()) == sorted(package.__all__) == sorted(dir(package))
    assert all(getattr(package, each) is not None for each in promised)
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        package.nothing_of_the_kind  # noqa: B018


@pytest.mark.parametrize("name", LATE)
def test_a_package_alone_loads_next_to_nothing(name: str) -> None:
    parents = [".".join(name.split(".")[: depth + 1]) for depth in range(name.count(".") + 1)]
    checks = {f"{parent}._ours" for parent in parents}
    assert set(loaded(f"import {name}")) - checks == set(parents)


BROKERS = (
    "journal",
    "actors.runtime",
    "actors.queue.state",
    "actors.queue.operations",
    "actors.storage",
    "transport.broker",
)


HELP = "import sys; sys.argv[1:] = ['--help']; from transport.cli import main\ntry: main()\nexcept SystemExit: pass"


@pytest.mark.parametrize(
    ("program", "most"),
    [
        ("from transport import Sender, MessageBatch", 150),
        ("from transport import Receiver", 149),
        ("from transport import StageClient, TransactionClient, Administration", 59),
        # One of them gives what a worker says its form.
        ("import spark_bridge.reader, spark_bridge.writer", 63),
        # Two of them are the table of exit codes, and who a client says that it is; seven tell of verbs, with examples.
        (HELP, 56),
    ],
    ids=["sender", "receiver", "blocking clients", "worker of Spark", "penstock --help"],
)
def test_a_client_loads_nothing_of_the_brokers(program: str, most: int) -> None:
    found = loaded(program)
    assert [name for name in found if name.startswith(BROKERS)] == []
    assert len(found) <= most, f"{len(found)} of our modules: {sorted(found)}"


def test_a_client_without_tls_and_password_loads_neither() -> None:
    # asyncio loads ssl by itself; a client that blocks is to do without.
    found = set(all_loaded("from transport import Access, TransactionClient as C; C('h:1', writer='w', version=1)"))
    needed = {"ssl", "stringprep", "transport.security.scram", "transport.clients.tls_errors"}
    assert found & needed == set()


def test_the_help_loads_nothing_that_only_a_connection_needs() -> None:
    found = set(all_loaded(HELP))
    needed = {"asyncio", "ssl", "socket", "msgpack", "streams", "actors.batch", "transport.wire.messages"}
    assert found & needed == set()


def test_a_broker_loads_no_gateway_that_it_does_without() -> None:
    # AMQP's classes alone are a fifth of the processor time of a broker's start.
    program = (
        "import transport.cli.broker, transport.cli._serving\n"
        "from transport.config.config import BrokerConfig\n"
        "from transport.gateways.listeners import configured_listeners\n"
        "configured_listeners(BrokerConfig({}))"
    )
    asks = {"http": "http='127.0.0.1:0'", "amqp": "amqp='127.0.0.1:0'", "smq": "smq_sink='127.0.0.1:0'"}
    for option in ("", *asks.values()):
        found = {
            name.split(".")[2] for name in loaded(program.format(option)) if name.startswith("transport.gateways.")
        }
        assert found & {*asks} == {name for name, each in asks.items() if each == option}


GENERATED = """
import json, sys
from collections import Counter

made = Counter()

def hook(event, arguments):
    if event == "compile" and arguments[1] == "<string>":
        frame = sys._getframe(1)
        while frame.f_globals.get("__name__") in ("builtins", "collections", "dataclasses", "typing"):
            frame = frame.f_back
        made[frame.f_globals.get("__name__")] += 1

sys.addaudithook(hook)
"""


def test_the_classes_of_the_wire_have_little_generated_when_they_are_loaded() -> None:
    # What takes a client long to import is neither the modules nor their size, but the methods that dataclasses compile for them.
    made = run(f"{GENERATED}\nimport transport.wire.frame_protocol\nprint(json.dumps(made))")
    ours = {name: count for name, count in made.items() if name.startswith("transport.")}
    assert ours["transport.wire.messages"] == 34, "one __init__ a frame, and nothing else"
    assert sum(ours.values()) <= 45, ours
