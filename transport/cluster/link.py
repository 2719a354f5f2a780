"""One connection between two nodes: asyncio's transport on one side, the handshake, frames and messages on the other.

Before the other side has proved itself it can have this one hold two small messages, for a short time. Then what comes is handed to the
owner, message by message and in order; and the connection ends where nothing comes for ``SILENT_SECONDS``, though each side says something
at least once a beat.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol, cast

from actors.replication.limits import BEAT_SECONDS, MISS_SECONDS
from transport.cluster.frames import FrameReader, FrameWriter, Whole
from transport.cluster.hello import (
    CLOSING,
    MAX_BODY_BYTES,
    Agreed,
    Answering,
    Dialing,
    HandshakeError,
    HandshakeReader,
    Identity,
    LinkRefusedError,
    refusal,
)
from transport.cluster.link_codec import Alive, Encoded, LinkCodec
from transport.cluster.outgoing import Outgoing, Pace
from transport.errors import ConnectionLostError, PeerTimeoutError, TransportError
from transport.shell.ends import end_writing, leave_no_cycle
from transport.shell.loop_transport import Connectable, peer_of

HANDSHAKE_SECONDS: Final = 2.0
"""From when a connection stands until both have proved themselves, TLS not included."""
SILENT_SECONDS: Final = 2 * MISS_SECONDS
"""A connection on which nothing came for so long is over, whatever the system thinks of it."""
LINGER_SECONDS: Final = 1.0
"""That a refused side has to read why."""
NOT_SENT_BYTES: Final = 128 * 1024
"""That the kernel takes and has not sent yet, where it can be told (TCP_NOTSENT_LOWAT)."""

_OPTIONS: Final = {
    "TCP_NODELAY": 1,
    "TCP_USER_TIMEOUT": int(SILENT_SECONDS * 1000),
    "TCP_NOTSENT_LOWAT": NOT_SENT_BYTES,
}
_LINUX: Final = {"TCP_USER_TIMEOUT": 18, "TCP_NOTSENT_LOWAT": 25}

logger = logging.getLogger("penstock.cluster")


class Refusal(NamedTuple):
    """Why somebody who has proved itself is not taken: a code of `hello.py`, and the text."""

    reason: str
    text: str


class LinkOwner(Protocol):
    """Who has links."""

    def made(self, link: Link) -> None:
        """There is a connection: `ended` is told of it."""

    def judge(self, link: Link) -> Refusal | None:
        """Whether who has dialled, and proved itself, is taken."""

    def opened(self, link: Link) -> None:
        """It stands: both have proved themselves."""

    def received(self, link: Link, message: Any) -> None:
        """What the other side says."""

    def ended(self, link: Link, error: Exception) -> None:
        """It is over, or never came to stand; told once."""


class LinkFigures(NamedTuple):
    """What a link has done.

    Attributes:
        bytes_in: that came.
        bytes_out: that were sent.
        waiting: that wait before the socket.
        heard: when something came last, in the loop's time.
    """

    bytes_in: int
    bytes_out: int
    waiting: int
    heard: float


class Link(Connectable):
    """One connection.

    Args:
        side: its side of the handshake.
        owner: whose it is.
        codec: of its messages.
        pace: of transfers.
        loop: where it lives.

    Attributes:
        agreed: what the handshake came to; None before.
        dials: whether this side has dialled.
        peer: the other side's address as text.
        heard: when something came last.
        since: when it came to stand.
        begun: where this side has answered: when that was, as a count of what happened to all of the owner's.
        opened: likewise, when it came to stand.
    """

    def __init__(
        self, side: Dialing | Answering, owner: LinkOwner, codec: LinkCodec, pace: Pace, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.agreed: Agreed | None = None
        self.dials = isinstance(side, Dialing)
        self.peer = "?"
        self.heard = self.since = loop.time()
        self.begun = self.opened = 0
        self._side = side
        self._owner = owner
        self._codec = codec
        self._pace = pace
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._hand = HandshakeReader()
        self._small = memoryview(bytearray(MAX_BODY_BYTES))
        self._reader: FrameReader | None = None
        self._outgoing: Outgoing | None = None  # while it is open
        self._timer: asyncio.TimerHandle | None = None
        self._bytes_in = self._bytes_out = 0
        self._closing = self._over = False
        self._error: Exception | None = None

    @property
    def said(self) -> Identity | None:
        """Who the other side says it is, proved or not."""
        return self._side.peer

    @property
    def is_open(self) -> bool:
        """Whether something can be sent."""
        return self.agreed is not None and not self._closing

    @property
    def under_way(self) -> bool:
        """Whether there is a connection, and it is not ending."""
        return self.made and not self._closing

    @property
    def certificate(self) -> Mapping[str, Any] | None:
        """What TLS has verified of the other side; None without TLS."""
        return None if self._transport is None else self._transport.get_extra_info("peercert")

    @property
    def figures(self) -> LinkFigures:
        """What it has done so far."""
        out = self._outgoing
        sent, waiting = (self._bytes_out, 0) if out is None else (out.bytes_out, out.waiting)
        return LinkFigures(self._bytes_in, sent, waiting, self.heard)

    # asyncio's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio: the connection stands."""
        self._transport = cast("asyncio.Transport", transport)
        self.made = True
        self.peer = peer_of(transport)
        _set_options(transport.get_extra_info("socket"))
        self.heard = self._loop.time()
        self._arm(HANDSHAKE_SECONDS, self._late)
        self._owner.made(self)
        if isinstance(self._side, Dialing):
            self._transport.write(self._side.begin())

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        """Called by asyncio: where to receive."""
        return self._small if self._reader is None or self._closing else self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """Called by asyncio: so much has come."""
        if self._closing:
            return
        self.heard = self._loop.time()
        self._bytes_in += nbytes
        try:
            if self._reader is None:
                self._hand.add(self._small[:nbytes])
                self._shake()
            else:
                self._reader.received(nbytes)
                self._listen(self._reader)
        except LinkRefusedError as error:
            self.refuse(error)
        except TransportError as error:
            self.abort(error)

    def eof_received(self) -> bool:
        """Called by asyncio: the other side has ended its half."""
        return False

    def pause_writing(self) -> None:
        """Called by asyncio: the socket does not keep up."""
        if self._outgoing is not None:
            self._outgoing.paused()

    def resume_writing(self) -> None:
        """Called by asyncio: it has caught up."""
        if self._outgoing is not None:
            self._outgoing.resumed()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio: it is over."""
        if self._over:
            return
        self._over = True
        self._leave()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        error, self._error = self._error or exc, None
        leave_no_cycle(self._transport)
        self._owner.ended(self, error or ConnectionLostError("the other side has closed the connection"))

    # Sending

    def send(self, message: Encoded) -> None:
        """Send a small message, if it stands."""
        if self._outgoing is not None:
            self._outgoing.prompt(message)

    def ship(self, message: Encoded, shipped: Any) -> bool:
        """Send a message with records, as of `Outgoing.ship`."""
        return self._outgoing is not None and self._outgoing.ship(message, shipped)

    def transfer(self, message: Encoded) -> None:
        """Send a piece of a transfer, as of `Outgoing.transfer`."""
        if self._outgoing is not None:
            self._outgoing.transfer(message)

    def look(self, now: float, late: float) -> None:
        """Once a beat: say that this side is there, and see whether the other one is.

        Args:
            now: the loop's time.
            late: by how much this look is late: for so long nothing was read here.
        """
        if not self.is_open or self._outgoing is None:
            return
        self.heard = min(now, self.heard + late)
        if now - self.heard >= SILENT_SECONDS:
            self.abort(PeerTimeoutError(f"nothing came for {now - self.heard:.1f} s"))
        elif now - self._outgoing.said >= BEAT_SECONDS * 0.9:
            self.send(self._codec.encode(Alive()))

    # Ending

    def refuse(self, error: LinkRefusedError) -> None:
        """End it, and say why, unless the other side has said so."""
        if self._closing:
            return
        self._error = error
        self._leave()
        if self._transport is None:
            return
        if error.by_peer:
            self._transport.close()
            return
        self._transport.write(refusal(error.reason, str(error)))
        self._arm(LINGER_SECONDS, self._abort)
        end_writing(self._transport, told=True)

    def abort(self, error: Exception) -> None:
        """End it at once."""
        self._error = self._error or error
        self._leave()
        self._abort()

    def close(self) -> None:
        """End it in good order: what is written leaves."""
        if self._closing:
            return
        self._error = self._error or LinkRefusedError(CLOSING, "this side has closed the connection")
        self._leave()
        self._arm(LINGER_SECONDS, self._abort)
        if self._transport is not None:
            self._transport.close()

    # Inside

    def _shake(self) -> None:
        side = self._side
        while (message := self._hand.next_message()) is not None:
            said = side.received(*message)
            assert self._transport is not None
            if said is not None:
                self._transport.write(said)
                continue
            if isinstance(side, Answering):
                self._judge(side)
                return
            self._open(dials=True)
            return

    def _judge(self, side: Answering) -> None:
        if not self._hand.empty:
            raise HandshakeError("something came behind a PROOF, which waits for its answer")
        refused = self._owner.judge(self)
        if self._closing:
            return
        if refused is not None:
            raise LinkRefusedError(*refused)
        assert self._transport is not None
        self._transport.write(side.ready())
        self._open(dials=False)

    def _open(self, *, dials: bool) -> None:
        assert self._transport is not None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.agreed = agreed = self._side.agreed(dials=dials)
        self.since = self._loop.time()
        writer = FrameWriter(agreed.seed_out)
        self._outgoing = Outgoing(self._loop, self._transport, writer, self._pace, self.abort)
        self._reader = FrameReader(agreed.seed_in)
        rest = self._hand.rest()
        self._owner.opened(self)
        for whole in self._reader.feed(rest):
            self._hear(whole)

    def _listen(self, reader: FrameReader) -> None:
        while not self._closing and (whole := reader.next_message()) is not None:
            self._hear(whole)

    def _hear(self, whole: Whole) -> None:
        message = self._codec.decode(whole)
        if type(message) is not Alive and not self._closing:
            self._owner.received(self, message)

    def _leave(self) -> None:
        """Nothing more is sent or handled."""
        self._closing = True
        if self._outgoing is not None:
            self._bytes_out = self._outgoing.bytes_out
            self._outgoing.close()
            self._outgoing = None

    def _late(self) -> None:
        self.abort(PeerTimeoutError(f"no handshake within {HANDSHAKE_SECONDS:.0f} s"))

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _arm(self, seconds: float, callback: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, callback)


def _set_options(sock: Any) -> None:
    """What the system knows of these; nothing depends on them but how soon something is known."""
    for name, value in _OPTIONS.items():
        option = getattr(socket, name, _LINUX.get(name) if socket.__dict__.get("AF_NETLINK") else None)
        if sock is not None and option is not None:
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
