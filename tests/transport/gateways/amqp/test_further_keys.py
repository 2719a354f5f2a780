"""CC and BCC of what pika publishes: each queue that any of the keys leads to has the message once, and nobody sees BCC (docs/amqp.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pika
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, UnroutableError

from actors import OfferBatch
from actors.batch import BinaryColumn, MessageBatch, pack_headers
from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES, MAX_ROUTING_KEYS
from actors.exchanges.message_tables import further_keys as keys_carried
from actors.queue.operations.dead_letters import readdressed
from actors.queue.vocabulary.deaths import KEY
from actors.queue.vocabulary.distributed import OfferCopies
from actors.queue.vocabulary.replies import CapacityGranted
from tests.examples_tried import tried
from tests.transport.gateways.amqp.amqp_values import FIELDS, TEXTS
from tests.transport.gateways.amqp.conftest import AmqpBroker
from transport.gateways.amqp.basic_methods import BasicPublish
from transport.gateways.amqp.carried_properties import headers_column
from transport.gateways.amqp.channel_publishing import Publishing
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.events import Published
from transport.gateways.amqp.further_keys import FLAGGED, further_keys, may_name_more
from transport.gateways.amqp.properties import NO_PROPERTIES, Properties
from transport.gateways.amqp.publishing_line import PIECE_BYTES
from transport.gateways.amqp.tables import Entry, Field, Table

Named = Callable[[str], str]
SECONDS = 30


@pytest.fixture
def channel(broker: AmqpBroker) -> Iterator[BlockingChannel]:
    parameters = pika.ConnectionParameters("127.0.0.1", broker.port, blocked_connection_timeout=SECONDS)
    with pika.BlockingConnection(parameters) as connection:
        yield connection.channel()


@pytest.fixture
def queues(channel: BlockingChannel, named: Named) -> list[str]:
    return [channel.queue_declare(named(name)).method.queue for name in "abc"]


def got(channel: BlockingChannel, queue: str) -> list[tuple[bytes, str, Any]]:
    """Body, routing key and headers of what is ready in a queue, taken out."""
    found = []
    while True:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append((body, method.routing_key, properties.headers))


def test_each_queue_that_any_of_the_keys_leads_to_has_the_message_once(
    channel: BlockingChannel, queues: list[str]
) -> None:
    a, b, c = queues
    channel.confirm_delivery()
    headers = {"CC": [b, a, "nowhere"], "BCC": [b, c], "own": 1}
    channel.basic_publish("", a, b"1", pika.BasicProperties(headers=headers, message_id="m"), mandatory=True)
    channel.basic_publish("", a, b"2")
    seen = {"CC": [b, a, "nowhere"], "own": 1}
    assert got(channel, a) == [(b"1", a, seen), (b"2", a, None)]
    assert got(channel, b) == [(b"1", a, seen)]
    assert got(channel, c) == [(b"1", a, seen)]


def test_they_go_through_an_exchange_as_the_messages_own_key(
    channel: BlockingChannel, queues: list[str], named: Named
) -> None:
    a, b, c = queues
    exchange = named("topics")
    channel.exchange_declare(exchange, "topic")
    for queue, key in ((a, "eu.#"), (b, "*.new"), (c, "us.#")):
        channel.queue_bind(queue, exchange, key)
    channel.confirm_delivery()
    properties = pika.BasicProperties(headers={"BCC": ["eu.new", "eu.old"]})
    channel.basic_publish(exchange, "none", b"1", properties)
    assert [got(channel, queue) for queue in queues] == [[(b"1", "none", {})], [(b"1", "none", {})], []]


def test_they_go_on_to_an_exchange_that_looks_at_headers_and_with_an_empty_key(
    channel: BlockingChannel, queues: list[str], named: Named
) -> None:
    a, b, c = queues
    first, second = named("first"), named("second")
    channel.exchange_declare(first, "direct")
    channel.queue_bind(a, first, "copy")
    channel.confirm_delivery()
    channel.basic_publish(first, "", b"1", pika.BasicProperties(headers={"CC": ["copy"]}))
    channel.exchange_declare(second, "headers")
    channel.exchange_bind(second, first, "copy")
    channel.queue_bind(b, second, arguments={"kind": "red"})
    channel.queue_bind(c, second, arguments={"kind": "blue"})
    for kind in ("red", "blue"):
        properties = pika.BasicProperties(headers={"CC": ["copy"], "kind": kind})
        channel.basic_publish(first, "own", kind.encode(), properties)
    assert [[body for body, _, _ in got(channel, queue)] for queue in queues] == [
        [b"1", b"red", b"blue"],
        [b"red"],
        [b"blue"],
    ]


def test_what_none_of_the_keys_leads_anywhere_comes_back_without_bcc(channel: BlockingChannel, named: Named) -> None:
    channel.confirm_delivery()
    headers = {"CC": [named("x")], "BCC": [named("y")]}
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", named("z"), b"1", pika.BasicProperties(headers=headers), mandatory=True)
    (back,) = caught.value.messages
    assert (back.method.routing_key, back.properties.headers) == (named("z"), {"CC": [named("x")]})


def test_what_a_queue_rejects_the_others_have_and_it_is_sent_again(channel: BlockingChannel, named: Named) -> None:
    small, large = named("small"), named("large")
    channel.queue_declare(small, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.queue_declare(large)
    channel.confirm_delivery()
    channel.basic_publish("", small, b"1", pika.BasicProperties(headers={"CC": [large]}))
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("", small, b"2", pika.BasicProperties(headers={"CC": [large]}))
    assert [body for body, _, _ in got(channel, small)] == [b"1"]
    channel.basic_publish("", small, b"3", pika.BasicProperties(headers={"CC": [large]}))
    assert [body for body, _, _ in got(channel, small)] == [b"3"]
    assert [body for body, _, _ in got(channel, large)] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("name", ["CC", "BCC"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [("text", "longstr"), (7, "signedint"), (1 << 40, "long"), (True, "bool"), (None, "void"), ({"a": 1}, "table"),
     (Decimal("1.5"), "decimal")],
)  # fmt: skip
def test_anything_but_an_array_is_refused(
    channel: BlockingChannel, queues: list[str], name: str, value: object, kind: str
) -> None:
    channel.basic_publish("", queues[0], b"before")
    channel.basic_publish("", queues[0], b"1", pika.BasicProperties(headers={name: value}))
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(queues[0], passive=True)
    text = f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{name}",{kind}}}'
    assert (caught.value.reply_code, caught.value.reply_text) == (406, text)
    again = channel.connection.channel()
    assert [body for body, _, _ in got(again, queues[0])] == [b"before"]


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (
            ["k" * (MAX_ROUTING_KEY_BYTES + 1)],
            "invalid message: a routing key of 256 bytes in the header CC exceeds 255",
        ),
        ([f"{number}" for number in range(MAX_ROUTING_KEYS)], "invalid message: 1001 routing keys exceed 1000"),
        (["\udcff"], "invalid message: the header CC has a routing key that is no UTF-8"),
    ],
)
def test_keys_that_cannot_be_are_refused_with_the_limit(keys: list[str], text: str) -> None:
    with pytest.raises(AmqpError, match=text):
        further_keys("own", Properties.of(headers=Table.of({"CC": keys})).raw)


def test_what_waits_counts_with_its_keys_and_comes_again_as_it_was() -> None:
    """BCC is nowhere but there: what is kept of it is counted, and what is not taken yet still says it."""
    taken: list[Any] = []

    class Host:
        user = None
        link = SimpleNamespace(lines=0)

        def publisher(self, *_: object, **__: object) -> Any:
            return Mock(deliver=taken.append)

        def waiting_changed(self) -> None:
            pass

    raw = Properties.of(headers=Table.of({"BCC": ["b" * 200], "own": 1})).raw
    event = Published(1, [BasicPublish(routing_key="a")] * 2, [NO_PROPERTIES, raw], [b"1", b"2"], 2)
    publishing = Publishing(Host())  # type: ignore[arg-type]  # what is asked of it here
    publishing.publish(event)
    assert event.properties == [NO_PROPERTIES, raw]
    plain, copied = publishing._lines["", False]._waiting
    assert (plain.further, copied.further) == ((), ("b" * 200,))
    assert copied.size == copied.batch.nbytes + PIECE_BYTES + 200
    assert publishing.waiting_bytes == plain.size + copied.size
    (line,) = publishing._lines.values()
    line.tell(CapacityGranted(2, 1 << 20))
    assert [(type(offer), len(offer.batch), offer.sequence) for offer in taken] == [
        (OfferBatch, 1, 0),
        (OfferCopies, 1, 1),
    ]
    assert publishing.waiting_bytes == 0


def test_one_key_given_in_place_of_several_is_said_be_it_the_same() -> None:
    """By the others it is not routed any more."""
    headers = headers_column([Properties.of(headers=Table.of({"CC": ["b"]})).raw, NO_PROPERTIES])
    batch = MessageBatch(
        BinaryColumn.from_values([b"1", b"2"]), keys=BinaryColumn.from_values([b"a", b"a"]), headers=headers
    )
    said = [message.headers or {} for message in readdressed(batch, "a", "").messages()]
    assert [each.get(KEY) for each in said] == [b"a", None]


def of_array(fields: list[Field]) -> list[str]:
    return [value for kind, value in fields if kind == "S" and isinstance(value, str)]


@settings(max_examples=tried(100))
@given(
    TEXTS,
    st.lists(st.builds(Field, st.just("S"), TEXTS) | FIELDS.filter(lambda field: field.kind != "S"), max_size=5),
    st.none() | st.lists(st.builds(Field, st.just("S"), TEXTS), max_size=5),
    st.dictionaries(st.sampled_from(["a", "CCC", "cc", "B"]), FIELDS, max_size=3),
)
def test_all_texts_of_both_are_keys_and_all_but_bcc_is_as_it_was(
    key: str, seen: list[Field], unseen: list[Field] | None, others: dict[str, Field]
) -> None:
    entries = [*(Entry(name, *field) for name, field in others.items()), Entry("CC", "A", tuple(seen))]
    hidden = [] if unseen is None else [Entry("BCC", "A", tuple(unseen))]
    properties = Properties.of(headers=Table([*hidden, *entries]), message_id="m")
    assert properties.raw[0] & FLAGGED
    assert may_name_more(properties.raw)
    keys, raw = further_keys(key, properties.raw)
    assert keys == tuple(each for each in dict.fromkeys([*of_array(seen), *of_array(unseen or [])]) if each != key)
    told = Properties(raw)
    assert (told.headers, told.message_id) == (Table(entries), "m")
    assert raw == properties.raw or hidden
    column = headers_column([raw])
    assert column is not None
    assert list(keys_carried(column[0])) == of_array(seen)


@pytest.mark.parametrize("headers", [None, {}, {"cc": ["a"]}, {"own": "CCC"}])
def test_what_names_no_more_keys_is_not_looked_at(headers: Any) -> None:
    raw = Properties.of(headers=None if headers is None else Table.of(headers)).raw
    assert not (raw[0] & FLAGGED and may_name_more(raw))


@pytest.mark.parametrize("headers", [{"own": "CC"}, {"own": {"CC": ["a"], "BCC": 1}}])
def test_what_only_looks_as_if_it_did_names_none_and_stays_as_it_was(headers: Any) -> None:
    raw = Properties.of(headers=Table.of(headers)).raw
    assert may_name_more(raw)
    assert further_keys("own", raw) == ((), raw)


def test_a_native_header_of_that_name_is_no_array_and_names_none() -> None:
    assert keys_carried(pack_headers({"CC": "a"})) == ()
