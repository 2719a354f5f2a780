"""How the other machines' etcds know this one, whose folder holds nothing yet: by that it begins an etcd with them, joins them, or waits.

An etcd knows its machines from its folder, once it has been started. One whose folder is empty has to be told. Where the others have an
etcd already, it joins as a member that they await. Where they know it as one that was there, its folder was lost: what it had promised to
them is gone, and it must not vote as who it was. They have to forget it, and await another one in its place.

Each of the others is asked at both of its ports. At that for clients an etcd answers once it has been one of a majority, and by then it has
heard who is a member. At that for other etcds it answers from its start on, also without a majority, but it may have yet to read from its
disk what it knows: that counts when it has said the same for ``SETTLED_SECONDS``. A machine that refuses the connection has no etcd that
runs, and has none at all only if its broker runs, which would have started it: after a loss of power those may come last whose disks have
everything. An etcd that ends again and again is away for some seconds between two starts, and is not seen then. A machine that is silent
may have one, and is asked on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple

from transport.cluster.addresses import Machine, OwnEtcd
from transport.cluster.etcd_settings import DATA_FOLDER
from transport.cluster.gateway import AnswerLostError, Gateway, NobodyThereError, NotSentError
from transport.wire.address import Address

MEMBERS: Final = "/v3/cluster/member/list"
MEMBERS_TOLD_PEERS: Final = "/members"
ASK_SECONDS: Final = 1.0
"""For the others, who are asked all at once."""
SETTLED_SECONDS: Final = 2.0
"""So long an etcd without a majority says the same before that counts: by then it has read what its disk has. And for so long none runs
where a broker does: by then that has started the one that it has."""
SILENT_SECONDS: Final = 10.0
"""So long it is asked who is silent, where the rest could begin an etcd without it: then its machine is taken to be off."""
REMOVED_FOLDER: Final = "removed-{}"
"""What an etcd had that the others have removed, by a number."""


class Standing(Enum):
    """How the others know this machine."""

    ALONE = "alone"
    """None of them has been part of an etcd, as far as one can tell. etcd asks the others too before it begins."""
    UNHEARD = "unheard"
    """One that may know it does not answer."""
    AWAITED = "awaited"
    """As a member that has not been there yet."""
    LOST = "lost"
    """As a member that was there."""
    UNKNOWN = "unknown"
    """Not at all."""


_BY_WEIGHT: Final = (Standing.UNKNOWN, Standing.LOST, Standing.AWAITED)


class Known(NamedTuple):
    """What the others say.

    Attributes:
        standing: of this machine.
        peers: by which URLs the members of their etcd know one another, this machine too where they know it.
        why: for whom one waits, where one is unheard; to be shown.
    """

    standing: Standing
    peers: frozenset[str] = frozenset()
    why: str = ""


class Said(NamedTuple):
    """What one of them says.

    Attributes:
        standing: as it knows this machine; alone where it has been part of no etcd either.
        member: the ID under which it knows this machine; empty for none.
        peers: as of `Known`.
        begins: whether it runs, and waits for the first majority of all.
        there: whether it will say what it knows, though it does not yet; then it is waited for as long as it takes.
        why: it is unheard.
    """

    standing: Standing
    member: str = ""
    peers: frozenset[str] = frozenset()
    begins: bool = False
    there: bool = False
    why: str = ""


def has_begun(folder: Path) -> bool:
    """Whether the etcd of a folder has been part of one; what it found out before it failed to begin does not count."""
    return any((folder / DATA_FOLDER / "member" / "wal").glob("*.wal"))


def put_aside(folder: Path) -> Path:
    """Put away what an etcd had that the others have removed, so that its folder is empty; where that is now. OSError as of the system."""
    number = 1
    while (aside := folder / REMOVED_FOLDER.format(number)).exists():
        number += 1
    return (folder / DATA_FOLDER).rename(aside)


class Others:
    """The other machines' etcds, which are asked again and again.

    Args:
        own: which machine this is, and the others.
        gateway: what asks them.
        clock: seconds.
        brokers: where the other machines' brokers take one another's connections; a machine that is not named has none that is asked.
        listens: whether anybody does so at an address.
    """

    def __init__(
        self,
        own: OwnEtcd,
        gateway: Gateway,
        clock: Callable[[], float] = time.monotonic,
        *,
        brokers: Mapping[str, Address] | None = None,
        listens: Callable[[Address], Awaitable[bool]] | None = None,
    ) -> None:
        self._own = own
        self._gateway = gateway
        self._clock = clock
        self._brokers = brokers or {}
        self._listens = listens or somebody_listens
        self._since: float | None = None
        self._first: dict[str, tuple[Said, float]] = {}  # what each has said without a majority, and since when

    async def known(self) -> Known:
        """Ask them, all at once: each etcd for ``ASK_SECONDS``, and where that refuses, its broker for as long."""
        if self._since is None:
            self._since = self._clock()
        others = {name: machine for name, machine in self._own.machines.items() if name != self._own.node}
        said = await asyncio.gather(*(self._ask(name, machine) for name, machine in others.items()))
        return judged(said, self._clock() - self._since)

    async def _ask(self, name: str, other: Machine) -> Said:
        to_clients, to_peers = await asyncio.gather(self._at_clients_port(other), self._at_peers_port(name, other))
        settles = to_peers.peers or name in self._brokers
        if to_clients is not None or to_peers.standing is Standing.UNHEARD or not settles:
            self._first.pop(name, None)
            return to_clients or to_peers
        now = self._clock()
        first, since = self._first.setdefault(name, (to_peers, now))
        if first == to_peers and now - since >= SETTLED_SECONDS:
            return to_peers
        if first != to_peers:
            self._first[name] = (to_peers, now)
        why = "has not found enough others yet" if to_peers.peers else "does not run yet"
        return Said(Standing.UNHEARD, there=True, why=f"the etcd at {other.peers} {why}")

    async def _at_clients_port(self, other: Machine) -> Said | None:
        try:
            answer = await self._gateway.post(other.clients, MEMBERS, {}, None, ASK_SECONDS)
        except (NotSentError, AnswerLostError):
            return None
        members = _members(answer.fields.get("members"))
        return self._understood(members, "ID") if members else None

    async def _at_peers_port(self, name: str, other: Machine) -> Said:
        try:
            members = _members(await self._gateway.get_list(other.peers, MEMBERS_TOLD_PEERS, ASK_SECONDS))
        except NobodyThereError:
            broker = self._brokers.get(name)
            if broker is None or await self._listens(broker):
                return Said(Standing.ALONE)
            why = f"at {other.peers} no etcd runs yet, nor a broker at {broker}, which starts the one that may be there"
            return Said(Standing.UNHEARD, there=True, why=why)
        except (NotSentError, AnswerLostError) as error:
            return Said(Standing.UNHEARD, why=str(error))
        if not members:
            return Said(Standing.UNHEARD, there=True, why=f"the etcd at {other.peers} knows no members yet")
        said = self._understood(members, "id")
        if said.standing is Standing.AWAITED and not any(member.get("clientURLs") for member in members):
            # Each says where its clients reach it as soon as there is a majority.
            return said._replace(standing=Standing.ALONE, begins=True)
        return said

    def _understood(self, members: list[dict[str, Any]], key: str) -> Said:
        urls = frozenset(url for member in members for url in _urls(member))
        for member in members:
            if any(url.endswith(f"://{self._own.own.peers}") for url in _urls(member)):
                # It says itself where its clients reach it, when it comes.
                standing = Standing.LOST if member.get("clientURLs") else Standing.AWAITED
                return Said(standing, str(member.get(key)), urls)
        return Said(Standing.UNKNOWN, peers=urls)


def judged(said: Sequence[Said], waited: float) -> Known:
    """What follows from what all of the others say, who have been asked for so many seconds."""
    lost = {each.member for each in said if each.standing is Standing.LOST}
    # Whoever awaits another member than the rest has heard the most, and who awaits one that was there the least.
    knows = [
        each
        for each in said
        if each.standing in _BY_WEIGHT and not (each.standing is Standing.AWAITED and each.member in lost)
    ]
    if knows:
        best = max(knows, key=lambda each: (_BY_WEIGHT.index(each.standing), len(each.peers)))
        return Known(best.standing, best.peers)
    unheard = [each for each in said if each.standing is Standing.UNHEARD]
    half = (len(said) + 1) // 2
    if not unheard or 1 + sum(each.begins for each in said) > half:
        return Known(Standing.ALONE)
    why = "; ".join(each.why for each in unheard)
    if any(each.there for each in unheard) or 1 + len(said) - len(unheard) <= half:
        # They would not be enough to begin one.
        return Known(Standing.UNHEARD, why=why)
    if waited < SILENT_SECONDS:
        return Known(Standing.UNHEARD, why=f"{why}; after {SILENT_SECONDS:.0f} s it begins without an answer")
    return Known(Standing.ALONE)


async def somebody_listens(address: Address) -> bool:
    """Whether a connection is taken at an address, within ``ASK_SECONDS``."""
    with suppress(OSError, TimeoutError, UnicodeError):
        async with asyncio.timeout(ASK_SECONDS):
            _, writer = await asyncio.open_connection(address.host, address.port)
        writer.transport.abort()
        return True
    return False


def _members(said: object) -> list[dict[str, Any]]:
    return [member for member in said if isinstance(member, dict)] if isinstance(said, list) else []


def _urls(member: dict[str, Any]) -> list[str]:
    urls = member.get("peerURLs")
    return [url for url in urls if isinstance(url, str)] if isinstance(urls, list) else []
