"""scripts/ensure-amqplib: where there is node and npm it installs what is locked, once; elsewhere it says what is missing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LOCK = (ROOT / "scripts" / "amqplib" / "package-lock.json").read_text("utf-8")


@pytest.fixture
def script(machine: Any, tmp_path: Path) -> Path:
    """The script in a checkout of its own."""
    folder = tmp_path / "checkout" / "scripts"
    shutil.copytree(ROOT / "scripts" / "amqplib", folder / "amqplib")
    for name in ("ensure-amqplib", "_apt.sh"):
        shutil.copy(ROOT / "scripts" / name, folder / name)
    for name in ("sha256sum", "cut", "mkdir", "cp", "mv"):
        machine.command(name, f'PATH=/usr/bin:/bin exec {name} "$@"')
    return folder / "ensure-amqplib"


def node(machine: Any, version: str = "v20.20.2") -> None:
    machine.command("node", f"echo {version}")


def npm(machine: Any, then: str = 'mkdir "$3/node_modules"') -> Path:
    asked: Path = machine.folder / "asked"
    machine.command("npm", f'echo "$1 $2" >>{asked}; {then}')
    return asked


@pytest.mark.parametrize("version", [None, "v16.1.0", "nonsense"])
def test_without_a_node_that_will_do_one_line_says_what_to_install(
    machine: Any, script: Path, version: str | None
) -> None:
    if version is not None:
        node(machine, version)
    result = machine.run(script)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "penstock: the tests of amqplib need node 18 or newer; install it (Debian, Ubuntu: sudo apt-get install nodejs npm)\n"
    )


@pytest.mark.parametrize("arguments", [(), ("--no-install",)])
def test_without_npm_or_where_nothing_is_to_be_installed_one_line_says_how_it_is(
    machine: Any, script: Path, arguments: tuple[str, ...]
) -> None:
    node(machine)
    if arguments:
        npm(machine)
    result = machine.run(script, *arguments)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "penstock: the tests of amqplib need it in build/amqplib; run scripts/ensure-amqplib, which needs npm\n"
    )


def test_it_is_installed_once_and_again_when_another_version_is_locked(machine: Any, script: Path) -> None:
    node(machine)
    asked = npm(machine)
    folder = script.parent.parent / "build" / "amqplib"
    for _ in range(2):
        result = machine.run(script)
        assert (result.returncode, result.stdout, result.stderr) == (0, f"{folder}\n", "")
        assert (folder / "node_modules").is_dir()
        assert asked.read_text() == "ci --prefix\n"
    (script.parent / "amqplib" / "package.json").write_text("{}")
    assert machine.run(script).returncode == 0
    assert asked.read_text() == "ci --prefix\n" * 2
    assert machine.run(script, "--no-install").returncode == 0


def test_what_cannot_be_installed_is_said_and_nothing_is_left(machine: Any, script: Path) -> None:
    node(machine)
    npm(machine, 'echo "npm error: no such host" >&2; exit 1')
    result = machine.run(script)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "npm error: no such host\npenstock: could not install amqplib\n"
    assert list((script.parent.parent / "build").iterdir()) == []


def test_the_lock_names_each_package_by_its_hash_and_no_registry() -> None:
    assert '"integrity": "sha512-' in LOCK
    assert '"resolved"' not in LOCK
    assert "://" not in LOCK.replace("https://github.com", "").replace("https://feross.org", "")
