"""The programs that run longer than a test can be started."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

PROGRAMS = sorted(
    file.stem for file in Path(__file__).parent.glob("*.py") if not file.stem.startswith(("test_", "__", "conftest"))
)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_a_program_imports_is_there(name: str) -> None:
    assert import_module(f"tests.fault.{name}")
