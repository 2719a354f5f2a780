"""``python -m tests.fault.backups``: back a loaded broker up, again and again, restore each backup, and drain it.

Whatever was confirmed before a backup began, and not acknowledged by its instant, must come out of what was restored, once; and nothing
that was acknowledged before the backup before it. Some backups are ended by kill -9, of their client or of the broker.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import signal
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import quantiles
from typing import Annotated

import typer

from actors.storage import BackupWriting, restore_storage
from journal import OsFiles, read_manifest
from streams import Sink, Source
from tests.fault.kill_broker import QUEUE, Killer, _ended, _task, broker_options
from tests.fault.kill_clients import BACK_AT_ONCE, LARGEST_BATCH, Load, LoadReceiver, LoadSender
from tests.fault.kill_history import identify, payload_of
from tests.fault.kill_process import ROOT, Broker, BrokerDiedError
from transport import Administration, DeliveredBatch, MessageBatch, Receiver, Sender, TransportError

BETWEEN = 5_000
"""Messages confirmed between two backups."""
KILL_EVERY = 10
"""Of so many backups one more is begun whose client is killed, and one whose broker is."""
DRAIN_SECONDS = 60.0
BACKUP_SECONDS = 120.0
PROBE = "probe"
PROBE_PAUSE = 0.005
"""Seconds between two messages of the probe."""
PER_MILLE = 1000
RATE = "64MiB"
SLOW = "64KiB"
"""Paces of backups, and of those that are to be killed: they take some seconds."""

SENDERS, RECEIVERS = 4, 2
BATCHES_A_SECOND = 40
"""Of each sender; of fifty messages on average."""
KEPT = "kept"
"""A queue that nobody receives from: all that was confirmed in it must be in the backup."""
KEPT_MESSAGES = 15_000
"""Sent to it before each backup."""
QUEUES = (QUEUE, KEPT)

Report = Callable[[str], None]
Messages = set[tuple[int, int]]
Marks = list[bytes]


@dataclass(slots=True)
class Figures:
    """What was measured.

    Attributes:
        seconds: of each backup.
        sizes: bytes of each.
        wanted: messages that had to be in each.
        drained: messages that were.
        before: seconds that a message of the probe took while there was no backup;
        during: and while there was one.
        killed: backups that were ended by kill -9.
    """

    seconds: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    wanted: list[int] = field(default_factory=list)
    drained: list[int] = field(default_factory=list)
    before: list[float] = field(default_factory=list)
    during: list[float] = field(default_factory=list)
    killed: int = 0

    def lines(self) -> list[str]:
        """In words."""

        def spread(values: list[float] | list[int], scale: float = 1.0) -> str:
            ordered = sorted(values)
            return f"{ordered[0] * scale:,.2f} to {ordered[-1] * scale:,.2f}, median {ordered[len(ordered) // 2] * scale:,.2f}"

        def times(values: list[float]) -> str:
            if len(values) < PER_MILLE // 10:
                return f"{len(values)} messages"
            cuts = quantiles(values, n=100)
            return f"p50 {cuts[49] * 1000:.1f} ms, p99 {cuts[98] * 1000:.1f} ms, of {len(values)} messages"

        return [
            f"{len(self.seconds)} backups, each restored and drained; {self.killed} more were killed",
            f"seconds: {spread(self.seconds)}",
            f"MiB: {spread(self.sizes, 2**-20)}",
            f"messages that had to be there: {spread(self.wanted)}; drained: {spread(self.drained)}",
            f"a message of others without a backup: {times(self.before)}",
            f"and during one: {times(self.during)}",
        ]


class WrongBackupError(Exception):
    """A backup has not what it must have, or has what it must not."""


class Probe:
    """One message at a time from a sender to a receiver, and how long each takes."""

    def __init__(self, address: tuple[str, str]) -> None:
        self._address = address
        self.into: list[float] = []
        self._came = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled."""
        sending, receiving = self._address
        to = Receiver(receiving, queue=PROBE, reconnect=BACK_AT_ONCE).batches().to(Sink.foreach(self._take)).run()
        source = Source.queue(1, of=MessageBatch).via(Sender(sending, queue=PROBE, reconnect=BACK_AT_ONCE))
        run = source.to(Sink.ignore()).run()
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._came.clear()
                began, into = time.monotonic(), self.into
                run.value.offer(MessageBatch.from_payloads([b"probe"]))
                await self._came.wait()
                into.append(time.monotonic() - began)
                pause = asyncio.Event()
                loop.call_later(PROBE_PAUSE, pause.set)
                await pause.wait()
        finally:
            run.cancel()
            to.cancel()
            await asyncio.gather(run, to, return_exceptions=True)

    def _take(self, delivered: DeliveredBatch) -> None:
        delivered.acknowledge()
        self._came.set()


def marks(load: Load, what: str) -> Marks:
    """Of each sender, a byte for each message: whether it is ``confirmed``, or ``acknowledged``."""
    return [bytes(getattr(sent, what)) for sent in load.history._senders]


