"""Deduplication over a broker: what native senders, exchanges and `penstock send` see of it, and what a killed broker remembers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actors.limits import DEDUPLICATION_HEADER
from streams import Sink, Source
from tests.transport.programs import BrokerProcess
from transport import Administration, BrokerError, Message, Receiver, Sender, receive, send
from transport.errors import LocalProtocolError


def named(*said: tuple[bytes, str | None]) -> list[Message]:
    return [Message(payload, deduplication_id=own) for payload, own in said]


async def waiting(broker: Any, queue: str) -> list[bytes]:
    async with Administration(broker.send_address) as administration:
        return [each.payload for each in await administration.peek(queue, 100)]


@pytest.mark.parametrize("journal", [True, False])
def test_a_sender_is_confirmed_what_is_not_stored_again(run: Any, serve: Any, tmp_path: Path, journal: bool) -> None:
    async def main() -> None:
        async with serve(**({"directory": tmp_path / "data"} if journal else {})) as broker:
            async with Administration(broker.send_address) as administration:
                await administration.create_queue("orders", deduplication_window=3600.0)
                messages = named((b"a", "1"), (b"b", "2"), (b"c", "1"), (b"d", None), (b"e", "2"))
                for _ in range(2):
                    done = await Source.from_iterable(messages).to(Sender(broker.send_address, queue="orders")).run()
                    assert done.messages == 5
                assert await waiting(broker, "orders") == [b"a", b"b", b"d", b"d"]
                figures = await administration.queue("orders")
                assert figures["deduplication_window"] == 3600.0
                assert figures["total_deduplicated"] == 6
                assert figures["deduplication_ids"] == 2
            first = await Receiver(broker.receive_address, queue="orders", limit=1).to(Sink.head()).run()
            assert first.headers == {DEDUPLICATION_HEADER: "1"}

    run(main)


def test_one_who_says_the_same_name_goes_on_behind_duplicates(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve(deduplication_window=60.0) as broker:
            for _ in range(3):
                sender = Sender(broker.send_address, queue="orders", client_id="shop")
                done = await Source.from_iterable(named((b"a", "1"), (b"b", "2"))).to(sender).run()
                assert done.messages == 2
            assert await waiting(broker, "orders") == [b"a", b"b"]

    run(main)


def test_what_an_exchange_sends_to_several_queues_each_judges_for_itself(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            async with Administration(broker.send_address) as administration:
                await administration.declare_exchange("all", "fanout")
                for queue, settings in (("one", 60.0), ("other", 60.0), ("plain", None)):
                    await administration.create_queue(queue, deduplication_window=settings)
                    await administration.bind("all", queue)
            await Source.of(*named((b"a", "1"))).to(Sender(broker.send_address, queue="one")).run()
            for client_id in (None, "shop"):
                sender = Sender(broker.send_address, exchange="all", client_id=client_id)
                done = await Source.from_iterable(named((b"b", "1"), (b"c", "2"))).to(sender).run()
                assert done.messages == 2
            assert await waiting(broker, "one") == [b"a", b"c"]
            assert await waiting(broker, "other") == [b"b", b"c"]
            assert await waiting(broker, "plain") == [b"b", b"c", b"b", b"c"]

    run(main)


def test_what_somebody_moves_is_not_judged(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve(deduplication_window=60.0) as broker:
            await Source.of(*named((b"a", "1"))).to(Sender(broker.send_address, queue="one")).run()
            await Source.of(*named((b"b", "1"))).to(Sender(broker.send_address, queue="other")).run()
            async with Administration(broker.send_address) as administration:
                assert await administration.move("one", "other") == 1
            assert await waiting(broker, "other") == [b"b", b"a"]

    run(main)


def test_a_schedules_message_is_judged_like_any_other_and_its_time_is_over(run: Any, serve: Any, until: Any) -> None:
    async def main() -> None:
        async with serve(deduplication_window=3600.0) as broker, Administration(broker.send_address) as administration:
            headers = {DEDUPLICATION_HEADER: "daily"}
            await administration.declare_schedule("s", "every 1s", queue="orders", payload=b"p", headers=headers)

            async def came() -> bool:
                return bool((await administration.queue("orders"))["total_deduplicated"] >= 1)

            await until(came)
            assert await waiting(broker, "orders") == [b"p"]

    run(main)


def test_a_sender_waits_until_ids_are_forgotten_and_loses_none(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve(deduplication_window=0.1, max_deduplication_ids=8) as broker:
            messages = named(*((b"%d" % number, str(number)) for number in range(50)))
            done = await Source.from_iterable(messages).to(Sender(broker.send_address, queue="orders")).run()
            assert done.messages == 50
            assert await waiting(broker, "orders") == [b"%d" % number for number in range(50)]
            async with Administration(broker.send_address) as administration:
                assert (await administration.queue("orders"))["deduplication_ids"] <= 2 * 8

    run(main)


def test_an_id_that_cannot_be_is_one_clear_error(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve(deduplication_window=60.0) as broker:
            for wrong, text in (("x" * 1025, "1025 bytes"), ("", "0 bytes"), (7, "int")):
                message = Message(b"a", deduplication_id=wrong)  # type: ignore[arg-type]  # one is none
                with pytest.raises(LocalProtocolError, match=text):
                    await Source.of(message).to(Sender(broker.send_address, queue="orders")).run()
            # Whoever writes the header itself is told by the broker.
            message = Message(b"a", headers={DEDUPLICATION_HEADER: "x" * 1025})
            with pytest.raises(BrokerError, match="deduplication id of 1025 bytes exceeds 1024"):
                await Source.of(message).to(Sender(broker.send_address, queue="orders")).run()

    run(main)


def test_a_killed_broker_remembers_the_ids_of_what_it_has_stored_though_that_is_gone(tmp_path: Path) -> None:
    options = "--data", str(tmp_path / "data"), "--deduplication-window", "1h", "--http", "none"
    with BrokerProcess(*options) as broker:
        send(broker.sending, "orders", named((b"a", "1"), (b"b", "2")))
        assert broker.run("queue purge", "orders")[0] == 0
        send(broker.sending, "orders", named((b"c", "3")))
        broker.process.kill()
        broker.process.wait()
    with BrokerProcess(*options) as broker:
        send(broker.sending, "orders", named((b"x", "1"), (b"y", "3"), (b"d", "4"), (b"z", "2")))
        assert broker.statistics("orders")["total_deduplicated"] == 3
        assert [each.payload for each in receive(broker.receiving, "orders", limit=2)] == [b"c", b"d"]


def test_penstock_send_says_an_id_and_queue_show_counts_duplicates(tmp_path: Path) -> None:
    with BrokerProcess("--http", "none") as broker:
        assert broker.run("queue create", "orders", "--deduplication-window", "5m")[0] == 0
        for _ in range(2):
            assert broker.run("send", "--queue", "orders", "--deduplication-id", "7", "--quiet", stdin=b"one\n")[0] == 0
        lines = [{"payload": "two", "deduplication_id": "8"}, {"payload": "three", "deduplication_id": "7"}]
        text = "".join(json.dumps(line) + "\n" for line in lines).encode()
        assert broker.run("send", "--queue", "orders", "--jsonl", "--quiet", stdin=text)[0] == 0
        page = broker.run("queue show", "orders")[1].decode()
        assert [line.split() for line in page.splitlines() if "deduplicated" in line] == [["deduplicated", "2", "-"]]
        code, _, said = broker.run("send", "--queue", "orders", "--deduplication-id", "x" * 1025, stdin=b"one\n")
        assert (code, "1 to 1024 bytes" in said) == (2, True)
        assert broker.run("queue alter", "orders", "--deduplication-window", "never")[0] == 0
        assert broker.statistics("orders")["deduplication_window"] is None
