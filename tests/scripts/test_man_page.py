"""The manual page says what the helps say, and is roff that a formatter takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from transport.cli._examples import EXAMPLES
from transport.cli.exit_codes import EXIT_CODES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "packaging" / "penstock.1"


def test_the_page_is_what_the_helps_say_whatever_the_environment_says() -> None:
    environment = os.environ | {"COLUMNS": "33", "PENSTOCK_DATA": "/elsewhere", "PENSTOCK_SEND_ADDRESS": "there:1"}
    done = subprocess.run(
        [sys.executable, "scripts/man_page.py", "--check"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_page_tells_of_every_verb_and_every_exit_code() -> None:
    text = PAGE.read_text("utf-8").replace("\\-", "-")
    assert [words for words in EXAMPLES if words and f'.SS "penstock {words}"' not in text] == []
    assert [code for code, _ in EXIT_CODES if f"\\fB{code}\\fR" not in text] == []


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_a_formatter_takes_the_page_without_a_warning() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", str(PAGE)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
