"""The broker that ``penstock bench`` starts for itself, a process of its own, and how much processor it has used."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

import typer

from transport.errors import TransportError

START_SECONDS: Final = 60.0
"""A journal may have to be opened."""
END_SECONDS: Final = 30.0


class OwnBroker:
    """A broker on free ports of this machine; a context manager.

    Args:
        directory: its journal, or None to keep everything in memory.

    Attributes:
        send_address: where it is.
        receive_address: likewise.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self.send_address = self.receive_address = ""

    def __enter__(self) -> Self:
        where = ["--memory"] if self._directory is None else ["--data", str(self._directory)]
        free = ["--send-address", "127.0.0.1:0", "--receive-address", "127.0.0.1:0"]
        # What the environment says of brokers is said of another one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        self._process = subprocess.Popen(  # noqa: S603 - this program itself
            [sys.executable, "-m", "transport.cli", "broker", *where, *free],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            # Ctrl-C is for this program, which ends the broker when its queue is gone.
            start_new_session=True,
        )
        try:
            self._hear()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def cpu(self) -> float | None:
        """Seconds of processor that it has used; None where the system does not say."""
        try:
            # Behind the name, which may have blanks and brackets in it.
            words = Path(f"/proc/{self._process.pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
            return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            return None

    def _hear(self) -> None:
        """Wait for it to say where it is; exits as it does where it ends instead."""
        stderr = self._process.stderr
        assert stderr is not None
        said: list[str] = []
        while True:
            if not select.select([stderr], [], [], START_SECONDS)[0]:
                raise TransportError(f"the broker has not said where it is within {START_SECONDS:.0f} s")
            line = stderr.readline().decode(errors="replace").strip()
            if not line:
                typer.echo("\n".join(said), err=True)
                raise typer.Exit(self._process.wait(END_SECONDS) or 1)
            words = line.replace(",", "").split()
            if words[:3] == ["penstock", "broker:", "sending"]:
                self.send_address, self.receive_address = words[3], words[5]
                return
            said.append(line)
