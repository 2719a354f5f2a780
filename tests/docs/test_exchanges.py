"""docs/exchanges.md, "From the shell": it is typed as it stands, and prints what it shows."""

from __future__ import annotations

from pathlib import Path

from tests.docs.typed_page import ROOT, check_page


def test_the_shell_prints_what_the_page_shows(folder: Path, commands: Path) -> None:
    check_page(ROOT / "docs" / "exchanges.md", folder, commands)
