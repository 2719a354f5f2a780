"""Twelve elements that come at once, a buffer for three, and a consumer that is slow: what each strategy loses."""

import asyncio

from streams import BufferOverflowError, OverflowStrategy, Sink, Source


async def main() -> None:
    """One run for each strategy."""
    for overflow in OverflowStrategy:
        handled: list[int] = []

        async def handle(n: int, handled: list[int] = handled) -> None:
            await asyncio.sleep(0.001)
            handled.append(n)

        numbers = Source.range(12).buffer(3, overflow)
        try:
            await numbers.to(Sink.foreach_async(1, handle)).run()
        except BufferOverflowError as error:
            print(f"{overflow.name:14}{error}")
        else:
            print(f"{overflow.name:14}{handled}")


asyncio.run(main())
