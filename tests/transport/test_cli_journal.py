"""``penstock journal``: what is told of a directory, and the exit codes."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import actors
from journal import BackupError, Journal
from transport.cli import _run
from transport.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
FATAL = SimpleNamespace(file="a.segment", offset=4096, text="checksum", fatal=True)
NOTE = SimpleNamespace(file="b.segment", offset=12, text="torn tail", fatal=False)


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["journal", *map(str, arguments)], env={"COLUMNS": "200"})


def answering(monkeypatch: pytest.MonkeyPatch, name: str, answer: Any) -> list[Path]:
    """Replace ``actors.<name>``; returns what it is called with."""
    asked: list[Path] = []

    def act(directory: Path) -> Any:
        asked.append(directory)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(actors, name, act, raising=False)
    return asked


def test_a_whole_directory_exits_with_0_and_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = answering(monkeypatch, "verify_storage", [])
    result = invoke("verify", tmp_path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"penstock journal verify: no damage in {tmp_path}\n"
    assert asked == [tmp_path]


def test_damage_is_a_line_each_with_file_and_offset_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answering(monkeypatch, "verify_storage", [FATAL, NOTE])
    result = invoke("verify", tmp_path)
    assert result.exit_code == 1
    assert result.stdout.splitlines() == ["a.segment:4096: damaged: checksum", "b.segment:12: note: torn tail"]
    assert f"1 place in {tmp_path} is damaged" in result.stderr
    assert f"penstock journal repair {tmp_path}" in result.stderr


def test_what_the_next_start_mends_by_itself_is_a_note_and_no_damage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answering(monkeypatch, "verify_storage", [NOTE])
    result = invoke("verify", tmp_path)
    assert (result.exit_code, result.stdout) == (0, "b.segment:12: note: torn tail\n")


def test_repair_says_what_it_did(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = answering(monkeypatch, "repair_storage", ["a.segment: 3 messages lost", "b.segment kept aside"])
    result = invoke("repair", tmp_path)
    assert (result.exit_code, result.stdout.splitlines()) == (0, ["a.segment: 3 messages lost", "b.segment kept aside"])
    assert result.stderr == f"penstock journal repair: {tmp_path} can be opened again\n"
    answering(monkeypatch, "repair_storage", [])
    assert invoke("repair", tmp_path).stderr == f"penstock journal repair: nothing to mend in {tmp_path}\n"
    assert asked == [tmp_path]


@pytest.mark.parametrize("verb", ["verify", "repair"])
def test_a_directory_that_cannot_be_looked_at_exits_with_its_own_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, verb: str
) -> None:
    answering(monkeypatch, f"{verb}_storage", _run.StorageError("a broker has it open"))
    result = invoke(verb, tmp_path)
    assert (result.exit_code, result.stdout) == (_run.EXIT_STORAGE, "")
    assert result.stderr == f"penstock journal {verb}: a broker has it open\n"
    assert _run.EXIT_STORAGE == 74


# A real directory


def test_a_backup_is_not_repaired_and_what_to_do_with_it_is_said(tmp_path: Path) -> None:
    fill(tmp_path / "data").close()
    actors.backup_storage(tmp_path / "data", tmp_path / "saved")
    (segment,) = (tmp_path / "saved").glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[5000] ^= 1
    segment.write_bytes(data)
    result = invoke("repair", tmp_path / "saved")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"penstock journal repair: {tmp_path / 'saved'} holds a backup, and a mended backup is none: "
        "copy it, remove backup.json from the copy, and repair the copy\n"
    )
    assert segment.read_bytes() == data
    (tmp_path / "saved" / "backup.json").unlink()
    assert invoke("repair", tmp_path / "saved").exit_code == 0


def penstock(*arguments: object) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "transport.cli", "journal", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def fill(directory: Path) -> Journal:
    """A journal of a hundred records, all of them on disk or on their way there."""
    journal = Journal.open(directory)
    assert list(journal.replay()) == []
    journal.start(lambda _: None, lambda _: None)
    for number in range(100):
        journal.append_items(7, 1, number * 10, 10, [b"x" * 1000])
    return journal


def test_a_flipped_bit_is_found_where_it_is_and_repaired_around(tmp_path: Path) -> None:
    fill(tmp_path).close()
    assert penstock("verify", tmp_path)[:2] == (0, "")
    (segment,) = tmp_path.glob("*.segment")
    data = bytearray(segment.read_bytes())
    data[5000] ^= 1
    segment.write_bytes(data)
    code, out, _ = penstock("verify", tmp_path)
    assert code == 1
    place, _, text = out.partition(": damaged: ")
    assert place.startswith(f"{segment}:")
    assert 4000 < int(place.rpartition(":")[2]) <= 5000
    assert "record" in text
    code, out, err = penstock("repair", tmp_path)
    assert code == 0
    assert segment.name in out
    assert err.endswith("can be opened again\n")
    assert penstock("verify", tmp_path)[0] == 0


def test_a_directory_that_a_broker_has_open_is_not_looked_at(tmp_path: Path) -> None:
    journal = fill(tmp_path)
    try:
        for verb in ("verify", "repair"):
            code, out, err = penstock(verb, tmp_path)
            assert (code, out) == (_run.EXIT_STORAGE, "")
            assert str(tmp_path) in err
            assert "Traceback" not in err
    finally:
        journal.close()


@pytest.mark.parametrize("verb", ["verify", "repair"])
@pytest.mark.parametrize("names", [[], ["lock"], ["notes.txt", "spare"], ["damaged-newest", "torn-1"]])
def test_where_there_is_no_journal_that_is_said_as_wrong_usage_and_nothing_is_written(
    tmp_path: Path, verb: str, names: list[str]
) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"")
    result = invoke(verb, tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"penstock journal {verb}: {tmp_path} holds no journal: ")
    assert len(result.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


@pytest.mark.parametrize("verb", ["verify", "repair"])
def test_a_file_and_a_name_of_nothing_are_no_journal(tmp_path: Path, verb: str) -> None:
    (tmp_path / "file").write_bytes(b"x")
    for name, what in (("file", "is a file and not a directory"), ("nothing", "does not exist")):
        result = invoke(verb, tmp_path / name)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"penstock journal {verb}: {tmp_path / name} {what}")
        assert len(result.stderr.splitlines()) == 1


def test_verify_writes_nothing_though_the_lock_is_gone_and_none_may_be_made(tmp_path: Path) -> None:
    def written() -> dict[str, tuple[int, int, int, int]]:
        # Not when they were last read.
        facts = {path.name: path.stat() for path in tmp_path.iterdir()}
        return {name: (each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns) for name, each in facts.items()}

    fill(tmp_path).close()
    (tmp_path / "lock").unlink()
    before = written()
    assert invoke("verify", tmp_path).exit_code == 0
    assert written() == before


def test_a_broker_is_kept_out_through_a_lock_that_may_only_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = fill(tmp_path)
    opened = os.open

    def only_read(path: Any, flags: int, *mode: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, *mode)

    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", only_read)
            result = invoke("verify", tmp_path)
    finally:
        journal.close()
    assert (result.exit_code, result.stdout) == (_run.EXIT_STORAGE, "")
    assert "in use by another broker" in result.stderr


def test_a_stopped_journal_is_backed_up_and_restored_and_a_broker_opens_what_is_restored_alone(tmp_path: Path) -> None:
    data, backup, restored = tmp_path / "data", tmp_path / "backup", tmp_path / "restored"
    Journal.open(data).close()
    made = invoke("backup", backup, "--data", data)
    assert (made.exit_code, made.stdout) == (0, "")
    assert re.fullmatch(
        rf"penstock journal backup: {backup}: [23] files, \d+(\.\d)? MiB, read again and whole; everything before record \d+ of epoch 1\n",
        made.stderr,
    )
    again = invoke("backup", backup, "--data", data)
    assert (again.exit_code, again.stderr) == (
        1,
        f"penstock journal backup: {backup} is there already: name a directory that is not\n",
    )
    assert invoke("restore", backup, restored).exit_code == 0
    assert invoke("verify", restored).exit_code == 0
    refused = invoke("restore", backup, restored)
    assert refused.exit_code == 1
    assert "holds a journal: name a directory that is not there, or empty" in refused.stderr
    with pytest.raises(BackupError, match="holds a backup"):
        Journal.open(backup)


def test_what_a_backup_cannot_be_told_is_one_line_and_nothing_is_left(tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    both = invoke("backup", backup, "--data", tmp_path, "--address", "127.0.0.1:1")
    assert (both.exit_code, both.stderr.count("\n")) == (2, 1)
    assert "leave out --address, or --data" in both.stderr
    none = invoke("backup", backup, "--data", tmp_path)
    assert (none.exit_code, none.stderr.count("\n")) == (2, 1)
    assert "holds no journal" in none.stderr
    away = invoke("backup", backup, "--address", "127.0.0.1:1", "--connect-timeout", "0.05")
    assert (away.exit_code, away.stderr.count("\n")) == (1, 1)
    for rate in ("0", "fast"):
        assert invoke("backup", backup, "--rate", rate).exit_code == 2
    lost = invoke("restore", tmp_path, tmp_path / "restored")
    assert (lost.exit_code, lost.stderr.count("\n")) == (1, 1)
    assert "is no backup" in lost.stderr
    assert list(tmp_path.iterdir()) == []
