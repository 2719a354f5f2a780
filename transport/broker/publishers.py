"""Sending by request, for gateways whose clients have no connection that could be granted anything.

One sender for each queue and gateway asks for the room that requests need, and they use it in the order in which they come. A request waits
for room as long as its client allows. The sender begins with the first request, and ends when nobody has sent for a while.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from pykka import ActorDeadError

from actors import InboxOverflowError, OfferBatch
from actors.queue.message_publisher import MessagePublisher
from actors.queue.vocabulary.commands import ExplainWait, RequestCapacity
from actors.queue.vocabulary.replies import CapacityGranted, SentMessages, WaitExplained
from transport.broker.asked_to_publish import Asked, NoRoomInTimeError, NotAllStoredError, Piece, Wakes, check_frames
from transport.broker.exchange_requests import ExchangeRequests
from transport.broker.served import SHUTTING_DOWN, RefusalError
from transport.errors import LimitExceededError

if TYPE_CHECKING:
    from actors import LoopActorRef
    from actors.batch import MessageBatch
    from actors.queue.vocabulary.replies import Reply

    Ref = LoopActorRef[Any]

MAX_WAITING = 10_000
"""Requests of one queue and gateway that may wait for room;"""
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""and bytes of what they want to send, but one in any case."""
IDLE_SECONDS = 30.0
"""After which a sender that nobody uses ends, and leaves the room that it was granted to others."""
ANSWER_SECONDS = 30.0
"""In which a queue answers for what it was sent, unless its disk stands still."""
UNUSED_SECONDS = 0.1
"""The same of one that was granted room, or is about to be, that nobody wants any more."""
LENT_SECONDS = 1.0
"""In which a queue has room back that idle senders hold."""
EXPLAIN_SECONDS = 1.0
"""In which it says why there is no room."""
TURNS_FOR_ROOM = 5
"""Turns of the loop in which a queue that has room grants it; one that has not said so by then is asked why."""


class Publishers:
    """All that send for gateways, by gateway and queue.

    Attributes:
        to_exchanges: the requests that publish to exchanges.
    """

    def __init__(self) -> None:
        self.to_exchanges = ExchangeRequests()
        self._publishers: dict[tuple[str, Ref], Publisher] = {}
        self._draining = False

    def of(self, gateway: str, queue: Ref, name: str) -> Publisher:
        """The one of a gateway and a queue, begun if need be; to be asked at once, for one that nobody asks ends."""
        publisher = self._publishers.get((gateway, queue))
        if publisher is None:
            gone = partial(self._gone, gateway, queue)
            publisher = self._publishers[gateway, queue] = Publisher(queue, name, gone)
            if self._draining:
                publisher.drain()
        return publisher

    def _gone(self, gateway: str, queue: Ref, publisher: Publisher) -> None:
        """One has ended; another may have its place by now."""
        if self._publishers.get((gateway, queue)) is publisher:
            del self._publishers[gateway, queue]

    def drain(self) -> None:
        """The broker is about to end: who waits for room is answered. What was sent is still confirmed."""
        self._draining = True
        self.to_exchanges.drain()
        for publisher in list(self._publishers.values()):
            publisher.drain()

    def end(self) -> None:
        """The broker ends."""
        self.to_exchanges.end()
        for publisher in list(self._publishers.values()):
            publisher.refused(*SHUTTING_DOWN, close=True)


