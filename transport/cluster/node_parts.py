"""What a `Node` (node.py) is made of beside its replica: its connections to the other nodes, and what it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence

    from actors.replication import vocabulary as say
    from actors.replication.vocabulary import Message
    from actors.storage.node_shipping import Records


class NodeLinks(Protocol):
    """The connections to the other nodes, by the ids of their directories."""

    def set_peers(self, peers: Mapping[str, str], names: Mapping[str, str]) -> None:
        """Which nodes there are: the address of each by its directory, and what it is called."""

    @property
    def connected(self) -> Collection[str]:
        """To whom there is a connection."""

    def send(self, peer: str, message: Message) -> bool:
        """Send a message; whether there is a connection for it."""

    def ship(self, peer: str, message: Message, shipped: Callable[[], None]) -> bool:
        """Send one with records; whether more may be sent at once. If not, ``shipped`` is called when it may, unless `Node.lost` is."""


class NodeStore(Protocol):
    """What a node keeps: the log and the state that follows from it. Errors of any call are the end of the node."""

    def append(self, records: Sequence[say.ShippedRecord]) -> None:
        """Append what a leader has sent; `Node.synced` is told when it is on the disk."""

    async def promise(self, epoch: int) -> None:
        """Sync the log, then promise an epoch."""

    async def end_doubt(self, epoch: int) -> None:
        """The log has all again that it may have been answered for: it is so noted."""

    async def truncate(self, lsn: int) -> None:
        """Cut the log from ``lsn`` on; a copy is kept."""

    def records(self, lsn: int, most: int) -> Records:
        """Records from ``lsn`` on that any thread may read, or RecordsGoneError."""

    def end(self) -> int:
        """One more than the number of the last record of the log."""

    def same_log(self) -> object:
        """The same object as long as the log is not cut, replaced or opened anew."""

    def commit(self, lsn: int) -> None:
        """What is below ``lsn`` is committed."""

    def confirm(self, lsn: int) -> None:
        """The leader's: what is below ``lsn`` may be confirmed and delivered."""

    def keep(self, lsn: int) -> None:
        """The leader's: the log is needed from ``lsn`` on."""

    def lead(self, epoch: int) -> None:
        """Write this epoch from now on, and append the first record of it."""

    def open(self, epoch: int, *, whole: bool) -> Coroutine[Any, Any, None]:
        """Have the broker open its ports. If it is not whole, that is said in this call, before anything is awaited."""

    def lead_no_more(self, reason: str) -> None:
        """Confirm and deliver nothing any more, from now on."""

    async def step_down(self) -> None:
        """Have the broker close its ports, and be a follower's again."""

    def give(self, peer: str) -> None:
        """Be ready to give a transfer."""

    def unpin(self, peer: str) -> None:
        """A transfer is over."""

    def take(self, source: str) -> None:
        """Begin to take a transfer."""

    def drop_transfer(self, source: str) -> None:
        """Give up a transfer."""

    async def install(self, source: str) -> None:
        """Put a transfer that is whole in the place of the log."""

    def leader_known(self, leader: str, epoch: int) -> None:
        """Who leads now; "" where that is not known any more."""

    def hindered(self, doubted: Collection[str]) -> None:
        """Nobody can lead, for these are in doubt."""