def without(those: Marks, these: Marks) -> Messages:
    """The messages that are marked in ``those`` and not in ``these``."""
    found: Messages = set()
    for sender, (marked, gone) in enumerate(zip(those, these, strict=True)):
        left = int.from_bytes(marked, "little") & ~int.from_bytes(gone, "little")
        rest, number = left.to_bytes(len(marked), "little"), -1
        while (number := rest.find(1, number + 1)) >= 0:
            found.add((sender, number))
    return found


class PacedSender(LoadSender):
    """Sends some batches a second: what others meet is then the broker's doing, and not that of this one process of clients."""

    def _source(self) -> Source[MessageBatch, None]:
        return super()._source().throttle(BATCHES_A_SECOND, 1.0)


async def back_up_under_load(times: int, seed: int, folder: Path, report: Report, *, kills: bool = True) -> Figures:
    """Senders and receivers at work, ``times`` backups.

    Raises:
        WrongBackupError: what a backup holds is wrong.
        BrokerDiedError: a broker ended by itself.
        TransportError: a client gave up, or a backup was refused.
        TimeoutError: nothing went on.
    """
    random = Random(seed)
    load = Load(SENDERS)
    figures = Figures()
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(Broker(broker_options(folder / "data")))
        restored = await stack.enter_async_context(Broker(broker_options(folder / "restored")))
        killer = Killer(broker, random, folder / "data", load.confirmations, load.deliveries)
        await broker.start()
        load.life += 1
        senders = [PacedSender(load, index, Random(random.random())) for index in range(SENDERS)]
        receivers = [LoadReceiver(load, index, Random(random.random())) for index in range(RECEIVERS)]
        killer.runs = [
            *(_task(one.run(broker.send_address, QUEUE)) for one in senders),
            *(_task(one.run(broker.receive_address, QUEUE)) for one in receivers),
        ]
        stack.push_async_callback(killer.end, killer.runs)
        probe = Probe((broker.send_address, broker.receive_address))
        probing = asyncio.create_task(probe.run())
        stack.push_async_callback(_cancelled, probing)
        gone: Marks = []
        for number in range(1, times + 1):
            probe.into = figures.before
            await killer.well(load.confirmations.more(BETWEEN))
            target = folder / f"backup-{number}"
            if kills and number % KILL_EVERY == 0:
                await _killed_client(killer, broker, target)
                await _killed_broker(killer, broker, load, target.with_name(f"{target.name}-cut"))
                figures.killed += 2
            kept = await _keep(broker, number)
            confirmed = marks(load, "confirmed")
            probe.into = figures.during
            seconds, size, acknowledged = await _back_up(broker, target, load)
            probe.into = figures.before
            found = await _restored(restored, target, folder / "restored")
            wanted = kept | without(confirmed, acknowledged)
            _judge(number, wanted, found, gone)
            gone = acknowledged
            async with Administration(broker.send_address) as administration:
                await administration.purge_queue(KEPT)
            figures.seconds.append(seconds)
            figures.sizes.append(size)
            figures.wanted.append(len(wanted))
            figures.drained.append(len(found))
            if number % KILL_EVERY == 0:
                report(f"{number} backups; {load.history.confirmed} messages confirmed")
        await _finished(killer, load, receivers)
    verdict = load.history.verdict()
    if not verdict.clean:
        raise WrongBackupError(f"the broker that was backed up: {verdict.examples}")
    return figures


async def _keep(broker: Broker, number: int) -> Messages:
    """Send messages of a sender of their own, each time, to the queue that nobody receives from; they are confirmed."""
    one = SENDERS + number
    batches = [
        MessageBatch.from_payloads([payload_of(one, each) for each in range(first, first + LARGEST_BATCH)])
        for first in range(0, KEPT_MESSAGES, LARGEST_BATCH)
    ]
    sender = Sender(broker.send_address, queue=KEPT, reconnect=BACK_AT_ONCE)
    async with asyncio.timeout(DRAIN_SECONDS):
        await Source.from_iterable(batches).via(sender).to(Sink.ignore()).run()
    return {(one, each) for each in range(KEPT_MESSAGES)}


async def _back_up(broker: Broker, target: Path, load: Load) -> tuple[float, int, Marks]:
    """Take a backup by the command; how long it took, its size, and what was acknowledged when its instant was over."""
    began = time.monotonic()
    process = await _begun(broker, target, RATE)
    acknowledged = marks(load, "acknowledged")
    async with asyncio.timeout(BACKUP_SECONDS):
        _, said = await process.communicate()
    if process.returncode != 0:
        raise WrongBackupError(f"a backup ended with {process.returncode}: {said.decode()}")
    return time.monotonic() - began, read_manifest(OsFiles(), target).size, acknowledged


