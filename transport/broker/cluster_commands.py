"""What the commands on a broker's cluster do; docs/protocol.md, section "Administration". What carries them out is the node's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from transport.errors import NoClusterError
from transport.wire.arguments import string_of

if TYPE_CHECKING:
    from transport.broker.cluster_port import Cluster
    from transport.broker.commands import Commands
    from transport.wire.messages import Options

MEETS: Final = ("name", "address")
"""The arguments of ``cluster.add`` and ``cluster.move``."""
NAMES: Final = ("name",)
"""Those of ``cluster.remove`` and ``cluster.heal``."""
STATUS: Final = "cluster.status"
"""The command that a broker carries out whether it leads or not."""


async def cluster_status(commands: Commands, _arguments: Options) -> bytes:
    """How the cluster stands."""
    return json.dumps(await _cluster(commands).looked(), separators=(",", ":")).encode()


async def cluster_add(commands: Commands, arguments: Options) -> Any:
    """Take in a member."""
    return await _cluster(commands).add(string_of(arguments, "name"), string_of(arguments, "address"))


async def cluster_remove(commands: Commands, arguments: Options) -> Any:
    """Let a member go."""
    return await _cluster(commands).remove(string_of(arguments, "name"))


async def cluster_move(commands: Commands, arguments: Options) -> Any:
    """A member lives elsewhere."""
    address = None if arguments.get("address") is None else string_of(arguments, "address")
    return await _cluster(commands).move(string_of(arguments, "name"), address)


async def cluster_heal(commands: Commands, arguments: Options) -> Any:
    """A member that has met damage is filled anew."""
    return await _cluster(commands).heal(string_of(arguments, "name"))


async def cluster_give_up(commands: Commands, _arguments: Options) -> Any:
    """Give the change up that is under way."""
    return await _cluster(commands).give_up()


def _cluster(commands: Commands) -> Cluster:
    if commands.cluster is None:
        raise NoClusterError
    return commands.cluster
