"""scripts/run-tests leaves no test out, shows what every process says, and fails where one fails."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Put together here, so that this file keeps the rule too.
NEEDS_SPARK = re.compile("mark" + r"\.spark\b|tests\." + "spark_bridge")
ALL = 'echo "$@"'


@pytest.fixture
def checkout(machine: Any, tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "run-tests", folder / "scripts" / "run-tests")
    return folder


def run(machine: Any, checkout: Path, does: str, *arguments: str) -> Any:
    machine.executable(checkout / ".venv/bin/python", does)
    return machine.run(checkout / "scripts" / "run-tests", *arguments)


def folders(words: str, option: str = "") -> set[str]:
    return set(re.findall(rf"(?<!\S){option}tests/(\S+)", words))


def test_three_processes_run_every_test_once(machine: Any, checkout: Path) -> None:
    result = run(machine, checkout, ALL)
    assert result.returncode == 0
    others, processes, spark = [line for line in result.stdout.splitlines() if line.startswith("-m pytest")]
    assert "-m not spark tests/" in processes
    assert "-m spark tests/" in spark
    assert folders(others) == set(), "all that are not left out"
    assert " -m " not in others.removeprefix("-m pytest")
    assert folders(others, "--ignore=") == folders(processes) > folders(spark)
    assert all((ROOT / "tests" / folder).is_dir() for folder in folders(processes))


def test_what_needs_spark_is_where_spark_is_and_starts_no_second_session(machine: Any, checkout: Path) -> None:
    spark = run(machine, checkout, ALL).stdout.splitlines()[-1]
    needing = {
        path.relative_to(ROOT / "tests").parts[0]
        for path in (ROOT / "tests").glob("*/**/*.py")
        if NEEDS_SPARK.search(path.read_text("utf-8"))
    }
    assert needing == folders(spark)


@pytest.mark.parametrize("failing", ["--ignore", "not spark", "-m spark"])
def test_one_that_fails_is_shown_and_fails_the_whole(machine: Any, checkout: Path, failing: str) -> None:
    result = run(machine, checkout, f'case "$*" in *"{failing}"*) echo 1 failed; exit 1 ;; *) echo 5 passed ;; esac')
    assert result.returncode == 1
    assert sorted(line for line in result.stdout.splitlines() if line[0].isdigit()) == [
        "1 failed",
        "5 passed",
        "5 passed",
    ]


def test_what_is_named_runs_in_one_process(machine: Any, checkout: Path) -> None:
    result = run(machine, checkout, ALL + "; exit 4", "tests/streams", "-k", "demand")
    assert (result.returncode, result.stdout) == (4, "-m pytest --quiet tests/streams -k demand\n")
