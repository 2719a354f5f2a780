"""What a seed means: which queues, clients and faults a run has. Nearly everything is drawn before it starts."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from actors import QueueSettings
from tests.simulation.checker import QueueRules
from tests.simulation.delayed_plan import with_delayed
from tests.simulation.exchange_plan import EXCHANGES_CHANCE, ExchangesPlan, draw_exchanges
from tests.simulation.programs import (
    ConsumerPlan,
    FaultPlan,
    MoverPlan,
    Plan,
    ProducerPlan,
    QueuePlan,
    TakerPlan,
    WriterPlan,
)
from tests.simulation.said_plan import draw_said, say, stage
from tests.simulation.task_plan import TASK_FEATURES, draw_tasks

__all__ = [
    "FEATURES",
    "FEATURE_CHANCE",
    "QUEUE_FEATURES",
    "VISIBILITIES",
    "ConsumerPlan",
    "FaultPlan",
    "MoverPlan",
    "Plan",
    "ProducerPlan",
    "QueuePlan",
    "TakerPlan",
    "WriterPlan",
    "draw",
    "draw_exchanges_alone",
]

QUEUE_FEATURES: Final = frozenset({"reject", "exclusive", "delay", "ttl", "dead letters"})
"""What queues may be declared to do beyond limits and timeouts."""
FEATURES: Final = (
    QUEUE_FEATURES
    | TASK_FEATURES
    | {"transactions", "map", "moves", "takes", "exchanges", "single", "priorities"}
    | {"groups", "ids", "delayed exchanges"}
)
"""With what programs, and gateways in the broker, may do beyond sending and receiving."""
FEATURE_CHANCE: Final = 0.15
"""Each feature's, in each queue: most runs have one or two, and some queues have none."""
MOVES_CHANCE: Final = 0.3
"""That a run has programs that move messages."""
VISIBILITIES: Final = (0.5, 2.0, 10.0)
"""Seconds, of queues."""
TAKES_CHANCE: Final = 0.4
"""That a run has callers that take by request."""
PRIORITIES: Final = (-1, 1, 1, 7)
"""Of consumers, where they have one."""
MAX_PRODUCED = 240
"""Messages of one producer: enough for a queue of the smallest limits to fill and reopen several times."""


def draw(seed: int, durable: bool, features: frozenset[str] = FEATURES) -> Plan:
    """The plan of a seed."""
    random = Random(f"plan {seed}")
    consumers: list[ConsumerPlan] = []
    producers: list[ProducerPlan] = []
    queues: list[QueuePlan] = []
    for index in range(random.randint(1, 3)):
        name = f"queue-{index}"
        settings = _settings(random, features)
        queues += _queues(name, settings, features)
        consumers += [_consumer(random, f"{name}-consumer-{each}", name) for each in range(random.randint(0, 3))]
        producers += [
            _producer(random, f"{name}-producer-{each}", name, settings, features)
            for each in range(random.randint(1, 3))
        ]
    # Drawn apart from the rest, which is what it was before there were transactions.
    apart = Random(f"writers {seed}")
    names = sorted({producer.queue for producer in producers})
    count = apart.randint(0, 2) if "transactions" in features else 0
    writers = tuple(_writer(apart, f"writer-{each}", names) for each in range(count))
    timed = any(queue.settings.delay or queue.settings.ttl for queue in queues)
    timed = timed or any(producer.delay or producer.ttl for producer in producers)
    # Apart as well, and last: a mover's queue has neither producers nor consumers of its own.
    movers = _movers(Random(f"movers {seed}"), names) if "moves" in features else ()
    queues = [_moved_from(queue) if queue.name in {each.source for each in movers} else queue for queue in queues]
    queues += [_target(Random(f"target {seed} {each.name}"), each) for each in movers]
    takes = Random(f"takes {seed}")
    takers = _takers(takes, names) if "takes" in features else ()
    busy = {consumer.queue for consumer in consumers}
    queues = [_taken_from(queue, takers, busy) for queue in queues]
    # Apart as well: the rest is what it was before receivers were told apart.
    who = Random(f"who receives {seed}")
    queues = [_single(who, queue, features) if queue.name in names else queue for queue in queues]
    consumers = [_ranked(who, consumer, features) for consumer in consumers]
    tasks = draw_tasks(seed, durable, features, queues, producers, consumers, takers)
    queues, producers, consumers = tasks.queues, tasks.producers, tasks.consumers
    timed = timed or tasks.timed
    # Behind all that a queue is declared with: what has groups, or looks at ids, cannot have everything else.
    # Windows, and waits at an exchange, are of the time of day: not where somebody turns that on.
    lasting = features if tasks.leaps is None else features - {"ids", "delayed exchanges"}
    queues, said = draw_said(seed, queues, names, lasting)
    producers, writers = say(producers, said), stage(writers, said, queues)
    timed = timed or any(queue.settings.deduplication_window for queue in queues)
    exchanges = None
    if "exchanges" in features and Random(f"any exchanges {seed}").random() < EXCHANGES_CHANCE:
        exchanges = _exchanges(seed, lasting)
        own, takes_from = _of_exchanges(seed, exchanges)
        queues, consumers = [*queues, *own], [*consumers, *takes_from]
        timed = timed or exchanges.delayed or any(queue.settings.delay or queue.settings.ttl for queue in own)
    return Plan(
        seed,
        tuple(queues),
        tuple(producers),
        tuple(consumers),
        _faults(random, durable, timed),
        heartbeat=random.choice((0.5, 1.0, 3.0)),
        commit_delay=random.choice((0.0, 0.001, 0.02, 0.2)),
        durable=durable,
        writers=writers,
        movers=movers,
        transaction_timeout=apart.choice((15.0, 3600.0)),
        rush=apart.choice((0.0, 0.1, 0.2, 0.5)),
        pause=apart.choice((0.0, 0.1, 0.3)),
        takers=takers,
        deletes=takes.choice((None, 0.3, 3.0)) if takers else None,
        remembers=Random(f"map {seed}").choice((None, 0.05, 0.5)) if "map" in features else None,
        exchanges=exchanges,
        leaps=tasks.leaps,
    )


