"""The name of the distribution, which is not the command's."""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from transport.wire.version import DISTRIBUTION, installed_version

PYPROJECT = Path(__file__).resolve().parent.parent.parent / "pyproject.toml"


def test_the_version_is_looked_up_under_the_name_that_is_published() -> None:
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    assert project["name"] == DISTRIBUTION
    assert set(project["scripts"]) == {"penstock"}


def test_where_only_the_strangers_distribution_is_installed_there_is_no_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def only_the_strangers(name: str) -> str:
        if name == "penstock":
            return "0.1.0"
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", only_the_strangers)
    assert installed_version() is None
    monkeypatch.setattr("importlib.metadata.version", lambda name: f"{name} 9")
    assert installed_version() == "penstock-mq 9"


@pytest.mark.parametrize("path", ["docs/spark.md", "examples/demo/__main__.py", "README.md"])
def test_what_users_are_told_to_install_is_ours(path: str) -> None:
    text = (PYPROJECT.parent / path).read_text("utf-8")
    assert DISTRIBUTION in text
    assert "install penstock " not in text
    assert "install 'penstock[" not in text
