"""A publish by request that was left behind with its loop does nothing any more, whichever loop runs when it is collected."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.stored_queues import StoredQueues, turns
from tests.transport.broker_helpers import batch
from transport.broker.publishers import Piece, Publisher


@pytest.mark.parametrize("wait", [0.0, 60.0])
def test_it_touches_no_other_loop(wait: float) -> None:
    async def begin() -> Coroutine[Any, Any, Any]:
        bench = StoredQueues(None, QueueSettings(max_messages=1))
        publisher = Publisher(bench.queues.get_or_create("q"), "q", lambda _: None)
        await publisher.publish(Piece(batch(b"fills it")))
        left = publisher.publish(Piece(batch(b"waits")), wait=wait)
        left.send(None)
        await turns()
        return left

    async def collect(left: Coroutine[Any, Any, Any]) -> list[Any]:
        loop = asyncio.get_running_loop()
        scheduled: list[Any] = []
        with pytest.MonkeyPatch.context() as patched:
            for name in ("call_soon", "call_later", "call_at"):
                patched.setattr(loop, name, lambda *of: scheduled.append(of))
            left.close()
        return scheduled

    first = asyncio.new_event_loop()
    try:
        left = first.run_until_complete(begin())
    finally:
        first.close()
    assert asyncio.run(collect(left)) == []
