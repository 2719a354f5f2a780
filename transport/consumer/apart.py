"""Messages of one group go to a handler one after the other, however many a consumer handles at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING

from streams.errors import null_element
from streams.stages.stage import DrainingStage
from transport.clients.behind import group_of
from transport.clients.delivery import Delivery

if TYPE_CHECKING:
    from collections.abc import Callable

    from streams import Subscriber
    from streams.materialize import Materialization
    from transport.clients.at_work import AtWork


class Apart(DrainingStage[Delivery, Delivery]):
    """Holds back a message as long as one of its group is handled, in order; others pass it.

    What is held back was delivered, so there is no more of it than the receiver may have in flight. At the end nothing was done with it.

    Args:
        downstream: where what may be handled goes.
        m: the run.
        work: what is held back is not to go to somebody else meanwhile.
    """

    __slots__ = ("_awaited", "_context", "_free", "_held", "_m", "_work")

    def __init__(self, downstream: Subscriber[Delivery], m: Materialization, work: AtWork) -> None:
        super().__init__(downstream, "apart")
        self._m = m
        self._work = work
        self._awaited = 0
        """Messages that were asked for and have not come."""
        self._held: dict[str | bytes, deque[Delivery]] = {}
        """By group, where one of it is handled: those behind it."""
        self._free: deque[Delivery] = deque()
        """Those whose turn it is, as soon as they are asked for."""
        self._context = copy_context()

    def on_next(self, element: Delivery) -> None:
        """Passes it on, or holds it back."""
        if element is None:
            raise null_element(self._name)
        if self._done:
            return
        self._awaited -= 1
        group = group_of(element)
        held = None if group is None else self._held.get(group)
        if held is not None:
            held.append(self._work.begin(element))
        else:
            if group is not None:
                self._held[group] = deque()
            self._free.append(element)
        self._drain()

    def on_complete(self) -> None:
        """No more comes: what nobody has begun with goes back."""
        self._let_go()
        super().on_complete()

    def handled(self, deliveries: Iterable[Delivery]) -> None:
        """The handler is done with these, and those that have failed are answered; from any thread."""
        groups = [group for each in deliveries if (group := group_of(each)) is not None]
        if groups:
            with suppress(RuntimeError):  # the loop is closed: nobody waits for anything
                self._m.loop.call_soon_threadsafe(self._m.call, self._make_way, groups, context=self._context)

    def _make_way(self, groups: list[str | bytes]) -> None:
        if self._done:
            return
        for group in groups:
            self._next_of(group)
        self._drain()

    def _next_of(self, group: str | bytes) -> None:
        """Nobody has a message of a group: it is the turn of the next that is still here."""
        held = self._held.get(group)
        while held and (held[0].is_answered or held[0].is_void):
            # It went back, behind one that has failed, or with its connection.
            self._work.end((held.popleft(),))
        if held:
            self._free.append(held.popleft())
        elif held is not None:
            del self._held[group]

    def _drain(self) -> None:
        if self._busy:
            return
        self._busy = True
        free = self._free
        while not self._done:
            if free and self._demand:
                self._pass_on(free.popleft())
            elif self._completed:
                self._drained()
            elif self._awaited < self._demand:
                more = self._demand - self._awaited
                self._awaited = self._demand
                self._upstream.request(more)
            else:
                break
        self._busy = False

    def _pass_on(self, element: Delivery) -> None:
        if element.is_void:
            self._work.end((element,))
            if (group := group_of(element)) is not None:
                self._next_of(group)
            return
        self._demand -= 1
        self._push(element)

    def _finish(self) -> None:
        super()._finish()
        self._let_go()

    def _let_go(self) -> None:
        kept = [*self._free, *(each for held in self._held.values() for each in held)]
        self._free.clear()
        self._held.clear()
        self._work.end(kept)
        for each in kept:
            each.__passed_by__()


def apart(work: AtWork, opened: Callable[[Apart], None]) -> Callable[[Subscriber[Delivery], Materialization], Apart]:
    """What makes the stage, and says which it is."""

    def make(downstream: Subscriber[Delivery], m: Materialization) -> Apart:
        stage = Apart(downstream, m, work)
        opened(stage)
        return stage

    return make
