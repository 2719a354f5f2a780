"""The stream of events, which never ends by itself: who reads it slowly, who goes, and what the broker's end tells it."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from tests.transport.gateways.http.test_connections import connected, turns_until
from transport.gateways.http import connections, pictures

pytestmark = pytest.mark.event_loop

LOOK = b"GET /api/v1/events?limit=200 HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def events_of(reader: asyncio.StreamReader) -> list[tuple[str, Any]]:
    """What a stream tells from here on until its end."""
    # The lines between are the sizes of chunks.
    told = (await reader.read()).decode()
    found = []
    for block in told.replace("\r\n", "\n").split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "event" in lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


def test_a_stream_has_the_type_that_the_description_says_and_begins_with_a_whole_picture(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            await http.publish("a")
            writer.write(LOOK)
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            assert head.startswith("HTTP/1.1 200 ")
            assert f"Content-Type: {pictures.EVENTS}" in head
            told = await reader.readuntil(b"event: picture")
            assert b"retry: " in told

    run(main)


@pytest.mark.parametrize(
    ("query", "status"),
    [("order=none", 400), ("limit=0", 400), ("limit=201", 400), ("colour=red", 400), ("queue=" + "n" * 3000, 200)],
)
def test_what_a_stream_is_asked_in_vain_is_a_problem_before_it_begins(
    run: Any, api: Any, query: str, status: int
) -> None:
    async def main() -> None:
        async with api() as http, http.session.get(f"/api/v1/events?{query}") as answer:
            assert answer.status == status
            if status != 200:
                assert (await answer.json(content_type=None))["code"] == "protocol-error"

    run(main)


def test_who_reads_a_byte_now_and_then_costs_no_memory_and_is_let_go_in_time(
    run: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.5)
    picture = pictures.event("picture", {"queues": ["q" * 1000] * 1000})

    async def much(_view: Any, _asked: Any, _session: Any) -> Any:
        while True:
            yield picture

    monkeypatch.setattr(pictures, "_changes", much)

    async def main() -> None:
        async with api() as http, connected(http) as (reader, writer):
            writer.write(LOOK)
            await reader.readexactly(1)
            (connection,) = [each for each in http.broker.connections.values() if each.role == "http"]
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            transport = connection.wire._transport
            most = 0

            def gone() -> bool:
                nonlocal most
                most = max(most, transport.get_write_buffer_size())
                return connection.number not in http.broker.connections

            await turns_until(gone)
            # One picture waits to be written, and what the transport takes beside it.
            assert most <= len(picture) + 256 * 1024

    run(main)


def test_who_goes_away_looks_no_more(run: Any, api: Any) -> None:
    async def main() -> None:
        async with api() as http:
            async with connected(http) as (reader, writer):
                writer.write(LOOK)
                await reader.readuntil(b"event: picture")
                (connection,) = [each for each in http.broker.connections.values() if each.role == "http"]
            await turns_until(lambda: connection.number not in http.broker.connections)
            await turns_until(lambda: not http.broker._sampler._looks)
            assert connection.operations is None

    run(main)


def test_open_streams_are_told_of_the_brokers_end_and_end(run: Any, api: Any) -> None:
    async def main() -> None:
        reading = []
        async with api() as http:
            for _ in range(20):
                reader, writer = await asyncio.open_connection(*http.address)
                writer.write(LOOK)
                await reader.readuntil(b"event: picture")
                reading.append((reader, writer))
            ended = asyncio.gather(*(events_of(reader) for reader, _ in reading))
            await http.broker.drain(10)
            for told in await ended:
                assert told[-1][0] == "end"
                assert told[-1][1]["code"] == "shutting-down"
            for _, writer in reading:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()

    run(main)
