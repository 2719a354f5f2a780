"""Backups of a journal: as of one instant, held while they are read, whole or not there; and what is restored of one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from journal import (
    BackupError,
    BackupWriter,
    Journal,
    JournalLockedError,
    JournalMissingError,
    JournalUsageError,
    Manifest,
    Pin,
    back_up_directory,
    read_manifest,
    restore,
    verify,
)
from journal.checkpoint_format import Checkpoint
from journal.names import BACKUP, parse_segment
from tests.fault.disk import ROOT
from tests.fault.faulty_files import WRITING, Fault, FaultyFiles, Kind, Panic
from tests.journal.harness import DIRECTORY, SMALL, Opened, SimulatedDisk, segments

TARGET, RESTORED = ROOT / "backup", ROOT / "restored"
PARTIAL = ROOT / "backup.partial"
RECORD = bytes(900)
ABOUT = Manifest(7, 42, 0, "2026-11-23T09:15:00Z", {"broker": "here"})
SEEDS = range(25)


def all_live(stream: int, first: int, stop: int) -> int:
    return stop - first


def none_live(stream: int, first: int, stop: int) -> int:
    return 0


def same(checkpoint: Checkpoint) -> Checkpoint:
    return checkpoint


def pinned(opened: Opened, payload: bytes = b"state") -> Pin:
    """A checkpoint that is pinned, and durable, with records behind its cut."""
    journal = opened.journal
    for _ in journal.prepare_checkpoint(all_live):
        pass
    journal.cut_checkpoint()
    opened.event(b"behind the cut")
    pin = journal.pins.take()
    journal.store_checkpoint(payload)
    opened.run()
    return pin


def filled(disk: Any, count: int = 20) -> Opened:
    opened = Opened(disk)
    for number in range(count):
        opened.items(1, number, 1, RECORD)
        opened.run()
    return opened


def copy(pin: Pin, files: Any, target: Path = TARGET) -> Manifest:
    """What a client does with a pin, file by file."""
    writer = BackupWriter(target, files)
    try:
        for name, size in pin.files(files, DIRECTORY):
            writer.begin(name)
            source = files.open(DIRECTORY / name)
            try:
                for offset in range(0, size, 1000):
                    writer.write(files.read(source, min(1000, size - offset), offset))
            finally:
                files.close(source)
            writer.end()
        return writer.finish(ABOUT)
    finally:
        writer.give_up()


def held(disk: SimulatedDisk, directory: Path) -> list[int]:
    """The items of stream 1 that a journal has; opening it is a start."""
    opened = Opened(disk, directory=directory)
    numbers = [first for located in opened.journal.spans(1, 0, 10**6) for first in range(located.first, located.stop)]
    assert all(bytes(opened.journal.read(1, number).payload) == RECORD for number in numbers)
    opened.journal.abandon()
    return numbers


def test_a_backup_has_everything_up_to_its_instant_and_nothing_behind_it() -> None:
    disk = SimulatedDisk()
    opened = filled(disk)
    pin = pinned(opened)
    for number in range(20, 40):
        opened.items(1, number, 1, RECORD)
    opened.run()
    manifest = copy(pin, disk)
    assert read_manifest(disk, TARGET) == manifest
    assert verify(TARGET, disk) == []
    restore(TARGET, RESTORED, disk, same)
    assert held(disk, RESTORED) == list(range(20))
    again = Opened(disk, directory=RESTORED)
    assert again.journal.next_lsn == pin.lsn == 22
    assert [payload for _, _, payload in again.replayed] == [b"behind the cut"]


def test_what_is_pinned_is_neither_removed_nor_written_over_and_gives_its_room_back_when_it_is_released() -> None:
    disk = SimulatedDisk()
    opened = filled(disk)
    pin = pinned(opened)
    before = {name: disk.content(DIRECTORY / name)[:size] for name, size in pin.files(disk, DIRECTORY)}
    for round_ in range(5):
        for number in range(20 + 10 * round_, 30 + 10 * round_):
            opened.items(1, number, 1, RECORD)
        opened.run()
        opened.checkpoint(live=none_live)
    assert {name: disk.content(DIRECTORY / name)[: len(content)] for name, content in before.items()} == before
    dead = sum(size for name, size in pin.segments)
    assert opened.journal.pins.held_bytes == dead
    # What came later, and is dead, goes all the same.
    assert len(segments(disk)) == len(pin.segments) + 1
    copy(pin, disk)
    restore(TARGET, RESTORED, disk, same)
    assert held(disk, RESTORED) == list(range(20))
    opened.journal.pins.release()
    taken = opened.journal.statistics().disk_bytes
    opened.checkpoint(live=none_live)
    assert opened.journal.pins.held_bytes == 0
    assert len(segments(disk)) == 1
    assert opened.journal.statistics().disk_bytes <= taken - dead + 2 * SMALL.segment_bytes


def test_a_pin_holds_sources_that_are_combined_meanwhile() -> None:
    disk = SimulatedDisk()
    opened = filled(disk, 40)
    pin = pinned(opened)

    def few(stream: int, first: int, stop: int) -> int:
        return sum(number % 10 == 0 for number in range(first, stop))

    for _ in range(3):
        opened.event(b"more")
        opened.checkpoint(live=few)
    assert any(parse_segment(name) and name not in dict(pin.segments) for name in segments(disk)), "combined"
    copy(pin, disk)
    restore(TARGET, RESTORED, disk, same)
    assert held(disk, RESTORED) == list(range(40))


def test_a_start_after_a_crash_with_a_pin_removes_what_was_held() -> None:
    disk = SimulatedDisk()
    opened = filled(disk)
    pinned(opened)
    opened.checkpoint(live=none_live)
    opened.checkpoint(live=none_live)
    assert opened.journal.pins.held_bytes
    again = opened.killed()
    assert len(segments(again.disk)) == 1
    assert verify_killed(again) == []


def verify_killed(opened: Opened) -> list[Any]:
    opened.journal.abandon()
    return [finding for finding in verify(DIRECTORY, opened.disk) if finding.fatal]


def test_there_is_one_pin_at_a_time_and_none_without_a_checkpoint() -> None:
    opened = filled(SimulatedDisk())
    with pytest.raises(JournalUsageError, match="one pin at a time"):
        opened.journal.pins.take()
    pinned(opened)
    with pytest.raises(JournalUsageError, match="one pin at a time"):
        opened.journal.pins.take()


@pytest.mark.parametrize("kind", [Kind.EIO, Kind.ENOSPC, Kind.SHORT, Kind.SHORT_ENOSPC])
def test_whatever_call_fails_a_backup_is_whole_or_is_not_there(kind: Kind) -> None:
    clean = FaultyFiles(SimulatedDisk())
    pin = pinned(filled(clean, 8))
    before = len(clean.calls)
    copy(pin, clean)
    calls = [number for number in range(before, len(clean.calls)) if clean.calls[number].operation in WRITING]
    assert len(calls) > 30
    for number in calls:
        disk = SimulatedDisk()
        files = FaultyFiles(disk, Fault(number, kind))
        pin = pinned(filled(files, 8))
        with suppress(OSError):
            copy(pin, files)
        names = disk.names(ROOT)
        if "backup" in names:
            assert verify(TARGET, disk) == []
            assert read_manifest(disk, TARGET).files
        # One that cannot be removed for the disk's sake may be left, under its partial name; the next one takes its place.
        if "backup" not in names:
            copy(pin, disk)
            assert disk.names(ROOT) == ["backup", "journal"]


def test_after_a_power_loss_at_any_moment_a_backup_is_whole_or_has_not_its_name() -> None:
    clean = FaultyFiles(SimulatedDisk())
    pin = pinned(filled(clean, 8))
    before = len(clean.calls)
    copy(pin, clean)
    finished = 0
    for seed in SEEDS:
        random = Random(seed)
        disk = SimulatedDisk()
        number = random.choice([random.randrange(before, len(clean.calls)), len(clean.calls) - random.randint(1, 6)])
        files = FaultyFiles(
            disk, Fault(number, random.choice([Kind.PANIC_BEFORE, Kind.PANIC_WITHIN, Kind.PANIC_AFTER]))
        )
        pin = pinned(filled(files, 8))
        with pytest.raises(Panic):
            copy(pin, files)
        after = disk.crash(random)
        if "backup" in after.names(ROOT):
            finished += 1
            assert verify(TARGET, after) == []
            restore(TARGET, RESTORED, after, same)
        else:
            opened = Opened(after)
            copy(pinned(opened), after)
            restore(TARGET, RESTORED, after, same)
        assert held(after, RESTORED) == list(range(8))
    assert finished


def test_after_a_power_loss_at_any_moment_a_restored_directory_is_whole_or_cannot_be_opened_and_is_restored_again() -> (
    None
):
    clean = SimulatedDisk()
    copy(pinned(filled(clean, 8)), clean)
    counting = FaultyFiles(clean.restart())
    restore(TARGET, RESTORED, counting, same)
    for seed in SEEDS:
        random = Random(seed)
        there = random.random() < 0.5
        disk = clean.restart()
        if there:
            disk.make_directory(RESTORED)
            disk.sync_directory(ROOT)
        files = FaultyFiles(disk, Fault(random.randrange(len(counting.calls)), Kind.PANIC_AFTER))
        with pytest.raises(Panic):
            restore(TARGET, RESTORED, files, same)
        after = disk.crash(random)
        names = after.names(RESTORED) if "restored" in after.names(ROOT) else []
        if BACKUP in names:
            with pytest.raises(BackupError, match="was not finished"):
                Journal.open(RESTORED, SMALL, after)
        if not names or BACKUP in names or names == ["lock"]:
            restore(TARGET, RESTORED, after, same)
        assert held(after, RESTORED) == list(range(8))


def test_a_target_that_is_there_is_refused_and_what_a_killed_backup_left_is_replaced() -> None:
    disk = SimulatedDisk()
    pin = pinned(filled(disk))
    left = BackupWriter(TARGET, disk)
    left.begin(pin.segments[0].name)
    left.write(b"half")
    with pytest.raises(BackupError, match="being written by another backup"):
        BackupWriter(TARGET, disk)
    after = disk.restart()
    copy(pin, after)
    assert "backup.partial" not in after.names(ROOT)
    with pytest.raises(BackupError, match="is there already"):
        BackupWriter(TARGET, after)
    after.rename(TARGET, ROOT / "elsewhere")
    after.make_directory(PARTIAL)
    after.replace(PARTIAL / "mine.txt", b"of somebody")
    with pytest.raises(BackupError, match=r"mine\.txt is no part of a backup"):
        BackupWriter(TARGET, after)
    assert after.content(PARTIAL / "mine.txt") == b"of somebody"


def test_a_backup_of_a_damaged_journal_gets_no_name_and_says_what_is_damaged() -> None:
    disk = SimulatedDisk()
    pin = pinned(filled(disk))
    name = pin.segments[0].name
    content = bytearray(disk.content(DIRECTORY / name))
    content[500] ^= 1
    disk.replace(DIRECTORY / name, bytes(content))
    with pytest.raises(BackupError, match=rf"the backup is damaged: .*{name}"):
        copy(pin, disk)
    assert "backup" not in disk.names(ROOT)
    assert name in disk.names(PARTIAL), "to be looked at"


def test_every_byte_of_a_backup_that_changes_is_found_by_a_restore_which_leaves_nothing() -> None:
    disk = SimulatedDisk()
    manifest = copy(pinned(filled(disk, 8)), disk)
    random = Random(1)
    for file in manifest.files:
        damaged = disk.restart()
        content = bytearray(damaged.content(TARGET / file.name))
        content[random.randrange(len(content))] ^= 1
        damaged.replace(TARGET / file.name, bytes(content))
        with pytest.raises(BackupError, match=f"is damaged: .*{file.name}"):
            restore(TARGET, RESTORED, damaged, same)
        assert damaged.names(ROOT) == ["backup", "journal"]
        gone = disk.restart()
        gone.unlink(TARGET / file.name)
        with pytest.raises(BackupError, match=f"is damaged: .*{file.name}"):
            restore(TARGET, RESTORED, gone, same)


def test_what_is_no_backup_or_no_empty_directory_is_refused() -> None:
    disk = SimulatedDisk()
    opened = filled(disk)
    copy(pinned(opened), disk)
    with pytest.raises(BackupError, match="is no backup"):
        restore(DIRECTORY, RESTORED, disk, same)
    with pytest.raises(BackupError, match="holds a journal"):
        restore(TARGET, DIRECTORY, disk, same)
    disk.make_directory(RESTORED)
    disk.replace(RESTORED / "letter", b"")
    with pytest.raises(BackupError, match="is not empty"):
        restore(TARGET, RESTORED, disk, same)
    with pytest.raises(BackupError, match="holds a backup"):
        Journal.open(TARGET, SMALL, disk)
    for text in (b"", b"[]", b'{"format": 2}', b'{"format": 1, "files": 3}'):
        disk.replace(TARGET / BACKUP, text)
        with pytest.raises(BackupError):
            read_manifest(disk, TARGET)
    disk.replace(
        TARGET / BACKUP, ABOUT.pack().replace(b'"files": []', b'"files": [{"name": "../x", "size": 1, "sha256": ""}]')
    )
    with pytest.raises(BackupError, match="which no journal has"):
        read_manifest(disk, TARGET)


def test_a_stopped_journal_is_backed_up_as_it_is_and_one_that_is_open_is_refused() -> None:
    disk = SimulatedDisk()
    opened = filled(disk)
    with pytest.raises(JournalLockedError):
        back_up_directory(DIRECTORY, TARGET, ABOUT, disk)
    opened.journal.close()
    with pytest.raises(JournalMissingError):
        back_up_directory(ROOT, TARGET, ABOUT, disk)
    manifest = back_up_directory(DIRECTORY, TARGET, ABOUT, disk)
    assert manifest.lsn == opened.journal.next_lsn
    restore(TARGET, RESTORED, disk, same)
    assert held(disk, RESTORED) == list(range(20))
