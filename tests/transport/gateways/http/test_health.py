"""Whether a broker is ready: for everybody to ask, with the reason where it is not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors import StorageError
from transport.broker.readiness import why_unready
from transport.broker.served import Connections
from transport.security.users import Users
from transport.security.users_file import change_users

pytestmark = pytest.mark.event_loop


async def readiness(http: Any, method: str = "GET") -> tuple[int, str, Any]:
    async with http.session.request(method, "/health/ready") as answer:
        return answer.status, answer.content_type, await answer.json() if method == "GET" else await answer.read()


def test_a_broker_that_stands_is_ready(run: Any, api: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with api(directory=str(tmp_path / "data")) as http:
            assert await readiness(http) == (200, "application/json", {"status": "ready"})
            assert await readiness(http, "HEAD") == (200, "application/json", b"")
            assert (await http.ask("POST", "/health/ready", {}))[0] == 405

    run(main)


def test_everybody_may_ask_where_there_are_users(run: Any, api: Any, tmp_path: Path) -> None:
    async def main() -> None:
        change_users(tmp_path / "users.toml", lambda _: Users([]))
        async with api(users_file=str(tmp_path / "users.toml")) as http:
            assert (await readiness(http))[0] == 200
            assert (await http.ask("GET", "/metrics"))[0] == 401

    run(main)


def test_with_a_journal_that_failed_it_is_not_and_says_why(run: Any, api: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with api(directory=str(tmp_path / "data")) as http:
            # As the failure sets it, in the moment before every connection is ended for it.
            http.broker._storage.failure = StorageError("Input/output error")
            status, kind, problem = await readiness(http)
            assert (status, kind, problem["code"]) == (503, "application/problem+json", "journal-failed")
            assert "Input/output error" in problem["detail"]
            http.broker._storage.failure = None
            assert (await readiness(http))[0] == 200

    run(main)


def test_while_it_drains_or_stops_it_is_not_and_says_why(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            # On a connection that stands; a new one would be let in no more.
            assert (await readiness(http))[0] == 200
            http.broker._connections.ending = True
            status, kind, problem = await readiness(http)
            assert (status, kind, problem["code"]) == (503, "application/problem+json", "shutting-down")
            http.broker._connections.ending = False
            # A drain in earnest: nobody new is let in, which says the same.
            assert (await readiness(http))[0] == 200
            await http.broker.drain(5)
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection(*http.address)
            assert why_unready(http.broker._connections, None) is not None

    run(main)


def test_before_it_has_recovered_nobody_can_ask_and_behind_it_there_is_no_reason() -> None:
    connections = Connections(1)
    assert why_unready(connections, None) is None
    connections.ending = True
    assert why_unready(connections, None) == ("shutting-down", "the broker is stopping; connect again later")


def test_a_broker_that_lets_senders_wait_is_ready(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            http.broker.queues.pause_senders("too little memory")
            assert (await readiness(http))[0] == 200

    run(main)