class Publisher:
    """Sends to one queue for the requests of one gateway: the actor's port.

    Args:
        queue: the queue's actor.
        name: the queue's name.
        gone: told, with this one, when nobody may ask it any more.
    """

    def __init__(self, queue: Ref, name: str, gone: Callable[[Publisher], object]) -> None:
        self.name = name
        self._gone = gone
        self._wakes = Wakes()
        self._waiting: deque[Asked] = deque()
        self._waiting_bytes = 0
        # Each with the number of its first message.
        self._unconfirmed: deque[tuple[Asked, Piece, int]] = deque()
        # What a rejecting queue refused because something before it was refused: it is sent again behind that.
        self._again: list[tuple[Asked, Piece]] = []
        self._rejected_at: int | None = None
        # So many parts may be unconfirmed. What is behind one that is not taken is in vain: where a queue refuses one after another, and
        # all were sent again behind each, a thousand requests would be sent half a million times.
        self._most_unconfirmed = MAX_WAITING
        self._sequence = 0
        # Room that was granted and is not used; and asked for in vain, by those who did not wait for it.
        self._messages = self._bytes = 0
        self._spare_messages = self._spare_bytes = 0
        # Room to be asked for behind this turn, for all requests that came in it.
        self._wanted_messages = self._wanted_bytes = 0
        self._is_to_ask = False
        self._draining = self._over = False
        self._numbers = count(1)
        self._explained: dict[int, asyncio.Future[str]] = {}
        self._loop = asyncio.get_running_loop()
        self._idle: asyncio.TimerHandle | None = None
        self._ends_soon = False
        # One timer for all that wait for an answer: they are answered in the order in which they were sent.
        self._answers: asyncio.TimerHandle | None = None
        self._actor = MessagePublisher.start(queue, self)
        # What is refused before it waits asks it for nothing.
        self._settle()

    async def publish(self, *pieces: Piece, wait: float = 0.0) -> list[tuple[int | None, int]]:
        """Store them in order; first number and count of each part, once all are as durable as the broker makes it.

        Duplicates have no number: others with their ids are stored.

        A queue that blocks may take them in parts, the first first. One that rejects takes all of a piece or nothing, and nothing behind
        one that it does not take. Whoever is cancelled meanwhile does not know what is stored.

        Args:
            pieces: what to store, one at least.
            wait: seconds to wait for room for all.

        Raises:
            NoRoomInTimeError: there was no room in time, in the queue's own words.
            RefusalError: the queue refuses it, is gone, or the broker ends.
            LimitExceededError: too many wait already.
            FrameTooLargeError: a message is larger than a frame, in which receivers get it.
        """
        for piece in pieces:
            check_frames(piece.batch)
        asked = self._begin(pieces)
        why = ""
        try:
            if not asked.sent and wait > 0:
                await asked.for_room(wait)
            asked.look_for_room(TURNS_FOR_ROOM)
            await asked.until(lambda it: bool(it.rest) and (it.sent or it.without_room))
            if not (asked.sent or asked.over):
                # The queue answers this behind what it grants: it may have had room all the time.
                why = await self._why()
                if not why:
                    # Idle senders hold the room, and the queue is about to have it back from them.
                    await asked.for_room(LENT_SECONDS)
            missing = bool(asked.rest)
            if missing:
                self._withdraw(asked)
            await asked.until(lambda _: False)
        finally:
            # One that was left behind with its loop is collected whenever, be it while another loop runs: it must not touch that.
            if not self._loop.is_closed():
                self._withdraw(asked)
                asked.over = True
                self._settle()
        if asked.error is not None:
            asked.raise_error()
        if missing and self._draining:
            raise NotAllStoredError(*SHUTTING_DOWN, asked.stored)
        if missing:
            # What was sent of it may have filled the queue since.
            why = why or await self._why() or f"queue {self.name} has no room for this now"
            raise NoRoomInTimeError(why, asked.stored)
        return asked.numbers

    # Told by the actor

    def tell(self, reply: Reply) -> None:
        """Room, a confirmation, or why there is no room."""
        if isinstance(reply, CapacityGranted):
            self._messages += reply.messages
            self._bytes += reply.bytes
        elif isinstance(reply, SentMessages):
            self._sent(reply)
        elif isinstance(reply, WaitExplained):
            waiting = self._explained.pop(reply.request, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(reply.text)
        self._offer()
        self._settle()

    def batch_refused(self, code: str, text: str) -> None:
        """The queue refuses what was sent first of what it has not answered for. The others are sent again, without it."""
        if not self._unconfirmed:
            self.refused(code, text, close=True)
            return
        asked, piece, sequence = self._unconfirmed.popleft()
        # Nothing of it was taken: the room that it had is there.
        self._messages += len(piece.batch)
        self._bytes += piece.batch.nbytes
        asked.under_way -= 1
        if self._rejected_at is None:
            self._rejected_at = sequence
            self._most_unconfirmed = 1
            self._spare_messages += len(piece.batch)
            self._spare_bytes += piece.batch.nbytes
            self._drop(asked)
            asked.fail(code, text)
        else:
            self._again.append((asked, piece))
        self._begin_again(ask=False)
        self._offer()
        self._settle()

    def caught_up(self) -> None:
        """Nobody has asked."""

    def refused(self, code: str, text: str, close: bool) -> None:  # noqa: ARG002 - it is always the end
        """The queue is gone, or the broker ends: so does this."""
        self._busy()
        asked = [*(each for each, _, _ in self._unconfirmed), *(each for each, _ in self._again), *self._waiting]
        self._unconfirmed.clear()
        self._again.clear()
        self._waiting.clear()
        for each in asked:
            each.fail(code, text)
        self._stop()

    def drain(self) -> None:
        """Begin nothing more, and answer who waits for room, once what of theirs is under way is confirmed."""
        self._draining = True
        for each in list(self._waiting):
            each.sent = True
            each.wake()

    # Inside

    def _begin(self, pieces: Sequence[Piece]) -> Asked:
        """Have a request wait for its turn, and send what there is room for."""
        if self._draining:
            raise RefusalError(*SHUTTING_DOWN)
        if len(self._waiting) >= MAX_WAITING:
            raise LimitExceededError(f"{MAX_WAITING} requests wait to send to queue {self.name}: send fewer at a time")
        size = sum(piece.batch.nbytes for piece in pieces)
        if self._waiting and self._waiting_bytes + size > MAX_WAITING_BYTES:
            raise LimitExceededError(
                f"{MAX_WAITING_BYTES} bytes wait to be sent to queue {self.name}: send less at a time"
            )
        asked = Asked(pieces, self._wakes)
        self._busy()
        self._waiting.append(asked)
        self._waiting_bytes += size
        for piece in pieces:
            self._ask_for_room(piece.batch)
        self._offer()
        return asked

    def _ask_for_room(self, batch: MessageBatch) -> None:
        """Ask for what is not there to spare. A sender that has stopped is about to say so."""
        messages, size = len(batch), batch.nbytes
        spare_messages, spare_bytes = min(messages, self._spare_messages), min(size, self._spare_bytes)
        self._spare_messages -= spare_messages
        self._spare_bytes -= spare_bytes
        if not self._is_to_ask:
            self._is_to_ask = True
            self._loop.call_soon(self._ask_together)
        self._wanted_messages += messages - spare_messages
        self._wanted_bytes += size - spare_bytes

    def _ask_together(self) -> None:
        """Ask once for what the requests of a turn need: what comes together is granted together."""
        self._is_to_ask = False
        messages, self._wanted_messages = self._wanted_messages, 0
        size, self._wanted_bytes = self._wanted_bytes, 0
        if not self._over:
            self._say(RequestCapacity(messages, size, self._actor))

    def _offer(self) -> None:
        """Send what there is room for, in the order in which it came."""
        while self._waiting and self._rejected_at is None and len(self._unconfirmed) < self._most_unconfirmed:
            asked = self._waiting[0]
            batch, delay, ttl, priority = asked.rest[0]
            fitting = min(self._messages, batch.count_within(max(0, self._bytes)), len(batch))
            if fitting <= 0:
                return
            whole = fitting == len(batch)
            part = batch if whole else batch.slice(0, fitting)
            self._waiting_bytes -= batch.nbytes
            if whole:
                asked.rest.popleft()
            else:
                rest = batch.slice(fitting, len(batch))
                asked.rest[0] = Piece(rest, delay, ttl, priority)
                # In parts it is a little larger.
                self._waiting_bytes += rest.nbytes
                self._say(RequestCapacity(0, part.nbytes + rest.nbytes - batch.nbytes, self._actor))
            if not asked.rest:
                self._waiting.popleft()
                asked.all_sent()
            self._messages -= fitting
            self._bytes -= part.nbytes
            asked.under_way += 1
            sequence, self._sequence = self._sequence, self._sequence + fitting
            self._unconfirmed.append((asked, Piece(part, delay, ttl, priority), sequence))
            asked.sent_at = self._loop.time()
            if self._answers is None:
                self._answers = self._loop.call_later(ANSWER_SECONDS, self._answers_due)
            self._say(OfferBatch(sequence, part, delay, ttl, self._actor, priority))

    def _sent(self, reply: SentMessages) -> None:
        """What was sent first is dealt with."""
        asked, piece, _ = self._unconfirmed.popleft()
        asked.under_way -= 1
        if reply.rejected is None:
            asked.numbers += reply.numbers or ((reply.first, len(piece.batch)),)
            self._most_unconfirmed = min(2 * self._most_unconfirmed, MAX_WAITING)
            asked.settle()
        elif self._rejected_at is None:
            self._rejected_at = reply.up_to - len(piece.batch)
            self._most_unconfirmed = 1
            self._drop(asked)
            asked.fail("queue-full", reply.rejected)
        else:
            self._again.append((asked, piece))
        self._begin_again(ask=True)

    def _begin_again(self, *, ask: bool) -> None:
        """Where all is answered behind something that was not taken: send again what was behind it."""
        if self._rejected_at is None or self._unconfirmed:
            return
        # What comes next has the number of the first that was not taken.
        self._sequence, self._rejected_at = self._rejected_at, None
        again, self._again = self._again, []
        for asked, piece in reversed(again):
            if asked.over:
                continue
            if not asked.rest:
                self._waiting.appendleft(asked)
            # Where a part of it waits already, it is the first that waits, and this comes before.
            asked.rest.appendleft(piece)
            self._waiting_bytes += piece.batch.nbytes
            if ask:
                self._ask_for_room(piece.batch)

    def _withdraw(self, asked: Asked) -> None:
        """Send no more of it; what was asked for it is there for others."""
        if asked.rest:
            self._drop(asked)
            asked.settle()
            self._offer()

    def _drop(self, asked: Asked) -> None:
        """It waits no more."""
        if not asked.rest:
            return
        for batch, *_ in asked.rest:
            self._waiting_bytes -= batch.nbytes
            self._spare_messages += len(batch)
            self._spare_bytes += batch.nbytes
        asked.rest.clear()
        self._waiting.remove(asked)

    async def _why(self) -> str:
        """Why there is no room, in the queue's words; nothing where it knows of no reason."""
        request = next(self._numbers)
        waiting = self._explained[request] = asyncio.get_running_loop().create_future()
        text = ""
        try:
            self._say(ExplainWait(request, self._actor))
            async with asyncio.timeout(EXPLAIN_SECONDS):
                text = await waiting
        except TimeoutError:
            pass
        finally:
            self._explained.pop(request, None)
        return text

    def _say(self, command: Any) -> None:
        """Tell the actor; one that takes nothing any more ends everything, and says so to whoever waits."""
        try:
            self._actor.deliver(command)
        except (InboxOverflowError, ActorDeadError) as error:
            asyncio.get_running_loop().call_soon(
                self.refused, "internal-error", f"what sends to queue {self.name} takes nothing: {error}", True
            )

    def _answers_due(self) -> None:
        """Whoever has waited for too long waits no more, and the timer is set for whoever is the next."""
        self._answers = None
        # What is sent again has been sent before.
        again = [*(each for each, _ in self._again), *(each for each in self._waiting if each.sent)]
        now, later = self._loop.time(), []
        for asked in [*(each for each, _, _ in self._unconfirmed), *again]:
            if asked.sent_at + ANSWER_SECONDS > now:
                later.append(asked.sent_at)
            elif not asked.over:
                self._drop(asked)
                asked.fail("timeout", f"queue {self.name} has not answered in {ANSWER_SECONDS:g} s")
        if later:
            self._answers = self._loop.call_at(min(later) + ANSWER_SECONDS, self._answers_due)

    def _stop(self) -> None:
        """End the actor, and wait for nothing."""
        self._over = True
        self._gone(self)
        if self._answers is not None:
            self._answers.cancel()
            self._answers = None
        self._actor.stop_nowait()

    def _busy(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _settle(self) -> None:
        """Where nothing is under way, end after a while; soon, where room is kept from others that nobody uses."""
        if self._over or self._unconfirmed or self._waiting or self._again:
            return
        holds = self._messages > 0 or self._bytes > 0 or self._spare_messages > 0 or self._spare_bytes > 0
        if self._idle is None or (holds and not self._ends_soon):
            self._busy()
            self._ends_soon = holds
            self._idle = self._loop.call_later(UNUSED_SECONDS if holds else IDLE_SECONDS, self._end)

    def _end(self) -> None:
        self._stop()
