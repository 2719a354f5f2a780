"""What is left of processes when a run is over: it is let go of there, and not wherever whoever holds it is."""

from __future__ import annotations

import asyncio
import gc
import sys
from typing import Any

import pytest

from tests.simulation.loop import SimulatedLoop


def test_what_outlives_its_loop_says_no_goodbye_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda about: told.append(repr(about.exc_value)))
    held: list[asyncio.Task[Any]] = []

    async def lives(waits_for: asyncio.Future[None]) -> None:
        try:
            await waits_for
        finally:
            # As who closes what it has opened, on a thread for one.
            asyncio.get_running_loop()

    async def main(loop: SimulatedLoop) -> None:
        doomed = loop.process("doomed")
        held.append(doomed.spawn(lives(doomed.call(loop.create_future))))
        held.append(asyncio.create_task(lives(loop.create_future())))
        await asyncio.sleep(0)
        loop.kill(doomed)

    loop = SimulatedLoop()
    loop.run_until_complete(loop.create_task(main(loop)))
    loop.abandon_tasks()
    loop.close()
    held.clear()
    gc.collect()
    assert told == []


def test_who_waits_on_though_it_is_let_go_of_is_left_so() -> None:
    noted: list[str] = []

    async def lives(waits_for: asyncio.Future[None]) -> None:
        try:
            await waits_for
        finally:
            noted.append("goodbye")
            await waits_for.get_loop().create_future()

    async def main(loop: SimulatedLoop) -> None:
        asyncio.create_task(lives(loop.create_future()), name="one")  # noqa: RUF006 - it is held by nobody, on purpose
        await asyncio.sleep(0)

    loop = SimulatedLoop()
    loop.run_until_complete(loop.create_task(main(loop)))
    loop.abandon_tasks()
    loop.close()
    assert noted == ["goodbye"]
