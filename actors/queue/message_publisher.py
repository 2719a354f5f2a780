"""The actor that sends for requests: it asks the queue for just the room that they need, and holds none beside.

There is one for each queue and gateway.
"""

from __future__ import annotations

from typing import Any

from actors.queue.connection_actor import ConnectionActor
from actors.queue.vocabulary.commands import AttachSender, OfferBatch, RequestCapacity
from actors.queue.vocabulary.replies import CapacityGranted, SenderAttached, SentMessages


class MessagePublisher(ConnectionActor):
    """Takes ``RequestCapacity`` and ``OfferBatch``, and the queue's answers."""

    what = "publishing"

    def attaching(self) -> AttachSender:
        """What makes the sender known, without a name: what is sent again is stored again."""
        return AttachSender(connection=self.actor_ref)

    def handle(self, kind: type, message: Any) -> None:
        """Dispatch by type."""
        if kind is OfferBatch or kind is RequestCapacity:
            self.pass_on(message)
        elif kind is SentMessages or kind is CapacityGranted:
            self._port.tell(message)
        elif kind is not SenderAttached:
            super().handle(kind, message)
