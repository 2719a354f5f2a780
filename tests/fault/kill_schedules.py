"""``python -m tests.fault.kill_schedules``: kill -9 a broker whose schedules are due every second; each time is there exactly once.

Half of the schedules store in a queue, and half in two queues behind an exchange. A life ends as the broker listens, or as it writes, be
that in the midst of its start. At the end everything is received that is due up to then.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from tests.fault import kill_clients
from tests.fault.kill_process import FILE_EVENTS, IN_MODIFY, Broker, DirectoryWatch
from transport import Administration, Receiver

KILLS, SCHEDULES = 20, 40
MOST_WRITES = 6
"""Changes of files in a life, at most: what all schedules store in a second is one write, and a start is some."""
LIFE_SECONDS = 30.0
"""In which a life must come to its end,"""
END_SECONDS = 60.0
"""and what is due at the end must be there."""
QUEUE, BEHIND = "k.one", ("k.left", "k.right")
EXCHANGE = "k.both"


@dataclass(slots=True)
class Found:
    """What a run found.

    Attributes:
        first: the first time of each schedule is one of these: between two looks at the clock.
        last: up to which time it is judged.
        times: of each queue, how often there is a message of a schedule for a time.
        kills: how many there were.
    """

    first: dict[str, tuple[int, int]] = field(default_factory=dict)
    last: int = 0
    times: dict[str, Counter[tuple[str, int]]] = field(default_factory=dict)
    kills: int = 0

    def violations(self) -> list[str]:
        """What must not be."""
        said: list[str] = []
        for queue, counter in self.times.items():
            said += [f"{queue} has {which} {count} times" for which, count in counter.items() if count > 1]
            for name in sorted({name for name, _ in counter}):
                there = sorted(at for which, at in counter if which == name and at <= self.last)
                low, high = self.first[name]
                if not low <= there[0] <= high:
                    said.append(f"{queue} has {name} from {there[0]} on, and it was due between {low} and {high}")
                if lost := set(range(there[0], self.last + 1)) - set(there):
                    said.append(f"{queue} lacks {len(lost)} of {name}, the first is {min(lost)}")
        left, right = (self.times.get(queue, Counter()) for queue in BEHIND)
        if one := {which for which in left.keys() ^ right.keys() if which[1] <= self.last}:
            said.append(f"{len(one)} are in one queue of two, such as {min(one)}")
        return said


async def declare(address: str, schedules: int, found: Found) -> None:
    """Half to a queue, half to an exchange with two queues."""
    async with Administration(address) as administration:
        await administration.declare_exchange(EXCHANGE, "fanout")
        for queue in BEHIND:
            await administration.create_queue(queue)
            await administration.bind(EXCHANGE, queue)
        for number in range(schedules):
            name, before = f"s{number}", int(time.time())
            to = {"exchange": EXCHANGE} if number % 2 else {"queue": QUEUE}
            # What the killed miss is made up for, be the machine slow.
            await administration.declare_schedule(name, "every 1s", missed="all", **to)
            found.first[name] = before + 1, int(time.time()) + 1


async def take(address: str, queue: str, names: set[str], last: int) -> Counter[tuple[str, int]]:
    """What a queue has, until it has a message of each schedule for a time that is not before the last."""
    times: Counter[tuple[str, int]] = Counter()
    missing = set(names)
    async for delivery in Receiver(address, queue=queue, create=False):
        headers = delivery.headers or {}
        name, at = str(headers["penstock-schedule"]), datetime.fromisoformat(str(headers["penstock-scheduled-for"]))
        times[name, int(at.timestamp())] += 1
        delivery.acknowledge()
        if at.timestamp() >= last:
            missing.discard(name)
        if not missing:
            return times
    raise AssertionError("a receiver ends when it is told to")


async def kill_schedules(kills: int, schedules: int, seed: int, directory: Path) -> Found:
    """Kill a broker so often; ``directory``, which is there, is its own."""
    random, found, writes = Random(seed), Found(), kill_clients.Counter()
    async with Broker(["--data", str(directory), "--no-http"]) as broker:
        await broker.start()
        await declare(broker.send_address, schedules, found)
        with closing(DirectoryWatch(directory, writes.add, FILE_EVENTS | IN_MODIFY)):
            for _ in range(kills):
                async with asyncio.timeout(LIFE_SECONDS):
                    await writes.more(random.randint(1, MOST_WRITES))
                await broker.kill()
                found.kills += 1
                await broker.spawn()
                if random.random() < 0.5:
                    await broker.listening()
        if not broker.listens:
            await broker.listening()
        found.last = int(time.time())
        async with asyncio.timeout(END_SECONDS), asyncio.TaskGroup() as group:
            names = [set(list(found.first)[half::2]) for half in (0, 1)]
            wanted = {QUEUE: names[0], BEHIND[0]: names[1], BEHIND[1]: names[1]}
            taking = {
                queue: group.create_task(take(broker.receive_address, queue, of, found.last))
                for queue, of in wanted.items()
            }
        found.times = {queue: task.result() for queue, task in taking.items()}
        await broker.stop()
    return found


def main(
    kills: Annotated[int, typer.Option(min=1)] = KILLS,
    schedules: Annotated[int, typer.Option(min=2)] = SCHEDULES,
    seed: Annotated[int, typer.Option()] = 1811,
) -> None:
    """Run it once and say what it found."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-schedules-") as folder:
        found = asyncio.run(kill_schedules(kills, schedules, seed, Path(folder)))
    messages = sum(counter.total() for counter in found.times.values())
    seconds = max((found.last - low for low, _ in found.first.values()), default=0) + 1
    typer.echo(
        f"{found.kills} kills within {seconds} s of {schedules} schedules: {messages} messages in {len(found.times)} queues, "
        f"{time.monotonic() - began:.0f} s"
    )
    violations = found.violations()
    for violation in violations:
        typer.echo(violation)
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    typer.run(main)
