"""What nodes tell one another of their directories (`Tidings`): this one's to the others, and theirs as they were heard last."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from transport.cluster.tidings import NOTHING, Tidings


class Sends(Protocol):
    """What carries messages: `ClusterLinks`."""

    @property
    def connected(self) -> Collection[str]:
        """To whom there is a connection."""

    def send(self, peer: str, message: Any) -> bool:
        """Send one; whether there is a connection."""


class Told:
    """Of one node, whatever it is at the time.

    Attributes:
        own: what this one has to tell.
    """

    def __init__(self) -> None:
        self.own = NOTHING
        self._others: dict[str, Tidings] = {}
        self._links: Sends | None = None

    def begin(self, links: Sends) -> None:
        """There are links."""
        self._links = links

    def end(self) -> None:
        """There are none any more."""
        self._links = None
        self._others.clear()

    def connected(self, peer: str) -> None:
        """There is a connection to a peer, a new one: what it has said before may be of another start."""
        self._others.pop(peer, None)
        if self.own != NOTHING and self._links is not None:
            self._links.send(peer, self.own)

    def received(self, peer: str, message: object) -> bool:
        """Take what a peer tells; False for any other message, which is for others to handle."""
        if not isinstance(message, Tidings):
            return False
        self._others[peer] = message
        return True

    def say(self, own: Tidings) -> None:
        """This is what there is to tell by now."""
        if own == self.own:
            return
        self.own = own
        if self._links is not None:
            for peer in sorted(self._links.connected):
                self._links.send(peer, own)

    def of(self, directory: str) -> Tidings | None:
        """What a node has told last; None for nothing."""
        return self._others.get(directory)

    @property
    def short(self) -> frozenset[str]:
        """Those at whose disks senders would wait, where they led."""
        return frozenset(directory for directory, each in self._others.items() if each.short)

    @property
    def ending(self) -> frozenset[str]:
        """Those whose process ends, or has ended so."""
        return frozenset(directory for directory, each in self._others.items() if each.ending)

    @property
    def document(self) -> int:
        """The version of the latest document that any peer has told of."""
        return max((each.document for each in self._others.values()), default=0)

    def heal(self, directory: str, message: Any) -> bool:
        """Send a node that has met damage what it is to do; whether there is a connection."""
        return self._links is not None and self._links.send(directory, message)
