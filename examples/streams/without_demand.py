"""A fast producer and a slow consumer with a queue between them that takes everything."""

import asyncio
import tracemalloc

MESSAGES = 20_000


async def produce(queue: asyncio.Queue[bytes]) -> None:
    """As fast as it can: nobody says that it is too much."""
    for number in range(1, MESSAGES + 1):
        queue.put_nowait(bytes(1024))
        if number % 100 == 0:
            await asyncio.sleep(0)  # a turn for the consumer


async def consume(queue: asyncio.Queue[bytes]) -> None:
    """A millisecond for each."""
    while True:
        await queue.get()
        await asyncio.sleep(0.001)


async def main() -> None:
    """Looks at the queue when the producer is done."""
    tracemalloc.start()
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    consumer = asyncio.create_task(consume(queue))
    await produce(queue)
    print(f"{queue.qsize() / 1000:.0f} thousand messages wait")
    print(f"{tracemalloc.get_traced_memory()[1] / 2**20:.0f} MiB of memory")
    consumer.cancel()


asyncio.run(main())
