"""docs/arrow.md: its programs print what stands below them, and its columns are the program's.

Polars and DuckDB are not installed here. What their lines rest on, the PyCapsule interface, is held by `test_arrow_batches.py` with
objects that have nothing else.
"""

from __future__ import annotations

import contextlib
import io
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pandas")

from tests.streams.pages import DOCS
from tests.transport.test_arrow_clients import BrokerThread
from transport import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS, receive_arrow, send_arrow
from transport.clients import arrow_records, sender
from transport.clients import receiver as receivers

PAGE = (DOCS / "arrow.md").read_text("utf-8")
PROGRAMS = re.findall(r"```python\n((?:(?!```).)*)```\n```text\n(.*?)```", PAGE, re.DOTALL)
HELD = re.compile(r"```python\n(import pyarrow.parquet.*?)```", re.DOTALL)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[BrokerThread]:
    running = BrokerThread()
    for client, address in ((sender.Sender, running.sending), (receivers.Receiver, running.receiving)):
        monkeypatch.setattr(client.__init__, "__defaults__", (address,))
    yield running
    running.stop()


def run(program: str, broker: BrokerThread) -> str:
    placed = program.replace(DEFAULT_SEND_ADDRESS, broker.sending).replace(DEFAULT_RECEIVE_ADDRESS, broker.receiving)
    output = io.StringIO()

    def work() -> None:
        names: dict[str, Any] = {"__name__": "program"}
        with contextlib.redirect_stdout(output):
            exec(compile(placed, "docs/arrow.md", "exec", dont_inherit=True), names)

    # A thread of its own: some of them run an event loop.
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return output.getvalue()


@pytest.mark.parametrize(("program", "output"), PROGRAMS)
def test_a_program_prints_what_the_page_shows(broker: BrokerThread, program: str, output: str) -> None:
    assert run(program, broker) == output


def test_the_page_has_a_program_for_each_library_that_is_here() -> None:
    assert len(PROGRAMS) == 3


def test_a_file_is_written_before_its_messages_are_acknowledged(
    broker: BrokerThread, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    send_arrow(broker.sending, "orders", [arrow_records.pa.array(["a", "b"])])
    (program,) = HELD.findall(PAGE)
    run(program.replace("idle_exit=5.0", "idle_exit=0.2"), broker)
    assert (tmp_path / "orders.parquet").exists()
    assert receive_arrow(broker.receiving, "orders", idle_exit=0.2).read_all().num_rows == 0


def test_the_columns_and_their_types_are_the_programs() -> None:
    received = PAGE.partition("## What is received")[2]
    assert re.findall(r"^\| `(\w+)` \| `(.+?)` \|", received, re.MULTILINE) == [
        (field.name, str(field.type)) for field in arrow_records.arrow_schema()
    ]
