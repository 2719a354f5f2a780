"""What the effects of a node's replica come to: in its directory, at its clients, and with the transfers that it gives and takes."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from actors.errors import StorageError
from actors.storage.failures import is_unreadable
from transport.cluster.transfers import STILL_SECONDS, Transfers

if TYPE_CHECKING:
    from actors.replication.vocabulary import ShippedRecord
    from actors.storage.leader_storage import LeaderStorage
    from actors.storage.node_shipping import NodeShipping, Records
    from actors.storage.node_storage import NodeStorage
    from transport.cluster.node import Node
    from transport.cluster.transfers import Head, Sends, Source

    class Clients(Protocol):
        """What clients meet: `transport.node.service.Service`."""

        async def lead(self, opened: Callable[[], Awaitable[LeaderStorage]]) -> bool:
            """Have a broker stand over a storage; whether it does."""

        def lead_no_more(self) -> None:
            """Tell those at the one that stands to go elsewhere."""

        async def follow(self) -> None:
            """Have none stand."""

    class GivenSource(Source, Protocol):
        """A transfer that is given."""

        def release(self) -> None:
            """Nobody reads it any more."""


AGAIN_SECONDS: Final = 2.0
"""A transfer that failed is asked for again so much later: whoever gives it makes a checkpoint each time."""
MOST_LAG: Final = 0.5
"""Of the log that is kept for who lags, this much may be behind a checkpoint when that is given: the rest is for what comes until it is in
place. Senders go on, and the records before it may have taken minutes."""
AGAIN_WITHOUT_ROOM_SECONDS: Final = 30.0
"""Likewise, where the disk is full: whoever gives it keeps what it would give for so long."""

logger = logging.getLogger("penstock.cluster")


class _Take:
    """A transfer that is wanted, from when it is until it is in place, has failed or is dropped."""

    __slots__ = ("source",)

    def __init__(self, source: str) -> None:
        self.source = source


class NodeWork:
    """Carries out what a `Node` is asked for; see `NodeStore` of node_parts.py, and `TransferNode` of transfers.py.

    Attributes:
        node: is told what was done; set once it is there.
        transfers: what is given and taken.

    Args:
        storage: the directory.
        service: what clients meet.
        links: carry the messages of transfers.
        shipping: what leaves the directory, and what is taken into it.
        leader: told who leads: the id of a directory, or "" where that is not known.
        behind: told where not all of what was to be appended was: too much waits for the disk.
        full: why there is no room for more; None where there is. No transfer is taken into a disk that is full.
    """

    node: Node

    def __init__(
        self,
        storage: NodeStorage,
        service: Clients,
        links: Sends,
        shipping: NodeShipping,
        leader: Callable[[str], None],
        behind: Callable[[], None] = lambda: None,
        full: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.transfers = Transfers(links, self)
        self._storage = storage
        self._service = service
        self._shipping = shipping
        self._leader = leader
        self._behind = behind
        self._full = full
        self._given: dict[str, GivenSource] = {}
        self._lags: dict[str, float] = {}  # behind the checkpoint that was given up last
        self._taking: _Take | None = None
        self._left = True  # something of a transfer may lie aside, from before this start too
        self._opening = asyncio.Lock()  # the folder that is taken into
        self._again: asyncio.TimerHandle | None = None
        self._head: Head | None = None
        self._hindered: Collection[str] = ()  # by whom, as was said last
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Give and take nothing any more."""
        self._forget_taking()
        for peer in list(self._given):
            self.unpin(peer)
        await self.settled()
        await self.transfers.close()

    async def settled(self) -> None:
        """Wait until what was begun in the directory is done."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # The log

    def append(self, records: Sequence[ShippedRecord]) -> None:
        """See `NodeStore`."""
        if self._left:
            self._needs_no_transfer()
        self._storage.append(records)  # type: ignore[arg-type]  # as the journal has them: links make nothing else
        if records and self._storage.log.end <= records[-1].lsn:
            self._behind()

    async def promise(self, epoch: int) -> None:
        """See `NodeStore`."""
        await self._storage.promise(epoch)

    async def end_doubt(self, epoch: int) -> None:
        """See `NodeStore`."""
        await self._storage.end_doubt(epoch)
        logger.warning(
            "this node has all again that it may have answered for: what it promises counts as that of any other"
        )

    async def truncate(self, lsn: int) -> None:
        """See `NodeStore`."""
        await self._storage.truncate(lsn)

    def records(self, lsn: int, most: int) -> Records:
        """See `NodeStore`."""
        return self._shipping.records(lsn, most)

    def end(self) -> int:
        """See `NodeStore`."""
        return self._storage.log.end

    def same_log(self) -> object:
        """See `NodeStore`."""
        return self._shipping.same_log()

    def commit(self, lsn: int) -> None:
        """See `NodeStore`."""
        self._storage.commit(lsn)

    def confirm(self, lsn: int) -> None:
        """See `NodeStore`."""
        self._storage.confirm(lsn)

    def keep(self, lsn: int) -> None:
        """See `NodeStore`."""
        self._storage.keep(lsn)

    # A lead

    def lead(self, epoch: int) -> None:
        """See `NodeStore`."""
        if self._left:
            self._needs_no_transfer()
        self._storage.lead(epoch)

    def open(self, epoch: int, *, whole: bool) -> Coroutine[Any, Any, None]:
        """See `NodeStore`. What may be missing is said at once: whoever leads next takes this one to have said it."""
        if not whole:
            logger.error(
                "this node leads with epoch %d, and messages that the leader before it has confirmed may be missing: not enough nodes "
                "could be asked. What they have is kept in their directories as diverged-... when they come back",
                epoch,
            )
        return self._open(epoch)

    async def _open(self, epoch: int) -> None:
        if await self._service.lead(self._storage.opened):
            logger.warning("this node leads its cluster, with epoch %d", epoch)

    def lead_no_more(self, reason: str) -> None:
        """See `NodeStore`."""
        self._leader("")
        for peer in list(self._given):
            self.unpin(peer)
        try:
            self._service.lead_no_more()
        finally:
            self._storage.step_down(reason)

    async def step_down(self) -> None:
        """See `NodeStore`."""
        await self._service.follow()
        await self._storage.reopen()

    def leader_known(self, leader: str, epoch: int) -> None:
        """See `NodeStore`."""
        if leader:
            logger.info("the node %s leads, with epoch %d", self.node.name_of(leader), epoch)
            self._hindered = ()
        # Until this node's own ports are open, nobody is to be sent to them.
        self._leader("" if leader == self._storage.directory_id else leader)

    def hindered(self, doubted: Collection[str]) -> None:
        """See `NodeStore`. It is said once."""
        if doubted != self._hindered:
            self._hindered = doubted
            logger.warning(
                "nobody can lead: %s cut a write at the end of the log that was damaged or not finished, and it is unknown whether it was "
                "confirmed. Half and one of the members are needed, and at least half of all without such a doubt; or all. "
                "See docs/cluster-damage.md",
                ", ".join(sorted(map(self.node.name_of, doubted))),
            )

    # Transfers

    def give(self, peer: str) -> None:
        """See `NodeStore`."""
        self.unpin(peer)
        self._give(peer)
        name = self.node.name_of(peer)
        logger.warning("the node %s is too far behind for the log, and is given a transfer", name)

    def _give(self, peer: str) -> None:
        self.transfers.give(peer, None)

        def ready(source: GivenSource) -> None:
            if self._given.get(peer) is source:
                self.transfers.give(peer, source)

        self._given[peer] = self._storage.give(ready)

    def unpin(self, peer: str) -> None:
        """See `NodeStore`."""
        self._lags.pop(peer, None)
        self._release(peer)

    def _release(self, peer: str) -> None:
        source = self._given.pop(peer, None)
        if source is not None:
            self.transfers.stop_giving(peer)
            source.release()

    def renewed(self, peer: str, source: GivenSource) -> bool:
        """See `TransferNode`.

        A later one is of use only where less is behind it than behind the one before: a backlog that grows faster than it is given never
        ends, and its log is there.
        """
        lag = self._shipping.lag(source.lsn)
        if lag <= MOST_LAG or self._lags.get(peer, math.inf) <= lag < math.inf:
            return False
        self._release(peer)
        self._lags[peer] = lag
        self._give(peer)
        logger.info(
            "the log behind what the node %s was given may not be there for it: it is given what has come since",
            self.node.name_of(peer),
        )
        return True

    def take(self, source: str) -> None:
        """See `NodeStore`."""
        name = self.node.name_of(source)
        logger.warning("this node is too far behind for the log of %s, and takes a transfer from it", name)
        self._forget_taking()
        self._taking = _Take(source)
        self._begin(self._take(self._taking))

    def drop_transfer(self, source: str) -> None:
        """See `NodeStore`. What has come stays aside: the next one goes on behind it."""
        if self._taking is not None and self._taking.source == source:
            self._forget_taking()

    async def install(self, source: str) -> None:
        """See `NodeStore`."""
        head = self._head
        assert head is not None, "one that is whole is installed"
        await self._shipping.install(head.lsn)
        self._forget_taking()
        self._head = None
        self._left = False
        name = self.node.name_of(source)
        logger.warning("the transfer from %s is in place: this node goes on at record %d", name, head.lsn)

    def _needs_no_transfer(self) -> None:
        """This node's log goes on without one: what a dropped one has left is of no use any more."""
        self._left = False
        self._begin(self._discard())

    async def _discard(self) -> None:
        async with self._opening:
            await self.transfers.let_go()
            if self._taking is not None:
                return  # another one is wanted by now, and goes on behind it
            try:
                if await asyncio.to_thread(self._shipping.discard):
                    logger.info("what a transfer had left is removed: this node has what it needs without")
            except StorageError as error:
                logger.warning("what a transfer has left stays in the data directory: %s", error)

    def _forget_taking(self) -> None:
        take, self._taking = self._taking, None
        if take is not None:
            self.transfers.drop(take.source)
        if self._again is not None:
            self._again.cancel()
            self._again = None

    async def _take(self, take: _Take) -> None:
        """Open what is taken into, which reads what a transfer before has left, and ask for the rest."""
        async with self._opening:
            await self.transfers.let_go()
            if self._taking is not take:
                return
            if (full := self._full()) is not None:
                self._take_failed(take, StorageError(full))
                return
            self._left = True
            try:
                opening = asyncio.ensure_future(asyncio.to_thread(self._shipping.target))
                while not (await asyncio.wait({opening}, timeout=STILL_SECONDS))[0]:
                    if self._taking is take:
                        self.node.taking()  # there may be much of it, and it is not lost time
                target = opening.result()
            except Exception as error:  # noqa: BLE001 - whatever the disk says, it is tried again
                self._take_failed(take, error)
                return
            if self._taking is take:
                self.transfers.take(take.source, target)
            else:
                await asyncio.to_thread(target.close)

    def taking(self, peer: str) -> None:  # noqa: ARG002 - of `TransferNode`
        """See `TransferNode`."""
        self.node.taking()

    def taken(self, peer: str, head: Head) -> None:
        """See `TransferNode`."""
        if self._taking is not None and self._taking.source == peer:
            self._head = head
            self.node.transferred()

    def take_failed(self, peer: str, error: Exception) -> None:
        """See `TransferNode`."""
        if self._taking is not None and self._taking.source == peer:
            self._take_failed(self._taking, error)

    def _take_failed(self, take: _Take, error: Exception) -> None:
        if self._taking is take:
            name = self.node.name_of(take.source)
            logger.warning("the transfer from %s cannot go on, and is asked for again: %s", name, error)
            seconds = AGAIN_SECONDS if self._full() is None else AGAIN_WITHOUT_ROOM_SECONDS
            self._again = asyncio.get_running_loop().call_later(seconds, self._ask_again)

    def _ask_again(self) -> None:
        self._forget_taking()
        self.node.transfer_failed()

    def give_failed(self, peer: str, error: Exception) -> None:
        """See `TransferNode`."""
        logger.error("the transfer to %s cannot be read: %s", self.node.name_of(peer), error)
        self.unpin(peer)
        if is_unreadable(error, self._storage.directory):
            # What others need cannot be read here: another one is to lead.
            self._storage.fail(error)

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
