"""The broker's queues by name: created on first use or declared, deleted on request."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from actors.errors import InvalidRequestError, QueueLimitError
from actors.queue.changes import Changes
from actors.queue.counts import Counts
from actors.queue.directory_errors import QueueExistsError, QueueNotFoundError, TooManyQueuesError
from actors.queue.distribution import Distributor
from actors.queue.exchange_directory import ExchangeDirectory
from actors.queue.expiring_queues import ExpiringQueues
from actors.queue.found_queues import found_queues
from actors.queue.letters_out import Routes
from actors.queue.measures import Measures
from actors.queue.owned_queues import OwnedQueues
from actors.queue.passing_transactions import PassingTransactions
from actors.queue.pausing import Pausing
from actors.queue.queue_actor import QueueActor
from actors.queue.queue_figures import QueueFigures
from actors.queue.queue_state import QueueState
from actors.queue.routed_stages import RoutedStages
from actors.queue.schedule_directory import ScheduleDirectory
from actors.queue.state.held import Held
from actors.queue.state.leveled_memory import log_in_memory
from actors.queue.state.use import Use
from actors.queue.structures.deadlines import both_clocks
from actors.queue.transactions import TransactionDirectory
from actors.queue.transient_state import TransientQueueState
from actors.queue.vocabulary.commands import AlterQueue, PauseSenders
from actors.queue.vocabulary.differences import differences
from actors.queue.vocabulary.distributed import BatchRead
from actors.queue.vocabulary.settings import (
    DEFAULT_MAX_QUEUES,
    DEFAULT_TRANSACTION_TIMEOUT,
    MAX_ARGUMENTS_BYTES,
    UNALTERABLE,
    QueueSettings,
    dead_letter_settings,
)
from actors.runtime.loop_ref import LoopActorRef

if TYPE_CHECKING:
    from actors.queue.state.log import QueueLog
    from actors.storage import Storage
    from actors.storage.table import JournalEntryTable

logger = logging.getLogger("penstock.queue")


class QueueDirectory(QueueFigures, Pausing):
    """Every queue actor of a broker. Lives on the broker's loop; it is no actor, because nobody else changes it.

    Args:
        settings: what a queue gets that is not declared otherwise.
        wall_clock: seconds since the epoch, for enqueue times.
        max_queues: how many there can be.
        storage: where the queues are durable, with those it recovered; None for queues in memory.
        declared: queues that there shall be, with these settings, whatever settings recovered ones had.
        transaction_timeout: seconds for which what is staged stays without a connection.
        random_bytes: gives so many random bytes, for names; None for the system's.

    Attributes:
        settings: what a queue gets that is not declared otherwise.
        transactions: those over these queues.
        passing: those that go with their connection.
        distributor: stores in several of them at a time.
        exchanges: those in front of them.
        owned: those that go with their owner.
        expiring: those that go when nobody uses them.
        schedules: what is stored in them at times of its own.
        held: whether their senders are held back.
        changes: which queues have changed, as long as somebody wants to know; one that is made or deleted has.
        measures: how long messages take.
    """

    def __init__(
        self,
        settings: QueueSettings,
        wall_clock: Callable[[], float],
        max_queues: int = DEFAULT_MAX_QUEUES,
        storage: Storage | None = None,
        declared: Mapping[str, QueueSettings] | None = None,
        transaction_timeout: float = DEFAULT_TRANSACTION_TIMEOUT,
        random_bytes: Callable[[int], bytes] | None = None,
    ) -> None:
        self.settings = settings
        self.transactions = TransactionDirectory(self, storage, wall_clock)
        self.distributor = Distributor(self, storage, wall_clock)
        stages = RoutedStages(self, self.transactions, transaction_timeout)
        self.exchanges = ExchangeDirectory(self, storage, self.distributor, stages)
        random_bytes = random_bytes or os.urandom
        self.owned = OwnedQueues(self, random_bytes)
        self.passing = PassingTransactions(self, stages, storage, random_bytes, wall_clock)
        self.expiring = ExpiringQueues(self)
        self._transaction_timeout = transaction_timeout
        self._wall_clock = wall_clock
        self._max_queues = max_queues
        self._storage = storage
        self._queues: dict[str, LoopActorRef[QueueActor]] = {}
        self._declared: dict[str, QueueSettings] = {}
        self._arguments: dict[str, bytes] = {}
        self._numbers: dict[str, int] = {}
        self._logs: dict[str, QueueLog] = {}
        self._states: dict[str, QueueState] = {}
        self.changes = Changes()
        self.measures = Measures(wall_clock)
        self._counts = Counts()
        self._next_number = 0
        self._pauses: dict[str, str] = {}
        self._paused: str | None = None
        self.held = Held()
        if storage is not None:
            storage.on_behind = self._storage_behind
        declared = declared or {}
        self._declared_by_broker = frozenset(declared)
        found = () if storage is None else found_queues(storage, self.exchanges, declared, self.settings_of)
        for stored in found:
            if stored.settings is not None:
                self._declared[stored.name] = stored.settings
            if stored.arguments:
                self._arguments[stored.name] = stored.arguments
            self._numbers[stored.name] = stored.number
            self._logs[stored.name] = stored.log
            self._counts.recovered(stored.name, stored.log)
            self._living(stored.name)
        stages.recovered()
        self.schedules = ScheduleDirectory(self, storage, self.exchanges, self.distributor, wall_clock)
        for name, wanted in declared.items():
            # Those count, and are made even so: whoever declares a queue goes before clients who have filled the broker with theirs.
            if name not in self._numbers:
                self._check_dead_letters(name, wanted)
                self._make(name, wanted)

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, name: str) -> bool:
        return name in self._queues

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._numbers))

    def get_or_create(self, name: str) -> LoopActorRef[QueueActor]:
        """The queue ``name``; a new one gets the broker's settings.

        Raises:
            TooManyQueuesError: there is no room for another.
        """
        return self._living(name) if name in self._numbers else self._create(name, None)

    def declare(self, name: str, settings: QueueSettings, arguments: bytes = b"") -> LoopActorRef[QueueActor]:
        """Create the queue ``name`` with ``settings``; again with the same settings is no error.

        ``arguments`` are what it was declared with in the words of whoever asks. They mean nothing here, and are kept for `find` as long
        as the queue is there, over restarts too where it is durable. Those of a queue that is there stay as they are, whatever is said.

        Raises:
            QueueExistsError: it exists with others.
            InvalidRequestError: its dead letters would go to itself.
            QueueLimitError: the arguments are longer than ``MAX_ARGUMENTS_BYTES``.
            TooManyQueuesError: there is no room for another.
        """
        self.check_declared(name, settings)
        if len(arguments) > MAX_ARGUMENTS_BYTES:
            raise QueueLimitError(
                "MAX_ARGUMENTS_BYTES", MAX_ARGUMENTS_BYTES, "declare the queue with fewer arguments, or shorter ones"
            )
        if name not in self._numbers:
            return self._make(name, settings, arguments)
        self.used(name)
        return self._living(name)

    def used(self, name: str) -> None:
        """The queue ``name`` was declared anew, or looked for by whoever relies on it: if it is to expire, that counts from now."""
        if (state := self._states.get(name)) is not None:
            state.use.since = asyncio.get_running_loop().time()

    def check_declared(self, name: str, settings: QueueSettings) -> None:
        """Whether the queue ``name`` could be declared now; it raises as `declare` does, and changes nothing."""
        self._check_dead_letters(name, settings)
        if name not in self._numbers:
            self._check_room(name)
        elif self.settings_of(name) != settings:
            raise QueueExistsError(
                f"queue {name!r} exists with other settings: {differences(name, self.settings_of(name), settings)}"
            )

    @property
    def room(self) -> int:
        """How many queues more there can be."""
        return max(0, self._max_queues - len(self._numbers))

    def is_declared(self, name: str) -> bool:
        """Whether the queue ``name`` has settings of its own, and not the broker's."""
        return name in self._declared

    def alter(self, name: str, changed: Mapping[str, Any]) -> AlterQueue:
        """Record other settings for the queue ``name``, which holds after a restart too. What it holds stays.

        A queue that has the broker's settings has its own from then on. One that the broker declares at its start has those again then.

        Args:
            name: the queue's.
            changed: settings by their names in `QueueSettings`; the others stay as they are.

        Returns:
            what the queue is to be asked at once, so that it goes on with them.

        Raises:
            QueueNotFoundError: there is none.
            InvalidRequestError: one of `UNALTERABLE` would change, or its dead letters would go to itself.
            ValueError: settings that cannot be.
            StorageError: it cannot be recorded. Nothing has changed.
        """
        settings = self.check_altered(name, changed)
        number = 0 if self._storage is None else self._storage.redeclare(self._numbers[name], settings)
        self._declared[name] = settings
        self.used(name)
        self.expiring.look_at(name)
        if name in self._declared_by_broker:
            logger.warning(
                "queue %s is altered until the next start: the broker's own settings declare it, so alter it there too",
                name,
            )
        return AlterQueue(settings, number)

    def check_altered(self, name: str, changed: Mapping[str, Any]) -> QueueSettings:
        """The settings that the queue ``name`` would have; it raises as `alter` does, and changes nothing."""
        if name not in self._numbers:
            raise QueueNotFoundError(name)
        before = self.settings_of(name)
        settings = replace(before, **changed)
        for fixed, why in UNALTERABLE.items():
            if getattr(settings, fixed) != getattr(before, fixed):
                raise InvalidRequestError(
                    f"{fixed} of queue {name!r} cannot be altered, for {why}: delete the queue and declare it anew"
                )
        self._check_dead_letters(name, settings)
        return settings

    def get(self, name: str) -> LoopActorRef[QueueActor]:
        """The queue ``name``; raises QueueNotFoundError where there is none."""
        if name not in self._numbers:
            raise QueueNotFoundError(name)
        return self._living(name)

    def known(self, name: str) -> LoopActorRef[QueueActor] | None:
        """The queue ``name`` as it is, which may have failed for good; None where there is none."""
        return self._queues.get(name)

    def settings_of(self, name: str) -> QueueSettings:
        """The settings that the queue ``name`` has, or would get."""
        if name in self._declared:
            return self._declared[name]
        # All queues' dead letters go there, so it must not have dead letters of the same kind.
        return dead_letter_settings(self.settings) if name == self.settings.dead_letter_queue else self.settings

    def number_of(self, name: str) -> int:
        """The number of the queue ``name``, part of its messages' generated ids; never another queue's, whoever was deleted."""
        return self._numbers[name]

    def logs(self) -> dict[str, QueueLog]:
        """The durable part of each queue, by name; to be looked at only. A queue in memory that failed for good has none."""
        if self._storage is not None:
            return self._logs
        return {name: self._logs[name] for name, queue in self._queues.items() if queue.is_alive()}

    def delete(self, name: str) -> None:
        """Remove the queue ``name``, one that has failed too, and end its connections; what it held is gone.

        Raises:
            QueueNotFoundError: there is none.
            StorageError: it cannot be recorded. Nothing has changed.
        """
        if name not in self._numbers:
            raise QueueNotFoundError(name)
        self.exchanges.queue_deleted(name, self._numbers[name])
        del self._numbers[name]
        self.owned.deleted(name)
        self.expiring.deleted(name)
        self._declared.pop(name, None)
        self._arguments.pop(name, None)
        self._logs.pop(name, None)
        queue = self._queues.pop(name, None)
        self._counts.deleted(name, self._states.pop(name, None), queue)
        self.changes.note(name)
        if queue is not None:
            # Its connections hear of it as it stops. It need not be alive, and its inbox may be full.
            queue.stop_nowait()

    def values(self) -> list[LoopActorRef[Any]]:
        """Queues, by name; see ``items``."""
        return [queue for _, queue in self.items()]

    def end(self) -> None:
        """Delete nothing any more of itself."""
        self.expiring.end()
        self.schedules.end()

    async def stop(self) -> None:
        """As `end`, and stop the queues; those too that a request under way has made meanwhile."""
        self.end()
        while living := [queue for queue in self.values() if queue.is_alive()]:
            for queue in living:
                await queue.stop(block=False)

    def items(self) -> list[tuple[str, LoopActorRef[Any]]]:
        """Names and queues, by name. One that failed for good is among them until somebody asks for it: it cannot answer."""
        return sorted(self._queues.items())

    async def durable(self) -> None:
        """Return when everything that was declared or deleted so far is durable; at once for queues in memory."""
        if self._storage is not None:
            await self._storage.synced()

    async def acknowledged(self) -> None:
        """As `durable`, of what was acknowledged so far."""
        if self._storage is not None:
            await self._storage.acknowledged()

    # --- limits of the broker as a whole

    def _dead_letter_queue(self, name: str) -> LoopActorRef[QueueActor]:
        """The queue ``name``, made for dead letters if it is not there."""
        if name not in self._numbers:
            return self._create(name, dead_letter_settings(self.settings))
        return self.get_or_create(name)

    def set_memory_pressure(self, pressed: bool) -> None:
        """Keep in memory only what is under way, or recent batches again. Queues in memory have nowhere else to go."""
        if self._storage is not None:
            self._storage.set_memory_pressure(pressed)

    # --- inside

    def _create(self, name: str, settings: QueueSettings | None) -> LoopActorRef[QueueActor]:
        self._check_room(name)
        return self._make(name, settings)

    def _check_room(self, name: str) -> None:
        if not self.room:
            raise TooManyQueuesError(name, self._max_queues)

    @staticmethod
    def _check_dead_letters(name: str, settings: QueueSettings) -> None:
        if settings.dead_letter_queue == name:
            raise InvalidRequestError(f"queue {name!r} cannot be its own dead-letter queue: name another")

    def _make(self, name: str, settings: QueueSettings | None, arguments: bytes = b"") -> LoopActorRef[QueueActor]:
        if self._storage is None:
            self._numbers[name] = self._next_number
            self._next_number += 1
        else:
            own = self.settings_of(name)
            if settings is None and (not own.durable or own.max_priority is not None):
                # What is stored says so itself: the next start forgets it, or finds its levels, whatever the broker's settings are then.
                settings = own
            stored = self._storage.declare(name, settings, arguments)
            self._numbers[name] = stored.number
            self._logs[name] = stored.log
        if settings is not None:
            self._declared[name] = settings
        if arguments:
            self._arguments[name] = arguments
        return self._living(name)

    def _living(self, name: str) -> LoopActorRef[QueueActor]:
        """The actor of a queue that there is; the only place where one is started, and started anew where it failed for good.

        From storage its successor has all that it held; in memory that is gone, and it begins empty.
        """
        queue = self._queues.get(name)
        if queue is None or not queue.is_alive():
            queue = self._queues[name] = self._start(name)
        return queue

    def _wake(self, name: str) -> None:
        """A large batch may leave a queue that could not."""
        queue = self._queues.get(name)
        if queue is not None and queue.is_alive():
            queue.actor_inbox.offer_beyond_bound(BatchRead())

    def start_actor(self, *arguments: Any) -> LoopActorRef[Any]:
        """The actor of a queue, started with the arguments of `QueueActor`; whoever watches queues starts one of another class."""
        return QueueActor.start(*arguments)

    def _start(self, name: str) -> LoopActorRef[QueueActor]:
        storage, number = self._storage, self._numbers[name]
        if storage is None:
            self._logs[name] = log_in_memory(self.settings_of(name))
        if (failed := self._states.get(name)) is not None:
            self._counts.begins_anew(failed, self._logs[name])
        settings = self.settings_of(name)
        made, record = QueueState, None
        if storage is not None:
            record = storage.record if settings.durable else storage.record_unawaited
            made = QueueState if settings.durable else TransientQueueState
        now, wall_us = both_clocks(asyncio.get_running_loop(), self._wall_clock)
        state = made(
            name,
            number,
            settings,
            log=self._logs[name],
            record=None if record is None else partial(record, number),
            record_all=None if storage is None else storage.record_all,
            now=now,
            wall_us=wall_us,
            versions=self.transactions.versions,
            transaction_timeout=self._transaction_timeout,
            use=Use(partial(self.expiring.look_at, name)),
            held=self.held,
        )
        if storage is not None:
            cast("JournalEntryTable", self._logs[name].table).wake = partial(self._wake, name)
        if storage is not None and not settings.durable:
            # What it delivers has its number in it, and no other queue may get that: nothing goes out before its declaration is durable.
            state.depend_on(storage.recorded)
        self._states[name] = state
        self.has_levels = self.has_levels or settings.max_priority is not None
        self.changes.note(name)
        own_queue = self._dead_letter_queue
        held, line = self.exchanges.held, self.exchanges.letters
        routes = Routes(self.exchanges.exchanges, self, self.distributor, own_queue, held, line)
        queue = self.start_actor(state, self._wall_clock, storage, own_queue, self.changes, self.measures, routes)
        if self._paused is not None:
            queue.tell(PauseSenders(self._paused))
        return queue
