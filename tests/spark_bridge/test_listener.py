"""What a listener is told of each queue of a query, by whatever Spark hands over as its progress."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from pyspark.sql.streaming.datasource import ReadMaxRows

from spark_bridge import PenstockDataSource, QueueListener, QueueProgress
from spark_bridge.listener import progress_of
from spark_bridge.schema import source_schema
from transport import Tracing


def source(latest: str | None, end: str | None = None) -> SimpleNamespace:
    return SimpleNamespace(latestOffset=latest, endOffset=end, numInputRows=7, processedRowsPerSecond=3.5)


def progress(*sources: SimpleNamespace, name: str | None = "nightly") -> SimpleNamespace:
    return SimpleNamespace(sources=list(sources), name=name, id="0001-id", batchId=4)


def event(*sources: SimpleNamespace) -> SimpleNamespace:
    return SimpleNamespace(progress=progress(*sources))


@pytest.fixture
def reported(broker: Any) -> str:
    """What a source says of a queue from which it has taken one of three messages."""
    broker.send("orders", [b"1", b"2", b"3"])
    options = {"queue": "orders", "subscription": "lake", "brokers": broker.receiving}
    reader = PenstockDataSource(options).streamReader(source_schema(include_headers=False))
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
    said = reader.reportLatestOffset()
    reader.stop()
    return json.dumps(said)


def test_a_batch_is_told_with_its_query_queue_and_subscription_and_what_lies_behind(reported: str) -> None:
    [found] = progress_of(progress(source(reported)))
    assert (found.query, found.batch_id, found.queue, found.subscription) == ("nightly", 4, "orders", "lake")
    assert (found.rows, found.rows_per_second, found.backlog, found.backlog_bytes) == (
        7,
        3.5,
        2,
        json.loads(reported)["backlogBytes"],
    )
    assert (found.in_flight, found.live_subscriptions, found.down) == (0, 1, ())
    assert str(found).startswith(
        "query nightly, batch 4, queue orders, subscription lake: 7 rows, 4/s; 2 messages behind, the oldest for "
    )
    [unnamed] = progress_of(progress(source(reported), name=None))
    assert unnamed.query == "0001-id"


@pytest.mark.parametrize("latest", [None, "", "null", "7", "[]", "no json", '{"topic":{"0":1}}', '{"s":"x","pos":1}'])
def test_other_sources_of_a_query_are_passed_over(latest: str | None, reported: str) -> None:
    assert [found.queue for found in progress_of(progress(source(latest), source(reported)))] == ["orders"]


def test_before_the_first_report_the_end_of_the_batch_names_the_queue() -> None:
    [found] = progress_of(progress(source(None, '{"s":"lake","q":"orders","pos":7}')))
    assert (found.queue, found.backlog) == ("orders", None)
    assert str(found).endswith("7 rows, 4/s")


def test_brokers_that_are_down_are_told() -> None:
    [found] = progress_of(progress(source('{"s":"l","q":"o","pos":{},"backlog":1,"down":["b:1"]}')))
    assert str(found).endswith("; without b:1")


def test_a_report_that_fails_is_logged_and_the_next_queue_is_told(
    reported: str, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[QueueProgress] = []

    def fail_once(found: QueueProgress) -> None:
        told.append(found)
        if len(told) == 1:
            raise RuntimeError("no gauge")

    listener = QueueListener(fail_once)
    listener.onQueryStarted(None)
    with caplog.at_level(logging.ERROR, "penstock.spark"):
        listener.onQueryProgress(event(source(reported), source(reported)))
    listener.onQueryIdle(None)
    listener.onQueryTerminated(None)
    assert len(told) == 2
    assert "a report of queue 'orders' failed" in caplog.text


def test_without_a_report_it_is_a_line_in_the_log(reported: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "penstock.spark"):
        QueueListener().onQueryProgress(event(source(reported)))
    assert "queue orders, subscription lake: 7 rows" in caplog.text


def test_a_batch_with_rows_is_a_span_from_its_start_to_its_end(reported: str, caplog: pytest.LogCaptureFixture) -> None:
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers, meters = TracerProvider(), MeterProvider([reader])
    tracers.add_span_processor(SimpleSpanProcessor(spans))
    listener = QueueListener(lambda _: None, tracing=Tracing(tracers, meters))
    full, empty = source(reported), source(reported)
    full.startOffset, full.endOffset, empty.numInputRows = None, '{"pos":1}', 0
    happened = event(full, empty)
    happened.progress.timestamp, happened.progress.batchDuration = "2026-03-01T10:00:00.250Z", 40
    happened.progress.durationMs = {"addBatch": 30, "triggerExecution": 40}
    listener.onQueryProgress(happened)
    (span,) = spans.get_finished_spans()
    assert (span.name, span.kind, span.parent) == ("process orders", SpanKind.CONSUMER, None)
    start = 1_772_359_200_250 * 1_000_000
    assert (span.start_time, span.end_time) == (start, start + 40_000_000)
    expected = {
        "messaging.system": "penstock",
        "messaging.destination.name": "orders",
        "messaging.destination.subscription.name": "lake",
        "messaging.operation.type": "process",
        "messaging.batch.message_count": 7,
        "penstock.spark.query": "nightly",
        "penstock.spark.batch_id": 4,
        "penstock.spark.end_offset": '{"pos":1}',
        "penstock.spark.addBatch_ms": 30,
        "penstock.backlog": 2,
    }
    assert span.attributes is not None
    assert {name: span.attributes.get(name) for name in expected} == expected
    assert "penstock.spark.start_offset" not in span.attributes
    data = reader.get_metrics_data()
    assert data is not None
    points = {
        metric.name: next(iter(metric.data.data_points)) for metric in data.resource_metrics[0].scope_metrics[0].metrics
    }
    assert points["messaging.client.consumed.messages"].value == 7  # type: ignore[union-attr]
    assert points["messaging.process.duration"].sum == pytest.approx(0.04)  # type: ignore[union-attr]
    # A progress that lacks what a span needs is told as before.
    with caplog.at_level(logging.ERROR, "penstock.spark"):
        listener.onQueryProgress(event(source(reported)))
    assert "a span of queue 'orders' failed" in caplog.text
    tracers.shutdown()
    meters.shutdown()
