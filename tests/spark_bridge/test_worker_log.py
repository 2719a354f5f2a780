"""What a process of Spark's says on stderr: when, how grave, and who."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

WARNS = "import logging; {first}; from spark_bridge.ledger import logger; import spark_bridge.writer; "
WARNS += "logger.warning('mind'); logging.getLogger('penstock.transport').warning('too'); logger.info('not this')"


def said(first: str = "pass", **variables: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", WARNS.format(first=first)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=os.environ | variables,
    )
    return done.stderr.splitlines()


def test_a_line_of_a_worker_has_a_time_a_level_and_a_logger() -> None:
    lines = said(SPARK_PYTHON_RUNTIME="PYTHON_WORKER")
    texts = [re.sub(r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d ", "TIME ", line) for line in lines]
    assert texts == ["TIME WARNING penstock.spark: mind", "TIME WARNING penstock.transport: too"]


def test_where_a_log_is_configured_a_line_goes_there_alone() -> None:
    assert said("logging.basicConfig(format='mine %(message)s')", SPARK_PYTHON_RUNTIME="PYTHON_WORKER") == [
        "mine mind",
        "mine too",
    ]


def test_a_program_of_ones_own_is_left_as_it_is() -> None:
    assert said() == ["mind", "too"]
