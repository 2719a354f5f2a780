"""The state of a transient queue: its events are in the journal, and nothing that they lead to waits until they are durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.queue_state import QueueState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.queue.vocabulary.events import Event


class TransientQueueState(QueueState):
    """Its recorder gives no event a number to wait for. It waits for what it has to do with others.

    That is a transaction's commit, what leaves for a queue that is durable or comes from one, and what is published to one in the same
    instant. What came after one of these waits for that too.
    """

    __slots__ = ()

    def commit(self, event: Event, beside: Mapping[int, Event] | None = None) -> None:
        """See `QueueCore.commit`."""
        last_event, barrier = self.last_event, self.barrier
        super().commit(event, beside)
        # A number that is waited for is followed by those of events that are not.
        self.last_event = max(last_event, self.last_event)
        self.barrier = max(barrier, self.barrier)
