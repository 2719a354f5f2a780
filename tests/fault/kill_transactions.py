"""The clients of `kill_amqp` that use transactions: each message has a number that says to which group it belongs, and how many that has.

Feeders publish a group at a time, in a transaction. Movers take messages and, in a transaction, publish each to two queues and
acknowledge it, refuse it, or return it; now and then they roll all of that back. So a message is in one place at any time: where it
came, in both queues, or among the dead letters. A transaction of which half was kept shows: a message is in no place, in two, or in
one of the two queues, or a group is not whole.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Counted
from dataclasses import dataclass, field
from random import Random
from typing import Any

import aio_pika
from aio_pika.exceptions import AMQPError

from streams.testkit import settle
from tests.fault.kill_clients import Counter

IN, LEFT, RIGHT, REFUSED = "tx-in", "tx-left", "tx-right", "tx-dead"
PLACES = (IN, LEFT, RIGHT, REFUSED)
FEEDERS, MOVERS = 2, 2
MOST_IN_A_GROUP, MOST_MOVED = 20, 8
ROLLED_BACK, REFUSES, RETURNS = 0.1, 0.05, 0.1
"""Of the transactions, and of the deliveries."""
POLL = 0.02
LOST = (AMQPError, ConnectionError, OSError, RuntimeError, asyncio.TimeoutError)
"""What a client of aio-pika may see of a broker that is killed."""


def raise_unless_lost(error: Exception) -> None:
    """Raise what is no broker that is gone; aiormq has a bare Exception for that too."""
    if not isinstance(error, LOST) and type(error) is not Exception:
        raise error


@dataclass(slots=True)
class Transacted:
    """What these clients saw.

    Attributes:
        fed: groups whose commit was answered.
        rolled_back: groups that were taken back, or whose transaction was never committed.
        moves: transactions of movers whose commit was answered.
        found: how often each message was in each place at the end.
        moments: how many transactions have ended.
    """

    fed: set[bytes] = field(default_factory=set)
    rolled_back: set[bytes] = field(default_factory=set)
    moves: int = 0
    moments: Counter = field(default_factory=Counter)
    found: dict[str, Counted[bytes]] = field(default_factory=lambda: {place: Counted() for place in PLACES})

    def violations(self) -> list[str]:
        """What must not be."""
        found = []
        left, right = self.found[LEFT], self.found[RIGHT]
        if halves := [body for body in left | right if left[body] != right[body]]:
            found.append(f"{len(halves)} messages are in one of two queues, one is {min(halves).decode()}")
        places = self.found[IN] + left + self.found[REFUSED]
        if twice := [body for body, times in places.items() if times > 1]:
            found.append(f"{len(twice)} messages of transactions are in two places, one is {min(twice).decode()}")
        groups: Counted[bytes] = Counted(group_of(body) for body in places)
        if partial := [group for group, count in groups.items() if count != size_of(group)]:
            found.append(f"{len(partial)} transactions are there by half, one is {min(partial).decode()}")
        if lost := self.fed - groups.keys():
            found.append(f"{len(lost)} committed transactions are lost, one is {min(lost).decode()}")
        if back := self.rolled_back & groups.keys():
            found.append(f"{len(back)} transactions are there that were rolled back, one is {min(back).decode()}")
        return found


def bodies_of(name: str, number: int, size: int) -> list[bytes]:
    """A group's messages."""
    return [b"%s.%d.%d-%d" % (name.encode(), number, size, each) for each in range(size)]


def group_of(body: bytes) -> bytes:
    """The group that a message belongs to."""
    return body.rpartition(b"-")[0]


def size_of(group: bytes) -> int:
    """How many messages a group has."""
    return int(group.rpartition(b".")[2])


async def _declared(channel: Any) -> Any:
    for name in (LEFT, RIGHT, REFUSED):
        await channel.declare_queue(name, durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": REFUSED}
    return await channel.declare_queue(IN, durable=True, arguments=arguments)


async def feed(url: str, name: str, seen: Transacted, random: Random, ends: asyncio.Event) -> None:
    """Publish groups, each in a transaction, until it is enough."""
    number = 0
    while not ends.is_set():
        try:
            async with await aio_pika.connect(url) as connection:
                channel = await connection.channel(publisher_confirms=False)
                await _declared(channel)
                transaction = channel.transaction()
                await transaction.select()
                while not ends.is_set():
                    bodies = bodies_of(name, number, random.randint(1, MOST_IN_A_GROUP))
                    number += 1
                    for body in bodies:
                        await channel.default_exchange.publish(aio_pika.Message(body), IN)
                    if random.random() < ROLLED_BACK:
                        seen.rolled_back.add(group_of(bodies[0]))
                        await transaction.rollback()
                    else:
                        await transaction.commit()
                        seen.fed.add(group_of(bodies[0]))
                    seen.moments.add(1)
                    await settle(random.random() * POLL)
        except Exception as error:  # noqa: BLE001 - what is none of these is raised
            raise_unless_lost(error)
            await settle(POLL)


async def move(url: str, seen: Transacted, random: Random, ends: asyncio.Event) -> None:
    """Take messages and publish each to two queues, in transactions, until it is enough."""
    while not ends.is_set():
        try:
            async with await aio_pika.connect(url) as connection:
                channel = await connection.channel(publisher_confirms=False)
                queue = await _declared(channel)
                transaction = channel.transaction()
                await transaction.select()
                while not ends.is_set():
                    taken = await _taken(queue, random.randint(1, MOST_MOVED))
                    if not taken:
                        await settle(POLL)
                        continue
                    if random.random() < ROLLED_BACK:
                        for message in taken:
                            await _moved(channel, message, random)
                        await transaction.rollback()
                    for message in taken:
                        await _moved(channel, message, random)
                    await transaction.commit()
                    seen.moves += 1
                    seen.moments.add(1)
        except Exception as error:  # noqa: BLE001 - what is none of these is raised
            raise_unless_lost(error)
            await settle(POLL)


async def _taken(queue: Any, most: int) -> list[Any]:
    found: list[Any] = []
    while len(found) < most and (message := await queue.get(fail=False)) is not None:
        found.append(message)
    return found


async def _moved(channel: Any, message: Any, random: Random) -> None:
    """Said on the channel itself: aio-pika settles a message once, and here it is settled again behind a rollback."""
    aiormq = await channel.get_underlay_channel()
    chance = random.random()
    if chance < REFUSES:
        await aiormq.basic_reject(message.delivery_tag, requeue=False)
    elif chance < REFUSES + RETURNS:
        await aiormq.basic_nack(message.delivery_tag, requeue=True)
    else:
        for place in (LEFT, RIGHT):
            await channel.default_exchange.publish(aio_pika.Message(message.body), place)
        await aiormq.basic_ack(message.delivery_tag)


async def read_places(url: str, seen: Transacted) -> None:
    """All that there is at the end."""
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel()
        await _declared(channel)
        for place, found in seen.found.items():
            queue = await channel.declare_queue(place, passive=True)
            while (message := await queue.get(fail=False, no_ack=True)) is not None:
                found[message.body] += 1
