"""A node of a cluster while it runs: one `Replica` that decides, and whoever carries out what it wants, in its order.

All of it is on the event loop. What takes the disk's time is begun, and told to the replica when it is done: a promise, a cut, a transfer,
the end of a lead. The replica asks for nothing that contradicts what is under way.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from actors.replication import vocabulary as say
from actors.replication.forming import no_more
from actors.replication.replica import LEADER
from actors.storage.failures import DivergedReplicaError
from transport.cluster.register_calls import RegisterCalls
from transport.cluster.shipments import Shipments

if TYPE_CHECKING:
    from collections.abc import Collection

    from actors.replication.document import ClusterDocument
    from actors.replication.register import Register
    from actors.replication.replica import Replica
    from actors.replication.vocabulary import Effects, Message
    from transport.cluster.node_parts import NodeLinks, NodeStore

LATE_SECONDS: Final = 0.0005
"""A timer is set so much behind what is due: then it is due by the clock that is looked at."""

logger = logging.getLogger("penstock.cluster")


class Node:
    """One node.

    Attributes:
        replica: what decides.
        register_calls: what it asks of the register.
        diverged: the record from which on this node's log is not the leader's, though it was known as committed; None for none.

    Args:
        replica: of this start; its log is the store's.
        store: what it keeps.
        links: its connections.
        register: where the document lies.
        failed: called once, when it cannot go on.
    """

    def __init__(
        self,
        replica: Replica,
        store: NodeStore,
        links: NodeLinks,
        register: Register,
        failed: Callable[[Exception], None],
    ) -> None:
        self.replica = replica
        self.diverged: int | None = None
        self._store = store
        self._links = links
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self.register_calls = RegisterCalls(register, replica, self.tell, self._loop.time, lambda: links.connected)
        self._shipments = Shipments(store, links, self._begin, self._shipped)
        self._calls: deque[Callable[[], Effects]] = deque()
        self._running = False
        self._ended = False
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._timed: object = None  # what the timer was set for: a lead, or None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stepped_down = asyncio.Event()
        self._document: ClusterDocument | None = None

    # What it is told

    def start(self) -> None:
        """Begin."""
        self.tell(lambda: self.replica.tick(self._now()))

    def connected(self, peer: str) -> None:
        """There is a new connection to a peer."""
        self.tell(lambda: self.replica.connected(self._now(), peer))

    def lost(self, peer: str) -> None:
        """There is none any more, or it was refused."""
        self._shipments.lost(peer)
        self.tell(lambda: self.replica.lost(self._now(), peer))

    def received(self, peer: str, message: Message) -> None:
        """A peer says something."""
        self.tell(lambda: self.replica.received(self._now(), peer, message))

    def unknown(self, peer: str, name: str) -> None:  # noqa: ARG002 - of links
        """Somebody has connected whom the document, as it is known here, does not name."""
        self.look()

    def look(self) -> None:
        """The document may be newer than it is known here."""
        self.tell(lambda: self.replica.look(self._now()))

    def appended(self) -> None:
        """The broker has appended to the log that this node leads."""
        self.tell(lambda: self.replica.appended(self._now()))

    def synced(self) -> None:
        """More of the log is on this node's disk."""
        self.tell(lambda: self.replica.synced(self._now()))

    def room(self, full: bool) -> None:
        """There is no room for more records of a leader, or there is again."""
        self.tell(lambda: self.replica.room(self._now(), full))

    def disks(self, short: bool, others: Collection[str]) -> None:
        """Whether senders wait for this node's disk, where it leads, and for whose of the others, where they did."""
        self.tell(lambda: self.replica.disks(self._now(), short, others))

    def ending(self, others: Collection[str]) -> None:
        """Whose process ends in good order."""
        self.replica.ending(others)

    def taking(self) -> None:
        """A piece of a transfer has come."""
        self.replica.taking(self._now())

    def transferred(self) -> None:
        """A transfer is whole, aside."""
        self.tell(lambda: self.replica.transferred(self._now()))

    def transfer_failed(self) -> None:
        """A transfer cannot go on."""
        self.tell(lambda: self.replica.transfer_failed(self._now()))

    def name_of(self, directory: str) -> str:
        """What the member is called that lives in a directory, as people know it; the directory's id where that is not known."""
        document = self.replica.document
        return directory if document is None else document.name_of(directory)

    async def hand_over(self) -> None:
        """Have another node lead, if this one does, and wait until it leads no more. The broker takes nothing any more."""
        if self.replica.role == LEADER and not self._ended:
            self._stepped_down.clear()
            self.tell(lambda: self.replica.hand_over(self._now()))
            await self._stepped_down.wait()

    async def stop(self) -> None:
        """Carry out nothing more, and wait for what was begun on the disk."""
        self._end()
        self._shipments.forget()
        await self.register_calls.stop()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # The replica

    def tell(self, call: Callable[[], Effects]) -> None:
        """Tell the replica something; carry out what it wants, before it is told anything else."""
        if self._ended:
            return
        calls = self._calls
        calls.append(call)
        if self._running:
            return
        self._running = True
        try:
            while calls:
                for effect in calls.popleft()():
                    _CARRY_OUT[type(effect)](self, effect)
            if not self._ended:
                document = self.replica.document
                if document is not self._document and document is not None:
                    self._follow(document)
                self._set_timer()
        except Exception as error:  # noqa: BLE001 - whatever it is, the node must not go on as if it had been done
            self._fail(error)
        finally:
            self._running = False

    def _follow(self, document: ClusterDocument) -> None:
        """Have links to whom the document names by now."""
        before, self._document = self._document, document
        self._look_whether_member(before, document)
        members = [*document.members.values(), *document.members_after_change.values()]
        self._links.set_peers({member.directory: member.replication for member in members}, document.names)

    def _look_whether_member(self, before: ClusterDocument | None, document: ClusterDocument) -> None:
        """Say what to do where this node is a member no more: the others only tell that they do not know it."""
        me = self.replica.me
        if before is None or me not in before.names or me in document.names:
            return
        name = before.names[me]
        was = before.members.get(name)
        if was is None or was.directory != me:
            was = before.members_after_change[name]
        logger.warning("%s", no_more(name, was, document))

    def _now(self) -> float:
        return self._loop.time()

    def _set_timer(self) -> None:
        leader = self.replica.leader
        if self._timer is not None and leader is not None and leader is self._timed:
            return  # nothing of a lead is due earlier than it was: one that fires too early looks again
        self._timed = leader
        due = self.replica.next_tick(self._now()) + LATE_SECONDS
        if self._timer is not None:
            # One that is earlier looks again; most are moved on with each message, and are not worth a timer each.
            if self._due <= due:
                return
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.tell(lambda: self.replica.tick(self._now()))
        self.register_calls.look()

    def _begin(self, work: Coroutine[Any, Any, None], then: Callable[[], Effects] | None = None) -> None:
        """Have something done that takes its time, and tell the replica then."""

        async def run() -> None:
            try:
                await work
            except Exception as error:  # noqa: BLE001 - as in tell
                self._fail(error)
                return
            if then is not None:
                self.tell(then)

        task = self._loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _fail(self, error: Exception) -> None:
        if not self._ended:
            self._end()
            self._failed(error)

    def _end(self) -> None:
        self._ended = True
        self._calls.clear()
        self._stepped_down.set()
        if self._timer is not None:
            self._timer.cancel()

    # What it wants

    def _send(self, effect: say.Send) -> None:
        self._links.send(effect.to, effect.message)

    def _ship(self, effect: say.Ship) -> None:
        self._shipments.ship(effect)

    def _shipped(self, peer: str, lsn: int, stop: int, nbytes: int) -> None:
        self.tell(lambda: self.replica.shipped(self._now(), peer, lsn, stop, nbytes))

    def _append(self, effect: say.Append) -> None:
        self._store.append(effect.records)

    def _promise(self, effect: say.Promise) -> None:
        def promised() -> Effects:
            now = self._now()
            return self.replica.synced(now) + self.replica.promised(now, effect.epoch)

        self._begin(self._store.promise(effect.epoch), promised)

    def _end_doubt(self, effect: say.EndDoubt) -> None:
        self._begin(self._store.end_doubt(effect.epoch), lambda: self.replica.doubt_ended(self._now()))

    def _truncate(self, effect: say.Truncate) -> None:
        self._begin(self._store.truncate(effect.lsn), lambda: self.replica.truncated(self._now()))

    def _commit(self, effect: say.Commit) -> None:
        self._store.commit(effect.lsn)

    def _confirm(self, effect: say.Confirm) -> None:
        self._store.confirm(effect.lsn)

    def _keep(self, effect: say.Keep) -> None:
        self._store.keep(effect.lsn)

    def _lead(self, effect: say.Lead) -> None:
        logger.warning("this node takes over, with epoch %d", effect.epoch)
        self._store.lead(effect.epoch)
        self.tell(lambda: self.replica.appended(self._now()))

    def _open(self, effect: say.Open) -> None:
        self._begin(self._store.open(effect.epoch, whole=effect.whole))

    def _step_down(self, effect: say.StepDown) -> None:
        reason = effect.reason
        for directory, name in ({} if self._document is None else self._document.names).items():
            reason = reason.replace(directory, name)
        logger.warning("this node leads no more: %s", reason)
        self._shipments.forget()
        self._store.lead_no_more(reason)
        self._begin(self._store.step_down(), self._reopened)

    def _reopened(self) -> Effects:
        self._stepped_down.set()
        return self.replica.reopened(self._now())

    def _give(self, effect: say.Give) -> None:
        self._store.give(effect.to)

    def _unpin(self, effect: say.Unpin) -> None:
        self._store.unpin(effect.to)

    def _take(self, effect: say.Take) -> None:
        self._store.take(effect.source)

    def _drop_transfer(self, effect: say.DropTransfer) -> None:
        self._store.drop_transfer(effect.source)

    def _install(self, effect: say.Install) -> None:
        self._begin(self._store.install(effect.source), lambda: self.replica.installed(self._now()))

    def _diverged(self, effect: say.Diverged) -> None:
        self.diverged = effect.lsn
        logger.critical(
            "the log of this node is not its leader's from record %d on, though it was known as committed here: this node follows "
            "nobody any more. See docs/cluster.md",
            effect.lsn,
        )
        self._fail(
            DivergedReplicaError(
                f"its log is not its leader's from record {effect.lsn} on, though it was known as committed here"
            )
        )

    def _read_register(self, effect: say.ReadRegister) -> None:
        self.register_calls.read(effect)

    def _swap_register(self, effect: say.SwapRegister) -> None:
        self.register_calls.swap(effect)

    def _leader_known(self, effect: say.LeaderKnown) -> None:
        # What was read ahead for who took over would be held until the link to it ends.
        self._shipments.forget()
        self._store.leader_known(effect.leader, effect.epoch)
        if effect.leader:
            self.register_calls.leader_known(self.name_of(effect.leader))


_CARRY_OUT: Final[dict[type, Callable[[Node, Any], None]]] = {
    say.Send: Node._send,
    say.Ship: Node._ship,
    say.Append: Node._append,
    say.Promise: Node._promise,
    say.EndDoubt: Node._end_doubt,
    say.Truncate: Node._truncate,
    say.Commit: Node._commit,
    say.Confirm: Node._confirm,
    say.Keep: Node._keep,
    say.Lead: Node._lead,
    say.Open: Node._open,
    say.StepDown: Node._step_down,
    say.Give: Node._give,
    say.Unpin: Node._unpin,
    say.Take: Node._take,
    say.DropTransfer: Node._drop_transfer,
    say.Install: Node._install,
    say.Diverged: Node._diverged,
    say.ReadRegister: Node._read_register,
    say.SwapRegister: Node._swap_register,
    say.LeaderKnown: Node._leader_known,
    say.Hindered: lambda node, effect: node._store.hindered(effect.doubted),
}
"""How each effect is carried out."""
