"""What scripts/ensure-java, ensure-redis, ensure-rabbitmq and ensure-etcd make of apt: when they may not use it, and when it fails."""

from __future__ import annotations

from typing import Any

import pytest

PACKAGES = {
    "ensure-java": "openjdk-17-jre-headless",
    "ensure-redis": "redis-server",
    "ensure-rabbitmq": "rabbitmq-server",
    "ensure-etcd": "etcd-server",
}


@pytest.mark.parametrize(("script", "package"), PACKAGES.items(), ids=PACKAGES)
@pytest.mark.parametrize(
    ("user", "arguments", "environment"),
    [("1000", [], {}), ("0", ["--no-install"], {}), ("0", [], {"PENSTOCK_APT": "never"})],
    ids=["no root and no sudo", "only looking", "forbidden"],
)
def test_nothing_is_installed_where_that_is_not_allowed(
    machine: Any, script: str, package: str, user: str, arguments: list[str], environment: dict[str, str]
) -> None:
    asked = machine.apt_with(package, machine.bin / "never-installed", "exit 1")
    machine.command("id", f"echo {user}")
    result = machine.run(script, *arguments, **environment)
    assert result.returncode == 1
    assert not asked.exists()
    assert f"install {package}" in result.stderr


@pytest.mark.parametrize(("script", "package"), PACKAGES.items(), ids=PACKAGES)
def test_a_failed_installation_ends_with_what_to_do(machine: Any, script: str, package: str) -> None:
    machine.command("id", "echo 0")
    machine.command("apt-get", 'echo "E: no network" >&2; exit 100')
    result = machine.run(script)
    assert (result.returncode, result.stdout) == (1, "")
    assert "E: no network" in result.stderr
    assert f"install {package} (Debian" in result.stderr
