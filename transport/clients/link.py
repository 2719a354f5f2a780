"""The client's side of a connection that is meant to last: connect, say HELLO, reconnect with back-off.

`BrokerLink` owns the sockets; its user (a sender's or receiver's stage) sees only: opened, frame, lost, failed.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias
from typing import Protocol as TypingProtocol

from transport.clients.authentication import NO_CREDENTIALS, Credentials
from transport.clients.backoff import CONNECT_TIMEOUT, Backoff, is_transient
from transport.clients.contacts import LEAST_STANDING, MAX_ELECTION_PAUSE, Contacts
from transport.clients.opening import NOT_LET_IN, Opening
from transport.errors import (
    ELSEWHERE_CODES,
    BrokerError,
    ConnectionLostError,
    LocalProtocolError,
    NotLeaderError,
    PeerTimeoutError,
)
from transport.shell.connection import Connection
from transport.shell.loop_transport import ClientTls, connect
from transport.wire.address import Address
from transport.wire.contact_points import told_addresses
from transport.wire.frame_protocol import FrameProtocol
from transport.wire.messages import EXPLAINS, Auth, Because, Frame, Hello, Welcome
from transport.wire.protocol import Protocol, Side

if TYPE_CHECKING:
    from transport.clients.proving import Proving

logger = logging.getLogger("penstock.transport")

CLOSED = "closed"
"""The code of a connection that an administrator has closed."""
FrameConnection: TypeAlias = Connection[Frame]
UNTOLD = 2.0
"""Seconds that a wait lasts before anybody is told of it: a broker's restart, or the start of both at once, is often over by then."""


class LinkUser(TypingProtocol):
    """What a link tells its user, on the loop's thread."""

    def link_opened(self, welcome: Welcome) -> None:
        """The broker has answered HELLO; everything cumulative begins at zero again."""

    def link_frame(self, frame: Frame) -> None:
        """A frame for the role, or ERROR: the refusal of one request."""

    def link_writable(self) -> None:
        """The broker takes again what is written, having taken nothing for a while: `BrokerLink.writable` is true again."""

    def link_lost(self, error: Exception | None) -> None:
        """The connection broke, or is about to; another is sought when it is closed. None: the broker has closed it."""

    def link_failed(self, error: Exception) -> None:
        """No other will be sought. Comes once, and nothing after it."""


class Waits:
    """What a client's stage says of its waits, where nobody listens; `transport.clients.waiting` has those that are heard."""

    def may_wait(self) -> None:
        """It may have to wait from now on; nothing happens where that was known."""

    def moved(self) -> None:
        """Something has come, or was sent."""

    def another(self) -> None:
        """It waits for something else from now on."""

    def answered(self, frame: Because) -> None:
        """The broker has said why."""

    def stop(self) -> None:
        """It will not wait any more."""


UNHEARD = Waits()


def somebody_listens(on_wait: object, logger: logging.Logger) -> bool:
    """Whether anybody is to be told of waits."""
    return on_wait is not None or logger.isEnabledFor(logging.INFO)


