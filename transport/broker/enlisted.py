"""What clients have enlisted for a commit that has not come yet: counted, for one connection and for the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.queue.vocabulary.stages import MAX_ENLISTED, EnlistedStage
from transport.errors import LimitExceededError

if TYPE_CHECKING:
    from collections.abc import Sequence

STAGE_BYTES = 200
"""What a stage takes beside its names: a tuple, two strings' headers, a number, a place in a list."""
MAX_ENLISTED_BYTES = 32 * 2**20
"""Of one connection: the most stages that one commit may name, with names of some 130 bytes."""
MAX_ENLISTED_BYTES_OF_ALL = 128 * 2**20
"""Of all connections together. Above it the one that holds most must go, so that a small transaction is never refused for large ones."""

Refuse = Callable[[str, str], None]


class EnlistedTotal:
    """What all connections of a broker hold.

    Attributes:
        bytes: how much that is.
    """

    def __init__(self, limit: int = MAX_ENLISTED_BYTES_OF_ALL) -> None:
        self.bytes = 0
        self._limit = limit
        self._holders: dict[EnlistedStages, None] = {}

    def grown(self, holder: EnlistedStages, size: int) -> None:
        """``holder`` keeps so many bytes more; whoever keeps most is refused where that is too much for the broker."""
        self.bytes += size
        self._holders[holder] = None
        while self.bytes > self._limit and self._holders:
            greatest = max(self._holders, key=lambda each: each.bytes)
            greatest.give_up(
                f"{self.bytes} bytes of stages are enlisted on all connections, above the broker's {self._limit}, "
                f"and most of them, {greatest.bytes}, here; commit, or write with fewer partitions"
            )

    def leaving(self, holder: EnlistedStages) -> None:
        """What ``holder`` keeps is being committed: it counts until that is done, and refusing it would free nothing."""
        self._holders.pop(holder, None)

    def gone(self, holder: EnlistedStages) -> None:
        """``holder`` keeps nothing any more."""
        self._holders.pop(holder, None)
        self.bytes -= holder.bytes


class EnlistedStages:
    """What one connection has enlisted.

    Args:
        total: where it is counted.
        refuse: ends the connection with a code and a text.

    Attributes:
        bytes: what it takes.
    """

    def __init__(self, total: EnlistedTotal, refuse: Refuse) -> None:
        self.bytes = 0
        self._total = total
        self._refuse = refuse
        self._stages: list[EnlistedStage] = []
        # One string for each queue, however many frames have named it.
        self._queues: dict[str, str] = {}

    def commit(self) -> Sequence[EnlistedStage]:
        """All of them, in order. `clear` follows when they are committed."""
        self._total.leaving(self)
        return self._stages

    def add(self, queue: str, stage: str, messages: int) -> None:
        """Take one more.

        Raises:
            LimitExceededError: it is one too many, or one byte.
        """
        if len(self._stages) >= MAX_ENLISTED:
            raise LimitExceededError(
                f"more than {MAX_ENLISTED} stages are enlisted, which is the limit (MAX_ENLISTED); write with fewer partitions"
            )
        size = STAGE_BYTES + len(stage.encode())
        if queue not in self._queues:
            size += STAGE_BYTES + len(queue.encode())
            self._queues[queue] = queue
        if self.bytes + size > MAX_ENLISTED_BYTES:
            raise LimitExceededError(
                f"more than {MAX_ENLISTED_BYTES} bytes of stages are enlisted, which is the limit (MAX_ENLISTED_BYTES); "
                "write with fewer partitions, or shorter names"
            )
        self._stages.append(EnlistedStage(self._queues[queue], stage, messages))
        self.bytes += size
        self._total.grown(self, size)

    def clear(self) -> None:
        """Forget all of it."""
        self._total.gone(self)
        self._stages, self._queues, self.bytes = [], {}, 0

    def give_up(self, why: str) -> None:
        """Forget all of it, and end the connection."""
        self.clear()
        self._refuse(LimitExceededError.code, why)
