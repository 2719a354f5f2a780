"""Bytes to a file, written by a thread so that the loop never waits for the disk.

The thread is handed all that has come while it was writing, at most `FILE_SINK_AHEAD` elements, and upstream is asked for as many once
they are in the file. It is a daemon: a write that never returns (to a pipe that nobody reads) does not keep the process.
"""

from __future__ import annotations

import asyncio
import io
import os
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final

from streams.contract import Subscription
from streams.errors import null_element
from streams.materialize import Materialization
from streams.publishers.blocks import BinaryFile
from streams.stages.stage import UNSUBSCRIBED
from streams.subscribers.sinks import SinkSubscriber

FILE_SINK_AHEAD: Final = 16
"""Elements that wait for the disk at most, while others are written: as much as `Source.file` reads in 16 blocks, 1 MiB."""


@dataclass(frozen=True, slots=True)
class IOResult:
    """What `Sink.file` results in.

    Attributes:
        count: bytes written.
    """

    count: int


class FileSink(SinkSubscriber[bytes, IOResult]):
    """Hands what comes to the thread that writes, and is done when that has closed the file.

    Args:
        m: the run.
        file: a path, opened and closed for this run; or an open binary file, which is flushed and stays open.
        append: write behind what the file at that path holds, instead of replacing it.
        sync_at_end: at the end, wait until the file at that path is on the disk.
    """

    __slots__ = ("_blocks", "_count", "_ended", "_m", "_writer", "_writing")

    name = "file"

    def __init__(
        self, m: Materialization, file: str | os.PathLike[str] | BinaryFile, append: bool, sync_at_end: bool
    ) -> None:
        super().__init__(m)
        self._m = m
        self._blocks: list[bytes] = []
        self._count = 0
        self._writing = 0
        """Elements that the thread has in hand."""
        self._ended = False
        self._writer = _Writer(m, file, append, sync_at_end, self._written, self._closed)
        m.on_end(self._writer.closed, "thread of Sink.file")

    def on_subscribe(self, subscription: Subscription) -> None:
        """Has the file opened: one that cannot be is better known before the first element."""
        if subscription is not None and self._subscription is UNSUBSCRIBED and not self.future.done():
            self._writer.open()
        super().on_subscribe(subscription)

    def on_next(self, element: object) -> None:
        """Hands on one."""
        if element is None:
            raise null_element(self.name)
        if self._ended or self.future.done():
            return
        if not isinstance(element, (bytes, bytearray, memoryview)):
            self._fail(TypeError(f"Sink.file takes bytes, not {type(element).__name__}: encode them before"), self.name)
            return
        self._blocks.append(bytes(element))  # of bytes, themselves; the others may change before they are written
        if not self._writing:
            self._write()

    def on_complete(self) -> None:
        """Has the file closed once all is written; that is the result."""
        if not self._ended and not self.future.done():
            self._ended = True
            if not self._writing:
                self._writer.close(sync=True)

    def _first_request(self) -> int:
        return FILE_SINK_AHEAD

    def _result(self) -> IOResult:
        return IOResult(self._count)

    def _stop(self) -> None:
        self._blocks = []
        self._writer.close(sync=False)

    def _write(self) -> None:
        blocks, self._blocks = self._blocks, []
        self._writing = len(blocks)
        self._writer.write(blocks[0] if len(blocks) == 1 else b"".join(blocks))

    def _written(self, count: int, error: BaseException | None) -> None:
        """The thread has written ``count`` bytes, or has failed; on the loop's thread."""
        if self.future.done():
            return
        if error is not None:
            self._fail(error, self.name)
            return
        written, self._writing = self._writing, 0
        self._count += count
        if self._blocks:
            self._write()
        elif self._ended:
            self._writer.close(sync=True)
        if not self._ended:
            self._subscription.request(written)

    def _closed(self, error: BaseException | None) -> None:
        """The thread has closed the file, or failed to; on the loop's thread."""
        if self.future.done():
            return
        if error is None:
            self._finish(self._result())
        else:
            self._fail(error, self.name)


