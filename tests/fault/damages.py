"""Damage of every kind in every place: ``python -m tests.fault.damages --damages 500 --seed 1``.

A data directory of several queues is damaged, in one file or in two that tell of each other. Then what an operator does is done:
verify, repair, start, receive everything. Asked is that

- a start that is refused is one that ``verify`` calls fatal, and the other way round;
- ``repair`` says something where ``verify`` calls something fatal, names that file, keeps what it held, and leaves ``verify`` clean;
- exchanges and bindings are as they were confirmed, but for as many changes as the start calls lost;
- every message that was confirmed is received or acknowledged, or ``repair`` has named what is lost, and the start has counted it;
- a note that is not whole is told by all three, since it cannot rule out that the newest segment is gone;
- nothing else is received, nothing twice, everything in order, and nothing that is stored cannot be;
- another start finds the same.

What nobody can tell is left out of the third, and only that (docs/durability.md): the end of a log that was not closed, from the
damage on, where nothing behind it shows that it was durable once.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any

from actors.batch import MessageBatch
from actors.errors import StorageError
from actors.exchanges.exchanges import Exchanges
from actors.exchanges.vocabulary import Definitive
from actors.exchanges.vocabulary import Event as ExchangeEvent
from actors.queue.vocabulary.events import Event, MessagesAdded, MessagesMoved
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.settings import QueueSettings
from actors.storage import Storage, repair_storage, verify_storage
from journal import JournalOptions, ManualCommitter
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.driven import Confirm, Deliver, QueueState
from tests.fault.damaged_files import DATA, KINDS, PLACES, POSITIONS, Hit, ends_early, strike, untold
from tests.fault.disk import SimulatedDisk

if TYPE_CHECKING:
    from collections.abc import Coroutine


SEGMENT_BYTES = 2048
QUEUES = ("left", "middle", "right")
ROUNDS = 70
"""Sends of a run: a dozen segments, some of them combined, and several checkpoints."""
LARGE = 10**9
RECORD_HEADER = 28


def options(**changed: Any) -> JournalOptions:
    """Segments and checkpoints so small that a short run has many."""
    small = {"segment_bytes": SEGMENT_BYTES, "checkpoint_records": 60, "checkpoint_bytes": 6000, "lazy_delay": 0.001}
    return JournalOptions(**{**small, **changed})


def fail(error: StorageError) -> None:
    """What a broker does when it is told that the storage has failed."""
    raise error


@dataclass(slots=True)
class Store:
    """A data directory that nobody has open, and what was confirmed in it.

    Attributes:
        sent: payloads by queue and number, all of them confirmed.
        acknowledged: numbers by queue that were acknowledged, durably or not.
        closed: whether the broker was told to stop, or killed.
        definitions: what there was of exchanges and bindings after each change of them, each of which was confirmed.
    """

    disk: SimulatedDisk
    sent: dict[str, list[bytes]]
    acknowledged: dict[str, set[int]]
    closed: bool
    definitions: list[Definitive] = field(default_factory=list)


@dataclass(slots=True)
class Start:
    """What a start found.

    Attributes:
        received: payloads with their numbers, by queue.
        numbered: the number that each queue gives next.
        definitions: what there is of exchanges and bindings.
        logged: lines.
        refused: why it failed.
    """

    received: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    numbered: dict[str, int] = field(default_factory=dict)
    definitions: Definitive | None = None
    logged: list[str] = field(default_factory=list)
    refused: StorageError | None = None


class Held(logging.Handler):
    """Keeps the lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``."""
        self.lines.append(record.getMessage())


def queue_of(storage: Storage, number: int, name: str, log: Any) -> QueueState:
    """A queue over what a storage has of it, with a sender."""
    queue = QueueState(name, number, log=log, record=lambda event: storage.record(number, event))
    queue.attach_sender("s", None)
    queue.request_capacity("s", 10**6, LARGE)
    return queue


def received(queue: QueueState) -> list[tuple[int, bytes]]:
    """Everything that a receiver gets."""
    queue.attach_receiver("r")
    queue.receive("r", LARGE, LARGE, 0.0)
    found: list[tuple[int, bytes]] = []
    while True:
        for effect in queue.take_effects():
            if isinstance(effect, Deliver):
                found += [(effect.first + at, bytes(payload)) for at, payload in enumerate(effect.batch.payloads)]
        if queue.next_deadline() != 0.0:
            return found
        queue.tick(0.0)


async def written(seed: int) -> Store:
    """A store: messages go in, some are received and acknowledged, checkpoints are made; then it is closed, or killed."""
    random = Random(seed)
    disk = SimulatedDisk()
    committer = ManualCommitter()
    # So little that some segments are combined and others not.
    storage = Storage.open(DATA, options(compact_below=0.25), files=disk, committer=committer)
    storage.start(fail)
    queues = {}
    for name in QUEUES:
        stored = storage.declare(name, None)
        queues[name] = queue_of(storage, stored.number, name, stored.log)
        queues[name].attach_receiver("r")
    store = Store(disk, {name: [] for name in QUEUES}, {name: set() for name in QUEUES}, random.random() < 0.5)
    several = Several(storage, queues, store, random) if seed % SEVERAL_STORES == 2 else None
    for _ in range(ROUNDS):
        for _ in range(random.randrange(1, 4)):
            name = random.choice(QUEUES)
            payloads = [random.randbytes(random.randrange(12, 70)) for _ in range(random.randrange(1, 6))]
            queue, first = queues[name], queues[name].log.next_sequence
            queue.send("s", first, MessageBatch.from_payloads(payloads), 0.0, 1_000_000)
            store.sent[name] += payloads
        if several is not None:
            several.act()
        committer.run()
        for name, queue in queues.items():
            if random.random() < 0.6:
                queue.receive("r", random.randrange(20), LARGE, 0.0)
            for effect in queue.take_effects():
                if isinstance(effect, Deliver) and (name == "left" or random.random() < 0.8):
                    queue.acknowledge("r", [(effect.first, len(effect.batch))])
                    store.acknowledged[name] |= set(range(effect.first, effect.first + len(effect.batch)))
                assert not isinstance(effect, Confirm) or effect.after <= storage._journal.durable_lsn
        # In virtual time: acknowledgements are gathered, and what they free is given back.
        await elapse(random.choice((0.05, 0.05, 3.0)))
        committer.run()
    if store.closed:
        storage.close()
    else:
        storage._journal.abandon()
    store.disk = disk.restart()
    return store


class Several:
    """What happens in several queues at once, by one record: some of them are bound to an exchange, and one is transient."""

    def __init__(self, storage: Storage, queues: dict[str, QueueState], store: Store, random: Random) -> None:
        self._storage = storage
        self._queues = queues
        self._store = store
        self._random = random
        self._passing = storage.declare("passing", QueueSettings(durable=False))
        self._exchanges = Exchanges(lambda _: True, definitions=storage.definitions)
        store.definitions.append(storage.definitions.snapshot())
        self._define(self._exchanges.decide.declare("x", "topic"))

    def act(self) -> None:
        """What one round has of it."""
        if self._random.random() < 0.4:
            self._send()
        if self._random.random() < 0.1:
            self._bury()
        if self._random.random() < 0.6:
            decide, name = self._exchanges.decide, self._random.choice(QUEUES)
            what = decide.bind if self._random.random() < 0.7 else decide.unbind
            self._define(what("x", name, self._random.choice(("a.*", "b.#", "c"))))

    def _define(self, events: tuple[ExchangeEvent, ...]) -> None:
        if events:
            self._storage.change_definitions(events)
            self._store.definitions.append(self._storage.definitions.snapshot())

    def _send(self) -> None:
        payloads = [self._random.randbytes(self._random.randrange(12, 70)) for _ in range(self._random.randrange(1, 4))]
        chosen = self._random.sample(QUEUES, self._random.randrange(2, 4))
        self._record(chosen, payloads, {}, passing=self._random.random() < 0.3)

    def _bury(self) -> None:
        """A message of one queue is a dead letter, and goes to the two others."""
        source, *others = self._random.sample(QUEUES, 3)
        queue = self._queues[source]
        if stored := queue.log.stored():
            first = stored[0][0]
            entry = queue.log.table.at(first)
            assert entry is not None
            payload = bytes(entry.part(first, first + 1).payloads[0])
            self._record(others, [payload], {source: MessagesMoved(((first, first + 1),))}, passing=False)
            self._store.acknowledged[source].add(first)

    def _record(self, names: list[str], payloads: list[bytes], gone: dict[str, Event], passing: bool) -> None:
        batch, published = MessageBatch.from_payloads(payloads), Published("x", "a.b")
        logs = {self._queues[name].number: self._queues[name].log for name in names}
        if passing:
            logs[self._passing.number] = self._passing.log
        events: dict[int, Event] = {
            number: MessagesAdded(log.next_sequence, batch, 1_000_000, published=published)
            for number, log in logs.items()
        }
        self._storage.record_all(events | {self._queues[name].number: event for name, event in gone.items()})
        for name in names:
            self._store.sent[name] += payloads
        for name in (*names, *gone):
            # What somebody else has recorded it learns from its log.
            queue = self._queues[name]
            queue.reset(0.0)
            queue.attach_sender("s", None)
            queue.request_capacity("s", 10**6, LARGE)
            queue.attach_receiver("r")


@cache
def store(seed: int) -> Store:
    """The store of a seed, which is damaged in copies."""
    return run(written(seed))


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """In virtual time."""
    return run_in_virtual_time(main)


def begin(disk: SimulatedDisk) -> Start:
    """Start a storage over a disk, receive everything, and let it go as a kill does."""
    return run(_begin(disk))  # type: ignore[no-any-return]


async def _begin(disk: SimulatedDisk) -> Start:
    start = Start()
    held = Held()
    names = ("penstock.storage", "penstock.journal")
    for name in names:
        logging.getLogger(name).addHandler(held)
        logging.getLogger(name).propagate = False
    committer = ManualCommitter()
    try:
        storage = Storage.open(DATA, options(), files=disk, committer=committer)
        storage.start(fail)
        start.definitions = storage.definitions.snapshot()
        for stored in [queue for queue in storage.queues if not queue.transient]:
            start.numbered[stored.name] = stored.log.next_sequence
            start.received[stored.name] = received(queue_of(storage, stored.number, stored.name, stored.log))
        # A checkpoint after a repair is made in slices, of which each has its turn.
        await elapse(0.05)
        committer.run()
        storage._journal.abandon()
    except StorageError as error:
        start.refused = error
    finally:
        for name in names:
            logging.getLogger(name).removeHandler(held)
            logging.getLogger(name).propagate = True
    start.logged = held.lines
    return start


@dataclass(frozen=True, slots=True)
class Case:
    """One damage."""

    seed: int
    kind: str
    place: str
    position: str

    def __str__(self) -> str:
        return f"--only {self.seed},{self.kind},{self.place},{self.position}"


def cases(seed: int, count: int) -> Iterator[Case]:
    """``count`` of them: every kind, place and position in turn, on one store after another."""
    made = 0
    while True:
        for kind, place, position in product(KINDS, PLACES, POSITIONS):
            if kind == "gone" and position != "header":
                continue
            if made == count:
                return
            yield Case(seed + made, kind, place, position)
            made += 1


def struck(case: Case) -> tuple[Store, SimulatedDisk, list[Hit]]:
    """The store of a case, its disk with the damage, and the files that have it; none where nothing is changed."""
    whole = store(case.seed % STORES)
    disk = whole.disk.restart()
    return whole, disk, strike(disk, case.kind, case.place, case.position, Random(case.seed))


def verify_case(case: Case) -> str:
    """Damage a store, and ask of it what the module's docstring says; returns what came of it, AssertionError where it does not hold."""
    whole, disk, hits = struck(case)
    if not hits:
        return UNCHANGED
    doubtful = {each for hit in hits if hit.content is not None for each in untold(whole.disk, hit.name, hit.offset)}
    said_before = verify_storage(DATA, disk.restart())
    fatal = [finding for finding in said_before if finding.fatal]
    left_open = [finding for finding in said_before if "it cannot be told" in finding.text]
    unmended = begin(disk.restart())
    if fatal and not may_be_read_later(case):
        assert unmended.refused is not None, said_before
    elif not fatal:
        assert unmended.refused is None, unmended.refused
        verify_found(whole, unmended, doubtful, [finding.text for finding in left_open])
        assert len(left_open) == sum("it cannot be told" in line for line in unmended.logged), unmended.logged
    verify_true(whole, unmended)
    repaired = disk.restart()
    said = repair_storage(DATA, repaired)
    assert bool(said) == bool(fatal + left_open), (said, fatal)
    for finding in fatal + left_open:
        assert any(finding.file.name in line for line in said), (finding, said)
    for hit in hits:
        if any(finding.file.name == hit.name for finding in fatal) and not hit.name.endswith(".index"):
            assert hit.content is None or kept(whole, hit, repaired), hit.name
    assert not any(finding.fatal for finding in verify_storage(DATA, repaired.restart()))
    first = begin(repaired)
    assert first.refused is None, first.refused
    lost = verify_found(whole, first, doubtful, said)
    second = begin(repaired.restart())
    assert second.refused is None
    assert second.received == first.received
    assert not any("lost" in line for line in second.logged), second.logged
    assert not any(finding.fatal for finding in verify_storage(DATA, repaired.restart()))
    return f"{'fatal' if fatal else 'told' if said_before else 'no finding'}, {'some' if lost else 'nothing'} lost"


