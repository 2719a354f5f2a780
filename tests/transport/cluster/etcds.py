"""Real etcds on loopback for tests, as the product's settings have them; where there is no etcd the test is skipped, and says why."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import queue
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.free_ports import free_ports
from tests.standing_still import stand_still
from transport.cluster.addresses import EtcdAddress, OwnEtcd, parse_cluster
from transport.cluster.etcd_child import tied
from transport.cluster.etcd_settings import SETTINGS_FILE, settings_of, write_settings
from transport.wire.address import Address

ENSURE_ETCD = Path(__file__).resolve().parents[3] / "scripts" / "ensure-etcd"
SECONDS = 30.0
CHANGE_SECONDS = 3.0
"""For one try at a change of members."""
READY = "serving client traffic"


@functools.cache
def found() -> tuple[str, str]:
    """Where etcd is, or why it is nowhere."""
    look = subprocess.run(
        [str(ENSURE_ETCD), "--no-install"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    return look.stdout.strip(), look.stderr.strip().removeprefix("penstock: ")


def program() -> str:
    """Where etcd is; skips the test where it is nowhere."""
    where, why = found()
    if not where:
        pytest.skip(why or "ensure-etcd failed and did not say why")
    return where


def free_pairs(count: int) -> list[int]:
    """Ports of loopback that are free, and the one behind each of them too."""
    ports: list[int] = []
    while len(ports) < count:
        port, behind = free_ports(2)
        if behind == port + 1:
            ports.append(port)
    return ports


def machines(names: str = "abc", query: str = "") -> dict[str, OwnEtcd]:
    """A list of machines that are all this one, as each of them has it."""
    text = ",".join(f"{name}=127.0.0.1:{port}" for name, port in zip(names, free_pairs(len(names)), strict=True))
    parsed = {name: parse_cluster(f"{text}/tests{query}", name) for name in names}
    return {name: own for name, own in parsed.items() if isinstance(own, OwnEtcd)}


class RunningEtcd:
    """One etcd as a process."""

    def __init__(self, own: OwnEtcd, folder: Path) -> None:
        self.own = own
        self._program = program()
        self._folder = folder
        write_settings(folder, settings_of(own, folder, insecure=False))
        self._stopped = False
        self.start()

    def start(self) -> None:
        """Start it; it is ready when others are too."""
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.process = subprocess.Popen(
            tied(self._program, "--config-file", str(self._folder / SETTINGS_FILE)),
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._reader = threading.Thread(target=self._read, args=(self.process, self._lines), daemon=True)
        self._reader.start()

    @staticmethod
    def _read(process: subprocess.Popen[bytes], lines: queue.Queue[str | None]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line.decode(errors="replace"))
        lines.put(None)

    def wait_until_ready(self) -> None:
        """Until it is one of a majority."""
        said: list[str] = []
        while (line := self._lines.get(timeout=SECONDS)) is not None:
            said.append(line)
            if READY in line:
                return
        raise AssertionError("etcd has ended:\n" + "".join(said[-20:]))

    def stop(self) -> None:
        """Have it stand still."""
        stand_still(self.process.pid)
        self._stopped = True

    def go_on(self) -> None:
        """Have it go on."""
        self.process.send_signal(signal.SIGCONT)
        self._stopped = False

    def kill(self) -> None:
        """End it as a loss of power does, but for the disk."""
        self.process.kill()
        self.process.wait(SECONDS)
        self._reader.join(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Etcds:
    """A cluster of them."""

    def __init__(self, folder: Path, names: str = "abc", query: str = "") -> None:
        self.machines = machines(names, query)
        self.by_name: dict[str, RunningEtcd] = {}
        try:
            for name, own in self.machines.items():
                self.by_name[name] = RunningEtcd(own, folder / name)
            for each in self.by_name.values():
                each.wait_until_ready()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all."""
        for each in self.by_name.values():
            if each.process.poll() is None:
                each.kill()

    def address(self, cluster: str, names: Sequence[str] | None = None) -> EtcdAddress:
        """Where the register of a cluster is, asked in this order."""
        order = self.machines if names is None else names
        return EtcdAddress(cluster, tuple(self.machines[name].own.clients for name in order))

    def leader(self) -> str:
        """Who leads them, by what those say who can be asked."""
        for name in self.by_name:
            said = post(self.machines[name].own.clients, "/v3/maintenance/status", {})
            if said["header"]["member_id"] == said["leader"]:
                return name
        raise AssertionError("nobody leads")


def post(
    endpoint: Address, path: str, fields: dict[str, Any], token: str | None = None, seconds: float = SECONDS
) -> dict[str, Any]:
    """Ask an etcd, without any of our own code; it has so many seconds."""
    headers = {"Content-Type": "application/json"} | ({} if token is None else {"Authorization": token})
    request = urllib.request.Request(f"http://{endpoint}{path}", json.dumps(fields).encode(), headers)
    with urllib.request.urlopen(request, timeout=seconds) as answer:
        said: dict[str, Any] = json.load(answer)
        return said


def put(endpoint: Address, key: str, value: bytes) -> None:
    """Write past the register."""
    fields = {"key": base64.b64encode(key.encode()).decode(), "value": base64.b64encode(value).decode()}
    post(endpoint, "/v3/kv/put", fields)


async def forgotten(endpoint: Address, peers: str) -> None:
    """Have the etcds remove the member with this URL."""
    await _changed(endpoint, peers, lambda found: ("remove", {"ID": found}) if found else None)


async def awaited(endpoint: Address, peers: str) -> None:
    """Have the etcds await a member with this URL."""
    await _changed(endpoint, peers, lambda found: None if found else ("add", {"peerURLs": [peers]}))


async def _changed(
    endpoint: Address, peers: str, step: Callable[[str | None], tuple[str, dict[str, Any]] | None]
) -> None:
    """Ask for a change until it is there: they refuse it until all have been well for some seconds.

    One that is on its way as their leader goes is never answered: it is given up, and may have been done all the same.
    """
    async with asyncio.timeout(2 * SECONDS):
        while True:
            try:
                members = await asyncio.to_thread(post, endpoint, "/v3/cluster/member/list", {}, seconds=CHANGE_SECONDS)
                found = next((each["ID"] for each in members["members"] if each["peerURLs"] == [peers]), None)
                if (todo := step(found)) is None:
                    return
                path = f"/v3/cluster/member/{todo[0]}"
                await asyncio.to_thread(post, endpoint, path, todo[1], seconds=CHANGE_SECONDS)
            except urllib.error.HTTPError as error:
                error.close()
            except TimeoutError:
                pass
            over = asyncio.Event()
            asyncio.get_running_loop().call_later(0.2, over.set)
            await over.wait()
