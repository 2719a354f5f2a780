"""A queue that is declared again as it is: answered at once, and what is remembered of it holds no longer than the queue is as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from actors import QueueSettings
from actors.queue.queue_figures import FoundQueue
from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.raw_amqp import RawClient, methods, published
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.layout import FRAME_METHOD
from transport.gateways.amqp.method_codec import decode_method
from transport.gateways.amqp.redeclared import MOST_QUEUES, Redeclared
from transport.gateways.amqp.tables import Table

Named = Callable[[str], str]
EXPIRES = Table.of({"x-expires": 86_400_000})


@pytest.fixture
def client(broker: AmqpBroker) -> Iterator[RawClient]:
    with RawClient(broker.port, opens=2) as connected:
        yield connected


@pytest.fixture
def queue(client: RawClient, named: Named) -> str:
    """One that goes with nobody, and that this client has declared."""
    return client.declare(named("again"), arguments=EXPIRES).queue


def again(queue: str, **said: object) -> entity.QueueDeclare:
    return entity.QueueDeclare(queue=queue, **({"arguments": EXPIRES} | said))  # type: ignore[arg-type]  # as a test has it


@pytest.mark.parametrize("passive", [False, True])
def test_it_says_what_was_published_before_it_on_its_channel_and_who_consumes_by_then(
    client: RawClient, queue: str, passive: bool
) -> None:
    declares = methods(1, again(queue, passive=passive))
    for number in range(3):
        client.write(published(queue) + declares)
        found = client.expect(entity.QueueDeclareOk, 1)
        assert (found.queue, found.message_count, found.consumer_count) == (queue, number + 1, 0)
    client.say(basic.BasicQos(prefetch_count=2))
    client.expect(basic.BasicQosOk, 1)
    # In one piece: the queue has not heard of the consumer yet.
    client.write(methods(1, basic.BasicConsume(queue=queue, consumer_tag="c")) + declares)
    assert client.expect(basic.BasicConsumeOk, 1).consumer_tag == "c"
    # The answer, and two deliveries of three frames each.
    frames = [client.frame() for _ in range(7)]
    said = [decode_method(frame.payload) for frame in frames if frame is not None and frame.kind == FRAME_METHOD]
    (found,) = [each for each in said if isinstance(each, entity.QueueDeclareOk)]
    assert (found.message_count, found.consumer_count) == (1, 1)


def test_it_may_ask_for_no_answer_and_the_queue_is_the_one_declared_last(client: RawClient, queue: str) -> None:
    other = client.declare(queue + "-other").queue
    client.write(published(queue, b"1"))
    client.say(again(queue, nowait=True), basic.BasicGet(no_ack=True))
    assert client.content().body == b"1"
    assert other != queue


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"arguments": Table()}, "inequivalent arg 'x-expires'"),
        ({"durable": True}, "inequivalent arg 'durable'"),
        ({"auto_delete": True}, "inequivalent arg 'auto_delete'"),
    ],
)
def test_another_declaration_is_refused_though_the_same_was_found_before(
    client: RawClient, queue: str, said: dict[str, object], what: str
) -> None:
    for _ in range(2):
        client.ask(again(queue), entity.QueueDeclareOk)
    refused = client.ask(again(queue, **said), connection.ChannelClose)
    assert (refused.reply_code, refused.reply_text.startswith(f"PRECONDITION_FAILED - {what}")) == (406, True)
    assert client.declare(queue, 2, arguments=EXPIRES).queue == queue


def test_a_queue_that_was_deleted_and_made_otherwise_is_another(
    client: RawClient, broker: AmqpBroker, queue: str
) -> None:
    for _ in range(2):
        client.ask(again(queue), entity.QueueDeclareOk)
    with RawClient(broker.port) as other:
        other.ask(entity.QueueDelete(queue=queue), entity.QueueDeleteOk)
        other.declare(queue, arguments=Table.of({"x-expires": 1_000_000}))
    refused = client.ask(again(queue), connection.ChannelClose)
    assert refused.reply_text.startswith("PRECONDITION_FAILED - inequivalent arg 'x-expires'")


def test_a_queue_that_was_deleted_is_made_again(client: RawClient, broker: AmqpBroker, queue: str) -> None:
    client.write(published(queue))
    assert client.ask(again(queue), entity.QueueDeclareOk).message_count == 1
    with RawClient(broker.port) as other:
        other.ask(entity.QueueDelete(queue=queue), entity.QueueDeleteOk)
    assert client.ask(again(queue), entity.QueueDeclareOk).message_count == 0


def test_a_queue_that_another_connection_has_made_its_own_is_locked(
    client: RawClient, broker: AmqpBroker, queue: str
) -> None:
    client.ask(again(queue), entity.QueueDeclareOk)
    with RawClient(broker.port) as other:
        other.ask(entity.QueueDelete(queue=queue), entity.QueueDeleteOk)
        other.declare(queue, exclusive=True, arguments=EXPIRES)
        other.declare(queue, exclusive=True, arguments=EXPIRES)
        assert client.ask(again(queue), connection.ChannelClose).reply_code == 405


FOUND = FoundQueue("q", 1, QueueSettings(), True, b"arguments", None, 0, 0)


def test_what_is_remembered_holds_for_the_same_declaration_of_the_queue_as_it_was_whatever_is_in_it() -> None:
    redeclared, declared = Redeclared(), again("q")
    assert not redeclared.knows("q", declared, FOUND)
    redeclared.remember("q", declared, FOUND)
    assert redeclared.knows("q", again("q"), FOUND._replace(ready=5, receivers=2))
    assert redeclared.knows("q", declared, FOUND._replace(settings=QueueSettings()))
    assert not redeclared.knows("q", again("q", durable=True), FOUND)
    others = {"number": 2, "settings": QueueSettings(ttl=1.0), "arguments": b"others", "owner": object()}
    for name, other in others.items():
        assert not redeclared.knows("q", declared, FOUND._replace(**{name: other})), name  # type: ignore[arg-type]


def test_no_more_queues_are_remembered_than_may_and_those_of_last_are() -> None:
    redeclared = Redeclared()
    names = [f"q{number}" for number in range(MOST_QUEUES + 1)]
    for name in names:
        redeclared.remember(name, again(name), FOUND)
    assert [name for name in names if redeclared.knows(name, again(name), FOUND)] == names[1:]
