"""``python -m tests.fault.amqp_fuzz``: bad sessions of AMQP against a broker, beside a client that behaves (`tests.fault.amqp_sessions`).

It fails when a session is not ended, or with a code that is not right; when the broker's log tells of a defect; when the p99 of the one
that behaves is more than twice what it was before, or it takes a second to come in; and when the broker's memory grows beyond its limit,
or is not given back. ``--session N`` says what one session of a seed is, and plays it alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Any

import typer

from streams.testkit import settle
from tests.fault.amqp_fuzzers import judged, play
from tests.fault.amqp_sessions import session_of
from tests.fault.attackers import Child, Watch, favour, leave_the_rest
from tests.fault.kill_process import Broker, ReservedPort
from transport import Administration, parse_address
from transport.errors import TransportError

RATE = 500
AT_ONCE = 24
"""Sessions at a time."""
WARM_UP = 5.0
"""Seconds before the first figures."""
QUIET = 30.0
"""Seconds for the figures without bad sessions."""
LEAVING = 10.0
"""Seconds after which what they cost must be gone: a connection lingers for two."""
TIDY_SECONDS = 5.0
"""After so many again, what they have declared and stored is deleted."""
MIB = 1 << 20
MOST_GROWTH = 64 * MIB
"""Bytes that the broker may have more than before, at its peak: sessions have a few kilobytes each, and two with half a message a frame;"""
MOST_LEFT = 24 * MIB
"""and when they are gone: what Python keeps for itself."""
MOST_P99 = 2.0
LEAST_P99_MS = 4.0
"""Of less than this it is not said that it has doubled: one turn of the loop and of the system's own clock."""
MOST_HANDSHAKE_MS = 1_000.0
HONEST = ("honest", "own-")
"""How queues begin that are not tidied away."""


@dataclass(slots=True)
class Outcome:
    """What a run has measured."""

    before: int = 0
    peak: int = 0
    after: int = 0
    quiet: dict[str, float] = field(default_factory=dict)
    fuzzed: dict[str, float] = field(default_factory=dict)
    played: dict[str, Any] = field(default_factory=dict)
    defects: list[str] = field(default_factory=list)

    def failures(self, timings: bool = True) -> list[str]:
        """What does not hold."""
        found = list(self.played["found"])
        if self.defects:
            found.append(f"the broker's log tells of {len(self.defects)} defects: {self.defects[0]}")
        for what, size, most in (("took", self.peak, MOST_GROWTH), ("keeps", self.after, MOST_LEFT)):
            if size - self.before > most:
                found.append(f"the broker {what} {(size - self.before) / MIB:.0f} MiB more, {most // MIB} are allowed")
        if not self.fuzzed["messages"]:
            found.append("the one that behaves got nothing")
        if timings:
            before, now = max(self.quiet["p99_ms"], LEAST_P99_MS), self.fuzzed["p99_ms"]
            if not now <= MOST_P99 * before:
                found.append(f"its p99 is {now} ms, {MOST_P99:g} times {before} ms is allowed")
            if self.fuzzed["handshake_ms"] > MOST_HANDSHAKE_MS:
                found.append(f"a handshake took {self.fuzzed['handshake_ms']} ms")
        return found


async def tidy(address: str) -> None:
    """Delete what bad sessions have declared, again and again: what they store is not what they cost."""
    async with Administration(address) as administration:
        while True:
            for queue in await administration.queues():
                if not queue["name"].startswith(HONEST):
                    with contextlib.suppress(TransportError):
                        await administration.delete_queue(queue["name"])
            for exchange in await administration.exchanges():
                if exchange["name"] and not exchange["name"].startswith("amq."):
                    with contextlib.suppress(TransportError):
                        await administration.delete_exchange(exchange["name"])
            await settle(TIDY_SECONDS)


async def run(
    seed: int, seconds: float, *, quiet: float = QUIET, warm_up: float = WARM_UP, leaving: float = LEAVING
) -> Outcome:
    """One run."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory(prefix="penstock-amqp-") as folder, closing(ReservedPort()) as port:
        host, number = parse_address(port.address)
        async with Broker(("--data", f"{folder}/data", "--amqp", port.address)) as broker:
            await broker.start()
            watch = Watch(broker.pid)
            pair = await Child.start("tests.fault.amqp_pair", host, str(number), str(RATE))
            fuzzers = await Child.start("tests.fault.amqp_fuzzers", host, str(number), str(seed), str(AT_ONCE))
            leave_the_rest(fuzzers.pid)
            favour(broker.pid)
            favour(pair.pid)
            work: list[asyncio.Task[None]] = []
            try:
                await fuzzers.hear()
                await settle(warm_up)
                await pair.ask()
                await settle(quiet)
                outcome.quiet, outcome.before = await pair.ask(), watch.now()
                work += [asyncio.create_task(watch.run()), asyncio.create_task(tidy(broker.send_address))]
                fuzzers.go()
                await settle(seconds)
                outcome.fuzzed = await pair.ask()
                # Its last words are not to wait for what the others leave.
                if hasattr(os, "SCHED_OTHER"):
                    os.sched_setscheduler(fuzzers.pid, os.SCHED_OTHER, os.sched_param(0))
                outcome.played = json.loads(await fuzzers.stop())
                outcome.peak = watch.peak
                await settle(leaving)
                outcome.after = watch.now()
            finally:
                for each in work:
                    each.cancel()
                await asyncio.gather(pair.stop(), fuzzers.stop(), *work, return_exceptions=True)
            await broker.stop()
            outcome.defects = broker.defects
    return outcome


async def play_one(seed: int, number: int) -> str:
    """Play one session alone; what became of it."""
    session = session_of(seed, number)
    with closing(ReservedPort()) as port:
        host, at = parse_address(port.address)
        async with Broker(("--memory", "--amqp", port.address)) as broker:
            await broker.start()
            told = await play(host, at, session, Random(number))
            await broker.stop()
            defects = broker.defects
    return f"{session}\n{told}\n{judged(session, told) or 'it is right'}\n{defects}"


def main(
    minutes: Annotated[float, typer.Option(min=0.05, help="Minutes of bad sessions.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Of the sessions.")] = 5672,
    session: Annotated[int | None, typer.Option(help="Play this session alone.")] = None,
) -> None:
    """Fuzz a broker's AMQP; the exit code is 1 when something does not hold."""
    if session is not None:
        typer.echo(asyncio.run(play_one(seed, session)))
        return
    outcome = asyncio.run(run(seed, minutes * 60))
    before, peak, after = (size / MIB for size in (outcome.before, outcome.peak, outcome.after))
    played = outcome.played
    typer.echo(f"seed {seed}: sessions {played['sessions']}, {played['late']} of them late, codes {played['codes']}")
    typer.echo(f"quiet {outcome.quiet}")
    typer.echo(f"fuzzed {outcome.fuzzed}")
    typer.echo(f"memory: {before:.0f} MiB before, {peak:.0f} at the peak, {after:.0f} after")
    failures = outcome.failures()
    for each in failures:
        typer.echo(each)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    typer.run(main)
