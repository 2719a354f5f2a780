"""``python -m tests.fault.kill_amqp``: kill -9 a broker while aio-pika publishes, consumes and transacts; hold what was seen against it.

Each publish has a body that no other has, so what a client publishes again, for it does not know what became of it, is
another message. What is confirmed must be delivered until it is acknowledged, or be in the queue of dead letters. What is
delivered a second time must say so. Beside them are clients that use transactions (`kill_transactions`).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter as Counted
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated, Any

import aio_pika
import typer

from streams.testkit import settle
from tests.fault.kill_clients import Counter
from tests.fault.kill_process import Broker, ReservedPort
from tests.fault.kill_transactions import FEEDERS, MOVERS, Transacted, feed, move, raise_unless_lost, read_places

KILLS, EACH_LIFE = 5, 2_000
PUBLISHERS, CONSUMERS = 4, 3
MOST_AT_ONCE = 200
A_TRANSACTION = 50
"""Of what else happens in a life, for each transaction in it."""
POLL = 0.02
LIFE_SECONDS = 120.0
"""In which a life must come to its end."""
QUIET_SECONDS = 5.0
"""Nothing more is in a queue that gives nothing for so long."""
WORK, DEAD = "work", "dead"
REFUSED, RETURNED = 0.05, 0.05
"""Of the deliveries: for good, and to be delivered again."""


@dataclass(slots=True)
class Seen:
    """What the clients saw.

    Attributes:
        confirmed: bodies.
        first: bodies, by how often they were delivered and not said to be delivered again.
        acknowledged: bodies whose acknowledgement was written, or about to be.
        acknowledged_last: those of them in the last life, which nobody kills: they are gone.
        last_life: whether this is it.
        refused: bodies whose refusal for good was written, or about to be.
        dead: bodies in the queue of dead letters.
        moments: how much has happened.
        transacted: what those saw that use transactions.
    """

    confirmed: set[bytes] = field(default_factory=set)
    first: Counted[bytes] = field(default_factory=Counted)
    acknowledged: set[bytes] = field(default_factory=set)
    acknowledged_last: set[bytes] = field(default_factory=set)
    last_life: bool = False
    refused: set[bytes] = field(default_factory=set)
    dead: Counted[bytes] = field(default_factory=Counted)
    moments: Counter = field(default_factory=Counter)
    transacted: Transacted = field(default_factory=Transacted)

    def violations(self) -> list[str]:
        """What must not be."""
        found = []
        done = self.acknowledged | self.dead.keys()
        if lost := self.confirmed - done:
            found.append(f"{len(lost)} confirmed messages are lost, one is {min(lost).decode()}")
        if unmarked := [body for body, times in self.first.items() if times > 1]:
            found.append(f"{len(unmarked)} messages were delivered again unmarked, one is {min(unmarked).decode()}")
        if strange := self.dead.keys() - self.refused:
            found.append(f"{len(strange)} dead letters were never refused, one is {min(strange).decode()}")
        if twice := [body for body, times in self.dead.items() if times > 1]:
            found.append(f"{len(twice)} dead letters are there twice, one is {min(twice).decode()}")
        # An acknowledgement of a life before may have been lost with it, and the message refused since.
        if both := self.dead.keys() & self.acknowledged_last:
            found.append(f"{len(both)} dead letters were in their queue too, one is {min(both).decode()}")
        return found + self.transacted.violations()


async def _declared(channel: Any) -> Any:
    await channel.declare_queue(DEAD, durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
    return await channel.declare_queue(WORK, durable=True, arguments=arguments)


async def publish(url: str, name: str, seen: Seen, random: Random, ends: asyncio.Event) -> None:
    """Publish and wait for confirms, so many at a time, until it is enough."""
    number = 0
    while not ends.is_set():
        try:
            async with await aio_pika.connect(url) as connection:
                channel = await connection.channel(publisher_confirms=True)
                await _declared(channel)
                while not ends.is_set():
                    bodies = [
                        b"%s-%d" % (name.encode(), number + each) for each in range(random.randint(1, MOST_AT_ONCE))
                    ]
                    number += len(bodies)
                    exchange = channel.default_exchange
                    confirms = [
                        asyncio.ensure_future(exchange.publish(aio_pika.Message(body), WORK)) for body in bodies
                    ]
                    results = await asyncio.gather(*confirms, return_exceptions=True)
                    stored = [
                        body
                        for body, result in zip(bodies, results, strict=True)
                        if not isinstance(result, BaseException)
                    ]
                    seen.confirmed.update(stored)
                    seen.moments.add(len(stored))
                    if len(stored) < len(bodies):
                        break
        except Exception as error:  # noqa: BLE001 - what is none of these is raised
            raise_unless_lost(error)
            await settle(POLL)


async def consume(url: str, seen: Seen, random: Random, quiet: float | None = None) -> None:
    """Take messages, and acknowledge, refuse or return them; with ``quiet`` until none comes for so long, else for ever."""
    while True:
        try:
            async with await aio_pika.connect(url) as connection:
                channel = await connection.channel()
                await channel.set_qos(prefetch_count=random.choice((1, 10, 300)))
                queue = await _declared(channel)
                async with queue.iterator(timeout=quiet) as messages:
                    async for message in messages:
                        await _settle(message, seen, random)
        except TimeoutError:
            if quiet is not None:
                return
        except Exception as error:  # noqa: BLE001 - what is none of these is raised
            raise_unless_lost(error)
            await settle(POLL)


async def _settle(message: Any, seen: Seen, random: Random) -> None:
    body = message.body
    if not message.redelivered:
        seen.first[body] += 1
    chance = random.random()
    if chance < REFUSED:
        # It is known before it is said: it may be dead, whatever the client hears.
        seen.refused.add(body)
        await message.reject(requeue=False)
    elif chance < REFUSED + RETURNED:
        await message.nack(requeue=True)
    else:
        # Likewise: the broker may have it though the client sees the connection's end.
        seen.acknowledged.add(body)
        if seen.last_life:
            seen.acknowledged_last.add(body)
        await message.ack()
    seen.moments.add(1)


async def read_dead(url: str, seen: Seen) -> None:
    """All dead letters."""
    async with await aio_pika.connect(url) as connection:
        queue = await (await connection.channel()).declare_queue(DEAD, passive=True)
        while (message := await queue.get(fail=False)) is not None:
            seen.dead[message.body] += 1
            await message.ack()


async def kill_amqp(kills: int, each_life: int, seed: int, directory: Path) -> tuple[Seen, list[str]]:
    """The clients go on through ``kills`` kills; what they saw, and what must not be."""
    random, seen, ends = Random(seed), Seen(), asyncio.Event()
    with closing(ReservedPort()) as port:
        url = f"amqp://guest:guest@{port.address}/"
        # Others may have a broker too: its address for HTTP is any.
        options = ["--data", str(directory), "--amqp", port.address, "--http", "127.0.0.1:0"]
        async with Broker(options) as broker:
            publishers = [
                asyncio.create_task(publish(url, f"p{each}", seen, Random(f"{seed} p{each}"), ends))
                for each in range(PUBLISHERS)
            ]
            consumers = [
                asyncio.create_task(consume(url, seen, Random(f"{seed} c{each}"))) for each in range(CONSUMERS)
            ]
            transacting = [
                *(
                    asyncio.create_task(feed(url, f"f{each}", seen.transacted, Random(f"{seed} f{each}"), ends))
                    for each in range(FEEDERS)
                ),
                *(
                    asyncio.create_task(move(url, seen.transacted, Random(f"{seed} m{each}"), ends))
                    for each in range(MOVERS)
                ),
            ]
            for _ in range(kills):
                await broker.start()
                async with asyncio.timeout(LIFE_SECONDS):
                    # One after another: the first transactions come when most others have had their share.
                    await seen.moments.more(random.randint(1, each_life))
                    await seen.transacted.moments.more(random.randint(0, max(1, each_life // A_TRANSACTION)))
                await broker.kill()
            seen.last_life = True
            await broker.start()
            ends.set()
            async with asyncio.timeout(LIFE_SECONDS):
                await asyncio.gather(*publishers, *transacting)
            for consumer in consumers:
                consumer.cancel()
            for error in await asyncio.gather(*consumers, return_exceptions=True):
                if isinstance(error, Exception):
                    raise_unless_lost(error)
            async with asyncio.timeout(LIFE_SECONDS):
                await consume(url, seen, random, QUIET_SECONDS)
                await read_dead(url, seen)
                await read_places(url, seen.transacted)
            found = seen.violations() + broker.defects
    return seen, found


def main(
    kills: Annotated[int, typer.Option(min=1)] = KILLS,
    each_life: Annotated[int, typer.Option(min=1)] = EACH_LIFE,
    seed: Annotated[int, typer.Option()] = 5672,
) -> None:
    """Run it once and say what it found."""
    with tempfile.TemporaryDirectory(prefix="penstock-amqp-") as folder:
        seen, found = asyncio.run(kill_amqp(kills, each_life, seed, Path(folder) / "data"))
    typer.echo(
        f"{kills} kills: {len(seen.confirmed)} messages confirmed, {len(seen.acknowledged)} acknowledged, "
        f"{len(seen.refused)} refused, {len(seen.dead)} dead; of transactions {len(seen.transacted.fed)} fed, "
        f"{seen.transacted.moves} moved, {len(seen.transacted.rolled_back)} rolled back"
    )
    for violation in found:
        typer.echo(violation)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    typer.run(main)
