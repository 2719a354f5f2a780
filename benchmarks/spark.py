"""``spark``: rows a second from a queue into a Structured Streaming query."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import Any

from benchmarks._broker import BrokerProcess
from benchmarks._processes import BenchmarkError, Worker, queue_facts, statistics
from benchmarks._report import Figure, Report, medians
from transport import Administration

SHARE_TARGET = 0.6
QUERY_TIMEOUT = 660.0
"""Longer than the driver's own, so that the driver's error is the one that is seen."""
FILL_TIMEOUT = 300.0
STORED_OVERHEAD = 16
"""Bytes of a message beside its payload that the queue's limit leaves room for: offsets, and its part of a batch's fixed cost."""
MIN_QUEUE_BYTES = 256 * 2**20


def run(
    rows: int, warm_up_rows: int, size: int, batch: int, rows_per_batch: int, rounds: int, cores: int, uvloop: bool
) -> Report:
    """Rounds of Penstock's source and the ready-made one, in one Spark session, after a round of each that does not count."""
    options = {
        "max_queue_messages": max(rows, warm_up_rows) + 1_000_000,
        "max_queue_bytes": max(MIN_QUEUE_BYTES, 2 * max(rows, warm_up_rows) * (size + STORED_OVERHEAD)),
    }
    results = []
    with ExitStack() as stack:
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop, options=options))
        driver = stack.enter_context(
            Worker(
                "_spark:drive",
                address=broker.receive_address,
                size=size,
                batch=batch,
                rows_per_batch=rows_per_batch,
                cores=cores,
            )
        )
        version = driver.hear()["spark"]
        for number, count in enumerate([warm_up_rows] + [rows] * rounds):
            if not count:
                continue
            queue = f"round{number}"
            _fill(broker, queue, count, size, batch, uvloop)
            own = _query(driver, "penstock", queue, count)
            asyncio.run(_delete(broker.send_address, queue))
            ready = _query(driver, "ready-made", queue, count)
            if number:
                results += [own, ready]
    own_rounds, ready_rounds = results[::2], results[1::2]
    rate, ready_rate = medians(own_rounds, "rows_per_s"), medians(ready_rounds, "rows_per_s")
    figures = [
        Figure("rows through Penstock's source", rate, "rows/s"),
        Figure("ceiling: ready-made Arrow batches", ready_rate, "rows/s"),
        Figure("share", rate / ready_rate, "", SHARE_TARGET),
        Figure("micro-batches, Penstock", medians(own_rounds, "micro_batches"), ""),
        Figure("micro-batches, ready-made", medians(ready_rounds, "micro_batches"), ""),
        Figure("seconds of a query, Penstock", medians(own_rounds, "seconds"), "s"),
        Figure("of it in the batches' jobs", medians(own_rounds, "add_batch_s"), "s"),
        Figure("seconds of a query, ready-made", medians(ready_rounds, "seconds"), "s"),
        Figure("of it in the batches' jobs, ready-made", medians(ready_rounds, "add_batch_s"), "s"),
    ]
    return Report(
        "spark",
        "a Structured Streaming query (available-now, noop sink) that reads a queue which was filled before; from start() to the query's "
        "end, checkpoints and acknowledgements included. Sender, broker and Spark are processes of their own.",
        "in the same session, a Python data source with the same eight columns, micro-batches, tasks and Arrow batch size, whose Arrow "
        "batches are there already: one a task, yielded again and again. Rounds alternate.",
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


def _fill(broker: BrokerProcess, queue: str, rows: int, size: int, batch: int, uvloop: bool) -> None:
    arguments = {"messages": rows, "size": size, "batch": batch, "batched": True, "uvloop": uvloop}
    with Worker("_clients:send", address=broker.send_address, queue=queue, **arguments) as sender:
        sender.hear()
        sender.go()
        sender.hear(FILL_TIMEOUT)
    ready = queue_facts(statistics(broker.send_address), queue)["ready"]
    if ready != rows:
        raise BenchmarkError(f"{rows} messages were to be in the queue, {ready} are")


def _query(driver: Worker, source: str, queue: str, rows: int) -> dict[str, Any]:
    driver.go(source=source, queue=queue, rows=rows)
    result = driver.hear(QUERY_TIMEOUT)
    if result["rows"] != rows:
        raise BenchmarkError(f"{source}: {result['rows']} rows came of {rows}")
    return {"kind": source, "rows_per_s": rows / result["seconds"]} | result


async def _delete(address: str, queue: str) -> None:
    """An available-now query leaves its last micro-batch unacknowledged; the next round's memory is to be its own."""
    async with Administration(address) as administration:
        await administration.delete_queue(queue)
