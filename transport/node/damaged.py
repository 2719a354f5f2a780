"""A node whose directory is damaged: it is in the cluster by name only, until who leads says that it is to be filled anew.

It has its links, by which the others hear what is wrong (`Tidings`), and says nothing else on them. So it promises nothing, votes for
nobody, and has stored nothing, whatever it had answered before. The machine's etcd goes on, and so does the door for clients.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from actors.replication.document import DocumentError
from actors.replication.limits import LOOK_SECONDS
from actors.replication.register import RegisterError
from actors.storage import ShippedRecord
from transport.cluster.hello import START_BYTES, Identity
from transport.cluster.links import ClusterLinks
from transport.cluster.tidings import Heal

if TYPE_CHECKING:
    from actors.replication.document import ClusterDocument
    from actors.replication.register import Register
    from actors.storage.damaged_replica import Whose
    from transport.cluster.link_settings import LinkKeys
    from transport.cluster.plan import Plan
    from transport.node.told import Told

logger = logging.getLogger("penstock.cluster")


class DamagedNode:
    """Between the damage and the new directory.

    Attributes:
        document: as it was read last; None before that.

    Args:
        plan: the node's.
        keys: of its links.
        register: where the document lies.
        whose: whose replica the directory is, as far as that can be read.
        told: has what is wrong, and tells it.
    """

    def __init__(self, plan: Plan, keys: LinkKeys, register: Register, whose: Whose, told: Told) -> None:
        self.document: ClusterDocument | None = None
        self._plan = plan
        self._keys = keys
        self._register = register
        self._whose = whose
        self._told = told
        self._links: ClusterLinks | None = None
        self._asked = asyncio.Event()
        self._said = ""

    @property
    def linked(self) -> frozenset[str]:
        """To whom there is a connection."""
        return frozenset() if self._links is None else self._links.connected

    def use(self, keys: LinkKeys) -> None:
        """Have links with these from now on."""
        self._keys = keys
        if self._links is not None:
            self._links.use(keys)

    async def healed(self) -> None:
        """Tell the others what is wrong, until the directory is to be put aside.

        Raises:
            OSError: the address for the other nodes is taken.
        """
        try:
            while not self._asked.is_set():
                await self._look()
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._asked.wait()
        finally:
            self._told.end()
            if self._links is not None:
                await self._links.close()
                self._links = None

    async def _look(self) -> None:
        """Have links to whom the document names."""
        try:
            _, document = await self._register.read()
        except (RegisterError, DocumentError) as error:
            self._say(f"the register cannot be asked: {error}")
            return
        if document is None:
            self._say("the register holds no cluster")
            return
        self.document = document
        member = document.members.get(self._plan.name)
        directory = self._whose.directory or (None if member is None else member.directory)
        if member is None or member.directory != directory or self._whose.cluster not in (None, document.cluster):
            self._say(
                f"its cluster has no member {self._plan.name!r} in this directory: put what it holds aside, and have the node added or "
                "moved. See docs/cluster.md"
            )
            return
        if self._links is None:
            me = Identity(document.cluster, directory, self._plan.name, self._plan.replication, os.urandom(START_BYTES))
            links = ClusterLinks(me, self._plan.links, self._keys, self, make_record=ShippedRecord)
            await links.start()
            self._links = links
            self._told.begin(links)
        members = [*document.members.values(), *document.members_after_change.values()]
        self._links.set_peers({each.directory: each.replication for each in members})

    def _say(self, why: str) -> None:
        if why != self._said:
            self._said = why
            logger.warning("this node is damaged, and cannot tell the others: %s", why)

    # Of links

    def connected(self, peer: str) -> None:
        """There is a connection."""
        self._told.connected(peer)

    def lost(self, peer: str) -> None:
        """There is none any more."""

    def received(self, peer: str, message: object) -> None:
        """What it says: whatever it asks for is not answered."""
        if isinstance(message, Heal):
            logger.warning("the node %s has this one filled anew", peer)
            self._asked.set()
        else:
            self._told.received(peer, message)

    def unknown(self, peer: str, name: str) -> None:
        """Somebody is none of those that the document names: it is read again soon."""
