"""What a client has said on a channel and what waits there, until something before it is stored or answered."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.events import Published, Settled

if TYPE_CHECKING:
    from transport.gateways.amqp.method import Method

    Said: TypeAlias = Method | Published | Settled | AmqpError

METHOD_BYTES: Final = 1_024
"""What a method that waits counts as."""


class Postponed:
    """One channel's. Mostly there is nothing, and a client may have thousands of channels: the line is made when something waits.

    Attributes:
        count: how much waits.
        bytes: what it takes.
    """

    __slots__ = ("_line", "bytes", "count")

    def __init__(self) -> None:
        self._line: deque[Said] | None = None
        self.count = self.bytes = 0

    @property
    def first(self) -> Said:
        """What is next; something is."""
        assert self._line is not None
        return self._line[0]

    @property
    def fails(self) -> bool:
        """Whether an error waits, behind all else: the channel ends with it."""
        return self._line is not None and bool(self._line) and isinstance(self._line[-1], AmqpError)

    def put(self, said: Said) -> None:
        """This waits, behind all else."""
        self._line_with(said).append(said)

    def put_first(self, said: Said) -> None:
        """This waits, before all else."""
        self._line_with(said).appendleft(said)

    def take(self) -> Said:
        """Take out what is next; something is."""
        assert self._line is not None
        said = self._line.popleft()
        self.count -= 1
        self.bytes -= _size_of(said)
        return said

    def clear(self) -> list[Said]:
        """Take out everything."""
        line, self._line = self._line, None
        self.count = self.bytes = 0
        return [] if line is None else list(line)

    def _line_with(self, said: Said) -> deque[Said]:
        """Count one more; the line that it is to be put in."""
        if self._line is None:
            self._line = deque()
        self.count += 1
        self.bytes += _size_of(said)
        return self._line


def _size_of(said: Said) -> int:
    """What it counts as while it waits, bytes."""
    return said.size if isinstance(said, Published) else METHOD_BYTES
