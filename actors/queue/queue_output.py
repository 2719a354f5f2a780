"""What leaves a queue: the effects that its state asks for, held back until they may be known, and told to whom they concern."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pykka

from actors.errors import InboxOverflowError, QueueError
from actors.queue.operations.dead_letters import readdressed
from actors.queue.vocabulary.distributed import REFUSED
from actors.queue.vocabulary.letters import DeadLettersMoved, Origin, StoreDeadLetters
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.replies import (
    DeadLetter,
    MessagesTaken,
    ReceivedMessages,
    Refused,
    SubscriptionForgotten,
    Superseded,
)
from actors.queue.vocabulary.settings import dead_letter_name
from actors.runtime.loop_future import LaterReply

if TYPE_CHECKING:
    from actors.queue.measures import Measures
    from actors.queue.vocabulary.commands import Ref
    from actors.queue.vocabulary.moves import ParcelsStored
    from actors.queue.vocabulary.replies import Connection, Effect, Reply, Tell
    from actors.storage import Storage


Held: TypeAlias = tuple[int, Any, Any]
"""The number of the event it waits for, the ref or LaterReply it is for, and what is told."""


class CommitGate:
    """Holds back what waits for the journal; without one everything passes.

    Nothing passes before what is held and may be told. The disk can be further than the queue has heard, and then a
    later delivery would overtake an earlier one. What is durable does not wait for what is not. So messages that go
    out together go out in the order in which they came, and only what depends on a lower event can go out before
    something that came first.

    What it holds is bounded by what the queue's connections may have under way: demand for deliveries, permits for confirmations, one
    request at a time for the rest.

    Args:
        storage: where events are made durable; None for a queue in memory.
        wake: has the queue call ``release`` soon.
        tell: tells a target a message that was held; it must not ask the gate again.
    """

    __slots__ = ("_held", "_looked_at", "_storage", "_tell", "_wake")

    def __init__(self, storage: Storage | None, wake: Callable[[], None], tell: Callable[[Any, Any], None]) -> None:
        self._storage = storage
        self._wake = wake
        self._tell = tell
        self._held: list[Held] = []
        # What was durable when it last looked through what it holds: until more is, there is nothing in it that may go.
        self._looked_at = 0

    def __len__(self) -> int:
        return len(self._held)

    @property
    def durable(self) -> float:
        """Every event with this number or a lower one may be told."""
        return inf if self._storage is None else self._storage.durable

    def passes(self, after: int) -> bool:
        """Whether what depends on event ``after`` may be told now; tells first what is held and may be told."""
        storage = self._storage
        if storage is None:
            return True
        if self._held and storage.durable > self._looked_at:
            self.release()
        return after <= storage.durable

    def hold(self, after: int, target: Any, message: Any) -> None:
        """Keep a message that does not pass until its event is durable."""
        assert self._storage is not None, "without a journal everything passes"
        if not self._held:
            self._looked_at = self._storage.durable
            self._storage.when_durable(self._wake)
        self._held.append((after, target, message))

    def release(self) -> None:
        """Tell what may be told, in the order in which it came; the rest goes on waiting."""
        held, storage = self._held, self._storage
        if not held or storage is None:
            return
        durable = self._looked_at = storage.durable
        # Looked through whole: it need not be sorted by event, and what is durable must not wait behind what is not.
        self._held = [item for item in held if item[0] > durable]
        if self._held:
            storage.when_durable(self._wake)
        for after, target, message in held:
            if after <= durable:
                self._tell(target, message)

    def clear(self, reason: BaseException) -> None:
        """Tell nobody what is held; whoever asked gets ``reason``."""
        held, self._held = self._held, []
        for _, target, _ in held:
            if isinstance(target, LaterReply):
                target.fail(reason)

    def end(self) -> None:
        """Nothing is held and nothing will be: lead back to nobody."""
        self._held.clear()
        self._tell = self._wake = _ended


def _ended(*_unused: object) -> None:
    """A gate whose queue has stopped wakes nobody, and tells nobody."""


logger = logging.getLogger("penstock.queue")


class QueueOutput:
    """A queue's way to its connections, through the gate that waits for the journal.

    Args:
        queue: the queue actor's own ref.
        name: the queue's name.
        number: its number.
        storage: where its events are made durable; None for a queue in memory.
        find_queue: the queue with a name, made if need be, for dead letters.
        elsewhere: whether another protocol has declared the queue of a name; None where there is none.
        let_go: told of a connection that is not the queue's any more.
        durable: what the queue is told when more of what happened is durable.
        measures: told what leaves, and when it may.

    Attributes:
        confirming: what was stored and may not be confirmed yet: the event it waits for, when it was accepted, and how many messages it is.
        letters: dead letters for an exchange; whoever empties it has them leave.
        refused: dead letters that the queue has refused, which are in none; the queue is told ``LettersRefused``, and empties it.
        ended: connections that do not take what they are told; whoever empties it detaches them.
    """

    def __init__(
        self,
        queue: Ref,
        name: str,
        number: int,
        storage: Storage | None,
        find_queue: Callable[[str], Ref] | None,
        elsewhere: Callable[[str], bool] | None,
        let_go: Callable[[Connection], None],
        durable: object,
        measures: Measures,
    ) -> None:
        self._queue = queue
        self._name = name
        self._number = number
        self._find_queue, self._elsewhere = find_queue, elsewhere
        self._let_go = let_go
        self._gate = CommitGate(storage, partial(_wake, queue, durable), self._let_out)
        self._promised: dict[LaterReply, None] = {}
        self._measures = measures
        self.confirming: deque[tuple[int, float, int]] = deque()
        self.letters: list[DeadLetter] = []
        self.refused: list[DeadLetter] = []
        self.ended: list[Ref] = []

    def note_confirmed(self, now: float) -> None:
        """Measure what may be confirmed by now; it is bounded as what the gate holds is, where each has a confirmation."""
        confirming, durable = self.confirming, self._gate.durable
        while confirming and confirming[0][0] <= durable:
            _, accepted, messages = confirming.popleft()
            self._measures.confirmation.observe(now - accepted, messages)

    def carry_out(self, effects: list[Effect]) -> None:
        """Do what the state asks for. `tell` is written out here: a queue does little else as often."""
        passes, hand_over = self._gate.passes, self._hand_over
        for effect in effects:
            if type(effect) in _TOLD_NOBODY:
                self._beside(effect)
                continue
            connection, reply, after = cast("Tell", effect)
            if type(reply) in _LAST and (type(reply) is Superseded or cast("Refused", reply).close):
                self._let_go(connection)
            if passes(after):
                hand_over(connection, reply)
            else:
                self._gate.hold(after, connection, reply)

    def _beside(self, effect: Effect) -> None:
        """What is no reply to a connection."""
        if type(effect) is DeadLetter:
            if not effect.ranges:
                if not self.refused:
                    self._queue.actor_inbox.offer_beyond_bound(REFUSED)
                self.refused.append(effect)
            elif effect.exchange is None and not effect.again:
                self._dead_letter(effect)
            else:
                self.letters.append(effect)
            return
        forgotten = cast("SubscriptionForgotten", effect)
        logger.warning(
            "subscription %s of queue %s was forgotten: nobody used it for %.0f s; %d messages that it held are the queue's",
            forgotten.name,
            self._name,
            forgotten.idle,
            forgotten.released,
        )

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
        self.confirming.clear()
        self.letters.clear()
        self.ended.clear()

    def end(self) -> None:
        """The queue has stopped: nothing leads back to it from here, so that what it held is free at once."""
        self._let_go = _nothing
        self._find_queue = self._elsewhere = None
        self._gate.end()

    def tell(self, connection: Any, message: Reply | DeadLettersMoved | ParcelsStored, after: int = 0) -> None:
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
        kind = type(message)
        if kind is ReceivedMessages:
            self._measures.delivered(message)
        elif kind is MessagesTaken:
            for taken in message.ranges:
                self._measures.delivered(taken)
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
        name, batch, published = effect.queue or dead_letter_name(self._name), effect.batch, effect.published
        if effect.queue is not None and self._elsewhere is not None and self._elsewhere(self._name):
            # Other protocols know no way but through an exchange: this is the default one's, by the queue's name.
            batch = readdressed(batch, name, None if published is None else published.routing_key)
            published = Published("", name)
        message = StoreDeadLetters(self._queue, Origin(self._number, effect.ranges), batch, published, effect.priority)
        try:
            if self._find_queue is not None:
                self._find_queue(name).tell(message)
        except (pykka.ActorDeadError, InboxOverflowError, QueueError) as error:
            logger.warning("dead letters of %s cannot go to %s now: %s", self._name, name, error)


_TOLD_NOBODY = frozenset({DeadLetter, SubscriptionForgotten})
_LAST = frozenset({Superseded, Refused})
"""Replies behind which a connection may be the queue's no more."""


def _nothing(_connection: Connection) -> None:
    """A queue that has stopped lets go of nobody: it has told all of its end."""


def _wake(queue: Ref, durable: object) -> None:
    """Tell the queue that more is durable, be its inbox full or not; one that has stopped meanwhile holds nothing any more."""
    queue.actor_inbox.offer_beyond_bound(durable)
