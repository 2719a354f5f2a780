"""The middle of a stream that a sender is: confirmations go on downstream, under its demand."""

from __future__ import annotations

from collections import deque

from streams import Materialization, Publisher, Subscriber
from streams.stages.one_subscriber import OneSubscriber
from transport.clients.sender_batches import Sendable
from transport.clients.sender_session import Confirmation
from transport.clients.sender_stage import Description, SenderStage


class ConfirmationPublisher(OneSubscriber[Confirmation]):
    """The Flow side of a sender: its confirmations, under downstream's demand.

    Upstream is held back while a confirmation waits for demand, so what waits is bounded by what was in flight.
    """

    what = "a materialized sender flow"

    def __init__(
        self,
        sender: Description,
        upstream: Publisher[Sendable],
        materialization: Materialization,
        stage: type[SenderStage] = SenderStage,
    ) -> None:
        super().__init__()
        self._m = materialization
        self._upstream = upstream
        self._stage = stage(sender, self._confirmed, self._finished)
        materialization.on_end(self._stage.finish)
        self._waiting: deque[Confirmation] = deque()
        self._ended = False
        self._error: Exception | None = None
        self._emitting = False

    def _begin(self, subscriber: Subscriber[Confirmation]) -> None:
        """Start the sender."""
        super()._begin(subscriber)
        self._upstream.subscribe(self._stage)
        self._stage.start()

    def _go_on(self) -> None:
        self._emit()

    def _cancelled(self) -> None:
        """Stop sending; what was sent stays sent."""
        self._stop()

    def _misused(self, error: Exception) -> None:
        self._stop()
        self._end(error)

    def _stop(self) -> None:
        self._waiting.clear()
        self._stage.cancel()

    def _confirmed(self, confirmation: Confirmation) -> None:
        if self._downstream is not None:
            self._waiting.append(confirmation)
            self._m.call(self._emit)

    def _finished(self, error: Exception | None) -> None:
        self._ended = True
        self._error = error
        self._m.call(self._emit)

    def _emit(self) -> None:
        if self._emitting:
            return
        self._emitting = True
        try:
            while self._waiting and self._wanted > 0 and self._downstream is not None:
                self._wanted -= 1
                self._downstream.on_next(self._waiting.popleft())
        except Exception:
            self.cancel()  # a subscriber that raises has cancelled (2.13)
            raise
        finally:
            self._emitting = False
        self._stage.hold_back(bool(self._waiting))
        if self._ended and not self._waiting:
            self._end(self._error)

    def _end(self, error: Exception | None) -> None:
        downstream, self._downstream = self._downstream, None
        if downstream is None:
            return
        if error is None:
            downstream.on_complete()
        else:
            downstream.on_error(error)
