"""What can happen to the cables between machines: pulled, cut towards some, one way or both, flapping, slow; and healed.

A *cut* is silent: what is sent is gone, and nobody is told. It is made by a neighbour entry that lasts and names a hardware address that
nobody has: the sender's packets go out, the bridge floods them, and no machine takes them. What is answered to the other side has an
entry of its own, so one way is one way. A machine whose cable is pulled (`down`) sends into nothing as well, to all.

Each machine has two addresses at its one cable, so that brokers can be cut from one another and not from the register, or the reverse.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from tests.fault.machines import namespaces

Plane: TypeAlias = Literal["brokers", "register"]
"""What an address is for. Who is cut without a plane is cut in all."""
PLANES: Final[tuple[Plane, ...]] = ("brokers", "register")
NOBODY: Final = "02:70:6d:ff:ff:ff"
DEVICE: Final = "eth0"
"""The one network device of a machine, beside its loopback."""
LEAST_BURST_BYTES: Final = 16 * 1024
BURSTS_A_SECOND: Final = 50
"""A bucket holds what passes in this part of a second: too little, and the timer's ticks are the limit."""
LATENCY: Final = "400ms"
"""What waits longer at a limit is dropped, as in a router's buffer."""
FLAP_SECONDS: Final = 1.0


class Cut(NamedTuple):
    """Nothing goes from the one machine to the other's address of this plane."""

    source: str
    target: str
    plane: Plane


@dataclass(frozen=True, slots=True)
class End:
    """Where a machine's cable ends.

    Attributes:
        namespace: the machine's.
        addresses: the machine's, by plane.
        port: the device at the other end, in the hub.
    """

    namespace: str
    addresses: Mapping[Plane, str]
    port: str


class Links:
    """The cables of all machines; each change takes effect before its call returns.

    Attributes:
        cuts: where nothing goes at present.
        pulled: the machines whose cable is pulled.
        limited: those whose cable is slow.
    """

    def __init__(self, hub: str, ends: Mapping[str, End]) -> None:
        self._hub = hub
        self._ends = ends
        self._changing = threading.Lock()
        self.cuts: set[Cut] = set()
        self.pulled: set[str] = set()
        self.limited: set[str] = set()

    def down(self, machine: str) -> None:
        """Pull its cable at the hub: it sees that it has no carrier; the others just do not hear it."""
        with self._changing:
            namespaces.run("ip", "-n", self._hub, "link", "set", "dev", self._ends[machine].port, "down")
            self.pulled.add(machine)

    def up(self, machine: str) -> None:
        """Put its cable back."""
        with self._changing:
            namespaces.run("ip", "-n", self._hub, "link", "set", "dev", self._ends[machine].port, "up")
            self.pulled.discard(machine)

    def cut_one_way(self, source: str, target: str, plane: Plane | None = None) -> None:
        """What ``source`` sends to ``target`` is lost; what comes back is not."""
        if source == target:
            raise ValueError(f"{source} cannot be cut from itself")
        with self._changing:
            for each in (plane,) if plane is not None else PLANES:
                address = self._ends[target].addresses[each]
                self._neighbour(source, "replace", address, "lladdr", NOBODY, "nud", "permanent")
                self.cuts.add(Cut(source, target, each))

    def cut(self, one: str, other: str, plane: Plane | None = None) -> None:
        """Nothing goes between the two, in either direction."""
        self.cut_one_way(one, other, plane)
        self.cut_one_way(other, one, plane)

    def isolate(self, machine: str, others: Iterable[str] | None = None, plane: Plane | None = None) -> None:
        """Cut a machine from ``others``, all by default."""
        for other in self._ends if others is None else others:
            if other != machine:
                self.cut(machine, other, plane)

    def part(self, one: Iterable[str], other: Iterable[str], plane: Plane | None = None) -> None:
        """Cut every machine of the one side from every one of the other."""
        other = list(other)
        for machine in one:
            self.isolate(machine, other, plane)

    def join(self, one: str, other: str) -> None:
        """Mend what is cut between the two."""
        self._mend([cut for cut in sorted(self.cuts) if {cut.source, cut.target} == {one, other}])

    def limit(self, machine: str, bits_a_second: int) -> None:
        """No more than so much out of a machine, and no more into it."""
        burst = max(bits_a_second // 8 // BURSTS_A_SECOND, LEAST_BURST_BYTES)
        words = ("root", "tbf", "rate", f"{bits_a_second}bit", "burst", str(burst), "latency", LATENCY)
        with self._changing:
            for namespace, device in self._both(machine):
                namespaces.run("tc", "-n", namespace, "qdisc", "replace", "dev", device, *words)
            self.limited.add(machine)

    def unlimit(self, machine: str) -> None:
        """As fast as it goes."""
        with self._changing:
            for namespace, device in self._both(machine):
                with suppress(namespaces.CommandFailedError):  # it had none
                    namespaces.run("tc", "-n", namespace, "qdisc", "del", "dev", device, "root")
            self.limited.discard(machine)

    @contextmanager
    def flapping(self, machine: str, seconds: float = FLAP_SECONDS) -> Iterator[Flaps]:
        """While the context lasts its cable is pulled and put back in turn, for ``seconds`` each; at the end it is back."""
        flaps = Flaps(self, machine, seconds)
        flaps.start()
        try:
            yield flaps
        finally:
            flaps.end()

    def heal(self) -> None:
        """Everything is as at the beginning."""
        for machine in sorted(self.pulled):
            self.up(machine)
        self._mend(sorted(self.cuts))
        for machine in sorted(self.limited):
            self.unlimit(machine)

    def _both(self, machine: str) -> list[tuple[str, str]]:
        end = self._ends[machine]
        return [(end.namespace, DEVICE), (self._hub, end.port)]

    def _neighbour(self, machine: str, what: str, address: str, *words: str) -> None:
        namespaces.run("ip", "-n", self._ends[machine].namespace, "neigh", what, address, *words, "dev", DEVICE)

    def _mend(self, cuts: Iterable[Cut]) -> None:
        with self._changing:
            for cut in cuts:
                self._neighbour(cut.source, "del", self._ends[cut.target].addresses[cut.plane])
                self.cuts.discard(cut)


class Flaps(threading.Thread):
    """Pulls a cable and puts it back, until it is told to end.

    Attributes:
        pulls: how often it was pulled.
    """

    def __init__(self, links: Links, machine: str, seconds: float) -> None:
        super().__init__(name=f"flaps {machine}", daemon=True)
        self._links = links
        self._machine = machine
        self._seconds = seconds
        self._over = threading.Event()
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self.pulls = 0

    def run(self) -> None:
        try:
            while not self._over.is_set():
                self._links.down(self._machine)
                with self._changed:
                    self.pulls += 1
                    self._changed.notify_all()
                self._over.wait(self._seconds)
                self._links.up(self._machine)
                self._over.wait(self._seconds)
        except Exception as error:  # noqa: BLE001 - told to who ends it
            self._failure = error

    def wait_pulls(self, count: int, seconds: float) -> None:
        """Wait until the cable was pulled so often.

        Raises:
            TimeoutError: it was not, within this time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self.pulls >= count, seconds):
                raise TimeoutError(f"{self.pulls} pulls within {seconds:.0f} s, not {count}")

    def end(self) -> None:
        """Put the cable back, and end."""
        self._over.set()
        self.join()
        self._links.up(self._machine)
        if self._failure is not None:
            raise self._failure
