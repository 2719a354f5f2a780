"""Schedules over real sockets: declared, listed, paused and deleted by commands, with the rights that these take."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from actors.scheduling.schedule import MISSED
from tests.actors.schedules_bench import Schedules
from tests.actors.stored_queues import with_and_without_journal
from tests.transport.test_operations import door
from transport import Administration, BrokerError, Receiver
from transport.broker.schedule_commands import CREATES, schedule_create, schedule_rows
from transport.cli import schedule as verbs
from transport.errors import ForbiddenError, InvalidNameError, LimitExceededError, LocalProtocolError
from transport.security.principal import Grant, Grants, Principal, Right

WRITES = Right.WRITE | Right.CONFIGURE


@pytest.mark.parametrize("directory", [False, True])
def test_what_is_declared_is_stored_each_second_and_stands_in_the_list(
    run: Any, serve: Any, tmp_path: Any, directory: bool
) -> None:
    async def main() -> None:
        options = {"directory": str(tmp_path / "data")} if directory else {}
        async with serve(**options) as broker, Administration(broker.send_address) as client:
            said: dict[str, Any] = {
                "payload": b"tick",
                "headers": {"h": "v"},
                "key": "k",
                "ttl": 60.0,
                "missed": "once",
            }
            assert await client.declare_schedule("beat", "every 1s", queue="beats", **said)
            assert not await client.declare_schedule("beat", "every 1s", queue="beats", **said)
            async for delivery in Receiver(broker.receive_address, queue="beats", limit=1):
                headers = dict(delivery.headers or {})
                assert (delivery.payload, delivery.key, headers.pop("h")) == (b"tick", b"k", "v")
                assert headers.pop("penstock-schedule") == "beat"
                assert list(headers) == ["penstock-scheduled-for"]
                delivery.acknowledge()
            (row,) = await client.schedules()
            assert row["times_fired"] >= 1
            assert (row["state"], row["ttl_ms"], row["payload_bytes"], row["missed"]) == (
                "scheduled",
                60_000,
                4,
                "once",
            )
            assert "payload" not in row
            shown = await client.schedule("beat")
            assert (shown["payload"], shown["headers"]) == (b"tick", {"h": "v"})

    run(main)


def test_a_schedule_says_a_priority_and_a_key_as_messages_have_them(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as client:
            await client.create_queue("levels", max_priority=5)
            said: dict[str, Any] = {"queue": "levels", "priority": 4}
            assert await client.declare_schedule("beat", "every 1s", **said, key=b"k")
            assert not await client.declare_schedule("beat", "every 1s", **said, key="k"), "it says the same"
            with pytest.raises(BrokerError, match="priority"):
                await client.declare_schedule("beat", "every 1s", queue="levels", key="k")
            async for delivery in Receiver(broker.receive_address, queue="levels", limit=1):
                assert (delivery.key, delivery.priority) == (b"k", 4)
                delivery.acknowledge()
            (row,) = await client.schedules()
            assert (row["key"], row["priority"]) == ("k", 4)

    run(main)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"payload": "tick"}, "the payload of a schedule must be bytes, not str"),
        ({"key": 7}, "the key of a schedule must be a str, or bytes of UTF-8, not int"),
        ({"key": b"\xff"}, "the key of a schedule must be UTF-8, which b'\\xff' is not"),
        ({"priority": 256}, "priority is 256; whole numbers from 0 to 255 are possible"),
        ({"priority": True}, "priority is True; whole numbers from 0 to 255 are possible"),
        ({"headers": {"h": b"v"}}, "the header 'h' of a schedule must be a str with a str, not bytes"),
        ({"headers": {"h": 1}}, "the header 'h' of a schedule must be a str with a str, not int"),
    ],
)
def test_content_of_another_type_is_refused_before_it_is_sent(run: Any, serve: Any, said: Any, why: str) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as client:
            with pytest.raises(LocalProtocolError) as refused:
                await client.declare_schedule("s", "every 1s", queue="q", **said)
            assert str(refused.value) == why
            assert await client.schedules() == []

    run(main)


def test_it_is_paused_resumed_replaced_and_deleted(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as client:
            await client.declare_schedule(
                "daily", "0 8 * * *", exchange="amq.topic", routing_key="a.b", zone="Asia/Tokyo"
            )
            assert await client.pause_schedule("daily")
            assert not await client.pause_schedule("daily")
            assert (await client.schedule("daily"))["state"] == "paused"
            assert await client.resume_schedule("daily")
            assert not await client.resume_schedule("daily")
            assert (await client.schedule("daily"))["next"].endswith("T23:00:00Z")
            with pytest.raises(BrokerError, match="another expression, zone, queue, exchange") as refused:
                await client.declare_schedule("daily", "0 9 * * *", queue="q")
            assert refused.value.code == "already-exists"
            assert await client.declare_schedule("daily", "0 9 * * *", queue="q", replace=True)
            await client.delete_schedule("daily")
            assert await client.schedules() == []
            for command in (client.delete_schedule, client.pause_schedule, client.resume_schedule, client.schedule):
                with pytest.raises(BrokerError, match="there is no schedule 'daily'") as missing:
                    await command("daily")
                assert missing.value.code == "not-found"

    run(main)


@pytest.mark.parametrize(
    ("said", "code", "why"),
    [
        ({"expression": "nonsense", "queue": "q"}, "protocol-error", "is no cron expression"),
        ({"expression": "every 1s"}, "protocol-error", "needs a queue or an exchange"),
        ({"expression": "every 1s", "queue": "q", "zone": "Mars"}, "protocol-error", "no time zone"),
        ({"expression": "every 1s", "queue": "q", "missed": "never"}, "protocol-error", "there are skip, once, all"),
        ({"expression": "every 1s", "exchange": "nope"}, "not-found", "there is no exchange 'nope'"),
        ({"expression": "every 1s", "queue": "q", "payload": "?"}, "protocol-error", "must be base64"),
        ({"expression": "every 1s", "queue": "q", "headers": '{"a": 1}'}, "protocol-error", "the header 'a' must be a"),
        ({"expression": "every 1s", "queue": "q", "headers": "[]"}, "protocol-error", "must be a JSON object"),
        ({"expression": "every 1s", "queue": "q", "ttl_ms": -1}, "protocol-error", "a whole number of zero or more"),
        ({"expression": "every 1s", "queue": "q", "every": 3}, "protocol-error", "the argument 'every' is unknown"),
        ({"queue": "q"}, "protocol-error", "the argument expression must be a string"),
        ({"expression": "every 1s", "queue": "a b"}, "invalid-name", "white space"),
        ({"expression": "every 1s", "queue": "q", "payload": "A" * 3_000}, "limit-exceeded", "MAX_SCHEDULED_PAYLOAD"),
    ],
)
def test_what_cannot_be_is_refused_with_a_code_and_changes_nothing(
    run: Any, serve: Any, said: dict[str, Any], code: str, why: str
) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as client:
            with pytest.raises(BrokerError) as refused:
                await client._command("schedule.create", {"name": "s", **said})
            assert refused.value.code == code
            assert why in str(refused.value)
            assert await client.schedules() == []
            with pytest.raises(InvalidNameError):
                await client.declare_schedule("a b", "every 1s", queue="q")

    run(main)


@pytest.mark.parametrize(
    ("on_name", "on_queue", "allowed"),
    [
        (Right.CONFIGURE, WRITES, True),
        (Right.CONFIGURE, Right.WRITE, False),
        (Right.CONFIGURE, Right.CONFIGURE, False),
        (Right.WRITE | Right.READ, WRITES, False),
    ],
)
@pytest.mark.parametrize("place", ["queue", "exchange"])
def test_to_declare_one_takes_configure_on_its_name_and_write_and_configure_where_it_goes(
    run: Any, on_name: Right, on_queue: Right, allowed: bool, place: str
) -> None:
    async def main() -> None:
        where = "orders" if place == "queue" else "amq.topic"
        async with door() as (broker, operations):
            asks = operations(Principal("ann", Right(0), Grants([Grant("s", on_name), Grant(where, on_queue)])))
            said = {"name": "s", "expression": "every 1s", place: where}
            if allowed:
                assert json.loads(await asks.command("schedule.create", said))["changed"] is True
            else:
                with pytest.raises(ForbiddenError):
                    await asks.command("schedule.create", said)
            assert len(broker.queues.schedules) == allowed

    run(main)


def test_who_may_only_look_sees_no_payload(run: Any) -> None:
    async def main() -> None:
        async with door() as (_, operations):
            everything = operations(Principal("ann", Right(0), Grants([Grant("*", WRITES)])))
            await everything.command(
                "schedule.create", {"name": "s", "expression": "every 1d", "queue": "q", "payload": "c2VjcmV0"}
            )
            looks = operations(Principal("bob", Right.MONITOR, Grants([])))
            (row,) = json.loads(await looks.command("schedule.list", {}))
            assert row["payload_bytes"] == 6
            assert "c2VjcmV0" not in json.dumps(row)
            with pytest.raises(ForbiddenError):
                await looks.command("schedule.show", {"name": "s"})

    run(main)


@with_and_without_journal(Schedules)
async def test_who_declares_one_that_is_deleted_meanwhile_is_told_that_it_was_there(bench: Schedules) -> None:
    async def durable() -> None:
        bench.schedules.delete("beat")

    commands: Any = SimpleNamespace(schedules=bench.schedules, durable=durable)
    answer = await schedule_create(commands, {"name": "beat", "expression": "every 30s", "queue": "beats"})
    assert (answer["changed"], answer["state"], list(bench.schedules)) == (True, "scheduled", [])


@with_and_without_journal(Schedules)
async def test_one_that_is_deleted_while_they_are_listed_is_passed_over(bench: Schedules) -> None:
    for name in "abc":
        bench.declare("every 30s", name)
    listed: Any = SimpleNamespace(schedules=bench.schedules)
    rows = schedule_rows(listed, None)
    found = [(await anext(rows))[0]]
    bench.schedules.delete("b")
    found += [key async for key, _ in rows]
    assert found == [("a",), ("c",)]


def test_what_no_command_can_say_is_refused_before_it_is_sent(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as client:
            for said in ({"payload": bytes(4_096)}, {"headers": {"h": "x" * 4_096}}):
                with pytest.raises(LimitExceededError, match="MAX_COMMAND_BYTES is 4000"):
                    await client.declare_schedule("s", "every 1s", queue="q", **said)
            largest = {"payload": bytes(2_048), "headers": {"h": "x" * 900}}
            assert await client.declare_schedule("s", "every 1s", queue="q", **largest)

    run(main)


def test_the_list_comes_in_pages(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as client:
            for name in ("c", "a", "b"):
                await client.declare_schedule(name, "@daily", queue="q")
            page = await client._command("schedule.list", {"limit": 2})
            assert [row["name"] for row in page["rows"]] == ["a", "b"]
            rest = await client._command("schedule.list", {"limit": 2, "after": page["next"]})
            assert [row["name"] for row in rest["rows"]] == ["c"]
            assert [row["name"] for row in await client._command("schedule.list", {"name": "b"})] == ["b"]

    run(main)


def test_the_command_line_has_the_words_that_the_broker_has() -> None:
    assert verbs.MISSED == MISSED
    assert set(CREATES) > {"zone", "missed", "replace"}
