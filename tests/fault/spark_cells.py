"""One cell of the matrix: a query is held at a point, something is killed, and what comes out in the end is compared with what went in."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from streams import Sink, Source
from tests.fault.kill_clients import BACK_AT_ONCE
from tests.fault.kill_process import Broker
from tests.fault.spark_gate import Gate, Held, ended, gone, kill
from tests.fault.spark_points import (
    ACKNOWLEDGEMENT_AFTER,
    ACKNOWLEDGEMENT_BEFORE,
    LOG_BEFORE,
    PLANNER_POINTS,
    PUBLISH_AFTER,
    RESERVATION_AFTER,
    RESERVATION_BEFORE,
    ROWS_PER_BATCH,
    SINK_POINTS,
    Hold,
)
from tests.fault.spark_query import ROOT, CopyQuery, QueryFailedError, difference
from transport import Administration, MessageBatch, Sender
from transport.clients.subscription_client import SubscriptionClient

JVM, LATE, BROKER, BOTH = "jvm", "jvm, late worker", "broker", "both"
VICTIMS = (JVM, LATE, BROKER, BOTH)
"""What is killed. The held worker outlives its JVM if Spark lets it, and goes on at once, or only when the query has been resumed."""
BEFORE_ROWS = 3_500
"""Sent before the query begins: four batches, the last one short."""
AFTER_ROWS = 500
"""Sent after the kill."""
SENT_ROWS = 200
"""In one batch of the sender: so many that the broker does not join them, and a task fetches several pieces."""
HELD_SECONDS = 240.0
"""In which a JVM must start, and a query come to its point, on a machine that may be busy with others."""
DRAIN_WAIT_MS = 200
SUBSCRIBER = "after"
"""The subscription that drains the queue that a sink has written."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Which query is held where, and what is killed then."""

    point: str
    batch: int
    ack_on: str
    victims: str

    @property
    def kills_jvm(self) -> bool:
        return self.victims != BROKER

    @property
    def kills_broker(self) -> bool:
        return self.victims in (BROKER, BOTH)

    @property
    def name(self) -> str:
        words = f"{self.point} {self.batch} {self.ack_on} {self.victims}"
        return "-".join(words.replace(",", "").split())

    def logs_expected(self) -> tuple[set[int], set[int]]:
        """The batches in Spark's offset log and its commit log at the moment of the kill: which side of their writing it is on."""
        batch = self.batch
        if self.point in (ACKNOWLEDGEMENT_BEFORE, ACKNOWLEDGEMENT_AFTER):
            # Acknowledged when the next batch is in the log, or before it is planned.
            planned = batch + 1 if self.ack_on == "commit" else batch
            return set(range(planned + 1)), set(range(batch + 1))
        logged = self.point not in (RESERVATION_BEFORE, RESERVATION_AFTER, LOG_BEFORE)
        return set(range(batch + logged)), set(range(batch))

    def published_expected(self) -> int:
        """The messages that a sink has published at the moment of the kill: whole batches."""
        return ROWS_PER_BATCH * (self.batch + (self.point == PUBLISH_AFTER))


class CellFailedError(Exception):
    """What a cell found; the text is shown in the matrix."""


