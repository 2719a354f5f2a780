"""What the pages are typed with: a folder, and the commands of this checkout."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docs.forked_command import forked_command
from tests.docs.typed import Shell

ROOT = Path(__file__).resolve().parents[2]


def make_place(place: Path) -> Path:
    """A folder to type in, with the programs as a checkout has them."""
    place.mkdir()
    (place / "examples").symlink_to(ROOT / "examples")
    return place


def make_commands(found: Path) -> Path:
    """A folder with the commands, of this checkout; each process of ``penstock`` starts from nothing."""
    found.mkdir()
    for name, words in (("penstock", "-m transport.cli"), ("python", "")):
        (found / name).write_text(f'#!/bin/sh\nexec env PYTHONPATH={ROOT} {sys.executable} {words} "$@"\n')
        (found / name).chmod(0o755)
    return found


@contextmanager
def quick_commands(found: Path) -> Iterator[Path]:
    """The same, where the processes of ``penstock`` are forked."""
    make_commands(found)
    with forked_command(found / "penstock"):
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where it is typed."""
    return make_place(tmp_path / "place")


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[Path]:
    """The commands that are typed."""
    with quick_commands(tmp_path / "bin") as found:
        yield found


@pytest.fixture
def started_commands(tmp_path: Path) -> Path:
    """Those whose start is tested too."""
    return make_commands(tmp_path / "started")


@pytest.fixture
def shell(folder: Path, commands: Path) -> Shell:
    """A shell in the folder, with the commands."""
    return Shell(folder, commands)
