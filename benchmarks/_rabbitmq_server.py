"""A RabbitMQ of its own, started and ended by a benchmark or a test: its node, folders and ports are nobody else's, and all on loopback.

It runs in Erlang's virtual machine, beside Erlang's list of names (``epmd``), which is one of its own too. The script that starts it is
what Debian's ``rabbitmq-server`` calls, for that one changes to a user of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import IO, Final, Self

from benchmarks._processes import STOP_TIMEOUT, BenchmarkError

HOST: Final = "127.0.0.1"
FOLDER: Final = Path("/usr/lib/rabbitmq/bin")
"""Where Debian has the scripts; `PENSTOCK_RABBITMQ_FOLDER` names another."""
PROGRAM: Final = "rabbitmq-server"
NAMES: Final = "epmd"
VIRTUAL_MACHINE: Final = "beam.smp"
READY: Final = b"Server startup complete"
VERSION: Final = re.compile(rb"Starting RabbitMQ (\d+)\.(\d+)\.(\d+)")
START_SECONDS: Final = 120.0
"""In which it must be ready: it takes five on a machine that has nothing else to do."""
KEPT_LINES: Final = 40
"""Of what it says, for a message where it does not start."""
SETTINGS: Final = """\
log.connection.level = error
log.channel.level = critical
disk_free_limit.absolute = 50MB
"""
"""Beside its defaults: it logs no connection, no error that it was asked for, and is content with the disk that there is."""
JOINING: Final = """\
cluster_formation.peer_discovery_backend = classic_config
cluster_formation.classic_config.nodes.1 = {node}
cluster_formation.randomized_startup_delay_range.min = 0
cluster_formation.randomized_startup_delay_range.max = 1
"""
"""For one that begins as a node of another's cluster."""


def program() -> Path | None:
    """The script that starts it; None where there is none."""
    folder = Path(os.environ.get("PENSTOCK_RABBITMQ_FOLDER", FOLDER))
    if os.access(folder / PROGRAM, os.X_OK):
        return folder / PROGRAM
    found = shutil.which(PROGRAM)
    return None if found is None else Path(found)


def missing() -> str | None:
    """What a comparison with RabbitMQ lacks on this machine, and how to get it; None where it has all."""
    if program() is None or shutil.which(NAMES) is None:
        return (
            f"the comparison with RabbitMQ needs {PROGRAM} and there is none; install it "
            f"(Debian, Ubuntu: sudo apt-get install {PROGRAM})"
        )
    return None


class RabbitServer:
    """One whose files go into ``folder``; a context manager that ends it.

    Args:
        folder: made for it.
        joins: a node whose cluster it is to be of; it ends before that.

    Attributes:
        node: its name among the nodes of its cluster.
        port: where AMQP is spoken, on the loopback address.
        version: as it says itself: major, minor, patch.
        pid: the virtual machine's number.
    """

    def __init__(self, folder: Path, joins: RabbitServer | None = None) -> None:
        script = program()
        if script is None:
            raise BenchmarkError(str(missing()))
        folder.mkdir()
        self._folder = folder
        # Nodes of one cluster are in one list of names, and have one cookie.
        self._home: Path = folder if joins is None else joins._home
        self._said: deque[bytes] = deque(maxlen=KEPT_LINES)
        self._ready = Event()
        self._is_ready = False
        self.version: tuple[int, ...] = ()
        with ExitStack() as stack:
            self.port, distribution, names = _free_ports(3)
            self._names: int = names if joins is None else joins._names
            self.node = f"penstock-{self.port}@localhost"
            environment = self._environment(distribution, None if joins is None else joins.node)
            if joins is None:
                listing = subprocess.Popen(
                    [*_ends_with_us("KILL"), NAMES, "-address", HOST, "-port", str(names)],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                stack.callback(_end, listing)
            self._process = subprocess.Popen(
                [*_ends_with_us("TERM"), str(script)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,
            )
            stack.callback(self._end_server)
            assert self._process.stdout is not None
            self._reader = Thread(target=self._read, args=(self._process.stdout,), daemon=True)
            self._reader.start()
            if not self._ready.wait(START_SECONDS) or not self._is_ready:
                said = b"".join(self._said).decode("utf-8", "replace").strip()
                raise BenchmarkError(f"{PROGRAM} ended or was silent before it was ready: {said}")
            self.pid = _virtual_machine(self._process.pid)
            self._check_version()
            self._stack: ExitStack = stack.pop_all()

    def _check_version(self) -> None:
        if not self.version:
            raise BenchmarkError(f"{PROGRAM} does not say which version it is")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _environment(self, distribution: int, joins: str | None) -> dict[str, str]:
        """What it is told: settings of our own, of this machine's none."""
        folder = self._folder
        settings = SETTINGS if joins is None else SETTINGS + JOINING.format(node=joins)
        (folder / "rabbitmq.conf").write_text(settings, "utf-8")
        (folder / "environment").write_text("", "utf-8")
        (folder / "plugins").write_text("[].\n", "utf-8")
        told = {
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "environment"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "generated"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "ERL_EPMD_PORT": str(self._names),
            "ERL_EPMD_ADDRESS": HOST,
            # Erlang's cookie is made there.
            "HOME": str(self._home),
            "LANG": "C.UTF-8",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
        return kept | told

    def _read(self, stream: IO[bytes]) -> None:
        """Whatever it says is read: it would stand still once the pipe is full."""
        for line in stream:
            if not self._ready.is_set():
                self._said.append(line)
                if not self.version and (found := VERSION.search(line)):
                    self.version = tuple(map(int, found.groups()))
            if READY in line:
                self._is_ready = True
                self._ready.set()
        self._ready.set()  # nothing more will be said

    def _end_server(self) -> None:
        with suppress(ProcessLookupError):
            # The script, and the virtual machine that it has started, are a group of processes of their own.
            os.killpg(self._process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_TIMEOUT)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(STOP_TIMEOUT)
        if self._process.stdout is not None:
            self._process.stdout.close()


def _ends_with_us(how: str) -> list[str]:
    """Words before a command that have it end when this process is killed, be it without a word: the script ends the server with it."""
    program = shutil.which("setpriv")
    return [] if program is None else [program, "--pdeathsig", how]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, all at one time."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((HOST, 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _virtual_machine(pid: int) -> int:
    """The number of the virtual machine among a process and its children."""
    for child in _with_children(pid):
        with suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text("utf-8").strip() == VIRTUAL_MACHINE:
                return child
    raise BenchmarkError(f"no {VIRTUAL_MACHINE} runs below process {pid}")


def _with_children(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text("ascii").split():
                yield from _with_children(int(child))
