"""A network in memory under the loop's virtual clock, as bad as TCP allows: fragments, delays, silence, resets, cuts inside a frame.

Everything that is by chance comes from one random generator.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from streams.testkit import elapse
from tests.simulation.transports import Endpoint, Pipe, Tap

if TYPE_CHECKING:
    from tests.simulation.loop import Process, SimulatedLoop

KERNEL_BUFFERS = (2_048, 65_536, 1_048_576)
"""Bytes under way and unread in one direction, one of these a link: a small one has writers wait."""
LATENCIES = (0.0001, 0.02)
"""Seconds one way, between these a link."""
FIRST_EPHEMERAL = 49_152


class Link:
    """One connection.

    Attributes:
        number: in the order of connecting.
        port: where it was connected to.
        client: the end that connected.
        server: the other.
        capacity: bytes under way and unread, each way.
    """

    def __init__(
        self, network: Network, number: int, port: int, client: Process | None, server: Process | None
    ) -> None:
        self.network = network
        self.number = number
        self.port = port
        random = network.random
        self.capacity = random.choice(KERNEL_BUFFERS)
        self._latency = random.uniform(*LATENCIES)
        self.client = Endpoint(self, client, ("10.0.0.1", 7000))
        self.server = Endpoint(self, server, ("10.0.0.2", FIRST_EPHEMERAL + number))
        up, down = Pipe(self, self.server), Pipe(self, self.client)
        up.source, down.source = self.client, self.server
        self.client.outbound = self.server.inbound = up
        self.client.inbound = self.server.outbound = down
        self.pipes = (up, down)

    def delay(self) -> float:
        """Seconds that the next segment takes."""
        return self._latency * (1 + self.network.random.random())

    def cut(self) -> None:
        """Break it now, in the middle of whatever is under way; both ends are reset."""
        for pipe in self.pipes:
            pipe.cut(self.network.random.random())
        for end in (self.client, self.server):
            self.network.reset(end, self.delay())

    def silence(self) -> None:
        """Nothing arrives any more, and nobody is told."""
        for pipe in self.pipes:
            pipe.silent = True

    def heal(self) -> None:
        """What was held back arrives."""
        for pipe in self.pipes:
            pipe.heal()

    def ended(self) -> None:
        """An end has closed: forget the link when both have."""
        if self.client.closed and self.server.closed:
            self.network.links.pop(self.number, None)


class Listener:
    """A listening address, as asyncio's Server is."""

    def __init__(self, network: Network, process: Process | None, factory: Callable[[], Any], name: Any, port: int):
        self.process = process
        self.factory = factory
        self.sockets = (self,)
        self._network = network
        self._name = (name, port)
        self._waiting: deque[Endpoint] = deque()

    def getsockname(self) -> tuple[Any, int]:
        """Of its one socket."""
        return self._name

    def connected(self, end: Endpoint) -> None:
        """One more waits to be taken: all are, in the order in which they came, when the process looks."""
        self._waiting.append(end)
        end.when_it_looks(self._take)

    def _take(self) -> None:
        while self._waiting:
            self._waiting.popleft().opened(self.factory())

    def close(self) -> None:
        """Take no more connections."""
        if self._network.listeners.get(self._name[1]) is self:
            del self._network.listeners[self._name[1]]

    async def wait_closed(self) -> None:
        """At once: connections are not the listener's."""

    def is_serving(self) -> bool:
        """Whether it takes connections."""
        return self._network.listeners.get(self._name[1]) is self


