"""Accepting: a listening address whose connections never take more descriptors than the broker may give them.

asyncio's own servers accept all that wait before anybody is asked, a thousand in one turn of the loop; by then there may be no
descriptor left for the journal. Here each accept asks first.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from transport.shell.ends import LINGER
from transport.wire.liveness import ENTRANCE_TIMEOUT

if TYPE_CHECKING:
    import ssl

    from transport.broker.strangers import Entrant, Unopened
    from transport.shell.turns import Endings

BACKLOG = 1024
"""Connections the kernel holds while they wait to be accepted."""
ACCEPTS_A_TURN = 4
"""Connections taken from one address in one turn of the loop: a crowd must not make those wait that are connected."""
ACCEPT_AGAIN = 1.0
"""Seconds without accepting after the process had no descriptor left: whoever waits goes on waiting, and the loop is free."""
KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_PROBES = 60, 10, 6
"""Seconds of silence after which the system asks a peer whether it is there, seconds between two questions, and how many go unanswered."""
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""What accept says when there is no room in the process or the machine."""

logger = logging.getLogger("penstock.broker")


class Listening(Protocol):
    """An address that takes connections until it is closed: what `listen` makes, and asyncio's ``create_server`` too."""

    @property
    def sockets(self) -> tuple[Any, ...]:
        """The listening sockets."""

    def close(self) -> None:
        """Take no more."""


class Factory(Protocol):
    """Makes the protocol of a connection that has come."""

    def __call__(self, entrant: Entrant | None = None) -> asyncio.BaseProtocol:
        """``entrant`` is its place among those that are not let in yet, which it leaves; None where nobody counts them."""


@dataclass(frozen=True, slots=True)
class Intake:
    """Who is taken in at an address, and what the others are told.

    Attributes:
        factory: makes a new connection's protocol.
        has_room: whether one more connection may be taken.
        unopened: those of all addresses that are not let in yet.
        endings: those that are over.
        too_many: what a connection is told for which there is no room.
        too_many_of_one: what one is told of whose address there are too many.
        tls: gives what connections are made with; None for plain ones.
        not_secured: is told with whom TLS has not come about, host:port, and why.
    """

    factory: Factory
    has_room: Callable[[], bool]
    unopened: Unopened
    endings: Endings
    too_many: bytes
    too_many_of_one: bytes
    tls: Callable[[], ssl.SSLContext | None] = lambda: None
    not_secured: Callable[[str, str], None] = lambda _peer, _why: None


Listen = Callable[[Intake, str, int], Awaitable[Listening]]
"""Makes a listening address of: who is taken in, host, port."""


