"""requirements.lock pins all that pyproject.toml asks for, and tells nothing of where it was resolved."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from pathlib import Path

PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.+!]+)( ; [^#]+)?")


def pins(lock: str) -> dict[str, str]:
    """Name -> version; raises ValueError at a line that is neither a comment nor a pin."""
    found: dict[str, str] = {}
    for line in lock.splitlines():
        if line and not line.startswith("#"):
            pin = PIN.fullmatch(line)
            if pin is None:
                raise ValueError(f"not a pin: {line}")
            found[canonicalize_name(pin["name"])] = pin["version"]
    return found


def unlocked(pyproject: str, locked: dict[str, str]) -> list[str]:
    """The requirements that no pin meets."""
    document = tomllib.loads(pyproject)
    project = document["project"]
    groups = [*project.get("optional-dependencies", {}).values(), *document.get("dependency-groups", {}).values()]
    wanted = [
        *document["build-system"]["requires"],
        *project["dependencies"],
        *(entry for group in groups for entry in group),
    ]
    found = []
    for text in wanted:
        requirement = Requirement(text)
        version = locked.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            found.append(text)
    return found


def test_everything_asked_for_is_locked(root: Path) -> None:
    locked = pins((root / "requirements.lock").read_text("utf-8"))
    assert unlocked((root / "pyproject.toml").read_text("utf-8"), locked) == [], "run make lock"


def test_spark_is_locked_with_the_pandas_it_supports(root: Path) -> None:
    locked = pins((root / "requirements.lock").read_text("utf-8"))
    assert int(locked["pandas"].split(".")[0]) < 3


PROJECT = """
[build-system]
requires = ["hatchling>=1"]
[project]
dependencies = ["Some_Package>=2,<3"]
[project.optional-dependencies]
spark = ["pyspark>=4"]
[dependency-groups]
dev = ["pytest"]
"""
LOCKED = {"hatchling": "1.2", "some-package": "2.5", "pyspark": "4.1.0", "pytest": "9.0"}


def test_a_complete_lock_passes() -> None:
    assert unlocked(PROJECT, LOCKED) == []


@pytest.mark.parametrize("name", LOCKED)
def test_a_missing_pin_is_found(name: str) -> None:
    assert len(unlocked(PROJECT, {key: value for key, value in LOCKED.items() if key != name})) == 1


def test_a_pin_outside_the_range_is_found() -> None:
    assert unlocked(PROJECT, LOCKED | {"some-package": "3.0"}) == ["Some_Package>=2,<3"]


@pytest.mark.parametrize("line", ["--find-links x", "-e .", "a>=1", "a @ file:///x/a.whl", "a==1 --hash=sha256:0"])
def test_a_line_that_is_no_pin_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="not a pin"):
        pins(line)
