"""What clients say in a row without waiting, over sockets: nothing that was published is lost, and each method finds what is before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.raw_amqp import CLOSE, CLOSE_CHANNEL, FRAME_MAX, RawClient, methods, published
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.channel_publishing import MOST_LINES
from transport.gateways.amqp.contents import MAX_MESSAGE_BYTES
from transport.gateways.amqp.tables import Table

Named = Callable[[str], str]


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpBroker]:
    """One that has a disk: what is stored and what is confirmed are two moments."""
    with AmqpBroker("--data", str(tmp_path_factory.mktemp("amqp")), "--no-http") as running:
        yield running


@pytest.fixture
def queue(durable: AmqpBroker, named: Named) -> str:
    with RawClient(durable.port) as client:
        return client.declare(named("orders"), durable=True).queue


@pytest.fixture
def client(durable: AmqpBroker) -> Iterator[RawClient]:
    with RawClient(durable.port, opens=2) as connected:
        yield connected


@pytest.mark.parametrize("count", [1, 3_000])
def test_a_connection_that_is_closed_has_stored_all_that_was_published(
    durable: AmqpBroker, queue: str, count: int
) -> None:
    """py-amqp closes no channel before: what waited for its first room was lost."""
    with RawClient(durable.port) as client:
        client.write(published(queue, b"x" * 1_000) * count + methods(0, CLOSE))
        client.expect(connection.ConnectionCloseOk)
        assert client.ended() == []
    with RawClient(durable.port) as client:
        assert client.ready(queue) == count


def test_a_channel_that_breaks_a_rule_has_stored_all_that_was_published_before(client: RawClient, queue: str) -> None:
    client.write(published(queue, b"1") + published(queue, b"2", exchange="nowhere") + published(queue, b"3"))
    assert client.expect(connection.ChannelClose, 1).reply_code == 404
    client.write(methods(1, connection.ChannelCloseOk(), connection.ChannelOpen()))
    client.expect(connection.ChannelOpenOk, 1)
    assert client.got(queue) == [b"1"]


def test_an_acknowledgement_that_cannot_be_ends_the_channel_and_what_was_published_before_is_stored(
    client: RawClient, queue: str
) -> None:
    """What waited for the answer to a method was lost with the channel."""
    ack, look = methods(2, basic.BasicAck(delivery_tag=9)), methods(2, entity.QueueDeclare(queue=queue, passive=True))
    client.write(published(queue, b"1", 2) + look + published(queue, b"2", 2) + ack + published(queue, b"3", 2) + ack)
    assert client.expect(connection.ChannelClose, 2).reply_text == "PRECONDITION_FAILED - unknown delivery tag 9"
    client.write(methods(2, connection.ChannelCloseOk(), connection.ChannelOpen()))
    client.expect(connection.ChannelOpenOk, 2)
    # What the channel has left behind is stored, which may be a turn later.
    found: list[bytes] = []
    while len(found) < 2:
        found += client.got(queue)
    assert found == [b"1", b"2"]
    assert client.ready(queue) == 0


@pytest.mark.parametrize(
    "error", [methods(1, entity.QueueDeclare(queue="nowhere", passive=True)), published("q", exchange="nowhere")]
)
def test_a_client_that_closes_a_channel_which_fails_is_answered_both(
    client: RawClient, queue: str, error: bytes
) -> None:
    """It waited for an answer to its own close for ever, where that had come before the error was told."""
    client.write(published(queue) + error + methods(1, CLOSE_CHANNEL))
    assert client.expect(connection.ChannelClose, 1).reply_code == 404
    client.expect(connection.ChannelCloseOk, 1)
    client.write(methods(1, connection.ChannelCloseOk(), connection.ChannelOpen()))
    client.expect(connection.ChannelOpenOk, 1)


def test_commands_of_one_channel_are_carried_out_one_after_another(client: RawClient, queue: str) -> None:
    """They wait together until a publish before them is stored: each found the broker as it was before all of them."""
    new = queue + "-new"
    said = (
        entity.QueueDeclare(queue=new, nowait=True),
        entity.QueueBind(queue=new, exchange="amq.fanout", nowait=True),
        entity.QueueDeclare(queue=new, passive=True),
        entity.QueueDelete(queue=new, nowait=True),
        entity.QueueDeclare(queue=new, passive=True),
    )
    client.write(published(queue) + methods(1, *said))
    assert client.expect(entity.QueueDeclareOk, 1).queue == new
    assert client.expect(connection.ChannelClose, 1).reply_code == 404


def test_what_a_full_queue_takes_of_many_is_there_for_the_method_behind_them(client: RawClient, named: Named) -> None:
    """They are offered together first. All were rejected, and the method did not wait until those were stored that there was room for."""
    arguments = Table.of({"x-max-length": 1, "x-overflow": "reject-publish"})
    for number in range(5):
        queue = client.declare(f"{named('small')}-{number}", arguments=arguments, durable=True).queue
        client.write(published(queue) * 20 + methods(1, entity.QueueDeclare(queue=queue, passive=True)))
        assert client.expect(entity.QueueDeclareOk, 1).message_count == 1


def test_many_declarations_that_want_no_answer_are_done_in_order(client: RawClient, named: Named) -> None:
    names = [f"{named('many')}-{number}" for number in range(200)]
    client.say(*(entity.QueueDeclare(queue=name, nowait=True) for name in names))
    client.say(*(entity.QueueDeclare(queue=name, passive=True) for name in names))
    assert [client.expect(entity.QueueDeclareOk, 1).queue for _ in names] == names


def test_a_get_that_names_no_queue_is_of_the_one_that_was_declared_before_it(client: RawClient, queue: str) -> None:
    other = queue + "-other"
    client.declare(other)
    client.write(published(queue, b"m"))
    assert client.ready(queue) == 1
    client.say(basic.BasicGet(no_ack=True), entity.QueueDeclare(queue=other, passive=True))
    assert client.content().body == b"m"
    assert client.expect(entity.QueueDeclareOk, 1).queue == other


def test_a_consumer_that_is_cancelled_and_still_holds_something_consumes_no_more(client: RawClient, queue: str) -> None:
    client.write(published(queue, b"m"))
    client.ask(basic.BasicConsume(queue=queue, consumer_tag="first"), basic.BasicConsumeOk)
    tag = client.content().method.delivery_tag
    client.ask(basic.BasicCancel(consumer_tag="first"), basic.BasicCancelOk)
    assert client.declare(queue, 1, passive=True).consumer_count == 0
    client.ask(basic.BasicConsume(queue=queue, consumer_tag="second", exclusive=True), basic.BasicConsumeOk)
    client.say(basic.BasicReject(delivery_tag=tag, requeue=True))
    assert client.content().method.consumer_tag == "second"
    assert client.declare(queue, 1, passive=True).consumer_count == 1


def test_a_consumer_that_wants_a_queue_for_itself_is_refused_where_one_has_come_just_before(
    client: RawClient, queue: str
) -> None:
    """The queue had not heard of the first when the second asked, and both were let in."""
    client.write(
        methods(1, basic.BasicConsume(queue=queue, consumer_tag="first"))
        + methods(2, basic.BasicConsume(queue=queue, consumer_tag="second", exclusive=True))
    )
    client.expect(basic.BasicConsumeOk, 1)
    refused = client.expect(connection.ChannelClose, 2)
    assert refused.reply_text == f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"


def test_a_consumer_has_a_queue_for_itself_behind_one_that_is_cancelled_just_before(
    client: RawClient, queue: str
) -> None:
    """The queue had not heard of the cancel when the second asked, and it was refused."""
    client.ask(basic.BasicConsume(queue=queue, consumer_tag="first"), basic.BasicConsumeOk)
    for tag, next_tag in (("first", "second"), ("second", "third")):
        client.say(
            basic.BasicCancel(consumer_tag=tag, nowait=True),
            basic.BasicConsume(queue=queue, consumer_tag=next_tag, exclusive=True),
        )
        assert client.expect(basic.BasicConsumeOk, 1).consumer_tag == next_tag
    client.write(published(queue, b"m"))
    assert client.content().method.consumer_tag == "third"


def test_a_queue_that_is_looked_for_behind_a_cancel_counts_one_consumer_less(client: RawClient, queue: str) -> None:
    client.ask(basic.BasicConsume(queue=queue, consumer_tag="first"), basic.BasicConsumeOk)
    client.say(basic.BasicCancel(consumer_tag="first", nowait=True), entity.QueueDelete(queue=queue, if_unused=True))
    assert client.expect(entity.QueueDeleteOk, 1).message_count == 0


def test_one_that_publishes_to_more_exchanges_than_it_may_at_a_time_waits(client: RawClient, named: Named) -> None:
    exchanges = [f"{named('e')}-{number}" for number in range(MOST_LINES + 20)]
    target = client.declare(named("all"), durable=True).queue
    client.say(
        *(entity.ExchangeDeclare(exchange=each, type="fanout", durable=True, nowait=True) for each in exchanges),
        *(entity.QueueBind(queue=target, exchange=each, nowait=True) for each in exchanges),
        basic.ConfirmSelect(nowait=True),
    )
    client.write(b"".join(published("", each.encode(), exchange=each) for each in exchanges) * 2)
    told = 0
    while told < 2 * len(exchanges):
        told = client.expect(basic.BasicAck, 1).delivery_tag
    assert sorted(client.got(target)) == sorted(2 * [each.encode() for each in exchanges])


def test_a_channel_that_is_opened_again_before_its_close_is_answered_ends_the_connection(
    client: RawClient, queue: str
) -> None:
    client.write(published(queue) + methods(1, CLOSE_CHANNEL, connection.ChannelOpen()) + published(queue))
    assert client.ended()[-1].reply_code == 504


def test_many_consumers_of_a_long_queue_get_all_of_it(client: RawClient, queue: str) -> None:
    """Each asked for 8 MiB before the socket was full, and the connection was cut for what waited for it."""
    body = b"x" * 20_000
    for _ in range(4):
        client.write(published(queue, body) * 1_000)
    assert client.ready(queue) == 4_000
    client.say(*(basic.BasicConsume(queue=queue, consumer_tag=str(number), nowait=True) for number in range(40)))
    for _ in range(4_000):
        assert client.content().body == body


@pytest.mark.soak
def test_a_message_as_large_as_it_may_be_comes_back_and_a_larger_one_is_refused(client: RawClient, queue: str) -> None:
    body = bytes(MAX_MESSAGE_BYTES)
    client.write(published(queue, body))
    client.say(basic.BasicGet(queue=queue))
    assert client.content().body == body
    client.write(published(queue, body + b"x"))
    assert client.expect(connection.ChannelClose, 1).reply_code == 406


def test_headers_as_large_as_a_frame_come_back(client: RawClient, queue: str) -> None:
    from transport.gateways.amqp.properties import Properties

    properties = Properties.of(headers=Table.of({"k": "x" * (FRAME_MAX - 64)})).raw
    client.write(published(queue, properties=properties))
    client.say(basic.BasicGet(queue=queue, no_ack=True))
    assert client.content().properties == properties