def draw_exchanges_alone(seed: int, durable: bool = True) -> Plan:
    """A plan of a seed that has nothing but what has to do with exchanges."""
    random = Random(f"exchanges alone {seed}")
    exchanges = _exchanges(seed, FEATURES)
    queues, consumers = _of_exchanges(seed, exchanges)
    timed = exchanges.delayed or any(queue.settings.delay or queue.settings.ttl for queue in queues)
    return Plan(
        seed,
        tuple(queues),
        (),
        tuple(consumers),
        _faults(random, durable, timed),
        heartbeat=random.choice((0.5, 1.0, 3.0)),
        commit_delay=random.choice((0.0, 0.001, 0.02, 0.2)),
        durable=durable,
        rush=random.choice((0.0, 0.1, 0.2, 0.5)),
        pause=random.choice((0.0, 0.1, 0.3)),
        exchanges=exchanges,
    )


def _exchanges(seed: int, features: frozenset[str]) -> ExchangesPlan:
    found = draw_exchanges(seed)
    return with_delayed(seed, found) if "delayed exchanges" in features else found


def _of_exchanges(seed: int, exchanges: ExchangesPlan) -> tuple[list[QueuePlan], list[ConsumerPlan]]:
    """The queues that stay, and who takes from these and from those that do not."""
    random = Random(f"consumers of exchanges {seed}")
    queues = [QueuePlan(name, settings, rules) for name, settings, rules in exchanges.queues]
    names = [*(queue.name for queue in queues), *exchanges.briefly]
    return queues, [
        _consumer(random, f"{name}-consumer-{each}", name) for name in names for each in range(random.randint(0, 2))
    ]


def _settings(random: Random, features: frozenset[str]) -> QueueSettings:
    drawn = {name: random.random() < FEATURE_CHANCE for name in sorted(QUEUE_FEATURES)}
    has = {name: chosen and name in features for name, chosen in drawn.items()}
    return QueueSettings(
        max_messages=random.choice((8, 60, 500, 1_000_000)),
        max_bytes=random.choice((20_000, 400_000, 64 * 1024 * 1024)),
        visibility_timeout=random.choice(VISIBILITIES),
        overflow="reject" if has["reject"] else "block",
        exclusive=has["exclusive"],
        delay=random.choice((0.2, 3.0)) if has["delay"] else 0.0,
        ttl=random.choice((0.5, 5.0)) if has["ttl"] else None,
        max_receives=random.randint(1, 4) if has["dead letters"] else None,
    )


def _single(random: Random, queue: QueuePlan, features: frozenset[str]) -> QueuePlan:
    """The same, with a single active consumer where that is drawn."""
    if random.random() >= FEATURE_CHANCE or queue.settings.exclusive or "single" not in features:
        return queue
    settings = replace(queue.settings, single_active_consumer=True)
    return replace(queue, settings=settings, rules=replace(queue.rules, single=True))


def _ranked(random: Random, consumer: ConsumerPlan, features: frozenset[str]) -> ConsumerPlan:
    """The same, with a priority where that is drawn."""
    drawn, priority = random.random() < 2 * FEATURE_CHANCE, random.choice(PRIORITIES)
    return replace(consumer, priority=priority) if drawn and "priorities" in features else consumer


def _queues(name: str, settings: QueueSettings, features: frozenset[str]) -> list[QueuePlan]:
    """The queue, and its dead-letter queue if it has one."""
    rules = QueueRules(
        settings.visibility_timeout,
        settings.delay,
        settings.ttl,
        in_order=settings.exclusive,
        drops=settings.max_receives is not None or "ttl" in features,
    )
    plans = [QueuePlan(name, settings, rules)]
    if settings.max_receives is not None:
        dead = QueueSettings()
        plans.append(QueuePlan(f"{name}.dead", dead, QueueRules(dead.visibility_timeout, fed_by=(name,))))
    return plans


