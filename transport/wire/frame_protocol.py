"""Penstock's own protocol as a connection's shell carries it: frames cut, judged and decoded; frames encoded. docs/protocol.md.

Most of what a broker hears is a batch of a sender, and most of what it says its confirmation. Both take a line of their own here, which
says of the usual one what `codec` says of all: a batch of payloads without properties, a confirmation that rejects nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgpack

from actors.batch import OFFSET_BYTES, BinaryColumn, MessageBatch
from transport.wire.carried import ANSWERED, Answered, CarriedProtocol
from transport.wire.codec import decode, encode
from transport.wire.field_checks import MAX_INTEGER
from transport.wire.frames import MAX_FRAME_BYTES, PREFIX, PREFIX_BYTES, FrameDecoder, RawFrame
from transport.wire.liveness import DEFAULT_HEARTBEAT
from transport.wire.messages import NOT_LEADER, SILENT, Error, Frame, Hello, Ping, Pong, Send, Sent, Welcome
from transport.wire.protocol import Protocol, Side, State
from transport.wire.receiving import Part
from transport.wire.work import BYTES_A_UNIT, MESSAGES_A_UNIT, paid_for, work_of

_USUAL_TYPES = [int, int, type(None), int, int, bool, type(None), type(None)]
"""Of a usual SEND's header: type, sequence, properties; then what describes its batch: messages, bytes, ids, keys, headers."""
_USUAL_SEQUENCE = MAX_INTEGER - MAX_FRAME_BYTES
"""Behind it a SEND may end beyond the greatest number, which the codec judges."""


class FrameProtocol(CarriedProtocol[Frame]):
    """One side of one framed connection.

    Args:
        states: its state machine.
        heartbeat: seconds, where WELCOME names none.
    """

    receiver: FrameDecoder
    noun = "frame"

    def __init__(self, states: Protocol, heartbeat: float = DEFAULT_HEARTBEAT) -> None:
        self.heartbeat: float | None = heartbeat
        self.receiver = FrameDecoder()
        self.states = states
        self.serves = states.side is Side.BROKER
        self.is_open = False
        self._answer: Sequence[Part] = ()

    @property
    def closed(self) -> bool:
        """Whether the peer has said its last word, or was told ours."""
        return self.states.state is State.CLOSED

    @closed.setter
    def closed(self, _true: bool) -> None:
        self.states.state = State.CLOSED

    def next_event(self, share: int) -> Frame | Answered | None:
        """The next frame; errors as of `FrameDecoder.next_frame` and `Protocol.receive`."""
        decoder = self.receiver
        # Bytes that are no frame were paid for as they came.
        self.due = 0
        raw = decoder.next_frame()
        if raw is None:
            return None
        if self.states.takes_sends and (usual := self._usual_send(raw, share)) is not None:
            return usual
        self.work = work_of(raw)
        self.due = max(1, self.work - paid_for(raw))
        if self.due > share:
            decoder.put_back(raw)
            return None
        frame = self.states.receive(raw)
        if type(frame) in _OF_ITSELF:
            return self._of_itself(frame)
        return frame

    def send(self, event: Frame) -> Sequence[Part]:
        """The buffers of a frame; errors as of `encode`."""
        if type(event) is Sent and event.rejected is None:
            packed = msgpack.packb((Sent.TYPE, event.up_to, event.first, None))
            return (PREFIX.pack(PREFIX_BYTES + len(packed), len(packed)) + packed,)
        parts = encode(event)
        if type(event) in _OPENING:
            self._opened(event)
        return parts

    def last_words(self, code: str, text: str) -> Sequence[Part]:
        """ERROR; a peer that closed on us with an ERROR of its own needs no answer."""
        if self.closed:
            return ()
        return encode(Error(code, text, close=True, leader=self.states.leader if code == NOT_LEADER else ""))

    def answer(self) -> Sequence[Part]:
        """PONG to a PING."""
        answer, self._answer = self._answer, ()
        return answer

    def ping(self) -> Sequence[Part]:
        """PING."""
        return encode(Ping(0))

    def _usual_send(self, raw: RawFrame, share: int) -> Send | None:
        """A SEND that has nothing special; None for one that the codec is to judge, which may find it wrong."""
        header, body = raw
        if list(map(type, header)) != _USUAL_TYPES:
            return None
        kind, sequence, _, count, data_bytes, has_ids, _, _ = header
        size = len(body)
        if (
            kind != Send.TYPE
            or has_ids
            or not 0 <= sequence <= _USUAL_SEQUENCE
            or count < 1
            or data_bytes < 0
            or OFFSET_BYTES * (count + 1) + data_bytes != size
        ):
            return None
        self.work = due = 1 + size // BYTES_A_UNIT + count // MESSAGES_A_UNIT
        if size > BYTES_A_UNIT:
            due = max(1, due - paid_for(raw))
        self.due = due
        offsets_bytes = size - data_bytes
        offsets = body[:offsets_bytes].cast("i")
        first = offsets[0]
        if due > share or first < 0 or offsets[-1] - first != data_bytes:
            return None
        # Before more is looked at: whoever was granted nothing can have nothing checked.
        if (granted := self.states.granted) is not None:
            granted.use(count, size)
        batch = MessageBatch(BinaryColumn(offsets, body[offsets_bytes:]), nbytes=size)
        if count > 1 and not _ascending(offsets):
            # Wrong, as the codec says in so many words.
            decode(raw)
        return Send(sequence, None, batch)

    def _of_itself(self, frame: Frame) -> Frame | Answered:
        """A frame that concerns the connection as well, or alone."""
        if isinstance(frame, Welcome):
            self._opened(frame)
            return frame
        if isinstance(frame, Ping):
            self._answer = encode(Pong(frame.token))
            if not self.is_open:
                self.states.signed = True
        elif isinstance(frame, Pong) and frame.token and frame.token == self.states.awaits_pong:
            self.states.awaits_pong = 0
            return frame
        return ANSWERED

    def _opened(self, frame: Frame) -> None:
        """Heartbeat and full-size frames begin once HELLO is answered."""
        if isinstance(frame, Hello):
            self.states.said_hello(frame)
            return
        assert isinstance(frame, Welcome), "nothing else opens"
        if self.states.state is not State.OPEN:
            self.states.said_welcome()
        self.receiver.max_frame_bytes = self.states.largest_frame
        heartbeat_ms = frame.options.get("heartbeat_ms")
        if type(heartbeat_ms) is int and heartbeat_ms > 0:
            self.heartbeat = heartbeat_ms / 1000
        silent_ms = frame.options.get(SILENT)
        if type(silent_ms) is int and silent_ms > 0:
            self.silence = silent_ms / 1000
        self.is_open = True


def _ascending(offsets: memoryview) -> bool:
    """Whether they never decrease. Sorting what is sorted is one pass in C."""
    values = offsets.tolist()
    return sorted(values) == values


_OPENING = frozenset({Hello, Welcome})
_OF_ITSELF = frozenset({Welcome, Ping, Pong})
"""Frames that concern the connection as well, or alone."""
