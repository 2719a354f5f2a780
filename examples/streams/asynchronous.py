"""Work that waits, four pieces at a time: in coroutines, and in threads."""

import asyncio
import threading

from streams import Sink, Source

under_way = most = 0
four = threading.Barrier(4)


async def look_up(n: int) -> int:
    """Waits for something; the even ones wait longer."""
    global under_way, most  # noqa: PLW0603 - a small program
    under_way += 1
    most = max(most, under_way)
    await asyncio.sleep(0.001 if n % 2 else 0.02)
    under_way -= 1
    return n


def compute(n: int) -> int:
    """Blocks its thread until four of them are here."""
    four.wait(timeout=5)
    return n * n


async def main() -> None:
    """In the order of the elements, as they are done, and in threads."""
    print(await Source.range(8).map_async(4, look_up).to(Sink.collect()).run())
    print(f"{most} at a time")
    print(await Source.of(2, 1).map_async_unordered(4, look_up).to(Sink.collect()).run())
    print(await Source.range(8).map_blocking(4, compute).to(Sink.collect()).run())


asyncio.run(main())