def _producer(random: Random, name: str, queue: str, settings: QueueSettings, features: frozenset[str]) -> ProducerPlan:
    plan = ProducerPlan(
        name,
        queue,
        named=random.random() < 0.6,
        total=random.randint(1, MAX_PRODUCED),
        largest_batch=random.choice((1, 5, 50)),
        largest_payload=random.choice((24, 200, 3_000)),
        pause=random.choice((0.0, 0.02, 0.3)),
        max_in_flight=random.choice((1, 20, 65_536)),
        drops=settings.overflow == "reject",
    )
    delay, ttl = random.choice((None, None, 0.0, 1.5)), random.choice((None, None, None, 2.0))
    if random.random() < FEATURE_CHANCE:
        return replace(plan, delay=delay if "delay" in features else None, ttl=ttl if "ttl" in features else None)
    return plan


def _writer(random: Random, name: str, queues: list[str]) -> WriterPlan:
    return WriterPlan(
        name,
        tuple(sorted(random.sample(queues, random.randint(1, len(queues))))),
        versions=random.randint(1, 12),
        tasks=random.randint(1, 3),
        largest_stage=random.choice((3, 40)),
        largest_payload=random.choice((24, 200, 3_000)),
        fails=random.choice((0.0, 0.3)),
        lingers=random.choice((0.0, 0.5)),
        aborts=random.choice((0.0, 0.1)),
        pause=random.choice((0.0, 0.02, 0.1)),
    )


def _movers(random: Random, names: list[str]) -> tuple[MoverPlan, ...]:
    if random.random() >= MOVES_CHANCE:
        return ()
    source = random.choice(names)
    return tuple(
        MoverPlan(
            f"{source}-mover-{each}",
            source,
            f"{source}.moved-{each}",
            largest_move=random.choice((1, 20, 1_000)),
            pause=random.choice((0.02, 0.3, 2.0)),
        )
        for each in range(random.randint(1, 2))
    )


def _moved_from(queue: QueuePlan) -> QueuePlan:
    return replace(queue, rules=replace(queue.rules, drops=True, moves=True))


def _target(random: Random, mover: MoverPlan) -> QueuePlan:
    """Where a mover moves to: small enough to be full now and then, for nobody takes anything out before the end."""
    settings = QueueSettings(max_messages=random.choice((8, 60, 1_000_000)))
    return QueuePlan(mover.target, settings, QueueRules(settings.visibility_timeout, fed_by=(mover.source,)))


def _takers(random: Random, names: list[str]) -> tuple[TakerPlan, ...]:
    if random.random() >= TAKES_CHANCE:
        return ()
    return tuple(_taker(random, name) for name in random.sample(names, random.randint(1, len(names))))


def _taker(random: Random, queue: str) -> TakerPlan:
    return TakerPlan(
        queue,
        callers=random.randint(1, 6),
        largest_take=random.choice((1, 10, 100)),
        wait=random.choice((0.0, 1.0, 20.0)),
        leaves=random.choice((0.0, 0.3)),
        unseen=random.choice((0.0, 0.2)),
        late=random.choice((0.0, 0.3)),
        forgotten=random.choice((0.0, 0.05)),
        returned=random.choice((0.0, 0.15)),
        extended=random.choice((0.0, 0.1)),
        twice=random.choice((0.0, 0.2)),
        pause=random.choice((0.02, 0.3)),
        alters=random.choice((None, 1.0)),
    )


def _taken_from(queue: QueuePlan, takers: tuple[TakerPlan, ...], busy: set[str]) -> QueuePlan:
    """What the checker holds a queue to that is taken from: others alter it, and may be the only ones to get anything."""
    of = next((taker for taker in takers if taker.queue == queue.name), None)
    if of is None:
        return queue
    rules = replace(queue.rules, taken_only=queue.name not in busy)
    if of.alters is not None:
        own = queue.rules.visibility
        rules = replace(rules, visibility=min(own, *VISIBILITIES), longest=max(own, *VISIBILITIES))
    return replace(queue, rules=rules)


def _consumer(random: Random, name: str, queue: str) -> ConsumerPlan:
    careless = random.random() < 0.5
    return ConsumerPlan(
        name,
        queue,
        max_in_flight=random.choice((1, 10, 100, 1_000)),
        late=random.choice((0.0, 0.3)),
        returned=random.choice((0.0, 0.1)) if careless else 0.0,
        forgotten=random.choice((0.0, 0.05)) if careless else 0.0,
        extended=random.choice((0.0, 0.1)),
        stays=random.choice((1.0, 8.0, 60.0)),
    )


def _faults(random: Random, durable: bool, timed: bool) -> FaultPlan:
    weights = {
        kind: random.choice((0.0, 1.0, 3.0))
        for kind in ("cut", "mute", "isolate", "kill client", "power off client", "wall clock")
    }
    if timed:
        # Over a restart delays and times to live are kept by the wall clock, the only one there is: they are as right as it is.
        weights["wall clock"] = 0.0
    if durable:
        for kind in ("kill broker", "power off broker", "stop broker", "isolate broker"):
            weights[kind] = random.choice((0.0, 1.0))
    return FaultPlan(interval=random.choice((0.05, 0.5, 3.0)), weights=weights, until=random.choice((2.0, 10.0, 30.0)))
