"""A blocking client that stages messages for a transaction, for programs that have no event loop, such as Spark's Python workers.

docs/protocol.md, "Transactions". What is sent is stored under the stage and can be received by nobody until the stage is among those
that a `TransactionClient` commits. `StageClient.send` returns when everything it was given has left under the broker's demand, so a
queue that is full holds its writer; confirmations are awaited by `finish` only. What is unconfirmed is kept and sent again after
a lost connection, under the same numbers: the broker stores it once.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from actors.batch import MessageBatch
from actors.queue.vocabulary.stages import EnlistedStage
from transport.clients.backoff import Backoff
from transport.clients.blocking_link import DEFAULT_RETRY, BlockingLink, ClosedOnExit, Patience
from transport.clients.stage_connection import ROLE, StageConnection
from transport.errors import (
    BrokerError,
    DemandTimeoutError,
    LocalProtocolError,
    MessageTooLargeError,
    PeerTimeoutError,
    QueueFullError,
    RemoteProtocolError,
    StageLostError,
    TransportError,
)
from transport.wire.address import Address
from transport.wire.frames import MAX_BODY_BYTES
from transport.wire.messages import VERSION, Hello
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


class StageClient(ClosedOnExit):
    """One stage of one queue. Connects with its first use; a context manager that closes.

    Args:
        addresses: the broker's sending addresses, tried in turn.
        queue: the queue's name.
        writer: who writes, for all its transactions.
        version: the number of the transaction; a writer's versions grow.
        stage: unique for each attempt of each task.
        token: reserved for authentication; no broker checks it yet, and a warning says so.
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
        queue: str,
        writer: str,
        version: int,
        stage: str,
        token: str | None = None,
        retry: Backoff = DEFAULT_RETRY,
        demand_timeout: float = DEFAULT_DEMAND_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        check_name(queue, "queue")
        self._options = transaction_options(writer, version, token) | {STAGE: check_name(stage, "stage")}
        if not demand_timeout > 0:
            raise LocalProtocolError(f"a demand timeout of {demand_timeout} s is not above zero")
        self._queue = queue
        self._stage = stage
        self._demand_timeout = demand_timeout
        self._clock = clock
        self._link = BlockingLink(addresses, f"queue {queue!r}", self._connect, retry, clock, chance)
        self._committed = False
        # Every batch given is in one of these, in order, until it is confirmed: sent on this connection, or not.
        self._sent: deque[MessageBatch] = deque()
        self._unsent: deque[MessageBatch] = deque()
        self._sent_bytes = 0
        # The numbers of the first message that is not confirmed, not sent on this connection, never sent, and not given yet.
        self._confirmed = self._next = self._highest = self._given = 0
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
        """
        self._unsent += list(fit_frames(batch))
        self._given += len(batch)
        self._work(lambda: not self._unsent)

    def finish(self) -> EnlistedStage:
        """Wait until everything is stored, durably where the broker is durable; what a `TransactionClient` commits."""
        self._work(lambda: not self._unsent and not self._sent)
        return EnlistedStage(self._queue, self._stage, self._given)

    def close(self) -> None:
        """Close the connection and end any wait for another. What is staged stays until its transaction ends or times out."""
        self._link.close()

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
                elif self._unsent or self._sent:
                    self._patience.bear(error)
            except BaseException:
                self._link.drop()  # interrupted inside a frame: what follows could not be told from its rest
                raise

    def _advance(self, connection: StageConnection, done: Callable[[], bool]) -> None:
        """Send and listen on one connection until ``done``."""
        while not done():
            heard = connection.heard
            pushed = self._push(connection)
            connection.catch_up()
            if not (pushed or done()):
                self._wait(connection, heard)

    def _push(self, connection: StageConnection) -> bool:
        """Send what demand and the bound on what is unconfirmed allow; whether that was anything."""
        pushed = False
        while self._unsent and self._sent_bytes < MAX_UNCONFIRMED_BYTES:
            batch = self._unsent[0]
            count = connection.send_within_demand(self._next, batch)
            if not count:
                break
            pushed = True
            if count < len(batch):
                self._unsent[0] = batch.slice(count, len(batch))
                batch = batch.slice(0, count)
            else:
                self._unsent.popleft()
            self._sent.append(batch)
            self._sent_bytes += batch.nbytes
            self._next += count
            self._moved_at = self._clock()
            self._highest = max(self._highest, self._next)
        return pushed

    def _settle(self, confirmed: int) -> None:
        """Forget what is numbered below ``confirmed``: the broker has it."""
        self._moved_at = self._clock()
        self._patience.renew()
        while confirmed <= self._next and self._sent and self._confirmed + len(self._sent[0]) <= confirmed:
            batch = self._sent.popleft()
            self._sent_bytes -= batch.nbytes
            self._confirmed += len(batch)
        if self._confirmed != confirmed:
            raise RemoteProtocolError(f"SENT confirms what is below {confirmed}, where no batch ends")

    def _wait(self, connection: StageConnection, heard: int) -> None:
        """Wait for the broker's next word: a confirmation that it owes, or room in the queue, which may take its time.

        Where it has said something since it had said ``heard`` there is nothing to wait for. The time counts from when something moved,
        however much the broker says meanwhile.
        """
        now = self._clock()
        owed = connection.unanswered > 0
        deadline = self._moved_at + (CONFIRM_TIMEOUT if owed else self._demand_timeout)
        try:
            if connection.heard == heard:
                connection.listen(deadline)
            elif now >= deadline:
                raise PeerTimeoutError("the broker says much and confirms nothing")
        except PeerTimeoutError as error:
            if owed or self._clock() < deadline:
                raise
            raise DemandTimeoutError(self._queue, self._demand_timeout) from error
        if not owed:
            self._patience.excuse(self._clock() - now)

    def _connect(self, address: Address) -> StageConnection:
        # The client id names the connection in the broker's statistics; what is stored is found by the stage.
        hello = Hello(VERSION, ROLE, self._queue, self._stage, self._options)
        connection = StageConnection(address, hello, self._clock, self._settle)
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
        stored = connection.stored
        if stored < self._confirmed:
            raise StageLostError(self._queue, self._stage, stored, self._confirmed)
        if stored > self._highest:
            raise RemoteProtocolError(
                f"stage {self._stage!r} holds {stored} messages, of which {self._highest} were sent here: another task uses its name"
            )
        self._unsent.extendleft(reversed(self._sent))
        self._sent.clear()
        self._sent_bytes = 0
        while self._confirmed < stored:
            batch = self._unsent.popleft()
            count = min(len(batch), stored - self._confirmed)
            if count < len(batch):
                self._unsent.appendleft(batch.slice(count, len(batch)))
            self._confirmed += count
        self._next = stored

    def _forget(self) -> None:
        """Nobody needs it any more: the version is committed, with another attempt's stage."""
        self._sent.clear()
        self._unsent.clear()
        self._sent_bytes = 0


def fit_frames(batch: MessageBatch) -> Iterator[MessageBatch]:
    """``batch`` in parts of which each fits a frame, sharing its buffers.

    Raises:
        MessageTooLargeError: a message that fits none.
    """
    while batch.nbytes > MAX_BODY_BYTES:
        # All but the last message that a byte demand would let through lie within it.
        count = batch.count_within(MAX_BODY_BYTES) - 1
        if count < 1:
            raise MessageTooLargeError(batch.prefix_bytes(1), MAX_BODY_BYTES)
        yield batch.slice(0, count)
        batch = batch.slice(count, len(batch))
    yield batch
