"""Members of a cluster as running processes, for tests of its clients: `cluster_member` is what they run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 30.0


class Member:
    """A process that follows, or leads when it is told to.

    Attributes:
        send: where it is reached by senders.
        receive: likewise by receivers.
    """

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.transport.cluster_member"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.send, self.receive = self._heard("follows")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=DEADLINE)

    def lead(self, directory: str) -> None:
        self._say(f"lead {directory}")
        self._heard("leads")

    def follow(self, leader: Member | None = None) -> None:
        self._say("follow" if leader is None else f"follow {leader.send} {leader.receive}")
        self._heard("follows")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(DEADLINE)

    def _say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def _heard(self, what: str) -> tuple[str, str]:
        assert self.process.stdout is not None
        state, send, receive = self.process.stdout.readline().split()
        assert state == what
        return send, receive
