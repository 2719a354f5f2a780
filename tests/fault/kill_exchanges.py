"""``python -m tests.fault.kill_exchanges``: kill -9 a broker while eight senders publish through every kind of exchange to five queues.

Three of the senders publish in transactions, which they commit, abort, give up, or commit without hearing the answer. Some messages have a
time to live. A receiver refuses some messages of a queue, and gives others back. Dead letters, of these and of what expires, go through an
exchange to several queues. Where everything goes is in `exchange_places`.

A life of the broker ends as so many messages are confirmed or delivered, as a commit was asked for, as dead letters come, as it listens, or
as files change, which may be in the midst of its start. At the end everything is received, and judged by `exchange_judge`: nothing that was
confirmed is missing from any queue that it was routed to, no record or dead letter is in some of its queues only, no transaction is there
by half, nothing is both in its queue and a dead letter, and nothing expires that has no time to live.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from tests.fault.exchange_clients import LetterTaker, Moments, Publisher, Taker, TransactionSender
from tests.fault.exchange_judge import EXPIRED, Figures, judge
from tests.fault.exchange_ledger import US, Ledger, State
from tests.fault.exchange_places import ALIKE, DEAD, DEAD_ALL, DRAINED, LATE, QUEUES, define
from tests.fault.kill_broker import FILES, Killer
from tests.fault.kill_history import Verdict
from tests.fault.kill_process import ROOT, Broker, BrokerDiedError, DirectoryWatch
from transport import Administration, TransportError
from transport.errors import PeerTimeoutError

PLACES = ("k.direct", "k.fanout", "k.topic", "k.headers", "")
"""Where the senders publish that have no transactions; the others publish anywhere."""
TRANSACTION_SENDERS = 3
KINDS = ("confirmations", "deliveries", "letters", "commits", "listening", FILES)
"""Moments at which the broker is killed."""
MOST_EVENTS = 1_500
MOST_LETTERS = 100
MOST_COMMITS = 5
SEGMENT_BYTES = 256 * 1024
DRAIN_SECONDS = 240.0
ASKED_EVERY = 1_000
"""Deliveries between two questions whether there is anything left, or a while without any."""
QUIET_SECONDS = 0.5
REPORT_EVERY = 20


@dataclass(slots=True)
class Found:
    """What a run found.

    Attributes:
        kills: how often the broker was killed.
        confirmed: messages, those of transactions too.
        again: deliveries that came again, and were marked.
        figures: what else was counted.
        verdict: what must not be.
        left: what is still in queues when all was received, and what else is wrong behind the last restart.
        seconds: that the run took.
    """

    kills: int = 0
    confirmed: int = 0
    again: int = 0
    figures: Figures = field(default_factory=Figures)
    verdict: Verdict = field(default_factory=Verdict)
    left: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return self.verdict.clean and not self.left


async def kill_exchanges(kills: int, seed: int, directory: Path, report: Callable[[str], None]) -> Found:
    """Kill a broker so often while eight senders publish; ``directory``, which is there, is its own.

    Raises:
        BrokerDiedError: it ended by itself.
        TransportError: a client gave up.
        TimeoutError: nothing went on.
    """
    random, began = Random(seed), time.monotonic()
    ledger, moments, found = Ledger(), Moments(), Found()

    def chance() -> Random:
        return Random(random.random())

    publishers = [Publisher(number, place, chance(), ledger, moments) for number, place in enumerate(PLACES)]
    numbers = range(len(PLACES), len(PLACES) + TRANSACTION_SENDERS)
    writers = [*publishers, *(TransactionSender(number, chance(), ledger, moments) for number in numbers)]
    takers = {queue: Taker(queue, chance(), ledger, moments) for queue in QUEUES}
    takers_of_letters = {queue: LetterTaker(queue, ledger, moments) for queue in DEAD}
    async with AsyncExitStack() as stack:
        options = ["--data", str(directory), "--segment-bytes", str(SEGMENT_BYTES), "--no-http"]
        broker = await stack.enter_async_context(Broker(options))
        killer = Killer(broker, random, directory, moments.confirmations, moments.deliveries, kinds=KINDS)
        killer.further = {"letters": (moments.letters, MOST_LETTERS), "commits": (moments.commits, MOST_COMMITS)}
        stack.callback(DirectoryWatch(directory, killer.files.add).close)
        await broker.start()
        async with Administration(broker.send_address) as administration:
            await define(administration)
        await broker.stop()
        writing = [asyncio.create_task(each.run(broker.send_address)) for each in writers]
        stack.push_async_callback(killer.end, killer.runs)
        killer.runs += writing
        killer.runs += [asyncio.create_task(takers[queue].run(broker.receive_address)) for queue in DRAINED]
        killer.runs.append(asyncio.create_task(takers_of_letters[DEAD_ALL].run(broker.receive_address)))
        for number in range(1, kills + 1):
            ledger.life += 1
            await killer.life(MOST_EVENTS)
            found.kills += 1
            if number % REPORT_EVERY == 0:
                report(
                    f"{number} kills: {moments.confirmations.value} messages confirmed, {moments.letters.value} dead letters"
                )
        ledger.life += 1
        await broker.start()
        for writer in writers:
            writer.ending = True
        await killer.well(asyncio.gather(*writing))
        found.left += await _given_up(broker)
        await killer.well(_something_late(ledger, moments))
        for queue in (*ALIKE, LATE):
            ledger.taken_since_us[queue] = int(time.time() * US)
            killer.runs.append(asyncio.create_task(takers[queue].run(broker.receive_address)))
        killer.runs += [
            asyncio.create_task(each.run(broker.receive_address))
            for queue, each in takers_of_letters.items()
            if queue != DEAD_ALL
        ]
        found.left += await _drained(broker, killer)
        await killer.end(killer.runs)
        # What was acknowledged stays so.
        await broker.stop()
        await broker.start()
        found.left += await _left(broker)
        await broker.stop()
        found.left += broker.defects
    found.verdict, found.figures = judge(ledger)
    found.confirmed = moments.confirmations.value
    found.again = ledger.again
    found.seconds = time.monotonic() - began
    return found


async def _given_up(broker: Broker) -> list[str]:
    """Abort what nobody has committed."""
    async with Administration(broker.send_address) as administration:
        for row in await administration.transactions():
            await administration.abort_transaction(row["writer"], row["version"])
        return [f"{row} is open after it was aborted" for row in await administration.transactions()]


async def _something_late(ledger: Ledger, moments: Moments) -> None:
    """Wait until what had the longest of the short times has expired, however quick the run was; all with a shorter one has by then too."""

    def late() -> bool:
        letters = ledger.letters[DEAD_ALL].values()
        return any(each.reason == EXPIRED and ledger.sent[each.payload].ttl is None for each in letters)

    while not late():
        await moments.letters.more(1)


async def _stored(administration: Administration) -> dict[str, int]:
    return {row["name"]: row["stored_messages"] + row["staged_messages"] for row in await administration.queues()}


async def _drained(broker: Broker, killer: Killer) -> list[str]:
    """Wait until no queue has anything left; each delivery may have been the last. What is left when nothing goes on any more."""
    deadline = time.monotonic() + DRAIN_SECONDS
    stored: dict[str, int] = {}
    while time.monotonic() < deadline:
        # On a busy machine an answer may take longer than a client waits for it.
        with suppress(PeerTimeoutError):
            async with Administration(broker.send_address) as administration:
                stored = await _stored(administration)
            if not any(stored.values()):
                return []
        with suppress(TimeoutError):
            async with asyncio.timeout(QUIET_SECONDS):
                await killer.well(killer.deliveries.more(ASKED_EVERY))
    return [f"{count} messages do not leave {queue}" for queue, count in stored.items() if count]


async def _left(broker: Broker) -> list[str]:
    """What there must not be behind a restart in good order: messages, and queues that nobody has made."""
    async with Administration(broker.send_address) as administration:
        stored = await _stored(administration)
    found = [
        f"{count} messages are back in {queue}, though all was answered" for queue, count in stored.items() if count
    ]
    if stored.keys() != {*QUEUES, *DEAD}:
        found.append(f"there are the queues {', '.join(sorted(stored))}: dead letters had another way")
    return found


def summary(found: Found) -> str:
    """The figures of a run, in a line."""
    figures, states = found.figures, found.figures.transactions
    letters = ", ".join(f"{count} {reason}" for reason, count in sorted(figures.letters.items()))
    return (
        f"{found.kills} kills, {found.confirmed} confirmed, {figures.received} received, {found.again} of them again, "
        f"{states[State.COMMITTED]} transactions committed, {states[State.ASKED]} of unknown end, {states[State.ABORTED]} aborted, "
        f"{states[State.OPEN]} given up, {figures.letters.total()} dead letters ({letters}), {figures.gone} expired and gone, "
        f"{found.seconds:.0f} s"
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
    report(summary(found))
    for text in [*found.verdict.examples, *found.left]:
        report(f"VIOLATION {text}")
    raise typer.Exit(0 if found.clean else 1)


if __name__ == "__main__":
    typer.run(main)
