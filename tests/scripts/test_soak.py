"""scripts/soak runs every program that it is told, says which failed, and knows every program that CONTRIBUTING.md names."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def checkout(machine: Any, tmp_path: Path) -> Path:
    """A checkout whose Python says what it is given, and fails at kills."""
    folder = tmp_path / "checkout"
    (folder / "scripts").mkdir(parents=True)
    for name in ("soak", "_apt.sh"):
        shutil.copy(ROOT / "scripts" / name, folder / "scripts" / name)
    machine.executable(folder / ".venv/bin/python", 'echo "$@"; case "$*" in *kill_broker*) exit 1 ;; esac')
    return folder


def test_a_program_that_fails_is_named_at_the_end_and_the_others_run(machine: Any, checkout: Path) -> None:
    result = machine.run(checkout / "scripts" / "soak", "power_loss", "kill_broker", "turns")
    assert result.returncode == 1
    assert [line.split()[1] for line in result.stdout.splitlines()] == [
        "tests.fault.power_loss",
        "tests.fault.kill_broker",
        "tests.fault.turns",
    ]
    assert result.stderr.splitlines()[-1] == "penstock: soak: failed: kill_broker"


def test_a_program_that_does_not_exist_is_refused(machine: Any, checkout: Path) -> None:
    result = machine.run(checkout / "scripts" / "soak", "kill_everything")
    assert (result.returncode, result.stdout) == (2, "")
    assert "there is no program kill_everything" in result.stderr


def test_what_make_soak_runs_is_what_the_contributors_guide_names(machine: Any, checkout: Path) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    listed = re.search(r"^SOAK \?= (.*)$", makefile, re.MULTILINE)
    assert listed is not None
    names = listed[1].split()
    guide = set(re.findall(r"python -m tests\.(?:fault\.)?(\w+)", (ROOT / "CONTRIBUTING.md").read_text("utf-8")))
    assert guide <= set(names), "a program of the guide that make soak leaves out"
    result = machine.run(checkout / "scripts" / "soak", *names)
    suite, *programs = result.stdout.splitlines()
    assert suite == "-m pytest -m soak --soak"
    for line in programs:
        module = line.split()[1].replace(".", "/")
        assert (ROOT / f"{module}.py").is_file() or (ROOT / module / "__main__.py").is_file(), f"no program {module}"
    assert len(programs) + 1 == len(names)
