"""``python -m tests.fault.attackers``: ten of each kind of attacker beside an honest pair, and what it costs the broker and the pair.

The pair sends and receives a thousand messages a second, first undisturbed, then attacked. Strangers of every role connect all the
time. It fails when the broker takes more memory than the stated bound, or does not give it back, when the pair's p99 grows to more
than three times what it was (twice, where nobody attacks but strangers), when the broker's log tells of a defect, or when anybody waits
more than a second to be let in, unless strangers fill all the places that there are for those who are not known. Attackers have the
processor time that the others leave; it fails, too, when strangers or fuzzers were cut so rarely that they have not attacked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from streams.testkit import settle
from tests.fault import strangers
from tests.fault.attacks import KINDS, TOKEN_VARIABLE
from tests.fault.kill_process import ROOT, Broker, ReservedPort
from transport import Administration, BrokerError
from transport.broker.commands import LONG_AT_ONCE
from transport.broker.memory import memory_limit
from transport.broker.strangers import WAIT_SECONDS
from transport.config.config import DEFAULT_MAX_UNAUTHENTICATED
from transport.security.principal import Grant, Right
from transport.security.proofs import TokenRecord, make_token, token_hash
from transport.security.users import User, Users
from transport.security.users_file import change_users
from transport.security.verifier import Verifier
from transport.shell.partial_frames import IN_TURN, partial_bytes_limit
from transport.shell.unsent import WRITE_BUFFER_HIGH, unsent_bytes_limit
from transport.wire.frames import MAX_FRAME_BYTES

RATE = 1000
WARM_UP = 3.0
"""Seconds before the first figures."""
LEAVING = 12.0
"""Seconds after which what the attackers cost must be gone: connections linger for two, and heartbeats are one."""
HEARTBEAT = "1s"
FAVOURED = -10
"""The niceness of the broker and the pair: the figures are about the broker, not about who else uses the machine."""
BEGINNING = 60.0
"""Seconds in which each process of attackers must have connected one of them."""
STOPPING = 10.0
"""Seconds that a process has to end."""
SAMPLE = 0.1
"""Seconds between two looks at the broker's memory."""
MIB = 1 << 20
SOME = 64 * MIB
EACH_BOUND = 512 * 1024
"""For each attacker: 64 KiB unsent, which do not count, a receive, and what it has under way: a quarter of a megabyte."""
LONG_BYTES = 2 * LONG_AT_ONCE * MAX_FRAME_BYTES
"""Long answers that are being made: their rows, and the answer."""
MOST_P99 = 3.0
MOST_P99_BY_STRANGERS = 2.0
"""The same where nobody attacks but who has not shown who they are, or not the truth."""
MOST_HANDSHAKE_MS = 1000.0
LEAST_CUTS = 0.1
"""Times that each stranger, or fuzzer, is cut in a second at least: one that says nothing is, every five seconds."""
FIRST_CUTS = 10.0
"""Seconds of an attack of which nothing is said of that."""
GIVEN_BACK = 1.1
"""Times what it had before, when they have left."""
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Outcome:
    """What a run measured."""

    before: int = 0
    peak: int = 0
    after: int = 0
    bound: int = 0
    undisturbed: dict[str, float] = field(default_factory=dict)
    disturbed: dict[str, float] = field(default_factory=dict)
    attacks: dict[str, dict[str, int]] = field(default_factory=dict)
    defects: list[str] = field(default_factory=list)
    least_cuts: dict[str, int] = field(default_factory=dict)
    most_p99: float = MOST_P99
    most_handshake_ms: float = MOST_HANDSHAKE_MS

    def failures(self, timings: bool = True) -> list[str]:
        """What does not hold."""
        found = []
        if self.peak > self.before + self.bound:
            found.append(
                f"the broker took {(self.peak - self.before) / MIB:.0f} MiB more, the bound is {self.bound / MIB:.0f}"
            )
        if self.after > self.before * GIVEN_BACK:
            found.append(f"{self.after / MIB:.0f} MiB are left of {self.before / MIB:.0f} before")
        if timings:
            before, now = self.undisturbed["p99_ms"], self.disturbed["p99_ms"]
            if not now <= self.most_p99 * before:
                found.append(f"the pair's p99 is {now} ms, {self.most_p99:g} times {before} ms is allowed")
            # Where all places of those who are not known are taken, the next have to wait: nothing is said of them.
            if self.disturbed["handshake_ms"] > self.most_handshake_ms:
                found.append(f"a handshake took {self.disturbed['handshake_ms']} ms")
        for kind, least in self.least_cuts.items():
            if (cuts := self.attacks[kind]["cuts"]) < least:
                found.append(f"{kind} were cut {cuts} times, {least} are the least of who attacks at all")
        if self.defects:
            found.append(f"the broker's log tells of {len(self.defects)} defects: {self.defects[0]}")
        if math.isnan(self.disturbed["p99_ms"]):
            found.append("the pair got nothing")
        return found


