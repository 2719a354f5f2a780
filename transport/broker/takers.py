"""Messages by request, for gateways whose clients have no connection that could hold them.

A gateway asks for so many within a time, and says later, on whatever connection, what became of them. One actor for each queue and gateway
holds what was taken (`actors.queue.message_taker`). It is begun by the first request, and ends by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pykka import ActorDeadError

from actors import InboxOverflowError
from actors.queue.message_taker import MessageTaker
from actors.queue.vocabulary.commands import Left
from actors.queue.vocabulary.replies import MessagesTaken, TakenSettled
from actors.queue.vocabulary.takes import CancelTake, GiveBackUnseen, Settlement, SettleTaken, TakeMessages, TakenSeen
from transport.broker.oversized import CODE, is_oversized, oversized_text
from transport.broker.served import SHUTTING_DOWN, RefusalError
from transport.errors import LimitExceededError

if TYPE_CHECKING:
    from actors import LoopActorRef
    from actors.queue.vocabulary.replies import Lost, ReceivedMessages, Reply

    Ref = LoopActorRef[Any]

ANSWER_SECONDS = 30.0
"""In which a queue answers a request beyond the time for which that may wait: it does so at once, unless its disk stands still."""
LOOK_SECONDS = 1.0
"""Between two looks at which requests it has not answered in time: one timer for all, as thousands may wait."""


_NOBODY: Final[tuple[None, float]] = None, 0.0


class Takers:
    """All that take messages for gateways, by gateway and queue.

    Args:
        acknowledged: returns when what was acknowledged so far is durable.
    """

    def __init__(self, acknowledged: Callable[[], Awaitable[None]]) -> None:
        self._acknowledged = acknowledged
        self._takers: dict[tuple[str, Ref], Taker] = {}
        self._draining = False

    def of(self, gateway: str, queue: Ref, name: str, id_prefix: bytes) -> Taker:
        """The one of a gateway and a queue, begun if need be; to be asked at once, for one that nobody asks ends."""
        taker = self._takers.get((gateway, queue))
        if taker is None:
            taker = self._takers[gateway, queue] = Taker(
                queue, name, id_prefix, partial(self._gone, gateway, queue), self._acknowledged
            )
            if self._draining:
                taker.drain()
        return taker

    def _gone(self, gateway: str, queue: Ref, taker: Taker) -> None:
        """One has ended; another may have its place by now."""
        if self._takers.get((gateway, queue)) is taker:
            del self._takers[gateway, queue]

    def drain(self) -> None:
        """The broker is about to end: give nothing more, and answer whoever waits for a message. What was taken is still settled."""
        self._draining = True
        for taker in list(self._takers.values()):
            taker.drain()

    def end(self) -> None:
        """The broker ends. What is held goes back, and has not failed."""
        for taker in list(self._takers.values()):
            taker.end()


class Taker:
    """Takes messages of one queue for the requests of one gateway: the actor's port.

    Args:
        queue: the queue's actor.
        name: the queue's name.
        id_prefix: the first bytes of the ids generated for its messages: no other queue has them, nor one that is made anew.
        gone: told, with this one, when nobody may ask it any more.
        acknowledged: as of `Takers`.
    """

    def __init__(
        self,
        queue: Ref,
        name: str,
        id_prefix: bytes,
        gone: Callable[[Taker], None],
        acknowledged: Callable[[], Awaitable[None]],
    ) -> None:
        self._acknowledged = acknowledged
        self.name = name
        self.id_prefix = id_prefix
        self._gone = gone
        self._numbers = count(1)
        self._loop = asyncio.get_running_loop()
        self._asked: dict[int, tuple[asyncio.Future[MessagesTaken | TakenSettled], float]] = {}
        # When somebody looks next whether an answer is overdue.
        self._looks_at = 0.0
        self._looking: asyncio.TimerHandle | None = None
        # Of those the takes, which are answered when the broker is about to end.
        self._takes: set[int] = set()
        self._draining = False
        # The last of them that the queue hears of.
        self._last_take = 0
        # Takes of which nobody has said yet whether they were seen; and whether the queue has said that nothing is held.
        self._unsaid = 0
        self._idle = False
        self._actor = MessageTaker.start(queue, self)

    async def take(
        self, messages: int, size: int, wait: float = 0.0, visibility: float | None = None
    ) -> tuple[ReceivedMessages, ...]:
        """Up to ``messages`` of up to ``size`` bytes together, as of ``TakeMessages``; say `seen` or `unseen` of them.

        Whoever is cancelled meanwhile has taken nothing.

        Raises:
            RefusalError: the queue refuses it, with the wire's code; it is gone, or the broker ends.
            LimitExceededError: it has too much to do.
        """
        if self._draining:
            raise RefusalError(*SHUTTING_DOWN)
        request = next(self._numbers)
        waiting = self._ask(request, TakeMessages(request, messages, size, wait, visibility), wait)
        self._last_take = request
        self._takes.add(request)
        answer: MessagesTaken | TakenSettled | None = None
        # Nothing else is kept of a request while it waits, and nobody between it and whoever asked.
        try:
            answer = await waiting
        except BaseException:
            # The queue may have answered, and the answer be on its way: it finds nobody, and is given back.
            self._tell(CancelTake(request))
            raise
        finally:
            self._takes.discard(request)
            self._asked_no_more(request, waiting, answer)
        assert isinstance(answer, MessagesTaken)
        for each in answer.ranges:
            if is_oversized(each.batch):
                self.unseen(answer.ranges)
                raise RefusalError(CODE, oversized_text(self.name, each.first, each.batch))
        return answer.ranges

    async def settle(
        self,
        taken: Iterable[tuple[int, int]],
        how: Settlement,
        *,
        seconds: float = 0.0,
        failed: bool = True,
        reason: str | None = None,
    ) -> dict[tuple[int, int], Lost]:
        """Settle messages, as of ``SettleTaken``: those that could not be, as they were named, each with why.

        What is acknowledged is as durable by then as the broker makes it. Errors are as of `take`, and a StorageError.
        """
        request = next(self._numbers)
        command = SettleTaken(request, tuple(taken), how, seconds, failed, reason)
        waiting = self._ask(request, command, 0.0)
        answer: MessagesTaken | TakenSettled | None = None
        try:
            answer = await waiting
        finally:
            self._asked_no_more(request, waiting, answer)
        assert isinstance(answer, TakenSettled)
        if how is Settlement.ACKNOWLEDGE and len(answer.lost) < len(command.taken):
            # Receivers hear nothing of their acknowledgements. Whoever is answered that it is done may forget the message.
            await self._acknowledged()
        return dict(answer.lost)

    def seen(self, taken: tuple[ReceivedMessages, ...]) -> None:
        """What a `take` gave has reached who asked for it."""
        if taken:
            again = sum(len(each.batch) for each in taken if each.delivery_count > 1)
            self._tell(TakenSeen(sum(len(each.batch) for each in taken), again))
        self._said()

    def unseen(self, taken: tuple[ReceivedMessages, ...]) -> None:
        """What a `take` gave has reached nobody: it is as if it had not been taken."""
        self._give_back(taken)
        self._said()

    def drain(self) -> None:
        """Give nothing more, and answer whoever waits."""
        self._draining = True
        for request in list(self._takes):
            self.request_refused(request, *SHUTTING_DOWN)

    def end(self) -> None:
        """End, with whatever is held: it has not failed."""
        self._tell(Left(failed=False))
        self.refused(*SHUTTING_DOWN, close=True)

    # Told by the actor

    def tell(self, reply: Reply) -> None:
        """An answer; what nobody waits for any more has reached nobody."""
        assert isinstance(reply, MessagesTaken | TakenSettled)
        # What the queue says comes in order: that nothing is held, it says again behind this.
        self._idle = False
        waiting, _ = self._asked.pop(reply.request, _NOBODY)
        if waiting is not None and not waiting.done():
            self._unsaid += isinstance(reply, MessagesTaken)
            waiting.set_result(reply)
        else:
            self._nobody_got(reply)

    def request_refused(self, request: int, code: str, text: str) -> None:
        """As `TakerPort.request_refused`."""
        waiting, _ = self._asked.pop(request, _NOBODY)
        if waiting is not None and not waiting.done():
            waiting.set_exception(RefusalError(code, text))

    def may_end(self, heard: int) -> bool:
        """As `TakerPort.may_end`."""
        if heard < self._last_take:
            # That one may be given something, be it that nobody waits for it any more. Behind that the queue says the same again.
            return False
        self._idle = True
        if self._asked or self._unsaid:
            return False
        self._gone(self)
        return True

    def refused(self, code: str, text: str, close: bool) -> None:  # noqa: ARG002 - it is always the end
        """The queue is gone, or the broker ends: so does this."""
        self._gone(self)
        asked, self._asked = self._asked, {}
        self._look_no_more()
        for waiting, _ in asked.values():
            if not waiting.done():
                waiting.set_exception(RefusalError(code, text))
        self._actor.stop_nowait()

    def caught_up(self) -> None:
        """Nobody has asked."""

    # Inside

    def _ask(
        self, request: int, command: TakeMessages | SettleTaken, wait: float
    ) -> asyncio.Future[MessagesTaken | TakenSettled]:
        """Ask the queue; its answer, which is there at the latest ``ANSWER_SECONDS`` and a look beyond ``wait``: an error, then."""
        deadline = self._loop.time() + wait + ANSWER_SECONDS
        waiting = self._loop.create_future()
        self._asked[request] = waiting, deadline
        self._idle = False
        try:
            self._actor.deliver(command)
            self._look_at(deadline)
        except InboxOverflowError as error:
            self._asked_no_more(request, waiting, None)
            raise LimitExceededError(f"queue {self.name} has more requests than may wait: {error}") from error
        except ActorDeadError as error:
            self._asked_no_more(request, waiting, None)
            raise RefusalError("internal-error", f"what takes messages of queue {self.name} has stopped") from error
        return waiting

    def _asked_no_more(
        self,
        request: int,
        waiting: asyncio.Future[MessagesTaken | TakenSettled],
        answer: MessagesTaken | TakenSettled | None,
    ) -> None:
        """Whoever asked has got this answer, or none."""
        self._asked.pop(request, None)
        if not self._asked:
            self._look_no_more()
        if answer is None and waiting.done() and not waiting.cancelled() and waiting.exception() is None:
            # It came in the turn in which whoever waited was cancelled.
            came = waiting.result()
            self._nobody_got(came)
            if isinstance(came, MessagesTaken):
                self._said()

    def _look_at(self, when: float) -> None:
        """Look at a time whether an answer is overdue, or before."""
        if self._looking is not None:
            if self._looks_at <= when:
                return
            self._looking.cancel()
        self._looks_at = when
        self._looking = self._loop.call_at(when, self._look)

    def _look(self) -> None:
        """Tell those whose answer is overdue."""
        self._looking = None
        now = self._loop.time()
        text = f"queue {self.name} has not answered in {ANSWER_SECONDS:g} s"
        for request in [request for request, (_, deadline) in self._asked.items() if deadline <= now]:
            self.request_refused(request, "timeout", text)
        if self._asked:
            self._look_at(max(now + LOOK_SECONDS, min(deadline for _, deadline in self._asked.values())))

    def _look_no_more(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _nobody_got(self, answer: MessagesTaken | TakenSettled) -> None:
        if isinstance(answer, MessagesTaken):
            self._give_back(answer.ranges)

    def _give_back(self, taken: tuple[ReceivedMessages, ...]) -> None:
        if taken:
            named = [
                (number, each.delivery_count)
                for each in taken
                for number in range(each.first, each.first + len(each.batch))
            ]
            self._tell(GiveBackUnseen(tuple(named)))

    def _said(self) -> None:
        """One `take` more is over. Where the queue has said meanwhile that nothing is held, so is this."""
        self._unsaid -= 1
        if self._idle and not self._asked and not self._unsaid:
            self._gone(self)
            self._actor.stop_nowait()

    def _tell(self, command: Any) -> None:
        """Tell the queue; a taker that has ended has given back what it held."""
        if self._actor.is_alive():
            self._actor.actor_inbox.offer_beyond_bound(command)
