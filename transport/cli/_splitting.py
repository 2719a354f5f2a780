"""Cuts the blocks of an input at a separator, or at lengths, without a step in Python for each message of the usual input."""

from __future__ import annotations

from typing import Final

from transport.clients.sender_batches import MAX_BATCH_BYTES
from transport.errors import TransportError

NEWLINE: Final = b"\n"
NUL: Final = b"\0"
LENGTH_BYTES: Final = 4
"""Of a message's length before it: unsigned, the highest byte first."""


class InputFormatError(TransportError):
    """An input is not in the format that was named.

    Attributes:
        number: which line or message of its input it is, from 1 on.
        before: the lines or messages of the same block that came before it, and are good.
    """

    def __init__(self, text: str, number: int, before: list[bytes]) -> None:
        super().__init__(text)
        self.number = number
        self.before = before


class LineTooLongError(InputFormatError):
    """A line of the input fits no frame."""

    code = "frame-too-large"

    def __init__(self, number: int, limit: int, before: list[bytes], what: str = "line") -> None:
        super().__init__(
            f"{what} {number} is longer than the {limit} bytes of the largest message; split it or send a reference to it",
            number,
            before,
        )
        self.limit = limit


class Splitter:
    """Cuts blocks at a separator: a block is split in C.

    Attributes:
        lines: how many have been given out.
    """

    __slots__ = ("_max_line", "_separator", "_tail", "_tail_bytes", "_what", "lines")

    def __init__(self, separator: bytes = NEWLINE, max_line: int = MAX_BATCH_BYTES, what: str = "line") -> None:
        self._separator = separator
        self._max_line = max_line
        self._what = what
        # A long line arrives in many blocks; they are joined once, when its end is there.
        self._tail: list[bytes] = []
        self._tail_bytes = 0
        self.lines = 0

    def feed(self, block: bytes) -> list[bytes]:
        """The lines that ``block`` completes; separators are dropped.

        Raises:
            LineTooLongError: a line over the limit.
        """
        separator = self._separator
        end = block.rfind(separator)
        if end < 0:
            self._keep(block, [])
            return []
        lines = block[:end].split(separator)
        if self._tail:
            self._keep(lines[0], [])
            lines[0] = b"".join(self._tail)
        self._tail, self._tail_bytes = [], 0
        if end > self._max_line and max(map(len, lines)) > self._max_line:
            good = next(index for index, line in enumerate(lines) if len(line) > self._max_line)
            self.lines += good
            raise LineTooLongError(self.lines + 1, self._max_line, lines[:good], self._what)
        self.lines += len(lines)
        self._keep(block[end + 1 :], lines)
        return lines

    def finish(self) -> list[bytes]:
        """The last line, where the input does not end with a separator."""
        if not self._tail:
            return []
        line = b"".join(self._tail)
        self._tail, self._tail_bytes = [], 0
        self.lines += 1
        return [line]

    def _keep(self, part: bytes, before: list[bytes]) -> None:
        if not part:
            return
        self._tail.append(part)
        self._tail_bytes += len(part)
        if self._tail_bytes > self._max_line:
            raise LineTooLongError(self.lines + 1, self._max_line, before, self._what)


class LengthSplitter:
    """Cuts blocks into messages that each have their length before them.

    Attributes:
        lines: how many have been given out.
    """

    __slots__ = ("_max_message", "_needed", "_parts", "_parts_bytes", "lines")

    def __init__(self, max_message: int = MAX_BATCH_BYTES) -> None:
        self._max_message = max_message
        # Joined only when as much is there as the next message needs: a long one comes in many blocks.
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        self._needed = LENGTH_BYTES
        self.lines = 0

    def feed(self, block: bytes) -> list[bytes]:
        """The messages that ``block`` completes.

        Raises:
            LineTooLongError: a message over the limit.
        """
        self._parts.append(block)
        self._parts_bytes += len(block)
        if self._parts_bytes < self._needed:
            return []
        data = b"".join(self._parts) if len(self._parts) > 1 else block
        messages: list[bytes] = []
        at, end = 0, len(data)
        while True:
            start = at + LENGTH_BYTES
            if start > end:
                self._needed = LENGTH_BYTES
                break
            size = int.from_bytes(data[at:start])
            if size > self._max_message:
                self.lines += len(messages)
                raise LineTooLongError(self.lines + 1, self._max_message, messages, "message")
            if start + size > end:
                self._needed = LENGTH_BYTES + size
                break
            messages.append(data[start : start + size])
            at = start + size
        self._parts = [data[at:]]
        self._parts_bytes = end - at
        self.lines += len(messages)
        return messages

    def finish(self) -> list[bytes]:
        """Nothing: a message is whole, or the input is cut off.

        Raises:
            InputFormatError: the input ends within a message.
        """
        if not self._parts_bytes:
            return []
        what = (
            f"after {self._parts_bytes} of the {LENGTH_BYTES} bytes of its length"
            if self._parts_bytes < LENGTH_BYTES
            else f"after {self._parts_bytes - LENGTH_BYTES} of {self._needed - LENGTH_BYTES} bytes"
        )
        raise InputFormatError(f"message {self.lines + 1} ends {what}", self.lines + 1, [])


class WholeFile:
    """All of one input is one message.

    Attributes:
        lines: how many have been given out.
    """

    __slots__ = ("_max_message", "_parts", "_size", "lines")

    def __init__(self, max_message: int = MAX_BATCH_BYTES) -> None:
        self._max_message = max_message
        self._parts: list[bytes] = []
        self._size = 0
        self.lines = 0

    def feed(self, block: bytes) -> list[bytes]:
        """Nothing yet.

        Raises:
            InputFormatError: it is larger than a message may be.
        """
        self._parts.append(block)
        self._size += len(block)
        if self._size > self._max_message:
            raise InputFormatError(
                f"it is larger than the {self._max_message} bytes of the largest message; split it or send a reference to it",
                1,
                [],
            )
        return []

    def finish(self) -> list[bytes]:
        """The message; an empty file is an empty one."""
        self.lines = 1
        return [b"".join(self._parts)]
