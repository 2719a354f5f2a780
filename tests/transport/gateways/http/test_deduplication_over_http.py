"""Deduplication over HTTP: a request that is sent again stores nothing twice, and says which of its messages are duplicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

ORDERS = "/api/v1/queues/orders/messages"


@pytest.mark.parametrize("journal", [True, False])
def test_a_request_that_is_sent_again_is_answered_and_stores_nothing(
    run: Any, api: Callable[..., Any], tmp_path: Any, journal: bool
) -> None:
    async def main() -> None:
        async with api(deduplication_window=60.0, **({"directory": tmp_path / "d"} if journal else {})) as http:
            said = [
                {"payload": "a", "deduplication_id": "1"},
                {"payload": "b"},
                {"payload": "c", "deduplication_id": "2"},
            ]
            assert await http.ask("POST", ORDERS, {"messages": said}) == (201, {"numbers": [0, 1, 2]})
            again = [*said, {"payload": "d", "deduplication_id": "3"}]
            assert await http.ask("POST", ORDERS, {"messages": again}) == (201, {"numbers": [None, 3, None, 4]})
            for number in (5, None):
                status, answer = await http.ask(
                    "POST", f"{ORDERS}?deduplication_id=9", data=b"e", headers={"Content-Type": "text/plain"}
                )
                assert (status, answer) == (201, {"numbers": [number]})
            taken = await http.take()
            assert [each["payload"] for each in taken] == ["a", "b", "c", "b", "d", "e"]
            assert taken[0]["headers"] == {"x-deduplication-header": "1"}
            row = await http.queue()
            assert (row["total_deduplicated"], row["deduplication_ids"]) == (3, 4)

    run(main)


def test_an_id_that_cannot_be_is_refused_before_anything_is_stored(run: Any, api: Callable[..., Any]) -> None:
    async def main() -> None:
        async with api(deduplication_window=60.0) as http:
            for wrong in ("", "x" * 1025, 7):
                body = {"messages": [{"payload": "a"}, {"payload": "b", "deduplication_id": wrong}]}
                status, answer = await http.ask("POST", ORDERS, body)
                assert (status, answer["code"]) == (400, "protocol-error")
                assert "deduplication" in answer["detail"]
            assert (await http.ask("GET", "/api/v1/queues/orders"))[0] == 404

    run(main)


def test_a_queue_with_as_many_ids_as_it_may_answers_as_a_full_one(run: Any, api: Callable[..., Any]) -> None:
    async def main() -> None:
        async with api(deduplication_window=3600.0, max_deduplication_ids=2) as http:
            said = [{"payload": "a", "deduplication_id": "1"}, {"payload": "b", "deduplication_id": "2"}]
            assert (await http.ask("POST", ORDERS, {"messages": said}))[0] == 201
            async with http.session.post(ORDERS, json={"payload": "c", "deduplication_id": "3"}) as answer:
                assert answer.status == 503
                assert "Retry-After" in answer.headers
                assert "remembers as many ids as it may (2 of 2)" in (await answer.json())["detail"]

    run(main)
