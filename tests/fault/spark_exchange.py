"""Two queries that name one exchange, each in a JVM of its own, while a sender publishes there all along, and one of three is killed.

A query is held at one point of a micro-batch whenever something is killed: its JVM, or the broker. Whatever was killed is started again
at once, a query from its checkpoint. In the end each query's output is compared with all that was published and its binding takes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

from streams import Source
from tests.fault.kill_clients import BACK_AT_ONCE
from tests.fault.kill_process import Broker
from tests.fault.spark_cells import HELD_SECONDS, CellFailedError, Driver, first
from tests.fault.spark_gate import Gate, Held
from tests.fault.spark_long import BROKER, JVM, LINES_AT_ONCE, LongOutcome, numbered
from tests.fault.spark_points import ANYWHERE, NOWHERE, RESERVATION_BEFORE, SOURCE_POINTS, Hold
from tests.fault.spark_query import CopyQuery, QueryFailedError, difference
from transport import Message, MessageBatch, Sender

EXCHANGE = "amq.topic"
NAMES = ("lake", "alarm")
"""Of the subscriptions."""
EVERYTHING = "#"
PARTS = (EVERYTHING, "a.#")
"""The bindings whose rows are told here without the product's help."""
KEYS = ("a.tea", "b.tea", "a.soup", "b")
KEY_RUN = 100
"""Neighbours with the same routing key."""
LINES_A_SECOND = 1_000
"""So few that a query keeps up, and what is published goes on at every kill; so many that it has whole batches when it comes back."""
STARVED = "failed to connect back"
"""What Spark says of a Python process that takes more than ten seconds to start, as on a machine that is busy with others."""
MOST_DRIVERS = 30
"""Of one query, those too that end for that reason."""
LAST_ROWS = 100_000
"""Of a batch when all is over."""


@dataclass(frozen=True, slots=True)
class Kill:
    """What is killed while which query is held where."""

    victim: str
    query: int
    point: str


def planned(jvm: int, broker: int, random: Random) -> list[Kill]:
    """So many kills in some order, at every point once before one comes again, of one query and the other by turns."""
    victims = [JVM] * jvm + [BROKER] * broker
    random.shuffle(victims)
    points = random.sample(SOURCE_POINTS, len(SOURCE_POINTS))
    kills = zip(victims, cycle(range(len(NAMES))), cycle(points), strict=False)
    return [Kill(*each) for each in islice(kills, len(victims))]


