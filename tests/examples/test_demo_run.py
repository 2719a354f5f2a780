"""The demo as a whole, with Spark: right counts, held back senders, and nobody left behind."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SECONDS = 200.0
END_SECONDS = 30.0
LINES = 4500
PNG = b"\x89PNG\r\n\x1a\n"
STARTING, COUNTING = "Spark starts", "the query "

StartDemo = Callable[..., Any]

ODD_LINES = [
    b"import os",
    b"\tfrom os.path import (join)",
    b"import a, b",
    b"import numpy as np",
    b"import os\r",
    b"import os\x85",
    b"import os\xa0",
    b"from . import a",
    b"from the beginning",
    b"caf\xe9 \xff\xfe",
    b"",
    "import os # \N{SNOWMAN}".encode(),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "input"
    (root / "package").mkdir(parents=True)
    (root / "odd.py").write_bytes(b"\n".join(ODD_LINES))  # with a last line that has no end
    (root / os.fsdecode(b"caf\xe9.txt")).write_bytes(b"from a import b\n")
    (root / "program").write_bytes(b"\0import os\n")
    (root / "package" / "long.py").write_bytes(b"import sys  # and so on\n" * (LINES - len(ODD_LINES) - 1))
    return root


def test_the_query_counts_what_the_files_hold_while_the_sender_is_held_back(
    start_demo: StartDemo, folder: Path, tmp_path: Path
) -> None:
    demo = start_demo(folder)
    output, _ = demo.process.communicate(timeout=SECONDS)
    assert demo.process.returncode == 0, output
    assert f"{LINES:,} lines in 3 files" in output
    assert re.search(rf"^equal: all 3 packages and 4 modules, {LINES:,} lines$", output, re.MULTILINE)
    assert "the query is SLOW" in output
    backlogs = [int(found.replace(",", "")) for found in re.findall(r"backlog +([\d,]+)", output)]
    assert 0 < max(backlogs) <= 3000, "the queue's limit for so small an input"
    picture = re.search(r"over time: (\S+)$", output, re.MULTILINE)
    assert picture is not None
    assert (tmp_path / picture[1]).read_bytes().startswith(PNG)
    assert demo.left_after(END_SECONDS) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_every_process(start_demo: StartDemo, folder: Path, number: signal.Signals) -> None:
    demo = start_demo(folder)
    demo.read_until(STARTING, times=3)
    assert len(demo.left()) > 3, "demo, broker, sender, and the query's processes"
    demo.process.send_signal(number)
    output, _ = demo.process.communicate(timeout=SECONDS)
    assert demo.process.returncode == 130
    assert output.endswith("interrupted; every process has ended\n")
    assert demo.left() == []


@pytest.mark.soak  # half a minute; what a signal ends is looked at above
def test_a_demo_that_is_killed_leaves_no_process(start_demo: StartDemo, folder: Path) -> None:
    demo = start_demo(folder)
    demo.read_until(COUNTING)  # by then Spark has started its Python processes
    demo.process.kill()
    demo.process.wait()
    assert demo.left_after(END_SECONDS) == []


def test_a_broker_that_dies_is_what_the_demo_reports(start_demo: StartDemo, folder: Path) -> None:
    demo = start_demo(folder)
    demo.read_until(STARTING)
    broker = next(pid for pid in demo.left() if b"transport.cli" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(broker, signal.SIGKILL)
    output, _ = demo.process.communicate(timeout=SECONDS)
    assert demo.process.returncode == 1
    assert "the broker ended early, with signal SIGKILL" in output
    assert demo.left() == []