def kept(whole: Store, hit: Hit, disk: SimulatedDisk) -> bool:
    """Whether a repair has left what a damaged file held: in a copy of what it replaced, or in its place where nothing had to be.

    The latter is right for a segment that ends early where a record does. All that it holds is whole, and what it lacks is put into
    another.
    """
    if hit.content in [disk.content(DATA / name) for name in disk.names(DATA) if name.startswith("damaged-")]:
        return True
    return disk.content(DATA / hit.name) == hit.content and ends_early(whole.disk, hit)


def may_be_read_later(case: Case) -> bool:
    """Whether a start need not look at the damage: of sealed segments only the summary is read."""
    return bool({"sealed", "combined", "index"} & set(case.place.split("+")))


def verify_found(whole: Store, start: Start, doubtful: set[bytes], said: list[str]) -> int:
    """Checks what was received against what was confirmed; returns how many messages are lost."""
    verify_true(whole, start)
    total = 0
    for name in QUEUES:
        missing = set(range(len(whole.sent[name]))) - whole.acknowledged[name]
        missing -= {number for number, _ in start.received.get(name, [])}
        in_doubt = {number for number in missing if any(whole.sent[name][number] in record for record in doubtful)}
        if missing - in_doubt:
            assert any("lost" in line or "gone" in line for line in said), (name, sorted(missing), said)
        # Of what it once had a queue knows how much it is; of the end of its log only the records are known.
        known = sum(number < start.numbered.get(name, 0) for number in missing)
        counted = sum(int(line.split()[0]) for line in start.logged if f" of queue {name} are lost " in line)
        assert known <= counted <= known + len(whole.acknowledged[name]), (name, known, counted, start.logged)
        total += len(missing)
    if whole.definitions:
        verify_defined(whole, start, doubtful, said)
    return total


