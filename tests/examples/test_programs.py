"""The example programs, run as a reader would run them."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streams import RunnableGraph, Source
from transport import Sender, SendSummary

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MOST_LINES = {"spark_exactly_once.py": 60}  # three programs in one
DEFAULT_MOST_LINES = 40
SECONDS = 100.0

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MOST_LINES.get(path.name, DEFAULT_MOST_LINES)


@pytest.mark.event_loop
def test_what_one_program_sends_another_receives(example_broker: Any, run_program: Run) -> None:
    address = ("--address", example_broker.send_address)
    sent = run_program("examples/sender.py", *address, "--name", "Ada", "--seconds", "0.001", "--count", 30)
    received = run_program("examples/receiver.py", "--address", example_broker.receive_address, "--count", 30)
    assert sent.stdout == "30 messages confirmed\n"
    # Eight are handled at a time and printed as they are done, here at once: in order.
    assert received.stdout.splitlines() == [f"Message {n} from Ada" for n in range(30)]


def test_a_message_that_the_receivers_handler_fails_on_goes_back_and_the_others_go_on(
    example_broker: Any, run_program: Run
) -> None:
    messages = Source.of(b"one", b"\xff is no text", b"two", b"three")
    asyncio.run(_sent(messages.to(Sender(example_broker.send_address, queue="orders"))))
    received = run_program("examples/receiver.py", "--address", example_broker.receive_address, "--count", 3)
    assert received.stdout.splitlines() == ["one", "two", "three"]
    assert (
        "a handler failed on message 1 of queue orders, which is given back to the queue after try 1" in received.stderr
    )
    assert "UnicodeDecodeError" in received.stderr


async def _sent(graph: RunnableGraph[SendSummary]) -> None:
    await graph.run()


def test_a_receiver_may_wait_for_its_sender(example_broker: Any, run_program: Run, environment: dict[str, str]) -> None:
    command = ("examples/receiver.py", "--address", example_broker.receive_address, "--count", "5")
    with subprocess.Popen(
        [sys.executable, *command], cwd=EXAMPLES.parent, env=environment, stdout=subprocess.PIPE, text=True
    ) as receiver:
        run_program("examples/sender.py", "--address", example_broker.send_address, "--seconds", "0.001", "--count", 5)
        output, _ = receiver.communicate(timeout=SECONDS)
    assert receiver.returncode == 0
    assert output.splitlines() == [f"Message {n} from somebody" for n in range(5)]


def test_a_script_needs_no_event_loop(example_broker: Any, run_program: Run) -> None:
    addresses = ("--send-address", example_broker.send_address, "--receive-address", example_broker.receive_address)
    written = run_program("examples/script.py", *addresses).stdout
    assert written.splitlines() == ["3 messages confirmed", "one", "two", "three"]


def test_a_broker_ends_in_good_order_on_ctrl_c(example_broker: Any) -> None:
    example_broker.process.send_signal(signal.SIGINT)
    assert example_broker.process.wait(timeout=SECONDS) == 0


@pytest.mark.event_loop
def test_one_program_can_be_the_whole_system(run_program: Run) -> None:
    *orders, summary = run_program("examples/in_process.py", 250).stdout.splitlines()
    assert sorted(orders) == sorted(f"order {n}" for n in range(1, 251))
    assert summary == "250 sent, 250 handled"


@pytest.mark.parametrize("count", ["0", "-1", "many"])
def test_a_count_that_cannot_be_is_told_in_a_line(environment: dict[str, str], count: str) -> None:
    command = [sys.executable, "examples/in_process.py", count]
    done = subprocess.run(
        command, check=False, cwd=EXAMPLES.parent, env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    assert (done.returncode, done.stderr) == (1, f"COUNT is {count}; a whole number of 1 or more is possible\n")


def test_a_parquet_file_goes_through_a_queue_into_another(
    example_broker: Any, run_program: Run, tmp_path: Path
) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"payload": [f"order {n}".encode() for n in range(2500)], "key": [b"k", None] * 1250})
    pq.write_table(table, tmp_path / "in.parquet")
    program = "examples/parquet.py"
    sent = run_program(program, "send", tmp_path / "in.parquet", "--address", example_broker.send_address)
    assert sent.stdout == "2500 messages confirmed\n"
    out = tmp_path / "out.parquet"
    address = ("--address", example_broker.receive_address)
    received = run_program(program, "receive", out, *address, "--count", 2500)
    assert received.stdout == f"2500 messages in {out}\n"
    assert pq.read_table(out, columns=["payload", "key"]).equals(table)
