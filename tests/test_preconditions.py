"""What a test needs of the machine is made, or its absence is named."""

from __future__ import annotations

import os
import pty
import resource
from pathlib import Path

import pytest

from tests.preconditions import enough_open_files, folder_in_memory, terminal


def test_where_no_terminal_can_be_made_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left() -> tuple[int, int]:
        raise OSError("out of pty devices")

    monkeypatch.setattr(pty, "openpty", none_left)
    with pytest.raises(pytest.skip.Exception, match=r"no pseudo-terminal \(out of pty devices"), terminal():
        raise AssertionError("there is no terminal")


def test_both_ends_of_a_terminal_are_closed_and_one_that_was_closed_is_not_closed_again() -> None:
    for closed_by_the_test in (False, True):
        with terminal() as (ours, theirs):
            assert os.isatty(theirs)
            if closed_by_the_test:
                os.close(theirs)
        for end in (ours, theirs):
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(end)


def test_a_folder_in_memory_is_found_by_its_file_system_and_not_by_its_name(tmp_path: Path) -> None:
    def mount(folder: Path, kind: str, options: str = "rw", device: str | None = None) -> str:
        if device is None:
            number = tmp_path.stat().st_dev
            device = f"{os.major(number)}:{os.minor(number)}"
        return f"24 1 {device} / {folder} {options},noexec shared:1 - {kind} what rw\n"

    room = tmp_path / "room"
    room.mkdir()
    mounts = mount(room, "ext4") + mount(tmp_path / "none", "tmpfs") + mount(room, "tmpfs", "ro")
    mounts += mount(room, "tmpfs", device="250:250")  # covered by another
    with pytest.raises(pytest.skip.Exception, match="no file system in memory"):
        folder_in_memory(mounts)
    assert folder_in_memory(mounts + mount(room, "tmpfs")) == room


def test_a_limit_of_open_files_that_cannot_be_raised_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 200))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    enough_open_files(100)
    assert asked == []
    enough_open_files(200)
    assert asked == [(200, 200)]
    with pytest.raises(pytest.skip.Exception, match="needs 201 open files, and the machine allows 200"):
        enough_open_files(201)
