"""What tests of one connection's shell need: a transport and a handler that record, on a clock that jumps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from actors.batch import MessageBatch
from streams.testkit import run_in_virtual_time
from tests.decoding import FrameDecoder
from transport.clients.link import FrameConnection
from transport.shell.connection import (
    Connection,
)
from transport.shell.partial_frames import PartialFrames, PartialRoom
from transport.shell.turns import Turns
from transport.wire.codec import decode, encode
from transport.wire.frame_protocol import FrameProtocol
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.messages import Error, Frame, Hello, Send, Welcome
from transport.wire.protocol import SENDING_ROLES, Protocol, Side

HELLO = Hello(1, "sender", "q", "c", {})

SEND = Send(0, None, MessageBatch.from_payloads([b"x"]))


class RecordingTransport(asyncio.Transport):
    """What is written to it, and how it was ended; what the protocol does wrong raises."""

    def __init__(self, connection: FrameConnection) -> None:
        super().__init__({"peername": ("192.0.2.1", 4711)})
        self.connection = connection
        self.decoder = FrameDecoder(MAX_FRAME_BYTES)
        self.frames: list[Frame] = []
        self.writes: list[list[Frame]] = []
        self.high: int | None = None
        self.eof_error: OSError | None = None
        self.eof = self.closing = self.aborted = False
        self.reading = True
        self.unsent = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high

    def writelines(self, list_of_data: Any) -> None:
        assert not self.eof, "written after the end of the stream"
        data = b"".join(bytes(part) for part in list_of_data)
        frames = [decode(raw) for raw in self.decoder.receive_data(data)]
        self.writes.append(frames)
        self.frames += frames

    def is_reading(self) -> bool:
        return self.reading

    def write_eof(self) -> None:
        if self.eof_error is not None:
            raise self.eof_error
        self.eof = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.aborted = self.closing = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def get_write_buffer_size(self) -> int:
        return self.unsent


class RecordingHandler:
    """What it was told; raises what it is told to raise."""

    def __init__(self) -> None:
        self.connection: FrameConnection | None = None
        self.frames: list[Frame] = []
        self.writable: list[bool] = []
        self.closed: list[Exception | None] = []
        self.failing = 0
        self.refuses: Exception | None = None
        self.refuses_connection: Exception | None = None

    def connection_opened(self, connection: FrameConnection) -> None:
        self.connection = connection
        if self.refuses_connection is not None:
            raise self.refuses_connection

    def event_received(self, frame: Frame, work: int) -> None:
        assert work >= 1
        self.frames.append(frame)
        if self.refuses is not None:
            raise self.refuses

    def writable_changed(self, writable: bool) -> None:
        self.writable.append(writable)

    def connection_failing(self) -> None:
        self.failing += 1

    def connection_ending(self, error: Exception | None) -> None:
        pass

    def connection_closed(self, error: Exception | None) -> None:
        self.closed.append(error)


class Bench:
    """A broker's end of a connection between a recording transport and a recording handler."""

    def __init__(
        self,
        heartbeat: float = 5.0,
        side: Side = Side.BROKER,
        partial: PartialFrames | None = None,
        turns: Turns | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.began = self.loop.time()
        self.handler = RecordingHandler()
        roles = SENDING_ROLES if side is Side.BROKER else frozenset({"sender"})
        carried = FrameProtocol(Protocol(side, roles), heartbeat)
        self.connection: FrameConnection = Connection(carried, self.handler, self.loop, heartbeat, turns)
        if partial is not None:
            carried.receiver.keep_in(PartialRoom(partial, self.connection))
        self.transport = RecordingTransport(self.connection)

    def connect(self) -> None:
        self.connection.connection_made(self.transport)

    def receive(self, *frames: Frame) -> None:
        self.receive_bytes(b"".join(bytes(part) for frame in frames for part in encode(frame)))

    def receive_bytes(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            buffer = self.connection.get_buffer(-1)
            assert len(buffer) > 0, "asyncio takes an empty buffer for a fatal error"
            taken = min(len(buffer), len(view))
            buffer[:taken] = view[:taken]
            view = view[taken:]
            self.connection.buffer_updated(taken)

    def open(self, heartbeat_ms: int = 5000) -> None:
        self.connect()
        self.receive(HELLO)
        self.connection.send(Welcome(1, 1, {"heartbeat_ms": heartbeat_ms}))

    def lose(self, error: Exception | None = None) -> None:
        self.connection.connection_lost(error)

    @property
    def elapsed(self) -> float:
        return self.loop.time() - self.began

    def over(self) -> tuple[bool, bool]:
        """Whether the transport was told the end of the stream, and whether it was aborted."""
        return self.transport.eof, self.transport.aborted

    def said(self) -> Error:
        """The ERROR that it ended with."""
        last = self.transport.frames[-1]
        assert isinstance(last, Error)
        return last


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    run_in_virtual_time(main())