def verify_defined(whole: Store, start: Start, doubtful: set[bytes], said: list[str]) -> None:
    """Checks that exchanges and bindings are those of the changes that were made, but for as many as the start says are lost."""
    assert start.definitions is not None
    last = whole.definitions[-1].number
    lines = [line for line in start.logged if "changes of exchanges and bindings are lost" in line]
    lost = sum(int(line.split()[0]) for line in lines)
    if start.definitions.number < last or lost:
        assert doubtful or any("lost" in line or "gone" in line for line in said), (
            start.definitions.number,
            last,
            said,
        )
    if not lost:
        assert start.definitions == whole.definitions[start.definitions.number]
        return
    ever = {binding for definitive in whole.definitions for binding in map(repr, definitive.bindings)}
    assert set(map(repr, start.definitions.bindings)) <= ever, "a binding that was never made"
    # Each change that is lost makes one binding more or less.
    then = set(map(repr, whole.definitions[start.definitions.number].bindings))
    if start.definitions.exchanges == whole.definitions[-1].exchanges:
        assert len(then ^ set(map(repr, start.definitions.bindings))) <= lost, (lost, start.definitions)


def verify_true(whole: Store, start: Start) -> None:
    """Checks that what was received was sent, in order, and nothing of it twice."""
    for name, found in start.received.items():
        numbers = [number for number, _ in found]
        assert numbers == sorted(set(numbers)), "in order, and nothing twice"
        assert all(whole.sent[name][number] == payload for number, payload in found), "what was sent, and nothing else"


