"""A machine made of nothing but the commands a test puts on its PATH."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent.parent / "scripts"
# What the scripts may take for granted on any Linux machine.
BASICS = ("bash", "env", "dirname", "readlink", "timeout", "true", "sed", "tail", "mktemp", "rm", "cat", "id")
SECONDS = 60.0


class Machine:
    """Runs our scripts where only the basic commands and the test's fakes exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.jvm = folder / "jvm"
        self.bin.mkdir()
        self.jvm.mkdir()
        for name in BASICS:
            found = shutil.which(name)
            assert found is not None, f"this machine has no {name}"
            (self.bin / name).symlink_to(found)
        self.command("id", "echo 1000")

    def command(self, name: str, script: str) -> Path:
        """Puts a command on the PATH."""
        return self.executable(self.bin / name, script)

    def executable(self, path: Path, script: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # never written through a link to the real command
        path.write_text(f"#!{shutil.which('bash')}\n{script}\n", "utf-8")
        path.chmod(0o755)
        return path

    def apt_with(self, package: str, program: Path, script: str) -> Path:
        """Puts an apt-get on the PATH that knows one package, of one program; what it was asked is in the file returned."""
        asked = self.folder / "asked"
        self.executable(self.folder / "package", script)
        self.command(
            "apt-get",
            f"""
            echo "$*" >>{asked}
            case "$*" in
              *" install "*" {package}") mkdir -p {program.parent} && cp -p {self.folder}/package {program} ;;
              *) echo "E: Unable to locate package" >&2; exit 100 ;;
            esac""",
        )
        for name in ("mkdir", "cp"):
            self.command(name, f'PATH=/usr/bin:/bin exec {name} "$@"')
        return asked

    def run(self, script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.bin / "bash"), str(SCRIPTS / script), *arguments],
            env={
                "PATH": str(self.bin),
                "PENSTOCK_JVM_FOLDER": str(self.jvm),
                "PENSTOCK_RABBITMQ_FOLDER": str(self.folder / "debian"),
                **environment,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)
