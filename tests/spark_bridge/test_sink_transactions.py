"""The sink's writers on a real broker, without Spark: attempts that outlive their time, brokers that go away."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

from spark_bridge import WriteError, writer
from spark_bridge.sink_options import SinkOptions
from spark_bridge.writer import PenstockBatchWriter, PenstockStreamWriter, TaskWritten
from tests.spark_bridge.queries import numbers
from tests.spark_bridge.sinks import Task, contents, staged
from transport import Backoff, Message

Run = Callable[..., TaskWritten]
IMPATIENT = Backoff(minimum=0.01, maximum=0.05, give_up_after=0.2)


@pytest.fixture
def nobody() -> str:
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Run:
    def run(of: Any, rows: Iterable[bytes], partition: int = 0, attempt: int = 0, batch: int = 0) -> TaskWritten:
        monkeypatch.setattr(TaskContext, "get", lambda: Task(partition, attempt, batch))
        written = of.write(pa.record_batch([pa.array([row], pa.binary())], names=["value"]) for row in rows)
        assert isinstance(written, TaskWritten)
        return written

    return run


def sink(broker: Any, **options: Any) -> PenstockStreamWriter:
    return PenstockStreamWriter(SinkOptions(**({"queue": "out", "brokers": (broker.sending,)} | options)))


def plain(values: Iterable[bytes]) -> list[Message]:
    return [Message(value) for value in values]


def test_of_two_attempts_of_a_task_that_both_end_well_only_the_one_spark_took_is_published(
    broker: Any, task: Run
) -> None:
    first = task(sink(broker), numbers(0, 5))
    second = task(sink(broker), numbers(0, 5), attempt=1)
    other = task(sink(broker), numbers(5, 8), partition=1)
    assert staged(broker) == [("spark-7e6f", 0, 13)]
    assert contents(broker) == []
    assert first != second
    sink(broker).commit([second, other], 0)
    assert contents(broker) == plain(numbers(0, 8))
    assert staged(broker) == []


def test_an_attempt_that_ends_after_the_commit_publishes_nothing(broker: Any, task: Run) -> None:
    winner = task(sink(broker), numbers(0, 5))

    def slow_rows() -> Iterable[bytes]:
        yield b"0"
        sink(broker).commit([winner], 0)
        yield from numbers(1, 5)

    late = task(sink(broker), slow_rows(), attempt=1)
    sink(broker).commit([late], 0)
    later = task(sink(broker), numbers(0, 5), attempt=2)
    assert (later.stages, later.committed) == ((), True)
    assert contents(broker) == plain(numbers(0, 5))
    assert staged(broker) == []


def test_the_next_batch_discards_what_a_crashed_one_of_the_same_query_left(broker: Any, task: Run) -> None:
    task(sink(broker), numbers(0, 3), partition=1)
    sink(broker).commit([task(sink(broker), numbers(0, 5))], 0)
    task(sink(broker), numbers(5, 7), batch=1)
    sink(broker).commit([task(sink(broker), numbers(5, 9), batch=1)], 1)
    assert contents(broker) == plain(numbers(0, 9))
    assert staged(broker) == []


def test_an_aborted_batch_leaves_nothing(broker: Any, task: Run) -> None:
    written = task(sink(broker), numbers(0, 3))
    task(sink(broker), numbers(3, 5), partition=1)
    sink(broker).abort([written, None], 0)
    assert staged(broker) == []
    assert contents(broker) == []


def test_rows_for_several_queues_are_published_together(
    broker: Any, task: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: Task(0, 0, 0))
    several = sink(broker, queue=None)
    records = pa.record_batch([pa.array([b"1", b"2", b"3"]), pa.array(["a", "b", "a"])], names=["value", "queue"])
    written = several.write(iter([records]))
    assert contents(broker, "a") == contents(broker, "b") == []
    several.commit([written], 0)
    assert (contents(broker, "a"), contents(broker, "b")) == (plain([b"1", b"3"]), plain([b"2"]))


def test_connections_that_break_while_a_task_writes_lose_and_repeat_nothing(broker: Any, task: Run) -> None:
    def rows() -> Iterable[bytes]:
        for number in range(30):
            if number % 10 == 5:
                broker.close_connections()
            yield b"%d" % number

    sink(broker).commit([task(sink(broker), rows())], 0)
    assert contents(broker) == plain(numbers(0, 30))


def test_a_broker_that_starts_again_between_a_task_and_the_commit_has_what_was_staged(
    make_broker: Any, task: Run, tmp_path: Path
) -> None:
    before = make_broker(directory=str(tmp_path))
    written = task(sink(before), numbers(0, 5))
    before.stop()
    after = make_broker(directory=str(tmp_path))
    assert contents(after) == []
    sink(after).commit([written], 0)
    sink(after).commit([written], 0)
    assert contents(after) == plain(numbers(0, 5))


def test_a_broker_that_forgot_what_was_staged_fails_the_commit_and_the_batch_can_be_written_again(
    make_broker: Any, task: Run
) -> None:
    before = make_broker()
    written = task(sink(before), numbers(0, 5))
    before.stop()
    after = make_broker()
    with pytest.raises(
        WriteError, match=r"committing version 0 of writer 'spark-7e6f': .* transaction-incomplete"
    ) as caught:
        sink(after).commit([written], 0)
    assert caught.value.code == "transaction-incomplete"
    sink(after).commit([task(sink(after), numbers(0, 5))], 0)
    assert contents(after) == plain(numbers(0, 5))


def test_a_message_that_fits_no_frame_is_refused_with_its_size(broker: Any, task: Run) -> None:
    with pytest.raises(
        WriteError, match=r"writing to queue 'out': a message of 16777\d+ bytes exceeds the \d+ that fit a frame"
    ):
        task(sink(broker), [bytes(16 * 2**20)])
    assert contents(broker) == []


def test_a_broker_that_cannot_be_reached_fails_the_task_after_the_retries(
    task: Run, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "StageClient", partial(writer.StageClient, retry=IMPATIENT))
    absent = PenstockBatchWriter(SinkOptions(queue="out", brokers=(nobody,)))
    with pytest.raises(
        WriteError, match=r"queue 'out' could not be reached for 0\.\d s .*Option brokers must name the sending"
    ):
        task(absent, [b"a"])


def test_an_abort_that_reaches_no_broker_leaves_the_word_to_what_made_the_write_fail(
    nobody: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(writer, "ABORT_RETRY", IMPATIENT)
    PenstockBatchWriter(SinkOptions(queue="out", brokers=(nobody,), writer="w", version=3)).abort([None])
    assert "discarding version 3 of writer 'w': " in caplog.text
    assert "The broker discards it in time." in caplog.text
