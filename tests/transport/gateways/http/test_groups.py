"""Groups over HTTP: each take is a receiver of its own, and may hold several of one group."""

from __future__ import annotations

from typing import Any

import pytest

Q = "/api/v1/queues/orders"

pytestmark = pytest.mark.event_loop


def test_a_take_has_several_of_a_group_and_the_next_take_none_before_they_are_settled(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            assert (await http.ask("POST", "/api/v1/queues", {"name": "orders", "groups": True}))[0] == 201
            assert (await http.ask("GET", Q))[1]["groups"] is True
            said = [("ann", "a"), ("ann", "b"), ("bob", "c"), ("ann", "d")]
            sent = [{"payload": payload, "group": group} for group, payload in said]
            assert (await http.ask("POST", f"{Q}/messages", {"messages": sent}))[0] == 201
            first, second = await http.take(messages=2)
            assert (first["payload"], second["payload"], first["headers"]) == ("a", "b", {"group-id": "ann"})
            others = await http.take(messages=5)
            assert [each["payload"] for each in others] == ["c"]
            assert (await http.queue())["passed_over"] == 1
            await http.settle("acknowledge", first["receipt"])
            assert await http.take(messages=5) == []
            await http.settle("return", second["receipt"])
            assert [each["payload"] for each in await http.take(messages=5)] == ["b", "d"]

    run(main)


def test_the_query_says_the_group_of_messages_that_say_none(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await http.ask("POST", "/api/v1/queues", {"name": "orders", "groups": True})
            path = f"{Q}/messages?group=ann"
            assert (await http.ask("POST", path, {"messages": [{"payload": "a"}, {"payload": "b", "group": "bob"}]}))[
                0
            ] == 201
            assert (await http.ask("POST", path, data=b"c"))[0] == 201
            found = await http.take(messages=5)
            assert [(each["payload"], each["headers"]["group-id"]) for each in found] == [
                ("a", "ann"),
                ("b", "bob"),
                ("c", "ann"),
            ]
            for wrong in ("", "g" * 256):
                status, problem = await http.ask("POST", f"{Q}/messages?group={wrong}", data=b"x")
                assert (status, problem["code"]) == (400, "protocol-error")

    run(main)


def test_a_group_that_cannot_be_is_refused(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            status, problem = await http.ask("POST", f"{Q}/messages", {"payload": "x", "group": "g" * 256})
            assert (status, problem["code"]) == (400, "protocol-error")

    run(main)
