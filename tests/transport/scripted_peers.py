"""A broker that follows a script, frame by frame, on a real socket in a thread of its own: for clients that block."""

from __future__ import annotations

import queue
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import chain, repeat
from typing import Any, TypeVar

from tests.decoding import FrameDecoder
from transport.clients.backoff import Backoff
from transport.wire.codec import encode
from transport.wire.messages import VERSION, Frame, Hello, Welcome
from transport.wire.protocol import RECEIVING_ROLES, SENDING_ROLES, Protocol, Side

DEADLINE = 20.0
AT_ONCE = Backoff(minimum=0.0, maximum=0.0, jitter=0.0, give_up_after=DEADLINE)
F = TypeVar("F", bound=Frame)


class Peer:
    """The broker's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(DEADLINE)
        self._socket = connection
        self._decoder = FrameDecoder()
        self._protocol = Protocol(Side.BROKER, SENDING_ROLES | RECEIVING_ROLES)
        self._frames: list[Frame] = []

    def read(self, kind: type[F]) -> F:
        while not self._frames:
            received = self._socket.recv_into(self._decoder.get_buffer())
            assert received, f"the client closed where {kind.__name__} was expected"
            self._frames += [self._protocol.receive(raw) for raw in self._decoder.buffer_updated(received)]
        frame = self._frames.pop(0)
        assert isinstance(frame, kind), f"{frame} where {kind.__name__} was expected"
        return frame

    def read_to_end(self) -> list[Frame]:
        # A client that closes with something of ours unread has the kernel reset the connection.
        with suppress(ConnectionResetError):
            while received := self._socket.recv_into(self._decoder.get_buffer()):
                self._frames += [self._protocol.receive(raw) for raw in self._decoder.buffer_updated(received)]
        return self._frames

    def send(self, *frames: Frame) -> None:
        self._socket.sendall(b"".join(part for frame in frames for part in encode(frame)))

    def welcome(self, options: dict[str, Any], hellos: list[Hello] | None = None, *, heartbeat_ms: int = 5000) -> None:
        """Read HELLO and answer it."""
        hello = self.read(Hello)
        if hellos is not None:
            hellos.append(hello)
        self.send(Welcome(VERSION, 1, options | {"heartbeat_ms": heartbeat_ms}))
        self._protocol.said_welcome()
        self._decoder.max_frame_bytes = 1 << 24


Script = Callable[[Peer], None]


def refused_within_tls(peer: Peer) -> None:
    """A script for a connection whose handshake one of both ends breaks off: it is not played."""
    raise AssertionError("the handshake was done")


class ScriptedBroker:
    """Plays one script a connection; what a script finds wrong is raised by `finish`.

    With ``again`` the last one is played for each further connection as well.
    """

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None, again: bool = False) -> None:
        self._tls = tls
        self._again = again
        self._finished = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(DEADLINE)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._errors: queue.SimpleQueue[BaseException] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._play, args=(scripts,))
        self._thread.start()

    def _play(self, scripts: tuple[Script, ...]) -> None:
        with self._listener:
            for script in chain(scripts, repeat(scripts[-1]) if self._again else ()):
                try:
                    accepted, _ = self._listener.accept()
                    with accepted, self._under_tls(accepted) as connection:
                        if connection.fileno() >= 0:
                            script(Peer(connection))
                except BaseException as error:  # noqa: BLE001 - raised again by `finish`, on the test's thread
                    if self._finished:
                        return
                    self._errors.put(error)
                    return

    def _under_tls(self, accepted: socket.socket) -> socket.socket:
        """The connection; a closed one where the handshake is broken off, which is then what the test is about."""
        if self._tls is None:
            return accepted
        accepted.settimeout(DEADLINE)
        try:
            return self._tls.wrap_socket(accepted, server_side=True)
        except OSError:
            return accepted

    def finish(self) -> None:
        if self._again:
            self._finished = True
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive(), "the script is not at its end"
        if not self._errors.empty():
            raise self._errors.get()


def unused_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


Play = Callable[..., ScriptedBroker]
"""The fixture `play`: scripts and options in, a broker out."""
