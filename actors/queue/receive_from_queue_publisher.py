"""The actor of one receiving connection: a publisher of the queue's messages, under the client's demand.

The client's demand reaches the queue in bounded steps and only while the socket takes what is written, so a client that requests a
great deal and reads nothing holds no more than one step of the queue.
When the connection goes, whatever way, the queue takes everything back.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from typing import Protocol as TypingProtocol

from pykka import ActorDeadError

from actors.queue.vocabulary.commands import (
    AttachReceiver,
    CancelDemand,
    DeleteMessages,
    Detach,
    ExtendVisibility,
    Mark,
    ReceiveMessages,
    ReturnMessages,
)
from actors.queue.vocabulary.connection_messages import (
    Acknowledged,
    CaughtUp,
    DemandSignalled,
    DemandWithdrawn,
    Extended,
    Left,
    Rejected,
    Writable,
)
from actors.queue.vocabulary.replies import MarkReached, QueueDeleted, ReceivedMessages, ReceiverAttached, Refused
from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_ref import LoopActorRef

STEP_MESSAGES = 65_536
STEP_BYTES = 8 * 1024 * 1024
"""Demand passed on to the queue and not yet met, at most: what can still arrive after the socket is full."""


class ReceiverPort(TypingProtocol):
    """The way to the client."""

    def attached(self, waiting: bool) -> None:
        """The queue knows the receiver; ``waiting`` behind another, where the queue is exclusive."""

    def deliver(self, message: ReceivedMessages) -> None:
        """Messages for the client."""

    def caught_up(self) -> None:
        """Everything that the client had said before the last mark is handled."""

    def refused(self, code: str, text: str) -> None:
        """The client broke a rule, or the queue is gone; the connection is to end."""


class ReceiveFromQueuePublisher(LoopActor):
    """Takes the client's demand and answers from its connection, and the queue's messages.

    Args:
        queue: the queue actor.
        port: the way to the client.
    """

    def __init__(self, queue: LoopActorRef[Any], port: ReceiverPort) -> None:
        super().__init__()
        self._queue = queue
        self._port = port
        self._wanted_messages = 0
        self._wanted_bytes = 0
        self._asked_messages = 0
        self._asked_bytes = 0
        self._writable = True
        self._ended = False
        self._withdrawn = False
        self._failed = True

    def on_start(self) -> None:
        """Make the receiver known to the queue."""
        # It may end before it has heard of this one.
        self.watch(self._queue, self._queue_ended)
        with suppress(ActorDeadError):
            self._queue.tell(AttachReceiver(self.actor_ref))

    def on_stop(self) -> None:
        """The connection is gone: everything it holds goes back at once."""
        if self._queue.is_alive():
            self._queue.tell(Detach(self.actor_ref, self._failed))

    def on_failure(self, *_args: object) -> None:
        """A defect of ours ends this connection only."""
        self._port.refused("internal-error", "the receiving connection's actor failed; connect again")
        self.on_stop()

    def on_receive(self, message: Any) -> None:  # noqa: PLR0912 - one branch a message
        """Dispatch by type, the frequent ones first."""
        kind = type(message)
        try:
            if kind is ReceivedMessages:
                self._received(message)
            elif kind is Acknowledged:
                self._queue.tell(DeleteMessages(self.actor_ref, message.ranges))
            elif kind is DemandSignalled:
                self._wanted_messages += message.messages
                self._wanted_bytes += message.bytes
                self._ask()
            elif kind is Writable:
                self._writable = message.writable
                self._ask()
            elif kind is Rejected:
                self._queue.tell(ReturnMessages(self.actor_ref, message.ranges, message.delay, message.failed))
            elif kind is Extended:
                self._queue.tell(ExtendVisibility(self.actor_ref, message.ranges, message.seconds))
            elif kind is ReceiverAttached:
                self._port.attached(message.waiting)
            elif kind is Refused:
                self._end(message.code, message.text)
            elif kind is CaughtUp:
                self._queue.tell(Mark(self.actor_ref))
            elif kind is MarkReached:
                self._port.caught_up()
            else:
                self._on_end(message)
        except ActorDeadError:
            if self._queue.is_alive():
                raise
            # Its word on why is behind this message: it tells all its connections as it ends.

    def _on_end(self, message: Any) -> None:
        """What counts once at most."""
        if type(message) is Left:
            self._failed = message.failed
        elif type(message) is DemandWithdrawn:
            if not self._withdrawn:
                self._withdrawn = True
                self._queue.tell(CancelDemand(self.actor_ref))
        elif type(message) is QueueDeleted:
            self._end("queue-deleted", "the queue was deleted; connecting again creates it anew")
        else:
            super().on_receive(message)

    def _received(self, message: ReceivedMessages) -> None:
        self._asked_messages -= len(message.batch)
        self._asked_bytes -= message.batch.nbytes
        if not self._ended:
            self._port.deliver(message)
            self._ask()

    def _ask(self) -> None:
        """Pass on as much of the client's demand as the step allows, in halves."""
        if not self._writable or self._withdrawn or self._ended:
            return
        messages = min(self._wanted_messages, STEP_MESSAGES - self._asked_messages)
        size = min(self._wanted_bytes, STEP_BYTES - self._asked_bytes)
        if self._asked_messages > STEP_MESSAGES // 2 and self._asked_bytes > STEP_BYTES // 2:
            return
        messages, size = max(0, messages), max(0, size)
        if messages or size:
            self._wanted_messages -= messages
            self._wanted_bytes -= size
            self._asked_messages += messages
            self._asked_bytes += size
            self._queue.tell(ReceiveMessages(self.actor_ref, messages, size))

    def _queue_ended(self, failure: BaseException | None) -> None:
        if failure is None:
            self._end("queue-deleted", "the queue was deleted; connecting again creates it anew")
        else:
            self._end("internal-error", "the queue failed for good, with what it held")

    def _end(self, code: str, text: str) -> None:
        if not self._ended:
            self._ended = True
            self._port.refused(code, text)
