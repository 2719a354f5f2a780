"""Dead letters as pika sees them: ``x-death`` and what goes with it, as RabbitMQ has them (docs/amqp.md)."""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import aio_pika
import pika
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pika.adapters.blocking_connection import BlockingChannel

from actors.batch import BinaryColumn, MessageBatch, pack_headers
from actors.queue.vocabulary.deaths import HISTORY, HISTORY_BYTES, MOST_DEATHS, Death, History, history_of
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.replies import ReceivedMessages
from tests.examples_tried import tried
from tests.transport.gateways.amqp.amqp_values import TABLES
from tests.transport.gateways.amqp.conftest import AmqpBroker
from transport.gateways.amqp.carried_properties import delivered_properties
from transport.gateways.amqp.properties import Properties, check_properties
from transport.gateways.amqp.tables import Entry, Table
from transport.wire.amqp_headers import RAW

Named = Callable[[str], str]
SECONDS = 30
STORED_US = 1_700_000_000_123_456


@pytest.fixture
def channel(broker: AmqpBroker) -> Iterator[BlockingChannel]:
    parameters = pika.ConnectionParameters("127.0.0.1", broker.port, blocked_connection_timeout=SECONDS)
    with pika.BlockingConnection(parameters) as connection:
        yield connection.channel()


def coming(channel: BlockingChannel, queue: str) -> tuple[Any, Any, bytes]:
    """The next message of a queue, which is not settled."""
    came: list[tuple[Any, Any, bytes]] = []
    channel.basic_qos(prefetch_count=1)
    tag = channel.basic_consume(queue, lambda _, *message: came.append(message))
    until = time.monotonic() + SECONDS
    while not came and time.monotonic() < until:
        channel.connection.process_data_events(time_limit=SECONDS)
    channel.basic_cancel(tag)
    assert came, f"nothing has come to {queue}"
    return came[0]


def refuse(channel: BlockingChannel, queue: str) -> None:
    """Have the next message of a queue be a dead letter."""
    method, _, _ = coming(channel, queue)
    channel.basic_nack(method.delivery_tag, requeue=False)


def dead(channel: BlockingChannel, queue: str) -> dict[str, Any]:
    """The headers of the next message of a queue, which is done with."""
    method, properties, _ = coming(channel, queue)
    channel.basic_ack(method.delivery_tag)
    return dict(properties.headers or {})


def without_time(death: dict[str, Any]) -> dict[str, Any]:
    assert isinstance(death["time"], datetime)
    return {name: value for name, value in death.items() if name != "time"}


def test_a_refused_message_says_where_why_and_when_it_died(channel: BlockingChannel, named: Named) -> None:
    source, late, exchange = named("source"), named("late"), named("dlx")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_declare(late)
    channel.queue_bind(late, exchange)
    channel.queue_declare(source, arguments={"x-dead-letter-exchange": exchange})
    began = int(time.time())
    sent = pika.BasicProperties(content_type="a/b", headers={"own": 1, "x-death": "mine"}, message_id="m")
    channel.basic_publish("", source, b"body", sent)
    refuse(channel, source)
    method, properties, body = coming(channel, late)
    assert (method.exchange, method.routing_key, body) == (exchange, source, b"body")
    assert (properties.content_type, properties.message_id) == ("a/b", "m")
    (death,) = properties.headers["x-death"]
    assert began <= death["time"].replace(tzinfo=UTC).timestamp() <= time.time()
    assert without_time(death) == {
        "count": 1,
        "reason": "rejected",
        "queue": source,
        "exchange": "",
        "routing-keys": [source],
    }
    others = {name: value for name, value in properties.headers.items() if name != "x-death"}
    assert others == {
        "own": 1,
        "x-first-death-reason": "rejected",
        "x-first-death-queue": source,
        "x-first-death-exchange": "",
        "x-last-death-reason": "rejected",
        "x-last-death-queue": source,
        "x-last-death-exchange": "",
    }


