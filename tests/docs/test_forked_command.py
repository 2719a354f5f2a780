"""The command that shells start in tests of the pages is as the real one: its streams, its end, and what signals do."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

SECONDS = 60.0
BROKER = ("broker", "--memory", "--send-address", "127.0.0.1:0", "--receive-address", "127.0.0.1:0")


def start(commands: Path, *arguments: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen([commands / "penstock", *arguments], stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe)


def test_it_prints_and_ends_as_the_real_one(commands: Path, started_commands: Path) -> None:
    for arguments in (
        ["--version"],
        ["no-such-verb"],
        ["queue", "list", "--address", "127.0.0.1:1", "--timeout", "0.1"],
    ):
        found = []
        for each in (commands, started_commands):
            with start(each, *arguments) as process:
                found.append((*process.communicate(timeout=SECONDS), process.returncode))
        assert found[0] == found[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_ends_it_as_the_real_one(commands: Path, started_commands: Path, number: signal.Signals) -> None:
    found = []
    for each in (commands, started_commands):
        with start(each, *BROKER) as process:
            assert process.stderr is not None
            assert b"sending 127.0.0.1:" in process.stderr.readline()
            process.send_signal(number)
            found.append((*process.communicate(timeout=SECONDS), process.returncode))
    assert found[0] == found[1]


def test_what_was_forked_dies_with_it(commands: Path) -> None:
    with start(commands, *BROKER) as process:
        assert process.stderr is not None
        assert b"sending 127.0.0.1:" in process.stderr.readline()
        process.kill()
        assert process.stderr.read() == b"", "the end of the file comes when nobody has it any more"
    assert process.returncode == -signal.SIGKILL
