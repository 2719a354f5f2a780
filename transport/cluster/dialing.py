"""One attempt to connect to another node: its name looked up, a connection, TLS."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, Final

from transport.cluster.link import HANDSHAKE_SECONDS, LINGER_SECONDS, Link
from transport.shell.loop_transport import ClientTls, connect

if TYPE_CHECKING:
    import ssl

    from transport.wire.address import Address

DIAL_SECONDS: Final = 1.0
"""For a name to be found and a connection to stand, TLS included; then it is tried anew."""
FIRST_REDIAL_SECONDS: Final = 0.05
MOST_REDIAL_SECONDS: Final = 0.5
"""Between two attempts; they double from the one to the other."""


class Names:
    """Looks up the names of hosts. Where a name takes long there is still one question under way, whoever waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asking: dict[Address, asyncio.Future[Any]] = {}

    async def find(self, address: Address) -> list[str]:
        """The addresses of a host; one that is an address is found at once.

        Raises:
            OSError: there are none.
        """
        asking = self._asking.get(address)
        if asking is None:
            asking = self._asking[address] = asyncio.ensure_future(
                self._loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM), loop=self._loop
            )
            asking.add_done_callback(lambda done: self._answered(address, done))
        found = await asyncio.shield(asking)
        return list(dict.fromkeys(str(each[4][0]) for each in found))

    def _answered(self, address: Address, done: asyncio.Future[Any]) -> None:
        del self._asking[address]
        if not done.cancelled():
            done.exception()  # whoever waited has it; perhaps nobody did


async def dial(link: Link, address: Address, names: Names, context: ssl.SSLContext | None) -> None:
    """Connect ``link``, within `DIAL_SECONDS`. Where it raises, no connection was made.

    Raises:
        OSError, TimeoutError, UnicodeError: it cannot be.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + DIAL_SECONDS
    async with asyncio.timeout_at(until):
        hosts = await names.find(address)
    tls = None if context is None else ClientTls(context, address.host, HANDSHAKE_SECONDS, LINGER_SECONDS)
    for left in range(len(hosts) - 1, -1, -1):
        try:
            await connect(link, hosts[-1 - left], address.port, max(until - loop.time(), 0.0) / (left + 1), loop, tls)
        except (OSError, TimeoutError):
            if link.made or not left:
                raise
        else:
            return
