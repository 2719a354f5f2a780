"""One run: a seed in, what was found out."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Protocol, TypeVar

from actors import LoopActorRegistry
from streams.testkit import elapse
from tests.simulation.checker import Finding, Timing, check
from tests.simulation.clients import Client, Consumer, Drainer, Producer
from tests.simulation.cluster import BrokerHost
from tests.simulation.delayed_plan import LATER
from tests.simulation.exchange_checker import ExchangeChecker
from tests.simulation.faults import Nemesis, WallClock
from tests.simulation.history import CommandHeard, Drained, Event, History, Made, Noted
from tests.simulation.leaps import Leaps
from tests.simulation.loop import SimulatedLoop
from tests.simulation.map_checker import check_map
from tests.simulation.mover import Mover
from tests.simulation.network import Network
from tests.simulation.pinned import pinned
from tests.simulation.plan import FEATURES, ConsumerPlan, Plan, ProducerPlan, draw
from tests.simulation.publishing import BriefConsumer, Definer, Publisher
from tests.simulation.schedule import Schedule
from tests.simulation.storage import LAZY_DELAY
from tests.simulation.taking import TEMPORARY
from tests.simulation.tasking import TaskProducer
from tests.simulation.wall import START
from tests.simulation.wiretap import Wiretap
from tests.simulation.writer import Writer

PRODUCE_DEADLINE = 600.0
"""Virtual seconds that producers have once nothing goes wrong any more."""
DRAIN_DEADLINE = 300.0
"""Virtual seconds to get what is left: the longest lease, delay and heartbeat many times over."""
DRAIN_STEP = 1.0
SETTLING = 0.5
"""Virtual seconds in which a queue has heard of everything that takers have said."""
LINGERING = 30.0
"""Virtual seconds after the end in which every timer and connection must be gone."""
NOBODY = 0
"""A connection that there is not."""
DEFECT, LEAK, FAILED = "defect", "leak", "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    Attributes:
        plan: what was run.
        findings: what was wrong; nothing, if all is well.
        events: the history.
        digest: equal for equal histories.
    """

    plan: Plan
    findings: tuple[Finding, ...]
    events: tuple[Event, ...]
    digest: str


