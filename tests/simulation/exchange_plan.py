"""What a seed means for exchanges: which there are, who publishes to them, and what is declared, bound and deleted meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, NamedTuple

from actors import QueueSettings
from tests.simulation.checker import QueueRules

EXCHANGES_CHANCE: Final = 0.25
"""That a run of everything has exchanges; ``--exchanges`` has nothing else."""
KEYS: Final = ("eu.tea", "eu.soup", "us.tea", "us.soup.hot", "none")
PATTERNS: Final = ("#", "eu.*", "*.tea", "us.#", "eu.tea")
KINDS: Final = ("tea", "soup", "fish")
SIZES: Final = ("l", "xl")
MATCHES: Final = ("all", "any", None)
MAX_PUBLISHED: Final = 160
"""Messages of one publisher."""
ALWAYS: Final = ("x-0", "x-1", "x-2", "x-3")
"""The queues that nobody deletes;"""
BRIEFLY: Final = ("x-brief", "x-short")
"""and those that come and go."""
DEFAULT: Final = ""
ALTERNATE: Final = "rest"
INNER: Final = "inner"
PASSING: Final = "passing"
"""The exchange that comes and goes."""


class Bound(NamedTuple):
    """A binding, as commands name it."""

    source: str
    destination: str
    to_exchange: bool = False
    key: str = ""
    arguments: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ExchangePlan:
    """One exchange; of one that is ``delayed`` the kind is the inner one."""

    name: str
    kind: str
    durable: bool = True
    internal: bool = False
    auto_delete: bool = False
    alternate: str | None = None
    delayed: bool = False


@dataclass(frozen=True, slots=True)
class PublisherPlan:
    """One program that publishes.

    Attributes:
        exchange: where to.
        named: whether it has a client id of its own, which its next life has too.
        total: messages that it publishes in all its lives.
        largest_batch: messages in one batch, at most.
        largest_payload: bytes of one message, at most.
        pause: mean seconds between batches.
        max_in_flight: as the sender's.
        mandatory: whether it is told of what no queue takes.
        routing_key: of all that has no key of its own; None where each message has one.
        keys: those that its messages have.
        waits: the milliseconds that its messages say that they wait, each one of these; empty where none says anything.
        delay: seconds that its sender says for all of them; None where it does not.
    """

    name: str
    exchange: str
    named: bool
    total: int
    largest_batch: int
    largest_payload: int
    pause: float
    max_in_flight: int
    mandatory: bool
    routing_key: str | None
    keys: tuple[str, ...]
    waits: tuple[int, ...] = ()
    delay: float | None = None


@dataclass(frozen=True, slots=True)
class DefinerPlan:
    """One program that declares, binds, unbinds and deletes what is its own, again and again.

    Attributes:
        bindings: its own; nobody else makes or removes them, but who deletes what is at an end of them.
        queues: its own.
        exchanges: its own.
        pause: mean seconds between two commands.
    """

    name: str
    bindings: tuple[Bound, ...]
    queues: tuple[str, ...]
    exchanges: tuple[ExchangePlan, ...]
    pause: float


@dataclass(frozen=True, slots=True)
class ExchangesPlan:
    """All of it.

    Attributes:
        exchanges: those that are there from the beginning, and stay.
        bindings: likewise.
        queues: the queues that stay, with what the checker is to hold them to.
        briefly: those that come and go.
        passing: the exchange that does.
        publishers: who publishes.
        definers: who changes where to.
    """

    exchanges: tuple[ExchangePlan, ...]
    bindings: tuple[Bound, ...]
    queues: tuple[tuple[str, QueueSettings, QueueRules], ...]
    briefly: tuple[str, ...]
    passing: ExchangePlan
    publishers: tuple[PublisherPlan, ...]
    definers: tuple[DefinerPlan, ...]

    @property
    def known(self) -> dict[str, ExchangePlan]:
        """Every exchange by its name."""
        return {each.name: each for each in (*self.exchanges, self.passing)}

    @property
    def delayed(self) -> bool:
        """Whether messages may wait at one."""
        return any(each.delayed for each in self.exchanges)


def draw_exchanges(seed: int) -> ExchangesPlan:
    """Of a seed."""
    random = Random(f"exchanges {seed}")
    exchanges = (
        ExchangePlan("direct", "direct"),
        ExchangePlan("fanout", "fanout"),
        ExchangePlan("topic", "topic", alternate=random.choice((None, ALTERNATE))),
        ExchangePlan("headers", "headers"),
        ExchangePlan(INNER, "topic", internal=True),
        ExchangePlan(ALTERNATE, "fanout"),
    )
    passing = ExchangePlan(
        PASSING, random.choice(("fanout", "topic")), durable=random.random() < 0.7, auto_delete=random.random() < 0.2
    )
    names = [each.name for each in exchanges if each.name != ALTERNATE]
    bindings = dict.fromkeys(_binding(random, random.choice(names), ALWAYS) for _ in range(random.randint(3, 8)))
    # From exchange to exchange, and in half of the runs in a circle.
    bindings |= {Bound(random.choice(("direct", "topic", "fanout")), INNER, True, random.choice(KEYS)): None}
    if random.random() < 0.5:
        bindings |= {Bound(INNER, "fanout", True, "#"): None}
    bindings |= {Bound(ALTERNATE, random.choice(ALWAYS)): None}
    briefly = BRIEFLY[: random.choice((0, 1, 1, 2))]
    return ExchangesPlan(
        exchanges,
        tuple(bindings),
        tuple(_queue(random, name) for name in ALWAYS),
        briefly,
        passing,
        tuple(_publisher(random, f"publisher-{each}", briefly) for each in range(random.randint(2, 6))),
        tuple(_definers(random, names, briefly, passing, list(bindings))),
    )


def _binding(random: Random, source: str, queues: Sequence[str]) -> Bound:
    destination = random.choice(queues)
    if source == "headers":
        wanted = {"kind": random.choice(KINDS)} | random.choice(({}, {"size": random.choice(SIZES)}))
        match = random.choice(MATCHES)
        return Bound(
            source, destination, False, "", (*sorted((wanted | ({"x-match": match} if match else {})).items()),)
        )
    if source == "fanout":
        return Bound(source, destination)
    return Bound(source, destination, False, random.choice(KEYS if source == "direct" else PATTERNS))


def _queue(random: Random, name: str) -> tuple[str, QueueSettings, QueueRules]:
    settings = QueueSettings(
        max_messages=random.choice((20, 200, 1_000_000, 1_000_000)),
        max_bytes=random.choice((40_000, 64 * 1024 * 1024, 64 * 1024 * 1024)),
        visibility_timeout=random.choice((2.0, 10.0)),
        exclusive=random.random() < 0.15,
        ttl=random.choice((0.5, 5.0)) if random.random() < 0.15 else None,
        delay=1.5 if random.random() < 0.1 else 0.0,
    )
    rules = QueueRules(
        settings.visibility_timeout,
        settings.delay,
        settings.ttl,
        in_order=settings.exclusive,
        drops=settings.ttl is not None,
    )
    return name, settings, rules


def _publisher(random: Random, name: str, briefly: tuple[str, ...]) -> PublisherPlan:
    exchange = random.choice(("direct", "fanout", "topic", "headers", "topic", DEFAULT))
    keys = (*ALWAYS, *briefly, "nowhere") if exchange == DEFAULT else KEYS
    keys = tuple(random.sample(keys, random.choice((1, 2, len(keys)))))
    common = random.random() < 0.4
    return PublisherPlan(
        name,
        exchange,
        named=random.random() < 0.6,
        total=random.randint(1, MAX_PUBLISHED),
        largest_batch=random.choice((1, 5, 40)),
        largest_payload=random.choice((24, 200, 2_000)),
        pause=random.choice((0.0, 0.02, 0.2)),
        max_in_flight=random.choice((1, 20, 65_536)),
        mandatory=random.random() < 0.4,
        routing_key=keys[0] if common else None,
        keys=keys,
    )


def _definers(
    random: Random, names: list[str], briefly: tuple[str, ...], passing: ExchangePlan, taken: list[Bound]
) -> list[DefinerPlan]:
    owned: list[list[Any]] = [[[], [], []] for _ in range(random.choice((0, 1, 2, 2)))]
    if not owned:
        return []
    bindings = dict.fromkeys(
        _binding(random, random.choice((*names, ALTERNATE)), (*ALWAYS, *briefly, *briefly))
        for _ in range(random.randint(1, 5))
    )
    bindings |= {Bound(random.choice(("direct", "topic")), PASSING, True, random.choice(KEYS)): None}
    bindings |= {Bound(PASSING, random.choice((*ALWAYS, *briefly)), False, random.choice(PATTERNS)): None}
    for each in bindings:
        if each not in taken:
            random.choice(owned)[0].append(each)
    for queue in briefly:
        random.choice(owned)[1].append(queue)
    random.choice(owned)[2].append(passing)
    pause = random.choice((0.02, 0.3, 2.0))
    return [
        DefinerPlan(f"definer-{number}", tuple(bound), tuple(queues), tuple(exchanges), pause)
        for number, (bound, queues, exchanges) in enumerate(owned)
    ]
