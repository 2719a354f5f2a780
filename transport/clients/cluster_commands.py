"""What administration does with a cluster: it says how that stands, and changes its members. docs/cluster.md."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

from transport.clients.message_commands import Facts
from transport.errors import RemoteProtocolError

CHANGE_TIMEOUT: Final = 30.0
"""Seconds for a change to be begun: the other node is met, and the register asked, and both may take theirs."""
HEAL_TIMEOUT: Final = 60.0
"""The same of a member that is filled anew: its node puts a directory aside first."""
STATUS_TIMEOUT: Final = 15.0
"""Seconds for how a cluster stands: the register is asked, which may not answer."""


class ClusterCommands(ABC):
    """These commands, for who can send one."""

    @abstractmethod
    async def _command_within(self, name: str, arguments: Facts, seconds: float) -> Any:
        """Send one COMMAND, and wait for so long for its RESULT's JSON value."""

    async def cluster(self) -> Facts:
        """How the cluster stands: ``node``, ``role``, ``epoch``, ``leader``, ``mode``, ``register``, ``members`` and more.

        The leader knows of each member how far behind it is; another node, which answers with ``any_node`` alone, knows only whether
        there is a connection.

        Raises:
            BrokerError: ``no-cluster``: the broker is alone.
        """
        answer = await self._command_within("cluster.status", {}, STATUS_TIMEOUT)
        if not isinstance(answer, dict) or not isinstance(answer.get("members"), list):
            raise RemoteProtocolError(f"the broker's answer about its cluster is of another shape: {answer!r:.80}")
        return answer

    async def add_member(self, name: str, address: str) -> Facts:
        """Take the node at ``address`` in, as a learner; it counts once it has caught up, which `cluster` shows.

        Args:
            name: the node's.
            address: where the other nodes reach it, ``host`` or ``host:port``.

        Raises:
            BrokerError: ``change-refused``, with why.
        """
        return await self._change("cluster.add", {"name": name, "address": address})

    async def remove_member(self, name: str) -> Facts:
        """Let a member go that does not lead; as of `add_member`."""
        return await self._change("cluster.remove", {"name": name})

    async def move_member(self, name: str, address: str | None = None) -> Facts:
        """A member lives in another directory, or at another address, from now on, once it has caught up there; as of `add_member`."""
        return await self._change("cluster.move", {"name": name, "address": address})

    async def heal_member(self, name: str) -> Facts:
        """A member that has met damage puts its directory aside, and is filled anew in an empty one; as of `add_member`."""
        return await self._change("cluster.heal", {"name": name}, HEAL_TIMEOUT)

    async def give_up_change(self) -> Facts:
        """Leave the members as they were before the change that is under way; as of `add_member`."""
        return await self._change("cluster.give_up", {})

    async def _change(self, name: str, arguments: Facts, seconds: float = CHANGE_TIMEOUT) -> Facts:
        answer = await self._command_within(name, arguments, seconds)
        if not isinstance(answer, dict):
            raise RemoteProtocolError(f"the broker's answer to {name} is of another shape: {answer!r:.80}")
        return answer
