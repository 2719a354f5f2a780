"""What a source does whose buffer is full, and that cannot hold back what fills it."""

from __future__ import annotations

from collections import deque
from typing import Any

from streams.errors import BufferOverflowError
from streams.stages.buffer import OverflowStrategy


def make_room(elements: deque[Any], size: int, overflow: OverflowStrategy) -> bool:
    """Deals with an element too many for ``elements``, which holds ``size``; True if there is room for it now.

    Raises:
        BufferOverflowError: the strategy is FAIL.
    """
    match overflow:
        case OverflowStrategy.DROP_HEAD:
            elements.popleft()
        case OverflowStrategy.DROP_TAIL:
            elements.pop()
        case OverflowStrategy.DROP_BUFFER:
            elements.clear()
        case OverflowStrategy.FAIL:
            raise BufferOverflowError(size)
        case _:  # DROP_NEW, and BACKPRESSURE, where the producer hears that there is no room
            return False
    return True
