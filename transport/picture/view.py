"""What one who looks sees: some of the queues in an order, the totals of all, and of one queue who sends and who receives."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import TYPE_CHECKING, Any, Final, Protocol

from transport.errors import RemoteProtocolError
from transport.picture.ordered import ORDERS
from transport.picture.pressure import Party, pressure_of
from transport.wire.messages import brief

if TYPE_CHECKING:
    from actors import QueueDirectory
    from actors.queue.vocabulary.replies import QueueStatistics
    from transport.picture.sampler import Moment, Sample, Sampler

DEFAULT_ROWS: Final = 50
MOST_ROWS: Final = 200
"""Queues of one picture."""
MOST_BEFORE: Final = 1_000
"""How far down in the order a picture can begin; who wants to see others filters by name."""
MOST_FILTER: Final = 255
"""Characters of a filter, as many as a name may have."""
MOST_PARTIES: Final = 100
"""Senders and receivers of one queue that are shown each; of all others their number is told."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What one wants to see.

    Attributes:
        order: one of `ORDERS`.
        contains: only queues whose name has this in it.
        limit: so many of them at most, up to `MOST_ROWS`.
        start: how many to pass over, up to `MOST_BEFORE`.
        queue: of which to show who sends and receives; None for none.
        journal: whether to show the journal's figures.

    Raises:
        RemoteProtocolError: a value that cannot be.
    """

    order: str = "pressure"
    contains: str = ""
    limit: int = DEFAULT_ROWS
    start: int = 0
    queue: str | None = None
    journal: bool = False

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise RemoteProtocolError(f"the order {self.order!r:.40} is unknown; there are {', '.join(ORDERS)}")
        if not 1 <= self.limit <= MOST_ROWS:
            raise RemoteProtocolError(f"limit is {self.limit}; a picture has 1 to {MOST_ROWS} queues")
        if not 0 <= self.start <= MOST_BEFORE:
            raise RemoteProtocolError(
                f"start is {self.start}, {MOST_BEFORE} is the most: narrow it down by a filter instead"
            )
        if len(self.contains) > MOST_FILTER:
            raise RemoteProtocolError(f"contains has {len(self.contains)} characters, {MOST_FILTER} are the most")


def asked_of(arguments: Mapping[str, Any]) -> Asked:
    """What the arguments of the command ``picture`` ask for: ``order``, ``contains``, ``limit``, ``start``, ``queue`` and ``journal``.

    Raises:
        RemoteProtocolError: one that cannot be.
    """
    given: dict[str, Any] = {}
    for name, kind in (
        ("order", str),
        ("contains", str),
        ("limit", int),
        ("start", int),
        ("queue", str),
        ("journal", bool),
    ):
        value = arguments.get(name)
        if value is None:
            continue
        if type(value) is not kind:
            raise RemoteProtocolError(f"the argument {name} must be {_KINDS[kind]}, not {brief(value)}")
        given[name] = value
    return Asked(**given)


_KINDS: Final = {str: "a text", int: "a whole number", bool: "true or false"}


class Connected(Protocol):
    """A connection of the broker, as it is shown."""

    number: int
    role: str | None
    queue: str | None
    client_id: str | None
    actor: Any
    connection: Any


class View:
    """What one who looks sees, over and over; to be closed.

    Args:
        sampler: of the broker; it runs while this is open.
        queues: all of them.
        connections: those that stand, by number.

    Raises:
        LimitExceededError: as many look as may.
    """

    def __init__(self, sampler: Sampler, queues: QueueDirectory, connections: Mapping[int, Connected]) -> None:
        self._sampler = sampler
        self._look = sampler.look()
        self._queues = queues
        self._connections = connections
        # Of the parties of the queue that was shown before: in which round, when, and how many messages each had sent or got.
        self._counted: tuple[str | None, int, float, dict[Hashable, int]] = (None, 0, 0.0, {})
        self._rates_before: dict[Hashable, float] = {}

    async def next(self) -> bool:
        """Wait until there is more to see; False where there will not be, for the broker stops."""
        return await self._look.next()

    def close(self) -> None:
        """Look no more."""
        self._look.close()

    async def take(self, asked: Asked) -> dict[str, Any]:
        """What is asked for, as JSON has it; the samples of these queues are kept from then on.

        ``totals`` of the broker; ``matching``, how many queues there are with what is asked for in their name; ``queues``, rows in
        order; ``flow``, the queue that is asked for with its parties, or None; and ``journal``, its figures, None in memory or unasked.
        """
        sampler = self._sampler
        names, matching = await sampler.ordered.first(asked.order, asked.contains, asked.start + asked.limit)
        # In the same turn of the loop, all of it; what is gone by now is not shown.
        samples = sampler.samples
        rows = [row_of(samples[name], self._queues) for name in names[asked.start :] if name in samples]
        totals = sampler.ordered.totals()
        self._look.watch([row["name"] for row in rows] + ([] if asked.queue is None else [asked.queue]))
        return {
            "round": self._sampler.rounds,
            "totals": {**totals, "queues": len(samples), "connections": len(self._connections)},
            "matching": matching,
            "queues": rows,
            "flow": None if asked.queue is None else self.flow(asked.queue),
            "journal": self._queues.storage_statistics() if asked.journal else None,
        }

    def history(self, names: Sequence[str]) -> dict[str, list[Moment]]:
        """The samples that are kept of some queues: messages ready, in a second, out a second; the newest last."""
        return {name: self._sampler.history(name) for name in names}

    def flow(self, name: str) -> dict[str, Any] | None:
        """One queue with who sends to it and receives from it; None where there is none."""
        figures, sample = self._queues.read(name), self._sampler.samples.get(name)
        if figures is None or sample is None:
            return None
        there = self._parties(figures)
        named = [party for party, _ in there]
        pressure = sample.pressure
        if sample.judged is pressure.kind:
            # By name, where that says the same; else what holds over time.
            told = pressure_of(figures, self._queues.settings_of(name), 1 if sample.came or sample.went else 0, named)
            pressure = told if told.kind is pressure.kind else pressure
        keys = [facts.connection for facts in figures.connections]
        messages = {key: facts["messages"] for key, (_, facts) in zip(keys, there, strict=True)}
        rates = self._rates(name, messages)
        parties = [facts | {"rate": rates.get(key, 0.0)} for key, (_, facts) in zip(keys, there, strict=True)]
        senders = [facts for facts in parties if facts["role"] == "sender"]
        receivers = [facts for facts in parties if facts["role"] != "sender"]
        return {
            **row_of(sample, self._queues),
            "pressure": pressure.kind.value,
            "sentence": pressure.text,
            "senders": _busiest(senders),
            "receivers": _busiest(receivers),
            "all_senders": len(senders),
            "all_receivers": len(receivers),
        }

    # Inside

    def _parties(self, figures: QueueStatistics) -> list[tuple[Party, dict[str, Any]]]:
        """Who sends and receives, as the judgement has them and as they are shown."""
        by_actor = {each.actor: each for each in self._connections.values() if each.queue == figures.name}
        owned = {each.owner: each.name for each in figures.subscriptions if each.owned}
        found = []
        for facts in figures.connections:
            served = by_actor.get(facts.connection)
            name = "" if served is None else served.client_id or ""
            # A query is known by its name; what its owner calls itself is a host and a process.
            subscription = owned.get(name) if facts.role == "subscription" else None
            party = Party(facts.role, subscription or name, facts.demand, facts.in_flight, facts.waiting)
            shown = {
                "id": None if served is None else served.number,
                "role": facts.role,
                "client": name,
                "subscription": subscription,
                "peer": None if served is None or served.connection is None else served.connection.peer,
                "demand": facts.demand,
                "held": facts.in_flight,
                "waits": facts.waiting,
                "messages": facts.messages,
            }
            found.append((party, shown))
        return found

    def _rates(self, name: str, counts: dict[Hashable, int]) -> dict[Hashable, float]:
        """Messages a second of each party since this was shown before."""
        before, shown_in, then, old = self._counted
        now, this = asyncio.get_running_loop().time(), self._sampler.rounds
        if before == name and (this == shown_in or now <= then):
            return self._rates_before
        known = old if before == name else {}
        self._rates_before = {
            key: round(max(0, count - known[key]) / (now - then), 2) for key, count in counts.items() if key in known
        }
        self._counted = (name, this, now, counts)
        return self._rates_before


def row_of(sample: Sample, queues: QueueDirectory) -> dict[str, Any]:
    """A queue as it is shown in a list."""
    figures = sample.figures
    settings = queues.settings_of(figures.name)
    return {
        "name": figures.name,
        "ready": figures.ready,
        "held": figures.in_flight + figures.reserved,
        "delayed": figures.delayed,
        "granted": figures.capacity_granted,
        "wanted": figures.demand_waiting,
        "stored_messages": figures.stored_messages,
        "stored_bytes": figures.stored_bytes,
        "max_messages": settings.max_messages,
        "max_bytes": settings.max_bytes,
        "came": round(sample.came, 2),
        "went": round(sample.went, 2),
        "acknowledged": round(sample.acknowledged, 2),
        "attached_senders": figures.attached_senders,
        "attached_receivers": figures.attached_receivers,
        "waiting_senders": figures.waiting_senders,
        "oldest_ms": figures.oldest_ms,
        "pressure": sample.pressure.kind.value,
        "sentence": sample.pressure.text,
    }


def _busiest(parties: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return nlargest(MOST_PARTIES, parties, key=lambda each: (each["waits"], each["rate"], each["held"]))
