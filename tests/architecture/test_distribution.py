"""What is installed and what is shipped as source: both are built here and looked into."""

from __future__ import annotations

import configparser
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="the build backend is not installed for this Python")

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGES: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
MAN_PAGE = "data/share/man/man1/penstock.1"
DASHBOARD = "data/share/penstock/grafana/penstock.json"
BUILD = "import sys, hatchling.build as backend; print(getattr(backend, 'build_' + sys.argv[1])(sys.argv[2]))"


def built(kind: str, folder: Path) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", BUILD, kind, str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


def files_below(folder: str) -> set[str]:
    """The files of a folder of the checkout, by their paths in it."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The texts of the wheel by their names; those of its metadata and data without their folder."""
    with zipfile.ZipFile(built("wheel", tmp_path_factory.mktemp("wheel"))) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    return {
        name.partition(".dist-info/")[2] or name.partition(".data/")[2] or name: text for name, text in texts.items()
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    with tarfile.open(built("sdist", tmp_path_factory.mktemp("sdist"))) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def test_the_wheel_holds_the_packages_with_their_types_and_the_manual_page_and_nothing_else(
    wheel: dict[str, str],
) -> None:
    besides = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE", MAN_PAGE, DASHBOARD}
    assert set(wheel) == besides.union(*map(files_below, PACKAGES))
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(wheel)


def test_the_wheel_has_the_licence_and_says_which_it_is(wheel: dict[str, str]) -> None:
    assert wheel["licenses/LICENSE"] == (ROOT / "LICENSE").read_text("utf-8")
    assert "License-Expression: Apache-2.0\n" in wheel["METADATA"]


def test_the_wheel_gives_the_command_and_the_plugin_of_pytest(wheel: dict[str, str]) -> None:
    entries = configparser.ConfigParser()
    entries.read_string(wheel["entry_points.txt"])
    assert {section: dict(entries[section]) for section in entries.sections()} == {
        "console_scripts": {"penstock": "transport.cli:main"},
        "pytest11": {"penstock": "transport.testing.plugin"},
    }


def test_the_source_holds_what_its_own_commands_and_documents_need(source: set[str]) -> None:
    folders = [*PACKAGES, "docs", "packaging", "examples", "tests", "benchmarks", "scripts"]
    alone = {"Makefile", "requirements.lock", "mkdocs.yml", "pyproject.toml", "LICENSE"}
    pages = {path.name for path in ROOT.glob("*.md")}
    assert source >= (alone | pages).union(*map(files_below, folders))
