"""``python -m tests.fault.kill_move``: kill -9 a broker while messages move to and fro between its queues: none is lost, none is doubled.

One queue has room for a part of the messages only, so that a move there ends at a full queue, in the midst of a batch as often as not. Then
they are moved back. A life of the broker ends as a command is on its way, as it was answered, or as files change. After each start the
queues are counted, and the small one may not hold more than its limit; at the end everything is received.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import tempfile
from collections import Counter as Counts
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from tests.fault.kill_clients import Counter, LineReceiver, send_lines
from tests.fault.kill_process import ROOT, Broker, BrokerDiedError, DirectoryWatch
from transport import Administration, ConnectionLostError, MoveStoppedError, TransportError

LARGE, SMALL = "large", "small"
MESSAGES = 20_000
ROOM = 7_001
"""Messages that the small queue may hold: no whole number of batches or of steps."""
PART = 3_000
"""Messages of one move, at most: several make the small queue full."""
SEGMENT_BYTES = 256 * 1024
MOST_EVENTS = 6
LIFE_SECONDS = 60.0
REPORT_EVERY = 20


@dataclass(slots=True)
class Found:
    """What a run found.

    Attributes:
        kills: how often the broker was killed.
        moved: messages whose move was answered.
        full: moves that ended at a full queue.
        violations: what must not be.
    """

    kills: int = 0
    moved: int = 0
    full: int = 0
    violations: list[str] = field(default_factory=list)


class Mover:
    """Moves messages to and fro through all lives of the broker.

    Attributes:
        asked: counts commands that are on their way.
        answered: counts those that were answered.
        found: what a run finds.
    """

    def __init__(self, address: str, random: Random, found: Found) -> None:
        self.asked, self.answered = Counter(), Counter()
        self.found = found
        self._address = address
        self._random = random
        self._there = True

    async def life(self) -> None:
        """Move until the broker is gone."""
        with suppress(ConnectionLostError):
            async with Administration(self._address) as administration:
                while True:
                    await self._move(administration)

    async def _move(self, administration: Administration) -> None:
        source, target = (LARGE, SMALL) if self._there else (SMALL, LARGE)
        self.asked.add(1)
        try:
            moved = await administration.move(source, target, self._random.randint(1, PART))
            if not moved:
                self._there = not self._there
        except MoveStoppedError as error:
            if error.code != "queue-full" or target != SMALL:
                raise
            moved = error.moved
            self.found.full += 1
            self._there = False
        self.found.moved += moved
        self.answered.add(1)


async def kill_moves(kills: int, seed: int, directory: Path, report: Callable[[str], None]) -> Found:
    """Kill a broker so often while messages are moved; ``directory``, which is there, is its own.

    Raises:
        BrokerDiedError: it ended by itself.
        TransportError: a command was refused for no reason.
        TimeoutError: nothing went on.
    """
    random = Random(seed)
    found = Found()
    payloads = [b"message %d" % number for number in range(MESSAGES)]
    files = Counter()
    watch = DirectoryWatch(directory, files.add)
    try:
        async with Broker(["--data", str(directory), "--segment-bytes", str(SEGMENT_BYTES)]) as broker:
            await broker.start()
            async with Administration(broker.send_address) as administration:
                await administration.create_queue(LARGE)
                await administration.create_queue(SMALL, max_messages=ROOM)
            await send_lines(broker.send_address, LARGE, payloads, Random(random.random()), lambda _: None)
            mover = Mover(broker.send_address, random, found)
            for number in range(1, kills + 1):
                moving = asyncio.create_task(mover.life())
                counter = random.choice([mover.asked, mover.answered, files])
                reached = asyncio.create_task(counter.more(random.randint(1, MOST_EVENTS)))
                async with asyncio.timeout(LIFE_SECONDS):
                    await asyncio.wait((moving, reached), return_when=asyncio.FIRST_COMPLETED)
                    await broker.kill()
                    reached.cancel()
                    await moving
                found.kills += 1
                await broker.start()
                await _count(broker, found, f"after kill {number}")
                if number % REPORT_EVERY == 0:
                    report(f"{number} kills: {found.moved} messages moved, {found.full} times to a full queue")
            await _receive(broker, payloads, found)
            await broker.stop()
            found.violations += broker.defects
    finally:
        watch.close()
    return found


async def _count(broker: Broker, found: Found, when: str) -> None:
    """Both queues together hold what there is, and none more than it may."""
    async with Administration(broker.send_address) as administration:
        stored = {row["name"]: row["stored_messages"] for row in await administration.queues()}
    if sum(stored.values()) != MESSAGES:
        found.violations.append(f"{when}: {stored} are {sum(stored.values())} messages, not {MESSAGES}")
    if stored[SMALL] > ROOM:
        found.violations.append(f"{when}: {stored[SMALL]} messages exceed the {ROOM} that the small queue may hold")


async def _receive(broker: Broker, payloads: list[bytes], found: Found) -> None:
    """Everything is received, each message once."""
    got: Counts[bytes] = Counts()
    async with Administration(broker.send_address) as administration:
        stored = {row["name"]: row["stored_messages"] for row in await administration.queues()}
    for name, count in stored.items():
        deliveries = Counter()
        receiver = LineReceiver(deliveries)
        running = receiver.run(broker.receive_address, name)
        if count:
            async with asyncio.timeout(LIFE_SECONDS):
                await deliveries.more(count)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        got.update(arrival.line for arrival in receiver.arrivals)
    lost = [payload for payload in payloads if not got[payload]]
    twice = [payload for payload, times in got.items() if times > 1]
    if lost:
        found.violations.append(f"{len(lost)} messages are lost, as {lost[0]!r}")
    if twice:
        found.violations.append(f"{len(twice)} messages came more than once, as {twice[0]!r}")


def main(
    kills: Annotated[int, typer.Option(min=1, metavar="N", help="Kills.")] = 100,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Of all random choices; a new one by default.")] = None,
) -> None:
    """Kill a broker while messages are moved between its queues, and tell what was lost or doubled."""
    seed = secrets.randbits(32) if seed is None else seed

    def report(text: str) -> None:
        sys.stderr.write(f"kill_move: {text}\n")
        sys.stderr.flush()

    report(f"--kills {kills} --seed {seed}")
    with tempfile.TemporaryDirectory(prefix="penstock-move-", dir=ROOT) as folder:
        try:
            found = asyncio.run(kill_moves(kills, seed, Path(folder), report))
        except (BrokerDiedError, TransportError, TimeoutError) as error:
            report(f"seed {seed}: {type(error).__name__}: {error}")
            raise typer.Exit(1) from None
    report(f"{found.kills} kills, {found.moved} messages moved, {found.full} times to a full queue")
    for text in found.violations:
        report(f"VIOLATION {text}")
    raise typer.Exit(1 if found.violations else 0)


if __name__ == "__main__":
    typer.run(main)
