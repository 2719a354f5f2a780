"""Processes of ``penstock`` for tests, forked from one that has imported it: what is tested of most of them is not their start.

An interpreter that starts and imports a broker takes half a second of the processor, and a verb's a tenth; tests of the command line
start some thousand. Here one process has done that and forks. What it forks has its own arguments, environment, folder and streams,
and from there on is a process as any other: it takes signals, and ends as the interpreter does.

That each verb starts from nothing too is seen by the pages that are typed (`tests/docs/test_tour.py` has all verbs), and
`tests/transport/test_cli_usage.py`.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from examples.demo.child import die_with_parent

ROOT = Path(__file__).resolve().parents[2]
MODULE = "transport.cli"
CHILD = "examples.demo.child"
PRELOADED = ("transport.cli.broker", "transport.cli._serving", "transport.gateways.listeners", "transport")
GIVEN = ("Sender", "Receiver", "Administration", "Broker")
"""What `transport` loads when it is asked for."""
STATUS = struct.Struct("!i")
PID = struct.Struct("!I")
LENGTH = struct.Struct("!I")


class Forked(subprocess.Popen[bytes]):
    """As `subprocess.Popen`, of ``[sys.executable, "-m", "transport.cli", *arguments]``; it waits for what another process has started.

    With `CHILD` before the module it ends with this process, were that killed.

    One whose environment has other settings of the interpreter, which it reads when it starts, is started.
    """

    _status: int | None = None

    @property
    def status(self) -> int | None:
        """What can be read when it has ended; None of one that was started."""
        return self._status

    def _execute_child(self, args: Any, *rest: Any) -> None:
        cwd, env, streams = rest[4], rest[5], rest[9:15]
        forker, has = the_forker()
        if of_interpreter(os.environ if env is None else env) != has:
            super()._execute_child(args, *rest)  # type: ignore[misc]  # not in typeshed
            return
        stdin, _, _, stdout, _, stderr = streams
        self._status, written = os.pipe()
        own = {0: stdin, 1: stdout, 2: stderr}
        request = {
            "arguments": args[args.index(MODULE) + 1 :],
            "environment": dict(os.environ if env is None else env),
            "folder": os.fspath(cwd or "."),
            "dies": CHILD in args,
        }
        body = json.dumps(request).encode()
        files = [written, *(number if number != -1 else standard for standard, number in own.items())]
        socket.send_fds(forker, [LENGTH.pack(len(body))], files)
        forker.sendall(body)
        (self.pid,) = PID.unpack(forker.recv(PID.size, socket.MSG_WAITALL))
        self._child_created = True
        os.close(written)
        self._close_pipe_fds(*streams)  # type: ignore[attr-defined]  # Popen's own, which typeshed does not know

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """As Popen's, which asks the kernel: (0, 0) where it goes on."""
        if self._status is None:
            return super()._try_wait(wait_flags)  # type: ignore[misc,no-any-return]  # as above
        if wait_flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        told = os.read(self._status, STATUS.size)
        os.close(self._status)
        assert told, "the process that forks has died"
        return self.pid, STATUS.unpack(told)[0]

    def _internal_poll(self, _deadstate: int | None = None, **_: Any) -> int | None:
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):
            try:
                if self.returncode is None:
                    pid, status = self._try_wait(os.WNOHANG)
                    if pid == self.pid:
                        self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


@cache
def the_forker() -> tuple[socket.socket, dict[str, str]]:
    """Where the process that forks is asked, and its settings of the interpreter. It is one for each that asks, and ends with it."""
    ours, its = socket.socketpair()
    command = [sys.executable, "-m", __name__, str(its.fileno())]
    forker = subprocess.Popen(command, cwd=ROOT, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL)
    forker.returncode = 0  # nobody waits for it
    its.close()
    atexit.register(ours.close)
    return ours, of_interpreter(os.environ)


def of_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    """What an interpreter looks at when it starts."""
    return {name: value for name, value in environment.items() if name.startswith(("PYTHON", "LC_", "LANG"))}


def run(arguments: Sequence[str], given: bytes, seconds: float) -> tuple[int, bytes, bytes]:
    """A whole run of ``penstock``: its exit code, and what it has printed where."""
    with Forked(
        [sys.executable, "-m", MODULE, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            out, err = process.communicate(given, timeout=seconds)
        except BaseException:
            process.kill()
            raise
    return process.returncode, out, err


def forked_from(asked: socket.socket) -> dict[str, Any]:
    """Forks for whoever asks; returns in what is forked, with what was asked."""
    told_of_ends, wakes = os.pipe()
    os.set_blocking(wakes, False)
    os.set_blocking(told_of_ends, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's, which is for what was forked
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    waiting: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([asked, told_of_ends], [], [])
        if told_of_ends in ready:
            os.read(told_of_ends, 4096)
            tell_of_ends(waiting)
        if asked not in ready:
            continue
        length, files, _, _ = socket.recv_fds(asked, LENGTH.size, 4)
        if not length:
            sys.exit()
        request: dict[str, Any] = json.loads(asked.recv(LENGTH.unpack(length)[0], socket.MSG_WAITALL))
        told, *streams = files
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            asked.detach()
            os.closerange(3, max(*files, *waiting.values(), asked_number(), told_of_ends, wakes) + 1)
            return request
        for stream in streams:
            os.close(stream)
        waiting[pid] = told
        asked.sendall(PID.pack(pid))


def asked_number() -> int:
    """The socket's, of which a forked process wants nothing."""
    return int(sys.argv[1])


def tell_of_ends(waiting: dict[int, int]) -> None:
    """Tells whoever waits for a process that it has ended, and how."""
    while waiting:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        told = waiting.pop(pid)
        with suppress(BrokenPipeError):  # nobody waits any more
            os.write(told, STATUS.pack(status))
        os.close(told)


def become(request: dict[str, Any]) -> None:
    """What an interpreter makes of its streams, arguments and environment."""
    if request["dies"]:
        die_with_parent()  # which ends with whoever asks
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = [MODULE, *request["arguments"]]
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        stream = open(  # noqa: SIM115 - for as long as the process lives
            number, "w" if number else "r", encoding=before.encoding, errors=before.errors, closefd=False
        )
        if number:
            stream.reconfigure(line_buffering=number == 2 or stream.isatty(), write_through=at_once)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def main() -> None:
    """The process that forks, and what it has forked."""
    for name in PRELOADED:
        __import__(name)
    for name in GIVEN:
        getattr(sys.modules["transport"], name)
    gc.collect()
    gc.freeze()
    become(forked_from(socket.socket(fileno=asked_number())))
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
