"""What a full buffer does when there is one more element."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Any

from streams.errors import BufferOverflowError


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