class _Writer:
    """The thread, and the way to it. One command at a time is under way; `close` ends it.

    Args:
        m: the run: ``on_written`` and ``on_closed`` are called on its loop's thread.
        file: what to write to.
        append: see `FileSink`.
        sync_at_end: see `FileSink`.
        on_written: called with the bytes written and None, or 0 and what went wrong.
        on_closed: called with None, or with what went wrong.
    """

    __slots__ = (
        "_append",
        "_commands",
        "_ended",
        "_file",
        "_is_closing",
        "_m",
        "_on_closed",
        "_on_written",
        "_sync",
        "_sync_at_end",
        "_thread",
    )

    def __init__(
        self,
        m: Materialization,
        file: str | os.PathLike[str] | BinaryFile,
        append: bool,
        sync_at_end: bool,
        on_written: Callable[[int, BaseException | None], None],
        on_closed: Callable[[BaseException | None], None],
    ) -> None:
        self._m = m
        self._file = file
        self._append = append
        self._sync_at_end = sync_at_end
        self._on_written = on_written
        self._on_closed = on_closed
        self._commands: SimpleQueue[bytes | None] = SimpleQueue()
        self._is_closing = False
        self._sync = False
        self._thread: threading.Thread | None = None
        self._ended: asyncio.Future[None] = m.loop.create_future()

    def open(self) -> None:
        """Starts the thread, which opens the file."""
        self._thread = threading.Thread(target=self._run, name="stream file sink", daemon=True)
        self._thread.start()

    def write(self, block: bytes) -> None:
        """Has ``block`` written."""
        self._commands.put(block)

    def close(self, *, sync: bool) -> None:
        """Has the file closed, the first time. Without ``sync`` it is over already, and how that goes is of no interest."""
        if self._is_closing:
            return
        self._is_closing = True
        self._sync = sync
        if self._thread is None:
            self._ended.set_result(None)
        else:
            self._commands.put(None)

    async def closed(self) -> None:
        """Waits until the thread is over: a run that is done has left no file open."""
        self.close(sync=False)
        await self._ended

    def _run(self) -> None:
        """The thread's work."""
        self._tell(self._thread_ended, self._write_all())

    def _write_all(self) -> BaseException | None:
        """Opens the file, writes one block for each command, and closes it; what went wrong at the end, if something did."""
        opened: Any = None
        try:
            file: Any = self._file
            if isinstance(file, (str, os.PathLike)):
                file = opened = open(file, "ab" if self._append else "wb", buffering=0)  # noqa: SIM115 - closed below
            while (block := self._commands.get()) is not None:
                _write(file, block)
                self._tell(self._on_written, len(block), None)
            file.flush()
            if self._sync and opened is not None and self._sync_at_end:
                _sync(opened)
        except Exception as error:  # noqa: BLE001 - whatever writing raises is the stream's failure
            self._tell(self._on_written, 0, error)
        finally:
            closing = _close(opened)
        return closing

    def _thread_ended(self, error: BaseException | None) -> None:
        self._on_closed(error)
        if not self._ended.done():
            self._ended.set_result(None)

    def _tell(self, callback: Callable[..., None], *arguments: object) -> None:
        self._m.call_from_thread(callback, *arguments)


def _write(file: Any, block: bytes) -> None:
    """Writes all of ``block``, which a raw file may take in pieces.

    What an ordinary buffered file keeps is flushed, so that readers see what has come; a compressing one would suffer from that.
    """
    left = memoryview(block)
    while left:
        count = file.write(left)
        if count is None:
            raise BlockingIOError("the file is in non-blocking mode and cannot be waited for")
        left = left[count:]
    if isinstance(file, io.BufferedWriter):
        file.flush()


def _sync(file: Any) -> None:
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # a pipe or a terminal has no disk
        os.fsync(file.fileno())


def _close(file: Any) -> BaseException | None:
    if file is not None:
        try:
            file.close()
        except Exception as error:  # noqa: BLE001 - some file systems tell only now that what was written is lost
            return error
    return None
