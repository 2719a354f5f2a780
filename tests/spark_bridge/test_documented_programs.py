"""What README.md, docs/spark.md and docs/coming-from-kafka.md show of Spark runs, at a broker that has what they read."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.query import StreamingQueryManager

from tests.streams.pages import DOCS, ROOT, python_blocks
from transport import receive

pytestmark = pytest.mark.spark
AVAILABLE_NOW = ".trigger(availableNow=True).start()"
FOLDERS = ("lake/orders", "lake/_orders", "lake/_totals", "checkpoint")
SECONDS = 60.0


def blocks(page: Path) -> list[str]:
    return python_blocks(page.read_text("utf-8"))


def placed(program: str, broker: Any, folder: Path) -> str:
    """A piece of a page: it names no broker, for it means the default one, and its query has no end."""
    for each in FOLDERS:
        program = program.replace(f'"{each}"', repr(str(folder / each)))
    for way, address in (("readStream", broker.receiving), ("writeStream", broker.sending), ("write", broker.sending)):
        program = program.replace(
            f'{way}.format("penstock")', f'{way}.format("penstock").option("brokers", "{address}")'
        )
    return program.replace(".start()", AVAILABLE_NOW)


def payloads(broker: Any, queue: str, count: int) -> list[bytes]:
    found = []
    for delivery in receive(broker.receiving, queue, limit=count):
        found.append(delivery.payload)
        delivery.acknowledge()
    return sorted(found)


def run(program: str, names: dict[str, Any]) -> dict[str, Any]:
    exec(compile(program, "page", "exec", dont_inherit=True), names)
    return names


def until_they_end(spark: Any) -> None:
    for query in spark.streams.active:
        assert query.awaitTermination(SECONDS)


@pytest.fixture
def listeners(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Those that are added are removed."""
    added: list[tuple[Any, Any]] = []
    add = StreamingQueryManager.addListener

    def recorded(manager: Any, listener: Any) -> None:
        added.append((manager, listener))
        add(manager, listener)

    monkeypatch.setattr(StreamingQueryManager, "addListener", recorded)
    yield
    for manager, listener in added:
        manager.removeListener(listener)


def test_the_readmes_query_reads_the_queue_and_the_listener_of_the_page_on_kafka_hears_of_it(
    spark: Any, broker: Any, tmp_path: Path, listeners: None
) -> None:
    broker.send("numbers", [b"order 1", b"order 2"])
    reported: queue.Queue[Any] = queue.Queue()
    (listens,) = [text for text in blocks(DOCS / "coming-from-kafka.md") if "QueueListener" in text]
    run(listens, {"print": reported.put})
    (program,) = [text for text in blocks(ROOT / "README.md") if "readStream" in text]
    run(placed(program, broker, tmp_path), {"spark": spark})
    until_they_end(spark)
    with broker.client("numbers", "report") as ledger:
        assert ledger.open().high == 2
    assert reported.get(timeout=SECONDS).queue == "numbers"


def test_what_the_page_reads_into_a_lake_it_writes_into_queues(spark: Any, broker: Any, tmp_path: Path) -> None:
    broker.send("orders", [b"order 1", b"order 2"])
    lake, registers, writes, again = blocks(DOCS / "spark.md")
    run(registers, {"spark": spark})
    names = run(placed(lake, broker, tmp_path), {"spark": spark})
    until_they_end(spark)
    frame = spark.read.parquet(str(tmp_path / "lake/orders")).select("value")
    assert sorted(bytes(row.value) for row in frame.collect()) == [b"order 1", b"order 2"]

    broker.send("orders", [b"order 3"])
    # The query ends before the frame is written, or its one run would read of the frame what is there when it plans.
    queries, frames = placed(writes, broker, tmp_path).split("frame.write")
    run(queries, {"totals": names["orders"].select("value")})
    until_they_end(spark)
    run("frame.write" + frames, {"frame": frame})
    # Of a new checkpoint the first batch is what nobody has acknowledged: all three, as the page says.
    assert payloads(broker, "totals", 3) == [b"order 1", b"order 2", b"order 3"]
    assert payloads(broker, "orders", 2) == [b"order 1", b"order 2"]

    write = run(placed(again, broker, tmp_path), {})["write"]
    write(frame, 7)
    write(frame, 7)
    broker.send("totals", [b"the end"])
    assert payloads(broker, "totals", 3) == [b"order 1", b"order 2", b"the end"]
