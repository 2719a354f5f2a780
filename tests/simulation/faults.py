"""What goes wrong, when, to whom: drawn from the seed while the run goes on, and mended at its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING

from streams.testkit import elapse
from tests.simulation.cluster import BROKER, BrokerHost
from tests.simulation.history import History, Noted

if TYPE_CHECKING:
    from tests.simulation.clients import Client
    from tests.simulation.loop import SimulatedLoop
    from tests.simulation.network import Network
    from tests.simulation.plan import Plan

LONGEST_ISOLATION = 12.0
"""Seconds: longer than three of the longest heartbeats, so that both sides may find out."""
LONGEST_DOWN = 5.0
"""Seconds until what was killed comes back."""
LARGEST_JUMP = 86_400.0
"""Seconds that the wall clock jumps, either way."""


class WallClock:
    """Seconds since the epoch, which somebody sets now and then."""

    def __init__(self, loop: SimulatedLoop, start: float) -> None:
        self._loop = loop
        self._offset = start

    def __call__(self) -> float:
        """As ``time.time``."""
        return self._offset + self._loop.time()

    @property
    def ahead(self) -> float:
        """Seconds since the epoch when the loop's clock began."""
        return self._offset

    def jump(self, seconds: float) -> None:
        """Be set."""
        self._offset += seconds


class Nemesis:
    """Breaks things until told to mend them."""

    def __init__(
        self,
        plan: Plan,
        random: Random,
        loop: SimulatedLoop,
        network: Network,
        host: BrokerHost,
        clients: list[Client],
        history: History,
        wall_clock: WallClock,
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self._plan = plan
        self._random = random
        self._loop = loop
        self._network = network
        self._host = host
        self._clients = clients
        self._history = history
        self._wall_clock = wall_clock
        self._failed = failed
        self._mending: dict[asyncio.Task[None], None] = {}
        self._is_ending = False
        self._kinds: dict[str, Callable[[], None]] = {
            "cut": self._cut,
            "mute": self._mute,
            "isolate": lambda: self._isolate(self._random.choice(self._clients).name),
            "isolate broker": lambda: self._isolate(BROKER),
            "kill client": lambda: self._end_client(silent=False),
            "power off client": lambda: self._end_client(silent=True),
            "wall clock": self._set_clock,
            "kill broker": lambda: self._end_broker("kill"),
            "power off broker": lambda: self._end_broker("power off"),
            "stop broker": lambda: self._end_broker("stop"),
        }

    async def run(self) -> None:
        """Break something now and then, for as long as the plan says, then mend everything."""
        faults = self._plan.faults
        kinds = [kind for kind, weight in faults.weights.items() if weight > 0]
        weights = [faults.weights[kind] for kind in kinds]
        while kinds and self._loop.time() < faults.until:
            await elapse(self._random.expovariate(1 / faults.interval))
            self._kinds[self._random.choices(kinds, weights)[0]]()
        while self._mending:
            await asyncio.wait(self._mending)
        for link in list(self._network.links.values()):
            link.heal()

    # Kinds

    def _cut(self) -> None:
        links = list(self._network.links.values())
        if links:
            link = self._random.choice(links)
            self._note(f"connection {link.number} is cut")
            link.cut()

    def _mute(self) -> None:
        """Half-open: one direction carries nothing any more, and nobody is told."""
        links = list(self._network.links.values())
        if links:
            link = self._random.choice(links)
            direction = self._random.randrange(2)
            self._note(f"connection {link.number} carries nothing {('up', 'down')[direction]}")
            link.pipes[direction].silent = True

    def _isolate(self, name: str) -> None:
        if name in self._network.isolated:
            return
        self._note(f"{name} is unreachable")
        self._network.isolate(name)

        def heal() -> None:
            self._note(f"{name} is reachable")
            self._network.heal(name)

        self._later(self._random.uniform(0, LONGEST_ISOLATION), heal)

    def _end_client(self, silent: bool) -> None:
        living = [client for client in self._clients if client.process is not None]
        if not living:
            return
        client = self._random.choice(living)
        process = client.process
        assert process is not None
        self._note(f"{client.name} {'loses power' if silent else 'is killed'}")
        self._network.kill(process, silent)
        self._loop.kill(process)
        client.process = None

        def start() -> None:
            self._network.down.pop(client.name, None)
            if not client.finished.done():
                client.start(self._loop.process(client.name), self._failed)

        self._later(self._random.uniform(0, LONGEST_DOWN), start)

    def _end_broker(self, how: str) -> None:
        if not self._host.running or self._is_ending:
            return
        self._is_ending = True

        async def restart() -> None:
            if self._random.random() < 0.5:
                await self._next_confirmation()
            self._is_ending = False
            if how == "stop":
                await self._host.stop()
            elif how == "kill":
                self._host.kill()
            else:
                self._host.power_off()
            await elapse(self._random.uniform(0, LONGEST_DOWN))
            await self._host.start()

        self._keep(restart())

    def _set_clock(self) -> None:
        seconds = self._random.uniform(-LARGEST_JUMP, LARGEST_JUMP)
        self._note(f"the wall clock jumps by {seconds:.0f} s")
        self._wall_clock.jump(seconds)

    # Inside

    async def _next_confirmation(self) -> None:
        """Wait until a program has just been told that something is stored: the worst moment for that to be untrue."""
        confirmed = self._loop.create_future()
        self._history.on_confirmed = lambda: confirmed.done() or confirmed.set_result(None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_DOWN):
                await confirmed
        self._history.on_confirmed = None

    def _note(self, text: str) -> None:
        self._history.add(Noted(self._loop.time(), text))

    def _later(self, seconds: float, mend: Callable[[], None]) -> None:
        async def wait() -> None:
            await elapse(seconds)
            mend()

        self._keep(wait())

    def _keep(self, mending: Awaitable[None]) -> None:
        async def report() -> None:
            try:
                await mending
            except Exception as error:  # noqa: BLE001 - a broker that does not start is what a run is to find
                self._failed("the broker's host", error)

        task = self._loop.create_task(report())
        self._mending[task] = None
        task.add_done_callback(lambda done: self._mending.pop(done, None))
