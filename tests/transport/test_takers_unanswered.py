"""A queue that stands still answers nobody: whoever takes hears so in time, and one timer looks for all of them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from streams.testkit import elapse, run_in_virtual_time
from transport.broker import takers
from transport.broker.served import RefusalError
from transport.broker.takers import ANSWER_SECONDS, LOOK_SECONDS, Taker

CALLERS = 50


def standing_still(monkeypatch: pytest.MonkeyPatch) -> Taker:
    """What takes of a queue that is asked, and never says anything."""
    actor = SimpleNamespace(deliver=lambda _: None, is_alive=lambda: False, stop_nowait=lambda: None)
    monkeypatch.setattr(takers.MessageTaker, "start", lambda *_: actor)

    async def at_once() -> None:
        """Nothing was acknowledged."""

    queue: Any = None
    return Taker(queue, "orders", b"", lambda _: None, at_once)


def timers() -> int:
    loop: Any = asyncio.get_running_loop()
    return sum(not timer.cancelled() for timer in loop._scheduled)


def test_each_is_told_when_their_own_time_and_the_queues_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        asked, loop = standing_still(monkeypatch), asyncio.get_running_loop()
        told: list[tuple[float, float]] = []

        async def take(wait: float) -> None:
            with pytest.raises(RefusalError, match="has not answered in 30 s") as refused:
                await asked.take(1, 1, wait)
            assert refused.value.code == "timeout"
            told.append((wait, loop.time()))

        began = loop.time()
        # The one that is due first comes last, and one is due just behind another.
        await asyncio.gather(*map(take, (20.0, 2.0, 1.0, 1.25, 0.0)))
        for wait, when in told:
            assert 0 <= when - began - wait - ANSWER_SECONDS <= LOOK_SECONDS
        assert {wait for wait, _ in told} == {0.0, 1.0, 1.25, 2.0, 20.0}

    run_in_virtual_time(main())


def test_thousands_that_wait_have_one_timer_and_none_when_all_have_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        asked, before = standing_still(monkeypatch), timers()
        waiting = [asyncio.ensure_future(asked.take(1, 1, wait % 7.0)) for wait in range(CALLERS)]
        await elapse(0.5)
        assert timers() == before + 1
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert timers() == before

    run_in_virtual_time(main())


def test_a_settlement_that_is_not_answered_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        asked, loop = standing_still(monkeypatch), asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(RefusalError, match="has not answered"):
            await asked.settle([(0, 1)], takers.Settlement.ACKNOWLEDGE)
        assert loop.time() - began == pytest.approx(ANSWER_SECONDS, abs=LOOK_SECONDS)

    run_in_virtual_time(main())
