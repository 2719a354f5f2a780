"""Spark's Python processes in tests, forked from one that has imported what they need.

Each streaming query starts a Python process for its reader, and each kind of worker a daemon, which has a worker import everything anew:
half a second of processor time each, which was more than the rest of what a query cost. What Spark calls is `PROGRAM`, which hands its
arguments, its environment and its standard streams to `serve` and lives as long as the process that was forked for it.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import gc
import importlib
import marshal
import os
import runpy
import signal
import socket
import struct
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOOK_SECONDS = 1.0
"""After which it looks whether who started it is there, and what has ended meanwhile."""
WAITING = 64
"""Programs whose turn has not come."""
LENGTH = struct.Struct("!I")
STREAMS = 3
F_SETSIG = 10
"""Linux's number; `fcntl` does not name it."""

IMPORTED = (
    "encodings.idna",
    "pandas",
    "pyarrow.compute",
    "spark_bridge.reader",
    "spark_bridge.sink_schema",
    "spark_bridge.source",
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
)

PROGRAM = """\
#!{python} -ISB
import _socket, array, marshal, posix, sys
if sys.argv[1:2] != ["-m"]:
    posix.execv({python!r}, [{python!r}, *sys.argv[1:]])
asked = marshal.dumps((sys.argv[1:], {{bytes(k): bytes(v) for k, v in posix.environ.items()}}, posix.getcwd()))
s = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
s.connect({address!r})
s.sendmsg([len(asked).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", range({streams})))])
s.sendall(asked)
posix.close(0), posix.close(1)
code = s.recv(1)
posix._exit(code[0] if code else 1)
"""
"""Without `site` and with nothing imported but what is built in: it takes a fiftieth of the time of what it stands for. Modules are
forked; what else Spark has for Python, such as a line to tell its version, is for a fresh interpreter."""


def _read(peer: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = peer.recv(count - len(found))
        if not part:
            raise EOFError("the program ended before it had said what it wants")
        found += part
    return found


def _become(peer: socket.socket) -> int:
    """What a fresh interpreter would do with the arguments that ``peer`` sends; the exit status."""
    head, control, _, _ = peer.recvmsg(LENGTH.size, socket.CMSG_SPACE(STREAMS * array.array("i").itemsize))
    streams = array.array("i", control[0][2])
    arguments, environment, folder = marshal.loads(_read(peer, *LENGTH.unpack(head)))
    # When the program is killed, so is this.
    fcntl.fcntl(peer, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(peer, F_SETSIG, signal.SIGTERM)
    fcntl.fcntl(peer, fcntl.F_SETFL, fcntl.fcntl(peer, fcntl.F_GETFL) | os.O_ASYNC)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environb.clear()
    os.environb.update(environment)
    os.chdir(folder)
    sys.path[:0] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in sys.path]
    _, module, *rest = arguments
    sys.argv = [module, *rest]
    try:
        # The module as it is imported is not the one that runs, of which the interpreter warns.
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _fork(peer: socket.socket, listener: socket.socket) -> None:
    if os.fork():
        return
    status = 1
    try:
        listener.close()
        status = _become(peer)
    except BaseException:  # noqa: BLE001 - an interpreter tells of all of them
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
            peer.send(bytes([status & 0xFF]))
        os._exit(status & 0xFF)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def serve(address: str, modules: Sequence[str]) -> None:
    """Imports ``modules``, listens, says so on standard output, and forks as long as who started it lives."""
    for module in modules:
        importlib.import_module(module)
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, "a process with threads must not fork"
    gc.collect()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(WAITING)
        print("ready", flush=True)
        parent = os.getppid()
        listener.settimeout(LOOK_SECONDS)
        while os.getppid() == parent:
            _reap()
            try:
                peer, _ = listener.accept()
            except TimeoutError:
                continue
            peer.setblocking(True)
            with peer:
                _fork(peer, listener)


@contextlib.contextmanager
def forking_python(folder: Path, modules: Sequence[str] = IMPORTED) -> Iterator[str]:
    """The path of a program that Spark can use for Python; ``folder`` is for it alone."""
    if sys.platform != "linux":  # whose signals of sockets these are
        yield sys.executable
        return
    address = str(folder / "forks")
    program = folder / "python"
    program.write_text(PROGRAM.format(python=sys.executable, address=address, streams=STREAMS))
    program.chmod(0o755)
    # Spark's workers agree on the hashes of text. numpy and Arrow have no threads, which a fork would lose.
    given = {"PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    given["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    with subprocess.Popen(
        [sys.executable, "-m", "tests.spark_forks", address, *modules],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=os.environ | given | {"PYTHONPATH": path},
    ) as server:
        assert server.stdout is not None
        try:
            assert server.stdout.readline() == b"ready\n", "what forks Spark's Python processes did not start"
            yield str(program)
        finally:
            server.kill()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2:])
