"""What a client can do to the API with a socket of its own: odd HTTP, odd JSON, connections that end half-way. It is refused in one answer,
and the broker lives on.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from contextlib import suppress
from typing import Any

import pytest

from tests.transport.gateways.http.test_connections import connected, turns_until, whole
from transport.gateways.http import requests

Q = "/api/v1/queues/orders"
MIB = 1024 * 1024

pytestmark = pytest.mark.event_loop


def request(line: str = f"POST {Q}/messages HTTP/1.1", *headers: str, body: bytes = b"") -> bytes:
    """A request with the headers that are said and no others; a Host among them unless they have one."""
    said = list(headers)
    if not any(each.lower().startswith("host:") for each in said):
        said.insert(0, "Host: localhost")
    return "\r\n".join([line, *said, "", ""]).encode("latin-1") + body


async def answered(http: Any, *pieces: bytes, half: bool = False) -> bytes:
    """All that comes to who says this, and then closes its half of the connection if it is told to."""
    async with connected(http) as (reader, writer):
        with suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if half:
                writer.write_eof()
        try:
            return await whole(reader)
        except ConnectionResetError:
            return b""


def statuses(answer: bytes) -> list[int]:
    return [int(each) for each in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answer)]


async def lives(http: Any) -> None:
    assert (await http.ask("GET", "/health/live"))[0] == 200


CLOSE = "Connection: close"
CHUNKED = "Transfer-Encoding: chunked"
SMUGGLED = f"GET {Q} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


@pytest.mark.parametrize(
    "said",
    [
        request(f"POST {Q}/messages HTTP/1.1", CHUNKED, "Content-Length: 4", body=b"1\r\na\r\n0\r\n\r\n" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", "Content-Length: 4", CHUNKED, body=b"0\r\n\r\n" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", "Content-Length: 1", "Content-Length: 2", body=b"ab" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", "Content-Length: 1, 2", body=b"ab" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", "Content-Length: +1", body=b"a" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", "Content-Length: -1", body=b"a" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", "Content-Length: 0x1", body=b"a" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", "Content-Length: 1_0", body=b"a" * 10 + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", f"Content-Length: {'9' * 40}", body=b"a" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", "Content-Length : 1", body=b"a" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", "Transfer-Encoding: xchunked", body=b"0\r\n\r\n" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", "Transfer-Encoding: chunked, identity", body=b"0\r\n\r\n" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", CHUNKED, CHUNKED, body=b"0\r\n\r\n" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", "Transfer-Encoding:\x0bchunked", body=b"0\r\n\r\n" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", CHUNKED, body=b"g\r\na\r\n0\r\n\r\n" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", CHUNKED, body=b"-1\r\na\r\n0\r\n\r\n" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", CHUNKED, body=b"0x1\r\na\r\n0\r\n\r\n" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", CHUNKED, body=b"1\r\nabc\r\n0\r\n\r\n" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", CHUNKED, body=b"ffffffffffffffffff\r\na\r\n0\r\n\r\n" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", CHUNKED, body=b"1\na\n0\n\n" + SMUGGLED),
        request(f"POST {Q}/messages HTTP/1.1", "X: a\r\n folded", "Content-Length: 0"),
        request(f"POST {Q}/messages HTTP/1.1", "X: a\0b", "Content-Length: 0"),
        request(f"POST {Q}/messages HTTP/1.1", "X\0: a", "Content-Length: 0"),
        request(f"POST {Q}/messages HTTP/1.1", "X: a\rb", "Content-Length: 0"),
        request(f"POST {Q}/messages HTTP/1.1", "Host: localhost", "Host: evil.example", "Content-Length: 0"),
        request(f"POST {Q}/\0messages HTTP/1.1", "Content-Length: 0"),
        request(f"POST {Q}/messages HTTP/2.0", "Content-Length: 0"),
        request(f"POST {Q}/messages HTTP/1.1 more", "Content-Length: 0"),
        request(f"POST {Q}/messages HTTP/9.9", "Content-Length: 0"),
        request(f"POST {Q}/messages", "Content-Length: 0"),
    ],
    ids=range(30),
)
def test_what_another_server_may_read_otherwise_is_refused_and_nothing_behind_it_is_heard(
    run: Any, api: Any, said: bytes
) -> None:
    async def main() -> None:
        async with api() as http:
            got = statuses(await answered(http, said, half=True))
            # At most one answer: what follows may be the body of the one before.
            assert len(got) <= 1
            assert all(400 <= each < 500 for each in got), got
            assert "orders" not in http.broker.queues
            await lives(http)

    run(main)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET http://localhost/health/live HTTP/1.1", 200),
        ("GET http://evil.example/health/live HTTP/1.1", None),
        ("GET https://localhost:1/health/live HTTP/1.1", 200),
        ("GET //localhost/health/live HTTP/1.1", 404),
        ("GET /health/../health/live HTTP/1.1", 404),
        ("GET /health/%6cive HTTP/1.1", 200),
        ("GET /health%2flive HTTP/1.1", 404),
        ("GET /health/live/ HTTP/1.1", 404),
        ("GET /health/live?a=%zz&b=%&=&&a=1 HTTP/1.1", 200),
        ("GET /health/live#part HTTP/1.1", 200),
        ("OPTIONS * HTTP/1.1", 404),
        ("CONNECT localhost:80 HTTP/1.1", None),
        ("TRACE /health/live HTTP/1.1", 405),
        ("GET /api/v1/queues/%00 HTTP/1.1", 400),
        ("GET /api/v1/queues/%0d%0aX:%20a HTTP/1.1", 400),
        ("GET /api/v1/queues/%ed%a0%80 HTTP/1.1", 400),
        ("GET /api/v1/queues/%c0%af HTTP/1.1", 400),
        ("GET /api/v1/queues/%zz HTTP/1.1", 404),
        ("GET /api/v1/queues/a%252fb HTTP/1.1", 404),
        ("GET /api/v1/queues/%E2%80%AEabc HTTP/1.1", 400),
        ("GET /api/v1/queues/" + "a" * 255 + " HTTP/1.1", 404),
        ("GET /api/v1/queues/" + "a" * 256 + " HTTP/1.1", 400),
        ("GET /api/v1/queues/" + "%c3%a9" * 128 + " HTTP/1.1", 400),
        ("GET /api/v1/queues/\xff HTTP/1.1", None),
    ],
)
def test_a_target_is_what_it_says_and_no_other(run: Any, api: Any, line: str, status: int | None) -> None:
    async def main() -> None:
        async with api() as http:
            (got,) = statuses(await answered(http, request(line, CLOSE)))
            assert got == status or (status is None and 400 <= got < 500)
            await lives(http)

    run(main)


@pytest.mark.parametrize("method", ["DELETE", "GET", "PATCH"])
@pytest.mark.parametrize(
    "place", ["queues/{}", "queues/{}/purge", "queues/{}/take", "transactions/{}/1", "subscriptions/q/{}"]
)
def test_a_name_of_3000_characters_is_refused_and_neither_told_nor_logged_whole(
    run: Any, api: Any, caplog: pytest.LogCaptureFixture, method: str, place: str
) -> None:
    async def main() -> None:
        async with api() as http:
            for sent in (method, "POST"):
                path = f"/api/v1/{place.format('n' * 3000)}"
                status, problem = await http.ask(sent, path, {})
                assert status in (400, 404, 405), path
                assert len(json.dumps(problem)) < 1000
            assert http.broker.queues == [] or list(http.broker.queues) == []

    with caplog.at_level(logging.DEBUG):
        run(main)
    assert [each for each in caplog.messages if "n" * 300 in each] == []


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"[" * 100_000, "no JSON"),
        (b'{"payload":' * 20_000, "no JSON"),
        (b'{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}", None),
        (b'{"wait": ' + b"9" * 5000 + b"}", "no JSON"),
        (b'{"wait": 1e999}', "no"),
        (b'{"wait": NaN}', "NaN is no number of JSON"),
        (b'{"wait": -Infinity}', "no number of JSON"),
        (b'{"messages": 1e0}', "not a whole number"),
        (b'{"messages": 18446744073709551617}', "not a whole number"),
        (b'{"messages": 1, "messages": 2}', "'messages' is there twice"),
        (b'{"\xff": 1}', "no JSON"),
        (b'{"\\ud800": 1}', "is no field"),
        (b'{"wait": "\\ud800"}', "is no duration"),
        (b"\xef\xbb\xbf{}", "no JSON"),
        (b'{"wait": 0} {}', "no JSON"),
        (b"\0", "no JSON"),
        (b"null", "no JSON object"),
        (b'"text"', "no JSON object"),
        (b"1", "no JSON object"),
    ],
    ids=range(19),
)
def test_json_that_is_none_or_too_much_is_one_problem(run: Any, api: Any, body: bytes, told: str | None) -> None:
    async def main() -> None:
        async with api() as http:
            await http.publish("a")
            for path in (f"{Q}/take", f"{Q}/messages", "/api/v1/queues"):
                headers = {"Content-Type": "application/json"}
                async with http.session.post(path, data=body, headers=headers) as answer:
                    problem = json.loads(await answer.read())
                    assert (answer.status, problem["code"]) == (400, "protocol-error"), problem
                    if told is not None and path == f"{Q}/take":
                        assert told in problem["detail"]
                    assert len(problem["detail"]) < 1000
            assert (await http.queue())["stored_messages"] == 1

    run(main)


@pytest.mark.parametrize("field", ["payload", "key"])
def test_half_a_character_is_no_text_of_a_message(run: Any, api: Any, field: str) -> None:
    async def main() -> None:
        async with api() as http:
            body = json.dumps({"payload": "a", "headers": {"b": "c"}} | {field: "\ud83d"}).encode()
            headers = {"Content-Type": "application/json"}
            async with http.session.post(f"{Q}/messages", data=body, headers=headers) as answer:
                assert answer.status == 400
                assert "half a character" in (await answer.json(content_type=None))["detail"]
            assert await http.ask("POST", f"{Q}/messages", {"payload": "\U0001f600"}) == (201, {"numbers": [0]})
            assert (await http.take())[0]["payload"] == "\U0001f600"

    run(main)


def test_a_name_or_a_setting_with_half_a_character_is_refused(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            headers = {"Content-Type": "application/json"}
            for body in (
                {"name": "\ud800"},
                {"name": "a", "max_receives": 1, "dead_letter_queue": "\ud800"},
                {"name": "a", "overflow": "\ud800"},
                {"name": "a", "\ud800": 1},
            ):
                data = json.dumps(body).encode()
                async with http.session.post("/api/v1/queues", data=data, headers=headers) as answer:
                    assert answer.status == 400, await answer.text()
            await lives(http)

    run(main)


@pytest.mark.parametrize("chunked", [False, True], ids=["by its length", "in chunks"])
def test_a_body_of_16_mib_and_a_byte_is_refused_and_none_of_it_is_kept(run: Any, api: Any, chunked: bool) -> None:
    async def main() -> None:
        async with api() as http:
            if chunked:
                pieces = [request(f"POST {Q}/messages HTTP/1.1", CHUNKED)]
                pieces += [b"%x\r\n%s\r\n" % (MIB, bytes(MIB))] * 16 + [b"1\r\na\r\n0\r\n\r\n"]
            else:
                pieces = [request(f"POST {Q}/messages HTTP/1.1", f"Content-Length: {16 * MIB + 1}")]
                pieces += [bytes(MIB)] * 16 + [b"a"]
            got = await answered(http, *pieces)
            # Where it was reset while it still sent, the answer may have been overtaken.
            assert statuses(got) in ([413], [])
            assert http.listener._gateway._held.bytes == 0
            assert "orders" not in http.broker.queues
            await lives(http)

    run(main)


def test_a_body_that_has_no_messages_is_bounded_by_what_its_fields_can_need(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await http.publish("a")
            (taken,) = await http.take()
            status, answer = await http.settle("acknowledge", *[f"{taken['receipt'][:-4]}{n:04}" for n in range(1000)])
            assert (status, answer["settled"]) == (200, 0)
            large = {"receipts": ["x" * requests.MAX_FIELDS_BYTES]}
            status, problem = await http.ask("POST", f"{Q}/acknowledge", large)
            assert (status, problem["code"]) == (413, "frame-too-large")

    run(main)


def test_100_mb_of_headers_are_neither_kept_nor_read_to_their_end(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            line = b"".join(b"X-%d: %s\r\n" % (number, b"a" * 1000) for number in range(1000))
            await turns_until(lambda: any(each.role == "http" for each in http.broker.connections.values()))
            (connection,) = [each for each in http.broker.connections.values() if each.role == "http"]
            sent = 0
            with suppress(ConnectionError):
                for _ in range(100):
                    writer.write(line)
                    sent += len(line)
                    await writer.drain()
            with suppress(ConnectionError):
                assert statuses(await whole(reader)) in ([400], [])
            # uvloop reads a socket up to 32 times in a turn.
            assert connection.wire.bytes_in < 16 * MIB
            await lives(http)

    run(main)


def test_requests_without_end_are_answered_one_after_another_and_no_more_of_them_is_kept(
    run: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            one = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
            asked = 0

            async def ask() -> None:
                nonlocal asked
                while True:
                    writer.write(one * 100)
                    asked += 100
                    await writer.drain()

            asking = asyncio.create_task(ask())
            got = 0
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                for _ in range(3000):
                    assert (await reader.readuntil(b"\r\n\r\n")).startswith((b"HTTP/1.1 200", b"HTTP/1.1 503"))
                    await reader.readexactly(len(b'{"status":"alive"}'))
                    got += 1
            asking.cancel()
            with suppress(asyncio.CancelledError, ConnectionError):
                await asking
            assert got > 0
            await lives(http)

    run(main)


def test_a_client_that_has_said_all_and_reads_on_gets_its_answer_and_the_end(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            body = b'{"payload": "tea"}'
            said = request(
                f"POST {Q}/messages HTTP/1.1",
                "Content-Type: application/json",
                f"Content-Length: {len(body)}",
                body=body,
            )
            assert statuses(await answered(http, said, half=True)) in ([201], [])
            await lives(http)

    run(main)


def test_a_client_that_closes_its_half_while_it_waits_has_taken_nothing_or_all(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            await http.ask("POST", "/api/v1/queues", {"name": "orders"})
            body = b'{"wait": 60}'
            said = request(
                f"POST {Q}/take HTTP/1.1", "Content-Type: application/json", f"Content-Length: {len(body)}", body=body
            )
            async with connected(http) as (reader, writer):
                writer.write(said)
                while not (await http.queue())["demand_waiting"]:
                    pass
                writer.write_eof()
                await http.publish("a")
                got = await whole(reader)
            row = await http.queue()
            if got:
                assert statuses(got) == [200]
                assert (row["in_flight"], row["total_out"]) == (1, 1)
            else:
                assert (row["ready"], row["in_flight"], row["total_out"]) == (1, 0, 0)

    run(main)


@pytest.mark.parametrize("body", [b"", b"hal"])
def test_a_body_that_ends_half_way_stores_nothing(run: Any, api: Any, body: bytes) -> None:
    async def main() -> None:
        async with api() as http:
            for said in (
                request(f"POST {Q}/messages HTTP/1.1", "Content-Length: 4", body=body),
                request(f"POST {Q}/messages HTTP/1.1", CHUNKED, body=b"4\r\n" + body),
            ):
                assert statuses(await answered(http, said, half=True)) in ([], [400])
            assert "orders" not in http.broker.queues
            await lives(http)

    run(main)


def test_http_1_0_is_answered_and_the_connection_ends_unless_it_is_to_stay(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            assert statuses(await answered(http, request("GET /health/live HTTP/1.0"))) == [200]
            async with connected(http) as (reader, writer):
                for _ in range(2):
                    writer.write(request("GET /health/live HTTP/1.0", "Connection: keep-alive"))
                    head = await reader.readuntil(b"\r\n\r\n")
                    assert head.split()[1] == b"200"
                    assert await reader.readexactly(18) == b'{"status":"alive"}'
            # Without a Host nobody knows whose name was asked for.
            assert statuses(await answered(http, b"GET /api/v1/whoami HTTP/1.0\r\n\r\n")) == [421]

    run(main)


def test_what_comes_for_head_has_no_body(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            for path in (
                "/health/live",
                "/api/v1/queues",
                "/nowhere",
                "/api/v1/openapi.json",
                "/api/v1/picture",
                "/api/v1/events",
            ):
                got = await answered(http, request(f"HEAD {path} HTTP/1.1", CLOSE))
                assert statuses(got) == [404 if path == "/nowhere" else 200]
                assert got.endswith(b"\r\n\r\n"), path

    run(main)
