"""Three brokers that act as one, each a process, and their register; and the bare loop that ships and syncs the same blocks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from benchmarks._disk import buffers_of
from benchmarks._payloads import batches, make_payloads
from benchmarks._processes import ROOT, BenchmarkError, Facts, Worker, cpu_seconds
from benchmarks._worker import Parent
from transport import Administration

NODES = ("a", "b", "c")
START_SECONDS = 60.0
END_SECONDS = 60.0
LOOK_SECONDS = 0.1
BARE_TIMEOUT = 300.0
BLOCK_WINDOW = 64
"""Blocks that the bare loop has under way: about what the cluster's leader ships ahead of the answers."""
LENGTH_BYTES = 8


class ClusterProcesses:
    """A register and three brokers; a context manager that ends them.

    Args:
        folder: where everything of them lies; it is made.
        mode: of the cluster.
        options: what each broker is given beside.

    Attributes:
        send_address: where senders reach the leader that it began with.
        receive_address: where receivers do.
        leader: that one's name.
    """

    def __init__(self, folder: Path, mode: str = "majority", options: Sequence[str] = ()) -> None:
        self._folder = folder
        self._mode = mode
        self._options = options
        self._stack = contextlib.ExitStack()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, tuple[str, ...]] = {}
        self._places: dict[str, tuple[str, str]] = {}
        self.send_address = self.receive_address = self.leader = ""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._stack = stack
            self._folder.mkdir()
            secret = self._folder / "secret"
            secret.write_text(secrets.token_hex(32))
            secret.chmod(0o600)
            ports = _free_ports(2 + 3 * len(NODES))
            register = self._start_etcd(*ports[:2])
            places = {name: ports[2 + 3 * number : 5 + 3 * number] for number, name in enumerate(NODES)}
            members = ",".join(f"{name}=127.0.0.1:{link}" for name, (_, _, link) in places.items())
            for name, (send, receive, link) in places.items():
                self._places[name] = (f"127.0.0.1:{send}", f"127.0.0.1:{receive}")
                self._commands[name] = (
                    *(sys.executable, "-m", "transport.cli", "broker"),
                    *("--cluster", f"{register}/benchmark", "--node", name),
                    *("--cluster-members", members, "--cluster-address", f"127.0.0.1:{link}"),
                    *("--cluster-secret-file", str(secret), "--cluster-mode", self._mode, "--http", "none"),
                    *("--send-address", self._places[name][0], "--receive-address", self._places[name][1]),
                    *("--data", str(self.directory(name)), "--disk-floor", "0", *self._options),
                )
                self.start(name)
            self.leader = self._find_leader()
            self.send_address, self.receive_address = self._places[self.leader]
            stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    @property
    def pid(self) -> int:
        """The process of the leader that it began with."""
        return self.pid_of(self.leader)

    @property
    def followers(self) -> list[str]:
        """The names of the others."""
        return [name for name in NODES if name != self.leader]

    @property
    def send_addresses(self) -> str:
        """Where senders and administration reach all of them."""
        return ",".join(send for send, _ in self._places.values())

    @property
    def receive_addresses(self) -> str:
        """Where receivers do."""
        return ",".join(receive for _, receive in self._places.values())

    def pid_of(self, name: str) -> int:
        """A broker's process."""
        return self._processes[name].pid

    def directory(self, name: str) -> Path:
        """Where a broker's data lies."""
        return self._folder / name

    def said(self, name: str) -> str:
        """A broker's log, of all of its starts."""
        return (self._folder / f"{name}.log").read_text("utf-8", "replace")

    def follower_cpu(self) -> float:
        """Processor time of a follower, in the mean."""
        return sum(cpu_seconds(self.pid_of(name)) for name in self.followers) / len(self.followers)

    def start(self, name: str) -> None:
        """Start a broker that does not run, over the directory that there is, or a new one."""
        self._begin(name, *self._commands[name])

    def end(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a broker a signal by which it ends, and wait until it has."""
        process = self._processes[name]
        process.send_signal(number)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            raise BenchmarkError(f"the broker {name} has not ended within {END_SECONDS:g} s") from None

    def _start_etcd(self, clients: int, peers: int) -> str:
        found = subprocess.run(
            [ROOT / "scripts" / "ensure-etcd", "--no-install"], capture_output=True, text=True, check=False
        )
        if found.returncode:
            raise BenchmarkError(found.stderr.strip())
        urls = [f"http://127.0.0.1:{port}" for port in (clients, peers)]
        self._begin(
            "etcd",
            *(found.stdout.strip(), "--name", "etcd", "--data-dir", str(self._folder / "etcd")),
            *("--listen-client-urls", urls[0], "--advertise-client-urls", urls[0]),
            *("--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1]),
            *("--initial-cluster", f"etcd={urls[1]}"),
        )
        return f"etcd://127.0.0.1:{clients}"

    def _begin(self, name: str, *words: str) -> None:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT, env=environment)
        self._processes[name] = process
        self._stack.callback(self._stop)

    def _stop(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()

    def _find_leader(self) -> str:
        """Who leads, once somebody does."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if any("this node leads its cluster" in self.said(name) for name in NODES):
                return leading(self.send_addresses)
            for name in NODES:
                if self._processes[name].poll() is not None:
                    raise BenchmarkError(self.said(name)[-2000:])
            time.sleep(LOOK_SECONDS)
        raise BenchmarkError(f"no node leads after {START_SECONDS:g} s")


def leading(addresses: str) -> str:
    """The name of the node that leads now; whoever leads first may have lost it to one that came to lead at nearly the same time."""

    async def ask() -> Facts:
        async with Administration(addresses, connect_timeout=START_SECONDS) as administration:
            return await administration.cluster()

    return str(asyncio.run(ask())["node"])


def ship_bare(folder: Path, messages: int, size: int, batch: int) -> dict[str, Any]:
    """The bare loop: one process ships blocks to two others, all three append and sync; a block is done when two of the three have it."""
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        stores = [
            stack.enter_context(Worker("_cluster:store_blocks", path=str(folder / str(number)))) for number in (1, 2)
        ]
        ports = [store.hear()["port"] for store in stores]
        leader = stack.enter_context(
            Worker(
                "_cluster:ship_blocks", path=str(folder / "0"), ports=ports, messages=messages, size=size, batch=batch
            )
        )
        leader.hear()
        leader.go()
        done = leader.hear(BARE_TIMEOUT)
    return {"kind": "bare", "messages_per_s": messages / done["seconds"], **done}


# Roles


def store_blocks(parent: Parent, path: str) -> None:
    """Append what comes to a file, sync what has come, and answer how many bytes that are, until the other side ends."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
    with socket.create_server(("127.0.0.1", 0)) as server:
        parent.say(port=server.getsockname()[1])
        connection, _ = server.accept()
    buffer, stored = bytearray(1 << 20), 0
    # The other side does not wait for the last answers of the slower of the two.
    with contextlib.suppress(ConnectionError), connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while count := connection.recv_into(buffer):
            os.write(descriptor, memoryview(buffer)[:count])
            os.fdatasync(descriptor)
            stored += count
            connection.sendall(stored.to_bytes(LENGTH_BYTES, "little"))
    os.close(descriptor)


def ship_blocks(parent: Parent, path: str, ports: list[int], messages: int, size: int, batch: int) -> None:
    """Ship the blocks that carry ``messages`` payloads, and append and sync them here, `BLOCK_WINDOW` of them under way."""
    pool = [b"".join(buffers_of(one)) for one in batches(make_payloads(messages, size), batch * 10, batch)]
    blocks = -(-messages // batch)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
    peers = [socket.create_connection(("127.0.0.1", port)) for port in ports]
    for peer in peers:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    parent.say(ready=True)
    parent.wait()
    started = time.monotonic()
    syncs = _ship(descriptor, peers, pool, blocks)
    seconds = time.monotonic() - started
    for peer in peers:
        peer.close()
    os.close(descriptor)
    parent.say(seconds=seconds, blocks=blocks, syncs=syncs)


def _ship(descriptor: int, peers: list[socket.socket], pool: list[bytes], blocks: int) -> int:
    ends = [0]
    for number in range(blocks):
        ends.append(ends[-1] + len(pool[number % len(pool)]))
    stored = [0] * len(peers)
    written = done = syncs = 0
    with selectors.DefaultSelector() as selector:
        for number, peer in enumerate(peers):
            selector.register(peer, selectors.EVENT_READ, number)
        while done < blocks:
            stop = min(blocks, done + BLOCK_WINDOW)
            new = [pool[number % len(pool)] for number in range(written, stop)]
            for peer in peers:
                for block in new:
                    peer.sendall(block)
            if new:
                os.writev(descriptor, new)
                os.fdatasync(descriptor)
                syncs += 1
                written = stop
            for key, _ in selector.select(None if written - done >= BLOCK_WINDOW or written == blocks else 0):
                data = peers[key.data].recv(1 << 16)
                if not data:
                    raise BenchmarkError("a store has ended")
                stored[key.data] = int.from_bytes(data[-LENGTH_BYTES:], "little")
            # Two of three: this one and the quicker of the others.
            while done < written and ends[done + 1] <= max(stored):
                done += 1
    return syncs


def _free_ports(count: int) -> list[int]:
    """Ports that nobody has now."""
    with contextlib.ExitStack() as stack:
        return [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(count)]