class Run:
    """One run on a loop of its own."""

    def __init__(self, plan: Plan, loop: SimulatedLoop, wall_clock: WallClock) -> None:
        self.history = History()
        self.findings: list[Finding] = []
        self._plan = plan
        self._loop = loop
        self._wall_clock = wall_clock
        self._network = Network(
            loop, Random(f"network {plan.seed}"), lambda number: Wiretap(number, self.history, loop.time)
        )
        self._host = BrokerHost(plan, loop, self._network, self.history)

    async def main(self) -> None:
        """Work under faults, mend, drain, stop."""
        plan, loop, history = self._plan, self._loop, self.history
        await self._host.start()
        producers: list[Client] = [producer_of(each, plan, history) for each in plan.producers]
        producers += [Writer(each, plan.seed, history) for each in plan.writers]
        if plan.exchanges is not None:
            producers += [Publisher(each, plan.seed, history) for each in plan.exchanges.publishers]
        clients: list[Client] = [*producers, *(self._consumer(each) for each in plan.consumers)]
        clients += [Mover(each, plan.seed, history) for each in plan.movers]
        briefly: tuple[str, ...] = ()
        if plan.exchanges is not None:
            briefly = plan.exchanges.briefly
            clients += [Definer(each, plan.seed, history) for each in plan.exchanges.definers]
        for client in clients:
            client.start(loop.process(client.name), self._failed)
        leaps = Leaps(plan.seed, loop, self._wall_clock, self._host, history)
        if plan.leaps is not None:
            leaping = loop.create_task(leaps.meanwhile(plan.leaps))
        faults = Random(f"faults {plan.seed}")
        await Nemesis(
            plan, faults, loop, self._network, self._host, clients, history, self._wall_clock, self._failed
        ).run()
        if plan.leaps is not None:
            leaps.over = True
            leaping.cancel()
        history.add(Noted(loop.time(), "everything is mended, and the consumers are gone"))
        self._kill(clients[len(producers) :])
        self._host.end_takers()
        if plan.takers:
            await elapse(SETTLING)
            for queue in plan.queues:
                history.add(await self._host.counted(queue.name))
        for name in briefly:
            # Whoever drains it makes it.
            history.add(CommandHeard(loop.time(), NOBODY, 0, "queue.create", (("name", name),)))
        drainers = [Drainer(name, plan.seed, history) for name in (*(queue.name for queue in plan.queues), *briefly)]
        for drainer in drainers:
            drainer.start(loop.process(drainer.name), self._failed)
        late = await self._finished(producers, leaps)
        if late:
            names = [each.name for each in producers if each.finished in late]
            self._find("stuck", f"{', '.join(names)} could not send everything")
        if plan.leaps is not None:
            await leaps.to_the_end()
        await self._drain(briefly)
        for queue in plan.queues:
            if queue.rules.tasks is not None and queue.rules.tasks.vanishes:
                history.add(await self._host.dropped(queue.name))
        self._kill([*producers, *drainers])
        await elapse(LINGERING)
        await self._host.stop()
        await elapse(LINGERING)
        self._look_for_leaks()

    async def _finished(self, producers: Sequence[Client], leaps: Leaps) -> set[asyncio.Future[None]]:
        """Those of the producers that have not finished in time."""
        finished, deadline = [each.finished for each in producers], self._loop.time() + PRODUCE_DEADLINE
        if self._plan.leaps is not None:
            await leaps.until(lambda: all(each.done() for each in finished) or self._loop.time() > deadline)
        _, late = await asyncio.wait(finished, timeout=deadline - self._loop.time())
        return late

    def _kill(self, clients: Iterable[Client]) -> None:
        for client in clients:
            if client.process is not None:
                self._network.kill(client.process, silent=False)
                self._loop.kill(client.process)
                client.process = None

    def _consumer(self, plan: ConsumerPlan) -> Consumer:
        exchanges = self._plan.exchanges
        brief = exchanges is not None and plan.queue in exchanges.briefly
        return (BriefConsumer if brief else Consumer)(plan, self._plan.seed, self.history)

    async def _drain(self, briefly: tuple[str, ...]) -> None:
        exchanges = self._plan.exchanges
        # What waits is looked at first: it may come to a queue in the moment between.
        first = (LATER,) if exchanges is not None and exchanges.delayed else ()
        names = (*first, *(queue.name for queue in self._plan.queues), *briefly)
        await drain(names, self._host.stored, self._loop, self.history)

    def _look_for_leaks(self) -> None:
        for what in leaks(self._loop, self._network):
            self._find(LEAK, what)

    def _failed(self, who: str, error: BaseException) -> None:
        self._find(FAILED, f"{who}: {error!r}")

    def _find(self, kind: str, text: str) -> None:
        self.findings.append(Finding(kind, self._loop.time(), text))


def producer_of(plan: ProducerPlan, of: Plan, history: History) -> Producer:
    """The program of a plan."""
    if not plan.priorities and not plan.later:
        return Producer(plan, of.seed, history)
    settings = next(each.settings for each in of.queues if each.name == plan.queue)
    return TaskProducer(plan, of.seed, history, settings.max_priority or 0)


async def drain(
    names: Iterable[str], stored: Callable[[str], Awaitable[int]], loop: SimulatedLoop, history: History
) -> None:
    """Wait until nothing is stored under these names, in the order given, or the deadline has passed; what is left is noted."""
    deadline = loop.time() + DRAIN_DEADLINE
    left = dict.fromkeys(names, 1)
    while any(left.values()) and loop.time() < deadline:
        await elapse(DRAIN_STEP)
        left = {name: await stored(name) for name in left}
    for name, count in left.items():
        history.add(Drained(loop.time(), name, count))


