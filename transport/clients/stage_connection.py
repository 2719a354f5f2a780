"""One blocking connection in the role ``sender`` that stages: batches within the broker's demand, and their confirmations."""

from __future__ import annotations

from collections.abc import Callable

from transport.clients.blocking_connection import CATCH_UP_TIMEOUT, BlockingConnection
from transport.clients.sender_session import SenderSession
from transport.errors import BrokerError, QueueFullError, RemoteProtocolError
from transport.wire.address import Address
from transport.wire.cumulative import CumulativeDemand
from transport.wire.messages import Demand, Error, Frame, Hello, Options, Sent

ROLE = "sender"


class StageConnection(BlockingConnection):
    """One open connection to a stage.

    Attributes:
        committed: whether the transaction's version is committed already.
        stored: how many messages of the stage the broker had when the connection opened.
        heard: how many demands and confirmations came.

    Args:
        address: the broker's.
        hello: what to open with.
        clock: monotonic seconds.
        session: what is to be sent, and what is not confirmed.
        confirmed: told when something is confirmed, at once, for what follows it may be the connection's end.
    """

    committed: bool
    stored: int

    def __init__(
        self,
        address: Address,
        hello: Hello,
        clock: Callable[[], float],
        session: SenderSession,
        confirmed: Callable[[], None],
    ) -> None:
        self._queue = hello.queue or ""
        self._session = session
        self._tell_confirmed = confirmed
        self._granted = CumulativeDemand()
        self.heard = 0
        super().__init__(address, hello, clock)

    def push(self, most_unconfirmed: int) -> bool:
        """Send what demand and the bound on what is unconfirmed let through; returns whether that was anything."""
        frames = self._session.sends(most_unconfirmed=most_unconfirmed)
        for frame in frames:
            self.send(frame)
        return bool(frames)

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
            self._session.granted(*self._granted.growth(frame.messages, frame.bytes))
        elif isinstance(frame, Error):
            raise BrokerError(frame.code, frame.text)
        elif isinstance(frame, Sent):
            self._answered(frame)
        else:
            raise RemoteProtocolError(f"{type(frame).__name__.upper()} answers nothing that was sent")

    def _answered(self, frame: Sent) -> None:
        session, stored = self._session, self._session.confirmed_up_to
        if frame.rejected is not None and stored < frame.up_to <= session.next_number:
            # The session keeps the batch: it is sent again, on another connection.
            raise QueueFullError(self._queue, stored, frame.up_to - stored, frame.rejected)
        if not session.sent(frame):
            raise RemoteProtocolError("SENT answers nothing that was sent")
        self._tell_confirmed()

    def _opened(self, options: Options) -> None:
        committed, stored = options.get("committed"), options.get("last_sequence")
        # A broker that does not know stages would make what is sent receivable at once.
        if not isinstance(committed, bool) or not (stored is None or type(stored) is int):
            raise RemoteProtocolError(
                f"the broker does not know transactions: WELCOME to a stage carries {sorted(options)}"
            )
        self.committed = committed
        self.stored = stored or 0
