"""What is forked for Spark is as a fresh interpreter would be, and ends with the program that it stands for."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark_forks import forking_python

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Spark starts its own Python processes elsewhere")

SECONDS = 60.0
SHOWS = """
import os, sys
print(sys.argv, __name__, os.environ["ASKED"], os.getcwd(), "json.tool" in sys.modules, sys.stdin.read())
print("complaint", file=sys.stderr)
sys.exit(7)
"""
WAITS = """
import os, sys
print(os.getpid(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def program(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "shows.py").write_text(SHOWS)
    (tmp_path / "waits.py").write_text(WAITS)
    with forking_python(tmp_path, ["json.tool"]) as found:
        yield found


def test_a_module_has_its_arguments_environment_folder_and_streams_and_its_status_is_told(
    program: str, tmp_path: Path
) -> None:
    given = {"ASKED": "yes", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [program, "-m", "shows", "one"],
        env=given,
        cwd=tmp_path,
        input="in",
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.stdout == f"{[str(tmp_path / 'shows.py'), 'one']} __main__ yes {tmp_path} True in\n"
    assert done.stderr == "complaint\n"
    assert done.returncode == 7


def test_a_module_that_is_not_there_fails_with_a_traceback(program: str) -> None:
    done = subprocess.run(
        [program, "-m", "nowhere"], env={}, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert "No module named nowhere" in done.stderr
    assert done.returncode == 1


def test_what_is_no_module_is_for_a_fresh_interpreter(program: str) -> None:
    line = "import sys; print('json.tool' in sys.modules, *sys.argv)"
    done = subprocess.run([program, "-c", line, "x"], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("False -c x\n", "", 0)


def test_what_was_forked_ends_when_the_program_is_killed(program: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        [program, "-m", "waits"],
        env={"PYTHONPATH": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as asked:
        assert asked.stdout is not None
        forked = int(asked.stdout.readline())
        assert forked != asked.pid
        asked.send_signal(signal.SIGKILL)
        # The end of its output: it had the stream, and is gone. Its input is open.
        assert asked.stdout.read() == ""
        assert asked.wait(SECONDS) == -signal.SIGKILL
