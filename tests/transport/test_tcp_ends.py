"""How TCP streams end where one side has gone, is broken, or never was there."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from streams import Flow, Materialization, Publisher, Running, Sink, Source, StreamClosedError, Subscriber, Subscription
from transport.errors import ConnectionLostError
from transport.tcp import Binding, IncomingConnection, bind, outgoing_connection
from transport.tcp import flow as tcp_flow
from transport.tcp.flow import TcpWriter

pytestmark = pytest.mark.event_loop

IDENTITY = Flow[bytes, bytes].identity()
FREE_PORT = "127.0.0.1:0"
LARGE = 32 << 20
"""Bytes far beyond what sockets hold."""


@contextlib.asynccontextmanager
async def accepted(by: Flow[bytes, bytes]) -> AsyncIterator[tuple[socket.socket, Running[Any]]]:
    """One connection: the peer's end, and the run of ours through ``by``."""
    handled: asyncio.Future[Running[Any]] = asyncio.get_running_loop().create_future()
    server = bind(FREE_PORT).run_with(Sink.foreach(lambda connection: handled.set_result(connection.handle_with(by))))
    binding: Binding = server.value
    address = await binding.address()
    with socket.create_connection((address.host, address.port)) as peer:
        peer.setblocking(False)
        running = await handled
        try:
            yield peer, running
        finally:
            for ended in (running, server):
                ended.cancel()
                with contextlib.suppress(Exception, asyncio.CancelledError):
                    await ended


def forever() -> Flow[bytes, bytes]:
    """Whatever comes in, or ends, what goes out goes on."""
    return Flow(lambda _incoming, m: Source.repeat(b"x" * 65536).create(m)[0], "forever")


def test_a_peer_that_goes_before_everything_is_written_fails_the_run(run: Any) -> None:
    async def main() -> None:
        async with accepted(forever()) as (peer, running):
            await asyncio.get_running_loop().sock_recv(peer, 1)
            peer.close()
            with pytest.raises(ConnectionLostError):
                await running

    run(main)


