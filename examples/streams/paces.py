"""Two ends that go at paces of their own, and nothing that piles up between them."""

import asyncio
import itertools
import operator
import time

from streams import Sink, Source


async def slowly(result: object) -> object:
    """A hundredth of a second for each."""
    await asyncio.sleep(0.01)
    return result


async def main() -> None:
    """A fast source and a slow stage, then the other way round, then a pace that is set."""
    sums = Source.range(100).conflate(operator.add).map_async(1, slowly)
    print("conflate", await sums.to(Sink.collect()).run())
    lists = Source.range(10).batch(4, lambda n: [n], lambda ns, n: [*ns, n]).map_async(1, slowly)
    print("batch   ", await lists.to(Sink.collect()).run())
    readings = Source.tick(0.05).expand(itertools.repeat).take(4)
    print("expand  ", await readings.to(Sink.collect()).run())
    began = time.monotonic()
    await Source.range(21).throttle(100, per=1.0, maximum_burst=1).to(Sink.ignore()).run()
    print("throttle", f"21 elements took a fifth of a second: {time.monotonic() - began > 0.19}")


asyncio.run(main())
