"""Time, the network and the register of a simulated cluster. Everything that happens is an event with a time, in one heap."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from actors.replication.document import ClusterDocument

RECONNECT_SECONDS = 0.25
"""A connection that is not there is tried this often."""


class World:
    """The events of a run.

    Attributes:
        now: the time.
        random: where everything that is not said comes from.
        events: what happened, for people; only if ``verbose``.
    """

    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.now = 0.0
        self.random = Random(seed)
        self.events: list[str] = []
        self.verbose = verbose
        self._heap: list[tuple[float, int, Callable[..., Any], tuple[Any, ...]]] = []
        self._count = 0

    def at(self, time: float, function: Callable[..., Any], *arguments: Any) -> None:
        self._count += 1
        heapq.heappush(self._heap, (max(self.now, time), self._count, function, arguments))

    def after(self, seconds: float, function: Callable[..., Any], *arguments: Any) -> None:
        self._count += 1
        heapq.heappush(self._heap, (self.now + seconds, self._count, function, arguments))

    def run(self, until: float) -> None:
        heap = self._heap
        pop = heapq.heappop
        while heap and heap[0][0] <= until:
            self.now, _, function, arguments = pop(heap)
            function(*arguments)
        self.now = until

    def note(self, text: str) -> None:
        if self.verbose:
            self.events.append(f"{self.now:9.4f} {text}")


class Link:
    """A connection between two hosts: each direction keeps its order, as long as it lives."""

    __slots__ = ("a", "alive", "b", "last", "network", "sent", "waiting")

    def __init__(self, network: Network, a: Any, b: Any) -> None:
        self.network = network
        self.a, self.b = a, b
        self.alive = True
        self.last = {a.name: 0.0, b.name: 0.0}  # when the last message arrives at each
        self.sent: dict[str, deque[tuple[str, Any]]] = {
            a.name: deque(),
            b.name: deque(),
        }  # what has not arrived, in order
        self.waiting = {a.name: 0, b.name: 0}  # how many of them cannot get through to it

    def send(self, sender: Any, message: Any) -> None:
        to = self.b if sender is self.a else self.a
        if not self.alive:
            return
        self.sent[to.name].append((sender.directory, message))
        if self._stuck(sender, to):
            self.waiting[to.name] += 1
            return
        self._deliver_later(sender, to)

    def _stuck(self, sender: Any, to: Any) -> bool:
        return self.waiting[to.name] > 0 or (sender.name, to.name) in self.network.blocked

    def _deliver_later(self, sender: Any, to: Any) -> None:
        world = self.network.world
        time = max(self.last[to.name], world.now + self.network.latency())
        self.last[to.name] = time
        world.at(time, self._arrive, sender, to)

    def _arrive(self, sender: Any, to: Any) -> None:
        """The first of those that have not arrived does."""
        if self._stuck(sender, to):
            self.waiting[to.name] += 1
            return
        directory, message = self.sent[to.name].popleft()
        # What was under way when a connection ended is lost, or is read all the same, if its reader lives.
        if self.alive or self.network.world.random.random() < self.network.late:
            to.receive(self, directory, message)

    def unblocked(self, sender: Any, to: Any) -> None:
        waiting, self.waiting[to.name] = self.waiting[to.name], 0
        for _ in range(waiting):
            self._deliver_later(sender, to)

    def end(self, seconds: float = 1.0) -> None:
        """The connection ends; each side notices, when it can be told, or after a while."""
        if not self.alive:
            return
        self.alive = False
        network = self.network
        network.links.pop(frozenset((self.a.name, self.b.name)), None)
        for one, other in ((self.a, self.b), (self.b, self.a)):
            blocked = (other.name, one.name) in network.blocked
            network.world.after(
                network.latency() + (seconds if blocked else 0.0), one.link_ended, self, other.directory
            )


class Network:
    """Who can reach whom.

    Attributes:
        blocked: pairs (from, to) that nothing gets through.
        links: the connections there are.
        late: the chance that a message of a connection that has ended is read all the same.
    """

    def __init__(self, world: World, delay: float, spread: float, late: float) -> None:
        self.world = world
        self.hosts: list[Any] = []
        self.blocked: set[tuple[str, str]] = set()
        self.links: dict[frozenset[str], Link] = {}
        self.late = late
        self._delay = delay
        self._spread = spread
        self._dialled: set[frozenset[str]] = set()

    def latency(self) -> float:
        return self._delay + self.world.random.random() * self._spread

    def block(self, pairs: set[tuple[str, str]], patience: float) -> None:
        """Nothing gets through from now on; a connection that something waits on for so long ends."""
        self.blocked |= pairs
        for one, other in sorted(pairs):
            link = self.links.get(frozenset((one, other)))
            if link is not None:
                self.world.after(patience, self._impatient, link)

    def _impatient(self, link: Link) -> None:
        pair = (link.a.name, link.b.name)
        if link.alive and (pair in self.blocked or pair[::-1] in self.blocked):
            link.end(0.0)  # both have waited for so long

    def unblock(self, pairs: set[tuple[str, str]] | None = None) -> None:
        pairs = set(self.blocked) if pairs is None else pairs & self.blocked
        self.blocked -= pairs
        for one, other in sorted(pairs):
            link = self.links.get(frozenset((one, other)))
            if link is not None:
                link.unblocked(*((link.a, link.b) if link.a.name == one else (link.b, link.a)))

    def host_down(self, host: Any) -> None:
        for other in self.hosts:
            link = self.links.get(frozenset((host.name, other.name)))
            if link is not None:
                link.end()

    def dial(self, host: Any) -> None:
        """A host that is up connects to all others, again and again."""
        for other in self.hosts:
            if other is not host:
                self._dial(host, other)

    def _dial(self, host: Any, other: Any) -> None:
        pair = frozenset((host.name, other.name))
        if pair not in self._dialled:
            self._dialled.add(pair)
            self.world.after(self.latency(), self._dialled_at, host, other)

    def _dialled_at(self, host: Any, other: Any) -> None:
        pair = frozenset((host.name, other.name))
        self._dialled.discard(pair)
        if not (host.up or other.up):
            return
        if pair in self.links:
            return
        open_ = (host.name, other.name) not in self.blocked and (other.name, host.name) not in self.blocked
        if open_ and host.up and other.up and not (host.paused or other.paused):
            link = self.links[pair] = Link(self, host, other)
            host.link_made(link, other.directory)
            other.link_made(link, host.directory)
            return
        if open_:
            for one, there in ((host, other), (other, host)):
                if one.up and not there.up:
                    one.refused(there.directory)
        self._dialled.add(pair)
        self.world.after(RECONNECT_SECONDS, self._dialled_at, host, other)


class SimulatedRegister:
    """The document: two operations, slow, sometimes late, sometimes without an answer.

    Attributes:
        document: as it is.
        version: of it.
        down: whether nobody can ask it.
        cut_off: names of the hosts that cannot.
        lossy: the chance that the answer to an operation is lost.
        late: the chance that a swap is done seconds after its sender has given it up.
        slow: the chance that an answer takes nearly as long as it may.
    """

    DEADLINE = 2.0

    def __init__(self, world: World, document: ClusterDocument) -> None:
        self.world = world
        self.document = document
        self.version = 1
        self.down = False
        self.cut_off: set[str] = set()
        self.lossy = 0.0
        self.late = 0.0
        self.slow = 0.0
        self.history: list[tuple[float, ClusterDocument]] = [(0.0, document)]
        self.watchers: list[Callable[[], None]] = []

    def read(self, host: str, answer: Callable[..., None]) -> None:
        self._ask(host, answer, self._read)

    def swap(self, host: str, version: int, document: ClusterDocument, answer: Callable[..., None]) -> None:
        self._ask(host, answer, lambda: self._swap(version, document), swap=True)

    def _ask(self, host: str, answer: Callable[..., None], operation: Callable[[], Any], *, swap: bool = False) -> None:
        world, random = self.world, self.world.random
        self_answered: list[bool] = []

        def once(*values: Any) -> None:
            if not self_answered:
                self_answered.append(True)
                answer(*values)

        if self.down or host in self.cut_off:
            world.after(random.choice((0.01, self.DEADLINE)), once, "failed")
            return
        latency = 0.001 + random.random() * 0.02
        lost = random.random() < self.lossy
        if swap and lost and random.random() < self.late:
            latency = random.random() * 8.0
        elif lost and random.random() < 0.3:
            world.after(self.DEADLINE, once, "failed")  # it never arrived
            return
        world.after(latency, self._arrive, host, operation, once, lost)
        world.after(self.DEADLINE, once, "failed")

    def _arrive(self, host: str, operation: Callable[[], Any], once: Callable[..., None], lost: bool) -> None:
        if self.down:
            return
        result = operation()
        if not lost:
            seconds = self.world.random.random() * (
                1.9 if self.slow and self.world.random.random() < self.slow else 0.02
            )
            self.world.after(0.001 + seconds, once, *result)

    def _read(self) -> tuple[Any, ...]:
        return "read", self.version, self.document

    def _swap(self, version: int, document: ClusterDocument) -> tuple[Any, ...]:
        if version != self.version:
            return ("moved",)
        self.version += 1
        self.document = document
        self.history.append((self.world.now, document))
        if self.world.verbose:
            names = {
                name: f"{member.directory[:3]}{'?' * member.learner}{'-' * (not member.in_step)}"
                for name, member in document.members.items()
            }
            change = None if document.change is None else (document.change.kind, document.change.name)
            self.world.note(
                f"register: version {self.version} epoch {document.epoch} leader {document.leader} {names} {change}"
            )
        for watcher in self.watchers:
            watcher()
        return "swapped", self.version
