"""What the commands on a broker's cluster do; docs/protocol.md, section "Administration". What carries them out is the node's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Protocol

from transport.errors import NoClusterError
from transport.wire.arguments import string_of

if TYPE_CHECKING:
    from transport.broker.commands import Commands
    from transport.wire.messages import Options

MEETS: Final = ("name", "address")
"""The arguments of ``cluster.add`` and ``cluster.move``."""
NAMES: Final = ("name",)
"""Those of ``cluster.remove``."""
STATUS: Final = "cluster.status"
"""The command that a broker carries out whether it leads or not."""


class Cluster(Protocol):
    """The node that a broker is a part of, as administration sees it."""

    def standing(self) -> dict[str, Any]:
        """How its cluster stands, as far as this node knows at this moment."""

    async def looked(self) -> dict[str, Any]:
        """`standing`, with what the register says now."""

    async def add(self, name: str, address: str) -> dict[str, Any]:
        """Meet the node at ``address`` and have it be a member; returns once the register has it, as a learner."""

    async def remove(self, name: str) -> dict[str, Any]:
        """Have a member go; returns once the register has the change."""

    async def move(self, name: str, address: str | None) -> dict[str, Any]:
        """A member lives in another directory, or at other addresses; returns once the register has the change."""

    async def give_up(self) -> dict[str, Any]:
        """Leave the members as they were before the change that is under way."""


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


async def cluster_give_up(commands: Commands, _arguments: Options) -> Any:
    """Give the change up that is under way."""
    return await _cluster(commands).give_up()


def _cluster(commands: Commands) -> Cluster:
    if commands.cluster is None:
        raise NoClusterError
    return commands.cluster
