"""Priorities over HTTP: who takes a message is told its level."""

from __future__ import annotations

from typing import Any

import pytest

Q = "/api/v1/queues/orders"

pytestmark = pytest.mark.event_loop


def test_a_take_and_a_look_say_a_messages_level_where_the_queue_has_levels(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            assert (await http.ask("POST", "/api/v1/queues", {"name": "orders", "max_priority": 5}))[0] == 201
            said = [("low", 0), ("high", 9), ("middle", 2)]
            sent = [{"payload": payload, "priority": priority} for payload, priority in said]
            assert (await http.ask("POST", f"{Q}/messages", {"messages": sent}))[0] == 201
            looked = (await http.ask("GET", f"{Q}/browse"))[1]["messages"]
            assert [each.get("priority") for each in looked] == [None, 5, 2]
            found = await http.take(messages=3)
            assert [(each["payload"], each.get("priority")) for each in found] == [
                ("high", 5),
                ("middle", 2),
                ("low", None),
            ]

    run(main)
