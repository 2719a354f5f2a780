"""scripts/setup where Python cannot make a virtual environment, fails at it, or has already done all there is to do."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
ANSWERS = 'case "$*" in *%d.%d*) echo 3.12 ;; *version_info*) echo 12 ;; *executable*) echo {path} ;;'


@pytest.fixture
def checkout(machine: Any, tmp_path: Path) -> Path:
    """A checkout of only what the set-up reads, on a machine with the commands it needs."""
    folder = tmp_path / "a checkout"
    shutil.copytree(ROOT / "scripts", folder / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "requirements.lock").write_text("rich==15.0.0\n", "utf-8")
    (folder / "pyproject.toml").write_text("", "utf-8")
    for name in ("sha256sum", "cut", "grep"):
        (machine.bin / name).symlink_to(str(shutil.which(name)))
    return folder


def put_python(machine: Any, importing: str, making: str) -> None:
    """A Python 3.12 and what it does when asked to import the venv module, and to make an environment."""
    path = machine.bin / "python3"
    machine.command(
        "python3", ANSWERS.format(path=path) + f' *ensurepip*) {importing} ;; *"-m venv"*) {making} ;; esac'
    )


def test_without_the_venv_module_it_says_what_to_install(machine: Any, checkout: Path) -> None:
    put_python(machine, importing="exit 1", making="exit 1")
    result = machine.run(checkout / "scripts" / "setup")
    assert result.returncode == 1
    assert "install python3.12-venv" in result.stderr
    assert not (checkout / ".venv").exists()


def test_root_gets_the_venv_module_and_is_told_before(machine: Any, checkout: Path) -> None:
    installed = machine.folder / "installed"
    put_python(machine, importing=f"[ -e {installed} ]", making="echo made; exit 7")
    machine.command("id", "echo 0")
    machine.command("apt-get", f'case "$*" in *python3.12-venv) echo >{installed} ;; esac')
    result = machine.run(checkout / "scripts" / "setup")
    assert "installing python3.12-venv" in result.stderr
    assert (result.returncode, result.stdout) == (7, "made\n")


def test_a_finished_set_up_is_not_repeated_until_what_it_depends_on_changes(machine: Any, checkout: Path) -> None:
    put_python(machine, importing="exit 0", making="exit 7")
    python = checkout / ".venv" / "bin" / "python"
    machine.executable(python, "echo 3.12")
    read = [checkout / name for name in ("requirements.lock", "pyproject.toml", "scripts/setup")]
    state = b"".join(path.read_bytes() for path in read) + f"{checkout}\n3.12\n".encode()
    (checkout / ".venv" / ".penstock-setup").write_text(hashlib.sha256(state).hexdigest() + "\n", "utf-8")
    again = machine.run(checkout / "scripts" / "setup")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    (checkout / "requirements.lock").write_text("rich==15.0.1\n", "utf-8")
    assert "installing 1 locked packages" in machine.run(checkout / "scripts" / "setup").stderr


def test_a_small_environment_needs_no_pip_of_its_own_and_is_given_its_packages_by_ours(
    machine: Any, checkout: Path
) -> None:
    """Where Python lacks ensurepip, too: no package of the system is asked for."""
    (checkout / "pyproject.toml").write_text("[project]\ndependencies = []\n[dependency-groups]\ndev = []\n", "utf-8")
    answers = 'case "$*" in *%d.%d*) echo 3.12 ;; *sysconfig*) echo small ;; *) echo rich ;; esac'
    told = machine.folder / "told"
    maker = f'mkdir -p small/bin; echo made "$@" >>{told}; ln -s {machine.folder}/inside small/bin/python'
    machine.executable(machine.folder / "inside", answers)
    put_python(machine, importing="exit 1", making=maker)
    machine.executable(checkout / ".venv/bin/python", f'echo pip "$@" >>{told}')
    for name in ("mkdir", "ln"):
        (machine.bin / name).symlink_to(str(shutil.which(name)))
    result = machine.run(checkout / "scripts" / "setup", "--venv", "small", "--small")
    assert result.returncode == 0, result.stderr
    _asked, made, installed = told.read_text("utf-8").splitlines()
    assert made == "made -m venv --clear --without-pip small"
    assert installed.startswith("pip -m pip --python small/bin/python ")
    assert installed.endswith(" install --no-compile --constraint requirements.lock rich")


def test_a_small_environment_of_our_version_is_lent_our_packages(machine: Any, checkout: Path) -> None:
    ours, lent = checkout / "ours", checkout / "lent"
    ours.mkdir()
    lent.mkdir()
    answers = 'case "$*" in *%d.%d*) echo 3.12 ;; *sysconfig*) echo {} ;; *"-m pip --version") ;; *) exit 9 ;; esac'
    maker = f'mkdir -p small/bin; ln -sf "{machine.folder}/inside" small/bin/python'
    machine.executable(machine.folder / "inside", answers.format(f'"{lent}"'))
    put_python(machine, importing="exit 1", making=maker)
    machine.executable(checkout / ".venv/bin/python", answers.format(f'"{ours}"'))
    (checkout / ".venv" / ".penstock-setup").write_text("ready\n", "utf-8")
    for name in ("mkdir", "ln"):
        (machine.bin / name).symlink_to(str(shutil.which(name)))
    result = machine.run(checkout / "scripts" / "setup", "--venv", "small", "--small")
    assert result.returncode == 0, result.stderr
    assert "with the packages of .venv" in result.stderr
    assert (lent / "penstock.pth").read_text("utf-8") == f"import site; site.addsitedir(r'{ours}')\n"
    again = machine.run(checkout / "scripts" / "setup", "--venv", "small", "--small")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    machine.executable(checkout / ".venv/bin/python", 'case "$*" in *%d.%d*) echo 3.13 ;; esac')
    assert "installing what is needed" in machine.run(checkout / "scripts/setup", "--venv", "small", "--small").stderr
