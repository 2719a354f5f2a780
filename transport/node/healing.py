"""A member whose directory is damaged is filled anew: by whoever leads, when a person says so, or by itself where its node asks for that.

The node is told to put its directory aside, and waits in a new one then, as one that was wiped does. So what follows is a move.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol

from transport.cluster.tidings import Heal
from transport.errors import ClusterChangeError
from transport.wire.address import Address, parse_address

if TYPE_CHECKING:
    from actors.replication.document import ClusterDocument, Member
    from actors.replication.forming import Here
    from actors.replication.leader import Leader
    from actors.replication.membership import Membership
    from transport.node.told import Told

RENEWED_SECONDS: Final = 20.0
"""For a node to put its directory aside, and to be met in the new one."""
MEET_SECONDS: Final = 0.25
"""From one try to meet it to the next."""
AGAIN_SECONDS: Final = 10.0
"""After a try to fill a member anew without a person, or a look at who waits for that."""

logger = logging.getLogger("penstock.cluster")


class Administers(Protocol):
    """What carries out a change: `NodeAdministration`."""

    async def meet(self, name: str, where: Address) -> Here:
        """Ask the node at an address who it is; ClusterChangeError where there is none that can be taken."""

    async def heal(self, name: str) -> object:
        """Have a member filled anew."""

    async def move(self, name: str, address: str | None) -> object:
        """Have a member live where its node is now."""

    def membership(self) -> Membership:
        """The document in the hands of this node, which leads."""


class Node(Protocol):
    """Of the node that leads.

    Attributes:
        told: what the others have told.
    """

    told: Told

    @property
    def linked(self) -> object:
        """To whom it has a connection."""


class Healing:
    """What whoever leads does for members that are damaged.

    Args:
        administers: carries out changes.
        node: this one.
        auto_heal: whether to look for those that wait to be filled anew without a person, though a leader before has put them aside.
    """

    def __init__(self, administers: Administers, node: Node, *, auto_heal: bool) -> None:
        self._administers = administers
        self._node = node
        self._auto_heal = auto_heal
        self._loop = asyncio.get_running_loop()
        self._not_before = 0.0
        self._under_way: asyncio.Task[None] | None = None

    async def renewed(self, name: str, member: Member) -> Member:
        """Have a member's node put its directory aside, and what the member is in the new one.

        Raises:
            ClusterChangeError: it has met no damage, or is not there; or the members are changed already.
        """
        membership = self._administers.membership()
        if membership.document.change is not None:
            raise ClusterChangeError("a change is under way already")
        where = parse_address(member.replication)
        told = self._node.told.of(member.directory)
        if told is not None and told.damage:
            logger.warning("the member %s is filled anew: %s", name, told.damage)
            if not self._node.told.heal(member.directory, Heal()):
                raise ClusterChangeError(f"the node {name!r} is not connected: start it")
            return await self._renewed(name, member, where)
        # It may have been told already, by a leader before this one.
        unhurt = ClusterChangeError(
            f"the node {name!r} has met no damage that this one has heard of: penstock cluster status says who has. Where its "
            "disk was lost, start it with an empty directory, and use penstock cluster move"
        )
        try:
            here = await self._administers.meet(name, where)
        except ClusterChangeError:
            raise unhurt from None
        if here.member.directory == member.directory:
            raise unhurt  # it has just started, and is about to be a member again
        return here.member

    async def _renewed(self, name: str, member: Member, where: Address) -> Member:
        """Until it is met in another directory."""
        until = self._loop.time() + RENEWED_SECONDS
        while True:
            try:
                here = await self._administers.meet(name, where)
                if here.member.directory != member.directory:
                    return here.member
                raise ClusterChangeError(f"the node {name!r} is in the directory that was damaged still")
            except ClusterChangeError as error:
                if self._loop.time() >= until:
                    raise ClusterChangeError(
                        f"the node {name!r} was told to put its directory aside, and is not met in a new one: {error}. See its log, and "
                        "try again"
                    ) from None
            await _passed(MEET_SECONDS)

    # Without a person

    def look(self, leader: Leader) -> None:
        """Have those filled anew that have asked for it, one at a time, where enough others have all; called once a beat by who leads."""
        if self._loop.time() < self._not_before or (self._under_way is not None and not self._under_way.done()):
            return
        membership = self._administers.membership()
        document = membership.document
        if document.change is not None:
            return
        for name, member in document.members.items():
            told = self._node.told.of(member.directory)
            if told is not None and told.damage and told.asks and enough_others(document, leader, name):
                self._begin(self._heal(name))
                return
        if self._auto_heal and (away := self._away(document, leader)):
            self._begin(self._fill_those_that_wait(away))

    def stop(self) -> None:
        """Begin nothing more."""
        self._not_before = float("inf")
        if self._under_way is not None:
            self._under_way.cancel()

    def _begin(self, work: object) -> None:
        self._not_before = self._loop.time() + AGAIN_SECONDS
        self._under_way = self._loop.create_task(work)  # type: ignore[arg-type]

    async def _heal(self, name: str) -> None:
        try:
            await self._administers.heal(name)
        except ClusterChangeError as error:
            logger.warning("the member %s cannot be filled anew: %s", name, error)

    def _away(self, document: ClusterDocument, leader: Leader) -> dict[str, Address]:
        """Members that may wait in a new directory, for a leader before this one has told them, and could be filled."""
        linked = self._node.linked
        return {
            name: parse_address(member.replication)
            for name, member in document.members.items()
            if member.directory not in (*linked, leader.me) and enough_others(document, leader, name)  # type: ignore[misc]
        }

    async def _fill_those_that_wait(self, away: dict[str, Address]) -> None:
        for name, where in away.items():
            try:
                if (await self._administers.meet(name, where)).heals:
                    await self._administers.move(name, None)
                    return
            except ClusterChangeError as error:
                logger.debug("the member %s is not filled anew: %s", name, error)


def enough_others(document: ClusterDocument, leader: Leader, name: str) -> bool:
    """Whether half + 1 of those that count have all, without the one of this name: only then may that be given up."""
    counted = {each: member for each, member in document.members.items() if not member.learner}
    others = [member for each, member in counted.items() if each != name]
    in_step = sum(member.directory == leader.me or leader.caught_up(member.directory) for member in others)
    return in_step > len(counted) // 2


async def _passed(seconds: float) -> None:
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await passed.wait()