def leaks(loop: SimulatedLoop, network: Network) -> list[str]:
    """What is left of the product at the end of a run, beside the task that asks."""
    me = asyncio.current_task()
    left = [f"task {task.get_name()}" for task in asyncio.all_tasks(loop) if task is not me and lives(task)]
    left += [f"actor {ref}" for ref in LoopActorRegistry.get_all(loop)]
    left += [f"connection {number}" for number in network.links]
    if timers := loop.timers():
        left.append(f"{timers} timers")
    return left


def lives(task: asyncio.Task[object]) -> bool:
    """Whether a task can still run; those of killed processes wait to be collected."""
    return bool(task._log_destroy_pending)  # type: ignore[attr-defined]


def run(seed: int, *, durable: bool = True, features: frozenset[str] = FEATURES) -> Outcome:
    """Run a seed."""
    return run_plan(draw(seed, durable, features))


def _unless_dropped(hook: Callable[[Any], object]) -> Callable[[Any], object]:
    def said(about: Any) -> None:
        if not (isinstance(about.exc_value, RuntimeError) and "ignored GeneratorExit" in str(about.exc_value)):
            hook(about)

    return said


def _drop(loop: SimulatedLoop) -> None:
    """Drop all tasks, and what nobody holds: a failure that nobody looked at is told then, in its own run."""
    unraisable = sys.unraisablehook
    asyncio._set_running_loop(loop)  # what is dropped as it stands may want to say goodbye; it is not heard
    try:
        # Not as asyncio.run ends: the tasks of killed processes cannot be cancelled, for they never run again.
        loop.abandon_tasks()
        # Who awaits something even when it is dropped is stopped there, and Python would say so on stderr.
        sys.unraisablehook = _unless_dropped(unraisable)
        # Nothing was collected meanwhile, so what the run has made is all in the youngest generation; what was before it is not the run's.
        gc.collect(0)
    finally:
        sys.unraisablehook = unraisable
        asyncio._set_running_loop(None)


class Runs(Protocol):
    """What is run on a loop of its own."""

    findings: list[Finding]

    async def main(self) -> None:
        """All of it."""


R = TypeVar("R", bound=Runs)


def carried_out(
    plan: Plan, make: Callable[[SimulatedLoop, WallClock], R], threads: Callable[[], float] | None = None
) -> R:
    """Run something in a world in which nothing is by chance; what it left undone, and what was complained of, is among its findings."""
    loop = SimulatedLoop(Schedule(Random(f"schedule {plan.seed}"), plan.rush, plan.pause), threads)
    wall_clock = WallClock(loop, START)
    with pinned(str(plan.seed), wall_clock) as complaints:
        run_ = make(loop, wall_clock)
        main = loop.create_task(run_.main())
        try:
            loop.run_until_complete(main)
        except Exception as error:  # noqa: BLE001 - whatever ends a run is what it is to find
            run_.findings.append(Finding(FAILED, loop.time(), f"the run itself: {error!r}"))
        _drop(loop)
        loop.close()
    run_.findings += [Finding(DEFECT, loop.time(), text) for text in [*loop.reports, *complaints.texts]]
    return run_


def run_plan(plan: Plan) -> Outcome:
    """Run a plan and judge what happened."""
    run_ = carried_out(plan, partial(Run, plan))
    findings = [*run_.findings]
    timing = Timing(plan.commit_delay, LAZY_DELAY + 2 * plan.commit_delay + 0.05) if plan.durable else Timing()
    events = run_.history.events
    rules = {queue.name: queue.rules for queue in plan.queues}
    rules |= {event.queue: TEMPORARY for event in events if isinstance(event, Made)}
    of_queues: Sequence[Event] = events
    if plan.exchanges is not None:
        checker = ExchangeChecker(plan.exchanges)
        of_queues = checker.check(events)
        findings += checker.findings
    findings += [*check(of_queues, rules, timing), *check_map(events)]
    return Outcome(plan, tuple(findings), tuple(events), run_.history.digest())
