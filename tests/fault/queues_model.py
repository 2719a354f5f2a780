"""What a store holds, queue by queue, as the records of `queues_program` make it; and the check that a store holds just that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, TypeAlias

from actors.exchanges.definitions import Definitions
from actors.exchanges.vocabulary import Event as ExchangeEvent
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey, WriterVersion
from actors.storage import Storage
from tests.fault.history import HistoryError

Ranges: TypeAlias = "tuple[tuple[int, int], ...]"


class Stored(NamedTuple):
    """A message as a queue has it: what was stored, and by which record, each of which has a number of the program's."""

    payload: bytes
    published: Published | None
    record: int


@dataclass(slots=True)
class Held:
    """A queue: the messages that it has, by number, and those that it holds back for each stage."""

    name: str
    settings: QueueSettings | None
    next: int = 0
    wanted: dict[int, Stored] = field(default_factory=dict)
    staged: dict[StageKey, dict[int, Stored]] = field(default_factory=dict)

    def copy(self) -> Held:
        """Another of the same."""
        staged = {key: dict(messages) for key, messages in self.staged.items()}
        return Held(self.name, self.settings, self.next, dict(self.wanted), staged)

    def take(self, ranges: Iterable[tuple[int, int]]) -> None:
        """These messages are there no more."""
        for start, stop in ranges:
            for number in range(start, stop):
                self.wanted.pop(number, None)


@dataclass(slots=True)
class Model:
    """Everything that a store holds, as its records make it."""

    queues: dict[int, Held] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    definitions: Definitions = field(default_factory=Definitions)

    def copy(self) -> Model:
        """Another of the same."""
        definitions = Definitions()
        definitions.restore(self.definitions.snapshot())
        return Model({number: queue.copy() for number, queue in self.queues.items()}, dict(self.versions), definitions)

    def __deepcopy__(self, _memo: object) -> Model:
        return self.copy()


Fold: TypeAlias = Callable[[Model], None]


class Added(NamedTuple):
    """What a queue gets by a record."""

    first: int
    messages: tuple[Stored, ...]
    stage: StageKey | None


def declared(model: Model, number: int, name: str, settings: QueueSettings | None) -> None:
    """A queue was declared, or has other settings."""
    if number in model.queues:
        model.queues[number].settings = settings
    else:
        model.queues[number] = Held(name, settings)


def defined(model: Model, events: Iterable[ExchangeEvent], deleted: int | None) -> None:
    """Exchanges and bindings were changed, and a queue was deleted with them, if one was."""
    for event in events:
        model.definitions.apply(event)
    if deleted is not None:
        model.queues.pop(deleted, None)


def together(model: Model, added: Mapping[int, Added], gone: Mapping[int, Ranges]) -> None:
    """Queues got messages and lost some, in one instant. Only damage leaves a queue that is not there, for which nothing leaves another."""
    if all(number in model.queues for number in added):
        for number, ranges in gone.items():
            acknowledged(model, number, ranges)
    for number, (first, messages, stage) in added.items():
        if (queue := model.queues.get(number)) is not None:
            queue.next = first + len(messages)
            into = queue.wanted if stage is None else queue.staged.setdefault(stage, {})
            into.update(enumerate(messages, first))


def acknowledged(model: Model, number: int, ranges: Ranges) -> None:
    """A queue's receivers are done with messages."""
    if number in model.queues:
        model.queues[number].take(ranges)


def committed(model: Model, version: WriterVersion, winners: Mapping[int, Sequence[str]]) -> None:
    """The winners were published, every other stage of the writer up to this version discarded."""
    model.versions[version.writer] = version.version
    for number, queue in model.queues.items():
        for key in [key for key in queue.staged if key.writer == version.writer and key.version <= version.version]:
            messages = queue.staged.pop(key)
            if key.version == version.version and key.name in winners.get(number, ()):
                queue.wanted.update(messages)


