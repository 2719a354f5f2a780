"""What transactions hold back: which versions are committed, what a commit does to the logs, and who stages in one queue.

The first two are pure, and alike with a journal and without. The third is volatile: what is accepted, what may be sent, who is away.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from actors.errors import QueueLimitError, TransactionTooLargeError
from actors.queue.state.capacity import Capacity
from actors.queue.structures.deadlines import DeadlineHeap
from actors.queue.structures.ranges import RangeSet
from actors.queue.vocabulary.events import StagesEnded
from actors.queue.vocabulary.settings import DEFAULT_MAX_STAGED_BYTES, MAX_DELAYED, MEMORY_MAX_STAGED_BYTES
from actors.queue.vocabulary.stages import StageKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from actors.queue.state.log import QueueLog
    from actors.queue.state.permits import Permits
    from actors.queue.state.senders import Sender
    from actors.queue.state.stage import Stage
    from actors.queue.structures.ranges import Range
    from actors.queue.vocabulary.replies import Effect
    from actors.queue.vocabulary.settings import QueueSettings


MAX_WRITERS = 10_000
"""Writers whose last committed version a broker remembers, the least recently committed forgotten first: each query that ever wrote is one,
and one of so long ago does not commit its last version again."""


Judge: TypeAlias = "Callable[[QueueLog, Sequence[StageKey]], tuple[int, tuple[Range, ...]]]"
NO_IDS: tuple[int, tuple[Range, ...]] = (0, ())


class CommittedVersions:
    """The last committed version of each writer.

    Attributes:
        last_event: the number of the last commit's event: whoever is told that a version is committed is told so when that is durable.
    """

    __slots__ = ("_versions", "last_event")

    def __init__(self, versions: Iterable[tuple[str, int]] = ()) -> None:
        self._versions = OrderedDict(versions)
        self.last_event = 0

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Writers and versions, the least recently committed first."""
        return iter(self._versions.items())

    def __len__(self) -> int:
        return len(self._versions)

    def of(self, writer: str) -> int | None:
        """The writer's last committed version; None if it has none, or is forgotten."""
        return self._versions.get(writer)

    def covers(self, writer: str, version: int) -> bool:
        """Whether a version is committed."""
        last = self._versions.get(writer)
        return last is not None and version <= last

    def note(self, writer: str, version: int, number: int) -> None:
        """A version is committed, by the event ``number``; it is later than the writer's last."""
        self.last_event = number
        self._versions[writer] = version
        self._versions.move_to_end(writer)
        if len(self._versions) > MAX_WRITERS:
            self._versions.popitem(last=False)


def ended_stages(
    logs: Mapping[int, QueueLog],
    writer: str,
    version: int,
    winners: Mapping[int, Sequence[str]],
    judge: Judge | None = None,
) -> dict[int, StagesEnded]:
    """What a commit does: the winners are published; every other stage of the writer, of this version or an older one, is discarded.

    Args:
        logs: every queue's, by the queue's number.
        writer: whose transaction.
        version: its number.
        winners: the names of the winning stages, by queue number.
        judge: says until when ids of what is published in a queue count, and which messages are duplicates. Without it none does.

    Returns:
        the event of each queue, by queue number; nothing of queues that have no stage of the writer.
    """
    ended: dict[int, StagesEnded] = {}
    for queue, log in logs.items():
        if not log.stages:
            continue
        mine = [key for key in log.stages if key.writer == writer and key.version <= version]
        if not mine:
            continue
        won = {StageKey(writer, version, name) for name in winners.get(queue, ())}
        published = tuple(key for key in mine if key in won)
        discarded = tuple(key for key in mine if key not in won)
        ids = NO_IDS if judge is None or log.accepted is None else judge(log, published)
        ended[queue] = StagesEnded(published, discarded, log.next_sequence, *ids)
    return ended


def apply_commit(
    logs: Mapping[int, QueueLog],
    versions: CommittedVersions,
    writer: str,
    version: int,
    winners: Mapping[int, Sequence[str]],
    number: int,
    judge: Judge | None = None,
) -> dict[int, StagesEnded]:
    """Let a commit have happened in every queue, as event ``number``; one that happened before changes nothing. See ``ended_stages``."""
    if versions.covers(writer, version):
        return {}
    ended = ended_stages(logs, writer, version, winners, judge)
    versions.note(writer, version, number)
    for queue, event in ended.items():
        logs[queue].apply(event, number)
    return ended


Transaction: TypeAlias = tuple[str, int]
"""Writer and version."""
NOTHING = (0, 0)
"""Messages and bytes."""


@dataclass(eq=False, slots=True)
class Absence:
    """A stage whose sender is away; ``deadline`` is when it is discarded, ``heap`` is what knows that."""

    key: StageKey
    deadline: float | None = None
    heap: object | None = None


