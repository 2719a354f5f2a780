"""Where a message was published, and with which key, as those see it who receive it: on the wire, in programs and on the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.batch import Message, MessageBatch
from actors.queue.vocabulary import replies
from actors.queue.vocabulary.published import Published
from streams import Sink, Source
from tests.actors.publishing_bench import Client
from tests.actors.stored_queues import turns
from tests.decoding import FrameDecoder
from transport import Administration, Consumer, DeliveredBatch, Delivery, Receiver, Sender
from transport.broker.receiving_ports import ReceivingPort, SubscribingPort
from transport.cli._json_lines import write_messages
from transport.cli.peek import _facts, _lines
from transport.clients.json_messages import TOLD, Given, message_of
from transport.consumer.carried import CarriedMessage
from transport.errors import RemoteProtocolError
from transport.wire.codec import decode, encode
from transport.wire.frames import MAX_FRAME_BYTES, RawFrame
from transport.wire.messages import Deliver, Fetch, Fetched, FetchEnd, Request, Reserve, Reserved

PLAIN = MessageBatch.from_payloads([b"ab", b""])
KEYED = MessageBatch.from_messages([Message(b"1", b"own"), Message(b"2"), Message(b"3", b"\xff")])
BODY = b"\0\0\0\0\2\0\0\0\2\0\0\0ab"
PUBLISHED = Published("x", "common")

# --- on the wire


def header_of(frame: Any) -> list[Any]:
    (raw,) = FrameDecoder(MAX_FRAME_BYTES).receive_data(b"".join(map(bytes, encode(frame))))
    header: list[Any] = raw.header
    return header


def test_the_frames_of_what_was_sent_to_a_queue_are_what_they_always_were() -> None:
    header = bytes.fromhex("9a2107cd03e801c20202c2c0c0")
    length = (6 + len(header) + len(BODY)).to_bytes(4, "big") + len(header).to_bytes(2, "big")
    assert b"".join(map(bytes, encode(Deliver(7, 1000, 1, False, PLAIN)))) == length + header + BODY
    header = bytes.fromhex("9c35030907cd03e801c20202c2c0c0")
    length = (6 + len(header) + len(BODY)).to_bytes(4, "big") + len(header).to_bytes(2, "big")
    assert b"".join(map(bytes, encode(Fetched(3, 9, 7, 1000, 1, False, PLAIN)))) == length + header + BODY


@pytest.mark.parametrize("frame", [Deliver(7, 1000, 1, False, PLAIN), Fetched(3, 9, 7, 1000, 1, False, PLAIN)])
def test_exchange_and_key_stand_behind_all_that_older_peers_know(frame: Any) -> None:
    plain = header_of(frame)
    known = frame.VALUES(frame)[: -4 if isinstance(frame, Deliver) else -2]
    for exchange, key in (("", "orders"), ("x", ""), ("e" * 255, "k" * 255)):
        published = type(frame)(*known, exchange, key)
        assert header_of(published) == [*plain, exchange, key]
    body = memoryview(BODY)
    assert decode(RawFrame([*plain, "x"], body)) == type(frame)(*known, "x", None)
    with pytest.raises(RemoteProtocolError, match="field exchange has the value 7"):
        decode(RawFrame([*plain, 7, "k"], body))
    with pytest.raises(RemoteProtocolError, match="field routing_key has the value"):
        decode(RawFrame([*plain, "x", b"k"], body))


def test_failures_stand_behind_exchange_and_key_and_only_where_there_are_any() -> None:
    plain = header_of(Deliver(7, 1000, 1, False, PLAIN))
    assert header_of(Deliver(7, 1000, 2, False, PLAIN, None, None, 3)) == [*plain[:3], 2, *plain[4:], None, None, 3]
    assert header_of(Deliver(7, 1000, 1, False, PLAIN, "x", "k", 0)) == [*plain, "x", "k"]
    body = memoryview(BODY)
    for items in ([None, None, 3], ["x", "k", 3], ["x", "k", 3, 0, "of a later version"]):
        frame = decode(RawFrame([*plain, *items], body))
        assert isinstance(frame, Deliver)
        assert [frame.exchange, frame.routing_key, frame.failures] == items[:3]
    with pytest.raises(RemoteProtocolError, match="field failures has the value"):
        decode(RawFrame([*plain, "x", "k", -1], body))


def test_a_priority_stands_behind_failures_where_there_is_one_and_older_peers_pass_over_it() -> None:
    plain = header_of(Deliver(7, 1000, 1, False, PLAIN))
    assert header_of(Deliver(7, 1000, 1, False, PLAIN, None, None, 0, 9)) == [*plain, None, None, 0, 9]
    body = memoryview(BODY)
    for items, priority in (([None, None, 3], 0), (["x", "k", 0, 9], 9), (["x", "k", 3, 9, "of a later version"], 9)):
        frame = decode(RawFrame([*plain, *items], body))
        assert isinstance(frame, Deliver)
        assert frame.priority == priority
    with pytest.raises(RemoteProtocolError, match="field priority has the value"):
        decode(RawFrame([*plain, "x", "k", 0, -1], body))


class Told:
    """The client of a port, which keeps the frames it is to send."""

    def __init__(self) -> None:
        self.frames: list[Any] = []

    def send(self, frame: Any) -> None:
        self.frames.append(frame)


@pytest.mark.parametrize(("published", "said"), [(None, (None, None)), (PUBLISHED, ("x", "common"))])
def test_a_port_says_what_its_queue_has_told_it(published: Published | None, said: Any) -> None:
    for kind in (ReceivingPort, SubscribingPort):
        port: Any = kind.__new__(kind)
        port._client = Told()
        if kind is ReceivingPort:
            port.tell(replies.ReceivedMessages(7, PLAIN, 1000, 2, True, published))
            port.tell(replies.ReceivedMessages(7, PLAIN, 1000, 2, True, published, priority=9))
            assert port._client.frames == [
                Deliver(7, 1000, 2, True, PLAIN, *said),
                Deliver(7, 1000, 2, True, PLAIN, *said, priority=9),
            ]
        else:
            port.fetched(3, replies.FetchedMessages(9, 7, PLAIN, 1000, 2, True, published))
            assert port._client.frames == [Fetched(3, 9, 7, 1000, 2, True, PLAIN, *said)]


# --- in a program


class Unanswered:
    """A session that nobody answers to."""

    dead_letters = False


def delivered(batch: MessageBatch, *published: str | None) -> DeliveredBatch:
    session: Any = Unanswered()
    return DeliveredBatch(
        Deliver(7, 1_700_000_000_000_000, 1, False, batch, *published), "orders", session, 0, bytes(8)
    )


@pytest.mark.parametrize("split", [False, True])
def test_a_messages_own_key_is_its_routing_key_and_that_of_all_is_of_those_without(split: bool) -> None:
    batch = delivered(KEYED, "x", "common")
    payloads = batch.split() if split else batch.payloads()
    found = [Delivery(batch, index, payload) for index, payload in enumerate(payloads)]
    assert [(each.exchange, each.routing_key) for each in found] == [("x", "own"), ("x", "common"), ("x", "\ufffd")]
    assert [each.key for each in found] == [b"own", None, b"\xff"]
    assert (batch.exchange, batch.routing_key) == ("x", "common")


def test_what_was_sent_to_a_queue_has_neither_whatever_its_key() -> None:
    batch = delivered(KEYED)
    found = [Delivery(batch, index, b"") for index in range(3)]
    assert {(each.exchange, each.routing_key) for each in (batch, *found)} == {(None, None)}


@pytest.mark.parametrize("published", [(), ("x", "common"), ("", "orders")])
def test_a_process_of_a_handler_is_told_the_same(published: tuple[str, ...]) -> None:
    batch = delivered(KEYED, *published)
    for index in range(3):
        here = Delivery(batch, index, b"")
        there = CarriedMessage.of(here).delivery()
        assert (there.exchange, there.routing_key, there.key) == (here.exchange, here.routing_key, here.key)


# --- over sockets


async def publish(broker: Any, exchange: str, key: str | None, batch: MessageBatch) -> None:
    publisher = Client(broker, exchange, key)
    await turns()
    publisher.send(batch)
    await turns()
    assert publisher.confirmed == [len(batch)]
    await publisher.ref.stop(block=False)


async def with_all_kinds(broker: Any) -> None:
    """A queue with messages that came through two exchanges."""
    async with Administration(broker.send_address) as administration:
        await administration.create_queue("orders")
    exchanges = broker.queues.exchanges
    exchanges._definitions.change_definitions(exchanges.exchanges.decide.declare("x", "topic"))
    exchanges._definitions.change_definitions(exchanges.exchanges.decide.bind("x", "orders", "#"))
    await publish(broker, "", "orders", PLAIN)
    await publish(broker, "x", "common", KEYED)


SEEN = [("", "orders"), ("", "orders"), ("x", "own"), ("x", "common"), ("x", "\ufffd")]


def test_a_receiver_sees_exchange_and_key_of_each_message(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await with_all_kinds(broker)
            seen: list[Any] = []
            receiver = Receiver(broker.receive_address, queue="orders", limit=5)
            noted = receiver.map(lambda each: seen.append((each.exchange, each.routing_key)) or each)
            assert await noted.to(Sink.acknowledge()).run() == 5
            assert seen == SEEN

    run(main)


def test_it_is_what_senders_have_said(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("orders")
            sent = [Message(b"1", routing_key="orders"), Message(b"2")]
            for sender in (
                Sender(broker.send_address, exchange="", routing_key="orders"),
                Sender(broker.send_address, queue="orders"),
            ):
                await Source.from_iterable(sent).to(sender).run()
            seen: list[Any] = []
            receiver = Receiver(broker.receive_address, queue="orders", limit=4)
            noted = receiver.map(lambda each: seen.append((each.exchange, each.routing_key)) or each)
            assert await noted.to(Sink.acknowledge()).run() == 4
            assert seen == [("", "orders"), ("", "orders"), (None, None), (None, None)]

    run(main)


def test_a_handler_of_a_consumer_sees_them_too(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await with_all_kinds(broker)
            seen: list[Any] = []
            consumer = Consumer(broker.receive_address, queue="orders", concurrency=1)

            async def note(delivery: Delivery) -> None:
                seen.append((delivery.exchange, delivery.routing_key))
                if len(seen) == len(SEEN):
                    consumer.stop()

            consumer.handler(note)
            await consumer.serve()
            assert seen == SEEN

    run(main)


def test_a_subscription_fetches_them(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await with_all_kinds(broker)
            peer = await opened.open(broker.receive_address, "subscription", "orders", subscription="s")
            peer.send(Reserve(1, 0, 10, 10**6, 0, None))
            await peer.expect(Reserved)
            peer.send(Request(10, 10**6), Fetch(2, 0, 5))
            pieces = [await peer.expect(Fetched) for _ in range(2)]
            await peer.expect(FetchEnd)
            assert [(piece.exchange, piece.routing_key) for piece in pieces] == [("", "orders"), ("x", "common")]

    run(main)


def test_who_looks_at_stored_messages_sees_them(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await with_all_kinds(broker)
            found = await administration.peek("orders", 10)
            assert [(each.exchange, each.routing_key) for each in found] == SEEN
            shown = [_facts(each) for each in found]
            assert [(each["exchange"], each["routing_key"]) for each in shown] == SEEN
            lines = [_lines(each, False)[0] for each in found]
            assert [line[line.index(" B  ") + 4 : line.index("  id ")] for line in lines] == [
                "exchange (default)  routing key orders",
                "exchange (default)  routing key orders",
                "key own  exchange x",
                "exchange x  routing key common",
                "key 0xff  exchange x",
            ]

    run(main)


# --- on the command line


def test_a_line_of_json_says_them_where_there_are_any_and_who_sends_it_again_passes_over_them() -> None:
    written, _ = write_messages(delivered(KEYED, "x", "common"))
    rows = [json.loads(line) for line in written.splitlines()]
    assert [(row["exchange"], row["routing_key"]) for row in rows] == [("x", "own"), ("x", "common"), ("x", "\ufffd")]
    assert [message_of(row)[0].payload for row in rows] == [b"1", b"2", b"3"]
    assert [message_of(row)[0].key for row in rows] == [b"own", None, b"\xff"]
    plain, _ = write_messages(delivered(PLAIN))
    assert all(not {"exchange", "routing_key"} & json.loads(line).keys() for line in plain.splitlines())
    assert {"exchange", "routing_key"} <= TOLD


def test_who_publishes_such_a_line_again_publishes_it_by_the_same_key() -> None:
    written, _ = write_messages(delivered(KEYED, "x", "common"))
    again = Given(b"of all", published=True)
    assert [message_of(json.loads(line), again)[0].key for line in written.splitlines()] == [b"own", b"common", b"\xff"]
    assert message_of({"payload": "", "routing_key": ""}, again)[0].key == b"of all"
    with pytest.raises(ValueError, match="routing_key is a number, not a text"):
        message_of({"payload": "", "routing_key": 7}, again)
