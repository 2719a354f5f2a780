"""The run behind ``penstock receive``: write a delivered batch, then acknowledge it, and end for any of several reasons."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from streams import Materialization, Publisher, Running, Sink, Source
from transport.cli._blocking import Output
from transport.clients.delivery import DeliveredBatch
from transport.clients.receiver import BatchStage, Receiver
from transport.wire.messages import Frame, Welcome


class WatchedStage(BatchStage):
    """A receiver's stage that tells when silence may have begun or ended."""

    def __init__(self, receiver: Receiver, run: Materialization, on_change: Callable[[], None]) -> None:
        super().__init__(receiver, run)
        self._on_change = on_change

    @property
    def silent(self) -> bool:
        """There is a connection, and nothing that it has brought waits for an answer.

        Messages count from their arrival, not from their turn to be written: a process that was held up for long finds them and the end
        of its patience in the same turn of the loop, and was not idle.
        """
        return self.link.is_open and not self.session.in_flight

    def link_opened(self, welcome: Welcome) -> None:
        """The broker has answered."""
        super().link_opened(welcome)
        self._on_change()

    def link_frame(self, frame: Frame) -> None:
        """Messages have come."""
        super().link_frame(frame)
        self._on_change()

    def link_lost(self, error: Exception | None) -> None:
        """The connection broke."""
        super().link_lost(error)
        self._on_change()


class Printer:
    """Writes deliveries to a file descriptor until it is stopped.

    It ends in good order, what is written being acknowledged and nothing else, at `stop`, when the reader of a pipe has gone,
    after ``idle_exit`` seconds without a message, or when the receiver's limit is reached.

    Attributes:
        printed: messages written and acknowledged.
    """

    def __init__(self, fd: int, idle_exit: float | None = None) -> None:
        self._output = Output(fd)
        self._idle_exit = idle_exit
        self._idle: asyncio.TimerHandle | None = None
        self._running: Running[int] | None = None
        self._stage: WatchedStage | None = None
        self._writing = False
        self._stopped = False
        self.printed = 0

    async def run(self, receiver: Receiver) -> None:
        """Print what ``receiver`` gets.

        Raises:
            TransportError: the broker refused, or was not there for too long.
        """
        running = Source(lambda run: self._materialize(receiver, run)).to(Sink.foreach_async(1, self._print)).run()
        self._running = running
        watching = asyncio.create_task(self._watch_reader(), name="penstock-output-watch")
        try:
            await running
        except asyncio.CancelledError:
            # Ours, or that of the task that runs us.
            if not self._stopped:
                raise
        finally:
            self._disarm()
            watching.cancel()
            await asyncio.wait({watching})
            self._output.close()

    def stop(self) -> None:
        """End now; a batch being written stays unacknowledged."""
        self._stopped = True
        if self._running is not None:
            self._running.cancel()

    def _materialize(self, receiver: Receiver, run: Materialization) -> tuple[Publisher[DeliveredBatch], None]:
        stage = self._stage = WatchedStage(receiver, run, self._watch_silence)
        run.on_end(stage.finish)
        return stage, None

    async def _print(self, delivered: DeliveredBatch) -> None:
        self._writing = True
        self._watch_silence()
        lines = delivered.payloads()
        lines.append(b"")
        try:
            await self._output.write(b"\n".join(lines))
        except BrokenPipeError:
            self.stop()
            return
        delivered.acknowledge()
        self.printed += len(delivered)
        self._writing = False
        self._watch_silence()

    async def _watch_reader(self) -> None:
        await self._output.reader_gone()
        self.stop()

    def _watch_silence(self) -> None:
        """Begin the wait for a message anew, or end it."""
        self._disarm()
        if self._idle_exit is not None and self._stage is not None and self._stage.silent and not self._writing:
            self._idle = asyncio.get_running_loop().call_later(self._idle_exit, self.stop)

    def _disarm(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
