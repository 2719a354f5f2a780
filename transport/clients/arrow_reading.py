"""A receiver at work for an `ArrowReader`: a thread of its own with an event loop, in which deliveries are read and answered.

The thread keeps the connection alive and answers while the program works, however long that takes. It knows nothing of the reader, so a
reader that is dropped is collected, and ends this.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from streams import Materialization, Source
from transport.clients._pyarrow import pa
from transport.clients.arrow_records import ArrowDelivery
from transport.clients.receiver import Receiver
from transport.clients.receiver_stage import BatchStage

T = TypeVar("T")

JOINED_ROWS = 10_000
"""Rows to which small deliveries that are there already are joined to one record batch."""
JOINED_BYTES = 16 * 1024 * 1024
"""Their bytes, likewise, give or take a delivery: large ones gain nothing, and Arrow joins no more than 2 GiB to one."""
END_TIMEOUT = 15.0
"""Seconds for the end of the thread: more than the connection gives itself to say its last words."""


@dataclass(eq=False, repr=False, slots=True)
class Reading:
    """The reading of one reader.

    Attributes:
        receiver: what is read.
        schema: of the record batches.
        left: messages that are still to be read; None for no end.
        idle_exit: seconds without a message after which the reading ends; None for never.
        hold: seconds for which everything is held until it is acknowledged by name; None to acknowledge with the next read.
    """

    receiver: Receiver
    schema: Any
    left: int | None = None
    idle_exit: float | None = None
    hold: float | None = None
    _over: bool = False
    _complete: bool = False
    _unanswered: list[ArrowDelivery] = field(default_factory=list)
    _stage: BatchStage | None = None
    _next: asyncio.Task[ArrowDelivery] | None = None
    _deliveries: AsyncGenerator[ArrowDelivery, None] | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _thread: threading.Thread | None = None
    # Whoever reads by the C interface may do so from threads of its own, one after another.
    _lock: threading.RLock = field(default_factory=threading.RLock)

    # Called by the program, in whatever thread

    def read(self) -> Any:
        """The next record batch; None at the end, behind which everything is acknowledged that is not held."""
        with self._lock:
            if self._over or self._complete:
                return None
            try:
                records = self._call(self._read())
            except BaseException:
                self.end(acknowledge=False)
                raise
            if records is None:
                self._complete = True
                if self.hold is None:
                    self.end(acknowledge=True)
            return records

    def acknowledge(self) -> None:
        """Everything that was read is done."""
        with self._lock:
            if self._thread is not None and not self._over:
                self._call(self._answer())

    def end(self, acknowledge: bool) -> None:
        """Acknowledge what was read, if so, give the rest back, and end the thread."""
        with self._lock:
            thread, loop = self._thread, self._loop
            if self._over or thread is None or loop is None:
                self._over = True
                return
            self._over = True
            if threading.current_thread() is thread:
                # The reader was in a cycle, which was collected here: what this thread is to do it cannot wait for.
                loop.create_task(self._finish(acknowledge)).add_done_callback(lambda _: loop.stop())
                return
            try:
                self._call(self._finish(acknowledge), END_TIMEOUT)
            finally:
                loop.call_soon_threadsafe(loop.stop)
                thread.join(END_TIMEOUT)

    def _call(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_run, args=(self._loop,), name="penstock-arrow-reader", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout)

    # In the thread

    async def _read(self) -> Any:
        if self.hold is None:
            await self._answer()
        parts: list[Any] = []
        rows = size = 0
        while rows < JOINED_ROWS and size < JOINED_BYTES and (self.left is None or self.left > 0):
            delivery = await self._take(wait=not parts)
            if delivery is None:
                break
            self._unanswered.append(delivery)
            parts.append(delivery.records)
            rows += len(delivery)
            size += delivery.records.nbytes
            if self.left is not None:
                self.left -= len(delivery)
        if len(parts) < 2:
            return parts[0] if parts else None
        return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]

    async def _take(self, wait: bool) -> ArrowDelivery | None:
        """The next delivery; None where none comes for too long, or none is there if that is not to be waited for."""
        if self._deliveries is None:
            self._deliveries = self._source().iterate(1)
        # What is waited for is taken over by whoever ends this meanwhile: on Ctrl-C the program has left `read`, and ends.
        pending = self._next = self._next or asyncio.ensure_future(anext(self._deliveries))
        while True:
            await asyncio.wait({pending}, timeout=self.idle_exit if wait else 0)
            # Idle is a queue that gives nothing, not a broker that is away: of that the link says soon enough.
            if pending.done() or not wait or (self._stage is not None and self._stage.link.is_open):
                break
        if not pending.done():
            return None
        self._next = None
        try:
            delivery = pending.result()
        except StopAsyncIteration:
            return None
        if self.hold is not None:
            delivery.extend(self.hold)
        return delivery

    def _source(self) -> Source[ArrowDelivery, None]:
        """As `Receiver.arrow`, but the stage is known here."""

        def create(materialization: Materialization) -> tuple[BatchStage, None]:
            self._stage = self.receiver._batch_stage(materialization)
            materialization.on_end(self._stage.finish)
            return self._stage, None

        return Source(create).map(lambda delivered: ArrowDelivery(delivered, self.schema))

    async def _answer(self) -> None:
        for delivery in self._unanswered:
            delivery.acknowledge()
        self._unanswered = []

    async def _finish(self, acknowledge: bool) -> None:
        if acknowledge:
            await self._answer()
        pending, self._next = self._next, None
        if pending is not None:
            pending.cancel()
            # However the last wait ends, there is nobody to be told.
            await asyncio.wait({pending})
            if not pending.cancelled():
                pending.exception()
        if self._deliveries is not None:
            with contextlib.suppress(RuntimeError):  # it has failed, and is closed already
                await self._deliveries.aclose()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    with contextlib.closing(loop):
        asyncio.set_event_loop(loop)
        loop.run_forever()
        loop.run_until_complete(loop.shutdown_asyncgens())
