"""The files the architecture's rules are about, parsed once, and snippets that break them."""

from __future__ import annotations

import ast
import os
import subprocess
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PRODUCT = ("streams", "journal", "actors", "transport", "spark_bridge", "pyspark_penstock")
GENERATED = {
    ".venv",
    ".git",
    ".hypothesis",
    "__pycache__",
    "build",
    "dist",
    "demo-output",
    "benchmark-output",
    "spark-warehouse",
}


@dataclass(frozen=True, slots=True)
class Source:
    """One Python file: its path from the root of the checkout, and its text; for a package whose names are in a stub, that too."""

    path: str
    text: str = field(repr=False)
    stub: str = field(repr=False, default="")

    @property
    def tree(self) -> ast.Module:
        return parsed(self.text)

    @property
    def package(self) -> str:
        """The top-level folder it is in."""
        return self.path.split("/", 1)[0]

    @property
    def is_init(self) -> bool:
        return self.path.endswith("__init__.py")

    @property
    def module(self) -> str:
        """Its name to import."""
        return self.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def exports(self) -> dict[str, str]:
        """What a package gives under names of its own, and the module that each is from."""
        found = {}
        for node in ast.walk(parsed(self.stub or self.text)):
            if isinstance(node, ast.ImportFrom):
                module = f"{self.module}.{node.module}" if node.level else node.module
                found |= {alias.asname or alias.name: module for alias in node.names if module is not None}
        return found


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def sources_under(*folders: str) -> tuple[Source, ...]:
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return tuple(Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"), stub_of(path)) for path in paths)


def stub_of(path: Path) -> str:
    stub = path.with_suffix(".pyi")
    return stub.read_text("utf-8") if path.name == "__init__.py" and stub.exists() else ""


@cache
def text_files() -> tuple[Source, ...]:
    """Every text file that is, or would be, under version control. Without git: every one that no tool makes."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=60).stdout.decode()
        paths = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        paths = []
        # What is left out is not even looked into: packages may be installed there meanwhile.
        for folder, folders, names in os.walk(ROOT):
            folders[:] = [name for name in folders if not is_generated(name)]
            paths += [Path(folder, name) for name in names if not is_generated(name)]
    found = []
    for path in sorted(set(paths)):
        if path.is_file():
            try:
                found.append(Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")))
            except UnicodeDecodeError:
                continue  # an image, or compressed data
    return tuple(found)


def is_generated(part: str) -> bool:
    return part in GENERATED or part.startswith(".venv-") or part.endswith(("_cache", ".egg-info"))


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Lets go of what was parsed behind the last test of this folder.

    It is three million nodes, and each full garbage collection of the tests that follow in this process would look at them all.
    """
    if nextitem is None or nextitem.path.parent != Path(__file__).parent:
        for cached in (parsed, sources_under, text_files):
            cached.cache_clear()


@pytest.fixture
def root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture
def product() -> tuple[Source, ...]:
    """Every module of the product."""
    return sources_under(*PRODUCT)


@pytest.fixture
def tests() -> tuple[Source, ...]:
    """Every module under tests/."""
    return sources_under("tests")


@pytest.fixture
def tracked() -> tuple[Source, ...]:
    """Every text file of the checkout."""
    return text_files()


@pytest.fixture
def snippet() -> Callable[..., Source]:
    """Makes a Source of a snippet: `snippet("import x", "streams/a.py")`."""

    def make(text: str, path: str = "streams/example.py", stub: str = "") -> Source:
        return Source(path, textwrap.dedent(text), textwrap.dedent(stub))

    return make
