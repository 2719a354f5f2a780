"""``python -m tests.fault.kill_smq``: kill -9 a broker while a source and a sink of SMQ go on; hold what they saw against it.

The client is the independent one, written from the wire's description. A source that loses its connection sends again what was not
confirmed, and a sink connects again: all that its users can do. So nothing confirmed may be missing, and the order may go back only where a
kill had one of them begin again.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from streams.testkit import settle
from tests.fault.kill_clients import Counter
from tests.fault.kill_process import Broker, ReservedPort
from tests.transport.gateways.smq_client import Delivery, EndedError, Sink, Source
from transport.wire.address import parse_address

MESSAGES, KILLS = 100_000, 3
MOST_AT_ONCE = 40
"""Messages that the source pipelines: as often one at a time, as the original does, as more."""
POLL = 0.01
LIFE_SECONDS = 120.0
"""In which a life must come to its end."""


@dataclass(slots=True)
class Seen:
    """What the clients saw.

    Attributes:
        confirmed: how many messages, from the first on.
        taken: how many deliveries.
        resent: how many were sent again.
        deliveries: in order.
    """

    confirmed: Counter = field(default_factory=Counter)
    taken: Counter = field(default_factory=Counter)
    resent: int = 0
    deliveries: list[Delivery] = field(default_factory=list)

    def violations(self, messages: int, kills: int) -> list[str]:
        """What must not be."""
        found = []
        numbers = [int(each.payload.split(b" ")[0]) for each in self.deliveries]
        if missing := set(range(messages)) - set(numbers):
            found.append(f"{len(missing)} messages are lost, the first is {min(missing)}")
        if list(dict.fromkeys(numbers)) != list(range(messages)) and not missing:
            found.append("messages came out of order, beyond what was sent or delivered again")
        jumps = [(before, after) for before, after in pairwise(numbers) if after != before + 1]
        if any(after > before for before, after in jumps):
            found.append(f"messages were passed over: {[pair for pair in jumps if pair[1] > pair[0]][:3]}")
        if len(jumps) > 2 * kills:
            found.append(f"the order goes back {len(jumps)} times at {kills} kills")
        ids: dict[bytes, int] = {}
        for delivery, number in zip(self.deliveries, numbers, strict=True):
            if ids.setdefault(delivery.id, number) != number:
                found.append(f"two messages have the id {delivery.id.hex()}")
        known: set[tuple[bytes, int]] = set()
        for delivery, number in zip(self.deliveries, numbers, strict=True):
            if (delivery.id, number) in known and delivery.kind != b"R":
                found.append(f"message {number} came again and was not said to be possibly replayed")
            known.add((delivery.id, number))
        return found


def payload(number: int) -> bytes:
    return b"%d " % number + b"x" * (number * 37 % 1000)


async def send_all(address: str, messages: int, seen: Seen, random: Random) -> None:
    """Until all are confirmed; what is not is sent again after a lost connection."""
    while seen.confirmed.value < messages:
        try:
            source = await Source.connect(parse_address(address))
        except OSError:
            await settle(POLL)
            continue
        try:
            while (first := seen.confirmed.value) < messages:
                count = min(random.choice((1, random.randint(2, MOST_AT_ONCE))), messages - first)
                for number in range(first, first + count):
                    source.say(payload(number))
                seen.resent += count
                for _ in range(count):
                    await source.accepted()
                    seen.confirmed.add(1)
                    seen.resent -= 1
            source.end()
            await source.rest()
        except (EndedError, ConnectionError):
            continue
        finally:
            source.vanish()


async def take_all(address: str, messages: int, seen: Seen) -> None:
    """Until the last message was delivered and accepted."""
    while not seen.deliveries or int(seen.deliveries[-1].payload.split(b" ")[0]) != messages - 1:
        try:
            sink = await Sink.connect(parse_address(address))
        except OSError:
            await settle(POLL)
            continue
        try:
            while True:
                delivery = await sink.delivered()
                seen.deliveries.append(delivery)
                seen.taken.add(1)
                sink.yes()
                if delivery.payload == payload(messages - 1):
                    break
        except (EndedError, ConnectionError):
            continue
        finally:
            sink.vanish()


async def kill_smq(messages: int, kills: int, seed: int, directory: Path) -> tuple[Seen, list[str]]:
    """The clients go on through ``kills`` kills, at moments that the seed picks; what they saw, and what must not be."""
    random = Random(seed)
    seen = Seen()
    with closing(ReservedPort()) as source_port, closing(ReservedPort()) as sink_port:
        addresses = ["--smq-source", source_port.address, "--smq-sink", sink_port.address]
        async with Broker(["--data", str(directory), *addresses]) as broker, asyncio.TaskGroup() as group:
            sending = group.create_task(send_all(source_port.address, messages, seen, random))
            group.create_task(take_all(sink_port.address, messages, seen))
            for number in range(kills):
                await broker.start()
                # A source that has been confirmed everything has no more moments to offer.
                counter = random.choice([each for each in (seen.confirmed, seen.taken) if each.value < messages])
                least = messages * (number + 1) // (kills + 1) - random.randint(0, messages // (2 * kills + 2))
                async with asyncio.timeout(LIFE_SECONDS):
                    await counter.more(max(1, least - counter.value))
                await broker.kill()
            await broker.start()
            async with asyncio.timeout(LIFE_SECONDS * 2):
                await sending
    return seen, seen.violations(messages, kills)


def main(
    messages: Annotated[int, typer.Option(min=10)] = MESSAGES,
    kills: Annotated[int, typer.Option(min=1)] = KILLS,
    seed: Annotated[int, typer.Option()] = 6211,
) -> None:
    """Run it once and say what it found."""
    with tempfile.TemporaryDirectory(prefix="penstock-smq-") as folder:
        seen, found = asyncio.run(kill_smq(messages, kills, seed, Path(folder) / "data"))
    replays = sum(each.kind == b"R" for each in seen.deliveries)
    typer.echo(
        f"{kills} kills: {messages} messages confirmed, {seen.resent} sent again, {len(seen.deliveries)} delivered, {replays} as R"
    )
    for violation in found:
        typer.echo(violation)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    typer.run(main)
