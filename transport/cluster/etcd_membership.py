"""How the other machines' etcds know this one, whose folder holds nothing yet: by that it begins an etcd with them, joins them, or waits.

An etcd knows its machines from its folder, once it has been started. One whose folder is empty has to be told. Where the others have an
etcd already, it joins as a member that they await. Where they know it as one that was there, its folder was lost: what it had promised to
them is gone, and it must not vote as who it was. They have to forget it, and await another one in its place.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from transport.cluster.addresses import OwnEtcd
from transport.cluster.etcd_settings import DATA_FOLDER
from transport.cluster.gateway import AnswerLostError, Gateway, NotSentError
from transport.wire.address import Address

MEMBERS: Final = "/v3/cluster/member/list"
ASK_SECONDS: Final = 1.0
"""For the others, who are asked all at once."""


class Standing(Enum):
    """How the others know this machine."""

    ALONE = "alone"
    """None of them answers: there is no etcd yet, as far as one can tell. etcd asks the others too before it begins."""
    AWAITED = "awaited"
    """As a member that has not been there yet."""
    LOST = "lost"
    """As a member that was there."""
    UNKNOWN = "unknown"
    """Not at all."""


_BY_WEIGHT: Final = (Standing.ALONE, Standing.UNKNOWN, Standing.LOST, Standing.AWAITED)


class Known(NamedTuple):
    """What the others say.

    Attributes:
        standing: of this machine.
        peers: by which URLs the members of their etcd know one another, this machine too where they know it.
    """

    standing: Standing
    peers: frozenset[str] = frozenset()


def has_begun(folder: Path) -> bool:
    """Whether the etcd of a folder has been part of one; what it found out before it failed to begin does not count."""
    return any((folder / DATA_FOLDER / "member" / "wal").glob("*.wal"))


async def known(own: OwnEtcd, gateway: Gateway) -> Known:
    """Ask the others. One may know less than another; whoever awaits it has heard the most."""
    others = [machine.clients for name, machine in own.machines.items() if name != own.node]
    said = await asyncio.gather(*(_ask(each, own.own.peers, gateway) for each in others))
    return max(said, key=lambda each: (_BY_WEIGHT.index(each.standing), len(each.peers)), default=Known(Standing.ALONE))


async def _ask(other: Address, peers: Address, gateway: Gateway) -> Known:
    try:
        answer = await gateway.post(other, MEMBERS, {}, None, ASK_SECONDS)
    except (NotSentError, AnswerLostError):
        return Known(Standing.ALONE)
    members = answer.fields.get("members")
    if not isinstance(members, list):
        return Known(Standing.ALONE)
    members = [member for member in members if isinstance(member, dict)]
    urls = frozenset(url for member in members for url in _urls(member))
    for member in members:
        if any(url.endswith(f"://{peers}") for url in _urls(member)):
            # It says itself where its clients reach it, when it comes.
            return Known(Standing.LOST if member.get("clientURLs") else Standing.AWAITED, urls)
    return Known(Standing.UNKNOWN, urls)


def _urls(member: dict[str, object]) -> list[str]:
    urls = member.get("peerURLs")
    return [url for url in urls if isinstance(url, str)] if isinstance(urls, list) else []
