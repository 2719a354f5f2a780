"""Transactions over the queues of a broker: commit and abort what writers have staged.

A transaction is a writer's version: versions of one writer grow, and one that is not above the last committed one changes nothing, so a
commit may be repeated until it is answered. Its messages are staged first, in any number of queues, under stages: names that are unique for
each attempt of each task. A commit names the stages that won. One record makes them receivable in all queues, in the place that their
numbers have, and discards every other stage of the writer up to this version.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Protocol

import pykka

from actors.errors import InboxOverflowError, QueueLimitError, TransactionIncompleteError
from actors.queue.operations.deduplicating import duplicates_of
from actors.queue.operations.staging import check_stage
from actors.queue.state.staged import CommittedVersions, apply_commit
from actors.queue.structures.deadlines import time_of_day_us
from actors.queue.vocabulary.commands import DiscardTransaction, EndStages
from actors.queue.vocabulary.distributed import DropStages
from actors.queue.vocabulary.events import StagesDiscarded
from actors.queue.vocabulary.stages import MAX_ENLISTED, OpenTransaction, StageKey, WriterVersion
from actors.runtime.loop_future import ask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from actors.queue.owned_queues import OwnedQueues
    from actors.queue.state.log import QueueLog
    from actors.queue.structures.ranges import Range
    from actors.queue.vocabulary.stages import EnlistedStage
    from actors.runtime.loop_ref import LoopActorRef
    from actors.storage import Storage

TELL_AGAIN = 1.0
"""Seconds after which a queue whose inbox was full is told again that its stages have ended."""

logger = logging.getLogger("penstock.transactions")


class Queues(Protocol):
    """What a transaction asks of the broker's queues; see ``QueueDirectory``."""

    def logs(self) -> dict[str, QueueLog]:
        """The durable part of each queue, by name."""

    @property
    def owned(self) -> OwnedQueues:
        """Those that go with a receiver."""

    def number_of(self, name: str) -> int:
        """The number of a queue that there is."""

    def get(self, name: str) -> LoopActorRef[Any]:
        """A queue that there is."""

    def get_or_create(self, name: str) -> LoopActorRef[Any]:
        """A queue, made if need be."""


