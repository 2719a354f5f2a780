"""What operations of the differential test have said: each argument with its value, and which came together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from tests.fault.amqp_arguments import (
    BINDINGS,
    BOTH,
    CONSUMERS,
    DEAD,
    EXCHANGES,
    HEADERS,
    PROPERTIES,
    QUEUES,
    TOGETHER,
    Argument,
)
from tests.fault.amqp_view import Operation, Place, View
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.tables import Entry, Table

OF_A_QUEUE, OF_AN_EXCHANGE, OF_A_BINDING, OF_A_CONSUMER, OF_A_MESSAGE = (
    "queue",
    "exchange",
    "binding",
    "consumer",
    "message",
)
NAMED_VALUES: Final = ("x-overflow", "x-queue-type")
"""Of these it matters which value came together with others."""
TABLES: Final[dict[str, tuple[Argument, ...]]] = {
    OF_AN_EXCHANGE: EXCHANGES,
    OF_A_BINDING: BINDINGS,
    OF_A_CONSUMER: CONSUMERS,
    OF_A_MESSAGE: (*HEADERS, *PROPERTIES),
}

Said = tuple[str, Entry]
"""Where something was said, and what."""


def in_the_table() -> Iterator[Said]:
    """All that stands in the table: values that are right and that are wrong; of queues for each kind that may be told so."""
    for row in QUEUES:
        for value in (*row.right, *row.wrong):
            yield from ((f"{kind} {OF_A_QUEUE}", _entry(row.name, value)) for kind in row.kinds)
    for where, rows in TABLES.items():
        for row in rows:
            yield from ((where, _entry(row.name, value)) for value in (*row.right, *row.wrong))


def _entry(name: str, value: Any) -> Entry:
    return next(iter(Table.of({name: value})))


class Coverage:
    """Of operations that it is shown."""

    def __init__(self) -> None:
        self.said: Counter[Said] = Counter()
        self._together: Counter[frozenset[str]] = Counter()
        self._queues: dict[str, frozenset[str]] = {}

    def saw(self, operation: Operation, view: View) -> None:
        """One more operation, before what is known is changed by it."""
        method = operation.method
        if isinstance(method, entity.QueueDeclare) and not method.passive:
            entries = self._as_in_the_table(method.arguments, view)
            kind = QUORUM_QUEUE if method.arguments.get("x-queue-type") == "quorum" else CLASSIC_QUEUE
            self._count(kind, entries)
            if method.queue not in view.queues:
                self._queues[method.queue] = _words(entries)
        elif isinstance(method, entity.ExchangeDeclare):
            self._count(OF_AN_EXCHANGE, self._as_in_the_table(method.arguments, view))
        elif isinstance(method, entity.QueueBind | entity.ExchangeBind):
            self._count(OF_A_BINDING, self._as_in_the_table(method.arguments, view))
        elif isinstance(method, basic.BasicConsume):
            entries = self._as_in_the_table(method.arguments, view)
            self._count(OF_A_CONSUMER, entries)
            self._together[self._queues.get(method.queue, frozenset()) | _words(entries)] += 1
        elif isinstance(method, basic.BasicPublish):
            self._published(method, operation, view)

    def _published(self, method: basic.BasicPublish, operation: Operation, view: View) -> None:
        properties = Properties(operation.properties)
        entries = [*(properties.headers or ())]
        for row in PROPERTIES:
            value = getattr(properties, row.name)
            if value is not None:
                entries.append(_entry(row.name, value))
        self._count(OF_A_MESSAGE, entries)
        if method.exchange:
            return
        place: Place = operation.session, operation.channel
        words = _words(entries) | {"mandatory"} if method.mandatory else _words(entries)
        confirmed = {"confirms"} if place in view.channels and view.channels[place].confirms else set()
        self._together[self._queues.get(method.routing_key, frozenset()) | words | confirmed] += 1

    def _as_in_the_table(self, table: Table, view: View) -> list[Entry]:
        return [entry._replace(value=DEAD) if entry.value == view.named(DEAD) else entry for entry in table]

    def _count(self, where: str, entries: Iterable[Entry]) -> None:
        self.said.update((where, entry) for entry in entries)

    def missing(self) -> list[Said]:
        """What stands in the table and was not said."""
        return [each for each in in_the_table() if not self.said[each]]

    def missing_together(self) -> list[tuple[str, ...]]:
        """What is to come together, and did not."""
        return [line for line in TOGETHER if not self.together(line)]

    def together(self, names: Iterable[str]) -> int:
        """How often these came together."""
        wanted = frozenset(names)
        return sum(times for words, times in self._together.items() if wanted <= words)

    def update(self, other: Coverage) -> None:
        """What another has seen too."""
        self.said += other.said
        self._together += other._together

    def lines(self) -> Iterator[str]:
        """How often each argument was said, where, and with how many values; and each line of `TOGETHER`."""
        times: Counter[tuple[str, str]] = Counter()
        values: dict[tuple[str, str], set[Entry]] = {}
        for (where, entry), count in self.said.items():
            times[where, entry.name] += count
            values.setdefault((where, entry.name), set()).add(entry)
        for (where, name), count in sorted(times.items()):
            yield f"{where}: {name} {count} times, {len(values[where, name])} values"
        for line in TOGETHER:
            yield f"together: {', '.join(line)} {self.together(line)} times"


CLASSIC_QUEUE, QUORUM_QUEUE = (f"{kind} {OF_A_QUEUE}" for kind in BOTH)


def _words(entries: Iterable[Entry]) -> frozenset[str]:
    named = [entry for entry in entries if entry.name in NAMED_VALUES]
    return frozenset({entry.name for entry in entries} | {f"{entry.name}={entry.value}" for entry in named})
