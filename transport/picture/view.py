"""What one who looks sees: some of the queues in an order, the totals of all, and of one queue who sends and who receives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from actors.queue.operations.browsing import IN_LINE
from transport.errors import RemoteProtocolError
from transport.picture.clustered import in_brief
from transport.picture.ordered import ORDERS
from transport.picture.pressure import Party, pressure_of
from transport.picture.slices import Slices
from transport.wire.messages import brief

if TYPE_CHECKING:
    from actors import QueueDirectory
    from actors.queue.vocabulary.statistics import ConnectionStatistics
    from transport.picture.metrics import Standing
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
MOST_JUDGED: Final = 1_000
"""Of more parties the sentence says how many there are, and not which of them are slow."""
CHUNK: Final = 500
"""Connections that are looked through at once;"""
PARTIES_AT_ONCE: Final = 50
"""and senders and receivers of a queue: less than a millisecond's work."""
T = TypeVar("T")


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
    receivers: Mapping[str, Collection[Any]]


class View:
    """What one who looks sees, over and over; to be closed.

    Args:
        sampler: of the broker; it runs while this is open.
        queues: all of them.
        connections: those that stand, by number.
        cluster: the node that the broker is a part of; None of one that is alone.

    Raises:
        LimitExceededError: as many look as may.
    """

    def __init__(
        self,
        sampler: Sampler,
        queues: QueueDirectory,
        connections: Mapping[int, Connected],
        cluster: Standing | None = None,
    ) -> None:
        self._sampler = sampler
        self._look = sampler.look()
        self._queues = queues
        self._connections = connections
        self._cluster = cluster
        # Of the parties of the queue that was shown before: in which round, when, and how many messages each had sent or got.
        self._counted: tuple[str | None, int, float, dict[Hashable, int]] = (None, 0, 0.0, {})
        self._rates_before: dict[Hashable, float] = {}

    async def next(self) -> bool:
        """Wait until there is more to see; False where there will not be, for the broker stops."""
        return await self._look.next()

    @property
    def over(self) -> bool:
        """Whether the broker stops: what was taken since shows no queues."""
        return self._sampler.ended

    def close(self) -> None:
        """Look no more."""
        self._look.close()

    async def take(self, asked: Asked) -> dict[str, Any]:
        """What is asked for, as JSON has it; the samples of these queues are kept from then on.

        ``totals`` of the broker; ``matching``, how many queues there are with what is asked for in their name; ``queues``, rows in
        order; ``flow``, the queue that is asked for with its parties, or None; ``journal``, its figures, None in memory or unasked; and
        ``cluster``, as of `in_brief`, None of a broker that is alone.
        """
        sampler, slices = self._sampler, Slices()
        await slices.begin()
        names, matching = await sampler.ordered.first(asked.order, asked.contains, asked.start + asked.limit)
        await slices.pause()
        samples, totals = sampler.samples, sampler.ordered.totals()
        rows = []
        for name in names[asked.start :]:
            # What is gone by now is not shown. Of each a message may have to be read from the disk.
            if (sample := samples.get(name)) is not None:
                rows.append(row_of(sample, self._queues))
                await slices.pause()
        self._look.watch(([] if asked.queue is None else [asked.queue]) + [row["name"] for row in rows])
        return {
            "round": self._sampler.rounds,
            "totals": {**totals, "queues": len(samples), "connections": len(self._connections)},
            "matching": matching,
            "queues": rows,
            "flow": None if asked.queue is None else await self.flow(asked.queue, slices),
            "journal": self._queues.storage_statistics() if asked.journal else None,
            "cluster": None if self._cluster is None else in_brief(self._cluster.standing()),
        }

    def history(self, names: Sequence[str]) -> dict[str, list[Moment]]:
        """The samples that are kept of some queues: messages ready, in a second, out a second; the newest last."""
        return {name: self._sampler.history(name) for name in names}

    async def flow(self, name: str, slices: Slices | None = None) -> dict[str, Any] | None:
        """One queue with who sends to it and receives from it; None where there is none. It goes on in ``slices``."""
        slices = slices or Slices()
        figures, sample = self._queues.read(name, parties=False), self._sampler.samples.get(name)
        if figures is None or sample is None:
            return None
        senders, receivers = _Side(), _Side()
        named: list[Party] = []
        rate_of = self._rates(name)
        by_actor: dict[Any, Connected] = {}
        for standing in _chunks(list(self._connections.values()), CHUNK):
            by_actor |= {each.actor: each for each in standing if each.queue == name}
            by_actor |= {actor: each for each in standing for actor in each.receivers.get(name, ())}
            await slices.pause()
        for chunk in _chunks(self._queues.parties(name), PARTIES_AT_ONCE):
            for facts in chunk:
                party, shown = _shown(facts, by_actor.get(facts.connection))
                shown["rate"] = rate_of(facts.connection, facts.messages)
                named.append(party)
                (senders if facts.role == "sender" else receivers).add(shown)
            await slices.pause()
        pressure = sample.pressure
        if sample.judged is pressure.kind and len(named) <= MOST_JUDGED:
            # By name, where that says the same; else what holds over time.
            in_line = sum(party.waits and party.role in IN_LINE for party in named)
            figures = replace(figures, waiting_receivers=in_line)
            told = pressure_of(figures, self._queues.settings_of(name), 1 if sample.came or sample.went else 0, named)
            pressure = told if told.kind is pressure.kind else pressure
        return {
            **row_of(sample, self._queues),
            "pressure": pressure.kind.value,
            "sentence": pressure.text,
            "senders": senders.busiest(),
            "receivers": receivers.busiest(),
            "all_senders": senders.count,
            "all_receivers": receivers.count,
        }

    # Inside

    def _rates(self, name: str) -> Callable[[Hashable, int], float]:
        """What tells the messages a second of a party since this was shown before, by its key and how many it has sent or got."""
        before, shown_in, then, known = self._counted
        now, this = asyncio.get_running_loop().time(), self._sampler.rounds
        rates = self._rates_before
        if before == name and (this == shown_in or now <= then):
            return lambda key, _count: rates.get(key, 0.0)
        if before != name:
            known = {}
        counts: dict[Hashable, int] = {}
        rates = self._rates_before = {}
        self._counted = (name, this, now, counts)

        def rate_of(key: Hashable, count: int) -> float:
            counts[key] = count
            rates[key] = round(max(0, count - known[key]) / (now - then), 2) if key in known else 0.0
            return rates[key]

        return rate_of