class Acceptor:
    """One address that takes connections.

    Args:
        listening: its sockets, bound and listening.
        intake: who is taken in.
    """

    def __init__(self, listening: list[socket.socket], intake: Intake) -> None:
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._intake = intake
        self._tasks: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None
        self._resume()

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """The listening sockets; none once it is closed."""
        return tuple(self._listening)

    def close(self) -> None:
        """Take no more connections; those that were taken stay."""
        self._pause()
        listening, self._listening = self._listening, []
        for each in listening:
            each.close()
        if self._intake.tls() is not None:
            # Whoever does not go on with the handshake would hold up the broker's end; nobody can be told anything before it is over.
            for task in self._tasks:
                task.cancel()

    def _resume(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        for each in self._listening:
            self._loop.add_reader(each.fileno(), self._accept, each)

    def _pause(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        for each in self._listening:
            self._loop.remove_reader(each.fileno())

    def _accept(self, listening: socket.socket) -> None:
        intake = self._intake
        if intake.endings.waiting:
            # Who comes back comes after its own end: it finds its name free, and room where it had some.
            self._pause()
            intake.endings.when_caught_up(self._resume)
            return
        for _ in range(ACCEPTS_A_TURN):
            if intake.unopened.full:
                # Whoever comes waits in the kernel's line, and costs nothing here.
                self._pause()
                intake.unopened.when_room(self._resume)
                return
            try:
                accepted, peer = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # it has gone while it waited
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                logger.warning(
                    "no connection can be accepted, for this process or machine has no file left (%s); again in %.0f s",
                    error.strerror,
                    ACCEPT_AGAIN,
                )
                self._pause()
                self._again = self._loop.call_later(ACCEPT_AGAIN, self._resume)
                return
            if not intake.has_room():
                self._turn_away(accepted, intake.too_many)
            elif (entrant := intake.unopened.enter(peer[0])) is None:
                self._turn_away(accepted, intake.too_many_of_one)
            else:
                self._take(accepted, entrant, f"{peer[0]}:{peer[1]}")

    def _take(self, accepted: socket.socket, entrant: Entrant, peer: str) -> None:
        # The protocol is there at once, so that whoever counts connections has counted this one before the next.
        try:
            protocol = self._intake.factory(entrant)
        except BaseException:
            entrant.leave()
            accepted.close()
            raise
        task = self._loop.create_task(self._attach(accepted, protocol, peer), name="accept a connection")
        self._tasks.add(task)

        def attached(_: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if task.cancelled() and accepted.fileno() >= 0:
                # The address closed before the task had begun: what else would end the connection has not run.
                accepted.close()
                protocol.connection_lost(None)

        task.add_done_callback(attached)

    async def _attach(self, accepted: socket.socket, protocol: asyncio.BaseProtocol, peer: str) -> None:
        context = None
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _keep_alive(accepted)
            context = self._intake.tls()
            if context is None:
                await self._loop.connect_accepted_socket(lambda: protocol, accepted)
            else:
                await self._loop.connect_accepted_socket(
                    lambda: protocol,
                    accepted,
                    ssl=context,
                    ssl_handshake_timeout=ENTRANCE_TIMEOUT,
                    ssl_shutdown_timeout=LINGER,
                )
        except BaseException as error:
            # It broke before it stood, as one that only looks whether the port is there; TLS was not agreed upon; or the loop is ending.
            if context is None or isinstance(error, (asyncio.CancelledError, ConnectionError)):
                logger.info("a connection from %s ends before it stands: %s", peer, error, extra={"peer": peer})
            else:
                self._intake.not_secured(peer, _why(error))
            accepted.close()
            protocol.connection_lost(error if isinstance(error, OSError) else None)
            if not isinstance(error, OSError):
                raise

    def _turn_away(self, accepted: socket.socket, refusal: bytes) -> None:
        """Say why, as far as that goes without waiting, and close: what the peer has said is taken, for else the kernel resets."""
        with accepted, suppress(OSError):
            accepted.setblocking(False)
            if self._intake.tls() is None:
                # Under TLS these would be no words.
                accepted.send(refusal)
            accepted.shutdown(socket.SHUT_WR)
            accepted.recv(4096)


async def listen(intake: Intake, host: str, port: int) -> Acceptor:
    """Listen on every address that ``host`` stands for; OSError where one cannot be bound."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        # UnicodeError: what the resolver cannot even ask for.
        raise OSError(errno.EADDRNOTAVAIL, f"{host}:{port}: {getattr(error, 'strerror', None) or error}") from None
    listening = bind(found, host, port)
    try:
        for each in listening:
            each.listen(BACKLOG)
        return Acceptor(listening, intake)
    except BaseException as error:
        for each in listening:
            each.close()
        if isinstance(error, OSError):
            # Somebody has begun to listen meanwhile.
            raise OSError(error.errno, f"{host}:{port}: {error.strerror or error}") from None
        raise


Found = Sequence[tuple[int, int, int, str, Any]]
"""What a resolver says of a name."""


def bind(found: Found, host: str, port: int) -> list[socket.socket]:
    """A socket for each address that was found for a host, bound and not listening; OSError where one cannot be."""
    listening: list[socket.socket] = []
    failure = OSError(errno.EADDRNOTAVAIL, f"{host}:{port}: it has no address here")
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                listening.append(_bound(family, kind, protocol, address))
            except OSError as error:
                failure = OSError(error.errno, f"{host}:{port}: {error.strerror or error}")
                # A name may stand for addresses of a family that this machine does not have.
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise failure from None
        if not listening:
            raise failure
    except BaseException:
        for each in listening:
            each.close()
        raise
    return listening


def _why(error: BaseException) -> str:
    """What a handshake failed with: OpenSSL's words without its numbers, where it says any."""
    reason = getattr(error, "reason", None)
    return str(reason).lower().replace("_", " ") if reason else str(error) or type(error).__name__


def _keep_alive(accepted: socket.socket) -> None:
    """Have the system find out that a peer is gone which may be silent: not every protocol has a heartbeat."""
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if option := getattr(socket, name, None):
            accepted.setsockopt(socket.IPPROTO_TCP, option, value)


def _bound(family: int, kind: int, protocol: int, address: object) -> socket.socket:
    each = socket.socket(family, kind, protocol)
    try:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # Its own family only: the other has a socket of its own, on the same port.
            each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        each.setblocking(False)
        each.bind(address)  # type: ignore[arg-type] # as the resolver gave it
    except BaseException:
        each.close()
        raise
    return each
