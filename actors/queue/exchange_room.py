"""What queues have granted a sender to several of them, and what its client may send of that.

To each queue it is a sender like any other, with a share of its room. Its client may send what the fullest of them has granted. What has
gone to some of the queues is used there; of the others it keeps what it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pykka import ActorDeadError

from actors.errors import DemandExceededError
from actors.queue.state.permits import UNBOUNDED
from actors.queue.vocabulary.commands import AttachSender, ExplainWait, Left, RequestCapacity
from actors.queue.vocabulary.replies import CapacityGranted, RoomGranted

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue.vocabulary.needed import Needed
    from actors.queue.vocabulary.stages import StageKey
    from actors.runtime._loop_inbox import Watch
    from actors.runtime.loop_ref import LoopActorRef

FIRST_MESSAGES: Final = 1_024
FIRST_BYTES: Final = 256 * 1024
"""The first window: one good batch, as of a sender to one queue."""
MOST_MESSAGES: Final = 65_536
MOST_BYTES: Final = 16 * 1024 * 1024
"""The largest window."""
PIECE_MESSAGES: Final = 16
"""The window grows where a record has as many of its messages: keys whose queues overlap and alternate make a record of each, and whoever
sends much of that at a time keeps the others waiting."""
ROOM_REQUEST: Final = -1
"""By which a queue is asked whether it has no room for what waits; clients ask by numbers from 0 on."""


class Granted:
    """So much may be sent."""

    __slots__ = ("bytes", "messages")

    def __init__(self, messages: int, size: int) -> None:
        self.messages = messages
        self.bytes = size


class Target(Granted):
    """A queue: what it has granted that is not used, and what it is asked for beside that."""

    __slots__ = ("asked_bytes", "asked_messages", "queue", "watch")

    def __init__(self, queue: LoopActorRef[Any], watch: Watch) -> None:
        super().__init__(0, 0)
        self.queue = queue
        self.watch = watch
        self.asked_messages = self.asked_bytes = 0


class Room:
    """A part of ``ExchangeSender``.

    Args:
        connection: by which the queues know it.
        queue: finds a queue; None where there is none of a name.
        watch: has a function called when a queue has ended.
        stage: where what it sends is held back; None for what can be received at once.
        needed: what it is to have room for; None for one that goes on sending.
        gone: called when a queue has ended: deleted, or failed for good.
        come: called when the queues that something waits for have room, or nothing waits for them any more.
        one_first: whether the client may send one message alone as long as no queue is known. Without that it may send a whole window, be
            the queue full that it turns out to go to.
        arrival: the connection's number, in the order in which they were accepted.
    """

    def __init__(
        self,
        connection: LoopActorRef[Any],
        queue: Callable[[str], LoopActorRef[Any] | None],
        watch: Callable[[LoopActorRef[Any], Callable[[Any], None]], Watch],
        stage: StageKey | None,
        needed: Needed | None,
        gone: Callable[[], None],
        come: Callable[[], None],
        *,
        one_first: bool = False,
        arrival: int = 0,
    ) -> None:
        self._connection = connection
        self._arrival = arrival
        self._queue = queue
        self._watch = watch
        self._stage = stage
        self._tell_gone = gone
        self._tell_come = come
        self._targets: dict[str, Target] = {}
        # A view: those that there are at any time.
        self._each_target = self._targets.values()
        # Queues where something leads that was sent before they were known: it waits until they have room.
        self._awaited: set[str] = set()
        # What may be sent as long as no queue is known; None where that is a window.
        self._unknown = Granted(0, UNBOUNDED) if one_first else None
        self._widens = needed is None
        self._window, self._byte_window = (FIRST_MESSAGES, FIRST_BYTES) if needed is None else needed[:2]
        self._used = self._used_bytes = 0
        # Records that what was sent since it grew has become, beyond one for each batch.
        self._pieces = 0
        # Granted to the client and not used; below zero where a last message led beyond it.
        self._credit = self._byte_credit = 0
        # Sent, and not stored yet: any queue may have to take it.
        self._pending_messages = self._pending_bytes = 0

    # The queues.

    def __len__(self) -> int:
        """How many queues there are."""
        return len(self._targets)

    def look(self, wanted: dict[str, None]) -> None:
        """These are the queues from here on."""
        for name in [name for name in self._targets if name not in wanted]:
            self._leave(name)
        new = [name for name in wanted if name not in self._targets]
        for name in new:
            self._join(name)
        if new:
            # The others are asked when something is used.
            self.ask()

    def leave(self) -> None:
        """The queues have their room back."""
        for name in list(self._targets):
            self._leave(name)

    def fullest(self) -> LoopActorRef[Any] | None:
        """The queue that has granted least; None where there is none."""
        if not self._targets:
            return None
        return min(
            self._targets.values(), key=lambda target: (min(target.messages, target.bytes) > 0, target.messages)
        ).queue

    def _join(self, name: str) -> None:
        queue = self._queue(name)
        if queue is None:
            return
        if self._unknown is not None:
            self._unknown.messages = 0
        self._targets[name] = Target(queue, self._watch(queue, lambda _failure: self._gone(name, queue)))
        with suppress(ActorDeadError):
            queue.tell(AttachSender(stage=self._stage, connection=self._connection, shared=name, arrival=self._arrival))

    def _leave(self, name: str) -> None:
        target = self._targets.pop(name)
        self._has_come(name)
        target.watch.cancel()
        with suppress(ActorDeadError):
            target.queue.tell(Left(connection=self._connection))

    def _gone(self, name: str, queue: LoopActorRef[Any]) -> None:
        """One that comes in its place is found by the next look."""
        target = self._targets.get(name)
        if target is not None and target.queue is queue:
            del self._targets[name]
            self._has_come(name)
            self._tell_gone()

    # Those that were not known when something was sent that leads there.

    @property
    def is_awaited(self) -> bool:
        """Whether something waits for the room of a queue."""
        return bool(self._awaited)

    def there_is_some(self, queues: Iterable[str]) -> bool:
        """Whether each of the queues that is new, and each that was, has granted something; those that are new are asked."""
        new = {queue for queue in queues if queue not in self._targets}
        if new:
            for name in sorted(new):
                self._join(name)
            there = new & self._targets.keys()
            self._awaited |= there
            self.ask()
            for name in sorted(there):
                # It is answered behind what it grants. Only a queue knows whether it has room: it may be filled before it is asked.
                with suppress(ActorDeadError):
                    self._targets[name].queue.tell(ExplainWait(ROOM_REQUEST, self._connection))
        return not self._awaited

    def _has_come(self, name: str) -> None:
        if name in self._awaited:
            self._awaited.discard(name)
            if not self._awaited:
                self._tell_come()

    # What the queues grant.

    def granted(self, granted: RoomGranted) -> bool:
        """A queue has granted something; returns False where it is none of these any more."""
        target = self._targets.get(granted.queue)
        if target is None:
            return False
        target.messages += granted.messages
        target.asked_messages -= granted.messages
        target.bytes += granted.bytes
        target.asked_bytes -= granted.bytes
        if target.messages > 0 and target.bytes > 0:
            self._has_come(granted.queue)
        return True

    def ask(self) -> None:
        """Ask each queue for what is missing to a whole window, in steps of half of it."""
        self._widen()
        for target in self._targets.values():
            messages = self._window - target.messages - target.asked_messages
            size = self._byte_window - target.bytes - target.asked_bytes
            if messages * 2 < self._window and size * 2 < self._byte_window:
                continue
            messages, size = max(0, messages), max(0, size)
            target.asked_messages += messages
            target.asked_bytes += size
            with suppress(ActorDeadError):
                target.queue.tell(RequestCapacity(messages, size, self._connection))

    def _widen(self) -> None:
        if not self._widens or self._pieces * PIECE_MESSAGES > self._used:
            return
        if self._used >= self._window and self._window < MOST_MESSAGES:
            self._used = self._pieces = 0
            self._window = min(MOST_MESSAGES, self._window * 2)
        if self._used_bytes >= self._byte_window and self._byte_window < MOST_BYTES:
            self._used_bytes, self._byte_window = 0, min(MOST_BYTES, self._byte_window * 2)

    # What the client has, and uses.

    def grant(self, unanswered_messages: int, unanswered_bytes: int) -> CapacityGranted | None:
        """What the client may send more: what the fullest queue has room for, within the window.

        In good pieces, or where it has nothing left; else None.
        """
        if self._credit * 2 > self._window and self._byte_credit * 2 > self._byte_window:
            # It has more than half of what it may have at most: no more than the lesser half can be granted.
            return None
        messages = self._window - unanswered_messages
        size = self._byte_window - unanswered_bytes
        for target in self._each_target or self._without_queues(unanswered_messages):
            messages = min(messages, target.messages - self._pending_messages)
            size = min(size, target.bytes - self._pending_bytes)
        messages = max(0, messages - max(0, self._credit))
        size = max(0, size - max(0, self._byte_credit))
        if self._byte_credit < 0 < size:
            # What the last message led beyond its permit is made good.
            size -= self._byte_credit
        useful = messages * 2 >= self._window or size * 2 >= self._byte_window
        stuck = (self._credit <= 0 < messages) or (self._byte_credit <= 0 < size)
        if not (useful or stuck):
            return None
        self._credit += messages
        self._byte_credit += size
        return CapacityGranted(messages, size)

    def _without_queues(self, unanswered_messages: int) -> tuple[Granted, ...]:
        """What may be sent as long as no queue is known: one message, by which one is found, and twice as many as have found none."""
        unknown = self._unknown
        if unknown is None:
            return ()
        if not unanswered_messages and self._credit <= 0:
            unknown.messages = max(1, 2 * unknown.messages)
        return (unknown,) if unknown.messages < self._window else ()

    def check(self, batch: MessageBatch, count: int, size: int) -> None:
        """Raise DemandExceededError where a client sends more than it may."""
        beyond = size > self._byte_credit and batch.prefix_bytes(count - 1) >= self._byte_credit
        if count > self._credit or beyond:
            raise DemandExceededError(count, size, self._credit, self._byte_credit)

    def use(self, count: int, size: int) -> None:
        """The client has sent so much of what it may."""
        self._credit -= count
        self._byte_credit -= size
        self._used += count
        self._used_bytes += size

    def offered(self, batch: MessageBatch) -> None:
        """A batch is to be stored."""
        self._pending_messages += batch.count
        self._pending_bytes += batch.nbytes

    def stored(self, queues: Iterable[str], messages: int, size: int) -> None:
        """Messages are stored in these queues, which have counted them against what they had granted."""
        for name in queues:
            target = self._targets.get(name)
            if target is not None:
                target.messages = max(0, target.messages - messages)
                target.bytes = max(0, target.bytes - size)

    def settled(self, batch: MessageBatch, records: int) -> bool:
        """Nothing of a batch is to be stored any more; it has become a part of so many records. Returns whether that holds for all."""
        self._pending_messages -= batch.count
        self._pending_bytes -= batch.nbytes
        self._pieces += max(0, records - 1)
        return self.is_settled

    @property
    def is_settled(self) -> bool:
        """Whether nothing that was sent is to be stored any more."""
        return not self._pending_messages
