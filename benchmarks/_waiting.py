"""Many senders that each wait for the confirmation of one message before they send the next, in one process.

Sixty-four `transport.Sender` would cost more than the broker. What is measured is the broker, so these are bare sockets in one epoll
loop: a SEND frame is packed once, and of it only the sequence number is new each time.
"""

from __future__ import annotations

import asyncio
import select
import socket
import struct
import time
from array import array
from collections.abc import Callable
from typing import Any, cast

import msgpack

from benchmarks._paced import spread
from benchmarks._payloads import make_payloads
from benchmarks._worker import Parent, run_loop
from transport import MessageBatch, parse_address
from transport.wire.codec import decode, encode
from transport.wire.frames import MAX_FRAME_BYTES, FrameDecoder, RawFrame, encode_frame
from transport.wire.messages import VERSION, Demand, Error, Hello, Ping, Pong, Send, Sent, Welcome

SILENCE = 60.0
"""Seconds without anything from the broker after which it has stalled."""
WIDE = 2**62
"""A sequence number that msgpack writes with all nine bytes, so that any other fits its place."""
SEQUENCE = struct.Struct(">BQ")
UINT64 = 0xCF


class WaitingSender:
    """One connection in the role of a sender with one message under way.

    Attributes:
        sent: messages sent.
        confirmed: messages confirmed.
        times: nanoseconds from each message to its confirmation.
    """

    def __init__(self, address: str, queue: str, name: str, payload: bytes) -> None:
        parsed = parse_address(address)
        self.socket = socket.create_connection((parsed.host, parsed.port), SILENCE)
        # Read only when there is something: a timeout would cost a system call each time.
        self.socket.settimeout(None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = FrameDecoder(MAX_FRAME_BYTES)
        self._frame = bytearray(b"".join(encode(Send(WIDE, None, MessageBatch.from_payloads([payload])))))
        self._sequence_at = self._frame.index(msgpack.packb(WIDE))
        self._granted = 0
        self._waiting = False
        self._began = 0
        self._open = False
        self.sent = 0
        self.confirmed = 0
        self.times = array("q")
        self.socket.sendall(b"".join(encode(Hello(VERSION, "sender", queue, name, {}))))

    @property
    def ready(self) -> bool:
        """Whether a message can be sent now."""
        return self._open and self._granted > self.sent and not self._waiting

    def send(self) -> None:
        """Send the next message."""
        SEQUENCE.pack_into(self._frame, self._sequence_at, UINT64, self.sent)
        self.sent += 1
        self._waiting = True
        self._began = time.monotonic_ns()
        self.socket.sendall(self._frame)

    def receive(self) -> None:
        """Take what the broker says."""
        count = self.socket.recv_into(self._decoder.get_buffer())
        if not count:
            raise ConnectionError("the broker closed the connection of a waiting sender")
        self._decoder.received(count)
        for raw in iter(self._decoder.next_frame, None):
            if raw.header[0] == Sent.TYPE:
                self.times.append(time.monotonic_ns() - self._began)
                self._waiting = False
                self.confirmed = raw.header[1]
            else:
                self._take(raw)

    def _take(self, raw: RawFrame) -> None:
        frame = decode(raw)
        if isinstance(frame, Demand):
            self._granted = frame.messages
        elif isinstance(frame, Welcome):
            self._open = True
        elif isinstance(frame, Ping):
            self.socket.sendall(b"".join(encode(Pong(frame.token))))
        elif isinstance(frame, Error):
            raise ConnectionError(f"the broker answered {frame.code}: {frame.text}")


def send_waiting(parent: Parent, address: str, queue: str, senders: int, messages: int, size: int) -> None:
    """Send ``messages`` payloads of ``size`` bytes through ``senders`` connections, each with one of them under way."""
    payloads = make_payloads(senders, size)
    waiting = {
        sender.socket.fileno(): sender
        for sender in (
            WaitingSender(address, queue, f"waiting-{number}", payload) for number, payload in enumerate(payloads)
        )
    }
    with select.epoll() as poll:
        for descriptor in waiting:
            poll.register(descriptor, select.EPOLLIN)
        _turn_until(poll, waiting, lambda: all(sender.ready for sender in waiting.values()))
        parent.say(ready=True)
        parent.wait()
        started, cpu = time.monotonic(), time.process_time()
        _send_all(poll, waiting, messages)
        ended, cpu = time.monotonic(), time.process_time() - cpu
    times = array("q")
    for sender in waiting.values():
        times.extend(sender.times)
        sender.socket.close()
    confirmed = sum(sender.confirmed for sender in waiting.values())
    parent.say(started=started, ended=ended, messages=confirmed, cpu_s=cpu, latency_us=spread(times))


def _send_all(poll: select.epoll, waiting: dict[int, WaitingSender], messages: int) -> None:
    """Keep every sender's one message under way until ``messages`` are sent, and wait for the last confirmation."""
    left = messages
    for sender in waiting.values():
        if left:
            sender.send()
            left -= 1
    open_ones = messages - left
    while open_ones:
        for descriptor, _ in _events(poll):
            sender = waiting[descriptor]
            before = sender.confirmed
            sender.receive()
            open_ones -= sender.confirmed - before
            if left and sender.ready:
                sender.send()
                left -= 1
                open_ones += 1


def _turn_until(poll: select.epoll, waiting: dict[int, WaitingSender], holds: Callable[[], bool]) -> None:
    while not holds():
        for descriptor, _ in _events(poll):
            waiting[descriptor].receive()


def _events(poll: select.epoll) -> list[tuple[int, int]]:
    events = poll.poll(SILENCE)
    if not events:
        raise TimeoutError(f"the broker has said nothing for {SILENCE:g} s")
    return events


# The ceiling: the other end without a queue


class _Responder(asyncio.BufferedProtocol):
    """Confirms every SEND as it comes, and keeps nothing."""

    def __init__(self) -> None:
        self._decoder = FrameDecoder(MAX_FRAME_BYTES)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        return self._decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._decoder.received(nbytes)
        for raw in iter(self._decoder.next_frame, None):
            kind, *rest = raw.header
            if kind == Send.TYPE:
                self._answer([Sent.TYPE, rest[0] + rest[2], None, None])
            elif kind == Hello.TYPE:
                self._answer([Welcome.TYPE, VERSION, 1, {}])
                self._answer([Demand.TYPE, WIDE, WIDE])

    def _answer(self, header: list[Any]) -> None:
        assert self._transport is not None, "nothing comes before the connection stands"
        self._transport.writelines(encode_frame(header))


def respond(parent: Parent, uvloop: bool) -> None:
    """Serve `send_waiting` on an event loop until told to stop."""

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Responder, "127.0.0.1", 0)
        parent.say(address="{}:{}".format(*server.sockets[0].getsockname()[:2]))
        await parent.told()
        server.close()

    run_loop(serve(), uvloop)