async def _restored(broker: Broker, backup: Path, directory: Path) -> Messages:
    """Restore a backup, and receive all that it has."""
    await asyncio.to_thread(restore_storage, backup, directory)
    await broker.start()
    found: Messages = set()
    every = asyncio.Event()
    async with Administration(broker.send_address) as administration:
        wanted = sum(row["ready"] for row in await administration.queues() if row["name"] in QUEUES)

    def take(delivered: DeliveredBatch) -> None:
        for payload in delivered.payloads():
            one = identify(payload)
            if one is None or one in found:
                raise WrongBackupError(f"{payload[:60]!r} came out of {backup.name}, which nobody sent, or twice")
            found.add(one)
        delivered.acknowledge()
        if len(found) >= wanted:
            every.set()

    if wanted:
        receiving = [
            _task(Receiver(broker.receive_address, queue=queue).batches().to(Sink.foreach(take)).run())
            for queue in QUEUES
        ]
        waiting = asyncio.ensure_future(every.wait())
        async with asyncio.timeout(DRAIN_SECONDS):
            await asyncio.wait((*receiving, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        for run in receiving:
            await _cancelled(run)
    await broker.stop()
    await asyncio.to_thread(shutil.rmtree, directory)
    await asyncio.to_thread(shutil.rmtree, backup)
    return found


def _judge(number: int, wanted: Messages, found: Messages, gone: Marks) -> None:
    if missing := wanted - found:
        raise WrongBackupError(
            f"backup {number} lacks {len(missing)} of {len(wanted)} messages, such as {min(missing)}"
        )
    back = {(sender, at) for sender, at in found if sender < len(gone) and gone[sender][at : at + 1] == b"\1"}
    # What was purged of the backup before is gone too.
    back |= {one for one in found - wanted if one[0] >= SENDERS}
    if back:
        raise WrongBackupError(
            f"backup {number} has {len(back)} messages that were gone long before, such as {min(back)}"
        )


async def _begun(broker: Broker, target: Path, rate: str) -> asyncio.subprocess.Process:
    """The command, once it has begun to copy: the broker has said then what there is."""
    options = (str(target), "--address", broker.send_address, "--rate", rate)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "transport.cli", "journal", "backup", *options),
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=PIPE,
        cwd=ROOT,
    )
    partial = target.with_name(target.name + ".partial")
    async with asyncio.timeout(BACKUP_SECONDS):
        # There is nothing to wait on but its files.
        while process.returncode is None and not any(partial.glob("*.segment")):
            pause = asyncio.Event()
            asyncio.get_running_loop().call_later(PROBE_PAUSE, pause.set)
            await pause.wait()
    return process


async def _killed_client(killer: Killer, broker: Broker, target: Path) -> None:
    """Kill the client of a backup: the broker goes on, and has place for the next; the rest has its partial name only."""
    process = await _begun(broker, target, SLOW)
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    if list(target.parent.glob(target.name)):
        raise WrongBackupError("a backup whose client was killed has its name")
    await killer.well(killer.confirmations.more(1))
    # The next backup to this target takes its place; here it would hide that one's beginning.
    BackupWriting(target).give_up()


async def _killed_broker(killer: Killer, broker: Broker, load: Load, target: Path) -> None:
    """Kill the broker: the client says so in a line, and leaves nothing."""
    process = await _begun(broker, target, SLOW)
    await broker.kill()
    _, said = await process.communicate()
    left = [path.name for path in target.parent.glob(f"{target.name}*")]
    if process.returncode != 1 or said.count(b"\n") != 1 or left:
        raise WrongBackupError(
            f"a backup of a broker that was killed ended with {process.returncode}, {said!r}, and left {left}"
        )
    load.life += 1
    await broker.start()
    await killer.well(killer.confirmations.more(1))


async def _finished(killer: Killer, load: Load, receivers: list[LoadReceiver]) -> None:
    """Senders end, and everything is delivered and acknowledged."""
    load.ending = True
    for one in receivers:
        one.release()
    for run in killer.runs[:SENDERS]:
        await killer.well(_ended(run))
    await killer.drained(lambda: not load.history.outstanding)


async def _cancelled(run: asyncio.Task[None] | asyncio.Future[None]) -> None:
    done = run.done()
    run.cancel()
    with suppress(asyncio.CancelledError):
        await run
    if done:
        run.result()


def main(
    times: Annotated[int, typer.Option(min=1, metavar="N", help="Backups.")] = 50,
    seed: Annotated[int | None, typer.Option(metavar="S", help="Of all random choices; a new one by default.")] = None,
) -> None:
    """Back a loaded broker up, restore each backup, and drain it."""
    seed = secrets.randbits(32) if seed is None else seed

    def report(text: str) -> None:
        sys.stderr.write(f"backups: {text}\n")
        sys.stderr.flush()

    report(f"--times {times} --seed {seed}")
    with tempfile.TemporaryDirectory(prefix="penstock-backups-", dir=ROOT) as folder:
        try:
            figures = asyncio.run(back_up_under_load(times, seed, Path(folder), report))
        except (WrongBackupError, BrokerDiedError, TransportError, TimeoutError, OSError) as error:
            report(f"seed {seed}: {type(error).__name__}: {error}")
            raise typer.Exit(1) from None
    for line in figures.lines():
        report(line)


if __name__ == "__main__":
    typer.run(main)
