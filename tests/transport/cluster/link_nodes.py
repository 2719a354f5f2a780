"""Nodes with links over loopback, for tests: what each was told, and waiting for it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from unittest import mock

from transport.cluster import dialing
from transport.cluster.hello import Identity
from transport.cluster.link_settings import LinkKeys, LinkSettings
from transport.cluster.links import ClusterLinks
from transport.cluster.records import Record

CLUSTER = "c" * 32
SECRET = LinkKeys(b"the secret of the tests")
DIAL_SECONDS = 20.0
SETTINGS = LinkSettings("127.0.0.1:0", secret_file="read already")


class LinkNode:
    """One node.

    Attributes:
        directory: its id: its letter, 32 times, which stands for it below.
        told: what its links have told it, each with the letter of who it is about.
        got: the messages that came.
    """

    def __init__(
        self,
        name: str,
        *,
        start: bytes = b"",
        keys: LinkKeys = SECRET,
        cluster: str = CLUSTER,
        make_record: Any = Record,
        **settings: Any,
    ) -> None:
        self.name = name
        self.directory = name[0] * 32
        self.told: list[tuple[str, str]] = []
        self.got: list[tuple[str, Any]] = []
        self.on_message: Callable[[str, Any], None] = lambda _peer, _message: None
        self._changed = asyncio.Event()
        identity = Identity(cluster, self.directory, name, "127.0.0.1:9184", start or name[0].encode() * 8)
        given = {"address": "127.0.0.1:0", "secret_file": "read already"} | settings
        self.links = ClusterLinks(identity, LinkSettings(**given), keys, self, make_record, chance=random.Random(1))

    @property
    def address(self) -> str:
        return str(self.links.addresses[0])

    def connected(self, peer: str) -> None:
        self._tell("connected", peer)

    def lost(self, peer: str) -> None:
        self._tell("lost", peer)

    def unknown(self, peer: str, name: str) -> None:
        self._tell("unknown", peer)

    def received(self, peer: str, message: Any) -> None:
        self.got.append((peer[0], message))
        self.on_message(peer, message)
        self._changed.set()

    def _tell(self, what: str, peer: str) -> None:
        self.told.append((what, peer[0]))
        self._changed.set()

    def knows(self, *others: LinkNode, **addresses: str) -> None:
        """Its peers are these; by letter at other addresses than their own."""
        peers = {other.directory: other.address for other in others}
        self.links.set_peers(peers | {name * 32: address for name, address in addresses.items()})

    def count(self, what: str, peer: LinkNode | str) -> int:
        return self.told.count((what, peer if isinstance(peer, str) else peer.name[0]))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what it was told, or got, makes this true; the test's deadline bounds it."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def connects(self, *others: LinkNode, times: int = 1) -> None:
        await self.until(lambda: all(self.count("connected", other) >= times for other in others))

    async def loses(self, other: LinkNode | str, times: int = 1) -> None:
        await self.until(lambda: self.count("lost", other) >= times)

    async def gets(self, count: int) -> list[tuple[str, Any]]:
        """The first so many messages."""
        await self.until(lambda: len(self.got) >= count)
        return self.got[:count]


@asynccontextmanager
async def nodes(*names: str, join: bool = True, **options: Mapping[str, Any]) -> AsyncIterator[list[LinkNode]]:
    """Nodes that listen; where they join, all have links to all. ``options`` are those of one, by its name.

    A dial has all the time that a machine may stand still: no test lets it run out.
    """
    with mock.patch.object(dialing, "DIAL_SECONDS", DIAL_SECONDS):
        async with _nodes(*names, join=join, **options) as made:
            yield made


@asynccontextmanager
async def _nodes(*names: str, join: bool, **options: Mapping[str, Any]) -> AsyncIterator[list[LinkNode]]:
    made = [LinkNode(name, **options.get(name, {})) for name in names]
    try:
        for each in made:
            await each.links.start()
        if join:
            for each in made:
                each.knows(*made)
            for each in made:
                await each.connects(*(other for other in made if other is not each))
        yield made
    finally:
        for each in made:
            await each.links.close()
