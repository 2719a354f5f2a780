"""A blocking client's connection to one of several addresses, made again when it breaks, with back-off and an end to patience."""

from __future__ import annotations

import logging
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, Self, TypeVar

from transport.clients.authentication import Credentials
from transport.clients.backoff import Backoff, is_transient
from transport.clients.blocking_connection import SIGNED_TIMEOUT, BlockingConnection
from transport.clients.contacts import LEAST_STANDING, MAX_ELECTION_PAUSE, Contacts
from transport.errors import (
    ELSEWHERE_CODES,
    BrokerError,
    ConnectionLostError,
    FellSilentError,
    LocalProtocolError,
    NotLeaderError,
    PeerTimeoutError,
    TransportError,
    UnreachableError,
)
from transport.wire.address import Address
from transport.wire.contact_points import told_addresses
from transport.wire.messages import Frame

DEFAULT_RETRY = Backoff(minimum=0.05, maximum=2.0, give_up_after=60.0)
"""Longer than a broker's restart; an error that reaches Spark ends its task or its query."""

SILENT_SECONDS = 5.0
"""Without a connection after which a program that waits is told why: a wrong address looks like one who works otherwise."""

logger = logging.getLogger("penstock.transport")

C = TypeVar("C", bound=BlockingConnection)
T = TypeVar("T")


