"""What is done to a cable happens to it, to that one only, in that direction only, silently, and is undone by healing."""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fault.machines import namespaces
from tests.fault.machines.links import FLAP_SECONDS, Plane
from tests.fault.machines.machines import Machine, Machines
from tests.fault.machines.sniffer import RST, SYN, Sniffer

DEADLINE = 10.0
AGAIN_SECONDS = 0.05
"""Between two datagrams of `reach`: after a cable is put back the kernel needs a moment."""
NUMBER = 7_000
CLOSED = 7_001
BETWEEN = [("a", "b"), ("b", "a"), ("a", "clients"), ("clients", "a"), ("c", "a"), ("c", "clients")]


class Wire:
    """A datagram socket on each machine: what is sent first arrives first, or not at all."""

    def __init__(self, addresses: dict[str, str], machines: Machines) -> None:
        self._addresses = addresses
        self._sockets = {name: machine.open_socket(socket.SOCK_DGRAM) for name, machine in machines.items()}
        for name, one in self._sockets.items():
            one.bind((addresses[name], NUMBER))
            one.settimeout(DEADLINE)

    def send(self, source: str, target: str, text: str) -> None:
        self._sockets[source].sendto(f"{source} {text}".encode(), (self._addresses[target], NUMBER))

    def receive(self, target: str) -> str:
        return self._sockets[target].recv(100).decode()

    def assert_crosses(self, source: str, target: str, text: str) -> None:
        """Sent, and the next to arrive; what was sent before was lost."""
        self.send(source, target, text)
        assert self.receive(target) == f"{source} {text}"

    def reach(self, source: str, target: str) -> None:
        """Wait until something arrives, however often it takes; whatever else has come is forgotten."""
        waiting = select.poll()
        waiting.register(self._sockets[target], select.POLLIN)
        end = time.monotonic() + DEADLINE
        while True:
            self.send(source, target, "reach")
            if waiting.poll(AGAIN_SECONDS * 1000):
                break
            assert time.monotonic() < end, f"nothing of {source} reaches {target}"
        self.send(source, target, "last")
        while self.receive(target) != f"{source} last":
            pass

    def close(self) -> None:
        for one in self._sockets.values():
            one.close()


@pytest.fixture
def wire(machines: Machines) -> Iterator[Wire]:
    """Between the brokers' addresses."""
    yield from wired({name: machine.address for name, machine in machines.items()}, machines)


@pytest.fixture
def register_wire(machines: Machines) -> Iterator[Wire]:
    """Between those of the register."""
    yield from wired({name: machine.register_address for name, machine in machines.items()}, machines)


def wired(addresses: dict[str, str], machines: Machines) -> Iterator[Wire]:
    made = Wire(addresses, machines)
    for source, target in BETWEEN:
        made.reach(source, target)
    yield made
    made.close()


@contextmanager
def connection(one: Machine, other: Machine) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A TCP connection's two ends."""
    with other.open_socket() as listener:
        listener.bind((other.address, NUMBER))
        listener.listen()
        listener.settimeout(DEADLINE)
        with one.connect(other.address, NUMBER, DEADLINE) as ours:
            theirs, _ = listener.accept()
            with theirs:
                theirs.settimeout(DEADLINE)
                yield ours, theirs


def test_a_cut_of_one_way_loses_what_goes_that_way_and_nothing_else(machines: Machines, wire: Wire) -> None:
    machines.links.cut_one_way("a", "b")
    wire.send("a", "b", "lost")
    wire.assert_crosses("b", "a", "the other way")
    wire.assert_crosses("a", "clients", "to another")
    wire.assert_crosses("clients", "b", "from another")
    machines.links.heal()
    assert machines.links.cuts == set()
    wire.assert_crosses("a", "b", "after")


def test_a_cut_of_both_ways_loses_both_and_a_machine_that_is_cut_from_some_reaches_the_others(
    machines: Machines, wire: Wire
) -> None:
    machines.links.isolate("a", ["b", "c"])
    for source, target in (("a", "b"), ("b", "a"), ("a", "c"), ("c", "a")):
        wire.send(source, target, "lost")
    wire.assert_crosses("a", "clients", "allowed")
    wire.assert_crosses("clients", "a", "allowed")
    wire.assert_crosses("b", "c", "among themselves")
    machines.links.join("a", "b")
    wire.assert_crosses("a", "b", "after")
    wire.assert_crosses("b", "a", "after")
    wire.send("a", "c", "lost")
    machines.links.heal()
    wire.assert_crosses("a", "c", "after all")
    wire.assert_crosses("c", "a", "after all")


def test_parts_of_a_network_reach_none_of_the_other_part(machines: Machines, wire: Wire) -> None:
    machines.links.part(["a"], ["b", "clients"])
    assert {(cut.source, cut.target) for cut in machines.links.cuts} == {
        ("a", "b"),
        ("b", "a"),
        ("a", "clients"),
        ("clients", "a"),
    }
    wire.send("a", "clients", "lost")
    wire.send("clients", "a", "lost")
    wire.assert_crosses("c", "a", "between")
    wire.assert_crosses("c", "clients", "between")
    machines.links.heal()
    wire.assert_crosses("a", "clients", "after")
    wire.assert_crosses("clients", "a", "after")


