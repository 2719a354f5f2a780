"""One blocking connection in the role ``subscription``: HELLO, heartbeats, requests and their answers, until any error ends it.

`SubscriptionClient` makes another then; nothing here tries twice.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from transport.address import Address
from transport.client import CONNECT_TIMEOUT
from transport.errors import BrokerError, ConnectionLostError, PeerTimeoutError, RemoteProtocolError
from transport.frames import MAX_FRAME_BYTES, FrameDecoder
from transport.liveness import DEFAULT_HEARTBEAT, HANDSHAKE_TIMEOUT, Liveness, Verdict
from transport.protocol import Protocol, Side
from transport.wire import Error, Fetch, Fetched, FetchEnd, Frame, Hello, Options, Ping, Pong, Request, Welcome, encode

ROLE = "subscription"
ANSWER_TIMEOUT = 10.0
"""Seconds for an answer beyond what the request itself may wait; a heartbeat answers sooner if the broker is gone."""
FETCH_TIMEOUT = 60.0
"""Seconds for the next piece of a fetch: a largest frame over a slow line."""
SEND_TIMEOUT = 10.0
"""Seconds for the kernel to take a request of a few dozen bytes."""
FETCH_WINDOW_MESSAGES = 262_144
"""Messages on their way to one reader; with tiny messages this, else the bytes, is the bound."""
FETCH_WINDOW_BYTES = 2 * MAX_FRAME_BYTES
"""Bytes on their way to one reader: a largest frame can be under way while another is being read."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SubscriptionState:
    """What WELCOME said of the subscription.

    Attributes:
        epoch: the owner's; 0 to one who browses.
        base: positions below are acknowledged.
        high: positions below are reserved; to one who browses, the queue's next sequence number.
        high_water: the queue's next sequence number.
        id_prefix: the first 8 bytes of the ids generated for this queue's messages.
    """

    epoch: int
    base: int
    high: int
    high_water: int
    id_prefix: bytes


