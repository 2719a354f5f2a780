"""``python -m tests.fault.kill_celery``: kill -9 workers of Celery and their broker; hold what their tasks told against what was sent.

Tasks are acknowledged late. Some are due later, some are tried again, some are chords. A task that was confirmed must come
to its end, and one that runs a second time must say that it was delivered again. Beside them somebody watches events,
pings workers, and in the end revokes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import tempfile
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Condition, Event, Thread
from typing import Annotated, Any

import typer
from celery import Celery, chord
from celery.events import dispatcher, receiver
from kombu.exceptions import OperationalError

from tests.fault.celery_books import Books
from tests.fault.celery_tasks import BACKEND, BROKER, LEDGER, made
from tests.fault.kill_clients import Counter
from tests.fault.kill_process import Broker, ReservedPort
from tests.transport.gateways.amqp.task_workers import Worker

WORKER_KILLS, BROKER_KILLS, EACH_LIFE = 5, 2, 60
WORKERS, PROCESSES = 2, 2
MOST_OPEN = 50
"""Tasks that are sent and have not ended."""
LATER, AGAIN, CHORDS = 0.1, 0.1, 0.03
"""Of the tasks: due later, tried again, and chords."""
LATEST_SECONDS = 1.0
PARTS = 3
REVOKED = 5
TOLD_SECONDS = 30.0
"""In which workers have heard of what is revoked, and events tell of it."""
LIFE_SECONDS = 180.0
"""In which a life must come to its end."""
PING_SECONDS = 1.0
RETRY_SECONDS = 0.1
READ_BYTES = 4096
MODULE = "tests.fault.celery_tasks:app"
LOADED = dispatcher, receiver
"""Celery loads them when they are first asked for: two threads that did at once waited for each other."""


@dataclass(slots=True)
class Run:
    """What the threads and the loop share.

    Attributes:
        app: what sends tasks.
        books: of what was seen.
        moments: how many tasks have ended.
        ends: senders send no more.
        over: watchers end.
        room: told when a task has ended.
    """

    app: Celery
    books: Books = field(default_factory=Books)
    moments: Counter = field(default_factory=Counter)
    ends: Event = field(default_factory=Event)
    over: Event = field(default_factory=Event)
    room: Condition = field(default_factory=Condition)


class Ledger(asyncio.DatagramProtocol):
    """Enters what tasks tell."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def datagram_received(self, data: bytes, _: Any) -> None:
        """An entry."""
        with self._run.room:
            before = len(self._run.books.ended)
            self._run.books.enter(data.decode())
            more = len(self._run.books.ended) - before
            self._run.room.notify_all()
        self._run.moments.add(more)


def send(run: Run, name: str, random: Random) -> None:
    """Send tasks until it is enough: what was not confirmed is another task the next time."""
    number = 0
    while not run.ends.is_set():
        with suppress(*lost(run.app)), run.app.connection_for_write() as connection:
            producer = run.app.amqp.Producer(connection)
            while not run.ends.is_set():
                with run.room:
                    run.room.wait_for(lambda: run.ends.is_set() or len(run.books.open) < MOST_OPEN, LIFE_SECONDS)
                number += 1
                task = f"{name}-{number}"
                chance = random.random()
                if chance < CHORDS:
                    run.books.chords.add(task)
                    values = [random.randint(0, 9) for _ in range(PARTS)]
                    end = run.app.tasks["whole"].s(task, sum(values))
                    chord([run.app.tasks["part"].s(value) for value in values], app=run.app)(end)
                else:
                    options = {"countdown": random.random() * LATEST_SECONDS} if chance < CHORDS + LATER else {}
                    tries = int(chance > 1 - AGAIN)
                    run.app.tasks["work"].apply_async((task, tries), producer=producer, retry=False, **options)
                with run.room:
                    run.books.confirmed.add(task)
        run.ends.wait(RETRY_SECONDS)


def lost(app: Celery) -> tuple[type[BaseException], ...]:
    """What a broker that was killed is to who uses it."""
    connection = app.connection_for_write()
    return (OperationalError, *connection.connection_errors, *connection.channel_errors)


def watch(run: Run) -> None:
    """Count events, as a monitor would."""

    def seen(event: dict[str, Any]) -> None:
        with run.room:
            run.books.events[event["type"]] += 1
            run.room.notify_all()

    while not run.over.is_set():
        with suppress(*lost(run.app)), run.app.connection_for_read() as connection:
            receiver = run.app.events.Receiver(connection, handlers={"*": seen})
            for _ in receiver.consume(limit=None, timeout=PING_SECONDS, wakeup=True):
                if run.over.is_set():
                    break
        run.over.wait(RETRY_SECONDS)


def ping(run: Run) -> None:
    """Ask workers whether they are there, again and again."""
    while not run.over.is_set():
        with suppress(*lost(run.app)), run.app.connection_for_write() as connection:
            while not run.over.is_set():
                run.books.pings += len(run.app.control.ping(timeout=PING_SECONDS, connection=connection, limit=WORKERS))
                run.over.wait(RETRY_SECONDS)
        run.over.wait(RETRY_SECONDS)


