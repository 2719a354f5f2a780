"""The consumer of docs/consumer.md as a process: it handles, and a signal ends it in good order."""

from __future__ import annotations

import asyncio
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from streams import Source
from transport import Administration, Sender
from transport.testing import HostedBroker

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0
SLOW = """
import sys, time
from transport import Consumer

consumer = Consumer(sys.argv[1], queue="orders", concurrency=1, grace=30.0)

@consumer.handler
def handle(payload: bytes) -> None:
    print("begun", flush=True)
    sys.stdin.readline()
    print("done", flush=True)

consumer.run()
print("over", flush=True)
"""


async def _prepared(address: str, *payloads: bytes, queue: str = "orders") -> None:
    async with Administration(address) as admin:
        await admin.create_queue(queue, max_receives=1)
    await Source.from_iterable(payloads).to(Sender(address, queue=queue)).run()


async def _queues(address: str) -> dict[str, Any]:
    async with Administration(address) as admin:
        return {queue["name"]: queue for queue in await admin.queues()}


def _started(environment: dict[str, str], *arguments: str, folder: Path = ROOT) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    )


def test_the_program_of_the_guide_prints_what_the_guide_says_and_ends_on_a_signal(
    example_broker: Any, environment: dict[str, str]
) -> None:
    guide = (ROOT / "docs" / "consumer.md").read_text("utf-8")
    shown = re.findall(r"^```\w*\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    order, warning = shown[2].splitlines()
    asyncio.run(_prepared(example_broker.send_address, b"no JSON", b'{"item": "tea", "quantity": 2}'))
    with _started(environment, "examples/consumer.py", "--address", example_broker.receive_address) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == f"{order}\n"
            program.send_signal(signal.SIGTERM)
            _, errors = program.communicate(timeout=SECONDS)
        finally:
            program.kill()
    assert program.returncode == 0
    assert warning.replace("message 1", "message 0") in errors
    queues = asyncio.run(_queues(example_broker.send_address))
    assert (queues["orders"]["ready"], queues["orders.dead"]["ready"]) == (0, 1)


def test_the_program_of_the_guide_is_the_example() -> None:
    guide = (ROOT / "docs" / "consumer.md").read_text("utf-8")
    example = (ROOT / "examples" / "consumer.py").read_text("utf-8")
    (program, *_) = re.findall(r"^```python\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    lines = example.splitlines()
    for line in program.splitlines():
        if "127.0.0.1" not in line and "import Consumer" not in line:
            assert line in lines


def test_the_example_explains_its_address_as_the_others_do(environment: dict[str, str]) -> None:
    with _started(environment, "examples/consumer.py", "--help") as program:
        output, errors = program.communicate(timeout=SECONDS)
    assert (program.returncode, errors) == (0, "")
    assert "--address" in output


@contextmanager
def _typed(words: str, address: str, environment: dict[str, str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The program of the guide that has ``words`` in it, at a broker; it is told to end, and ends well."""
    guide = (ROOT / "docs" / "consumer.md").read_text("utf-8")
    (text,) = [each for each in re.findall(r"^```python\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL) if words in each]
    path = folder / "program.py"
    path.write_text(text.replace("Consumer(queue", f'Consumer("{address}", queue'))
    with _started(environment | {"PYTHONPATH": str(ROOT)}, str(path), folder=folder) as program:
        try:
            yield program
            program.send_signal(signal.SIGTERM)
            program.communicate(timeout=SECONDS)
        finally:
            program.kill()
    assert program.returncode == 0


def test_the_program_with_processes_counts_words(
    example_broker: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    asyncio.run(_prepared(example_broker.send_address, b"one two three", queue="documents"))
    with _typed("processes=4", example_broker.receive_address, environment, tmp_path) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "3 words\n"


def test_the_program_with_batches_stores_what_was_sent(environment: dict[str, str], tmp_path: Path) -> None:
    with HostedBroker(max_receives=1) as broker:
        broker.send("orders", [b"tea", b"soup"])
        with _typed("batch_handler", broker.receive_address, environment, tmp_path):
            broker.wait_until("orders", total_acknowledged=2)
    with sqlite3.connect(tmp_path / "orders.db") as database:
        assert database.execute("SELECT text FROM orders").fetchall() == [("tea",), ("soup",)]
    database.close()


def test_the_program_that_gives_up_an_order_at_once_keeps_the_reason(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with HostedBroker(max_receives=5) as broker:
        broker.send("orders", [b'{"customer": "bob", "item": "tea"}', b'{"customer": "ann", "item": "soup"}'])
        with _typed("raise DeadLetterError", broker.receive_address, environment, tmp_path) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == "soup to Rose Lane 3\n"
            broker.wait_until("orders.dead", ready=1)
        (dead,) = broker.contents("orders.dead")
        assert "no such customer" in str(dead.headers)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_message_under_way_be_finished_and_gives_back_the_others_uncounted(
    example_broker: Any, environment: dict[str, str], number: signal.Signals
) -> None:
    asyncio.run(_prepared(example_broker.send_address, b"1", b"2", b"3"))
    with _started(environment, "-c", SLOW, example_broker.receive_address) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "begun\n"
            program.send_signal(number)
            output, errors = program.communicate("\n", timeout=SECONDS)
        finally:
            program.kill()
    assert (program.returncode, errors) == (0, "")
    # The signal may come a moment after the line that lets the handler go on: then one more is begun, and finished.
    done = output.count("done")
    assert output.splitlines()[-1] == "over"
    assert output.count("begun") == done - 1
    queues = asyncio.run(_queues(example_broker.send_address))
    assert queues["orders"]["ready"] == 3 - done
    assert "orders.dead" not in queues
