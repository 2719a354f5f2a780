"""``amqp_spark``: rows a second into a Spark query from a queue that was filled over AMQP, beside one that a native sender has filled."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from benchmarks._amqp_raw import declare
from benchmarks._broker import BrokerProcess
from benchmarks._disk import data_folder
from benchmarks._processes import BenchmarkError, Worker, queue_facts, statistics
from benchmarks._report import Figure, Report, medians
from benchmarks.amqp import RAW_WINDOW
from benchmarks.spark import FILL_TIMEOUT, PENSTOCK, QUERY_TIMEOUT, delete, queue_room

SHARE_TARGET: Final = 0.6
KINDS: Final = ("native", "amqp")
BATCH: Final = 1_000
"""Messages of a native sender's batch, and rows of an Arrow batch."""
WARM_UP_ROWS: Final = 100_000

Result = dict[str, Any]


def run(rows: int, micro_batches: int, size: int, rounds: int, cores: int, uvloop: bool, data: Path | None) -> Report:
    """Rounds of both in turn, all in one Spark session."""
    results: list[Result] = []
    per = -(-rows // micro_batches)
    with data_folder(data) as folder, ExitStack() as stack:
        options = queue_room(max(rows, WARM_UP_ROWS), size) | {"directory": str(folder), "amqp": "127.0.0.1:0"}
        broker = stack.enter_context(BrokerProcess(uvloop=uvloop, options=options))
        driver = stack.enter_context(
            Worker("_spark:read", address=broker.receive_address, size=size, batch=BATCH, cores=cores)
        )
        version = driver.hear()["spark"]
        for kind in KINDS:
            _round(broker, driver, kind, f"warm-up-{kind}", (min(rows, WARM_UP_ROWS), per, size), uvloop)
        for number in range(rounds):
            kinds = KINDS if number % 2 == 0 else reversed(KINDS)
            results += [_round(broker, driver, kind, f"{kind}-{number}", (rows, per, size), uvloop) for kind in kinds]
    native, amqp = (medians([one for one in results if one["kind"] == kind], "rows_per_s") for kind in KINDS)
    return Report(
        "amqp_spark",
        "a Structured Streaming query (available-now, noop sink) that reads a durable queue which was filled before over AMQP, by prepared "
        "frames; from start() to the query's end, checkpoints and acknowledgements included.",
        "the same query on a queue that a native sender has filled. Rounds alternate.",
        {
            "rows": rows,
            "micro_batches": micro_batches,
            "size": size,
            "rounds": rounds,
            "cores": cores,
            "uvloop": uvloop,
            "spark": version,
        },
        [
            Figure("filled by a native sender", native, "rows/s"),
            Figure("filled over AMQP", amqp, "rows/s"),
            Figure("share", amqp / native, "", SHARE_TARGET),
        ],
        results,
    )


def _round(
    broker: BrokerProcess, driver: Worker, kind: str, queue: str, sizes: tuple[int, int, int], uvloop: bool
) -> Result:
    rows, per, size = sizes
    if kind == "native":
        arguments = {"messages": rows, "size": size, "batch": BATCH, "batched": True, "uvloop": uvloop}
        _filled(Worker("_clients:send", address=broker.send_address, queue=queue, **arguments))
    else:
        assert broker.amqp is not None, "it was told to speak it"
        port = int(broker.amqp.rpartition(":")[2])
        declare(port, queue, "classic")
        _filled(Worker("_amqp_raw:publish", port=port, queue=queue, messages=rows, size=size, window=RAW_WINDOW))
    ready = queue_facts(statistics(broker.send_address), queue)["ready"]
    if ready != rows:
        raise BenchmarkError(f"{rows} messages were to be in the queue, {ready} are")
    driver.go(kind=PENSTOCK, queue=queue, rows=rows, rows_per_batch=per)
    result = driver.hear(QUERY_TIMEOUT)
    if result["rows"] != rows:
        raise BenchmarkError(f"{kind}: {result['rows']} rows came of {rows}")
    asyncio.run(delete(broker.send_address, queue))
    return {"kind": kind, "rows_per_s": rows / result["seconds"]} | result


def _filled(worker: Worker) -> None:
    with worker as sender:
        sender.hear()
        sender.go()
        sender.hear(FILL_TIMEOUT)
