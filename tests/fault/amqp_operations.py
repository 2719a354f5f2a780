"""Random operations of AMQP clients, of what is there: what a broker has said last is known, and made use of.

Names are few, so that operations meet. What two brokers may rightly do in another order is left out: a channel has one
consumer, and so has a queue, unless one of them is active at a time or each has a priority of its own. What is known to
differ is left out likewise: docs/amqp.md lists it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.fault.amqp_arguments import HOUR_MS, LIMIT_BYTES
from tests.fault.amqp_view import CHANNELS, DEAD, SESSIONS, ChannelView, Operation, Place, View
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.tables import Field, Table

UNOPENED: Final = 7
QUEUES, EXCHANGES = 5, 4
MOST_QUEUES: Final = 6
"""Of an episode of another kind."""
KEYS: Final = ("a", "b", "a.b", "a.b.c", "", "ä")
PATTERNS: Final = (*KEYS, "a.*", "#", "*.b", "a.#")
KINDS: Final = ("direct", "fanout", "topic", "headers")
PRIORITIES: Final = (-5, 0, 0, 1, 2)
"""Of consumers."""
OVERFLOWS: Final = ("reject-publish", "drop-head", "reject-publish-dlx")
MOST_HELD: Final = 40
"""Deliveries that a channel holds before it settles some."""


def all_names(view: View) -> tuple[list[str], list[str]]:
    """Queues and exchanges that there may be in an episode, beside those that the broker has named."""
    queues = [view.named(f"q{number}") for number in range(MOST_QUEUES)]
    exchanges = [view.named(f"e{number}") for number in range(EXCHANGES)]
    return [*queues, view.named(DEAD)], [*exchanges, view.named(DEAD)]


def beginnings(view: View) -> list[Operation]:
    """What is there in each episode from the beginning: where dead letters go."""
    dead = view.named(DEAD)
    return [
        Operation(0, 1, entity.ExchangeDeclare(exchange=dead, type="fanout")),
        Operation(0, 1, entity.QueueDeclare(queue=dead, durable=True)),
        Operation(0, 1, entity.QueueBind(queue=dead, exchange=dead)),
    ]


class Operations:
    """Random ones.

    Args:
        random: decides.
        view: what is known when an operation is asked for.
    """

    def __init__(self, random: Random, view: View) -> None:
        self._random = random
        self._view = view
        self._messages = 0
        # Of queues with levels RabbitMQ has expire only what is next in all of them.
        self._levels = self._often(0.5)
        self._at_once = [] if self._levels else ["0", "0"]
        self._weights: dict[Callable[[Place], Operation | None], int] = {
            self._declare_queue: 16,
            self._declare_passive: 4,
            self._declare_own: 5,
            self._delete_queue: 4,
            self.purge: 2,
            self._bind: 12,
            self._unbind: 4,
            self._declare_exchange: 8,
            self._delete_exchange: 3,
            self._bind_exchange: 5,
            self._unbind_exchange: 2,
            self._publish: 40,
            self.publish_to_queue: 30,
            self._confirm: 4,
            self.get: 16,
            self.consume: 12,
            self.cancel: 5,
            self.settle: 40,
            self.recover: 4,
            self._qos: 5,
            self._flow: 1,
            self._close_channel: 2,
            self._break_a_rule: 1,
        }

    def only(self, weights: dict[Callable[[Place], Operation | None], int]) -> None:
        """Make these alone, each as often as is said."""
        self._weights = weights

    def next(self) -> Operation:
        """One more."""
        while True:
            place = self._random.choice(SESSIONS), self._random.choice(CHANNELS)
            if len(self._channel(place).held) > MOST_HELD:
                operation = self.settle(place)
            else:
                (make,) = self._random.choices(list(self._weights), list(self._weights.values()))
                operation = make(place)
            if operation is not None:
                return operation

    # What is chosen

    def _often(self, share: float) -> bool:
        return self._random.random() < share

    def _channel(self, place: Place) -> ChannelView:
        return self._view.channels[place]

    def _new_queue(self) -> str:
        return self._view.named(f"q{self._random.randrange(QUEUES)}")

    def _queue(self, place: Place) -> str:
        """Mostly one that is there; sometimes none, or the one that the channel has declared last."""
        if self._often(0.05):
            return self._new_queue()
        if self._often(0.05):
            return ""
        # What another session has for itself is asked for too, but less often.
        own = [name for name, owner in self._view.queues.items() if owner in (None, place[0])]
        names = own if own and self._often(0.95) else list(self._view.queues)
        return self._random.choice(sorted(names)) if names else self._new_queue()

    def _exchange(self) -> str:
        if self._often(0.05):
            return self._view.named(f"e{self._random.randrange(EXCHANGES)}")
        names = ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", *sorted(self._view.exchanges) * 2]
        # Nothing but dead letters comes to where these go: one that dies again would go round and round.
        return self._random.choice([name for name in names if name != self._view.named(DEAD)])

    def _table(self) -> Table:
        """Of a binding, mostly none."""
        if self._often(0.7):
            return Table.of({})
        said: dict[str, Any] = {"x-match": self._random.choice(["all", "any"])} if self._often(0.9) else {}
        for name in ("colour", "size"):
            if self._often(0.6):
                said[name] = self._random.choice(["red", 1, 2, True, None])
        return Table.of(said)

    def _properties(self) -> bytes:
        choose: dict[str, Callable[[], Any]] = {
            "content_type": lambda: "text/plain",
            "headers": lambda: Table.of(
                {"colour": self._random.choice(["red", "blue", 1]), "size": self._random.choice([1, 2, 2.5, True])}
            ),
            "delivery_mode": lambda: self._random.choice([1, 2]),
            "priority": lambda: self._random.randrange(10),
            "correlation_id": lambda: "c-1",
            "expiration": lambda: self._random.choice([str(HOUR_MS)] * 3 + [*self._at_once, "-1", "soon", ""]),
            "message_id": lambda: "m-1",
            "timestamp": lambda: 1_700_000_000,
            "type": lambda: "kind",
            "user_id": lambda: "guest",
            "app_id": lambda: "differential",
        }
        often = {"priority": 0.6} if self._levels else {}
        return Properties.of(
            **{name: make() for name, make in choose.items() if self._often(often.get(name, 0.15))}
        ).raw

    def _bodies(self) -> tuple[bytes, ...]:
        bodies = []
        for _ in range(self._random.choice([1, 1, 1, 2, 3])):
            self._messages += 1
            body = b"m%d" % self._messages
            if self._often(0.05):
                body = self._random.choice([b"", body.ljust(5_000, b"."), body.ljust(300_000, b".")])
            bodies.append(body)
        return tuple(bodies)

    def _queue_arguments(self) -> Table:
        choose: dict[str, Callable[[], Any]] = {
            "x-message-ttl": lambda: self._random.choice(
                [HOUR_MS, HOUR_MS, HOUR_MS, *map(int, self._at_once), -1, "1000", 1 << 62]
            ),
            "x-max-length": lambda: self._random.choice([3, 3, 3, -1, "3"]),
            "x-max-length-bytes": lambda: self._random.choice([LIMIT_BYTES, LIMIT_BYTES, -1]),
            "x-overflow": lambda: self._random.choice([*OVERFLOWS * 2, "nonsense", 1]),
            "x-dead-letter-exchange": lambda: self._random.choice([self._view.named(DEAD)] * 3 + ["", 7]),
            "x-dead-letter-routing-key": lambda: self._random.choice(["gone", "gone", False]),
            "x-queue-type": lambda: self._random.choice(["classic", "classic", "nonsense", 2]),
            "x-single-active-consumer": lambda: self._random.choice([True, True, True, False, 1, "true"]),
            **(
                {"x-max-priority": lambda: self._random.choice([2, 5, 5, 5, 255, 0, 256, -1, "5"])}
                if self._levels
                else {}
            ),
            "x-unknown": lambda: self._random.choice(["kept", 1, Field("t", value=True)]),
        }
        if self._levels and self._often(0.5):
            return Table.of({"x-max-priority": 5})
        if self._often(0.55):
            return Table.of({"x-single-active-consumer": True} if self._often(0.2) else {})
        said = {name: make() for name, make in choose.items() if self._often(0.25)}
        if {"x-max-length", "x-max-length-bytes"} & said.keys() and self._often(0.6):
            # Else the oldest are dropped.
            said.setdefault("x-overflow", self._random.choice(OVERFLOWS))
        if said.get("x-dead-letter-exchange") == "":
            # It leads to a queue by its name, and here it has to be said.
            said["x-dead-letter-routing-key"] = self._view.named(DEAD)
        return Table.of(said)

    # Queues and exchanges

    def _declare_queue(self, place: Place) -> Operation:
        name = "" if self._often(0.05) else self._new_queue()
        if self._often(0.03):
            name = "amq.mine"
        method = entity.QueueDeclare(
            queue=name,
            durable=self._often(0.7),
            auto_delete=self._often(0.15),
            nowait=bool(name) and self._often(0.1),
            arguments=self._queue_arguments() if name else Table.of({}),
        )
        return Operation(*place, method)

    def _declare_passive(self, place: Place) -> Operation:
        if self._often(0.3):
            kind = self._random.choice(KINDS)
            return Operation(*place, entity.ExchangeDeclare(exchange=self._exchange(), type=kind, passive=True))
        return Operation(*place, entity.QueueDeclare(queue=self._queue(place), passive=True))

    def _declare_own(self, place: Place) -> Operation:
        name = "" if self._often(0.3) else self._new_queue()
        # Of a name that the broker gives it is not known before what it was declared with.
        arguments = self._queue_arguments() if name else Table.of({})
        method = entity.QueueDeclare(queue=name, exclusive=True, auto_delete=self._often(0.3), arguments=arguments)
        return Operation(*place, method)

    def _delete_queue(self, place: Place) -> Operation:
        method = entity.QueueDelete(
            queue=self._queue(place),
            if_unused=self._often(0.3),
            if_empty=self._often(0.3),
            nowait=self._often(0.1),
        )
        if method.queue == self._view.named(DEAD):
            return self.purge(place)
        return Operation(*place, method)

    def purge(self, place: Place) -> Operation:
        """Purge a queue."""
        return Operation(*place, entity.QueuePurge(queue=self._queue(place), nowait=self._often(0.1)))

    def _key_of(self, queue: str) -> str:
        return self._random.choice([queue, *PATTERNS])

    def _bind(self, place: Place) -> Operation:
        queue = self._queue(place)
        method = entity.QueueBind(
            queue=queue,
            exchange=self._exchange(),
            routing_key=self._key_of(queue),
            nowait=self._often(0.1),
            arguments=self._table(),
        )
        return Operation(*place, method)

    def _unbind(self, place: Place) -> Operation | None:
        queue = self._queue(place)
        if self._view.queues.get(queue or self._channel(place).last_queue) not in (None, place[0]):
            # With RabbitMQ it matters whether it is bound.
            return None
        exchange = "" if self._often(0.03) else self._exchange()
        method = entity.QueueUnbind(
            queue=queue, exchange=exchange, routing_key=self._key_of(queue), arguments=self._table()
        )
        return Operation(*place, method)

    def _declare_exchange(self, place: Place) -> Operation:
        name = self._view.named(f"e{self._random.randrange(EXCHANGES)}")
        if self._often(0.05):
            name = self._random.choice(["amq.mine", "amq.topic", ""])
        arguments: dict[str, Any] = {}
        if self._often(0.2):
            arguments["alternate-exchange"] = self._exchange()
        method = entity.ExchangeDeclare(
            exchange=name,
            type=self._random.choice(KINDS),
            durable=self._often(0.6),
            auto_delete=self._often(0.2),
            internal=self._often(0.1),
            nowait=self._often(0.1),
            arguments=Table.of(arguments),
        )
        return Operation(*place, method)

    def _delete_exchange(self, place: Place) -> Operation:
        exchange = "" if self._often(0.03) else self._exchange()
        return Operation(*place, entity.ExchangeDelete(exchange=exchange, if_unused=self._often(0.4)))

    def _bind_exchange(self, place: Place) -> Operation:
        source, destination = self._two_exchanges()
        method = entity.ExchangeBind(
            source=source,
            destination=destination,
            routing_key=self._random.choice(PATTERNS),
            arguments=self._table(),
        )
        return Operation(*place, method)

    def _unbind_exchange(self, place: Place) -> Operation:
        source, destination = self._two_exchanges()
        method = entity.ExchangeUnbind(
            source=source,
            destination=destination,
            routing_key=self._random.choice(PATTERNS),
            arguments=self._table(),
        )
        return Operation(*place, method)

    def _two_exchanges(self) -> tuple[str, str]:
        """Of which one is the episode's own: what is bound between others would outlive it."""
        two = [self._exchange(), self._view.named(f"e{self._random.randrange(EXCHANGES)}")]
        self._random.shuffle(two)
        return two[0], two[1]

    # Messages

    def _publish(self, place: Place) -> Operation:
        method = basic.BasicPublish(
            exchange=self._exchange(), routing_key=self._random.choice(KEYS), mandatory=self._often(0.4)
        )
        return Operation(*place, method, self._properties(), self._bodies())

    def publish_to_queue(self, place: Place) -> Operation:
        """Publish to a queue by its name, with a few bodies."""
        queue = self._queue(place) or self._new_queue()
        method = basic.BasicPublish(routing_key=queue, mandatory=self._often(0.4))
        return Operation(*place, method, self._properties(), self._bodies())

    def _confirm(self, place: Place) -> Operation:
        return Operation(*place, basic.ConfirmSelect(nowait=self._often(0.1)))

    def get(self, place: Place) -> Operation:
        """Get a message."""
        queue = self._queue(place)
        no_ack = self._is_limited(place, queue) or self._often(0.3)
        return Operation(*place, basic.BasicGet(queue=queue, no_ack=no_ack))

    def _is_limited(self, place: Place, queue: str) -> bool:
        """Whether a queue has a limit: what is held of it would count here, and not with RabbitMQ."""
        return (queue or self._channel(place).last_queue) in self._view.limited

    def consume(self, place: Place) -> Operation | None:
        """Consume from a queue."""
        channel, queue = self._channel(place), self._queue(place)
        if (single := [name for name in self._view.single if self._view.queues.get(name) is None]) and self._often(0.5):
            queue = self._random.choice(sorted(single))
        if channel.tag:
            # A tag that is in use.
            if not queue or not self._may_end(place):
                return None
            return Operation(*place, basic.BasicConsume(queue=queue, consumer_tag=channel.tag))
        known = queue or channel.last_queue
        priority = self._priority(known)
        method = basic.BasicConsume(
            queue=queue,
            consumer_tag="" if self._often(0.3) else f"tag-{self._random.randrange(3)}",
            no_ack=self._is_limited(place, queue) or self._often(0.2),
            # Of two that share, either may be first: where there is no order of them, one more is let in nowhere.
            exclusive=priority is None or self._often(0.2),
            nowait=False,
            arguments=self._consumer_arguments(priority),
        )
        return Operation(*place, method)

    def _priority(self, queue: str) -> int | None:
        """One that a further consumer may have; None where there is none."""
        there = [self._view.channels[place].priority for place in self._view.consumers(queue)]
        if queue in self._view.single:
            # With RabbitMQ 3 one of a higher priority waits, and here it does not.
            most = self._view.channels[self._view.active[queue]].priority if there else 2
            return self._random.choice([each for each in PRIORITIES if each <= most] or [most])
        left = [each for each in PRIORITIES if each not in there]
        return self._random.choice(left) if left and (not there or self._often(0.5)) else None

    def _consumer_arguments(self, priority: int | None) -> Table:
        if self._often(0.03):
            return Table.of({"x-priority": self._random.choice(["high", True, 1.5])})
        return Table.of({"x-priority": priority} if priority or (self._often(0.2) and priority is not None) else {})

    def cancel(self, place: Place) -> Operation | None:
        """Cancel a consumer."""
        channel = self._channel(place)
        waits = self._view.active.get(channel.queue) == place and len(self._view.consumers(channel.queue)) > 1
        if waits and self._view.ready.get(channel.queue):
            # With RabbitMQ 3 the next one gets nothing before something else happens to the queue.
            return None
        return Operation(*place, basic.BasicCancel(consumer_tag=channel.tag or "unknown", nowait=self._often(0.1)))

    def settle(self, place: Place) -> Operation | None:
        """Acknowledge or refuse what a channel holds."""
        held = self._channel(place).held
        tag = self._random.choice(held) if held else 0
        if self._often(0.02):
            tag = self._random.choice([0, 1, 1_000_000])
        elif not held:
            return None
        multiple = self._often(0.3)
        requeue = self._often(0.5)
        settled: Method = self._random.choice(
            [
                basic.BasicAck(delivery_tag=tag, multiple=multiple),
                # What dies together does so by levels and deliveries with RabbitMQ, and here by what is older.
                basic.BasicNack(delivery_tag=tag, multiple=multiple and requeue, requeue=requeue),
                basic.BasicReject(delivery_tag=tag, requeue=requeue),
            ]
        )
        return Operation(*place, settled)

    def recover(self, place: Place) -> Operation:
        """Give back all that a channel holds."""
        if self._often(0.03) and self._may_end(place):
            return Operation(*place, basic.BasicRecover(requeue=False))
        kind: Any = basic.BasicRecoverAsync if self._often(0.3) else basic.BasicRecover
        return Operation(*place, kind(requeue=True))

    def _qos(self, place: Place) -> Operation | None:
        if self._channel(place).tag:
            return None
        method = basic.BasicQos(
            prefetch_size=1 if self._often(0.03) and self._may_end(place) else 0,
            prefetch_count=self._random.choice([0, 1, 2, 3, 10]),
            # What was got before counts with RabbitMQ, and what is got later does not.
            global_=not self._channel(place).held and self._often(0.3),
        )
        return Operation(*place, method)

    # Channels

    def _flow(self, place: Place) -> Operation:
        return Operation(*place, connection.ChannelFlow(active=not self._may_end(place) or self._often(0.8)))

    def _close_channel(self, place: Place) -> Operation:
        return Operation(*place, connection.ChannelClose(reply_code=200, reply_text="", class_id=0, method_id=0))

    def _may_end(self, place: Place) -> bool:
        """Whether the connection may end: RabbitMQ ends channel by channel, and what one held may be delivered on the next."""
        others = [channel for other, channel in self._view.channels.items() if other[0] == place[0] and other != place]
        return not any(channel.tag for channel in others)

    def _break_a_rule(self, place: Place) -> Operation | None:
        if not self._may_end(place):
            return None
        return self._random.choice(
            [
                Operation(*place, connection.ChannelOpen()),
                Operation(place[0], UNOPENED, basic.BasicQos()),
                Operation(*place, connection.ChannelOpenOk()),
                Operation(*place, basic.BasicPublish(immediate=True), b"\0\0", (b"now",)),
            ]
        )
