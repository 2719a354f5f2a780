"""The examples that are Spark queries, launched in the ways there are: alone, through Spark Connect, by spark-submit, as a pipeline."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from streams import Source
from transport import Receiver, Sender

# JVMs start in every one of these, on a machine that may be busy with others.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sys.executable).parent
SECONDS = 200.0
WINDOW = re.compile(r"(?P<start>\S+): (?P<orders>\d+) orders, (?P<first>\d+) to (?P<last>\d+)\n")

Launch = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def spark_environment(environment: dict[str, str]) -> dict[str, str]:
    """That of a node on which Penstock is installed: every Python of Spark's finds it, no program registers anything."""
    submit = "--conf spark.ui.enabled=false pyspark-shell"
    return environment | {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": submit,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TZ": "UTC",
    }


@pytest.fixture
def launch(spark_environment: dict[str, str], tmp_path: Path) -> Iterator[Launch]:
    """Starts a command in a process group of its own, with a folder of its own; what is left in the end is killed, JVMs too."""
    started: list[subprocess.Popen[str]] = []

    def start(*command: object, **variables: str) -> subprocess.Popen[str]:
        with (tmp_path / f"stderr-{len(started)}").open("wb") as errors:
            process = subprocess.Popen(
                [*map(str, command)],
                cwd=tmp_path,
                env=spark_environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        kill(process)
        process.communicate()


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL to a process and all that it started."""
    with contextlib.suppress(ProcessLookupError):  # it has ended, and nothing of its group is left
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def finished(process: subprocess.Popen[str], folder: Path) -> str:
    """What a program printed until its end, which must be a good one."""
    output, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, "\n".join(path.read_text()[-3000:] for path in sorted(folder.glob("stderr-*")))
    return output


def send(broker: Any, payloads: list[bytes]) -> None:
    Source.from_iterable(payloads).to(Sender(broker.send_address, queue="orders")).run_blocking()


def cells(output: str) -> set[tuple[str, ...]]:
    """The rows of the tables that Spark printed."""
    lines = [line.strip() for line in output.splitlines() if line.startswith("|")]
    return {tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines}


@pytest.mark.parametrize(
    ("launcher", "variables"),
    [
        pytest.param((sys.executable,), {"SPARK_REMOTE": "local[2]"}, id="connect"),
        pytest.param((SCRIPTS / "spark-submit", "--master", "local[2]"), {}, id="submit", marks=pytest.mark.soak),
    ],
)
def test_a_query_counts_what_each_sender_sent_however_it_is_launched(
    example_broker: Any, launch: Launch, tmp_path: Path, launcher: tuple[Any, ...], variables: dict[str, str]
) -> None:
    send(
        example_broker, [b"Message %d from Ada" % n for n in range(7)] + [b"Message %d from Bob" % n for n in range(4)]
    )
    program = (ROOT / "examples/spark_query.py", "--address", example_broker.receive_address, "--now")
    rows = cells(finished(launch(*launcher, *program, **variables), tmp_path))
    assert rows == {("sender", "count"), ("Ada", "7"), ("Bob", "4")}


def test_a_listener_prints_what_lies_behind_until_nothing_does(example_broker: Any, launch: Launch) -> None:
    send(example_broker, [b"x"] * 2500)
    program = launch(sys.executable, ROOT / "examples/spark_metrics.py", "--address", example_broker.receive_address)
    assert program.stdout is not None
    lines = [program.stdout.readline() for _ in range(3)]
    found = [
        re.match(r"batch (\d+): (\d+) rows, \d+/s; (\d+) messages behind, the oldest for (\d+) ms", line)
        for line in lines
    ]
    assert [tuple(map(int, match.groups()[:3])) for match in found if match] == [
        (0, 1000, 1500),
        (1, 1000, 500),
        (2, 500, 0),
    ]
    ages = [int(match[4]) for match in found if match]
    assert ages[0] > 0
    assert ages[2] == 0


def end_with(query: subprocess.Popen[str], receiver: subprocess.Popen[str]) -> None:
    """A query that fails ends the receiver, which would wait for its results until the test's time is over."""

    def watch() -> None:
        if query.wait() != -signal.SIGKILL:
            receiver.kill()

    threading.Thread(target=watch, daemon=True).start()


def windows(receiver: subprocess.Popen[str], until: Callable[[re.Match[str]], bool]) -> Iterator[re.Match[str]]:
    """The windows that the receiver of the example prints, up to one of which something holds."""
    assert receiver.stdout is not None
    for line in receiver.stdout:
        window = WINDOW.fullmatch(line)
        assert window is not None, line
        yield window
        if until(window):
            return
    pytest.fail("the receiver ended, or a query did: see the files stderr-*")


def test_orders_are_counted_exactly_once_though_the_query_is_killed(example_broker: Any, launch: Launch) -> None:
    program = (sys.executable, ROOT / "examples/spark_exactly_once.py")
    addresses = ("--sending", example_broker.send_address, "--receiving", example_broker.receive_address)
    launch(*program, "send", *addresses)
    receiver = launch(*program, "receive", *addresses)
    query = launch(*program, "query", *addresses)
    end_with(query, receiver)
    seen = list(windows(receiver, lambda _: True))
    kill(query)
    killed = datetime.now(UTC)
    end_with(launch(*program, "query", *addresses), receiver)
    # What was sent after the first query's end can only be counted by the second.
    seen += windows(receiver, lambda window: datetime.fromisoformat(window["start"]) > killed)
    assert int(seen[0]["first"]) == 0
    assert all(int(later["first"]) == int(earlier["last"]) + 1 for earlier, later in pairwise(seen))
    assert sum(int(window["orders"]) for window in seen) == int(seen[-1]["last"]) + 1


async def received(address: str, queue: str, count: int) -> list[bytes]:
    payloads = []
    async for delivery in Receiver(address, queue=queue, limit=count):
        payloads.append(delivery.payload)
        delivery.acknowledge()  # the stream ends when all of them are
    return payloads


def test_a_pipeline_fills_a_table_and_a_queue_from_a_queue(example_broker: Any, launch: Launch, tmp_path: Path) -> None:
    from pyarrow import parquet

    folder = shutil.copytree(ROOT / "examples/pipeline", tmp_path / "pipeline")
    spec = folder / "spark-pipeline.yml"
    text = re.sub(
        r"^storage: \S+", f"storage: {(tmp_path / 'storage').as_uri()}", spec.read_text("utf-8"), flags=re.MULTILINE
    )
    text = text.replace("127.0.0.1:9183", example_broker.receive_address)
    spec.write_text(text.replace("127.0.0.1:9182", example_broker.send_address), "utf-8")
    send(example_broker, [b"Message %d from Ada" % n for n in range(7)])

    finished(launch(SCRIPTS / "spark-pipelines", "run", "--spec", spec), tmp_path)
    rows = parquet.read_table(tmp_path / "spark-warehouse" / "orders").sort_by("position").to_pylist()
    assert [(row["position"], row["text"], row["sender"]) for row in rows] == [
        (n, f"Message {n} from Ada", "Ada") for n in range(7)
    ]
    thanks = asyncio.run(received(example_broker.receive_address, "confirmations", 7))
    assert sorted(thanks) == [b"thanks for Message %d from Ada" % n for n in range(7)]