def bound(attackers: int) -> int:
    """Memory that the broker may take more than before: what its limits for all clients together add up to, and each one's own."""
    partial = partial_bytes_limit(memory_limit()) + IN_TURN * MAX_FRAME_BYTES
    # Each has a megabyte unsent, and what was under way when the socket was full; many are bounded together.
    unsent = min(2 * unsent_bytes_limit(memory_limit()), 2 * WRITE_BUFFER_HIGH * attackers)
    return SOME + partial + unsent + LONG_BYTES + EACH_BOUND * attackers


def favour(pid: int) -> None:
    """Let a process run before whatever else this machine has to do, where that is allowed: before and during the attack alike."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, pid, FAVOURED)


def leave_the_rest(pid: int) -> None:
    """Let a process have what the others leave of the processors, for attackers have machines of their own; where the system can."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


class Child:
    """A process that is told by lines, and ends with its input."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.pid = process.pid

    @classmethod
    async def start(cls, module: str, *arguments: str) -> Child:
        """Run a module of the tests."""
        command = (sys.executable, "-m", module, *arguments)
        return cls(await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=ROOT))

    def go(self) -> None:
        """Write one line."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    async def ask(self) -> dict[str, float]:
        """One line for one."""
        self.go()
        return await self.hear()

    async def hear(self) -> dict[str, float]:
        """The next line."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("the honest pair, or an attacker, has ended by itself")
        answer: dict[str, float] = json.loads(line)
        return answer

    async def stop(self) -> bytes:
        """End its input, and wait for its last words."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        said = b""
        try:
            async with asyncio.timeout(STOPPING):
                assert self._process.stdout is not None
                said = await self._process.stdout.read()
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        return said


class Watch:
    """The broker's resident memory, looked at all the time."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.peak = 0

    def now(self) -> int:
        """Bytes."""
        with open(f"/proc/{self._pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * PAGE

    async def run(self) -> None:
        """Note the peak until cancelled."""
        while True:
            self.peak = max(self.peak, self.now())
            await settle(SAMPLE)


async def run(
    kinds: Sequence[str],
    each: int,
    seconds: float,
    queues: int,
    durable: bool,
    *,
    users: bool = False,
    undisturbed: float | None = None,
    warm_up: float = WARM_UP,
    leaving: float = LEAVING,
    idle: bool = True,
) -> Outcome:
    """One run; attackers have what the others leave of the processors, or their share where they are not ``idle``.

    With ``users`` the broker knows one, whose token the pair has and every attacker that says who it is.
    """
    outcome = Outcome(bound=bound(each * len(kinds)))
    # No more of them are let in at one time.
    at_once = min(each, DEFAULT_MAX_UNAUTHENTICATED // len(kinds))
    attacked = max(0.0, seconds - FIRST_CUTS)
    outcome.least_cuts = {kind: int(LEAST_CUTS * at_once * attacked) for kind in kinds if kind in strangers.KINDS}
    if set(kinds) <= set(strangers.KINDS):
        outcome.most_p99 = MOST_P99_BY_STRANGERS
    if each * len(set(kinds) & strangers.SILENT) >= DEFAULT_MAX_UNAUTHENTICATED:
        outcome.most_handshake_ms = math.inf
    elif users and set(kinds) & strangers.GUESSING:
        # They are of the same address as everybody here, which has to wait for each answer then.
        outcome.most_handshake_ms += WAIT_SECONDS * 1000
    with (
        tempfile.TemporaryDirectory(prefix="penstock-attackers-") as directory,
        contextlib.closing(ReservedPort()) as amqp,
    ):
        kept = ("--data", f"{directory}/journal") if durable else ("--memory",)
        if users:
            path = Path(directory) / "users.toml"
            os.environ[TOKEN_VARIABLE] = honest_user(path)
            kept += ("--users-file", str(path))
        async with Broker((*kept, "--heartbeat", HEARTBEAT, "--amqp", amqp.address)) as broker:
            await broker.start()
            async with Administration(broker.send_address) as administration:
                for number in range(queues):
                    await administration.create_queue(f"idle-{number:05}")
            watch = Watch(broker.pid)
            addresses = broker.send_address, broker.receive_address
            pair = await Child.start("tests.fault.honest_pair", *addresses, str(RATE))
            each_of = (*addresses, amqp.address, str(each))
            attackers = [await Child.start("tests.fault.attacks", *each_of, kind) for kind in kinds]
            for attacker in attackers:
                if idle:
                    leave_the_rest(attacker.pid)
            favour(broker.pid)
            favour(pair.pid)
            try:
                for attacker in attackers:
                    await attacker.hear()
                await settle(warm_up)
                await pair.ask()
                await settle(seconds if undisturbed is None else undisturbed)
                outcome.undisturbed = await pair.ask()
                outcome.before = watch.now()
                watching = asyncio.create_task(watch.run(), name="the broker's memory")
                for attacker in attackers:
                    attacker.go()
                # Where the machine has much else to do, what the others leave may be nothing for seconds.
                async with asyncio.timeout(BEGINNING):
                    for attacker in attackers:
                        await attacker.hear()
                await settle(seconds)
                outcome.disturbed = await pair.ask()
                for said in await asyncio.gather(*(attacker.stop() for attacker in attackers)):
                    outcome.attacks |= json.loads(said or b"{}")
                watching.cancel()
                outcome.peak = watch.peak
                await clear(broker.send_address)
                await settle(leaving)
                outcome.after = watch.now()
            finally:
                await asyncio.gather(pair.stop(), *(attacker.stop() for attacker in attackers))
            await broker.stop()
            outcome.defects = broker.defects
    return outcome


async def clear(address: str) -> None:
    """Delete the attackers' queues: what they have stored is not what they cost."""
    async with Administration(address) as administration:
        for queue in await administration.queues():
            if queue["name"].startswith("attacked."):
                try:
                    await administration.delete_queue(queue["name"])
                except BrokerError as error:
                    # An exclusive one goes with its connection, which may end only now.
                    if error.code != "not-found":
                        raise


