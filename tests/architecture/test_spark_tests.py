"""The process of ``scripts/run-tests`` that runs what needs Spark leaves folders out; nothing in them needs Spark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
# Put together here, so that this file keeps the rule too.
NEEDS_SPARK = re.compile("mark" + r"\.spark\b|tests\." + "spark_bridge")


def left_out() -> list[str]:
    script = (TESTS.parent / "scripts" / "run-tests").read_text("utf-8")
    found = re.search(r"^for folder in (.*); do without_spark", script, re.MULTILINE)
    assert found is not None, "run-tests names no folders"
    return found[1].split()


@pytest.mark.parametrize("folder", left_out())
def test_a_folder_that_is_left_out_has_no_test_that_needs_spark(folder: str) -> None:
    files = list((TESTS / folder).rglob("*.py"))
    assert files
    assert [file.name for file in files if NEEDS_SPARK.search(file.read_text("utf-8"))] == []


def test_what_needs_spark_is_found_where_it_is() -> None:
    assert [file for file in (TESTS / "spark_bridge").rglob("*.py") if NEEDS_SPARK.search(file.read_text("utf-8"))]
    assert "spark_bridge" not in left_out()