class SubscriptionConnection:
    """One open connection: HELLO has been answered. Any error on it ends it; its user closes it."""

    def __init__(self, address: Address, hello: Hello, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._decoder = FrameDecoder()
        self._protocol = Protocol(Side.CLIENT, frozenset({ROLE}))
        # Bounded by what one receive can hold: it is emptied before the next.
        self._frames: deque[Frame] = deque()
        self._granted_messages = self._granted_bytes = 0
        self._used_messages = self._used_bytes = 0
        self._socket = socket.create_connection(address, CONNECT_TIMEOUT)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._liveness = Liveness(DEFAULT_HEARTBEAT, clock())
            self._protocol.said_hello(ROLE)
            self.send(hello)
            self.state = self._opened(self._next(clock() + HANDSHAKE_TIMEOUT))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the socket; what was on its way is gone."""
        self._socket.close()

    def send(self, frame: Frame) -> None:
        """Write ``frame``; every one of this role is small."""
        self._socket.settimeout(SEND_TIMEOUT)
        self._socket.sendall(b"".join(encode(frame)))
        self._liveness.said = self._clock()

    def catch_up(self) -> None:
        """Take what has come since the last request, heartbeats or the end, without waiting."""
        self._liveness.heard = self._clock()  # silence counts only while someone listens
        self._socket.settimeout(0)
        with suppress(BlockingIOError):
            while not self._frames:
                self._receive()
                self._socket.settimeout(0)  # an answer to PING has set it
        if self._frames:
            raise RemoteProtocolError(f"{type(self._frames[0]).__name__.upper()} came unasked")

    def answer(self, kind: type[T], request: int, wait: float = 0.0) -> T:
        """The answer to ``request``, which may take ``wait`` seconds by itself."""
        frame = self._next(self._clock() + wait + ANSWER_TIMEOUT)
        if isinstance(frame, Error):
            raise BrokerError(frame.code, frame.text)
        if not isinstance(frame, kind) or getattr(frame, "request", None) != request:
            raise RemoteProtocolError(f"request {request} was answered by {type(frame).__name__.upper()}")
        return frame

    def fetch(self, request: int, start: int, stop: int, *, gaps: bool = False) -> Iterator[Fetched]:
        """Every message of start <= p < stop; anything less is an error, unless there may be ``gaps``."""
        self.send(Fetch(request, start, stop))
        position = start
        messages = 0
        while True:
            self._grant()
            frame = self._next(self._clock() + FETCH_TIMEOUT)
            if isinstance(frame, FetchEnd) and frame.request == request:
                break
            if isinstance(frame, Error):
                raise BrokerError(frame.code, frame.text)
            if not isinstance(frame, Fetched) or frame.request != request:
                raise RemoteProtocolError(f"FETCH {request} was answered by {type(frame).__name__.upper()}")
            count = len(frame.batch)
            skipped = frame.position - position
            if skipped < 0 or (skipped and not gaps) or frame.position + count > stop:
                raise RemoteProtocolError(
                    f"positions {position}-{stop} were asked for, {frame.position}-{frame.position + count} came"
                )
            position = frame.position + count
            messages += count
            self._used_messages += count
            self._used_bytes += frame.batch.nbytes
            yield frame
        if frame.messages != messages or (position != stop and not gaps):
            raise RemoteProtocolError(f"FETCH of positions {start}-{stop} ended at {position}")

    def _grant(self) -> None:
        """Demand for more once half of the window is used; cumulative, as the protocol wants it."""
        if (
            self._granted_messages - self._used_messages <= FETCH_WINDOW_MESSAGES // 2
            or self._granted_bytes - self._used_bytes <= FETCH_WINDOW_BYTES // 2
        ):
            self._granted_messages = self._used_messages + FETCH_WINDOW_MESSAGES
            self._granted_bytes = self._used_bytes + FETCH_WINDOW_BYTES
            self.send(Request(self._granted_messages, self._granted_bytes))

    def _next(self, deadline: float) -> Frame:
        """The next frame that is no heartbeat; the broker's silence is noticed before ``deadline``."""
        while not self._frames:
            now = self._clock()
            if now >= deadline:
                raise PeerTimeoutError("the broker did not answer in time")
            match self._liveness.check(now):
                case Verdict.SILENT:
                    raise ConnectionLostError("the broker fell silent")
                case Verdict.PING:
                    self.send(Ping(0))
                case _:
                    self._socket.settimeout(max(0.001, min(deadline, self._liveness.next_check()) - now))
                    with suppress(TimeoutError):
                        self._receive()
        return self._frames.popleft()

    def _receive(self) -> None:
        """One receive, within the socket's timeout; heartbeats are answered here."""
        received = self._socket.recv_into(self._decoder.get_buffer())
        if not received:
            raise ConnectionLostError("the broker closed the connection")
        self._liveness.heard = self._clock()
        for raw in self._decoder.buffer_updated(received):
            frame = self._protocol.receive(raw)
            if isinstance(frame, Ping):
                self.send(Pong(frame.token))
            elif not isinstance(frame, Pong):
                self._frames.append(frame)

    def _opened(self, welcome: Frame) -> SubscriptionState:
        if isinstance(welcome, Error):
            raise BrokerError(welcome.code, welcome.text)
        assert isinstance(welcome, Welcome), "the protocol allows no other answer to HELLO"
        options: Options = welcome.options
        numbers: list[Any] = [options.get(name) for name in ("heartbeat_ms", "epoch", "base", "high", "high_water")]
        prefix = options.get("id_prefix")
        if not all(type(number) is int for number in numbers) or not isinstance(prefix, bytes):
            raise RemoteProtocolError(f"WELCOME to a subscription carries {sorted(options)}")
        self._decoder.max_frame_bytes = MAX_FRAME_BYTES
        self._liveness.interval = numbers[0] / 1000
        _, epoch, base, high, high_water = numbers
        return SubscriptionState(epoch, base, high, high_water, prefix)