class TransactionDirectory:
    """Every transaction of a broker. Lives on the broker's loop; it is no actor, like the ``QueueDirectory`` that has it.

    Args:
        queues: the broker's.
        storage: where commits are durable; None for queues in memory.
        wall_clock: seconds since the epoch.

    Attributes:
        versions: the last committed version of each writer; to be looked at only.
        aborted: told of each abort when what it discards in all queues at once is discarded; who keeps stages in several of them sets it.
    """

    def __init__(self, queues: Queues, storage: Storage | None, wall_clock: Callable[[], float] = time.time) -> None:
        self._queues = queues
        self._wall_clock = wall_clock
        self._storage = storage
        self.versions = CommittedVersions() if storage is None else storage.versions
        self.aborted: Callable[[str, int], None] | None = None
        # Of writers whose last commit may not be durable yet: its event, and the version before.
        self._under_way: dict[str, tuple[int, int | None]] = {}

    def last_version(self, writer: str) -> int | None:
        """The writer's last version whose commit is durable; None if nothing is known of it."""
        event, before = self._under_way.get(writer, (0, None))
        if self._storage is not None and event > self._storage.durable:
            return before
        return self.versions.of(writer)

    async def commit(self, writer: str, version: int, stages: Sequence[EnlistedStage]) -> int:
        """Make the messages of ``stages`` receivable in all queues at once, and discard what else the writer has staged so far.

        Returns:
            how many messages were published, once that is durable; 0 when the version was committed before.

        Raises:
            TransactionIncompleteError: a queue does not hold a stage, or not just so many messages of it. Nothing has changed.
            QueueLimitError: it names more stages than ``MAX_ENLISTED``.
            InvalidRequestError: a name or a version that cannot be.
            StorageError: it cannot be made durable; whether it is, the next start tells.
        """
        check_stage(StageKey(writer, version, ""))
        if len(stages) > MAX_ENLISTED:
            raise QueueLimitError(
                "MAX_ENLISTED", MAX_ENLISTED, f"{len(stages)} stages are named: write fewer partitions"
            )
        messages = 0
        if not self.versions.covers(writer, version):
            winners = self._verified(writer, version, stages)
            messages = sum(stage.messages for stage in dict.fromkeys(stages))
            self._publish(writer, version, winners)
        if self._storage is not None:
            # A commit that is repeated may have come back before the first one is durable.
            await self._storage.synced(self.versions.last_event)
            if self._under_way.get(writer, (0, None))[0] <= self._storage.durable:
                self._under_way.pop(writer, None)
        return messages

    async def abort(self, writer: str, version: int) -> int:
        """Discard what a transaction has staged; returns how many messages, once that is durable. One that is committed stays so.

        Raises:
            InvalidRequestError: a name or a version that cannot be.
        """
        check_stage(StageKey(writer, version, ""))
        if self.versions.covers(writer, version):
            return 0
        # What was written through exchanges is discarded everywhere or nowhere: its sender could not know that a half is gone.
        discarded, event = self.discard(lambda key: key[:2] == (writer, version))
        if self.aborted is not None:
            self.aborted(writer, version)
        message = DiscardTransaction(writer, version)
        answers: list[Awaitable[int]] = []
        for name, log in self._queues.logs().items():
            if any(key[:2] == (writer, version) for key in log.stages):
                answers.append(self._discarded(name, log, ask(self._queues.get_or_create(name), message)))
            else:
                # Somebody may be about to stage there, and wait for room until then.
                self._let_go(name, message)
        discarded += sum(await asyncio.gather(*answers))
        if self._storage is not None and event:
            await self._storage.synced(event)
        return discarded

    def discard(self, wanted: Callable[[StageKey], bool]) -> tuple[int, int]:
        """Discard stages that are written through exchanges, each in all queues in one instant.

        Returns:
            how many messages, and the number of the event by which all of that is durable; 0 where there are none, or in memory.

        Raises:
            StorageError: the journal takes nothing more, and the broker, which has been told, is about to end.
        """
        found: dict[StageKey, dict[str, QueueLog]] = {}
        for name, log in self._queues.logs().items():
            for key, stage in log.stages.items():
                if stage.numbers is not None and wanted(key):
                    found.setdefault(key, {})[name] = log
        messages = number = 0
        for key, logs in found.items():
            messages += sum(log.stages[key].messages for log in logs.values())
            event_number = 0
            events = {name: StagesDiscarded((key,), log.next_sequence) for name, log in logs.items()}
            if self._storage is None:
                for name, event in events.items():
                    logs[name].apply(event)
            else:
                event_number = self._storage.record_all(
                    {self._queues.number_of(name): event for name, event in events.items()}
                )
                # What only transient queues held is waited for by nobody.
                number = max(number, event_number)
            for name, event in events.items():
                self._tell(name, DropStages(event.stages, event.below, event_number))
        return messages, number

    def list(self) -> list[OpenTransaction]:
        """What is open, by writer and version."""
        found: dict[tuple[str, int], OpenTransaction] = {}
        for name, log in self._queues.logs().items():
            for key, stage in log.stages.items():
                known = found.get(key[:2], OpenTransaction(key.writer, key.version, (), 0, 0, 0))
                found[key[:2]] = known._replace(
                    queues=known.queues if name in known.queues else (*known.queues, name),
                    stages=known.stages + 1,
                    messages=known.messages + stage.messages,
                    bytes=known.bytes + stage.bytes,
                )
        return [transaction for _, transaction in sorted(found.items())]

    # --- inside

    def _verified(self, writer: str, version: int, stages: Sequence[EnlistedStage]) -> Mapping[int, Sequence[str]]:
        """The names of the stages by queue number; each is there whole."""
        winners: dict[int, list[str]] = {}
        logs = self._queues.logs()
        for queue, name, messages in dict.fromkeys(stages):
            log = logs.get(queue)
            stage = None if log is None else log.stages.get(StageKey(writer, version, name))
            found = 0 if stage is None else stage.messages
            if found != messages:
                raise TransactionIncompleteError(queue, name, messages, found)
            if stage is not None:
                winners.setdefault(self._queues.number_of(queue), []).append(name)
        # A queue that goes with its receiver nobody names: it may be gone by now, and its name is nobody's business.
        won = {StageKey(writer, version, stage.stage) for stage in stages}
        for queue in self._queues.owned.names():
            log = logs.get(queue)
            for key in () if log is None else sorted(won & log.stages.keys()):
                winners.setdefault(self._queues.number_of(queue), []).append(key.name)
        return winners

    def _publish(self, writer: str, version: int, winners: Mapping[int, Sequence[str]]) -> None:
        """Record the commit, which applies it to the log of every queue, and have the queues act on it."""
        logs = self._queues.logs()
        names = {self._queues.number_of(name): name for name in logs}
        if self._storage is None:
            by_number = {number: logs[name] for number, name in names.items()}
            number, ended = 0, apply_commit(by_number, self.versions, writer, version, winners, 0, self._judge)
        else:
            before = self.last_version(writer)
            number, ended = self._storage.commit(WriterVersion(writer, version), winners, self._judge)
            self._under_way[writer] = number, before
        for queue, stages in ended.items():
            self._tell(names[queue], EndStages(stages.published, stages.discarded, number))

    def _judge(self, log: QueueLog, published: Sequence[StageKey]) -> tuple[int, tuple[Range, ...]]:
        return duplicates_of(log, published, time_of_day_us(self._wall_clock))

    async def _discarded(self, name: str, log: QueueLog, answer: Awaitable[int]) -> int:
        """How many messages a queue has discarded; what it held is gone with it if it is deleted meanwhile."""
        try:
            return await answer
        except pykka.ActorDeadError:
            if self._queues.logs().get(name) is log:
                raise
            return 0

    def _let_go(self, name: str, message: DiscardTransaction) -> None:
        """Have a queue that holds nothing of a transaction refuse its senders; a queue that cannot be told has them time out."""
        try:
            self._queues.get(name).tell(message)
        except (pykka.ActorDeadError, InboxOverflowError) as error:
            logger.debug("queue %s is not told of an abort: %s", name, error)

    def _tell(self, name: str, message: EndStages | DropStages) -> None:
        try:
            self._queues.get(name).tell(message)
        except pykka.ActorDeadError:
            # Its successor begins with its log, where it has happened.
            logger.debug("queue %s is not there to be told of ended stages", name)
        except InboxOverflowError as error:
            logger.warning("queue %s is told of ended stages again in %.0f s: %s", name, TELL_AGAIN, error)
            asyncio.get_running_loop().call_later(TELL_AGAIN, self._tell_again, name, message)

    def _tell_again(self, name: str, message: EndStages | DropStages) -> None:
        if name in self._queues.logs():
            self._tell(name, message)
