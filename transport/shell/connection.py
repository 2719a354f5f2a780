"""The shell around one connection: asyncio's buffered transport on one side, a protocol without I/O on the other.

It carries any protocol (`CarriedProtocol`): receives for it, writes what it says, keeps the heartbeat and ends the connection, with the
protocol's last words where the peer broke it. What the events mean is its handler's business.

It bounds what a peer can make this side hold or do. Events are handled within the connection's share of a turn (`Turns`); the rest waits as
bytes, and meanwhile nothing is read. A broker does not read a client that does not read. And either side ends a connection whose peer
leaves too much unread; a broker also one whose peer takes nothing for too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar, cast

from transport.errors import PeerTimeoutError, TransportError, TruncatedFrameError, UnreadError
from transport.shell.connection_handler import ConnectionHandler
from transport.shell.ends import CLOSE_TIMEOUT, LINGER, end_later, end_writing, last_words, leave_no_cycle
from transport.shell.loop_transport import Connectable, pause_from_the_start, pause_reading, peer_of, write_parts
from transport.shell.place import Place
from transport.shell.turns import Turns
from transport.shell.unsent import COUNTED_BYTES, MAX_UNSENT_BYTES, WRITE_BUFFER_HIGH, Unsent, UnsentTotal
from transport.wire.carried import ANSWERED, ANY_SHARE, CarriedProtocol
from transport.wire.liveness import DEFAULT_HEARTBEAT, SILENT_INTERVALS, Liveness, Verdict, handshake_seconds
from transport.wire.receiving import Part

FLUSH_BYTES = 256 * 1024
"""Bytes gathered in one turn of the loop after which they are written at once."""

E = TypeVar("E")

_BUSY, _UNREAD = 1, 2
"""Why nothing is handled: the handler has asked for it, or the peer does not read."""


class Connection(Connectable, Generic[E]):
    """One connection.

    Args:
        protocol: what it carries.
        handler: its owner.
        loop: where it lives.
        heartbeat: seconds, until the protocol names another.
        turns: shared by all connections that share the loop fairly; of its own by default.
        unsent: shared by all connections that are bounded together in what waits for their sockets; not bounded by default.

    Attributes:
        bytes_in, bytes_out: bytes received, and written, so far.
        peer: the peer's address as text.
    """

    def __init__(
        self,
        protocol: CarriedProtocol[E],
        handler: ConnectionHandler[E],
        loop: asyncio.AbstractEventLoop,
        heartbeat: float = DEFAULT_HEARTBEAT,
        turns: Turns | None = None,
        unsent: UnsentTotal | None = None,
    ) -> None:
        self.bytes_in = self.bytes_out = self._blocked = 0
        self.peer = "?"
        self._protocol = protocol
        self._receiver = protocol.receiver
        self._handler = handler
        self._loop = loop
        self._turns = turns or Turns(loop)
        self._place = Place(self._turns)
        self._unsent = Unsent(unsent or UnsentTotal(), self, protocol.most_unsent or MAX_UNSENT_BYTES)
        self._liveness = Liveness(heartbeat, loop.time())
        self._transport: asyncio.Transport | None = None
        self._out: list[Part] = []
        self._out_bytes = 0
        self._flush_asked = self._working = self._closing = self._discarding = self._over = False
        self._opening = self._reading = True
        # Nothing to settle: it reads, and nothing of before is left.
        self._calm = False
        self._error: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None

    # Receiving

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio: the connection stands."""
        self._transport = cast("asyncio.Transport", transport)
        self.made = True
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH)
        self.peer = peer_of(transport)
        # A client's time begins with its connection's acceptance, of which TLS has had a part.
        began = self._liveness.heard if self._protocol.serves else self._loop.time()
        self._arm(began + handshake_seconds(self._protocol.serves), self._handshake_late)
        try:
            self._handler.connection_opened(self)
        except TransportError as error:
            self.fail(error)
        self._look_whether_open()
        if not (self._reading or self._closing):
            pause_from_the_start(self._transport, self._loop, lambda: not self._reading)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Called by asyncio: where to receive."""
        return self._receiver.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Called by asyncio: ``nbytes`` have arrived."""
        if self._discarding:
            if self._place.discarded(nbytes):
                self._wait_in_line()
            return
        receiver = self._receiver
        self.bytes_in += nbytes
        self._liveness.heard = self._loop.time()
        fresh, in_pieces = receiver.idle, not receiver.idle and receiver.mid_event
        try:
            receiver.received(nbytes)
        except Exception as error:  # noqa: BLE001 - as in _handle
            self.fail(error)
            return
        if self._blocked or self._place.in_line:
            receiver.keep()
            return
        self._turns.used(self._handle(self._turns.share(), least=0))
        if fresh and receiver.idle:
            return
        begun = receiver.begun
        if (in_pieces or begun) and self._place.gathered(nbytes if in_pieces else begun, complete=not begun):
            self._settle()

    def work(self, share: int) -> int:
        """Handle what has arrived, of ``share`` units of work and one event at least; returns the units. The rest stands in line."""
        place, receiver = self._place, self._receiver
        owed = place.come()
        if self._discarding:
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()
            return owed
        in_pieces = receiver.mid_event
        units = owed + self._handle(share - owed, least=1)
        return units if in_pieces else units + place.found(receiver.begun)

    def _handle(self, share: int, least: int) -> int:
        """Handle ``least`` events, and as many as the share has room for."""
        self._working = True
        protocol, receiver = self._protocol, self._receiver
        units, left = 0, share if least == 0 else ANY_SHARE
        try:
            while not (self._blocked or self._discarding):
                paid = False
                event = protocol.next_event(left)
                if event is None:
                    break
                units += protocol.due
                paid = True
                left = share - units
                if event is ANSWERED:
                    self._write(protocol.answer())
                else:
                    self._handler.event_received(cast("E", event), protocol.work)
                if receiver.idle:
                    break
        except Exception as error:  # noqa: BLE001 - whatever one peer's bytes cause ends that peer's connection only
            # What was refused was looked at, too.
            units += 0 if paid else protocol.due
            self.fail(error)
        self._working = False
        if units:  # what is not complete has begun since
            self._liveness.frame_began = None
        if self._opening:
            self._look_whether_open()
        if not (receiver.idle and self._calm):
            receiver.handled()
            self._settle()
        return units

    def eof_received(self) -> bool:
        """Called by asyncio: the peer has closed its side."""
        self._look_whether_whole()
        return self._transport is not None and end_later(self._transport, self._turns.endings)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio: the connection is over. Whoever made it may have said so before."""
        if self._over:
            return
        self._over = True
        if exc is None:
            # Under TLS the end of the stream may not be told by itself.
            self._look_whether_whole()
        self._discard()
        self._protocol.closed = True
        if not self._turns.endings.wait(partial(self._end, exc)):
            self._end(exc)

    def _end(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # No cycle is left, so that what this connection kept is free at once and not when the collector comes by: a traceback, a timer and
        # the receiver lead back here, and the handler is asked to forget this connection.
        self._timer = None
        self._receiver.close()
        self._unsent.close()
        self._out.clear()
        error, self._error = self._error or exc, None
        leave_no_cycle(self._transport)
        self._handler.connection_closed(error)

    def pause_writing(self) -> None:
        """Called by asyncio: the socket does not keep up."""
        if self._protocol.serves:
            # Not the client's side: two that wait for each other would wait for ever, and one who breaks off loses its place in the line.
            self._liveness.held_up(self._taken(), self._loop.time())
            self._block(_UNREAD)
            if not (self._opening or self._closing):
                self._arm(self._liveness.next_check(), self._check_liveness)
        self._handler.writable_changed(False)

    def resume_writing(self) -> None:
        """Called by asyncio: it has caught up."""
        if self._unsent.gives_way and self._transport is not None:
            self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH)
        self._unsent.drained()
        self._liveness.keeps_up()
        self._unblock(_UNREAD)
        self._handler.writable_changed(True)

    # Sending

    def send(self, event: E) -> None:
        """Write ``event``; what is sent in one turn of the loop leaves together. Nothing happens once the connection closes.

        Raises:
            LocalProtocolError: the event is over a limit; nothing was written.
        """
        if self._closing:
            return
        self._write(self._protocol.send(event))
        if self._opening:
            self._look_whether_open()

    def close(self) -> None:
        """Write what is pending, then close."""
        if self._closing:
            return
        self.flush()
        self._discard()
        self._arm(self._loop.time() + CLOSE_TIMEOUT, self._abort)
        self._handler.connection_ending(None)
        if self._transport is not None:
            self._transport.close()

    def abort(self, error: Exception) -> None:
        """End at once, what is pending unwritten; the handler is told ``error``."""
        self._error = self._error or error
        self._discard()
        self._abort()

    def fail(self, error: Exception) -> None:
        """Tell the peer why, then close; further bytes of its are discarded. The handler is told ``error``."""
        if self._closing:
            return
        self._error = error
        told = last_words(self._protocol, error, self.peer)
        self._write(told)
        self.flush()
        self._discard()
        self._protocol.closed = True
        self._arm(self._loop.time() + LINGER, self._abort)
        self._handler.connection_ending(error)
        if self._transport is not None and not self._transport.is_closing():
            if not self._place.in_line:
                self._transport.resume_reading()
            end_writing(self._transport, told=len(told) > 0)

    def pause_reading(self) -> None:
        """Handle nothing more for now, those that have arrived included, and take no more from the socket."""
        self._block(_BUSY)

    def resume_reading(self) -> None:
        """Go on."""
        self._unblock(_BUSY)

    def more_time(self, seconds: float) -> None:
        """This side has the peer wait: the handshake may take so much longer."""
        if self._opening and self._timer is not None and not self._closing:
            self._arm(self._timer.when() + seconds, self._handshake_late)

    def give_way(self) -> None:
        """All connections have too much unsent together, and this one most: it goes on when it has nearly nothing."""
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high=COUNTED_BYTES)

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """What TLS has verified of the peer, as `ssl` tells it; None without TLS, and where the peer has shown nothing."""
        return None if self._transport is None else self._transport.get_extra_info("peercert")

    @property
    def heard(self) -> float:
        """When something last came, in the loop's time."""
        return self._liveness.heard

    # For the room that what it keeps takes

    def room_found(self) -> None:
        """There is memory for what has begun and waits for it."""
        self._receiver.go_on()
        self._settle()

    def waited(self) -> float:
        """Seconds that the peer had to wait for this side so far, with what it sends."""
        return self._liveness.waited(self._loop.time())

    def too_slow(self) -> None:
        """Others wait for the memory that is taken by what the peer has begun."""
        why = f"others wait for the memory of a large {self._protocol.noun}: it does not go on, or you read no answers"
        self.fail(PeerTimeoutError(why))

    # Inside

    def _block(self, reason: int) -> None:
        self._blocked |= reason
        self._settle()

    def _unblock(self, reason: int) -> None:
        self._blocked &= ~reason
        self._settle()

    def _settle(self) -> None:
        """Stand in line where something waits, read where nothing does; neither while there is a reason against it."""
        self._calm = False
        if self._working or self._discarding:
            return
        receiver, liveness = self._receiver, self._liveness
        waits = receiver.waiting or self._place.owed > 0
        if waits:
            receiver.keep()
            if not self._blocked:
                self._place.join(self)
        if not receiver.mid_event:
            liveness.frame_began = None
        elif liveness.frame_began is None or receiver.renewed:
            liveness.frame_began = liveness.heard
        self._read(not (waits or self._blocked or receiver.stalled))
        # Who is not heard because it does not read has nobody to wait for.
        held_up = not (self._reading or self._blocked == _UNREAD)
        if held_up is not liveness.waits:
            liveness.have_wait(held_up, self._loop.time())
        self._calm = receiver.idle and self._reading and not self._blocked

    def _read(self, reading: bool) -> None:
        if reading is self._reading or self._transport is None:
            return
        self._reading = reading
        if reading:
            self._liveness.listen(self._loop.time())
            self._transport.resume_reading()
        else:
            self._liveness.stop_listening(self._loop.time())
            pause_reading(self._transport)

    def _wait_in_line(self) -> None:
        """Receive no more of what is discarded before its turn comes."""
        if self._transport is not None and not self._transport.is_closing():
            self._place.join(self)
            pause_reading(self._transport)

    def _discard(self) -> None:
        """Send and handle nothing more."""
        self._closing = self._discarding = True
        self._receiver.drop()

    def _taken(self) -> int:
        """Bytes that the system has taken of what was written."""
        return self.bytes_out - (0 if self._transport is None else self._transport.get_write_buffer_size())

    def _look_whether_whole(self) -> None:
        if self._receiver.mid_event and not self._discarding:
            self._error = self._error or TruncatedFrameError(f"the stream ended inside a {self._protocol.noun}")

    def _look_whether_open(self) -> None:
        """The handshake may be over: from then on the heartbeat is kept."""
        if self._opening and self._protocol.is_open and not self._closing and self._transport is not None:
            self._opening = False
            if (heartbeat := self._protocol.heartbeat) is None:
                self._liveness.one_sided()
            else:
                self._liveness.agree(heartbeat, self._protocol.silence, serves=self._protocol.serves)
            self._arm(self._liveness.next_check(), self._check_liveness)

    def _write(self, parts: Sequence[Part]) -> None:
        if self._closing or not parts:
            return
        self._out += parts
        self._out_bytes += len(parts[0]) if len(parts) == 1 else sum(map(len, parts))
        if self._out_bytes >= FLUSH_BYTES:
            self.flush()
        elif not self._flush_asked:
            self._flush_asked = True
            self._turns.flushes.ask(self)

    def flush(self) -> None:
        """Write what was gathered."""
        self._flush_asked = False
        parts, transport = self._out, self._transport
        if not parts or transport is None:
            return
        size, self._out_bytes, self._out = self._out_bytes, 0, []
        self.bytes_out += size
        self._liveness.said = self._loop.time()
        if not transport.is_closing():
            unsent = write_parts(transport, parts, size, WRITE_BUFFER_HIGH)
            if unsent:
                self._liveness.left_waiting(self.bytes_out - unsent, self._loop.time())
            if unsent > COUNTED_BYTES:
                self._unsent.bound(unsent)

    def _check_liveness(self) -> None:
        now = self._loop.time()
        self._unsent.count(self.bytes_out - self._taken())
        if self._blocked & _UNREAD:
            self._liveness.held_up(self._taken(), now)
        verdict = self._liveness.check(now)
        if verdict is Verdict.SILENT:
            why = f"silent for {now - self._liveness.heard:.1f} s, or a {self._protocol.noun} not complete in time"
            # Who relies on signs has others to ask, and one who gives none reads no last words.
            (self.abort if self._liveness.relies else self.fail)(PeerTimeoutError(why))
            return
        if verdict is Verdict.STUCK:
            # There is no point in telling one who does not read why.
            why = f"bytes wait for a peer that has taken none for {SILENT_INTERVALS} heartbeats"
            self.abort(UnreadError(f"{self.bytes_out - self._taken()} {why}"))
            return
        if verdict is Verdict.PING:
            self._write(self._protocol.ping())
            self.flush()
        self._arm(self._liveness.next_check(), self._check_liveness)

    def _handshake_late(self) -> None:
        seconds = handshake_seconds(self._protocol.serves)
        self.fail(PeerTimeoutError(f"the handshake was not complete within {seconds:.0f} s"))

    def _arm(self, when: float, callback: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, callback)  # type: ignore[arg-type]  # one of our own methods

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
