"""A node's way to its cluster: it forms it with others, or waits until the document names its directory."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from actors.replication.document import MAJORITY, DocumentError, check_continues
from actors.replication.forming import Form, Forming, Here, Join, Leave
from actors.replication.limits import LOOK_SECONDS
from actors.replication.register import RegisterError
from transport.cluster.meeting import Meeting, ask, stranger
from transport.errors import LocalProtocolError, TransportError
from transport.wire.address import parse_address

if TYPE_CHECKING:
    from actors.replication.document import ClusterDocument
    from actors.replication.register import Register
    from actors.storage.node_storage import NodeStorage
    from transport.cluster.door import ListenElsewhere
    from transport.cluster.link_settings import LinkKeys
    from transport.cluster.plan import Plan

logger = logging.getLogger("penstock.cluster")


class ClusterFinder:
    """One search.

    Args:
        plan: the node's.
        keys: of its links.
        register: where the document lies.
        storage: the node's directory.
        heals: whether a damaged journal was put aside here, and whoever leads may have the node filled anew without a person.
        listen: how it listens to others, instead of on the machine's network.
    """

    def __init__(
        self,
        plan: Plan,
        keys: LinkKeys,
        register: Register,
        storage: NodeStorage,
        *,
        heals: bool = False,
        listen: ListenElsewhere | None = None,
    ) -> None:
        self._plan = plan
        self._keys = keys
        self._register = register
        self._storage = storage
        self._heals = heals
        self._listen = listen
        self._said = ""
        self._meeting: Meeting | None = None

    def use(self, keys: LinkKeys) -> None:
        """Meet others with these from now on."""
        self._keys = keys
        if self._meeting is not None:
            self._meeting.use(keys)

    async def found(self) -> tuple[int, ClusterDocument]:
        """The document, with its version, once it names this directory.

        Raises:
            LocalProtocolError: it never will.
        """
        plan, journal = self._plan, self._storage.journal
        writer = f"{plan.name}-{os.urandom(8).hex()}"
        copied = not journal.cluster_id and journal.next_lsn > 1 and journal.epoch_of(journal.next_lsn - 1) > 0
        forming = Forming(self._here(), plan.first, writer, lambda: os.urandom(16).hex(), plan.mode, copied=copied)
        me = stranger(plan.name, self._storage.directory_id, plan.replication)
        meeting = self._meeting = Meeting(me, self._here, self._keys, self._listen)
        await meeting.open(parse_address(plan.links.address))
        try:
            while True:
                step = await self._look(forming)
                if isinstance(step, Join):
                    self._say_mode(step.document.mode)
                    return step.version, step.document
                if isinstance(step, Leave):
                    raise LocalProtocolError(step.why)
                if not isinstance(step, Form):
                    await _rest(LOOK_SECONDS)
        finally:
            meeting.close()

    async def _look(self, forming: Forming) -> object:
        """Read the register, and do what follows; what the next step is."""
        try:
            version, document = await self._register.read()
            if document is None and self._plan.name == min(self._plan.first, default=""):
                await self._meet(forming)
            journal = self._storage.journal
            if document is not None and journal.cluster_id in ("", document.cluster):
                check_continues(document, document.cluster, journal.promised)
            step = forming.read(version, document)
            if isinstance(step, Form):
                logger.warning("this node forms the cluster of %s", ", ".join(step.document.members))
                await self._register.swap(version, step.document)
        except RegisterError as error:
            self._say(f"the register cannot be asked: {error}")
            return None
        except DocumentError as error:
            self._say(f"what the register holds is no document that this node can go by: {error}")
            return None
        if not isinstance(step, Join | Form | Leave):
            self._say(step.why)
        return step

    async def _meet(self, forming: Forming) -> None:
        """Ask the others who they are."""
        plan = self._plan
        me = stranger(plan.name, self._storage.directory_id, plan.replication)
        others = {name: address for name, address in plan.first.items() if name != plan.name}
        found = await asyncio.gather(
            *(ask(me, address, self._keys) for address in others.values()), return_exceptions=True
        )
        for name, here in zip(others, found, strict=True):
            if isinstance(here, Here) and here.name == name:
                forming.heard(here)
                continue
            forming.lost(name)  # what it said before may be of a directory that is gone
            if isinstance(here, Here):
                self._say(f"at {others[name]} there is the node {here.name!r}, and {name!r} was to be there")
            elif isinstance(here, TransportError):
                logger.info("the node %s: %s", name, here)
            else:
                raise here

    def _here(self) -> Here:
        journal = self._storage.journal
        member = self._plan.member(journal.directory_id)
        return Here(self._plan.name, journal.cluster_id, journal.next_lsn, member, self._heals)

    def _say_mode(self, mode: str) -> None:
        """That a mode of the settings is not looked at; the default one is mostly nobody's wish."""
        if self._plan.mode != mode:
            level = logging.INFO if self._plan.mode == MAJORITY else logging.WARNING
            logger.log(
                level,
                "the mode of this cluster is %s, chosen when it began: cluster_mode %s is not looked at",
                mode,
                self._plan.mode,
            )

    def _say(self, why: str) -> None:
        """Say why nothing happens, when that is another reason than before."""
        if why != self._said:
            self._said = why
            logger.warning("this node waits: %s", why)


async def _rest(seconds: float) -> None:
    """Until so much time has passed; who stops the node cancels it."""
    rested = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, rested.set)
    await rested.wait()
