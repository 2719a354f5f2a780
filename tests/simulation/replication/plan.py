"""What a run is like, and what goes wrong in it: all drawn from its seed before it begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from actors.replication.document import ALL, ASYNC, MAJORITY, ONE
from actors.replication.limits import Limits

STEPS = (
    "lead",
    "write",
    "sync",
    "synced",
    "promise",
    "promising",
    "promised",
    "truncate",
    "truncated",
    "checkpoint",
    "checkpointed",
    "install",
    "installed",
)
"""Steps of a disk, at each of which a program may end."""

LEADER = "leader"
"""Whoever leads at that time, in place of a host's name."""


NEWEST = "newest"
"""Whoever leads the greatest epoch."""


FORMER = "former"
"""Whoever was cut off last."""


class Fault(NamedTuple):
    """Something that goes wrong at a time."""

    time: float
    kind: str
    host: str
    values: tuple[Any, ...] = ()


@dataclass
class Plan:
    """A run.

    Attributes:
        seed: where it comes from.
        members: the names of those that count at the start.
        spares: the names of hosts that may come.
        mode: of the cluster.
        seconds: how long faults come for.
        limits: of what is under way to a follower.
        checkpoint_every: records from one checkpoint to the next.
        log_budget: records that the log is kept for, for those that lag.
        pace: seconds from one piece of a transfer to the next.
        cut_seconds: that it takes to cut a log, or to put a transfer into its place, besides the syncs.
        breaking: whether a transfer fails when the connection to who gives it ends; else it waits for it.
        damaged: whether the last write on a disk may be damaged, or torn where power is lost.
        faults: what goes wrong.
    """

    seed: int
    members: tuple[str, ...]
    spares: tuple[str, ...]
    mode: str
    seconds: float
    limits: Limits
    checkpoint_every: int
    log_budget: int
    sync_seconds: float
    delay: float
    spread: float
    late: float
    senders: int
    interval: float
    burst: int
    pace: float = 0.03
    cut_seconds: float = 0.0
    breaking: bool = False
    damaged: bool = False
    drift: dict[str, float] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)


def draw(seed: int, members: int | None = None) -> Plan:
    """The plan of a seed."""
    random = Random(f"replication {seed}")
    size = members or random.choice((3, 3, 5))
    names = tuple("abcdefgh"[:size])
    spares = tuple("xyz"[: random.choice((1, 2))])
    window = random.choice((1, 2, 5, 20, 200))
    plan = Plan(
        seed=seed,
        members=names,
        spares=spares,
        mode=random.choice((MAJORITY, MAJORITY, MAJORITY, ALL, ALL, ONE, ASYNC)),
        seconds=random.choice((10.0, 15.0, 20.0, 30.0)),
        limits=Limits(window, random.choice((window, 3)), random.choice((1, 2, 50)), random.choice((1, 3, 50))),
        checkpoint_every=random.choice((3, 10, 40)),
        log_budget=random.choice((5, 10, 30, 1000)),
        sync_seconds=random.choice((0.0005, 0.002, 0.01, 0.03)),
        delay=random.choice((0.0002, 0.001, 0.01)),
        spread=random.choice((0.0002, 0.002, 0.02)),
        late=random.choice((0.0, 0.5)),
        senders=random.choice((1, 2, 3)),
        interval=random.choice((0.1, 0.2, 0.4)),
        burst=random.choice((1, 2, 4)),
        drift={name: random.choice((1.0, 1.0, random.uniform(0.95, 1.05))) for name in names + spares},
    )
    focus = Random(f"focus {seed}").random()
    if plan.mode == ALL and focus < 0.25:
        draw_alone("lag", plan, random)
    elif plan.mode == MAJORITY and size == 3 and focus < 0.2:
        plan.limits = Limits(1, 1, 1, 1)
        draw_alone("eight", plan, random)
    else:
        draw_faults(plan, random)
        draw_more(plan, Random(f"more {seed}"))
    return plan


def draw_more(plan: Plan, random: Random) -> None:
    """In every second run: connections that end, of which something is read later, links that flap, a register that is slow, and long
    transfers. Drawn apart, so that the other half is as it was."""
    if random.random() < 0.5:
        return
    plan.pace, plan.breaking = random.choice((0.03, 0.2, 0.8)), random.random() < 0.5
    plan.cut_seconds = random.choice((0.0, 0.3, 1.0, 2.5))
    hosts = plan.members + plan.spares
    kinds = random.sample(list(MORE), random.choice((1, 2, 3)))
    for _ in range(random.choice((1, 3, 8))):
        host, kind = random.choice((LEADER, LEADER, *hosts)), random.choice(kinds)
        plan.faults += MORE[kind](random, random.uniform(0.5, plan.seconds), kind, host, hosts)
    plan.faults.sort()


