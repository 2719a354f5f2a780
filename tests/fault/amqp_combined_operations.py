"""Random operations on two queues that have several arguments each: levels, limits, times to live, dead letters, who receives.

Of what two queues have together not all can be compared; docs/amqp.md says what differs.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.fault.amqp_arguments import DEAD, HOUR_MS, LIMIT_BYTES
from tests.fault.amqp_operations import OVERFLOWS, Operations
from tests.fault.amqp_view import CHANNELS, SESSIONS, Operation, Place, View
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.tables import Field, Table

HOW_OFTEN: Final = 0.45
"""Each argument is there."""


class CombinedOperations(Operations):
    """Random ones; as ``Operations``.

    Args:
        random: decides.
        view: what is known when an operation is asked for.
    """

    def __init__(self, random: Random, view: View) -> None:
        super().__init__(random, view)
        self._combined = {view.named(name): self._combination() for name in ("q0", "q1")}
        self._first = deque(self._declared(queue) for queue in self._combined)
        self._first += [Operation(session, CHANNELS[0], basic.ConfirmSelect()) for session in SESSIONS]
        self.only(
            {
                self._publish_combined: 50,
                self.get: 10,
                self.consume: 10,
                self.cancel: 6,
                self.settle: 30,
                self.recover: 3,
                self.purge: 1,
            }
        )

    def next(self) -> Operation:
        """One more: first of all the queues are declared."""
        return self._first.popleft() if self._first else super().next()

    def _combination(self) -> dict[str, Any]:
        """Arguments of one queue, all of which both take."""
        said: dict[str, Any] = {}
        if self._often(HOW_OFTEN):
            said["x-dead-letter-exchange"] = self._view.named(DEAD)
            if self._often(HOW_OFTEN):
                said["x-dead-letter-routing-key"] = "gone"
        if self._levels and self._often(0.7):
            said["x-max-priority"] = self._random.choice([1, 2, 5, 255])
        if self._often(0.6):
            said["x-max-length"] = self._random.choice([1, 2, 3, 5])
            if self._often(0.4):
                # Of more messages it matters what each takes beside its body.
                said["x-max-length-bytes"] = LIMIT_BYTES
        if "x-max-length" in said and self._often(0.75):
            said["x-overflow"] = self._random.choice(OVERFLOWS)
        if self._often(HOW_OFTEN):
            said["x-message-ttl"] = HOUR_MS
        if self._often(0.3):
            said["x-expires"] = HOUR_MS
        if self._often(0.3):
            said["x-single-active-consumer"] = True
        if self._often(0.3):
            said["x-queue-mode"] = self._random.choice(["default", "lazy"])
        if self._often(0.3):
            said["x-queue-version"] = self._random.choice([1, 2])
        return said

    def _declared(self, queue: str) -> Operation:
        arguments = Table.of(self._combined[queue])
        return Operation(SESSIONS[0], CHANNELS[0], entity.QueueDeclare(queue=queue, durable=True, arguments=arguments))

    def get(self, place: Place) -> Operation:
        """As before; of a queue with a limit nothing is held that way: what a consumer holds beside it would come back by itself."""
        operation = super().get(place)
        if isinstance(method := operation.method, basic.BasicGet) and self._has_limit(place, method.queue):
            return operation._replace(method=replace(method, no_ack=True))
        return operation

    def consume(self, place: Place) -> Operation | None:
        """As before; of a queue with a limit a channel holds what one consumer has, and not what another had besides."""
        operation = super().consume(place)
        if operation is not None and isinstance(method := operation.method, basic.BasicConsume):
            return None if self._channel(place).held and self._has_limit(place, method.queue) else operation
        return operation

    def _has_limit(self, place: Place, queue: str) -> bool:
        return "x-max-length" in self._combined.get(queue or self._channel(place).last_queue, {})

    def _publish_combined(self, place: Place) -> Operation:
        queue = self._random.choice(sorted(self._combined))
        said = self._combined[queue]
        method = basic.BasicPublish(routing_key=queue, mandatory=self._often(0.3))
        # Messages without time to live that come to a limit at once are stored together here, and one by one with RabbitMQ.
        at_once = self._at_once and "x-max-length" not in said
        expiration = self._random.choice([str(HOUR_MS), "0"] if at_once else [str(HOUR_MS)])
        # Of a dead letter that RabbitMQ 3 has read from its disk it does not know any more that it had one.
        may_expire = not (said.get("x-queue-mode") == "lazy" and "x-dead-letter-exchange" in said)
        headers: dict[str, Any] = {}
        if self._often(0.15):
            headers[self._random.choice(["CC", "BCC"])] = Field("A", (Field("S", self._other_key(queue)),))
        if self._often(0.2):
            headers["x-delay"] = 5_000
        properties = {
            "priority": self._random.choice([0, 1, 2, 5, 9, 255]) if self._often(0.6) else None,
            "expiration": expiration if may_expire and self._often(0.3) else None,
            "delivery_mode": self._random.choice([1, 2]) if self._often(0.4) else None,
            "headers": Table.of(headers) if headers else None,
        }
        # What is rejected is what is stored too much, and here all that comes at once is stored at once.
        bodies = self._bodies()
        return Operation(*place, method, Properties.of(**properties).raw, bodies[:1] if self._rejects(said) else bodies)

    @staticmethod
    def _rejects(said: dict[str, Any]) -> bool:
        return str(said.get("x-overflow")).startswith("reject")

    def _other_key(self, queue: str) -> str:
        """Not of another queue: what comes to that of dead letters by itself, or by way of another, has no order with these."""
        return self._random.choice(["nowhere", queue])

    def _may_end(self, place: Place) -> bool:
        """Nor where two channels hold something: which of them gives it back first is chance with RabbitMQ."""
        others = [channel for other, channel in self._view.channels.items() if other[0] == place[0] and other != place]
        return super()._may_end(place) and not any(channel.held for channel in others)
