"""How a node that is of no cluster yet is met by one that forms a cluster, or adds it: it is asked who it is, and answers.

It is the handshake of a link (hello.py), with the same secret and the same TLS, but between two that name no cluster and no directory. So
nobody can take it for a link. Then who was dialled says `Here`, and the connection ends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from actors.replication.forming import Here
from transport.cluster import hello
from transport.cluster.causes import Causes
from transport.cluster.dialing import Names, dial
from transport.cluster.door import Door, ListenElsewhere
from transport.cluster.hello import Answering, Dialing, Identity, LinkRefusedError
from transport.cluster.link import HANDSHAKE_SECONDS, Link, Refusal
from transport.cluster.link_codec import LinkCodec
from transport.cluster.outgoing import Pace
from transport.errors import ConnectionLostError, PeerTimeoutError, TransportError
from transport.wire.shown import shown

if TYPE_CHECKING:
    import ssl

    from transport.cluster.link_settings import LinkKeys
    from transport.wire.address import Address

ASK_SECONDS: Final = HANDSHAKE_SECONDS + 1.0
"""For somebody to say who it is, once it is connected."""


def stranger(name: str, directory: str, address: str) -> Identity:
    """Who is of no cluster yet."""
    return Identity(hello.NOBODY, directory, name, address, os.urandom(hello.START_BYTES))


class Meeting:
    """Answers whoever asks who this node is. It is open until the node is a member, which has links at the same address then.

    Args:
        me: of `stranger`.
        here: what is answered, as it is by then.
        keys: of `read_keys`.
        listen: how it listens, instead of on the machine's network.
    """

    def __init__(
        self, me: Identity, here: Callable[[], Here], keys: LinkKeys, listen: ListenElsewhere | None = None
    ) -> None:
        self._me = me
        self._here = here
        self._keys = keys
        self._loop = asyncio.get_running_loop()
        self._codec = LinkCodec()
        self._pace = Pace(1)  # nothing is transferred
        self._causes = Causes(self._loop.time)
        self._door = Door(self._answering, lambda: self._keys.server, self._not_secured, listen)
        self._links: dict[Link, None] = {}

    async def open(self, address: Address) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be bound.
        """
        await self._door.open(address)

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where it listens, with the ports that were really bound."""
        return self._door.addresses

    def use(self, keys: LinkKeys) -> None:
        """Other keys, for connections from now on."""
        self._keys = keys

    def close(self) -> None:
        """Answer nobody any more."""
        self._door.close()
        for link in list(self._links):
            link.abort(ConnectionLostError("this node has found its cluster"))

    def _answering(self) -> Link:
        side = Answering(self._me, self._keys.secret, os.urandom(hello.NONCE_BYTES), self._keys.also)
        return Link(side, self, self._codec, self._pace, self._loop)

    # Of links: see `LinkOwner`.

    def made(self, link: Link) -> None:
        """There is a connection."""
        self._links[link] = None

    def judge(self, link: Link) -> Refusal | None:  # noqa: ARG002 - everybody who has the secret
        """Whether who has dialled, and proved itself, is taken: yes."""
        return None

    def opened(self, link: Link) -> None:
        """It stands."""
        self._door.left(link)
        link.send(self._codec.encode(self._here()))
        link.close()

    def received(self, link: Link, message: Any) -> None:
        """What it says: nothing that matters."""

    def ended(self, link: Link, error: Exception) -> None:
        """It is over."""
        self._door.left(link)
        self._links.pop(link, None)
        # Members dial whom the document names, and this node is about to read that.
        if isinstance(error, LinkRefusedError) and error.reason not in (hello.CLOSING, hello.CLUSTER):
            self._not_secured(link.peer.rpartition(":")[0], error)

    def _not_secured(self, host: str, error: Exception) -> None:
        self._causes.tell(host, type(error).__name__, f"a node that connects from {host} is not taken: {error}")


class _Asking:
    """One question."""

    def __init__(self, answer: asyncio.Future[Here]) -> None:
        self._answer = answer

    def made(self, link: Link) -> None:
        """There is a connection."""

    def judge(self, link: Link) -> Refusal | None:  # noqa: ARG002 - it was dialled
        """Nobody dials here."""
        return None

    def opened(self, link: Link) -> None:
        """It stands: the other one speaks."""

    def received(self, link: Link, message: Any) -> None:
        """The answer."""
        assert link.agreed is not None
        directory = link.agreed.peer.directory
        if not self._answer.done():
            if isinstance(message, Here) and message.member.directory == directory:
                self._answer.set_result(message)
            else:
                self._answer.set_exception(TransportError(f"the node {directory} does not say who it is"))

    def ended(self, link: Link, error: Exception) -> None:  # noqa: ARG002 - of the protocol
        """It is over."""
        if not self._answer.done():
            self._answer.set_exception(error)


async def ask(me: Identity, address: Address, keys: LinkKeys) -> Here:
    """Ask a node that is of no cluster yet, or has no links yet, who it is; it takes `DIAL_SECONDS` and `ASK_SECONDS` at most.

    Where there are two secrets, and the first is refused, the other is tried, which may take as long again.

    Raises:
        TransportError: it does not answer, or is not taken; the text says why.
    """
    try:
        return await _asked(me, address, keys.secret, keys.client)
    except LinkRefusedError as error:
        if error.reason != hello.UNPROVED or keys.also is None:
            raise
    return await _asked(me, address, keys.also, keys.client)


async def _asked(me: Identity, address: Address, secret: bytes | None, tls: ssl.SSLContext | None) -> Here:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Here] = loop.create_future()
    side = Dialing(me, hello.NOBODY, secret, os.urandom(hello.NONCE_BYTES))
    link = Link(side, _Asking(answer), LinkCodec(), Pace(1), loop)
    try:
        await dial(link, address, Names(loop), tls)
        async with asyncio.timeout(ASK_SECONDS):
            return await answer
    except TimeoutError:
        raise PeerTimeoutError(f"{address} does not answer") from None
    except (OSError, UnicodeError) as error:
        raise TransportError(f"{address} cannot be reached: {shown(str(error))}") from None
    finally:
        link.abort(ConnectionLostError("asked"))
        if answer.done() and not answer.cancelled():
            with suppress(Exception):
                answer.exception()