class Driver:
    """A query in a JVM of its own."""

    def __init__(self, queries: Sequence[CopyQuery]) -> None:
        self._queries = queries
        self._folder = Path(queries[0].folder)
        self._process: Process | None = None
        self._jvm = 0

    async def start(self) -> None:
        """Start it; returns when its JVM runs."""
        self._folder.mkdir(parents=True, exist_ok=True)
        said = json.dumps([query.as_json() for query in self._queries])
        with (self._folder / "stderr").open("ab") as stderr:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.fault.spark_driver", said),
                stdin=PIPE, stdout=PIPE, stderr=stderr, cwd=ROOT, start_new_session=True,
            )  # fmt: skip
        async with asyncio.timeout(HELD_SECONDS):
            self._jvm = int(await self._first_line("jvm "))

    async def over(self) -> None:
        """Wait for its end, which nobody wants."""
        assert self._process is not None
        await self._process.wait()

    async def kill(self) -> None:
        """SIGKILL to the JVM and the program that started it, not to their workers; returns when both are gone."""
        assert self._process is not None
        kill(self._jvm)
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await ended(self._jvm)

    async def workers_gone(self) -> None:
        """Wait for the end of every process that it has left.

        Raises:
            CellFailedError: one did not end by itself; it has been killed.
        """
        assert self._process is not None
        if left := await gone(self._process.pid):
            raise CellFailedError(f"{len(left)} workers of the killed driver did not end")

    async def close(self) -> None:
        """Leave nothing behind, whatever happened."""
        if self._process is not None:
            if self._jvm:
                await self.kill()
            elif self._process.returncode is None:
                self._process.kill()
                await self._process.wait()
            await gone(self._process.pid)

    def last_words(self) -> str:
        """What its standard error says of an error, last of all; Spark prints plans behind it."""
        lines = [line for line in (self._folder / "stderr").read_text(errors="replace").splitlines() if line.strip()]
        telling = [line for line in lines if "Error" in line or "Exception" in line]
        return " | ".join((telling or lines)[-3:])[-1500:]

    async def _first_line(self, start: str) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode().rstrip("\n")
        if not line.startswith(start):
            raise CellFailedError(f"the driver ended by itself: {self.last_words()}")
        return line.removeprefix(start)


@dataclass(slots=True)
class Bench:
    """What all cells share: a broker, a gate, a Spark session that is never killed, and a folder."""

    broker: Broker
    gate: Gate
    spark: Any
    folder: Path

    async def run(self, cell: Cell) -> str | None:
        """What differed in this cell; None if output equals input."""
        try:
            async with AsyncExitStack() as stack:
                await self._run(cell, stack)
        except (CellFailedError, QueryFailedError) as failure:
            return str(failure)
        except TimeoutError:
            return "something did not come in time"
        return None

    async def _run(self, cell: Cell, stack: AsyncExitStack) -> None:
        queue = f"q-{cell.name}"
        rows = [b"%05d %s" % (number, cell.name.encode()) for number in range(BEFORE_ROWS + AFTER_ROWS)]
        query = CopyQuery(
            queue, self.broker.send_address, self.broker.receive_address, str(self.folder / cell.name), cell.ack_on,
            into=f"into-{cell.name}" if cell.point in SINK_POINTS else "",
        )  # fmt: skip
        await send(query.sending, queue, rows[:BEFORE_ROWS], "before")
        reached = self.gate.arm()
        held_query = replace(query, hold=Hold(cell.point, cell.batch, self.gate.address))
        if cell.kills_jvm:
            driver = Driver([held_query])
            stack.push_async_callback(driver.close)
            await driver.start()
            held = await first(reached, driver.over(), driver.last_words)
            stack.callback(held.release)
            await self._check_held(cell, query)
            await self._kill_jvm(cell, driver, held)
            await self._resume(query, rows[BEFORE_ROWS:])
            if cell.victims == LATE and cell.point in PLANNER_POINTS and not held.alive:
                raise CellFailedError("the held worker did not outlive its JVM, so nothing was late")
            held.release()
            await driver.workers_gone()
        else:
            running = asyncio.create_task(asyncio.to_thread(held_query.run, self.spark))
            try:
                held = await first(reached, asyncio.wait((running,)), lambda: outcome(running))
                await self._check_held(cell, query)
                await self.broker.kill()
                held.release()
                await self.broker.start()
            finally:
                reached.cancel()
                if reached.done() and not reached.cancelled():
                    reached.result().release()
                await asyncio.wait((running,))
            await running
            await self._resume(query, rows[BEFORE_ROWS:])
        await self._compare(cell, query, rows)

    async def _kill_jvm(self, cell: Cell, driver: Driver, held: Held) -> None:
        await driver.kill()
        if cell.kills_broker:
            await self.broker.kill()
        if cell.victims != LATE:
            held.release()
        if cell.kills_broker:
            await self.broker.start()
        if cell.victims != LATE:
            await driver.workers_gone()

    async def _resume(self, query: CopyQuery, more: Sequence[bytes]) -> None:
        """The query from its checkpoint, until everything is copied, in the session that is never killed."""
        await send(query.sending, query.queue, more, "after")
        await asyncio.to_thread(query.run, self.spark)

    async def _check_held(self, cell: Cell, query: CopyQuery) -> None:
        """Whether the query stands where it should, by Spark's own files and by what its sink shows."""
        planned, completed = cell.logs_expected()
        if (query.planned(), query.completed()) != (planned, completed):
            raise CellFailedError(
                f"held with the offset log at {sorted(query.planned())} and the commit log at {sorted(query.completed())}, "
                f"not {sorted(planned)} and {sorted(completed)}"
            )
        if query.into:
            shown = await ready(self.broker.send_address, query.into)
            if shown != cell.published_expected():
                raise CellFailedError(f"{shown} messages are published at the kill, not {cell.published_expected()}")

    async def _compare(self, cell: Cell, query: CopyQuery, rows: Sequence[bytes]) -> None:
        found = await drain(query.receiving, query.into) if query.into else query.written()
        if (text := difference(rows, found)) is not None:
            raise CellFailedError(text)
        # Spark commits a batch when it has planned the next, so the last one stays unless it is acknowledged when asked for more.
        ends = query.ends()
        expected = (ends[-1] if cell.ack_on == "poll" else ends[-2], len(rows))
        if (found_ledger := await ledger(query.sending, query.queue)) != expected:
            raise CellFailedError(f"base and high of the ledger are {found_ledger} in the end, not {expected}")


