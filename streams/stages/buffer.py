"""buffer: lets upstream run ahead of downstream, by a bounded number of elements."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Generic, TypeVar

from streams.contract import UNBOUNDED, Subscriber
from streams.errors import BufferOverflowError, null_element
from streams.stages.stage import ControlledStage

T = TypeVar("T")


class OverflowStrategy(Enum):
    """What a full buffer does when upstream has one more element."""

    BACKPRESSURE = "backpressure"
    """Nothing is lost: no more is requested than there is room for."""
    DROP_HEAD = "drop_head"
    """The oldest waiting element goes."""
    DROP_TAIL = "drop_tail"
    """The youngest waiting element goes."""
    DROP_NEW = "drop_new"
    """The element that comes goes."""
    DROP_BUFFER = "drop_buffer"
    """Everything that waits goes."""
    FAIL = "fail"
    """The stream fails with `BufferOverflowError`."""


class Buffer(ControlledStage[T, T], Generic[T]):
    """Holds up to ``size`` elements that downstream has not asked for yet."""

    __slots__ = ("_busy", "_completed", "_elements", "_freed", "_overflow", "_size", "_step")

    def __init__(self, downstream: Subscriber[T], size: int, overflow: OverflowStrategy) -> None:
        super().__init__(downstream, "buffer")
        self._size = size
        self._overflow = overflow
        self._elements: deque[T] = deque()
        self._step = max(1, size // 2)
        """Room is asked for in steps of half: a request for each element would cost as much as the element."""
        self._freed = 0
        self._completed = False
        self._busy = False

    def on_next(self, element: T) -> None:
        """Keeps ``element``, or passes it straight on."""
        if element is None:
            raise null_element(self._name)
        if self._done:
            return
        if len(self._elements) < self._size or self._make_room():
            self._elements.append(element)
            self._drain()

    def on_complete(self) -> None:
        """Ends once what waits is out."""
        self._completed = True
        self._drain()

    def _subscribed(self) -> None:
        super()._subscribed()
        if not self._done:
            self._upstream.request(self._size if self._overflow is OverflowStrategy.BACKPRESSURE else UNBOUNDED)

    def _demanded(self, n: int) -> None:  # noqa: ARG002 - the whole demand counts
        self._drain()

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
            super().on_complete()
        self._busy = False

    def _refill(self) -> None:
        freed, self._freed = self._freed, 0
        if self._overflow is OverflowStrategy.BACKPRESSURE and not self._completed and not self._done:
            self._upstream.request(freed)

    def _make_room(self) -> bool:
        """Deals with an element too many; True if there is room for it now."""
        match self._overflow:
            case OverflowStrategy.DROP_HEAD:
                self._elements.popleft()
            case OverflowStrategy.DROP_TAIL:
                self._elements.pop()
            case OverflowStrategy.DROP_BUFFER:
                self._elements.clear()
            case OverflowStrategy.DROP_NEW:
                return False
            case _:  # FAIL, and an upstream that sends more than was requested
                self._fail(BufferOverflowError(self._size))
                return False
        return True

    def _finish(self) -> None:
        super()._finish()
        self._elements.clear()
