"""One long run: a log goes into a durable queue, a query copies it, and Spark's JVM and the broker are killed at random moments.

The moments are told by events, not by time: so many changes of the files of Spark's checkpoint, or so many confirmations.
The queue is small, so that the query always holds the sender back, and there is always something under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from streams import Sink, Source
from tests.fault.kill_clients import BACK_AT_ONCE, Counter
from tests.fault.kill_process import Broker, DirectoryWatch
from tests.fault.spark_cells import CellFailedError, Driver
from tests.fault.spark_query import CopyQuery, difference
from transport import MessageBatch, Sender
from transport.clients.sender_session import Confirmation

QUEUE, COPY = "log", "copy"
QUEUE_MESSAGES = 20_000
"""The queues' limit, which the sender reaches at once and stays at."""
BATCH_ROWS = 500
"""So few that a batch is there and gone in the time between two kills."""
LINES_AT_ONCE = 200
MOST_FILE_EVENTS = 60
"""Changes in the checkpoints after which a life ends, at most: a batch makes about a dozen in each."""
MOST_CONFIRMATIONS = 3_000
PATIENCE_SECONDS = 300.0
"""In which the moment of a kill must come: a start of a JVM and a few batches, on a machine that may be busy with others."""
REPORT_EVERY = 10
"""Kills between two lines of progress."""
JVM, BROKER = "jvm", "broker"


@dataclass(slots=True)
class LongOutcome:
    """What a long run found: counts, and how output differs from input, if it does."""

    facts: dict[str, int]
    difference: str | None


def numbered(lines: Sequence[bytes], start: int, stop: int) -> list[bytes]:
    """Rows ``start <= n < stop`` of the log, repeated for ever, each with its number in front."""
    return [b"%08d %s" % (number, lines[number % len(lines)]) for number in range(start, stop)]