def _shown(facts: ConnectionStatistics, served: Connected | None) -> tuple[Party, dict[str, Any]]:
    """Somebody who sends or receives, as the judgement has them and as they are shown."""
    name = "" if served is None else served.client_id or ""
    # A query is known by its name; what its owner calls itself is a host and a process.
    party = Party(facts.role, facts.subscription or name, facts.demand, facts.in_flight, facts.waiting)
    return party, {
        "id": None if served is None else served.number,
        "role": facts.role,
        "client": name,
        "subscription": facts.subscription,
        "peer": None if served is None or served.connection is None else served.connection.peer,
        "demand": facts.demand,
        "held": facts.in_flight,
        "waits": facts.waiting,
        "active": facts.active,
        "priority": facts.priority,
        "messages": facts.messages,
    }


class _Side:
    """Those who send, or those who receive: the busiest of them, and how many they are."""

    def __init__(self) -> None:
        self.count = 0
        self._found: list[dict[str, Any]] = []

    def add(self, party: dict[str, Any]) -> None:
        self.count += 1
        self._found.append(party)
        if len(self._found) >= 4 * MOST_PARTIES:
            self._found = self.busiest()

    def busiest(self) -> list[dict[str, Any]]:
        return nlargest(MOST_PARTIES, self._found, key=lambda each: (each["waits"], each["rate"], each["held"]))


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
        "oldest_ms": queues.oldest_ms(figures.name),
        "pressure": sample.pressure.kind.value,
        "sentence": sample.pressure.text,
    }


def _chunks(values: Iterable[T], size: int) -> Iterator[Sequence[T]]:
    it = iter(values)
    while chunk := list(islice(it, size)):
        yield chunk
