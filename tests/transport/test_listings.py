"""Lists of administration come in pages, however many queues, connections, subscriptions or transactions there are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.scheduling.schedule import Schedule
from transport.broker.listings import MOST_ROWS
from transport.broker.operations import COMMANDS
from transport.clients.administration import Administration
from transport.errors import RemoteProtocolError
from transport.wire.messages import Command, Demand, Error, Result, Send, Sent

LISTS = {
    "queue.list": ("name",),
    "connection.list": ("id",),
    "exchange.list": ("name",),
    "binding.list": ("source", "destination", "key"),
    "schedule.list": ("name",),
    "subscription.list": ("queue", "name"),
    "transaction.list": ("writer", "version"),
}
"""What the rows of each are ordered by; bindings by the order in which they were made, and these say which one it is."""


def test_every_list_of_the_protocol_is_in_this_table() -> None:
    # Users are made by no client; tests/transport/gateways/http/console/test_signing.py turns their pages.
    assert {name for name in COMMANDS if name.endswith(".list")} == {*LISTS, "user.list"}


async def fill(broker: Any, opened: Any, count: int) -> None:
    """So many of everything, named so that their order is not that of their making."""
    for number in range(count):
        queue = f"é{(number * 5) % count}"
        await opened.open(broker.receive_address, "subscription", queue, subscription=f"b{number}", starting="earliest")
        await opened.open(broker.receive_address, "subscription", queue, subscription=f"a{number}")
        sender = await opened.open(
            broker.send_address, "sender", queue, f"c{number}", writer=f"w{number % 3}", version=number, stage="s"
        )
        await sender.expect(Demand)
        sender.send(Send(0, None, MessageBatch.from_payloads([b"x"])))
        await sender.expect_later(Sent)
        await broker.queues.exchanges.declare(f"é{(number * 5) % count}", "topic")
        await broker.queues.exchanges.bind(f"é{(number * 5) % count}", queue, str(number))
        broker.queues.schedules.declare(Schedule(f"é{(number * 5) % count}", "@yearly", queue=queue))


async def ask(admin: Any, name: str, **arguments: Any) -> Any:
    admin.send(Command(7, name, arguments))
    answer = await admin.frame()
    return json.loads(answer.json) if isinstance(answer, Result) else answer


async def pages(admin: Any, name: str, limit: int) -> list[list[Any]]:
    found = []
    arguments: dict[str, Any] = {"limit": limit}
    while True:
        page = await ask(admin, name, **arguments)
        assert page.keys() == {"rows", "next"}
        found.append(page["rows"])
        if page["next"] is None:
            return found
        assert page["rows"], "a page without rows would never end"
        arguments["after"] = page["next"]


@pytest.mark.parametrize("limit", [1, 3, 7, 1000])
def test_pages_together_are_the_list_in_order(run: Any, serve: Any, peers: Any, limit: int) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await fill(broker, opened, 7)
            admin = await opened.open(broker.send_address, "admin", None)
            for name, key in LISTS.items():
                whole = await ask(admin, name)
                found = await pages(admin, name, limit)
                rows = [row for page in found for row in page]
                assert [[row[part] for part in key] for row in rows] == [[row[part] for part in key] for row in whole]
                assert len(rows) >= 7
                if name != "binding.list":
                    assert rows == sorted(rows, key=lambda row: [row[part] for part in key])
                assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)

    run(main)


def test_a_page_is_bounded_by_bytes_and_has_a_row_at_least(
    run: Any, serve: Any, peers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await fill(broker, opened, 7)
            admin = await opened.open(broker.send_address, "admin", None)
            row = len(json.dumps((await ask(admin, "queue.list"))[0], separators=(",", ":")))
            for most, size in ((1, 1), (5 * row // 2, 2)):
                monkeypatch.setattr("transport.broker.listings.PAGE_BYTES", most)
                rows = (await ask(admin, "queue.list", limit=MOST_ROWS))["rows"]
                assert len(rows) == size, (most, [len(json.dumps(each)) for each in rows])

    run(main)


def test_queues_that_come_and_go_between_pages_leave_the_others_in_the_list_once(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            for name in "bdfh":
                broker.queues.get_or_create(name)
            admin = await opened.open(broker.send_address, "admin", None)
            first = await ask(admin, "queue.list", limit=2)
            broker.queues.delete("d")
            for name in "aeg":
                broker.queues.get_or_create(name)
            rest = await ask(admin, "queue.list", limit=9, after=first["next"])
            assert [row["name"] for row in first["rows"] + rest["rows"]] == ["b", "d", "e", "f", "g", "h"]

    run(main)


def test_a_list_that_does_not_fit_a_frame_is_refused_and_pages_of_it_are_not(
    run: Any, serve: Any, peers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("listings", "commands"):
        monkeypatch.setattr(f"transport.broker.{module}.MAX_BODY_BYTES", 20_000)

    async def main() -> None:
        async with serve() as broker, peers() as opened:
            for number in range(100):
                broker.queues.get_or_create(f"{number:0200}")
            admin = await opened.open(broker.send_address, "admin", None)
            for name in ("queue.list", "stats"):
                refused = await ask(admin, name)
                assert isinstance(refused, Error)
                assert (refused.code, refused.close) == ("limit-exceeded", False)
                assert "ask for pages (the argument limit" in refused.text
            assert len([row for page in await pages(admin, "queue.list", 10) for row in page]) == 100
            assert "queues" not in await ask(admin, "stats", lists=False)
            async with Administration(broker.send_address) as administration:
                assert len(await administration.queues()) == 100
                statistics = await administration.statistics()
                assert (len(statistics["queues"]), len(statistics["connections"])) == (100, 2)

    run(main)


@pytest.mark.parametrize(
    "arguments",
    [
        {"limit": 0},
        {"limit": -1},
        {"limit": "1"},
        {"limit": True},
        {"after": '["a"]'},
        {"limit": 1, "after": "a"},
        {"limit": 1, "after": 7},
        {"limit": 1, "after": "[]"},
        {"limit": 1, "after": '["a","b","c"]'},
        {"limit": 1, "after": "[null]"},
        {"limit": 1, "after": "[" * 3000},
        {"limit": 1, "after": "7"},
    ],
    ids=lambda arguments: str(arguments)[:40],
)
@pytest.mark.parametrize("name", LISTS)
def test_an_argument_that_cannot_be_is_refused_and_the_connection_goes_on(
    run: Any, serve: Any, peers: Any, name: str, arguments: dict[str, Any]
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            admin = await opened.open(broker.send_address, "admin", None)
            refused = await ask(admin, name, **arguments)
            assert isinstance(refused, Error)
            assert (refused.code, refused.close) == ("protocol-error", False)
            assert (await ask(admin, name, limit=9))["next"] is None

    run(main)


def test_statistics_without_lists_have_the_brokers_figures(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            admin = await opened.open(broker.send_address, "admin", None)
            assert (await ask(admin, "stats", lists=False)).keys() == {"broker", "storage", "exchanges"}
            everything = {"broker", "storage", "exchanges", "queues", "connections"}
            assert (await ask(admin, "stats", lists=True)).keys() == everything
            refused = await ask(admin, "stats", lists=1)
            assert isinstance(refused, Error)

    run(main)


class OldBroker:
    """What a broker of before answers, whatever arguments it is given."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    async def __call__(self, name: str, _arguments: Any, _seconds: float) -> bytes:
        return json.dumps(self.answers[name]).encode()


def test_a_broker_of_before_that_gives_whole_lists_is_understood(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"name": "a"}, {"name": "b"}]
    stats = {"broker": {}, "storage": None, "queues": rows, "connections": []}

    async def main() -> None:
        administration = Administration("127.0.0.1:1")
        monkeypatch.setattr(administration, "_ask", OldBroker({"queue.list": rows, "stats": stats}))
        assert await administration.queues() == rows
        assert await administration.statistics() == stats

    run(main)


def test_a_broker_whose_pages_lead_nowhere_is_not_asked_for_ever(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        administration = Administration("127.0.0.1:1")
        monkeypatch.setattr(administration, "_ask", OldBroker({"queue.list": {"rows": [], "next": "same"}}))
        with pytest.raises(RemoteProtocolError, match="has no end"):
            await administration.queues()

    run(main)