def draw_full(plan: Plan, random: Random) -> None:
    """Beside all else disks are full for a while: one, or several at once, of whoever leads too."""
    hosts = plan.members + plan.spares
    for _ in range(random.choice((1, 3, 6))):
        host = random.choice((LEADER, *hosts, *hosts))
        plan.faults.append(Fault(random.uniform(0.5, plan.seconds), "full", host, (random.choice((0.3, 2.0, 12.0)),)))
    plan.faults.sort()


def draw_damaged(plan: Plan, random: Random) -> None:
    """Beside all else writes are torn where power is lost, and the last write on a disk is damaged: of some host, or of one of two that end
    together, while a third that was away comes back before the other one."""
    plan.damaged = True
    hosts = plan.members
    for _ in range(random.choice((1, 3, 6))):
        time = random.uniform(0.5, plan.seconds)
        if random.random() < 0.5:
            host = random.choice((LEADER, *hosts))
            plan.faults.append(Fault(time, "damage", host, (random.choice((0.05, 0.5, 3.0)),)))
            continue
        away, other, damaged = random.sample(hosts, 3)
        plan.faults += [
            Fault(time - random.uniform(0.05, 0.5), "crash", away, (random.uniform(0.6, 1.5),)),
            Fault(time, "damage", random.choice((LEADER, damaged)), (random.choice((0.05, 0.5, 3.0)),)),
            Fault(time + random.choice((0.0, 0.05, 0.5)), "crash", other, (random.uniform(3.0, 10.0),)),
        ]
    plan.faults.sort()


def draw_alone(kind: str, plan: Plan, random: Random) -> None:
    """One kind of fault, which takes its time, and nothing else."""
    hosts = plan.members
    time = random.uniform(1.0, 3.0)
    plan.seconds = 30.0
    while time < plan.seconds - 6.0:
        plan.faults += DRAWN[kind](random, time, kind, random.choice(hosts), hosts)
        time += random.uniform(6.0, 16.0)
    plan.faults.sort()


def draw_faults(plan: Plan, random: Random) -> None:
    """Bursts of faults, of a few kinds in each run, so that those that work together meet."""
    hosts = plan.members + plan.spares
    kinds = random.sample(list(DRAWN), random.choice((2, 3, 5, len(DRAWN))))
    time = random.uniform(0.5, 3.0)
    while time < plan.seconds:
        for _ in range(random.choice((1, 1, 2, 3))):
            host = random.choice((LEADER, *hosts))
            kind = random.choice(kinds)
            plan.faults += DRAWN[kind](
                random, time + random.random() * random.choice((0.01, 0.3, 1.0)), kind, host, hosts
            )
        time += random.choice((0.1, 0.6, 1.5, 4.0)) * (0.5 + random.random())
    plan.faults.sort()