class BlockingLink(Generic[C]):
    """At most one connection at a time; made by the first use.

    Args:
        addresses: the broker's contact points, as of `Contacts`.
        what: what is connected to, for errors: ``queue 'orders'``.
        connect: makes a connection to one address.
        retry: how a lost connection is sought again.
        clock: monotonic seconds.
        chance: randomness in 0..1 for the back-off.

    Attributes:
        tells: whether a warning says that nobody answers. It does so once, until somebody has answered.
        attempt_seconds: for the attempt to connect that is under way, and again for its first word.
        signed_seconds: for an answer of a broker that says meanwhile that it is there: no longer than one is sought.

    Raises:
        LocalProtocolError: no address, or one that is none.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        what: str,
        connect: Callable[[Address], C],
        retry: Backoff,
        clock: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        self._contacts = Contacts(addresses, what)
        self.what = what
        self.retry = retry
        self.signed_seconds = min(SIGNED_TIMEOUT, math.inf if retry.give_up_after is None else retry.give_up_after)
        self.clock = clock
        self.chance = chance
        self.tells = True
        self._told = False
        self._make = connect
        self._connection: C | None = None
        self._connected_at = 0.0
        self._closed = threading.Event()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed.is_set()

    @property
    def attempt_seconds(self) -> float:
        """As told above."""
        return self._contacts.patience

    @property
    def elects(self) -> bool:
        """Whether a cluster has answered that will soon have a leader."""
        return self._contacts.elects

    def retrying(self, ask: Callable[[C], T]) -> T:
        """What ``ask`` makes of an open connection, asked again on another as long as there is patience."""
        patience = Patience(self)
        while True:
            try:
                return ask(self.connected())
            except (TransportError, OSError) as error:
                self.drop()
                patience.bear(error)
            except BaseException:
                self.drop()  # interrupted between a request and its answer: that connection is out of step
                raise

    def connected(self) -> C:
        """The connection, made again if it ended while nobody was looking.

        Raises:
            BrokerError: a refusal that another connection would not change.
            ConnectionLostError: no address answered.
            RemoteProtocolError: what came while nobody was looking broke the protocol.
        """
        if self._connection is not None:
            try:
                self._connection.catch_up()
            except (TransportError, OSError) as error:
                self.drop()
                self.lost(error)
                # A refusal for good, or a breach of the protocol, is told. Anything else a new connection says again, if it still holds.
                if not is_transient(error):
                    raise
        if self._connection is None:
            self._connection = self._connect()
            self._connected_at = self.clock()
            self._told = False
            if self.closed:
                # Meanwhile, from another thread, which found no connection to close.
                self.drop()
                raise LocalProtocolError(f"the client of {self.what} is closed")
        return self._connection

    def drop(self) -> None:
        """Close the connection, if there is one; the next use makes another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Close for good; a wait for another connection ends."""
        self._closed.set()
        self.drop()

    def lost(self, error: Exception) -> bool:
        """The connection has ended with ``error``; whether another is to be sought at once.

        One that has ended soon is no reason to hurry: a broker that lets in and ends again would be asked without end.
        """
        contacts = self._contacts
        if stood := self._connected_at > 0 and self.clock() - self._connected_at >= LEAST_STANDING:
            contacts.rested()
        self._connected_at = 0.0
        at_once = self._note(error)
        if isinstance(error, NotLeaderError):
            return at_once
        return stood and contacts.several and (not isinstance(error, BrokerError) or error.code in ELSEWHERE_CODES)

    def tell(self, seconds: float, error: Exception) -> None:
        """Warn, where that was not done yet, that nobody has answered for so long."""
        if not self.tells or self._told:
            return
        self._told = True
        patience = self.retry.give_up_after
        until = "" if patience is None else f", and is given up after {patience:g} s"
        logger.warning(
            "%s: no broker answers for %.0f s now (%s); it is tried again%s", self.what, seconds, error, until
        )

    def pause(self, seconds: float) -> None:
        """Wait between two attempts, or until the link is closed."""
        self._contacts.rested()
        self._closed.wait(seconds)

    def _connect(self) -> C:
        if self.closed:
            raise LocalProtocolError(f"the client of {self.what} is closed")
        failures: list[str] = []
        contacts = self._contacts
        # What is left of a pass that has found one; else a new one.
        address = contacts.next() or contacts.next()
        while address is not None:
            try:
                connection = self._make(address)
            except (TransportError, OSError) as error:
                if not _may_pass(error):
                    raise
                self._note(error)
                failures.append(f"{address}: {error}")
            else:
                contacts.let_in()
                return connection
            address = contacts.next()
        raise ConnectionLostError("; ".join(failures))

    def _note(self, error: Exception) -> bool:
        """What ``error`` says of the address tried last; whether it leads on to the next at once."""
        if isinstance(error, NotLeaderError):
            return self._contacts.follows(told_addresses(error.leader))
        if isinstance(error, TimeoutError | PeerTimeoutError | FellSilentError):
            self._contacts.silent()
        return False


def _may_pass(error: Exception) -> bool:
    """Whether another connection may do better."""
    if isinstance(error, BrokerError):
        return error.transient
    return isinstance(error, OSError | PeerTimeoutError)


class Patience:
    """How long one request bears with connections that break."""

    __slots__ = ("_attempt", "_link", "_since")

    def __init__(self, link: BlockingLink[C]) -> None:
        self._link = link
        self._attempt = 0
        self._since: float | None = None

    def renew(self) -> None:
        """Something worked."""
        self._attempt = 0
        self._since = None

    def excuse(self, seconds: float) -> None:
        """A wait in which the broker owed nothing: it does not count."""
        if self._since is not None:
            self._since += seconds

    def bear(self, error: TransportError | OSError) -> None:
        """Wait before the next attempt, or raise where there is no point or no time left for one."""
        link = self._link
        if link.closed or not _may_pass(error):
            raise error
        now = link.clock()
        if self._since is None:
            self._since = now
        at_once = link.lost(error)
        delay = 0.0 if at_once else link.retry.delay(self._attempt, link.chance())
        if link.elects:
            delay = min(delay, max(MAX_ELECTION_PAUSE, link.retry.minimum))
        limit = link.retry.give_up_after
        if limit is not None and now + delay - self._since > limit:
            raise UnreachableError(link.what, now - self._since, self._attempt + 1, error) from error
        if now - self._since >= SILENT_SECONDS:
            link.tell(now - self._since, error)
        if not at_once:
            self._attempt += 1
            link.pause(delay)


class BlockingClient(ABC, Generic[C]):
    """What asks a broker through a `BlockingLink`; a context manager that closes. What the broker holds for it stays."""

    def __init__(
        self,
        addresses: str | Sequence[str],
        what: str,
        retry: Backoff,
        clock: Callable[[], float],
        chance: Callable[[], float],
        credentials: Credentials,
    ) -> None:
        self._credentials = credentials
        self._link = BlockingLink(addresses, what, self._connect, retry, clock, chance)
        self._clock = clock
        self._request = 0

    def tell_nobody(self) -> None:
        """Give no warning of a broker that does not answer: the program says it itself."""
        self._link.tells = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection, and end any wait for another."""
        self._link.close()

    @abstractmethod
    def _connect(self, address: Address) -> C:
        """A connection to one address."""

    def _asked(self, connection: C, kind: type[T], request: Callable[[int], Frame], wait: float = 0.0) -> T:
        """The answer to the request that is made of the next number; it may take ``wait`` seconds by itself."""
        self._request += 1
        connection.send(request(self._request))
        return connection.answer(kind, self._request, wait)

    def _ask(self, kind: type[T], request: Callable[[int], Frame], wait: float = 0.0) -> T:
        """The same on an open connection, asked again on another as long as there is patience."""
        return self._link.retrying(lambda connection: self._asked(connection, kind, request, wait))
