"""The examples of AMQP, run as a reader would run them: they print what docs/amqp.md shows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pika
import pytest

from tests.docs.typed import block
from tests.transport.programs import ROOT, BrokerProcess

PAGE = "docs/amqp.md"
SECONDS = 200.0

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess("--amqp", "127.0.0.1:0") as running:
        yield running


def port_of(broker: BrokerProcess) -> str:
    words = broker.said.replace(",", "").split()
    return words[words.index("AMQP") + 1].rpartition(":")[2]


def shown(program: str) -> str:
    """What the page shows beneath the line that runs a program."""
    lines = block(PAGE, f"$ python examples/{program}\n").splitlines()
    return "\n".join(lines[1:]) + "\n"


@pytest.mark.parametrize("program", ["amqp_pika.py", "amqp_aio_pika.py"])
def test_a_program_prints_what_the_page_shows(broker: BrokerProcess, run_program: Run, program: str) -> None:
    for _ in range(2):
        # What it has declared is there the second time.
        assert run_program(f"examples/{program}", "--port", port_of(broker)).stdout == shown(program)


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_query_sums_what_pika_has_published(broker: BrokerProcess, environment: dict[str, str]) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(port_of(broker)))) as connection:
        # A run that finds no Java has published all the same.
        channel = connection.channel()
        channel.queue_declare("sales", durable=True)
        channel.basic_publish("", "sales", b'{"product": "tea", "euros": 1}')
    command = ["examples/amqp_spark.py", "--port", port_of(broker), "--address", broker.receiving]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment | {"SPARK_LOCAL_IP": "127.0.0.1", "PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("Batch: 0")[1].strip("\n-").strip() == shown("amqp_spark.py").strip()
