"""Lines to batches without a Python loop over lines: a block is split, and its lines become columns, in C."""

from __future__ import annotations

from actors.batch import MessageBatch
from transport.clients.sender_batches import DEFAULT_BATCH_MESSAGES, MAX_BATCH_BYTES
from transport.errors import TransportError


class LineTooLongError(TransportError):
    """A line of the input fits no frame."""

    code = "frame-too-large"

    def __init__(self, number: int, limit: int) -> None:
        super().__init__(
            f"line {number} is longer than the {limit} bytes of the largest message; split it or send a reference to it"
        )
        self.number = number
        self.limit = limit


class LineSplitter:
    """Cuts blocks of one input at its newlines.

    Attributes:
        lines: how many lines have been given out.
    """

    __slots__ = ("_batch_messages", "_max_line", "_tail", "_tail_bytes", "lines")

    def __init__(self, batch_messages: int = DEFAULT_BATCH_MESSAGES, max_line: int = MAX_BATCH_BYTES) -> None:
        self._batch_messages = batch_messages
        self._max_line = max_line
        # A long line arrives in many blocks; they are joined once, when its end is there.
        self._tail: list[bytes] = []
        self._tail_bytes = 0
        self.lines = 0

    def feed(self, block: bytes) -> list[MessageBatch]:
        """The batches of the lines that ``block`` completes; newlines are dropped.

        Raises:
            LineTooLongError: a line over the limit.
        """
        end = block.rfind(b"\n")
        if end < 0:
            self._keep(block)
            return []
        lines = block[:end].split(b"\n")
        if self._tail:
            self._keep(lines[0])
            lines[0] = b"".join(self._tail)
        self._tail, self._tail_bytes = [], 0
        if end > self._max_line and max(map(len, lines)) > self._max_line:
            too_long = next(index for index, line in enumerate(lines, 1) if len(line) > self._max_line)
            raise LineTooLongError(self.lines + too_long, self._max_line)
        batches = self._batches(lines)
        self._keep(block[end + 1 :])
        return batches

    def finish(self) -> list[MessageBatch]:
        """The last line, where the input does not end with a newline."""
        if not self._tail:
            return []
        line = b"".join(self._tail)
        self._tail, self._tail_bytes = [], 0
        return self._batches([line])

    def _keep(self, part: bytes) -> None:
        if not part:
            return
        self._tail.append(part)
        self._tail_bytes += len(part)
        if self._tail_bytes > self._max_line:
            raise LineTooLongError(self.lines + 1, self._max_line)

    def _batches(self, lines: list[bytes]) -> list[MessageBatch]:
        self.lines += len(lines)
        step = self._batch_messages
        return [MessageBatch.from_payloads(lines[at : at + step]) for at in range(0, len(lines), step)]
