"""`format("penstock")` without a `register()` call: what Spark's lookup finds and loads; an explicit registration stays right."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0
LOOKUP = """
import io, json, sys
from pyspark.serializers import CPickleSerializer, read_int
from pyspark.sql.worker import lookup_data_sources

before = set(sys.modules)
answer = io.BytesIO()
lookup_data_sources._main(io.BytesIO(), answer)
loaded = sorted({name.partition(".")[0] for name in set(sys.modules) - before})
answer.seek(0)
found = {}
for _ in range(read_int(answer)):
    name = answer.read(read_int(answer)).decode()
    found[name] = answer.read(read_int(answer)).hex()
print(json.dumps({"loaded": loaded, "found": found}))
"""


@pytest.fixture(scope="module")
def lookup() -> Any:
    """What Spark's own lookup worker answers, and which modules it loaded for that."""
    pytest.importorskip("pyspark")
    done = subprocess.run(
        [sys.executable, "-c", LOOKUP], cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_lookup_finds_the_format_by_its_name(lookup: Any) -> None:
    assert "penstock" in lookup["found"]


def test_the_lookup_passes_the_class_on_by_name_and_not_by_value(lookup: Any) -> None:
    pickled = bytes.fromhex(lookup["found"]["penstock"])
    assert b"pyspark_penstock" in pickled
    assert len(pickled) < 200  # a class by value carries its methods' code


def test_the_lookup_loads_nothing_but_the_package_that_it_finds(lookup: Any) -> None:
    assert lookup["loaded"] == ["pyspark_penstock"]


def test_the_class_that_is_found_makes_the_source_itself() -> None:
    pytest.importorskip("pyspark")
    from pyspark_penstock import DefaultSource
    from spark_bridge import PenstockDataSource

    source = DefaultSource(options={"queue": "orders"})
    assert type(source) is PenstockDataSource
    assert source.options == {"queue": "orders"}
    assert DefaultSource.name() == PenstockDataSource.name()


@pytest.fixture
def unregistered(spark: Any) -> Any:
    """A session of its own, in which nothing was registered."""
    return spark.newSession()


@pytest.mark.spark
def test_a_session_that_registers_nothing_reads_a_queue(unregistered: Any, broker: Any, tmp_path: Path) -> None:
    broker.send("q", [b"%d" % n for n in range(100)])
    options = {"queue": "q", "subscription": "s", "brokers": broker.receiving}
    rows: list[Any] = []
    writer = unregistered.readStream.format("penstock").options(**options).load().writeStream
    query = (
        writer.foreachBatch(lambda frame, _: rows.extend(frame.collect()))
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(SECONDS)
    assert [bytes(row.value) for row in rows] == [b"%d" % n for n in range(100)]


@pytest.mark.spark
def test_a_session_that_registers_nothing_is_told_of_a_wrong_option(unregistered: Any) -> None:
    with pytest.raises(
        Exception, match=r"unknown option 'maxrowperbatch': did you mean maxRowsPerBatch\? Known are queue"
    ):
        unregistered.readStream.format("penstock").option("queue", "q").option("maxRowPerBatch", 5).load()


@pytest.mark.spark
def test_registering_the_source_beside_the_one_that_is_found_is_no_error(unregistered: Any) -> None:
    from spark_bridge import PenstockDataSource

    unregistered.dataSource.register(PenstockDataSource)
    frame = unregistered.readStream.format("penstock").option("queue", "q").load()
    assert frame.columns[0] == "value"
