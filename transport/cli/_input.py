"""The lines of files and pipes as batches, read no further ahead than the broker has confirmed, give or take a bound."""

from __future__ import annotations

import asyncio
import os
import stat
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

from actors.batch import MessageBatch
from transport.cli._access import STDIN
from transport.cli._blocking import BlockingWorker
from transport.clients.sender_batches import DEFAULT_BATCH_MESSAGES, MAX_BATCH_BYTES
from transport.errors import TransportError

BLOCK_BYTES = 256 * 1024
"""One read; larger gains no speed."""
MAX_UNCONFIRMED_MESSAGES = 65_536
"""Lines read and not confirmed: keeps a broker busy, and bounds memory however long the input is."""
MAX_UNCONFIRMED_BYTES = 16 * 1024 * 1024
"""Their bytes, likewise; one batch may lead beyond it."""


class InputError(TransportError):
    """An input could not be read to its end; what came before it is sent."""


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
    """Cuts blocks of one input at its newlines, without a Python loop over lines: a block is split, and its lines become columns, in C.

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


class Window:
    """What is read and not confirmed, bounded in messages and in bytes.

    Attributes:
        read_messages: lines read so far.
        confirmed_messages: of them, what the broker has stored.
        confirmed_bytes: bytes of input that these were.
    """

    def __init__(self, max_messages: int = MAX_UNCONFIRMED_MESSAGES, max_bytes: int = MAX_UNCONFIRMED_BYTES) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._read_bytes = 0
        # (all messages, all bytes) up to the end of each batch read: turns confirmed messages into bytes.
        self._ends: deque[tuple[int, int]] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self.read_messages = 0
        self.confirmed_messages = 0
        self.confirmed_bytes = 0

    def read(self, batch: MessageBatch) -> None:
        """A batch has been read."""
        self.read_messages += len(batch)
        # A newline each came with them.
        self._read_bytes += len(batch.payloads.data) + len(batch)
        self._ends.append((self.read_messages, self._read_bytes))
        self._judge()

    def confirmed(self, messages: int) -> None:
        """The oldest ``messages`` of what is unconfirmed are stored."""
        self.confirmed_messages += messages
        while self._ends and self._ends[0][0] <= self.confirmed_messages:
            self.confirmed_bytes = self._ends.popleft()[1]
        self._judge()

    async def room(self) -> None:
        """Return when more may be read."""
        await self._room.wait()

    def _judge(self) -> None:
        if (
            self.read_messages - self.confirmed_messages < self._max_messages
            and self._read_bytes - self.confirmed_bytes < self._max_bytes
        ):
            self._room.set()
        else:
            self._room.clear()


class LineInput:
    """The lines of ``paths``, one input after another; ``-`` is the standard input.

    Attributes:
        error: what ended the input early; the stream completes all the same, so that what was read is confirmed.
    """

    def __init__(self, paths: Sequence[str], window: Window, block_bytes: int = BLOCK_BYTES) -> None:
        self._paths = list(paths) or [STDIN]
        self._window = window
        self._block_bytes = block_bytes
        self._stopped = False
        self.error: InputError | None = None

    def total_bytes(self) -> int | None:
        """The size of all inputs together; None where one is a pipe or device and has none."""
        try:
            stats = [os.fstat(0) if path == STDIN else Path(path).stat() for path in self._paths]
        except OSError:
            return None
        if not all(stat.S_ISREG(found.st_mode) for found in stats):
            return None
        return sum(found.st_size for found in stats)

    async def batches(self) -> AsyncGenerator[MessageBatch]:
        """Batches of lines, in order; each is counted in the window before it is given out."""
        worker = BlockingWorker("penstock-input")
        try:
            for path in self._paths:
                # Closed here and now, not whenever the collector comes by.
                async with aclosing(self._read(path, worker)) as batches:
                    async for batch in batches:
                        yield batch
        except (OSError, TransportError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.error = InputError(f"{_name(path)}: {reason}")
        finally:
            worker.close()

    async def _read(self, path: str, worker: BlockingWorker) -> AsyncGenerator[MessageBatch]:
        splitter = LineSplitter()
        # Opening blocks as well: a named pipe waits for its writer.
        fd = 0 if path == STDIN else await worker.call(_opener(path))
        try:
            while True:
                await self._window.room()
                block = await worker.call(lambda: os.read(fd, self._block_bytes))
                for batch in splitter.feed(block) if block else splitter.finish():
                    self._window.read(batch)
                    yield batch
                if not block:
                    return
        finally:
            if path != STDIN:
                # In the worker, behind a read that may still be going on: closed under it, the number could be another file's.
                worker.post(lambda: os.close(fd))


def _opener(path: str) -> Callable[[], int]:
    return lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _name(path: str) -> str:
    return "standard input" if path == STDIN else path
