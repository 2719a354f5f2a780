"""How a node's cluster stands, and changes of its members: what an administrator sees of it, and has it do.

A change is begun here, by who leads, and is done by ``actors/replication/membership.py``. What is answered is that the register has it; a
new member has caught up later, which whoever waits for it sees by `NodeAdministration.standing`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, overload

from actors.replication.document import DocumentError, Member, Places, check_member_name
from actors.replication.limits import BEAT_SECONDS, PREPARE_SECONDS
from actors.replication.register import RegisterError
from actors.replication.standing import AWAY, DAMAGED, WAITING, Marks, standing, standing_outside
from transport.cluster.hello import CLUSTER, LinkRefusedError
from transport.cluster.meeting import ask
from transport.cluster.tidings import NOTHING, UNKNOWN
from transport.config.clustered import parse_node_address
from transport.errors import ClusterChangeError, TransportError
from transport.node.healing import Healing
from transport.node.holding import SendersHolding
from transport.wire.address import Address, parse_address

if TYPE_CHECKING:
    from collections.abc import Collection

    from actors.replication.document import ClusterDocument
    from actors.replication.forming import Here
    from actors.replication.membership import Membership
    from actors.replication.register import Register
    from actors.replication.replica import Replica
    from transport.cluster.hello import Identity
    from transport.cluster.link_settings import LinkKeys
    from transport.cluster.plan import Plan
    from transport.cluster.register_calls import RegisterCalls
    from transport.cluster.tidings import Tidings
    from transport.node.damaged import DamagedNode
    from transport.node.room import Room
    from transport.node.told import Told

CHANGE_SECONDS: Final = PREPARE_SECONDS + 10.0
"""For the register to have a change: what it needs first, and a swap whose answer was lost once."""
LOOK_SECONDS: Final = 0.05
"""From one look at whether it has to the next."""
KEPT_SECONDS: Final = 5.0
"""From one look at what lies in the directory to the next."""

logger = logging.getLogger("penstock.cluster")


class MemberNode(Protocol):
    """What is asked of a node while it is a member."""

    replica: Replica
    register_calls: RegisterCalls

    def look(self) -> None:
        """The document may be newer than it is known here."""

    def disks(self, short: bool, others: Collection[str]) -> None:
        """Whether senders wait for this node's disk, where it leads, and for whose of the others, where they did."""

    def ending(self, others: Collection[str]) -> None:
        """Whose process ends in good order."""


class Administered(Protocol):
    """What is asked of a node at any time: `transport.node.cluster_node.ClusterNode`.

    Attributes:
        told: what it and the others tell of their directories.
        room: for records that others send it.
    """

    plan: Plan
    told: Told
    room: Room

    @property
    def node(self) -> MemberNode | None:
        """What carries out; None while it is no member."""

    @property
    def damaged(self) -> DamagedNode | None:
        """What it is while its directory is damaged."""

    @property
    def me(self) -> Identity:
        """Who it says it is, to one that is of no cluster yet."""

    @property
    def linked(self) -> Collection[str]:
        """To whom it has a connection."""

    @property
    def appended_bytes(self) -> int:
        """Appended to its log."""

    def looked_at(self) -> Tidings:
        """What there is to tell of its directory by now; on any thread."""

    def hold_senders(self, holds: bool) -> None:
        """Have the broker that stands grant senders nothing, or do so again."""


