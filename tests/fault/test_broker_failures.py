"""A whole broker on a disk that fails: it stops, says why, and its next life has everything that it confirmed."""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from actors import StorageError
from actors.storage import Storage, storage_options
from streams import Sink, Source
from tests.fault.disk import ROOT, SimulatedDisk
from tests.fault.faulty_files import Fault, FaultyFiles, Kind
from transport import Backoff, Broker, BrokerConfig, BrokerError, ConnectionLostError, Receiver, Sender
from transport.clients.sender_session import Confirmation

CONFIG = BrokerConfig(send_address="127.0.0.1:0", receive_address="127.0.0.1:0", disk_floor=0)
IMPATIENT = Backoff(0.01, 0.05, give_up_after=0.2)
DEADLINE = 30.0
MESSAGES = 60
DIRECTORY = ROOT / "data"
FAULTS = [
    *[(kind, operation) for kind in (Kind.ENOSPC, Kind.EIO) for operation in ("write", "sync", "allocate", "create")],
    (Kind.SHORT_ENOSPC, "write"),
    (Kind.EIO, "sync_directory"),
    (Kind.EIO, "rename"),
]


def storage_over(files: FaultyFiles | SimulatedDisk) -> Storage:
    # Small segments, so that a run makes several and gives some back.
    # Without a reserve, whose room the disk may refuse without a word.
    options = storage_options(segment_bytes=16 * 1024, checkpoint_bytes=32 * 1024, reserve_bytes=0)
    return Storage.open(DIRECTORY, options, files=files)


async def send_until_it_fails(broker: Broker) -> list[int]:
    """Numbers of the messages that were confirmed; the broker may end in between."""
    confirmed: list[int] = []

    def note(confirmation: Confirmation) -> None:
        confirmed.extend(range(confirmation.sequence, confirmation.sequence + confirmation.count))

    async def payloads() -> AsyncIterator[bytes]:
        for number in range(MESSAGES):
            yield b"%04d" % number + bytes(1000)
            await asyncio.sleep(0)

    sender = Sender(broker.send_address, queue="q", client_id="p", reconnect=IMPATIENT)
    with suppress(BrokerError, ConnectionLostError):
        await Source.from_async_iterable(payloads).via(sender.as_flow()).to(Sink.foreach(note)).run()
    return confirmed


async def one_life(files: FaultyFiles) -> tuple[list[int], StorageError | None]:
    """What a broker over ``files`` confirmed, and what it said when it could go on no more."""
    confirmed: list[int] = []
    try:
        storage = storage_over(files)
        broker = Broker(CONFIG, storage=storage)
        async with broker:
            serving = asyncio.create_task(broker.serve_forever())
            sending = asyncio.create_task(send_until_it_fails(broker))
            confirmed = await sending
            await asyncio.sleep(0)
            if storage.failure is not None:
                with pytest.raises(StorageError):
                    await serving
            serving.cancel()
            await asyncio.wait([serving])
        return confirmed, storage.failure
    except StorageError as error:
        return confirmed, error


async def received_after(disk: SimulatedDisk) -> list[bytes]:
    storage = storage_over(disk)
    async with Broker(CONFIG, storage=storage) as broker:
        stored = sum(queue.log.stored_messages for queue in storage.queues)
        if not stored:
            return []
        got = await Receiver(broker.receive_address, queue="q").take(stored).to(Sink.collect()).run()
        return [delivery.payload[:4] for delivery in got]


@pytest.mark.parametrize(("kind", "operation"), FAULTS, ids=lambda value: getattr(value, "name", value))
def test_wherever_the_disk_fails_the_broker_says_so_and_its_next_life_has_all_that_it_confirmed(
    kind: Kind, operation: str
) -> None:
    async def main() -> None:
        failed = 0
        for call in range(12):
            disk = SimulatedDisk()
            files = FaultyFiles(disk, Fault(call, kind, operation))
            confirmed, failure = await one_life(files)
            if not files.struck:
                break
            assert failure is not None, f"{operation} {call} failed and nobody said so"
            assert "nothing that was reported durable is lost" in str(failure) or "cannot be" in str(failure)
            failed += 1
            disk = disk.restart()
            payloads = await received_after(disk)
            assert payloads[: len(confirmed)] == [b"%04d" % number for number in confirmed], f"{operation} {call}"
        assert failed, "the fault struck at least once"

    with asyncio.Runner() as runner:
        runner.run(asyncio.wait_for(main(), DEADLINE * 4))


def test_a_disk_that_is_full_ends_the_process_with_74_and_loses_nothing_confirmed(tmp_path: Path) -> None:
    """A real process and a real limit: the kernel refuses every write beyond 9 MiB of a file."""
    data = tmp_path / "data"
    with _broker(data) as process:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (9 * 2**20, 9 * 2**20))
        sending, _ = _addresses(process)
        confirmed = asyncio.run(_send_large(sending))
        assert process.wait(DEADLINE) == 74
        assert process.stderr is not None
        said = process.stderr.read()
    assert "File too large" in said
    assert len([line for line in said.splitlines() if line.startswith("penstock broker:")]) == 1
    assert 0 < confirmed < LARGE_MESSAGES

    with _broker(data) as process:
        _, receiving = _addresses(process)
        got = asyncio.run(_receive(receiving, confirmed))
        assert got == [b"%04d" % number for number in range(confirmed)]
        process.terminate()
        assert process.wait(DEADLINE) == 0


LARGE_MESSAGES = 200


async def _send_large(address: str) -> int:
    confirmed = 0

    def note(confirmation: Confirmation) -> None:
        nonlocal confirmed
        confirmed += confirmation.count

    payloads = [b"%04d" % number + bytes(100_000) for number in range(LARGE_MESSAGES)]
    sender = Sender(address, queue="q", client_id="p", reconnect=IMPATIENT)
    with pytest.raises((BrokerError, ConnectionLostError)):
        await Source.from_iterable(payloads).via(sender.as_flow()).to(Sink.foreach(note)).run()
    return confirmed


async def _receive(address: str, count: int) -> list[bytes]:
    got = await Receiver(address, queue="q").take(count).to(Sink.collect()).run()
    return [delivery.payload[:4] for delivery in got]


def _broker(data: Path) -> subprocess.Popen[str]:
    where = ["--send-address", "127.0.0.1:0", "--receive-address", "127.0.0.1:0", "--data", str(data)]
    return subprocess.Popen(
        [sys.executable, "-m", "transport.cli", "broker", *where], stderr=subprocess.PIPE, text=True
    )


def _addresses(process: subprocess.Popen[str]) -> tuple[str, str]:
    assert process.stderr is not None
    words = process.stderr.readline().replace(",", "").split()
    return words[3], words[5]
