"""The ceilings over the wire: the same bytes from a writer to a reader through a relay that does nothing else.

The loop relay receives and writes the way the broker does (a `BufferedProtocol` on the same kind of loop, one buffer of the same
size, the same limit on what waits to be written); the blocking relay is the shortest one Python can have: ``recv_into``, ``sendall``.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterable, Iterator
from typing import Any, cast

from benchmarks._payloads import batches, cycled, frame_of, groups, make_payloads
from benchmarks._processes import START_TIMEOUT, Worker
from benchmarks._worker import Parent, run_loop
from transport import MessageBatch, parse_address
from transport.shell.unsent import WRITE_BUFFER_HIGH
from transport.wire.codec import decode
from transport.wire.frames import MAX_FRAME_BYTES, FrameDecoder, RawFrame
from transport.wire.messages import Send
from transport.wire.receiving import SHARED_BUFFER_BYTES

HOST = "127.0.0.1"
SOCKET_TIMEOUT = 120.0
"""Seconds for one socket call; the other side may have to start first."""


class RelayProcess(Worker):
    """A relay in a process of its own.

    Attributes:
        send_address: what is written here ...
        receive_address: ... comes out here; connect here first.
    """

    def __init__(self, kind: str, *, uvloop: bool = True) -> None:
        arguments = {"uvloop": uvloop} if kind == "loop" else {}
        super().__init__(f"_relay:relay_{kind}", **arguments)
        facts = self.hear(START_TIMEOUT)
        self.send_address: str = facts["send_address"]
        self.receive_address: str = facts["receive_address"]


# The relays


class _Inbound(asyncio.BufferedProtocol):
    """The side that receives."""

    def __init__(self, relay: _Relay) -> None:
        self._relay = relay
        self._view = memoryview(bytearray(SHARED_BUFFER_BYTES))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._relay.inbound = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        assert self._relay.outbound is not None, "the reader connects first"
        self._relay.outbound.write(bytes(self._view[:nbytes]))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if self._relay.outbound is not None:
            self._relay.outbound.close()


class _Outbound(asyncio.Protocol):
    """The side that writes; holds the other back when the socket does not keep up."""

    def __init__(self, relay: _Relay) -> None:
        self._relay = relay

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._relay.outbound = cast("asyncio.Transport", transport)
        self._relay.outbound.set_write_buffer_limits(high=WRITE_BUFFER_HIGH)
        self._relay.connected.set()

    def pause_writing(self) -> None:
        if self._relay.inbound is not None:
            self._relay.inbound.pause_reading()

    def resume_writing(self) -> None:
        if self._relay.inbound is not None:
            self._relay.inbound.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._relay.outbound = None


class _Relay:
    """One pair of connections."""

    def __init__(self) -> None:
        self.inbound: asyncio.Transport | None = None
        self.outbound: asyncio.Transport | None = None
        self.connected = asyncio.Event()


def relay_loop(parent: Parent, uvloop: bool) -> None:
    """Relay on an event loop until told to stop."""

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        relay = _Relay()
        sending = await loop.create_server(lambda: _Inbound(relay), HOST, 0)
        receiving = await loop.create_server(lambda: _Outbound(relay), HOST, 0)
        parent.say(send_address=_bound(sending.sockets[0]), receive_address=_bound(receiving.sockets[0]))
        await relay.connected.wait()
        parent.say(connected=True)
        await parent.told()

    run_loop(serve(), uvloop)


def relay_blocking(parent: Parent) -> None:
    """Relay one connection with blocking calls, to its end."""
    with socket.create_server((HOST, 0)) as sending, socket.create_server((HOST, 0)) as receiving:
        parent.say(send_address=_bound(sending), receive_address=_bound(receiving))
        view = memoryview(bytearray(SHARED_BUFFER_BYTES))
        with _accepted(receiving) as outbound:
            parent.say(connected=True)
            with _accepted(sending) as inbound:
                while count := inbound.recv_into(view):
                    outbound.sendall(view[:count])
    parent.wait()


# The writer and the reader


def write_frames(parent: Parent, address: str, messages: int, size: int, batch: int, work: str) -> None:
    """Write ``messages`` payloads in SEND frames.

    Args:
        parent: who started this.
        address: the relay's.
        messages: how many payloads.
        size: bytes of each.
        batch: how many of them in a frame.
        work: what is done while the clock runs: ``bytes`` writes frames made beforehand, ``batches`` makes them of lists of payloads,
            ``objects`` of payloads that come one at a time.
    """
    payloads = make_payloads(messages, size)
    if work == "bytes":
        ready = [frame_of(one, 0) for one in batches(payloads, len(payloads), batch)]
        frames = _cycled_frames(ready, messages, len(payloads), batch)
    elif work == "batches":
        frames = _framed(groups(payloads, messages, batch))
    else:
        frames = _framed(_gathered(payloads, messages, batch))
    with _connected(address) as connection:
        parent.say(ready=True)
        parent.wait()
        started, cpu = time.monotonic(), time.process_time()
        written = 0
        for frame in frames:
            connection.sendall(frame)
            written += len(frame)
    parent.say(started=started, bytes=written, cpu_s=time.process_time() - cpu)


def read_frames(parent: Parent, address: str, work: str) -> None:
    """Read to the end of the stream and count: bytes only, decoded batches, or messages made objects and acknowledged."""
    take = {"bytes": _discard, "batches": _count_messages, "objects": _make_objects}[work]
    decoder = FrameDecoder(MAX_FRAME_BYTES)
    shared = memoryview(bytearray(SHARED_BUFFER_BYTES))
    total = messages = 0
    with _connected(address) as connection:
        parent.say(ready=True)
        cpu = time.process_time()
        while count := connection.recv_into(shared if work == "bytes" else decoder.get_buffer()):
            total += count
            messages += take(decoder, count)
        ended = time.monotonic()
    parent.say(ended=ended, bytes=total, messages=messages, cpu_s=time.process_time() - cpu)


class Handed:
    """One message as an object that can be acknowledged: the least that `transport.Delivery` could be."""

    __slots__ = ("payload", "settled")

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.settled = False

    def acknowledge(self) -> None:
        """It is done."""
        self.settled = True


def _discard(decoder: FrameDecoder, count: int) -> int:  # noqa: ARG001 - one of three ways to take what came
    return 0


def _count_messages(decoder: FrameDecoder, count: int) -> int:
    decoder.received(count)
    return sum(len(_batch(raw)) for raw in iter(decoder.next_frame, None))


def _make_objects(decoder: FrameDecoder, count: int) -> int:
    messages = 0
    decoder.received(count)
    for raw in iter(decoder.next_frame, None):
        for payload in _batch(raw).payloads.tolist():
            Handed(payload).acknowledge()
            messages += 1
    return messages


def _batch(raw: RawFrame) -> MessageBatch:
    frame = decode(raw)
    assert isinstance(frame, Send), "nothing else is written"
    return frame.batch


def _framed(lists: Iterable[list[bytes]]) -> Iterator[bytes]:
    sequence = 0
    for payloads in lists:
        yield frame_of(MessageBatch.from_payloads(payloads), sequence)
        sequence += len(payloads)


def _gathered(payloads: list[bytes], messages: int, batch: int) -> Iterator[list[bytes]]:
    """Lists of payloads that come one by one, as from an application."""
    taken: list[bytes] = []
    for payload in cycled(payloads, messages):
        taken.append(payload)
        if len(taken) >= batch:
            yield taken
            taken = []
    if taken:
        yield taken


def _cycled_frames(ready: list[bytes], messages: int, pool: int, batch: int) -> Iterator[bytes]:
    whole, rest = divmod(messages, pool)
    for _ in range(whole):
        yield from ready
    yield from ready[: -(-rest // batch)]


def _connected(address: str) -> socket.socket:
    parsed = parse_address(address)
    connection = socket.create_connection((parsed.host, parsed.port), SOCKET_TIMEOUT)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _accepted(server: socket.socket) -> socket.socket:
    server.settimeout(SOCKET_TIMEOUT)
    connection, _ = server.accept()
    connection.settimeout(SOCKET_TIMEOUT)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _bound(server: Any) -> str:
    host, port = server.getsockname()[:2]
    return f"{host}:{port}"
