"""Connections of HTTP: heads and bodies that come slowly or are too large, peers that do not read, and the broker's end."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from transport.clients.sender_batches import MAX_BATCH_BYTES
from transport.gateways.http import connections, requests

Q = "/api/v1/queues/orders"

pytestmark = pytest.mark.event_loop


@asynccontextmanager
async def connected(http: Any) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that says what it likes; cut off in the end."""
    reader, writer = await asyncio.open_connection(*http.address)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def turns_until(held: Callable[[], bool]) -> None:
    """Let the loop go on until it is so; the broker is on the same."""
    async with asyncio.timeout(30):
        for _ in iter(held, True):
            await asyncio.sleep(0)


async def whole(reader: asyncio.StreamReader) -> bytes:
    """What comes until the end."""
    async with asyncio.timeout(30):
        return await reader.read()


@pytest.mark.parametrize("said", [b"", b"GET /api", b"GET /api/v1/whoami HTTP/1.1\r\nHost: x\r\nX: "])
def test_a_head_that_is_not_there_in_time_ends_its_connection(
    run: Any, api: Any, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.05)

    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            writer.write(said)
            assert (await whole(reader)).startswith(b"HTTP/1.1 408 Request Timeout\r\n")

    run(main)


def test_a_connection_that_waits_between_requests_is_no_slow_head(
    run: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            request = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
            writer.write(request)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            (connection,) = [each for each in http.broker.connections.values() if each.role == "http"]
            await turns_until(lambda: connection.wire._request is None)
            assert connection.wire._head is None

    run(main)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"a" * 100_000),
        b"GET / HTTP/1.1\r\nHost: x\r\n%s\r\n" % (b"X: %s\r\n" % (b"a" * 100_000)),
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: aaaaaaaaaaaaaaaa\r\n" % n for n in range(20_000)) + b"\r\n",
        b"no HTTP at all\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    ],
    ids=["path", "header", "headers", "nothing", "tls"],
)
def test_a_head_that_is_too_large_or_none_is_refused_and_the_broker_lives(run: Any, api: Any, head: bytes) -> None:
    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            writer.write(head)
            # What was not read any more makes a reset of the end, which may overtake the answer.
            with suppress(ConnectionResetError):
                assert b" 400 " in (await whole(reader)).splitlines()[0]
            assert (await http.ask("GET", "/health/live"))[0] == 200

    run(main)


