"""One run over a cluster: a seed in, what was found out."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

from actors.replication.document import ALL
from actors.replication.limits import SILENT_SECONDS
from streams.testkit import elapse
from tests.simulation.checker import Finding, Timing
from tests.simulation.clients import Client, Consumer, Drainer
from tests.simulation.clustered.checker import ClusterChecker
from tests.simulation.clustered.faults import LONGEST_CUT, LONGEST_FREEZE, ClusterNemesis
from tests.simulation.clustered.host import RECEIVERS, SENDERS, Cluster, places
from tests.simulation.clustered.plan import REGISTER_FAULTS, ClusterPlan, draw_clustered
from tests.simulation.clustered.together import judge_together
from tests.simulation.faults import WallClock
from tests.simulation.history import History, Noted
from tests.simulation.loop import SimulatedLoop
from tests.simulation.mover import Mover
from tests.simulation.network import Network
from tests.simulation.register import SimulatedRegister
from tests.simulation.runner import (
    FAILED,
    LEAK,
    LINGERING,
    PRODUCE_DEADLINE,
    Outcome,
    carried_out,
    drain,
    leaks,
    producer_of,
)
from tests.simulation.wiretap import Wiretap
from tests.simulation.writer import Writer
from transport import TransportError
from transport.clients.administration import Administration

if TYPE_CHECKING:
    from tests.simulation.transports import Tap

SECRET: Final = "the secret of all nodes of a simulation, long enough\n"
ONE_LESS: Final = "one-less"
"""A queue that is declared while a node is gone."""
GO_ON_SECONDS: Final = 3 * SILENT_SECONDS
"""Until something is confirmed without a node: it may lead, and the mode ``all`` waits for it until it is silent for long."""
LATE_SECONDS: Final = 4.0
"""What a leader has decided may be written so much later, when it is committed at last, or never;"""
WAITING_SECONDS: Final = LATE_SECONDS + max(LONGEST_FREEZE, SILENT_SECONDS)
"""and so much where leaders are frozen, or wait for every member that has not been silent for long."""


class ClusteredRun:
    """One run on a loop of its own."""

    def __init__(self, plan: ClusterPlan, secret: str, loop: SimulatedLoop, wall_clock: WallClock) -> None:
        self.history = History()
        self.findings: list[Finding] = []
        self._plan = plan
        self._loop = loop
        self._wall_clock = wall_clock
        network = Network(loop, Random(f"network {plan.seed}"), self._tap)
        self._network = network
        register = SimulatedRegister(loop, Random(f"register {plan.seed}"))
        self.cluster = Cluster(plan, loop, network, register, self.history, secret, self._failed)

    async def main(self) -> None:
        """Work under faults, mend, drain, stop."""
        plan, loop, history, cluster = self._plan, self._loop, self.history, self.cluster
        await cluster.start()
        cluster.register.faults = plan.register
        producers: list[Client] = [producer_of(each, plan.base, history) for each in plan.base.producers]
        producers += [Writer(each, plan.seed, history) for each in plan.base.writers]
        consumers: list[Client] = [Consumer(each, plan.seed, history) for each in plan.base.consumers]
        consumers += [Mover(each, plan.seed, history) for each in plan.base.movers]
        clients = [*producers, *consumers]
        self._begin(clients)
        faults = Random(f"faults {plan.seed}")
        await ClusterNemesis(cluster, faults, loop, clients, history, self._wall_clock, self._failed).run()
        history.add(Noted(loop.time(), "everything is mended, and the consumers are gone"))
        self._kill(consumers)
        await cluster.led()
        drainers: list[Client] = [Drainer(queue.name, plan.seed, history) for queue in plan.base.queues]
        self._begin(drainers)
        _, late = await asyncio.wait([each.finished for each in producers], timeout=PRODUCE_DEADLINE)
        if late:
            names = [each.name for each in producers if each.finished in late]
            self._find("stuck", f"{', '.join(names)} could not send everything")
        await self._drain()
        for queue in plan.base.queues:
            if queue.rules.tasks is not None and queue.rules.tasks.vanishes:
                history.add(await cluster.dropped(queue.name))
        self._kill([*producers, *drainers])
        await elapse(LINGERING)
        await self._go_on_with_one_less()
        self.findings += await judge_together(cluster)
        await cluster.stop()
        await elapse(LINGERING)
        self._look_for_leaks()

    async def _go_on_with_one_less(self) -> None:
        """One node is gone, and whatever was before: half and one of the members are there, so something is confirmed, in every mode."""
        chance = Random(f"one less {self._plan.seed}")
        host = chance.choice(list(self.cluster.hosts.values()))
        self.history.add(Noted(self._loop.time(), f"{host.name} is gone"))
        host.kill() if chance.random() < 0.5 else host.power_off()
        try:
            async with asyncio.timeout(GO_ON_SECONDS):
                while not await self._confirms():
                    await elapse(0.5)
        except TimeoutError:
            self._find("stuck", f"without {host.name} nothing is confirmed in {GO_ON_SECONDS:g} s")
        await host.start()

    async def _confirms(self) -> bool:
        with suppress(TransportError):  # another one is to lead, or all wait for one that is silent
            async with Administration(self.cluster.contact_points, connect_timeout=GO_ON_SECONDS) as administration:
                await administration.create_queue(ONE_LESS)
                return True
        return False

    def _begin(self, clients: Iterable[Client]) -> None:
        for client in clients:
            client.send_address = places(self._plan.names, SENDERS)
            client.receive_address = places(self._plan.names, RECEIVERS)
            client.start(self._loop.process(client.name), self._failed)

    def _tap(self, number: int) -> Tap | None:
        """What clients say is noted, and not what nodes do."""
        return Wiretap(number, self.history, self._loop.time) if self.cluster.note_connection(number) else None

    def _kill(self, clients: Iterable[Client]) -> None:
        for client in clients:
            if client.process is not None:
                self._network.kill(client.process, silent=False)
                self._loop.kill(client.process)
                client.process = None

    async def _drain(self) -> None:
        names = (queue.name for queue in self._plan.base.queues)
        await drain(names, self.cluster.stored, self._loop, self.history)

    def _look_for_leaks(self) -> None:
        for what in leaks(self._loop, self._network):
            self._find(LEAK, what)

    def _failed(self, who: str, error: BaseException) -> None:
        self._find(FAILED, f"{who}: {error!r}")

    def _find(self, kind: str, text: str) -> None:
        self.findings.append(Finding(kind, self._loop.time(), text))


def longest_wait(plan: ClusterPlan) -> float:
    """Seconds by which what a leader has decided may be written later."""
    faults = plan.base.faults
    if plan.mode == ALL and any(faults.weights[kind] for kind in REGISTER_FAULTS):
        # A silent member stays on the list of those in step while the register is away, and that may go again and again.
        return WAITING_SECONDS + faults.until + LONGEST_CUT
    return WAITING_SECONDS if plan.mode == ALL or faults.weights["freeze node"] else LATE_SECONDS


def run_cluster(seed: int) -> Outcome:
    """Run a seed."""
    return run_cluster_plan(draw_clustered(seed))


def run_cluster_plan(plan: ClusterPlan, seen: Counter[str] | None = None) -> Outcome:
    """Run a plan and judge what happened; what the nodes have done is counted in ``seen``."""
    threads = Random(f"threads {plan.seed}")
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder) / "secret"
        secret.touch(0o600)
        secret.write_text(SECRET)
        run = carried_out(plan.base, partial(ClusteredRun, plan, str(secret)), lambda: threads.uniform(0, plan.thread))
    if seen is not None:
        seen.update(run.cluster.watch.seen)
    late = longest_wait(plan)
    rules = {queue.name: queue.rules for queue in plan.base.queues}
    checker = ClusterChecker(rules, Timing(late, late), run.cluster.watch.leads)
    findings = [*run.findings, *run.cluster.watch.findings, *checker.check(run.history.events)]
    return Outcome(plan.base, tuple(findings), tuple(run.history.events), run.history.digest())
