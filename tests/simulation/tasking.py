"""Programs that send messages with priorities, and with times from which they can be received."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.simulation.clients import Producer, offered
from tests.simulation.history import History, Offered, name_of
from tests.simulation.said import message_of
from transport import Message, Timed

if TYPE_CHECKING:
    from tests.simulation.programs import ProducerPlan
    from transport.clients.sender_session import Confirmation


class TaskProducer(Producer):
    """Sends messages one by one, each with its own priority or time: its sender puts them into batches, in what order it likes.

    So it cannot tell of which of them it is told that they are stored; whoever listens to the broker can.
    """

    def __init__(self, plan: ProducerPlan, seed: int, history: History, levels: int) -> None:
        super().__init__(plan, seed, history)
        self._levels = levels
        history.told.add(plan.name)

    async def _offer(self, running: Any, count: int) -> None:
        for number in range(self._next, self._next + count):
            payload = self._payload(number)
            later = self.random.choice(self.plan.later) if self.plan.later else 0.0
            priority = self.random.choice(self.plan.priorities) if self.plan.priorities else None
            self._next = number + 1
            # One that waits gets its number later; of the others those of one level stay in their order.
            whose = f"{self.name} waits {number}" if later else f"{self.name} {min(priority or 0, self._levels)}"
            self._history.add(Offered(self._loop.time(), self.plan.queue, whose, number, (name_of(payload),)))
            await offered(running, self._timed(payload, later, priority))

    def _timed(self, payload: bytes, later: float, priority: int | None) -> Timed[Message]:
        if not later:
            return Timed(message_of(payload), priority=priority)
        if self.plan.timed:
            return Timed(message_of(payload), priority=priority, deliver_at=time.time() + later)
        return Timed(message_of(payload), priority=priority, delay=later)

    def _confirm(self, confirmation: Confirmation) -> None:
        """Of which messages this is is not known here."""
