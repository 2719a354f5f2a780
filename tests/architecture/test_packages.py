"""A package of the product is in the wheel, in the source distribution, and under mypy: forgetting one shows only where it is installed."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

NOT_THE_PRODUCT = {"tests", "examples", "benchmarks"}


def packages(root: Path) -> set[str]:
    return {path.parent.name for path in root.glob("*/__init__.py")} - NOT_THE_PRODUCT


def missing(pyproject: str, wanted: set[str]) -> list[str]:
    """Where pyproject.toml leaves out one of the packages."""
    tool = tomllib.loads(pyproject)["tool"]
    targets = tool["hatch"]["build"]["targets"]
    listed = {
        "the wheel": set(targets["wheel"]["packages"]),
        "the source distribution": {name.removeprefix("/") for name in targets["sdist"]["include"]},
        "mypy": set(tool["mypy"]["packages"]),
    }
    return [f"{package} is not in {where}" for where, names in listed.items() for package in sorted(wanted - names)]


def test_every_package_is_shipped_and_checked(root: Path) -> None:
    found = packages(root)
    assert {"streams", "spark_bridge", "pyspark_penstock"} <= found, "the test looks in the wrong place"
    assert missing((root / "pyproject.toml").read_text("utf-8"), found) == []


def test_every_package_says_that_it_is_typed(root: Path) -> None:
    assert [name for name in sorted(packages(root)) if not (root / name / "py.typed").is_file()] == []


PROJECT = """
[tool.hatch.build.targets.wheel]
packages = ["a"]
[tool.hatch.build.targets.sdist]
include = ["/a", "/docs"]
[tool.mypy]
packages = ["a"]
"""


def test_a_project_that_lists_its_package_everywhere_passes() -> None:
    assert missing(PROJECT, {"a"}) == []


@pytest.mark.parametrize(
    ("listed", "where"),
    [
        ('packages = ["a"]\n[tool.hatch.build.targets.sdist]', "the wheel"),
        ('include = ["/a", "/docs"]', "the source distribution"),
        ('[tool.mypy]\npackages = ["a"]', "mypy"),
    ],
)
def test_a_package_that_is_left_out_somewhere_is_found(listed: str, where: str) -> None:
    assert missing(PROJECT.replace(listed, listed.replace('"a"', "").replace('"/a", ', "")), {"a"}) == [
        f"a is not in {where}"
    ]
