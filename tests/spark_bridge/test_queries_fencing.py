"""A subscription has one query: who was replaced, or was believed dead, can neither take nor acknowledge nor read anything."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark_bridge.conftest import DEADLINE, ROOT
from tests.spark_bridge.queries import MARKS, Batches, failure, finish, numbers, source, start

pytestmark = MARKS

TAKEN = "another query has taken over subscription 's' of queue 'q'"


def test_a_query_on_the_subscription_of_one_that_lives_waits_and_gets_in_when_that_ends(
    spark: Any, broker: Any, tmp_path: Path
) -> None:
    """It used to end the first one, which was healthy."""
    broker.send("q", numbers(0, 10))
    before = Batches()
    first = start(source(spark, broker).load(), tmp_path / "first", before, processingTime="0 seconds")
    before.wait_for(10)
    after = Batches()
    second = start(source(spark, broker).load(), tmp_path / "second", after)
    broker.send("q", numbers(10, 20))
    before.wait_for(20)
    assert first.isActive
    assert second.isActive
    first.stop()
    finish(second)
    # The first came to acknowledge its first batch, and the second has a checkpoint of its own.
    assert after.values == numbers(10, 20)


def test_a_query_whose_subscription_another_takes_ends_and_the_other_goes_on(
    spark: Any, broker: Any, tmp_path: Path
) -> None:
    broker.send("q", numbers(0, 10))
    before = Batches()
    first = start(source(spark, broker).load(), tmp_path / "first", before, processingTime="0 seconds")
    before.wait_for(10)
    second = Batches()
    finish(start(source(spark, broker, takeOver=True).load(), tmp_path / "second", second))
    assert TAKEN in failure(first)
    broker.send("q", numbers(10, 20))
    finish(start(source(spark, broker).load(), tmp_path / "second", second))
    # The first never came to acknowledge its batch, and the second has a checkpoint of its own.
    assert second.values == numbers(0, 20)
    assert before.values == numbers(0, 10)


def test_a_task_of_a_query_that_was_replaced_meanwhile_fails_and_the_query_says_why(
    spark: Any, broker: Any, tmp_path: Path
) -> None:
    broker.send("q", numbers(0, 10))

    def take_over(number: int) -> None:
        with broker.client(take_over=True) as other:
            other.open()

    batches = Batches(first=take_over)
    text = failure(start(source(spark, broker).load(), tmp_path, batches))
    assert TAKEN in text
    assert "rows = frame.collect()" in text, "it is a task that fails, not the planning, which is before"
    assert batches.rows == {}


ZOMBIE = """
import sys
from pyspark.sql.streaming.datasource import ReadMaxRows
from spark_bridge import PenstockDataSource, SubscriptionTakenError
from spark_bridge.schema import source_schema

def attempt(what, call):
    try:
        call()
    except SubscriptionTakenError as error:
        print(what, "is refused:", error, flush=True)
    else:
        print(what, "went through", flush=True)

address, start, lenient = sys.argv[1], {"s": "s", "pos": int(sys.argv[2])}, sys.argv[3]
options = {"queue": "q", "subscription": "s", "brokers": address, "failondataloss": lenient}
reader = PenstockDataSource(options).streamReader(source_schema(False))
end = reader.latestOffset(start, ReadMaxRows(1000))
tasks = reader.partitions(start, end)
print("reserved up to", end["pos"], flush=True)
sys.stdin.readline()
attempt("commit", lambda: reader.commit(end))
attempt("latestOffset", lambda: reader.latestOffset(end, ReadMaxRows(1000)))
attempt("read", lambda: list(reader.read(tasks[0])))
attempt("commit again", lambda: reader.commit(end))
attempt("partitions", lambda: list(reader.read(reader.partitions(start, end)[0])))
"""
"""What the streaming worker of a driver does that was killed and has not noticed."""


class Zombie:
    """A process of its own with a reader that has reserved; goes on when told."""

    def __init__(self, address: str, position: int, lenient: bool) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", ZOMBIE, address, str(position), str(lenient).lower()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=ROOT,
        )

    def line(self) -> str:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], DEADLINE)
        assert ready, "the zombie said nothing in time"
        return self._process.stdout.readline().rstrip("\n")

    def go_on(self) -> list[str]:
        """Lets it do the rest, and what it said."""
        said, _ = self._process.communicate("\n", timeout=DEADLINE)
        return said.splitlines()

    def end(self) -> None:
        with self._process as process:
            process.kill()


@pytest.fixture
def zombies() -> Iterator[list[Zombie]]:
    made: list[Zombie] = []
    yield made
    for zombie in made:
        zombie.end()


@pytest.mark.parametrize("lenient", [False, True], ids=["fail-on-data-loss", "data-loss-allowed"])
def test_the_worker_of_a_killed_driver_can_change_nothing_once_the_query_runs_again(
    spark: Any, durable_broker: Any, tmp_path: Path, zombies: list[Zombie], lenient: bool
) -> None:
    """Least of all where data loss is allowed: that another has taken the subscription is none."""
    durable_broker.send("q", numbers(0, 2000))
    said: list[str] = []

    def revive(number: int) -> None:
        if number == 2:
            said.extend(zombies[0].go_on())

    batches = Batches(revive)
    options = {"maxRowsPerBatch": 1000, "takeOver": True}  # the zombie beats: it is a live process
    finish(start(source(spark, durable_broker, **options).load(), tmp_path, batches))
    durable_broker.send("q", numbers(2000, 5000))
    zombies.append(Zombie(durable_broker.receiving, 2000, lenient))
    assert zombies[0].line() == "reserved up to 3000"
    finish(start(source(spark, durable_broker, **options).load(), tmp_path, batches))
    refused = ["commit", "latestOffset", "read", "commit again", "partitions"]
    assert [line.partition(", with")[0] for line in said] == [f"{what} is refused: {TAKEN}" for what in refused]
    assert batches.sizes == [1000] * 5
    assert batches.values == numbers(0, 5000)
