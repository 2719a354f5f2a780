"""docs/coming-from-kafka.md: what it says is taken is taken, what it says is refused is refused with ours, and its program runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from spark_bridge import OptionError, options, schema, sink_options
from spark_bridge.options import SourceOptions
from spark_bridge.sink_options import SinkOptions
from tests.spark_bridge.test_documentation import CODE, table
from tests.streams.pages import python_blocks

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "coming-from-kafka.md").read_text("utf-8")
READING, WRITING = table(PAGE, "Option by option, reading"), table(PAGE, "Option by option, writing")
OF_SPARKS_KAFKA = [
    "assign",
    "subscribe",
    "subscribePattern",
    "kafka.bootstrap.servers",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "endingOffsets",
    "failOnDataLoss",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupIdPrefix",
    "kafka.group.id",
    "includeHeaders",
    "startingOffsetsByTimestampStrategy",
]
"""Spark's guide to its Kafka source, "Kafka specific configurations" and the options before it."""
VALUES = {"failOnDataLoss": "true", "includeHeaders": "true", "startingOffsets": "latest", "maxTriggerDelay": "1m"}


def names(cell: str) -> list[str]:
    return CODE.findall(cell)


def rows() -> Iterator[tuple[str, list[str], str, Any, tuple[str, ...]]]:
    for cells, parse, known in (
        (READING, SourceOptions.parse, options.NAMES),
        (WRITING, SinkOptions.parse, sink_options.NAMES),
    ):
        for theirs, ours, said in cells:
            yield names(theirs)[0], names(ours), said, parse, known


def test_every_option_of_sparks_kafka_source_is_on_the_page() -> None:
    assert set(OF_SPARKS_KAFKA) <= {names(theirs)[0] for theirs, *_ in READING}


@pytest.mark.parametrize(("theirs", "ours", "said", "parse", "known"), list(rows()))
def test_an_option_is_taken_or_refused_as_the_page_says(
    theirs: str, ours: list[str], said: str, parse: Any, known: tuple[str, ...]
) -> None:
    assert set(ours) <= set(known)
    given = {theirs: VALUES.get(theirs, "7")} | ({} if theirs == "subscribe" else {"queue": "q"})
    given |= {"minRowsPerBatch": "1"} if theirs == "maxTriggerDelay" else {}
    if theirs in known:
        parse(given)
        assert "refused" not in said
        return
    assert "are taken" not in said
    with pytest.raises(OptionError, match=f"option {re.escape(theirs)} ") as refused:
        parse(given)
    assert not str(refused.value).startswith("unknown"), "one sentence, no list"
    # With an option of ours in the second column the error names it, or another of its row.
    assert not ours or any(name in str(refused.value) for name in ours)


def test_the_columns_are_ours() -> None:
    ours = {name for _, cell, _ in table(PAGE, "Columns") for name in names(cell)}
    assert ours == set(schema._COLUMNS)


def test_the_program_of_after_reads_what_was_sent_once(
    spark: Any, broker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands there, but for the address and the folders."""
    broker.send("orders", [b"one", b"two"])
    [program] = [text for text in python_blocks(PAGE) if 'format("penstock")' in text]
    assert '"10.0.0.5:9183"' in program
    for place in ("lake/orders", "lake/_orders"):
        program = program.replace(f'"{place}"', repr(str(tmp_path / place)))
    program = program.replace('"10.0.0.5:9183"', repr(broker.receiving))
    exec(compile(program, "coming-from-kafka.md", "exec"), {})
    found = spark.read.parquet(str(tmp_path / "lake/orders")).select("line").collect()
    assert sorted(row.line for row in found) == ["one", "two"]