@pytest.mark.parametrize(
    "head",
    [b"no HTTP at all\r\n\r\n", b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    ids=["no HTTP", "no route"],
)
def test_every_refusal_has_the_headers_and_the_form_of_all_answers_and_nothing_is_logged(
    run: Any, api: Any, caplog: pytest.LogCaptureFixture, head: bytes
) -> None:
    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            writer.write(head)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert b"Server: penstock\r\n" in answer
            assert b"X-Content-Type-Options: nosniff\r\n" in answer
            assert b"application/problem+json" in answer
        assert [each for each in caplog.records if each.levelname in ("ERROR", "WARNING")] == []

    run(main)


def test_a_client_that_waits_to_be_told_to_send_its_body_is_told_so(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            head = b"POST %s/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nExpect: %s\r\n\r\n"
            async with connected(http) as (reader, writer):
                writer.write(head % (Q.encode(), b"100-continue"))
                assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
                writer.write(b"a")
                assert (await reader.readline()).startswith(b"HTTP/1.1 201 ")
            async with connected(http) as (reader, writer):
                writer.write(head % (Q.encode(), b"more"))
                assert (await reader.readline()).startswith(b"HTTP/1.1 417 ")

    run(main)


def test_all_bodies_together_are_bounded_and_what_was_taken_for_an_answer_that_found_no_room_comes_again(
    run: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with api() as http:
            large = b"a" * 300_000
            async with http.session.post(f"{Q}/messages", data=large) as answer:
                assert answer.status == 201
            gateway = http.listener._gateway
            monkeypatch.setattr(gateway._held, "most", 200_000)
            async with http.session.post(f"{Q}/messages", data=large) as answer:
                assert (answer.status, (await answer.json(content_type=None))["code"]) == (429, "limit-exceeded")
            status, problem = await http.ask("POST", f"{Q}/take", {})
            assert (status, problem["code"]) == (429, "limit-exceeded")
            assert await http.publish("small") == [1]
            assert gateway._held.bytes == 0
            monkeypatch.setattr(gateway._held, "most", 10_000_000)
            assert [(each["payload"][:1], each["deliveries"]) for each in await http.take()] == [("a", 1), ("s", 1)]

    run(main)


def test_a_body_that_is_announced_too_large_is_refused_before_it_comes(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            size = requests.MAX_BODY_BYTES + 1
            writer.write(
                b"POST %s/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (Q.encode(), size)
            )
            assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")

    run(main)


def test_a_body_in_chunks_is_refused_where_it_becomes_too_large(
    run: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MAX_BODY_BYTES", 100_000)

    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            writer.write(
                b"POST %s/messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" % Q.encode()
            )
            for _ in range(3):
                writer.write(b"%x\r\n%s\r\n" % (50_000, bytes(50_000)))
            assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
            assert "orders" not in http.broker.queues

    run(main)


def test_the_largest_body_is_stored(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            payload = bytes(MAX_BATCH_BYTES - 4096)
            async with http.session.post(f"{Q}/messages", data=io.BytesIO(payload)) as answer:
                assert answer.status == 201, await answer.text()
            async with http.session.post(f"{Q}/take", headers={"Accept": "application/octet-stream"}) as answer:
                assert await answer.read() == payload

    run(main)


def test_a_body_that_comes_too_slowly_is_not_waited_for(run: Any, api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "BODY_SECONDS", 0.05)

    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            writer.write(
                b"POST %s/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf" % Q.encode()
            )
            assert (await reader.readline()) == b"HTTP/1.1 408 Request Timeout\r\n"

    run(main)


def test_what_comes_behind_a_request_that_is_being_answered_is_bounded(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            await http.ask("POST", "/api/v1/queues", {"name": "orders"})
            body = b'{"wait": 60}'
            writer.write(
                b"POST %s/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                % (Q.encode(), len(body), body)
            )
            while not (await http.queue())["demand_waiting"]:
                pass
            writer.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5000)
            with suppress(ConnectionResetError):
                assert b"200 OK" not in await whole(reader)
            while (await http.queue())["demand_waiting"]:
                pass

    run(main)


def test_requests_that_follow_one_another_on_a_connection_are_answered_in_order(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            one = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
            last = b"GET /api/v1/whoami HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            writer.write(one % b"/health/live" + one % b"/nowhere" + last)
            answers = await whole(reader)
            assert re.findall(rb"HTTP/1\.1 (\d+)", answers) == [b"200", b"404", b"200"]

    run(main)


def test_a_peer_that_reads_nothing_is_let_go_and_what_it_took_comes_again(
    run: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.2)

    async def main() -> None:
        async with api() as http:
            async with http.session.post(f"{Q}/messages", data=io.BytesIO(bytes(12 * 1024 * 1024))) as answer:
                assert answer.status == 201
            async with connected(http) as (_, writer):
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                body = b'{"bytes": 16000000}'
                writer.write(
                    b"POST %s/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                    % (Q.encode(), len(body), body)
                )
                await turns_until(
                    lambda: any(each.role == "http" and each.wire._unread for each in http.broker.connections.values())
                )
                (again,) = await http.take(wait=30, bytes=16_000_000)
                assert (again["deliveries"], again["possibly_replayed"]) == (1, False)
                assert (await http.queue())["total_out"] == 1

    run(main)


def test_connections_count_in_what_the_broker_may_have(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api(max_connections=2) as http, connected(http) as first, connected(http) as second:
            for reader, writer in (first, second):
                writer.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            async with connected(http) as (third, _):
                assert (await whole(third)).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")

    run(main)


def test_an_idle_connection_to_a_broker_that_leads_no_more_is_told_so_as_every_error_is_told(
    run: Any, api: Any
) -> None:
    """A client that asks just then takes it for its answer."""

    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            writer.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            assert json.loads(await reader.readuntil(b"}"))
            (idle,) = http.broker.connections.values()
            idle.not_leading("its leader is at b:9180", "b:9180")
            head, _, body = (await whole(reader)).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert {b"Retry-After: 1", b"Content-Type: application/problem+json", b"Connection: close"} <= set(
                head.split(b"\r\n")
            )
            problem = json.loads(body)
            assert problem["detail"] == "its leader is at b:9180"
            assert (problem["code"], problem["status"], problem["leader"]) == ("not-leader", 503, ["b:9180"])

    run(main)


def test_a_broker_that_drains_answers_what_is_asked_and_ends_idle_connections(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http, connected(http) as (idle, _):
            await http.publish("a")
            await http.take()
            waiting = asyncio.create_task(http.ask("POST", f"{Q}/take", {"wait": 60}))
            while not (await http.queue())["demand_waiting"]:
                pass
            draining = asyncio.create_task(http.broker.drain(10))
            status, problem = await waiting
            assert (status, problem["code"]) == (503, "shutting-down")
            assert await whole(idle) == b""
            await draining

    run(main)
