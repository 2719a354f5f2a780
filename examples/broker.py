"""A broker, until Ctrl-C: `python examples/broker.py [SEND_ADDRESS RECEIVE_ADDRESS [DIRECTORY]]`."""

import asyncio
import contextlib
import sys

from transport import DEFAULT_RECEIVE_ADDRESS, DEFAULT_SEND_ADDRESS, Broker, BrokerConfig


async def main(
    send_address: str = DEFAULT_SEND_ADDRESS,
    receive_address: str = DEFAULT_RECEIVE_ADDRESS,
    directory: str = "penstock-data",
) -> None:
    """Serve senders on one address and receivers on the other (port 0 takes any that is free), from what the directory holds."""
    async with Broker(BrokerConfig(send_address, receive_address, directory=directory)) as broker:
        print(f"sending {broker.send_address}, receiving {broker.receive_address}", flush=True)
        await broker.serve_forever()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(*sys.argv[1:]))