def children_of(pid: int) -> list[int]:
    """The processes that one has started: of a worker, those of its pool."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]


class Workers:
    """Those that run, each with a name that it keeps."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._running: dict[int, Worker] = {}

    async def start(self, number: int) -> None:
        """Start one; what is left of the one before ends when it is there."""
        before = self._running.pop(number, None)
        try:
            words = (
                "celery",
                "-A",
                MODULE,
                "worker",
                "-c",
                str(PROCESSES),
                "-n",
                f"w{number}@kill",
                "-E",
                "-l",
                "INFO",
            )
            self._running[number] = await asyncio.to_thread(
                Worker, *words, "--without-mingle", ready="ready.", environment=self._environment
            )
        finally:
            if before is not None:
                before.kill()

    async def kill(self, random: Random) -> None:
        """Kill one with all its processes, or its first alone, or one that runs tasks, without which it goes on."""
        number = random.choice(list(self._running))
        worker = self._running[number]
        children = children_of(worker.pid)
        victim = random.choice(("all", "first", "child"))
        if victim == "child" and children:
            with suppress(ProcessLookupError):
                os.kill(random.choice(children), signal.SIGKILL)
            return
        if victim == "first":
            os.kill(worker.pid, signal.SIGKILL)
        else:
            worker.kill()
        await self.start(number)

    def end_all(self) -> None:
        """Kill all of them."""
        while self._running:
            self._running.popitem()[1].kill()


def revoke(run: Run) -> list[str]:
    """Have tasks revoked, and send them; what is wrong with what workers and events say of it."""
    names = [f"revoked-{number}" for number in range(REVOKED)]
    before = run.books.events["task-revoked"]
    run.books.revoked.update(names)
    # Before they are sent: how long a worker takes to hear of it is no matter. By a connection of its own: one of the pool may be to a
    # broker that was killed, and what is told to all is not tried again.
    with run.app.connection_for_write() as connection:
        answers = run.app.control.revoke(names, reply=True, timeout=TOLD_SECONDS, limit=WORKERS, connection=connection)
    for name in names:
        run.app.tasks["work"].apply_async((name, 0), task_id=name)
    with run.room:
        told = run.room.wait_for(lambda: run.books.events["task-revoked"] - before >= REVOKED, TOLD_SECONDS)
        events = run.books.events["task-revoked"] - before
    found = [] if len(answers) == WORKERS else [f"{len(answers)} of {WORKERS} workers have heard of what is revoked"]
    return found if told else [*found, f"{events} of {REVOKED} events tell of a revoked task"]


async def kill_celery(
    worker_kills: int, broker_kills: int, each_life: int, seed: int, folder: Path
) -> tuple[Books, list[str]]:
    """The application goes on through kills; what was seen, and what must not be."""
    random = Random(seed)
    with closing(ReservedPort()) as port:
        ledger, url = str(folder / "ledger"), f"amqp://guest:guest@{port.address}//"
        backend = f"db+sqlite:///{folder / 'results.db'}"
        run = Run(made(url, backend))
        loop = asyncio.get_running_loop()
        books, _ = await loop.create_datagram_endpoint(lambda: Ledger(run), local_addr=ledger, family=socket.AF_UNIX)
        workers = Workers({BROKER: url, BACKEND: backend, LEDGER: ledger})
        options = ["--data", str(folder / "data"), "--amqp", port.address, "--http", "none"]
        kills = ["worker"] * worker_kills + ["broker"] * broker_kills
        random.shuffle(kills)
        threads = [
            Thread(target=send, args=(run, f"s{each}", Random(f"{seed} {each}")), daemon=True) for each in (1, 2)
        ]
        watchers = [Thread(target=each, args=(run,), daemon=True) for each in (watch, ping)]
        try:
            async with Broker(options) as broker:
                await broker.start()
                await asyncio.gather(*(workers.start(number) for number in range(WORKERS)))
                for thread in (*threads, *watchers):
                    thread.start()
                for kill in kills:
                    async with asyncio.timeout(LIFE_SECONDS):
                        await run.moments.more(random.randint(1, each_life))
                    if kill == "worker":
                        await workers.kill(random)
                    else:
                        await broker.kill()
                        await broker.start()
                run.ends.set()
                with run.room:
                    run.room.notify_all()
                for thread in threads:
                    await asyncio.to_thread(thread.join, LIFE_SECONDS)
                with suppress(TimeoutError):
                    async with asyncio.timeout(LIFE_SECONDS):
                        while run.books.open:
                            await run.moments.more(1)
                found = await asyncio.to_thread(revoke, run)
                run.over.set()
                for thread in watchers:
                    await asyncio.to_thread(thread.join, LIFE_SECONDS)
                found += run.books.violations() + broker.defects
        finally:
            run.ends.set()
            run.over.set()
            workers.end_all()
            books.close()
            run.app.close()
    return run.books, found


def main(
    worker_kills: Annotated[int, typer.Option(min=0)] = WORKER_KILLS,
    broker_kills: Annotated[int, typer.Option(min=0)] = BROKER_KILLS,
    each_life: Annotated[int, typer.Option(min=1)] = EACH_LIFE,
    seed: Annotated[int, typer.Option()] = 5672,
) -> None:
    """Run it once and say what it found."""
    with tempfile.TemporaryDirectory(prefix="penstock-celery-") as folder:
        books, found = asyncio.run(kill_celery(worker_kills, broker_kills, each_life, seed, Path(folder)))
    typer.echo(
        f"{worker_kills} kills of workers, {broker_kills} of the broker: {len(books.confirmed)} tasks confirmed, "
        f"{len(books.ended)} ended, {len(books.chords & books.ended)} of them chords, "
        f"{sum(books.begun.values())} begun, {books.marked} of them delivered again; "
        f"{sum(books.events.values())} events, {books.pings} answers to pings"
    )
    for violation in found:
        typer.echo(violation)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    typer.run(main)
