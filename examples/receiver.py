"""A receiver: holds 100 messages at most, handles 8 at a time, acknowledges each when done. `python examples/receiver.py`."""

import argparse
import asyncio
import contextlib

from streams import Sink
from transport import DEFAULT_RECEIVE_ADDRESS, Delivery, Receiver


async def handle(delivery: Delivery) -> None:
    """The work; a message whose handling fails goes back to the queue and comes again, while the others go on."""
    print(delivery.payload.decode(), flush=True)


async def main(address: str, count: int | None) -> None:
    """Handle ``count`` messages, or all that ever come."""
    orders = Receiver(address, queue="orders", max_in_flight=100, limit=count, on_failure="return")
    await orders.handle(8, handle).to(Sink.acknowledge()).run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default=DEFAULT_RECEIVE_ADDRESS)
    parser.add_argument("--count", type=int, help="messages to take (no end)")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(**vars(parser.parse_args())))
