"""Broker, sender and receiver in one program, over real sockets: `python examples/in_process.py [COUNT]`."""

import asyncio
import sys

from streams import Sink, Source
from transport import Broker, BrokerConfig, Delivery, Receiver, Sender

ANY_PORT = "127.0.0.1:0"


async def handle(delivery: Delivery) -> Delivery:
    """The receiver's work."""
    print(delivery.payload.decode())
    return delivery


async def main(count: int = 10) -> None:
    """Every part is a description; nothing happens before run()."""
    async with Broker(BrokerConfig(ANY_PORT, ANY_PORT, max_queue_messages=100)) as broker:
        orders = Source.from_iterable(range(1, count + 1)).map(lambda n: f"order {n}".encode())
        sending = orders.to(Sender(broker.send_address, queue="orders"))

        deliveries = Receiver(broker.receive_address, queue="orders", max_in_flight=10, limit=count)
        receiving = deliveries.map_async(4, handle).to(Sink.acknowledge())

        sent, handled = await asyncio.gather(sending.run(), receiving.run())
        print(f"{sent.messages} sent, {handled} handled")


if __name__ == "__main__":
    given = sys.argv[1] if len(sys.argv) > 1 else "10"
    if not given.isdecimal() or int(given) < 1:
        sys.exit(f"COUNT is {given}; a whole number of 1 or more is possible")
    asyncio.run(main(int(given)))
