"""What a seed means for a cluster: a plan as a single broker's run has it, how many nodes there are, and what goes wrong with these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Final

from actors.replication.document import ALL, MAJORITY
from actors.replication.limits import LIMITS, Limits
from tests.simulation.clustered.aims import AIMS, EIGHT, LAG
from tests.simulation.plan import QUEUE_FEATURES, draw
from tests.simulation.programs import FaultPlan, Plan, QueuePlan
from tests.simulation.register import RegisterFaults

NAMES: Final = "abcde"
FEATURES: Final = (
    QUEUE_FEATURES | {"transactions", "moves", "single", "priorities", "groups", "ids"} | {"levels", "drops", "retries"}
)
"""What queues and programs of a cluster's runs may do beyond sending and receiving."""
MOST_SENT: Final = 60
"""Messages of one producer: three brokers have three times as much to do with each."""
LEAST_VISIBILITY: Final = {MAJORITY: 20.0, ALL: 60.0}
"""Seconds: longer than a leader that is cut off leads on, or waits for a member that is silent, and than it is frozen. A lease begins when
a delivery is decided, and it is written when that is committed; leases that end between the two are for the broker alone to try."""
CLIENT_FAULTS: Final = ("cut", "mute", "isolate", "kill client", "power off client")
NODE_FAULTS: Final = (
    "kill node",
    "power off node",
    "stop node",
    "kill two",
    "power off all",
    "cut off node",
    "one way",
    "split",
    "freeze node",
    "lose disk",
)
AIM_CHANCE: Final = 0.12
"""That a run aims at something, in the place of whatever goes wrong by chance."""
STEADY_SECONDS: Final = 0.4
"""Between two messages of a producer, where it is to send for as long as something goes wrong."""
REGISTER_FAULTS: Final = ("register down", "register out of reach", "bad register")


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A whole run.

    Attributes:
        base: queues, programs, and how often what goes wrong.
        names: of the nodes.
        mode: of the cluster.
        drain: seconds that a leader that is stopped gives its clients.
        register: how often what goes wrong with it all the time.
        thread: seconds that what is done on a thread takes, at most, twice.
        aim: what is brought about on purpose, of aims.py; None for what goes wrong by chance.
        limits: of what is under way to a follower.
    """

    base: Plan
    names: tuple[str, ...]
    mode: str
    drain: float
    register: RegisterFaults
    thread: float
    aim: str | None = None
    limits: Limits = LIMITS

    @property
    def seed(self) -> int:
        """Its number."""
        return self.base.seed


def draw_clustered(seed: int) -> ClusterPlan:
    """The plan of a seed."""
    # Drawn apart, so that those that aim at nothing are what they were before there were others.
    random = Random(f"aim {seed}")
    return draw_aimed(seed, random.choice(AIMS)) if random.random() < AIM_CHANCE else draw_by_chance(seed)


def draw_aimed(seed: int, aim: str) -> ClusterPlan:
    """The plan of a seed that aims at something: three nodes that are quick, and programs that have something to say all the time."""
    random = Random(f"aimed {seed}")
    plan = draw_by_chance(seed, mode=ALL if aim == LAG else MAJORITY)
    weights = dict.fromkeys(plan.base.faults.weights, 0.0)
    producers = tuple(
        replace(each, total=MOST_SENT, largest_batch=1, pause=STEADY_SECONDS) for each in plan.base.producers
    )
    base = replace(
        plan.base,
        producers=producers,
        faults=FaultPlan(1.0, weights, until=random.choice((15.0, 25.0))),
        commit_delay=random.choice((0.0, 0.001, 0.02)),
    )
    # One record at a time, where what is stored and what is not is to be told apart.
    limits = LIMITS._replace(window_records=1, ship_records=1) if aim == EIGHT else LIMITS
    return replace(
        plan,
        base=base,
        names=tuple(NAMES[:3]),
        register=RegisterFaults(),
        thread=random.choice((0.0, 0.005)),
        aim=aim,
        limits=limits,
    )


def draw_by_chance(seed: int, features: frozenset[str] = FEATURES, mode: str | None = None) -> ClusterPlan:
    """The plan of a seed that aims at nothing; in another mode than it draws, if one is given."""
    random = Random(f"cluster {seed}")
    base = draw(seed, durable=True, features=features)
    producers = tuple(replace(each, total=min(each.total, MOST_SENT)) for each in base.producers)
    writers = tuple(replace(each, versions=min(each.versions, 4)) for each in base.writers)
    chosen = random.sample(NODE_FAULTS, random.randint(1, 5))
    weights = {kind: random.choice((0.0, 0.0, 1.0)) for kind in CLIENT_FAULTS}
    weights |= {kind: random.choice((1.0, 3.0)) if kind in chosen else 0.0 for kind in NODE_FAULTS}
    weights |= {kind: random.choice((0.0, 1.0)) for kind in REGISTER_FAULTS}
    faults = FaultPlan(random.choice((0.3, 1.0, 4.0)), weights, until=random.choice((5.0, 15.0, 30.0)))
    drawn = ALL if random.random() < 0.15 else MAJORITY
    mode = mode or drawn
    base = replace(
        base,
        queues=tuple(_patient(queue, LEAST_VISIBILITY[mode]) for queue in base.queues),
        producers=producers,
        writers=writers,
        faults=faults,
        heartbeat=1.0,
        commit_delay=random.choice((0.0, 0.001, 0.02, 0.2)),
    )
    bad = random.random() < 0.3
    return ClusterPlan(
        base,
        tuple(NAMES[: 5 if random.random() < 0.2 else 3]),
        mode,
        drain=random.choice((0.0, 2.0)),
        register=bad_register(random) if bad else RegisterFaults(),
        thread=random.choice((0.0, 0.005, 0.5)),
    )


def _patient(queue: QueuePlan, least: float) -> QueuePlan:
    """The same queue, whose receivers have so much time for a message at least."""
    visibility = max(queue.settings.visibility_timeout, least)
    settings = replace(queue.settings, visibility_timeout=visibility)
    return replace(queue, settings=settings, rules=replace(queue.rules, visibility=visibility))


def bad_register(random: Random) -> RegisterFaults:
    """One that answers late, or not, more or less often."""
    share = random.choice((0.02, 0.05, 0.15))
    return RegisterFaults(share, share, share, share, lateness=(0.1, 8.0))
