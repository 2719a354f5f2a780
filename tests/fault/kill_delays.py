"""``python -m tests.fault.kill_delays``: kill -9 a broker that holds messages until their times; each comes, once, and not before it.

A life ends as the broker writes: as it takes messages in, moves them from slot to slot, or delivers. Its calendar is one of seconds.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from streams import Source
from tests.fault import kill_clients
from tests.fault.kill_process import FILE_EVENTS, IN_MODIFY, Broker, DirectoryWatch
from transport import Receiver, Sender, Timed

KILLS, MESSAGES = 20, 4_000
MOST_WRITES = 40
"""Changes of files in a life, at most."""
LONGEST_SECONDS = 25.0
"""How far ahead a message is due, at most."""
LIFE_SECONDS = 60.0
END_SECONDS = 120.0
"""In which a life, and all of it, must come to its end."""
QUEUE = "delayed"


@dataclass(slots=True)
class Found:
    """What a run found.

    Attributes:
        due: when each message is due, by its number.
        came: when each came, and whether it was said that it may have come before.
        confirmed: how many were confirmed.
        kills: how many there were.
    """

    due: dict[int, float] = field(default_factory=dict)
    came: dict[int, list[tuple[float, bool]]] = field(default_factory=dict)
    confirmed: int = 0
    kills: int = 0

    def violations(self) -> list[str]:
        """What must not be."""
        said = [f"{number} never came" for number in self.due if number not in self.came]
        for number, times in self.came.items():
            early = [at for at, _ in times if at < self.due[number]]
            said += [f"{number} came {self.due[number] - at:.6f} s before its time" for at in early]
            if sum(not replayed for _, replayed in times) > 1:
                said.append(f"{number} came twice as if for the first time")
        return said


async def send(address: str, messages: int, random: Random, found: Found) -> None:
    """Send messages, each with its time."""

    async def elements() -> AsyncIterator[Timed[bytes]]:
        for number in range(messages):
            due = time.time() + random.random() ** 2 * LONGEST_SECONDS
            found.due[number] = due
            yield Timed(b"%d" % number, deliver_at=due)

    summary = await Source.from_async_iterable(elements).to(Sender(address, queue=QUEUE)).run()
    found.confirmed = summary.messages


async def take(address: str, messages: int, found: Found) -> None:
    """Receive until each message has come."""
    async for delivery in Receiver(address, queue=QUEUE):
        found.came.setdefault(int(delivery.payload), []).append((time.time(), delivery.possibly_replayed))
        delivery.acknowledge()
        if len(found.came) == messages:
            return


async def kill_delays(kills: int, messages: int, seed: int, directory: Path) -> Found:
    """Kill a broker so often; ``directory``, which is there, is its own."""
    random, found, writes = Random(seed), Found(), kill_clients.Counter()
    async with Broker(["--data", str(directory), "--no-http"], "tests.fault.brisk_broker") as broker:
        await broker.start()
        async with asyncio.timeout(END_SECONDS + LIFE_SECONDS * kills), asyncio.TaskGroup() as group:
            group.create_task(send(broker.send_address, messages, random, found))
            group.create_task(take(broker.receive_address, messages, found))
            with closing(DirectoryWatch(directory, writes.add, FILE_EVENTS | IN_MODIFY)):
                for _ in range(kills):
                    async with asyncio.timeout(LIFE_SECONDS):
                        await writes.more(random.randint(1, MOST_WRITES))
                    await broker.kill()
                    found.kills += 1
                    await broker.start()
        await broker.stop()
    return found


def main(
    kills: Annotated[int, typer.Option(min=1)] = KILLS,
    messages: Annotated[int, typer.Option(min=1)] = MESSAGES,
    seed: Annotated[int, typer.Option()] = 1811,
) -> None:
    """Run it once and say what it found."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-delays-") as folder:
        found = asyncio.run(kill_delays(kills, messages, seed, Path(folder)))
    again = sum(len(times) - 1 for times in found.came.values())
    typer.echo(
        f"{found.kills} kills, {found.confirmed} messages confirmed, {len(found.came)} came, {again} again, "
        f"{time.monotonic() - began:.0f} s"
    )
    violations = found.violations()
    for violation in violations:
        typer.echo(violation)
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    typer.run(main)
