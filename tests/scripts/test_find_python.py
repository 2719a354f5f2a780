"""scripts/find-python, against machines with every kind of Python and none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def put_python(machine: Any, name: str, minor: int) -> Path:
    """A Python that answers the two questions the script asks: its version and its path."""
    path: Path = machine.bin / name
    machine.command(
        name, f'case "$*" in *version_info*) echo {minor};; *executable*) echo {path};; *) echo Python 3.{minor};; esac'
    )
    return path


def test_python3_is_taken_where_it_will_do(machine: Any) -> None:
    path = put_python(machine, "python3", 12)
    put_python(machine, "python3.13", 13)
    assert machine.run("find-python").stdout == f"{path}\n"


@pytest.mark.parametrize("name", ["python3.13", "python3.12", "python3.11"])
def test_an_old_python3_gives_way_to_a_newer_one(machine: Any, name: str) -> None:
    put_python(machine, "python3", 9)
    path = put_python(machine, name, int(name[-2:]))
    result = machine.run("find-python")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{path}\n", "")


def test_a_shim_that_only_complains_is_passed_over(machine: Any) -> None:
    machine.command("python3", "echo 'command not found' >&2; exit 127")
    path = put_python(machine, "python3.11", 11)
    result = machine.run("find-python")
    assert (result.stdout, result.stderr) == (f"{path}\n", "")


def test_a_python_newer_than_those_tested_is_the_last_choice(machine: Any) -> None:
    put_python(machine, "python3", 15)
    path = put_python(machine, "python3.12", 12)
    assert machine.run("find-python").stdout == f"{path}\n"


def test_a_lone_newer_python_is_tried_with_a_word(machine: Any) -> None:
    path = put_python(machine, "python3", 15)
    result = machine.run("find-python")
    assert (result.returncode, result.stdout) == (0, f"{path}\n")
    assert "tested on 3.11 to 3.13" in result.stderr


def test_none_at_all_says_what_to_do(machine: Any) -> None:
    result = machine.run("find-python")
    assert (result.returncode, result.stdout) == (1, "")
    assert "Python 3.11 or newer is needed" in result.stderr


def test_the_one_that_was_named_is_taken(machine: Any) -> None:
    put_python(machine, "python3", 11)
    path = put_python(machine, "my-python", 13)
    assert machine.run("find-python", PYTHON=str(path)).stdout == f"{path}\n"


@pytest.mark.parametrize("minor", [0, 8, 10])
def test_one_that_was_named_and_is_too_old_is_an_error(machine: Any, minor: int) -> None:
    put_python(machine, "python3", 12)
    path = put_python(machine, "old", minor)
    result = machine.run("find-python", PYTHON=str(path))
    assert (result.returncode, result.stdout) == (1, "")
    assert f"PYTHON={path} is not Python 3.11" in result.stderr
