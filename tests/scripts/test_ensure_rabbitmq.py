"""scripts/ensure-rabbitmq, against machines with every kind of RabbitMQ and none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def states(machine: Any, folder: Path, script: str) -> Path:
    """Puts a RabbitMQ into a folder whose rabbitmqctl does what ``script`` says."""
    machine.executable(folder / "rabbitmqctl", script)
    server: Path = machine.executable(folder / "rabbitmq-server", "exit 0")
    return server


def run(machine: Any) -> Any:
    return machine.run("ensure-rabbitmq")


@pytest.mark.parametrize("version", ["3.8.0", "3.10.8", "4.1.2", "10.0.0"])
def test_a_rabbitmq_that_has_quorum_queues_is_found(machine: Any, version: str) -> None:
    server = states(machine, machine.folder / "debian", f"echo {version}")
    result = run(machine)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{server}\n", "")


def test_one_that_is_on_the_path_alone_is_found_too(machine: Any) -> None:
    server = states(machine, machine.bin, "echo 4.1.2")
    result = run(machine)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{server}\n", "")


def test_what_debian_calls_comes_before_what_runs_as_its_own_user_only(machine: Any) -> None:
    states(machine, machine.bin, "echo 3.10.8")
    server = states(machine, machine.folder / "debian", "echo 3.10.8")
    assert run(machine).stdout == f"{server}\n"


def test_an_older_rabbitmq_is_refused_and_named(machine: Any) -> None:
    server = states(machine, machine.folder / "debian", "echo 3.7.28")
    result = run(machine)
    assert (result.returncode, result.stdout) == (1, "")
    assert f"only RabbitMQ 3.7.28 at {server}" in result.stderr


@pytest.mark.parametrize("script", ["exit 1", "echo nonsense", "echo 3.10.8; exit 1", ":"])
def test_a_rabbitmq_that_does_not_work_is_none(machine: Any, script: str) -> None:
    states(machine, machine.folder / "debian", script)
    result = run(machine)
    assert (result.returncode, result.stdout) == (1, "")


def test_without_rabbitmq_and_apt_one_line_says_what_to_install(machine: Any) -> None:
    result = run(machine)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "penstock: the comparison with RabbitMQ needs RabbitMQ 3.8 or newer and there is none; install rabbitmq-server "
        "(Debian, Ubuntu: sudo apt-get install rabbitmq-server)\n"
    )


def apt_that_installs(machine: Any) -> Path:
    """An apt whose package is a server; what states its version is there already."""
    folder = machine.folder / "debian"
    machine.executable(folder / "rabbitmqctl", "echo 3.10.8")
    asked: Path = machine.apt_with("rabbitmq-server", folder / "rabbitmq-server", "exit 0")
    return asked


def test_root_gets_debians_rabbitmq_and_its_services_are_stopped(machine: Any) -> None:
    asked = apt_that_installs(machine)
    machine.command("systemctl", f'echo "$*" >>{machine.folder}/services')
    machine.command("id", "echo 0")
    result = run(machine)
    assert (result.returncode, result.stdout) == (0, f"{machine.folder}/debian/rabbitmq-server\n")
    assert "installing rabbitmq-server" in result.stderr
    assert "rabbitmq-server" in asked.read_text()
    assert (machine.folder / "services").read_text() == "disable --now rabbitmq-server epmd.socket epmd.service\n"


def test_what_systemd_has_not_started_is_stopped_too(machine: Any) -> None:
    apt_that_installs(machine)
    machine.command("systemctl", "exit 1")
    for name in ("service", "epmd"):
        machine.command(name, f'echo "{name} $*" >>{machine.folder}/services')
    machine.command("id", "echo 0")
    assert run(machine).returncode == 0
    assert (machine.folder / "services").read_text() == "service rabbitmq-server stop\nepmd -kill\n"


def test_the_service_of_a_rabbitmq_that_was_there_goes_on(machine: Any) -> None:
    states(machine, machine.folder / "debian", "echo 3.10.8")
    machine.command("systemctl", f'echo "$*" >>{machine.folder}/services')
    machine.command("id", "echo 0")
    assert run(machine).returncode == 0
    assert not (machine.folder / "services").exists()
