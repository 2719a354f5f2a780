"""Connections of raw frames, and what of a broker's answer version 1 has promised.

It imports nothing of the product: frames are bytes here.
"""

from __future__ import annotations

import json
import socket
import struct
from dataclasses import dataclass
from typing import Any

import msgpack

PREFIX = struct.Struct(">IH")
SECONDS = 10.0
"""Longest wait for an answer."""
WELCOME, ERROR, PING, DEMAND, DELIVER, FETCHED, RESULT = 2, 3, 4, 16, 33, 53, 65
ANY_VALUE: dict[int, set[int]] = {
    WELCOME: {2},  # the epoch
    ERROR: {2},  # the text
    DEMAND: {1, 2},  # how much is the broker's business
    DELIVER: {2},  # the time
    FETCHED: {4},  # the time
}
"""Fields of a header, by its type, of which the kind is promised and not the value."""
ANY_OPTION = {"id_prefix", "heartbeat_ms"}
"""Options of WELCOME likewise, and facts of RESERVED that tell of the moment."""
ANY_FACT = {"backlog_bytes", "oldest_ms", "sender_demand", "reserved_bytes"}


@dataclass(frozen=True)
class Frame:
    """One frame as it came or goes."""

    data: bytes

    @property
    def header(self) -> list[Any]:
        """Its header."""
        _, size = PREFIX.unpack_from(self.data)
        header: list[Any] = msgpack.unpackb(self.data[PREFIX.size : PREFIX.size + size])
        return header

    @property
    def body(self) -> bytes:
        """Its body."""
        _, size = PREFIX.unpack_from(self.data)
        return self.data[PREFIX.size + size :]


def frame(header: list[Any], body: bytes = b"") -> Frame:
    """A frame of these."""
    packed = msgpack.packb(header)
    return Frame(PREFIX.pack(PREFIX.size + len(packed) + len(body), len(packed)) + packed + body)


class Connection:
    """A connection that says bytes and hears frames. PING is passed over: a quiet broker says it when it likes."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def say(self, data: bytes) -> None:
        """Write ``data``."""
        self._socket.sendall(data)

    def hear(self) -> Frame | None:
        """The next frame; None at the end of the stream."""
        while True:
            head = self._take(PREFIX.size)
            if not head:
                return None
            found = Frame(head + self._take(PREFIX.unpack(head)[0] - PREFIX.size))
            if found.header[0] != PING:
                return found

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                assert not data, "the stream ended inside a frame"
                return b""
            data += more
        return data


def broken_promise(recorded: Frame, heard: Frame) -> str | None:
    """What ``heard`` breaks that version 1 has promised by ``recorded``; None where it keeps all of it.

    A later broker may add fields at a header's end, options, and keys of a JSON object. It may not leave any out, change its kind, or
    answer another value where the value is no matter of the moment.
    """
    old, new = recorded.header, heard.header
    kind = old[0]
    if new[0] != kind:
        return f"frame {new} came in place of {old}"
    if len(new) < len(old):
        return f"{new} has fewer fields than {old}"
    for index, (was, now) in enumerate(zip(old, new, strict=False)):
        if isinstance(was, dict):
            wrong = _options(was, now)
        elif index in ANY_VALUE.get(kind, ()):
            wrong = None if type(was) is type(now) else f"{now!r} in place of {was!r}"
        else:
            wrong = None if (type(was), was) == (type(now), now) else f"{now!r} in place of {was!r}"
        if wrong:
            return f"field {index} of {new}: {wrong}"
    if kind == RESULT:
        return _shape(json.loads(recorded.body), json.loads(heard.body), "the answer")
    return None if recorded.body == heard.body else f"{heard.body!r} in place of {recorded.body!r}"


def _options(was: dict[str, Any], now: Any) -> str | None:
    for name, value in was.items():
        if name not in now:
            return f"{name} is missing"
        other = now[name]
        if name in ANY_OPTION | ANY_FACT:
            if type(other) is not type(value):
                return f"{name} is {other!r}, was {value!r}"
        elif other != value:
            return f"{name} is {other!r}, was {value!r}"
    return None


def _shape(was: Any, now: Any, where: str) -> str | None:
    """What is missing, or of another kind, in the answer to a command: its figures are of the moment."""
    if isinstance(was, dict):
        if not isinstance(now, dict):
            return f"{where} is {now!r:.80}, no object"
        for name, value in was.items():
            if name not in now:
                return f"{where} has no {name}"
            if wrong := _shape(value, now[name], f"{where}.{name}"):
                return wrong
        return None
    if isinstance(was, list):
        if not isinstance(now, list) or (was and not now):
            return f"{where} is {now!r:.80}, not rows"
        # Who is connected at the moment makes no difference; what is said of each does.
        rows = enumerate(now if was else ())
        return next((wrong for index, row in rows if (wrong := _shape(was[0], row, f"{where}[{index}]"))), None)
    if was is None or now is None:
        # What is not known at this moment, or not set.
        return None
    same = (
        isinstance(was, int | float) and isinstance(now, int | float) and isinstance(was, bool) is isinstance(now, bool)
    )
    return None if same or type(was) is type(now) else f"{where} is {now!r:.80}, was {was!r:.80}"
