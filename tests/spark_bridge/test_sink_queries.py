"""Queries and frames that write to a real broker: each row once, in whichever way Spark runs a batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark_bridge.queries import MARKS, failure, finish, numbers, source, start
from tests.spark_bridge.sinks import Lines, contents, forget_commit, payloads, staged, write_frame, write_stream
from transport import Message

pytestmark = MARKS


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    return Lines(tmp_path)


def frame_of(spark: Any, start: int, stop: int, tasks: int = 2) -> Any:
    return spark.range(start, stop, 1, tasks).selectExpr("string(id) AS value")


def failing_once(marker: Path) -> Any:
    """A step of a plan, for mapInArrow, that hands over all its rows and fails then, the first time."""

    def step(records: Iterator[Any]) -> Iterator[Any]:
        yield from records
        if not marker.exists():
            marker.touch()
            raise RuntimeError("this task fails after it has handed over its rows")

    return step


def failing(records: Iterator[Any]) -> Iterator[Any]:
    yield from records
    raise RuntimeError("this task always fails after it has handed over its rows")


def test_the_lines_of_files_become_messages_in_their_order(
    spark: Any, broker: Any, tmp_path: Path, lines: Lines
) -> None:
    for first in (0, 1000, 2000):
        lines.write(numbers(first, first + 1000))
    query = finish(write_stream(lines.load(spark), broker, tmp_path))
    assert [progress["numInputRows"] for progress in query.recentProgress][:3] == [1000, 1000, 1000]
    assert contents(broker) == [Message(payload) for payload in numbers(0, 3000)]
    assert staged(broker) == []


def test_values_keys_and_headers_go_through_a_query_from_queues_to_queues_as_they_are(
    spark: Any, broker: Any, tmp_path: Path
) -> None:
    sent = [
        Message(b"\xff\x00", key=b"k1", headers={"a": b"1", "b": b""}),
        Message(b"", key=None, headers=None),
        Message(b"three", key=b"k3", headers={"c": b"\xfe"}),
    ]
    broker.send("q", sent)
    frame = source(spark, broker, includeHeaders="true").load()
    routed = frame.selectExpr(
        "value", "key", "headers", "CASE WHEN key = X'6B33' THEN 'thirds' WHEN key IS NOT NULL THEN 'out' END AS queue"
    )
    finish(write_stream(routed, broker, tmp_path, queue="rest"))
    assert contents(broker, "out") == [sent[0]]
    assert contents(broker, "rest") == [sent[1]]
    assert contents(broker, "thirds") == [sent[2]]


def test_headers_may_be_a_map_of_strings(spark: Any, broker: Any) -> None:
    write_frame(spark.sql("SELECT 'v' AS value, map('trace', 'abc', 'n', '1') AS headers"), broker)
    assert contents(broker) == [Message(b"v", headers={"trace": "abc", "n": "1"})]


def test_a_batch_that_was_written_and_runs_again_is_not_written_again(
    spark: Any, durable_broker: Any, tmp_path: Path, lines: Lines
) -> None:
    lines.write(numbers(0, 100))
    lines.write(numbers(100, 200))
    finish(write_stream(lines.load(spark), durable_broker, tmp_path))
    forget_commit(tmp_path, 1)
    lines.write(numbers(200, 300))
    finish(write_stream(lines.load(spark), durable_broker, tmp_path))
    assert contents(durable_broker) == [Message(payload) for payload in numbers(0, 300)]
    assert staged(durable_broker) == []


def test_what_a_failed_attempt_of_a_task_has_staged_is_not_published(
    spark: Any, broker: Any, tmp_path: Path, lines: Lines
) -> None:
    lines.write(numbers(0, 5000))
    marker = tmp_path / "failed"
    frame = lines.load(spark).mapInArrow(failing_once(marker), "value string")
    finish(write_stream(frame, broker, tmp_path))
    assert marker.exists()
    assert contents(broker) == [Message(payload) for payload in numbers(0, 5000)]
    assert staged(broker) == []


def test_a_batch_that_failed_is_written_when_the_query_is_started_again(
    spark: Any, broker: Any, tmp_path: Path, lines: Lines
) -> None:
    lines.write(numbers(0, 50))
    error = failure(write_stream(lines.load(spark).mapInArrow(failing, "value string"), broker, tmp_path))
    assert "this task always fails after it has handed over its rows" in error
    assert contents(broker) == []
    finish(write_stream(lines.load(spark), broker, tmp_path))
    assert contents(broker) == [Message(payload) for payload in numbers(0, 50)]
    assert staged(broker) == []


def test_a_batch_without_rows_writes_nothing(spark: Any, broker: Any, tmp_path: Path, lines: Lines) -> None:
    lines.write(numbers(0, 10))
    lines.write(numbers(10, 20))
    finish(write_stream(lines.load(spark).where("value < '10'").where("value <> ''"), broker, tmp_path))
    assert payloads(broker) == sorted(value for value in numbers(0, 20) if value < b"10")
    finish(write_stream(lines.load(spark).where("false"), broker, tmp_path / "other", queue="none"))
    assert contents(broker, "none") == []


def test_a_frame_is_written_with_all_its_tasks_and_again_when_it_is_written_again(spark: Any, broker: Any) -> None:
    frame = frame_of(spark, 0, 1000)
    write_frame(frame, broker)
    assert payloads(broker) == sorted(numbers(0, 1000))
    write_frame(frame, broker)
    assert payloads(broker) == sorted(numbers(0, 1000) * 2)
    assert staged(broker) == []


def test_a_frame_with_writer_and_version_is_written_once(spark: Any, broker: Any) -> None:
    for version in (3, 3, 2, 4):
        write_frame(frame_of(spark, version, version + 10), broker, writer="totals", version=version)
    assert payloads(broker) == sorted(numbers(3, 13) + numbers(4, 14))


def test_frames_that_a_query_writes_under_its_batch_ids_are_written_once(
    spark: Any, broker: Any, tmp_path: Path, lines: Lines
) -> None:
    batches_written = []

    def write(frame: Any, number: int) -> None:
        batches_written.append(number)
        write_frame(frame, broker, writer="lines", version=number)

    lines.write(numbers(0, 10))
    lines.write(numbers(10, 20))
    finish(start(lines.load(spark), tmp_path, write))
    forget_commit(tmp_path, 1)
    finish(start(lines.load(spark), tmp_path, write))
    assert batches_written == [0, 1, 1]
    assert contents(broker) == [Message(payload) for payload in numbers(0, 20)]


def test_a_frame_whose_tasks_fail_writes_nothing_and_leaves_nothing(spark: Any, broker: Any) -> None:
    frame = frame_of(spark, 0, 100).mapInArrow(failing, "value string")
    with pytest.raises(Exception, match="this task always fails after it has handed over its rows"):
        write_frame(frame, broker)
    assert contents(broker) == []
    assert staged(broker) == []


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("overwrite", r'a queue cannot be overwritten: .* Use mode\("append"\)'),
        ("error", "cannot be written in the .ErrorIfExists. mode"),
        ("ignore", "cannot be written in the .Ignore. mode"),
    ],
)
def test_a_frame_can_only_be_appended(spark: Any, broker: Any, mode: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        write_frame(frame_of(spark, 0, 1), broker, mode)


def test_a_frame_with_another_column_is_refused_before_a_task_runs(spark: Any, broker: Any) -> None:
    with pytest.raises(Exception, match="a sink has no column 'id'; it takes value") as caught:
        write_frame(spark.range(1).selectExpr("id", "string(id) AS value"), broker)
    assert "SchemaError" in str(caught.value)


def test_an_unknown_option_fails_the_query_and_names_the_known_ones(
    spark: Any, broker: Any, tmp_path: Path, lines: Lines
) -> None:
    lines.write(numbers(0, 1))
    error = failure(write_stream(lines.load(spark), broker, tmp_path, topic="orders"))
    assert "option topic is an option of Kafka's: say queue" in error


def test_the_output_mode_complete_fails_the_query_and_says_what_to_do(
    spark: Any, broker: Any, tmp_path: Path, lines: Lines
) -> None:
    lines.write(numbers(0, 1))
    counts = lines.load(spark).groupBy("value").count().select("value")
    options = {"queue": "out", "brokers": broker.sending, "checkpointLocation": str(tmp_path / "checkpoint")}
    error = failure(counts.writeStream.format("penstock").outputMode("complete").options(**options).start())
    assert "outputMode complete would send the whole result again with every batch; use append" in error


def test_a_row_without_a_value_fails_the_query_and_is_named(
    spark: Any, broker: Any, tmp_path: Path, lines: Lines
) -> None:
    lines.write([b"a", b"b", b"c"])
    frame = lines.load(spark).selectExpr("nullif(value, 'c') AS value")
    assert "row 2 of this task has no value: column value is null" in failure(write_stream(frame, broker, tmp_path))
    assert contents(broker) == []


def test_a_queue_that_stays_full_fails_the_query_after_the_demand_timeout(
    spark: Any, make_broker: Any, tmp_path: Path, lines: Lines
) -> None:
    full = make_broker(max_queue_messages=10)
    full.send("out", numbers(0, 10))
    lines.write(numbers(0, 100))
    error = failure(write_stream(lines.load(spark), full, tmp_path, demandTimeout="300ms"))
    assert (
        "writing to queue 'out': queue 'out' granted no room for 0.3 s: its receivers are slower than this query"
        in error
    )
    assert [message.payload for message in contents(full)] == numbers(0, 10)


def test_a_batch_larger_than_what_may_be_staged_fails_the_query_and_names_the_limit(
    spark: Any, make_broker: Any, tmp_path: Path, lines: Lines
) -> None:
    small = make_broker(max_staged_messages=1000)
    lines.write(numbers(0, 1200))
    error = failure(write_stream(lines.load(spark), small, tmp_path))
    assert "the broker answered transaction-too-large: " in error
    assert "max_staged_messages 1000" in error
    assert "Let a batch read less" in error
    assert contents(small) == []


def test_the_receiving_address_is_recognised_for_what_it_is(spark: Any, broker: Any) -> None:
    with pytest.raises(Exception, match=r"unknown-role.*Option brokers takes the sending address of a broker"):
        write_frame(frame_of(spark, 0, 1, 1), broker, brokers=broker.receiving)
