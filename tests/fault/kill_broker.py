"""``python -m tests.fault.kill_broker``: kill -9 a broker under load, again and again, and hold what its clients saw against what must be.

Each life of the broker ends at a moment that its seed picks by events, not by time: so many confirmations, so many deliveries, the
moment it listens, or so many changes of its files, which may well be in the middle of its recovery.
"""

from __future__ import annotations

import asyncio
import gzip
import secrets
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from streams import Running
from tests.fault.kill_clients import Counter, LineReceiver, Load, LoadReceiver, LoadSender, send_lines
from tests.fault.kill_history import Verdict, check_lines
from tests.fault.kill_process import ROOT, Broker, BrokerDiedError, DirectoryWatch
from tests.log_lines import log_lines
from transport import Administration, TransportError
from transport.clients.sender_session import Confirmation

SENDERS = 8
RECEIVERS = 4
QUEUE = "killed"
MOST_EVENTS = 3_000
"""Confirmed or delivered messages after which a life ends, at most: less than the queue's limit, so that every life gets there."""
MOST_FILE_EVENTS = 12
"""Changes of files after which a life ends, at most: starting alone makes several."""
QUEUE_MESSAGES = 20_000
"""The queue's limit: a backlog outlives kills, senders wait for demand, and the history stays small."""
SEGMENT_BYTES = 256 * 1024
"""So small that a life or two fill a segment: a run makes, seals and recycles many."""
LIFE_SECONDS = 60.0
"""In which a life must come to its end: a broker that takes nothing for so long has stalled."""
DRAIN_SECONDS = 120.0
"""In which everything must be delivered and acknowledged at the end."""
QUIET_SECONDS = 1.0
"""Without a delivery, after which the broker is asked whether it has any left."""
REPORT_EVERY = 20
"""Kills between two lines of progress."""
WIDTH = 100

Run = asyncio.Task[Any]
"""A client at work."""
FILES = "files"
MOMENTS = ("confirmations", "deliveries", "listening", FILES)
End = Callable[[Broker], Awaitable[None]]


@dataclass(slots=True)
class Outcome:
    """What a run found.

    Attributes:
        name: of the load.
        facts: counts that are no violations, by name.
        verdict: the violations.
    """

    name: str
    facts: dict[str, int]
    verdict: Verdict


@dataclass(slots=True)
class Killer:
    """Starts and kills one broker after another while ``runs`` go on.

    Attributes:
        broker: the one that is killed.
        random: picks the moments.
        directory: its files; None for one that keeps nothing.
        confirmations: counts them.
        deliveries: counts them.
        runs: the clients; one that fails ends the run.
        end_life: how a life of the broker ends.
        kinds: the moments to choose from; those of files only where there are any.
        kills: by the kind of moment.
        further: moments beside `MOMENTS`, by kind: what is counted, and after how many a life ends, at most; confirmations end it too.
    """

    broker: Broker
    random: Random
    directory: Path | None
    confirmations: Counter
    deliveries: Counter
    runs: list[Run] = field(default_factory=list)
    end_life: End = Broker.kill
    kinds: Sequence[str] = MOMENTS
    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(MOMENTS, 0))
    files: Counter = field(default_factory=Counter)
    further: dict[str, tuple[Counter, int]] = field(default_factory=dict)

    async def life(self, most_events: int, over: Run | None = None) -> None:
        """One life: start, live to a moment that the random numbers pick, or until ``over`` is done, and be killed."""
        kind = self.random.choice([each for each in self.kinds if each != FILES or self.directory is not None])
        usual = self.deliveries if kind == "deliveries" else self.confirmations
        counter, most = self.further.get(kind, (usual, most_events))
        count = self.random.randint(1, most)
        moments: list[Coroutine[Any, Any, Any]] = []
        if kind != "listening":
            moments.append(counter.more(count))
            if kind in self.further:
                moments.append(self.confirmations.more(most_events))
            if kind == FILES:
                moments.append(self.files.more(self.random.randint(1, MOST_FILE_EVENTS)))
            if over is not None:
                moments.append(_ended(over))
        reached = asyncio.ensure_future(_first(moments))
        try:
            await self.broker.spawn()
            if kind != FILES:
                await self.well(self.broker.listening())
            await self.well(reached)
        finally:
            reached.cancel()
        await self.end_life(self.broker)
        self.kills[kind] = self.kills.get(kind, 0) + 1

    async def drained(self, done: Callable[[], bool]) -> None:
        """Wait until ``done``, or until the broker says that it has nothing left."""
        async with asyncio.timeout(DRAIN_SECONDS):
            while not done():
                try:
                    async with asyncio.timeout(QUIET_SECONDS):
                        await self.well(self.deliveries.more(1))
                except TimeoutError:
                    if done() or not await left_in_queue(self.broker.send_address):
                        return

    async def well(self, wanted: Coroutine[Any, Any, Any] | asyncio.Future[Any]) -> None:
        """Wait for ``wanted``; raises when a client or the broker fails meanwhile, or when it takes too long."""
        waiting = asyncio.ensure_future(wanted)
        death = asyncio.create_task(self.broker.until_it_dies())
        try:
            async with asyncio.timeout(LIFE_SECONDS):
                while not waiting.done():
                    running = [run for run in self.runs if not run.done()]
                    await asyncio.wait((waiting, death, *running), return_when=asyncio.FIRST_COMPLETED)
                    for run in self.runs:
                        if run.done():
                            run.result()
                    if death.done() and not waiting.done():
                        death.result()
            waiting.result()
        finally:
            waiting.cancel()
            death.cancel()
            await asyncio.gather(waiting, death, return_exceptions=True)

    async def end(self, runs: Sequence[Run]) -> None:
        """Cancel ``runs``; what they acknowledged is sent before they end."""
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)


