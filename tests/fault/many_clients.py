"""``python -m tests.fault.many_clients``: thousands of honest clients of one broker meet in one turn, and none is cut.

Each scenario has so many clients of each role, raw ones and the library's, every one under a name of 255 bytes. All are connected first;
then all of a role speak at once. The first scenario is the one that the product promises; the others are generated.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer

from streams import Sink, Source
from tests.fault.kill_process import ROOT, Broker, BrokerDiedError
from tests.fault.raw_clients import (
    Crowd,
    CutError,
    Meeting,
    ask_one,
    long_name,
    raise_file_limit,
    receive_one,
    reserve_one,
    send_one,
    stage_one,
)
from transport import Administration, Receiver, Sender, TransportError
from transport.clients.backoff import Backoff

MOST = 3_000
"""Clients of one role in a generated scenario."""
PROMISED_RAW, PROMISED_LIBRARY = 3_000, 2_500
SUBSCRIPTIONS_A_QUEUE = 500
"""Half of what one queue may have."""
SECONDS = 240.0
"""For a whole scenario: some ten times what it takes on an idle machine."""
PATIENCE = Backoff(give_up_after=None)


@dataclass(frozen=True, slots=True)
class Scenario:
    """How many clients of each role; as many receivers as there are messages, at most."""

    senders: int = 0
    library_senders: int = 0
    stagers: int = 0
    receivers: int = 0
    library_receivers: int = 0
    subscribers: int = 0
    administrators: int = 0

    @property
    def messages(self) -> int:
        """What the queue gets."""
        return self.senders + self.library_senders + self.stagers

    @property
    def most_at_once(self) -> int:
        """Connections that are open at one time, about."""
        return self.messages + self.stagers + self.receivers + self.library_receivers + 2 * self.subscribers + 10


def generated(random: Random) -> Scenario:
    """Counts of every size: one client as well as thousands."""
    senders, library, stagers, first, second, subscribers, administrators = (
        round(MOST ** random.random()) for _ in range(7)
    )
    receivers = min(first, senders + library + stagers)
    library_receivers = min(second, senders + library + stagers - receivers)
    return Scenario(senders, library, stagers, receivers, library_receivers, subscribers, administrators)


async def run(scenario: Scenario, send_address: str, receive_address: str, queue: str = "crowd") -> dict[str, float]:
    """Have the clients of a scenario meet; returns the seconds of each meeting.

    Raises:
        CutError: a client was refused, cut, or not answered as it should be, or messages are missing at the end.
    """
    crowd = Crowd(send_address, receive_address)
    took: dict[str, float] = {}

    async def phase(name: str, count: int, work: Callable[[Meeting], list[Coroutine[Any, Any, Any]]]) -> None:
        began = time.monotonic()
        if count:
            await _all(Meeting(count), work)
        took[name] = time.monotonic() - began

    s = scenario
    library = _LibraryClients(send_address, receive_address, queue)
    try:
        await phase(
            "senders",
            s.messages,
            lambda meeting: [
                *(send_one(crowd, meeting, queue, number) for number in range(s.senders)),
                *(library.send(meeting, number) for number in range(s.library_senders)),
                *(stage_one(crowd, meeting, queue, number) for number in range(s.stagers)),
            ],
        )
        await _check(send_address, queue, total_in=s.messages, stored_messages=s.messages)
        await phase(
            "receivers",
            s.receivers + s.library_receivers,
            lambda meeting: [
                *(receive_one(crowd, meeting, queue, number) for number in range(s.receivers)),
                *(library.receive(meeting) for number in range(s.library_receivers)),
            ],
        )
        ledgers = [f"{queue}-{number // SUBSCRIPTIONS_A_QUEUE}" for number in range(s.subscribers)]
        await phase(
            "feeders",
            len(ledgers),
            lambda meeting: [send_one(crowd, meeting, name, number) for number, name in enumerate(ledgers)],
        )
        await phase(
            "subscribers",
            len(ledgers),
            lambda meeting: [reserve_one(crowd, meeting, name, number) for number, name in enumerate(ledgers)],
        )
        for name in dict.fromkeys(ledgers):
            await _check(send_address, name, stored_messages=0)
        await phase(
            "administrators",
            s.administrators,
            lambda meeting: [ask_one(crowd, meeting, "asked", number) for number in range(s.administrators)],
        )
        await _check(send_address, queue, total_in=s.messages)
    finally:
        crowd.close()
    return took


class _LibraryClients:
    """The library's own, which come back where they are cut: so a reconnect is a failure too."""

    def __init__(self, send_address: str, receive_address: str, queue: str) -> None:
        self._send_address, self._receive_address, self._queue = send_address, receive_address, queue

    async def send(self, meeting: Meeting, number: int) -> None:
        async def payload() -> bytes:
            await meeting.say(lambda: None)
            return b"library"

        name = long_name("library", number)
        sender = Sender(self._send_address, queue=self._queue, client_id=name, reconnect=PATIENCE)
        summary = await Source.future(payload).to(sender).run()
        if (summary.messages, summary.reconnects, summary.resent) != (1, 0, 0):
            raise CutError(f"{name:.40}: {summary}")

    async def receive(self, meeting: Meeting) -> None:
        await meeting.say(lambda: None)
        receiver = Receiver(self._receive_address, queue=self._queue, max_in_flight=1, limit=1, reconnect=PATIENCE)
        await receiver.to(Sink.acknowledge()).run()