def key_of(number: int) -> str:
    """The routing key of a row."""
    return KEYS[number // KEY_RUN % len(KEYS)]


def judged(rows: Sequence[bytes], outputs: Mapping[str, tuple[str, Sequence[bytes]]]) -> str | None:
    """How outputs (name -> binding, rows) differ from the ``rows`` that were published, rows and their order; None where none does."""
    told = []
    for name, (binding, found) in outputs.items():
        wanted = [row for number, row in enumerate(rows) if binding == EVERYTHING or key_of(number).startswith("a.")]
        if (text := difference(wanted, found)) is not None:
            told.append(f"{name} ({binding}): {text}")
    return "; ".join(told) or None


@dataclass(slots=True)
class Lane:
    """One of the queries, in one JVM after another."""

    query: CopyQuery
    gate: Gate
    drivers: list[Driver] = field(default_factory=list)
    starting: asyncio.Task[None] | None = None

    def start(self) -> None:
        """A driver that comes up while other things are killed."""
        self.drivers.append(Driver([self.query.for_ever()]))
        self.starting = asyncio.create_task(self.drivers[-1].start())

    async def held(self, point: str, sending: asyncio.Task[None] | None) -> Held:
        """The query, when it has come to ``point``.

        Raises:
            CellFailedError: it, or the sender, ended before.
        """
        while True:
            reached = self.gate.arm(point)
            driver = await self.running()
            watched = {asyncio.create_task(driver.over())} | ({sending} if sending else set())
            try:
                over = asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
                return await first(reached, over, driver.last_words)
            except CellFailedError as failure:
                if STARVED not in str(failure) or len(self.drivers) >= MOST_DRIVERS:
                    raise
                await driver.kill()
                self.start()
            finally:
                for task in watched - {sending}:
                    task.cancel()

    async def kill(self) -> None:
        """SIGKILL to its JVM, as soon as there is one."""
        await (await self.running()).kill()

    async def running(self) -> Driver:
        """Its driver, when its JVM runs."""
        assert self.starting is not None
        await self.starting
        return self.drivers[-1]

    async def close(self) -> None:
        """Leave nothing behind, whatever happened."""
        if self.starting is not None:
            await asyncio.wait((self.starting,))
        for driver in self.drivers:
            await driver.close()


@dataclass(slots=True)
class ExchangeRun:
    """Kills what copies ``lines`` twice, out of one exchange.

    Attributes:
        spark: the session that finishes in the end.
        folder: of everything.
        lines: the log.
        random: picks victims and points.
        binding: the second query's; the first one has everything.
        report: takes lines of progress.
    """

    spark: Any
    folder: Path
    lines: Sequence[bytes]
    random: Random
    binding: str
    report: Callable[[str], None]
    sent: int = 0
    ending: bool = False

    async def run(self, jvm_kills: int, broker_kills: int) -> LongOutcome:
        """Kill so often, then let everything end, and compare.

        Raises:
            CellFailedError: a driver ended by itself, left workers, or nothing went on.
            BrokerDiedError: the broker ended by itself.
            QueryFailedError: the last run of a query did.
        """
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            broker = await stack.enter_async_context(Broker(["--data", str(self.folder / "broker")]))
            await broker.start()
            lanes = [
                await self._lane(stack, broker, *each) for each in zip(NAMES, (EVERYTHING, self.binding), strict=True)
            ]
            # Who is about to reserve is connected, so its queue is bound: all that is published from now on is its input.
            bound = [await lane.held(RESERVATION_BEFORE, None) for lane in lanes]
            sending = asyncio.create_task(self._send(broker.send_address))
            stack.push_async_callback(_cancelled, sending)
            for held in bound:
                held.release()
            for number, kill in enumerate(planned(jvm_kills, broker_kills, self.random), 1):
                await self._kill(kill, lanes[kill.query], broker, sending)
                self.report(f"{number}: {kill.victim} while {NAMES[kill.query]} is {kill.point}, {self.sent} rows sent")
            self.ending = True
            async with asyncio.timeout(HELD_SECONDS):
                await sending
            # One more of each that does not count: what remains is for the session that is never killed.
            for lane in lanes:
                await lane.kill()
            for lane in lanes:
                for driver in lane.drivers:
                    await driver.workers_gone()
                await self._finish(replace(lane.query, rows=LAST_ROWS, hold=NOWHERE))
            found = {lane.query.queue: (lane.query.binding, lane.query.written()) for lane in lanes}
            await broker.stop()
        facts = {"jvm kills": jvm_kills, "broker kills": broker_kills, "rows sent": self.sent}
        facts |= {f"rows of {name}": len(rows) for name, (_, rows) in found.items()}
        facts |= {f"batches of {lane.query.queue}": len(lane.query.completed()) for lane in lanes}
        facts["seconds"] = round(time.monotonic() - began)
        return LongOutcome(facts, judged(numbered(self.lines, 0, self.sent), found))

    async def _lane(self, stack: AsyncExitStack, broker: Broker, name: str, binding: str) -> Lane:
        gate = await stack.enter_async_context(Gate())
        query = CopyQuery(
            name, broker.send_address, broker.receive_address, str(self.folder / name),
            hold=Hold(ANYWHERE, 0, gate.address), exchange=EXCHANGE, binding=binding,
        )  # fmt: skip
        lane = Lane(query, gate)
        stack.push_async_callback(lane.close)
        lane.start()
        return lane

    async def _kill(self, kill: Kill, lane: Lane, broker: Broker, sending: asyncio.Task[None]) -> None:
        held = await lane.held(kill.point, sending)
        if sending.done():
            sending.result()
        if kill.victim == JVM:
            await lane.kill()
            held.release()
            lane.start()
        else:
            await broker.kill()
            held.release()
            await broker.start()

    async def _finish(self, query: CopyQuery) -> None:
        """What is left, in the session that is never killed."""
        for last in (False, False, True):
            try:
                await asyncio.to_thread(query.run, self.spark)
                return
            except QueryFailedError as error:
                if last or STARVED not in str(error):
                    raise
                self.report(f"{query.queue} is resumed again: {error}")

    async def _send(self, address: str) -> None:
        def batches() -> Iterator[MessageBatch]:
            while not self.ending:
                start, self.sent = self.sent, self.sent + LINES_AT_ONCE
                rows = enumerate(numbered(self.lines, start, self.sent), start)
                yield MessageBatch.from_messages([Message(row, routing_key=key_of(number)) for number, row in rows])

        sender = Sender(address, exchange=EXCHANGE, mandatory=True, client_id="log", reconnect=BACK_AT_ONCE)
        paced = Source.from_iterable(batches).throttle(LINES_A_SECOND // LINES_AT_ONCE, 1.0)
        await paced.to(sender).run()


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
