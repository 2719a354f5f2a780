"""docs/operators/tcp.md: how connections end, and what their limits are. Its program runs with those of the other pages."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from streams import Flow, Running, Sink, SinkQueue, Source, SourceQueue, StreamClosedError
from streams.testkit import settle
from tests.streams.pages import DOCS
from transport.errors import ConnectionLostError
from transport.tcp import Binding, IncomingConnection, bind, outgoing_connection

TEXT = (DOCS / "operators" / "tcp.md").read_text("utf-8")
ECHO = Flow[bytes, bytes].identity()
SECONDS = 30.0
"""What a thread may wait on a busy machine."""


async def awaited(connection: IncomingConnection) -> None:
    await connection.handle_with(ECHO)


def server_of(sink: Sink[IncomingConnection, int]) -> tuple[Running[int], Binding]:
    running = bind("127.0.0.1:0").to(sink).run()
    return running, running.value


async def ended(running: Running[Any]) -> Any:
    return (await asyncio.gather(running, return_exceptions=True))[0]


async def talk_over_the_end_of_the_server(sink: Sink[IncomingConnection, int]) -> tuple[bytes | None, bytes | None]:
    """What an echo answers before its server has been cancelled, and after; None for the end."""
    server, binding = server_of(sink)
    flow = outgoing_connection(str(await binding.address()))
    client = Source.queue(8).via(flow).to(Sink.queue(), lambda queue, pulled: (queue, pulled)).run()
    values: tuple[SourceQueue[bytes], SinkQueue[bytes]] = client.value
    queue, pulled = values
    queue.offer(b"before")
    before = await pulled.pull()
    server.cancel()
    assert isinstance(await ended(server), asyncio.CancelledError)
    try:
        queue.offer(b"after")
        after = await pulled.pull()
    except (StreamClosedError, ConnectionLostError):  # the client has learnt of the end before it offers, or by it
        after = None
    queue.complete()
    await ended(client)
    return before, after


def test_a_connection_that_the_server_awaits_ends_with_it() -> None:
    awaiting: Sink[IncomingConnection, int] = Sink.foreach_async(100, awaited)
    assert asyncio.run(talk_over_the_end_of_the_server(awaiting)) == (b"before", None)


def test_a_connection_that_is_only_set_going_outlives_the_server() -> None:
    handles: list[Running[Any]] = []

    async def main() -> tuple[bytes | None, bytes | None]:
        told = await talk_over_the_end_of_the_server(Sink.foreach(lambda c: handles.append(c.handle_with(ECHO))))
        for handle in handles:
            await handle
        return told

    assert asyncio.run(main()) == (b"before", b"after")
    assert len(handles) == 1


def test_connections_beyond_those_that_are_awaited_wait_their_turn() -> None:
    async def main() -> None:
        begun: list[IncomingConnection] = []
        handled = asyncio.Event()

        async def serve(connection: IncomingConnection) -> None:
            begun.append(connection)
            handled.set()
            await connection.handle_with(ECHO)

        server, binding = server_of(Sink.foreach_async(1, serve))
        flow = outgoing_connection(str(await binding.address()))
        first = Source.queue(8).via(flow).to(Sink.collect()).run()
        queue: SourceQueue[bytes] = first.value
        await handled.wait()
        second = Source.single(b"second").via(flow).to(Sink.collect()).run()
        queue.offer(b"first")
        await settle()
        assert len(begun) == 1
        queue.complete()
        assert [await first, await second] == [[b"first"], [b"second"]]
        assert len(begun) == 2
        server.abandon()
        await ended(server)

    asyncio.run(main())


async def outcome_of(flow: Flow[bytes, bytes], peer_does: Callable[[socket.socket], None]) -> Any:
    """How the run of a connection ends whose peer does something in a thread, then resets the connection."""
    handled: asyncio.Future[Running[Any]] = asyncio.get_running_loop().create_future()
    server, binding = server_of(Sink.foreach(lambda connection: handled.set_result(connection.handle_with(flow))))
    address = await binding.address()

    def peer() -> None:
        with socket.create_connection(address) as connected:
            peer_does(connected)
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    await asyncio.to_thread(peer)
    outcome = await ended(await handled)
    server.abandon()
    await ended(server)
    return outcome


def read_one(connected: socket.socket) -> None:
    connected.sendall(b"x")
    assert connected.recv(1)


def endless() -> Flow[bytes, bytes]:
    return ECHO.flat_map_concat(lambda _: Source.repeat(bytes(65536)))


@pytest.mark.parametrize("flow", [ECHO, endless()], ids=["echo", "endless"])
def test_a_break_is_the_failure_of_the_connections_run(flow: Flow[bytes, bytes]) -> None:
    assert isinstance(asyncio.run(outcome_of(flow, read_one)), ConnectionLostError)


@pytest.mark.parametrize("flow", [ECHO, endless()], ids=["echo", "endless"])
def test_the_flow_can_take_a_break_for_the_end_while_it_reads(flow: Flow[bytes, bytes]) -> None:
    assert asyncio.run(outcome_of(flow.on_error_complete(), read_one)) is None


def test_a_break_after_the_peer_has_sent_its_last_is_in_the_handle_only() -> None:
    read_to_the_end = threading.Event()
    flow = ECHO.watch_termination(lambda _: read_to_the_end.set()).buffer(4).via(endless()).on_error_complete()

    def say_all_and_read_one(connected: socket.socket) -> None:
        connected.sendall(b"x")
        connected.shutdown(socket.SHUT_WR)
        assert read_to_the_end.wait(SECONDS)
        assert connected.recv(1)

    assert isinstance(asyncio.run(outcome_of(flow, say_all_and_read_one)), ConnectionLostError)


@pytest.mark.parametrize(
    "joining", [ECHO.grouped_weighted(65536, len), ECHO.grouped_within(1000, 0.01)], ids=["weighted", "within"]
)
def test_tiny_elements_can_be_joined(joining: Flow[bytes, list[bytes]]) -> None:
    tiny = [b"%d " % n for n in range(1000)]
    assert Source.from_iterable(tiny).via(joining).map(b"".join).to(Sink.collect()).run_blocking() == [b"".join(tiny)]


def test_the_limits_of_the_page_are_those_in_force() -> None:
    rows = re.findall(r"^\| `(connections|flow)\.([A-Z_]+)` \| ([\d.]+) \|", TEXT, re.MULTILINE)
    assert len(rows) == 5
    for module, name, number in rows:
        assert repr(getattr(import_module(f"transport.tcp.{module}"), name)) == number, name
