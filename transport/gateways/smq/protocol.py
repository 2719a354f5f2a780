"""The wire of kentfitch/Simple-message-queue, both ports: bytes in, events out; no I/O (docs/smq.md).

There is no greeting, no name of a queue and no error frame: whoever breaks the protocol is told by the end of the connection. Lengths are
four bytes, signed, big-endian; ids are sixteen bytes that nobody looks into.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from transport.errors import FrameTooLargeError, RemoteProtocolError
from transport.wire.carried import DataProtocol
from transport.wire.receiving import Part
from transport.wire.work import RECEIVED_BYTES_A_UNIT

MAX_PAYLOAD_BYTES: Final = 8 << 20
"""Of one message: half a frame, so that every native receiver can have it. The original takes what its memory holds."""
ID_BYTES: Final = 16

_PLAIN, _WITH_ID, _END, _YES, _REPLAYED = b"MIEYR"
_HEADS: Final = {_PLAIN: 5, _WITH_ID: 5 + ID_BYTES}
"""Bytes before the payload of each kind of message."""
_LENGTH: Final = Struct(">i")
_DELIVERY: Final = Struct(f">B{ID_BYTES}si")


@dataclass(frozen=True, slots=True)
class SourceMessage:
    """A source says: store this.

    ``id`` is the source's own, or None where the broker is to make one; ``payload`` may be empty.
    """

    id: bytes | None
    payload: bytes


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """A source says: that was all."""


@dataclass(frozen=True, slots=True)
class Yes:
    """One or more messages in a row are accepted: by the broker, that has stored them, or by the sink, that has received them."""

    count: int = 1


@dataclass(frozen=True, slots=True)
class SinkMessage:
    """The broker says: have this. ``replayed`` where it may have been delivered before."""

    id: bytes
    payload: Part
    replayed: bool


class SourceProtocol(DataProtocol[SourceMessage | SourceEnd | Yes]):
    """The broker's side of the port of sources."""

    def __init__(self) -> None:
        super().__init__()
        self._received = bytearray()

    def receive_data(self, data: memoryview) -> None:
        """Take what has come."""
        self._received += data

    @property
    def kept(self) -> int:
        """As `DataProtocol.kept`."""
        return len(self._received)

    @property
    def waiting(self) -> bool:
        """As `DataProtocol.waiting`."""
        received = self._received
        if not received:
            return False
        head = _HEADS.get(received[0])
        if head is None:
            return True
        if len(received) < head:
            return False
        (length,) = _LENGTH.unpack_from(received, head - 4)
        return not 0 <= length <= MAX_PAYLOAD_BYTES or len(received) >= head + length

    def read(self) -> SourceMessage | SourceEnd | None:
        """As `DataProtocol.read`."""
        if not self.waiting:
            return None
        received = self._received
        kind = received[0]
        if kind == _END:
            received.clear()  # what follows it is of no interest
            return SourceEnd()
        head = _HEADS.get(kind)
        if head is None:
            raise RemoteProtocolError(f"a source said a byte {kind:#04x}, which is none of M, I and E")
        (length,) = _LENGTH.unpack_from(received, head - 4)
        if length < 0:
            raise RemoteProtocolError(f"a source announced {length} bytes")
        if length > MAX_PAYLOAD_BYTES:
            raise FrameTooLargeError(length, MAX_PAYLOAD_BYTES, "send smaller messages", "message")
        given = bytes(received[1 : 1 + ID_BYTES]) if kind == _WITH_ID else None
        message = SourceMessage(given, bytes(received[head : head + length]))
        del received[: head + length]
        self.work = self.due = 1 + length // RECEIVED_BYTES_A_UNIT
        return message

    def send(self, event: SourceMessage | SourceEnd | Yes) -> list[Part]:
        """The broker says Yes and nothing else."""
        assert type(event) is Yes
        return [b"Y" * event.count]


class SinkProtocol(DataProtocol[SinkMessage | Yes]):
    """The broker's side of the port of sinks. A Yes names no message; those that come early count."""

    def __init__(self) -> None:
        super().__init__()
        self._accepted = 0
        self._wrong: int | None = None

    def receive_data(self, data: memoryview) -> None:
        """Count what has come: a sink says Yes, or breaks the protocol."""
        if self._wrong is not None:
            return
        rest = bytes(data).lstrip(b"Y")
        self._accepted += len(data) - len(rest)
        if rest:
            self._wrong = rest[0]

    kept = 0
    """Nothing: numbers take no room."""

    @property
    def waiting(self) -> bool:
        """As `DataProtocol.waiting`."""
        return self._accepted > 0 or self._wrong is not None

    def read(self) -> Yes | None:
        """As `DataProtocol.read`: what was said before a wrong byte counts."""
        if self._accepted:
            accepted, self._accepted = self._accepted, 0
            return Yes(accepted)
        if self._wrong is not None:
            raise RemoteProtocolError(f"a sink said a byte {self._wrong:#04x}, which is no Y")
        return None

    def send(self, event: SinkMessage | Yes) -> list[Part]:
        """The broker delivers and says nothing else."""
        assert type(event) is SinkMessage
        kind = _REPLAYED if event.replayed else _PLAIN
        head = _DELIVERY.pack(kind, event.id, len(event.payload))
        return [head, event.payload] if event.payload else [head]
