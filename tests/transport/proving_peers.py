"""Scripted brokers that have a user, and one small conversation that each kind of client can have with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.transport.scripted_peers import Peer, Script
from transport import Access, Administration, Backoff, TransactionClient, TransportError
from transport.security.scram import ScramError, ServerExchange
from transport.security.verifier import LEAST_ITERATIONS, Verifier
from transport.wire.messages import (
    VERSION,
    AbortTransaction,
    Auth,
    Command,
    Error,
    Frame,
    Hello,
    Result,
    TransactionEnded,
    Welcome,
)

USER, PASSWORD = "ann", "canary-of-a-password"
ANN = Access(user=USER, password=PASSWORD)
VERIFIER = Verifier.of(PASSWORD, LEAST_ITERATIONS)
WRONG = "wrong name or password"
PATIENCE = 20.0
BETWEEN = 0.01
"""Seconds from one try to the next: one that tries at once, until it has no patience, would have the processor to itself."""
ANSWER = 7
"""What a client that has got through is told."""

Client = Callable[..., int]


def prove(peer: Peer, verifier: Verifier = VERIFIER, hellos: list[Hello] | None = None) -> str:
    """The broker's side, as a broker of ours does it; who it was."""
    hello = peer.read(Hello)
    assert hello.options["mechanism"] == "SCRAM-SHA-256"
    if hellos is not None:
        hellos.append(hello)
    server = ServerExchange(lambda _: verifier)
    peer.send(Auth(server.challenge(peer.read(Auth).data)))
    try:
        final = server.conclude(peer.read(Auth).data)
    except ScramError:
        peer.send(Error("authentication-failed", WRONG, close=True))
        raise
    peer.send(Auth(final))
    return server.name


def welcome(peer: Peer) -> None:
    peer.send(Welcome(VERSION, 1, {"heartbeat_ms": 5000}))
    peer._protocol.said_welcome()
    peer._decoder.max_frame_bytes = 1 << 24


def serve(peer: Peer) -> None:
    """Answer one request of either client."""
    request: Any = peer.read(Frame)
    if isinstance(request, Command):
        peer.send(Result(request.request, b'{"purged": %d}' % ANSWER))
    else:
        assert isinstance(request, AbortTransaction)
        peer.send(TransactionEnded(request.request, ANSWER))
    peer.read_to_end()


def proved(peer: Peer) -> None:
    """The whole conversation."""
    assert prove(peer) == USER
    welcome(peer)
    serve(peer)


def hear_it_go(peer: Peer) -> None:
    """Until the client is gone, whatever it says of why."""
    with suppress(TransportError):
        peer.read_to_end()


def challenging(data: Callable[[bytes], bytes]) -> Script:
    """A script that answers the client's first message with what ``data`` makes of it."""

    def script(peer: Peer) -> None:
        peer.read(Hello)
        peer.send(Auth(data(peer.read(Auth).data)))
        hear_it_go(peer)

    return script


def ask_blocking(address: str, access: Access | None, patience: float = PATIENCE) -> int:
    retry = Backoff(BETWEEN, BETWEEN, jitter=0.0, give_up_after=patience)
    with TransactionClient(address, writer="w", version=1, access=access, retry=retry) as client:
        return client.abort()


def ask_on_a_loop(address: str, access: Access | None, patience: float = PATIENCE) -> int:
    async def main() -> int:
        async with Administration(address, access=access, connect_timeout=patience) as administration:
            return await administration.purge_queue("orders") or 0

    return asyncio.run(main())


CLIENTS: dict[str, Client] = {"blocking": ask_blocking, "on a loop": ask_on_a_loop}
