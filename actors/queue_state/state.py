"""The state of one queue behind one facade: commands in, effects and events out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.queue_state import receiving, sending, subscribing
from actors.queue_state.core import QueueCore
from actors.queue_state.dispatch import resume
from actors.queue_state.log import QueueLog
from actors.queue_state.settings import QueueSettings
from actors.queue_state.statistics import ConnectionStatistics, QueueStatistics, SubscriptionStatistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.batch import MessageBatch
    from actors.queue_state.core import Recorder
    from actors.queue_state.effects import Connection, Effect
    from actors.queue_state.ledger import FetchedRanges
    from actors.queue_state.subscribing import SubscriptionFacts


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
    ) -> None:
        self.name = name
        self.number = number
        self.settings = settings or QueueSettings()
        self._core = QueueCore(self.settings, log or QueueLog(), record)
        subscribing.await_owners(self._core, now)

    @property
    def log(self) -> QueueLog:
        """The durable part; not to be changed."""
        return self._core.log

    def reset(self, now: float) -> list[Connection]:
        """Forget all that is volatile: messages in flight are ready again, possibly replayed, and nobody is connected.

        Returns:
            who was connected.
        """
        core = self._core
        connections = list(dict.fromkeys((*core.senders, *core.receivers, *core.subscribers)))
        core.reset()
        subscribing.await_owners(core, now)
        return connections

    # --- what goes out

    def take_effects(self) -> list[Effect]:
        """What is to be done since the last call, in order."""
        effects = self._core.effects
        if effects:
            self._core.effects = []
        return effects

    @property
    def barrier(self) -> int:
        """The number of the event that must be durable before what the last command returned may be seen outside."""
        return self._core.barrier

    # --- senders

    def attach_sender(self, connection: Connection, producer: str | None) -> int | None:
        """Make a sender known; an older one with the same producer id is superseded.

        Returns:
            the client number after the producer's last stored message; None if nothing is known of it.
        """
        return sending.attach_sender(self._core, connection, producer)

    def request_capacity(self, connection: Connection, messages: int, size: int) -> None:
        """Add to what a sender wants to be granted; GrantCapacity follows as there is room."""
        sending.request_capacity(self._core, connection, messages, size)

    def accept(self, connection: Connection, client_sequence: int, batch: MessageBatch) -> None:
        """Take a batch in; it is stored and confirmed, with all that was accepted before, by ``store``.

        No other command may come between: whoever calls this calls ``store`` first.

        Args:
            connection: the sender's.
            client_sequence: the sender's number of the first message.
            batch: the messages.

        Raises:
            DemandExceededError: it is more than was granted.
            SequenceGapError: messages before it were not sent.
        """
        sending.accept(self._core, connection, client_sequence, batch)

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
        self, connection: Connection, client_sequence: int, batch: MessageBatch, now: float, wall_us: int
    ) -> int | None:
        """``accept`` and ``store`` at once.

        Returns:
            the queue's number of the first message; None if that was stored before.
        """
        item = sending.accept(self._core, connection, client_sequence, batch)
        sending.store(self._core, now, wall_us)
        return None if item.known else self._core.log.next_sequence - len(batch)

    # --- receivers

    def attach_receiver(self, connection: Connection) -> None:
        """Make a receiver known."""
        receiving.attach_receiver(self._core, connection)

    def receive(self, connection: Connection, messages: int, size: int, now: float) -> None:
        """Add to a receiver's demand. It is delivered messages while any of both is left, the last beyond its bytes."""
        receiving.receive(self._core, connection, messages, size, now)

    def acknowledge(self, connection: Connection, pairs: Sequence[tuple[int, int]]) -> None:
        """Remove messages for good.

        A message lost to the visibility timeout is removed if nobody holds it now.

        Raises:
            UnknownAcknowledgementError: one was not delivered on this connection, or was given back already.
        """
        receiving.acknowledge(self._core, connection, pairs)

    def negative_acknowledge(
        self, connection: Connection, pairs: Sequence[tuple[int, int]], delay: float, now: float
    ) -> None:
        """Make messages receivable again after ``delay`` seconds, in their old place; errors as ``acknowledge``."""
        receiving.negative_acknowledge(self._core, connection, pairs, delay, now)

    def extend(self, connection: Connection, pairs: Sequence[tuple[int, int]], seconds: float, now: float) -> None:
        """Move the visibility deadline to ``seconds`` from now; too late for what has expired. Errors as ``acknowledge``."""
        receiving.extend(self._core, connection, pairs, seconds, now)

    def cancel_demand(self, connection: Connection) -> None:
        """Deliver nothing more to a receiver; what it holds it keeps until it detaches."""
        receiving.cancel_demand(self._core, connection)

    def detach(self, connection: Connection, now: float) -> None:
        """Forget a connection, known or not: permits and unacknowledged messages return at once, reservations stay."""
        sending.detach_sender(self._core, connection)
        receiving.detach_receiver(self._core, connection, now)
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
    ) -> SubscriptionFacts:
        """Own a subscription, created if need be, or read one for its owner.

        Args:
            connection: whose requests follow.
            name: the subscription.
            mode: ``own`` takes it over from whoever owned it; ``read`` fetches for the owner with ``epoch``.
            epoch: of the owner, for ``read``; an owner that gives its own goes on after a lost connection, in the same epoch.
            starting: ``earliest``, or ``latest`` for only what is sent after its creation; otherwise ignored.
            owner_timeout: seconds without an owner after which reservations end; None for never.

        Raises:
            SubscriptionNotFoundError: there is none to read.
            StaleEpochError: the owner to read for, or that wants to go on, has been replaced.
            QueueLimitError: there are too many.
        """
        return subscribing.open_subscription(
            self._core, connection, name, mode, epoch=epoch, starting=starting, owner_timeout=owner_timeout
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

    def fetch(self, connection: Connection, start: int, stop: int) -> FetchedRanges:
        """What is at the positions ``start`` <= p < ``stop``; it changes nothing.

        Raises:
            StaleEpochError: there is another owner.
            DataLossError: some of them were acknowledged, released, or never reserved.
        """
        return subscribing.fetch(self._core, connection, start, stop)

    def release_subscription(self, name: str, now: float) -> int:
        """Make what a subscription reserved receivable again, in its old place; returns how many messages.

        Raises:
            SubscriptionNotFoundError: there is none.
        """
        return subscribing.release(self._core, name, now)

    # --- the queue as a whole

    def purge(self) -> int:
        """Drop what is ready or delayed, not what is held or reserved; returns how many messages."""
        return receiving.purge(self._core)

    def tick(self, now: float) -> None:
        """Do what is due: expired leases, ended delays, absent owners, waits that end, deliveries put off."""
        core = self._core
        receiving.expire_leases(core, now)
        receiving.end_delays(core, now)
        subscribing.end_ownerships(core, now)
        resume(core, now)
        subscribing.answer_reservations(core, now)

    def next_deadline(self) -> float | None:
        """When ``tick`` has something to do; it may have been already, and None is never."""
        core = self._core
        earliest = core.leases.next_deadline()
        for deadline in (
            core.ready.next_due(),
            core.owner_deadlines.earliest(),
            core.reservation_deadlines.earliest(),
            core.unfinished_at,
        ):
            if deadline is not None and (earliest is None or deadline < earliest):
                earliest = deadline
        return earliest

    def statistics(self, now: float) -> QueueStatistics:
        """An immutable picture of the queue; costs as much as there are connections and subscriptions."""
        core, log = self._core, self._core.log
        connections = [
            ConnectionStatistics(sender.connection, "sender", sender.permits.messages, 0)
            for sender in core.senders.values()
        ]
        connections += [
            ConnectionStatistics(receiver.connection, "receiver", receiver.demand, receiver.in_flight)
            for receiver in core.receivers.values()
        ]
        for subscriber in core.subscribers.values():
            owner = core.owners[subscriber.ledger.name]
            owns = owner.connection == subscriber.connection
            demand = owner.waiting.demand if owns and owner.waiting is not None else 0
            held = subscriber.ledger.high - subscriber.ledger.base if owns else 0
            connections.append(ConnectionStatistics(subscriber.connection, "subscription", demand, held))
        return QueueStatistics(
            name=self.name,
            ready=core.ready.messages,
            in_flight=core.leases.in_flight,
            reserved=log.reserved_messages,
            delayed=core.ready.delayed_messages,
            demand_waiting=core.ring.total,
            capacity_granted=core.capacity.messages,
            stored_messages=log.stored_messages,
            stored_bytes=log.stored_bytes,
            next_sequence=log.next_sequence,
            total_in=log.total_in,
            total_out=core.total_out,
            total_acknowledged=log.total_acknowledged,
            total_redelivered=core.total_redelivered,
            total_purged=log.total_purged,
            oldest_ms=core.oldest_ms(now),
            connections=tuple(connections),
            subscriptions=tuple(
                SubscriptionStatistics(
                    ledger.name,
                    ledger.epoch,
                    ledger.base,
                    ledger.high,
                    core.owners[ledger.name].connection is not None,
                )
                for ledger in log.ledgers.values()
            ),
        )