def test_brokers_are_cut_from_one_another_and_not_from_the_register_and_the_reverse(
    machines: Machines, wire: Wire, register_wire: Wire
) -> None:
    cases: list[tuple[Plane, Wire, Wire]] = [("brokers", wire, register_wire), ("register", register_wire, wire)]
    for plane, cut, whole in cases:
        machines.links.isolate("a", ["b", "c"], plane)
        cut.send("a", "b", "lost")
        cut.send("b", "a", "lost")
        whole.assert_crosses("a", "b", "in the other plane")
        whole.assert_crosses("b", "a", "in the other plane")
        cut.assert_crosses("a", "clients", "to another")
        machines.links.heal()
        cut.assert_crosses("a", "b", "after")
        cut.assert_crosses("b", "a", "after")


def test_a_machine_is_not_cut_from_itself(machines: Machines) -> None:
    with pytest.raises(ValueError, match="cannot be cut from itself"):
        machines.links.cut("a", "a")


def test_a_cut_is_silent_and_a_connection_outlives_it(machines: Machines) -> None:
    with connection(machines["a"], machines["b"]) as (ours, theirs), Sniffer(machines, "a") as sniffer:
        ours.sendall(b"before")
        assert theirs.recv(100) == b"before"
        machines.links.cut("a", "b")
        ours.sendall(b"during")
        # The kernel sends it again and again: whoever would answer with a reset has had time to.
        sent = sniffer.wait(
            lambda segments: sum(one.size == 6 and one.source == machines["a"].address for one in segments) >= 4,
            DEADLINE,
        )
        assert not any(one.flags & RST for one in sent)
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        machines.links.heal()
        assert theirs.recv(100) == b"during"
        theirs.sendall(b"back")
        ours.settimeout(DEADLINE)
        assert ours.recv(100) == b"back"


def test_a_connection_to_a_port_that_is_closed_is_refused_and_with_a_cut_it_is_not(machines: Machines) -> None:
    address = (machines["b"].address, CLOSED)
    with pytest.raises(ConnectionRefusedError):
        machines["a"].connect(*address, DEADLINE)
    machines.links.cut("a", "b")
    with machines["a"].open_socket() as ours, Sniffer(machines, "a") as sniffer:
        ours.setblocking(False)
        assert ours.connect_ex(address) == errno.EINPROGRESS
        sent = sniffer.wait(lambda segments: sum(bool(one.flags & SYN) for one in segments) >= 2, DEADLINE)
        assert {one.flags for one in sent} == {SYN}
        machines.links.heal()
        waiting = select.poll()
        waiting.register(ours, select.POLLOUT)
        assert waiting.poll(DEADLINE * 1000)
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED


def test_a_pulled_cable_loses_everything_of_one_machine_and_is_put_back(machines: Machines, wire: Wire) -> None:
    with connection(machines["a"], machines["b"]) as (ours, theirs):
        machines.links.down("b")
        wire.send("a", "b", "lost")
        ours.sendall(b"late")
        wire.assert_crosses("a", "clients", "others")
        wire.assert_crosses("c", "a", "others")
        machines.links.heal()
        assert machines.links.pulled == set()
        assert theirs.recv(100) == b"late"
        wire.reach("a", "b")


def test_a_cable_that_flaps_is_back_at_the_end(machines: Machines, wire: Wire) -> None:
    with connection(machines["a"], machines["b"]) as (ours, theirs):
        with machines.links.flapping("b", FLAP_SECONDS / 10) as flaps:
            flaps.wait_pulls(3, DEADLINE)
            ours.sendall(b"late or not")
        assert machines.links.pulled == set()
        assert theirs.recv(100) == b"late or not"
        wire.reach("a", "b")


def test_a_cable_with_a_limit_takes_as_long_as_it_says(machines: Machines) -> None:
    bits, size = 8_000_000, 500_000
    with connection(machines["a"], machines["b"]) as (ours, theirs):
        machines.links.limit("b", bits)
        assert through(ours, theirs, size) > 0.5 * size * 8 / bits
        assert through(theirs, ours, size) > 0.5 * size * 8 / bits
        kinds = [
            namespaces.run("tc", "-n", where, "qdisc", "show") for where in (machines["b"].namespace, machines.hub)
        ]
        assert all("tbf" in kind for kind in kinds)
        machines.links.heal()
        kinds = [
            namespaces.run("tc", "-n", where, "qdisc", "show") for where in (machines["b"].namespace, machines.hub)
        ]
        assert not any("tbf" in kind for kind in kinds)
        assert machines.links.limited == set()


def through(source: socket.socket, target: socket.socket, size: int) -> float:
    """Seconds in which so many bytes go through a connection; what the kernel takes first is less than the whole."""
    source.settimeout(DEADLINE)
    target.settimeout(DEADLINE)
    start, left = time.monotonic(), size
    source.sendall(bytes(size))
    while left:
        left -= len(target.recv(left))
    return time.monotonic() - start
