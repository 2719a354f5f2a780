"""scripts/pythons finds every Python that Penstock runs on; scripts/test-pythons says which it could not use, and why."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def pythons(machine: Any) -> Any:
    """Runs the script on a machine that has ``sort`` and ``awk`` as well, and no Python but those that a test puts there."""
    for name in ("sort", "awk"):
        (machine.bin / name).symlink_to(str(shutil.which(name)))
    return machine


def python(machine: Any, path: Path, version: str) -> Path:
    """A command that answers as a Python of this version; nothing where it is none that the script takes."""
    minor = int(version.split(".")[1])
    known = 11 <= minor <= 13
    found: Path = machine.executable(path, f"echo '{version} {path}'" if known else "true")
    return found


def listed(machine: Any, home: Path, **environment: str) -> list[str]:
    result = machine.run("pythons", HOME=str(home), PYENV_ROOT=str(home / "pyenv"), **environment)
    assert result.returncode == 0, result.stderr
    # The system's own are there whatever a test does.
    return [line for line in result.stdout.splitlines() if not line.split()[1].startswith("/usr/")]


def test_every_version_is_listed_once_and_the_oldest_comes_first(pythons: Any, tmp_path: Path) -> None:
    on_path = python(pythons, pythons.bin / "python3.13", "3.13.99")
    again = python(pythons, tmp_path / "pyenv/versions/3.13.99/bin/python3", "3.13.99")
    older = python(pythons, tmp_path / "pyenv/versions/3.11.98/bin/python3", "3.11.98")
    ten = python(pythons, tmp_path / "pyenv/versions/3.11.100/bin/python3", "3.11.100")
    python(pythons, tmp_path / "pyenv/versions/3.10.13/bin/python3", "3.10.13")
    assert listed(pythons, tmp_path) == [f"3.11.98 {older}", f"3.11.100 {ten}", f"3.13.99 {on_path}"]
    assert again.exists()


def test_the_python_that_is_asked_for_is_among_them(pythons: Any, tmp_path: Path) -> None:
    mine = python(pythons, tmp_path / "mine" / "python", "3.12.97")
    assert listed(pythons, tmp_path, PYTHON=str(mine)) == [f"3.12.97 {mine}"]


@pytest.fixture
def checkout(machine: Any, tmp_path: Path) -> Path:
    """A checkout with our script, one Python, and a set-up and a pytest that do as a test says."""
    folder = tmp_path / "checkout"
    (folder / "scripts").mkdir(parents=True)
    (folder / "tests").mkdir()
    (folder / "tests" / "test_loops.py").write_text("@pytest.mark.event_loop\n", "utf-8")
    (folder / "tests" / "test_other.py").write_text("event_loop\n", "utf-8")
    for name in ("test-pythons", "_apt.sh"):
        shutil.copy(ROOT / "scripts" / name, folder / "scripts" / name)
    machine.executable(folder / "scripts" / "pythons", "echo 3.12.97 /a/python; echo 3.13.96 /b/python")
    machine.executable(
        folder / ".venv/bin/python", 'case "$1" in -c) echo 3.11.95 ;; *) echo "$@"; echo 7 passed ;; esac'
    )
    return folder


PYTEST = """mkdir -p "$2/bin"; printf '#!/usr/bin/env bash\\necho "$@"; echo 5 passed\\n' >"$2/bin/python"; chmod +x "$2/bin/python"; """


def run(machine: Any, checkout: Path) -> Any:
    for name in ("mkdir", "chmod", "grep"):
        (machine.bin / name).symlink_to(str(shutil.which(name)))
    return machine.run(checkout / "scripts" / "test-pythons", "--short")


def test_a_python_whose_packages_cannot_be_had_is_skipped_by_name_and_the_others_are_tested(
    machine: Any, checkout: Path
) -> None:
    machine.executable(checkout / "scripts" / "setup", PYTEST + 'case "$2" in *3.12.97) exit 1 ;; esac')
    result = run(machine, checkout)
    assert result.returncode == 0, result.stderr
    assert "skipped: Python 3.12.97 (/a/python): its packages could not be installed" in result.stderr
    assert "Python 3.11.95, uvloop: 7 passed" in result.stderr
    assert "Python 3.13.96: 5 passed" in result.stderr


def test_a_test_that_fails_on_one_python_is_shown_and_fails_the_whole(machine: Any, checkout: Path) -> None:
    failing = PYTEST.replace("echo 5 passed", "echo 1 failed here; exit 1")
    machine.executable(
        checkout / "scripts" / "setup", 'case "$2" in *3.12.97) ' + failing + " ;; *) " + PYTEST + " ;; esac"
    )
    result = run(machine, checkout)
    assert result.returncode == 1
    assert "1 failed here" in result.stdout
    assert "Python 3.12.97: failed" in result.stderr
    assert "Python 3.13.96: 5 passed" in result.stderr


def test_only_the_files_that_have_such_tests_are_collected(machine: Any, checkout: Path) -> None:
    machine.executable(checkout / ".venv/bin/python", 'case "$1" in -c) echo 3.11.95 ;; *) echo "$@"; exit 1 ;; esac')
    machine.executable(checkout / "scripts" / "setup", PYTEST)
    result = run(machine, checkout)
    assert result.returncode == 1
    assert "-m event_loop --loop uvloop tests/test_loops.py\n" in result.stdout
    assert result.stderr.splitlines()[0] == "penstock: Python 3.11.95, uvloop: failed"


def test_without_a_test_of_the_event_loop_nothing_is_run(machine: Any, checkout: Path) -> None:
    (checkout / "tests" / "test_loops.py").unlink()
    result = run(machine, checkout)
    assert (result.returncode, result.stderr) == (1, "penstock: no test is marked event_loop\n")
