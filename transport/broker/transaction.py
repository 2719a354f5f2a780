"""One writer's transaction at the door: each queue that is enlisted takes the right to write to it, until it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transport.broker.enlisted import EnlistedStages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from actors import EnlistedStage
    from actors.queue.transactions import TransactionDirectory
    from transport.broker.enlisted import EnlistedTotal, Refuse


class Transaction:
    """The transaction of one writer and version, for one who may write to each queue that is enlisted.

    Args:
        transactions: all of them.
        total: counts what is enlisted on all connections.
        writer: whose it is.
        version: which of theirs.
        attach: refuses a queue that may not be written to, and takes the right to write to it.
        release: takes the rights on queues no more.
    """

    def __init__(
        self,
        transactions: TransactionDirectory,
        total: EnlistedTotal,
        writer: str,
        version: int,
        attach: Callable[[str], None],
        release: Callable[[Iterable[str]], None],
    ) -> None:
        self._transactions = transactions
        self._total = total
        self._writer, self._version = writer, version
        self._attach, self._give_up = attach, release
        self._queues: set[str] = set()

    @property
    def last_version(self) -> int | None:
        """The version that the writer has committed last."""
        return self._transactions.last_version(self._writer)

    def enlisting(self, refuse: Refuse) -> EnlistedStages:
        """Where stages are enlisted for `commit`; ``refuse`` ends the connection that holds too many."""
        return EnlistedStages(self._total, refuse)

    def check(self, queue: str) -> None:
        """Refuse a stage of a queue that may not be written to."""
        self._attach(queue)
        self._queues.add(queue)

    def commit(self, stages: Sequence[EnlistedStage]) -> Awaitable[int]:
        """Publish the stages in one instant; how many messages that were."""
        self._release()
        return self._transactions.commit(self._writer, self._version, stages)

    def abort(self) -> Awaitable[int]:
        """Discard what the version has staged; how many messages that were."""
        self._release()
        return self._transactions.abort(self._writer, self._version)

    def _release(self) -> None:
        """What is enlisted takes no right any more: it is being published, or is of no use."""
        queues, self._queues = self._queues, set()
        self._give_up(queue for queue in queues if queue != self._writer)
