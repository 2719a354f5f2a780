"""Random operations that say arguments: of the table alone and together, right and wrong, and again of what is there."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, Final

from tests.fault.amqp_arguments import (
    BINDINGS,
    CONSUMERS,
    DEAD,
    EXCHANGES,
    HEADERS,
    HOUR_MS,
    LIMIT_BYTES,
    PROPERTIES,
    QUEUES,
    QUORUM,
    Argument,
)
from tests.fault.amqp_operations import KEYS, KINDS, Operations
from tests.fault.amqp_view import Operation, Place, View
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.tables import Entry, Table

SOME_QUEUES: Final = 4
MOST_TOGETHER: Final = 6


class ArgumentOperations(Operations):
    """Random ones; as ``Operations``.

    Args:
        random: decides.
        view: what is known when an operation is asked for.
    """

    def __init__(self, random: Random, view: View) -> None:
        super().__init__(random, view)
        # What each queue was declared with, so that it can be declared again.
        self._declared: dict[str, entity.QueueDeclare] = {}
        self._deck: list[tuple[str, str, Any]] = []
        self.only(
            {
                self._declare: 50,
                self._declare_again: 25,
                self._delete: 30,
                self._declare_exchange_with: 16,
                self._delete_exchange: 8,
                self._bind_with: 25,
                self._publish_with: 40,
                self._confirm: 2,
                self._consume_with: 25,
                self.cancel: 15,
                self._get_one: 25,
            }
        )

    # Queues

    def _some_queue(self) -> str:
        return self._view.named(f"q{self._random.randrange(SOME_QUEUES)}")

    def _is_to_have_messages(self, queue: str) -> bool:
        """Not a quorum queue, which has episodes of its own; nor one of which it is a matter of moments or of some bytes what it has."""
        said = self._declared[queue].arguments if queue in self._declared else Table()
        return (
            said.get("x-queue-type") != QUORUM
            and said.get("x-max-length-bytes") in (None, LIMIT_BYTES)
            and said.get("x-message-ttl") in (None, HOUR_MS)
        )

    def _declare(self, place: Place) -> Operation:
        name = self._some_queue()
        method = entity.QueueDeclare(queue=name, durable=True, arguments=self._arguments())
        if name not in self._view.queues:
            self._declared[name] = method
        return Operation(*place, method)

    def _declare_again(self, place: Place) -> Operation | None:
        name = self._some_queue()
        method = self._declared.get(name)
        if method is None or name not in self._view.queues:
            return None
        entries = list(method.arguments)
        if entries and self._often(0.6):
            # One is another, or is left out.
            entries.remove(changed := self._random.choice(entries))
            if self._often(0.5):
                entries.append(self._another(changed))
        elif self._often(0.5):
            self._random.shuffle(entries)
        return Operation(*place, entity.QueueDeclare(queue=name, durable=True, arguments=Table(entries)))

    def _another(self, entry: Entry) -> Entry:
        rows = [row for row in QUEUES if row.name == entry.name]
        value = self._random.choice([value for row in rows for value in (*row.right, *row.wrong)] or ["other"])
        return self._entry(entry.name, value)

    def _next_said(self) -> tuple[str, str, Any]:
        """The next of all that a queue may be told, in an order of chance: for which kind of queue, which argument, which value."""
        if not self._deck:
            self._deck = [
                (kind, row.name, value) for row in QUEUES for kind in row.kinds for value in (*row.right, *row.wrong)
            ]
            self._random.shuffle(self._deck)
        return self._deck.pop()

    def _arguments(self) -> Table:
        """One of all, be it right or wrong, and some others of such a queue that are right."""
        kind, name, value = self._next_said()
        said: dict[str, Any] = {"x-queue-type": QUORUM} if kind == QUORUM else {}
        rows = [row for row in QUEUES if kind in row.kinds and row.name != "x-queue-type" and row.right]
        for row in self._random.sample(
            rows, self._random.choice([0, 0, 1, 2, 3, self._random.randint(4, MOST_TOGETHER)])
        ):
            said[row.name] = self._random.choice(row.right)
        said[name] = value
        if said.get("x-dead-letter-exchange") == DEAD and self._often(0.5):
            said.setdefault("x-dead-letter-routing-key", "gone")
        names = list(said)
        self._random.shuffle(names)
        return Table([self._entry(name, said[name]) for name in names])

    def _entry(self, name: str, value: Any) -> Entry:
        return next(iter(Table.of({name: self._view.named(DEAD) if value == DEAD else value})))

    def _delete(self, place: Place) -> Operation:
        return Operation(*place, entity.QueueDelete(queue=self._some_queue()))

    # Exchanges, bindings

    def _one_of(self, rows: Iterable[Argument], *, often: float, wrong: float) -> Table:
        """Some of these, each as often; sometimes one that cannot be."""
        chosen = [row for row in rows if self._often(often)]
        bad = self._random.choice(chosen) if chosen and self._often(wrong) else None
        return Table(
            [
                self._entry(row.name, self._random.choice(row.wrong if row is bad and row.wrong else row.right))
                for row in chosen
            ]
        )

    def _declare_exchange_with(self, place: Place) -> Operation:
        method = entity.ExchangeDeclare(
            exchange=self._view.named(f"e{self._random.randrange(3)}"),
            type=self._random.choice([*KINDS, "headers", "headers"]),
            durable=True,
            arguments=self._one_of(EXCHANGES, often=0.6, wrong=0.4),
        )
        return Operation(*place, method)

    def _bind_with(self, place: Place) -> Operation | None:
        queue = self._some_queue()
        if not self._is_to_have_messages(queue):
            return None
        arguments = self._one_of(BINDINGS, often=0.6, wrong=0.4)
        # Bytes that are no text are no argument here; it is a headers exchange that says which it cannot have.
        has_bytes = any(entry.kind == "x" for entry in arguments)
        method = entity.QueueBind(
            queue=queue,
            exchange="amq.headers" if has_bytes else self._exchange(),
            routing_key=self._random.choice(KEYS),
            arguments=arguments,
        )
        return Operation(*place, method)

    # Messages

    def _publish_with(self, place: Place) -> Operation | None:
        bad = self._often(0.3)
        headers = self._one_of(HEADERS, often=0.4, wrong=0.3 * bad)
        properties = {entry.name: entry.value for entry in self._one_of(PROPERTIES, often=0.4, wrong=0.6 * bad)}
        raw = Properties.of(**({"headers": headers} if headers else {}), **properties).raw
        exchange = self._exchange() if self._often(0.5) else ""
        key = self._random.choice(KEYS) if exchange else self._some_queue()
        if not exchange and not self._is_to_have_messages(key):
            return None
        self._messages += 1
        method = basic.BasicPublish(exchange=exchange, routing_key=key, mandatory=self._often(0.4))
        return Operation(*place, method, raw, (b"m%d" % self._messages,))

    # Who receives

    def _consume_with(self, place: Place) -> Operation | None:
        channel = self._channel(place)
        queue = self._some_queue()
        if channel.tag or self._view.consumers(queue) or not self._is_to_have_messages(queue):
            # Of two that share, either may be first. Of a quorum queue that was deleted and declared anew RabbitMQ 3 fails on the next one.
            return None
        arguments = self._one_of(CONSUMERS, often=0.5, wrong=0.4)
        return Operation(*place, basic.BasicConsume(queue=queue, consumer_tag="tag", no_ack=True, arguments=arguments))

    def _get_one(self, place: Place) -> Operation | None:
        queue = self._some_queue()
        if queue not in self._view.queues or not self._is_to_have_messages(queue):
            return None
        return Operation(*place, basic.BasicGet(queue=queue, no_ack=True))