class NodeAdministration:
    """One node's.

    Args:
        node: which.
        keys: of its links.
        register: where the document lies.
        auto_heal: whether it fills others anew that wait for that, where it leads.
    """

    def __init__(self, node: Administered, keys: LinkKeys, register: Register, *, auto_heal: bool = False) -> None:
        self._name = node.plan.name
        self._of = node
        self._keys = keys
        self._register = register
        self._loop = asyncio.get_running_loop()
        self._marks = Marks()
        self._marked = 0  # the epoch that they are of
        self._timer: asyncio.TimerHandle | None = None
        self._changing = asyncio.Lock()
        self._healing = Healing(self, node, auto_heal=auto_heal)
        self._holding = SendersHolding(node.hold_senders)
        self._looking: asyncio.Task[None] | None = None
        self._looked = 0.0
        self._said: Places | None = None  # of which the log says that the document says otherwise

    def use(self, keys: LinkKeys) -> None:
        """Meet others with these from now on."""
        self._keys = keys

    def start(self) -> None:
        """Take marks from now on, by which lag is told."""
        self._mark()

    def stop(self) -> None:
        """Take none any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()
        self._healing.stop()
        self._holding.stop()

    def _mark(self) -> None:
        now = self._loop.time()
        self._timer = self._loop.call_later(BEAT_SECONDS, self._mark)
        node = self._of.node
        if node is None:
            self._holding.stop()
            return
        if now - self._looked >= KEPT_SECONDS and (self._looking is None or self._looking.done()):
            self._looked = now
            self._looking = self._loop.create_task(self._tell())
        leader, membership = node.replica.leader, node.replica.membership
        if leader is not None and membership is not None and leader.epoch != self._marked:
            self._marks, self._marked = Marks(), leader.epoch
        self._say()
        told = self._of.told
        node.disks(told.own.short, told.short)
        node.ending(told.ending)
        if leader is None or membership is None:
            self._holding.stop()
            if node.replica.document_is_old or told.document > node.replica.version:
                node.look()
            return
        self._healing.look(leader)
        self._follow_places(membership)
        appended = self._of.appended_bytes
        self._marks.add(now, leader.log.end, appended)
        self._holding.look(leader, self._marks, appended, told.short, membership.document.name_of)

    def _follow_places(self, membership: Membership) -> None:
        """Have the document say where clients reach members, as their nodes tell."""
        own, told = self._of.told.own, self._of.told
        names = {member.directory: name for name, member in membership.document.members.items()}
        heard = {each: own if name == self._name else told.of(each) for each, name in names.items()}
        membership.reached = {
            directory: tidings.places
            for directory, tidings in heard.items()
            if tidings is not None and tidings.places is not None
        }

    def _say(self, found: Tidings | None = None) -> None:
        """Tell the others what there is to tell of this node, and what was ``found`` of its directory."""
        node, told = self._of.node, self._of.told
        assert node is not None
        membership = node.replica.membership
        changed = 0 if membership is None or membership.version == membership.begun else membership.version
        told.say(
            (found or told.own)._replace(
                short=self._of.room.short,
                document=changed,
                places=self._elsewhere(node.replica),
                ending=told.own.ending,
            )
        )

    async def _tell(self) -> None:
        """Tell the others what there is to tell of the directory."""
        with suppress(OSError):  # a directory that cannot be listed is another's to report
            found = await asyncio.to_thread(self._of.looked_at)
            if self._of.node is not None:
                self._say(found)

    def _elsewhere(self, replica: Replica) -> Places | None:
        """Where clients reach this node, where the document says otherwise: it has been started with other addresses."""
        places, document = self._of.plan.clients, replica.document
        members = () if document is None else document.members.values()
        if not any(member.directory == replica.me and member.places != places for member in members):
            self._said = None
            return None
        if self._said != places:
            self._said = places
            logger.warning(
                "the document says that clients reach this node elsewhere: whoever leads writes there that they reach it at %s",
                ", ".join(place for place in places if place is not None),
            )
        return places

    # What there is to see

    def standing(self) -> dict[str, Any]:
        """See `Cluster` of transport/broker/cluster_commands.py."""
        of = self._of
        node, damaged = of.node, of.damaged
        leads = node is not None and node.replica.leader is not None
        if node is not None:
            document = node.replica.document
            facts = standing(node.replica, self._name, self._loop.time(), of.linked, self._marks, of.appended_bytes)
            facts["register"] = "answers" if node.register_calls.reachable else "does not answer"
        else:
            document = None if damaged is None else damaged.document
            facts = standing_outside(document, self._name, of.linked, WAITING if damaged is None else DAMAGED)
            facts["register"] = None if document is None else "answers"
        facts.update(self._holding.facts(document, leads=leads))
        facts["damage"] = of.told.own.damage or None
        for row in facts["members"]:
            mine = row["name"] == self._name
            if mine and node is not None:
                row["full"] = of.room.full
            told = of.told.own if mine else of.told.of(row["moves_to"] or row["directory"])
            row.update(UNKNOWN if told is None and not row["connected"] else (told or NOTHING).facts())
            if row["damage"] is not None and row["connected"]:
                row["role"] = DAMAGED
            row["damaged"] = None if row["role"] == AWAY else row["role"] == DAMAGED
        return facts

    async def looked(self) -> dict[str, Any]:
        """As above."""
        try:
            _, document = await self._register.read()
            if self._of.node is not None:
                self._of.node.register_calls.check(document)
            register = "answers"
        except (RegisterError, DocumentError) as error:
            register = f"does not answer: {error}"
        await self._tell()
        return self.standing() | {"register": register}

    # What there is to change

    async def add(self, name: str, address: str) -> dict[str, Any]:
        """As above."""
        self._check_name(name)
        where = parse_node_address(address)
        async with self._changing:
            if name in self.membership().document.members:
                raise ClusterChangeError(
                    f"there is a member {name!r} already: one that lives elsewhere now is moved (penstock cluster move)"
                )
            member = (await self.meet(name, where)).member
            await self._change(
                lambda membership: membership.add(name, member), lambda document: name in document.members
            )
        return {"name": name, "directory": member.directory}

    async def remove(self, name: str) -> dict[str, Any]:
        """As above."""
        self._check_name(name)
        async with self._changing:
            directory = self._member(name).directory

            def begun(document: ClusterDocument) -> bool:
                change = document.change
                return name not in document.members or (change is not None and change.name == name)

            await self._change(lambda membership: membership.remove(name), begun)
        return {"name": name, "directory": directory}

    async def move(self, name: str, address: str | None) -> dict[str, Any]:
        """As above."""
        self._check_name(name)
        async with self._changing:
            old = self._member(name)
            if name == self._name:
                raise ClusterChangeError(f"{name!r} leads: restart its node first, so that another one leads")
            where = parse_address(old.replication) if address is None else parse_node_address(address)
            here = None
            if old.directory not in self._of.linked:
                here = await self.meet(name, where)
            elif address is not None:
                here = await self.meet(name, where, linked=True)
            # Its directory has links there already: it lives at another address.
            member = _at(old, where) if here is None else here.member
            if _places(member) == _places(old):
                raise ClusterChangeError(
                    f"the member {name!r} has that directory and those addresses already: there is nothing to move"
                )
            await self._moves(name, member)
        return {"name": name, "directory": member.directory}

    async def give_up(self) -> dict[str, Any]:
        """As above."""
        async with self._changing:
            change = self.membership().document.change
            if change is None:
                raise ClusterChangeError("no change of the members is under way")
            await self._change(lambda membership: membership.give_up(), lambda document: document.change != change)
        return {"kind": change.kind, "name": change.name}

    async def heal(self, name: str) -> dict[str, Any]:
        """As above."""
        self._check_name(name)
        async with self._changing:
            member = await self._healing.renewed(name, self._member(name))
            await self._moves(name, member)
        return {"name": name, "directory": member.directory}

    # Inside

    async def _moves(self, name: str, member: Member) -> None:
        """Have a member be what it is to be, wherever it lives."""

        def begun(now: ClusterDocument) -> bool:
            # What it is to be may be there already: the change was begun, and is done.
            found, change = now.members.get(name), now.change
            done = found is not None and _places(found) == _places(member)
            return done or (change is not None and change.name == name)

        await self._change(lambda membership: membership.move(name, member), begun)

    async def _change(
        self, begin: Callable[[Membership], str | None], begun: Callable[[ClusterDocument], bool]
    ) -> None:
        """Have a change begin, and wait until the document has it."""
        membership = self.membership()
        if (why := begin(membership)) is not None:
            raise ClusterChangeError(why)
        until = self._loop.time() + CHANGE_SECONDS
        while not begun(membership.document):
            self.membership(membership)
            if self._loop.time() >= until:
                raise ClusterChangeError(
                    f"the register did not have the change within {CHANGE_SECONDS:g} s: it does not answer, or those whom the change "
                    "needs have not stored enough. It may still be done: see penstock cluster status"
                )
            looked = asyncio.Event()
            self._loop.call_later(LOOK_SECONDS, looked.set)
            await looked.wait()

    def membership(self, before: Membership | None = None) -> Membership:
        """The document in the hands of this node, which leads; ``before`` where it is to be the same lead still."""
        node = self._of.node
        membership = None if node is None else node.replica.membership
        if membership is None or before not in (None, membership):
            raise ClusterChangeError(
                "this node leads no more: see penstock cluster status whether the change was begun"
            )
        return membership

    def _member(self, name: str) -> Member:
        member = self.membership().document.members.get(name)
        if member is None:
            there = ", ".join(self.membership().document.members)
            raise ClusterChangeError(f"there is no member {name!r}: there are {there}")
        return member

    def _check_name(self, name: str) -> None:
        try:
            check_member_name(name)
        except DocumentError as error:
            raise ClusterChangeError(str(error)) from None

    @overload
    async def meet(self, name: str, where: Address, *, linked: Literal[False] = False) -> Here: ...

    @overload
    async def meet(self, name: str, where: Address, *, linked: bool) -> Here | None: ...

    async def meet(self, name: str, where: Address, *, linked: bool = False) -> Here | None:
        """Ask the node at an address who it is. Where it may have links already, None says that it has."""
        try:
            here = await ask(self._of.me, where, self._keys)
        except TransportError as error:
            if linked and isinstance(error, LinkRefusedError) and error.reason == CLUSTER:
                return None
            if isinstance(error, LinkRefusedError) and error.reason == CLUSTER:
                raise ClusterChangeError(
                    f"the node at {where} takes itself for a member: if it was removed, restart it, and it waits until it is one again"
                ) from None
            raise ClusterChangeError(
                f"no node can be met at {where}: {error}. Start it there first, with --node {name}: it waits until it is a member"
            ) from None
        if here.name != name:
            raise ClusterChangeError(f"at {where} there is the node {here.name!r}, and not {name!r}")
        document = self.membership().document
        if here.cluster not in ("", document.cluster):
            raise ClusterChangeError(
                f"the directory of the node at {where} is of another cluster, {here.cluster}: give it an empty one"
            )
        if here.end > 1 and not here.cluster:
            raise ClusterChangeError(
                f"the directory of the node at {where} holds records, and does not say that they are of this cluster: give it an empty one"
            )
        return here


def _at(member: Member, where: Address) -> Member:
    """A member that was met at another address in the directory that it had: its host is another one, its ports for clients stay."""
    places = Places._make(place and str(Address(where.host, parse_address(place).port)) for place in member.places)
    return replace(member.reached_at(places), replication=str(where))


def _places(member: Member) -> tuple[str | None, ...]:
    return (member.directory, member.replication, *member.places)
