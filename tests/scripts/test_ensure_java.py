"""scripts/ensure-java, against machines with every kind of Java and none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def states(version: str) -> str:
    """A java that states a version as the real ones do: on standard error, in three lines."""
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2; echo 'OpenJDK Runtime Environment' >&2; echo VM >&2"


def java_home(machine: Any, name: str, version: str) -> Path:
    home: Path = machine.folder / name
    machine.executable(home / "bin" / "java", states(version))
    return home


@pytest.mark.parametrize("version", ["17", "17.0.15", "21", "21.0.2+13", "25-ea", "25.0.1", "100"])
def test_a_java_of_17_or_newer_is_found(machine: Any, version: str) -> None:
    home = java_home(machine, "java", version)
    result = machine.run("ensure-java", JAVA_HOME=str(home))
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{home}\n", "")


@pytest.mark.parametrize(
    ("version", "major"), [("1.8.0_392", 8), ("1.7.0", 7), ("11.0.2", 11), ("9-internal", 9), ("16.0.2", 16)]
)
def test_an_older_java_is_refused_and_named(machine: Any, version: str, major: int) -> None:
    home = java_home(machine, "java", version)
    result = machine.run("ensure-java", JAVA_HOME=str(home))
    assert result.returncode == 1
    assert result.stdout == ""
    assert f"Java {major} at {home}" in result.stderr


def test_java_home_comes_before_the_path(machine: Any) -> None:
    home = java_home(machine, "first", "17.0.1")
    (machine.bin / "java").symlink_to(java_home(machine, "second", "21") / "bin" / "java")
    assert machine.run("ensure-java", JAVA_HOME=str(home)).stdout == f"{home}\n"


def test_an_old_java_home_gives_way_to_the_path(machine: Any) -> None:
    old = java_home(machine, "old", "1.8.0_392")
    new = java_home(machine, "new", "21")
    (machine.bin / "java").symlink_to(new / "bin" / "java")
    assert machine.run("ensure-java", JAVA_HOME=str(old)).stdout == f"{new}\n"


def test_a_java_home_without_a_java_gives_way_to_the_path(machine: Any) -> None:
    new = java_home(machine, "new", "17")
    (machine.bin / "java").symlink_to(new / "bin" / "java")
    assert machine.run("ensure-java", JAVA_HOME=str(machine.folder / "gone")).stdout == f"{new}\n"


def test_an_old_java_on_the_path_gives_way_to_an_installed_jvm(machine: Any) -> None:
    (machine.bin / "java").symlink_to(java_home(machine, "old", "11.0.2") / "bin" / "java")
    home = java_home(machine, "jvm/java-17", "17.0.15")
    assert machine.run("ensure-java").stdout == f"{home}\n"


def test_a_home_with_spaces_is_printed_whole(machine: Any) -> None:
    home = java_home(machine, "the java", "17")
    assert machine.run("ensure-java", JAVA_HOME=str(home)).stdout == f"{home}\n"


def test_a_line_of_the_jvms_own_before_the_version_is_passed_over(machine: Any) -> None:
    home = machine.folder / "java"
    machine.executable(home / "bin" / "java", "echo 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g' >&2\n" + states("17.0.2"))
    assert machine.run("ensure-java", JAVA_HOME=str(home)).stdout == f"{home}\n"


def test_a_version_managers_shim_is_asked_for_the_home_behind_it(machine: Any) -> None:
    home = java_home(machine, "real", "21")
    shim = f"[ $# = 2 ] && echo '    java.home = {home}' >&2\n" + states("21")
    shims = machine.folder / "manager" / "shims"
    (machine.bin / "java").symlink_to(machine.executable(shims / "java", shim))
    assert machine.run("ensure-java").stdout == f"{home}\n"


@pytest.mark.parametrize("script", ["exit 1", "echo nonsense", "echo 'version \"17\"' >&2; exit 1", ":"])
def test_a_java_that_does_not_work_is_none(machine: Any, script: str) -> None:
    home = machine.folder / "broken"
    machine.executable(home / "bin" / "java", script)
    result = machine.run("ensure-java", JAVA_HOME=str(home))
    assert (result.returncode, result.stdout) == (1, "")


def test_without_java_and_apt_it_says_what_to_install(machine: Any) -> None:
    result = machine.run("ensure-java")
    assert (result.returncode, result.stdout) == (1, "")
    assert "install openjdk-17-jre-headless" in result.stderr


def apt_that_installs(machine: Any, package: str, version: str) -> Path:
    asked: Path = machine.apt_with(package, machine.jvm / package / "bin" / "java", states(version))
    return asked


def test_root_gets_debians_java_and_is_told_before(machine: Any) -> None:
    apt_that_installs(machine, "openjdk-17-jre-headless", "17.0.15")
    machine.command("id", "echo 0")
    result = machine.run("ensure-java")
    assert result.returncode == 0
    assert result.stdout == f"{machine.jvm}/openjdk-17-jre-headless\n"
    assert "installing openjdk-17-jre-headless" in result.stderr


def test_a_debian_without_java_17_gives_its_newer_one(machine: Any) -> None:
    apt_that_installs(machine, "openjdk-21-jre-headless", "21.0.2")
    machine.command("id", "echo 0")
    assert machine.run("ensure-java").stdout == f"{machine.jvm}/openjdk-21-jre-headless\n"


def test_sudo_without_a_password_is_used(machine: Any) -> None:
    apt_that_installs(machine, "openjdk-17-jre-headless", "17.0.15")
    machine.command("sudo", f'echo "$*" >>{machine.folder}/sudo\nshift\nexec "$@"')
    assert machine.run("ensure-java").stdout == f"{machine.jvm}/openjdk-17-jre-headless\n"
    assert "apt-get" in (machine.folder / "sudo").read_text()
