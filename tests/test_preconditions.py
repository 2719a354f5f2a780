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
    mounts = f"disk {tmp_path} ext4 rw 0 0\nx {tmp_path}/none tmpfs rw 0 0\nx {tmp_path} tmpfs ro,noexec 0 0\n"
    with pytest.raises(pytest.skip.Exception, match="no file system in memory"):
        folder_in_memory(mounts)
    (tmp_path / "room").mkdir()
    assert folder_in_memory(mounts + f"x {tmp_path}/room tmpfs rw,nosuid 0 0\n") == tmp_path / "room"


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
