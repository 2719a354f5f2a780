"""The same producer without end, and the same consumer, with demand between them."""

import asyncio
import tracemalloc
from collections.abc import Iterator

from streams import Sink, Source

made = handled = furthest = 0


def messages() -> Iterator[bytes]:
    """As many as are asked for."""
    global made, furthest  # noqa: PLW0603 - a small program
    while True:
        made += 1
        furthest = max(furthest, made - handled)
        yield bytes(1024)


async def handle(message: bytes) -> None:  # noqa: ARG001 - it only takes time
    """A millisecond for each."""
    global handled  # noqa: PLW0603 - as above
    await asyncio.sleep(0.001)
    handled += 1


tracemalloc.start()
Source.iterable(messages).take(500).to(Sink.foreach_async(1, handle)).run_blocking()
print(f"{made} made, {handled} handled, never more than {furthest} ahead")
print(f"{tracemalloc.get_traced_memory()[1] / 2**20:.0f} MiB of memory")
