"""What a receiver knows, without I/O: its demand, what it holds unacknowledged, and the answers that wait to leave.

docs/protocol.md, section "Receiving". Everything here belongs to one connection at a time: on a new one demand begins at zero, and
what was held has gone back to the queue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby

from streams import RequestStrategy
from transport.clients.delivery import DeliveredBatch, Delivery
from transport.errors import RemoteProtocolError
from transport.wire.messages import MAX_EXTENSION_MS, Ack, Deliver, Extend, Frame, Nack, Ranges, Request, split_ranges

DEFAULT_MAX_IN_FLIGHT = 1000
DEFAULT_MAX_IN_FLIGHT_BYTES = 8 * 1024 * 1024

How = tuple[int, bool, str | None, str | None]
"""What a NACK says beside its ranges: ``delay_ms``, ``failed``, ``reason`` and ``error``."""


@dataclass(eq=False, repr=False, slots=True)
class ReceiverSession:
    """The state of one receiver.

    ``notify`` is called when the first answer since the last `answers` waits to leave. ``late`` is called with the number of a message that
    is acknowledged after the `end`. ``handler_failed`` is called with what a handler has failed on, and is true if it has answered for
    that. ``returned`` is called with what somebody gives back, and whether it has failed.

    Attributes:
        generation: which connection this is; answers to an earlier one's deliveries are void.
        received: messages delivered on this connection.
        dead_letters: whether the queue keeps dead letters, as the broker says.
    """

    queue: str
    strategy: RequestStrategy
    notify: Callable[[], None]
    max_in_flight_bytes: int = DEFAULT_MAX_IN_FLIGHT_BYTES
    limit: int | None = None
    late: Callable[[int], None] = lambda _number: None
    handler_failed: Callable[[Delivery | DeliveredBatch, Exception], bool] = lambda _message, _error: False
    returned: Callable[[DeliveredBatch, int, int, bool], None] = lambda _batch, _first, _count, _failed: None
    dead_letters: bool = False
    generation: int = 0
    id_prefix: bytes = b""
    received: int = 0
    _over: bool = False
    _pending: bool = False
    _withdraws: bool = False
    _withdrawn: bool = False
    # These three without the run of acknowledged numbers that still grows: one that continues it costs a single addition.
    _in_flight: int = 0
    _acknowledged: int = 0
    _unsaid: int = 0
    _requested: int = 0
    _requested_bytes: int = 0
    _free_bytes: int = 0
    _acks: Ranges = field(default_factory=list)
    # By delay in milliseconds, whether it has failed, and why it is refused for good.
    _nacks: dict[How, Ranges] = field(default_factory=dict)
    # Batches of which something is not answered.
    _held: dict[DeliveredBatch, None] = field(default_factory=dict)
    # Milliseconds by first number and count, in the order in which they were asked for: what is asked for again takes no more room.
    _extends: dict[tuple[int, int], int] = field(default_factory=dict)
    _ack_first: int = 0
    _ack_next: int = 0

    @property
    def in_flight(self) -> int:
        """Messages delivered and not answered."""
        return self._in_flight - (self._ack_next - self._ack_first)

    @property
    def outstanding(self) -> int:
        """Messages requested on this connection and not delivered."""
        return self._requested - self.received

    @property
    def acknowledged(self) -> int:
        """Messages acknowledged in all, but for acknowledgements that a connection took with it unsaid."""
        return self._acknowledged + (self._ack_next - self._ack_first)

    def connected(self, id_prefix: bytes) -> None:
        """A new connection: nothing is requested, nothing is held.

        Answers to what an earlier one delivered must never reach this one, said late or left over: sequence numbers live on, so they
        could remove what somebody else is handling.
        """
        self.generation += 1
        self.id_prefix = id_prefix
        self._acknowledged -= self._unsaid
        self._reset()

    def lost(self) -> None:
        """The connection has ended: what it delivered has gone back."""
        self.generation += 1

    def delivered(self, frame: Deliver) -> DeliveredBatch:
        """Take a delivery.

        Raises:
            RemoteProtocolError: more than was requested.
        """
        count = len(frame.batch)
        if self.received + count > self._requested:
            raise RemoteProtocolError(f"{count} messages delivered, {self._requested - self.received} were requested")
        self.received += count
        self._in_flight += count
        batch = DeliveredBatch(frame, self.queue, self, self.generation, self.id_prefix)
        self._held[batch] = None
        return batch

    def demand(self) -> Request | None:
        """The REQUEST that is due now, by the strategy and the limits; None when none is."""
        outstanding = self._requested - self.received
        more = self.strategy.request_demand(outstanding, self.in_flight)
        if self.limit is not None:
            more = min(more, self.limit - self.acknowledged - self.in_flight - outstanding)
        allowed_bytes = self._free_bytes + self.max_in_flight_bytes
        byte_step = allowed_bytes - self._requested_bytes
        if more <= 0 and byte_step * 2 < self.max_in_flight_bytes:
            return None
        self._requested += max(0, more)
        self._requested_bytes = allowed_bytes
        return Request(self._requested, self._requested_bytes)

    def withdraw(self) -> None:
        """Want nothing more on this connection: said once, before all answers. Then what is returned goes to others and not here again."""
        if self._requested > self.received and not self._withdrawn:
            self._withdraws = self._withdrawn = True
            self._note_pending()

    def answers(self) -> list[Frame]:
        """What was withdrawn, and EXTEND, ACK and NACK frames for everything answered since the last call, runs joined.

        EXTEND comes before the answers: a message that was extended and then acknowledged is still held when the EXTEND arrives. ACK
        comes before NACK: of a message that came twice, one acknowledged and the other returned, the first is to count.
        """
        self._pending = False
        self._end_run()
        self._unsaid = 0
        frames: list[Frame] = [Request(0, 0)] if self._withdraws else []
        self._withdraws = False
        # Runs of the same time: of two that meet in a message the later one counts.
        for ms, run in groupby(self._extends, key=self._extends.__getitem__):
            frames += [Extend(part, ms) for part in split_ranges(list(run))]
        if self._acks:
            frames += [Ack(ranges) for ranges in split_ranges(self._acks)]
            self._acks = []
        if self._nacks:
            # What has failed before what nobody has tried: of a group the broker is to know first what the others wait for.
            for how, ranges in sorted(self._nacks.items(), key=lambda nack: not nack[0][1]):
                frames += [Nack(part, *how) for part in split_ranges(ranges)]
        self._extends, self._nacks = {}, {}
        return frames

    # Settlement: called by deliveries

    def acknowledge(self, batch: DeliveredBatch, first: int, count: int) -> None:
        """Acknowledge ``count`` messages from ``first`` on; runs in order join into one range."""
        if batch.generation != self.generation:
            if self._over:
                self.late(first)
            return
        if first == self._ack_next:
            self._ack_next += count
        else:
            self._end_run()
            self._ack_first = first
            self._ack_next = first + count
        if not batch.unsettled:
            self._free_bytes += batch.nbytes
            self._held.pop(batch, None)
        if not self._pending:
            self._pending = True
            self.notify()

    def reject(
        self,
        batch: DeliveredBatch,
        first: int,
        count: int,
        delay: float,
        failed: bool = True,
        error: str | None = None,
    ) -> None:
        """Give ``count`` messages back; ``failed``, on ``error`` where that is known, unless nobody tried to handle them."""
        if batch.generation != self.generation:
            return
        # Of more than nothing at least a millisecond: zero is at once.
        delay_ms = max(1, round(delay * 1000)) if delay else 0
        self._give_back(batch, first, count, (delay_ms, failed, None, error))
        self.returned(batch, first, count, failed)

    def dead_letter(self, batch: DeliveredBatch, first: int, count: int, reason: str) -> None:
        """Have ``count`` messages be dead letters at once."""
        if batch.generation == self.generation:
            self._give_back(batch, first, count, (0, True, reason, None))

    def _give_back(self, batch: DeliveredBatch, first: int, count: int, how: How) -> None:
        self._nacks.setdefault(how, []).append((first, count))
        self._in_flight -= count
        if not batch.unsettled:
            self._settled(batch)
        self._note_pending()

    def end(self, failed: bool) -> None:
        """Give everything back that is not answered: the run is over, and what is said from here on comes too late."""
        for batch in self._held:
            for first, count, spared in batch.unanswered():
                self._nacks.setdefault((0, failed and not spared, None, None), []).append((first, count))
                self._in_flight -= count
        self._held = {}
        self.generation += 1
        self._over = True

    def extend(self, batch: DeliveredBatch, first: int, count: int, seconds: float) -> None:
        """Ask for more time."""
        if batch.generation != self.generation:
            return
        ms = min(MAX_EXTENSION_MS, max(1, round(seconds * 1000)))
        self._extends.pop((first, count), None)
        self._extends[first, count] = ms
        self._note_pending()

    def _end_run(self) -> None:
        count = self._ack_next - self._ack_first
        if count:
            self._acks.append((self._ack_first, count))
            self._ack_first = self._ack_next = 0
            self._acknowledged += count
            self._unsaid += count
            self._in_flight -= count

    def _settled(self, batch: DeliveredBatch) -> None:
        self._free_bytes += batch.nbytes
        self._held.pop(batch, None)

    def _note_pending(self) -> None:
        if not self._pending:
            self._pending = True
            self.notify()

    def _reset(self) -> None:
        self._requested = self._requested_bytes = self._free_bytes = 0
        self.received = self._in_flight = 0
        self._acks, self._nacks, self._extends = [], {}, {}
        self._held = {}
        self._withdraws = self._withdrawn = False
        self._ack_first = self._ack_next = self._unsaid = 0