def _crash(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    return [Fault(time, kind, host, (random.choice((0.05, 0.3, 1.0, 3.0, 8.0)) * (0.5 + random.random()),))]


def _power(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    down = random.choice((0.1, 1.0, 4.0))
    some = hosts if random.random() < 0.4 else tuple(random.sample(hosts, random.randint(1, len(hosts))))
    order = random.sample(some, len(some))
    return [Fault(time, kind, each, (down + index * random.choice((0.0, 0.5)),)) for index, each in enumerate(order)]


def _step(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    some = (host,) if random.random() < 0.4 else hosts
    step, left, power = random.choice(STEPS), random.choice((0, 0, 1, 3)), random.random() < 0.5
    return [Fault(time, kind, each, (step, left, power)) for each in some]


def _partition(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    seconds = random.choice((0.2, 1.0, 2.5, 6.0, 12.0)) * (0.5 + random.random())
    shape = random.choice(("isolate", "isolate", "deaf", "mute", "halves", "halves", "one way", "pair", "ring", "any"))
    patience = random.choice((0.3, 1.5, 6.0))
    return [Fault(time, kind, host, (shape, seconds, patience, random.random()))]


def _pause(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    return [Fault(time, kind, host, (random.choice((0.5, 2.0, 4.0, 12.0, 30.0)) * (0.3 + 0.7 * random.random()),))]


def _clock(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    return [Fault(time, kind, host, (random.choice((0.4, 1.6, 20.0, 400.0)),))]


def _register(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    what = random.choice(("down", "lossy", "late", "cut off", "cut off"))
    return [Fault(time, kind, host, (what, random.choice((1.0, 4.0, 10.0)) * (0.5 + random.random())))]


def _slow_disk(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    return [Fault(time, kind, host, (random.choice((0.1, 0.4, 2.0)), random.choice((1.0, 5.0, 12.0))))]


def _flapping(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    times = range(random.choice((2, 4, 8)))
    return [Fault(time + index * 1.0, "partition", host, ("isolate", 0.5, 0.1, 0.0)) for index in times]


def _sides(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    """The leader is cut off until there is another, then that one is, before the first has given up; others may have started anew."""
    seconds = random.uniform(0.3, 1.2)
    faults = [
        Fault(time, "partition", LEADER, ("isolate", seconds, random.choice((0.02, 0.1)), 0.0)),
        Fault(time + seconds + 0.001, "partition", NEWEST, ("isolate", random.uniform(1.0, 5.0), 0.02, 0.0)),
    ]
    some = [each for each in hosts if random.random() < 0.5]
    return faults + [Fault(time + seconds * random.uniform(0.3, 1.0), "crash", each, (0.02,)) for each in some]


def _eight(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    """As in figure 8 of Raft's paper: a leader alone with records, another that ends behind its first, the former again, and its end."""
    seconds = random.uniform(0.8, 1.8)
    again = time + seconds + random.uniform(0.4, 2.2)
    return [
        Fault(time, "partition", LEADER, ("isolate", seconds, 0.02, 0.0)),
        Fault(time + 0.01, "step of others", FORMER, ("lead", 0, False, random.uniform(2.0, 4.0))),
        Fault(time + seconds + 0.05, "step of others", FORMER, ("synced", random.randint(0, 3), False, 0.5)),
        Fault(again, "crash", FORMER, (random.uniform(2.0, 5.0),)),
    ]


def _lag(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    """A follower is away for so long that the mode ``all`` goes on without it; when it is back, answers of the register are lost."""
    away = random.uniform(10.0, 13.0)
    return [
        Fault(time, "crash", random.choice(hosts), (away,)),
        Fault(time + away - random.choice((0.0, 2.5)), "register", host, ("lossy", 5.0)),
    ]


def _plain(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    return [Fault(time, kind, host, (random.random(),))]


DRAWN = {
    "crash": _crash,
    "power": _power,
    "step": _step,
    "partition": _partition,
    "pause": _pause,
    "clock": _clock,
    "register": _register,
    "slow disk": _slow_disk,
    "flapping": _flapping,
    "sides": _sides,
    "eight": _eight,
    "lag": _lag,
    "wipe": _plain,
    "restore": _plain,
    "stop": _plain,
    "join": _plain,
    "leave": _plain,
}


def _slow(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    """The register is slow, whoever leads is lost, and some do not reach one another: take-overs overtake one another."""
    seconds = random.uniform(4.0, 12.0)
    faults = [Fault(time, "register", host, ("slow", seconds))]
    for _ in range(random.randint(1, 3)):
        values = (random.choice(("isolate", "mute", "deaf")), random.uniform(2.0, 6.0), random.choice((0.02, 1.5)), 0.0)
        faults.append(
            Fault(time + random.uniform(0.0, seconds / 2), "partition", random.choice((LEADER, NEWEST)), values)
        )
    for _ in range(random.randint(0, 6)):
        values = ("pair", random.uniform(0.3, 2.0), 6.0, 0.0)
        faults.append(Fault(time + random.uniform(1.0, seconds), "partition", random.choice(hosts), values))
    return faults


def _reset(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    times = range(random.choice((1, 1, 3, 10)))
    gap = random.choice((0.02, 0.3, 1.0))
    return [Fault(time + index * gap * random.random(), "reset", host, (0.0,)) for index in times]


def _flap(random: Random, time: float, kind: str, host: str, hosts: tuple[str, ...]) -> list[Fault]:
    shape = random.choice(("deaf", "mute", "pair", "one way", "any"))
    period = random.choice((0.3, 1.0, 2.5))
    patience = random.choice((0.1, 6.0))
    drawn = random.random()
    times = range(random.choice((2, 5, 10)))
    return [Fault(time + index * period, "partition", host, (shape, period / 2, patience, drawn)) for index in times]


MORE = {"slow": _slow, "reset": _reset, "flap": _flap}
