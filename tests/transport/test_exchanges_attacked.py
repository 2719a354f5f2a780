"""What is too much for exchanges or cannot be, over real sockets: one clear error, nothing changed, and everybody else goes on."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from functools import partial
from typing import Any

import msgpack
import pytest

from actors.batch import BinaryColumn, Message, MessageBatch
from actors.exchanges.limits import MAX_HOPS, MAX_TABLE_DEPTH, ExchangeLimits
from streams.testkit import settle
from tests.transport.bad_clients import MIB, bystanders, frame_bytes
from transport import Administration, parse_address
from transport.broker.memory import resident_bytes
from transport.wire.messages import VERSION, Command, Demand, Error, Hello, Result, Returned, Send, Sent, Welcome

LAST = 2**63 - 1
"""The greatest number that a frame may have."""


async def publisher(opened: Any, broker: Any, exchange: str, **options: Any) -> Any:
    """A client of its own name that publishes to an exchange, and may send."""
    peer = await opened.connect(broker.send_address)
    peer.send(Hello(VERSION, "sender", None, f"to-{exchange}", {"exchange": exchange} | options))
    await peer.expect(Welcome)
    await peer.expect_later(Demand)
    return peer


async def asked(admin: Any, *commands: tuple[str, dict[str, Any]]) -> list[Any]:
    """What so many commands are answered, sent without waiting: JSON, or the error that leaves the connection open."""
    admin.send(*[Command(number, *command) for number, command in enumerate(commands)])
    answers: list[Any] = []
    for _ in commands:
        frame = await admin.frame()
        if isinstance(frame, Error):
            assert not frame.close
            answers.append(frame)
        else:
            assert isinstance(frame, Result)
            answers.append(json.loads(frame.json))
    return answers


async def defined(admin: Any) -> list[Any]:
    """All that there is of exchanges, bindings and queues, without what they count."""
    exchanges, bindings, queues = await asked(admin, ("exchange.list", {}), ("binding.list", {}), ("queue.list", {}))
    kept = [{key: row[key] for key in ("name", "kind", "bindings", "arguments")} for row in exchanges]
    return [kept, bindings, [row["name"] for row in queues]]


def bound(source: str, destination: str, key: str = "", *, to_exchange: bool = False, **arguments: Any) -> Any:
    """The command that binds."""
    said: dict[str, Any] = {"source": source, "destination": destination, "key": key, "to_exchange": to_exchange}
    if arguments:
        said["arguments"] = json.dumps(arguments)
    return "binding.create", said


def nested(depth: int) -> str:
    """A value of JSON with so many tables and arrays in one another."""
    text = "1"
    for level in range(depth):
        text = f"[{text}]" if level % 2 else f'{{"in":{text}}}'
    return text


# Numbers.


@pytest.mark.parametrize("directory", [False, True])
def test_a_number_that_comes_twice_on_a_connection_is_stored_once_as_by_a_queue(
    run: Any, serve: Any, peers: Any, tmp_path: Any, directory: bool
) -> None:
    async def main() -> None:
        options = {"directory": str(tmp_path / "data")} if directory else {}
        async with serve(**options) as broker, peers() as opened, Administration(broker.send_address) as administration:
            await administration.create_queue("plain")
            await administration.create_queue("bound")
            await administration.bind("amq.fanout", "bound")
            plain = await opened.open(broker.send_address, "sender", "plain", "c")
            await plain.expect(Demand)
            answers = []
            for peer in (plain, await publisher(opened, broker, "amq.fanout")):
                one, two = MessageBatch.from_payloads([b"0"]), MessageBatch.from_payloads([b"1", b"2"])
                peer.send(Send(0, None, one), Send(0, None, one), Send(1, None, two), Send(0, None, two))
                peer.send(Send(2, None, two), Send(4, None, one))
                answers.append([(await peer.expect_later(Sent)).up_to for _ in range(6)])
            assert answers[0] == answers[1] == [1, 1, 3, 2, 4, 5]
            stored = {row["name"]: row["stored_messages"] for row in await administration.queues()}
            assert stored == {"plain": 5, "bound": 5}

    run(main)


@pytest.mark.parametrize("exchange", [True, False])
@pytest.mark.parametrize("first", [LAST, LAST - 1, 2**63, 2**64 - 1])
def test_messages_whose_numbers_end_beyond_the_greatest_are_refused_and_none_of_them_is_stored(
    run: Any, serve: Any, peers: Any, first: int, exchange: bool
) -> None:
    batch = MessageBatch.from_payloads([b"a", b"b"])
    body = b"".join(map(bytes, batch.buffers()))

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            admin = await opened.open(broker.send_address, "admin", None)
            await asked(admin, ("queue.create", {"name": "q"}))
            options = {"exchange": "", "routing_key": "q"} if exchange else {}
            for columns in (None, 0):  # what most say, and what has a column more
                peer = await opened.connect(broker.send_address)
                peer.send(Hello(VERSION, "sender", None if exchange else "q", "c", options))
                await peer.expect_later(Demand)
                keys = b"" if columns is None else struct.pack("<3i", 0, 0, 0)
                peer.send_bytes(frame_bytes([17, first, None, 2, 2, False, columns, None], body + keys))
                assert (await peer.refusal()).code == "protocol-error"
            again = await opened.connect(broker.send_address)
            assert (await again.hello("sender", "q", "c")).options["last_sequence"] is None
            (rows,) = await asked(admin, ("queue.list", {"name": "q"}))
            assert rows[0]["stored_messages"] == 0

    run(main)


def test_the_greatest_numbers_that_there_are_are_taken(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            peer = await publisher(opened, broker, "amq.fanout", mandatory=True)
            peer.send(Send(LAST - 2, None, MessageBatch.from_payloads([b"a", b"b"])))
            assert (await peer.expect_later(Returned)).ranges == [(LAST - 2, 2)]
            assert await peer.expect_later(Sent) == Sent(LAST, None)

    run(main)


# Bindings.


def test_who_binds_without_an_end_is_refused_at_the_limit_that_is_named_and_all_else_goes_on(
    run: Any, serve: Any, peers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = partial(ExchangeLimits, max_exchange_bindings=300, max_bindings=500)
    monkeypatch.setattr("actors.exchanges.exchanges.ExchangeLimits", limits)

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            admin = await opened.open(broker.send_address, "admin", None)
            await asked(admin, ("queue.create", {"name": "q"}))
            answers = await asked(admin, *[bound("amq.topic", "q", f"a.{number}") for number in range(1_000)])
            assert [answer["changed"] for answer in answers[:300]] == [True] * 300
            assert {(each.code, each.text) for each in answers[300:]} == {
                (
                    "limit-exceeded",
                    "301 bindings of exchange 'amq.topic' exceed max_exchange_bindings of 300: delete some that nobody uses, or raise it",
                )
            }
            answers = await asked(admin, *[bound("amq.headers", "q", n=number) for number in range(400)])
            assert {(each.code, each.text[:42]) for each in answers[200:]} == {
                ("limit-exceeded", "501 bindings exceed max_bindings of 500: d")
            }
            before = await defined(admin)
            # A queue of one's own is gone with the refusal, and nothing is left of what was bound before it.
            receiver = await opened.connect(broker.receive_address)
            bind = json.dumps([{"exchange": "amq.topic", "key": "a.0"}, {"exchange": "amq.topic", "key": "more"}])
            receiver.send(Hello(VERSION, "receiver", None, "r", {"bind": bind, "own_queue": True}))
            refusal = await receiver.refusal()
            assert (refusal.code, "max_bindings of 500" in refusal.text) == ("limit-exceeded", True)
            assert await defined(admin) == before
            peer = await publisher(opened, broker, "amq.topic", routing_key="a.299")
            peer.send(Send(0, None, MessageBatch.from_payloads([b"x"])))
            assert await peer.expect_later(Sent) == Sent(1, None)
            (rows,) = await asked(admin, ("queue.list", {"name": "q"}))
            assert rows[0]["stored_messages"] == 1
            await asked(admin, ("binding.delete", bound("amq.topic", "q", "a.0")[1]))
            (answer,) = await asked(admin, bound("amq.topic", "q", "again"))
            assert answer["changed"]

    run(main)


DEEP = {
    "one level too many": nested(MAX_TABLE_DEPTH + 1),
    "hundreds of levels": nested(400),
    "arrays alone": "[" * 1_900 + "]" * 1_900,
    "no end": "[" * 3_000,
}


@pytest.mark.parametrize("case", DEEP)
def test_arguments_deep_in_one_another_are_refused_wherever_they_are_said(
    run: Any, serve: Any, peers: Any, case: str
) -> None:
    table = f'{{"x-match":"any","a":{DEEP[case]}}}'

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            admin = await opened.open(broker.send_address, "admin", None)
            await asked(admin, ("queue.create", {"name": "q"}), bound("amq.headers", "q", n=1))
            before = await defined(admin)
            refused = await asked(
                admin,
                *[
                    (command, {"source": source, "destination": "q", "arguments": table})
                    for source in ("amq.headers", "amq.topic")
                    for command in ("binding.create", "binding.delete")
                ],
                ("exchange.create", {"name": "e", "arguments": table}),
                ("exchange.route", {"name": "amq.headers", "headers": table}),
            )
            assert {type(each) for each in refused} == {Error}
            assert {each.code for each in refused} <= {"limit-exceeded", "protocol-error"}
            assert all(len(each.text) < 300 for each in refused)
            if case == "one level too many":
                assert all(f"exceed MAX_TABLE_DEPTH of {MAX_TABLE_DEPTH}" in each.text for each in refused)
            if len(table) < 1_900:
                receiver = await opened.connect(broker.receive_address)
                bind = f'[{{"exchange":"amq.headers","arguments":{table}}}]'
                receiver.send(Hello(VERSION, "receiver", None, "r", {"bind": bind, "own_queue": True}))
                assert (await receiver.refusal()).code in ("limit-exceeded", "protocol-error")
            assert await defined(admin) == before

    run(main)


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e400", "-1e999"])
def test_numbers_that_are_none_are_refused_as_arguments(run: Any, serve: Any, peers: Any, value: str) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            admin = await opened.open(broker.send_address, "admin", None)
            await asked(admin, ("queue.create", {"name": "q"}))
            table = f'{{"a":{value}}}'
            said = {"source": "amq.headers", "destination": "q", "arguments": table}
            refused = await asked(
                admin, ("binding.create", said), ("exchange.create", {"name": "e", "arguments": table})
            )
            assert [getattr(each, "code", each) for each in refused] == ["protocol-error"] * 2
            receiver = await opened.connect(broker.receive_address)
            bind = f'[{{"exchange":"amq.headers","arguments":{table}}}]'
            receiver.send(Hello(VERSION, "receiver", "q", "r", {"bind": bind}))
            assert (await receiver.refusal()).code == "protocol-error"
            assert (await asked(admin, ("binding.list", {}))) == [[]]

    run(main)


HEADERS = {
    "a table in a table": msgpack.packb({"n": {"in": "1"}}),
    "tables 400 deep": b"\x81\xa1n" * 400 + b"\xa11",
    "arrays 100,000 deep": b"\x81\xa1n" + b"\x91" * 100_000 + b"\xa11",
    "a forged map": b"\xdf\xff\xff\xff\xff",
    "a forged text": b"\x81\xa1n\xdb\xff\xff\xff\xff",
    "a map without an end": b"\x8f\xa1n\xa11",
    "ten thousand names": msgpack.packb({f"n{number}": "1" for number in range(10_000)}),
    "a number for a name": msgpack.packb({1: "1"}),
    "no map": msgpack.packb(["n", "1"]),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_message_whose_headers_no_sender_of_ours_writes_matches_nothing_and_the_next_goes_on(
    run: Any, serve: Any, peers: Any, case: str
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            admin = await opened.open(broker.send_address, "admin", None)
            await asked(
                admin, ("queue.create", {"name": "q"}), bound("amq.headers", "q", **{"x-match": "any", "n": "1"})
            )
            peer = await publisher(opened, broker, "amq.headers", mandatory=True)
            packed = [HEADERS[case], msgpack.packb({"n": "1"}), HEADERS[case]]
            payloads = MessageBatch.from_payloads([b"bad", b"good", b"bad"]).payloads
            peer.send(Send(0, None, MessageBatch(payloads, None, None, BinaryColumn.from_values(packed))))
            assert (await peer.expect_later(Returned)).ranges == [(0, 1), (2, 1)]
            assert await peer.expect_later(Sent) == Sent(3, None)
            (rows,) = await asked(admin, ("queue.list", {"name": "q"}))
            assert rows[0]["stored_messages"] == 1

    run(main)


# Ways.


def test_a_circle_of_a_thousand_exchanges_is_refused_where_it_is_too_long_and_each_message_is_in_each_queue_once(
    run: Any, serve: Any, peers: Any
) -> None:
    names = [f"e{number}" for number in range(1_000)]

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            admin = await opened.open(broker.send_address, "admin", None)
            await asked(admin, ("queue.create", {"name": "q"}))
            await asked(admin, *[("exchange.create", {"name": name, "kind": "fanout"}) for name in names])
            await asked(admin, *[bound(name, "q") for name in names])
            circle = zip(names, names[1:] + names[:1], strict=True)
            answers = await asked(admin, *[bound(source, end, to_exchange=True) for source, end in circle])
            refused = [answer for answer in answers if isinstance(answer, Error)]
            assert len(refused) == 1_000 // (MAX_HOPS + 1) + 1
            assert {each.code for each in refused} == {"limit-exceeded"}
            assert all(
                f"steps from exchange to exchange exceed max_hops of {MAX_HOPS}: bind the queues nearer" in each.text
                for each in refused
            )
            for count, name in enumerate(("e0", "e499", "e999"), 1):
                peer = await publisher(opened, broker, name)
                peer.send(Send(0, None, MessageBatch.from_payloads([b"x"])))
                assert await peer.expect_later(Sent) == Sent(1, None)
                (rows,) = await asked(admin, ("queue.list", {"name": "q"}))
                assert rows[0]["stored_messages"] == count

    run(main)


def test_a_circle_of_exchanges_and_alternates_ends_and_what_no_queue_takes_comes_back(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            admin = await opened.open(broker.send_address, "admin", None)
            names = [f"a{number}" for number in range(20)]
            alternates = zip(names, names[1:] + names[:1], strict=True)
            answers = await asked(
                admin,
                ("queue.create", {"name": "q"}),
                *[
                    ("exchange.create", {"name": name, "arguments": json.dumps({"alternate-exchange": other})})
                    for name, other in alternates
                ],
                # One into itself, and two ways from each to the next: by its binding, and as its alternate.
                *[bound(name, name, "self", to_exchange=True) for name in names],
                *[bound(names[0], names[1], f"alias.{number}", to_exchange=True) for number in range(50)],
                bound(names[7], "q", "found"),
                bound(names[13], "q", "found"),
            )
            assert not [answer for answer in answers if isinstance(answer, Error)]
            keys = ["found", "self", "lost", "alias.7", "found"]
            for name in (names[0], names[10], names[19]):
                peer = await publisher(opened, broker, name, mandatory=True)
                peer.send(Send(0, None, MessageBatch.from_messages([Message(b"x", key.encode()) for key in keys])))
                assert (await peer.expect_later(Returned)).ranges == [(1, 3)]
                assert await peer.expect_later(Sent) == Sent(5, None)
            (rows,) = await asked(admin, ("queue.list", {"name": "q"}))
            assert rows[0]["stored_messages"] == 3 * 2

    run(main)


def test_a_chain_of_alternates_that_is_too_long_is_refused_where_it_becomes_that(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            admin = await opened.open(broker.send_address, "admin", None)
            answers = await asked(
                admin,
                *[
                    ("exchange.create", {"name": f"a{n}", "arguments": json.dumps({"alternate-exchange": f"a{n + 1}"})})
                    for n in range(100)
                ],
            )
            refused = [answer for answer in answers if isinstance(answer, Error)]
            assert refused
            assert {each.code for each in refused} == {"limit-exceeded"}
            assert all("max_hops" in each.text for each in refused)
            peer = await publisher(opened, broker, "a0", mandatory=True)
            peer.send(Send(0, None, MessageBatch.from_payloads([b"x"])))
            assert (await peer.expect_later(Returned)).ranges == [(0, 1)]

    run(main)


def test_bindings_by_the_thousand_on_one_headers_exchange_are_matched_each_queue_once(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            admin = await opened.open(broker.send_address, "admin", None)
            await asked(admin, ("queue.create", {"name": "one"}), ("queue.create", {"name": "two"}))
            answers = await asked(
                admin,
                *[bound("amq.headers", "one", **{"x-match": "any", "n": str(n), f"m{n}": "1"}) for n in range(1_000)],
                *[bound("amq.headers", "two", **{"x-match": "all", "n": str(n), "of": "x"}) for n in range(500)],
            )
            assert all(answer["changed"] for answer in answers)
            peer = await publisher(opened, broker, "amq.headers")
            headers = [{"n": str(number), "m5": "1", "of": "x"} for number in range(0, 1_000, 20)]
            peer.send(Send(0, None, MessageBatch.from_messages([Message(b"x", headers=each) for each in headers])))
            assert await peer.expect_later(Sent) == Sent(50, None)
            (rows,) = await asked(admin, ("queue.list", {}))
            assert {row["name"]: row["stored_messages"] for row in rows if row["name"] in ("one", "two")} == {
                "one": 50,
                "two": 25,
            }

    run(main)


def test_a_message_for_which_too_many_patterns_would_be_looked_at_ends_its_sender_by_a_limit_that_is_named(
    run: Any, serve: Any, peers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.exchanges.headers.MAX_MATCH_STEPS", 1_000)

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened):
            admin = await opened.open(broker.send_address, "admin", None)
            await asked(admin, ("queue.create", {"name": "q"}))
            await asked(admin, *[bound("amq.headers", "q", n="1", of=str(number)) for number in range(1_001)])
            peer = await publisher(opened, broker, "amq.headers")
            batch = MessageBatch.from_messages([Message(b"x", headers={"n": "1"})])
            peer.send(Send(0, None, MessageBatch.from_payloads([b"before"])), Send(1, None, batch))
            peer.send(Send(2, None, MessageBatch.from_payloads([b"behind"])))
            frames = await peer.rest()
            assert [frame.up_to for frame in frames if isinstance(frame, Sent)] == [1]
            assert isinstance(frames[-1], Error)
            assert (frames[-1].code, "MAX_MATCH_STEPS" in frames[-1].text) == ("protocol-error", True)

    run(main)


# Who does not read.


async def narrow(opened: Any, address: str, like: Any) -> Any:
    """A peer for which the kernel holds little that it has not read."""
    with_little = socket.socket()
    with_little.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with_little.setblocking(False)
    await asyncio.get_running_loop().sock_connect(with_little, parse_address(address))
    peer = type(like)(*await asyncio.open_connection(sock=with_little, limit=4096))
    opened._peers.append(peer)
    return peer


def test_who_asks_for_what_comes_back_and_reads_nothing_has_a_bound_to_what_waits_and_goes_on_when_it_reads(
    run: Any, serve: Any, peers: Any
) -> None:
    """Each message comes back by itself, with a reason that has the longest names."""
    exchange, batch = "e" * 255, MessageBatch.from_payloads([b""])
    options = {"exchange": exchange, "routing_key": "k" * 255, "mandatory": True}

    async def main() -> None:
        async with serve() as broker, peers() as opened, bystanders(broker, opened) as others:
            admin = await opened.open(broker.send_address, "admin", None)
            await asked(admin, ("exchange.create", {"name": exchange}))
            deaf = await narrow(opened, broker.send_address, admin)
            deaf.send(Hello(VERSION, "sender", None, "deaf", options))
            granted = (await deaf.expect_later(Demand)).messages
            (connection,) = [each for each in broker.connections.values() if each.client_id == "deaf"]
            transport = connection.connection._transport
            # The kernel keeps little on this side too.
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            before, number = resident_bytes(), 0
            counts = broker.queues.exchanges.publishing.counts.of(exchange)

            def unsent() -> int:
                size: int = transport.get_write_buffer_size()
                return size

            # What is confirmed is granted anew, which it need not read to know.
            while unsent() < MIB:
                deaf.send(*[Send(number + each, None, batch) for each in range(granted)])
                number += granted
                while counts.published < number and unsent() < MIB:
                    await settle()
            deaf.send(*[Send(number + each, None, batch) for each in range(granted)])
            for _ in range(500):
                await asyncio.sleep(0)
            assert counts.published < number + granted, "it is read no more"
            assert unsent() < 2 * MIB
            await others.go_on()
            assert resident_bytes() - before < 64 * MIB
            came = 0
            while came < number + granted:
                assert (await deaf.expect_later(Returned)).ranges == [(came, 1)]
                came += 1
            assert (await deaf.expect_later(Sent)).up_to <= came

    run(main)
