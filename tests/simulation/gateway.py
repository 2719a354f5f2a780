"""A gateway in the broker: it changes the map beside the queues, and notes what it was told is durable."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

from streams.testkit import elapse
from tests.simulation.history import History, Put, PutConfirmed, Remembered

if TYPE_CHECKING:
    from actors.storage import DurableMap

SECTIONS = ("one", "two")
KEYS = 8
LARGEST_VALUE = 400
BURSTS = 300
"""In one life of the broker: while faults last, there is always another."""
LARGEST_BURST = 4
"""Changes that are made before any of them is waited for."""


def note_remembered(memory: DurableMap, history: History, now: float) -> None:
    """Note what the map holds."""
    entries = sorted((name, key, value) for name in SECTIONS for key, value in memory.section(name).items())
    history.add(Remembered(now, memory.sections.number, tuple(entries)))


async def use_map(memory: DurableMap, random: Random, pause: float, history: History) -> None:
    """Change the map, again and again."""
    loop = asyncio.get_running_loop()
    for _ in range(BURSTS):
        await elapse(random.expovariate(1 / pause))
        number = 0
        for _ in range(random.randint(1, LARGEST_BURST)):
            section, key = random.choice(SECTIONS), f"key-{random.randrange(KEYS)}"
            value = None if random.random() < 0.3 else random.randbytes(random.randrange(LARGEST_VALUE))
            if value != memory.get(section, key):
                history.add(Put(loop.time(), section, key, value))
            number = memory.put(section, key, value)
        changes = memory.sections.number
        await memory.synced(number)
        history.add(PutConfirmed(loop.time(), changes))
