"""scripts/ensure-redis, against machines with every kind of Redis and none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def states(version: str) -> str:
    """A redis-server that states a version as the real ones do."""
    return f"echo 'Redis server v={version} sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0'"


@pytest.mark.parametrize("version", ["5.0.14", "7.0.15", "8.0.2", "10.1.0"])
def test_a_redis_that_has_streams_is_found(machine: Any, version: str) -> None:
    redis = machine.command("redis-server", states(version))
    result = machine.run("ensure-redis")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{redis}\n", "")


def test_an_older_redis_is_refused_and_named(machine: Any) -> None:
    redis = machine.command("redis-server", states("4.0.9"))
    result = machine.run("ensure-redis")
    assert (result.returncode, result.stdout) == (1, "")
    assert f"only Redis 4 at {redis}" in result.stderr


@pytest.mark.parametrize("script", ["exit 1", "echo nonsense", f"{states('7.0.15')}; exit 1", ":"])
def test_a_redis_that_does_not_work_is_none(machine: Any, script: str) -> None:
    machine.command("redis-server", script)
    result = machine.run("ensure-redis")
    assert (result.returncode, result.stdout) == (1, "")


def test_without_redis_and_apt_one_line_says_what_to_install(machine: Any) -> None:
    result = machine.run("ensure-redis")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "penstock: the benchmark redis needs Redis 5 or newer and there is none; install redis-server "
        "(Debian, Ubuntu: sudo apt-get install redis-server)\n"
    )


def apt_that_installs(machine: Any) -> Path:
    asked: Path = machine.apt_with("redis-server", machine.bin / "redis-server", states("7.0.15"))
    return asked


def test_root_gets_debians_redis_and_its_service_is_stopped(machine: Any) -> None:
    asked = apt_that_installs(machine)
    machine.command("systemctl", f'echo "$*" >>{machine.folder}/services')
    machine.command("id", "echo 0")
    result = machine.run("ensure-redis")
    assert (result.returncode, result.stdout) == (0, f"{machine.bin}/redis-server\n")
    assert "installing redis-server" in result.stderr
    assert "redis-server" in asked.read_text()
    assert (machine.folder / "services").read_text() == "disable --now redis-server\n"


def test_the_service_of_a_redis_that_was_there_goes_on(machine: Any) -> None:
    machine.command("redis-server", states("7.0.15"))
    machine.command("systemctl", f'echo "$*" >>{machine.folder}/services')
    machine.command("id", "echo 0")
    assert machine.run("ensure-redis").returncode == 0
    assert not (machine.folder / "services").exists()
