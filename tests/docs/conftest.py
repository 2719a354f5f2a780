"""What the pages are typed with: a folder, and the commands of this checkout."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.docs.typed import Shell

ROOT = Path(__file__).resolve().parents[2]


def make_place(place: Path) -> Path:
    """A folder to type in, with the programs as a checkout has them."""
    place.mkdir()
    (place / "examples").symlink_to(ROOT / "examples")
    return place


def make_commands(found: Path) -> Path:
    """A folder with the commands, of this checkout."""
    found.mkdir()
    for name, words in (("penstock", "-m transport.cli"), ("python", "")):
        (found / name).write_text(f'#!/bin/sh\nexec env PYTHONPATH={ROOT} {sys.executable} {words} "$@"\n')
        (found / name).chmod(0o755)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where it is typed."""
    return make_place(tmp_path / "place")


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """The commands that are typed."""
    return make_commands(tmp_path / "bin")


@pytest.fixture
def shell(folder: Path, commands: Path) -> Shell:
    """A shell in the folder, with the commands."""
    return Shell(folder, commands)
