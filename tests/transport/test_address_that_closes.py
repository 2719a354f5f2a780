"""An address closes while it takes a connection: nobody is left behind, whatever turn of the loop that is."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import pytest

from transport.broker.acceptor import Acceptor, Intake
from transport.broker.strangers import Entrant, Unopened
from transport.shell.turns import Endings

if TYPE_CHECKING:
    from tests.transport.certificates import Certificates

DEADLINE = 10.0
TURNS = 3


class Told(asyncio.Protocol):
    """Notes that its connection is over, and leaves the line of those that are not let in."""

    def __init__(self, entrant: Entrant) -> None:
        self.entrant = entrant
        self.losses = 0
        self.lost = asyncio.Event()

    def connection_lost(self, error: Exception | None) -> None:
        self.losses += 1
        self.entrant.leave()
        self.lost.set()


@pytest.mark.parametrize("turns", range(TURNS))
def test_a_secured_address_that_closes_ends_what_it_has_just_accepted(
    run: Any, certificates: Certificates, turns: int
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        unopened, made = Unopened(), asyncio.get_running_loop().create_future()

        def close(left: int) -> None:
            if left:
                loop.call_soon(close, left - 1)
            else:
                acceptor.close()

        def factory(entrant: Entrant | None = None) -> Told:
            assert entrant is not None
            protocol = Told(entrant)
            made.set_result(protocol)
            # Called before the task is made which goes on with it: with no turn between, that has not begun.
            loop.call_soon(close, turns)
            return protocol

        context = certificates.server_context()
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        acceptor = Acceptor(
            [listening], Intake(factory, lambda: True, unopened, Endings(loop), b"", b"", tls=lambda: context)
        )
        with socket.create_connection(listening.getsockname(), DEADLINE) as peer:
            async with asyncio.timeout(DEADLINE):
                protocol = await made
                await protocol.lost.wait()
                peer.setblocking(False)
                assert await loop.sock_recv(peer, 1) == b""
        assert protocol.losses == 1
        assert unopened.count == 0

    run(main)
