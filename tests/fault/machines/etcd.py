"""An etcd with a member on each of several machines, on their disks; and the few questions that tests ask it.

The members' files are on the machines' disks. Faults of calls do not reach them (etcd makes its calls without the C library), those of an
`ImageDisk` do.
"""

from __future__ import annotations

import base64
import http.client
import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from tests.fault.machines.machines import ROOT, Machine
from tests.fault.machines.processes import START_SECONDS, Process

ENSURE: Final = ROOT / "scripts" / "ensure-etcd"
ENSURE_SECONDS: Final = 60.0
CLIENT_PORT: Final = 2379
PEER_PORT: Final = 2380
READY: Final = "serving client traffic|ready to serve client requests"
"""In what it logs then: the former of 3.4, which says the latter where TLS is spoken, and both of later ones."""
ASK_SECONDS: Final = 10.0
"""For one answer: an etcd without a leader says so after seven."""
AGAIN_SECONDS: Final = 0.25
STATUS: Final = "/v3/maintenance/status"
MOVE: Final = "/v3/maintenance/transfer-leadership"
T = TypeVar("T")


class EtcdError(Exception):
    """An etcd refused, or did not answer in time; the text says what it said."""


@cache
def program() -> str | None:
    """Where an etcd is; None where there is none. It is looked for, and not installed."""
    look = _look()
    return look.stdout.strip() if look.returncode == 0 else None


@cache
def why_none() -> str | None:
    """Why there is no etcd here, or None."""
    if program() is not None:
        return None
    return _look().stderr.strip().removeprefix("penstock: ") or "there is no etcd, and ensure-etcd did not say why"


@cache
def _look() -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(ENSURE), "--no-install"], capture_output=True, text=True, check=False, timeout=ENSURE_SECONDS
    )


class Members:
    """Members named as their machines, at the addresses that those have for a register, whoever has started them.

    Args:
        machines: what each runs on.
        asking: the machine that questions come from.

    Attributes:
        endpoints: where clients reach the members, by machine.
    """

    def __init__(self, machines: Sequence[Machine], asking: Machine) -> None:
        self._machines = {machine.name: machine for machine in machines}
        self._asking = asking
        self._changed = threading.Condition()
        self._lines = 0
        self.endpoints: Mapping[str, str] = {
            name: f"{machine.register_address}:{CLIENT_PORT}" for name, machine in self._machines.items()
        }

    def runs(self, name: str) -> bool:
        """Whether a member may be there to be asked."""
        return True

    def leader(self, among: Sequence[str] | None = None) -> str | None:
        """The member that says of itself that it leads; None where none of those that answer does.

        One that is cut off may say so for a while, when another does already: ask among those that are not.
        """
        for name in among or tuple(self._machines):
            if self.runs(name):
                try:
                    status = self.ask(name, STATUS, {})
                except (EtcdError, OSError):
                    continue
                if status.get("leader") == status["header"]["member_id"]:
                    return name
        return None

    def lead(self, name: str, seconds: float = START_SECONDS) -> None:
        """Have a member lead; all are there. Returns when it says so.

        Raises:
            EtcdError: it does not, within this time.
        """

        def led() -> None:
            leader = self.leader()
            if leader is None:
                raise EtcdError("nobody says that it leads")
            if leader != name:
                target = self.ask(name, STATUS, {})["header"]["member_id"]
                self.ask(leader, MOVE, {"targetID": target})
                raise EtcdError(f"{leader} was told to have {name} lead, which has not said that it does")

        self.until(led, seconds)

    def wait_leader(self, among: Sequence[str] | None = None, seconds: float = START_SECONDS) -> str:
        """`leader`, waited for."""

        def found() -> str:
            if (name := self.leader(among)) is None:
                raise EtcdError("nobody says that it leads")
            return name

        return self.until(found, seconds)

    def until(self, asked: Callable[[], T], seconds: float = START_SECONDS) -> T:
        """What ``asked`` gives as soon as it raises nothing of etcd's or the network's.

        It is asked again whenever a member that was started here has said something, and now and then.

        Raises:
            EtcdError: it still does, after this time.
        """
        end = time.monotonic() + seconds
        while True:
            with self._changed:
                heard = self._lines
            try:
                return asked()
            except (EtcdError, OSError) as error:
                if time.monotonic() > end:
                    raise EtcdError(f"not within {seconds:.0f} s: {error}") from error
            with self._changed:
                self._changed.wait_for(lambda: self._lines > heard, AGAIN_SECONDS)  # noqa: B023 - asked at once

    def put(self, name: str, key: str, value: str) -> int:
        """Store a value through a member; the revision of the whole store behind it."""
        answer = self.ask(name, "/v3/kv/put", {"key": encoded(key), "value": encoded(value)})
        return int(answer["header"]["revision"])

    def get(self, name: str, key: str, *, serializable: bool = False) -> str | None:
        """Read a value at a member; None where there is none.

        With ``serializable`` it is what that member has, which may be old; otherwise what a majority has agreed on.
        """
        answer = self.ask(name, "/v3/kv/range", {"key": encoded(key), "serializable": serializable})
        return next((base64.b64decode(row["value"]).decode() for row in answer.get("kvs", ())), None)

    def ask(self, name: str, path: str, body: Mapping[str, Any], seconds: float = ASK_SECONDS) -> dict[str, Any]:
        """What a member answers to a request of its JSON gateway.

        Raises:
            EtcdError: it refused.
            OSError: it cannot be reached, or did not answer in time.
        """
        connection = http.client.HTTPConnection(self._machines[name].register_address, CLIENT_PORT)
        connection.sock = self._asking.connect(self._machines[name].register_address, CLIENT_PORT, seconds)
        try:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except http.client.HTTPException as error:
            raise EtcdError(f"{name}: {type(error).__name__} {error}") from error
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise EtcdError(f"{name}: {text.decode(errors='replace').strip()}")
        found: dict[str, Any] = json.loads(text)
        return found


