"""The kitchen, which has learned to cook fish. `python examples/start/better_kitchen.py`."""

import argparse
import asyncio

from streams import Sink
from transport import Delivery, Receiver

MENU = {"tea", "coffee", "soup", "fish"}


async def cook(delivery: Delivery) -> None:
    """The work for one order. An order whose handler raises is not done."""
    dish = delivery.payload.decode()
    if dish not in MENU:
        raise ValueError(f"{dish} is not on the menu")
    print(f"{dish} is ready")


async def main(address: str, count: int) -> None:
    """Take ``count`` orders that can be cooked. One that fails is put aside, as a dead letter."""
    orders = Receiver(address, queue="orders", limit=count, on_failure="reject")
    await orders.handle(1, cook).to(Sink.acknowledge()).run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", default="127.0.0.1:9183")
    parser.add_argument("--count", type=int, default=2)
    asyncio.run(main(**vars(parser.parse_args())))
