"""What the sink's writers do with a broker's answers, the answers given by a model of a broker."""

from __future__ import annotations

import logging
import pickle
import socket
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext

from spark_bridge import OptionError, WriteError, writer
from spark_bridge.sink_options import SinkOptions
from spark_bridge.writer import (
    MAX_QUEUES_PER_TASK,
    EnlistedStage,
    PenstockBatchWriter,
    PenstockStreamWriter,
    TaskWritten,
)
from tests.spark_bridge.sinks import Task
from transport import Access, BrokerError, ConnectionLostError, MessageBatch
from transport.security.access_sources import GivenAccess


class Broker:
    """What the broker knows of one transaction, and what the clients of a test were told to go wrong."""

    def __init__(self) -> None:
        self.staged: dict[tuple[str, int], dict[EnlistedStage, list[bytes]]] = {}
        self.committed: dict[str, int] = {}
        self.published: list[bytes] = []
        self.connections = 0
        self.open_clients = 0
        self.on_send: Any = lambda: None
        self.given: list[dict[str, Any]] = []

    def stage_client(self, addresses: Any, **given: Any) -> StageClient:
        self.given.append({"addresses": addresses} | given)
        return StageClient(self, given["queue"], given["writer"], given["version"], given["stage"])

    def transaction_client(self, addresses: Any, **given: Any) -> TransactionClient:
        return TransactionClient(self, given["writer"], given["version"])

    def is_committed(self, name: str, version: int) -> bool:
        return version <= self.committed.get(name, -1)


class Client:
    def __init__(self, broker: Broker, name: str, version: int) -> None:
        self.broker, self.name, self.version = broker, name, version
        broker.connections += 1
        broker.open_clients += 1

    def close(self) -> None:
        self.broker.open_clients -= 1


class StageClient(Client):
    def __init__(self, broker: Broker, queue: str, name: str, version: int, stage: str) -> None:
        super().__init__(broker, name, version)
        self.queue, self.stage = queue, stage
        self.payloads: list[bytes] = []

    def open(self) -> bool:
        return not self.broker.is_committed(self.name, self.version)

    def send(self, batch: MessageBatch) -> None:
        self.broker.on_send()
        self.payloads += list(batch.payloads)

    def finish(self) -> EnlistedStage:
        stage = EnlistedStage(self.queue, self.stage, len(self.payloads))
        if not self.broker.is_committed(self.name, self.version):
            self.broker.staged.setdefault((self.name, self.version), {})[stage] = self.payloads
        return stage

    def finish_all(self) -> tuple[EnlistedStage, ...]:
        return (self.finish(),)


class TransactionClient(Client):
    def commit(self, stages: Iterable[EnlistedStage]) -> int:
        if self.broker.is_committed(self.name, self.version):
            return 0
        held = self.broker.staged.pop((self.name, self.version))
        payloads = [payload for stage in stages for payload in held[stage]]
        self.broker.published += payloads
        self.broker.committed[self.name] = self.version
        return len(payloads)

    def abort(self) -> int:
        return len(self.broker.staged.pop((self.name, self.version), {}))


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    model = Broker()
    monkeypatch.setattr(writer, "StageClient", model.stage_client)
    monkeypatch.setattr(writer, "TransactionClient", model.transaction_client)
    return model


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(of: Any, rows: Iterable[pa.RecordBatch], **context: Any) -> TaskWritten:
        monkeypatch.setattr(TaskContext, "get", lambda: Task(**context))
        message = of.write(iter(rows))
        # It travels to the driver.
        returned = pickle.loads(pickle.dumps(message))
        assert returned == message
        return returned

    return run


def records(*values: bytes, queue: str | None = None) -> pa.RecordBatch:
    columns = {"value": pa.array(values, pa.binary())}
    return pa.record_batch(columns if queue is None else columns | {"queue": pa.array([queue] * len(values))})


def stream_writer(**options: Any) -> PenstockStreamWriter:
    return PenstockStreamWriter(SinkOptions(**({"queue": "q"} | options)))


