"""Processes are on their machine, end as they are ended, and nothing of a run is left: not of one that was killed either."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fault.machines import claims, namespaces
from tests.fault.machines.machines import ROOT, Machine, Machines
from tests.fault.machines.processes import TAIL_LINES, Process, ProcessError

DEADLINE = 20.0
ECHO = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("here", os.getpid(), flush=True)
signal.pause()
"""
WITH_CHILD = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {ECHO!r}])
print("child", child.pid, flush=True)
child.wait()
"""
LISTENER = """
import socket, sys
one = socket.create_server((sys.argv[1], 7000))
print("listening", flush=True)
while True:
    made, _ = one.accept()
    made.sendall(made.recv(100).upper())
    made.close()
"""
A_RUN = """
import signal, sys
from tests.fault.machines.machines import Machines

with Machines(["a", "clients"], image_bytes=16 * 2**20) as machines:
    machines["a"].start(sys.executable, "-c", sys.argv[1]).wait_line("child")
    machines["a"].processes[0].wait_line("here")
    print(machines.name, machines.folder, *machines["a"].pids(), flush=True)
    signal.pause()
"""


def state_of(pid: int) -> str | None:
    """`R`, `S`, `T` and so on, as in proc(5)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def lives(pid: int) -> bool:
    """Whether it runs; not so one that only waits for its parent, who may be the system's first process, to ask how it ended."""
    return state_of(pid) not in {None, "Z", "X"}


def echo(machine: Machine, text: str = ECHO) -> Process:
    """A process that says its number, and ends in good order on SIGTERM."""
    process = machine.start(sys.executable, "-c", text, name="echo")
    process.wait_line("here")
    return process


def test_a_process_is_on_its_machine_and_ends_in_each_way(machines: Machines) -> None:
    first, second = echo(machines["a"]), echo(machines["a"])
    assert sorted(machines["a"].pids()) == sorted([first.pid, second.pid])
    assert machines["b"].pids() == []
    assert first.wait_line(r"here (\d+)")[1] == str(first.pid)
    first.kill()
    assert first.code == -signal.SIGKILL
    second.stop()
    assert second.code == 0
    assert machines["a"].pids() == []


def test_a_process_that_is_stopped_stands_still_until_it_goes_on(machines: Machines) -> None:
    process = machines["a"].start(sys.executable, "-c", LISTENER, machines["a"].address)
    process.wait_line("listening")
    process.pause()
    assert state_of(process.pid) == "T"
    with machines["clients"].connect(machines["a"].address, 7000, DEADLINE) as one:  # the kernel takes it
        one.sendall(b"hello")
        one.setblocking(False)
        with pytest.raises(BlockingIOError):
            one.recv(100)
        one.settimeout(DEADLINE)
        process.resume()
        assert one.recv(100) == b"HELLO"
    process.pause_for(0.01)
    assert state_of(process.pid) != "T"
    assert process.memory() > 2**20
    machines["a"].pause()
    assert state_of(process.pid) == "T"
    machines["a"].resume()
    with machines["clients"].connect(machines["a"].address, 7000, DEADLINE) as one:
        one.sendall(b"again")
        assert one.recv(100) == b"AGAIN"


def test_a_machine_that_is_killed_has_no_process_left_nor_their_children(machines: Machines) -> None:
    process = echo(machines["a"], WITH_CHILD)
    other = echo(machines["b"])
    child = int(process.wait_line(r"child (\d+)")[1])
    assert sorted(machines["a"].pids()) == sorted([process.pid, child])
    machines["a"].kill()
    assert machines["a"].pids() == []
    assert not lives(child)
    assert process.code == -signal.SIGKILL
    assert other.running


def test_a_process_whose_parent_alone_is_killed_is_still_heard(machines: Machines) -> None:
    process = echo(machines["a"], WITH_CHILD)
    child = int(process.wait_line(r"child (\d+)")[1])
    process.kill()
    assert machines["a"].pids() == [child]


