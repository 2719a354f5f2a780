"""What files and pipes hold as messages, read no further ahead than the broker has confirmed, give or take a bound."""

from __future__ import annotations

import asyncio
import os
import stat
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from pathlib import Path

from streams import Source
from transport.cli._access import STDIN
from transport.cli._blocking import BlockingWorker
from transport.cli._input_formats import Decoder, Piece, lines
from transport.clients.sender_batches import Sendable
from transport.errors import TransportError

BLOCK_BYTES = 256 * 1024
"""One read; larger gains no speed."""
MAX_UNCONFIRMED_MESSAGES = 65_536
"""Messages read and not confirmed: keeps a broker busy, and bounds memory however long the input is."""
MAX_UNCONFIRMED_BYTES = 16 * 1024 * 1024
"""Their bytes, likewise; one batch may lead beyond it."""


class InputError(TransportError):
    """An input could not be read to its end; what came before it is sent."""


class Window:
    """What is read and not confirmed, bounded in messages and in bytes.

    Attributes:
        read_messages: messages read so far.
        confirmed_messages: of them, what the broker has stored.
        confirmed_bytes: bytes of input that these were, up to the end of the last batch that is stored whole.
        confirmed_payload: of them, the bytes of payloads: without what parts or frames them in the input.
    """

    def __init__(self, max_messages: int = MAX_UNCONFIRMED_MESSAGES, max_bytes: int = MAX_UNCONFIRMED_BYTES) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._read_bytes = 0
        self._read_payload = 0
        # (all messages, all bytes, all of payloads) up to the end of each batch read: turns confirmed messages into bytes.
        self._ends: deque[tuple[int, int, int]] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self.read_messages = 0
        self.confirmed_messages = 0
        self.confirmed_bytes = self.confirmed_payload = 0
        self._whole_messages = 0

    def read(self, piece: Piece) -> None:
        """A piece has been read."""
        self.read_messages += piece.messages
        self._read_bytes += piece.size
        self._read_payload += piece.payload
        self._ends.append((self.read_messages, self._read_bytes, self._read_payload))
        self._judge()

    def confirmed(self, messages: int) -> None:
        """The oldest ``messages`` of what is unconfirmed are stored."""
        self.confirmed_messages += messages
        while self._ends and self._ends[0][0] <= self.confirmed_messages:
            self._whole_messages, self.confirmed_bytes, self.confirmed_payload = self._ends.popleft()
        self._judge()

    @property
    def batch_open(self) -> bool:
        """Whether some of a batch is stored and some is not: then there are more bytes than ``confirmed_bytes``."""
        return self.confirmed_messages > self._whole_messages

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


class Input:
    """The messages in ``paths``, one input after another; ``-`` is the standard input.

    Args:
        paths: what to read.
        window: bounds what is read and not confirmed.
        decoder: makes what cuts one input into messages.
        block_bytes: one read, at most.

    Attributes:
        error: what ended the input early; the stream completes all the same, so that what was read is confirmed.
    """

    def __init__(
        self,
        paths: Sequence[str],
        window: Window,
        decoder: Callable[[], Decoder] = lines,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._paths = list(paths) or [STDIN]
        self._window = window
        self._decoder = decoder
        self._block_bytes = block_bytes
        self.error: InputError | None = None
        self._given: AsyncGenerator[Sendable] | None = None

    def total_bytes(self) -> int | None:
        """The size of all inputs together; None where one is a pipe or device and has none."""
        try:
            stats = [os.fstat(0) if path == STDIN else Path(path).stat() for path in self._paths]
        except OSError:
            return None
        if not all(stat.S_ISREG(found.st_mode) for found in stats):
            return None
        return sum(found.st_size for found in stats)

    def source(self) -> Source[Sendable, None]:
        """The first batch when it is asked for, and of the others one ahead.

        The end of an input is seen by whoever asks for more. Where its last message has taken the last place of a queue, nobody would.
        Before the first batch there is no hurry: whether the broker takes anything is seen first. `close` it behind its one run.
        """
        given = self._given = self.batches()

        async def first() -> AsyncGenerator[Sendable]:
            with suppress(StopAsyncIteration):
                yield await anext(given)

        async def others() -> AsyncGenerator[Sendable]:
            async for batch in given:
                yield batch

        return Source.from_async_iterable(first).take(1).concat(Source.from_async_iterable(others).buffer(1))

    async def close(self) -> None:
        """Let go of what is being read."""
        if self._given is not None:
            await self._given.aclose()

    async def batches(self) -> AsyncGenerator[Sendable]:
        """The messages in batches, in order; each is counted in the window before it is given out."""
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

    async def _read(self, path: str, worker: BlockingWorker) -> AsyncGenerator[Sendable]:
        decoder = self._decoder()
        # Opening blocks as well: a named pipe waits for its writer.
        fd = 0 if path == STDIN else await worker.call(_opener(path))
        try:
            while True:
                await self._window.room()
                block = await worker.call(lambda: os.read(fd, self._block_bytes))
                for piece in decoder.feed(block) if block else decoder.finish():
                    self._window.read(piece)
                    yield piece.element
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
