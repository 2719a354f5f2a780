"""The stages that are written through exchanges: who writes each, how far it is, which queues have some of it, and when it is given up.

Such a stage is in several queues, and its sender knows none of them. So it is discarded in all of them in one instant, or in none: whoever
comes again finds all that was confirmed to it, or nothing. It is discarded when nobody has written it for the time that a stage may be
without its sender, be it that it lies in queues where nothing of it goes any more.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from actors.errors import QueueLimitError, StageDiscardedError, StageGoneError, StorageError, TransactionCommittedError
from actors.exchanges.limits import MAX_DESTINATIONS
from actors.queue.operations.staging import check_stage
from actors.queue.state.newest import OF_STAGE, TakenOverError, check_newest
from actors.queue.structures.deadlines import DeadlineHeap, each_due
from actors.queue.vocabulary.settings import MAX_STAGES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from actors.errors import QueueError
    from actors.queue.owned_queues import OwnedQueues
    from actors.queue.state.log import QueueLog
    from actors.queue.transactions import TransactionDirectory
    from actors.queue.vocabulary.stages import StageKey
    from actors.runtime.loop_ref import LoopActorRef

DISCARDED_TOGETHER = 256
"""Stages that are given up in one turn of the loop; the next ones follow in the next turn."""

logger = logging.getLogger("penstock.transactions")


class Queues(Protocol):
    """What it asks of the broker's queues; see ``QueueDirectory``."""

    def __contains__(self, name: str) -> bool:
        """Whether there is a queue of this name."""

    def logs(self) -> dict[str, QueueLog]:
        """The durable part of each queue, by name."""

    @property
    def owned(self) -> OwnedQueues:
        """Those that go with a receiver."""

    def number_of(self, name: str) -> int:
        """The number of a queue that there is."""

    def values(self) -> list[LoopActorRef[Any]]:
        """All queues."""


class StageSender(Protocol):
    """Who writes a stage; see ``ExchangeSender``."""

    failed: QueueError | None
    arrival: int

    def end(self, code: str, text: str) -> None:
        """Nothing more is taken; the client is told, once."""


@dataclass(eq=False, slots=True)
class RoutedStage:
    """A stage that is written through an exchange, or was.

    Attributes:
        sender: who writes it; None while nobody does.
        number: every message below it is in each queue that it went to, or went to none.
        event: the last event by which that is so.
        queues: those that have stored some of it, by number: name, and the log that has it.
        deadline: when it is given up; ``heap`` is what knows that.
    """

    key: StageKey
    sender: StageSender | None = None
    number: int = 0
    event: int = 0
    queues: dict[int, tuple[str, QueueLog]] = field(default_factory=dict)
    deadline: float | None = None
    heap: object | None = None


class Begun(NamedTuple):
    """What whoever goes on with a stage finds.

    Attributes:
        last_number: as ``SenderAttached`` tells it.
        committed: whether the stage's version is.
        event: this may be told when it is durable.
        by_queue: the number behind the last message that each queue has of it.
    """

    last_number: int | None
    committed: bool
    event: int
    by_queue: Mapping[str, int]


