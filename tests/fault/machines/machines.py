"""`Machines`: network namespaces on one bridge that stand for machines, with processes, disks and cables that fail when they are told to.

    with Machines(["a", "b", "c", "clients"]) as machines:
        broker = machines["a"].python("transport.cli", "broker", ...)
        machines.links.cut_one_way("a", "b")
        machines["a"].kill()

Nothing is in the machine's own namespace: the bridge has one, too. So any number of runs go on side by side, all with the same addresses.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypedDict, Unpack

from tests.fault.machines import namespaces
from tests.fault.machines.claims import Claim, sweep
from tests.fault.machines.disks import Disk, ImageDisk
from tests.fault.machines.links import DEVICE, End, Links, Plane
from tests.fault.machines.processes import Ended, Heard, Process

ROOT: Final = Path(__file__).resolve().parents[3]
NETWORKS: Final[Mapping[Plane, str]] = {"brokers": "10.77.0", "register": "10.78.0"}
MOST_MACHINES: Final = 250
NAME: Final = re.compile(r"[a-z][a-z0-9]*")
HUB: Final = "hub"
CONNECT_SECONDS: Final = 5.0


class StartOptions(TypedDict, total=False):
    """What `Machine.start` may be told beside the words."""

    name: str
    environment: Mapping[str, str]
    heard: Heard
    ended: Ended


class Machine:
    """One of `Machines`.

    Attributes:
        name: as it was asked for.
        address: where the others reach it.
        register_address: where they reach its member of the register; cut and healed by itself (`links.Plane`).
        namespace: its network namespace.
        disk: where its processes keep what is to outlive them.
        folder: for all else: what its processes print, each in a file.
        processes: those that were started on it and may still run, in the order of their starts.
    """

    def __init__(self, name: str, end: End, disk: Disk, folder: Path, starter: ThreadPoolExecutor) -> None:
        self.name = name
        self.address = end.addresses["brokers"]
        self.register_address = end.addresses["register"]
        self.namespace = end.namespace
        self.disk = disk
        self.folder = folder
        self.processes: list[Process] = []
        self._starter = starter
        self._starts = 0

    def start(
        self,
        *words: str | Path,
        name: str | None = None,
        environment: Mapping[str, str] | None = None,
        heard: Heard | None = None,
        ended: Ended | None = None,
    ) -> Process:
        """Start a program here. It is killed with this process, be that killed itself.

        Args:
            words: the program and its arguments.
            name: how errors call it; the program's by default.
            environment: variables beside this process's, and the disk's.
            heard: told of each line that it prints, in a thread of its own.
            ended: told when it has ended, in that thread.
        """
        name = name or Path(words[0]).name
        self._starts += 1
        log = self.folder / f"{self._starts}-{name}.log"
        variables = {**os.environ, **self.disk.environment(), **(environment or {})}
        popen = self._starter.submit(self._start, [str(word) for word in words], variables).result()
        self.processes = [process for process in self.processes if process.running]
        process = Process(f"{name} of {self.name}", popen, log, heard, ended)
        self.processes.append(process)
        return process

    def python(self, module: str, *words: str | Path, **options: Unpack[StartOptions]) -> Process:
        """Start a module of this checkout, as `start` does."""
        options.setdefault("name", module)
        return self.start(sys.executable, "-m", module, *words, **options)

    def pids(self) -> list[int]:
        """The ids of all its processes, those that its processes have started too."""
        return namespaces.processes_in(self.namespace)

    def kill(self) -> None:
        """SIGKILL for all that runs on it; returns when it is gone. What had been written is in its files."""
        namespaces.kill_all_in(self.namespace)
        for process in self.processes:
            process.join()
        self.processes.clear()

    def power_off(self) -> None:
        """`kill`, and what had not been synced is gone from its disk, where that is an `ImageDisk`."""
        self.kill()
        self.disk.lose_power()

    def pause(self) -> None:
        """SIGSTOP for all that runs on it, as a hypervisor may do."""
        for process in self.processes:
            process.pause()
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT for all that runs on it."""
        self._signal(signal.SIGCONT)

    def inside(self) -> AbstractContextManager[None]:
        """The calling thread, and what it opens and starts, is on this machine while the context lasts."""
        return namespaces.inside(self.namespace)

    def open_socket(self, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
        """A socket of this machine, for whoever is elsewhere."""
        with self.inside():
            return socket.socket(socket.AF_INET, kind)

    def connect(self, host: str, port: int, seconds: float = CONNECT_SECONDS) -> socket.socket:
        """A connection from here, whose waits have this deadline."""
        made = self.open_socket()
        made.settimeout(seconds)
        try:
            made.connect((host, port))
        except OSError:
            made.close()
            raise
        return made

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _start(self, words: Sequence[str], variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """In the thread that starts all: it is in the machine from now on, and a child is killed when the thread that made it ends."""
        namespaces.enter(self.namespace)
        return subprocess.Popen(
            ("setpriv", "--pdeathsig", "KILL", "--", *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=variables,
            cwd=ROOT,
            start_new_session=True,
        )


class Machines(Mapping[str, Machine]):
    """Machines by name, while the context lasts; then nothing of them is left, and nothing of runs before it that were killed.

    Args:
        names: of the machines: small letters and digits.
        image_bytes: the size of each machine's disk, a file system of its own that fills up and loses power; by default it is a folder.

    Attributes:
        links: the cables.
        folder: of this run; it goes with it.
        swept: what earlier runs had left.
    """

    def __init__(self, names: Sequence[str], *, image_bytes: int | None = None) -> None:
        if wrong := [name for name in names if not NAME.fullmatch(name) or name == HUB]:
            raise ValueError(f"no name of a machine: {wrong[0]!r}")
        if not 0 < len(names) <= MOST_MACHINES or len(set(names)) < len(names):
            raise ValueError(f"1 to {MOST_MACHINES} machines of different names, not {len(names)}")
        self._names = tuple(names)
        self._image_bytes = image_bytes
        self._machines: dict[str, Machine] = {}

    def __enter__(self) -> Self:
        self.swept = sweep()
        self._claim = Claim()
        self.folder = self._claim.folder
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="starts processes of machines")
        try:
            self._make()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def __getitem__(self, name: str) -> Machine:
        return self._machines[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def name(self) -> str:
        """What the names of all that it makes on the machine begin with."""
        return self._claim.name

    @property
    def hub(self) -> str:
        """The bridge's namespace."""
        return f"{self.name}-{HUB}"

    def port(self, name: str) -> str:
        """The bridge's device that a machine's cable ends at."""
        return f"port{self._names.index(name) + 1}"

    def _make(self) -> None:
        ends = {
            name: End(
                f"{self.name}-{name}",
                {plane: f"{begin}.{number}" for plane, begin in NETWORKS.items()},
                self.port(name),
            )
            for number, name in enumerate(self._names, 1)
        }
        lines = [f"netns add {namespace}" for namespace in (self.hub, *(end.namespace for end in ends.values()))]
        lines += [
            f"link add name {DEVICE} netns {end.namespace} type veth peer name {end.port} netns {self.hub}"
            for end in ends.values()
        ]
        namespaces.batch(lines)
        bridge = ["link add name bridge type bridge", "link set dev bridge up"]
        for end in ends.values():
            bridge += [f"link set dev {end.port} master bridge", f"link set dev {end.port} up"]
        namespaces.batch(bridge, self.hub)
        for name, end in ends.items():
            own = [f"addr add {address}/24 dev {DEVICE}" for address in end.addresses.values()]
            own += [f"link set dev {DEVICE} up", "link set dev lo up"]
            namespaces.batch(own, end.namespace)
            folder = self.folder / name
            folder.mkdir()
            disk = Disk(folder / "disk") if self._image_bytes is None else ImageDisk(folder / "disk", self._image_bytes)
            self._machines[name] = Machine(name, end, disk, folder, self._starter)
        self.links = Links(self.hub, ends)

    def _end(self) -> None:
        try:
            namespaces.kill_all_in(*namespaces.named(f"{self.name}-"))
            for machine in self._machines.values():
                machine.kill()
                machine.disk.close()
        finally:
            self._starter.shutdown()
            self._claim.release()
            self._machines.clear()
