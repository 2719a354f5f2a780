"""One blocking connection in the role ``sender`` that stages: batches within the broker's demand, and their confirmations."""

from __future__ import annotations

from collections.abc import Callable

from actors.batch import MessageBatch
from transport.clients.blocking_connection import CATCH_UP_TIMEOUT, BlockingConnection
from transport.errors import BrokerError, QueueFullError, RemoteProtocolError
from transport.wire.address import Address
from transport.wire.cumulative import CumulativeDemand
from transport.wire.messages import Demand, Error, Frame, Hello, Options, Send, Sent

ROLE = "sender"


class StageConnection(BlockingConnection):
    """One open connection to a stage.

    Attributes:
        committed: whether the transaction's version is committed already.
        stored: how many messages of the stage the broker had when the connection opened.
        unanswered: batches sent on this connection and not confirmed.
        heard: how many demands and confirmations came.

    Args:
        address: the broker's.
        hello: what to open with.
        clock: monotonic seconds.
        confirmed: told of each confirmation at once, for what follows it may be the connection's end: everything numbered below is stored.
    """

    committed: bool
    stored: int
    _confirmed: int

    def __init__(
        self, address: Address, hello: Hello, clock: Callable[[], float], confirmed: Callable[[int], None]
    ) -> None:
        self._queue = hello.queue or ""
        self._tell_confirmed = confirmed
        self._granted = CumulativeDemand()
        self._sent_messages = self._sent_bytes = 0
        self.unanswered = self.heard = 0
        super().__init__(address, hello, clock)

    def send_within_demand(self, sequence: int, batch: MessageBatch) -> int:
        """Send as much of ``batch`` as demand lets through, from its beginning; returns how many messages."""
        room = self._granted.bytes - self._sent_bytes
        count = min(len(batch), self._granted.messages - self._sent_messages)
        if count < 1 or room < 1:
            return 0
        if batch.nbytes > room:
            count = min(count, batch.count_within(room))
        part = batch.slice(0, count)
        self.send(Send(sequence, None, part))
        self._sent_messages += count
        self._sent_bytes += part.nbytes
        self.unanswered += 1
        return count

    def catch_up(self) -> None:
        """Take the demand and the confirmations that are there, without waiting; what comes for longer is for the next time."""
        began = self._clock()
        more = True
        while more and self._clock() - began < CATCH_UP_TIMEOUT:
            try:
                self._receive_waiting()
            finally:
                more = bool(self._frames)
                self._take_all()

    def listen(self, deadline: float) -> None:
        """Wait for one demand or confirmation.

        Raises:
            PeerTimeoutError: nothing came before ``deadline``.
        """
        try:
            self._take(self._next(deadline))
        finally:
            self._take_all()

    def _take_all(self) -> None:
        """What has come counts, also where the connection ended right behind it."""
        while self._frames:
            self._take(self._frames.popleft())

    def _take(self, frame: Frame) -> None:
        self.heard += 1
        if isinstance(frame, Demand):
            self._granted.growth(frame.messages, frame.bytes)
        elif isinstance(frame, Error):
            raise BrokerError(frame.code, frame.text)
        elif not isinstance(frame, Sent) or self.unanswered < 1 or frame.up_to <= self._confirmed:
            raise RemoteProtocolError(f"{type(frame).__name__.upper()} answers nothing that was sent")
        elif frame.rejected is not None:
            raise QueueFullError(self._queue, self._confirmed, frame.up_to - self._confirmed, frame.rejected)
        else:
            self.unanswered -= 1
            self._confirmed = frame.up_to
            self._tell_confirmed(frame.up_to)

    def _opened(self, options: Options) -> None:
        committed, stored = options.get("committed"), options.get("last_sequence")
        # A broker that does not know stages would make what is sent receivable at once.
        if not isinstance(committed, bool) or not (stored is None or type(stored) is int):
            raise RemoteProtocolError(
                f"the broker does not know transactions: WELCOME to a stage carries {sorted(options)}"
            )
        self.committed = committed
        self.stored = self._confirmed = stored or 0
