"""Blocks of bytes from a file, a pipe or standard input, read by a thread so that the loop never waits for them.

The thread reads only when it is told to, one block ahead at most. It is a daemon: a read that never returns does not keep the
process. Where a file can block (a pipe, a terminal, a socket) the thread waits in poll() and not in read(). So cancellation wakes it, and
it holds no lock of the file that the interpreter needs when it exits.
"""

from __future__ import annotations

import io
import os
import select
import socket
import stat
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import BinaryIO, Final

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import null_element
from streams.materialize import Materialization
from streams.publishers.nobody import NOBODY
from streams.stages.stage import one_at_a_time

BLOCK_BYTES: Final = 64 * 1024
"""Bytes read at a time: what a pipe holds on Linux, and enough to make the change of threads cheap."""

BinaryFile = BinaryIO | io.RawIOBase | io.BufferedIOBase
"""An open binary file."""


def expect_file(operator: str, file: object, method: str) -> None:
    """Refuses what is neither a path nor an open file with ``method``, with ``TypeError``."""
    if not (isinstance(file, (str, os.PathLike)) or hasattr(file, method)):
        raise TypeError(f"{operator}: file must be a path or an open binary file, not {type(file).__name__}")


class BlockPublisher(Publisher[bytes]):
    """Publishes a file block by block, each of 1 to ``block_bytes`` bytes as they come.

    Args:
        m: the run.
        file: a path, opened for each subscriber and closed after it; or an open binary file, which stays open.
        block_bytes: bytes read at a time.
        thread_name: of the thread that reads.
        drains: it completes where the run is to end in good order. Who cuts the blocks sees to that, and not this: one may be cut off.
    """

    __slots__ = ("_block_bytes", "_drains", "_file", "_m", "_thread_name")

    def __init__(
        self,
        m: Materialization,
        file: str | os.PathLike[str] | BinaryFile,
        block_bytes: int = BLOCK_BYTES,
        thread_name: str = "stream lines",
        *,
        drains: bool = False,
    ) -> None:
        self._m = m
        self._file = file
        self._block_bytes = block_bytes
        self._thread_name = thread_name
        self._drains = drains

    def subscribe(self, subscriber: Subscriber[bytes]) -> None:
        """Starts the thread; it reads when something is requested."""
        if subscriber is None:
            raise null_element("subscribe")
        blocks = _Blocks(self._m, subscriber, _Reader(self._m, self._file, self._block_bytes, self._thread_name))
        self._m.on_end(blocks.cancel)
        if self._drains:
            self._m.on_drain(blocks)
        subscriber.on_subscribe(blocks)


class _Blocks(Subscription):
    """One subscription: passes on the blocks that the reader delivers, and has it read while there is demand."""

    __slots__ = (
        "__weakref__",
        "_busy",
        "_demand",
        "_done",
        "_ended",
        "_error",
        "_m",
        "_reader",
        "_reading",
        "_subscriber",
        "_waiting",
    )

    def __init__(self, m: Materialization, subscriber: Subscriber[bytes], reader: _Reader) -> None:
        self._m = m
        self._subscriber = subscriber
        self._reader = reader
        reader.deliver = self._arrived
        self._demand = 0
        self._waiting: deque[bytes] = deque()
        self._reading = False
        self._ended = False
        self._error: BaseException | None = None
        self._busy = False
        self._done = False

    def request(self, n: int) -> None:
        """Adds to the demand."""
        if self._done:
            return
        if n < 1:
            self._end(invalid_demand(n))
            return
        self._demand = add_demand(self._demand, n)
        self._drain()

    def cancel(self) -> None:
        """Ends the thread."""
        if not self._done:
            self._done = True
            self._subscriber = NOBODY
            self._waiting.clear()
            self._reader.stop()

    def drained(self) -> None:
        """Nothing more comes."""
        if not self._done:
            self._end(None)

    def _end(self, error: BaseException | None) -> None:
        """The last signal."""
        subscriber = self._subscriber
        self.cancel()
        if error is None:
            self._m.call(subscriber.on_complete)
        else:
            self._m.call(subscriber.on_error, error)

    def _arrived(self, block: bytes, error: BaseException | None) -> None:
        """The reader has a block, the end (an empty one) or a failure; on the loop's thread."""
        self._reading = False
        if self._done:
            return
        if block:
            self._waiting.append(block)
        else:
            self._ended = True
            self._error = error
        self._drain()

    @one_at_a_time
    def _drain(self) -> None:
        """Passes on what waits, under demand, while the next is being read; a call from within only leaves its mark."""
        self._read_ahead()
        while self._demand and self._waiting and not self._done:
            self._demand -= 1
            block = self._waiting.popleft()
            self._read_ahead()
            self._pass_on(block)
        if self._ended and not self._waiting and not self._done:
            self._end(self._error)

    def _read_ahead(self) -> None:
        if not (self._reading or self._ended or self._done or self._waiting):
            self._reading = True
            self._reader.read()

    def _pass_on(self, block: bytes) -> None:
        try:
            self._subscriber.on_next(block)
        except Exception as error:  # noqa: BLE001 - a subscriber has raised: to be treated as cancelled (2.13), and never unnoticed
            self.cancel()
            self._m.fail(error)


