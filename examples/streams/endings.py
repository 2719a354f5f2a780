"""How a stream ends: with its last element, with enough, with a failure, with a cancellation. The file is closed every time."""

import asyncio
from collections.abc import Iterator

from streams import Sink, Source


def lines() -> Iterator[str]:
    """Stands for a file, or a cursor."""
    try:
        yield from ("1", "2", "three", "4")
    finally:
        print("    closed")


async def slowly(number: int) -> None:
    """Takes its time."""
    await asyncio.sleep(60)
    print(number)


async def main() -> None:
    """Four ends of the same source."""
    source = Source.iterable(lines)
    print("complete", await source.to(Sink.collect()).run())
    print("enough", await source.take(2).to(Sink.collect()).run())
    try:
        await source.map(int).to(Sink.collect()).run()
    except ValueError as error:
        print("failed", error, *error.__notes__, sep="\n    ")
    try:
        async with asyncio.timeout(0.2):
            await source.take(2).map(int).to(Sink.foreach_async(1, slowly)).run()
    except TimeoutError:
        print("cancelled")


asyncio.run(main())