def test_an_expiration_becomes_the_deaths_and_does_not_hold_any_more(channel: BlockingChannel, named: Named) -> None:
    source, late = named("source"), named("late")
    channel.queue_declare(late)
    channel.queue_declare(source, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": late})
    channel.basic_publish("", source, b"a", pika.BasicProperties(expiration="20", delivery_mode=2))
    _, properties, _ = coming(channel, late)
    (death,) = properties.headers["x-death"]
    assert (death["reason"], death["original-expiration"], death["queue"]) == ("expired", "20", source)
    assert (properties.expiration, properties.delivery_mode) == (None, 2)


def test_a_queues_own_time_to_live_is_no_expiration(channel: BlockingChannel, named: Named) -> None:
    source, late = named("source"), named("late")
    channel.queue_declare(late)
    arguments = {"x-message-ttl": 20, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": late}
    channel.queue_declare(source, arguments=arguments)
    channel.basic_publish("", source, b"a")
    (death,) = dead(channel, late)["x-death"]
    assert death["reason"] == "expired"
    assert "original-expiration" not in death


def test_what_is_tried_again_and_again_counts_and_has_the_last_death_first(
    channel: BlockingChannel, named: Named
) -> None:
    """A queue to wait in, as most programs try again with RabbitMQ."""
    work, wait, exchange = named("work"), named("wait"), named("again")
    channel.exchange_declare(exchange, "direct")
    arguments = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": wait}
    channel.queue_declare(work, arguments=arguments)
    channel.queue_declare(
        wait,
        arguments={"x-message-ttl": 20, "x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": work},
    )
    for queue in (work, wait):
        channel.queue_bind(queue, exchange, queue)
    channel.queue_bind(work, "amq.topic", "orders.#")
    channel.basic_publish("amq.topic", "orders.new", b"a", pika.BasicProperties(expiration="600000"))
    for times in range(1, 4):
        refuse(channel, work)
        method, properties, _ = coming(channel, work)
        assert (method.exchange, method.routing_key) == (exchange, work)
        waited, refused = properties.headers["x-death"]
        assert (waited["queue"], waited["reason"], waited["count"]) == (wait, "expired", times)
        assert (waited["exchange"], waited["routing-keys"]) == (exchange, [wait])
        assert (refused["queue"], refused["reason"], refused["count"]) == (work, "rejected", times)
        assert (refused["exchange"], refused["routing-keys"]) == ("amq.topic", ["orders.new"])
        assert refused["original-expiration"] == "600000"
        assert refused["time"] <= waited["time"]
        assert properties.expiration is None
        assert [properties.headers[f"x-first-death-{what}"] for what in ("queue", "reason", "exchange")] == [
            work,
            "rejected",
            "amq.topic",
        ]
        last = [properties.headers[f"x-last-death-{what}"] for what in ("queue", "reason")]
        assert last == [wait, "expired"]
        channel.basic_reject(method.delivery_tag, requeue=True)


@pytest.mark.parametrize("exchange", ["", "amq.direct"])
def test_what_nobody_tries_does_not_come_round(
    broker: AmqpBroker, channel: BlockingChannel, named: Named, exchange: str
) -> None:
    first, second = named("first"), named("second")
    for queue, to in ((first, second), (second, first)):
        arguments = {"x-message-ttl": 20, "x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": to}
        channel.queue_declare(queue, arguments=arguments)
        if exchange:
            channel.queue_bind(queue, exchange, queue)
    channel.basic_publish("", first, b"a")
    figures = broker.until(second, lambda row: bool(row["total_expired"]))
    assert (figures["total_in"], figures["total_expired"], figures["stored_messages"]) == (1, 1, 0)
    assert broker.statistics(first)["total_in"] == 1
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="NOT_FOUND"):
        channel.queue_declare(f"{second}.dead", passive=True)


def test_the_other_keys_of_a_message_route_its_dead_letters_until_they_are_given_another(
    channel: BlockingChannel, named: Named
) -> None:
    source, middle, end, exchange = named("source"), named("middle"), named("end"), named("dlx")
    channel.exchange_declare(exchange, "direct")
    channel.queue_declare(source, arguments={"x-dead-letter-exchange": exchange})
    given = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": "given"}
    channel.queue_declare(middle, arguments=given)
    channel.queue_declare(end, arguments={"x-dead-letter-exchange": exchange})
    channel.queue_bind(middle, exchange, "copy")
    channel.queue_bind(end, exchange, "given")
    channel.queue_declare(f"{end}.dead")
    channel.basic_publish("", source, b"a", pika.BasicProperties(headers={"CC": ["copy"]}))
    refuse(channel, source)
    refuse(channel, middle)
    refuse(channel, end)
    headers = dead(channel, f"{end}.dead")
    assert headers["CC"] == ["copy"]
    assert [(each["queue"], each["exchange"], each["routing-keys"]) for each in headers["x-death"]] == [
        (end, exchange, ["given"]),
        (middle, exchange, [source, "copy"]),
        (source, "", [source, "copy"]),
    ]


@pytest.mark.parametrize("expires", [False, True])
def test_a_dead_letter_of_the_default_exchange_comes_by_that_and_by_the_name_of_its_queue(
    channel: BlockingChannel, named: Named, expires: bool
) -> None:
    source, late, end, news = named("source"), named("late"), named("end"), named("news")
    channel.queue_declare(end)
    channel.exchange_declare(news, "direct")
    for queue, following in ((source, late), (late, end)):
        arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": following}
        if expires:
            # Nobody has it in the first, and somebody in time in the second.
            arguments["x-message-ttl"] = 1 if queue == source else SECONDS * 1_000
        channel.queue_declare(queue, arguments=arguments)
    channel.queue_bind(source, news, "k")
    channel.basic_publish(news, "k", b"a", pika.BasicProperties(headers={"CC": ["copy"]}))
    if not expires:
        refuse(channel, source)
    method, properties, _ = coming(channel, late)
    assert (method.exchange, method.routing_key) == ("", late)
    (death,) = properties.headers["x-death"]
    assert (death["exchange"], death["routing-keys"]) == (news, ["k", "copy"])
    channel.basic_nack(method.delivery_tag, requeue=False)
    method, properties, _ = coming(channel, end)
    assert (method.exchange, method.routing_key) == ("", end)
    assert [(each["queue"], each["exchange"], each["routing-keys"]) for each in properties.headers["x-death"]] == [
        (late, "", [late]),
        (source, news, ["k", "copy"]),
    ]


def test_a_dead_letter_that_is_published_anew_is_a_new_message(channel: BlockingChannel, named: Named) -> None:
    source, late = named("source"), named("late")
    channel.queue_declare(late)
    channel.queue_declare(source, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": late})
    channel.basic_publish("", source, b"a")
    refuse(channel, source)
    _, properties, _ = coming(channel, late)
    channel.basic_publish("", source, b"again", properties)
    assert dead(channel, source) == properties.headers, "what it says of deaths is the client's own"
    channel.basic_publish("", source, b"again", properties)
    refuse(channel, source)
    (death,) = dead(channel, late)["x-death"]
    assert death["count"] == 1


def test_what_a_native_sender_has_sent_dies_alike(broker: AmqpBroker, channel: BlockingChannel, named: Named) -> None:
    source, late = named("source"), named("late")
    channel.queue_declare(late)
    channel.queue_declare(source, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": late})
    broker.fill(source, [b"sent natively"])
    refuse(channel, source)
    (death,) = dead(channel, late)["x-death"]
    assert without_time(death) == {
        "count": 1,
        "reason": "rejected",
        "queue": source,
        "exchange": "",
        "routing-keys": [source],
    }


def test_aio_pika_hears_of_both_deaths_and_native_programs_read_what_is_said_of_them(
    broker: AmqpBroker, named: Named
) -> None:
    source, middle, end, exchange = named("source"), named("middle"), named("end"), named("dlx")

    async def main() -> dict[str, Any]:
        async with (
            asyncio.timeout(SECONDS),
            await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{broker.port}/", timeout=SECONDS) as connection,
        ):
            channel = await connection.channel()
            dlx = await channel.declare_exchange(exchange, "direct")
            queues = []
            for name, following in ((source, middle), (middle, end), (end, None)):
                given = {"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": following}
                queue = await channel.declare_queue(name, arguments=given if following else None)
                await queue.bind(dlx, name)
                queues.append(queue)
            sent = aio_pika.Message(b"a", content_type="a/b", headers={"own": 1})
            await channel.default_exchange.publish(sent, source)
            for queue in queues[:2]:
                async with queue.iterator() as messages:
                    async for message in messages:
                        await message.reject(requeue=False)
                        break
            async with queues[2].iterator() as messages:
                async for message in messages:
                    await message.reject(requeue=True)
                    assert message.content_type == "a/b"
                    return dict(message.headers)
        raise AssertionError("nothing has come")

    headers = asyncio.run(main())
    assert [(each["queue"], each["reason"], each["count"]) for each in headers["x-death"]] == [
        (middle, "rejected", 1),
        (source, "rejected", 1),
    ]
    assert (headers["own"], headers["x-first-death-queue"], headers["x-last-death-queue"]) == (1, source, middle)
    code, out, said = broker.run("receive", "--queue", end, "--count", "1", "--jsonl")
    assert code == 0, said
    natively = json.loads(out)["headers"]
    history = history_of({HISTORY: b64decode(natively.pop(HISTORY)["base64"])})
    assert history is not None
    assert [(each.queue, each.exchange, each.key) for each in history.deaths] == [
        (middle, exchange, middle.encode()),
        (source, "", source.encode()),
    ]
    assert natively["penstock-dead-queue"] == middle
    assert (natively["own"], natively["amqp.content_type"]) == ("1", "a/b")


def told(headers: dict[str, Any], key: bytes = b"k", published: Published | None = None) -> dict[str, Any]:
    """What a client of AMQP is told of a message with these headers."""
    column = BinaryColumn.from_values([pack_headers(headers)])
    batch = MessageBatch(BinaryColumn.from_values([b""]), keys=BinaryColumn.from_values([key]), headers=column)
    (raw,) = delivered_properties(ReceivedMessages(1, batch, STORED_US, 1, False, published))
    check_properties(raw)
    return Properties(raw).values()


DEAD = {
    "penstock-dead-reason": "rejected",
    "penstock-dead-queue": "q",
    "penstock-dead-sent-us": "1",
    "penstock-dead-deliveries": "1",
}


def test_what_a_native_receiver_had_against_it_is_told_and_the_rest_is_in_x_death() -> None:
    found = told(DEAD | {"penstock-dead-error": "no tea", "own": "1", "amqp.expiration": "5"})
    table = found.pop("headers")
    assert found == {}
    assert {name for name, _, _ in table} == {
        "own",
        "penstock-dead-error",
        "x-death",
        *(f"x-{when}-death-{what}" for when in ("first", "last") for what in ("reason", "queue", "exchange")),
    }
    (death,) = table.get("x-death")
    assert [(entry.name, entry.kind, entry.value) for entry in death.value][:5] == [
        ("original-expiration", "S", "5"),
        ("count", "l", 1),
        ("reason", "S", "rejected"),
        ("queue", "S", "q"),
        ("time", "T", STORED_US // 10**6),
    ]
    assert "penstock-dead-error" not in told(DEAD | {"penstock-dead-error": "rejected"})["headers"]


def test_what_a_client_has_said_of_deaths_gives_way_to_what_is_so() -> None:
    own = Table.of({"x-death": "mine", "x-last-death-queue": "mine", "a": 1, "x-death-of-mine": 2})
    table = told({**DEAD, RAW: Properties.of(headers=own).raw})["headers"]
    names = [name for name, _, _ in table]
    assert len(names) == len(set(names))
    assert table.get("x-last-death-queue") == "q"
    assert (table.get("a"), table.get("x-death-of-mine")) == (1, 2)


@pytest.mark.parametrize(("said", "reason"), [("max-receives", "delivery_limit"), ("maxlen", "maxlen")])
def test_reasons_are_rabbitmqs(said: str, reason: str) -> None:
    assert told(DEAD | {"penstock-dead-reason": said})["headers"].get("x-last-death-reason") == reason


@pytest.mark.parametrize("wrong", [{"penstock-dead-queue": b"\xff"}, {"penstock-dead-reason": "r" * 40}])
def test_what_says_of_itself_that_it_is_dead_and_is_not_has_its_headers(wrong: dict[str, Any]) -> None:
    headers = DEAD | wrong
    table = told(headers)["headers"]
    assert {name: value for name, _, value in table} == headers


def test_the_most_that_can_be_told_of_deaths_is_less_than_a_frame() -> None:
    longest = Death("q" * 255, "r" * 32, "x" * 255, b"k" * 255, 2**62, 2**32 - 1)
    history = History(tuple(longest._replace(first=not number) for number in range(MOST_DEATHS)))
    assert len(history.packed()) <= HISTORY_BYTES
    raw = Properties.of(headers=Table.of({"CC": ["k" * 255] * 100})).raw
    found = told({**DEAD, RAW: raw, HISTORY: history.packed()})["headers"]
    assert len(found.get("x-death")) == MOST_DEATHS
    assert len(found.raw) - len(raw) < 128 << 10


def test_where_a_table_has_no_room_for_more_its_own_headers_stay() -> None:
    large = Table([Entry(f"{number}", "V", None) for number in range(16_384)])
    found = told({**DEAD, RAW: Properties.of(headers=large, expiration="5").raw})
    assert found == {"headers": large}


@settings(max_examples=tried(60))
@given(
    st.dictionaries(
        st.sampled_from([*DEAD, "penstock-dead-key", "penstock-dead-exchange", HISTORY, RAW, "amqp.expiration"]),
        st.text(st.characters(codec="utf-8"), max_size=40) | st.binary(max_size=20),
    ),
    TABLES,
    st.binary(max_size=20),
)
def test_whatever_is_written_there_comes_as_properties(headers: dict[str, Any], table: Table, key: bytes) -> None:
    told({**DEAD, RAW: Properties.of(headers=table).raw, **headers}, key, Published("x", "common"))


def test_what_comes_round_without_a_time_to_live_is_dropped_on_its_way_be_it_at_rest_where_it_came_from(
    channel: BlockingChannel, named: Named
) -> None:
    """It was too much for the first queue, and has expired in the second at once: nobody has tried it."""
    first, second = named("first"), named("second")
    to = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": second}
    channel.queue_declare(first, arguments=to | {"x-max-length": 1})
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": first}
    channel.queue_declare(second, arguments=back | {"x-message-ttl": 0})
    channel.confirm_delivery()
    channel.basic_publish("", first, b"a")
    channel.basic_publish("", first, b"b")
    _, properties, body = coming(channel, first)
    assert (body, properties.headers) == (b"b", None), "the other has not come and pushed it out"
    assert channel.queue_declare(second, passive=True).method.message_count == 0
    assert channel.queue_declare(first, passive=True).method.message_count == 0
