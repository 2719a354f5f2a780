"""The actor that takes messages for requests: what it holds is nobody's connection, and outlives each request.

There is one for each queue and gateway. It ends when it holds nothing, no request waits, and nobody is about to ask.
"""

from __future__ import annotations

from typing import Any, Protocol

from actors.queue.connection_actor import ConnectionActor, Port
from actors.queue.vocabulary.commands import Left
from actors.queue.vocabulary.replies import MessagesTaken, NothingHeld, Refused, TakenSettled
from actors.queue.vocabulary.takes import AttachTaker, CancelTake, GiveBackUnseen, SettleTaken, TakeMessages, TakenSeen


class TakerPort(Port, Protocol):
    """The way back to those who take."""

    def request_refused(self, request: int, code: str, text: str) -> None:
        """The queue does not carry out one request."""

    def may_end(self, heard: int) -> bool:
        """Nothing was held when the queue had heard of this request to take, the last one till then: whether nobody has asked since.

        Where so nobody asks this taker from then on.
        """


class MessageTaker(ConnectionActor):
    """Takes the commands of `actors.queue.vocabulary.takes`, and the queue's answers.

    Args:
        queue: the queue actor.
        port: the way to those who take: it is told ``MessagesTaken`` and ``TakenSettled``.
    """

    what = "taking"
    _port: TakerPort

    def attaching(self) -> AttachTaker:
        """What makes the taker known."""
        return AttachTaker(self.actor_ref)

    def handle(self, kind: type, message: Any) -> None:
        """Dispatch by type."""
        if kind in _ASKED:
            self.pass_on(message)
        elif kind in _TOLD:
            self._port.tell(message)
        elif kind is Left:
            # The queue hears of it when this has ended.
            self._left = message
        elif kind is NothingHeld:
            if self._port.may_end(message.heard):
                self._ended = True
                self.stop()
        else:
            super().handle(kind, message)

    def _refused(self, message: Refused) -> None:
        if message.request is None:
            super()._refused(message)
        else:
            self._port.request_refused(message.request, message.code, message.text)
            # Of a request that is refused the queue says no more: have it say whether anything is held.
            self.pass_on(CancelTake(message.request))


_ASKED = frozenset({TakeMessages, CancelTake, TakenSeen, GiveBackUnseen, SettleTaken})
_TOLD = frozenset({MessagesTaken, TakenSettled})
