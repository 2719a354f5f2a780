"""scripts/soak runs every program that it is told, says which failed, and knows every program that CONTRIBUTING.md names."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
GUIDE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")


@pytest.fixture
def checkout(machine: Any, tmp_path: Path) -> Path:
    """A checkout whose Python says what it is given, and fails at kills and properties."""
    folder = tmp_path / "checkout"
    (folder / "scripts").mkdir(parents=True)
    for name in ("soak", "_apt.sh"):
        shutil.copy(ROOT / "scripts" / name, folder / "scripts" / name)
    machine.executable(
        folder / ".venv/bin/python", 'echo "$@"; case "$*" in *kill_broker* | *"-m hypothesis"*) exit 1 ;; esac'
    )
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


def seeds(lines: list[str]) -> list[int]:
    """Those that runs of pytest were given."""
    return [int(line.rpartition("--hypothesis-seed=")[2]) for line in lines]


def test_the_property_tests_run_several_times_each_with_another_seed_and_fail_as_one(
    machine: Any, checkout: Path
) -> None:
    result = machine.run(checkout / "scripts" / "soak", "properties", "suite")
    *runs, suite = result.stdout.splitlines()
    assert {line.rpartition("=")[0] for line in runs} == {"-m pytest -m hypothesis --hypothesis-seed"}
    assert suite.startswith("-m pytest -m soak --soak --hypothesis-seed=")
    assert len(runs) == 5
    assert len(set(seeds([*runs, suite]))) == 6
    *said, last = result.stderr.splitlines()
    assert said == [f"penstock: python {line}" for line in [*runs, suite]], "what to type to run one again"
    assert last == "penstock: soak: failed: properties"


def test_what_make_soak_runs_is_what_the_contributors_guide_names(machine: Any, checkout: Path) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    listed = re.search(r"^SOAK \?= (.*)$", makefile, re.MULTILINE)
    assert listed is not None
    names = listed[1].split()
    result = machine.run(checkout / "scripts" / "soak", *names)
    lines = result.stdout.splitlines()
    programs = [line for line in lines if not line.startswith("-m pytest")]
    assert len(lines) - len(programs) == 1 + 5, "the suite, and the property tests"
    assert len(programs) == len(names) - 2 + 6, (
        "the simulation comes in three kinds; strangers, features, limits of exchanges, and queries of one in two"
    )
    for line in programs:
        module = line.split()[1].replace(".", "/")
        assert (ROOT / f"{module}.py").is_file() or (ROOT / module / "__main__.py").is_file(), f"no program {module}"
    # A program with two forms is named with its first word behind it.
    assert {form(line) for line in programs} == {
        form(line) for line in re.findall(r"^ +python (-m tests\..*?)(?: +#.*)?$", GUIDE, re.MULTILINE)
    }


def form(line: str) -> tuple[str, str]:
    """Of a program's call: its module, and the first argument, which says what it is to do."""
    _, module, *arguments = line.split()
    return module, arguments[0] if arguments else ""
