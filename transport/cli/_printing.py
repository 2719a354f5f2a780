"""The run behind ``penstock receive``: write a delivered batch, then acknowledge it, and end for any of several reasons."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from streams import Materialization, Publisher, Running, Sink, Source
from transport.cli._blocking import Output
from transport.cli._output_formats import Encoder, encoder_of
from transport.clients.delivery import DeliveredBatch
from transport.clients.receiver import Receiver
from transport.clients.receiver_stage import BatchStage
from transport.clients.waiting import OnWait, Wait, Waiting
from transport.wire.messages import Deliver, Frame, Welcome

logger = logging.getLogger("penstock.output")


class WatchedStage(BatchStage):
    """A receiver's stage that tells when silence may have begun or ended."""

    def __init__(self, receiver: Receiver, run: Materialization, on_change: Callable[[], None]) -> None:
        super().__init__(receiver, run)
        self._on_change = on_change

    @property
    def silent(self) -> bool:
        """There is a connection, and nothing that it has brought waits for an answer.

        Messages count from their arrival, not from their turn to be written. A process that was held up for long finds them and the end of
        its patience in the same turn of the loop: it was not idle.
        """
        return self.link.is_open and not self.session.in_flight

    def link_opened(self, welcome: Welcome) -> None:
        """The broker has answered."""
        super().link_opened(welcome)
        self._on_change()

    def link_frame(self, frame: Frame) -> None:
        """Messages have come, or something else: the answer to why none do is none."""
        silent = self.silent
        super().link_frame(frame)
        if isinstance(frame, Deliver) or silent != self.silent:
            self._on_change()

    def link_lost(self, error: Exception | None) -> None:
        """The connection broke."""
        super().link_lost(error)
        self._on_change()


class OutputWaiting(Waiting):
    """The waits for whoever reads the output.

    Attributes:
        writing: whether something is being written.
    """

    writing = False

    def waits(self) -> bool:
        """While something is being written."""
        return self.writing

    def look(self) -> Wait | None:
        """It is for the reader."""
        return Wait("output", "standard output is not read: waiting for its reader")


class Printer:
    """Writes deliveries to a file descriptor until it is stopped.

    It ends in good order: what is written is acknowledged, and nothing else. It ends at `stop`, when the reader of a pipe has gone, after
    ``idle_exit`` seconds without a message, or when the receiver's limit is reached.

    Args:
        fd: where to.
        idle_exit: seconds; None for ever.
        encode: how a batch is written; as lines by default.
        on_wait: told where nobody reads what is written.

    Attributes:
        printed: messages written and acknowledged.
        printed_bytes: bytes of their payloads.
        again: how many of them had been delivered before.
        perhaps_again: how many others may have been.
        idled: whether it has ended for want of messages.
    """

    def __init__(
        self, fd: int, idle_exit: float | None = None, encode: Encoder | None = None, on_wait: OnWait | None = None
    ) -> None:
        self._output = Output(fd)
        self._on_wait = on_wait
        self._waiting: OutputWaiting | None = None
        self._idle_exit = idle_exit
        self._encode = encode or encoder_of(None, _ignore)
        self._idle: asyncio.TimerHandle | None = None
        self._running: Running[int] | None = None
        self._stage: WatchedStage | None = None
        self._writing = False
        self._stopped = False
        self.printed = self.printed_bytes = 0
        self.again = self.perhaps_again = 0
        self.idled = False

    async def run(self, receiver: Receiver) -> None:
        """Print what ``receiver`` gets.

        Raises:
            TransportError: the broker refused, or was not there for too long.
        """
        waiting = self._waiting = OutputWaiting(self._on_wait, _ignore, logger, "standard output")
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
            waiting.stop()
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
        waiting = self._waiting
        assert waiting is not None, "it runs"
        waiting.writing = True
        waiting.may_wait()
        try:
            await self._output.write(self._encode(delivered))
        except BrokenPipeError:
            self.stop()
            return
        except OSError as error:
            raise OSError(error.errno, error.strerror, "standard output") from error
        waiting.writing = False
        waiting.moved()
        delivered.acknowledge()
        self._count(delivered)
        self._writing = False
        self._watch_silence()

    def _count(self, delivered: DeliveredBatch) -> None:
        count = len(delivered)
        self.printed += count
        self.printed_bytes += len(delivered.batch.payloads.data)
        if delivered.delivery_count > 1:
            self.again += count
        elif delivered.possibly_replayed:
            self.perhaps_again += count

    async def _watch_reader(self) -> None:
        await self._output.reader_gone()
        self.stop()

    def _watch_silence(self) -> None:
        """Begin the wait for a message anew, or end it."""
        self._disarm()
        if self._idle_exit is not None and self._stage is not None and self._stage.silent and not self._writing:
            self._idle = asyncio.get_running_loop().call_later(self._idle_exit, self._idle_too_long)

    def _idle_too_long(self) -> None:
        self.idled = True
        self.stop()

    def _disarm(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None


def _ignore(_told: object) -> None:
    """Nobody is told."""
