"""The state of one queue: commands in, effects and events out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from actors.queue.operations import browsing, dead_letters, receiving, recovery, sending, staging, subscribing
from actors.queue.operations.browsing import describe
from actors.queue.operations.dispatch import next_expiry, resume
from actors.queue.state.core import QueueCore
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.replies import MarkReached, Tell
from actors.queue.vocabulary.settings import DEFAULT_TRANSACTION_TIMEOUT, QueueSettings

if TYPE_CHECKING:
    from actors.queue.state.core import Recorder, RecorderOfAll
    from actors.queue.state.staged import CommittedVersions
    from actors.queue.vocabulary.replies import Connection, Effect, QueueStatistics


class QueueState:
    """A queue without sockets, clock or threads. Every cost is per batch, lease or connection, none per message.

    A command checks, then lets events have happened, then asks for effects; one that raises a ``QueueError`` has changed
    nothing. After each command ``take_effects()``, and call ``tick`` at ``next_deadline()``. Effects say which event they wait for.

    A connection is anything hashable; one may be sender, receiver and subscription at once. ``now`` is in seconds on a
    clock that never goes back, ``wall_us`` the time of day in microseconds since the epoch.

    Args:
        name: for statistics.
        number: the queue's number, for the messages' generated ids.
        settings: limits and times.
        log: what was recovered; None for a new queue.
        record: puts each event into a journal before it happens, and returns its number; None for a queue in memory.
        record_all: the same for events of this queue and others that happen in one instant, which it has happen in all of them.
        now: the time of the start, from which the timeouts of absent owners count.
        wall_us: the time of day at the start: what is left of the delays and times to live of what was recovered depends on it. It may
            be set as it likes afterwards.
        versions: the last committed version of each writer, which the queues of a broker share; None where nobody commits.
        transaction_timeout: seconds for which a stage stays without a connection.
    """

    __slots__ = ("_core", "name", "number", "settings")

    def __init__(
        self,
        name: str,
        number: int,
        settings: QueueSettings | None = None,
        *,
        log: QueueLog | None = None,
        record: Recorder | None = None,
        record_all: RecorderOfAll | None = None,
        now: float = 0.0,
        wall_us: int = 0,
        versions: CommittedVersions | None = None,
        transaction_timeout: float = DEFAULT_TRANSACTION_TIMEOUT,
    ) -> None:
        self.name = name
        self.number = number
        self.settings = settings or QueueSettings()
        log = QueueLog() if log is None else log
        self._core = QueueCore(
            name, number, self.settings, log, record, record_all, now, wall_us, versions, transaction_timeout
        )
        recovery.restore(self._core, now)
        subscribing.await_owners(self._core, now)

    @property
    def log(self) -> QueueLog:
        """The durable part; not to be changed."""
        return self._core.log

    @property
    def last_event(self) -> int:
        """The number of the event that must be durable before what a command returned may be seen outside.

        What it returned may tell of any event so far: of a batch that is stored and not durable, a sender would take for confirmed.
        """
        return self._core.last_event

    def execute(self, command: commands.Command, now: float, wall_us: int) -> Any:
        """Carry out one command; returns the answer to one that the broker asks, None of all others.

        Raises:
            QueueError: it is refused, and nothing has changed.
        """
        core = self._core
        core.wall_us = wall_us
        kind = type(command)
        if core.incoming and kind not in BESIDE_INCOMING:
            # What was accepted comes first: no other command may see the queue without it.
            sending.store(core, now, wall_us)
        return _OPERATIONS[kind](core, command, now)

    def forget(self, connection: Connection, now: float) -> None:
        """``Left`` of a connection that is gone already: what was accepted is not stored before, for it cannot be delivered there."""
        _leave(self._core, commands.Left(connection=cast("Any", connection)), now)

    def accept(self, command: commands.OfferBatch) -> None:
        """``execute`` of a batch, which looks at no clock: it is taken in, and stored by ``store``."""
        sending.accept(self._core, command, 0.0)

    @property
    def storing(self) -> bool:
        """Whether something was accepted that is not stored yet."""
        return bool(self._core.incoming)

    @property
    def accepted(self) -> int:
        """How many batches are accepted that are not stored yet."""
        return len(self._core.incoming)

    def store(self, now: float, wall_us: int) -> None:
        """Store what was accepted, in as few batches as it takes, and confirm it."""
        sending.store(self._core, now, wall_us)

    def take_effects(self) -> list[Effect]:
        """What is to be done since the last call, in order."""
        effects = self._core.effects
        if effects:
            self._core.effects = []
        return effects

    def purge_step(self, below: int) -> int:
        """Drop some of what a purge drops of messages with numbers less than ``below``; returns how many, and 0 when none are left."""
        return receiving.purge_step(self._core, below)

    def tick(self, now: float) -> None:
        """Do what is due: expired leases and messages, ended delays, absent owners and writers, waits that end, deliveries put off."""
        core = self._core
        receiving.expire_leases(core, now)
        receiving.end_delays(core, now)
        dead_letters.hand_over_again(core, now)
        subscribing.end_ownerships(core, now)
        staging.end_absences(core, now)
        resume(core, now)
        subscribing.answer_reservations(core, now)

    def next_deadline(self) -> float | None:
        """When ``tick`` has something to do; it may have been already, and None is never."""
        core = self._core
        earliest = core.unfinished_at
        for heap in core.heaps:
            if heap.live:
                deadline = heap.earliest()
                if deadline is not None and (earliest is None or deadline < earliest):
                    earliest = deadline
        for deadline in (
            (core.outbox.next_hand_over(), next_expiry(core)) if core.ttl_below or core.outbox.waiting else ()
        ):
            if deadline is not None and (earliest is None or deadline < earliest):
                earliest = deadline
        return earliest

    def statistics(self, now: float) -> QueueStatistics:
        """The queue as it is; costs as much as there are connections, subscriptions and stages."""
        return describe(self._core, now)

    def reset(self, now: float, wall_us: int | None = None) -> list[Connection]:
        """Forget all that is volatile: messages in flight are ready again, possibly replayed, and nobody is connected. Returns who was.

        Delays go on, and so does a pause. ``wall_us`` is for whoever comes back from the dead: without it the clocks go on as they were.
        """
        core = self._core
        connections = list(dict.fromkeys((*core.senders, *core.receivers, *core.subscribers)))
        core.reset(now, wall_us)
        recovery.restore(core, now)
        subscribing.await_owners(core, now)
        return connections

    def end(self) -> None:
        """Nobody asks any more: what is left is free as soon as nobody has this state."""
        self._core.end()


def _attach_sender(core: QueueCore, command: commands.AttachSender, now: float) -> None:
    (sending.attach_sender if command.stage is None else staging.attach_stage)(core, command, now)


def _leave(core: QueueCore, command: commands.Left, now: float) -> None:
    staging.detach_stage(core, command.connection, now)
    receiving.detach_receiver(core, command.connection, now, command.failed)
    subscribing.detach_subscriber(core, command.connection, now)


def _mark(core: QueueCore, command: commands.CaughtUp, _now: float) -> None:
    core.effects.append(Tell(command.connection, MarkReached(), core.last_event if command.answered else 0))


def _pause(core: QueueCore, command: commands.PauseSenders, _now: float) -> None:
    core.paused = command.reason
    core.grant()


BESIDE_INCOMING = frozenset({commands.OfferBatch, commands.CaughtUp})
"""What may come between a batch that is accepted and its being stored: others that are stored with it, and a mark."""

_OPERATIONS: dict[type, Callable[[QueueCore, Any, float], Any]] = {
    commands.AttachSender: _attach_sender,
    commands.RequestCapacity: sending.request_capacity,
    commands.OfferBatch: sending.accept,
    commands.AttachReceiver: receiving.attach_receiver,
    commands.DemandSignalled: receiving.receive,
    commands.DemandWithdrawn: receiving.withdraw_demand,
    commands.Acknowledged: receiving.acknowledge,
    commands.Rejected: receiving.reject,
    commands.Extended: receiving.extend,
    commands.Left: _leave,
    commands.CaughtUp: _mark,
    commands.OpenSubscription: subscribing.open_subscription,
    commands.ReserveRequested: subscribing.reserve,
    commands.CommitRequested: subscribing.commit,
    commands.FetchRequested: subscribing.fetch,
    commands.BrowseRequested: browsing.browse,
    commands.StoreDeadLetters: dead_letters.store_dead_letters,
    commands.DeadLettersMoved: dead_letters.dead_letters_moved,
    commands.EndStages: staging.end_stages,
    commands.DiscardTransaction: staging.discard_transaction,
    commands.PauseSenders: _pause,
    commands.ReleaseSubscription: subscribing.release_or_delete,
}
OPERATIONS = frozenset(_OPERATIONS)
"""The commands that ``QueueState`` carries out; the others ask for its ``statistics``, and for a purge in steps."""
