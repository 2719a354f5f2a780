"""buffer and delay: upstream may run ahead of downstream, by a bounded number of elements."""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Generic, TypeVar

from streams.contract import UNBOUNDED, Subscriber
from streams.errors import BufferOverflowError, null_element
from streams.materialize import Materialization
from streams.overflow import OverflowStrategy, make_room
from streams.stages.stage import DrainingStage, one_at_a_time
from streams.stages.timed import TIMER_SLACK, TimedDrainingStage

T = TypeVar("T")

DELAY_SIZE: Final = 16
"""Elements that delay() holds unless it is told otherwise, as many as Akka's."""


class _Room:
    """How much of upstream may be asked for, and what to do with an element too many.

    Args:
        size: elements that may wait.
        overflow: what to do with more.
    """

    __slots__ = ("freed", "overflow", "size", "step")

    def __init__(self, size: int, overflow: OverflowStrategy) -> None:
        self.size = size
        self.overflow = overflow
        self.step = max(1, size // 2) if overflow is OverflowStrategy.BACKPRESSURE else UNBOUNDED
        """Room is asked for in steps of half: a request for each element would cost as much as the element."""
        self.freed = 0

    def first_request(self) -> int:
        """What to ask for at the beginning; where elements may be lost, that is all there is."""
        return self.size if self.overflow is OverflowStrategy.BACKPRESSURE else UNBOUNDED

    def make(self, elements: deque[Any]) -> bool:
        """Deals with an element too many; True if there is room for it in ``elements`` now.

        Raises:
            BufferOverflowError: for FAIL, and for an upstream that sends more than was requested.
        """
        if self.overflow is OverflowStrategy.BACKPRESSURE:
            raise BufferOverflowError(self.size)
        return make_room(elements, self.size, self.overflow)


class Buffer(DrainingStage[T, T], Generic[T]):
    """Holds up to ``size`` elements that downstream has not asked for yet."""

    __slots__ = ("_elements", "_freed", "_room", "_size", "_step")

    def __init__(self, downstream: Subscriber[T], size: int, overflow: OverflowStrategy) -> None:
        super().__init__(downstream, "buffer")
        self._room = _Room(size, overflow)
        self._size = size
        self._step = self._room.step
        self._elements: deque[T] = deque()
        self._freed = 0

    def on_next(self, element: T) -> None:
        """Passes ``element`` straight on if it is wanted and nothing waits, or keeps it."""
        if element is None:
            raise null_element(self._name)
        elements = self._elements
        if self._demand and not elements and not self._busy:
            self._demand -= 1
            self._push(element)
            self._freed += 1
            if self._freed >= self._step:
                self._refill()
        elif not self._done and (len(elements) < self._size or self._make_room()):
            elements.append(element)

    def _subscribed(self) -> None:
        super()._subscribed()
        if not self._done:
            self._upstream.request(self._room.first_request())

    def _drain(self) -> None:
        """Emits what waits, under demand; a call from within only leaves its mark."""
        if self._busy:
            return
        self._busy = True
        elements = self._elements
        while self._demand and elements:
            self._demand -= 1
            self._push(elements.popleft())
            self._freed += 1
            if self._freed >= self._step:
                self._refill()
        if self._completed and not elements:
            self._drained()
        self._busy = False

    def _refill(self) -> None:
        freed, self._freed = self._freed, 0
        if not self._completed and not self._done:
            self._upstream.request(freed)

    def _make_room(self) -> bool:
        try:
            return self._room.make(self._elements)
        except BufferOverflowError as error:
            self._fail(error)
            return False

    def _finish(self) -> None:
        super()._finish()
        self._elements.clear()


class Delay(TimedDrainingStage[T, T], Generic[T]):
    """Every element ``seconds`` after it came, in the same order; up to ``size`` of them wait, for their time or for demand.

    Where upstream is held back, its elements come no faster than ``size`` in ``seconds``.
    """

    __slots__ = ("_room", "_seconds", "_waiting")

    def __init__(
        self, downstream: Subscriber[T], m: Materialization, seconds: float, size: int, overflow: OverflowStrategy
    ) -> None:
        super().__init__(downstream, m, "delay")
        self._seconds = seconds
        self._room = _Room(size, overflow)
        self._waiting: deque[tuple[float, T]] = deque()
        """Each with the time that it is due at."""

    def on_next(self, element: T) -> None:
        """Keeps ``element`` until its time has come."""
        if element is None:
            raise null_element(self._name)
        if self._done:
            return
        waiting = self._waiting
        if len(waiting) >= self._room.size:
            try:
                if not self._room.make(waiting):
                    return
            except BufferOverflowError as error:
                self._fail(error)
                return
        due = self._loop.time() + self._seconds
        waiting.append((due, element))
        if self._timer is None and self._demand and len(waiting) == 1:
            self._arm(due)

    def _subscribed(self) -> None:
        super()._subscribed()
        if not self._done:
            self._upstream.request(self._room.first_request())

    @one_at_a_time
    def _drain(self) -> None:
        """Emits what is due and wanted, and sets the timer for what is next."""
        waiting = self._waiting
        now = self._loop.time() + TIMER_SLACK
        while self._demand and waiting and waiting[0][0] <= now:
            self._demand -= 1
            self._push(waiting.popleft()[1])
            self._refill()
        if self._completed and not waiting:
            self._drained()
        elif self._demand and waiting and self._timer is None:
            self._arm(waiting[0][0])

    def _refill(self) -> None:
        room = self._room
        room.freed += 1
        if room.freed >= room.step and not self._completed and not self._done:
            freed, room.freed = room.freed, 0
            self._upstream.request(freed)

    def _finish(self) -> None:
        super()._finish()
        self._waiting.clear()
