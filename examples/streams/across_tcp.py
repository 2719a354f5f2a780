"""An endless sender, and a receiver that asks for nothing, with two sockets between them."""

import asyncio
from collections.abc import Iterator

from streams import Flow, Sink, Source
from transport.tcp import bind, outgoing_connection

CHUNK = bytes(64 * 1024)
made = 0


def chunks() -> Iterator[bytes]:
    """Without end."""
    global made  # noqa: PLW0603 - a small program
    while True:
        made += len(CHUNK)
        yield CHUNK


async def main() -> None:
    """A third of a second is time enough for many times as much."""
    received = Flow[bytes, bytes].identity()
    deaf = received.prepend(Source.never())
    server = bind("127.0.0.1:0").to(Sink.foreach(lambda connection: connection.handle_with(deaf))).run()
    address = await server.value.address()
    sending = Source.iterable(chunks).via(outgoing_connection(str(address))).to(Sink.ignore()).run()
    await asyncio.sleep(0.33)
    print(f"less than 32 MiB: {made < 32 * 2**20}")
    sending.abandon()
    server.abandon()


asyncio.run(main())
