"""``python -m tests.fault.machines.querying QUERIES``: Spark with a query that reads and one that writes, told batch by batch.

They go on until SIGTERM. Then each is run once more from its checkpoint, to the end of what there is: so what it had planned is committed.
A query that ends with an error is told too, and started again from its checkpoint. Whether it may end is for who hears it to say.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, TypeAlias

from pyspark.sql.streaming.listener import StreamingQueryListener

from tests.fault.machines.options import READY
from tests.fault.spark_query import CopyQuery, QueryFailedError, explanation, session

CORES: Final = "2"
"""Each task has one attempt: one that fails ends its query, and is not covered up by a second."""
ROW: Final = "0:{}:1:"
"""What a sender 0 would send as its message of this number, where a message is to have one byte: its numbers stand in it all the same."""
MOST_RESTARTS: Final = 5
"""Of both queries together: enough to show whether an error comes again and again."""
READS, WRITES = "reads", "writes"
NAMES: Final = (READS, WRITES)


class Batch(NamedTuple):
    """A batch that Spark has committed.

    Attributes:
        query: whose.
        number: Spark's.
        rows: how many it had.
        end: the offset up to which it has read.
    """

    query: str
    number: int
    rows: int
    end: dict[str, Any]


class Ended(NamedTuple):
    """A query has ended with an error, and is started again from its checkpoint."""

    query: str
    why: str


Told: TypeAlias = Batch | Ended
KINDS: Final[dict[str, type[Told]]] = {"batch": Batch, "ended": Ended}


def line_of(told: Told) -> str:
    """What is printed of it."""
    kind = next(name for name, each in KINDS.items() if isinstance(told, each))
    return json.dumps({kind: told})


def told_in(line: str) -> Told | None:
    """What a line tells; None where Spark or anybody else has printed it."""
    if not any(line.startswith(f'{{"{kind}"') for kind in KINDS):
        return None
    ((kind, fields),) = json.loads(line).items()
    return KINDS[kind](*fields)


@dataclass(frozen=True, slots=True)
class NumbersQuery(CopyQuery):
    """Spark's own source of numbers, ``rows`` in each batch and the same whenever it runs again, into the queue ``into``."""

    def start(self, spark: Any) -> Any:
        """The query, running."""
        # One partition: its rows are one task's, which keep their order.
        options = {"rowsPerBatch": self.rows, "numPartitions": 1}
        source = spark.readStream.format("rate-micro-batch").options(**options)
        before, after = ROW.split("{}")
        frame = source.load().selectExpr(f"concat('{before}', value, '{after}') AS value")
        writer = frame.writeStream.format("penstock").options(queue=self.into, brokers=self.sending)
        if self.once:
            writer = writer.trigger(availableNow=True)
        return writer.option("checkpointLocation", f"{self.folder}/checkpoint").start()


class Listener(StreamingQueryListener):  # type: ignore[misc]  # PySpark has no type information
    """Spark's words as ours, with the id of a query in the place of its name; in threads of Spark's. The methods' names are Spark's."""

    def __init__(self, told: SimpleQueue[Told | None]) -> None:
        self._told = told

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing: who has started it knows."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A batch is in Spark's commit log."""
        progress = event.progress
        end = json.loads(progress.sources[0].endOffset)
        self._told.put(Batch(str(progress.id), progress.batchId, progress.numInputRows, end))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Nobody has stopped a query yet, so it is an error's doing."""
        self._told.put(Ended(str(event.id), explanation(event.exception or "it was stopped")))


def run(queries: dict[str, CopyQuery]) -> None:
    """Run them until SIGTERM, and then to their end.

    Raises:
        QueryFailedError: a query did not come to its end, or has ended with an error too often.
    """
    told: SimpleQueue[Told | None] = SimpleQueue()
    signal.signal(signal.SIGTERM, lambda *_: told.put(None))
    spark = session(CORES)
    spark.streams.addListener(Listener(told))
    running: dict[str, Any] = {}
    names: dict[str, str] = {}

    def start(name: str) -> None:
        running[name] = queries[name].for_ever().start(spark)
        names[str(running[name].id)] = name  # the same after each start: it is in the checkpoint

    def tell(one: Told) -> None:
        print(line_of(one), flush=True)

    for name in queries:
        start(name)
    print(READY, end="", flush=True)
    restarts = 0
    while (heard := told.get()) is not None:
        one = heard._replace(query=names[heard.query])
        tell(one)
        if isinstance(one, Ended):
            restarts += 1
            if restarts > MOST_RESTARTS:
                raise QueryFailedError(f"{one.query} has ended with an error again: {one.why}")
            start(one.query)
    # Not amid a `foreachBatch`: Spark looks at the error of one that it interrupts with an expression that may overflow its thread's stack.
    with suppress(Exception):  # told below
        running[READS].processAllAvailable()
    for name, query in running.items():
        query.stop()
        if (error := query.exception()) is not None:
            tell(Ended(name, explanation(str(error))))
    for query in queries.values():
        query.run(spark)
    spark.stop()


def main() -> None:
    """As the harness starts it."""
    kinds = {READS: CopyQuery, WRITES: NumbersQuery}
    run({name: kinds[name].parse(said) for name, said in json.loads(sys.argv[1]).items()})


if __name__ == "__main__":
    main()
