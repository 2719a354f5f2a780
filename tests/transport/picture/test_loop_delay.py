"""The delay of the loop is measured while somebody asks, and by no timer when nobody has asked for a while."""

from __future__ import annotations

import asyncio

from streams.testkit import elapse, run_in_virtual_time
from transport.picture.loop_delay import LINGER_SECONDS, TICK_SECONDS, LoopDelay


def test_it_ticks_while_somebody_asks_and_for_a_while_behind_and_then_no_timer_is_left() -> None:
    async def main() -> None:
        loop, delay = asyncio.get_running_loop(), LoopDelay()
        assert not delay.running
        delay.asked(loop)
        await elapse(LINGER_SECONDS / 2)
        delay.asked(loop)
        await elapse(LINGER_SECONDS - 1)
        assert delay.running
        await elapse(1 + 2 * TICK_SECONDS)
        assert not delay.running
        ticks = sum(delay.delays.counts)
        assert abs(ticks - 1.5 * LINGER_SECONDS / TICK_SECONDS) <= 2
        assert delay.delays.sum < 0.001
        await elapse(LINGER_SECONDS)
        assert sum(delay.delays.counts) == ticks

    run_in_virtual_time(main())


def test_a_loop_that_stood_still_is_seen_by_so_much() -> None:
    async def main() -> None:
        loop, delay = asyncio.get_running_loop(), LoopDelay()
        now = loop.time()
        loop.time = lambda: now  # type: ignore[method-assign]  # on this one loop
        delay.asked(loop)
        now += TICK_SECONDS + 0.3
        delay._tick()
        assert delay.delays.sum > 0.299
        assert delay.delays.counts[delay.delays.bounds.index(0.5)] == 1
        delay.end()

    asyncio.run(main())


def test_behind_its_end_it_ticks_no_more() -> None:
    async def main() -> None:
        delay = LoopDelay()
        delay.asked(asyncio.get_running_loop())
        delay.end()
        delay.end()
        await elapse(1)
        assert not delay.running
        assert sum(delay.delays.counts) == 0

    run_in_virtual_time(main())
