"""``python -m tests.fault.signals``: tell a broker under load to stop, and to read its settings again, many times over.

SIGTERM: it ends with 0 within its time, nothing that it confirmed is lost, and what nobody acknowledged comes again. SIGHUP, of a
broker with users and TLS, while settings, another user's rights and the certificate change: no connection of an unchanged user ends, and
one whose right has gone ends within a second.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Annotated

import trustme
import typer

from streams import Sink
from tests.fault.attacks import TOKEN_VARIABLE
from tests.fault.kill_broker import (
    FILES,
    MOMENTS,
    QUEUE,
    RECEIVERS,
    SENDERS,
    Killer,
    Outcome,
    _ended,
    _task,
    broker_options,
    kill_under_load,
    show,
)
from tests.fault.kill_clients import Load, LoadReceiver, LoadSender
from tests.fault.kill_process import ROOT, Broker, BrokerDiedError
from transport import Access, Administration, BrokerError, Receiver, Tls, TransportError
from transport.security import changes
from transport.security.principal import Grant, Right
from transport.security.proofs import TokenRecord, make_token, token_hash
from transport.security.users import User, Users
from transport.security.users_file import change_users

DRAIN = 5.0
"""Seconds that the broker has."""
GRACE = 1.0
"""Seconds more, in which its process ends: Python's own end, on a machine with much else to do."""
BETWEEN = 200
"""Messages confirmed between two signals."""
LEVELS = ("info", "warning")
AT_ONCE = 1.0
"""Seconds in which a connection ends whose user has lost the right that it takes."""
OTHERS = "others"
"""The queue of the user whose rights change, and that user's name."""

Report = Callable[[str], None]


class Stops:
    """Ends brokers by SIGTERM, and keeps the time.

    Attributes:
        longest: seconds of the longest end.
    """

    def __init__(self) -> None:
        self.longest = 0.0

    async def __call__(self, broker: Broker) -> None:
        began = time.monotonic()
        await broker.stop()
        took = time.monotonic() - began
        self.longest = max(self.longest, took)
        if took > DRAIN + GRACE:
            raise BrokerDiedError(f"the broker took {took:.1f} s to end, and had {DRAIN:.0f}")


async def stop_under_load(stops: int, seed: int, directory: Path, report: Report) -> Outcome:
    """Eight senders and four receivers live through ``stops`` ends in good order; errors as of `kill_under_load`."""
    end = Stops()
    # Not in the middle of a start: whoever has no handler yet is ended by the signal itself, and has confirmed nothing.
    kinds = [each for each in MOMENTS if each != FILES]
    outcome = await kill_under_load(
        stops, seed, directory, report, end_life=end, kinds=kinds, options=("--drain", f"{DRAIN:g}s")
    )
    outcome.name = "SIGTERM"
    outcome.facts = {name.replace("kills", "stops"): count for name, count in outcome.facts.items()}
    outcome.facts["longest end, ms"] = round(end.longest * 1000)
    return outcome


class Security:
    """What a broker with users and TLS reads again: two users, of whom one never changes, and a certificate that is renewed each time."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._users, self._certificate = directory / "users.toml", directory / "broker.pem"
        self._authority = trustme.CA()
        self.ca = str(directory / "ca.pem")
        self._authority.cert_pem.write_to_path(self.ca)
        self.own, self._other = make_token(), make_token()
        everything = Grant("*", Right.CONFIGURE | Right.WRITE | Right.READ)
        rights = Right.MONITOR | Right.ADMINISTER
        steady = User("steady", None, rights, (everything,), (TokenRecord(token_hash(self.own)),))
        other = User(OTHERS, None, tokens=(TokenRecord(token_hash(self._other)),))
        change_users(self._users, lambda _: Users([steady, other]))
        self.renew()

    @property
    def options(self) -> tuple[str, ...]:
        """Of the broker."""
        return ("--users-file", str(self._users), "--tls-certificate", str(self._certificate))

    @property
    def access(self) -> Access:
        """The other's."""
        return Access(token=self._other, tls=Tls(ca=self.ca))

    def renew(self) -> None:
        """Another certificate in the place of the one before."""
        issued = self._authority.issue_cert("127.0.0.1")
        aside = self._certificate.with_suffix(".new")
        issued.private_key_and_cert_chain_pem.write_to_path(str(aside))
        aside.chmod(0o600)
        aside.rename(self._certificate)

    def allow(self, allowed: bool) -> None:
        """Whether the other may receive."""
        change = changes.granted if allowed else changes.revoked
        rights = Right.READ | Right.CONFIGURE
        change_users(self._users, lambda users: change(users, OTHERS, rights, OTHERS))


