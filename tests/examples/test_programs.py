"""The example programs, run as a reader would run them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


def test_a_receiver_may_wait_for_its_sender(example_broker: Any, run_program: Run, environment: dict[str, str]) -> None:
    command = ("examples/receiver.py", "--address", example_broker.receive_address, "--count", "5")
    with subprocess.Popen(
        [sys.executable, *command], cwd=EXAMPLES.parent, env=environment, stdout=subprocess.PIPE, text=True
    ) as receiver:
        run_program("examples/sender.py", "--address", example_broker.send_address, "--seconds", "0.001", "--count", 5)
        output, _ = receiver.communicate(timeout=SECONDS)
    assert receiver.returncode == 0
    assert output.splitlines() == [f"Message {n} from somebody" for n in range(5)]


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
