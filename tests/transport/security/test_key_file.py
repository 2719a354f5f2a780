"""The key file: random, whole, and its owner's alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from transport.security import key_file
from transport.security.key_file import KeyFileError, ensure_key_file, read_key_file
from transport.security.proofs import KEY_FILE_BYTES


def test_it_is_made_once_and_stays(tmp_path: Path) -> None:
    made = ensure_key_file(tmp_path / "key")
    assert len(made) == KEY_FILE_BYTES
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert ensure_key_file(tmp_path / "key") == read_key_file(tmp_path / "key") == made
    assert ensure_key_file(tmp_path / "other") != made
    assert {each.name for each in tmp_path.iterdir()} == {"key", "other"}


def test_of_two_programs_that_make_it_the_quicker_ones_secret_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link
    quicker: list[bytes] = []

    def later(source: Path, target: Path) -> None:
        monkeypatch.undo()
        monkeypatch.setattr("os.getpid", lambda: 1)
        quicker.append(ensure_key_file(target))
        link(source, target)

    monkeypatch.setattr(key_file.os, "link", later)
    assert ensure_key_file(tmp_path / "key") == quicker[0]


def test_what_a_program_that_was_killed_has_left_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: Any, **__: Any) -> None:
        raise Killed

    monkeypatch.setattr(os, "getpid", lambda: 1)
    (tmp_path / ".key.1.new").touch(0o400)
    for name, call in (("os.link", killed), ("os.fsync", killed), ("os.fchmod", killed), ("os.write", killed)):
        with monkeypatch.context() as patched:
            patched.setattr(name, call)
            patched.setattr(Path, "unlink", lambda _: None)  # who is killed tidies nothing up
            with pytest.raises(Killed):
                ensure_key_file(tmp_path / "key")
        assert not (tmp_path / "key").exists()
    assert len(list(tmp_path.iterdir())) == 5
    assert len(ensure_key_file(tmp_path / "key")) == KEY_FILE_BYTES


def test_its_name_is_on_the_disk_before_anybody_is_told_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    real = os.fsync

    def fsync(file: int) -> None:
        real(file)
        synced.append(stat.S_ISDIR(os.fstat(file).st_mode))

    monkeypatch.setattr(os, "fsync", fsync)
    ensure_key_file(tmp_path / "key")
    assert synced == [False, True]


def test_anothers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure_key_file(tmp_path / "key")
    real = os.fstat

    def fstat(file: int) -> os.stat_result:
        facts = list(real(file))
        facts[4] = 1_000_002
        return os.stat_result(facts)

    monkeypatch.setattr(os, "fstat", fstat)
    with pytest.raises(KeyFileError, match="belongs to the user with number 1000002"):
        read_key_file(tmp_path / "key")


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (bytes(32), 0o640, "chmod 600"),
        (bytes(31), 0o600, "32 bytes"),
        (bytes(33), 0o600, "32 bytes"),
        (b"", 0o600, "32 bytes"),
    ],
)
def test_what_is_no_key_file_of_ones_own_is_refused(tmp_path: Path, content: bytes, mode: int, why: str) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=why):
        ensure_key_file(path)


def test_where_it_cannot_be_made_the_error_says_so(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match="No such file"):
        ensure_key_file(tmp_path / "missing" / "key")
    with pytest.raises(KeyFileError, match="penstock user key"):
        read_key_file(tmp_path / "key")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(KeyFileError, match="no regular file"):
        read_key_file(tmp_path / "pipe")
