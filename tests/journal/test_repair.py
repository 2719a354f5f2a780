"""`repair` makes what is damaged openable, loses only what is damaged, says so, and keeps every original."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import JournalLockedError, repair, verify
from tests.fault.disk import SimulatedDisk
from tests.fault.faulty_files import WRITING, Fault, FaultyFiles, Kind, Panic
from tests.fault.history import HistoryError
from tests.fault.workload import DIRECTORY, End, Workload
from tests.fault.written import SEGMENT_HEADER, Written, start, write_groups

GROUPS = [[20, 30, 10], [64], [5, 41], [33, 1, 12]]


@cache
def written() -> Written:
    return write_groups(GROUPS, closed=True)


def flipped(content: bytes, *bits: int) -> bytes:
    changed = bytearray(content)
    for bit in bits:
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def verify_mended(disk: SimulatedDisk, lost: set[int]) -> list[str]:
    """Repairs, and checks that all records but these can be replayed, in order; returns what repair said."""
    said = repair(DIRECTORY, disk)
    assert repair(DIRECTORY, disk) == []
    assert [finding for finding in verify(DIRECTORY, disk) if finding.fatal] == []
    found = start(disk.restart())
    assert found.refused is None
    assert found.records == [(r.lsn, r.payload) for r in written().records if r.lsn not in lost]
    return said


EIGHTHS = (0, *(pytest.param(turn, marks=pytest.mark.soak) for turn in range(1, 8)))
"""One bit of every byte, each of the eight in turn; and where there is time, the others."""


@pytest.mark.parametrize("turn", EIGHTHS)
def test_one_flipped_bit_costs_the_record_it_is_in_and_no_other(turn: int) -> None:
    for offset in range(SEGMENT_HEADER, written().end):
        content = flipped(written().content, 8 * offset + (offset + turn) % 8)
        disk = written().with_content(content)
        record = written().at(offset)
        assert record is not None
        (said,) = verify_mended(disk, {record.lsn})
        assert f"{written().segment}, offset {record.offset}: " in said
        assert f"record {record.lsn} " in said
        assert disk.content(DIRECTORY / f"damaged-{written().segment.name}") == content


def test_a_damaged_header_costs_nothing() -> None:
    for bit in range(8 * SEGMENT_HEADER):
        content = flipped(written().content, bit)
        disk = written().with_content(content)
        (said,) = verify_mended(disk, set())
        assert f"{written().segment}, offset 0: " in said
        assert disk.content(DIRECTORY / f"damaged-{written().segment.name}") == content


def test_a_header_of_zeros_and_a_damaged_first_record_cost_that_record() -> None:
    first = written().records[0]
    for where in (first.offset + 1, first.stop - 1):
        content = flipped(written().content, 8 * where)
        disk = written().with_content(bytes(SEGMENT_HEADER) + content[SEGMENT_HEADER:])
        verify_mended(disk, {first.lsn})


def test_several_damaged_places_are_all_said() -> None:
    lost = [written().records[at] for at in (1, 2, 5)]
    content = flipped(written().content, *(8 * (record.stop - 1) for record in lost))
    said = verify_mended(written().with_content(content), {record.lsn for record in lost})
    assert len(said) == 2, "two of them are neighbours, and one hole"
    assert all(any(f"offset {offset}: " in line for line in said) for offset in (lost[0].offset, lost[2].offset))


def test_nothing_is_done_to_a_journal_without_damage_or_with_a_torn_tail() -> None:
    assert repair(DIRECTORY, written().disk.restart()) == []
    killed = write_groups(GROUPS)
    torn = killed.with_content(killed.content[: killed.end - 3] + bytes(3))
    before = torn.files(DIRECTORY)
    assert repair(DIRECTORY, torn) == []
    assert torn.files(DIRECTORY) == before


def test_a_directory_in_use_is_left_alone() -> None:
    disk = written().disk.restart()
    disk.lock(DIRECTORY / "lock")
    with pytest.raises(JournalLockedError):
        repair(DIRECTORY, disk)
    assert disk.files(DIRECTORY) == written().disk.files(DIRECTORY)


@cache
def used(seed: int) -> tuple[Workload, SimulatedDisk]:
    """A program, and its directory of many segments, some of them combined, with checkpoints; closed."""
    disk = SimulatedDisk()
    workload = Workload(seed)
    assert workload.live(disk, 250).end is End.CLOSED
    return workload, disk.restart()


def verify_usable(workload: Workload, disk: SimulatedDisk) -> None:
    """What was repaired opens twice, and every item that is found is the one that was added."""
    for _ in range(2):
        found = start(disk, workload.history.verify_honest)
        assert found.refused is None, found.refused
        disk = disk.restart()


def test_without_its_newest_checkpoint_a_journal_goes_on_from_the_one_before() -> None:
    for seed in range(20):
        workload, base = used(seed)
        disk = base.restart()
        name = max(name for name in disk.names(DIRECTORY) if name.startswith("checkpoint-"))
        disk.replace(DIRECTORY / name, flipped(disk.content(DIRECTORY / name), 300))
        said = repair(DIRECTORY, disk)
        assert any(name in line for line in said)
        assert f"damaged-{name}" in disk.names(DIRECTORY)
        verify_usable(workload, disk)


def test_without_any_checkpoint_the_log_is_what_there_is() -> None:
    for seed in range(20):
        workload, base = used(seed)
        disk = base.restart()
        names = [name for name in disk.names(DIRECTORY) if name.startswith("checkpoint-")]
        for name in names:
            disk.replace(DIRECTORY / name, b"")
        said = repair(DIRECTORY, disk)
        assert all(any(name in line for line in said) for name in names)
        verify_usable(workload, disk)


def test_every_file_that_goes_missing_is_named_and_the_others_stay_readable() -> None:
    for seed in range(6):
        workload, base = used(seed)
        for name in base.names(DIRECTORY):
            if not name.endswith(".segment") or name.startswith("spare"):
                continue
            disk = base.restart()
            disk.unlink(DIRECTORY / name)
            disk.sync_directory(DIRECTORY)
            needed = any(name in str(finding) for finding in verify(DIRECTORY, disk) if finding.fatal)
            said = repair(DIRECTORY, disk)
            assert needed == any(name in line for line in said)
            verify_usable(workload, disk)


Damage = Callable[[bytes, Random], bytes]


def flip(content: bytes, random: Random) -> bytes:
    return flipped(content, random.randrange(8 * len(content))) if content else content


def cut(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def blank(content: bytes, random: Random) -> bytes:
    first = random.randrange(len(content) + 1)
    stop = min(first + 512, len(content))
    return content[:first] + bytes(stop - first) + content[stop:]


def scribble(content: bytes, random: Random) -> bytes:
    first = random.randrange(len(content) + 1)
    stop = min(first + random.randrange(1, 2000), len(content))
    return content[:first] + random.randbytes(stop - first) + content[stop:]


def another(content: bytes, random: Random) -> bytes:
    return random.randbytes(random.randrange(3000))


@given(
    st.integers(0, 5),
    st.integers(0, 1 << 32),
    st.lists(st.sampled_from([flip, cut, blank, scribble, another]), min_size=1, max_size=5),
)
def test_whatever_is_damaged_repair_leaves_a_journal_that_opens_and_tells_no_lies(
    seed: int, place: int, damages: list[Damage]
) -> None:
    workload, base = used(seed)
    disk = base.restart()
    random = Random(place)
    for damage in damages:
        path = DIRECTORY / random.choice([name for name in disk.names(DIRECTORY) if name != "lock"])
        disk.replace(path, damage(disk.content(path), random))
    repair(DIRECTORY, disk)
    assert [finding for finding in verify(DIRECTORY, disk) if finding.fatal] == []
    verify_usable(workload, disk)


@pytest.mark.parametrize("kind", [Kind.PANIC_BEFORE, Kind.PANIC_WITHIN, Kind.PANIC_AFTER])
def test_a_repair_that_was_interrupted_anywhere_can_be_run_again(kind: Kind) -> None:
    record = written().records[3]
    spoiled = written().with_content(bytes(20) + flipped(written().content, 8 * (record.stop - 1))[20:])
    files = FaultyFiles(spoiled.restart())
    assert repair(DIRECTORY, files)
    sites = [at for at, call in enumerate(files.calls) if call.operation in WRITING]
    assert len(sites) > 8
    for site in sites:
        disk = spoiled.restart()
        with pytest.raises(Panic):
            repair(DIRECTORY, FaultyFiles(disk, Fault(site, kind)))
        verify_mended(disk.crash(Random(site)), {record.lsn})


def test_real_files_are_repaired_as_simulated_ones_are(tmp_path: Path) -> None:
    record = written().records[2]
    for name, content in written().disk.files(DIRECTORY).items():
        (tmp_path / name).write_bytes(content)
    path = tmp_path / written().segment.name
    path.write_bytes(flipped(written().content, 8 * (record.stop - 1)))
    (said,) = repair(tmp_path)
    assert f"{path}, offset {record.offset}: " in said
    assert verify(tmp_path) == []


def test_the_check_of_what_is_found_finds_a_lie() -> None:
    workload, disk = used(0)
    history = copy.deepcopy(workload.history)
    history.change_every_payload()
    with pytest.raises(HistoryError):
        start(disk.restart(), history.verify_honest)
