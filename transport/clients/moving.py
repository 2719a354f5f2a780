"""A move of messages as its client makes it: one bounded command after the other, until there is no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from transport.errors import BrokerError, MoveStoppedError, RemoteProtocolError

IDLE_SECONDS = 30.0
"""After so long without a message moved it is given up: what is next expires, or is judged anew, and should not take longer."""

Ask = Callable[[dict[str, Any]], Awaitable[Any]]


async def move(
    ask: Ask, count: int | None, progress: Callable[[int], object] | None, stopped: Callable[[], bool]
) -> int:
    """See `Administration.move`; ``ask`` has the broker make a step, with these arguments besides."""
    moved = 0
    after: str | None = None
    clock = asyncio.get_running_loop().time
    last = clock()
    while not stopped():
        left = None if count is None else count - moved
        try:
            answer = await ask({"count": left, "after": after})
        except BrokerError as error:
            raise MoveStoppedError(error.code, error.text, moved) from error
        some, after = _read(answer)
        moved += some
        if progress is not None and some:
            progress(moved)
        if after is None or (count is not None and moved >= count):
            break
        now = clock()
        if some:
            last = now
        elif now - last > IDLE_SECONDS:
            text = f"nothing could be moved for {IDLE_SECONDS:g} s: what is next in the queue does not leave"
            raise MoveStoppedError("timeout", text, moved)
    return moved


def _read(answer: Any) -> tuple[int, str | None]:
    moved, after = (answer.get("moved"), answer.get("next")) if isinstance(answer, dict) else (None, None)
    if type(moved) is not int or moved < 0 or not (after is None or isinstance(after, str)):
        raise RemoteProtocolError(f"the broker's answer about a move is of another shape: {answer!r:.80}")
    return moved, after
