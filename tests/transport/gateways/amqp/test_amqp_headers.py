"""What AMQP publishes is headers for native receivers, and the other way round (`transport.wire.amqp_headers`, docs/amqp.md)."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pika
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.batch import MAX_HEADERS_PER_MESSAGE, BinaryColumn, MessageBatch, pack_headers
from streams import Sink, Source
from tests.examples_tried import tried
from tests.transport.gateways.amqp.amqp_values import SHORT_STRINGS, TABLES
from tests.transport.gateways.amqp.conftest import AmqpBroker
from transport import Message, Receiver, Sender
from transport.clients.arrow_headers import header_maps
from transport.clients.delivery import Delivery
from transport.clients.trace_context import headers_of
from transport.gateways.amqp.carried_properties import headers_column, properties_of
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.methods import PROPERTIES
from transport.gateways.amqp.properties import NO_PROPERTIES, Properties, check_properties
from transport.gateways.amqp.tables import Entry, Field, Table
from transport.wire import amqp_headers
from transport.wire.amqp_headers import MAX_FIELDS, MAX_RAW_BYTES, MAX_REMEMBERED, PREFIX, RAW, told_headers

Named = Callable[[str], str]
SECONDS = 30
NUMBERS = frozenset("bBsuIilT")
SAID = st.fixed_dictionaries(
    {},
    optional={
        name: {"shortstr": SHORT_STRINGS, "octet": st.integers(0, 255), "table": TABLES}.get(
            kind, st.integers(0, 2**64 - 1)
        )
        for name, kind in PROPERTIES
    },
)


def text(value: str) -> str | bytes:
    raw = value.encode("utf-8", "surrogateescape")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def json_value(field: Field) -> Any:
    value = field.value
    if isinstance(value, Table):
        return {name: json_value(Field(kind, each)) for name, kind, each in value}
    if isinstance(value, tuple):
        return [json_value(each) for each in value]
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, str):
        value = text(value)
    return {"base64": b64encode(value).decode()} if isinstance(value, bytes) else value


def header(field: Field) -> str | bytes:
    """What a field of a table is as a header."""
    kind, value = field
    if kind == "S":
        return text(str(value))
    if isinstance(value, bytes):
        return value
    if kind in {"F", "A", "t"}:
        return json.dumps(json_value(field), ensure_ascii=False, separators=(",", ":"))
    return "" if kind == "V" else format(value, "f") if isinstance(value, Decimal) else str(value)


@settings(max_examples=tried(200))
@given(SAID)
def test_each_property_and_each_entry_of_the_table_is_a_header(said: dict[str, Any]) -> None:
    raw = Properties.of(**said).raw
    table = said.pop("headers", Table())
    expected = {name: header(Field(kind, value)) for name, kind, value in table}
    expected |= {PREFIX + name: text(value) if isinstance(value, str) else str(value) for name, value in said.items()}
    assert told_headers({RAW: raw}) == expected
    assert told_headers({RAW: raw, "own": "1"}) == expected | {"own": "1"}


def test_a_header_of_the_messages_own_is_told_and_of_two_entries_the_first() -> None:
    table = Table([Entry("a", "S", "first"), Entry("a", "S", "second"), Entry("amqp.priority", "S", "9")])
    raw = Properties.of(headers=table, priority=3, content_type="x").raw
    assert told_headers({RAW: raw}) == {"a": "first", "amqp.priority": "3", "amqp.content_type": "x"}
    assert told_headers({RAW: raw, "a": "own", "amqp.content_type": "y"}) == {
        "a": "own",
        "amqp.priority": "3",
        "amqp.content_type": "y",
    }


@settings(max_examples=tried(300))
@given(st.binary(max_size=60) | SAID.map(lambda said: Properties.of(**said).raw[:-1]))
def test_bytes_that_are_no_properties_stay_as_they_are(raw: bytes) -> None:
    try:
        check_properties(raw)
    except AmqpError:
        found = told_headers({RAW: raw})
        assert found == {RAW: raw} or PREFIX + "headers" not in found
    else:
        assert RAW not in told_headers({RAW: raw}) or Properties(raw).headers is not None


def test_what_is_over_a_limit_stays_bytes() -> None:
    fits = Properties.of(headers=Table([Entry("n", "V", None)] * MAX_FIELDS)).raw
    many = Properties.of(headers=Table([Entry("n", "V", None)] * (MAX_FIELDS + 1))).raw
    large = Properties.of(headers=Table.of({"n": "x" * MAX_RAW_BYTES})).raw
    assert told_headers({RAW: fits}) == {"n": ""}
    assert [told_headers({RAW: raw}) for raw in (many, large)] == [{RAW: many}, {RAW: large}]


def test_what_is_remembered_is_bounded_and_nobody_can_change_it() -> None:
    for number in range(2 * MAX_REMEMBERED):
        raw = Properties.of(message_id=str(number)).raw
        told_headers({RAW: raw})["amqp.message_id"] = "mine"
        assert told_headers({RAW: raw}) == {"amqp.message_id": str(number)}
    assert len(amqp_headers._known) <= MAX_REMEMBERED


@settings(max_examples=tried(100))
@given(SAID)
def test_what_is_told_and_sent_on_natively_is_the_same_properties_at_an_amqp_consumer(said: dict[str, Any]) -> None:
    raw = Properties.of(**said).raw
    told = told_headers({RAW: raw})
    if len(told) > MAX_HEADERS_PER_MESSAGE:
        return
    sent_on = properties_of(pack_headers(told))
    assert sent_on is not None
    found = Properties(sent_on).values()
    table = said.pop("headers", Table())
    entries = found.pop("headers", Table())
    assert found == said
    assert {entry.name: header(Field(entry.kind, entry.value)) for entry in entries} == {
        name: header(Field(kind, value)) for name, kind, value in table
    }


async def received(broker: AmqpBroker, queue: str) -> dict[str, Any]:
    """The headers of the next message, as a native receiver has them."""
    found: list[dict[str, Any]] = []

    async def take(delivery: Delivery) -> None:
        found.append(delivery.headers)

    async with asyncio.timeout(SECONDS):
        await Receiver(broker.receiving, queue=queue, limit=1).handle(1, take).to(Sink.acknowledge()).run()
    return found[0]


SENT = pika.BasicProperties(
    content_type="application/json",
    content_encoding="utf-8",
    headers={"n": 1, "t": True, "s": "text", "deep": {"list": [1, "x", None]}, "b": b"\xff\x00"},
    delivery_mode=2,
    priority=3,
    correlation_id="c-1",
    reply_to="answers",
    expiration="60000",
    message_id="m-1",
    timestamp=1_700_000_000,
    type="kind",
    user_id="guest",
    app_id="shop",
)
TOLD = {
    "amqp.content_type": "application/json",
    "amqp.content_encoding": "utf-8",
    "amqp.delivery_mode": "2",
    "amqp.priority": "3",
    "amqp.correlation_id": "c-1",
    "amqp.reply_to": "answers",
    "amqp.expiration": "60000",
    "amqp.message_id": "m-1",
    "amqp.timestamp": "1700000000",
    "amqp.type": "kind",
    "amqp.user_id": "guest",
    "amqp.app_id": "shop",
    "n": "1",
    "t": "true",
    "s": "text",
    "deep": '{"list":[1,"x",null]}',
    "b": b"\xff\x00",
}


def test_what_pika_publishes_native_programs_read_by_name(broker: AmqpBroker, named: Named) -> None:
    queue = named("orders")
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port)) as connection:
        channel = connection.channel()
        channel.queue_declare(queue)
        channel.confirm_delivery()
        for _ in range(3):
            channel.basic_publish("", queue, b"a", SENT)
        _, properties, _ = channel.basic_get(queue, auto_ack=True)
        assert properties == SENT, "another client of AMQP gets it as it was"
    code, out, said = broker.run("queue peek", queue, "--json")
    assert code == 0, said
    rows = [json.loads(line) for line in out.splitlines()]
    peeked = {name: value if isinstance(value, str) else b"\xff\x00" for name, value in rows[0]["headers"].items()}
    assert peeked == TOLD
    assert asyncio.run(received(broker, queue)) == TOLD
    code, out, said = broker.run("receive", "--queue", queue, "--count", "1", "--jsonl")
    assert code == 0, said
    headers = json.loads(out)["headers"]
    assert headers.pop("b") == {"base64": b64encode(b"\xff\x00").decode()}
    assert headers == {name: value for name, value in TOLD.items() if name != "b"}


def test_what_a_native_sender_calls_a_property_is_one_for_pika(broker: AmqpBroker, named: Named) -> None:
    queue = named("orders")
    headers = {name: value for name, value in TOLD.items() if name.startswith(PREFIX)} | {"own": "1", "b": b"\xff"}

    async def send() -> None:
        async with asyncio.timeout(SECONDS):
            await Source.of(Message(b"a", headers=headers)).to(Sender(broker.sending, queue=queue)).run()

    asyncio.run(send())
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.port)) as connection:
        _, properties, body = connection.channel().basic_get(queue, auto_ack=True)
    assert body == b"a"
    assert properties.headers == {"own": "1", "b": b"\xff"}
    properties.headers = SENT.headers
    assert properties == SENT


def test_arrow_tables_and_traces_have_them_too() -> None:
    raw = Properties.of(headers=Table.of({"traceparent": "00-1"}), priority=3).raw
    column = headers_column([raw, NO_PROPERTIES])
    assert column is not None
    batch = MessageBatch(BinaryColumn.from_values([b"1", b"2"]), headers=column)
    expected = {"traceparent": "00-1", "amqp.priority": "3"}
    assert headers_of(batch, 0) == expected
    assert not headers_of(batch, 1)
    first, second = header_maps(pa.array(column.tolist(), pa.binary())).to_pylist()
    assert dict(first) == {name: value.encode() for name, value in expected.items()}
    assert second is None


def test_a_column_of_many_is_as_each_of_them() -> None:
    raws = [Properties.of(priority=number % 3).raw for number in range(10)]
    column = headers_column(raws)
    assert isinstance(column, BinaryColumn)
    assert [properties_of(each) for each in column.tolist()] == raws


@pytest.mark.parametrize("raw", ["text", b""])
def test_a_header_of_that_name_that_is_something_else_is_told(raw: str | bytes) -> None:
    assert told_headers({RAW: raw, "a": "b"}) == {RAW: raw, "a": "b"}
