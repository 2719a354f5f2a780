"""What the shell of a connection asks of the protocol that it carries: bytes in, events out; events to bytes. No I/O, no clock.

A protocol says how its bytes are cut into events, and how an event is written: the shape of h11. The shell
(`transport.shell.connection.Connection`) does the rest for each of them: it receives and writes, shares the loop fairly, holds back a peer
that does not read, keeps time, and ends the connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

from transport.wire.frames import FIRST_PARTIAL_BYTES
from transport.wire.receiving import AMPLE, Part, Receiver, Room, shared_view

E = TypeVar("E")


class Answered:
    """The event of what the protocol has dealt with by itself."""

    __slots__ = ()


ANSWERED: Final = Answered()
"""Given in place of an event: `CarriedProtocol.answer` has what is to be said to it."""
ANY_SHARE = 1 << 62
"""The share of an event that is to be handled whatever its work is."""


class CarriedProtocol(ABC, Generic[E]):
    """One side of one connection, as its shell sees it.

    Attributes:
        receiver: what was received.
        work: units of work of the event that was given last, for whoever handles it.
        due: how many of them its turn has to pay for.
        is_open: whether the handshake is over. One without a handshake is open from the start.
        heartbeat: seconds between two signs of life, for which `ping` is asked; None where the peer is asked for none. It may be silent
            then, but not in the middle of an event.
        silence: seconds, where they have been agreed: this side, if it serves, says something in each half of them; the other takes it for
            gone when it has said nothing for all of them, whatever the heartbeat is.
        serves: whether this side serves the other: it reads no more of a peer that does not read what it is told.
        closed: whether the peer has said its last word, or was told ours, which the shell notes here.
        noun: what its events are called, in what a peer is told.
        most_unsent: bytes that may wait for its socket before the connection is cut; None for what most have, which is three of the largest
            frames.
        splits: whether peers write the beginning of an event apart from its rest, and wait for the first to be acknowledged (Nagle's
            algorithm). It is acknowledged at once then, and not after the system's 40 ms.
    """

    receiver: Receiver
    work = 1
    due = 1
    is_open = True
    heartbeat: float | None = None
    silence: float | None = None
    serves = True
    closed = False
    noun = "message"
    most_unsent: int | None = None
    splits = False

    @abstractmethod
    def next_event(self, share: int) -> E | Answered | None:
        """The next event that is complete; None where there is none, or where its work is above ``share`` and it is to be asked for again.

        Raises:
            TransportError: the peer broke the protocol. It is told so in `last_words`.
        """

    @abstractmethod
    def send(self, event: E) -> Sequence[Part]:
        """The bytes of an event, in parts of which none is empty; raises LocalProtocolError for one over a limit."""

    def last_words(self, code: str, text: str) -> Sequence[Part]:  # noqa: ARG002 - for who has any
        """The bytes that tell the peer why the connection ends."""
        return ()

    def answer(self) -> Sequence[Part]:
        """What is to be written for the last `ANSWERED`."""
        return ()

    def ping(self) -> Sequence[Part]:
        """A sign of life to which the peer answers; asked for where there is a `heartbeat`."""
        return ()


class DataProtocol(CarriedProtocol[E]):
    """A protocol that keeps what it was given itself, as most do. It needs `receive_data`, `read`, `kept`, `waiting` and `send`."""

    receiver: DataReceiver

    def __init__(self) -> None:
        self.receiver = DataReceiver(self)

    @abstractmethod
    def receive_data(self, data: memoryview) -> None:
        """Take what has come; valid during the call. Raises a `TransportError` where that is more than may be kept."""

    @abstractmethod
    def read(self) -> E | Answered | None:
        """The next event that is complete, a unit of work; errors as of `next_event`."""

    def next_event(self, share: int) -> E | Answered | None:
        """As `CarriedProtocol.next_event`."""
        if share <= 0:
            return None
        event = self.read()
        if event is None:
            if self.waiting:
                raise RuntimeError(f"{type(self).__name__}.waiting is true of what read() gives nothing of")
        elif not (self.kept or self.waiting):
            # An error that is to be raised next keeps nothing.
            self.receiver.emptied()
        return event

    @property
    @abstractmethod
    def waiting(self) -> bool:
        """Whether `read` would give an event now, or raise: while it is true nothing more is received. A part of an event does not wait."""

    @property
    @abstractmethod
    def kept(self) -> int:
        """Bytes that were received and are kept; where none of it is `waiting` it is the beginning of an event."""

    @property
    def whole(self) -> int:
        """Bytes that the event which has begun will have, as far as that is known; 0 where it is not.

        No more is received than is left of it, or ``FIRST_PARTIAL_BYTES`` where that is less and memory is not scarce; and nothing before
        there is room where all connections together keep too much.
        """
        return 0

    def let_go(self) -> None:
        """Nothing more is read of this stream: what is kept of it is to be free, whoever still knows this protocol."""

    @property
    def pieces(self) -> int:
        """How many pieces have come whole of events that are made of several: each has the time that an event has to be complete."""
        return 0


class DataReceiver(Receiver):
    """Passes on what it receives to a protocol, and counts what that keeps."""

    __slots__ = ("_counted", "_pieces", "_protocol", "_rest", "_room", "_target")

    def __init__(self, protocol: DataProtocol[E]) -> None:
        super().__init__()
        self._protocol: DataProtocol[E] | None = protocol
        self._room: Room = AMPLE
        self._pieces = 0
        # Whether something of it is counted; bytes that there is room for of the event that has begun, 0 where that is not known.
        self._counted = False
        self._rest = 0
        self._target = memoryview(b"")

    def keep_in(self, room: Room) -> None:
        """As `Receiver.keep_in`."""
        self._room = room

    def get_buffer(self) -> memoryview:
        """As `Receiver.get_buffer`."""
        self._target = shared_view()[: self._rest] if self._rest else shared_view()
        return self._target

    def received(self, nbytes: int) -> None:
        """As `Receiver.received`."""
        if self._protocol is not None:
            self.idle = False
            self._protocol.receive_data(self._target[:nbytes])

    def keep(self) -> None:
        """As `Receiver.keep`: the protocol has it already."""
        self.handled()

    def handled(self) -> None:
        """As `Receiver.handled`."""
        protocol = self._protocol
        kept = 0 if protocol is None else protocol.kept
        self.idle = not kept
        self.stalled = False
        self._rest = 0
        if protocol is None or not kept:
            if self._counted:
                self._counted = False
                self._room.leave()
            return
        self._counted = True
        if protocol.waiting or (whole := protocol.whole) <= kept:
            self._room.keep(kept)
        else:
            # As much again, and so much at least beside a head that came alone.
            size = min(whole, kept + max(FIRST_PARTIAL_BYTES, kept))
            self._rest = size - kept
            if self._rest < FIRST_PARTIAL_BYTES and not self._room.line:
                # Of a little one the next ones come with it: else each receive would end within the next, and bring one.
                self._rest = FIRST_PARTIAL_BYTES
            self.stalled = not self._room.take(size, whole)
            if self.stalled:
                # What has come is kept, and no more is to come.
                self._room.keep(kept)

    def emptied(self) -> None:
        """The event that is given is all that there was. Where nothing of it is counted, there is nothing to be asked."""
        self.idle = not self._counted

    def go_on(self) -> None:
        """As `Receiver.go_on`."""
        if self.stalled:
            self.handled()

    @property
    def waiting(self) -> bool:
        """As `Receiver.waiting`."""
        return self._protocol is not None and self._protocol.waiting

    @property
    def mid_event(self) -> bool:
        """As `Receiver.mid_event`."""
        return self._protocol is not None and self._protocol.kept > 0 and not self._protocol.waiting

    @property
    def renewed(self) -> bool:
        """As `Receiver.renewed`."""
        before = self._pieces
        self._pieces = before if self._protocol is None else self._protocol.pieces
        return self._pieces != before

    def drop(self) -> None:
        """As `Receiver.drop`; without a cycle the protocol is free at once."""
        if self._protocol is not None:
            self._protocol.let_go()
        self._protocol = None
        self._target = memoryview(b"")
        self._rest = 0
        self.stalled = self._counted = False
        self.idle = True
        self._room.leave()

    def close(self) -> None:
        """As `Receiver.close`."""
        self.drop()
        self._room = AMPLE
