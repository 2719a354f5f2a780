"""Schedules over HTTP: each route does what its command does, and metrics count what comes of them."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.event_loop

PATH = "/api/v1/schedules/daily"
SAID = {"expression": "0 8 * * *", "zone": "Europe/Berlin", "queue": "reports", "missed": "once", "ttl_ms": 5_000}


def test_schedules_are_declared_shown_paused_and_deleted(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            content = {"payload_base64": "dGljaw==", "headers": {"kind": "report"}, "key": "k"}
            status, made = await http.ask("PUT", PATH, SAID | content)
            assert (status, made.pop("changed")) == (201, True)
            assert (
                made.items() >= (SAID | {"name": "daily", "key": "k", "payload_bytes": 4, "state": "scheduled"}).items()
            )
            assert (await http.ask("PUT", PATH, SAID | content))[0] == 200
            as_text = {name: value for name, value in content.items() if name != "payload_base64"} | {"payload": "tick"}
            assert (await http.ask("PUT", PATH, SAID | as_text))[0] == 200
            shown = (await http.ask("GET", PATH))[1]
            assert (shown["payload"], "payload_base64" in shown) == ("tick", False)
            status, problem = await http.ask("PUT", PATH, SAID)
            assert (status, problem["code"]) == (409, "already-exists")
            assert (await http.ask("PUT", PATH, SAID | {"replace": True}))[0] == 201
            assert await http.ask("GET", PATH) == (
                200,
                made | {"payload_bytes": 0, "key": "", "payload": "", "headers": {}},
            )
            status, page = await http.ask("GET", "/api/v1/schedules?limit=1")
            assert (status, page["next"], [row["name"] for row in page["rows"]]) == (200, None, ["daily"])
            for act, changes in (("pause", True), ("pause", False), ("resume", True), ("resume", False)):
                answer = await http.ask("POST", f"{PATH}/{act}")
                assert answer == (200, {"name": "daily", "changed": changes})
            assert await http.ask("DELETE", PATH) == (200, {"name": "daily"})
            for method, path in (
                ("GET", PATH),
                ("DELETE", PATH),
                ("POST", f"{PATH}/pause"),
                ("POST", f"{PATH}/resume"),
            ):
                status, problem = await http.ask(method, path)
                assert (status, problem["code"]) == (404, "not-found"), path

    run(main)


def test_a_schedule_says_a_priority_and_a_time_to_live_of_nothing(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            status, made = await http.ask("PUT", PATH, SAID | {"ttl_ms": 0, "priority": 9})
            assert (status, made["ttl_ms"], made["priority"]) == (201, 0, 9)
            status, problem = await http.ask("PUT", PATH, SAID | {"priority": 256, "replace": True})
            assert (status, problem["code"]) == (400, "protocol-error")

    run(main)


def test_a_payload_that_is_no_text_is_said_and_shown_in_base64(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            made = (await http.ask("PUT", PATH, SAID | {"payload_base64": "//4="}))[1]
            assert made["payload_bytes"] == 2
            shown = (await http.ask("GET", PATH))[1]
            assert (shown["payload_base64"], "payload" in shown) == ("//4=", False)

    run(main)


@pytest.mark.parametrize(
    ("said", "status", "code"),
    [
        ({"expression": "nonsense"}, 400, "protocol-error"),
        ({"headers": {"a": 1}}, 400, "protocol-error"),
        ({"headers": "x"}, 400, "protocol-error"),
        ({"payload_base64": "x"}, 400, "protocol-error"),
        ({"payload": "x", "payload_base64": "eA=="}, 400, "protocol-error"),
        ({"payload": ["x"]}, 400, "protocol-error"),
        ({"unknown": 1}, 400, "protocol-error"),
        ({"queue": None, "exchange": "nope"}, 404, "not-found"),
        ({"payload": "AAAA" * 1_000}, 429, "limit-exceeded"),
        ({"queue": "a b"}, 400, "invalid-name"),
    ],
)
def test_what_cannot_be_is_a_problem(run: Any, api: Any, said: dict[str, Any], status: int, code: str) -> None:
    async def main() -> None:
        async with api() as http:
            found, problem = await http.ask("PUT", PATH, SAID | said)
            assert (found, problem["code"]) == (status, code)
            assert (await http.ask("GET", "/api/v1/schedules"))[1]["rows"] == []

    run(main)
