"""The actor of one receiving connection: a publisher of the queue's messages, under the client's demand.

The client's demand reaches the queue in bounded steps, and only while the socket takes what is written. So a client that requests a great
deal and reads nothing holds no more than one step of the queue. When the connection goes, whatever way, the queue takes everything back.
"""

from __future__ import annotations

from typing import Any

from actors.queue.connection_actor import ConnectionActor, Port
from actors.queue.vocabulary.commands import (
    Acknowledged,
    AttachReceiver,
    DemandSignalled,
    Extended,
    Left,
    Rejected,
    Writable,
)
from actors.queue.vocabulary.prefetch import (
    AcknowledgedForMore,
    DemandLimited,
    DemandWithdrawn,
    LimitDemand,
    ReturnedForMore,
)
from actors.queue.vocabulary.replies import MessagesTaken, ReceivedMessages, ReceiverAttached
from actors.queue.vocabulary.takes import CancelTake, TakeMessages
from actors.queue.vocabulary.turns import HearTurns, TurnChanged
from actors.runtime.loop_ref import LoopActorRef

STEP_MESSAGES = 65_536
STEP_BYTES = 8 * 1024 * 1024
"""Demand passed on to the queue and not yet met, at most: what can still arrive after the socket is full."""
HALF_MESSAGES, HALF_BYTES = STEP_MESSAGES // 2, STEP_BYTES // 2
"""As long as more than that is not met, no more is passed on."""


class ReceiveFromQueuePublisher(ConnectionActor):
    """Takes the client's demand, requests and answers from its connection, and the queue's messages.

    Args:
        queue: the queue actor.
        port: the way to the client.
        told_visibility: the queue's visibility timeout as the client is told it, seconds; or ``NO_DEADLINE``.
        priority: among the queue's receivers.
    """

    what = "receiving"

    def __init__(self, queue: LoopActorRef[Any], port: Port, told_visibility: float = 0.0, priority: int = 0) -> None:
        super().__init__(queue, port)
        self._told_visibility = told_visibility
        self._priority = priority
        self._wanted_messages = 0
        self._wanted_bytes = 0
        self._asked_messages = 0
        self._asked_bytes = 0
        self._writable = True
        self._withdrawn = False

    def attaching(self) -> AttachReceiver:
        """What makes the receiver known."""
        return AttachReceiver(self.actor_ref, self._told_visibility, self._priority)

    def handle(self, kind: type, message: Any) -> None:
        """Dispatch by type, the frequent ones first."""
        if kind is ReceivedMessages:
            self._received(message)
        elif kind is Acknowledged:
            self.pass_on(message)
        elif kind is AcknowledgedForMore:
            self._acknowledged_for_more(message)
        elif kind is Rejected or kind is Extended:
            self.pass_on(message)
        elif kind is DemandSignalled:
            self._wanted_messages += message.messages
            self._wanted_bytes += message.bytes
            self._ask()
        elif kind is Writable:
            self._writable = message.writable
            self._ask()
        elif kind is ReceiverAttached or kind is MessagesTaken:
            self._port.tell(message)
        elif kind is TakeMessages or kind is CancelTake:
            self.pass_on(message)
        elif kind is LimitDemand:
            # What was signalled and not passed on counts no more.
            self._wanted_messages = 0
            self.pass_on(message)
        elif kind is DemandLimited:
            self._asked_messages = message.demand
            self._port.tell(message)
        elif kind is ReturnedForMore:
            self._asked_messages += message.messages
            self.pass_on(message)
        else:
            self._handle_end(kind, message)

    def _handle_end(self, kind: type, message: Any) -> None:
        """What is heard once, and what all connections hear."""
        if kind is Left:
            # The queue hears of it when the connection is over.
            self._left = message
        elif kind is HearTurns:
            self.pass_on(message)
        elif kind is TurnChanged:
            self._port.tell(message)
        elif kind is DemandWithdrawn:
            if not self._withdrawn:
                self._withdrawn = True
                self.pass_on(message)
        else:
            super().handle(kind, message)

    def _received(self, message: ReceivedMessages) -> None:
        self._asked_messages -= message.batch.count
        self._asked_bytes -= message.batch.nbytes
        if not self._ended:
            self._port.tell(message)
            told = self.actor_inbox.queue
            while told and type(told[0]) is Acknowledged:
                # What needs no answer is acknowledged as it is written. It is next, and has no turn to wait for.
                self.pass_on(told.popleft())
            self._ask()

    def _acknowledged_for_more(self, message: AcknowledgedForMore) -> None:
        """Pass it on as it is; or else without the demand, which the queue hears of when it may have more."""
        if self._writable and self._asked_messages <= HALF_MESSAGES and not (self._withdrawn or self._ended):
            self._asked_messages += message.messages
            self.pass_on(message)
        else:
            self.pass_on(Acknowledged(message.ranges, message.connection))
            self._wanted_messages += message.messages
            self._ask()

    def _ask(self) -> None:
        """Pass on as much of the client's demand as the step allows, in halves."""
        if not self._writable or self._withdrawn or self._ended:
            return
        messages = size = 0
        # Of each by itself: who wants messages without end has always more of them to ask for, and is to be asked for bytes.
        if self._asked_messages <= HALF_MESSAGES:
            messages = min(self._wanted_messages, STEP_MESSAGES - self._asked_messages)
        if self._asked_bytes <= HALF_BYTES:
            size = min(self._wanted_bytes, STEP_BYTES - self._asked_bytes)
        if messages or size:
            self._wanted_messages -= messages
            self._wanted_bytes -= size
            self._asked_messages += messages
            self._asked_bytes += size
            self._queue.tell(DemandSignalled(messages, size, self.actor_ref))
