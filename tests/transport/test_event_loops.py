"""What a connection needs of an event loop's transports, over real sockets: on asyncio's own loop and on uvloop.

Their transports differ, and those of asyncio from one version to the next: what `transport.shell.loop_transport` makes alike is held here.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import tracemalloc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors import Message, MessageBatch
from streams import Flow, Sink
from tests.decoding import FrameDecoder
from tests.transport.time_limits import time_limits_noted
from transport.clients.link import FrameConnection
from transport.errors import ConnectionLostError
from transport.shell.connection import Connection
from transport.shell.loop_transport import connect
from transport.shell.turns import TURN_WORK
from transport.shell.unsent import WRITE_BUFFER_HIGH
from transport.tcp import Binding, IncomingConnection, bind
from transport.tcp.flow import CHUNK_BYTES, TcpFlow
from transport.wire import messages as wire
from transport.wire.codec import decode, encode
from transport.wire.frame_protocol import FrameProtocol
from transport.wire.frames import MAX_FRAME_BYTES, MOST_RECEIVED_BYTES
from transport.wire.messages import Hello
from transport.wire.protocol import SENDING_ROLES, Protocol, Side
from transport.wire.receiving import SHARED_BUFFER_BYTES
from transport.wire.work import RECEIVED_BYTES_A_UNIT

pytestmark = pytest.mark.event_loop

DEADLINE = 30.0
TURNS = 50
"""Turns of the loop, each with a look at its sockets, in which what is there to be read would have been."""
TURN_BYTES = TURN_WORK * RECEIVED_BYTES_A_UNIT
MOST_BETWEEN_SOCKETS = 32 * 1024 * 1024
"""More than the buffers of two sockets hold."""

Main = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture(params=["asyncio", "uvloop"], name="run")
def run_fixture(request: pytest.FixtureRequest) -> Callable[[Main], None]:
    """Runs a test's coroutine function on one of the loops."""
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    if request.param == "uvloop":
        factory = pytest.importorskip("uvloop", reason="uvloop is not installed").new_event_loop

    def run(main: Main) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(DEADLINE):
                await main()

        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(bounded())

    return run


class Handler:
    """What a connection told, and an event for each kind."""

    def __init__(self, pause: bool = False) -> None:
        self.connection: FrameConnection | None = None
        self.frames: list[wire.Frame] = []
        self.writable: list[bool] = []
        self.opened = asyncio.Event()
        self.changed = asyncio.Event()
        self.closed: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._pause = pause

    def connection_opened(self, connection: FrameConnection) -> None:
        self.connection = connection
        if self._pause:
            connection.pause_reading()
        self.opened.set()

    def event_received(self, frame: wire.Frame, work: int) -> None:
        self.frames.append(frame)

    def writable_changed(self, writable: bool) -> None:
        self.writable.append(writable)
        self.changed.set()

    def connection_ending(self, error: Exception | None) -> None:
        pass

    def connection_closed(self, error: Exception | None) -> None:
        self.closed.set_result(error)


@asynccontextmanager
async def accepted(handler: Handler) -> AsyncIterator[tuple[FrameConnection, socket.socket]]:
    """A connection of ours that a plain socket has made."""
    loop = asyncio.get_running_loop()

    def accept() -> FrameConnection:
        protocol = Protocol(Side.BROKER, SENDING_ROLES)
        protocol.said_hello(Hello(1, "sender", "q", "c", {}))
        protocol.said_welcome()
        return Connection(FrameProtocol(protocol), handler, loop)

    server = await loop.create_server(accept, "127.0.0.1", 0)
    with socket.socket() as peer:
        peer.setblocking(False)
        await loop.sock_connect(peer, server.sockets[0].getsockname())
        await handler.opened.wait()
        assert handler.connection is not None
        try:
            yield handler.connection, peer
        finally:
            server.close()
            handler.connection.abort(ConnectionAbortedError("the test is over"))
            await handler.closed


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def fill(peer: socket.socket, data: bytes) -> int:
    """Send until the sockets between here and there take no more, which they do where nobody reads; returns the bytes."""
    sent = 0
    while sent < MOST_BETWEEN_SOCKETS:
        try:
            sent += peer.send(data)
        except BlockingIOError:
            return sent
        await turns()
    pytest.fail(f"{sent} bytes were taken of a peer that is not to be read")


async def read_frames(peer: socket.socket, count: int) -> list[wire.Frame]:
    """The next ``count`` frames that ``peer`` gets."""
    decoder = FrameDecoder(MAX_FRAME_BYTES)
    frames: list[wire.Frame] = []
    while len(frames) < count:
        data = await asyncio.get_running_loop().sock_recv(peer, 1 << 20)
        assert data, f"the end of the stream after {len(frames)} frames of {count}"
        frames += [decode(raw) for raw in decoder.receive_data(data)]
    return frames


def delivery(batch: MessageBatch) -> wire.Deliver:
    return wire.Deliver(0, 1, 1, False, batch)


