"""What is received goes to the parser in pieces that share the loop's turns, and where a head begins is known wherever it begins."""

from __future__ import annotations

import asyncio
import io
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tests.transport.conftest import until
from transport.gateways.http import connections, fed
from transport.gateways.http.connections import Wire
from transport.gateways.http.fed import FREE_BYTES, PIECE_BYTES, PIECE_LINES

pytestmark = pytest.mark.event_loop

MESSAGES = "/api/v1/queues/orders/messages"
IN_CHUNKS = f"POST {MESSAGES} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
GET = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
WITH_LENGTH = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\nab\r\n\r\ncd" % MESSAGES.encode()
CHUNKED = IN_CHUNKS + b"5\r\nab\r\nc\r\n3\r\n\r\nd\r\n0\r\n\r\n"
REQUESTS = {"no body": GET, "a length": WITH_LENGTH, "chunks": CHUNKED}


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


def wires(http: Any) -> list[Wire]:
    return [each.wire for each in http.broker.connections.values() if each.role == "http"]


async def answer(reader: asyncio.StreamReader) -> int:
    """The status of one answer, which is read whole."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:-2])
    await reader.readexactly(int(fields.get("content-length", 0)))
    return int(head.split()[1])


class Watched:
    """What is handed to the parser in which turn of the loop.

    Attributes:
        lines: in each turn.
        pieces: the size of each, and its lines.
        kept: the most that waited.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: Counter[int] = Counter()
        self.pieces: list[tuple[int, int]] = []
        self.kept = self._turn = 0
        self._watching = True
        inner = Wire._hand_on

        def hand_on(wire: Wire, piece: bytes) -> None:
            lines = piece.count(b"\r")
            self.lines[self._turn] += lines
            self.pieces.append((len(piece), lines))
            self.kept = max(self.kept, len(wire._waiting) - wire._at)
            inner(wire, piece)

        monkeypatch.setattr(Wire, "_hand_on", hand_on)
        self._next()

    def _next(self) -> None:
        self._turn += 1
        if self._watching:
            asyncio.get_running_loop().call_soon(self._next)

    def stop(self) -> None:
        self._watching = False


