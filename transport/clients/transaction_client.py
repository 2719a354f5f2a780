"""A blocking client that ends transactions: it commits the stages that `StageClient`s have written, or discards them.

docs/protocol.md, "Transactions". Both requests may be repeated, so a connection that breaks is made again inside, and a commit
whose answer was lost is asked for again: it happens once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from actors.queue.vocabulary.stages import MAX_ENLISTED, EnlistedStage
from transport.clients.authentication import Credentials
from transport.clients.backoff import Backoff
from transport.clients.blocking_connection import BlockingConnection
from transport.clients.blocking_link import DEFAULT_RETRY, BlockingClient
from transport.errors import LocalProtocolError
from transport.security.access import Access
from transport.wire.address import Address
from transport.wire.messages import (
    VERSION,
    AbortTransaction,
    CommitTransaction,
    Enlist,
    Hello,
    TransactionEnded,
)
from transport.wire.transaction_options import transaction_options

ROLE = "transaction"
ENLISTED_A_WRITE = 128
"""ENLIST frames in one write: some kilobytes."""
END_TIMEOUT = 50.0
"""Seconds for the answer, beyond an ordinary request's: a group commit on a busy disk; a heartbeat answers sooner if the broker is gone."""


class TransactionClient(BlockingClient[BlockingConnection]):
    """One transaction of a writer. Connects with its first request; a context manager that closes.

    Args:
        addresses: the broker's sending address, or several of a cluster, as of the stages.
        writer: who writes.
        version: the transaction's number; a writer's versions grow.
        access: who this is, and whether TLS is spoken; None for what the environment says, nobody where it says nothing.
        token: short for an access with a token alone.
        retry: how a lost connection is sought again.
        clock: monotonic seconds.
        chance: randomness in 0..1 for the back-off.

    Raises, from every request:
        BrokerError: the broker refused: ``transaction-incomplete`` where a stage is gone or holds another number of messages.
        ConnectionLostError: no broker could be reached for ``retry.give_up_after``.
        RemoteProtocolError: the broker said what the protocol does not allow.
    """

    def __init__(
        self,
        addresses: str | Sequence[str],
        *,
        writer: str,
        version: int,
        access: Access | None = None,
        token: str | None = None,
        retry: Backoff = DEFAULT_RETRY,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._options = transaction_options(writer, version)
        super().__init__(
            addresses,
            f"the broker of transaction {version} of {writer!r}",
            retry,
            clock,
            chance,
            Credentials(access, token),
        )

    def commit(self, stages: Iterable[EnlistedStage]) -> int:
        """Make the messages of ``stages`` receivable, in all their queues at once, and discard the writer's other stages.

        Returns:
            How many messages were published; 0 where this version was committed before, be it by this very call when an answer was lost.

        Raises:
            LocalProtocolError: more than ``MAX_ENLISTED`` stages.
        """
        # A stage that was never sent anything does not exist.
        enlisted = [Enlist(*stage) for stage in dict.fromkeys(stages) if stage.messages]
        if len(enlisted) > MAX_ENLISTED:
            raise LocalProtocolError(
                f"{len(enlisted)} stages exceed the {MAX_ENLISTED} of one transaction; write with fewer partitions"
            )

        def ask(connection: BlockingConnection) -> int:
            # Even where WELCOME says that it is committed: only the answer says that it is durable.
            frames = iter(enlisted)
            while some := list(islice(frames, ENLISTED_A_WRITE)):
                connection.send(*some)
            return self._asked(connection, TransactionEnded, CommitTransaction, END_TIMEOUT).messages

        return self._link.retrying(ask)

    def abort(self) -> int:
        """Discard every stage of this transaction, whoever wrote it; how many messages that were. A committed one is not undone."""
        return self._ask(TransactionEnded, AbortTransaction, END_TIMEOUT).messages

    def _connect(self, address: Address) -> BlockingConnection:
        hello = Hello(VERSION, ROLE, None, None, self._options)
        link = self._link
        return BlockingConnection(
            address, hello, self._clock, self._credentials, link.attempt_seconds, link.signed_seconds
        )
