"""What leaves a queue: the effects that its state asks for, told to whom they concern once they may be known."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pykka

from actors.errors import InboxOverflowError, QueueError
from actors.queue.commit_gate import CommitGate
from actors.queue.vocabulary.commands import DeadLettersMoved, Origin, StoreDeadLetters
from actors.queue.vocabulary.replies import DeadLetter, Refused, Superseded
from actors.queue.vocabulary.settings import dead_letter_name
from actors.runtime.later_reply import LaterReply

if TYPE_CHECKING:
    from actors.queue.vocabulary.commands import Ref
    from actors.queue.vocabulary.replies import Connection, Effect, Reply, Tell
    from actors.storage import Storage

logger = logging.getLogger("penstock.queue")


class QueueOutput:
    """A queue's way to its connections, through the gate that waits for the journal.

    Args:
        queue: the queue actor's own ref.
        name: the queue's name.
        number: its number.
        storage: where its events are made durable; None for a queue in memory.
        find_queue: the queue with a name, made if need be, for dead letters.
        let_go: told of a connection that is not the queue's any more.
        durable: what the queue is told when more of what happened is durable.

    Attributes:
        ended: connections that do not take what they are told; whoever empties it detaches them.
    """

    def __init__(
        self,
        queue: Ref,
        name: str,
        number: int,
        storage: Storage | None,
        find_queue: Callable[[str], Ref] | None,
        let_go: Callable[[Connection], None],
        durable: object,
    ) -> None:
        self._queue = queue
        self._name = name
        self._number = number
        self._find_queue = find_queue
        self._let_go = let_go
        self._gate = CommitGate(storage, partial(_wake, queue, durable), self._let_out)
        self._promised: dict[LaterReply, None] = {}
        self.ended: list[Ref] = []

    def carry_out(self, effects: list[Effect]) -> None:
        """Do what the state asks for. `tell` is written out here: a queue does little else as often."""
        passes, hand_over = self._gate.passes, self._hand_over
        for effect in effects:
            if type(effect) is DeadLetter:
                self._dead_letter(effect)
                continue
            connection, reply, after = cast("Tell", effect)
            if type(reply) in _LAST and (type(reply) is Superseded or cast("Refused", reply).close):
                self._let_go(connection)
            if passes(after):
                hand_over(connection, reply)
            else:
                self._gate.hold(after, connection, reply)

    def promise(self) -> LaterReply:
        """A reply that ``answer_later`` is given in the end; it fails with what is held back."""
        reply = LaterReply()
        self._promised[reply] = None
        return reply

    def clear(self, reason: BaseException) -> None:
        """Tell nobody what is held back; whoever asked gets ``reason``."""
        self._gate.clear(reason)
        for reply in self._promised:
            reply.fail(reason)
        self._promised.clear()
        self.ended.clear()

    def end(self) -> None:
        """The queue has stopped: nothing leads back to it from here, so that what it held is free at once."""
        self._let_go = _nothing
        self._find_queue = None
        self._gate.end()

    def tell(self, connection: Any, message: Reply | DeadLettersMoved, after: int = 0) -> None:
        """Tell a connection, once event ``after`` is durable."""
        if self._gate.passes(after):
            self._hand_over(connection, message)
        else:
            self._gate.hold(after, connection, message)

    def answer_later(self, reply: LaterReply, value: Any, after: int) -> LaterReply:
        """Answer an ask once event ``after`` is durable."""
        self._promised.pop(reply, None)
        if self._gate.passes(after):
            reply.set(value)
        else:
            self._gate.hold(after, reply, value)
        return reply

    def release(self) -> None:
        """Tell what has become durable."""
        self._gate.release()

    def _let_out(self, target: Any, message: Any) -> None:
        """Do at last what the gate held back."""
        if isinstance(target, LaterReply):
            target.set(message)
        else:
            self._hand_over(target, message)

    def _hand_over(self, connection: Any, message: Any) -> None:
        try:
            connection.deliver(message)
        except pykka.ActorDeadError:
            # The queue watches it, and hears of its end behind all that it said: an acknowledgement may still be on its way.
            pass
        except InboxOverflowError:
            # Detaching it now would change the state under whoever reads its effects.
            self.ended.append(connection)

    def _dead_letter(self, effect: DeadLetter) -> None:
        """Hand messages over; the state asks again if nothing is heard of them."""
        name = effect.queue or dead_letter_name(self._name)
        message = StoreDeadLetters(self._queue, Origin(self._number, effect.ranges), effect.batch)
        try:
            if self._find_queue is not None:
                self._find_queue(name).tell(message)
        except (pykka.ActorDeadError, InboxOverflowError, QueueError) as error:
            logger.warning("dead letters of %s cannot go to %s now: %s", self._name, name, error)


_LAST = frozenset({Superseded, Refused})
"""Replies behind which a connection may be the queue's no more."""


def _nothing(_connection: Connection) -> None:
    """A queue that has stopped lets go of nobody: it has told all of its end."""


def _wake(queue: Ref, durable: object) -> None:
    """Tell the queue that more is durable, be its inbox full or not; one that has stopped meanwhile holds nothing any more."""
    queue.actor_inbox.offer_beyond_bound(durable)