def full_batch(size: int) -> MessageBatch:
    """A batch with every column, of messages that are all ``size`` bytes long."""
    return MessageBatch.from_messages(
        [Message(bytes([n]) * size, b"key" * n, {"n": str(n)}, bytes([n]) * 16) for n in range(100)]
    )


def test_batches_of_every_shape_arrive_whole_though_the_socket_takes_them_piece_by_piece(run: Any) -> None:
    async def main() -> None:
        handler = Handler()
        async with accepted(handler) as (connection, peer):
            # More than a socket takes at once, so that each of the pieces is cut somewhere.
            batches = [full_batch(size) for size in (0, 1, 1000, 10_000)] * 4
            batches += [MessageBatch.from_payloads([b"x"]), MessageBatch.from_payloads([b"y" * 3_000_000, b""])]
            for batch in batches:
                connection.send(delivery(batch))
            frames = await read_frames(peer, len(batches))
            assert [frame.batch for frame in frames if isinstance(frame, wire.Deliver)] == batches
            assert not handler.closed.done()

    run(main)


def test_a_connection_whose_last_message_is_empty_leaves_nothing_in_its_buffer_and_closes(run: Any) -> None:
    async def main() -> None:
        handler = Handler()
        async with accepted(handler) as (connection, peer):
            connection.send(delivery(MessageBatch.from_payloads([b""])))
            await read_frames(peer, 1)
            connection.close()
            assert await handler.closed is None

    run(main)


def test_a_peer_that_reads_nothing_is_not_writable_and_is_again_once_it_reads(run: Any) -> None:
    async def main() -> None:
        handler = Handler()
        async with accepted(handler) as (connection, peer):
            frame = delivery(MessageBatch.from_payloads([b"x" * WRITE_BUFFER_HIGH]))
            sent = 0
            while not handler.writable:
                assert sent < 100, "100 MiB are written, nothing of it is read, and nobody is told to hold back"
                connection.send(frame)
                sent += 1
                await asyncio.sleep(0)
            assert handler.writable == [False]
            handler.changed.clear()
            await read_frames(peer, sent)
            await handler.changed.wait()
            assert handler.writable == [False, True]

    run(main)


