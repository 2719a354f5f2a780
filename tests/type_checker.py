"""What mypy --strict says of files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 110.0


def mypy_says(files: Iterable[Path]) -> str:
    """Its lines about them, checked in one run, for most of its work is that; nothing where all is well."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--show-error-codes", "--no-pretty"]
    found = subprocess.run(
        [*command, *map(str, files)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert found.stderr == ""
    assert found.returncode in {0, 1}, found.stdout
    return found.stdout