async def kill_under_load(
    kills: int,
    seed: int,
    directory: Path | None,
    report: Callable[[str], None],
    *,
    end_life: End = Broker.kill,
    kinds: Sequence[str] = MOMENTS,
    options: Sequence[str] = (),
) -> Outcome:
    """Eight senders with confirmations and four receivers live through ``kills`` kills; then everything is drained.

    Args:
        kills: how often.
        seed: of every random choice.
        directory: the broker's files; None for a broker that keeps nothing, which is to be found out.
        report: takes lines of progress.
        end_life: how the broker is ended each time.
        kinds: of moments at which it is.
        options: of the broker, beside `broker_options`.

    Raises:
        BrokerDiedError: the broker ended by itself.
        TransportError: a client gave up.
        TimeoutError: nothing went on.
    """
    random = Random(seed)
    load = Load(SENDERS)
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(Broker([*broker_options(directory), *options]))
        killer = Killer(broker, random, directory, load.confirmations, load.deliveries, end_life=end_life, kinds=kinds)
        _watch(stack, killer)
        senders = [LoadSender(load, index, Random(random.random())) for index in range(SENDERS)]
        receivers = [LoadReceiver(load, index, Random(random.random())) for index in range(RECEIVERS)]
        sending = [_task(one.run(broker.send_address, QUEUE)) for one in senders]
        receiving = [_task(one.run(broker.receive_address, QUEUE)) for one in receivers]
        stack.push_async_callback(killer.end, [*sending, *receiving])
        killer.runs = [*sending, *receiving]
        for number in range(1, kills + 1):
            load.life += 1
            await killer.life(MOST_EVENTS)
            if number % REPORT_EVERY == 0:
                history = load.history
                report(f"{number} kills: {history.confirmed} confirmed, {history.deliveries} delivered")
        load.life += 1
        await broker.start()
        await killer.well(load.confirmations.more(MOST_EVENTS))
        load.ending = True
        for one in receivers:
            one.release()
        for run in sending:
            await killer.well(_ended(run))
        await killer.drained(lambda: not load.history.outstanding)
        await killer.end(receiving)
        facts = await _after(broker)
    history = load.history
    counts = {"messages sent": history.sent, "confirmed": history.confirmed, "delivered": history.deliveries}
    counts["of them possibly replayed"] = history.replays
    return _outcome("load", killer, counts | facts, history.verdict())


