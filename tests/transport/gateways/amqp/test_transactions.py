"""Transactions of AMQP, frame by frame: nothing is seen before the commit, and all of it then; what ends the channel rolls it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.transport.gateways.amqp.conftest import AmqpBroker
from tests.transport.gateways.amqp.peers import lasting
from tests.transport.gateways.amqp.raw_amqp import CLOSE, CLOSE_CHANNEL, RawClient, methods, published
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.direct_reply import REPLY_TO
from transport.gateways.amqp.layout import FRAME_BODY
from transport.gateways.amqp.properties import EXPIRATION_FLAG, Properties
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.tables import Table

Named = Callable[[str], str]
SELECT, COMMIT, ROLLBACK = basic.TxSelect(), basic.TxCommit(), basic.TxRollback()


class Transacted(RawClient):
    """Its channel 1 has transactions, and its channel 2 looks at what is there."""

    def __init__(self, port: int) -> None:
        super().__init__(port, opens=2)
        self.ask(SELECT, basic.TxSelectOk)

    def commit(self) -> None:
        self.ask(COMMIT, basic.TxCommitOk)

    def roll_back(self) -> None:
        self.ask(ROLLBACK, basic.TxRollbackOk)

    def there(self, queue: str) -> int:
        return self.ready(queue, channel=2)

    def taken(self, queue: str) -> basic.BasicGetOk:
        """What ``basic.get`` gives, to be settled."""
        self.say(basic.BasicGet(queue=queue))
        content = self.content()
        assert isinstance(content.method, basic.BasicGetOk)
        return content.method

    def fails(self, code: ReplyCode, text: str, index: int) -> None:
        """The channel is closed with this, about this method, and can be opened again."""
        said = self.expect(connection.ChannelClose, 1)
        assert (said.reply_code, said.reply_text) == (code, text)
        assert (said.class_id << 16 | said.method_id) == index
        self.say(connection.ChannelCloseOk(), connection.ChannelOpen())
        self.expect(connection.ChannelOpenOk, 1)


@pytest.fixture
def client(broker: AmqpBroker) -> Iterator[Transacted]:
    with Transacted(broker.port) as raw:
        yield raw


@pytest.fixture
def queue(client: Transacted, named: Named) -> str:
    return client.declare(named("tx"), 2, durable=True).queue


def filled(client: Transacted, queue: str, *bodies: bytes) -> None:
    """Messages of no transaction."""
    client.write(b"".join(published(queue, body, channel=2) for body in bodies))
    assert client.there(queue) == len(bodies)


def test_what_is_published_is_there_when_it_is_committed_and_not_before(client: Transacted, queue: str) -> None:
    client.write(published(queue, b"a") + published(queue, b"b"))
    assert client.ready(queue) == 0
    client.commit()
    assert client.there(queue) == 2
    client.write(published(queue, b"c"))
    client.commit()
    assert client.got(queue, channel=2) == [b"a", b"b", b"c"]


def test_what_is_rolled_back_is_nowhere_and_the_next_one_begins_anew(client: Transacted, queue: str) -> None:
    client.write(published(queue, b"a"))
    client.roll_back()
    client.write(published(queue, b"b"))
    client.commit()
    client.roll_back()
    client.commit()
    assert client.got(queue, channel=2) == [b"b"]


def test_all_may_be_said_at_once(client: Transacted, queue: str) -> None:
    filled(client, queue, b"one", b"two")
    for _ in range(2):
        client.taken(queue)
    client.write(
        published(queue, b"a")
        + methods(1, basic.BasicAck(delivery_tag=1), COMMIT, SELECT)
        + published(queue, b"b")
        + methods(1, basic.BasicAck(delivery_tag=2), ROLLBACK)
        + published(queue, b"c")
        + methods(1, COMMIT)
    )
    for answer in (basic.TxCommitOk, basic.TxSelectOk, basic.TxRollbackOk, basic.TxCommitOk):
        client.expect(answer, 1)
    client.say(CLOSE_CHANNEL)
    client.expect(connection.ChannelCloseOk, 1)
    # The second is acknowledged in what was rolled back, and comes back with the channel.
    assert client.got(queue, channel=2) == [b"two", b"a", b"c"]


def test_acknowledgements_are_of_no_effect_before_the_commit(client: Transacted, queue: str) -> None:
    filled(client, queue, b"a", b"b", b"c")
    tags = [client.taken(queue).delivery_tag for _ in range(3)]
    client.say(basic.BasicAck(delivery_tag=tags[0]), basic.BasicReject(delivery_tag=tags[1], requeue=True))
    assert client.ready(queue) == 0
    client.commit()
    assert client.there(queue) == 1
    client.say(CLOSE_CHANNEL)
    client.expect(connection.ChannelCloseOk, 1)
    assert client.got(queue, channel=2) == [b"b", b"c"]


def test_a_rollback_has_deliveries_be_settled_again(client: Transacted, queue: str) -> None:
    filled(client, queue, b"a", b"b", b"c", b"d")
    for _ in range(4):
        client.taken(queue)
    client.say(basic.BasicAck(delivery_tag=2, multiple=True), basic.BasicNack(delivery_tag=4, requeue=False))
    client.roll_back()
    client.say(basic.BasicNack(delivery_tag=3, multiple=True, requeue=True), basic.BasicAck(delivery_tag=4))
    client.commit()
    assert client.got(queue, channel=2) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("tag", [2, 7])
def test_an_unknown_tag_ends_the_channel_and_all_of_the_transaction(client: Transacted, queue: str, tag: int) -> None:
    filled(client, queue, b"a", b"b")
    for _ in range(2):
        client.taken(queue)
    client.write(published(queue, b"c"))
    client.say(basic.BasicAck(delivery_tag=2), basic.BasicAck(delivery_tag=tag))
    client.fails(
        ReplyCode.PRECONDITION_FAILED, f"PRECONDITION_FAILED - unknown delivery tag {tag}", basic.BasicAck.INDEX
    )
    assert client.got(queue, channel=2) == [b"a", b"b"]


def test_multiple_with_tag_0_is_all_that_is_not_settled_in_the_transaction(client: Transacted, queue: str) -> None:
    filled(client, queue, b"a", b"b", b"c")
    for _ in range(3):
        client.taken(queue)
    client.say(
        basic.BasicNack(delivery_tag=2, requeue=True),
        basic.BasicAck(delivery_tag=0, multiple=True),
        basic.BasicAck(delivery_tag=0, multiple=True),
    )
    client.commit()
    assert client.got(queue, channel=2) == [b"b"]


def test_recover_gives_back_what_the_transaction_has_not_settled_and_that_at_once(
    client: Transacted, queue: str
) -> None:
    filled(client, queue, b"a", b"b")
    for _ in range(2):
        client.taken(queue)
    client.say(basic.BasicAck(delivery_tag=1))
    client.ask(basic.BasicRecover(requeue=True), basic.BasicRecoverOk)
    assert client.got(queue, channel=2) == [b"b"]
    client.roll_back()
    client.say(basic.BasicNack(delivery_tag=1, requeue=True))
    client.commit()
    assert client.got(queue, channel=2) == [b"a"]


def test_a_refused_message_is_a_dead_letter_when_that_is_committed(client: Transacted, named: Named) -> None:
    dead, work = named("dead"), named("work")
    client.declare(dead, 2, durable=True)
    arguments = Table.of({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead})
    client.declare(work, 2, durable=True, arguments=arguments)
    filled(client, work, b"a", b"b")
    for _ in range(2):
        client.taken(work)
    client.say(basic.BasicReject(delivery_tag=1, requeue=False))
    client.roll_back()
    client.say(basic.BasicReject(delivery_tag=2, requeue=False))
    assert client.ready(dead) == 0
    client.commit()
    client.say(basic.BasicConsume(queue=dead, no_ack=True), channel=2)
    client.expect(basic.BasicConsumeOk, 2)
    assert client.content().body == b"b"


def test_prefetch_is_free_again_with_the_commit(client: Transacted, queue: str) -> None:
    filled(client, queue, b"a", b"b")
    client.ask(basic.BasicQos(prefetch_count=1), basic.BasicQosOk)
    client.ask(basic.BasicConsume(queue=queue), basic.BasicConsumeOk)
    tag = client.content().method.delivery_tag
    client.say(basic.BasicAck(delivery_tag=tag))
    # Nothing is delivered before the answer to what is asked behind it.
    client.ask(basic.BasicQos(prefetch_count=1), basic.BasicQosOk)
    assert client.there(queue) == 1
    client.say(COMMIT)
    # The answer, and a method, a header and a body; either may come first.
    came = [client.frame() for _ in range(4)]
    assert [each.payload for each in came if each is not None and each.kind == FRAME_BODY] == [b"b"]


def test_a_consumer_that_is_cancelled_settles_what_it_has_in_a_transaction(client: Transacted, queue: str) -> None:
    filled(client, queue, b"a", b"b")
    client.ask(basic.BasicConsume(queue=queue, consumer_tag="c"), basic.BasicConsumeOk)
    for _ in range(2):
        client.content()
    client.say(basic.BasicAck(delivery_tag=1))
    client.ask(basic.BasicCancel(consumer_tag="c"), basic.BasicCancelOk)
    client.say(basic.BasicReject(delivery_tag=2, requeue=True))
    assert client.ready(queue) == 0
    client.commit()
    assert client.got(queue, channel=2) == [b"b"]


def test_what_no_queue_takes_comes_back_with_the_commit_and_before_its_answer(client: Transacted, queue: str) -> None:
    client.write(published("nobody", b"lost", mandatory=True) + published(queue, b"a", mandatory=True))
    client.roll_back()
    client.write(
        published("nobody", b"lost", mandatory=True) + published("nobody", b"dropped") + published(queue, b"b")
    )
    assert client.ready(queue) == 0
    client.say(COMMIT)
    back = client.content()
    assert isinstance(back.method, basic.BasicReturn)
    assert (back.method.reply_code, back.method.reply_text) == (ReplyCode.NO_ROUTE, "NO_ROUTE")
    assert (back.method.routing_key, back.body) == ("nobody", b"lost")
    client.expect(basic.TxCommitOk, 1)
    client.commit()
    assert client.got(queue, channel=2) == [b"b"]


def test_too_much_that_no_queue_takes_ends_the_channel_and_not_its_connection(client: Transacted, queue: str) -> None:
    client.write(published(queue) + b"".join(published("nowhere", b"x" * (9 << 20), mandatory=True) for _ in range(2)))
    error = client.expect(connection.ChannelClose, 1)
    assert error.reply_text.startswith(
        "PRECONDITION_FAILED - 18875392 bytes of messages that no queue takes wait for the commit"
    )
    assert client.there(queue) == 0


def test_what_no_queue_takes_of_many_channels_has_one_limit_for_their_connection(broker: AmqpBroker) -> None:
    with RawClient(broker.port, opens=3) as client:
        for channel in (1, 2, 3):
            client.ask(SELECT, basic.TxSelectOk, channel)
            client.write(published("nowhere", b"x" * (7 << 20), channel, mandatory=True))
        error = client.expect(connection.ChannelClose, 3)
        assert error.reply_text.startswith("PRECONDITION_FAILED - 22021632 bytes of messages that no queue takes wait")
        client.say(connection.ChannelCloseOk(), connection.ChannelOpen(), SELECT, channel=3)
        client.expect(connection.ChannelOpenOk, 3)
        client.expect(basic.TxSelectOk, 3)
        # What the closed one kept counts no more.
        client.write(published("nowhere", b"again", 3, mandatory=True) + methods(3, COMMIT))
        assert client.content().body == b"again"
        client.expect(basic.TxCommitOk, 3)


def test_an_exchange_that_is_not_there_ends_the_channel_at_the_publish(client: Transacted, queue: str) -> None:
    client.write(published(queue, b"a") + published("k", exchange="nowhere-at-all"))
    client.fails(ReplyCode.NOT_FOUND, "NOT_FOUND - no exchange 'nowhere-at-all' in vhost '/'", basic.BasicPublish.INDEX)
    assert client.there(queue) == 0


def test_where_messages_go_is_decided_as_they_are_published(client: Transacted, queue: str, named: Named) -> None:
    exchange = named("gone")
    client.ask(entity.ExchangeDeclare(exchange=exchange, type="fanout"), entity.ExchangeDeclareOk, 2)
    client.ask(entity.QueueBind(queue=queue, exchange=exchange), entity.QueueBindOk, 2)
    client.write(published("", b"a", exchange=exchange))
    assert client.ready(queue) == 0
    client.ask(entity.ExchangeDelete(exchange=exchange), entity.ExchangeDeleteOk, 2)
    client.commit()
    assert client.got(queue, channel=2) == [b"a"]


def test_a_queue_that_is_deleted_meanwhile_keeps_nothing_from_the_others(
    client: Transacted, queue: str, named: Named
) -> None:
    other = named("other")
    client.declare(other, 2)
    filled(client, other, b"old")
    client.taken(other)
    client.write(published(queue, b"a") + published(other, b"b"))
    client.say(basic.BasicAck(delivery_tag=1))
    client.ask(entity.QueueDelete(queue=other), entity.QueueDeleteOk)
    client.commit()
    assert client.got(queue, channel=2) == [b"a"]


def test_a_full_queue_that_rejects_fails_the_commit_and_nothing_of_it_has_happened(
    client: Transacted, queue: str, named: Named
) -> None:
    full = named("full")
    arguments = Table.of({"x-max-length": 2, "x-overflow": "reject-publish"})
    client.declare(full, 2, durable=True, arguments=arguments)
    filled(client, full, b"1", b"2")
    filled(client, queue, b"held")
    client.taken(queue)
    client.write(published(queue, b"a") + published(full, b"3"))
    client.say(basic.BasicAck(delivery_tag=1), COMMIT)
    client.fails(
        ReplyCode.PRECONDITION_FAILED,
        "PRECONDITION_FAILED - partial tx completion: nothing of the transaction is done: "
        f"queue '{full}' is full: 2 of max_messages 2 messages are stored, and the 1 that the transaction publishes there do not fit",
        basic.TxCommit.INDEX,
    )
    assert client.got(queue, channel=2) == [b"held"]
    assert client.got(full, channel=2) == [b"1", b"2"]


def test_a_message_that_cannot_be_staged_has_nothing_of_its_transaction_happen_though_the_commit_is_said_already(
    client: Transacted, broker: AmqpBroker, queue: str, named: Named
) -> None:
    """All is staged that may be, and the client has said all in one go: the commit waits for that, and is not of what is there."""
    little = client.declare(named("little"), 2).queue
    code, _, said = broker.run("queue alter", little, "--max-staged-messages", "2")
    assert code == 0, said
    client.write(published(queue, b"a") + b"".join(published(little, b"%d" % n * 300_000) for n in range(3)))
    client.say(COMMIT)
    error = client.expect(connection.ChannelClose, 1)
    assert "would have 3 of max_staged_messages 2 staged" in error.reply_text
    assert (client.there(queue), client.there(little)) == (0, 0)


@pytest.mark.parametrize("kind", ["durable", "exclusive", "reply"])
@pytest.mark.parametrize(
    ("option", "limit", "bodies", "text"),
    [
        ("--max-staged-messages", "2", (b"1", b"2", b"3"), "would have 3 of max_staged_messages 2 staged"),
        ("--max-staged-bytes", "1000", (b"x" * 1_000,), "of max_staged_bytes 1000 staged"),
    ],
)
def test_the_brokers_limits_of_what_is_staged_hold_for_what_amqp_declares(
    kind: str, option: str, limit: str, bodies: tuple[bytes, ...], text: str
) -> None:
    with AmqpBroker(option, limit) as broker, broker.drained(), Transacted(broker.port) as client:
        if kind == "reply":
            client.ask(basic.BasicConsume(queue=REPLY_TO, no_ack=True), basic.BasicConsumeOk, channel=2)
            client.declare("asked", 2)
            client.write(published("asked", properties=Properties.of(reply_to=REPLY_TO).raw, channel=2))
            client.say(basic.BasicGet(queue="asked", no_ack=True), channel=2)
            queue = Properties(client.content().properties).reply_to or ""
        else:
            queue = client.declare("q", 2, **{kind: True}).queue
        client.write(b"".join(published(queue, body) for body in bodies))
        client.say(COMMIT)
        assert text in client.expect(connection.ChannelClose, 1).reply_text


def test_room_in_the_place_of_what_is_acknowledged_counts(client: Transacted, named: Named) -> None:
    full = named("full")
    arguments = Table.of({"x-max-length": 2, "x-overflow": "reject-publish"})
    client.declare(full, 2, durable=True, arguments=arguments)
    filled(client, full, b"1", b"2")
    client.taken(full)
    client.write(published(full, b"again"))
    client.say(basic.BasicAck(delivery_tag=1))
    client.commit()
    assert client.got(full, channel=2) == [b"2", b"again"]


def blocked(client: Transacted, queue: str) -> None:
    """A queue that is full, and what a transaction publishes there waits."""
    client.declare(queue, 2, arguments=Table.of({"x-max-length": 1, "x-overflow": "block"}))
    filled(client, queue, b"1")
    client.write(published(queue, b"2"))


def test_a_commit_waits_for_the_room_of_a_queue_that_blocks(client: Transacted, named: Named) -> None:
    queue = named("blocks")
    blocked(client, queue)
    client.say(COMMIT)
    assert client.got(queue, most=1, channel=2) == [b"1"]
    client.expect(basic.TxCommitOk, 1)
    assert client.got(queue, channel=2) == [b"2"]


def test_a_rollback_and_the_end_of_the_channel_wait_for_no_room(client: Transacted, named: Named) -> None:
    queue = named("blocks")
    blocked(client, queue)
    client.roll_back()
    client.write(published(queue, b"3"))
    client.ask(CLOSE_CHANNEL, connection.ChannelCloseOk)
    assert client.got(queue, channel=2) == [b"1"]


def test_a_message_has_its_own_expiration_in_a_transaction_too(client: Transacted, queue: str) -> None:
    def expiring(milliseconds: bytes) -> bytes:
        return EXPIRATION_FLAG.to_bytes(2, "big") + bytes([len(milliseconds)]) + milliseconds

    client.write(
        published(queue, b"a", properties=expiring(b"0")) + published(queue, b"b", properties=expiring(b"900000"))
    )
    client.commit()
    assert client.got(queue, channel=2) == [b"b"]


def test_transactions_and_confirms_exclude_each_other(client: Transacted) -> None:
    client.say(basic.ConfirmSelect())
    client.fails(
        ReplyCode.PRECONDITION_FAILED,
        "PRECONDITION_FAILED - cannot switch from tx to confirm mode",
        basic.ConfirmSelect.INDEX,
    )
    client.ask(basic.ConfirmSelect(), basic.ConfirmSelectOk)
    client.say(SELECT)
    client.fails(
        ReplyCode.PRECONDITION_FAILED, "PRECONDITION_FAILED - cannot switch from confirm to tx mode", SELECT.INDEX
    )
    assert client.ask(SELECT, basic.TxSelectOk) == basic.TxSelectOk()


@pytest.mark.parametrize("method", [COMMIT, ROLLBACK])
def test_a_channel_without_transactions_has_none_to_end(client: Transacted, method: basic.TxCommit) -> None:
    client.say(CLOSE_CHANNEL, connection.ChannelOpen())
    client.expect(connection.ChannelCloseOk, 1)
    client.expect(connection.ChannelOpenOk, 1)
    client.say(method)
    client.fails(ReplyCode.PRECONDITION_FAILED, "PRECONDITION_FAILED - channel is not transactional", method.INDEX)


def test_what_was_published_before_transactions_began_is_stored(broker: AmqpBroker, named: Named) -> None:
    with RawClient(broker.port, opens=1) as raw:
        queue = raw.declare(named("before")).queue
        raw.write(published(queue, b"a") + methods(1, SELECT) + published(queue, b"b"))
        raw.expect(basic.TxSelectOk, 1)
        raw.ask(ROLLBACK, basic.TxRollbackOk)
        assert raw.got(queue) == [b"a"]


@pytest.mark.parametrize("how", ["channel", "connection", "lost"])
def test_a_transaction_ends_with_its_channel_or_connection_however_that_goes(
    broker: AmqpBroker, client: Transacted, queue: str, how: str
) -> None:
    filled(client, queue, b"held", b"ready")
    with Transacted(broker.port) as other:
        other.taken(queue)
        other.write(published(queue, b"never") + methods(1, basic.BasicAck(delivery_tag=1)))
        assert other.ready(queue) == 1
        if how == "channel":
            other.say(CLOSE_CHANNEL)
            other.expect(connection.ChannelCloseOk, 1)
        elif how == "connection":
            other.say(CLOSE, channel=0)
            other.expect(connection.ConnectionCloseOk, 0)
    client.ask(basic.BasicConsume(queue=queue, no_ack=True), basic.BasicConsumeOk, 2)
    assert sorted(client.content().body for _ in range(2)) == [b"held", b"ready"]
    client.write(published(queue, b"last", channel=2))
    assert client.content().body == b"last"


def test_a_commit_that_was_said_before_the_connection_is_closed_is_done(
    broker: AmqpBroker, client: Transacted, queue: str
) -> None:
    with Transacted(broker.port) as other:
        other.write(published(queue, b"a") + methods(1, COMMIT) + methods(0, CLOSE))
        other.expect(basic.TxCommitOk, 1)
        other.expect(connection.ConnectionCloseOk, 0)
    assert client.got(queue, channel=2) == [b"a"]


def test_what_was_committed_is_there_after_a_kill_and_nothing_of_what_was_not(tmp_path: Path) -> None:
    with lasting(tmp_path / "data") as broker:
        with Transacted(broker.port) as client:
            for queue in ("in", "out"):
                client.declare(queue, 2, durable=True)
            filled(client, "in", b"1", b"2")
            for tag in (1, 2):
                client.taken("in")
                client.write(published("out", b"%d done" % tag) + methods(1, basic.BasicAck(delivery_tag=tag)))
                if tag == 1:
                    client.commit()
            # It is stored by now, and held back.
            assert client.ready("out") == 1
            broker.restart()
        with RawClient(broker.port) as client:
            assert (client.got("in"), client.got("out")) == ([b"2"], [b"1 done"])


def test_a_transaction_publishes_to_more_exchanges_than_a_channel_has_lines(
    client: Transacted, queue: str, named: Named
) -> None:
    exchanges = [named(f"x{number}") for number in range(70)]
    for exchange in exchanges:
        client.ask(entity.ExchangeDeclare(exchange=exchange, type="fanout"), entity.ExchangeDeclareOk, 2)
        client.ask(entity.QueueBind(queue=queue, exchange=exchange), entity.QueueBindOk, 2)
    for _ in range(2):
        client.write(b"".join(published("", exchange.encode(), exchange=exchange) for exchange in exchanges))
    assert client.ready(queue) == 0
    client.commit()
    found = client.got(queue, channel=2)
    assert sorted(found) == sorted(exchange.encode() for exchange in exchanges * 2)
    for exchange in exchanges:
        client.ask(entity.ExchangeDelete(exchange=exchange), entity.ExchangeDeleteOk, 2)


def test_a_large_transaction_is_seen_whole(client: Transacted, queue: str) -> None:
    client.write(published(queue, b"x" * 1_000) * 5_000)
    client.say(COMMIT)
    client.expect(basic.TxCommitOk, 1)
    assert client.there(queue) == 5_000
    client.ask(entity.QueuePurge(queue=queue), entity.QueuePurgeOk, 2)