async def _all(meeting: Meeting, work: Callable[[Meeting], list[Coroutine[Any, Any, Any]]]) -> None:
    """Run the clients of a phase; the first that fails ends all, those who wait for it among them."""

    async def one(client: Awaitable[Any]) -> None:
        try:
            await client
        except BaseException as error:
            meeting.fail(error)
            raise

    try:
        async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
            for client in work(meeting):
                group.create_task(one(client))
    except BaseExceptionGroup as errors:
        # Not `except*`: before Python 3.11.4 what is raised in it is wrapped in a group.
        cut, other = errors.split((CutError, TransportError, OSError))
        if cut is None or other is not None:
            raise
        raise CutError(f"{len(cut.exceptions)} clients failed, the first: {cut.exceptions[0]!r}") from None


async def _check(address: str, queue: str, **expected: int) -> None:
    async with Administration(address) as administration:
        (facts,) = [one for one in await administration.queues() if one["name"] == queue]
    found = {name: facts[name] for name in expected}
    if found != expected:
        raise CutError(f"queue {queue} has {found}, where {expected} were confirmed")


async def with_broker(scenario: Scenario, directory: Path) -> dict[str, float]:
    """A scenario on a broker of its own, in a process of its own, with a journal."""
    async with Broker(["--data", str(directory), "--max-connections", "30000"]) as broker:
        await broker.start()
        took = await run(scenario, broker.send_address, broker.receive_address)
        await broker.stop()
    return took


def main(
    scenarios: Annotated[int, typer.Option(min=1, metavar="N", help="How many; the first is the promised one.")] = 4,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Of the generated ones; a new one by default.")] = None,
) -> None:
    """Have thousands of honest clients meet, and tell which of them were cut."""
    seed = secrets.randbits(32) if seed is None else seed
    random = Random(seed)
    plan = [Scenario(senders=PROMISED_RAW, library_senders=PROMISED_LIBRARY)]
    plan += [generated(random) for _ in range(scenarios - 1)]
    raise_file_limit(max(one.most_at_once for one in plan))
    sys.stdout.write(f"many_clients: --scenarios {scenarios} --seed {seed}\n")
    failed = 0
    for scenario in plan:
        with tempfile.TemporaryDirectory(prefix="penstock-many-", dir=ROOT) as folder:
            counts = " ".join(f"{name}={count}" for name, count in asdict(scenario).items() if count)
            try:
                took = asyncio.run(with_broker(scenario, Path(folder, "data")))
                seconds = " ".join(f"{name} {value:.1f} s" for name, value in took.items() if value > 0)
                line = f"all answered, nobody cut: {seconds}"
            except (BrokerDiedError, CutError, TransportError, TimeoutError) as error:
                failed += 1
                line = f"FAILED: {type(error).__name__}: {error}"
        sys.stdout.write(f"{counts}: {line}\n")
        sys.stdout.flush()
    raise typer.Exit(1 if failed else 0)


if __name__ == "__main__":
    typer.run(main)
