"""``python -m tests.fault.query_outage``: a broker process that is away for half a minute while a query runs.

Three outages: while the query is idle (the broker is told to stop), while a task reads (it is killed), and one that does not end (with
``--for-good``). After the first two every row has come once and in order; after the third the query has ended, and says why.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from streams import Source
from tests.fault.kill_process import ROOT, ReservedPort
from tests.spark_bridge.queries import Batches, numbers, start
from tests.transport.programs import Program
from transport import Sender

ROWS = 1_000
"""Sent before each outage and after it."""
ROWS_PER_BATCH = 250
AWAY_SECONDS = 30.0
GIVE_UP_SECONDS = 180.0
"""In which a query must have ended whose broker does not come back: the client gives up after 60 s, on a machine with other work."""
SLACK_SECONDS = 60.0
"""Beyond an outage, in which a query must have gone on."""


class RestartedBroker:
    """A broker process with a journal that stops and starts on the same ports."""

    def __init__(self, directory: Path) -> None:
        ports = [ReservedPort(), ReservedPort()]
        self._ports = ports
        self.sending, self.receiving = (port.address for port in ports)
        self._arguments = (
            "--send-address",
            self.sending,
            "--receive-address",
            self.receiving,
            "--data",
            str(directory),
        )
        self._program: Program | None = None

    def start(self) -> None:
        self._program = Program("broker", *self._arguments)
        said = b""
        while b"sending" not in said:
            try:
                said = self._program.line(self._program.stderr)
            except AssertionError as error:
                raise RuntimeError(f"the broker ended, and said last: {said.decode()}") from error

    def stop(self, *, kill: bool) -> None:
        program, self._program = self._program, None
        if program is None:
            return
        with program:
            (program.process.kill if kill else program.process.terminate)()
            program.end()

    def send(self, payloads: list[bytes]) -> None:
        async def run() -> None:
            await Source.from_iterable(payloads).to(Sender(self.sending, queue="q")).run()

        asyncio.run(run())

    def close(self) -> None:
        self.stop(kill=True)
        for port in self._ports:
            port.close()


def session() -> Any:
    """Spark in this process."""
    from pyspark.sql import SparkSession

    from spark_bridge import PenstockDataSource

    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(PenstockDataSource)
    return spark


def away_while_idle(query: Any, batches: Batches, broker: RestartedBroker, seconds: float) -> float:
    """Stops the broker while there is nothing to read; seconds from its return until the next rows are out."""
    broker.stop(kill=False)
    if query.awaitTermination(int(seconds)):
        raise SystemExit(f"the query ended: {query.exception()}")
    broker.start()
    back = time.monotonic()
    broker.send(numbers(ROWS, 2 * ROWS))
    batches.wait_for(2 * ROWS)
    return time.monotonic() - back


def away_while_reading(batches: Batches, broker: RestartedBroker, seconds: float) -> float:
    """Kills the broker when a batch is planned and not read; seconds from its return until all rows are out."""
    back: list[float] = []

    def come_back() -> None:
        broker.start()
        back.append(time.monotonic())

    timer = threading.Timer(seconds, come_back)

    def kill(number: int) -> None:
        batches.first = None
        broker.stop(kill=True)
        timer.start()

    batches.first = kill
    broker.send(numbers(2 * ROWS, 3 * ROWS))
    batches.wait_for(3 * ROWS)
    timer.join(SLACK_SECONDS)
    return time.monotonic() - back[0]


def away_for_good(query: Any, broker: RestartedBroker) -> tuple[float, str]:
    """Stops the broker for ever; seconds until the query ended, and what it says."""
    broker.stop(kill=False)
    gone = time.monotonic()
    try:
        ended = query.awaitTermination(int(GIVE_UP_SECONDS))
    except Exception as error:  # noqa: BLE001 - Spark's, whose text is what is looked at
        return time.monotonic() - gone, str(error)
    raise SystemExit(f"the query {'ended without a reason' if ended else 'goes on'} after {GIVE_UP_SECONDS:g} s")


def main(arguments: list[str] | None = None) -> int:
    """0 when every row came once and in order, and the query that was left alone said why it ended."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.query_outage", description=__doc__)
    parser.add_argument("--seconds", type=float, default=AWAY_SECONDS, help="how long the broker is away (default 30)")
    parser.add_argument("--for-good", action="store_true", help="then take it away for good; adds about a minute")
    chosen = parser.parse_args(arguments)
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        broker = RestartedBroker(Path(folder, "journal"))
        try:
            broker.start()
            broker.send(numbers(0, ROWS))
            batches = Batches()
            options = {
                "queue": "q",
                "subscription": "s",
                "brokers": broker.receiving,
                "maxRowsPerBatch": ROWS_PER_BATCH,
            }
            frame = spark.readStream.format("penstock").options(**options).load()
            query = start(frame, Path(folder), batches, processingTime="0 seconds")
            batches.wait_for(ROWS)
            for what, waited in (
                ("idle", away_while_idle(query, batches, broker, chosen.seconds)),
                ("reading", away_while_reading(batches, broker, chosen.seconds)),
            ):
                print(f"{what}: away {chosen.seconds:g} s, every row out {waited:.1f} s after the broker's return")
            if batches.values != numbers(0, 3 * ROWS):
                print(f"{len(batches.values)} rows came, which are not the {3 * ROWS} that were sent", file=sys.stderr)
                return 1
            if chosen.for_good:
                seconds, text = away_for_good(query, broker)
                reason = [line for line in text.splitlines() if "no broker answers" in line]
                print(f"for good: the query ended after {seconds:.1f} s: {reason[-1:] or text}")
                return 0 if reason else 1
            query.stop()
        finally:
            broker.close()
            spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