async def reload_under_load(times: int, seed: int, directory: Path, report: Report) -> dict[str, int]:
    """The same clients while the broker reads settings, users and certificate again ``times`` times, changed each time; what was counted.

    Raises:
        BrokerDiedError: a connection has ended, or the broker.
    """
    random = Random(seed)
    load = Load(SENDERS)
    settings = directory / "penstock.toml"
    async with AsyncExitStack() as stack:
        _write(settings, 0)
        security = Security(directory)
        # Clients that are told nothing look there.
        os.environ |= {TOKEN_VARIABLE: security.own, "PENSTOCK_TLS_CA": security.ca}
        stack.callback(lambda: [os.environ.pop(name) for name in (TOKEN_VARIABLE, "PENSTOCK_TLS_CA")])
        broker = await stack.enter_async_context(
            Broker([*broker_options(directory / "data"), "--config", str(settings), *security.options])
        )
        killer = Killer(broker, random, directory, load.confirmations, load.deliveries)
        senders = [LoadSender(load, index, Random(random.random())) for index in range(SENDERS)]
        receivers = [LoadReceiver(load, index, Random(random.random())) for index in range(RECEIVERS)]
        await broker.start()
        load.life += 1
        sending = [_task(one.run(broker.send_address, QUEUE)) for one in senders]
        receiving = [_task(one.run(broker.receive_address, QUEUE)) for one in receivers]
        stack.push_async_callback(killer.end, [*sending, *receiving])
        killer.runs = [*sending, *receiving]
        async with Administration(broker.send_address) as administration:
            await killer.well(load.confirmations.more(BETWEEN))
            before = await _connections(administration)
            other: asyncio.Future[None] | None = None
            for number in range(1, times + 1):
                _write(settings, number)
                security.renew()
                security.allow(number % 2 == 1)
                broker.hang_up()
                while broker.reloads < number:
                    await killer.well(load.confirmations.more(1))
                if other is not None:
                    await _forbidden(other)
                    other = None
                elif number % 2 == 1 and number < times:
                    running = Receiver(broker.receive_address, queue=OTHERS, access=security.access).to(Sink.ignore())
                    other = asyncio.ensure_future(running.run())
                    while OTHERS not in await _users(administration):
                        await killer.well(load.confirmations.more(1))
                await killer.well(load.confirmations.more(random.randint(1, BETWEEN)))
            after = await _connections(administration)
        if before != after or len(before) != SENDERS + RECEIVERS + 1:
            raise BrokerDiedError(f"connections have ended while settings were read: {before} before, {after} after")
        load.ending = True
        for one in receivers:
            one.release()
        for run in sending:
            await killer.well(_ended(run))
        await killer.end(receiving)
        await broker.stop()
    report(f"{times} times the settings were read again, and {len(before)} connections stayed")
    return {"reloads": broker.reloads, "connections": len(before), "confirmed": load.history.confirmed}


def _write(settings: Path, number: int) -> None:
    """A level that changes each time, and a setting that takes a restart."""
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f'[broker]\nlog_level = "{LEVELS[number % 2]}"\n[limits]\nmax_queues = {1000 + number}\n')


async def _users(administration: Administration) -> set[str]:
    return {row["user"] for row in (await administration.statistics())["connections"]}


async def _forbidden(other: asyncio.Future[None]) -> None:
    """It ends at once, and is told why; errors as of `reload_under_load`."""
    done, _ = await asyncio.wait([other], timeout=AT_ONCE)
    if not done:
        raise BrokerDiedError(f"a user has lost the right to receive, and still does after {AT_ONCE:g} s")
    error = other.exception()
    if not isinstance(error, BrokerError) or error.code != "forbidden":
        raise BrokerDiedError(f"a user has lost the right to receive, and was told {error!r}")


async def _connections(administration: Administration) -> set[int]:
    return {row["id"] for row in (await administration.statistics())["connections"]}


def main(
    times: Annotated[int, typer.Option(min=1, metavar="N", help="Signals of each kind.")] = 50,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Of all random choices; a new one by default.")] = None,
) -> None:
    """Stop a broker under load, and have it read its settings again under load."""
    seed = secrets.randbits(32) if seed is None else seed

    def report(text: str) -> None:
        sys.stderr.write(f"signals: {text}\n")
        sys.stderr.flush()

    report(f"--times {times} --seed {seed}")
    with tempfile.TemporaryDirectory(prefix="penstock-signals-", dir=ROOT) as folder:
        try:
            outcome = asyncio.run(stop_under_load(times, seed, Path(folder, "stops"), report))
            show(outcome)
            counts = asyncio.run(reload_under_load(times, seed, Path(folder, "reloads"), report))
            report(", ".join(f"{name} {count}" for name, count in counts.items()))
        except (BrokerDiedError, TransportError, TimeoutError) as error:
            report(f"seed {seed}: {type(error).__name__}: {error}")
            raise typer.Exit(1) from None
    raise typer.Exit(0 if outcome.verdict.clean else 1)


if __name__ == "__main__":
    typer.run(main)
