"""The queries that are killed: a queue copied to files, one folder a batch, or into another queue; and what they have written."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.fault.spark_points import NOWHERE, ROWS_PER_BATCH, HeldDataSource, Hold

ROOT = Path(__file__).resolve().parents[2]
QUERY_SECONDS = 240.0
"""In which a query over a few thousand rows must end, a broker's restart in the middle of it."""
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""JVM options that halve the work of a start: none of these JVMs lives long enough to win it back."""
SHOWN = 3
"""Rows that a difference names of each kind."""


class QueryFailedError(Exception):
    """A query ended with an error, or not at all."""


@dataclass(frozen=True, slots=True)
class CopyQuery:
    """What a query reads and writes; a driver of its own gets it as JSON.

    Attributes:
        queue: read through a subscription of the same name; of an exchange, the name of the subscription.
        sending: the broker's address for senders.
        receiving: its address for receivers.
        folder: of the checkpoint and the output.
        ack_on: the source's option.
        into: the queue to write to; empty for files.
        rows: of one batch at most.
        hold: where it is held.
        once: whether it ends when it has copied what was there when it began.
        exchange: read in place of a queue, through the subscription's own; empty for none.
        binding: the option ``bindingKey``.
    """

    queue: str
    sending: str
    receiving: str
    folder: str
    ack_on: str = "commit"
    into: str = ""
    rows: int = ROWS_PER_BATCH
    hold: Hold = NOWHERE
    once: bool = True
    exchange: str = ""
    binding: str = "#"

    @classmethod
    def parse(cls, said: dict[str, Any]) -> CopyQuery:
        """What `asdict` made."""
        return cls(**(said | {"hold": Hold(**said["hold"])}))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def for_ever(self) -> CopyQuery:
        """The same, for as long as its driver lives."""
        return replace(self, once=False)

    def start(self, spark: Any) -> Any:
        """The query, running."""
        held = self.hold != NOWHERE
        form = HeldDataSource.name() if held else "penstock"
        read = {"exchange": self.exchange, "bindingKey": self.binding} if self.exchange else {"queue": self.queue}
        options = {**read, "subscription": self.queue, "brokers": self.receiving, "ackOn": self.ack_on}
        at = {"heldAt": self.hold.point, "heldBatch": self.hold.batch, "heldBy": self.hold.gate} if held else {}
        source = spark.readStream.format(form).schema("value binary").option("maxRowsPerBatch", self.rows)
        frame = source.options(**options, **at).load()
        if self.into:
            writer = frame.writeStream.format(form).options(queue=self.into, brokers=self.sending, **at)
        else:
            writer = frame.writeStream.foreachBatch(self._write)
        if self.once:
            writer = writer.trigger(availableNow=True)
        return writer.option("checkpointLocation", f"{self.folder}/checkpoint").start()

    def run(self, spark: Any) -> None:
        """The query, to its end.

        Raises:
            QueryFailedError: with the first lines of what Spark says.
        """
        # Spark looks a sink's format up in the session of the thread, and a thread that did not make one has none.
        SparkSession._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)
        try:
            query = self.start(spark)
            if not query.awaitTermination(QUERY_SECONDS):
                query.stop()
                raise QueryFailedError(f"the query did not end in {QUERY_SECONDS:.0f} s")
        except QueryFailedError:
            raise
        except Exception as error:
            raise QueryFailedError(explanation(str(error))) from error

    def planned(self) -> set[int]:
        """The batches in Spark's offset log."""
        return numbered(Path(self.folder, "checkpoint", "offsets"))

    def completed(self) -> set[int]:
        """The batches in Spark's commit log."""
        return numbered(Path(self.folder, "checkpoint", "commits"))

    def ends(self) -> list[int]:
        """The position at which each batch in Spark's offset log ends."""
        folder = Path(self.folder, "checkpoint", "offsets")
        return [
            json.loads((folder / str(batch)).read_text().splitlines()[-1])["pos"] for batch in sorted(self.planned())
        ]

    def written(self) -> list[bytes]:
        """The rows in files, by batch and by part."""
        batches = {int(path.name.removeprefix("batch=")): path for path in Path(self.folder, "out").glob("batch=*")}
        parts = [part for number in sorted(batches) for part in sorted(batches[number].glob("part-*"))]
        return [line for part in parts for line in part.read_bytes().splitlines()]

    def _write(self, rows: Any, batch: int) -> None:
        rows.selectExpr("string(value) AS value").write.mode("overwrite").text(f"{self.folder}/out/batch={batch}")


def session(cores: str, python: str = sys.executable) -> Any:
    """A Spark session whose workers, run by ``python``, find these modules; ``cores`` as ``local[...]`` takes them."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    os.environ["PYSPARK_PYTHON"] = python
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.driver.extraJavaOptions", QUICK_START)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    # Drivers that are started from here are killed with what they started, so that must not be forked elsewhere.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark.sparkContext.setLogLevel("ERROR")
    from spark_bridge import PenstockDataSource

    spark.dataSource.register(PenstockDataSource)
    spark.dataSource.register(HeldDataSource)
    return spark


def numbered(folder: Path) -> set[int]:
    """Files whose names are numbers: Spark's logs, without what it has not renamed yet."""
    return {int(path.name) for path in folder.glob("*") if path.name.isdigit()}


def explanation(text: str) -> str:
    """The lines of an error that say what it was, without Java's and Python's stacks."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # Spark's own sentence has "exception" in small letters, and may name none of a class.
    told = [line for line in lines if "Error" in line or "exception" in line.lower()]
    return " | ".join((told or lines)[-SHOWN:])[:600]


def difference(expected: Sequence[bytes], found: Sequence[bytes]) -> str | None:
    """How ``found`` differs from ``expected``, rows and their order; None where it does not."""
    if list(found) == list(expected):
        return None
    wanted, got = Counter(expected), Counter(found)
    kinds = {
        "missing": wanted - got,
        "too often": Counter({row: count for row, count in (got - wanted).items() if row in wanted}),
        "never sent": Counter({row: count for row, count in (got - wanted).items() if row not in wanted}),
    }
    told = [
        f"{rows.total()} {kind} ({', '.join(repr(row.decode(errors='replace')) for row in list(rows)[:SHOWN])})"
        for kind, rows in kinds.items()
        if rows
    ]
    return "; ".join(told) or "the rows are in another order"