class BrokerLink:
    """A connection to the broker at one of ``addresses``, its contact points, made again when it breaks.

    It tries them in a pass, as `Contacts` has it, and pauses behind each pass. A broker that does not lead says who does: that is tried
    at once, and is no failure.

    Patience and back-off begin anew behind a connection that was of use, as `Backoff` says. WELCOME alone is no use: a broker that
    says it and closes, or falls silent, would otherwise be tried again for ever.

    Once in a wait for a broker that has lasted `UNTOLD` seconds, the log has a warning of it; not with ``warns=False``, where the program
    is told in another way.

    Attributes:
        reconnects: how often a connection was made again.
        writable: whether the broker takes what is written. Where not, its user holds back: a broker may grant demand and read nothing.
        explains: whether the broker answers WHY.
        error: why the last attempt that is over came to nothing; None before there was one.
        over: done when the link has failed, or is closed as asked and has no socket any more.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        hello: Callable[[], Hello],
        user: LinkUser,
        backoff: Backoff,
        chance: Callable[[], float] = random.random,
        credentials: Credentials = NO_CREDENTIALS,
        *,
        warns: bool = True,
    ) -> None:
        self._contacts = Contacts(addresses)
        self._hello = hello
        self._user = user
        self._backoff = backoff
        self._chance = chance
        self._credentials = credentials
        self._loop = asyncio.get_running_loop()
        self._proving = _proving(credentials, self._loop)
        self._connection: FrameConnection | None = None
        self._attempt = 0
        self._opened = False
        self._of_use = False
        self._opened_at = self._stands_from = 0.0
        self._pauses = False  # another is sought behind a pause
        self._opening: Opening  # of the last attempt
        self._ended = False
        self._down_since = self._loop.time()
        self._retry: asyncio.TimerHandle | None = None
        self._connecting: asyncio.Task[None] | None = None
        self.error: Exception | None = None
        # Whether it was said already that the connections of this run of failures come to nothing.
        self._warned = False
        self._warns = warns
        self._trouble_told = False
        self._untold: asyncio.TimerHandle | None = None
        self.reconnects = 0
        self.writable = True
        self.explains = False
        self.over: asyncio.Future[None] = self._loop.create_future()

    @property
    def address(self) -> Address:
        """Of the broker that it is connected to, or tried last."""
        return self._contacts.current

    @property
    def is_open(self) -> bool:
        """Whether HELLO has been answered and the connection stands."""
        return self._opened

    def trouble(self) -> str:
        """Why there is no connection, and for how long one is still sought; on one line."""
        from transport.clients.reasons import lacking, why_not  # noqa: PLC0415 - only for an error

        where = f"any of {self._contacts}" if self._contacts.several else self.address
        text = f"no {lacking(self.error)} at {where} yet: {why_not(self.error)}"
        if self._connection is not None and self._opening.signed:
            text = f"{self.address}: {NOT_LET_IN}"
        if self._backoff.give_up_after is None:
            return f"{text}; trying on"
        left = self._backoff.give_up_after - (self._loop.time() - self._down_since)
        return f"{text}; trying for up to {max(0.0, left):.0f} s more"

    def start(self) -> None:
        """Begin to connect; patience counts from here."""
        self._down_since = self._loop.time()
        self._tell_later()
        self._try()

    def _try(self) -> None:
        # Where the pass is over, this is the next one.
        self._seek(self._contacts.next() or self._contacts.next())

    def _seek(self, address: Address | None) -> None:
        assert address is not None, "a pass begins with one"
        self._connecting = self._loop.create_task(self._connect(address), name="penstock-connect")

    def send(self, frame: Frame) -> None:
        """Write ``frame``; without an open connection it is dropped, for everything is said again after a reconnect."""
        if self._opened and self._connection is not None:
            self._connection.send(frame)

    def progressed(self) -> None:
        """What came on this connection has brought its user on."""
        self._of_use = True

    def close(self) -> None:
        """End in good order: what was sent leaves first; then it is `over`."""
        if self._ended:
            return
        self._stop_trying()
        if self._connection is None:
            self._end_later()
        else:
            self._connection.close()

    def finish(self) -> None:
        """Expect the broker to close: its end of stream is then no loss, and the link is `over`."""
        self._stop_trying()
        if self._connection is None:
            self._end_later()

    def abort(self) -> None:
        """End at once."""
        self._stop_trying()
        if self._connection is not None:
            self._connection.abort(ConnectionLostError("aborted by this side"))
        else:
            self._end_later()

    # Called by the connection

    def connection_opened(self, connection: FrameConnection) -> None:
        """The TCP connection stands: say HELLO."""
        if self._ended:
            # Made in the very turn in which it was given up.
            connection.abort(ConnectionLostError("given up by this side"))
            return
        self._connection = connection
        self._opening.begin(connection)
        connection.send(self._credentials.hello(self._hello(), self._opening.sign))
        if self._proving is not None:
            self._proving.begin(connection)

    def event_received(self, event: Frame, work: int) -> None:  # noqa: ARG002 - demand bounds what a broker makes a client do
        """WELCOME opens the link; AUTH leads there; everything else is the user's."""
        if isinstance(event, Auth):
            assert self._proving is not None, "without an exchange the protocol allows no AUTH"
            self._proving.received(event)
        elif isinstance(event, Welcome):
            heartbeat_ms = event.options.get("heartbeat_ms")
            heartbeat = heartbeat_ms / 1000 if type(heartbeat_ms) is int else 0.0
            self._opened = True
            self._opening.end()
            self.explains = event.options.get(EXPLAINS) is True
            self._warned = False
            self._of_use = False
            self._tell_no_more()
            self._contacts.let_in()
            self._opened_at = self._loop.time()
            self._stands_from = self._opened_at + max(heartbeat, LEAST_STANDING)
            self._user.link_opened(event)
        else:
            self._user.link_frame(event)

    def writable_changed(self, writable: bool) -> None:
        """Demand bounds what may be sent, not what the broker reads of it: the user holds back what it can."""
        self.writable = writable
        if writable and self._opened:
            self._user.link_writable()

    def connection_ending(self, error: Exception | None) -> None:
        """A connection that fails is lost at once, however long the peer keeps its socket, and so is one to no broker of ours."""
        if error is None:
            return
        if self._opened:
            self._lost(error)
        elif not is_transient(error):
            self._fail(self._explained(error))

    def connection_closed(self, error: Exception | None) -> None:
        """Decide between closed, lost and failed."""
        self._lost(error)
        self._opening.end()
        if self._proving is not None:
            self._proving.end()
        better = (
            None if self._ended else self._explained(error or ConnectionLostError("the broker closed the connection"))
        )
        self._connection = None
        self.writable = True
        if better is None:
            self._end_later()
        else:
            self._retry_or_fail(better)

    # Inside

    def _lost(self, error: Exception | None) -> None:
        if not self._opened:
            return
        self._opened = False
        self._pauses = True
        now = self._loop.time()
        if self._of_use or (self._connection is not None and self._connection.heard >= self._stands_from):
            self._attempt = 0
            self._down_since = now
            self._trouble_told = False
            if stood := now - self._opened_at >= LEAST_STANDING:
                self._contacts.rested()
            # With others to ask there is no need to give this one time, unless it ends connections as soon as they are made.
            elsewhere = not isinstance(error, BrokerError) or error.code in ELSEWHERE_CODES
            self._pauses = not (stood and elsewhere and self._contacts.several)
        else:
            # While it stood nothing was missing: that does not count, and what went before does.
            self._down_since += now - self._opened_at
        self.reconnects += 1
        self._tell_later()
        if isinstance(error, BrokerError) and error.code == CLOSED:
            from transport.wire.shown import shown  # noqa: PLC0415 - only for an error

            logger.warning("the broker at %s has closed this connection: %s", self.address, shown(error.text))
        self._user.link_lost(error)

    def _explained(self, error: Exception) -> Exception:
        """What a connection failed with that did not open, for those who are to mend it."""
        from transport.clients.tls_errors import explained  # noqa: PLC0415 - only for an error

        heard = 0 if self._connection is None else self._connection.bytes_in
        return explained(error, self.address, self._credentials, heard)

    async def _connect(self, address: Address) -> None:
        states = Protocol(Side.CLIENT, frozenset({self._hello().role}))
        contacts, give_up = self._contacts, self._backoff.give_up_after
        until = math.inf if give_up is None else self._down_since + give_up
        self._opening = Opening(states, contacts, until, self._loop)
        connection: FrameConnection = Connection(FrameProtocol(states), self, self._loop)
        seconds = min(contacts.patience, give_up or CONNECT_TIMEOUT)
        try:
            await connect(connection, address.host, address.port, seconds, self._loop, self._tls(address.host))
        except UnicodeError as error:
            # What the resolver cannot even ask for; asking again changes nothing.
            self._fail(LocalProtocolError(f"the broker's address {address} names no host: {error}"))
        except (OSError, TimeoutError) as error:
            if not self._ended:
                better = self._explained(error)
                if not is_transient(better):
                    self._fail(better)
                    return
                from transport.clients.reasons import caused, reason_of  # noqa: PLC0415 - only for an error

                self._retry_or_fail(caused(f"no connection to the broker at {address}: {reason_of(better)}", better))

    def _tls(self, host: str) -> ClientTls | None:
        context = self._credentials.context
        if context is None:
            return None
        from transport.clients.tls_errors import TLS_HANDSHAKE_TIMEOUT, TLS_SHUTDOWN_TIMEOUT  # noqa: PLC0415 - with TLS

        return ClientTls(context, self._credentials.server_name(host), TLS_HANDSHAKE_TIMEOUT, TLS_SHUTDOWN_TIMEOUT)

    def _retry_or_fail(self, error: Exception) -> None:
        self.error = error
        if not is_transient(error):
            self._fail(error)
            return
        contacts, pauses, self._pauses = self._contacts, self._pauses, False
        if isinstance(error, NotLeaderError):
            pauses = not contacts.follows(told_addresses(error.leader), error)
        elif isinstance(error, PeerTimeoutError | TimeoutError) or isinstance(error.__cause__, TimeoutError):
            contacts.silent()
        if not pauses and (address := contacts.next()) is not None:
            self._seek(address)
            return
        patience = self._backoff.give_up_after
        delay = self._backoff.delay(self._attempt, self._chance())
        if contacts.elects:
            delay = min(delay, max(MAX_ELECTION_PAUSE, self._backoff.minimum))
            self.error = error = contacts.leaderless or error
        down = self._loop.time() - self._down_since
        if patience is not None and down + delay > patience:
            from transport.clients.reasons import advice, caused  # noqa: PLC0415 - only for an error

            self._fail(caused(f"given up after {down:.1f} s without a connection: {error}{advice(error)}", error))
            return
        self._warn_once(error)
        self._attempt += 1
        contacts.rested()
        self._retry = self._loop.call_later(delay, self._try)

    def _warn_once(self, error: Exception) -> None:
        """Who tries for long, or for ever, tells at the first try what may be the matter where the broker's side says nothing of it."""
        if not self._warned:
            from transport.clients.tls_errors import warn_of_silence  # noqa: PLC0415 - only for an error

            self._warned = warn_of_silence(error, self.address)

    def _tell_later(self) -> None:
        """A wait for a broker has begun, or goes on."""
        if self._warns and not self._ended and not self._trouble_told:
            self._untold = self._loop.call_at(self._down_since + UNTOLD, self._tell)

    def _tell(self) -> None:
        """Who starts a program without its broker is to see why nothing happens, long before it gives up."""
        self._untold = None
        self._trouble_told = True
        if self._warned:
            return
        from transport.wire.shown import MAX_LINE_BYTES, shown  # noqa: PLC0415 - only where there is no broker

        queue = self._hello().queue
        of = "" if not queue else f"queue {queue}: "
        logger.warning("%s%s", of, shown(self.trouble(), MAX_LINE_BYTES))

    def _tell_no_more(self) -> None:
        if self._untold is not None:
            self._untold.cancel()
            self._untold = None

    def _fail(self, error: Exception) -> None:
        if not self._ended:
            self._stop_trying()
            if self._connection is None:
                self._set_over()  # otherwise when it is closed
            self._user.link_failed(error)

    def _stop_trying(self) -> None:
        self._ended = True
        self._tell_no_more()
        if self._retry is not None:
            self._retry.cancel()
        if self._connecting is not None and self._connection is None:
            self._connecting.cancel()

    def _end_later(self) -> None:
        # In a turn of its own: the user that is closing is still inside its own call.
        connecting = self._connecting
        if connecting is None or connecting.done():
            self._loop.call_soon(self._set_over)
        else:
            # Its socket is closed by the time that it is over.
            connecting.add_done_callback(lambda _: self._loop.call_soon(self._set_over))

    def _set_over(self) -> None:
        if not self.over.done():
            self.over.set_result(None)


def _proving(credentials: Credentials, loop: asyncio.AbstractEventLoop) -> Proving | None:
    """What a client with a password needs."""
    if not credentials.has_password:
        return None
    from transport.clients.proving import Proving  # noqa: PLC0415 - most have none

    return Proving(credentials, loop)
