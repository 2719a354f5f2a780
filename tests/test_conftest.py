"""What tests/conftest.py promises, shown on tests that break it, each in a pytest of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 100.0

LOST_EXCEPTION = """
import asyncio, gc

def test_it():
    async def fail():
        raise ValueError("lost")

    loop = asyncio.new_event_loop()
    task = loop.create_task(fail())
    loop.run_until_complete(asyncio.wait([task]))
    del task
    gc.collect()
    loop.close()
"""

BROKEN_CALLBACK = """
import asyncio

def test_it({fixture}):
    loop = asyncio.new_event_loop()
    loop.call_soon(lambda: 1 / 0)
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
"""

NEEDS_SPARK = """
import os, pytest

@pytest.mark.spark
def test_it():
    assert os.environ["JAVA_HOME"] == {home!r}
"""


LONG = """
import pytest

@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_it(seed):
    assert seed == 1
"""

EXAMPLES = """
import importlib, os
from hypothesis import given, strategies

importlib.import_module(os.environ["LOADED"])
tried = []

@given(strategies.integers(), strategies.binary(), strategies.text())
def test_it(number, data, text):
    tried.append((number, data, text))

def test_what_was_tried():
    print(f"tried {hash(repr(tried))} in all")
"""
"""With the hash of no salt; `run` gives it."""

COLLECTED = """
import gc

def test_it():
    assert len(gc.get_objects()) * 20 < gc.get_freeze_count()
"""

KEEPS = """
kept = []

def test_it():
    kept.extend([each] for each in range(100_000))
    assert len(kept) == 100_000
"""
LOOKS = """
import gc

def test_it():
    assert len(gc.get_objects()) < 100_000
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What hypothesis keeps of all characters, and of modules: to make it anew takes a second of each run."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def run(tmp_path: Path, kept: Path) -> Callable[..., str]:
    """Runs a test module under a copy of our conftest and configuration; its value is what pytest printed."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "scripts").mkdir()
    for name in ("ensure-java", "_apt.sh"):
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts")
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "spark_start.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")

    def run_module(text: str, after: str = "", **environment: str) -> str:
        (tmp_path / "tests" / "test_inner.py").write_text(text, "utf-8")
        if after:
            (tmp_path / "tests" / "test_inner_after.py").write_text(after, "utf-8")
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests"],
            cwd=tmp_path,
            env=os.environ | {"HYPOTHESIS_STORAGE_DIRECTORY": str(kept)} | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        ).stdout

    return run_module


def test_an_exception_that_nobody_retrieved_fails_the_test(run: Callable[..., str]) -> None:
    output = run(LOST_EXCEPTION)
    assert "Task exception was never retrieved" in output
    assert "1 error" in output


def test_a_callback_that_raised_fails_the_test(run: Callable[..., str]) -> None:
    output = run(BROKEN_CALLBACK.format(fixture=""))
    assert "ZeroDivisionError" in output
    assert "1 error" in output


def test_a_test_that_asks_for_the_reports_may_have_them(run: Callable[..., str]) -> None:
    assert "1 passed" in run(BROKEN_CALLBACK.format(fixture="loop_reports")).splitlines()[-1]


def test_an_unclosed_resource_fails_the_test(run: Callable[..., str]) -> None:
    assert "ResourceWarning" in run("def test_it():\n    open(__file__)\n")


def test_a_module_of_long_forms_is_not_even_looked_at_unless_it_is_asked_for(
    run: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "tests" / "test_many_soak.py").write_text("def test_long():\n    assert 1 == 2\n")
    module = "def test_it():\n    assert 1 == 1\n"
    assert "1 passed in" in run(module).splitlines()[-1]
    assert "1 failed, 1 passed" in run(module, PYTEST_ADDOPTS="--soak").splitlines()[-1]


def test_the_garbage_collector_does_not_look_at_what_was_collected_before_the_tests(run: Callable[..., str]) -> None:
    assert "1 passed" in run(COLLECTED).splitlines()[-1]


def test_the_garbage_collector_does_not_look_at_what_a_module_before_has_kept(run: Callable[..., str]) -> None:
    assert "2 passed" in run(KEEPS, after=LOOKS)


def test_a_long_form_is_left_out_and_counted_unless_it_is_asked_for(run: Callable[..., str]) -> None:
    assert "1 passed, 1 deselected" in run(LONG).splitlines()[-1]
    assert "1 failed, 1 passed" in run(LONG, PYTEST_ADDOPTS="--soak").splitlines()[-1]


def test_a_test_that_needs_spark_is_skipped_with_the_reason_where_no_java_is(
    run: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "scripts" / "ensure-java").write_text("#!/bin/sh\necho 'penstock: no Java here' >&2\nexit 1\n")
    output = run(NEEDS_SPARK.format(home=""))
    assert "no Java here" in output
    assert "1 skipped" in output.splitlines()[-1]


def test_a_test_that_needs_spark_runs_with_the_java_that_was_found(run: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra is not installed")
    (tmp_path / "scripts" / "ensure-java").write_text("#!/bin/sh\necho /the/java\n")
    assert "1 passed" in run(NEEDS_SPARK.format(home="/the/java")).splitlines()[-1]


@pytest.fixture
def examples(run: Callable[..., str], tmp_path: Path) -> Callable[..., str]:
    """Runs a property test; its value says what examples that tried."""
    (tmp_path / "product.py").write_text("LIMIT = 741_852_963\nNAMES = [b'orders', 'orders', 1.25, -8_642]\n", "utf-8")

    def examples_of(*options: str, loaded: str = "json", **environment: str) -> str:
        options = ("-rP", *options)
        output = run(EXAMPLES, PYTEST_ADDOPTS=" ".join(options), LOADED=loaded, PYTHONHASHSEED="0", **environment)
        assert "2 passed" in output.splitlines()[-1]
        (tried,) = [line for line in output.splitlines() if line.startswith("tried ")]
        return tried

    return examples_of


def test_a_property_test_tries_the_same_examples_in_every_run_whatever_else_is_loaded(
    examples: Callable[..., str],
) -> None:
    assert examples(CI="") == examples(CI="true", loaded="product")


def test_a_seed_gives_a_property_test_examples_of_its_own(examples: Callable[..., str]) -> None:
    first = examples("--hypothesis-seed=1")
    assert first == examples("--hypothesis-seed=1")
    assert (
        len({first, examples(), examples("--hypothesis-seed=2"), examples("--hypothesis-profile=fresh", CI="true")})
        == 4
    )


def test_fresh_examples_have_the_constants_of_what_is_loaded_among_them(examples: Callable[..., str]) -> None:
    assert examples("--hypothesis-seed=1") != examples("--hypothesis-seed=1", loaded="product")
