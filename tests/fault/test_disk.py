"""The simulated disk keeps what was synced, loses what may be lost, and both by the seed."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal.files import Files, OsFiles
from tests.fault.disk import ROOT, SECTOR, SimulatedDisk
from tests.fault.faulty_files import Call, Fault, FaultyFiles, Kind, Panic

SEEDS = range(200)
FILE = ROOT / "file"


def written(disk: Files, path: Path, *contents: bytes, synced: bool = False) -> int:
    """A new file with these contents end to end, one write each, and the directory synced."""
    file = disk.create(path)
    disk.sync_directory(path.parent)
    offset = 0
    for content in contents:
        offset += disk.write(file, [content], offset)
    if synced:
        disk.sync(file)
    return file


def after_losses(disk: SimulatedDisk, look: Callable[[SimulatedDisk], object]) -> set[object]:
    """What is seen of all the disks that power losses can leave."""
    return {look(disk.crash(Random(seed))) for seed in SEEDS}


def content(disk: SimulatedDisk) -> bytes:
    return disk.content(FILE)


def names(disk: SimulatedDisk) -> tuple[str, ...]:
    return tuple(disk.names(ROOT))


def test_what_was_synced_survives_every_power_loss() -> None:
    disk = SimulatedDisk()
    written(disk, FILE, b"a" * 3000, synced=True)
    assert after_losses(disk, content) == {b"a" * 3000}


def test_an_unsynced_sector_is_old_or_new_or_torn_and_independent_of_the_next() -> None:
    disk = SimulatedDisk()
    file = written(disk, FILE, b"a" * SECTOR * 2, synced=True)
    disk.write(file, [b"b" * SECTOR * 2], 0)
    found = after_losses(disk, content)
    assert {b"a" * SECTOR * 2, b"b" * SECTOR * 2, b"a" * SECTOR + b"b" * SECTOR, b"b" * SECTOR + b"a" * SECTOR} <= found
    torn = [data for data in found if isinstance(data, bytes) and 0 < data[:SECTOR].count(b"b") < SECTOR]
    assert torn
    assert all(data[:SECTOR] == data[:SECTOR].replace(b"a", b"").ljust(SECTOR, b"a") for data in torn)


def test_an_unsynced_size_is_the_old_or_the_new_one() -> None:
    disk = SimulatedDisk()
    file = written(disk, FILE, b"a" * 100, synced=True)
    disk.write(file, [b"b" * 100], 100)
    disk.allocate(file, 0, 4096)
    assert after_losses(disk, lambda left: len(content(left))) == {100, 200, 4096}


def test_a_cut_that_was_not_synced_may_come_back() -> None:
    disk = SimulatedDisk()
    file = written(disk, FILE, b"a" * 1000, synced=True)
    disk.truncate(file, 300)
    assert disk.size(file) == 300
    assert {len(data) for data in after_losses(disk, content) if isinstance(data, bytes)} == {300, 1000}


def test_an_earlier_write_of_a_sector_may_be_what_is_left() -> None:
    disk = SimulatedDisk()
    file = written(disk, FILE, b"a" * SECTOR, synced=True)
    disk.write(file, [b"b" * SECTOR], 0)
    disk.write(file, [b"c" * SECTOR], 0)
    assert {b"a" * SECTOR, b"b" * SECTOR, b"c" * SECTOR} <= after_losses(disk, content)


def test_a_name_is_durable_only_once_its_directory_is_synced() -> None:
    disk = SimulatedDisk()
    file = disk.create(FILE)
    disk.write(file, [b"a"], 0)
    disk.sync(file)
    assert after_losses(disk, names) == {(), ("file",)}
    disk.sync_directory(ROOT)
    assert after_losses(disk, names) == {("file",)}


def test_a_rename_happens_or_does_not_and_never_in_part() -> None:
    disk = SimulatedDisk()
    written(disk, ROOT / "old", b"old", synced=True)
    written(disk, ROOT / "new", b"new", synced=True)
    disk.rename(ROOT / "new", ROOT / "old")
    before = (("new", b"new"), ("old", b"old"))
    after = (("old", b"new"),)
    assert after_losses(disk, lambda left: tuple(left.files(ROOT).items())) == {before, after}


def test_names_of_different_files_survive_in_any_subset() -> None:
    disk = SimulatedDisk()
    for name in "abc":
        disk.create(ROOT / name)
    assert len(after_losses(disk, names)) == 8


def test_a_directory_that_was_not_synced_into_its_parent_may_be_lost_with_all_in_it() -> None:
    disk = SimulatedDisk()
    disk.make_directory(ROOT / "a" / "b")
    written(disk, ROOT / "a" / "b" / "file", b"a", synced=True)
    disk.sync_directory(ROOT / "a")
    assert after_losses(disk, names) == {(), ("a",)}
    disk.sync_directory(ROOT)
    assert after_losses(disk, lambda left: left.content(ROOT / "a" / "b" / "file")) == {b"a"}


def test_a_sync_after_one_that_failed_claims_what_it_does_not_do() -> None:
    disk = SimulatedDisk()
    file = written(disk, FILE, b"a" * SECTOR)
    disk.fail_sync(file)
    disk.sync(file)
    assert disk.content(FILE) == b"a" * SECTOR
    assert bytes(SECTOR) in after_losses(disk, content)
    disk.write(file, [b"a" * SECTOR], 0)
    disk.sync(file)
    assert after_losses(disk, content) == {b"a" * SECTOR}


def test_the_death_of_a_process_loses_nothing_but_its_descriptors_and_locks() -> None:
    disk = SimulatedDisk()
    written(disk, FILE, b"a" * 700)
    lock = disk.lock(ROOT / "lock")
    with pytest.raises(BlockingIOError):
        disk.lock(ROOT / "lock")
    after = disk.restart()
    assert after.content(FILE) == b"a" * 700
    assert after.open_descriptors() == []
    after.close(after.lock(ROOT / "lock"))
    with pytest.raises(OSError, match="Bad file descriptor"):
        after.read(lock, 1, 0)
    assert {len(data) for data in after_losses(after, content) if isinstance(data, bytes)} == {0, 700}


@given(st.integers(0, 1 << 32), st.lists(st.tuples(st.integers(0, 3000), st.binary(min_size=1, max_size=900))))
def test_a_seed_gives_the_same_disk_every_time(seed: int, writes: list[tuple[int, bytes]]) -> None:
    disk = SimulatedDisk()
    file = written(disk, FILE)
    for offset, data in writes:
        disk.write(file, [data], offset)
    assert disk.crash(Random(seed)).files(ROOT) == disk.crash(Random(seed)).files(ROOT)


def test_a_full_disk_takes_what_fits_and_then_nothing() -> None:
    disk = SimulatedDisk(capacity=1000)
    file = written(disk, FILE, b"a" * 900)
    assert disk.free_bytes(ROOT) == 100
    assert disk.write(file, [b"b" * 300], 900) == 100
    with pytest.raises(OSError, match="No space"):
        disk.write(file, [b"b"], 1000)
    with pytest.raises(OSError, match="No space"):
        disk.allocate(file, 0, 1001)
    assert disk.write(file, [b"c" * 1000], 0) == 1000


@pytest.fixture(params=["simulated", "real"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, Path]:
    """The layers that faults work over, each with a directory."""
    return (SimulatedDisk(), ROOT) if request.param == "simulated" else (OsFiles(), tmp_path)


def test_both_layers_answer_alike(files: tuple[Files, Path]) -> None:
    layer, root = files
    path = root / "sub" / "file"
    layer.make_directory(path.parent)
    layer.make_directory(path.parent)
    file = layer.create(path)
    with pytest.raises(FileExistsError):
        layer.create(path)
    assert layer.write(file, [b"ab", memoryview(b"cd")], 3) == 4
    layer.allocate(file, 0, 20)
    layer.truncate(file, 10)
    assert layer.size(file) == 10
    assert layer.read(file, 100, 0) == b"\0\0\0abcd\0\0\0"
    assert layer.read(file, 2, 4) == b"bc"
    assert layer.read(file, 2, 40) == b""
    reader = layer.open(path)
    with pytest.raises(OSError, match="Bad file descriptor"):
        layer.write(reader, [b"x"], 0)
    layer.rename(path, path.with_name("other"))
    assert layer.names(path.parent) == ["other"]
    with pytest.raises(FileNotFoundError):
        layer.open(path)
    layer.unlink(path.with_name("other"))
    assert layer.read(reader, 3, 3) == b"abc"
    with pytest.raises(FileNotFoundError):
        layer.names(root / "none")
    layer.sync(file)
    layer.sync_directory(path.parent)
    layer.close(file)
    layer.close(reader)
    with pytest.raises(OSError, match="Bad file descriptor"):
        layer.sync(file)


def test_a_fault_strikes_the_call_it_names_and_no_other(files: tuple[Files, Path]) -> None:
    layer, root = files
    faulty = FaultyFiles(
        layer, Fault(1, Kind.EIO, "sync"), Fault(2, Kind.SHORT, "write"), Fault(4, Kind.SHORT_ENOSPC, "write")
    )
    file = written(faulty, root / "file", b"abcd", b"efgh", synced=True)
    with pytest.raises(OSError, match=f"Errno {errno.EIO}"):
        faulty.sync(file)
    assert faulty.write(file, [b"ij", b"kl"], 8) == 2
    assert faulty.write(file, [b"kl"], 10) == 2
    assert faulty.write(file, [b"mnop"], 12) == 2
    with pytest.raises(OSError, match=f"Errno {errno.ENOSPC}"):
        faulty.write(file, [b"op"], 14)
    assert faulty.write(file, [b"op"], 14) == 2
    assert faulty.read(file, 100, 0) == b"abcdefghijklmnop"
    assert [faulty.calls[index].operation for index in faulty.struck] == ["sync", "write", "write", "write"]
    faulty.close(file)


@pytest.mark.parametrize(
    ("kind", "left"), [(Kind.PANIC_BEFORE, b""), (Kind.PANIC_WITHIN, b"ab"), (Kind.PANIC_AFTER, b"abcd")]
)
def test_nothing_reaches_the_disk_after_a_panic(files: tuple[Files, Path], kind: Kind, left: bytes) -> None:
    layer, root = files
    faulty = FaultyFiles(layer, Fault(2, kind))
    with pytest.raises(Panic):
        written(faulty, root / "file", b"abcd")
    with pytest.raises(Panic):
        faulty.unlink(root / "file")
    assert faulty.dead
    assert faulty.calls == [Call("create", "file"), Call("sync_directory", root.name), Call("write", "file")]
    faulty.release()
    reader = layer.open(root / "file")
    assert layer.read(reader, 100, 0) == left
    layer.close(reader)
