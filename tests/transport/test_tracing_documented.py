"""docs/tracing.md: its program prints what stands below it, and its tables name what the program does."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.streams.pages import DOCS
from tests.transport.test_arrow_clients import BrokerThread
from transport import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS, Sender, Tracing, send
from transport.clients import trace_context, tracing

ROOT = Path(__file__).resolve().parents[2]
PAGE = (DOCS / "tracing.md").read_text("utf-8")
PROGRAM, OUTPUT = re.findall(r"```python\n((?:(?!```).)*)```\n```text\n(.*?)```", PAGE, re.DOTALL)[0]
SCRIPT = re.findall(r"```python\n(from transport import Tracing, receive.*?)```", PAGE, re.DOTALL)[0]


@pytest.fixture
def broker() -> Iterator[BrokerThread]:
    running = BrokerThread()
    yield running
    running.stop()


def run(program: str, broker: BrokerThread) -> str:
    """In a process of its own: a program's tracer provider is set once."""
    placed = program.replace(DEFAULT_SEND_ADDRESS, broker.sending).replace(DEFAULT_RECEIVE_ADDRESS, broker.receiving)
    command = [sys.executable, "-W", "error", "-c", placed]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.stdout


def test_the_program_prints_what_the_page_shows(broker: BrokerThread) -> None:
    assert run(PROGRAM, broker) == OUTPUT


def test_a_script_processes_in_a_span(broker: BrokerThread) -> None:
    send(broker.sending, "orders", [b"x"])
    assert run(SCRIPT, broker) == "b'x'\n"


def test_the_figures_and_names_on_the_page_are_the_programs() -> None:
    source = Path(tracing.__file__).read_text("utf-8")
    metrics = re.findall(r"^\| `(messaging\.[\w.]+)` \|", PAGE, re.MULTILINE)
    assert metrics == sorted(
        re.findall(r'"(messaging\.[\w.]+)",? *(?:"\{message\}"|\n *"s")', source), key=metrics.index
    )
    assert f"{trace_context.MAX_LINKS} at most" in PAGE
    assert f"with {trace_context.MAX_HEADERS_PER_MESSAGE} headers already" in PAGE


def test_a_tracing_can_be_given_to_what_the_page_says_takes_one() -> None:
    assert Sender(queue="orders", tracing=Tracing()).tracing is not None