@pytest.fixture
def held_back(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a socket takes no more."""
    noted = asyncio.Event()
    pause = TcpWriter.pause

    def noting(writer: TcpWriter) -> None:
        pause(writer)
        noted.set()

    monkeypatch.setattr(TcpWriter, "pause", noting)
    return noted


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Set when a connection of ours is gone."""
    noted = asyncio.Event()
    connection_lost = tcp_flow.TcpFlow.connection_lost

    def noting(flow: tcp_flow.TcpFlow, exc: Exception | None) -> None:
        connection_lost(flow, exc)
        noted.set()

    monkeypatch.setattr(tcp_flow.TcpFlow, "connection_lost", noting)
    return noted


async def read_to_the_end(peer: socket.socket) -> int:
    """How many bytes there were; raises where the connection was reset."""
    read = 0
    while chunk := await asyncio.get_running_loop().sock_recv(peer, 1 << 20):
        read += len(chunk)
    return read


def test_a_run_that_is_cancelled_does_not_wait_for_a_peer_that_reads_nothing(
    run: Any, held_back: asyncio.Event, lost: asyncio.Event
) -> None:
    async def main() -> None:
        async with accepted(forever()) as (peer, running):
            await held_back.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert lost.is_set(), "the run is over, so is its connection"
            with pytest.raises(ConnectionResetError):
                await read_to_the_end(peer)

    run(main)


def test_what_was_written_last_leaves_though_the_run_is_over(
    run: Any, held_back: asyncio.Event, lost: asyncio.Event
) -> None:
    async def main() -> None:
        everything: Flow[bytes, bytes] = Flow(lambda _incoming, m: Source.single(bytes(LARGE)).create(m)[0])
        async with accepted(everything) as (peer, running):
            await held_back.wait()
            assert await read_to_the_end(peer) == LARGE
            await running
            assert lost.is_set()

    run(main)


def test_a_peer_that_takes_nothing_of_what_was_written_last_does_not_keep_the_connection(
    run: Any, lost: asyncio.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr(tcp_flow, "CLOSE_TIMEOUT", 0.01)
        everything: Flow[bytes, bytes] = Flow(lambda _incoming, m: Source.single(bytes(LARGE)).create(m)[0])
        async with accepted(everything) as (peer, running):
            await running
            await lost.wait()
            with pytest.raises(ConnectionResetError):
                await read_to_the_end(peer)

    run(main)


def test_a_failure_upstream_reaches_the_peer_as_a_reset(run: Any) -> None:
    async def main() -> None:
        failing: Flow[bytes, bytes] = Flow(lambda _incoming, m: Source.failed(ValueError("broken")).create(m)[0])
        async with accepted(failing) as (peer, running):
            with pytest.raises(ValueError, match="broken"):
                await running
            with pytest.raises(ConnectionResetError):
                await read_to_the_end(peer)

    run(main)


def test_what_is_no_bytes_fails_the_run_and_not_upstreams_call(run: Any) -> None:
    async def main() -> None:
        text: Any = IDENTITY.map(bytes.decode)
        async with accepted(text) as (peer, running):
            await asyncio.get_running_loop().sock_sendall(peer, b"text")
            with pytest.raises(TypeError, match="bytes-like"):
                await running

    run(main)


def test_what_comes_after_reading_was_cancelled_does_not_block_the_peer(run: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        heard: asyncio.Future[None] = loop.create_future()
        never: asyncio.Future[bytes] = loop.create_future()

        async def wait(_chunk: bytes) -> bytes:
            heard.set_result(None)
            return await never

        async with accepted(IDENTITY.take(1).map_async(1, wait)) as (peer, running):
            await loop.sock_sendall(peer, b"z")
            await heard
            await loop.sock_sendall(peer, b"z" * LARGE)
            assert not running.done()

    run(main)


def test_a_connection_that_was_closed_before_it_is_handled_ends_its_run(run: Any) -> None:
    async def main() -> None:
        connections: asyncio.Queue[IncomingConnection] = asyncio.Queue()
        server = bind(FREE_PORT).run_with(Sink.foreach(connections.put_nowait))
        binding: Binding = server.value
        address = await binding.address()
        with socket.create_connection((address.host, address.port)):
            connection = await connections.get()
            connection.close()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            with pytest.raises(ConnectionLostError):
                await connection.handle_with(IDENTITY)
        server.cancel()
        with pytest.raises(asyncio.CancelledError):
            await server

    run(main)


def test_the_address_of_a_binding_that_ended_before_it_listened_is_no_address(run: Any) -> None:
    async def main() -> None:
        running = bind(FREE_PORT).run_with(Sink.ignore())
        binding: Binding = running.value
        running.cancel()
        with pytest.raises(StreamClosedError, match="the stream ended before"):
            await binding.address()
        with pytest.raises(asyncio.CancelledError):
            await running

    run(main)


class Raising(Subscriber[Any]):
    """Breaks rule 2.13."""

    def on_subscribe(self, subscription: Subscription) -> None:
        subscription.request(1)

    def on_next(self, element: Any) -> None:
        raise OSError("a broken subscriber")

    def on_error(self, error: BaseException) -> None:
        raise AssertionError("has cancelled")

    def on_complete(self) -> None:
        raise AssertionError("has cancelled")


def raising() -> Sink[Any, None]:
    def attach(publisher: Publisher[Any], m: Materialization) -> asyncio.Future[None]:
        publisher.subscribe(Raising())
        return m.loop.create_future()

    return Sink(attach)


def test_a_subscriber_that_raises_fails_the_run_of_its_connection(run: Any) -> None:
    async def main() -> None:
        async with accepted(IDENTITY) as (peer, _):
            host, port = peer.getpeername()
            with pytest.raises(OSError, match="a broken subscriber"):
                await Source.of(b"x").via(outgoing_connection(f"{host}:{port}")).run_with(raising())

    run(main)


def test_a_subscriber_that_raises_fails_the_run_of_its_listening_socket(run: Any) -> None:
    async def main() -> None:
        running = bind(FREE_PORT).run_with(raising())
        binding: Binding = running.value
        address = await binding.address()
        with (
            socket.create_connection((address.host, address.port)),
            pytest.raises(OSError, match="a broken subscriber"),
        ):
            await running

    run(main)