def honest_user(path: Path) -> str:
    """Make a users file with one user, who may do everything; returns the token."""
    token = make_token()
    everything = Grant("*", Right.CONFIGURE | Right.WRITE | Right.READ)
    record = TokenRecord(token_hash(token))
    user = User("honest", Verifier.of("battery staple"), Right.MONITOR | Right.ADMINISTER, (everything,), (record,))
    change_users(path, lambda _: Users([user]))
    return token


def show(console: Console, outcome: Outcome) -> None:
    """The figures as a table."""
    table = Table("", "undisturbed", "attacked")
    for name in outcome.disturbed:
        table.add_row(name, f"{outcome.undisturbed[name]:g}", f"{outcome.disturbed[name]:g}")
    console.print(table)
    attacks = Table("attackers", "MB written", "times cut")
    for kind, did in outcome.attacks.items():
        attacks.add_row(kind, f"{did['written'] / 1e6:.1f}", str(did["cuts"]))
    console.print(attacks)
    before, peak, after = (value / MIB for value in (outcome.before, outcome.peak, outcome.after))
    console.print(
        f"memory: {before:.0f} MiB before, {peak:.0f} at the peak (bound {before + outcome.bound / MIB:.0f}), {after:.0f} after"
    )


def main(
    kind: Annotated[list[str] | None, typer.Option(help=f"Only this kind; may be repeated. {', '.join(KINDS)}")] = None,
    each: Annotated[int, typer.Option(min=1, help="Attackers of each kind.")] = 10,
    seconds: Annotated[float, typer.Option(min=1, help="Seconds undisturbed, and attacked.")] = 60.0,
    queues: Annotated[int, typer.Option(min=0, help="Queues that stats has to tell of.")] = 3000,
    durable: Annotated[bool, typer.Option(help="With a journal, or in memory.")] = False,
    users: Annotated[bool, typer.Option(help="A broker that knows its users, or one that takes everybody in.")] = False,
    only_strangers: Annotated[
        bool, typer.Option("--strangers", help="Only who has not shown who they are, and fuzzers of every role.")
    ] = False,
    undisturbed: Annotated[
        float | None, typer.Option(min=1, help="Seconds undisturbed, where that is to be another time.")
    ] = None,
) -> None:
    """Attack a broker and print what it costs; the exit code is 1 when a bound does not hold."""
    console = Console(width=110, highlight=False)
    kinds = kind or list(strangers.KINDS if only_strangers else KINDS)
    unknown = [name for name in kinds if name not in KINDS]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]} is none of {', '.join(KINDS)}")
    outcome = asyncio.run(run(kinds, each, seconds, queues, durable, users=users, undisturbed=undisturbed))
    show(console, outcome)
    failures = outcome.failures()
    for failure in failures:
        console.print(f"FAILED: {failure}")
    raise typer.Exit(bool(failures))


if __name__ == "__main__":
    typer.run(main)
