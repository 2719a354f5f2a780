"""One blocking connection, for programs that have no event loop: HELLO, heartbeats, frames, until any error ends it.

A plain socket around the same sans-IO frames, protocol and liveness as everything else. Each role has a subclass. Nothing here tries
twice: `BlockingLink` makes another connection.
"""

from __future__ import annotations

import select
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from transport.clients.authentication import NO_CREDENTIALS, Credentials, Exchange, unexpected
from transport.clients.backoff import CONNECT_TIMEOUT
from transport.errors import (
    BrokerError,
    ConnectionLostError,
    FellSilentError,
    PeerTimeoutError,
    RemoteProtocolError,
    TransportError,
)
from transport.wire.address import Address
from transport.wire.codec import encode
from transport.wire.frames import FrameDecoder
from transport.wire.liveness import (
    DEFAULT_HEARTBEAT,
    HANDSHAKE_TIMEOUT,
    LONE_SIGN_SECONDS,
    SIGN_SECONDS,
    SIGNS_MISSED,
    SILENT_INTERVALS,
    Liveness,
    Verdict,
)
from transport.wire.messages import SILENT, Auth, Error, Frame, Hello, Options, Ping, Pong, Welcome
from transport.wire.protocol import Protocol, Side, State

if TYPE_CHECKING:
    from transport.clients.tls_socket import TlsSocket

ANSWER_TIMEOUT = 10.0
"""Seconds for an answer beyond what the request itself may wait; a heartbeat answers sooner if the broker is gone."""
SEND_TIMEOUT = 10.0
"""Seconds, or three heartbeats where that is longer, for the broker to take some more of a frame or to say that it is there."""
WRITE_TIMEOUT = 300.0
"""Seconds for the broker to take all of what is sent at once, whatever it says: longer than it has senders wait for memory."""
MAX_HEARD_BYTES = 1024 * 1024
"""Bytes that are received while one write waits: the broker's grants, confirmations and heartbeats are less by far."""
CATCH_UP_TIMEOUT = 1.0
"""Seconds for which what has come is taken without waiting; what still comes then waits its turn."""
SIGNED_TIMEOUT = 60.0
"""Seconds for the answer to HELLO of a broker that says meanwhile that it is there: as long as others are sought by default, at most."""
MAX_HEARTBEATS = 10_000
"""Heartbeats taken while one frame is waited for: in the longest wait a broker's own are some dozens."""
MAX_PARTS = 512
"""Buffers in one call of the kernel's; it takes 1024 (POSIX IOV_MAX on Linux)."""

T = TypeVar("T")


def refusal(frame: Error, request: int) -> BrokerError:
    """What the broker says to ``request``, whose number is of no use to whoever reads it."""
    return BrokerError(frame.code, frame.text.removeprefix(f"request {request}: "))