def test_strangers_that_send_tiny_chunks_have_no_more_of_a_turn_than_there_is(
    run: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with api() as http:
            watched = Watched(monkeypatch)
            async with (
                connected(http) as one,
                connected(http) as two,
                connected(http) as three,
                connected(http) as four,
            ):
                for _, writer in (one, two, three, four):
                    writer.write(IN_CHUNKS + b"1\r\nx\r\n" * 30_000)
                async with connected(http) as (reader, writer):
                    for _ in range(5):
                        writer.write(GET)
                        assert await answer(reader) == 200
                await until(lambda: sum(watched.lines.values()) > 4 * 60_000)
            watched.stop()
            # Each has one piece as it comes, the first of a turn two, and those in line one or two.
            assert max(watched.lines.values()) <= 10 * PIECE_LINES
            assert max(lines for _, lines in watched.pieces) <= 2 * PIECE_LINES
            assert watched.kept <= 2 * 256 * 1024, "what is received is not read on while it waits"

    run(main)


def test_a_body_of_many_tiny_chunks_comes_whole_and_the_request_behind_it_is_answered(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            payload = b"".join(b"%x," % n for n in range(6000))
            chunks = b"".join(b"1\r\n%c\r\n" % each for each in payload)
            writer.write(IN_CHUNKS + chunks + b"0\r\n\r\n" + WITH_LENGTH + GET)
            assert [await answer(reader) for _ in range(3)] == [201, 201, 200]
            taken = await http.take()
            assert [each["payload"].encode() for each in taken] == [payload, b"ab\r\n\r\ncd"]

    run(main)


def test_a_body_that_says_its_length_goes_on_as_it_comes_and_what_is_behind_it_in_pieces(
    run: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with api() as http:
            watched = Watched(monkeypatch)
            large = b"line\r\n" * 700_000
            async with http.session.post(MESSAGES, data=io.BytesIO(large)) as said:
                assert said.status == 201
            assert max(size for size, _ in watched.pieces) > 4 * PIECE_BYTES
            watched.pieces.clear()
            async with connected(http) as (reader, writer):
                writer.write(WITH_LENGTH[:-1])
                await until(lambda: any(wire._request is not None for wire in wires(http)))
                writer.write(WITH_LENGTH[-1:] + IN_CHUNKS + b"1\r\nx\r\n" * 5000 + b"0\r\n\r\n")
                assert [await answer(reader), await answer(reader)] == [201, 201]
            assert max(lines for _, lines in watched.pieces) <= 2 * PIECE_LINES
            watched.stop()
            assert [len(each["payload"]) for each in await http.take(bytes=16_000_000)] == [len(large), 8, 5000]

    run(main)


def test_one_that_breaks_off_while_pieces_of_it_wait_leaves_nothing(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            async with connected(http) as (_, writer):
                writer.write(IN_CHUNKS + b"1\r\nx\r\n" * 100_000)
                await until(lambda: any(wire.keeps for wire in wires(http)))
                (wire,) = wires(http)
                assert not wire._transport.is_reading(), "nothing more comes while something waits"
                writer.transport.abort()
                await until(lambda: not wires(http))
            assert not wire.keeps
            await until(lambda: not http.broker._host().turns.waiting)
            assert (await http.ask("GET", "/health/live"))[0] == 200

    run(main)


def test_a_broker_that_ends_does_not_wait_for_pieces(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            reader, writer = await asyncio.open_connection(*http.address)
            writer.write(IN_CHUNKS + b"1\r\nx\r\n" * 100_000)
            await until(lambda: any(wire.keeps for wire in wires(http)))
            (wire,) = wires(http)
            await http.broker.drain(0.1)
        assert not wire.keeps
        assert not wires(http)
        with suppress(ConnectionResetError):
            await reader.read()
        writer.transport.abort()

    run(main)


def test_bytes_that_wait_behind_a_handshake_are_refused_as_those_that_were_handed_on(
    run: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A piece takes several turns, so that the handshake is looked at in between.
    monkeypatch.setattr(fed, "LINES_A_UNIT", 0.1)
    head = (
        b"GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: penstock.1\r\n"
    )
    # The first piece ends with the head.
    padding = (
        b"".join(b"X-%d: %s\r\n" % (n, b"a" * 3000) for n in range(3))[: PIECE_BYTES - len(head) - 4] + b"\r\n\r\n"
    )
    assert len(head + padding) == PIECE_BYTES

    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            kept: list[bool] = []
            inner = Wire.begins

            def begins(wire: Wire, request: Any) -> None:
                kept.append(wire.keeps)
                inner(wire, request)

            monkeypatch.setattr(Wire, "begins", begins)
            writer.write(head + padding + b"\x82\x80aaaa" * 1000)
            assert await answer(reader) == 400
            assert kept == [True]

    run(main)


@pytest.mark.parametrize("name", REQUESTS)
def test_half_a_head_behind_a_whole_request_in_one_packet_has_no_more_time_than_any_head(
    run: Any, api: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)

    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            writer.write(GET + REQUESTS[name] + b"GET /hea")
            assert await answer(reader) == 200
            assert await answer(reader) == (200 if name == "no body" else 201)
            async with asyncio.timeout(10):
                assert (await reader.read()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")

    run(main)


def parts(said: bytes) -> Iterator[tuple[bytes, bytes]]:
    for at in range(1, len(said)):
        yield said[:at], said[at:]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_that_is_whole_is_no_head_wherever_its_packets_end_and_half_of_one_behind_it_is(
    run: Any, api: Any, name: str
) -> None:
    said = REQUESTS[name]

    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            await until(lambda: len(wires(http)) == 1)
            (wire,) = wires(http)
            for first, second in parts(said):
                come = wire.bytes_in
                writer.write(first)
                await until(lambda come=come, first=first: wire.bytes_in == come + len(first))
                writer.write(second)
                assert await answer(reader) in (200, 201)
                await until(lambda: wire._request is None)
                assert wire._head is None, (first, second)
                # Half a head, and then the rest of it.
                writer.write(said + GET[:10])
                assert await answer(reader) in (200, 201)
                await until(lambda: wire._request is None and wire._head is not None)
                writer.write(GET[10:])
                assert await answer(reader) == 200
                await until(lambda: wire._request is None)
                assert wire._head is None, (first, second)

    run(main)


@pytest.mark.parametrize("body", [b"abc", b"a\r\n\r\nb", bytes(2 * FREE_BYTES)], ids=["short", "lines", "long"])
def test_a_body_that_comes_behind_its_early_refusal_is_no_head_and_empty_lines_are_none(
    run: Any, api: Any, body: bytes
) -> None:
    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            writer.write(b"POST /nope HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body))
            assert await answer(reader) == 404
            (wire,) = wires(http)
            await until(lambda: wire._request is None)
            come = wire.bytes_in
            writer.write(body[:1])
            await until(lambda: wire.bytes_in == come + 1)
            assert wire._head is None
            writer.write(body[1:] + b"\r\n")
            await until(lambda: wire.bytes_in == come + len(body) + 2)
            writer.write(GET)
            assert await answer(reader) == 200
            await until(lambda: wire._request is None)
            assert wire._head is None
            assert wire._content is None, "a body that is over is kept no longer"

    run(main)


def test_more_requests_than_the_parser_keeps_are_answered_and_leave_no_head_behind(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            writer.write(GET * 100 + WITH_LENGTH)
            assert [await answer(reader) for _ in range(101)] == [200] * 100 + [201]
            (wire,) = wires(http)
            await until(lambda: wire._request is None)
            assert wire._head is None

    run(main)


@pytest.mark.parametrize(
    "rest", [b"zz\r\nabc\r\n", b"3\r\nabcdef\r\n", b"-1\r\na\r\n"], ids=["a size", "an end", "a sign"]
)
def test_a_body_in_which_no_http_comes_is_refused_as_such_and_not_waited_for(
    run: Any, api: Any, caplog: pytest.LogCaptureFixture, rest: bytes
) -> None:
    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            writer.write(IN_CHUNKS + b"2\r\nab\r\n")
            await until(lambda: any(wire._request is not None for wire in wires(http)))
            writer.write(rest + GET)
            assert await answer(reader) == 400
            assert await reader.read() == b"", "nothing behind it is heard"
            assert "orders" not in http.broker.queues
        assert [each for each in caplog.records if each.levelname in ("ERROR", "WARNING")] == []

    run(main)


def test_a_body_that_breaks_off_before_its_request_is_looked_at_is_refused_as_well(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            await http.ask("POST", "/api/v1/queues", {"name": "orders"})
            asked = b'{"wait": 60}'
            writer.write(
                b"POST /api/v1/queues/orders/take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(asked), asked)
            )
            mine = "{}:{}".format(*writer.get_extra_info("sockname"))
            await until(lambda: any(wire.peer == mine and wire._request is not None for wire in wires(http)))
            (wire,) = [wire for wire in wires(http) if wire.peer == mine]
            for piece in (IN_CHUNKS + b"2\r\nab\r\n", b"zz\r\n"):
                come = wire.bytes_in
                writer.write(piece)
                await until(lambda come=come, piece=piece: wire.bytes_in == come + len(piece))
            await http.publish("a")
            assert [await answer(reader), await answer(reader)] == [200, 400]
            assert await reader.read() == b""

    run(main)
