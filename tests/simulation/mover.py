"""A program that moves messages from queue to queue, as one that brings dead letters back does, and looks at both meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.testkit import elapse
from tests.simulation.clients import Client
from tests.simulation.history import History, Moved, Noted, name_of
from transport import Administration, TransportError
from transport.errors import MoveStoppedError

if TYPE_CHECKING:
    from tests.simulation.plan import MoverPlan

MOST_LOOKED_AT = 5
"""Messages of one look."""


class Mover(Client):
    """Moves some, looks at what is next, waits, and begins again; a move that is cut off is not known to have moved anything."""

    def __init__(self, plan: MoverPlan, seed: int, history: History) -> None:
        super().__init__(plan.name, seed, history)
        self.plan = plan

    async def _live(self) -> None:
        while True:
            # Not `async with`: a program that is killed does not close what it has.
            administration = Administration(self.send_address)
            try:
                await administration.__aenter__()
                while True:
                    await elapse(self.random.expovariate(1 / self.plan.pause))
                    await self._move(administration)
                    await self._look(administration)
            except TransportError as error:
                self._note(type(error).__name__)
                await administration.close()
                await elapse(self.random.random())

    async def _move(self, administration: Administration) -> None:
        plan = self.plan
        wanted = self.random.randint(1, plan.largest_move)
        try:
            count = await administration.move(plan.source, plan.target, wanted)
        except MoveStoppedError as error:
            self._note(f"{error.code} after {error.moved}")
            count = error.moved
        assert count <= wanted, f"{count} were moved where {wanted} were asked for"
        self._history.add(Moved(self._loop.time(), plan.source, plan.target, count))

    async def _look(self, administration: Administration) -> None:
        queue = self.random.choice((self.plan.source, self.plan.target))
        seen = await administration.peek(queue, MOST_LOOKED_AT, newest=self.random.random() < 0.5)
        assert len(seen) <= MOST_LOOKED_AT
        names = ", ".join(name_of(each.payload) for each in seen)
        self._note(f"sees in {queue}: {names}")

    def _note(self, text: str) -> None:
        self._history.add(Noted(self._loop.time(), f"{self.name}: {text}"))