def _drop(_block: bytes, _error: BaseException | None) -> None:
    """Where blocks go that nobody waits for."""


class _Reader:
    """The thread, and the way to it: `read` asks for a block, ``deliver`` gets it on the loop's thread.

    Args:
        m: the run: ``deliver`` is called on its loop's thread.
        file: what to read.
        block_bytes: bytes to read at a time.
        name: the thread's.

    Attributes:
        deliver: called with a block and None, or with an empty block and None (the end) or what went wrong.
    """

    __slots__ = (
        "_block_bytes",
        "_commands",
        "_file",
        "_m",
        "_name",
        "_stopped",
        "_thread",
        "_wake_reader",
        "_wake_writer",
        "deliver",
    )

    def __init__(
        self, m: Materialization, file: str | os.PathLike[str] | BinaryFile, block_bytes: int, name: str
    ) -> None:
        self._m = m
        self._file = file
        self._block_bytes = block_bytes
        self._name = name
        self.deliver: Callable[[bytes, BaseException | None], None] = _drop
        self._commands: SimpleQueue[bool] = SimpleQueue()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._wake_reader = self._wake_writer = -1

    def read(self) -> None:
        """Has one block read; one at a time."""
        if self._thread is None:
            self._wake_reader, self._wake_writer = os.pipe()
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._commands.put(True)

    def stop(self) -> None:
        """Ends the thread, once a read that is under way lets it; nothing is delivered any more."""
        if self._stopped:
            return
        self._stopped = True
        self.deliver = _drop  # a thread that is stuck in a read must not keep the stream alive (3.13)
        if self._thread is not None:
            self._commands.put(False)
            # Closing the pipe's end wakes a thread in poll(); that closes the other.
            os.close(self._wake_writer)

    def _run(self) -> None:
        """The thread's work: one block for each command, until it is stopped or there is no more."""
        opened: BinaryFile | None = None
        try:
            if self._commands.get():
                file = self._file
                if isinstance(file, (str, os.PathLike)):
                    file = opened = open(file, "rb", buffering=0)  # noqa: SIM115 - closed below, by the thread that uses it
                self._read_blocks(file)
        except Exception as error:  # noqa: BLE001 - whatever reading raises goes down the stream
            self._hand_over(b"", error)
        finally:
            os.close(self._wake_reader)
            if opened is not None:
                opened.close()

    def _read_blocks(self, file: BinaryFile) -> None:
        wait = self._waiter(file)
        read: Callable[[int], bytes | None] = getattr(file, "read1", None) or file.read
        more = True
        while more and not self._stopped:
            if wait is None or wait():
                block = read(self._block_bytes)
                if block is None:
                    raise BlockingIOError("the file is in non-blocking mode and cannot be waited for")
                self._hand_over(block, None)
                more = bool(block) and self._commands.get()

    def _waiter(self, file: BinaryFile) -> Callable[[], bool] | None:
        """What waits until ``file`` can be read or the reader is stopped, and says which; None for files that never block."""
        raw = file.raw if isinstance(file, io.BufferedReader) else file
        if not isinstance(raw, (io.FileIO, socket.SocketIO)):
            return None
        descriptor = raw.fileno()
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self._wake_reader, select.POLLIN)

        def wait() -> bool:
            ready = {found for found, _ in poll.poll()}
            return descriptor in ready and not self._stopped

        return wait

    def _hand_over(self, block: bytes, error: BaseException | None) -> None:
        if self._stopped:
            return
        self._m.call_from_thread(self.deliver, block, error)
