"""``python -m tests.fault.kill_http``: kill -9 a broker while programs publish and take over HTTP; hold what they saw against it.

Everything that was answered 201 is taken at least once. Nothing whose acknowledgement was answered comes again. A receipt from before a
kill is refused by name: its message comes again, with another.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter as Times
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated, Any, Final

import aiohttp
import typer

from streams.testkit import settle
from tests.fault.kill_clients import Counter
from tests.fault.kill_process import Broker, ReservedPort

PUBLISHERS, TAKERS, KILLS = 4, 4, 20
MESSAGES: Final = 500
"""Of each publisher, for each kill: so many that none is done before the last."""
BETWEEN: Final = 120
"""Confirmations or acknowledgements, at most, between two kills."""
POLL: Final = 0.02
LIFE_SECONDS: Final = 120.0
QUEUE: Final = "/api/v1/queues/orders"
GONE: Final = (aiohttp.ClientError, ConnectionError, TimeoutError)
"""What a client sees of a broker that is killed."""


@dataclass
class Seen:
    """What the programs saw.

    Attributes:
        published: messages whose publish was answered 201.
        taken: how often each message was given to somebody.
        numbers: the numbers that the queue has for messages that were taken: a publish that was not answered is tried again.
        settled: the numbers of those whose acknowledgement was answered.
        confirmed: how many of the first; told as it grows.
        acknowledged: how many of the last, likewise.
        doubtful: acknowledgements that were not answered.
        stale: receipts from before a kill that were refused by name.
        expired: receipts whose time was over, likewise.
        violations: what must not be.
    """

    published: set[str] = field(default_factory=set)
    taken: Times[str] = field(default_factory=Times)
    numbers: set[int] = field(default_factory=set)
    settled: set[int] = field(default_factory=set)
    confirmed: Counter = field(default_factory=Counter)
    acknowledged: Counter = field(default_factory=Counter)
    doubtful: int = 0
    stale: int = 0
    expired: int = 0
    violations: list[str] = field(default_factory=list)

    def got(self, message: dict[str, Any], life: int) -> None:
        """Somebody was given a message."""
        payload, number = message["payload"], message["number"]
        self.taken[payload] += 1
        if number in self.settled:
            self.violations.append(f"{payload} came again in life {life}, behind the answer to its acknowledgement")
        if number in self.numbers and not message["possibly_replayed"]:
            self.violations.append(f"{payload} came again in life {life} and was not said to be possibly replayed")
        self.numbers.add(number)

    def judged(self) -> list[str]:
        """What must not be, at the end."""
        found = list(self.violations)
        if lost := self.published - self.taken.keys():
            found.append(f"{len(lost)} messages are lost, one of them {min(lost)}")
        if unknown := [each for each in self.taken if not each.startswith("p")]:
            found.append(f"nobody has sent {unknown[0]!r}")
        return found


class Programs:
    """Who publishes and who takes.

    Args:
        address: of the broker, host:port.
        seed: of what they choose.
        seen: where they say what they saw.
    """

    def __init__(self, address: str, seed: int, seen: Seen) -> None:
        self._url = f"http://{address}"
        self._seed = seed
        self._seen = seen
        self.life = 0
        self.over = asyncio.Event()

    async def publish(self, name: str, messages: int) -> None:
        """Publish so many, a few at a time, and each until it is answered 201."""
        random, number = Random(f"{self._seed} {name}"), 0
        async with aiohttp.ClientSession(self._url) as session:
            while number < messages:
                some = [
                    f"{name}/{each}" for each in range(number, min(number + random.choice((1, 1, 5, 50)), messages))
                ]
                body = {"messages": [{"payload": each} for each in some]}
                status, _ = await self._post(session, f"{QUEUE}/messages?wait=10s", body)
                if status == 201:
                    self._seen.published.update(some)
                    self._seen.confirmed.add(len(some))
                    number += len(some)

    async def take(self, name: str) -> None:
        """Take and acknowledge until all is over; sometimes be gone in between, or return, or be late."""
        random = Random(f"{self._seed} {name}")
        async with aiohttp.ClientSession(self._url) as session:
            while not self.over.is_set():
                asked = {"messages": random.choice((1, 10, 100)), "wait": "1s", "visibility": "5s"}
                life = self.life
                status, answer = await self._post(session, f"{QUEUE}/take", asked, random.choice((None, None, 0.05)))
                if status != 200:
                    continue
                for each in answer["messages"]:
                    self._seen.got(each, self.life)
                if answer["messages"]:
                    await self._settle(session, answer["messages"], random, life)

    async def _settle(self, session: Any, messages: list[dict[str, Any]], random: Random, life: int) -> None:
        payloads = {each["receipt"]: each["number"] for each in messages}
        if random.random() < 0.2:
            await self._post(session, f"{QUEUE}/return", {"receipts": list(payloads), "failed": False})
            return
        said, asked_in = {"receipts": list(payloads)}, self.life
        status, answer = await self._post(session, f"{QUEUE}/acknowledge", said)
        if status is None:
            # The broker was killed meanwhile. They are of a life that is over: the next says so, or has forgotten them.
            self._seen.doubtful += len(payloads)
            while status is None and not self.over.is_set():
                asked_in = self.life
                status, answer = await self._post(session, f"{QUEUE}/acknowledge", said)
            if status is None:
                return
        elif status != 200 and len(payloads) > 1:
            self._seen.violations.append(f"{len(payloads)} acknowledgements were answered {status}: {answer}")
            return
        problems = answer.get("problems", [{"receipt": next(iter(payloads)), "code": answer.get("code")}])
        for problem in problems:
            payloads.pop(problem["receipt"])
            if problem["code"] == "stale-receipt":
                self._seen.stale += 1
                if self.life == life:
                    self._seen.violations.append("a receipt of this life was called stale")
            elif problem["code"] == "receipt-expired":
                self._seen.expired += 1
            elif problem["code"] != "receipt-gone":
                self._seen.violations.append(f"a receipt was refused as {problem}")
        if asked_in > life and payloads:
            self._seen.violations.append(f"{len(payloads)} receipts of life {life} were taken in life {asked_in}")
        self._seen.settled.update(payloads.values())
        if payloads:
            self._seen.acknowledged.add(len(payloads))

    async def _post(self, session: Any, path: str, body: Any, patience: float | None = None) -> tuple[int | None, Any]:
        """Status and JSON of an answer; None where there was none, for the broker or the caller was gone."""
        try:
            async with asyncio.timeout(patience or 30), session.post(path, json=body) as answer:
                return answer.status, await answer.json(content_type=None)
        except GONE:
            if patience is None:
                await settle(POLL)
            return None, None


async def kill_http(kills: int, seed: int, directory: Path, messages: int = MESSAGES) -> tuple[Seen, list[str]]:
    """The programs go on through so many kills, at moments that the seed picks; what they saw, and what must not be."""
    random, seen = Random(seed), Seen()
    with closing(ReservedPort()) as port:
        async with Broker(["--data", str(directory), "--http", port.address]) as broker, asyncio.TaskGroup() as group:
            programs = Programs(port.address, seed, seen)
            total = messages * kills // PUBLISHERS
            publishing = [group.create_task(programs.publish(f"p{n}", total)) for n in range(PUBLISHERS)]
            taking = [group.create_task(programs.take(f"t{n}")) for n in range(TAKERS)]
            for _ in range(kills):
                programs.life += 1
                await broker.start()
                counter = random.choice((seen.confirmed, seen.acknowledged))
                if not all(each.done() for each in publishing):
                    async with asyncio.timeout(LIFE_SECONDS):
                        await counter.more(random.randint(1, BETWEEN))
                await broker.kill()
            programs.life += 1
            await broker.start()
            async with asyncio.timeout(LIFE_SECONDS):
                await asyncio.gather(*publishing)
                while await _left(port.address):
                    await settle(POLL)
            programs.over.set()
            await asyncio.gather(*taking)
            seen.violations += broker.defects
            await broker.stop()
    return seen, seen.judged()


async def _left(address: str) -> int:
    """Messages that the queue still has."""
    async with aiohttp.ClientSession(f"http://{address}") as session, session.get(QUEUE) as answer:
        row = await answer.json(content_type=None)
        return int(row["stored_messages"])


def main(
    kills: Annotated[int, typer.Option(min=1)] = KILLS,
    seed: Annotated[int, typer.Option()] = 6211,
) -> None:
    """Run it once and say what it found."""
    with tempfile.TemporaryDirectory(prefix="penstock-http-") as folder:
        seen, found = asyncio.run(kill_http(kills, seed, Path(folder) / "data"))
    again = sum(times - 1 for times in seen.taken.values())
    typer.echo(
        f"{kills} kills: {len(seen.published)} messages answered 201, {seen.taken.total()} deliveries, {again} of them again, "
        f"{len(seen.settled)} acknowledged, {seen.stale} stale and {seen.expired} expired receipts refused by name"
    )
    for violation in found[:20]:
        typer.echo(violation)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    typer.run(main)
