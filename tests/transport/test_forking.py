"""What is forked for tests is a process of its own, as one that was started: its streams, environment and folder, and how it ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.transport import forking
from tests.transport.forking import Forked, the_forker
from tests.transport.programs import COMMAND, DEADLINE, BrokerProcess

TYPED = (
    ("--version",),
    ("queue", "lst"),
    ("user", "add", "ada", "--users-file", "nowhere/users", "--password-file", "missing"),
    ("config", "show", "--json"),
)


def told(start: Any, *words: str, **more: Any) -> tuple[int, bytes, bytes]:
    with start(
        [*COMMAND, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    ) as one:
        out, err = one.communicate(timeout=DEADLINE)
        return one.returncode, out, err


@pytest.mark.parametrize("words", TYPED, ids=" ".join)
def test_it_prints_what_a_started_one_prints_and_ends_alike(words: tuple[str, ...]) -> None:
    started = told(subprocess.Popen, *words, cwd=forking.ROOT)
    assert told(Forked, *words, cwd=forking.ROOT) == started
    assert started[1] or started[2]


def test_it_has_the_environment_and_the_folder_that_it_was_given(tmp_path: Path) -> None:
    (tmp_path / "given.toml").write_text("[broker]\nprefetch_nothing = 1\n")
    environment = os.environ | {"PENSTOCK_CONFIG": "given.toml", "PYTHONPATH": str(forking.ROOT)}
    code, _, err = told(Forked, "config", "show", cwd=tmp_path, env=environment)
    assert (code, err) == told(subprocess.Popen, "config", "show", cwd=tmp_path, env=environment)[::2]
    assert b"prefetch_nothing" in err


def test_one_with_settings_of_the_interpreter_has_them() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    words = ("queue", "l\u00e4st")
    code, out, err = told(Forked, *words, cwd=forking.ROOT, env=environment)
    assert (code, out, err) == told(subprocess.Popen, *words, cwd=forking.ROOT, env=environment)
    assert b"l\xe4st" in err


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGALRM])
def test_a_signal_that_ends_it_is_told_as_of_any_process(number: signal.Signals) -> None:
    with BrokerProcess() as broker:
        assert broker.process.poll() is None
        assert os.getpgid(broker.process.pid) == os.getpgid(0)
        broker.process.send_signal(number)
        assert broker.end() == -number


def test_what_it_may_have_open_is_its_streams(tmp_path: Path) -> None:
    with (tmp_path / "open").open("wb"), BrokerProcess() as one, BrokerProcess() as other:
        theirs = {os.readlink(file) for file in Path(f"/proc/{other.process.pid}/fd").iterdir()}
        mine = {os.readlink(f"/proc/self/fd/{file.fileno()}") for file in (one.stdout, one.stderr, the_forker()[0])}
        assert theirs & mine == set()
        assert str(tmp_path / "open") not in theirs


def test_the_process_that_forks_ends_with_the_one_that_asked() -> None:
    program = (
        "from tests.transport.forking import run, the_forker\n"
        "print(run(['--version'], b'', 30)[0])\n"
        "import os; print(open(f'/proc/self/task/{os.getpid()}/children').read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=forking.ROOT, capture_output=True, text=True, timeout=DEADLINE, check=True
    )
    code, child = done.stdout.split()
    assert code == "0"
    with suppress(ProcessLookupError):
        watched = os.pidfd_open(int(child))
        try:
            assert select.select([watched], [], [], DEADLINE)[0], "it goes on"
        finally:
            os.close(watched)