@dataclass(slots=True)
class LongRun:
    """Kills what copies ``lines``.

    Attributes:
        spark: the session that finishes in the end.
        folder: of everything.
        lines: the log.
        random: picks victims and moments.
        sink: whether the copy goes through a second queue, written by one query and read by another.
        report: takes lines of progress.
    """

    spark: Any
    folder: Path
    lines: Sequence[bytes]
    random: Random
    sink: bool
    report: Callable[[str], None]
    sent: int = 0
    ending: bool = False
    confirmations: Counter = field(default_factory=Counter)
    files: Counter = field(default_factory=Counter)
    driver: Driver | None = None
    starting: asyncio.Task[None] | None = None

    async def run(self, jvm_kills: int, broker_kills: int) -> LongOutcome:
        """Kill so often, then let everything end, and compare.

        Raises:
            CellFailedError: a driver ended by itself, left workers, or nothing went on.
            BrokerDiedError: the broker ended by itself.
            QueryFailedError: the last run of a query did.
        """
        victims = [JVM] * jvm_kills + [BROKER] * broker_kills
        self.random.shuffle(victims)
        options = ["--data", str(self.folder / "broker"), "--max-queue-messages", str(QUEUE_MESSAGES)]
        async with AsyncExitStack() as stack:
            broker = await stack.enter_async_context(Broker(options))
            await broker.start()
            queries = self._queries(broker)
            for query in queries:
                self._watch(stack, Path(query.folder, "checkpoint"))
            sending = asyncio.create_task(self._send(broker.send_address))
            stack.push_async_callback(_cancelled, sending)
            stack.push_async_callback(self._close)
            drivers = [self._start(queries)]
            for number, victim in enumerate(victims, 1):
                await self._moment(victim, sending)
                if victim == BROKER:
                    await broker.kill()
                    await broker.start()
                else:
                    await drivers[-1].kill()
                    drivers.append(self._start(queries))
                if number % REPORT_EVERY == 0:
                    self.report(
                        f"{number} kills: {self.confirmations.value} confirmed, {self._batches(queries)} batches"
                    )
            self.ending = True
            await self._well(asyncio.wait((sending,)), sending)
            sending.result()
            # One more that does not count: what remains is for the session that is never killed.
            await self._until_running()
            await drivers[-1].kill()
            for driver in drivers:
                await driver.workers_gone()
            for query in queries:
                await asyncio.to_thread(replace(query, rows=QUEUE_MESSAGES).run, self.spark)
            found = await asyncio.to_thread(queries[-1].written)
            await broker.stop()
        facts = {
            "jvm kills": jvm_kills,
            "broker kills": broker_kills,
            "rows sent": self.sent,
            "rows copied": len(found),
        }
        facts |= {"batches": self._batches(queries)}
        return LongOutcome(facts, difference(numbered(self.lines, 0, self.sent), found))

    def _queries(self, broker: Broker) -> list[CopyQuery]:
        def copy(queue: str, into: str) -> CopyQuery:
            folder = str(self.folder / f"from-{queue}")
            addresses = broker.send_address, broker.receive_address
            return CopyQuery(queue, *addresses, folder, into=into, rows=BATCH_ROWS)

        return [copy(QUEUE, COPY), copy(COPY, "")] if self.sink else [copy(QUEUE, "")]

    def _watch(self, stack: AsyncExitStack, checkpoint: Path) -> None:
        for name in ("offsets", "commits"):
            folder = checkpoint / name
            folder.mkdir(parents=True)
            stack.callback(DirectoryWatch(folder, self.files.add).close)

    def _start(self, queries: Sequence[CopyQuery]) -> Driver:
        """A driver that comes up while other things are killed, and is killed with them."""
        for query in queries:
            _clear_first_entry(Path(query.folder, "checkpoint", "offsets"))
        self.driver = Driver([query.for_ever() for query in queries])
        self.starting = asyncio.create_task(self.driver.start())
        return self.driver

    async def _until_running(self) -> None:
        assert self.starting is not None
        await self.starting

    async def _close(self) -> None:
        if self.starting is not None:
            await asyncio.wait((self.starting,))
        if self.driver is not None:
            await self.driver.close()

    async def _moment(self, victim: str, sending: asyncio.Task[None]) -> None:
        """Wait for the random moment of the next kill."""
        if victim == BROKER and self.random.random() < 0.5:
            moment = self.confirmations.more(self.random.randint(1, MOST_CONFIRMATIONS))
        else:
            moment = self.files.more(self.random.randint(1, MOST_FILE_EVENTS))
        if victim == JVM:
            await self._until_running()
        await self._well(moment, sending)

    async def _well(self, wanted: Any, sending: asyncio.Task[None]) -> None:
        """Wait for ``wanted``; raises when the sender or the driver fails meanwhile, or when it does not come."""
        assert self.driver is not None
        assert self.starting is not None
        waiting = asyncio.ensure_future(wanted)
        dying = asyncio.create_task(self._driver_over(self.driver, self.starting))
        watched = {waiting, dying} | (set() if self.ending else {sending})
        try:
            done, _ = await asyncio.wait(watched, timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if waiting in done:
                return
            if sending in done:
                sending.result()
            what = f"ended by itself ({self.driver.last_words()})" if dying in done else "did nothing more"
            raise CellFailedError(f"after {self.confirmations.value} rows the query {what}")
        finally:
            waiting.cancel()
            dying.cancel()
            await asyncio.gather(waiting, dying, return_exceptions=True)

    async def _driver_over(self, driver: Driver, starting: asyncio.Task[None]) -> None:
        await asyncio.wait((starting,))
        starting.result()
        await driver.over()

    async def _send(self, address: str) -> None:
        def batches() -> Iterator[MessageBatch]:
            while not self.ending:
                rows = numbered(self.lines, self.sent, self.sent + LINES_AT_ONCE)
                self.sent += len(rows)
                yield MessageBatch.from_payloads(rows)

        def confirmed(confirmation: Confirmation) -> None:
            self.confirmations.add(confirmation.count)

        sender = Sender(address, queue=QUEUE, client_id="log", reconnect=BACK_AT_ONCE)
        await Source.from_iterable(batches).via(sender).to(Sink.foreach(confirmed)).run()

    def _batches(self, queries: Sequence[CopyQuery]) -> int:
        return sum(len(query.completed()) for query in queries)


def _clear_first_entry(offsets: Path) -> None:
    """Remove what a kill in the middle of Spark's very first log entry leaves: Spark starts no query over it, and says so.

    It is a temporary file of Spark's own; nothing was planned yet that anybody could know of.
    """
    left = list(offsets.iterdir())
    if not any(file.name.isdigit() for file in left):
        for file in left:
            file.unlink()


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
