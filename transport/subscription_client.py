"""A blocking client of one subscription, for programs that have no event loop, such as Spark's Python workers.

Plain sockets around the same sans-IO frames and protocol as everything else; docs/protocol.md, "Subscriptions". Every request of
this role may be repeated, so a connection that breaks (or that the broker closed because nobody read its heartbeats between two
requests) is made again inside, and the caller sees only what cannot be helped by that.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self, TypeVar

from transport.address import parse_address
from transport.client import Backoff
from transport.errors import (
    BrokerError,
    ConnectionLostError,
    LocalProtocolError,
    PeerTimeoutError,
    TransportError,
)
from transport.subscription_connection import ROLE, SubscriptionConnection, SubscriptionState
from transport.wire import VERSION, Commit, Committed, Fetched, Hello, Options, Reserve, Reserved

__all__ = ["Fetched", "Reservation", "SubscriptionClient", "SubscriptionState"]

DEFAULT_RETRY = Backoff(minimum=0.05, maximum=2.0, give_up_after=60.0)
"""Longer than a broker's restart; an error that reaches Spark's driver ends its query."""

Mode = Literal["own", "read", "browse"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reservation:
    """The answer to `SubscriptionClient.reserve`.

    Attributes:
        end: positions from the start asked for up to ``end`` are reserved; the start itself when nothing was ready.
        facts: the queue's state, as docs/protocol.md names it under RESERVE.
    """

    end: int
    facts: Options


class SubscriptionClient:
    """One subscription of one queue. Connects with its first request; a context manager that closes.

    Args:
        addresses: the brokers' receiving addresses, tried in turn.
        queue: the queue's name.
        subscription: the subscription's name; to browse there is none.
        mode: ``own`` to reserve and commit, ``read`` to fetch on behalf of the owner, ``browse`` to fetch what the queue stores.
        epoch: the owner's; needed to read. An owner that has one resumes it.
        starting: ``earliest`` or ``latest``; holds when the subscription is created.
        owner_timeout_ms: how long reservations outlive the owner's connection; None for ever.
        token: passed to the broker.
        retry: how a lost connection is sought again.
        clock: monotonic seconds.
        chance: randomness in 0..1 for the back-off.

    Raises, from every request:
        BrokerError: the broker refused, and trying again would not help.
        ConnectionLostError: no broker could be reached for ``retry.give_up_after``.
        RemoteProtocolError: the broker said what the protocol does not allow.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        queue: str,
        subscription: str = "",
        mode: Mode,
        epoch: int | None = None,
        starting: str = "earliest",
        owner_timeout_ms: int | None = None,
        token: str | None = None,
        retry: Backoff = DEFAULT_RETRY,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._addresses = deque(
            parse_address(text) for text in ([addresses] if isinstance(addresses, str) else addresses)
        )
        if not self._addresses:
            raise LocalProtocolError("a subscription needs the receiving address of at least one broker")
        if mode == "read" and epoch is None:
            raise LocalProtocolError("mode 'read' needs the epoch of the owner that it reads for")
        if mode != "browse" and not subscription:
            raise LocalProtocolError(f"mode {mode!r} needs the name of a subscription")
        self._queue = queue
        self._mode = mode
        self._epoch = epoch
        self._id_prefix: bytes | None = None
        self._options: Options = {"mode": mode}
        if mode != "browse":
            self._options |= {"subscription": subscription, "starting": starting}
        if owner_timeout_ms is not None:
            self._options["owner_timeout_ms"] = owner_timeout_ms
        if token is not None:
            self._options["token"] = token
        self._retry = retry
        self._clock = clock
        self._chance = chance
        self._connection: SubscriptionConnection | None = None
        self._closed = threading.Event()
        self._request = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> SubscriptionState:
        """Connect now, if not connected; what WELCOME said."""
        return self._retrying(lambda connection: connection.state)

    def reserve(
        self, start: int, messages: int, size: int, *, wait_ms: int = 0, below: int | None = None
    ) -> Reservation:
        """Take up to ``messages`` ready messages of ``size`` bytes into the ledger, unless it reaches beyond ``start`` already.

        Args:
            start: the position after the last one seen.
            messages: how many at most.
            size: how many bytes at most; one message is always let through.
            wait_ms: how long to wait for the first, at most 10 000.
            below: take only messages whose queue sequence number is less.
        """

        def ask(connection: SubscriptionConnection) -> Reservation:
            request = self._next_request()
            connection.send(Reserve(request, start, messages, size, wait_ms, below))
            answer = connection.answer(Reserved, request, wait_ms / 1000)
            return Reservation(answer.end, answer.facts)

        return self._retrying(ask)

    def commit(self, position: int) -> int:
        """Acknowledge every position below ``position``; returns the ledger's base."""

        def ask(connection: SubscriptionConnection) -> int:
            request = self._next_request()
            connection.send(Commit(request, position))
            return connection.answer(Committed, request).base

        return self._retrying(ask)

    def fetch(self, start: int, stop: int) -> Iterator[Fetched]:
        """The reserved positions ``start <= p < stop`` in order, under this client's own demand; may be repeated.

        In mode ``browse`` positions are the queue's numbers, and those of messages that are not stored any more are left out. Where the
        queue is another by the time that a connection is made again, that is BrokerError ``data-loss``: its numbers say nothing.

        A connection that breaks in the middle is made again and the fetch goes on where it was. An iterator that is given up
        before its end closes the connection.
        """
        position = start
        # Every piece is progress: the patience for a broker that is away begins anew with it.
        patience = _Patience(self)
        while position < stop:
            complete = False
            try:
                connection = self._connected()
                for fetched in connection.fetch(self._next_request(), position, stop, gaps=self._mode == "browse"):
                    position = fetched.position + len(fetched.batch)
                    patience.renew()
                    yield fetched
                position, complete = stop, True
            except (TransportError, OSError) as error:
                patience.bear(error)
            finally:
                if not complete:
                    self._drop()

    def close(self) -> None:
        """Close the connection and end any wait for another; reservations stay."""
        self._closed.set()
        self._drop()

    def _retrying(self, ask: Callable[[SubscriptionConnection], T]) -> T:
        patience = _Patience(self)
        while True:
            try:
                return ask(self._connected())
            except (TransportError, OSError) as error:
                self._drop()
                patience.bear(error)
            except BaseException:
                self._drop()  # interrupted between a request and its answer: that connection is out of step
                raise

    def _connected(self) -> SubscriptionConnection:
        """The connection, made again if it ended while nobody was looking."""
        if self._connection is not None:
            try:
                self._connection.catch_up()
            except (TransportError, OSError):
                # Whatever it was, a new connection says it again if it still holds.
                self._drop()
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> SubscriptionConnection:
        if self._closed.is_set():
            raise LocalProtocolError("this subscription client is closed")
        options = self._options | ({} if self._epoch is None else {"epoch": self._epoch})
        hello = Hello(VERSION, ROLE, self._queue, None, options)
        failures: list[str] = []
        for _ in range(len(self._addresses)):
            address = self._addresses[0]
            try:
                connection = SubscriptionConnection(address, hello, self._clock)
            except BrokerError as error:
                if not error.transient:
                    raise
                failures.append(f"{address}: {error}")
            except (OSError, ConnectionLostError, PeerTimeoutError) as error:
                failures.append(f"{address}: {error}")
            else:
                self._opened(connection)
                return connection
            self._addresses.rotate(-1)
        raise ConnectionLostError("; ".join(failures))

    def _opened(self, connection: SubscriptionConnection) -> None:
        """Go on with what WELCOME said, if it is still about the same."""
        state = connection.state
        if self._mode != "browse":
            self._epoch = state.epoch
        elif self._id_prefix not in (None, state.id_prefix):
            connection.close()
            raise BrokerError(
                "data-loss",
                f"queue {self._queue!r} was deleted, or its broker started anew without a journal, while it was read: its numbers are "
                "others now; read it again from the beginning",
            )
        self._id_prefix = state.id_prefix

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _next_request(self) -> int:
        self._request += 1
        return self._request


class _Patience:
    """How long one request bears with connections that break."""

    __slots__ = ("_attempt", "_client", "_since")

    def __init__(self, client: SubscriptionClient) -> None:
        self._client = client
        self._attempt = 0
        self._since: float | None = None

    def renew(self) -> None:
        """Something worked."""
        self._attempt = 0
        self._since = None

    def bear(self, error: TransportError | OSError) -> None:
        """Wait before the next attempt, or raise where there is no point or no time left for one."""
        client = self._client
        lost = isinstance(error, OSError | ConnectionLostError | PeerTimeoutError)
        if client._closed.is_set() or not (lost or (isinstance(error, BrokerError) and error.transient)):
            raise error
        now = client._clock()
        if self._since is None:
            self._since = now
        delay = client._retry.delay(self._attempt, client._chance())
        limit = client._retry.give_up_after
        if limit is not None and now + delay - self._since > limit:
            raise ConnectionLostError(
                f"queue {client._queue!r} could not be reached for {now - self._since:.1f} s "
                f"({self._attempt + 1} attempts); the last: {error}"
            ) from error
        self._attempt += 1
        client._closed.wait(delay)
