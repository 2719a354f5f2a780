"""Settings of a queue change while clients use it, over real sockets: each follows at once, and nothing that was sent is lost."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from actors import QueueSettings
from streams import Sink, Source
from transport import BrokerError, Delivery, Receiver, Sender
from transport.clients.administration import Administration
from transport.wire.messages import Command, Demand, Error, Result

CHANGED: dict[str, Any] = {
    "max_messages": 99,
    "max_bytes": 98,
    "visibility_timeout": 9.0,
    "overflow": "reject",
    "max_receives": 9,
    "dead_letter_queue": "others",
    "delay": 9.0,
    "ttl": 9.0,
    "max_staged_messages": 97,
    "max_staged_bytes": 96,
}
NEEDS = {"dead_letter_queue": {"ttl": 5.0}}
"""What a setting needs beside it."""


async def settings_of(administration: Administration, name: str = "orders") -> dict[str, Any]:
    (row,) = [row for row in await administration.queues() if row["name"] == name]
    return {key: row[key] for key in (*CHANGED, "exclusive")}


@pytest.mark.parametrize("key", CHANGED)
def test_one_setting_changes_and_every_other_stays_over_a_restart_too(
    run: Any, serve: Any, key: str, tmp_path: Path
) -> None:
    async def main() -> None:
        async with serve(directory=str(tmp_path)) as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("orders", max_messages=5, **NEEDS.get(key, {}))
            before = await settings_of(administration)
            await administration.alter_queue("orders", **{key: CHANGED[key]})
            assert await settings_of(administration) == before | {key: CHANGED[key]}
        async with serve(directory=str(tmp_path)) as broker, Administration(broker.send_address) as administration:
            assert await settings_of(administration) == before | {key: CHANGED[key]}

    run(main)


def test_what_was_given_is_taken_back_to_never_and_the_queues_own(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("orders", max_receives=2, ttl=5.0, dead_letter_queue="dead")
            await administration.alter_queue("orders", max_receives=0, ttl=0, dead_letter_queue="")
            after = await settings_of(administration)
            assert [after[key] for key in ("max_receives", "ttl", "dead_letter_queue")] == [None] * 3

    run(main)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ({}, "protocol-error", "nothing is to be altered of queue 'orders': give a setting"),
        ({"ttl_ms": None}, "protocol-error", "nothing is to be altered"),
        ({"tll_ms": 1}, "protocol-error", "the argument 'tll_ms' is unknown"),
        ({"max_messages": -1}, "protocol-error", "max_messages must be a whole number of zero or more"),
        ({"exclusive": True}, "protocol-error", "exclusive of queue 'orders' cannot be altered, for its receivers"),
        ({"durable": False}, "protocol-error", "durable of queue 'orders' cannot be altered, for what was confirmed"),
        ({"dead_letter_queue": "d", "drop_failed": True}, "protocol-error", "drop_failed is set, and a place"),
        ({"drop_failed": True}, "protocol-error", "drop_failed is set, and no max_receives"),
        ({"overflow": "reject-dead-letter"}, "protocol-error", "and no place for dead letters is named"),
        ({"max_failures": 2, "max_receives": 3}, "protocol-error", "max_failures and max_receives are one setting"),
        ({"dead_letter_queue": "orders", "ttl_ms": 1}, "protocol-error", "cannot be its own dead-letter queue"),
        ({"dead_letter_queue": "a b", "ttl_ms": 1}, "invalid-name", "has white space"),
        ({"name": "missing", "ttl_ms": 1}, "not-found", "there is no queue 'missing'"),
        ({"name": 7, "ttl_ms": 1}, "protocol-error", "the argument name must be a string"),
    ],
)
def test_what_cannot_be_altered_is_refused_and_nothing_has_changed(
    run: Any, serve: Any, peers: Any, arguments: dict[str, Any], code: str, text: str
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            broker.queues.declare("orders", QueueSettings())
            admin = await opened.open(broker.send_address, "admin", None)
            admin.send(Command(1, "queue.alter", {"name": "orders"} | arguments))
            refused = await admin.expect(Error)
            assert (refused.code, refused.close) == (code, False)
            assert text in refused.text
            assert broker.queues.settings_of("orders") == QueueSettings()
            assert list(broker.queues) == ["orders"]
            # The same value is no change.
            admin.send(Command(2, "queue.alter", {"name": "orders", "exclusive": False, "max_messages": 7}))
            answer = json.loads((await admin.expect(Result)).json)
            assert (answer["name"], answer["max_messages"]) == ("orders", 7)

    run(main)


def test_a_sender_that_waits_is_granted_room_as_soon_as_the_limit_is_raised(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened, Administration(broker.send_address) as administration:
            await administration.create_queue("orders", max_messages=1)
            first = await opened.open(broker.send_address, "sender", "orders")
            await first.expect(Demand)
            await administration.alter_queue("orders", max_messages=50)
            granted = (await first.expect(Demand)).messages
            assert 1 < granted <= 50

    run(main)


def test_a_receiver_that_comes_behind_the_change_is_told_the_new_visibility_timeout(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            async with Administration(broker.send_address) as administration:
                await administration.create_queue("orders", visibility_timeout=30.0)
                await administration.alter_queue("orders", visibility_timeout=2.0)
            peer = await opened.connect(broker.receive_address)
            assert (await peer.hello("receiver")).options["visibility_timeout_ms"] == 2000

    run(main)


def test_altering_under_load_loses_nothing_and_changes_no_order(run: Any, serve: Any, tmp_path: Path) -> None:
    total = 3000

    async def main() -> None:
        async with serve(directory=str(tmp_path)) as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("orders")
            payloads = [b"%05d" % number for number in range(total)]
            sending = (
                Source.from_iterable(payloads).to(Sender(broker.send_address, queue="orders", client_id="p")).run()
            )
            got: list[bytes] = []

            def handle(delivery: Delivery) -> None:
                got.append(bytes(delivery.payload))
                delivery.acknowledge()

            receiver = Receiver(broker.receive_address, queue="orders", max_in_flight=100)
            receiving = receiver.take(total).to(Sink.foreach(handle)).run()
            for number in range(60):
                await administration.alter_queue(
                    "orders", max_messages=(1, 40, 500)[number % 3], max_receives=number % 4, ttl=(0, 3600)[number % 2]
                )
            await sending
            await receiving
            assert got == payloads
            assert (await settings_of(administration))["max_messages"] == 500

    run(main)


def test_two_who_alter_a_queue_at_once_leave_it_with_what_both_said(run: Any, serve: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serve(directory=str(tmp_path)) as broker,
            Administration(broker.send_address) as one,
            Administration(broker.send_address) as two,
        ):
            await one.create_queue("orders")
            await asyncio.gather(one.alter_queue("orders", ttl=5.0), two.alter_queue("orders", delay=2.0))
            after = await settings_of(one)
            assert (after["ttl"], after["delay"]) == (5.0, 2.0)

    run(main)


def test_a_queue_of_the_brokers_own_settings_has_those_again_at_the_next_start_and_a_warning_says_so(
    run: Any, serve: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    declared = {"orders": QueueSettings(max_messages=5)}

    async def main() -> None:
        async with (
            serve(directory=str(tmp_path), queues=declared) as broker,
            Administration(broker.send_address) as administration,
        ):
            with caplog.at_level(logging.WARNING):
                await administration.alter_queue("orders", max_messages=6)
            assert (await settings_of(administration))["max_messages"] == 6
        assert "queue orders is altered until the next start" in caplog.text
        async with serve(directory=str(tmp_path), queues=declared) as broker:
            assert broker.queues.settings_of("orders").max_messages == 5

    run(main)


def test_a_refused_change_tells_the_client_why(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            with pytest.raises(BrokerError, match="there is no queue 'orders'") as refused:
                await administration.alter_queue("orders", ttl=1.0)
            assert refused.value.code == "not-found"

    run(main)
