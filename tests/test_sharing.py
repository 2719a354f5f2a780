"""How the tests are shared out among processes: shown on suites of a few lines, with the options that `make pytest` gives."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("xdist")

from tests.sharing import Sharing

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 100.0

WITH_SPARK = dedent("""
    import os, pytest

    @pytest.fixture
    def spark():
        with open("processes", "a") as file:
            file.write(f"{os.getpid()}\\n")

    def test_first(spark: object) -> None:
        assert os.path.exists("processes")

    def test_without():
        assert 1 == 1

    def test_second(spark: object) -> None:
        assert os.path.exists("processes")
    """)
"""Indented, or this module would be taken for one that uses the session."""

IN_ONE_PROCESS = """
import os, pytest

seen = []

@pytest.mark.parametrize("number", range(20))
def test_it(number):
    seen.append(number)
    assert seen == list(range(number + 1))
"""

FAILS = "def test_it():\n    assert 1 == 2\n"
ENDS_BADLY = """
import pytest

@pytest.fixture
def is_not_made():
    assert 1 == 2

@pytest.fixture
def does_not_end():
    yield
    assert 1 == 2

def test_with_one(is_not_made):
    assert 1 == 1

def test_with_another(does_not_end):
    assert 1 == 1
"""
CRASHES = """
import os

def test_before():
    assert 1 == 1

def test_it():
    os._exit(3)

def test_after():
    assert 1 == 1
"""
TELLS = """
import os

with open("imported", "a") as file:
    file.write(f"{os.getpid()} {__name__}\\n")

def test_it():
    assert __name__.startswith("tests.")
"""
PASSES = "def test_it():\n    assert 1 == 1\n"


def shared() -> list[str]:
    """The options of `make pytest`."""
    found = re.search(r"^SHARED := (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return found[1].split()


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the modules that are given under our conftest, in two processes."""
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for name in ("conftest.py", "sharing.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")

    def run_modules(*texts: str) -> subprocess.CompletedProcess[str]:
        for number, text in enumerate(texts):
            (tmp_path / "tests" / f"test_inner_{number}.py").write_text(text, "utf-8")
        return subprocess.run(
            [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *shared(), "tests"],
            cwd=tmp_path,
            env=os.environ | {"PYTEST_XDIST_AUTO_NUM_WORKERS": "2"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )

    return run_modules


def test_what_uses_sparks_session_runs_in_one_process(
    run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    assert run(PASSES, WITH_SPARK, WITH_SPARK, WITH_SPARK).stdout.splitlines()[-1].startswith("10 passed")
    processes = (tmp_path / "processes").read_text().splitlines()
    assert len(processes) == 6
    assert len(set(processes)) == 1


def test_a_module_that_uses_the_session_unseen_is_told(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = run(WITH_SPARK.replace(": object", ""))
    assert done.returncode != 0
    assert "has_session does not see it" in done.stdout


def test_a_module_runs_in_one_process_in_its_order(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    assert run(IN_ONE_PROCESS, IN_ONE_PROCESS).stdout.splitlines()[-1].startswith("40 passed")


def test_one_that_fails_fails_the_whole_and_the_last_line_counts_all(
    run: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run(PASSES, FAILS, PASSES)
    assert done.returncode == 1
    assert "FAILED tests/test_inner_1.py::test_it" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 failed, 2 passed")


def test_a_fixture_that_fails_is_told_before_a_test_and_after_it(
    run: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run(PASSES, ENDS_BADLY)
    assert done.returncode == 1
    assert "ERROR tests/test_inner_1.py::test_with_one" in done.stdout
    assert "ERROR tests/test_inner_1.py::test_with_another" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("2 passed, 2 errors")


def test_a_process_that_dies_is_told_with_the_test_that_it_ran_and_the_others_go_on(
    run: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run(PASSES, CRASHES, PASSES, PASSES)
    assert done.returncode == 1
    assert re.search(r"worker 'gw\d' crashed while running 'tests/test_inner_1.py::test_it'", done.stdout)
    assert done.stdout.splitlines()[-1].startswith("1 failed, 5 passed")


class Process:
    """What the sharing sees of a process: the tests that it was told to run, and whether it was told that there are no more."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.told += indices

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.mark.parametrize(("left", "told", "no_more"), [("c", [3], True), ("cd", [3, 4], False)])
def test_who_comes_for_a_process_that_died_is_not_left_waiting_with_a_single_test(
    left: str, told: list[int], no_more: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It would wait for the next one for ever, for nothing happens that would give it more.
    monkeypatch.setattr("xdist.scheduler.loadscope.parse_tx_spec_config", lambda _config: ["popen"])
    monkeypatch.setattr("tests.sharing.has_session", lambda _file: False)
    sharing = Sharing(cast("pytest.Config", SimpleNamespace(option=SimpleNamespace(loadscopereorder=False))))
    tests = ["a.py::test_it", "b.py::test_before", "b.py::test_it", *(f"{name}.py::test_it" for name in left)]

    def collected(process: Process) -> Any:
        sharing.add_node(cast("Any", process))
        sharing.add_node_collection(cast("Any", process), tests)
        sharing.schedule()
        return process

    dies = collected(Process())
    sharing.mark_test_complete(dies, 0)
    sharing.mark_test_complete(dies, 1)
    assert sharing.remove_node(dies) == "b.py::test_it"
    comes = collected(Process())
    assert (comes.told, comes.shutting_down) == (told, no_more)


def test_each_process_begins_with_modules_that_no_other_begins_with_and_imports_each_once(
    run: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    assert run(TELLS, TELLS, TELLS).stdout.splitlines()[-1].startswith("3 passed")
    imported: dict[str, list[str]] = {}
    for line in (tmp_path / "imported").read_text().splitlines():
        process, module = line.split()
        imported.setdefault(process, []).append(module.removeprefix("tests.test_inner_"))
    assert {names[0] for names in imported.values()} == set("012"[: len(imported)])
    assert [sorted(names) for names in imported.values()] == [["0", "1", "2"]] * len(imported)