@asynccontextmanager
async def bench(spark: Any, folder: Path, options: Sequence[str] | None = None) -> AsyncIterator[Bench]:
    """A bench whose broker keeps its files in ``folder``, or does what other ``options`` say."""
    data = folder / "broker"
    async with Broker(options or ["--data", str(data)]) as broker, Gate() as gate:
        await broker.start()
        yield Bench(broker, gate, spark, folder)
        await broker.stop()


async def first(reached: asyncio.Future[Held], over: Any, words: Any) -> Held:
    """The held worker, unless the query is over before."""
    ending = asyncio.ensure_future(over)
    try:
        await asyncio.wait((reached, ending), timeout=HELD_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if reached.done():
            return reached.result()
        what = f"ended ({words()})" if ending.done() else f"ran for {HELD_SECONDS:.0f} s"
        raise CellFailedError(f"the query {what} and never came to the point")
    finally:
        ending.cancel()


def outcome(running: asyncio.Task[None]) -> str:
    error = running.exception()
    return "well" if error is None else str(error)


async def send(address: str, queue: str, rows: Sequence[bytes], client_id: str) -> None:
    """Send ``rows`` and wait until all are confirmed."""
    batches = [MessageBatch.from_payloads(rows[start : start + SENT_ROWS]) for start in range(0, len(rows), SENT_ROWS)]
    sender = Sender(address, queue=queue, client_id=f"{queue}-{client_id}", reconnect=BACK_AT_ONCE)
    confirmed = 0

    def count(confirmation: Any) -> None:
        nonlocal confirmed
        confirmed += confirmation.count

    async with asyncio.timeout(HELD_SECONDS):
        await Source.from_iterable(batches).via(sender).to(Sink.foreach(count)).run()
    assert confirmed == len(rows), f"{confirmed} of {len(rows)} rows are confirmed"


async def drain(address: str, queue: str) -> list[bytes]:
    """Everything that is ready in ``queue``, in order."""

    def read() -> list[bytes]:
        with SubscriptionClient(address, queue=queue, subscription=SUBSCRIBER, mode="own") as client:
            end = 0
            while (reserved := client.reserve(end, 2**31, 2**40, wait_ms=DRAIN_WAIT_MS).end) > end:
                end = reserved
            rows = [payload for fetched in client.fetch(0, end) for payload in fetched.batch.payloads]
            client.commit(end)
            return rows

    return await asyncio.to_thread(read)


async def ready(address: str, queue: str) -> int:
    """The messages of ``queue`` that can be received."""
    async with Administration(address) as administration:
        return sum(row["ready"] for row in await administration.queues() if row["name"] == queue)


async def ledger(address: str, queue: str) -> tuple[int, int]:
    """Base and high of the queue's subscription of the same name."""
    async with Administration(address) as administration:
        rows = [row for row in await administration.subscriptions() if row["queue"] == row["name"] == queue]
    return rows[0]["base"], rows[0]["high"]
