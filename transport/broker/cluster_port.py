"""What a broker asks of the node that it is a part of: the port of the commands on its cluster."""

from __future__ import annotations

from typing import Any, Protocol


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

    async def heal(self, name: str) -> dict[str, Any]:
        """A member that has met damage puts its directory aside, and is filled anew; returns once the register has the change."""

    async def give_up(self) -> dict[str, Any]:
        """Leave the members as they were before the change that is under way."""
