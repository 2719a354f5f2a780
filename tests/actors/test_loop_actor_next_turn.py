"""A handler that has done enough for a turn: its message is handled again in the next one, and nothing passes it."""

from __future__ import annotations

import asyncio
from typing import Any

import pykka
import pytest

from actors.errors import NextTurnError
from actors.runtime.loop_actor import LoopActor
from tests.actors.queue_probes import virtual

A_TURN = 2


class Slow(LoopActor):
    """Handles two numbers in a turn; those behind have theirs in the next ones."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = self.done = 0
        self.handled: list[tuple[int, int]] = []
        self.tries = 0

    def on_receive(self, message: Any) -> Any:
        self.tries += 1
        turn = COUNTED.turn
        if turn != self.turn:
            self.turn, self.done = turn, 0
        if self.done == A_TURN:
            raise NextTurnError
        self.done += 1
        self.handled.append((turn, message))
        return (list(self.handled), self.tries) if message < 0 else message


class Counted:
    """Counts the loop's turns while it runs."""

    turn = 0

    async def run(self) -> None:
        while True:
            self.turn += 1
            await asyncio.sleep(0)


COUNTED = Counted()


@virtual
async def test_what_is_told_goes_on_in_order_some_of_it_in_each_turn_and_is_tried_once_more_at_most() -> None:
    counting = asyncio.ensure_future(COUNTED.run())
    slow = Slow.start()
    for number in range(7):
        slow.tell(number)
    handled, tries = await slow.ask(-1, block=False)
    counting.cancel()
    assert [number for _, number in handled] == [*range(7), -1]
    by_turn = [[number for turn, number in handled if turn == each] for each in sorted({turn for turn, _ in handled})]
    assert [len(numbers) for numbers in by_turn] == [2, 2, 2, 2]
    assert tries == len(handled) + len(by_turn) - 1


@virtual
async def test_an_ask_is_answered_when_it_is_handled_and_what_an_idle_actor_is_delivered_waits_too() -> None:
    counting = asyncio.ensure_future(COUNTED.run())
    slow = Slow.start()
    await asyncio.sleep(0)
    for number in range(5):
        slow.deliver(number)
    asked = [slow.ask(number, block=False) for number in (5, 6)]
    assert [await each for each in asked] == [5, 6]
    handled, _ = await slow.ask(-1, block=False)
    counting.cancel()
    assert [number for _, number in handled] == [*range(7), -1]
    turns = [turn for turn, _ in handled]
    assert max(map(turns.count, turns)) == A_TURN


@virtual
async def test_one_that_is_stopped_behind_a_message_that_waits_handles_it_before() -> None:
    counting = asyncio.ensure_future(COUNTED.run())
    slow = Slow.start()
    asked = [slow.ask(number, block=False) for number in range(5)]
    slow.stop_nowait()
    late = slow.actor_inbox
    assert [await each for each in asked] == list(range(5))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    counting.cancel()
    assert late.closed
    with pytest.raises(pykka.ActorDeadError):
        slow.tell(9)