class StagedCapacity(Capacity):
    """Permits of those who stage, granted as soon as there is any room.

    What is staged gives room back by whole stages, not by the message, and a stage that waits for more than there is may wait for others
    that wait for it. Nobody is lent what others hold, for a transaction that does not fit is refused.
    """

    __slots__ = ()
    lends = False

    def grant_wanted(self, permits: Permits, effects: list[Effect]) -> None:
        """Let a sender have all that it wants, within its window, whatever room there is."""
        self._give(permits, permits.wanted_messages, permits.wanted_bytes, effects)

    def closed(self, stored_messages: int, stored_bytes: int) -> bool:
        """Whether all is staged that may be."""
        return stored_messages >= self._messages.limit or stored_bytes >= self._bytes.limit


@dataclass(eq=False, repr=False, slots=True)
class Staged:
    """What a queue knows of its stages beside the log; made anew with the rest of what is volatile.

    Args:
        name: the queue's.
        settings: the queue's.
        log: where the stages are.
        durable: whether the queue is on the disk.
        now: from when on the senders of what was recovered are away.
        timeout: seconds for which a stage stays whose sender is away.

    Attributes:
        capacity: permits of those who stage. Its limits are what may be staged; whether the queue has room at all is asked before.
        senders: by stage, those connected.
        stages: those held back from what is ready; what a commit took out of the log stays here until the queue acts on it.
        numbers: every number in them, for whoever looks at what is stored.
        absences: whose sender is away, by when they are discarded.
        incoming_messages: accepted and not stored yet; ``incoming_bytes`` likewise.
        delayed: staged batches that have a delay.
        beside: messages and bytes that others have stored and the queue has not noticed, by transaction.
    """

    name: str
    settings: InitVar[QueueSettings]
    log: InitVar[QueueLog]
    _: KW_ONLY
    durable: InitVar[bool]
    now: InitVar[float]
    timeout: float
    capacity: StagedCapacity = field(init=False)
    senders: dict[StageKey, Sender] = field(default_factory=dict)
    stages: dict[StageKey, Stage] = field(default_factory=dict)
    numbers: RangeSet = field(default_factory=RangeSet)
    absences: DeadlineHeap[Absence] = field(default_factory=DeadlineHeap)
    incoming_messages: int = 0
    incoming_bytes: int = 0
    delayed: int = 0
    beside: dict[Transaction, tuple[int, int]] = field(default_factory=dict)
    _max_messages: int = field(init=False)
    _max_bytes: int = field(init=False)
    _default_bytes: int = field(init=False)
    _absent: dict[StageKey, Absence] = field(default_factory=dict)
    # Messages and bytes, stored and accepted.
    _stored: dict[Transaction, tuple[int, int]] = field(default_factory=dict)
    _incoming: dict[Transaction, tuple[int, int]] = field(default_factory=dict)
    # Transactions that hold all that may be staged: waiting does not help their senders.
    _full: set[Transaction] = field(default_factory=set)

    def __post_init__(self, settings: QueueSettings, log: QueueLog, durable: bool, now: float) -> None:
        self._default_bytes = DEFAULT_MAX_STAGED_BYTES if durable else MEMORY_MAX_STAGED_BYTES
        self._limit(settings)
        self.capacity = StagedCapacity(self._max_messages, self._max_bytes)
        for key, stage in log.stages.items():
            self._count(key, stage, stage.messages, stage.bytes)
            self.numbers.extend(stage.ranges)
            self.delayed += len(stage.delayed)
            if stage.numbers is None:
                self.is_away(key, now)

    def _limit(self, settings: QueueSettings) -> None:
        self._max_messages = settings.max_staged_messages
        default = self._default_bytes
        self._max_bytes = default if settings.max_staged_bytes is None else settings.max_staged_bytes

    def alter(self, settings: QueueSettings) -> None:
        """Have other limits; what is staged stays, above them too."""
        self._limit(settings)
        permits = [sender.permits for sender in self.senders.values()]
        self.capacity.alter(self._max_messages, self._max_bytes, False, permits)
        self._full = {transaction for transaction, total in self._stored.items() if self._is_full(total)}

    # --- batches on their way in

    def check_room(self, key: StageKey, messages: int, size: int, delayed: int | None) -> None:
        """Raise the QueueError for which a batch cannot be staged, if there is one; ``delayed`` is how many wait for a delay if it does."""
        if delayed is not None and delayed >= MAX_DELAYED:
            raise QueueLimitError("MAX_DELAYED", MAX_DELAYED, "stage in larger batches, or in a queue without a delay")
        held = [counts.get(key[:2], NOTHING) for counts in (self._stored, self._incoming, self.beside)]
        for limit, amount, bound in (
            ("max_staged_messages", sum(each[0] for each in held) + messages, self._max_messages),
            ("max_staged_bytes", sum(each[1] for each in held) + size, self._max_bytes),
        ):
            if amount > bound:
                raise TransactionTooLargeError(self.name, key.writer, key.version, limit, bound, amount)

    def accepted(self, key: StageKey, messages: int, size: int) -> None:
        """A batch was taken in and will be stored with the next ones."""
        before = self._incoming.get(key[:2], NOTHING)
        self._incoming[key[:2]] = before[0] + messages, before[1] + size
        self.incoming_messages += messages
        self.incoming_bytes += size

    def stored_beside(self, key: StageKey, messages: int, size: int) -> None:
        """Others have stored a batch in a stage, which the queue has not noticed."""
        before = self.beside.get(key[:2], NOTHING)
        self.beside[key[:2]] = before[0] + messages, before[1] + size

    def clear_incoming(self) -> None:
        """What was accepted is stored from here on, or dropped."""
        self.incoming_messages = self.incoming_bytes = 0
        self._incoming.clear()

    def added(self, key: StageKey, stage: Stage, numbers: Range, size: int, delayed: bool) -> None:
        """A batch was stored in a stage."""
        start, stop = numbers
        self._count(key, stage, stop - start, size)
        self.numbers.add(start, stop)
        self.delayed += delayed

    def written(self, key: StageKey, stage: Stage, ranges: Iterable[Range]) -> None:
        """Others have stored ``ranges`` in a stage. It may be one that a commit has taken out of the log since."""
        if self.stages.get(key, stage) is not stage:
            # Another of the name, which was discarded everywhere: the queue has not heard of that.
            self.take(key)
        self.stages[key] = stage
        self.numbers.extend(ranges)
        # Made anew from the stages: of what was discarded meanwhile nothing else says what it counted for.
        mine = [each for other, each in self.stages.items() if other[:2] == key[:2]]
        total = self._stored[key[:2]] = sum(each.messages for each in mine), sum(each.bytes for each in mine)
        if self._is_full(total):
            self._full.add(key[:2])
        self.delayed = sum(len(each.delayed) for each in self.stages.values())

    def _count(self, key: StageKey, stage: Stage, messages: int, size: int) -> None:
        self.stages[key] = stage
        before = self._stored.get(key[:2], NOTHING)
        total = self._stored[key[:2]] = before[0] + messages, before[1] + size
        if self._is_full(total):
            self._full.add(key[:2])

    def _is_full(self, total: tuple[int, int]) -> bool:
        return total[0] >= self._max_messages or total[1] >= self._max_bytes

    # --- the end of stages

    def take(self, key: StageKey) -> Stage | None:
        """Hold a stage back no more; None if it is not, as after a start from a log that has it no more."""
        stage = self.stages.pop(key, None)
        if stage is not None:
            self.is_back(key)
            for start, stop in stage.ranges:
                self.numbers.remove(start, stop)
            self.delayed -= len(stage.delayed)
            before = self._stored.pop(key[:2])
            left = before[0] - stage.messages, before[1] - stage.bytes
            if left[0]:
                self._stored[key[:2]] = left
            if not self._is_full(left):
                # It may be, all the same, where the limits were lowered since it was staged.
                self._full.discard(key[:2])
        return stage

    # --- senders

    def attached(self, sender: Sender, key: StageKey) -> None:
        """A connection stages from here on."""
        self.senders[key] = sender
        self.is_back(key)

    def detached(self, sender: Sender, now: float) -> None:
        """A stage's connection has ended."""
        key = sender.stage
        if key is not None and self.senders.get(key) is sender:
            del self.senders[key]
            stage = self.stages.get(key)
            if stage is not None and stage.numbers is None:
                self.is_away(key, now)

    def is_away(self, key: StageKey, now: float) -> None:
        """A stage has no sender as of now; one that is written through an exchange ends in all queues at once, by ``RoutedStages``."""
        absence = self._absent[key] = Absence(key)
        self.absences.push(absence, now + self.timeout)

    def is_back(self, key: StageKey) -> None:
        """A stage's sender has come, or it needs none any more."""
        absence = self._absent.pop(key, None)
        if absence is not None and absence.deadline is not None:
            self.absences.forget(absence)

    def pop_given_up(self, now: float) -> StageKey | None:
        """Take out the stage that has been without a sender longest, if that is too long."""
        absence = self.absences.pop_due(now)
        if absence is None:
            return None
        del self._absent[absence.key]
        return absence.key

    def grant_hopeless(self, effects: list[Effect]) -> None:
        """Let those who wait in vain send one message: it is refused, which tells them more than waiting for ever."""
        for sender in self.hopeless():
            self.capacity.grant_one(sender.permits, effects)

    def grant_passing(self, effects: list[Effect]) -> None:
        """Let those stage whose transactions go with their connection, be the queue full: it says at their commit that it has no room."""
        for key, sender in self.senders.items():
            if key.passing and sender.permits in self.capacity.waiting:
                self.capacity.grant_wanted(sender.permits, effects)

    def hopeless(self) -> Iterator[Sender]:
        """Senders that can send nothing and wait for what only their own transaction could give back."""
        if self._full:
            stuck = set(self.capacity.stuck)
            for key, sender in list(self.senders.items()):
                if key[:2] in self._full and sender.permits in stuck:
                    yield sender
