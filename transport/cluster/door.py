"""Where a node is dialled by others: a listening address, and those who have not proved themselves yet.

Of these there are few at a time, and few of one host. Whoever comes is taken, and who has been there longest makes room. So somebody who
connects without end and says nothing does not keep a member out, whose handshake takes a moment.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from transport.cluster.link import HANDSHAKE_SECONDS, LINGER_SECONDS, Link
from transport.errors import LimitExceededError
from transport.wire.address import Address

if TYPE_CHECKING:
    import ssl

MAX_STRANGERS: Final = 32
"""Connections on which nobody has proved anything yet, at a time;"""
MAX_STRANGERS_OF_ONE: Final = 8
"""and those of one host."""
BACKLOG: Final = 64
ACCEPTS_A_TURN: Final = 8
"""In one turn of the loop."""
ACCEPT_AGAIN_SECONDS: Final = 1.0
"""Without accepting, after there was no file left."""
EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

logger = logging.getLogger("penstock.cluster")


class Elsewhere(Protocol):
    """An address of another network than the machine's."""

    def close(self) -> None:
        """Take no more."""


ListenElsewhere: TypeAlias = Callable[[Callable[[], Link], Address], Awaitable[Elsewhere]]
"""Makes a listening address of: what makes the link of one who comes, and where."""


class Door:
    """Takes connections.

    Args:
        make: makes the link of one.
        tls: gives what it is made with; None for no TLS.
        failed: told the host, and why, where TLS does not come about.
        listen: how it listens, instead of on the machine's network. Then nobody is counted, and there is no TLS.
    """

    def __init__(
        self,
        make: Callable[[], Link],
        tls: Callable[[], ssl.SSLContext | None],
        failed: Callable[[str, Exception], None],
        listen: ListenElsewhere | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._make = make
        self._tls = tls
        self._failed = failed
        self._listen = listen
        self._elsewhere: Elsewhere | None = None
        self._listening: list[socket.socket] = []
        self._again: asyncio.TimerHandle | None = None
        self._strangers: dict[Link, str] = {}
        self._tasks: dict[Link, asyncio.Task[None]] = {}

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where it listens, with the ports that were really bound."""
        return tuple(Address(*each.getsockname()[:2]) for each in self._listening)

    async def open(self, address: Address) -> None:
        """Listen.

        Raises:
            OSError: the address cannot be bound.
        """
        if self._listen is not None:
            self._elsewhere = await self._listen(self._make, address)
            return
        found = await self._loop.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, kind, protocol, _, where in dict.fromkeys(found):
                each = socket.socket(family, kind, protocol)
                self._listening.append(each)
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                each.setblocking(False)
                each.bind(where)
                each.listen(BACKLOG)
        except OSError as error:
            self.close()
            raise OSError(
                error.errno, f"{address}, where the other nodes connect (--cluster-address): {error.strerror or error}"
            ) from None
        self._resume()

    def close(self) -> None:
        """Take no more, and end those that have not proved themselves."""
        self._pause()
        if self._elsewhere is not None:
            self._elsewhere.close()
        listening, self._listening = self._listening, []
        for each in listening:
            each.close()
        for link in list(self._strangers):
            self._turn_out(link, "the node ends")

    async def closed(self) -> None:
        """Wait until nobody is being taken any more."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    def left(self, link: Link) -> None:
        """It is no stranger's any more: it has proved itself, or is over."""
        self._strangers.pop(link, None)

    def _resume(self) -> None:
        self._again = None
        for each in self._listening:
            self._loop.add_reader(each.fileno(), self._accept, each)

    def _pause(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        for each in self._listening:
            self._loop.remove_reader(each.fileno())

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_A_TURN):
            try:
                accepted, peer = listening.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # it has gone while it waited
            except OSError as error:
                if error.errno not in EXHAUSTED:
                    raise
                logger.warning("no node can connect, for there is no file left (%s)", error.strerror)
                self._pause()
                self._again = self._loop.call_later(ACCEPT_AGAIN_SECONDS, self._resume)
                return
            self._take(accepted, str(peer[0]))

    def _take(self, accepted: socket.socket, host: str) -> None:
        of_one = [link for link, other in self._strangers.items() if other == host]
        if len(of_one) >= MAX_STRANGERS_OF_ONE:
            self._turn_out(of_one[0], f"{MAX_STRANGERS_OF_ONE} others of its host came, and it had proved nothing")
        elif len(self._strangers) >= MAX_STRANGERS:
            self._turn_out(next(iter(self._strangers)), f"{MAX_STRANGERS} others came, and it had proved nothing")
        accepted.setblocking(False)
        link = self._make()
        self._strangers[link] = host
        task = self._tasks[link] = self._loop.create_task(self._attach(accepted, link, host), name="a node connects")

        def attached(_: asyncio.Task[None]) -> None:
            self._tasks.pop(link, None)
            if not link.made:
                accepted.close()  # it was turned out before its task had begun, which closes it otherwise

        task.add_done_callback(attached)

    def _turn_out(self, link: Link, why: str) -> None:
        del self._strangers[link]
        if (task := self._tasks.get(link)) is not None:
            task.cancel()
        link.abort(LimitExceededError(why))

    async def _attach(self, accepted: socket.socket, link: Link, host: str) -> None:
        context = self._tls()
        try:
            if context is None:
                await self._loop.connect_accepted_socket(lambda: link, accepted)
            else:
                await self._loop.connect_accepted_socket(
                    lambda: link,
                    accepted,
                    ssl=context,
                    ssl_handshake_timeout=HANDSHAKE_SECONDS,
                    ssl_shutdown_timeout=LINGER_SECONDS,
                )
        except (OSError, asyncio.CancelledError) as error:
            self.left(link)
            accepted.close()
            if isinstance(error, OSError) and context is not None and not isinstance(error, ConnectionError):
                self._failed(host, error)
            if link.made:
                link.give_up(error if isinstance(error, OSError) else LimitExceededError("turned out"))
