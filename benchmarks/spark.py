"""``spark``: rows a second from a durable queue into a Structured Streaming query."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._disk import data_folder
from benchmarks._processes import BenchmarkError, Worker, queue_facts, statistics
from benchmarks._report import Figure, Report, medians
from transport import Administration

SHARE_TARGET = 0.75
TARGET_ROWS = 100_000
"""Smaller micro-batches are bounded by Spark's fixed cost for each, whatever the source."""
QUERY_TIMEOUT = 660.0
"""Longer than the driver's own, so that the driver's error is the one that is seen."""
FILL_TIMEOUT = 300.0
STORED_OVERHEAD = 16
"""Bytes of a message beside its payload that the queue's limit leaves room for: offsets, and its part of a batch's fixed cost."""
MIN_QUEUE_BYTES = 256 * 2**20
WARM_UP_ROWS = 300_000
READY_MADE, PENSTOCK = "ready-made", "penstock"


def run(
    rows_per_batch: Sequence[int],
    micro_batches: int,
    most_rows: int,
    size: int,
    batch: int,
    rounds: int,
    cores: int,
    uvloop: bool,
    data: Path | None,
) -> Report:
    """For each size of a micro-batch, rounds of Penstock's source and the ready-made one in turn, all in one Spark session."""
    cases = {per: min(most_rows, per * micro_batches) for per in rows_per_batch}
    results = []
    with ExitStack() as stack:
        folder = stack.enter_context(data_folder(data))
        options = queue_room(max(*cases.values(), WARM_UP_ROWS), size) | {"directory": str(folder)}
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop, options=options))
        driver = stack.enter_context(
            Worker("_spark:read", address=broker.receive_address, size=size, batch=batch, cores=cores)
        )
        version = driver.hear()["spark"]
        warm_up = min(WARM_UP_ROWS, *cases.values())
        _round(broker, driver, "warm-up", warm_up, max(1, warm_up // 3), size, batch, uvloop)
        for number in range(rounds):
            for per, rows in cases.items():
                results += _round(broker, driver, f"round{number}-{per}", rows, per, size, batch, uvloop)
    figures = [figure for per in cases for figure in _figures(per, [one for one in results if one["per"] == per])]
    return Report(
        "spark",
        "Structured Streaming queries (available-now, noop sink, eight columns) that read a durable queue which was filled before; from "
        "start() to the query's end, checkpoints and acknowledgements included. Sender, broker and Spark are processes of their own.",
        "in the same session, a Python data source with the same columns, micro-batches, tasks and Arrow batch size, whose Arrow "
        "batches are there already: one a task, yielded again and again. Rounds alternate.",
        {
            "rows_per_batch": list(rows_per_batch),
            "micro_batches": micro_batches,
            "most_rows": most_rows,
            "size": size,
            "batch": batch,
            "rounds": rounds,
            "cores": cores,
            "spark": version,
        },
        figures,
        results,
    )


def queue_room(rows: int, size: int) -> dict[str, int]:
    """Limits of a queue that is to hold ``rows`` messages of ``size`` bytes at once."""
    return {
        "max_queue_messages": rows + 1_000_000,
        "max_queue_bytes": max(MIN_QUEUE_BYTES, 2 * rows * (size + STORED_OVERHEAD)),
    }


async def delete(address: str, queue: str) -> None:
    """Have a queue gone with what is left in it; the next round's disk and memory are to be its own."""
    async with Administration(address) as administration:
        await administration.delete_queue(queue)


def _round(
    broker: BrokerProcess, driver: Worker, queue: str, rows: int, per: int, size: int, batch: int, uvloop: bool
) -> list[dict[str, Any]]:
    _fill(broker, queue, rows, size, batch, uvloop)
    own = _query(driver, PENSTOCK, queue, rows, per)
    # An available-now query leaves its last micro-batch unacknowledged.
    asyncio.run(delete(broker.send_address, queue))
    return [own, _query(driver, READY_MADE, queue, rows, per)]


def _fill(broker: BrokerProcess, queue: str, rows: int, size: int, batch: int, uvloop: bool) -> None:
    arguments = {"messages": rows, "size": size, "batch": batch, "batched": True, "uvloop": uvloop}
    with Worker("_clients:send", address=broker.send_address, queue=queue, **arguments) as sender:
        sender.hear()
        sender.go()
        sender.hear(FILL_TIMEOUT)
    ready = queue_facts(statistics(broker.send_address), queue)["ready"]
    if ready != rows:
        raise BenchmarkError(f"{rows} messages were to be in the queue, {ready} are")


def _query(driver: Worker, kind: str, queue: str, rows: int, per: int) -> dict[str, Any]:
    driver.go(kind=kind, queue=queue, rows=rows, rows_per_batch=per)
    result = driver.hear(QUERY_TIMEOUT)
    if result["rows"] != rows:
        raise BenchmarkError(f"{kind}: {result['rows']} rows came of {rows}")
    return {"kind": kind, "per": per, "rows_per_s": rows / result["seconds"]} | result


def _figures(per: int, results: list[dict[str, Any]]) -> list[Figure]:
    own = [one for one in results if one["kind"] == PENSTOCK]
    ready = [one for one in results if one["kind"] == READY_MADE]
    rate, ready_rate = medians(own, "rows_per_s"), medians(ready, "rows_per_s")
    each = f"{per:,} rows a micro-batch"
    return [
        Figure(f"{each}: Penstock's source", rate, "rows/s"),
        Figure(f"{each}: ceiling, ready-made Arrow batches", ready_rate, "rows/s"),
        Figure(f"{each}: share", rate / ready_rate, "", SHARE_TARGET if per >= TARGET_ROWS else None),
        Figure(f"{each}: seconds a micro-batch", medians(own, "seconds") / medians(own, "micro_batches"), "s"),
        Figure(f"{each}: of the ceiling's", medians(ready, "seconds") / medians(ready, "micro_batches"), "s"),
    ]
