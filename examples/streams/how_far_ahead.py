"""How many elements an operator has taken beyond what was asked of it: measured, with a sink that asks for 96."""

import asyncio
import itertools

from streams import Flow, OverflowStrategy, Sink, Source
from streams.testkit import TestSink, settle

ASKED = 96  # a multiple of 8: buffers of 16 ask again in steps of half


async def same(n: int) -> int:
    """A coroutine function that waits for nothing."""
    return n


async def main() -> None:
    """One run for each operator."""
    start = Flow[int, int].identity()
    flows = {
        "map": start.map(lambda n: n),
        "throttle": start.throttle(1_000_000, 1.0, 1000),
        "concat": start.concat(Source.empty()),
        "also_to": start.also_to(Sink.ignore()),
        "map_async(4)": start.map_async(4, same),
        "buffer(8)": start.buffer(8),
        "delay(0.001)": start.delay(0.001),
        "merge": start.merge(Source.empty()),
        "zip": start.zip(Source.repeat(0)),
        "buffer(8, DROP_HEAD)": start.buffer(8, OverflowStrategy.DROP_HEAD),
    }
    for name, flow in flows.items():
        numbers = itertools.count()
        sink = TestSink[object]()
        running = Source.from_iterable(numbers).via(flow).to(sink).run()
        sink.request(ASKED)
        await sink.expect_next_n(ASKED)
        await settle()
        ahead = next(numbers) - ASKED
        print(f"{name:24}{ahead if ahead <= ASKED else 'not held back'}")
        running.abandon()


asyncio.run(main())
