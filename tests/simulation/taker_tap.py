"""Listens between a queue and what takes by request for a gateway: what the queue was asked and what it answered, in its order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actors.queue.vocabulary.replies import MessagesTaken, Reply, TakenSettled
from actors.queue.vocabulary.takes import SettleTaken, TakeMessages
from tests.simulation.history import (
    Event,
    History,
    Released,
    Settled,
    Settling,
    TakeAnswered,
    Taken,
    Unseen,
    name_of,
)
from transport.broker.takers import Taker

if TYPE_CHECKING:
    from tests.simulation.loop import Process


class TakerTap:
    """All takers of one life of the broker.

    Args:
        history: where to note it.
        process: the broker's life. What is collected when it is over says nothing.
        name: a taker's queue, as the checker knows it.
    """

    def __init__(self, history: History, process: Process, name: Callable[[Taker], str]) -> None:
        self._history = history
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._name = name
        self._known: dict[Taker, tuple[int, str]] = {}

    def number_of(self, taker: Taker) -> int:
        """Its number among connections, which is none of theirs."""
        return self._known[taker][0]

    def name_of(self, taker: Taker) -> str:
        """Its queue."""
        return self._known[taker][1]

    def on(self, taker: Taker) -> Taker:
        """The same one, listened to."""
        if taker not in self._known:
            self._known[taker] = -1 - len(self._history.takers), self._name(taker)
            self._history.takers.append(taker.name)
            self._listen(taker)
        return taker

    def quiet_when_dead(self, whose: Any, name: str) -> None:
        """Have a function do nothing when it is called as what was killed is collected: there is no loop any more."""
        does, process = getattr(type(whose), name), self._process
        setattr(whose, name, lambda: does(whose) if process.alive else None)

    def _add(self, event: Event) -> None:
        if self._process.alive:
            self._history.add(event)

    def _now(self) -> float:
        return self._loop.time()

    def _listen(self, taker: Taker) -> None:
        number, queue = self._known[taker]
        asked: dict[int, tuple[float, TakeMessages]] = {}
        tell, ask, give_back, gone = taker.tell, taker._ask, taker._give_back, taker._gone

        def told(reply: Reply) -> None:
            now = self._now()
            if isinstance(reply, MessagesTaken):
                at, request = asked.pop(reply.request)
                for each in reply.ranges:
                    names = tuple(map(name_of, each.batch.payloads.tolist()))
                    facts = names, each.delivery_count, each.possibly_replayed, request.visibility, each.failures
                    facts = *facts, reply.request
                    self._add(Taken(now, number, queue, each.first, *facts))
                size = sum(each.batch.nbytes for each in reply.ranges)
                messages = sum(len(each.batch) for each in reply.ranges)
                limits = request.messages, request.bytes, at, request.wait
                self._add(TakeAnswered(now, number, queue, messages, size, *limits))
            elif isinstance(reply, TakenSettled):
                self._add(Settled(now, number, queue, reply.request, tuple(taken for taken, _ in reply.lost)))
            tell(reply)

        def asking(request: int, command: Any, wait: float) -> Any:
            if isinstance(command, TakeMessages):
                asked[request] = self._now(), command
            elif isinstance(command, SettleTaken):
                self._add(
                    Settling(self._now(), number, queue, request, command.how.value, command.taken, command.seconds)
                )
            return ask(request, command, wait)

        def giving_back(taken: Any) -> None:
            numbers = [
                (n, each.delivery_count) for each in taken for n in range(each.first, each.first + len(each.batch))
            ]
            if numbers:
                self._add(Unseen(self._now(), number, queue, tuple(numbers)))
            give_back(taken)

        def ended(of: Taker) -> None:
            self._add(Released(self._now(), number, "the taker ends"))
            gone(of)

        for name, listening in {"tell": told, "_ask": asking, "_give_back": giving_back, "_gone": ended}.items():
            setattr(taker, name, listening)