async def kill_with_lines(
    kills: int, seed: int, directory: Path | None, lines: list[bytes], report: Callable[[str], None]
) -> Outcome:
    """One sender sends ``lines`` in order, one receiver takes them, through ``kills`` kills. As `kill_under_load` otherwise."""
    random = Random(seed)
    confirmations, deliveries = Counter(), Counter()
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(Broker(broker_options(directory)))
        killer = Killer(broker, random, directory, confirmations, deliveries)
        _watch(stack, killer)
        receiver = LineReceiver(deliveries)

        def confirmed(confirmation: Confirmation) -> None:
            confirmations.add(confirmation.count)

        sending = _task(send_lines(broker.send_address, QUEUE, lines, Random(random.random()), confirmed))
        receiving = _task(receiver.run(broker.receive_address, QUEUE))
        stack.push_async_callback(killer.end, [sending, receiving])
        killer.runs = [sending, receiving]
        for _ in range(kills):
            await killer.life(max(1, 2 * len(lines) // (kills + 1)), over=sending)
        report(f"{kills} kills: {confirmations.value} lines confirmed, {deliveries.value} delivered")
        await broker.start()
        await killer.well(_ended(sending))
        await killer.drained(lambda: len({one.sequence for one in receiver.arrivals}) >= len(lines))
        await killer.end([receiving])
        facts = await _after(broker)
    replays = sum(one.flagged for one in receiver.arrivals)
    counts = {"lines sent": len(lines), "delivered": deliveries.value, "of them possibly replayed": replays}
    return _outcome("lines", killer, counts | facts, check_lines(lines, receiver.arrivals))


def broker_options(directory: Path | None) -> list[str]:
    """Of ``penstock broker``, for files in ``directory``, or none."""
    limits = ["--max-queue-messages", str(QUEUE_MESSAGES)]
    if directory is None:
        return [*limits, "--memory"]
    return [*limits, "--data", str(directory), "--segment-bytes", str(SEGMENT_BYTES)]


def read_lines(path: Path) -> list[bytes]:
    """The lines of a file, decompressed where its name ends in ``.gz``."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()


async def left_in_queue(address: str) -> int:
    """Messages that the broker still has: waiting, or delivered and not acknowledged."""
    async with Administration(address) as administration:
        return sum(row["ready"] + row["in_flight"] for row in await administration.queues() if row["name"] == QUEUE)


async def _after(broker: Broker) -> dict[str, int]:
    """What is left, and what comes back when the broker is stopped in good order and started again: both must be nothing."""
    left = await left_in_queue(broker.send_address)
    await broker.stop()
    await broker.start()
    back = await left_in_queue(broker.send_address)
    await broker.stop()
    return {"left": left, "back": back}


def _outcome(name: str, killer: Killer, facts: dict[str, int], verdict: Verdict) -> Outcome:
    for kind, what in (("left", "left in the queue"), ("back", "back after a clean restart")):
        count = facts.pop(kind)
        verdict.counts[what] = count
        if count:
            verdict.examples.append(f"{what}: {count} messages, though all were acknowledged or should have been")
    kills = {f"kills at {kind}": count for kind, count in killer.kills.items()}
    return Outcome(name, {"kills": sum(kills.values())} | kills | facts, verdict)


def _watch(stack: AsyncExitStack, killer: Killer) -> None:
    if killer.directory is not None:
        killer.directory.mkdir(parents=True, exist_ok=True)
        stack.callback(DirectoryWatch(killer.directory, killer.files.add).close)


async def _first(waits: Sequence[Coroutine[Any, Any, Any]]) -> None:
    """Wait for one of ``waits``; for none of none."""
    if not waits:
        return
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _ended(run: Run) -> None:
    """Wait for the end of ``run``, without ending it where this wait is cancelled; how it ended others ask."""
    await asyncio.wait((run,))


def _task(running: Running[Any]) -> Run:
    """A task that awaits the stream, so that many can wait for it; cancelling it cancels the stream."""

    async def whole() -> Any:
        return await running

    return asyncio.create_task(whole(), name=f"run of {running.name}")


def show(outcome: Outcome) -> None:
    """Print a table."""
    table = Table("what", title=outcome.name, title_justify="left")
    table.add_column("count", justify="right")
    table.add_column("")
    for name, count in outcome.facts.items():
        table.add_row(name, f"{count:,}", "")
    table.add_section()
    for name, count in outcome.verdict.counts.items():
        table.add_row(name, f"{count:,}", "VIOLATION" if count else "none")
    console = Console(width=WIDTH)
    console.print(table)
    for text in outcome.verdict.examples:
        console.print(f"  {text}", markup=False, highlight=False)


def main(
    kills: Annotated[int, typer.Option(min=1, metavar="N", help="Kills under load.")] = 200,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Of all random choices; a new one by default.")] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Sent line by line, too; made-up lines of a log by default.")
    ] = None,
    file_kills: Annotated[int, typer.Option(min=0, metavar="N", help="Kills while it is; 0 leaves it out.")] = 20,
    memory: Annotated[
        bool, typer.Option("--memory", help="A broker that keeps nothing: it must be found out.")
    ] = False,
) -> None:
    """Kill a broker under load, and tell what its clients lost, got twice, or got in the wrong order."""
    if file_kills and file is not None and not file.is_file():
        raise typer.BadParameter(f"{file} is no file; name another with --file, or leave it out with --file-kills 0")
    seed = secrets.randbits(32) if seed is None else seed
    report = _reporter(f"--kills {kills} --seed {seed}")
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="penstock-kill-", dir=ROOT) as folder:
        load, lines = (None, None) if memory else (Path(folder, "load"), Path(folder, "lines"))
        try:
            outcomes.append(asyncio.run(kill_under_load(kills, seed, load, report)))
            show(outcomes[-1])
            if file_kills:
                text = log_lines(seed=seed) if file is None else read_lines(file)
                outcomes.append(asyncio.run(kill_with_lines(file_kills, seed, lines, text, report)))
                show(outcomes[-1])
        except (BrokerDiedError, TransportError, TimeoutError) as error:
            report(f"seed {seed}: {type(error).__name__}: {error}")
            raise typer.Exit(1) from None
    raise typer.Exit(0 if all(one.verdict.clean for one in outcomes) else 1)


def _reporter(start: str) -> Callable[[str], None]:
    def report(text: str) -> None:
        sys.stderr.write(f"kill_broker: {text}\n")
        sys.stderr.flush()

    report(start)
    return report


if __name__ == "__main__":
    typer.run(main)
