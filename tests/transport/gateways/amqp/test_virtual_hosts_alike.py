"""A virtual host whose names have a beginning answers as ``/`` does: the same operations at both have the same outcomes, word for word.

What a client sees of a name is looked at wherever it may see one: replies, deliveries, what comes back, and errors.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError, UnroutableError

from tests.transport.gateways.amqp.peers import Guarded

OPERATIONS = 60
NAMES = ("a", "b", "c", "amq.topic", "amq.direct", "", "a b")
KEYS = ("a", "b", "c", "#", "", "shop/a", "k" * 255)
OTHERS = {"/": "europe.a", "eu": "shop/a"}
"""Virtual hosts that are compared with ``shop``, and a name that would be another's if beginnings were mixed up, and is not its own."""
KINDS = ("direct", "fanout", "topic", "headers", "ring")
ARGUMENTS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"x-message-ttl": 60_000},
    {"x-dead-letter-exchange": "c"},
    {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "b"},
    {"x-max-length": 1_000, "x-overflow": "reject-publish"},
    {"x-max-priority": 3},
    {"x-expires": "soon"},
)
ALTERNATES: tuple[dict[str, Any], ...] = ({}, {}, {"alternate-exchange": "b"}, {"alternate-exchange": "amq.direct"})


class Side:
    """One virtual host, and the channel there."""

    def __init__(self, connection: pika.BlockingConnection, tag: str) -> None:
        self._connection = connection
        self._tag = tag
        self._channel = self._opened()

    def _opened(self) -> BlockingChannel:
        channel = self._connection.channel()
        channel.confirm_delivery()
        return channel

    def outcome(self, operation: tuple[Any, ...]) -> Any:
        """What comes of an operation, as its client sees it."""
        verb, *arguments = operation
        try:
            return getattr(self, verb)(*arguments)
        except ChannelClosedByBroker as error:
            self._channel = self._opened()
            return error.reply_code, error.reply_text

    def _of(self, name: str) -> str:
        """A name of this run; those that are there from the start are the same in all."""
        return name if name.startswith("amq.") or not name else name + self._tag

    def declare_queue(self, name: str, durable: bool, passive: bool, arguments: dict[str, Any]) -> Any:
        named = {key: self._of(value) if key.startswith("x-dead") else value for key, value in arguments.items()}
        if not name:
            return None
        done = self._channel.queue_declare(self._of(name), passive=passive, durable=durable, arguments=named)
        return done.method.queue, done.method.message_count, done.method.consumer_count

    def declare_exchange(self, name: str, kind: str, durable: bool, passive: bool, arguments: dict[str, Any]) -> Any:
        named = {key: self._of(value) for key, value in arguments.items()}
        self._channel.exchange_declare(self._of(name), kind, passive=passive, durable=durable, arguments=named)
        return "declared"

    def bind(self, queue: str, exchange: str, key: str, undo: bool) -> Any:
        (self._channel.queue_unbind if undo else self._channel.queue_bind)(self._of(queue), self._of(exchange), key)
        return "bound"

    def bind_exchange(self, destination: str, source: str, key: str) -> Any:
        self._channel.exchange_bind(self._of(destination), self._of(source), key)
        return "bound"

    def publish(self, exchange: str, key: str, body: bytes, mandatory: bool) -> Any:
        try:
            key = self._of(key) if len(key) == 1 else key
            self._channel.basic_publish(self._of(exchange), key, body, mandatory=mandatory)
        except UnroutableError as error:
            (back,) = error.messages
            return back.method.reply_text, back.method.exchange, back.method.routing_key, back.body
        except NackError:
            return "rejected"
        return "stored"

    def get(self, queue: str) -> Any:
        method, _, body = self._channel.basic_get(self._of(queue), auto_ack=True)
        if method is None:
            return None
        return method.exchange, method.routing_key, method.redelivered, method.message_count, body

    def purge(self, queue: str) -> Any:
        return self._channel.queue_purge(self._of(queue)).method.message_count

    def delete_queue(self, queue: str, if_empty: bool) -> Any:
        return self._channel.queue_delete(self._of(queue), if_empty=if_empty).method.message_count

    def delete_exchange(self, exchange: str, if_unused: bool) -> Any:
        self._channel.exchange_delete(self._of(exchange), if_unused=if_unused)
        return "deleted"


def drawn(random: Random, at: int, odd: str) -> tuple[Any, ...]:
    """An operation, on one of `NAMES` or on ``odd``."""
    names = *NAMES, odd
    name, other, key, some = random.choice(names), random.choice(names), random.choice(KEYS), random.random() < 0.3
    makes: list[tuple[int, tuple[Any, ...]]] = [
        (5, ("declare_queue", name, not some, random.random() < 0.2, random.choice(ARGUMENTS))),
        (
            4,
            (
                "declare_exchange",
                name,
                random.choice(KINDS),
                not some,
                random.random() < 0.2,
                random.choice(ALTERNATES),
            ),
        ),
        (4, ("bind", name, other, key, some)),
        (1, ("bind_exchange", name, other, key)),
        (8, ("publish", name, key, b"%d" % at, some)),
        (4, ("publish", "", name, b"%d" % at, some)),
        (6, ("get", name)),
        (1, ("purge", name)),
        (1, ("delete_queue", name, some)),
        (1, ("delete_exchange", name, some)),
    ]
    return random.choices([make for _, make in makes], [weight for weight, _ in makes])[0]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("virtual_host", "odd"), OTHERS.items())
def test_the_same_operations_have_the_same_outcomes(guarded: Guarded, virtual_host: str, odd: str, seed: int) -> None:
    random = Random(f"{virtual_host} {seed}")
    tag = f"-{seed}-{'plain' if virtual_host == '/' else virtual_host}"
    with guarded.connected("root", "shop") as one, guarded.connected("root", virtual_host) as other:
        inside, outside = Side(one, tag), Side(other, tag)
        done: list[tuple[Any, ...]] = []
        for at in range(OPERATIONS):
            operation = drawn(random, at, odd)
            done.append(operation)
            found, wanted = inside.outcome(operation), outside.outcome(operation)
            if isinstance(found, tuple) and isinstance(found[0], int) and isinstance(found[1], str):
                found = found[0], found[1].replace("in vhost 'shop'", f"in vhost '{virtual_host}'")
            assert found == wanted, f"{virtual_host} {seed}: {done}"
        # The exchanges that are there from the start are those of other runs too, and keep no bindings of this one.
        for name in {*NAMES, odd} - {"", "a b", "amq.topic", "amq.direct"}:
            for gone in (("delete_queue", name, False), ("delete_exchange", name, False)):
                assert inside.outcome(gone) == outside.outcome(gone)
