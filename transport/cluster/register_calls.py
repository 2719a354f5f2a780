"""What a node asks of the register: each call in a task of its own, its outcome told to the node's machines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from actors.replication.document import DocumentError, check_continues
from actors.replication.modes import rule_of, voters
from actors.replication.register import RegisterMovedError, RegisterUnavailableError, SwapUnknownError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from actors.replication.document import ClusterDocument
    from actors.replication.register import Register
    from actors.replication.replica import Replica
    from actors.replication.vocabulary import Effects, ReadRegister, SwapRegister

GOES_ON: Final = "all goes on but take-over and membership"
"""Without the register, as long as somebody leads."""

logger = logging.getLogger("penstock.cluster")


class RegisterCalls:
    """The calls of one node.

    Attributes:
        reachable: whether it answered when it was asked last.

    Args:
        register: where the document lies; each of its calls ends within its own deadline.
        replica: what is told of the outcomes.
        tell: has the node tell the replica something, and carry out what follows.
        now: the node's clock.
        connected: the directories of the nodes to whom there is a connection.
    """

    def __init__(
        self,
        register: Register,
        replica: Replica,
        tell: Callable[[Callable[[], Effects]], None],
        now: Callable[[], float],
        connected: Callable[[], Collection[str]],
    ) -> None:
        self._register = register
        self._replica = replica
        self._tell = tell
        self._now = now
        self._connected = connected
        self._tasks: dict[asyncio.Task[None], None] = {}  # in order, so that a simulation is the same each time
        self.reachable = True
        self._said = ""  # last, of what goes on without it

    @property
    def _halted(self) -> bool:
        """Whether it was said that nothing is confirmed, and nobody leads since."""
        return self._said not in ("", GOES_ON)

    def read(self, effect: ReadRegister) -> None:
        """Read the document."""
        self._begin(self._read(effect.number))

    def swap(self, effect: SwapRegister) -> None:
        """Swap the document."""
        self._begin(self._swap(effect.number, effect.version, effect.document))

    def leader_known(self, name: str) -> None:
        """Somebody leads, and is called so: what was said of that is over."""
        if self._halted:
            self._said = GOES_ON
            logger.warning("the node %s leads: it is confirmed again what senders send", name)

    def look(self) -> None:
        """The leader of before may be heard again, of which the replica says nothing."""
        if self._halted and without_register(self._replica, self._now(), ()) == GOES_ON:
            self._said = GOES_ON
            logger.warning("a leader is heard again: without the register %s", GOES_ON)

    async def stop(self) -> None:
        """Wait for nothing any more; a swap that was sent may still be done."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def check(self, document: ClusterDocument | None) -> None:
        """A node that is a member is of one cluster for good. What is of another one is no answer, and nothing follows from it.

        Raises:
            DocumentError: it is.
        """
        known = self._replica.document
        if known is not None:
            check_continues(document, known.cluster, max(known.epoch, self._replica.log.promised))

    def _begin(self, call: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(call)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Who waits for an answer that a defect has kept from it takes it for lost, in its own time."""
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a call of the register has ended on a defect", exc_info=error)

    async def _read(self, number: int) -> None:
        try:
            version, document = await self._register.read()
            self.check(document)
        except (RegisterUnavailableError, DocumentError) as error:
            self._unreachable(error)
            self._tell(lambda: self._replica.register_failed(self._now(), number))
            return
        self._reached()
        self._tell(lambda: self._replica.register_read(self._now(), number, version, document))

    async def _swap(self, number: int, version: int, document: ClusterDocument) -> None:
        try:
            swapped = await self._register.swap(version, document)
        except RegisterMovedError:
            self._reached()
            self._tell(lambda: self._replica.register_moved(self._now(), number))
            return
        except (RegisterUnavailableError, SwapUnknownError, DocumentError) as error:
            self._unreachable(error)
            self._tell(lambda: self._replica.register_failed(self._now(), number))
            return
        self._reached()
        self._tell(lambda: self._replica.register_swapped(self._now(), number, swapped))

    def _reached(self) -> None:
        if not self.reachable:
            self.reachable = True
            self._said = ""
            logger.warning("the register answers again")

    def _unreachable(self, error: Exception) -> None:
        """Said once, until it answers again or something else follows from it."""
        self.reachable = False
        said = without_register(self._replica, self._now(), self._connected())
        if said != self._said:
            self._said = said
            logger.warning("the register does not answer; %s: %s", said, error)


def without_register(replica: Replica, now: float, connected: Collection[str]) -> str:
    """What goes on at this node while the register does not answer, for people.

    Args:
        replica: of this node.
        now: its clock.
        connected: the directories of the nodes to whom there is a connection.
    """
    follower, document = replica.follower, replica.document
    if replica.leader is not None or (follower.leader is not None and not follower.misses(now)):
        return GOES_ON
    needed, heard = "the nodes", ""
    if document is not None:
        rule = rule_of(document)
        needed = f"{' and of '.join(str(len(quorum)) for quorum in rule.quorums)} nodes"
        away = sorted(document.name_of(each) for each in voters((rule,)) - {replica.me, *connected})
        heard = f" (not heard: {', '.join(away)})" if away else " (all of them are heard)"
    return (
        "and this node neither leads nor hears a leader: nothing is confirmed here before one leads again, which takes the register and "
        f"more than half of {needed}{heard}"
    )
