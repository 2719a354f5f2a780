"""What the scripts write that write modules: text as our own linter and formatter have it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def formatted(text: str, path: Path, *rules: str) -> str:
    """A module's text, formatted; what these rules of the linter find is mended first."""
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", f"--select={','.join(rules)}", "--fix", "--exit-zero", "--quiet"], ["format"]):
        text = subprocess.run(  # noqa: S603 - our own linter
            [*ruff, *command, f"--stdin-filename={path}", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
    return text