class RoutedStages:
    """Lives on the broker's loop; it is no actor, like the ``QueueDirectory`` that has it.

    Args:
        queues: the broker's.
        transactions: discards, and knows what is committed.
        timeout: seconds for which a stage stays whose sender is away.
    """

    def __init__(self, queues: Queues, transactions: TransactionDirectory, timeout: float) -> None:
        self._queues = queues
        self._transactions = transactions
        self._timeout = timeout
        self._stages: dict[StageKey, RoutedStage] = {}
        self._absences: DeadlineHeap[RoutedStage] = DeadlineHeap()
        self._timer: asyncio.TimerHandle | None = None
        transactions.aborted = self._aborted

    def recovered(self) -> None:
        """What was found at the start has no sender as of now; what goes with a connection is discarded, for that is gone."""
        passing = False
        for log in self._queues.logs().values():
            for key, stage in log.stages.items():
                if key.passing:
                    passing = True
                elif stage.numbers is not None and key not in self._stages:
                    self._await(self._found(key))
        if passing:
            self._transactions.discard(lambda key: key.passing)

    @property
    def committed_by(self) -> int:
        """The event of the last commit: what is told of it is told when that is durable."""
        return self._transactions.versions.last_event

    # --- senders

    def supersede(self, key: StageKey, newcomer: StageSender) -> StageSender | None:
        """End whoever writes a stage, for ``newcomer`` does from here on; returns it, or None where nobody did.

        Raises:
            InvalidRequestError: a writer, a version or a stage that cannot be.
            TakenOverError: whoever writes it came behind the newcomer.
        """
        check_stage(key)
        stage = self._stages.get(key)
        if stage is None or stage.sender is None:
            return None
        check_newest(stage.sender, newcomer, OF_STAGE)
        stage.sender.end(TakenOverError.code, OF_STAGE)
        return stage.sender

    def begin(self, key: StageKey, sender: StageSender) -> Begun:
        """Somebody writes a stage from here on, and goes on where it was left.

        Raises:
            QueueLimitError: there are too many stages.
            StageDiscardedError: it is a passing one, and nobody expects it, or not any more.
        """
        stage = self._stages.get(key)
        if stage is None:
            if key.passing:
                # Its transaction is over already.
                raise StageDiscardedError("", key.name)
            self._check_room()
            stage = self._found(key)
        committed = self._transactions.versions.covers(key.writer, key.version)
        if not committed and any(self._lost(key, *each) for each in stage.queues.items()):
            # A half is of no use to anybody: it begins anew, and who had something confirmed learns it by the number.
            self._transactions.discard(lambda other: other == key)
            self._forget(stage)
            stage = self._found(key)
        self._stages[key] = stage
        stage.sender = sender
        if stage.deadline is not None:
            self._absences.forget(stage)
        by_queue = {name: log.stages[key].numbers for name, log in self._holding(stage)}
        known = {name: numbers.up_to for name, numbers in by_queue.items() if numbers is not None}
        event = max(stage.event, self.committed_by if committed else 0)
        return Begun(None if committed else stage.number or None, committed, event, known)

    def leave(self, key: StageKey, sender: StageSender) -> None:
        """Whoever wrote a stage is gone."""
        stage = self._stages.get(key)
        if stage is not None and stage.sender is sender:
            stage.sender = None
            if key.passing:
                # It ends with its transaction, which somebody ends.
                return
            if stage.number and not self._transactions.versions.covers(key.writer, key.version):
                # It may hold nothing, and of what went to no queue only this knows that it came.
                self._await(stage)
            else:
                del self._stages[key]

    # --- what is stored

    def check_room(self, key: StageKey, names: Collection[str]) -> None:
        """Raise QueueLimitError where a stage would be in more queues than can be named in one answer, and discarded by one record."""
        stage = self._stages[key]
        if len(stage.queues) + len(names) <= MAX_DESTINATIONS:
            return
        numbers = stage.queues.keys() | {self._queues.number_of(name) for name in names if name in self._queues.logs()}
        if len(numbers) > MAX_DESTINATIONS:
            there = set(map(self._queues.number_of, self._queues.logs()))
            if len(numbers & there) > MAX_DESTINATIONS:
                raise QueueLimitError("MAX_DESTINATIONS", MAX_DESTINATIONS, "stage for fewer queues at a time")

    def stored(self, key: StageKey, names: Iterable[str], whole: int, event: int) -> None:
        """Some of a stage is in these queues."""
        stage, logs = self._stages[key], self._queues.logs()
        for name in names:
            stage.queues[self._queues.number_of(name)] = name, logs[name]
        stage.event = max(stage.event, event)
        self.came(key, whole)

    def came(self, key: StageKey, number: int) -> None:
        """All of a stage below a number is stored, or goes to no queue."""
        stage = self._stages.get(key)
        if stage is not None:
            stage.number = max(stage.number, number)

    def tally(self, key: StageKey) -> tuple[tuple[tuple[str, int], ...], int]:
        """The queues that hold some of a stage, by name, each with how many messages; and the event by which all of it is durable.

        Raises:
            TransactionCommittedError: the stage's version is committed.
            StageGoneError: a queue has lost what it held of it, and was not deleted.
        """
        stage = self._stages[key]
        if self._transactions.versions.covers(key.writer, key.version):
            raise TransactionCommittedError(key.writer, key.version)
        for number, (name, log) in stage.queues.items():
            if self._lost(key, number, (name, log)):
                raise StageGoneError(name, key.name)
        owned = self._queues.owned.names()
        holding = [(name, log) for name, log in self._holding(stage) if name not in owned]
        found = sorted((name, log.stages[key].messages) for name, log in holding)
        return tuple(found), stage.event

    # --- those that go with their connection

    def expect(self, key: StageKey) -> None:
        """Somebody is about to write a stage, and it is there until it is `over`; raises QueueLimitError where there are too many."""
        self._check_room()
        self._stages[key] = RoutedStage(key)

    def holding(self, keys: Collection[StageKey]) -> dict[str, tuple[QueueLog, list[StageKey]]]:
        """The queues that hold some of these stages, by name, each with its log and which; one that was deleted is passed over.

        Raises:
            StageGoneError: a queue has lost what it held of one, and was not deleted.
        """
        for key in keys:
            stage = self._stages.get(key)
            for number, held in () if stage is None else stage.queues.items():
                if self._lost(key, number, held):
                    raise StageGoneError(held[0], key.name)
        return self.held_by(keys)

    def held_by(self, keys: Iterable[StageKey]) -> dict[str, tuple[QueueLog, list[StageKey]]]:
        """The same, and what a queue has lost is passed over."""
        found: dict[str, tuple[QueueLog, list[StageKey]]] = {}
        for key in keys:
            stage = self._stages.get(key)
            for name, log in [] if stage is None else self._holding(stage):
                found.setdefault(name, (log, []))[1].append(key)
        return found

    def over(self, keys: Iterable[StageKey]) -> None:
        """These stages have ended: whoever writes them stores nothing more."""
        for key in keys:
            stage = self._stages.pop(key, None)
            if stage is not None and stage.sender is not None and stage.sender.failed is None:
                stage.sender.failed = StageDiscardedError("", key.name)

    # --- inside

    def _found(self, key: StageKey) -> RoutedStage:
        """A stage as the queues have it."""
        stage = self._stages[key] = RoutedStage(key)
        for name, log in self._queues.logs().items():
            held = log.stages.get(key)
            if held is not None and held.numbers is not None:
                stage.queues[self._queues.number_of(name)] = name, log
                stage.number = max(stage.number, held.numbers.whole)
                stage.event = max(stage.event, log.added_by)
        return stage

    def _is_there(self, number: int, name: str) -> bool:
        """Whether a queue was not deleted; one in memory that has failed for good is there, without what it held."""
        return name in self._queues and self._queues.number_of(name) == number

    def _lost(self, key: StageKey, number: int, held: tuple[str, QueueLog]) -> bool:
        """Whether a queue that held some of a stage has it no more."""
        name, log = held
        return self._is_there(number, name) and (self._queues.logs().get(name) is not log or key not in log.stages)

    def _holding(self, stage: RoutedStage) -> list[tuple[str, QueueLog]]:
        logs = self._queues.logs()
        return [
            (name, log)
            for number, (name, log) in stage.queues.items()
            if self._is_there(number, name) and logs.get(name) is log and stage.key in log.stages
        ]

    def _check_room(self) -> None:
        if len(self._stages) < MAX_STAGES:
            return
        for stage in list(self._stages.values()):
            if stage.sender is None and not (stage.key.passing or self._holding(stage)):
                self._forget(stage)
        if len(self._stages) >= MAX_STAGES:
            raise QueueLimitError("MAX_STAGES", MAX_STAGES, "commit or abort what is staged, or write fewer partitions")

    def _forget(self, stage: RoutedStage) -> None:
        del self._stages[stage.key]
        if stage.deadline is not None:
            self._absences.forget(stage)

    def _aborted(self, writer: str, version: int) -> None:
        """A transaction's stages are discarded: who writes them learns it, and stores nothing more."""
        for key, stage in list(self._stages.items()):
            if key[:2] != (writer, version):
                continue
            sender = stage.sender
            if sender is None:
                self._forget(stage)
            elif sender.failed is None:
                name = next((name for name, _ in stage.queues.values()), "")
                sender.failed = StageDiscardedError(name, key.name)
                sender.end(sender.failed.code, str(sender.failed))

    # --- those whose sender is away

    def _await(self, stage: RoutedStage) -> None:
        """A stage has no sender as of now."""
        loop = asyncio.get_running_loop()
        self._absences.push(stage, loop.time() + self._timeout)
        self._set_timer(loop)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        due = self._absences.earliest()
        if self._timer is None and due is not None:
            self._timer = loop.call_at(due, self._end_absences)

    def _end_absences(self) -> None:
        """Give up the stages that nobody has written for too long, each in all queues at once."""
        self._timer = None
        if not any(queue.is_alive() for queue in self._queues.values()):
            # The broker has ended, and stores nothing more.
            return
        loop = asyncio.get_running_loop()
        due = list(each_due(self._absences.pop_due, loop.time(), DISCARDED_TOGETHER))
        given_up = {stage.key for stage in due if self._stages.get(stage.key) is stage}
        for key in given_up:
            del self._stages[key]
        try:
            self._transactions.discard(given_up.__contains__)
        except StorageError as error:
            # The broker has been told, and is about to end.
            logger.debug("stages are not given up: %s", error)
            return
        self._set_timer(loop)
