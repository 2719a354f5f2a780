"""Writes requirements.lock: the exact version of everything that `make test` and `make demo` install.

Resolved on the oldest Python supported, then checked to be installable on the first release of each: a package's
newest version often drops the oldest Python first, while a version that has it seldom lacks the newer ones. Run by
`make lock`; arguments go to pip-compile (`--upgrade`, `--upgrade-package NAME`).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
PYTHONS = ("3.11", "3.12", "3.13")
# What the machinery itself needs: hatchling asks for `editables` only when it builds, and pip-tools writes the lock.
TOOLS = ("editables>=0.5", "pip-tools>=7.5")
RESOLVE_SECONDS = 900.0

HEADER = """\
# The exact version of everything that is installed for running, testing and building Penstock.
# Written by `make lock` from pyproject.toml; do not edit. Resolved on Python {oldest}, installable on {pythons}.
"""


def requirements(pyproject: Path) -> list[str]:
    """Every requirement the project states: at run time, of each extra, of each dependency group, and of its build."""
    document = tomllib.loads(pyproject.read_text("utf-8"))
    project = document["project"]
    found = [*document["build-system"]["requires"], *project["dependencies"]]
    for extra in project.get("optional-dependencies", {}).values():
        found += extra
    for group in document.get("dependency-groups", {}).values():
        found += [entry for entry in group if isinstance(entry, str)]
    return [*found, *TOOLS]


def resolve(wanted: list[str], previous: str, arguments: list[str]) -> str:
    """Pins for `wanted`, one a line; versions in `previous` are kept where they still fit."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "requirements.lock")
        output.write_text(previous, "utf-8")
        source = Path(folder, "pyproject.in")
        source.write_text("\n".join(wanted), "utf-8")
        # The --no-emit options keep the index of whoever runs this out of the file.
        options = ["--quiet", "--strip-extras", "--allow-unsafe", "--no-header", "--no-annotate"]
        options += ["--no-emit-index-url", "--no-emit-trusted-host", "--no-emit-find-links", "--no-emit-options"]
        run("piptools", "compile", *options, *arguments, "--output-file", str(output), str(source))
        lines = output.read_text("utf-8").splitlines()
    return "\n".join(sorted(line for line in lines if line and not line.startswith("#"))) + "\n"


def check_installable(lock: Path, python: str) -> None:
    """Fails unless every pin can be had for the first release of a Python."""
    options = ["--quiet", "--dry-run", "--no-deps", "--ignore-installed", "--target", "unused"]
    # PySpark comes as source only; it is pure Python, whatever the version.
    only = ["--only-binary=:all:", "--no-binary=pyspark"]
    run("pip", "install", *options, *only, "--python-version", python, "--requirement", str(lock))


def run(module: str, *arguments: str) -> None:
    """Runs a module of this environment; a failure ends the program with what the module said on standard error."""
    command = [sys.executable, "-m", module, *arguments]
    status = subprocess.run(command, cwd=ROOT, check=False, timeout=RESOLVE_SECONDS).returncode  # noqa: S603 - ours
    if status != 0:
        sys.exit(f"lock: {module} failed, status {status}; requirements.lock is as it was")


def main(arguments: list[str]) -> None:
    """Resolves, checks for every Python, and only then replaces the lock."""
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running != PYTHONS[0]:
        sys.exit(f"lock: run on Python {PYTHONS[0]}, this is {running} (make lock PYTHON=python{PYTHONS[0]})")
    previous = LOCK.read_text("utf-8") if LOCK.exists() else ""
    pins = resolve(requirements(ROOT / "pyproject.toml"), previous, arguments)
    text = HEADER.format(oldest=PYTHONS[0], pythons=", ".join(PYTHONS)) + pins
    with tempfile.TemporaryDirectory() as folder:
        candidate = Path(folder, LOCK.name)
        candidate.write_text(text, "utf-8")
        # The oldest, too: to pip 3.11 is 3.11.0, and the one that resolved them is later. Debian 12 has 3.11.2.
        for python in PYTHONS:
            check_installable(candidate, python)
    LOCK.write_text(text, "utf-8")
    print(f"requirements.lock: {len(pins.splitlines())} packages")


if __name__ == "__main__":
    main(sys.argv[1:])
