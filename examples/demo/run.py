"""The demo itself: broker, sender and query as processes, and the statistics that are watched meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections import Counter
from collections.abc import Iterator

from examples.demo.counting import Counts
from examples.demo.history import History, Sample
from examples.demo.processes import Child, Children
from examples.demo.text import Text
from examples.demo.view import View
from streams import Sink, Source
from transport import Administration, TransportError

QUEUE = "lines"
ANY_PORT = "127.0.0.1:0"
SAMPLE_SECONDS = 0.5
BATCHES = 60
"""Micro-batches the lines make up: each costs Spark some 200 ms whatever is in it, so the counting lasts long enough to watch."""
FEWEST_ROWS, MOST_ROWS = 500, 100_000
"""Rows of a micro-batch, whatever the input."""
QUEUE_BATCHES = 6
"""Micro-batches the queue holds: one being counted, one not yet acknowledged, and some that wait. Then the sender is held back."""
BROKER_END_SECONDS = 5.0
"""After its connections broke, a broker that has failed has ended by then."""
SLOW_FROM = 0.4
"""The share of the lines after which the query is made slow."""
SLOW_BATCHES = 5
SLOW_SECONDS = 1.5
"""What each of the slow micro-batches takes."""


class Demo:
    """One run.

    Args:
        text: what is sent.
        total: how many lines that is.
        view: shows the run while it lasts.

    Attributes:
        history: what was seen.
        slow_rate: lines a second that the query takes while it is slow.
    """

    def __init__(self, text: Text, total: int, view: View) -> None:
        self._text = text
        self._view = view
        self._rows = min(MOST_ROWS, max(FEWEST_ROWS, total // BATCHES))
        self.history = History(total, QUEUE_BATCHES * self._rows)
        self.slow_rate = self._rows / SLOW_SECONDS
        self._began = asyncio.get_running_loop().time()

    async def run(self) -> Counts:
        """Run to the end; what the query counted.

        Raises:
            ExceptionGroup: of the `ProcessFailedError` of each process that failed.
        """
        with tempfile.TemporaryDirectory(prefix="penstock-demo-") as scratch:
            checkpoint, data = f"{scratch}/checkpoint", f"{scratch}/data"
            async with Children() as children:
                send_address, receive_address = await self._start_broker(children, data)
                async with Administration(send_address) as administration, asyncio.TaskGroup() as group:
                    watching = [
                        group.create_task(self._broker.until_it_fails()),
                        group.create_task(self._watch(administration)),
                    ]
                    query = await self._start_query(children, receive_address, checkpoint)
                    counting = group.create_task(self._follow(query))
                    sender = await self._start_sender(children, send_address)
                    group.create_task(self._end_with(sender, query))
                    counts = await counting
                    for task in watching:
                        task.cancel()
        return counts

    def _now(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    async def _start_broker(self, children: Children, data: str) -> tuple[str, str]:
        self._broker = await children.start(
            *("broker", "transport.cli", "broker"),
            *("--send-address", ANY_PORT, "--receive-address", ANY_PORT),
            *("--max-queue-messages", self.history.limit, "--data", data),
        )
        told = await self._broker.first_match(r"sending (\S+), receiving ([^\s,]+)(?:, console ([^\s,]+))?")
        if told[3] is not None:
            self._view.say(f"Watch it in a browser: {told[3]}")
        return told[1], told[2]

    async def _start_query(self, children: Children, address: str, checkpoint: str) -> Child:
        return await children.start(
            *("query", "examples.demo.query", address, QUEUE, checkpoint),
            *("--batch-rows", self._rows, "--slow-from", int(SLOW_FROM * self.history.total)),
            *("--slow-batches", SLOW_BATCHES, "--slow-seconds", SLOW_SECONDS),
        )

    async def _start_sender(self, children: Children, address: str) -> Child:
        arguments = ["--only-python"] if self._text.only_python else []
        return await children.start("sender", "examples.demo.sending", address, QUEUE, self._text.root, *arguments)

    async def _watch(self, administration: Administration) -> None:
        """Ask the broker for its statistics at each tick, and show them."""

        async def sample(_: int) -> Sample:
            return Sample.of(await administration.statistics(), QUEUE, self._now())

        def show(sample: Sample) -> None:
            self.history.samples.append(sample)
            self._view.show(self.history)

        with _shown(self._view):
            try:
                await Source.tick(SAMPLE_SECONDS).map_async(1, sample).to(Sink.foreach(show)).run()
            except TransportError:
                # Most likely the broker has ended, and why it did tells more.
                async with asyncio.timeout(BROKER_END_SECONDS):
                    await self._broker.until_it_fails()

    async def _end_with(self, sender: Child, query: Child) -> None:
        """When the sender has had everything confirmed, the query may finish what is in the queue."""
        async for told in sender.told():
            if "messages" in told:
                self.history.sent_all = self._now()
        query.end_input()

    async def _follow(self, query: Child) -> Counts:
        """Take what the query tells; at its end, the counts."""
        counts = Counts()
        async for told in query.told():
            match told:
                case {"lines": lines}:
                    self.history.lines = lines
                case {"slow": True}:
                    self.history.slow_from = self._now()
                case {"slow": False}:
                    self.history.slow_until = self._now()
                case {"counts": {"lines": lines, "imports": imports}}:
                    counts = Counts(Counter(lines), Counter(imports))
        return counts


@contextlib.contextmanager
def _shown(view: View) -> Iterator[None]:
    view.open()
    try:
        yield
    finally:
        view.close()
