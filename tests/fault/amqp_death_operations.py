"""Random operations on queues whose dead letters go from one to the next, and round: what a message says of its deaths is compared.

There are three queues, each with an exchange of its own to which the letters of another go. A letter may come round: by refusals, and by a
time to live that is over at once, or a limit, of one of the queues; or by these alone, of all of them. RabbitMQ 3 turns round the order of
the deaths before the last, and so takes some for a circle without a refusal that have one, where two queues let go by themselves.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.fault.amqp_operations import Operations
from tests.fault.amqp_view import CHANNELS, SESSIONS, Operation, Place, View
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.tables import Field, Table

STATIONS: Final = 3


class DeathOperations(Operations):
    """Random ones; as ``Operations``.

    Args:
        random: decides.
        view: what is known when an operation is asked for.
    """

    def __init__(self, random: Random, view: View) -> None:
        super().__init__(random, view)
        self._nobody_refuses = self._often(0.3)
        self._first = deque(Operation(SESSIONS[0], CHANNELS[0], method) for method in self._stations())
        self._first += [Operation(session, CHANNELS[0], basic.ConfirmSelect()) for session in SESSIONS]
        self.only(
            {
                self._publish_to_die: 30,
                self.get: 25,
                self.consume: 10,
                self.cancel: 8,
                self._refuse: 0 if self._nobody_refuses else 40,
                self.settle: 15,
                self.purge: 1,
            }
        )

    def next(self) -> Operation:
        """One more: first of all where letters go is declared."""
        return self._first.popleft() if self._first else super().next()

    def _stations(self) -> list[Method]:
        said: list[Method] = []
        queues = [self._view.named(f"q{number}") for number in range(STATIONS)]
        exchanges = [self._view.named(f"e{number}") for number in range(STATIONS)]
        kinds = [self._random.choice(["fanout", "direct", "topic"]) for _ in range(STATIONS)]
        said += [
            entity.ExchangeDeclare(exchange=exchange, type=kind, durable=True)
            for exchange, kind in zip(exchanges, kinds, strict=True)
        ]
        lets_go = self._random.randrange(STATIONS)
        for number, queue in enumerate(queues):
            to = (number + 1) % STATIONS
            arguments: dict[str, Any] = {}
            if number < STATIONS - 1 or self._often(0.7):
                arguments["x-dead-letter-exchange"] = exchanges[to]
                if self._often(0.4):
                    arguments["x-dead-letter-routing-key"] = "retry"
                if self._often(0.15):
                    # By the name of the next one.
                    arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queues[to]}
            if self._nobody_refuses or number == lets_go:
                at_once = number and self._often(0.5)
                arguments |= {"x-message-ttl": 0} if at_once else {"x-max-length": 1, "x-overflow": "drop-head"}
            said.append(entity.QueueDeclare(queue=queue, durable=True, arguments=Table.of(arguments)))
            keys = ("retry", "first", "second") if kinds[number] == "direct" else ("#",)
            said += [entity.QueueBind(queue=queue, exchange=exchanges[number], routing_key=key) for key in keys]
        return said

    def _publish_to_die(self, place: Place) -> Operation:
        headers: dict[str, Any] = {}
        if self._often(0.2):
            headers["colour"] = "red"
        if self._often(0.2):
            headers["CC"] = Field("A", (Field("S", "second"),))
        properties: dict[str, Any] = {"headers": Table.of(headers)} if headers else {}
        if self._often(0.2):
            properties["expiration"] = "3600000"
        self._messages += 1
        exchange = self._view.named(f"e{self._random.randrange(STATIONS)}") if self._often(0.6) else ""
        key = self._random.choice(["first", "second"]) if exchange else self._view.named("q0")
        body = b"m%d" % self._messages
        return Operation(
            *place, basic.BasicPublish(exchange=exchange, routing_key=key), Properties.of(**properties).raw, (body,)
        )

    def _is_limited(self, place: Place, queue: str) -> bool:
        """Nothing is held where nobody refuses: several that come back at once push others out of all queues, in an order of chance."""
        return self._nobody_refuses or super()._is_limited(place, queue)

    def settle(self, place: Place) -> Operation | None:
        """As before, but where nobody refuses all of it comes again."""
        operation = super().settle(place)
        if operation is None or not self._nobody_refuses or isinstance(operation.method, basic.BasicAck):
            return operation
        return operation._replace(method=replace(operation.method, requeue=True))  # type: ignore[type-var]

    def _refuse(self, place: Place) -> Operation | None:
        held = self._channel(place).held
        if not held:
            return None
        return Operation(*place, basic.BasicReject(delivery_tag=self._random.choice(held), requeue=False))

    def _may_end(self, place: Place) -> bool:
        """Nor where two channels hold something: which of them gives it back first is chance with RabbitMQ."""
        others = [channel for other, channel in self._view.channels.items() if other[0] == place[0] and other != place]
        return super()._may_end(place) and not any(channel.held for channel in others)