def settled(model: Model, keys: Iterable[StageKey], gone: Mapping[int, Ranges]) -> None:
    """Stages were published, wherever they are, and messages acknowledged, in one instant."""
    for queue in model.queues.values():
        for key in keys:
            queue.wanted.update(queue.staged.pop(key, {}))
    for number, ranges in gone.items():
        acknowledged(model, number, ranges)


def discarded(model: Model, keys: Iterable[StageKey]) -> None:
    """Stages were given up, in all queues."""
    for key in keys:
        for queue in model.queues.values():
            queue.staged.pop(key, None)


def require(holds: object, text: str) -> None:
    """HistoryError where it does not."""
    if not holds:
        raise HistoryError(text)


def compare(model: Model, unsure: Mapping[int, set[int]], storage: Storage) -> None:
    """Checks that a store holds what the model does; what of the messages in ``unsure`` it has not, the model has no more either."""
    there = {queue.number: queue for queue in storage.queues}
    require(there.keys() == model.queues.keys(), f"queues {sorted(there)} found, not {sorted(model.queues)}")
    definitions = storage.definitions.snapshot()
    require(definitions == model.definitions.snapshot(), "exchanges or bindings are not as they were answered")
    require(dict(storage.versions) == model.versions, "other versions are committed")
    for number, queue in model.queues.items():
        stored, log = there[number], there[number].log
        where = f"queue {queue.name}"
        require((stored.name, stored.settings) == (queue.name, queue.settings), f"{where} has other settings")
        require(log.next_sequence == queue.next, f"{where} goes on with {log.next_sequence}, not {queue.next}")
        found = set(chain.from_iterable(range(*each) for each in log.stored()))
        gone = queue.wanted.keys() - found
        require(found <= queue.wanted.keys(), f"{where} has {sorted(found - queue.wanted.keys())}, which had left it")
        require(gone <= unsure.get(number, set()), f"{where} has {sorted(gone)} no more")
        for at in gone:
            del queue.wanted[at]
        staged = {
            key: set(chain.from_iterable(range(*each) for each in stage.ranges)) for key, stage in log.stages.items()
        }
        require(staged == {key: set(held) for key, held in queue.staged.items() if held}, f"{where} has other stages")
        readable(queue, log, queue.wanted)
        for held in queue.staged.values():
            readable(queue, log, held)
        counted(queue, log, number, storage)
    once(model, storage)


def readable(queue: Held, log: QueueLog, messages: Mapping[int, Stored]) -> None:
    """Checks that messages of a queue are what was stored."""
    for at, stored in messages.items():
        entry = log.table.at(at)
        require(entry is not None, f"queue {queue.name} wants {at}, and it is gone")
        assert entry is not None
        payload = bytes(entry.part(at, at + 1).payloads[0])
        require((payload, entry.published) == stored[:2], f"message {at} of queue {queue.name} is another")


def counted(queue: Held, log: QueueLog, number: int, storage: Storage) -> None:
    """Checks that a queue's sums are those of its records."""
    spans = {
        found.first: found.payload_bytes + log.table.overhead
        for start, stop in log.stored()
        for found in storage._journal.spans(number, start, stop)
    }
    sums = (log.stored_messages, log.stored_batches, log.stored_bytes)
    require(sums == (len(queue.wanted), len(spans), sum(spans.values())), f"queue {queue.name} counts {sums}")


def once(model: Model, storage: Storage) -> None:
    """Checks that each record is in one place, whoever still wants it."""
    places: dict[int, set[object]] = {}
    for number, queue in model.queues.items():
        for at, stored in chain(queue.wanted.items(), *(held.items() for held in queue.staged.values())):
            places.setdefault(stored.record, set()).add(storage._journal.place(number, at))
    twice = [record for record, found in places.items() if len(found) > 1]
    require(not twice, f"records that are in several places: {[places[record] for record in twice]}")
