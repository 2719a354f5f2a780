"""What a seed means for an exchange at which messages wait: who publishes to it, and what is bound to it. Drawn apart from all else."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from actors.exchanges.delayed import DELAY
from tests.simulation.exchange_plan import (
    ALTERNATE,
    ALWAYS,
    INNER,
    KEYS,
    PATTERNS,
    Bound,
    ExchangePlan,
    ExchangesPlan,
    PublisherPlan,
)

DELAYED_CHANCE: Final = 0.5
"""That a run with exchanges has it."""
LATER: Final = "later"
"""The exchange."""
WAITS: Final = ((0, 50, 3_000), (200,), (0, 1_000), (20, 400, 6_000))
"""Milliseconds that messages of one publisher wait, each of these one of them."""
DELAYS: Final = (None, None, None, 0.3)
"""Seconds that its sender says for all of them, which goes before that."""
MAX_PUBLISHED_LATER: Final = 100


def with_delayed(seed: int, exchanges: ExchangesPlan) -> ExchangesPlan:
    """The same, with an exchange at which messages wait where that is drawn."""
    random = Random(f"delayed exchanges {seed}")
    if random.random() >= DELAYED_CHANCE:
        return exchanges
    kind = random.choice(("topic", "topic", "fanout", "direct"))
    alternate = random.choice((None, None, ALTERNATE))
    bindings = dict.fromkeys(_binding(random, kind, ALWAYS) for _ in range(random.randint(1, 3)))
    if random.random() < 0.3:
        bindings[Bound(LATER, INNER, True, _key(random, kind))] = None
    brief = (*ALWAYS, *exchanges.briefly)
    changing = dict.fromkeys(_binding(random, kind, brief) for _ in range(random.randint(1, 4)))
    definers = list(exchanges.definers)
    for each in changing:
        if definers and each not in bindings:
            at = random.randrange(len(definers))
            definers[at] = replace(definers[at], bindings=(*definers[at].bindings, each))
    return replace(
        exchanges,
        exchanges=(*exchanges.exchanges, ExchangePlan(LATER, kind, alternate=alternate, delayed=True)),
        bindings=(*exchanges.bindings, *bindings),
        publishers=(
            *exchanges.publishers,
            *(_publisher(random, f"later-{each}") for each in range(random.randint(1, 3))),
        ),
        definers=tuple(definers),
    )


def _key(random: Random, kind: str) -> str:
    return "" if kind == "fanout" else random.choice(KEYS if kind == "direct" else PATTERNS)


def _binding(random: Random, kind: str, queues: tuple[str, ...]) -> Bound:
    return Bound(LATER, random.choice(queues), False, _key(random, kind))


def _publisher(random: Random, name: str) -> PublisherPlan:
    return PublisherPlan(
        name,
        LATER,
        named=random.random() < 0.6,
        total=random.randint(1, MAX_PUBLISHED_LATER),
        largest_batch=random.choice((1, 5, 40)),
        largest_payload=random.choice((24, 200, 2_000)),
        pause=random.choice((0.0, 0.02, 0.2)),
        max_in_flight=random.choice((1, 20, 65_536)),
        mandatory=False,
        routing_key=None,
        keys=tuple(random.sample(KEYS, random.choice((1, 2, len(KEYS))))),
        waits=random.choice(WAITS),
        delay=random.choice(DELAYS),
    )


def wait_in(exchange: str, headers: dict[str, str]) -> float:
    """Seconds that a message waits that was published so; 0 where it does not."""
    return int(headers.get(DELAY, "0")) / 1000 if exchange == LATER else 0.0
