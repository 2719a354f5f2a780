"""Whatever a channel publishes, gets and settles in transactions, in whatever order: what is there is what RabbitMQ would have there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples_tried import tried
from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.raw_amqp import CLOSE_CHANNEL, RawClient, published
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.tables import Table

WORK, OTHER = 0, 1
"""The queues by their places: the first has dead letters, the second drops what is refused."""
QUEUE = st.sampled_from([WORK, WORK, OTHER])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), QUEUE),
        st.tuples(st.just("plain"), QUEUE),
        st.tuples(st.just("get"), QUEUE),
        st.tuples(st.just("get"), QUEUE),
        st.tuples(st.sampled_from(["ack", "nack", "reject", "multiple", "all"]), st.integers(0, 4)),
        st.tuples(st.sampled_from(["ack", "multiple", "refuse"]), st.integers(0, 4)),
        st.tuples(st.sampled_from(["commit", "commit", "rollback", "reopen", "unknown", "recover"]), st.just(0)),
    ),
    min_size=10,
    max_size=40,
)
_names = count()


@dataclass(eq=False)
class Message:
    """One, with its place in its queue."""

    body: bytes
    queue: int
    place: int
    redelivered: bool = False


@dataclass
class Model:
    """What the broker is to have."""

    ready: list[list[Message]] = field(default_factory=lambda: [[], []])
    dead: list[bytes] = field(default_factory=list)
    staged: list[Message] = field(default_factory=list)
    held: dict[int, Message] = field(default_factory=dict)
    settled: dict[int, tuple[str, Message]] = field(default_factory=dict)
    last_tag: int = 0
    made: int = 0

    def message(self, queue: int) -> Message:
        self.made += 1
        return Message(b"%d" % self.made, queue, self.made)

    def put(self, message: Message) -> None:
        self.ready[message.queue].append(message)
        self.ready[message.queue].sort(key=lambda each: each.place)

    def give_back(self, message: Message) -> None:
        message.redelivered = True
        self.put(message)

    def settle(self, how: str, *tags: int) -> None:
        for tag in tags:
            self.settled[tag] = how, self.held.pop(tag)

    def commit(self) -> None:
        for message in self.staged:
            self.put(message)
        for how, message in self.settled.values():
            if how == "requeue":
                self.give_back(message)
            elif how == "refuse" and message.queue == WORK:
                self.dead.append(message.body)
        self.staged, self.settled = [], {}

    def roll_back(self) -> None:
        self.held |= {tag: message for tag, (_, message) in self.settled.items()}
        self.staged, self.settled = [], {}

    def end_channel(self) -> None:
        self.roll_back()
        for message in self.held.values():
            self.give_back(message)
        self.held, self.last_tag = {}, 0


class Driven:
    """A channel with transactions, and the model beside it."""

    def __init__(self, raw: RawClient) -> None:
        name = f"txm-{next(_names)}"
        self.raw, self.model = raw, Model()
        self.queues, self.dead = (f"{name}-work", f"{name}-other"), f"{name}-dead"
        raw.declare(self.dead, 2)
        arguments = Table.of({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self.dead})
        raw.declare(self.queues[WORK], 2, arguments=arguments)
        raw.declare(self.queues[OTHER], 2)
        raw.ask(basic.TxSelect(), basic.TxSelectOk)

    def step(self, what: str, number: int) -> None:
        model, raw = self.model, self.raw
        tags = sorted(model.held)
        tag = tags[number % len(tags)] if tags else None
        if what in ("publish", "plain"):
            message = model.message(number)
            raw.write(published(self.queues[number], message.body, channel=1 if what == "publish" else 2))
            if what == "publish":
                model.staged.append(message)
                # It has its place before what others publish behind it.
                raw.ready(self.queues[number])
            else:
                model.put(message)
        elif what == "get":
            self.get(number)
        elif what == "commit":
            raw.ask(basic.TxCommit(), basic.TxCommitOk)
            model.commit()
        elif what == "rollback":
            raw.ask(basic.TxRollback(), basic.TxRollbackOk)
            model.roll_back()
        elif what == "recover":
            raw.ask(basic.BasicRecover(requeue=True), basic.BasicRecoverOk)
            for message in model.held.values():
                model.give_back(message)
            model.held = {}
        elif what == "reopen":
            raw.ask(CLOSE_CHANNEL, connection.ChannelCloseOk)
            self.begin_anew()
        elif what == "unknown":
            raw.say(basic.BasicAck(delivery_tag=model.last_tag + 1))
            raw.expect(connection.ChannelClose, 1)
            raw.say(connection.ChannelCloseOk())
            self.begin_anew()
        elif tag is not None:
            self.settle(what, tag, tags)
        for place, queue in enumerate(self.queues):
            assert raw.ready(queue, 2) == len(model.ready[place])

    def settle(self, what: str, tag: int, tags: list[int]) -> None:
        say, model = self.raw.say, self.model
        if what == "ack":
            say(basic.BasicAck(delivery_tag=tag))
            model.settle("ack", tag)
        elif what == "nack":
            say(basic.BasicNack(delivery_tag=tag, requeue=True))
            model.settle("requeue", tag)
        elif what in ("reject", "refuse"):
            method = basic.BasicReject if what == "reject" else basic.BasicNack
            say(method(delivery_tag=tag, requeue=False))
            model.settle("refuse", tag)
        elif what == "multiple":
            say(basic.BasicAck(delivery_tag=tag, multiple=True))
            model.settle("ack", *(each for each in tags if each <= tag))
        else:
            say(basic.BasicNack(delivery_tag=0, multiple=True, requeue=True))
            model.settle("requeue", *tags)

    def begin_anew(self) -> None:
        self.model.end_channel()
        self.raw.ask(connection.ChannelOpen(), connection.ChannelOpenOk)
        self.raw.ask(basic.TxSelect(), basic.TxSelectOk)

    def get(self, queue: int) -> None:
        self.raw.say(basic.BasicGet(queue=self.queues[queue]))
        ready = self.model.ready[queue]
        if not ready:
            self.raw.expect(basic.BasicGetEmpty, 1)
            return
        content, expected = self.raw.content(), ready.pop(0)
        self.model.last_tag += 1
        assert (content.body, content.method.redelivered) == (expected.body, expected.redelivered)
        assert content.method.delivery_tag == self.model.last_tag
        self.model.held[self.model.last_tag] = expected

    def end(self) -> list[list[bytes]]:
        """All is given back, and the queues are deleted; what they had."""
        self.raw.ask(CLOSE_CHANNEL, connection.ChannelCloseOk)
        self.model.end_channel()
        found = [self.raw.got(queue, channel=2) for queue in self.queues]
        self.raw.ask(basic.BasicConsume(queue=self.dead, no_ack=True, consumer_tag="d"), basic.BasicConsumeOk, 2)
        assert sorted(self.raw.content().body for _ in self.model.dead) == sorted(self.model.dead)
        self.raw.ask(basic.BasicCancel(consumer_tag="d"), basic.BasicCancelOk, 2)
        for queue in (*self.queues, self.dead):
            assert self.raw.ask(entity.QueueDelete(queue=queue), entity.QueueDeleteOk, 2).message_count == 0
        return found


@pytest.fixture(scope="module")
def port(broker: AmqpBroker) -> Iterator[int]:
    return broker.port


@settings(max_examples=tried(60))
@given(STEPS)
def test_what_is_there_is_what_the_transactions_have_done(port: int, steps: list[tuple[str, int]]) -> None:
    with RawClient(port, opens=2) as raw:
        driven = Driven(raw)
        for step in steps:
            driven.step(*step)
        assert driven.end() == [[each.body for each in ready] for ready in driven.model.ready]