def test_a_batch_is_published_with_what_its_tasks_staged_under_names_of_their_own(broker: Broker, task: Any) -> None:
    options = {"brokers": ("a:1", "b:2"), "demand_timeout_ms": 1500, "access": GivenAccess(user="ann", password="p")}
    sink = stream_writer(**options)
    first = task(sink, [records(b"a", b"b"), records(b"c")], partition=0, batch=4)
    second = task(sink, [records(b"d")], partition=1, attempt=2, batch=4)
    assert (first.writer, first.version, first.committed) == ("spark-7e6f", 4, False)
    assert [(stage.queue, stage.messages) for stage in (*first.stages, *second.stages)] == [("q", 3), ("q", 1)]
    assert first.stages[0].stage.startswith("0-0-")
    assert second.stages[0].stage.startswith("1-2-")
    assert broker.given[0] | {"stage": ""} == {
        "addresses": ("a:1", "b:2"),
        "queue": "q",
        "writer": "spark-7e6f",
        "version": 4,
        "stage": "",
        "access": Access("ann", "p"),
        "demand_timeout": 1.5,
        "exchange": None,
        "routing_key": None,
    }
    assert broker.published == []
    stream_writer(**options).commit([first, second], 4)
    assert broker.published == [b"a", b"b", b"c", b"d"]
    assert broker.open_clients == 0


def test_a_task_on_another_host_does_not_seek_a_loopback_address_for_a_minute(
    broker: Broker, task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        local = f"127.0.0.1:{taken.getsockname()[1]}"  # nobody answers there
        monkeypatch.setattr("spark_bridge.placing.socket.gethostname", lambda: "driver-7")
        sent = pickle.dumps(stream_writer(brokers=(local,)))
        monkeypatch.setattr("spark_bridge.placing.socket.gethostname", lambda: "executor-3")
        with pytest.raises(OptionError, match=f"names {local}, .* runs on executor-3, .* planned on driver-7"):
            task(pickle.loads(sent), [records(b"a")], batch=0)
        task(pickle.loads(sent), [], batch=0)  # without rows it does not connect
    assert broker.connections == 0


def test_two_attempts_of_a_task_never_share_a_stage(broker: Broker, task: Any) -> None:
    stages = [task(stream_writer(), [records(b"a")], batch=0).stages[0].stage for _ in range(20)]
    assert len(set(stages)) == 20


def test_rows_go_into_the_queues_that_they_name(broker: Broker, task: Any) -> None:
    sink = PenstockStreamWriter(SinkOptions())
    rows = [records(b"a", queue="x"), records(b"b", queue="y"), records(b"c", queue="x")]
    message = task(sink, rows, batch=0)
    assert [(stage.queue, stage.messages) for stage in message.stages] == [("x", 2), ("y", 1)]
    assert len({stage.stage for stage in message.stages}) == 1
    sink.commit([message], 0)
    assert sorted(broker.published) == [b"a", b"b", b"c"]


def test_a_task_without_rows_and_a_batch_without_rows_connect_to_nobody(broker: Broker, task: Any) -> None:
    sink = stream_writer()
    message = task(sink, [records()], batch=0)
    sink.commit([message, task(sink, [], partition=1, batch=0)], 0)
    sink.commit([], 1)
    assert broker.connections == 0


def test_a_batch_that_runs_again_after_its_commit_reads_its_rows_and_sends_none(
    broker: Broker, task: Any, caplog: pytest.LogCaptureFixture
) -> None:
    sink = stream_writer()
    sink.commit([task(sink, [records(b"a")], batch=3)], 3)
    read = []

    def rows() -> Iterator[pa.RecordBatch]:
        for value in (b"a", b"b", b"c"):
            read.append(value)
            yield records(value)

    again = task(sink, rows(), batch=3)
    assert again == TaskWritten("spark-7e6f", 3, (), committed=True)
    assert read == [b"a", b"b", b"c"]
    before = broker.connections
    with caplog.at_level(logging.WARNING):
        sink.commit([again], 3)
    assert "version 3 of writer spark-7e6f was committed before: nothing is written" in caplog.text
    assert broker.connections == before
    assert broker.published == [b"a"]


def test_a_batch_that_another_driver_commits_while_a_task_writes_is_published_once(broker: Broker, task: Any) -> None:
    sink = stream_writer()
    theirs = task(sink, [records(b"a")], batch=0)
    early = task(sink, [records(b"a")], batch=0)
    broker.on_send = lambda: stream_writer().commit([theirs], 0)
    late = task(sink, [records(b"b"), records(b"c")], partition=1, batch=0)
    broker.on_send = lambda: None
    last = task(sink, [records(b"e")], partition=2, batch=0)
    assert [message.committed for message in (early, late, last)] == [False, False, True]
    sink.commit([early, late, last], 0)
    assert broker.published == [b"a"]
    assert broker.open_clients == 0


def test_an_aborted_batch_is_discarded_where_any_task_says_whose_it_is(broker: Broker, task: Any) -> None:
    sink = stream_writer()
    message = task(sink, [records(b"a")], batch=5)
    sink.abort([None, message], 5)
    assert broker.staged == {}
    connections = broker.connections
    sink.abort([None, None], 5)
    assert broker.connections == connections


def test_a_frame_is_written_by_its_tasks_and_its_commit_under_one_name(broker: Broker, task: Any) -> None:
    made = PenstockBatchWriter(SinkOptions(queue="q"))
    copies = [pickle.loads(pickle.dumps(made)) for _ in range(3)]
    messages = [task(copy, [records(b"a")], partition=number) for number, copy in enumerate(copies[:2])]
    copies[2].commit(messages)
    assert broker.published == [b"a", b"a"]
    assert len(broker.committed) == 1
    other = PenstockBatchWriter(SinkOptions(queue="q"))
    other.commit([task(other, [records(b"b")])])
    assert len(broker.committed) == 2


def test_a_frame_with_writer_and_version_is_written_once(broker: Broker, task: Any) -> None:
    for _ in range(2):
        sink = PenstockBatchWriter(SinkOptions(queue="q", writer="totals", version=8))
        sink.commit([task(sink, [records(b"a")])])
    assert broker.published == [b"a"]
    assert broker.committed == {"totals": 8}


def test_a_frame_all_of_whose_tasks_failed_is_discarded_by_its_name(broker: Broker, task: Any) -> None:
    sink = PenstockBatchWriter(SinkOptions(queue="q"))
    task(sink, [records(b"a")])
    assert len(broker.staged) == 1
    sink.abort([None])
    assert broker.staged == {}


def test_a_task_that_fails_closes_its_connections(broker: Broker, task: Any) -> None:
    def fail() -> None:
        raise ConnectionLostError("queue 'q' could not be reached for 60.0 s")

    broker.on_send = fail
    with pytest.raises(
        WriteError, match=r"^writing to queue 'q': queue 'q' could not be reached for 60.0 s\. Option brokers"
    ):
        task(stream_writer(), [records(b"a")], batch=0)
    assert (broker.connections, broker.open_clients) == (1, 0)
    assert broker.staged == {}


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("unknown-role", "Option brokers takes the sending address of a broker, 127.0.0.1:9182 by default"),
        ("transaction-too-large", "Let a batch read less"),
        ("transaction-incomplete", "Spark writes the batch again when the query is started again."),
        ("limit-exceeded", ""),
    ],
)
def test_a_refusal_says_what_was_done_what_the_broker_said_and_what_to_do(
    broker: Broker, task: Any, code: str, hint: str
) -> None:
    def refuse() -> None:
        raise BrokerError(code, "7 exceed 6")

    broker.on_send = refuse
    with pytest.raises(WriteError) as caught:
        task(stream_writer(), [records(b"a")], batch=0)
    assert str(caught.value).startswith(f"writing to queue 'q': the broker answered {code}: 7 exceed 6.")
    assert hint in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.code) == (str(caught.value), code)


