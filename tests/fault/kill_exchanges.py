"""``python -m tests.fault.kill_exchanges``: kill -9 a broker while eight senders publish through every kind of exchange to five queues.

Two of the queues are bound alike, by a fanout exchange, and nobody takes from them before the end: they must have the same messages in
the same order, for each record is in both or in neither. From two others a receiver takes all the time. At the end everything is
received: nothing confirmed is missing from any queue that it was routed to, nothing is where no binding leads, and what came twice is
marked. A life of the broker ends as so many messages are confirmed, or as files change.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from streams import Sink, Source
from tests.fault.kill_clients import Counter
from tests.fault.kill_process import ROOT, Broker, BrokerDiedError, DirectoryWatch
from transport import Administration, Backoff, Delivery, Message, MessageBatch, Receiver, Sender, TransportError
from transport.clients.sender_session import Confirmation

ALIKE = ("alike-1", "alike-2")
DRAINED = ("drained-1", "drained-2")
QUEUES = (*ALIKE, *DRAINED, "late")
EXCHANGES = {
    "k.direct": "direct",
    "k.fanout": "fanout",
    "k.topic": "topic",
    "k.headers": "headers",
    "k.inner": "fanout",
}
PLACES = ("k.direct", "k.fanout", "k.topic", "k.headers", "", "k.fanout", "k.topic", "k.direct")
"""Where each of the eight senders publishes."""
KEYS = ("eu.tea", "us.tea", "eu.soup")
PATIENT = Backoff(0.02, 0.5, give_up_after=60.0)
LARGEST_BATCH = 20
MOST_EVENTS = 1_500
MOST_FILE_EVENTS = 8
SEGMENT_BYTES = 256 * 1024
LIFE_SECONDS = 60.0
DRAIN_SECONDS = 120.0
REPORT_EVERY = 20
IN_FLIGHT = 400
"""Messages of a sender that are not confirmed, at most."""


def routed(exchange: str, key: str, kind: str) -> tuple[str, ...]:
    """The queues that a message goes to, said without any index; `define` binds so."""
    if exchange == "":
        return (key,)
    if exchange == "k.fanout":
        return ALIKE
    if exchange == "k.direct":
        return {"eu.tea": ("drained-1", "late"), "us.tea": ("drained-2",), "eu.soup": ALIKE}[key]
    if exchange == "k.topic":
        return (*(["drained-1"] if key.startswith("eu.") else []), *(["late"] if key.endswith(".tea") else []))
    return ("drained-2", "late") if kind == "tea" else ALIKE


async def define(administration: Administration) -> None:
    """Make the queues and exchanges, and bind them."""
    for queue in QUEUES:
        await administration.create_queue(queue)
    for name, kind in EXCHANGES.items():
        await administration.declare_exchange(name, kind, internal=name == "k.inner")
    bind = administration.bind
    for queue in ALIKE:
        await bind("k.fanout", queue)
        await bind("k.inner", queue)
    await bind("k.direct", "k.inner", "eu.soup", to_exchange=True)
    await bind("k.headers", "k.inner", "", {"kind": "soup"}, to_exchange=True)
    for queue in ("drained-1", "late"):
        await bind("k.direct", queue, "eu.tea")
    await bind("k.direct", "drained-2", "us.tea")
    await bind("k.topic", "drained-1", "eu.#")
    await bind("k.topic", "late", "*.tea")
    for queue in ("drained-2", "late"):
        await bind("k.headers", queue, "", {"kind": "tea", "x-match": "any"})


@dataclass(slots=True)
class Found:
    """What a run found.

    Attributes:
        kills: how often the broker was killed.
        confirmed: messages.
        received: messages of all queues, without those that came again.
        again: messages that came again, and were marked.
        violations: what must not be.
    """

    kills: int = 0
    confirmed: int = 0
    received: int = 0
    again: int = 0
    violations: list[str] = field(default_factory=list)


class Publisher:
    """Publishes numbered messages until it is told to end, through all lives of the broker."""

    def __init__(self, number: int, random: Random, confirmations: Counter) -> None:
        self.number = number
        self.exchange = PLACES[number]
        self.sent: list[tuple[bytes, tuple[str, ...]]] = []
        self.confirmed = 0
        self.ending = False
        self._random = random
        self._confirmations = confirmations

    async def run(self, address: str) -> None:
        """Until the end, when all is confirmed."""
        sender = Sender(
            address, exchange=self.exchange, client_id=f"p{self.number}", max_in_flight=IN_FLIGHT, reconnect=PATIENT
        )
        running = Source.queue(1).via(sender).to(Sink.foreach(self._confirm)).run()
        while not self.ending:
            await running.value.offer_wait(self._batch())
        running.value.complete()
        await running

    def _batch(self) -> MessageBatch:
        messages = []
        for _ in range(self._random.randint(1, LARGEST_BATCH)):
            payload = b"%d/%d/" % (self.number, len(self.sent)) + bytes(self._random.randrange(200))
            key = self._random.choice(KEYS if self.exchange else QUEUES)
            kind = self._random.choice(("tea", "soup"))
            messages.append(Message(payload, routing_key=key, headers={"kind": kind}))
            self.sent.append((payload, routed(self.exchange, key, kind)))
        return MessageBatch.from_messages(messages)

    def _confirm(self, confirmation: Confirmation) -> None:
        assert confirmation.rejected is None
        self.confirmed += confirmation.count
        self._confirmations.add(confirmation.count)


class Taker:
    """Takes everything of a queue, and acknowledges it."""

    def __init__(self, queue: str, found: Found) -> None:
        self.queue = queue
        self.numbers: dict[int, bytes] = {}
        self.deliveries = Counter()
        self._found = found

    async def run(self, address: str) -> None:
        """Until it is cancelled."""
        await Receiver(address, queue=self.queue, reconnect=PATIENT).to(Sink.foreach(self._take)).run()

    def _take(self, delivery: Delivery) -> None:
        before = self.numbers.get(delivery.sequence)
        if before is None:
            self.numbers[delivery.sequence] = bytes(delivery.payload)
        elif before != delivery.payload:
            self._found.violations.append(f"{self.queue}/{delivery.sequence} was {before[:20]!r}, and is another")
        elif delivery.delivery_count < 2 and not delivery.possibly_replayed:
            self._found.violations.append(f"{self.queue}/{delivery.sequence} came again, and is not marked")
        else:
            self._found.again += 1
        delivery.acknowledge()
        self.deliveries.add(1)


async def kill_exchanges(kills: int, seed: int, directory: Path, report: Callable[[str], None]) -> Found:
    """Kill a broker so often while eight senders publish; ``directory``, which is there, is its own.

    Raises:
        BrokerDiedError: it ended by itself.
        TransportError: a client gave up.
        TimeoutError: nothing went on.
    """
    random = Random(seed)
    found = Found()
    confirmations, files = Counter(), Counter()
    publishers = [Publisher(number, Random(random.random()), confirmations) for number in range(len(PLACES))]
    takers = {queue: Taker(queue, found) for queue in QUEUES}
    watch = DirectoryWatch(directory, files.add)
    tasks: list[asyncio.Task[None]] = []
    try:
        async with Broker(["--data", str(directory), "--segment-bytes", str(SEGMENT_BYTES)]) as broker:
            await broker.start()
            async with Administration(broker.send_address) as administration:
                await define(administration)
            publishing = [asyncio.create_task(each.run(broker.send_address)) for each in publishers]
            tasks += publishing
            tasks += [asyncio.create_task(takers[queue].run(broker.receive_address)) for queue in DRAINED]
            for number in range(1, kills + 1):
                counter, most = random.choice([(confirmations, MOST_EVENTS), (files, MOST_FILE_EVENTS)])
                await _well(counter.more(random.randint(1, most)), tasks)
                await broker.kill()
                found.kills += 1
                await broker.start()
                if number % REPORT_EVERY == 0:
                    report(f"{number} kills: {sum(each.confirmed for each in publishers)} messages confirmed")
            for each in publishers:
                each.ending = True
            async with asyncio.timeout(LIFE_SECONDS):
                await asyncio.gather(*publishing)
            taking = [queue for queue in QUEUES if queue not in DRAINED]
            tasks += [asyncio.create_task(takers[queue].run(broker.receive_address)) for queue in taking]
            await _drained(broker, takers)
            await _end(tasks)
            await broker.stop()
            found.violations += broker.defects
    finally:
        await _end(tasks)
        watch.close()
    _judge(publishers, takers, found)
    return found


async def _well(wanted: Any, tasks: list[asyncio.Task[None]]) -> None:
    """Wait for what is wanted; what ends a client ends the run."""
    waiting = asyncio.ensure_future(wanted)
    try:
        async with asyncio.timeout(LIFE_SECONDS):
            await asyncio.wait((waiting, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        waiting.cancel()


async def _drained(broker: Broker, takers: dict[str, Taker]) -> None:
    """Wait until no queue has anything left; each delivery may have been the last."""
    async with asyncio.timeout(DRAIN_SECONDS), Administration(broker.send_address) as administration:
        while True:
            left = {row["name"]: row["stored_messages"] for row in await administration.queues()}
            if not any(left.values()):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    await takers[max(left, key=lambda name: int(left[name]))].deliveries.more(1)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _judge(publishers: list[Publisher], takers: dict[str, Taker], found: Found) -> None:
    """Each queue has, once and in each sender's order, what was routed to it, and nothing else."""
    found.confirmed = sum(each.confirmed for each in publishers)
    for queue, taker in takers.items():
        got = [taker.numbers[number] for number in sorted(taker.numbers)]
        found.received += len(got)
        for each in publishers:
            mine = [payload for payload in got if payload.startswith(b"%d/" % each.number)]
            wanted = [payload for payload, queues in each.sent if queue in queues]
            if mine != wanted:
                missing, twice = len(set(wanted) - set(mine)), len(mine) - len(set(mine))
                astray = len(set(mine) - set(wanted))
                text = f"{queue} of sender {each.number}: {missing} missing, {twice} twice, {astray} astray, or in another order"
                found.violations.append(text)
    # What goes through the default exchange is of one of them alone.
    contents = [
        [taker.numbers[at] for at in sorted(taker.numbers) if not taker.numbers[at].startswith(b"4/")]
        for taker in (takers[queue] for queue in ALIKE)
    ]
    if contents[0] != contents[1]:
        found.violations.append(
            f"{ALIKE[0]} and {ALIKE[1]} are bound alike, and hold {len(contents[0])} and {len(contents[1])} in other orders"
        )


def main(
    kills: Annotated[int, typer.Option(min=1, metavar="N", help="Kills.")] = 100,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Of all random choices; a new one by default.")] = None,
) -> None:
    """Kill a broker while eight senders publish to exchanges, and tell what was lost, doubled, or in some queues only."""
    seed = secrets.randbits(32) if seed is None else seed

    def report(text: str) -> None:
        sys.stderr.write(f"kill_exchanges: {text}\n")
        sys.stderr.flush()

    report(f"--kills {kills} --seed {seed}")
    # Each client warns whenever the broker is away, which is what this is about.
    logging.getLogger("penstock.transport").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="penstock-exchanges-", dir=ROOT) as folder:
        try:
            found = asyncio.run(kill_exchanges(kills, seed, Path(folder), report))
        except (BrokerDiedError, TransportError, TimeoutError) as error:
            report(f"seed {seed}: {type(error).__name__}: {error}")
            raise typer.Exit(1) from None
    report(f"{found.kills} kills, {found.confirmed} confirmed, {found.received} received, {found.again} of them again")
    for text in found.violations:
        report(f"VIOLATION {text}")
    raise typer.Exit(1 if found.violations else 0)


if __name__ == "__main__":
    typer.run(main)