class Etcd(Members):
    """Members that are processes of their own.

    Args:
        machines: what each runs on.
        asking: the machine that questions come from.
        heartbeat: milliseconds between two signs of life of its leader.
        election: milliseconds without one, after which another is elected; etcd's own are 100 and 1000.
    """

    def __init__(
        self, machines: Sequence[Machine], asking: Machine, *, heartbeat: int = 100, election: int = 1_000
    ) -> None:
        super().__init__(machines, asking)
        self._pace = ("--heartbeat-interval", str(heartbeat), "--election-timeout", str(election))
        self._running: dict[str, Process] = {}

    def start(self, *names: str) -> None:
        """Start these members, all by default, and wait until each answers; a majority must be there for that."""
        for name in names or tuple(self._machines):
            self._running[name] = self._start(self._machines[name])
        for name in names or tuple(self._machines):
            self._running[name].wait_line(READY, START_SECONDS)

    def process(self, name: str) -> Process:
        """A member's process, that was started last."""
        return self._running[name]

    def runs(self, name: str) -> bool:
        """See `Members`."""
        return name in self._running and self._running[name].running

    def kill(self, *names: str) -> None:
        """SIGKILL for these members, all that run by default."""
        for name in names or tuple(self._running):
            if self._running[name].running:
                self._running[name].kill()

    def stop(self, *names: str) -> None:
        """SIGTERM; what etcd ends with is the signal, once it has left its files in order."""
        for name in names or tuple(self._running):
            self._running[name].signal(signal.SIGTERM)
        for name in names or tuple(self._running):
            self._running[name].wait_end()

    def _start(self, machine: Machine) -> Process:
        own, peer = f"http://{machine.register_address}:{CLIENT_PORT}", f"http://{machine.register_address}:{PEER_PORT}"
        peers = ",".join(f"{name}=http://{each.register_address}:{PEER_PORT}" for name, each in self._machines.items())
        words = ["--name", machine.name, "--data-dir", str(machine.disk.path / "etcd"), "--logger", "zap"]
        words += ["--listen-client-urls", own, "--advertise-client-urls", own]
        words += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        words += ["--initial-cluster", peers, "--initial-cluster-token", "machines", *self._pace]
        found = program()
        if found is None:
            raise EtcdError(why_none() or "there is no etcd")
        return machine.start(found, *words, name="etcd", heard=self._hear)

    def _hear(self, line: str) -> None:
        with self._changed:
            self._lines += 1
            self._changed.notify_all()


def encoded(text: str) -> str:
    """As the gateway has bytes."""
    return base64.b64encode(text.encode()).decode()
