"""Both ends of a flow in your hands: what it asks for, and when."""

import asyncio

from streams import Flow
from streams.testkit import TestSink, TestSource


async def main() -> None:
    """Keeps the odd numbers in pairs."""
    numbers = Flow[int, int].identity()
    flow = numbers.filter(lambda n: n % 2).grouped(2)
    source, sink = TestSource[int](), TestSink[list[int]]()
    running = source.via(flow).to(sink).run()

    await source.probe.expect_no_request()
    print("nobody has asked for anything, so nothing was asked for")
    sink.request(1)
    print("for one pair the source is asked for", await source.probe.expect_request())
    source.probe.send_next(1, 2)
    print("in place of the 2 it is asked for", await source.probe.expect_request())
    source.probe.send_next(3)
    print("the pair is", await sink.expect_next())
    await source.probe.expect_no_request()
    sink.cancel()
    await source.probe.expect_cancellation()
    print("cancelled")
    await running


asyncio.run(main())
