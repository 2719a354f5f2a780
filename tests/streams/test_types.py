"""What type checkers know of streams: `types/right.py` must hold under mypy --strict, each marked line of `types/wrong.py` must not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.type_checker import ROOT, SECONDS, mypy_says

pytest.importorskip("mypy")

HERE = Path(__file__).parent / "types"
MARK = re.compile(r"# wrong: ([\w-]+)$")
ERROR = re.compile(r"^(?P<file>\S+?):(?P<line>\d+): error: .*\[(?P<code>[\w-]+)\]$", re.MULTILINE)


@pytest.fixture(scope="module")
def errors() -> set[tuple[str, int, str]]:
    """What mypy says of both files."""
    found = mypy_says(HERE / name for name in ("right.py", "wrong.py"))
    return {(Path(error["file"]).name, int(error["line"]), error["code"]) for error in ERROR.finditer(found)}


def test_sources_flows_substreams_queues_switches_and_graphs_have_the_types_they_should(
    errors: set[tuple[str, int, str]],
) -> None:
    assert {error for error in errors if error[0] != "wrong.py"} == set()


def test_every_mistake_is_seen_and_nothing_else(errors: set[tuple[str, int, str]]) -> None:
    marked = {
        ("wrong.py", number, mark[1])
        for number, line in enumerate((HERE / "wrong.py").read_text().splitlines(), start=1)
        if (mark := MARK.search(line))
    }
    assert len(marked) > 10
    assert {error for error in errors if error[0] == "wrong.py"} == marked


def test_the_types_of_substreams_are_those_of_the_operators() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "substream_operators.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert checked.returncode == 0, checked.stdout + checked.stderr
