"""``python -m tests.fault.kill_delayed``: kill -9 a broker while messages wait at an exchange; each comes once, and not before its time.

A sender with a name publishes to a delayed exchange with two queues behind it, each message with a wait of its own, and sends again what
was not confirmed. A life ends as the broker listens, or as it writes: as messages are stored, or as some go on. At the end everything is
received: each message that was published is in both queues once, as soon as it is due and no sooner.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from streams import Source
from tests.fault import kill_clients
from tests.fault.kill_clients import BACK_AT_ONCE
from tests.fault.kill_process import FILE_EVENTS, IN_MODIFY, Broker, DirectoryWatch
from transport import Administration, Message, Receiver, Sender

KILLS, MESSAGES = 20, 4_000
MOST_WRITES = 60
"""Changes of files in a life, at most."""
LIFE_SECONDS = 30.0
"""In which a life must come to its end,"""
END_SECONDS = 120.0
"""and all must be there."""
MOST_WAIT_MS = 4_000
CHUNK = 20
"""Messages that are published at a time."""
SLOWER_SECONDS = 0.2
"""Between two, once there are as many as a run wants."""
TOLERANCE = 0.002
"""Seconds that a clock in milliseconds may be off."""
EXCHANGE, BEHIND = "k.later", ("k.left", "k.right")


@dataclass(slots=True)
class Found:
    """What a run found.

    Attributes:
        published: of each message the time before which it was not published, and its wait in milliseconds.
        came: of each queue what came, by its number in the queue: what is delivered again has the same.
        kills: how many there were.
    """

    published: dict[int, tuple[float, int]] = field(default_factory=dict)
    came: dict[str, dict[int, tuple[int, float]]] = field(default_factory=lambda: {queue: {} for queue in BEHIND})
    kills: int = 0

    def violations(self) -> list[str]:
        """What must not be."""
        said: list[str] = []
        for queue, came in self.came.items():
            numbers = Counter(number for number, _ in came.values())
            if twice := sorted(number for number, count in numbers.items() if count > 1):
                said.append(f"{queue} has {len(twice)} messages twice, such as {twice[0]}")
            if lost := sorted(self.published.keys() - numbers.keys()):
                said.append(f"{queue} lacks {len(lost)} messages, such as {lost[0]}")
            for number, at in came.values():
                since, wait = self.published[number]
                if at < since + wait / 1000 - TOLERANCE:
                    said.append(f"{queue} had {number} after {at - since:.3f} s, and it was to wait {wait} ms")
        return said


async def publish(address: str, messages: int, chance: Random, found: Found, ended: asyncio.Event) -> None:
    """Publish messages, a few at a time, until all kills were: fast until so many are published, and then so that a life has writes."""

    async def some() -> AsyncIterator[Message]:
        number = 0
        while not (ended.is_set() and number > CHUNK):
            for _ in range(CHUNK):
                wait = chance.choice([0, 1, chance.randint(2, MOST_WAIT_MS)])
                found.published[number] = time.time(), wait
                yield Message(b"%d" % number, headers={"x-delay": str(wait)})
                number += 1
            if number < messages:
                await asyncio.sleep(0)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(SLOWER_SECONDS):
                    await ended.wait()

    sender = Sender(
        address, exchange=EXCHANGE, client_id="k", reconnect=BACK_AT_ONCE, max_in_flight=CHUNK, max_batch_messages=CHUNK
    )
    await Source.from_async_iterable(some()).to(sender).run()


async def take(address: str, queue: str, found: Found, published: asyncio.Event) -> None:
    """Receive what comes to a queue, until all is there."""
    came = found.came[queue]
    async for delivery in Receiver(address, queue=queue, create=False, reconnect=BACK_AT_ONCE):
        came.setdefault(delivery.sequence, (int(delivery.payload), time.time()))
        delivery.acknowledge()
        if published.is_set() and len(came) >= len(found.published):
            return


async def kill_delayed(kills: int, messages: int, seed: int, directory: Path) -> Found:
    """Kill a broker so often; ``directory``, which is there, is its own."""
    random, found, writes = Random(seed), Found(), kill_clients.Counter()
    ended, published = asyncio.Event(), asyncio.Event()
    async with Broker(["--data", str(directory), "--no-http"]) as broker:
        await broker.start()
        async with Administration(broker.send_address) as administration:
            await administration.declare_exchange(EXCHANGE, "fanout", delayed=True)
            for queue in BEHIND:
                await administration.create_queue(queue)
                await administration.bind(EXCHANGE, queue)
        sending = asyncio.create_task(publish(broker.send_address, messages, Random(seed), found, ended))
        taking = [asyncio.create_task(take(broker.receive_address, queue, found, published)) for queue in BEHIND]
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
        ended.set()
        async with asyncio.timeout(END_SECONDS):
            await sending
            published.set()
            # One more, by which who has all the others sees that.
            last = max(found.published) + 1
            found.published[last] = time.time(), 2 * MOST_WAIT_MS
            said = Message(b"%d" % last, headers={"x-delay": str(2 * MOST_WAIT_MS)})
            await Source.single(said).to(Sender(broker.send_address, exchange=EXCHANGE)).run()
            await asyncio.gather(*taking)
        await broker.stop()
    return found


def main(
    kills: Annotated[int, typer.Option(min=1)] = KILLS,
    messages: Annotated[int, typer.Option(min=1)] = MESSAGES,
    seed: Annotated[int, typer.Option()] = 1812,
) -> None:
    """Run it once and say what it found."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-delayed-") as folder:
        found = asyncio.run(kill_delayed(kills, messages, seed, Path(folder)))
    typer.echo(
        f"{found.kills} kills: {len(found.published)} messages waited, and came to {len(BEHIND)} queues, "
        f"{time.monotonic() - began:.0f} s"
    )
    violations = found.violations()
    for violation in violations:
        typer.echo(violation)
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    typer.run(main)
