"""Messages that are moved, messages that are looked at, and connections that are closed, as programs have a broker do it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from streams import Sink, Source
from transport import Administration, Message, MessageBatch, MoveStoppedError, Receiver, Sender
from transport.broker import peeked
from transport.errors import BrokerError, ConnectionLostError, RemoteProtocolError
from transport.wire.messages import Command, Error, Result


async def send(address: str, queue: str, *batches: MessageBatch) -> None:
    await Source.from_iterable(batches).via(Sender(address, queue=queue)).to(Sink.foreach(lambda _: None)).run()


def lines(start: int, stop: int) -> MessageBatch:
    return MessageBatch.from_payloads([b"%d" % number for number in range(start, stop)])


async def counts(administration: Administration) -> dict[str, int]:
    return {row["name"]: row["ready"] for row in await administration.queues()}


def test_a_move_goes_on_over_many_commands_until_all_that_was_there_is_moved(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            for start in range(0, 1000, 100):
                await send(broker.send_address, "a", lines(start, start + 100))
            told: list[int] = []
            assert await administration.move("a", "b", 150, create=True, progress=told.append) == 150
            assert told[-1] == 150
            assert await administration.move("a", "b", progress=told.append) == 850
            assert await counts(administration) == {"a": 0, "b": 1000}
            found = await administration.peek("b", 1000)
            assert [message.payload for message in found] == [b"%d" % number for number in range(1000)]

    run(main)


def test_a_command_goes_on_with_what_another_meant_and_nothing_else(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await send(broker.send_address, "a", lines(0, 10))
            await send(broker.send_address, "b", lines(0, 1))
            admin = await opened.open(broker.send_address, "admin", None)
            admin.send(Command(1, "queue.move", {"from": "a", "to": "b", "count": 4}))
            answer = json.loads((await admin.expect(Result)).json)
            assert (answer["moved"], answer["next"]) == (4, None)
            queues = broker.queues
            after = json.dumps([queues.number_of("a"), queues.number_of("b"), 8])
            admin.send(Command(2, "queue.move", {"from": "a", "to": "b", "after": after}))
            answer = json.loads((await admin.expect(Result)).json)
            assert (answer["moved"], answer["next"]) == (4, None)
            for wrong, code in (("[1]", "protocol-error"), ("x", "protocol-error"), ("[7,7,0]", "queue-deleted")):
                admin.send(Command(3, "queue.move", {"from": "a", "to": "b", "after": wrong}))
                refused = await admin.expect(Error)
                assert (refused.code, refused.close) == (code, False)

    run(main)


def test_a_move_is_refused_with_one_clear_error(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await send(broker.send_address, "a", lines(0, 10))
            await administration.create_queue("small", max_messages=4)
            for source, target, code, text in (
                ("a", "a", "protocol-error", "cannot be moved to itself: name another queue; nothing was moved"),
                ("a", "typo", "not-found", "there is no queue 'typo'"),
                ("typo", "a", "not-found", "there is no queue 'typo'"),
            ):
                with pytest.raises(MoveStoppedError, match=text) as caught:
                    await administration.move(source, target)
                assert (caught.value.code, caught.value.moved) == (code, 0)
            with pytest.raises(
                MoveStoppedError, match=r"room for 0 messages.*; 4 messages were moved until then"
            ) as full:
                await administration.move("a", "small")
            assert (full.value.code, full.value.moved) == ("queue-full", 4)
            assert await counts(administration) == {"a": 6, "small": 4}
            assert "typo" not in broker.queues

    run(main)


def test_a_look_shows_what_there_is_and_changes_nothing(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            rich = [
                Message(b"\xff\x00", b"k\xfe", {"text": "\u00fc", "bytes": b"\xff"}, b"0123456789abcdef"),
                Message(b"x" * (peeked.MESSAGE_BYTES + 5), None, None, b"0123456789abcdeg"),
            ]
            await send(broker.send_address, "a", lines(0, 5), MessageBatch.from_messages(rich))
            before = await administration.queues()
            found = await administration.peek("a", 100)
            assert [message.number for message in found] == list(range(7))
            assert found[0].id == broker.id_prefix("a") + bytes(8)
            assert (found[5].payload, found[5].key, found[5].id) == (b"\xff\x00", b"k\xfe", b"0123456789abcdef")
            assert found[5].headers == {"text": "\u00fc", "bytes": b"\xff"}
            assert found[6].size == peeked.MESSAGE_BYTES + 5
            assert len(found[6].payload) == peeked.MESSAGE_BYTES
            assert [message.number for message in await administration.peek("a", 2, newest=True)] == [5, 6]
            assert [message.payload for message in await administration.peek("a", 2, start=3)] == [b"3", b"4"]
            assert [message.payload for message in await administration.peek("a", 1, most_bytes=0)] == [b""]
            assert await administration.peek("a", 3, start=100) == []
            after = await administration.queues()
            assert [row | {"oldest_ms": 0} for row in after] == [row | {"oldest_ms": 0} for row in before]

    run(main)


def test_a_look_is_bounded_and_goes_on_where_it_ended(run: Any, serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peeked, "ANSWER_BYTES", 30)
    monkeypatch.setattr(peeked, "MOST_MESSAGES", 7)

    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await send(broker.send_address, "a", lines(0, 40), lines(40, 50))
            found = await administration.peek("a", 45)
            assert [message.number for message in found] == list(range(45))

    run(main)


def test_a_look_at_headers_that_json_makes_six_times_as_long_fits_a_frame(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            most = peeked.MESSAGE_BYTES
            headers = {"control": "\x00" * (most - 20)}
            batches = [
                Message(b"", None, headers),
                Message(b"", None, headers),
                Message(b"x" * most, b"k" * most, headers),
            ]
            await send(broker.send_address, "a", *(MessageBatch.from_messages([each]) for each in batches))
            found = await administration.peek("a", 10)
            assert [message.number for message in found] == [0, 1, 2]
            assert all(message.headers == headers for message in found)

    run(main)


def test_the_last_messages_are_found_whatever_is_gone_between_them(run: Any, serve: Any, until: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await send(broker.send_address, "a", lines(0, 50))
            receiver = Receiver(broker.receive_address, queue="a", max_in_flight=30)
            taken = 0
            async for delivered in receiver.batches().take(1):
                taken = len(delivered)
                delivered.acknowledge()

            async def acknowledged() -> bool:
                return (await counts(administration))["a"] == 50 - taken

            await until(acknowledged)
            found = await administration.peek("a", 60, newest=True)
            assert [message.number for message in found] == list(range(taken, 50))

    run(main)


def test_a_connection_is_closed_with_a_word_and_our_clients_come_back(run: Any, serve: Any, until: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            running = Receiver(broker.receive_address, queue="a").batches().to(Sink.foreach(lambda _: None)).run()

            async def receivers() -> set[int]:
                return {row["id"] for row in await administration.connections() if row["role"] == "receiver"}

            async def another(than: set[int]) -> bool:
                return bool(await receivers() - than)

            await until(lambda: another(set()))
            there = await receivers()
            assert await administration.close_connections(max(there), reason="moving house") == 1
            await until(lambda: another(there))
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    run(main)


def test_the_other_side_is_told_once_why_it_is_closed(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            own = {row["id"] for row in await administration.connections()}
            other = await opened.open(broker.send_address, "admin", None)
            (number,) = {row["id"] for row in await administration.connections()} - own
            await administration.close_connections(number, reason="over")
            last = await other.expect(Error)
            assert (last.code, last.text, last.close) == (
                "closed",
                "an administrator has closed this connection: over",
                True,
            )

    run(main)


def test_nobody_closes_the_connection_that_asks_nor_one_that_is_not_there(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            (own,) = [row["id"] for row in await administration.connections()]
            for arguments, code, text in (
                ({"number": own}, "protocol-error", "is the one that asks"),
                ({"number": own + 7}, "not-found", "there is no connection"),
                ({}, "protocol-error", "either the argument id or the argument user"),
                ({"number": own, "user": "x"}, "protocol-error", "either the argument id or the argument user"),
                ({"user": "x", "reason": "r" * 256}, "protocol-error", "a reason of 256 characters exceeds 255"),
            ):
                with pytest.raises(BrokerError, match=text) as caught:
                    await administration.close_connections(**arguments)
                assert caught.value.code == code
            assert await administration.close_connections(user="nobody") == 0

    run(main)


@pytest.mark.parametrize("answer", [None, [], {"moved": -1, "next": None}, {"moved": True}, {"moved": 1, "next": 5}])
def test_an_answer_of_another_shape_is_told_as_such(run: Any, answer: object) -> None:
    from transport.clients.moving import move

    async def ask(_: dict[str, Any]) -> Any:
        return answer

    async def main() -> None:
        with pytest.raises(RemoteProtocolError, match="of another shape"):
            await move(ask, None, None, lambda: False)

    run(main)


def test_a_lost_connection_in_the_midst_is_told_and_who_stops_stops_between_steps(run: Any) -> None:
    from transport.clients.moving import move

    steps: list[dict[str, Any]] = []

    async def ask(arguments: dict[str, Any]) -> Any:
        steps.append(arguments)
        if len(steps) == 3:
            raise ConnectionLostError("gone")
        return {"moved": 10, "next": "on"}

    async def main() -> None:
        told: list[int] = []
        with pytest.raises(ConnectionLostError):
            await move(ask, 100, told.append, lambda: False)
        assert told == [10, 20]
        assert [step["count"] for step in steps] == [100, 90, 80]
        assert [step["after"] for step in steps] == [None, "on", "on"]
        steps.clear()
        assert await move(ask, None, None, lambda: len(steps) == 2) == 20

    run(main)
