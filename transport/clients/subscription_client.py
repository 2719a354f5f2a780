"""A blocking client of one subscription, for programs that have no event loop, such as Spark's Python workers.

Plain sockets around the same sans-IO frames and protocol as everything else; docs/protocol.md, "Subscriptions". Every request of this role
may be repeated. So a connection that breaks is made again inside, and the caller sees only what cannot be helped by that. One breaks, too,
where nobody read the broker's heartbeats between two requests.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from transport.clients.authentication import NO_CREDENTIALS, Credentials
from transport.clients.backoff import CONNECT_TIMEOUT, Backoff
from transport.clients.blocking_connection import SIGNED_TIMEOUT, BlockingConnection, refusal
from transport.clients.blocking_link import DEFAULT_RETRY, BlockingClient, Patience
from transport.errors import BrokerError, LocalProtocolError, OldBrokerError, RemoteProtocolError, TransportError
from transport.security.access import Access
from transport.wire.address import Address
from transport.wire.cumulative import GrantedDemand
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.liveness import DEFAULT_HEARTBEAT
from transport.wire.messages import (
    VERSION,
    Commit,
    Committed,
    Error,
    Fetch,
    Fetched,
    FetchEnd,
    Hello,
    Options,
    Request,
    Reserve,
    Reserved,
)

if TYPE_CHECKING:
    from transport.wire.receiver_bindings import Binding

__all__ = ["DEFAULT_RETRY", "Fetched", "Reservation", "SubscriptionClient", "SubscriptionState"]

Mode = Literal["own", "read", "browse"]
OWNER_WAIT = 30.0
"""Seconds for which a subscription is waited for whose owner lives. It is twice the silence after which a broker gives up a client that
lost its machine or its network (three heartbeats, 15 s by default): so what is started again gets in while the rest of it goes."""
BEAT_SECONDS = DEFAULT_HEARTBEAT
"""Until the next beat after one that failed, or found the client busy: a third of the silence that a broker bears."""
OWNER_PAUSE = Backoff(minimum=0.05, maximum=1.0)
"""How often the broker is asked meanwhile."""

logger = logging.getLogger("penstock.subscription")
ROLE = "subscription"
FETCH_TIMEOUT = 60.0
"""Seconds for the next piece of a fetch: a largest frame over a slow line."""
FETCH_WINDOW_MESSAGES = 262_144
"""Messages on their way to one reader; with tiny messages this, else the bytes, is the bound."""
FETCH_WINDOW_BYTES = 2 * MAX_FRAME_BYTES
"""Bytes on their way to one reader: a largest frame can be under way while another is being read."""


@dataclass(frozen=True, slots=True)
class SubscriptionState:
    """What WELCOME said of the subscription.

    Attributes:
        epoch: the owner's; 0 to one who browses.
        base: positions below are acknowledged.
        high: positions below are reserved; to one who browses, the queue's next sequence number.
        high_water: the queue's next sequence number.
        id_prefix: the first 8 bytes of the ids generated for this queue's messages.
        created: whether the queue did not exist, and was made for this connection.
    """

    epoch: int
    base: int
    high: int
    high_water: int
    id_prefix: bytes
    created: bool = False


class SubscriptionConnection(BlockingConnection):
    """One open connection in this role.

    Attributes:
        state: what WELCOME said.
        bound: what it said of bindings; None where it said nothing.
    """

    state: SubscriptionState
    bound: object

    def __init__(
        self,
        address: Address,
        hello: Hello,
        clock: Callable[[], float],
        credentials: Credentials = NO_CREDENTIALS,
        patience: float = CONNECT_TIMEOUT,
        signed: float = SIGNED_TIMEOUT,
    ) -> None:
        self._demand = GrantedDemand()
        super().__init__(address, hello, clock, credentials, patience, signed)

    def fetch(self, request: int, start: int, stop: int, *, gaps: bool = False) -> Iterator[Fetched]:
        """Every message of start <= p < stop; anything less is an error, unless there may be ``gaps``."""
        self.send(Fetch(request, start, stop))
        position = start
        messages = 0
        while True:
            self._grant()
            frame = self._next(self._clock() + FETCH_TIMEOUT)
            if isinstance(frame, FetchEnd) and frame.request == request:
                break
            if isinstance(frame, Error):
                raise refusal(frame, request)
            if not isinstance(frame, Fetched) or frame.request != request:
                raise RemoteProtocolError(f"FETCH {request} was answered by {type(frame).__name__.upper()}")
            count = len(frame.batch)
            skipped = frame.position - position
            if skipped < 0 or (skipped and not gaps) or frame.position + count > stop:
                raise RemoteProtocolError(
                    f"positions {position}-{stop} were asked for, {frame.position}-{frame.position + count} came"
                )
            position = frame.position + count
            messages += count
            self._demand.used_messages += count
            self._demand.used_bytes += frame.batch.nbytes
            yield frame
        if frame.messages != messages or (position != stop and not gaps):
            raise RemoteProtocolError(f"FETCH of positions {start}-{stop} ended at {position}")

    def _grant(self) -> None:
        """Demand for more once half of the window is used; cumulative, as the protocol wants it."""
        demand = self._demand
        messages = demand.used_messages + FETCH_WINDOW_MESSAGES - demand.messages
        size = demand.used_bytes + FETCH_WINDOW_BYTES - demand.bytes
        if messages >= FETCH_WINDOW_MESSAGES // 2 or size >= FETCH_WINDOW_BYTES // 2:
            self.send(Request(*demand.grow(messages, size)))

    def _opened(self, options: Options) -> None:
        numbers: list[Any] = [options.get(name) for name in ("epoch", "base", "high", "high_water")]
        prefix = options.get("id_prefix")
        if not all(type(number) is int for number in numbers) or not isinstance(prefix, bytes):
            raise RemoteProtocolError(f"WELCOME to a subscription carries {sorted(options)}")
        epoch, base, high, high_water = numbers
        self.bound = options.get("bound")
        self.state = SubscriptionState(epoch, base, high, high_water, prefix, options.get("created") is True)


@dataclass(frozen=True, slots=True)
class Reservation:
    """The answer to `SubscriptionClient.reserve`.

    Attributes:
        end: positions from the start asked for up to ``end`` are reserved; the start itself when nothing was ready.
        facts: the queue's state, as docs/protocol.md names it under RESERVE.
    """

    end: int
    facts: Options


class SubscriptionClient(BlockingClient[SubscriptionConnection]):
    """One subscription of one queue. Connects with its first request; a context manager that closes. Reservations stay.

    Args:
        addresses: the broker's receiving address, or several of a cluster, in a sequence or with commas.
        queue: the queue's name.
        subscription: the subscription's name; to browse there is none.
        mode: ``own`` to reserve and commit, ``read`` to fetch on behalf of the owner, ``browse`` to fetch what the queue stores.
        epoch: the owner's; needed to read. An owner that has one resumes it.
        starting: ``earliest`` or ``latest``; holds when the subscription is created.
        owner_timeout_ms: how long reservations outlive the owner's connection; None for ever.
        take_over: whether the subscription is taken from an owner that lives; otherwise that is waited for, and then refused.
        owner_wait: for how many seconds that is.
        must_exist: whether a queue that does not exist is refused rather than made.
        skip_oversized: whether `fetch` leaves out messages that fit no frame, which came over AMQP, rather than be refused at one.
        client_id: what this client calls itself, which others are told that find the subscription owned.
        access: who this is, and whether TLS is spoken; None for what the environment says, nobody where it says nothing.
        token: short for an access with a token alone.
        bind: of an owner, what its queue is bound to before it reserves anything (`Binding`).
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
        take_over: bool = False,
        owner_wait: float = OWNER_WAIT,
        must_exist: bool = False,
        skip_oversized: bool = False,
        client_id: str | None = None,
        access: Access | None = None,
        token: str | None = None,
        bind: Sequence[Binding] = (),
        retry: Backoff = DEFAULT_RETRY,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(addresses, f"queue {queue!r}", retry, clock, chance, Credentials(access, token))
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
        if take_over:
            self._options["take_over"] = True
        if must_exist:
            self._options["must_exist"] = True
        if skip_oversized:
            self._options["oversized"] = "skip"
        self._may_have_gaps = mode == "browse" or skip_oversized
        if bind:
            from transport.wire.receiver_bindings import BIND, checked_bindings, said_bindings  # noqa: PLC0415 - few want that

            self._options[BIND] = said_bindings(checked_bindings(list(bind)))
        self._binds = bool(bind)
        self._owner_wait = owner_wait
        self._client_id = client_id
        if owner_timeout_ms is not None:
            self._options["owner_timeout_ms"] = owner_timeout_ms
        self._chance = chance

    def open(self) -> SubscriptionState:
        """Connect now, if not connected; what WELCOME said."""
        return self._link.retrying(lambda connection: connection.state)

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
        answer = self._ask(
            Reserved, lambda request: Reserve(request, start, messages, size, wait_ms, below), wait_ms / 1000
        )
        return Reservation(answer.end, answer.facts)

    def commit(self, position: int) -> int:
        """Acknowledge every position below ``position``; returns the ledger's base."""
        return self._ask(Committed, lambda request: Commit(request, position)).base

    def fetch(self, start: int, stop: int) -> Iterator[Fetched]:
        """The reserved positions ``start <= p < stop`` in order, under this client's own demand; may be repeated.

        In mode ``browse`` positions are the queue's numbers, and those of messages that are not stored any more are left out. Where the
        queue is another by the time that a connection is made again, that is BrokerError ``data-loss``: its numbers say nothing.

        A connection that breaks in the middle is made again and the fetch goes on where it was. An iterator that is given up
        before its end closes the connection.
        """
        position = start
        # Every piece is progress: the patience for a broker that is away begins anew with it.
        patience = Patience(self._link)
        while position < stop:
            complete = False
            try:
                connection = self._link.connected()
                self._request += 1
                for fetched in connection.fetch(self._request, position, stop, gaps=self._may_have_gaps):
                    position = fetched.position + len(fetched.batch)
                    patience.renew()
                    yield fetched
                position, complete = stop, True
            except (TransportError, OSError) as error:
                patience.bear(error)
            finally:
                if not complete:
                    self._link.drop()

    def beat(self) -> float:
        """Stay the owner while there is nothing to ask: answer the broker's heartbeats, and connect again if the connection broke.

        Returns:
            the seconds after which to do it again at the latest.
        """
        connection = self._link.connected()
        try:
            return connection.beat()
        except (TransportError, OSError):
            self._link.drop()
            raise

    def _connect(self, address: Address) -> SubscriptionConnection:
        options = self._options | ({} if self._epoch is None else {"epoch": self._epoch})
        hello = Hello(VERSION, ROLE, self._queue, self._client_id, options)
        refused_at: float | None = None
        attempt = 0
        while True:
            try:
                connection = SubscriptionConnection(
                    address,
                    hello,
                    self._clock,
                    self._credentials,
                    self._link.attempt_seconds,
                    self._link.signed_seconds,
                )
                break
            except BrokerError as error:
                # The owner may be this client itself: by a connection that broke, which the broker has yet to notice.
                if error.code != "subscription-owned":
                    raise
                now = self._clock()
                if refused_at is None:
                    refused_at = now
                    logger.warning(
                        "%s; waiting up to %g s for its owner to go: %s", self._link.what, self._owner_wait, error.text
                    )
                pause = OWNER_PAUSE.delay(attempt, self._chance())
                if self._link.closed or now + pause - refused_at > self._owner_wait:
                    raise
                attempt += 1
                self._link.pause(pause)
        self._opened(connection)
        return connection

    def _opened(self, connection: SubscriptionConnection) -> None:
        """Go on with what WELCOME said, if it is still about the same."""
        state = connection.state
        if self._binds and connection.bound is None:
            connection.close()
            raise OldBrokerError(
                "the broker is older than this client and binds no queues to exchanges: update it, or bind the queue and leave bind out"
            )
        if self._id_prefix not in (None, state.id_prefix):
            connection.close()
            raise BrokerError(
                "data-loss",
                f"queue {self._queue!r} was deleted, or its broker started anew without a journal, while it was read: its numbers are "
                "others now; read it again from the beginning",
            )
        if self._mode != "browse":
            self._epoch = state.epoch
        self._id_prefix = state.id_prefix
