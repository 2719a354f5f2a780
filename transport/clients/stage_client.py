"""A blocking client that stages messages for a transaction, for programs that have no event loop, such as Spark's Python workers.

docs/protocol.md, "Transactions". What is sent is stored under the stage and can be received by nobody until the stage is among those
that a `TransactionClient` commits. `StageClient.send` returns when everything it was given has left under the broker's demand, so a
queue that is full holds its writer; confirmations are awaited by `finish` only. What is unconfirmed is kept and sent again after
a lost connection, under the same numbers: the broker stores it once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from actors.batch import MessageBatch
from actors.queue.vocabulary.stages import EnlistedStage
from transport.clients.authentication import NO_CREDENTIALS, Credentials
from transport.clients.backoff import CONNECT_TIMEOUT, Backoff
from transport.clients.blocking_connection import CATCH_UP_TIMEOUT, SIGNED_TIMEOUT, BlockingConnection
from transport.clients.blocking_link import DEFAULT_RETRY, BlockingClient, Patience
from transport.clients.sender_session import SenderSession
from transport.errors import (
    BrokerError,
    DemandTimeoutError,
    LocalProtocolError,
    PeerTimeoutError,
    QueueFullError,
    RemoteProtocolError,
    StageLostError,
    TransportError,
)
from transport.security.access import Access
from transport.wire.address import Address
from transport.wire.cumulative import CumulativeDemand
from transport.wire.messages import VERSION, Demand, Error, Frame, Hello, Options, Sent, Tallied, Tally
from transport.wire.names import check_name
from transport.wire.transaction_options import STAGE, transaction_options

DEFAULT_DEMAND_TIMEOUT = 300.0
"""Seconds without room in the queue after which a task is better failed, so that somebody looks."""
CONFIRM_TIMEOUT = 60.0
"""Seconds for the next confirmation: a group commit on a disk that is busy; a heartbeat answers sooner if the broker is gone."""
MAX_UNCONFIRMED_BYTES = 32 * 1024 * 1024
"""Bytes kept to be sent again: twice the most that a broker grants a sender at a time."""
COMMITTED_CODE = "transaction-committed"
"""With this the broker refuses messages for a version that was committed while they were on their way."""
ROLE = "sender"


class StageConnection(BlockingConnection):
    """One open connection to a stage.

    Attributes:
        committed: whether the transaction's version is committed already.
        stored: how many messages of the stage the broker had when the connection opened.
        heard: how many demands and confirmations came.
        tallied: through an exchange, which queues hold how many messages of the stage, as far as that has come.
        tally_of: the request for which all of that has come; None for none.
        asked_of: the last request for it; None for none. Requests are named by how many messages the stage had been given.

    Args:
        address: the broker's.
        hello: what to open with.
        clock: monotonic seconds.
        session: what is to be sent, and what is not confirmed.
        confirmed: told when something is confirmed, at once, for what follows it may be the connection's end.
        credentials: how this side proves itself, and knows the broker.
        patience, signed: as of a `BlockingConnection`.
    """

    committed: bool
    stored: int

    def __init__(
        self,
        address: Address,
        hello: Hello,
        clock: Callable[[], float],
        session: SenderSession,
        confirmed: Callable[[], None],
        credentials: Credentials = NO_CREDENTIALS,
        patience: float = CONNECT_TIMEOUT,
        signed: float = SIGNED_TIMEOUT,
    ) -> None:
        self._what = hello.queue or str(hello.options.get("exchange"))
        self._session = session
        self.tallied: list[tuple[str, int]] = []
        self.tally_of: int | None = None
        self.asked_of: int | None = None
        self._tell_confirmed = confirmed
        self._granted = CumulativeDemand()
        self.heard = 0
        super().__init__(address, hello, clock, credentials, patience, signed)

    def push(self, most_unconfirmed: int) -> bool:
        """Send what demand and the bound on what is unconfirmed let through; returns whether that was anything."""
        frames = self._session.sends(most_unconfirmed=most_unconfirmed)
        for frame in frames:
            self.send(frame)
        return bool(frames)

    def catch_up(self) -> None:
        """Take the demand and the confirmations that are there, without waiting; what comes for longer is for the next time."""
        began = self._clock()
        more = True
        while more and self._clock() - began < CATCH_UP_TIMEOUT:
            try:
                self._receive_waiting()
            finally:
                more = bool(self._frames)
                self._take_all()

    def listen(self, deadline: float) -> None:
        """Wait for one demand or confirmation.

        Raises:
            PeerTimeoutError: nothing came before ``deadline``.
        """
        try:
            self._take(self._next(deadline))
        finally:
            self._take_all()

    def _take_all(self) -> None:
        """What has come counts, also where the connection ended right behind it."""
        while self._frames:
            self._take(self._frames.popleft())

    def _take(self, frame: Frame) -> None:
        self.heard += 1
        if isinstance(frame, Demand):
            self._session.granted(*self._granted.growth(frame.messages, frame.bytes))
        elif isinstance(frame, Error):
            raise BrokerError(frame.code, frame.text)
        elif isinstance(frame, Sent):
            self._answered(frame)
        elif isinstance(frame, Tallied) and frame.queue is not None:
            self.tallied.append((frame.queue, frame.messages))
        elif isinstance(frame, Tallied):
            self.tally_of = frame.request
        else:
            raise RemoteProtocolError(f"{type(frame).__name__.upper()} answers nothing that was sent")

    def _answered(self, frame: Sent) -> None:
        session, stored = self._session, self._session.confirmed_up_to
        if frame.rejected is not None and stored < frame.up_to <= session.next_number:
            # The session keeps the batch: it is sent again, on another connection.
            raise QueueFullError(self._what, stored, frame.up_to - stored, frame.rejected)
        if not session.sent(frame):
            raise RemoteProtocolError("SENT answers nothing that was sent")
        self._tell_confirmed()

    def _opened(self, options: Options) -> None:
        committed, stored = options.get("committed"), options.get("last_sequence")
        # A broker that does not know stages would make what is sent receivable at once.
        if not isinstance(committed, bool) or not (stored is None or type(stored) is int):
            raise RemoteProtocolError(
                f"the broker does not know transactions: WELCOME to a stage carries {sorted(options)}"
            )
        self.committed = committed
        self.stored = stored or 0


class StageClient(BlockingClient[StageConnection]):
    """One stage of one queue, or of all queues behind an exchange. Connects with its first use; a context manager that closes.

    What is staged stays until its transaction ends or times out.

    Args:
        addresses: the broker's sending address, or several of a cluster, in a sequence or with commas.
        queue: the queue's name; None with an exchange.
        exchange: the exchange's name, in place of a queue's.
        routing_key: of messages that have no key of their own; only with ``exchange``.
        writer: who writes, for all its transactions.
        version: the number of the transaction; a writer's versions grow.
        stage: unique for each attempt of each task.
        access: who this is, and whether TLS is spoken; None for what the environment says, nobody where it says nothing.
        token: short for an access with a token alone.
        retry: how a lost connection is sought again.
        demand_timeout: seconds without room in the queue after which `send` and `finish` fail.
        clock: monotonic seconds.
        chance: randomness in 0..1 for the back-off.

    Raises, from every method but `close`:
        BrokerError: the broker refused, and trying again would not help: ``transaction-too-large``, ``taken-over``.
        ConnectionLostError: no broker could be reached for ``retry.give_up_after``.
        DemandTimeoutError: the queue granted no room for ``demand_timeout``.
        QueueFullError: the queue rejects what it has no room for (overflow ``reject``).
        StageLostError: the broker lost what it had confirmed; another stage must be written.
        RemoteProtocolError: the broker said what the protocol does not allow.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        queue: str | None = None,
        exchange: str | None = None,
        routing_key: str | None = None,
        writer: str,
        version: int,
        stage: str,
        access: Access | None = None,
        token: str | None = None,
        retry: Backoff = DEFAULT_RETRY,
        demand_timeout: float = DEFAULT_DEMAND_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if (queue is None) == (exchange is None) or (exchange is None and routing_key is not None):
            raise LocalProtocolError(
                "a stage is of one place: give either queue, or exchange with a routing_key or without"
            )
        self._options = transaction_options(writer, version) | {STAGE: check_name(stage, "stage")}
        self._publishes = exchange is not None
        if exchange is not None:
            from transport.wire.exchange_named import checked_target, publishing_options  # noqa: PLC0415 - most stage for queues

            self._options |= publishing_options(checked_target(exchange, routing_key, mandatory=False))
        elif queue is not None:
            check_name(queue, "queue")
        if not demand_timeout > 0:
            raise LocalProtocolError(f"a demand timeout of {demand_timeout} s is not above zero")
        self._queue = queue
        self._what = queue or exchange or "amq.default"
        self._stage = stage
        self._demand_timeout = demand_timeout
        what = f"queue {queue!r}" if exchange is None else f"exchange {exchange!r}"
        super().__init__(addresses, what, retry, clock, chance, Credentials(access, token))
        self._committed = False
        self._session = SenderSession(client_id=stage, numbered=not self._publishes)
        self._given = 0
        self._tally: list[tuple[str, int]] | None = None
        self._moved_at = 0.0
        self._patience = Patience(self._link)

    def open(self) -> bool:
        """Connect now, if not connected. False: this version is committed already, nothing needs to be sent."""
        if not self._committed:
            self._link.retrying(lambda connection: connection)
        return not self._committed

    def send(self, batch: MessageBatch) -> None:
        """Stage ``batch``; returns when it is on its way. Its buffers must not be changed before `finish` has returned.

        Raises:
            MessageTooLargeError: a message that fits no frame; nothing of the batch was staged.
            LocalProtocolError: it is no MessageBatch.
        """
        if not isinstance(batch, MessageBatch):
            raise LocalProtocolError(f"a stage takes a MessageBatch, not {type(batch).__name__}")
        self._session.offer(batch)
        self._given += len(batch)
        self._tally = None
        self._work(lambda: not self._session.unsent_messages)

    def finish(self) -> EnlistedStage:
        """Wait until everything is stored, durably where the broker is durable; what a `TransactionClient` commits.

        Raises:
            LocalProtocolError: it is a stage of an exchange, which may be in several queues: `finish_all` has them.
        """
        if self._queue is None:
            raise LocalProtocolError(
                "a stage of an exchange is in as many queues as it was routed to: call finish_all()"
            )
        self._work(lambda: self._session.idle)
        return EnlistedStage(self._queue, self._stage, self._given)

    def finish_all(self) -> tuple[EnlistedStage, ...]:
        """As `finish`, of a stage of an exchange too: one for each queue that holds messages of it. All of them are to be committed."""
        if self._queue is not None:
            return (self.finish(),)
        self._work(lambda: self._session.idle and (self._tally is not None or not self._given or self._committed))
        return tuple(EnlistedStage(queue, self._stage, messages) for queue, messages in self._tally or ())

    def _work(self, done: Callable[[], bool]) -> None:
        """Send and listen until ``done``, on as many connections as it takes."""
        self._patience = Patience(self._link)
        self._moved_at = self._clock()
        while not done():
            try:
                if not self._committed:
                    connection = self._link.connected()
                if self._committed:
                    self._forget()
                else:
                    self._advance(connection, done)
            except QueueFullError:
                self._link.drop()
                # A commit that comes while a batch is on its way into the queue rejects it; the next WELCOME tells.
                if self.open():
                    raise
            except (TransportError, OSError) as error:
                self._link.drop()
                if isinstance(error, BrokerError) and error.code == COMMITTED_CODE:
                    self._committed = True
                elif not (self._session.idle and done()):
                    self._patience.bear(error)
            except BaseException:
                self._link.drop()  # interrupted inside a frame: what follows could not be told from its rest
                raise

    def _advance(self, connection: StageConnection, done: Callable[[], bool]) -> None:
        """Send and listen on one connection until ``done``."""
        while not done():
            heard = connection.heard
            pushed = connection.push(MAX_UNCONFIRMED_BYTES)
            if self._queue is None and self._session.idle:
                self._ask_for_tally(connection)
            if pushed:
                self._moved_at = self._clock()
            connection.catch_up()
            if not (pushed or done()):
                self._wait(connection, heard)

    def _ask_for_tally(self, connection: StageConnection) -> None:
        """Everything is confirmed: ask in which queues it is, once on each connection, and take the answer."""
        if connection.tally_of == self._given:
            self._tally = connection.tallied
        elif connection.asked_of != self._given:
            connection.asked_of = self._given
            connection.tallied = []
            connection.send(Tally(self._given))
            self._moved_at = self._clock()

    def _confirmed(self) -> None:
        """The broker has stored something."""
        self._moved_at = self._clock()
        self._patience.renew()

    def _wait(self, connection: StageConnection, heard: int) -> None:
        """Wait for the broker's next word: a confirmation that it owes, or room in the queue, which may take its time.

        Where it has said something since it had said ``heard`` there is nothing to wait for. The time counts from when something moved,
        however much the broker says meanwhile.
        """
        now = self._clock()
        owed = self._session.unconfirmed_messages > 0 or connection.asked_of != connection.tally_of
        deadline = self._moved_at + (CONFIRM_TIMEOUT if owed else self._demand_timeout)
        try:
            if connection.heard == heard:
                connection.listen(deadline)
            elif now >= deadline:
                raise PeerTimeoutError("the broker says much and confirms nothing")
        except PeerTimeoutError as error:
            if owed or self._clock() < deadline:
                raise
            raise DemandTimeoutError(self._what, self._demand_timeout) from error
        if not owed:
            self._patience.excuse(self._clock() - now)

    def _connect(self, address: Address) -> StageConnection:
        # The client id names the connection in the broker's statistics; what is stored is found by the stage.
        hello = Hello(VERSION, ROLE, self._queue, self._stage, self._options)
        try:
            connection = StageConnection(
                address,
                hello,
                self._clock,
                self._session,
                self._confirmed,
                self._credentials,
                self._link.attempt_seconds,
                self._link.signed_seconds,
            )
        except BrokerError as error:
            if self._queue is not None:
                raise
            from transport.wire.exchange_named import refusal  # noqa: PLC0415 - most stage for queues

            raise refusal(error, address) from error
        try:
            self._resume(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _resume(self, connection: StageConnection) -> None:
        """Go on behind what the broker has stored: everything after it is to be sent on this connection."""
        if connection.committed:
            self._committed = True
            return
        stored, confirmed = connection.stored, self._session.confirmed_up_to
        if stored < confirmed:
            raise StageLostError(self._what, self._stage, stored, confirmed)
        if stored > (sent := self._session.highest_sent):
            raise RemoteProtocolError(
                f"stage {self._stage!r} holds {stored} messages, of which {sent} were sent here: another task uses its name"
            )
        self._session.connected(stored)

    def _forget(self) -> None:
        """Nobody needs it any more: the version is committed, with another attempt's stage."""
        self._session = SenderSession(client_id=self._stage, numbered=not self._publishes)