def test_short_answers_that_nobody_reads_take_at_most_twice_their_bytes(run: Any) -> None:
    """A PONG has ten bytes. Each by itself would be an object, and a place in the transport's buffer: ten times as much, or more."""

    async def main() -> None:
        handler = Handler()
        async with accepted(handler) as (connection, peer):
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.send(delivery(MessageBatch.from_payloads([bytes(WRITE_BUFFER_HIGH // 4)] * 16)))
            await turns()
            # asyncio of 3.11 keeps all that waits in one piece, which is made anew as it grows: what waits already is in it, too.
            waiting = connection._transport.get_write_buffer_size()
            tracemalloc.start()
            try:
                before = connection.bytes_out
                while connection.bytes_out < before + WRITE_BUFFER_HIGH // 4:
                    for _ in range(100):
                        connection.send(wire.Pong(1))
                    await asyncio.sleep(0)
                taken = tracemalloc.get_traced_memory()[0]
            finally:
                tracemalloc.stop()
            assert taken < 2 * (connection.bytes_out - before) + waiting * 9 / 8

    run(main)


def test_a_connection_that_is_paused_as_it_is_opened_reads_one_receive_at_most(run: Any) -> None:
    async def main() -> None:
        handler = Handler(pause=True)
        async with accepted(handler) as (connection, peer):
            await fill(peer, b"".join(encode(wire.Ping(0))) * 10_000)
            assert connection.bytes_in <= SHARED_BUFFER_BYTES
            before = connection.bytes_in
            await turns()
            assert connection.bytes_in == before
            connection.resume_reading()
            while connection.bytes_in == before:  # noqa: ASYNC110 - reading gives no event of its own; the deadline bounds it
                await asyncio.sleep(0)

    run(main)


def test_a_large_frame_that_has_come_has_its_part_of_each_turn(run: Any) -> None:
    """Pausing from within a receive ends the reads of a turn, of which uvloop has up to thirty-two."""

    async def main() -> None:
        handler = Handler(pause=True)
        async with accepted(handler) as (connection, peer):
            connection.send(wire.Welcome(1, 1, {"heartbeat_ms": 5000}))
            length, header = MAX_FRAME_BYTES, encode(wire.Ping(0))[0][6:]
            beginning = struct.pack(">IH", length, len(header)) + bytes(header)
            sent = peer.send(beginning) + await fill(peer, bytes(MAX_FRAME_BYTES // 64))
            if sent <= TURN_BYTES + MOST_RECEIVED_BYTES:
                pytest.skip(f"this system's sockets hold {sent} bytes, no more than a turn has")
            in_a_turn = []
            connection.resume_reading()
            while (before := connection.bytes_in) < sent:
                await asyncio.sleep(0)
                in_a_turn.append(connection.bytes_in - before)
            assert connection.bytes_in == sent
            assert max(in_a_turn) <= TURN_BYTES + MOST_RECEIVED_BYTES

    run(main)


def test_bytes_that_come_before_they_are_asked_for_are_kept_and_read_no_further(run: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        flows: list[TcpFlow] = []

        def accept() -> TcpFlow:
            flows.append(TcpFlow())
            return flows[-1]

        server = await loop.create_server(accept, "127.0.0.1", 0)
        with socket.socket() as peer:
            peer.setblocking(False)
            await loop.sock_connect(peer, server.sockets[0].getsockname())
            await fill(peer, b"x" * CHUNK_BYTES)
            assert len(flows) == 1
        server.close()
        flows[0].close()

    run(main)


def test_a_connection_that_waits_its_turn_loses_nothing_of_what_was_sent_meanwhile(run: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        handled: list[bytes] = []
        first_may_end = asyncio.Event()

        async def answer(connection: IncomingConnection) -> IncomingConnection:
            # Not handled before the peer has sent all, and said that it was all.
            await first_may_end.wait()
            flow: Flow[bytes, bytes] = Flow(lambda publisher, _materialization: publisher)
            await connection.handle_with(flow.map(lambda chunk: handled.append(chunk) or chunk))
            return connection

        server = bind("127.0.0.1:0").map_async(1, answer).run_with(Sink.ignore())
        binding: Binding = server.value
        address = await binding.address()
        peers = [socket.create_connection((address.host, address.port)) for _ in range(3)]
        for number, peer in enumerate(peers):
            peer.sendall(b"%d" % number * 1000)
            peer.shutdown(socket.SHUT_WR)
        await turns()
        assert handled == []
        first_may_end.set()
        for number, peer in enumerate(peers):
            peer.setblocking(False)
            got = b""
            while data := await loop.sock_recv(peer, 1 << 16):
                got += data
            assert got == b"%d" % number * 1000
            peer.close()
        server.cancel()
        await asyncio.gather(server, return_exceptions=True)

    run(main)


@asynccontextmanager
async def silent_server() -> AsyncIterator[tuple[str, int]]:
    """An address where connections are taken, and nothing else."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


@asynccontextmanager
async def connecting(protocol: Any, address: tuple[str, int], ends: str) -> AsyncIterator[asyncio.Task[None]]:
    """A task that connects ``protocol``, and whose attempt ends in the very turn in which its connection is made, before it knows."""
    loop = asyncio.get_running_loop()
    made = protocol.connection_made

    def and_over(transport: asyncio.BaseTransport) -> None:
        made(transport)
        if ends == "cancelled":
            task.cancel()
        else:
            limits[0].reschedule(0.0)

    protocol.connection_made = and_over
    with time_limits_noted() as limits:
        task = loop.create_task(connect(protocol, *address, DEADLINE, loop))
        await asyncio.wait([task])
    yield task


@pytest.mark.parametrize("ends", ["cancelled", "late"])
def test_a_connection_made_while_its_attempt_ends_is_told_of_it_once_and_leaves_nothing(run: Any, ends: str) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        handler = Handler()
        connection: FrameConnection = Connection(FrameProtocol(Protocol(Side.CLIENT, SENDING_ROLES)), handler, loop)
        async with silent_server() as address, connecting(connection, address, ends) as task:
            assert task.cancelled() is (ends == "cancelled")
            # Told a second time, the future would refuse it.
            assert isinstance(await handler.closed, ConnectionLostError)
            await turns()
            assert connection._timer is None

    run(main)


def test_a_connection_made_and_lost_in_the_turn_in_which_its_time_is_up_is_told_of_it_once(run: Any) -> None:
    class Refused(Connection[wire.Frame]):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self.connection_lost(ConnectionLostError("gone again"))

    async def main() -> None:
        handler = Handler()
        connection = Refused(FrameProtocol(Protocol(Side.CLIENT, SENDING_ROLES)), handler, asyncio.get_running_loop())
        async with silent_server() as address, connecting(connection, address, "late") as task:
            assert task.exception() is None, "whoever retries would do so twice"
            assert str(await handler.closed) == "gone again"
            await turns()

    run(main)


@pytest.mark.parametrize("ends", ["cancelled", "late"])
def test_a_stream_over_a_connection_made_while_its_attempt_ends_is_over_at_once(run: Any, ends: str) -> None:
    async def main() -> None:
        flow = TcpFlow()
        done: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        flow.writer.when_done(done.set_result)
        async with silent_server() as address, connecting(flow, address, ends) as task:
            assert task.cancelled() is (ends == "cancelled")
            assert isinstance(await done, ConnectionLostError)
            await turns()
            assert (flow._transport, flow.read_ended) == (None, True)

    run(main)


def test_an_attempt_that_fails_raises_and_its_protocol_is_told_nothing(run: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        handler = Handler()
        async with silent_server() as address:
            pass  # closed again
        connection: FrameConnection = Connection(FrameProtocol(Protocol(Side.CLIENT, SENDING_ROLES)), handler, loop)
        with pytest.raises(ConnectionRefusedError):
            await connect(connection, *address, DEADLINE, loop)
        await turns()
        assert (handler.opened.is_set(), handler.closed.done()) == (False, False)

    run(main)