def test_a_process_that_ends_by_itself_is_told_of_with_what_it_printed(machines: Machines) -> None:
    process = machines["a"].start(sys.executable, "-c", "print('no room at all'); raise SystemExit(74)", name="short")
    with pytest.raises(ProcessError, match=r"(?s)short of a ended; .*no room at all"):
        process.wait_line("never")
    assert process.wait_end() == 74
    with pytest.raises(ProcessError, match="had ended by itself, with 74, before it was killed"):
        process.kill()
    with pytest.raises(ProcessError, match="ended with 74"):
        process.wait_until("done it", lambda: False, DEADLINE)


def test_what_a_process_says_is_waited_for_and_no_longer_than_told(machines: Machines) -> None:
    process = echo(machines["a"])
    with pytest.raises(ProcessError, match="did not say 'never' within 0 s"):
        process.wait_line("never", 0.05)
    with pytest.raises(ProcessError, match="has not ended within 0 s"):
        process.wait_end(0.05)


def test_a_process_hears_and_reaches_only_what_its_cable_leads_to(machines: Machines) -> None:
    machines["a"].start(sys.executable, "-c", LISTENER, machines["a"].address).wait_line("listening")
    for name in ("b", "c", "clients"):
        with machines[name].connect(machines["a"].address, 7000, DEADLINE) as one:
            one.sendall(name.encode())
            assert one.recv(100) == name.upper().encode()
    with machines["b"].inside():
        assert os.stat("/proc/thread-self/ns/net").st_ino == (namespaces.FOLDER / machines["b"].namespace).stat().st_ino
    assert os.stat("/proc/thread-self/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino


@pytest.mark.parametrize("names", [[], ["a", "a"], ["A"], ["hub"], ["a b"], ["../x"]])
def test_names_that_no_machine_can_have_are_refused(names: list[str]) -> None:
    with pytest.raises(ValueError, match=r"no name of a machine|1 to \d+ machines"):
        Machines(names)


@pytest.mark.usefixtures("namespaces_here")
def test_at_the_end_everything_is_gone() -> None:
    with Machines(["a", "b"]) as machines:
        process = echo(machines["a"], WITH_CHILD)
        pids = machines["a"].pids()
        name, folder = machines.name, machines.folder
        machines.links.down("a")
    assert len(pids) == 2
    assert process.code == -signal.SIGKILL
    assert_gone(name, folder, pids)


def test_what_a_killed_run_has_left_is_removed_by_the_next_and_nothing_of_one_that_lives(
    image_machines: Machines,
) -> None:
    alive = echo(image_machines["a"])
    killed = subprocess.Popen(
        [sys.executable, "-c", A_RUN, WITH_CHILD], stdout=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True
    )
    with killed:
        assert killed.stdout is not None
        name, folder, *numbers = killed.stdout.readline().split()
        assert (claims.CLAIMS / name).exists()
        assert len(numbers) == 2
        killed.kill()
        killed.wait(DEADLINE)
    assert claims.mounts_under(Path(folder))
    with Machines(["one"]) as machines:
        assert name in machines.swept
        assert image_machines.name not in machines.swept
    assert_gone(name, Path(folder), [int(number) for number in numbers])
    assert alive.running
    assert image_machines["a"].disk.path.is_mount()


def assert_gone(name: str, folder: Path, pids: list[int]) -> None:
    assert namespaces.named(f"{name}-") == []
    assert not (claims.CLAIMS / name).exists()
    assert not folder.exists()
    assert claims.mounts_under(folder) == []
    assert not [pid for pid in pids if lives(pid)]


def test_who_is_not_root_or_lacks_a_program_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert namespaces.why_none.__wrapped__() == "machines need ip and tc and setpriv (Debian: iproute2, util-linux)"
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    assert namespaces.why_none.__wrapped__() == "machines are network namespaces, and only root makes them"


def test_what_a_process_said_at_its_start_is_heard_by_who_asks_late(machines: Machines) -> None:
    text = f"print('first')\nfor number in range({5 * TAIL_LINES}): print(number)\nprint('last')\n"
    process = machines["a"].start(sys.executable, "-c", text)
    process.wait_line("^last$")
    assert process.wait_line("^first$")
    process.wait_end()
