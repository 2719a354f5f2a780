"""``spark_write``: rows a second from a Structured Streaming query into a durable queue."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._disk import data_folder
from benchmarks._processes import BenchmarkError, Worker, queue_facts, statistics
from benchmarks._report import Figure, Report, medians
from benchmarks.spark import QUERY_TIMEOUT, delete, queue_room

PENSTOCK, FILES = "penstock", "parquet"


def run(
    rows: int,
    warm_up_rows: int,
    size: int,
    batch: int,
    rows_per_batch: int,
    rounds: int,
    cores: int,
    uvloop: bool,
    data: Path | None,
) -> Report:
    """Rounds of Penstock's sink and Spark's file sink in one Spark session, after one of each that does not count."""
    results = []
    with ExitStack() as stack:
        folder = stack.enter_context(data_folder(data))
        options = queue_room(max(rows, warm_up_rows), size) | {"directory": str(folder / "journal")}
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop, options=options))
        arguments = {"size": size, "batch": batch, "rows_per_batch": rows_per_batch, "cores": cores}
        driver = stack.enter_context(Worker("_spark:write", address=broker.send_address, **arguments))
        version = driver.hear()["spark"]
        for number, count in enumerate([warm_up_rows] + [rows] * rounds):
            if not count:
                continue
            pair = [_to_queue(broker, driver, f"round{number}", count), _to_files(driver, str(folder), count)]
            if number:
                results += pair
    own, files = ([one for one in results if one["kind"] == kind] for kind in (PENSTOCK, FILES))
    rate, file_rate = medians(own, "rows_per_s"), medians(files, "rows_per_s")
    figures = [
        Figure("rows into a durable queue", rate, "rows/s"),
        Figure("beside it: Spark's file sink, Parquet", file_rate, "rows/s"),
        Figure("share", rate / file_rate, ""),
        Figure("micro-batches", medians(own, "micro_batches"), ""),
        Figure("seconds of a query", medians(own, "seconds"), "s"),
        Figure("of it in the batches' jobs", medians(own, "add_batch_s"), "s"),
        Figure("seconds of a query, files", medians(files, "seconds"), "s"),
        Figure("of it in the batches' jobs, files", medians(files, "add_batch_s"), "s"),
    ]
    return Report(
        "spark_write",
        "a Structured Streaming query (available-now) that writes ready-made payloads into a durable queue, each micro-batch one "
        "transaction, synced; from start() to the query's end, checkpoints included. Broker and Spark are processes of their own.",
        "in the same session, the same query into Spark's own file sink, as Parquet, which is exactly once too and syncs nothing. "
        "Rounds alternate.",
        {
            "rows": rows,
            "warm_up_rows": warm_up_rows,
            "size": size,
            "batch": batch,
            "rows_per_batch": rows_per_batch,
            "rounds": rounds,
            "cores": cores,
            "spark": version,
        },
        figures,
        results,
    )


def _to_queue(broker: BrokerProcess, driver: Worker, queue: str, rows: int) -> dict[str, Any]:
    driver.go(kind=PENSTOCK, queue=queue, rows=rows)
    result = driver.hear(QUERY_TIMEOUT)
    stored = queue_facts(statistics(broker.send_address), queue)["ready"]
    asyncio.run(delete(broker.send_address, queue))
    return _outcome(PENSTOCK, rows, result | {"stored": stored})


def _to_files(driver: Worker, folder: str, rows: int) -> dict[str, Any]:
    driver.go(kind=FILES, folder=folder, rows=rows)
    return _outcome(FILES, rows, driver.hear(QUERY_TIMEOUT))


def _outcome(kind: str, rows: int, result: dict[str, Any]) -> dict[str, Any]:
    if not result["rows"] == result["stored"] == rows:
        raise BenchmarkError(f"{kind}: of {rows} rows {result['rows']} were read and {result['stored']} stored")
    return {"kind": kind, "rows_per_s": rows / result["seconds"]} | result
