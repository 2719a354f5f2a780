"""The picture over HTTP: one of them, or a stream that carries what has changed; who may look, how many, and how it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from transport import Administration
from transport.gateways.http.pictures import changed
from transport.picture.sampler import MOST_LOOKS

pytestmark = pytest.mark.event_loop


async def events(answer: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Any]]:
    """The events of a stream: name and data."""
    name = ""
    async for line in answer.content:
        if line.startswith(b"event: "):
            name = line.removeprefix(b"event: ").strip().decode()
        elif line.startswith(b"data: "):
            yield name, json.loads(line.removeprefix(b"data: "))


def test_one_picture_is_that_of_the_command(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await http.publish("a", "b")
            await http.publish("c", queue="stock")
            status, seen = await http.ask("GET", "/api/v1/picture?order=name&contains=o&limit=1&start=1&queue=orders")
            assert status == 200
            assert [row["name"] for row in seen["queues"]] == ["stock"]
            assert (seen["matching"], seen["totals"]["queues"], seen["totals"]["ready"]) == (2, 2, 3)
            assert seen["flow"]["sentence"] == (
                "queue orders has 2 messages ready, and nobody receives: start a receiver"
            )
            async with Administration(http.broker.send_address) as administration:
                told = await administration.picture("name", "o", limit=1, start=1, queue="orders")
            assert told["queues"] == [seen["queues"][0] | {"oldest_ms": told["queues"][0]["oldest_ms"]}]

    run(main)


@pytest.mark.parametrize("query", ["order=size", "limit=0", "limit=201", "limit=x", "start=-1", "start=1001", "who=me"])
@pytest.mark.parametrize("path", ["picture", "events"])
def test_what_cannot_be_asked_for_is_refused(run: Any, api: Any, path: str, query: str) -> None:
    async def main() -> None:
        async with api() as http:
            status, problem = await http.ask("GET", f"/api/v1/{path}?{query}")
            assert status == 400, problem
            assert http.broker.queues.changes.names is None

    run(main)


def test_a_stream_begins_with_everything_and_carries_what_changes_and_no_more(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await http.publish("a")
            await http.publish("c", queue="stock")
            async with http.session.get("/api/v1/events?order=name") as answer:
                assert answer.headers["Content-Type"].startswith("text/event-stream")
                told = events(answer)
                name, whole = await anext(told)
                assert name == "picture"
                assert [row["name"] for row in whole["queues"]] == ["orders", "stock"]
                assert set(whole["history"]) == {"orders", "stock"}
                await http.publish("b")
                async for name, change in told:
                    assert name == "change"
                    assert "order" not in change
                    rows = change.get("queues", {})
                    if "ready" in rows.get("orders", {}):
                        assert rows["orders"]["ready"] == 2
                        assert "max_messages" not in rows["orders"]
                        assert "ready" not in rows.get("stock", {})
                        break

    run(main)


def test_a_stream_that_is_left_has_nobody_look_any_more(run: Any, api: Any, until: Any) -> None:
    async def main() -> None:
        async with api() as http:
            async with http.session.get("/api/v1/events") as answer:
                await anext(events(answer))
                assert http.broker.queues.changes.names is not None
                answer.close()
            await until(lambda: http.broker.queues.changes.names is None)

    run(main)


def test_a_broker_that_stops_tells_a_hundred_streams_and_ends(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            session = aiohttp.ClientSession(
                f"http://{http.address[0]}:{http.address[1]}", connector=aiohttp.TCPConnector(limit=0)
            )
            async with session:
                answers = [await session.get("/api/v1/events") for _ in range(100)]
                streams = [events(answer) for answer in answers]
                assert {(await anext(stream))[0] for stream in streams} == {"picture"}
                stopping = asyncio.create_task(http.broker.drain(5.0))
                for stream in streams:
                    last = [name async for name, _ in stream][-1]
                    assert last == "end"
                await stopping

    run(main)


def test_so_many_may_look_and_the_next_is_refused_by_name(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            looks = [http.broker._sampler.look() for _ in range(MOST_LOOKS)]
            for path in ("picture", "events"):
                status, problem = await http.ask("GET", f"/api/v1/{path}")
                assert (status, problem["code"]) == (429, "limit-exceeded")
                assert "MOST_LOOKS" in problem["detail"]
            for look in looks:
                look.close()
            assert (await http.ask("GET", "/api/v1/picture"))[0] == 200

    run(main)


def picture(*rows: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {"totals": {"ready": 0}, "matching": len(rows), "flow": None, "journal": None, "queues": list(rows)} | facts


def test_a_change_has_what_is_other_and_the_order_where_that_is() -> None:
    one, two = {"name": "a", "ready": 1, "held": 0}, {"name": "b", "ready": 2, "held": 0}
    assert changed(picture(one, two), picture(one, two)) == {}
    assert changed(picture(one, two), picture(one, two | {"ready": 3})) == {"queues": {"b": {"ready": 3}}}
    assert changed(picture(one, two), picture(two, one)) == {"order": ["b", "a"]}
    assert changed(picture(one), picture(one, two)) == {"matching": 2, "queues": {"b": two}, "order": ["a", "b"]}
    assert changed(picture(one), picture(one, flow={"name": "a"})) == {"flow": {"name": "a"}}
