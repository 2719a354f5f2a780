"""The programs in docs/failures.md run, and print what their comments say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "failures.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_a_program_of_the_guide_prints_what_it_says(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    promised = re.findall(r"print\(.*\)  # (.*)", program)
    assert promised
    exec(compile(program, str(GUIDE), "exec"), {"__name__": "guide"})
    printed = capsys.readouterr().out.splitlines()
    assert printed == promised
