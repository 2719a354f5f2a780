"""A sender: one message a second, or as fast as you say, if the broker has room for it. `python examples/sender.py --name Ada`."""

import argparse
import asyncio
import contextlib

from streams import Source
from transport import DEFAULT_SEND_ADDRESS, Sender


async def main(address: str, name: str, seconds: float, count: int | None) -> None:
    """Send a message at each tick, ``count`` of them or without end."""
    ticks = Source.tick(seconds)
    if count is not None:
        ticks = ticks.take(count)
    messages = ticks.map(lambda n: f"Message {n} from {name}".encode())
    summary = await messages.to(Sender(address, queue="orders")).run()
    print(f"{summary.messages} messages confirmed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default=DEFAULT_SEND_ADDRESS)
    parser.add_argument("--name", default="somebody")
    parser.add_argument("--seconds", type=float, default=1.0, help="between two messages (1)")
    parser.add_argument("--count", type=int, help="messages to send (no end)")
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(**vars(options)))
