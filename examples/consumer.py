"""A consumer: handles orders, 8 at a time, until Ctrl-C or SIGTERM. `python examples/consumer.py`."""

import argparse
from typing import Any

from transport import DEFAULT_RECEIVE_ADDRESS, Consumer

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--address", default=DEFAULT_RECEIVE_ADDRESS)
consumer = Consumer(parser.parse_args().address, queue="orders", concurrency=8)


@consumer.handler
async def handle(order: dict[str, Any]) -> None:
    """The work; the message is acknowledged when it returns, and comes again when it raises."""
    print(f"{order['quantity']} x {order['item']}", flush=True)


if __name__ == "__main__":
    consumer.run()
