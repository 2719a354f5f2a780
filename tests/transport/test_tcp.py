"""TCP as streams of bytes, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

import pytest

from streams import Flow, Running, Sink, Source, SourceQueue
from streams.testkit import settle
from transport.errors import ConnectionLostError
from transport.tcp import Binding, IncomingConnection, bind, outgoing_connection
from transport.tcp.flow import TcpWriter

pytestmark = pytest.mark.event_loop

IDENTITY: Flow[bytes, bytes] = Flow(lambda publisher, _materialization: publisher)


@contextlib.asynccontextmanager
async def serving(flow: Flow[bytes, bytes]) -> AsyncIterator[str]:
    """A server that runs each connection through ``flow``; gives its address."""
    handles: list[Running[Any]] = []

    def handle(connection: IncomingConnection) -> None:
        handles.append(connection.handle_with(flow))

    server = bind("127.0.0.1:0").run_with(Sink.foreach(handle))
    binding: Binding = server.value
    try:
        yield str(await binding.address())
    finally:
        server.cancel()
        await asyncio.gather(server, *handles, return_exceptions=True)


def test_what_is_sent_to_an_echo_comes_back_whole(run: Any) -> None:
    async def main() -> None:
        chunks = [bytes([number % 256]) * (number * 97 % 5000 + 1) for number in range(300)]
        async with serving(IDENTITY) as address:
            back = await Source.from_iterable(chunks).via(outgoing_connection(address)).run_with(Sink.collect())
        assert b"".join(back) == b"".join(chunks)

    run(main)


def test_many_connections_are_served_side_by_side(run: Any) -> None:
    async def main() -> None:
        async with serving(IDENTITY.map(bytes.upper)) as address:
            runs = [
                Source.of(b"hello %d" % number).via(outgoing_connection(address)).run_with(Sink.collect())
                for number in range(50)
            ]
            answers = [b"".join(answer) for answer in await asyncio.gather(*runs)]
        assert answers == [b"HELLO %d" % number for number in range(50)]

    run(main)


def test_a_peer_that_reads_nothing_stops_the_source(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        held_back = asyncio.Event()
        pause = TcpWriter.pause

        def noticed_pause(writer: TcpWriter) -> None:
            pause(writer)
            held_back.set()

        monkeypatch.setattr(TcpWriter, "pause", noticed_pause)
        accepted: list[asyncio.StreamWriter] = []

        async def never_read(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # asyncio's type lacks what every transport has
            accepted.append(writer)

        server = await asyncio.start_server(never_read, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        produced = 0

        def chunk(_number: int) -> bytes:
            nonlocal produced
            produced += 1
            return b"x" * 65536

        running = (
            Source.from_iterable(range(1_000_000))
            .map(chunk)
            .via(outgoing_connection(f"{host}:{port}"))
            .run_with(Sink.ignore())
        )
        await held_back.wait()
        stopped_at = produced
        await settle()
        assert produced == stopped_at
        assert produced < 1000, "64 KiB each: what is beyond the socket's buffers is unbounded"
        running.cancel()
        accepted[0].transport.abort()
        with pytest.raises(asyncio.CancelledError):
            await running
        server.close()

    run(main)


def test_a_reader_without_demand_leaves_the_bytes_in_the_socket(run: Any) -> None:
    async def main() -> None:
        taken: list[bytes] = []
        async with serving(IDENTITY) as address:
            source = Source.from_iterable([b"x" * 65536] * 64).via(outgoing_connection(address))
            iterator = source.iterate(prefetch=1)
            async with contextlib.aclosing(iterator):
                async for piece in iterator:
                    taken.append(piece)
                    if len(taken) == 3:
                        break
        assert 3 <= sum(map(len, taken)) <= 3 * 65536

    run(main)


def test_the_end_of_upstream_closes_only_the_writing_side(run: Any) -> None:
    async def main() -> None:
        async def answer_at_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            everything = await reader.read()
            writer.write(b"got %d bytes" % len(everything))
            writer.close()

        server = await asyncio.start_server(answer_at_the_end, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        flow = outgoing_connection(f"{host}:{port}")
        assert await Source.of(b"abc", b"de").via(flow).run_with(Sink.collect()) == [b"got 5 bytes"]
        server.close()

    run(main)


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_host_that_cannot_be_looked_up_fails_the_stream_with_its_name(run: Any, host: str) -> None:
    async def main() -> None:
        with pytest.raises(ConnectionLostError, match=f"no connection to {host}:9"):
            await Source.of(b"abc").via(outgoing_connection(f"{host}:9")).run_with(Sink.collect())

    run(main)


def test_a_connection_that_cannot_be_made_fails_the_stream_with_its_address(run: Any) -> None:
    async def main() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        server.close()
        await server.wait_closed()
        with pytest.raises(ConnectionLostError, match=f"no connection to {host}:{port}"):
            await Source.of(b"x").via(outgoing_connection(f"{host}:{port}")).run_with(Sink.ignore())

    run(main)


def test_a_connection_that_is_reset_fails_the_stream(run: Any) -> None:
    async def main() -> None:
        async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            # Closing with a linger time of zero resets the connection.
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

        server = await asyncio.start_server(reset, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        queue: Source[bytes] = Source.queue(4)
        running = queue.via(outgoing_connection(f"{host}:{port}")).run_with(Sink.ignore())
        offers: SourceQueue[bytes] = running.value
        offers.offer(b"x")
        with pytest.raises(ConnectionLostError):
            await running
        server.close()

    run(main)


def test_an_address_that_is_taken_fails_the_binding_and_the_stream(run: Any) -> None:
    async def main() -> None:
        async with serving(IDENTITY) as address:
            second = bind(address).run_with(Sink.ignore())
            binding: Binding = second.value
            with pytest.raises(OSError, match="address already in use"):
                await binding.address()
            with pytest.raises(OSError, match="address already in use"):
                await second

    run(main)


def test_the_listening_socket_is_closed_with_the_stream(run: Any) -> None:
    async def main() -> None:
        async with serving(IDENTITY) as address:
            pass
        with pytest.raises(ConnectionLostError):
            await Source.of(b"x").via(outgoing_connection(address)).run_with(Sink.ignore())

    run(main)