def test_a_task_writes_to_a_bounded_number_of_queues(broker: Broker, task: Any) -> None:
    rows = [records(b"a", queue=f"q{number}") for number in range(MAX_QUEUES_PER_TASK + 1)]
    assert len(task(stream_writer(), rows[:-1], batch=0).stages) == MAX_QUEUES_PER_TASK
    with pytest.raises(WriteError, match="one task writes to more than 64 queues, 'q64' is the next; repartition by"):
        task(stream_writer(), rows, batch=1)
    assert broker.open_clients == 0


def test_tasks_of_other_batches_or_queries_are_not_committed(broker: Broker, task: Any) -> None:
    sink = stream_writer()
    messages = [task(sink, [records(b"a")], batch=number) for number in (0, 1)]
    with pytest.raises(WriteError, match="the tasks of one batch wrote for several transactions"):
        sink.commit(messages, 1)
    with pytest.raises(WriteError, match="the tasks wrote batch 0, Spark commits batch 1"):
        sink.commit(messages[:1], 1)
    assert broker.published == []


def test_a_streaming_task_outside_of_a_query_is_refused(broker: Broker, task: Any) -> None:
    with pytest.raises(WriteError, match="Spark did not say which query and batch this task writes for"):
        task(stream_writer(), [records(b"a")])
    assert broker.connections == 0