class BlockingConnection:
    """One open connection: HELLO has been answered. Any error on it ends it; its user closes it.

    Args:
        address: the broker's.
        hello: what to open with; its role is the connection's.
        clock: monotonic seconds.
        credentials: how this side proves itself, and knows the broker.
        patience: seconds for the connection, and again for the broker's first word on it; there may be others to ask.
        signed: seconds for its answer to HELLO where it says meanwhile that it is there; what any broker has, where that is more.

    Raises:
        OSError: no connection.
        TransportError: the broker refused, or did not answer as the protocol has it.
    """

    def __init__(
        self,
        address: Address,
        hello: Hello,
        clock: Callable[[], float],
        credentials: Credentials = NO_CREDENTIALS,
        patience: float = CONNECT_TIMEOUT,
        signed: float = SIGNED_TIMEOUT,
    ) -> None:
        self._clock = clock
        self._patience = patience
        self._decoder = FrameDecoder()
        self._protocol = Protocol(Side.CLIENT, frozenset({hello.role}))
        # Bounded by what one receive can hold: it is emptied before the next. While a write waits it may be ``MAX_HEARD_BYTES`` more.
        self._frames: deque[Frame] = deque()
        self._heartbeats = 0
        self._heard = 0
        self._sign = LONE_SIGN_SECONDS if patience >= CONNECT_TIMEOUT else SIGN_SECONDS
        self._more_if_signed = max(0.0, signed - HANDSHAKE_TIMEOUT)
        self._more = 0.0  # beyond what any broker has for its answer, as long as this one says that it is there
        self._tls: TlsSocket | None = None
        self._socket = self._connected(address, credentials)
        try:
            self._liveness = Liveness(DEFAULT_HEARTBEAT, clock())
            self._open(credentials.hello(hello, self._sign), credentials.exchange())
        except (OSError, TransportError) as error:
            self.close()
            # What the broker said within TLS of why, if it did, rather than that it took no more.
            said = error if self._tls is None else self._tls.failure or error
            if (better := _explained(said, address, credentials, self._heard)) is not error:
                raise better from error
            raise
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the socket; what was on its way is gone."""
        self._socket.close()

    def send(self, *frames: Frame) -> None:
        """Write ``frames``, a batch's buffers uncopied.

        A broker that is short of memory reads a large frame late, and says meanwhile that it is there. So this side listens while it
        writes. A PING needs no answer then: the broker does not take a client for silent which it does not read.
        """
        waiting = deque(memoryview(part).cast("B") for frame in frames for part in encode(frame) if len(part))
        began = sign = self._clock()
        quiet = min(self._liveness.patience, max(SEND_TIMEOUT, self._liveness.interval * SILENT_INTERVALS))
        heard = 0
        self._socket.settimeout(0)
        while waiting:
            taken = self._write(list(islice(waiting, MAX_PARTS)))
            if not taken:
                events = select.POLLOUT | (select.POLLIN if heard < MAX_HEARD_BYTES else 0)
                left = min(began + WRITE_TIMEOUT, sign + quiet) - self._clock()
                ready = self._wait_for(events, left) if left > 0 else 0
                if not ready:
                    raise PeerTimeoutError(f"the broker did not take what was sent for {self._clock() - began:.0f} s")
                if ready & ~select.POLLOUT:
                    with suppress(BlockingIOError):  # under TLS: a part of a record, of which nothing can be read yet
                        heard += self._take_in()[0]
            while waiting and taken >= len(waiting[0]):
                taken -= len(waiting.popleft())
            if taken:
                waiting[0] = waiting[0][taken:]
            sign = self._clock()
        self._liveness.said = self._clock()

    def beat(self) -> float:
        """Say that this side is there, if it has said nothing for a heartbeat; returns the seconds until it should do so again."""
        self.catch_up()
        now = self._clock()
        if self._liveness.check(now) is Verdict.PING:
            self.send(Ping(0))
        return max(0.0, self._liveness.next_check() - now)

    def catch_up(self) -> None:
        """Take what has come since the last request, heartbeats or the end, without waiting."""
        self._receive_waiting()
        if self._frames:
            raise RemoteProtocolError(f"{type(self._frames[0]).__name__.upper()} came unasked")

    def answer(self, kind: type[T], request: int, wait: float = 0.0) -> T:
        """The answer to ``request``, which may take ``wait`` seconds by itself."""
        frame = self._next(self._clock() + wait + ANSWER_TIMEOUT)
        if isinstance(frame, Error):
            raise refusal(frame, request)
        if not isinstance(frame, kind) or getattr(frame, "request", None) != request:
            raise RemoteProtocolError(f"request {request} was answered by {type(frame).__name__.upper()}")
        return frame

    def _connected(self, address: Address, credentials: Credentials) -> socket.socket | TlsSocket:
        """A socket, under TLS if it is to be; the broker is verified then."""
        plain = socket.create_connection(address, self._patience)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if credentials.context is None:
                return plain
            from transport.clients.tls_errors import TLS_HANDSHAKE_TIMEOUT  # noqa: PLC0415 - most connections are without
            from transport.clients.tls_socket import TlsSocket  # noqa: PLC0415 - as above

            seconds = min(TLS_HANDSHAKE_TIMEOUT, self._patience)
            tls = TlsSocket(plain, credentials.context, credentials.server_name(address.host), seconds)
        except BaseException as error:
            plain.close()
            if isinstance(error, OSError) and (better := _explained(error, address, credentials, heard=0)) is not error:
                raise better from error
            raise
        self._tls = tls
        return tls

    def _open(self, hello: Hello, exchange: Exchange | None) -> None:
        """Say HELLO, prove who this is and that the broker is the one that knows it, and hear WELCOME."""
        deadline = self._clock() + HANDSHAKE_TIMEOUT
        self._protocol.said_hello(hello)
        self.send(hello, *(() if exchange is None else (exchange.first,)))
        if self._patience < CONNECT_TIMEOUT:
            # Whoever has spoken once is there, and may take its time.
            self._await_first(self._clock() + self._patience)
        while isinstance(answer := self._next(deadline), Auth) and exchange is not None:
            if self._frames and not exchange.challenged:
                raise unexpected(self._frames[0])
            if (proof := exchange.answered(answer)) is not None:
                self.send(proof)
        self._welcomed(answer)

    def _await_first(self, deadline: float) -> None:
        """Wait until something has come, or for `_next` to say that nothing does."""
        while not self._heard and (left := deadline - self._clock()) > 0:
            self._socket.settimeout(left)
            with suppress(TimeoutError):
                self._receive()
        if not self._heard:
            raise PeerTimeoutError("the broker said nothing in time")

    def _opened(self, options: Options) -> None:
        """What WELCOME said; a subclass reads what its role is told."""

    def _next(self, deadline: float) -> Frame:
        """The next frame that is no heartbeat; the broker's silence is noticed before ``deadline``."""
        self._heartbeats = 0
        self._liveness.begin_to_listen(self._clock())
        while not self._frames:
            now = self._clock()
            if now >= deadline + self._more:
                raise PeerTimeoutError("the broker did not answer in time")
            match self._liveness.check(now):
                case Verdict.SILENT:
                    raise FellSilentError("the broker fell silent")
                case Verdict.PING:
                    self.send(Ping(0))
                case _:
                    self._socket.settimeout(max(0.001, min(deadline + self._more, self._liveness.next_check()) - now))
                    with suppress(TimeoutError):
                        self._receive()
        return self._frames.popleft()

    def _receive_waiting(self) -> None:
        """Receive until there is a frame for the role, or nothing more to receive now, or time is up."""
        began = now = self._clock()
        self._liveness.heard = now  # silence counts only while someone listens
        self._heartbeats = 0
        with suppress(BlockingIOError):
            while not self._frames and now - began < CATCH_UP_TIMEOUT:
                self._socket.settimeout(0)  # an answer to PING has set it
                self._receive()
                now = self._clock()

    def _receive(self) -> None:
        """One receive, within the socket's timeout; heartbeats are answered here."""
        _, pongs = self._take_in()
        if pongs:
            self.send(*pongs)

    def _take_in(self) -> tuple[int, list[Pong]]:
        """One receive, within the socket's timeout; how many bytes, and the answers to the heartbeats among them."""
        received = self._socket.recv_into(self._decoder.get_buffer())
        if not received:
            raise ConnectionLostError("the broker closed the connection")
        self._heard += received
        self._liveness.heard = self._clock()
        pongs: list[Pong] = []
        self._decoder.received(received)
        came = len(self._frames) + self._heartbeats
        try:
            while (raw := self._decoder.next_frame()) is not None:
                frame = self._protocol.receive(raw)
                if isinstance(frame, Ping):
                    pongs.append(Pong(frame.token))
                    if self._protocol.state is State.OPENING:
                        # It cannot answer HELLO yet: it is waited for as long as it gives signs.
                        self._liveness.patience = SIGNS_MISSED * self._sign
                        self._more = self._more_if_signed
                elif not isinstance(frame, Pong):
                    self._frames.append(frame)
                    continue
                self._heartbeats += 1
        except RemoteProtocolError as error:
            # What is no frame behind frames that are good is told by the next receive: they count.
            if error is not self._decoder.error or came == len(self._frames) + self._heartbeats:
                raise
        if self._heartbeats > MAX_HEARTBEATS:
            raise RemoteProtocolError(f"the broker sent {self._heartbeats} heartbeats, where a few were due")
        return received, pongs

    def _wait_for(self, events: int, seconds: float) -> int:
        """Which of the socket's ``events`` happen meanwhile; 0 for none."""
        if events & select.POLLIN and self._tls is not None and self._tls.pending():
            return select.POLLIN
        poll = select.poll()
        poll.register(self._socket, events)
        return sum(happened for _, happened in poll.poll(seconds * 1000))

    def _write(self, parts: list[memoryview]) -> int:
        """One write of what the socket takes at once; where the broker has closed, its reason if it gave one."""
        try:
            return self._socket.sendmsg(parts)
        except BlockingIOError:
            return 0
        except (BrokenPipeError, ConnectionResetError):
            began = self._clock()
            with suppress(OSError, ConnectionLostError):
                while self._clock() - began < CATCH_UP_TIMEOUT:
                    self._take_in()  # raises the ERROR that is behind what else has come
            raise

    def _welcomed(self, welcome: Frame) -> None:
        if isinstance(welcome, Error):
            raise BrokerError(welcome.code, welcome.text)
        assert isinstance(welcome, Welcome), "the protocol allows no other answer to HELLO"
        heartbeat_ms = welcome.options.get("heartbeat_ms")
        if type(heartbeat_ms) is not int or heartbeat_ms < 1:
            raise RemoteProtocolError(f"WELCOME carries no heartbeat_ms, only {sorted(welcome.options)}")
        self._decoder.max_frame_bytes = self._protocol.largest_frame
        silent_ms = welcome.options.get(SILENT)
        silence = silent_ms / 1000 if type(silent_ms) is int and silent_ms > 0 else None
        self._liveness.agree(heartbeat_ms / 1000, silence)
        self._more = 0.0
        self._opened(welcome.options)


def _explained(error: Exception, address: Address, credentials: Credentials, heard: int) -> Exception:
    from transport.clients.tls_errors import explained  # noqa: PLC0415 - only for an error

    return explained(error, address, credentials, heard)
