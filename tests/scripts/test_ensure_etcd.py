"""scripts/ensure-etcd, against machines with every kind of etcd and none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

STATES = 'echo "etcd Version: {}"; echo "Git SHA: 0"; echo "Go Version: go1.19.8"'


def states(machine: Any, version: str) -> Path:
    """Puts an etcd on the PATH that states a version."""
    server: Path = machine.command("etcd", STATES.format(version))
    return server


def run(machine: Any) -> Any:
    return machine.run("ensure-etcd")


@pytest.mark.parametrize("version", ["3.4.0", "3.4.23", "3.6.5", "4.0.0-rc.1", "10.0.0"])
def test_an_etcd_whose_gateway_we_know_is_found(machine: Any, version: str) -> None:
    server = states(machine, version)
    result = run(machine)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{server}\n", "")


def test_an_older_etcd_is_refused_and_named(machine: Any) -> None:
    server = states(machine, "3.3.25")
    result = run(machine)
    assert (result.returncode, result.stdout) == (1, "")
    assert f"only etcd 3.3.25 at {server}" in result.stderr


@pytest.mark.parametrize(
    "script", ["exit 1", "echo nonsense", "echo 3.4.23", f"{STATES.format('3.4.23')}; exit 1", ":"]
)
def test_an_etcd_that_does_not_work_is_none(machine: Any, script: str) -> None:
    machine.command("etcd", script)
    result = run(machine)
    assert (result.returncode, result.stdout) == (1, "")


def test_without_etcd_and_apt_one_line_says_what_to_install(machine: Any) -> None:
    result = run(machine)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "penstock: the tests of a cluster need etcd 3.4 or newer and there is none; install etcd-server "
        "(Debian, Ubuntu: sudo apt-get install etcd-server)\n"
    )


def test_root_gets_debians_etcd_and_its_service_is_stopped(machine: Any) -> None:
    asked = machine.apt_with("etcd-server", machine.bin / "etcd", STATES.format("3.4.23"))
    for name in ("systemctl", "service"):
        machine.command(name, f'echo "{name} $*" >>{machine.folder}/services')
    machine.command("id", "echo 0")
    result = run(machine)
    assert (result.returncode, result.stdout) == (0, f"{machine.bin}/etcd\n")
    assert "installing etcd-server" in result.stderr
    assert "etcd-server" in asked.read_text()
    assert (machine.folder / "services").read_text() == "systemctl disable --now etcd\nservice etcd stop\n"


def test_the_service_of_an_etcd_that_was_there_goes_on(machine: Any) -> None:
    states(machine, "3.4.23")
    machine.command("systemctl", f'echo "$*" >>{machine.folder}/services')
    machine.command("id", "echo 0")
    assert run(machine).returncode == 0
    assert not (machine.folder / "services").exists()
