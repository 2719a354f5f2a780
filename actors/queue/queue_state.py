"""The state of one queue behind one facade: commands in, effects and events out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue.operations import browsing, dead_letters, receiving, recovery, sending, staging, subscribing
from actors.queue.operations.dispatch import resume
from actors.queue.operations.expiring import next_expiry
from actors.queue.operations.picture import picture_of
from actors.queue.state.core import QueueCore
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.settings import DEFAULT_TRANSACTION_TIMEOUT, QueueSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.batch import MessageBatch
    from actors.queue.operations.browsing import Browsed
    from actors.queue.operations.staging import StageFacts
    from actors.queue.state.committed_versions import CommittedVersions
    from actors.queue.state.core import Recorder
    from actors.queue.state.ledger import LedgerReader
    from actors.queue.structures.ranges import Range
    from actors.queue.vocabulary.effects import Connection, Effect
    from actors.queue.vocabulary.events import Origin
    from actors.queue.vocabulary.stages import StageKey
    from actors.queue.vocabulary.statistics import QueueStatistics

_PLAIN = subscribing.Opening()


class QueueState:
    """A queue without sockets, clock or threads. Every cost is per batch, lease or connection, none per message.

    A command checks, then lets events have happened, then asks for effects; one that raises a ``QueueError`` has changed
    nothing. After each command ``take_effects()``, and call ``tick`` at ``next_deadline()``. Effects say which event they wait for.

    A connection is anything hashable; one may be sender, receiver and subscription at once. ``now`` is in seconds on a
    clock that never goes back. ``pairs`` are the protocol's (first, count).

    Args:
        name: for statistics.
        number: the queue's number, for the messages' generated ids.
        settings: limits and times.
        log: what was recovered; None for a new queue.
        record: puts each event into a journal before it happens, and returns its number; None for a queue in memory.
        now: the time of the start, from which the timeouts of absent owners count.
        wall_us: the time of day at the start, microseconds since the epoch: what is left of the delays and times to live of what was
            recovered depends on it. It may be set as it likes afterwards.
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
        now: float = 0.0,
        wall_us: int = 0,
        versions: CommittedVersions | None = None,
        transaction_timeout: float = DEFAULT_TRANSACTION_TIMEOUT,
    ) -> None:
        self.name = name
        self.number = number
        self.settings = settings or QueueSettings()
        log = QueueLog() if log is None else log
        self._core = QueueCore(name, self.settings, log, record, now, wall_us, versions, transaction_timeout)
        recovery.restore(self._core, now)
        subscribing.await_owners(self._core, now)

    @property
    def log(self) -> QueueLog:
        """The durable part; not to be changed."""
        return self._core.log

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

    # --- what goes out

    def take_effects(self) -> list[Effect]:
        """What is to be done since the last call, in order."""
        effects = self._core.effects
        if effects:
            self._core.effects = []
        return effects

    @property
    def last_event(self) -> int:
        """The number of the event that must be durable before what a command returned may be seen outside.

        What it returned may tell of any event so far: of a batch that is stored and not durable, a sender would take for confirmed.
        """
        return self._core.last_event

    # --- senders

    def attach_sender(self, connection: Connection, producer: str | None, temporary: bool = False) -> int | None:
        """Make a sender known; an older one with the same producer id is superseded.

        The numbers of ``temporary`` producers, whose name was made up for one run, are remembered apart: however many there are, no
        other is forgotten for them.

        Returns:
            the client number after the producer's last stored message; None if nothing is known of it.
        """
        return sending.attach_sender(self._core, connection, producer, temporary)

    def request_capacity(self, connection: Connection, messages: int, size: int) -> None:
        """Add to what a sender wants to be granted; GrantCapacity follows as there is room."""
        sending.request_capacity(self._core, connection, messages, size)

    def accept(
        self,
        connection: Connection,
        client_sequence: int,
        batch: MessageBatch,
        delay: float | None = None,
        ttl: float | None = None,
    ) -> None:
        """Take a batch in; it is stored and confirmed, with all that was accepted before, by ``store``.

        No other command may come between: whoever calls this calls ``store`` first.

        A queue that rejects stores all of a batch or nothing. What it rejects is confirmed with the reason, in its turn, and so is all
        that the sender sent behind it, so that its messages stay in order: until a batch comes with the number of the first one
        that was rejected, be it that one again or another. So the numbers of what is stored have no gaps, and nothing about a
        rejection needs to be remembered: sent again after a reconnect, such a batch is stored if there is room then.

        Args:
            connection: the sender's.
            client_sequence: the sender's number of the first message.
            batch: the messages.
            delay: seconds until they can be received; None for what the queue declares.
            ttl: seconds, from when they are stored, after which they are not delivered any more; None for what the queue declares, and
                where that is less, that holds. It does not stop for a delay.

        Raises:
            DemandExceededError: it is more than was granted.
            SequenceGapError: messages before it were not sent.
            InvalidRequestError: a delay or a time to live that cannot be.
            QueueLimitError: too many batches wait for a delay.
        """
        sending.accept(self._core, connection, client_sequence, batch, delay, ttl)

    @property
    def storing(self) -> bool:
        """Whether something was accepted that is not stored yet."""
        return bool(self._core.incoming)

    def store(self, now: float, wall_us: int) -> None:
        """Store what was accepted, in as few batches as it takes, and confirm it.

        Args:
            now: seconds.
            wall_us: microseconds since the epoch.
        """
        sending.store(self._core, now, wall_us)

    def send(
        self,
        connection: Connection,
        client_sequence: int,
        batch: MessageBatch,
        now: float,
        wall_us: int,
        delay: float | None = None,
        ttl: float | None = None,
    ) -> int | None:
        """``accept`` and ``store`` at once.

        Returns:
            the queue's number of the first message; None if that was stored before, or is rejected.
        """
        item = sending.accept(self._core, connection, client_sequence, batch, delay, ttl)
        sending.store(self._core, now, wall_us)
        return self._core.log.next_sequence - len(batch) if item.new == len(batch) else None

    def pause_senders(self, reason: str | None) -> None:
        """Have senders wait, whatever room there is, or have what they send rejected where the queue rejects; None ends it.

        What they were granted before may still come. Receivers have nothing to do with it.
        """
        self._core.paused = reason
        self._core.grant()

    # --- transactions

    def attach_stage(self, connection: Connection, stage: StageKey, now: float) -> StageFacts:
        """Make a sender known whose messages are held back; an older one of the same stage is superseded.

        It numbers the stage's messages from 0, and goes on with as many as there are. Until the stage is committed it may
        come and go; it is dropped when it has been away for ``transaction_timeout``.

        Raises:
            InvalidRequestError: a name or a version that cannot be, or the connection is a sender already.
            QueueLimitError: there are too many stages.
        """
        return staging.attach_stage(self._core, connection, stage, now)

    def end_stages(self, published: Sequence[StageKey], discarded: Sequence[StageKey], after: int, now: float) -> None:
        """Act on a commit that has happened in the log: deliver what it published, and let losing senders go.

        It costs the same however many messages there are; again, it changes nothing.

        Args:
            published: whose messages can be received.
            discarded: whose messages are gone.
            after: the number of the event that did it.
            now: seconds.
        """
        staging.end_stages(self._core, published, discarded, after, now)

    def discard_transaction(self, writer: str, version: int, now: float) -> int:
        """Drop what a transaction has staged and let its senders go; returns how many messages."""
        return staging.discard_transaction(self._core, writer, version, now)

    # --- receivers

    def attach_receiver(self, connection: Connection) -> bool:
        """Make a receiver known; returns whether it has to wait because the queue is exclusive and another has it."""
        return receiving.attach_receiver(self._core, connection)

    def receive(self, connection: Connection, messages: int, size: int, now: float) -> None:
        """Add to a receiver's demand. It is delivered messages while any of both is left, the last beyond its bytes."""
        receiving.receive(self._core, connection, messages, size, now)

    def acknowledge(self, connection: Connection, pairs: Sequence[tuple[int, int]]) -> None:
        """Remove messages for good.

        A message lost to the visibility timeout is removed if nobody holds it now, and it is not on its way to a dead-letter queue.

        Raises:
            UnknownAcknowledgementError: one was not delivered on this connection, or was given back already.
        """
        receiving.acknowledge(self._core, connection, pairs)

    def negative_acknowledge(
        self, connection: Connection, pairs: Sequence[tuple[int, int]], delay: float, now: float, failed: bool = True
    ) -> None:
        """Make messages receivable again after ``delay`` seconds, in their old place; errors as ``acknowledge``.

        Where they have ``failed`` ``max_receives`` times, they leave for the dead-letter queue instead.
        ``QueueLimitError`` where too much waits for a delay already.
        """
        receiving.negative_acknowledge(self._core, connection, pairs, delay, now, failed)

    def extend(self, connection: Connection, pairs: Sequence[tuple[int, int]], seconds: float, now: float) -> None:
        """Move the visibility deadline to ``seconds`` from now; too late for what has expired. Errors as ``acknowledge``."""
        receiving.extend(self._core, connection, pairs, seconds, now)

    def cancel_demand(self, connection: Connection) -> None:
        """Deliver nothing more to a receiver; what it holds it keeps until it detaches."""
        receiving.cancel_demand(self._core, connection)

    def detach(self, connection: Connection, now: float, failed: bool = True) -> None:
        """Forget a connection, known or not: permits and unacknowledged messages return at once, reservations stay."""
        staging.detach_stage(self._core, connection, now)
        receiving.detach_receiver(self._core, connection, now, failed)
        subscribing.detach_subscriber(self._core, connection, now)

    # --- subscriptions

    def open_subscription(
        self,
        connection: Connection,
        name: str,
        mode: str,
        *,
        epoch: int | None,
        starting: str,
        owner_timeout: float | None,
        opening: subscribing.Opening = _PLAIN,
    ) -> subscribing.SubscriptionFacts:
        """Own a subscription, created if need be, or read one for its owner.

        Args:
            connection: whose requests follow.
            name: the subscription; to browse there is none.
            mode: ``own`` takes it from an owner that is gone; ``read`` fetches for the owner with ``epoch``; ``browse`` opens nothing, it
                only says what there is for ``browse``.
            epoch: of the owner, for ``read``; an owner that gives its own goes on after a lost connection, in the same epoch.
            starting: ``earliest``, or ``latest`` for only what is sent after its creation; otherwise ignored.
            owner_timeout: seconds without an owner after which reservations end; None for never.
            opening: who the owner is, and whether it takes the subscription from one that is connected.

        Raises:
            SubscriptionNotFoundError: there is none to read.
            SubscriptionOwnedError: its owner is connected, and not to be replaced.
            StaleEpochError: the owner to read for, or that wants to go on, has been replaced.
            QueueLimitError: there are too many.
            InvalidRequestError: the queue is exclusive.
        """
        return subscribing.open_subscription(
            self._core,
            connection,
            name,
            mode,
            epoch=epoch,
            starting=starting,
            owner_timeout=owner_timeout,
            opening=opening,
        )

    def reserve(
        self,
        connection: Connection,
        request: int,
        start: int,
        *,
        messages: int,
        size: int,
        wait: float,
        below: int | None,
        now: float,
    ) -> None:
        """Put ready messages at the ledger's next positions; ``Reserved`` is the answer, now or within ``wait`` seconds.

        If the ledger reaches beyond ``start`` already, that is the answer and nothing is taken. Else up to ``messages``
        and ``size`` bytes (but one message at least) with numbers less than ``below`` are taken. When none is ready it
        waits for the first; a second reservation ends the first one's wait.

        Raises:
            StaleEpochError: there is another owner.
            DataLossError: ``start`` is not within the ledger.
        """
        subscribing.reserve(
            self._core, connection, request, start, messages=messages, size=size, wait=wait, below=below, now=now
        )

    def commit(self, connection: Connection, position: int) -> int:
        """Acknowledge every position below ``position``; again, or for a lower one, it changes nothing.

        Returns:
            the ledger's ``base``.

        Raises:
            StaleEpochError: there is another owner.
            DataLossError: ``position`` was never reserved.
        """
        return subscribing.commit(self._core, connection, position)

    def fetch(self, connection: Connection, start: int, stop: int) -> LedgerReader:
        """What is at the positions ``start`` <= p < ``stop``; it changes nothing.

        Raises:
            StaleEpochError: there is another owner.
            DataLossError: some of them were acknowledged, released, or never reserved.
        """
        return subscribing.fetch(self._core, connection, start, stop)

    def browse(self, start: int, stop: int) -> Browsed:
        """The first of the stored messages with numbers ``start`` <= n < ``stop``: one step, to be followed by one from its ``end`` on.

        Stored is what is not acknowledged: ready, delayed, held, reserved or leaving. It changes nothing, not even what is known of
        the messages' deliveries, which is what they come with: of one that is held or reserved how often it was delivered, of one that
        came back how often where the queue counts (``max_receives``), and otherwise none and not replayed.

        Raises:
            InvalidRequestError: the range is backwards.
        """
        return browsing.browse(self._core, start, stop)

    def release_subscription(self, name: str, now: float, *, delete: bool = False) -> int:
        """Make what a subscription reserved receivable again, in its old place, and ``delete`` it or not; returns how many messages.

        Raises:
            SubscriptionNotFoundError: there is none.
            SubscriptionOwnedError: it is not deleted while its owner is connected.
        """
        return (subscribing.delete if delete else subscribing.release)(self._core, name, now)

    # --- dead letters

    def store_dead_letters(self, batch: MessageBatch, origin: Origin, now: float, wall_us: int) -> None:
        """Store another queue's dead letters, whatever the limits: there is nowhere else for them. ``DeadLettersStored`` is the answer.

        The queue's time to live holds for them, its delay, which is for what is sent, does not.
        """
        dead_letters.store_dead_letters(self._core, batch, origin, now, wall_us)

    def dead_letters_stored(self, ranges: tuple[Range, ...], now: float) -> None:
        """The dead-letter queue has these messages of this one; again, it changes nothing.

        It is not recorded here: the other queue's record says it for both.
        """
        dead_letters.dead_letters_stored(self._core, ranges, now)

    # --- the queue as a whole

    def purge(self) -> int:
        """Drop what is ready or delayed, not what is held, reserved, staged or leaving; returns how many messages."""
        below = self.log.next_sequence
        return sum(iter(lambda: self.purge_step(below), 0))

    def purge_step(self, below: int) -> int:
        """As ``purge``, a part of it, of messages with numbers less than ``below``; returns how many, and 0 when there are none left."""
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
        earliest = core.leases.next_deadline()
        for deadline in (
            core.ready.delayed.earliest(),
            core.limbo.next_deadline(),
            next_expiry(core),
            core.owner_deadlines.earliest(),
            core.reservation_deadlines.earliest(),
            core.staged.absences.earliest(),
            core.unfinished_at,
        ):
            if deadline is not None and (earliest is None or deadline < earliest):
                earliest = deadline
        return earliest

    def statistics(self, now: float) -> QueueStatistics:
        """An immutable picture of the queue; costs as much as there are connections, subscriptions and stages."""
        return picture_of(self._core, now)
