"""Publishing to exchanges over real sockets: where messages go, what comes back, what is refused, and what a restart finds."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from actors.batch import BinaryColumn, MessageBatch
from streams import Sink, Source
from transport import (
    Administration,
    BrokerError,
    LocalProtocolError,
    Message,
    OldBrokerError,
    QueueFullError,
    Receiver,
    Sender,
)
from transport.errors import ForbiddenError, InvalidNameError, UnroutableError
from transport.security.principal import Grant, Grants, Principal, Right
from transport.wire.messages import VERSION, Command, Demand, Error, Hello, Result, Returned, Send, Sent, Welcome


def keyed(*keys: str) -> list[Message]:
    """A message for each key, whose payload it is."""
    return [Message(key.encode(), routing_key=key) for key in keys]


async def drained(broker: Any, queue: str, count: int) -> list[bytes]:
    """The payloads of so many messages of a queue, acknowledged."""
    found: list[bytes] = []
    async for delivery in Receiver(broker.receive_address, queue=queue, limit=count, create=False):
        found.append(delivery.payload)
        delivery.acknowledge()
    return found


async def ready(administration: Administration) -> dict[str, int]:
    return {row["name"]: row["ready"] for row in await administration.queues()}


@pytest.mark.parametrize("directory", [False, True])
def test_each_kind_of_exchange_gives_each_queue_what_is_bound_to_it(
    run: Any, serve: Any, tmp_path: Any, directory: bool
) -> None:
    async def main() -> None:
        options = {"directory": str(tmp_path / "data")} if directory else {}
        async with serve(**options) as broker, Administration(broker.send_address) as administration:
            for kind in ("direct", "fanout", "topic", "headers"):
                assert await administration.declare_exchange(kind, kind)
                assert not await administration.declare_exchange(kind, kind), "it is there already"
                await administration.create_queue(f"{kind}-1")
                await administration.create_queue(f"{kind}-2")
            assert await administration.bind("direct", "direct-1", "a")
            assert await administration.bind("direct", "direct-2", "b")
            assert await administration.bind("fanout", "fanout-1")
            assert await administration.bind("fanout", "fanout-2")
            assert await administration.bind("topic", "topic-1", "a.*")
            assert await administration.bind("topic", "topic-2", "#")
            assert await administration.bind("headers", "headers-1", arguments={"x-match": "all", "n": "1", "of": "x"})
            assert await administration.bind("headers", "headers-2", arguments={"x-match": "any", "n": "1", "of": "y"})
            for kind, messages in (
                ("direct", keyed("a", "b", "c")),
                ("fanout", keyed("a", "")),
                ("topic", keyed("a.b", "a", "a.b.c")),
                ("headers", [Message(b"1x", headers={"n": "1", "of": "x"}), Message(b"2y", headers={"of": "y"})]),
            ):
                summary = await Source.from_iterable(messages).to(Sender(broker.send_address, exchange=kind)).run()
                assert summary.messages == len(messages)
            assert await ready(administration) == {
                "direct-1": 1,
                "direct-2": 1,
                "fanout-1": 2,
                "fanout-2": 2,
                "topic-1": 1,
                "topic-2": 3,
                "headers-1": 1,
                "headers-2": 2,
            }
            assert await drained(broker, "direct-2", 1) == [b"b"]
            assert await drained(broker, "topic-2", 3) == [b"a.b", b"a", b"a.b.c"]
            assert await drained(broker, "headers-2", 2) == [b"1x", b"2y"]
            rows = {row["name"]: row for row in await administration.exchanges()}
            assert (rows["direct"]["published"], rows["direct"]["unroutable"], rows["direct"]["bindings"]) == (3, 1, 2)

    run(main)


def test_the_default_exchange_has_every_queue_by_its_name(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("orders")
            sender = Sender(broker.send_address, exchange="", routing_key="orders")
            await Source.from_iterable([b"1", Message(b"2", routing_key="nobody"), b"3"]).to(sender).run()
            assert await drained(broker, "orders", 2) == [b"1", b"3"]
            assert await administration.route("", "orders") == ["orders"]
            assert await administration.route("", "nobody") == []

    run(main)


def test_what_no_queue_took_comes_back_with_the_reason_before_it_is_confirmed(run: Any, serve: Any) -> None:
    returned: list[Any] = []

    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("all")
            await administration.bind("amq.topic", "all", "known.#")
            sender = Sender(broker.send_address, exchange="amq.topic", mandatory=True, on_returned=returned.append)
            messages = keyed("known.1", "lost.2", "known.3", "lost.4", "lost.5")
            confirmations = await Source.from_iterable(messages).via(sender).to(Sink.collect()).run()
            assert [(each.sequence, each.count, each.returned) for each in confirmations] == [(0, 5, 3)]
            assert [(each.sequence, each.message.payload) for each in returned] == [
                (1, b"lost.2"),
                (3, b"lost.4"),
                (4, b"lost.5"),
            ]
            assert "no queue is bound to exchange 'amq.topic' that takes the routing key 'lost.2'" in returned[0].reason
            summary = await Source.from_iterable(messages).to(sender).run()
            assert (summary.messages, summary.returned) == (5, 3)

    run(main)


def test_a_mandatory_message_without_a_queue_fails_the_stream_of_who_listens_not(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            sender = Sender(broker.send_address, exchange="amq.direct", mandatory=True)
            with pytest.raises(UnroutableError, match=r"'amq.direct' had no queue for 2 messages, number 0 the first"):
                await Source.from_iterable(keyed("a", "b")).to(sender).run()
            nothing = (
                await Source.from_iterable(keyed("a")).to(Sender(broker.send_address, exchange="amq.direct")).run()
            )
            assert nothing.messages == 1, "who does not ask is not told"

    run(main)


def test_what_on_returned_raises_fails_the_stream(run: Any, serve: Any) -> None:
    def refuse(_: object) -> None:
        raise ZeroDivisionError("mine")

    async def main() -> None:
        async with serve() as broker:
            sender = Sender(broker.send_address, exchange="amq.direct", mandatory=True, on_returned=refuse)
            with pytest.raises(ZeroDivisionError, match="mine"):
                await Source.single(b"a").to(sender).run()

    run(main)


def test_a_queue_that_rejects_has_the_sender_told_and_the_others_keep_it(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("small", 1, overflow="reject")
            await administration.create_queue("large")
            for queue in ("small", "large"):
                await administration.bind("amq.fanout", queue)
            with pytest.raises(
                QueueFullError, match=r"a queue behind exchange 'amq.fanout' rejected .*'small' is full"
            ):
                await (
                    Source.from_iterable([b"1", b"2", b"3"])
                    .to(Sender(broker.send_address, exchange="amq.fanout", max_batch_messages=1))
                    .run()
                )
            assert (await ready(administration))["small"] == 1

    run(main)


def test_durable_definitions_and_what_was_published_are_there_after_a_restart(
    run: Any, serve: Any, tmp_path: Any
) -> None:
    directory = str(tmp_path / "data")

    async def main() -> None:
        async with serve(directory=directory) as broker, Administration(broker.send_address) as administration:
            await administration.declare_exchange("kept", "topic", alternate="amq.fanout")
            await administration.declare_exchange("forgotten", "fanout", durable=False)
            await administration.create_queue("orders")
            await administration.create_queue("rest")
            await administration.bind("kept", "orders", "orders.#")
            await administration.bind("forgotten", "orders")
            await administration.bind("amq.fanout", "rest")
            await administration.bind("kept", "kept", "loop", to_exchange=True)
            await (
                Source.from_iterable(keyed("orders.1", "other")).to(Sender(broker.send_address, exchange="kept")).run()
            )
        async with serve(directory=directory) as broker, Administration(broker.send_address) as administration:
            names = {row["name"] for row in await administration.exchanges() if not row["name"].startswith("amq.")}
            assert names == {"", "kept"}
            bindings = {(row["source"], row["destination"], row["key"]) for row in await administration.bindings()}
            assert bindings == {
                ("kept", "orders", "orders.#"),
                ("amq.fanout", "rest", ""),
                ("kept", "kept", "loop"),
            }
            assert await drained(broker, "orders", 1) == [b"orders.1"]
            assert await drained(broker, "rest", 1) == [b"other"], "by way of the alternate exchange"

    run(main)


def test_a_producer_that_begins_anew_numbers_behind_what_any_queue_has_of_it(
    run: Any, serve: Any, tmp_path: Any
) -> None:
    async def main() -> None:
        async with (
            serve(directory=str(tmp_path / "data")) as broker,
            Administration(broker.send_address) as administration,
        ):
            for queue in ("one", "two"):
                await administration.create_queue(queue)
                await administration.bind("amq.direct", queue, queue)

            async def publish(*keys: str) -> None:
                sender = Sender(broker.send_address, exchange="amq.direct", client_id="till-7")
                await Source.from_iterable(keyed(*keys)).to(sender).run()

            await publish("one", "one", "two")
            await publish("one", "two")
            assert await ready(administration) == {"one": 3, "two": 2}, "nothing is taken for a repetition"

    run(main)


def test_hello_tells_the_number_and_what_comes_again_is_not_stored_twice(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            await administration.create_queue("orders")
            options = {"exchange": "", "routing_key": "orders"}
            first = await opened.connect(broker.send_address)
            first.send(Hello(VERSION, "sender", None, "till-7", options))
            assert "next_sequence" not in (await first.expect(Welcome)).options
            await first.expect(Demand)
            first.send(Send(0, None, MessageBatch.from_payloads([b"a", b"b"])))
            assert await first.expect_later(Sent) == Sent(2, None)
            second = await opened.connect(broker.send_address)
            second.send(Hello(VERSION, "sender", None, "till-7", options))
            welcome = await second.expect(Welcome)
            assert (welcome.options["last_sequence"], welcome.options["next_sequence"]) == (None, 2)
            assert (await first.refusal()).code == "taken-over"
            await second.expect(Demand)
            second.send(Send(1, None, MessageBatch.from_payloads([b"b", b"c"])))
            assert await second.expect_later(Sent) == Sent(3, None)
            assert await drained(broker, "orders", 3) == [b"a", b"b", b"c"]

    run(main)


def test_returned_comes_before_the_answer_and_only_to_who_asked(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            for mandatory in (True, False):
                peer = await opened.connect(broker.send_address)
                peer.send(Hello(VERSION, "sender", None, "c", {"exchange": "amq.topic", "mandatory": mandatory}))
                await peer.expect(Welcome)
                await peer.expect(Demand)
                peer.send(Send(0, None, MessageBatch.from_payloads([b"a", b"b"])))
                if mandatory:
                    returned = await peer.expect_later(Returned)
                    assert (returned.ranges, "''" in returned.reason) == ([(0, 2)], True)
                    assert await peer.expect(Sent) == Sent(2, None)
                else:
                    assert await peer.expect_later(Sent) == Sent(2, None)
                await peer.close()

    run(main)


@pytest.mark.parametrize(
    ("queue", "options", "code", "text"),
    [
        ("q", {"exchange": "e"}, "protocol-error", "HELLO names a queue and an exchange"),
        (None, {"exchange": "e", "existing_queue": "q"}, "protocol-error", "HELLO names a queue and an exchange"),
        (None, {"exchange": 7}, "protocol-error", "exchange is 7, not a name"),
        (None, {"exchange": "a b"}, "invalid-name", "exchange name 'a b' has white space"),
        (None, {"exchange": "n" * 256}, "invalid-name", "256 bytes"),
        (None, {"exchange": "e", "routing_key": 7}, "protocol-error", "routing_key is 7, not text"),
        (None, {"exchange": "", "routing_key": "k" * 256}, "limit-exceeded", "MAX_ROUTING_KEY_BYTES"),
        (None, {"exchange": "e", "mandatory": 7}, "protocol-error", "mandatory is 7, not true or false"),
        ("q", {"mandatory": True}, "protocol-error", "belong to the option exchange"),
        (None, {"exchange": "none"}, "not-found", "there is no exchange 'none'"),
        (None, {"exchange": "inner"}, "forbidden", "exchange 'inner' is internal"),
    ],
)
def test_a_hello_that_cannot_be_is_refused_with_one_clear_error(
    run: Any, serve: Any, peers: Any, queue: str | None, options: dict[str, Any], code: str, text: str
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            await administration.declare_exchange("inner", "fanout", internal=True)
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(VERSION, "sender", queue, "c", options))
            refusal = await peer.refusal()
            assert (refusal.code, text in refusal.text) == (code, True), refusal
            assert list(broker.queues) == []

    run(main)


def test_a_key_that_is_too_long_ends_its_sender_and_what_was_before_it_is_stored(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            await administration.create_queue("all")
            await administration.bind("amq.topic", "all", "#")
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(VERSION, "sender", None, "c", {"exchange": "amq.topic"}))
            await peer.expect_later(Demand)
            peer.send(Send(0, None, MessageBatch.from_messages([Message(b"good", b"k" * 255)])))
            assert await peer.expect_later(Sent) == Sent(1, None)
            peer.send(Send(1, None, MessageBatch.from_messages([Message(b"bad", b"k" * 256)])))
            refusal = await peer.refusal()
            assert "a routing key of 256 bytes exceeds 255" in refusal.text
            assert await ready(administration) == {"all": 1}

    run(main)


@pytest.mark.parametrize(
    ("name", "arguments", "code", "text"),
    [
        (
            "exchange.create",
            {"name": "e", "kind": "round-robin"},
            "protocol-error",
            "no kind of exchange 'round-robin'",
        ),
        ("exchange.create", {"name": "amq.mine"}, "forbidden", "keeps for itself"),
        ("exchange.create", {"name": ""}, "forbidden", "the default exchange"),
        ("exchange.create", {"name": "a b"}, "invalid-name", "white space"),
        ("exchange.create", {"name": "e", "arguments": "[1]"}, "protocol-error", "a JSON object as text"),
        ("exchange.create", {"name": "e", "arguments": '{"x": NaN}'}, "protocol-error", "a JSON object as text"),
        ("exchange.create", {"name": "e", "durable": 1}, "protocol-error", "durable must be true or false"),
        ("exchange.create", {"name": "amq.topic", "kind": "fanout"}, "already-exists", "kind 'topic'"),
        ("exchange.delete", {"name": "e"}, "not-found", "no exchange 'e'"),
        ("exchange.delete", {"name": "amq.topic"}, "forbidden", "the broker's own"),
        ("exchange.route", {"name": "e"}, "not-found", "no exchange 'e'"),
        ("exchange.route", {"name": "", "key": "k" * 256}, "limit-exceeded", "MAX_ROUTING_KEY_BYTES"),
        ("binding.create", {"source": "e", "destination": "q"}, "not-found", "no exchange 'e'"),
        ("binding.create", {"source": "amq.topic", "destination": "none"}, "not-found", "no queue 'none'"),
        ("binding.create", {"source": "", "destination": "q"}, "forbidden", "the default exchange"),
        (
            "binding.create",
            {"source": "amq.headers", "destination": "q", "arguments": '{"x-match": "some"}'},
            "protocol-error",
            "x-match",
        ),
        (
            "binding.create",
            {"source": "amq.topic", "destination": "q", "key": "k" * 256},
            "limit-exceeded",
            "a binding",
        ),
        ("binding.list", {"source": 7}, "protocol-error", "source must be a string"),
        ("exchange.list", {"name": 7}, "protocol-error", "name must be a string"),
    ],
)
def test_a_command_that_cannot_be_is_refused_and_changes_nothing(
    run: Any, serve: Any, peers: Any, name: str, arguments: dict[str, Any], code: str, text: str
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            admin = await opened.open(broker.send_address, "admin", None)
            admin.send(Command(1, "queue.create", {"name": "q"}), Command(2, "exchange.list", {}))
            await admin.expect(Result)
            before = (await admin.expect(Result)).json
            admin.send(Command(3, name, arguments))
            refused = await admin.expect(Error)
            assert (refused.code, refused.close, text in refused.text) == (code, False, True), refused
            admin.send(Command(4, "exchange.list", {}), Command(5, "binding.list", {}))
            assert (await admin.expect(Result)).json == before
            assert (await admin.expect(Result)).json == b"[]"

    run(main)


def test_bindings_are_listed_in_pages_each_once_by_their_ends(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            for queue in ("one", "two"):
                await administration.create_queue(queue)
                for key in range(10):
                    await administration.bind("amq.direct", queue, str(key))
            admin = await opened.open(broker.send_address, "admin", None)
            rows: list[Any] = []
            page: dict[str, Any] = {"limit": 7}
            while True:
                admin.send(Command(1, "binding.list", page))
                answer = json.loads((await admin.expect(Result)).json)
                rows += answer["rows"]
                if answer["next"] is None:
                    break
                page["after"] = answer["next"]
                # One that goes and one that comes meanwhile.
                await administration.unbind("amq.direct", "two", "9")
                await administration.bind("amq.direct", "two", "new")
            named = [(row["destination"], row["key"]) for row in rows]
            whole = [(queue, str(key)) for queue in ("one", "two") for key in range(10)]
            assert named == [*whole[:-1], ("two", "new")]
            assert len(await administration.bindings("amq.direct", "one")) == 10
            assert len(await administration.bindings(destination="two")) == 10
            assert await administration.bindings("amq.topic") == []

    run(main)


def test_one_exchange_is_asked_for_by_its_name(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            await administration.declare_exchange("news", "fanout", alternate="rest")
            every = {row["name"]: row for row in await administration.exchanges()}
            for name in ("news", "", "amq.topic"):
                assert await administration.exchange(name) == every[name]
            with pytest.raises(BrokerError, match="there is no exchange 'nothing'") as raised:
                await administration.exchange("nothing")
            assert raised.value.code == "not-found"
            admin = await opened.open(broker.send_address, "admin", None)
            admin.send(Command(1, "exchange.list", {"name": "news"}), Command(2, "exchange.list", {"name": "none"}))
            assert json.loads((await admin.expect(Result)).json) == [every["news"]]
            assert json.loads((await admin.expect(Result)).json) == []

    run(main)


def test_deleting_an_exchange_or_a_queue_takes_its_bindings(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.declare_exchange("gone", "fanout")
            await administration.declare_exchange("goes-too", "fanout", auto_delete=True)
            await administration.create_queue("orders")
            await administration.bind("gone", "orders")
            await administration.bind("goes-too", "orders")
            with pytest.raises(BrokerError, match=r"in-use: .*has 1 bindings"):
                await administration.delete_exchange("gone", if_unused=True)
            await administration.delete_queue("orders")
            assert await administration.bindings() == []
            assert "goes-too" not in {row["name"] for row in await administration.exchanges()}
            await administration.delete_exchange("gone", if_unused=True)
            with pytest.raises(BrokerError, match="not-found"):
                await administration.delete_exchange("gone")

    run(main)


def test_a_binding_that_comes_while_a_sender_is_connected_counts_for_what_it_sends_next(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            await administration.create_queue("late")
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(VERSION, "sender", None, "c", {"exchange": "amq.fanout"}))
            await peer.expect_later(Demand)
            peer.send(Send(0, None, MessageBatch.from_payloads([b"before"])))
            assert await peer.expect_later(Sent) == Sent(1, None)
            await administration.bind("amq.fanout", "late")
            peer.send(Send(1, None, MessageBatch.from_payloads([b"after"])))
            assert await peer.expect_later(Sent) == Sent(2, None)
            assert await drained(broker, "late", 1) == [b"after"]
            rows = [row for row in await administration.connections() if row["role"] == "sender"]
            assert [(row["queue"], row["exchange"], row["client_id"]) for row in rows] == [(None, "amq.fanout", "c")]

    run(main)


def test_the_exchange_that_is_deleted_under_a_sender_ends_it(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            await administration.declare_exchange("gone", "fanout")
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(VERSION, "sender", None, "c", {"exchange": "gone"}))
            await peer.expect_later(Demand)
            await administration.delete_exchange("gone")
            peer.send(Send(0, None, MessageBatch.from_payloads([b"a"])))
            assert (await peer.refusal()).code == "not-found"

    run(main)


def test_a_broker_from_before_exchanges_refuses_hello_and_the_client_says_why(run: Any, play: Any) -> None:
    def old(peer: Any) -> None:
        assert peer.read(Hello).queue is None
        peer.send(Error("invalid-name", "HELLO in the role sender names a queue", close=True))

    broker = play(old)

    async def main() -> None:
        with pytest.raises(OldBrokerError, match="older than this client and has no exchanges"):
            await Source.single(b"a").to(Sender(broker.address, exchange="orders")).run()

    run(main)


def test_what_a_program_asks_for_and_cannot_be_is_told_before_anything_is_sent() -> None:
    for given, text in (
        ({}, "give either queue, or exchange"),
        ({"queue": "q", "exchange": "e"}, "give either queue, or exchange"),
        ({"queue": "q", "routing_key": "k"}, "belong to an exchange"),
        ({"queue": "q", "mandatory": True}, "belong to an exchange"),
        ({"exchange": "e", "routing_key": "k" * 256}, "256 bytes exceeds 255"),
        ({"exchange": "e", "routing_key": b"k"}, "must be text, not bytes"),
        ({"exchange": "e", "routing_key": "\ud800"}, "no Unicode"),
        ({"exchange": "e", "on_returned": print}, "give mandatory=True too"),
    ):
        with pytest.raises(LocalProtocolError, match=text):
            Sender("127.0.0.1:1", **given)
    with pytest.raises(InvalidNameError):
        Sender("127.0.0.1:1", exchange="a b")


def test_a_message_has_its_key_as_bytes_or_as_text_and_not_both(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("orders")
            await administration.bind("amq.direct", "orders", "é")
            messages = [Message(b"1", routing_key="é"), Message(b"2", "é".encode())]
            await Source.from_iterable(messages).to(Sender(broker.send_address, exchange="amq.direct")).run()
            assert await drained(broker, "orders", 2) == [b"1", b"2"]
            with pytest.raises(LocalProtocolError, match="a message has one key"):
                await (
                    Source.single(Message(b"3", b"k", routing_key="k"))
                    .to(Sender(broker.send_address, exchange="amq.direct"))
                    .run()
                )

    run(main)


def test_headers_that_nobody_can_read_match_nothing_and_cost_no_other_sender_anything(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            for queue in ("good", "matched"):
                await administration.create_queue(queue)
            await administration.bind("amq.headers", "matched", arguments={"x-match": "any", "n": "1"})
            good = await opened.connect(broker.send_address)
            good.send(Hello(VERSION, "sender", None, "good", {"exchange": "", "routing_key": "good"}))
            await good.expect_later(Demand)
            bad = await opened.connect(broker.send_address)
            bad.send(Hello(VERSION, "sender", None, "bad", {"exchange": "amq.headers"}))
            await bad.expect_later(Demand)
            batch = MessageBatch.from_messages([Message(b"bad", headers={"n": "1"})])
            assert batch.headers is not None
            broken = BinaryColumn.from_values([b"\xc1" * len(batch.headers.data)])
            bad.send(Send(0, None, MessageBatch(batch.payloads, None, None, broken)))
            good.send(Send(0, None, MessageBatch.from_payloads([b"one"])))
            assert await bad.expect_later(Sent) == Sent(1, None)
            good.send(Send(1, None, MessageBatch.from_payloads([b"two"])))
            while (await good.expect(Sent)).up_to < 2:
                pass
            assert await ready(administration) == {"good": 2, "matched": 0}

    run(main)


def test_an_alternate_takes_the_right_to_write_to_it_the_default_exchange_too(run: Any, serve: Any) -> None:
    alice = Principal("alice", grants=Grants([Grant("mine", Right.CONFIGURE | Right.WRITE | Right.READ)]))

    async def main() -> None:
        async with serve() as broker:
            operations = broker._host().operations(alice)
            for alternate, resource in (("", "amq.default"), ("amq.fanout", "amq.fanout")):
                arguments = {"name": "mine", "arguments": json.dumps({"alternate-exchange": alternate})}
                with pytest.raises(ForbiddenError, match=f"may not write '{resource}'"):
                    await operations.command("exchange.create", arguments)
            assert broker.queues.exchanges.exchanges.get("mine") is None

    run(main)


def test_behind_what_a_queue_rejects_nothing_is_stored_until_its_number_comes_again(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            await administration.create_queue("small", 1, overflow="reject")
            await administration.create_queue("large")
            for queue in ("small", "large"):
                await administration.bind("amq.direct", queue, queue)
            await Source.single(b"full").to(Sender(broker.send_address, queue="small")).run()
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(VERSION, "sender", None, "c", {"exchange": "amq.direct"}))
            await peer.expect_later(Demand)
            both = MessageBatch.from_messages(keyed("large", "small"))
            peer.send(Send(0, None, both), Send(2, None, MessageBatch.from_messages(keyed("large"))))
            first, second = await peer.expect_later(Sent), await peer.expect(Sent)
            assert (first.up_to, second.up_to) == (2, 3)
            assert first.rejected is not None
            assert second.rejected is not None
            assert (await ready(administration))["large"] == 1, "of the first batch alone"
            # Another connection numbers another message as the rejected one was.
            again = await opened.connect(broker.send_address)
            again.send(Hello(VERSION, "sender", None, "c", {"exchange": "amq.direct"}))
            await again.expect_later(Demand)
            again.send(Send(0, None, MessageBatch.from_messages([Message(b"other", routing_key="large")])))
            assert await again.expect_later(Sent) == Sent(1, None)
            assert await drained(broker, "large", 2) == [b"large", b"other"]

    run(main)


@pytest.mark.parametrize("how", ["unbound", "deleted"])
def test_a_sender_that_a_full_queue_holds_back_goes_on_when_the_queue_is_no_target_any_more(
    run: Any, serve: Any, how: str
) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("full", 1)
            await administration.create_queue("free")
            for queue in ("full", "free"):
                await administration.bind("amq.fanout", queue)
            sender = Sender(broker.send_address, exchange="amq.fanout", max_batch_messages=1)
            running = asyncio.ensure_future(Source.of(b"1", b"2", b"3").to(sender).run())
            while (await ready(administration))["full"] < 1:
                pass
            if how == "unbound":
                await administration.unbind("amq.fanout", "full")
            else:
                await administration.delete_queue("full")
            assert (await running).messages == 3
            assert (await ready(administration))["free"] == 3

    run(main)
