"""The actor that sends for requests: it asks the queue for just the room that they need, and holds none beside.

There is one for each queue and gateway.
"""

from __future__ import annotations

from typing import Any, Protocol

from actors.queue.connection_actor import ConnectionActor, Port
from actors.queue.vocabulary.commands import AttachSender, OfferBatch, RequestCapacity
from actors.queue.vocabulary.replies import CapacityGranted, Refused, SenderAttached, SentMessages

FAILED = "internal-error"
"""The code of a queue that has failed."""


class PublisherPort(Port, Protocol):
    """The way back to those who send."""

    def batch_refused(self, code: str, text: str) -> None:
        """The queue does not take the first of the batches that it has not answered for."""


class MessagePublisher(ConnectionActor):
    """Takes ``RequestCapacity`` and ``OfferBatch``, and the queue's answers."""

    what = "publishing"
    _port: PublisherPort

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

    def _refused(self, message: Refused) -> None:
        # A batch that cannot be is one request's business. A queue that has failed knows nothing of this sender any more, nor does one
        # that let it go since the disk is behind: it answers for nothing that was sent behind that, and takes nothing more.
        if message.forgotten or message.code == FAILED:
            super()._refused(message)
        else:
            self._port.batch_refused(message.code, message.text)
