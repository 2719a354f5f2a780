"""What a sender to an exchange has sent and was not answered, in order; some of it was sent before on its connection, and is not stored."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple


def behind_rejected(first: int | None) -> str:
    """Why something is rejected that was sent behind what was: the first number of that."""
    return f"messages sent before, from number {first} on, were rejected"


class _Sent(NamedTuple):
    """A batch: the number of its first message, its messages and bytes, and how many of its first messages were sent before."""

    first: int
    messages: int
    size: int
    known: int


class Unanswered:
    """Batches on their way.

    What was sent before is answered behind that, and as that was: it is stored, unless the last that was said of its numbers is that they
    are rejected.

    Attributes:
        messages: of all of them.
        bytes: theirs.
    """

    __slots__ = ("_batches", "_rejected_from", "bytes", "messages")

    def __init__(self) -> None:
        self.messages = self.bytes = 0
        self._batches: deque[_Sent] = deque()
        # The first number of which was said that it is rejected, as long as nothing was said to be stored since.
        self._rejected_from: int | None = None

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, first: int, count: int, size: int, known: int) -> None:
        """A batch comes, of which so many messages were sent before."""
        self._batches.append(_Sent(first, count, size, known))
        self.messages += count
        self.bytes += size

    def answered(self, rejected: bool) -> None:
        """The next batch is answered by whoever stores."""
        batch = self._taken()
        first = batch.first + batch.known
        if not rejected:
            self._rejected_from = None
        elif self._rejected_from is None or first < self._rejected_from:
            self._rejected_from = first

    def known(self) -> Iterator[tuple[int, str | None]]:
        """The next batches of which everything was sent before: the number behind each, and why it is rejected, if it is."""
        while self._batches and self._batches[0].known == self._batches[0].messages:
            batch, first = self._taken(), self._rejected_from
            up_to = batch.first + batch.messages
            lost = first is not None and up_to > first
            yield up_to, behind_rejected(first) if lost else None

    def _taken(self) -> _Sent:
        batch = self._batches.popleft()
        self.messages -= batch.messages
        self.bytes -= batch.size
        return batch
