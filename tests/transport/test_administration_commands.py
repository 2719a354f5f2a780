"""Administrative commands as a broker answers them, over real sockets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from transport.broker.operations import COMMANDS, OPERATIONS
from transport.clients.administration import Administration
from transport.errors import BrokerError
from transport.wire.messages import Command, Error, Result

EVERY_SETTING: dict[str, Any] = {
    "max_messages": 11,
    "max_bytes": 12,
    "visibility_timeout": 1.5,
    "overflow": "reject",
    "max_receives": 3,
    "dead_letter_queue": "failed",
    "delay": 0.25,
    "ttl": 60.0,
    "exclusive": True,
    "max_staged_messages": 13,
    "max_staged_bytes": 14,
    "durable": False,
}
DEFAULTS = {"max_receives": 9, "dead_letter_queue": "all-dead", "ttl": 7.0}


def test_a_queue_is_created_with_every_setting_and_listed_with_them(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("orders", **EVERY_SETTING)
            (row,) = [row for row in await administration.queues() if row["name"] == "orders"]
            assert {key: row[key] for key in EVERY_SETTING} == EVERY_SETTING
            # Again as it is: no error.
            await administration.create_queue("orders", **EVERY_SETTING)

    run(main)


@pytest.mark.parametrize("key", EVERY_SETTING)
def test_a_queue_that_exists_with_another_value_of_any_setting_is_refused(run: Any, serve: Any, key: str) -> None:
    other = {
        "max_messages": 99,
        "max_bytes": 99,
        "visibility_timeout": 9.0,
        "overflow": "block",
        "max_receives": 9,
        "dead_letter_queue": "others",
        "delay": 9.0,
        "ttl": 9.0,
        "exclusive": False,
        "max_staged_messages": 99,
        "max_staged_bytes": 99,
        "durable": True,
    }

    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("orders", **EVERY_SETTING)
            with pytest.raises(BrokerError) as caught:
                await administration.create_queue("orders", **(EVERY_SETTING | {key: other[key]}))
            assert caught.value.code == "already-exists"

    run(main)


def test_what_is_not_said_is_the_brokers_setting_and_zero_says_never(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve(**DEFAULTS) as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("plain")
            await administration.create_queue("own", dead_letter_queue="")
            await administration.create_queue("never", max_receives=0, ttl=0, dead_letter_queue="")
            rows = {row["name"]: {key: row[key] for key in DEFAULTS} for row in await administration.queues()}
            assert rows["plain"] == DEFAULTS
            assert rows["own"] == DEFAULTS | {"dead_letter_queue": None}
            assert rows["never"] == dict.fromkeys(DEFAULTS)

    run(main)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ({"tll_ms": 1}, "protocol-error", "the argument 'tll_ms' is unknown; there are name, max_messages,"),
        ({"max_messages": -1}, "protocol-error", "max_messages must be a whole number of zero or more, not -1"),
        ({"max_bytes": 1.5}, "protocol-error", "max_bytes must be a whole number of zero or more"),
        ({"max_bytes": True}, "protocol-error", "max_bytes must be a whole number of zero or more"),
        ({"visibility_timeout_ms": 0}, "protocol-error", "a visibility timeout of 0s"),
        (
            {"visibility_timeout_ms": "1"},
            "protocol-error",
            "visibility_timeout_ms must be a whole number of zero or more",
        ),
        ({"delay_ms": -1}, "protocol-error", "delay_ms must be a whole number of zero or more"),
        ({"delay_ms": 1 << 60}, "protocol-error", "a delay of"),
        ({"ttl_ms": 1 << 60}, "protocol-error", "a ttl of"),
        ({"max_receives": 1001}, "protocol-error", "max_receives is 1001, not between 1 and 1000"),
        ({"overflow": "spill"}, "protocol-error", "overflow is 'spill'"),
        ({"overflow": 1}, "protocol-error", "overflow must be a string"),
        ({"exclusive": 1}, "protocol-error", "exclusive must be true or false"),
        ({"dead_letter_queue": "a b", "ttl_ms": 1}, "invalid-name", "the dead-letter queue name 'a b' has white space"),
        ({"dead_letter_queue": "d", "drop_failed": True}, "protocol-error", "drop_failed is set, and a place"),
        ({"drop_failed": True}, "protocol-error", "drop_failed is set, and no max_receives"),
        ({"overflow": "reject-dead-letter"}, "protocol-error", "and no place for dead letters is named"),
        ({"retry_max_delay_ms": 5000}, "protocol-error", "retry_max_delay is set, and no retry_delay"),
        ({"max_deduplication_ids": 5}, "protocol-error", "is set, and no deduplication_window"),
        (
            {"exclusive": True, "single_active_consumer": True},
            "protocol-error",
            "exclusive and single_active_consumer are set",
        ),
        ({"max_failures": 2, "max_receives": 3}, "protocol-error", "max_failures and max_receives are one setting"),
        ({"retry_delay_ms": 1 << 60}, "protocol-error", "a retry_delay of"),
    ],
)
def test_an_argument_that_cannot_be_is_refused_and_no_queue_is_made(
    run: Any, serve: Any, peers: Any, arguments: dict[str, Any], code: str, text: str
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            admin = await opened.open(broker.send_address, "admin", None)
            admin.send(Command(1, "queue.create", {"name": "orders"} | arguments))
            refused = await admin.expect(Error)
            assert (refused.code, refused.close) == (code, False)
            assert text in refused.text
            admin.send(Command(2, "queue.list", {}))
            assert json.loads((await admin.expect(Result)).json) == []

    run(main)


LOOKING = {"cluster.status", "queue.peek", "exchange.route", "picture", "stats", "journal.read"}
"""Commands that change nothing, beside the lists."""


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in LOOKING and not name.endswith(".list")])
def test_a_command_that_changes_something_refuses_what_it_does_not_know(
    run: Any, serve: Any, peers: Any, name: str
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            admin = await opened.open(broker.send_address, "admin", None)
            admin.send(Command(1, "queue.create", {"name": "orders"}))
            await admin.expect(Result)
            everything = {"from": "orders", "to": "new", "create": True, "queue": "orders", "name": "orders"}
            everything |= {"source": "amq.topic", "destination": "orders"}
            taken = OPERATIONS[name].takes
            said = {key: everything[key] for key in everything if key in (("name",) if taken is None else taken)}
            admin.send(Command(2, name, said | {"only_old": True}))
            refused = await admin.expect(Error)
            assert (refused.code, refused.close) == ("protocol-error", False)
            assert "the argument 'only_old' is unknown; " in refused.text
            admin.send(Command(3, "queue.list", {}))
            assert [row["name"] for row in json.loads((await admin.expect(Result)).json)] == ["orders"]

    run(main)


@pytest.mark.parametrize(
    "name", ["queue.list", "queue.peek", "subscription.list", "connection.list", "picture", "stats"]
)
def test_a_command_that_only_looks_passes_over_what_a_later_version_asks(
    run: Any, serve: Any, peers: Any, name: str
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            admin = await opened.open(broker.send_address, "admin", None)
            admin.send(Command(1, "queue.create", {"name": "orders"}))
            await admin.expect(Result)
            said = {"name": "orders", "count": 1} if name == "queue.peek" else {}
            admin.send(Command(2, name, said | {"later": True}))
            await admin.expect(Result)

    run(main)


def test_null_is_as_if_it_were_not_said(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve(ttl=7.0) as broker, peers() as opened:
            admin = await opened.open(broker.send_address, "admin", None)
            admin.send(Command(1, "queue.create", {"name": "orders", "ttl_ms": None, "max_messages": 5}))
            answer = json.loads((await admin.expect(Result)).json)
            assert (answer["name"], answer["ttl"], answer["max_messages"]) == ("orders", 7.0, 5)

    run(main)


def test_a_broker_in_memory_has_no_storage_to_tell_of(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            figures = await administration.statistics()
            assert figures["storage"] is None
            assert figures["broker"]["rss_bytes"] > 0

    run(main)


def test_a_queue_that_failed_for_good_is_listed_as_failed_beside_the_others_and_deleted(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("good", max_messages=7)
            await administration.create_queue("bad", max_messages=8)
            queue = broker.queues.get("bad")
            for _ in range(queue.actor_class.max_restarts + 1):
                queue.tell("no message of a queue's")
            await queue.stopped()
            bad, good = sorted(await administration.queues(), key=lambda row: str(row["name"]))
            assert (bad["name"], bad["max_messages"], good["name"], good["ready"]) == ("bad", 8, "good", 0)
            assert "failed for good" in bad["failed"]
            assert "failed" not in good
            assert await administration.subscriptions() == []
            statistics = await administration.statistics()
            assert [row["name"] for row in statistics["queues"] if "failed" in row] == ["bad"]
            await administration.delete_queue("bad")
            assert [row["name"] for row in await administration.queues()] == ["good"]
            # Whoever asks for something of it has it started anew.
            await administration.create_queue("bad", max_messages=9)
            queue = broker.queues.get("bad")
            for _ in range(queue.actor_class.max_restarts + 1):
                queue.tell("no message of a queue's")
            await queue.stopped()
            assert await administration.purge_queue("bad") == 0
            assert not [row for row in await administration.queues() if "failed" in row]

    run(main)
