"""Publishing to exchanges by request, for gateways whose clients have no connection that could be granted anything.

Each request has a sender of its own, for as long as it lasts: with room for just what it has, in just the queues that its keys lead to.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pykka import ActorDeadError

from actors import InboxOverflowError, OfferBatch
from actors.queue.vocabulary.commands import ExplainWait
from actors.queue.vocabulary.distributed import Unroutable
from actors.queue.vocabulary.needed import Needed
from actors.queue.vocabulary.replies import CapacityGranted, SentMessages, WaitExplained
from transport.broker.asked_to_publish import Asked, NoRoomInTimeError, NotAllStoredError, Piece, Wakes, check_frames
from transport.broker.served import SHUTTING_DOWN, RefusalError
from transport.errors import LimitExceededError, LocalProtocolError
from transport.wire.exchange_named import check_routing_key

if TYPE_CHECKING:
    from actors import LoopActorRef
    from actors.queue.connection_actor import Port
    from actors.queue.vocabulary.replies import Reply

    Ref = LoopActorRef[Any]

MAX_WAITING: Final = 10_000
"""Requests that may publish to exchanges at a time;"""
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
"""and bytes of what they publish, but one in any case."""
MAX_KEYS: Final = 1_000
"""Different routing keys of one request: where each leads is found in one turn of the loop."""
ANSWER_SECONDS: Final = 30.0
"""In which queues answer for what they were sent, unless their disk stands still."""
LENT_SECONDS: Final = 1.0
"""In which a queue has room back that idle senders hold."""
EXPLAIN_SECONDS: Final = 1.0
"""In which it says why there is no room."""
TURNS_FOR_ROOM: Final = 5
"""Turns of the loop in which queues that have room grant it; where one has not by then, it is asked why."""
ONLY_REQUEST: Final = 1
"""A sender asks one thing at a time."""

Start = Callable[["Port", Needed], "Ref"]
"""Starts the actor that publishes."""


class Outcome(NamedTuple):
    """What became of a request all of whose messages are dealt with, for good.

    Attributes:
        messages: how many there were.
        returned: the places in the request of those that no queue took, where the client wants to know.
        reason: why no queue took the first of these; None where there is none.
    """

    messages: int
    returned: tuple[int, ...] = ()
    reason: str | None = None


class ExchangeRequests:
    """The requests that publish to exchanges now."""

    def __init__(self) -> None:
        self._requests: dict[_Request, None] = {}
        self._bytes = 0
        self._wakes = Wakes()
        self._draining = False

    async def publish(
        self, start: Start, pieces: Sequence[Piece], routing_key: str, wait: float, *, by_headers: bool
    ) -> Outcome:
        """Publish them in order; returns once all are stored in every queue that they went to, as durably as the broker makes it.

        A piece may be published in parts, the first first. Whoever is cancelled meanwhile does not know what is stored.

        Args:
            start: starts what publishes.
            pieces: what to publish, one at least.
            routing_key: of the messages that have no key.
            wait: seconds to wait for room in all of the queues.
            by_headers: whether headers decide where a message goes.

        Raises:
            NoRoomInTimeError: there was no room in time, in the words of a queue.
            RefusalError: there is no such exchange, a queue refuses it, or the broker ends.
            LimitExceededError: too many publish already.
            LocalProtocolError: a routing key that is too long, or too many different ones.
            FrameTooLargeError: a message is larger than a frame, in which receivers get it.
        """
        for piece in pieces:
            check_frames(piece.batch)
        size = sum(piece.batch.nbytes for piece in pieces)
        keys = _keys_of(pieces, routing_key)
        if not by_headers and len(keys) > MAX_KEYS:
            raise LocalProtocolError(
                f"{len(keys)} different routing keys exceed the {MAX_KEYS} of one request: publish in several"
            )
        needed = Needed(sum(len(piece.batch) for piece in pieces), size, None if by_headers else keys)
        if self._draining:
            raise RefusalError(*SHUTTING_DOWN)
        if len(self._requests) >= MAX_WAITING:
            raise LimitExceededError(f"{MAX_WAITING} requests publish to exchanges: send fewer at a time")
        if self._requests and self._bytes + size > MAX_WAITING_BYTES:
            raise LimitExceededError(
                f"{MAX_WAITING_BYTES} bytes wait to be published to exchanges: send less at a time"
            )
        request = _Request(pieces, self._wakes)
        self._requests[request] = None
        self._bytes += size
        try:
            request.begin(start, needed)
            await request.carried_out(wait)
            if request.withdrawn and self._draining:
                raise NotAllStoredError(*SHUTTING_DOWN, request.asked.stored)
            if request.withdrawn:
                raise NoRoomInTimeError(request.why, request.asked.stored)
            return Outcome(needed.messages, tuple(request.returned), request.reason)
        except NotAllStoredError as error:
            error.returned = tuple(request.returned)
            raise
        finally:
            del self._requests[request]
            self._bytes -= size
            request.end()

    def drain(self) -> None:
        """The broker is about to end: who waits for room is answered. What was sent is still confirmed."""
        self._draining = True
        for request in list(self._requests):
            request.drain()

    def end(self) -> None:
        """The broker ends."""
        for request in list(self._requests):
            request.refused(*SHUTTING_DOWN, close=True)


class _Request:
    """One request: the port of what publishes it.

    Attributes:
        asked: what of it is still to be published.
        returned: see `Outcome`.
        reason: likewise.
        withdrawn: whether some of it was not published, for want of room.
        why: why there was none.
    """

    def __init__(self, pieces: Sequence[Piece], wakes: Wakes) -> None:
        self.asked = Asked(pieces, wakes)
        self.returned: list[int] = []
        self.reason: str | None = None
        self.withdrawn = False
        self.why = ""
        # Room that was granted and is not used.
        self._messages = self._bytes = 0
        self._sequence = 0
        # Messages of each part that is not confirmed.
        self._unconfirmed: deque[int] = deque()
        self._explained: asyncio.Future[str] | None = None
        self._actor: Ref | None = None
        self._loop = asyncio.get_running_loop()

    def begin(self, start: Start, needed: Needed) -> None:
        """Start what publishes it."""
        self._actor = start(self, needed)

    async def carried_out(self, wait: float) -> None:
        """Publish what there is room for in time, and wait until that is durable; raises what it fails on."""
        asked = self.asked
        if wait > 0:
            await asked.for_room(wait)
        asked.look_for_room(TURNS_FOR_ROOM)
        await self._until(lambda it: bool(it.rest) and (it.sent or it.without_room))
        if not (asked.sent or asked.over):
            # A queue answers this behind what it grants: it may have had room all the time.
            self.why = await self._ask_why()
            if not self.why:
                # Idle senders hold the room, and the queue is about to have it back from them.
                await asked.for_room(LENT_SECONDS)
        if asked.rest:
            self.withdrawn = True
            self.why = self.why or await self._ask_why() or "a queue has no room for this now"
            asked.rest.clear()
            asked.settle()
        await self._until(lambda _: False)
        if asked.error is not None:
            asked.raise_error()

    def drain(self) -> None:
        """Wait for room no longer."""
        self.why = SHUTTING_DOWN[1]
        self.asked.sent = True
        self.asked.wake()

    def end(self) -> None:
        """Nothing more is published; what is under way is stored all the same."""
        self.asked.rest.clear()
        self.asked.over = True
        # One that was left behind with its loop is collected whenever, be it while another loop runs: it must not touch that.
        if self._actor is not None and not self._loop.is_closed():
            self._actor.stop_nowait()

    # Told by the actor

    def tell(self, reply: Reply | Unroutable) -> None:
        """Room, a confirmation, what no queue took, or why there is no room."""
        if isinstance(reply, CapacityGranted):
            self._messages += reply.messages
            self._bytes += reply.bytes
            self._offer()
        elif isinstance(reply, SentMessages):
            self._sent(reply)
        elif isinstance(reply, Unroutable):
            self.reason = self.reason or reply.reason
            for first, count in reply.ranges:
                self.returned += range(first, first + count)
        elif isinstance(reply, WaitExplained) and self._explained is not None and not self._explained.done():
            self._explained.set_result(reply.text)

    def caught_up(self) -> None:
        """Nobody has asked."""

    def refused(self, code: str, text: str, close: bool) -> None:  # noqa: ARG002 - it is always the end
        """There is no such exchange, what was published cannot be, or the broker ends."""
        self.asked.fail(code, text)

    # Inside

    async def _until(self, holds: Callable[[Asked], bool]) -> None:
        """Wait until something is so or the request is over, which it is where nobody answers."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self.asked.until(holds)
        except TimeoutError:
            self.asked.fail("timeout", f"the queues have not answered in {ANSWER_SECONDS:g} s")

    def _offer(self) -> None:
        """Publish what there is room for, in the order in which it came."""
        asked = self.asked
        while asked.rest:
            batch, delay, ttl, priority = asked.rest[0]
            fitting = min(self._messages, batch.count_within(max(0, self._bytes)), len(batch))
            if fitting <= 0:
                return
            part = batch
            if fitting == len(batch):
                asked.rest.popleft()
            else:
                part = batch.slice(0, fitting)
                asked.rest[0] = Piece(batch.slice(fitting, len(batch)), delay, ttl, priority)
            if not asked.rest:
                asked.all_sent()
            self._messages -= fitting
            self._bytes -= part.nbytes
            asked.under_way += 1
            sequence, self._sequence = self._sequence, self._sequence + fitting
            self._unconfirmed.append(fitting)
            self._say(OfferBatch(sequence, part, delay, ttl, self._actor, priority))

    def _sent(self, reply: SentMessages) -> None:
        """The part that was published first is dealt with."""
        asked, messages = self.asked, self._unconfirmed.popleft()
        asked.under_way -= 1
        if reply.rejected is not None:
            asked.fail("queue-full", reply.rejected)
            return
        asked.numbers.append((0, messages))
        asked.settle()

    async def _ask_why(self) -> str:
        """Why there is no room, in a queue's words; nothing where it knows of no reason, or it is over."""
        if self.asked.over:
            return ""
        self._explained = self._loop.create_future()
        self._say(ExplainWait(ONLY_REQUEST, self._actor))
        try:
            async with asyncio.timeout(EXPLAIN_SECONDS):
                return await self._explained
        except TimeoutError:
            return ""
        finally:
            self._explained = None

    def _say(self, command: Any) -> None:
        """Tell the actor; one that takes nothing any more ends the request."""
        assert self._actor is not None, "it has granted room"
        try:
            self._actor.deliver(command)
        except (InboxOverflowError, ActorDeadError) as error:
            self.asked.fail("internal-error", f"what publishes takes nothing: {error}")


def _keys_of(pieces: Sequence[Piece], routing_key: str) -> tuple[str, ...]:
    """The routing keys of all messages, each once; raises LocalProtocolError where one is too long."""
    own: dict[bytes, None] = {}
    for batch, *_ in pieces:
        own.update(dict.fromkeys([b""] if batch.keys is None else batch.keys.tolist()))
    keys = dict.fromkeys(key.decode("utf-8", "replace") if key else routing_key for key in own)
    for key in keys:
        check_routing_key(key)
    return tuple(keys)
