"""The wire of kentfitch/Simple-message-queue, both ports: bytes in, events out; no I/O (docs/smq.md).

There is no greeting and no error frame: whoever breaks the protocol is told by the end of the connection. Lengths are signed, big-endian.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from transport.errors import FrameTooLargeError, RemoteProtocolError
from transport.wire.carried import DataProtocol
from transport.wire.receiving import Part
from transport.wire.work import RECEIVED_BYTES_A_UNIT

MAX_PAYLOAD_BYTES: Final = 8 << 20
"""Of one message: half a frame, so that every native receiver can have it. The original takes what its memory holds."""
MAX_GROUP_MESSAGES: Final = 256
"""Messages that are given together, of what one receive has brought: a share of a turn."""
MESSAGES_A_UNIT: Final = 8

_PLAIN, _WITH_ID, _END, _REPLAYED = b"MIER"
_HEADS: Final = {_PLAIN: 5, _WITH_ID: 21}
"""Bytes before the payload of each kind of message."""
_LENGTH: Final = Struct(">i")
_DELIVERY: Final = Struct(">B16si")


class SourceMessages(NamedTuple):
    """A source says: store these, or with none: that was all. ``ids`` are its own, end to end; None where the broker is to make them."""

    payloads: tuple[bytes, ...]
    ids: bytes | None = None


class Yes(NamedTuple):
    """One or more messages in a row are accepted: by the broker, that has stored them, or by the sink, that has received them."""

    accepted: int


class SinkMessage(NamedTuple):
    """The broker says: have this. ``replayed`` where it may have been delivered before."""

    id: bytes
    payload: Part
    replayed: bool


class SourceProtocol(DataProtocol[SourceMessages | Yes]):
    """The broker's side of the port of sources. What is given at once is within the limits; its last message may lead beyond the bytes."""

    splits = True
    most_messages, most_bytes = MAX_GROUP_MESSAGES, MAX_PAYLOAD_BYTES

    def __init__(self) -> None:
        super().__init__()
        self._received = bytearray()

    def receive_data(self, data: memoryview) -> None:
        """Take what has come, but of one who has said the last word."""
        if not self.closed:
            self._received += data

    @property
    def kept(self) -> int:
        """As `DataProtocol.kept`."""
        return len(self._received)

    @property
    def whole(self) -> int:
        """As `DataProtocol.whole`: of a message that can be its bytes, of anything else those by which it is known."""
        received = self._received
        head = _HEADS.get(received[0], 1) if received else 1
        if len(received) < head or head == 1:
            return head
        (length,) = _LENGTH.unpack_from(received, head - 4)
        return head + length if 0 <= length <= MAX_PAYLOAD_BYTES else head

    @property
    def waiting(self) -> bool:
        """As `DataProtocol.waiting`."""
        return len(self._received) >= self.whole

    def read(self) -> SourceMessages | None:
        """As `DataProtocol.read`: as many messages of one kind as are complete, within the limit of a group."""
        if not self.waiting:
            return None
        received, kind = self._received, self._received[0]
        if kind == _END:
            self._received, self.closed = bytearray(), True  # what follows is of no interest
            return SourceMessages(())
        if (head := _HEADS.get(kind)) is None:
            raise RemoteProtocolError(f"a source said a byte {kind:#04x}, which is none of M, I and E")
        payloads: list[bytes] = []
        ids, at, most, room = bytearray(), 0, self.most_messages, self.most_bytes
        with memoryview(received) as view:
            while (begin := at + head) <= len(view) and view[at] == kind and len(payloads) < most and at < room:
                (length,) = _LENGTH.unpack_from(view, begin - 4)
                if not 0 <= length <= MAX_PAYLOAD_BYTES or begin + length > len(view):
                    break
                ids += view[at + 1 : begin - 4]
                at = begin + length
                payloads.append(bytes(view[begin:at]))
        if not payloads and length < 0:
            raise RemoteProtocolError(f"a source announced a message of {length} bytes")
        if not payloads:
            raise FrameTooLargeError(length, MAX_PAYLOAD_BYTES, "send smaller ones", "message")
        del received[:at]
        self.work = self.due = 1 + len(payloads) // MESSAGES_A_UNIT + at // RECEIVED_BYTES_A_UNIT
        return SourceMessages(tuple(payloads), bytes(ids) or None)

    def send(self, event: SourceMessages | Yes) -> list[Part]:
        """The broker says Yes and nothing else."""
        assert type(event) is Yes
        return [b"Y" * event.accepted]


class SinkProtocol(DataProtocol[SinkMessage | Yes]):
    """The broker's side of the port of sinks. A Yes names no message; those that come early count."""

    kept = 0

    def __init__(self) -> None:
        super().__init__()
        self._accepted, self._wrong = 0, b""

    def receive_data(self, data: memoryview) -> None:
        """Count what has come: a sink says Yes, or breaks the protocol."""
        if not self._wrong:
            self._wrong = bytes(data).lstrip(b"Y")[:1]
            self._accepted += len(data) if not self._wrong else bytes(data).index(self._wrong)

    @property
    def waiting(self) -> bool:
        """As `DataProtocol.waiting`."""
        return self._accepted > 0 or bool(self._wrong)

    def read(self) -> Yes | None:
        """As `DataProtocol.read`: what was said before a wrong byte counts."""
        accepted, self._accepted = self._accepted, 0
        if self._wrong and not accepted:
            raise RemoteProtocolError(f"a sink said a byte {self._wrong[0]:#04x}, which is no Y")
        return Yes(accepted) if accepted else None

    def send(self, event: SinkMessage | Yes) -> list[Part]:
        """The broker delivers and says nothing else."""
        assert type(event) is SinkMessage
        head = _DELIVERY.pack(_REPLAYED if event.replayed else _PLAIN, event.id, len(event.payload))
        return [head, event.payload] if event.payload else [head]
