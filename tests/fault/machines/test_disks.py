"""A disk fails as it is told to, for the machine that it is of; and a broker on it loses nothing that it confirmed."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from random import Random

import pytest

from tests.fault.machines.brokers import PlainBroker
from tests.fault.machines.disks import Disk, DiskError, ImageDisk
from tests.fault.machines.load import Load
from tests.fault.machines.machines import Machine, Machines
from tests.fault.machines.options import Options
from tests.fault.machines.processes import Process

DEADLINE = 20.0
DISK_ENDED_IT = 74
SLOW_SECONDS = 0.05
RATE = 2_000.0
"""Messages a second of a producer: the machine has others to work for, too."""
SMALL = ("--disk-floor", "0", "--segment-bytes", "1MiB")
# Writes and syncs for each line that it reads from a FIFO, and says what came of it.
WRITER = """
import os, sys, time
path, orders = sys.argv[1:]
file = os.open(path, os.O_RDWR | os.O_CREAT)
print("open", flush=True)
number = 0
for order in open(orders):
    number += 1
    start = time.monotonic()
    try:
        os.pwrite(file, b"x" * int(order), 0)
        os.fdatasync(file)
        print(number, "done", time.monotonic() - start, flush=True)
    except OSError as error:
        print(number, "failed", error.errno, flush=True)
"""


class Writer:
    """A process that writes what it is told to, one at a time."""

    def __init__(self, machine: Machine, path: Path) -> None:
        self._orders = machine.folder / f"orders-{path.name}"
        os.mkfifo(self._orders)
        self._process: Process = machine.start(sys.executable, "-c", WRITER, path, self._orders, name="writer")
        self._process.wait_line("open")
        self._to = self._orders.open("w", buffering=1)
        self._number = 0

    def write(self, size: int = 100) -> float | int:
        """Seconds that it took, or the errno that it failed with."""
        self._number += 1
        self._to.write(f"{size}\n")
        found = self._process.wait_line(rf"^{self._number} (done|failed) (.*)", DEADLINE)
        return float(found[2]) if found[1] == "done" else int(found[2])

    def close(self) -> None:
        self._to.close()
        assert self._process.wait_end() == 0


@pytest.mark.usefixtures("faults_here")
def test_calls_on_a_disk_take_long_or_fail_until_it_is_mended_and_those_on_others_do_not(machines: Machines) -> None:
    a = machines["a"]
    on_it, beside_it, other = (
        Writer(a, a.disk.path / "x"),
        Writer(a, a.folder / "y"),
        Writer(machines["b"], machines["b"].disk.path / "x"),
    )
    assert isinstance(on_it.write(), float)

    a.disk.slow_syncs(SLOW_SECONDS)
    assert on_it.write() > SLOW_SECONDS
    a.disk.wait_struck(1, DEADLINE)
    assert a.disk.struck == 1
    a.disk.mend()

    a.disk.fail_syncs(errno.EIO)
    assert on_it.write() == errno.EIO
    a.disk.mend()
    a.disk.fail_writes(errno.EDQUOT)
    assert on_it.write() == errno.EDQUOT
    for spared in (beside_it, other):
        assert isinstance(spared.write(), float)
    a.disk.mend()
    a.disk.leave_room(250)
    assert isinstance(on_it.write(200), float)
    assert on_it.write(200) == errno.ENOSPC
    assert a.disk.struck == 4
    assert machines["b"].disk.struck == 0
    with pytest.raises(DiskError, match="4 calls were struck within 0 s, not 5"):
        a.disk.wait_struck(5, 0.01)
    a.disk.mend()
    assert isinstance(on_it.write(), float)
    assert a.disk.struck == 4
    for writer in (on_it, beside_it, other):
        writer.close()


def test_one_bit_is_flipped_and_flipped_back(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "disk")
    (disk.path / "below").mkdir()
    for name, size in (("one", 10), ("below/two", 1_000), ("empty", 0)):
        (disk.path / name).write_bytes(bytes(size))
    flipped = disk.flip_some_bit(Random(7))
    assert flipped.path in {disk.path / "one", disk.path / "below/two"}
    assert sum(each.bit_count() for each in flipped.path.read_bytes()) == 1
    assert flipped.path.read_bytes()[flipped.offset] == 1 << flipped.bit
    assert disk.flip_some_bit(Random(7)) == flipped
    assert not any(flipped.path.read_bytes())
    assert disk.flip_some_bit(Random(1), "one").path == disk.path / "one"
    with pytest.raises(DiskError, match="next to nothing is written"):
        disk.flip_some_bit(Random(1), "below/two", written=True)
    with (disk.path / "below/two").open("r+b") as file:
        file.seek(700)
        file.write(b"x")
    assert 640 <= disk.flip_some_bit(Random(1), "below/two", written=True).offset < 704
    with pytest.raises(DiskError, match="no file"):
        disk.flip_some_bit(Random(1), "none")
    with pytest.raises(DiskError, match="no byte 10"):
        disk.flip_bit(disk.path / "one", 10, 0)
    disk.close()


def test_a_disk_that_loses_its_power_has_what_was_synced_and_nothing_else(image_machines: Machines) -> None:
    disk = image_machines["a"].disk
    image_machines["a"].start("sh", "-c", 'exec >"$0/open"; echo; exec sleep 1000', disk.path)
    synced = os.open(disk.path / "synced", os.O_RDWR | os.O_CREAT)
    os.write(synced, b"kept")
    os.fsync(synced)
    os.pwrite(synced, b"lost", 0)
    os.close(synced)
    (disk.path / "unsynced").write_bytes(b"lost")
    image_machines["a"].power_off()
    assert (disk.path / "synced").read_bytes() == b"kept"
    assert not (disk.path / "unsynced").exists()


def test_a_full_disk_is_full_until_it_is_not(image_machines: Machines) -> None:
    disk = image_machines["a"].disk
    assert isinstance(disk, ImageDisk)
    disk.fill()
    with pytest.raises(OSError, match="No space left"), (disk.path / "more").open("wb") as file:
        file.write(bytes(2**20))
    assert os.statvfs(disk.path).f_bavail == 0
    disk.unfill()
    (disk.path / "more").write_bytes(bytes(2**20))
    assert (disk.path / "more").stat().st_size == 2**20
    disk.fill(2**22)
    left = os.statvfs(disk.path)
    assert 2**21 < left.f_bavail * left.f_frsize <= 2**22
    disk.unfill()


@pytest.mark.usefixtures("faults_here")
def test_a_broker_whose_disk_fails_and_then_loses_its_power_loses_nothing_that_it_confirmed(
    image_machines: Machines,
) -> None:
    a, clients = image_machines["a"], image_machines["clients"]
    broker = PlainBroker(a, SMALL)
    process = broker.start()
    load = Load(
        clients, image_machines.folder / "load", [broker.send], [broker.receive], Options(longest_wait=0.2, rate=RATE)
    )
    load.start()
    load.wait_confirmed(300)

    a.disk.slow_syncs(SLOW_SECONDS)
    load.wait_after(load.mark("syncs take longer"))
    a.disk.fail_syncs(errno.EIO)
    failing = load.mark("syncs fail")
    assert process.wait_end(DEADLINE) == DISK_ENDED_IT
    a.disk.mend()
    broker.start()
    load.wait_after(failing)

    off = load.mark("the power is off")
    a.power_off()
    assert a.pids() == []
    broker.start()
    load.wait_after(off)

    load.drain(lambda: broker.left(clients, load.options.queue))
    found = load.judge()
    assert found.clean, found.summary()
    assert a.disk.struck >= 2