UNCHANGED = "unchanged, or no such file"
"""What comes of a case that damages nothing."""
STORES = 12
"""Stores that are damaged in turn;"""
SEVERAL_STORES = 4
"""and one in so many has records of several queues."""


def main(arguments: list[str] | None = None) -> int:
    """Run the damages; 0 when every one of them holds."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.damages", description=__doc__)
    parser.add_argument("--damages", type=int, default=500, help="how many (default 500)")
    parser.add_argument("--seed", type=int, default=0, help="of the first; each has the next (default 0)")
    parser.add_argument("--real", type=int, metavar="N", help="instead N over real files, with real processes")
    parser.add_argument("--only", help="one of them, as a failure names it")
    chosen = parser.parse_args(arguments)
    again = "python -m tests.fault.damages" + ("" if chosen.real is None else " --real 1")
    verify, todo = verify_case, cases(chosen.seed, chosen.damages)
    if chosen.real is not None:
        # Here, as it builds on this module.
        from tests.fault import real_damages

        verify, todo = real_damages.verify_real, real_damages.chosen(chosen.seed, chosen.real)
    if chosen.only:
        seed, kind, place, position = chosen.only.split(",")
        print(verify(Case(int(seed), kind, place, position)))
        return 0
    counts: dict[tuple[str, str], int] = {}
    broken = 0
    for case in todo:
        try:
            outcome = verify(case)
        except Exception as error:  # noqa: BLE001 - whatever a damage brings to light is what we are looking for
            broken += 1
            outcome = "BROKEN"
            print(
                f"{type(error).__name__}: {str(error)[:2000]}\nagain: {again} {case}",
                file=sys.stderr,
            )
        key = (case.place, outcome)
        counts[key] = counts.get(key, 0) + 1
    for (place, outcome), count in sorted(counts.items()):
        print(f"{count:5}  {place:10}  {outcome}")
    print(f"{sum(counts.values())} damages, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