class Network:
    """All links and listeners.

    Attributes:
        links: open links by number.
        isolated: names of processes that nothing reaches now, in either direction.
        blocked: pairs of names, the first of which does not reach the second.
        parted: pairs of names without a way to each other, which is said at once to who tries.
        down: names of hosts that are off: what is sent there is not even refused.
        tap: makes the listener of a new connection's server end; None for none.
    """

    def __init__(self, loop: SimulatedLoop, random: Random, tap: Callable[[int], Tap | None] | None = None) -> None:
        self.loop = loop
        self.random = random
        self.tap = tap
        self.links: dict[int, Link] = {}
        self.listeners: dict[int, Listener] = {}
        self.isolated: dict[str, None] = {}
        self.blocked: dict[tuple[str, str], None] = {}
        self.parted: dict[tuple[str, str], None] = {}
        self.down: dict[str, None] = {}
        self.context = contextvars.Context()
        self._hosts: dict[int, str] = {}
        self._next = 0
        loop.network = self

    def fragment(self, size: int) -> int:
        """How many of ``size`` bytes go together: mostly all, often some, now and then very few."""
        chance = self.random.random()
        if chance < 0.7:
            return size
        most = 8 if chance < 0.75 else 1 + size
        # As `Random.randint`, without the calls in between.
        bits = most.bit_length()
        while (less := self.random.getrandbits(bits)) >= most:
            pass
        return min(size, 1 + less)

    def listen(self, process: Process | None, factory: Callable[[], Any], host: Any, port: int) -> Listener:
        """Listen on a port; OSError where it is taken."""
        if port in self.listeners:
            raise OSError(98, f"port {port} is in use")
        self.listeners[port] = Listener(self, process, factory, host, port)
        if process is not None:
            self._hosts[port] = process.name
            self.down.pop(process.name, None)
        return self.listeners[port]

    async def connect(
        self, process: Process | None, factory: Callable[[], Any], port: int
    ) -> tuple[asyncio.Transport, Any]:
        """Connect to a port; ConnectionRefusedError where nobody listens, OSError without a way there, silence where nothing answers."""
        await self._pass(self.random.uniform(*LATENCIES) * 2)
        listener = self.listeners.get(port)
        unreachable = {*self.isolated, *self.down}
        host = self._hosts.get(port)
        if process is not None and host is not None and (process.name, host) in self.parted:
            raise OSError(errno.EHOSTUNREACH, f"there is no route to {host}")
        is_blocked = process is not None and host is not None and self._is_blocked(process.name, host)
        if host in unreachable or is_blocked or (process is not None and process.name in unreachable):
            await self.loop.create_future()
        if listener is None:
            raise ConnectionRefusedError(111, f"nobody listens on port {port}")
        number = self._next
        self._next += 1
        link = self.links[number] = Link(self, number, port, process, listener.process)
        if self.tap is not None:
            link.server.tap = self.tap(number)
        listener.connected(link.server)
        protocol = factory()
        link.client.opened(protocol)
        return link.client, protocol

    def kill(self, process: Process, silent: bool) -> None:
        """Its process is gone: its links are reset, or with its whole host fall silent."""
        for port, listener in list(self.listeners.items()):
            if listener.process is process:
                del self.listeners[port]
        if silent:
            self.down[process.name] = None
        for link in list(self.links.values()):
            for end in (link.client, link.server):
                if end.process is process and not end.closed:
                    end.die()
                    end.outbound.outgoing.clear()
                    if silent:
                        end.outbound.cut(self.random.random())
                    else:
                        end.outbound.end("rst")
                    link.ended()

    def isolate(self, name: str) -> None:
        """Nothing from or to this process arrives until ``heal``."""
        self.isolated[name] = None
        for link in self._of(name):
            link.silence()

    def heal(self, name: str) -> None:
        """What was held back arrives, and new connections are possible."""
        self.isolated.pop(name, None)
        for link in self._of(name):
            link.heal()

    def block(self, source: str, target: str) -> None:
        """Nothing gets from one to the other any more until ``unblock``, and no new connection comes about; nobody is told."""
        self.blocked[source, target] = None
        for pipe in self._pipes(source, target):
            pipe.silent = True

    def unblock(self, source: str, target: str) -> None:
        """What was held back arrives."""
        if self.blocked.pop((source, target), self) is self:
            return
        if source not in self.isolated and target not in self.isolated:
            for pipe in self._pipes(source, target):
                pipe.heal()

    def part(self, one: str, other: str) -> None:
        """Reset the connections of two, and let none come about until ``join``: who tries is told so, as by a router."""
        self.parted |= {(one, other): None, (other, one): None}
        for link in list(self.links.values()):
            client, server = link.client, link.server
            if (_is_of(client, one) and _is_of(server, other)) or (_is_of(client, other) and _is_of(server, one)):
                link.cut()

    def join(self, one: str, other: str) -> None:
        """There is a way again."""
        self.parted.pop((one, other), None)
        self.parted.pop((other, one), None)

    def unheard(self, target: Endpoint, source: Endpoint) -> None:
        """Bytes came for a connection that its host does not know: a reset goes back, unless the host is off."""
        if target.process is None or target.process.name not in self.down:
            self.reset(source, target.outbound.link.delay())

    def reset(self, end: Endpoint, delay: float) -> None:
        """Have an end hear soon that its connection is reset."""
        self.loop.arrive_at(self.loop.time() + delay, None, end.reset, self.context)

    def _is_blocked(self, one: str, other: str) -> bool:
        """In either direction: to connect both are needed."""
        return (one, other) in self.blocked or (other, one) in self.blocked

    def _pipes(self, source: str, target: str) -> list[Pipe]:
        return [
            pipe
            for link in self.links.values()
            for pipe in link.pipes
            if _is_of(pipe.source, source) and _is_of(pipe.target, target)
        ]

    def _of(self, name: str) -> list[Link]:
        return [
            link
            for link in self.links.values()
            if any(end.process is not None and end.process.name == name for end in (link.client, link.server))
        ]

    async def _pass(self, seconds: float) -> None:
        await elapse(seconds)


def _is_of(end: Endpoint, name: str) -> bool:
    return end.process is not None and end.process.name == name
