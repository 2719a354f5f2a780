"""Checkpoints are made in slices while the queues go on, and what a start makes of them is what there was."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.errors import StorageError
from actors.queue.state.log import QueueLog
from actors.queue.state.staged import CommittedVersions
from actors.queue.structures.ranges import RangeSet
from actors.queue.vocabulary.letters import Origin
from actors.queue.vocabulary.replies import DeadLetter
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey, WriterVersion
from actors.storage import Storage, checkpoints
from actors.storage.snapshot import COUNTERS, ROWS, Snapshot, StoredQueue, decode_snapshot, encoded
from journal import JournalOptions, ManualCommitter
from streams.testkit import run_in_virtual_time, settle
from tests.actors.driven import QueueState
from tests.fault.disk import ROOT, SimulatedDisk

DATA = ROOT / "data"
LARGE = 10**9
SETTINGS = QueueSettings(max_receives=2, dead_letter_queue="dead")
STEPS = 140


def facts(log: QueueLog) -> dict[str, Any]:
    """Everything that a checkpoint has of a queue, but for delays, which end with time."""
    names = (
        "acknowledged",
        "producers",
        "temporary",
        "ledgers",
        "returns",
        "stages",
        "total_discarded",
        "deleted_epoch",
        "deleted_position",
    )
    return {name: getattr(log, name) for name in (*COUNTERS, *names)}


class Run:
    """Queues over a storage whose checkpoints go on by one slice of one piece when the run says so."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.disk = SimulatedDisk()
        self.committer = ManualCommitter()
        options = JournalOptions(segment_bytes=1024, checkpoint_records=10**6, checkpoint_bytes=10**6)
        self.storage = Storage.open(DATA, options, files=self.disk, committer=self.committer)
        self.failures: list[StorageError] = []
        self.storage.start(self.failures.append)
        self.queues: dict[str, QueueState] = {}
        self.names = 0
        self.version = 0
        for _ in range(3):
            self.declare(f"q{self.names}")
        self.declare("dead")

    def declare(self, name: str) -> None:
        self.names += 1
        stored = self.storage.declare(name, None)
        state = QueueState(
            name,
            stored.number,
            SETTINGS if name != "dead" else QueueSettings(),
            log=stored.log,
            record=lambda event: self.storage.record(stored.number, event),
            record_all=self.storage.record_all,
            versions=self.storage.versions,
        )
        state.attach_sender("s", "producer")
        state.request_capacity("s", 10**5, LARGE)
        state.attach_receiver("r")
        state.open_subscription("sub", "sub", "own", epoch=None, starting="earliest", owner_timeout=30.0)
        self.queues[name] = state

    def step(self, now: float) -> None:
        random = self.random
        name = random.choice(sorted(self.queues))
        queue = self.queues[name]
        match random.choice(
            [
                "send",
                "send",
                "receive",
                "answer",
                "reserve",
                "commit",
                "stage",
                "transaction",
                "whole",
                "guest",
                "forget",
            ]
        ):
            case "send":
                payloads = [random.randbytes(random.randrange(40)) for _ in range(random.randrange(1, 5))]
                queue.send("s", queue.log.producers.get("producer", 0), MessageBatch.from_payloads(payloads), now, 1)
            case "receive":
                queue.receive("r", random.randrange(1, 6), LARGE, now)
            case "answer":
                self.answer(queue, now)
            case "reserve":
                ledger = queue.log.ledgers["sub"]
                queue.reserve("sub", 1, ledger.high, messages=4, size=LARGE, wait=0.0, below=None, now=now)
            case "commit":
                ledger = queue.log.ledgers["sub"]
                queue.commit_position("sub", random.randint(ledger.base, ledger.high))
            case "stage":
                connection = f"stage {now}"
                held = queue.attach_stage(connection, StageKey("w", self.version, random.choice("ab")), now)
                queue.request_capacity(connection, 100, LARGE)
                batch = MessageBatch.from_payloads([b"staged"] * random.randrange(1, 4))
                queue.send(connection, held.messages, batch, now, 1)
                queue.detach(connection, now)
            case "guest":
                queue.attach_sender(f"guest {now}", f"g{random.randrange(3)}", temporary=True)
                queue.request_capacity(f"guest {now}", 100, LARGE)
                known = queue.log.last_number(f"g{random.randrange(3)}")
                if known is None:
                    queue.send(f"guest {now}", 0, MessageBatch.from_payloads([b"guest"]), now, 1)
                queue.detach(f"guest {now}", now)
            case "forget":
                queue.detach("sub", now)
                queue.release_subscription("sub", now, delete=True)
                queue.open_subscription("sub", "sub", "own", epoch=None, starting="earliest", owner_timeout=30.0)
            case "transaction":
                stages = {state.number: ["a"] for state in self.queues.values()}
                number, ended = self.storage.commit(WriterVersion("w", self.version), stages)
                self.version += 1
                for state in self.queues.values():
                    if state.number in ended:
                        state.end_stages(ended[state.number], number, now)
            case "whole" if random.random() < 0.6:
                if len(self.queues) > 2:
                    self.storage.delete(queue.number)
                    del self.queues[name]
                self.declare("dead" if "dead" not in self.queues else f"q{self.names}")
            case _:
                queue.tick(now)
        self.effects(now)

    def answer(self, queue: QueueState, now: float) -> None:
        """Acknowledge something that was delivered, or give it back."""
        held = [(span.start, span.stop - span.start) for span in queue.receivers["r"].held]
        if held:
            chosen = self.random.choice(held)
            if self.random.random() < 0.6:
                queue.acknowledge("r", [chosen])
            else:
                queue.negative_acknowledge("r", [chosen], 0.0, now)

    def effects(self, now: float) -> None:
        for queue in list(self.queues.values()):
            for effect in queue.take_effects():
                if isinstance(effect, DeadLetter) and "dead" in self.queues and self.random.random() < 0.8:
                    origin = Origin(queue.number, effect.ranges)
                    self.queues["dead"].store_dead_letters(effect.batch, origin, now, 1)
                    queue.dead_letters_stored(effect.ranges, now)


def turn(run: Run) -> None:
    """The next slice of a checkpoint that is under way; the loop itself never turns here."""
    run.storage._checkpoints._advance()


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_between_the_slices_a_start_finds_what_there_was(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "SLICE_WORK", 1)
    monkeypatch.setattr(checkpoints, "SLICE_STEPS", 1)
    seen: list[int] = []

    async def main() -> None:
        run = Run(Random(seed))
        stored: list[bool] = []
        for at in range(STEPS):
            run.step(at / 100)
            if run.random.random() < 0.1:
                run.storage._gathered.write()
            if run.random.random() < 0.3:
                run.committer.run()
            if run.random.random() < 0.08:
                run.storage._checkpoints.make(lambda: stored.append(True))
            for _ in range(run.random.randrange(3)):
                turn(run)
        run.storage._gathered.write()
        run.committer.run()
        assert run.failures == []
        seen.append(len(stored))
        before = {queue.name: facts(queue.log) for queue in run.storage.queues}
        again = Storage.open(DATA, JournalOptions(segment_bytes=1024), files=run.disk.restart())
        assert {queue.name: facts(queue.log) for queue in again.queues} == before
        assert list(again.versions) == list(run.storage.versions)
        for queue in again.queues:
            for start, stop in queue.log.stored():
                entry = queue.log.table.at(start)
                assert entry is not None
                assert len(entry.batch) == entry.stop - entry.first
                assert stop > start

    run_in_virtual_time(main())
    assert seen != [0], "no checkpoint came to its end"


def test_no_slice_has_more_work_than_its_bound_however_many_queues_and_ranges_there_are() -> None:
    """The pieces are counted: a slice ends where it has enough of them, and no piece is of more than some hundred rows."""
    queues = []
    for number in range(300):
        log = QueueLog()
        log.acknowledged = RangeSet((n, n + 1) for n in range(0, 8 * number, 2))
        log.producers.update({f"producer {n}": n for n in range(number)})
        queues.append(StoredQueue(number, f"q{number}", None, log))
    queues[0].log.acknowledged = RangeSet((n, n + 1) for n in range(0, 100_000, 2))
    queues[1].log.delayed = {n: (n + 1, n) for n in range(20_000)}
    queues[2].log.returns.note(0, 10, 1)
    pieces = list(encoded(Snapshot(1, 300, queues, CommittedVersions())))
    assert max(map(len, pieces)) <= 32 * ROWS
    assert len(pieces) > 300


def test_a_queue_is_encoded_as_it_was_when_its_first_piece_was_though_it_changes_before_the_last() -> None:
    log = QueueLog()
    log.acknowledged = RangeSet((n, n + 1) for n in range(0, 10_000, 2))
    log.returns.note(9_001, 9_002, 1)
    snapshot = Snapshot(1, 1, [StoredQueue(0, "q", None, log)], CommittedVersions())
    whole = b"".join(encoded(snapshot))
    pieces = encoded(snapshot)
    begun = [next(pieces), next(pieces)]
    for n in range(1, 10_000, 6):
        log.acknowledged.add(n, n + 1)
        log.acknowledged.remove(n + 3, n + 4)
    log.acknowledged.add(9_999, 20_000)
    log.returns.note(9_001, 9_003, 2)
    log.producers["p"] = 1
    assert b"".join([*begun, *pieces]) == whole
    tables: Callable[[int], Any] = lambda number, _levels: None  # noqa: E731
    assert len(decode_snapshot(whole, tables).queues[0].log.acknowledged) == 5_000


def test_the_loop_has_its_turn_between_two_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SLICE_WORK", 1)

    async def main() -> None:
        run = Run(Random(0))
        run.committer.run()
        done: list[bool] = []
        run.storage._checkpoints.make(lambda: done.append(True))
        turns = 0
        while run.storage._checkpoints._slices is not None:
            await asyncio.sleep(0)
            turns += 1
        run.committer.run()
        assert done == [True]
        assert turns > 4 * len(run.storage.queues)

    run_in_virtual_time(main())


def test_the_cut_and_the_list_of_the_queues_have_a_slice_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ten thousand queues each takes some milliseconds, and so do a slice's steps before and a slice's pieces behind."""

    async def main() -> None:
        run = Run(Random(0))
        run.committer.run()
        seen: list[str] = []
        making, journal = run.storage._checkpoints, run.storage._journal
        prepare, cut, snapshot = journal.prepare_checkpoint, journal.cut_checkpoint, making._snapshot

        def noted(what: str, steps: Iterator[Any]) -> Iterator[Any]:
            for step in steps:
                seen.append(what)
                yield step

        def prepared(live: Any) -> Iterator[Any]:
            yield
            yield from prepare(live)

        def noted_cut() -> None:
            seen.append("cut")
            cut()

        monkeypatch.setattr(journal, "prepare_checkpoint", lambda live: noted("step", prepared(live)))
        monkeypatch.setattr(journal, "cut_checkpoint", noted_cut)
        monkeypatch.setattr(making, "_snapshot", lambda: noted("piece", snapshot()))
        making.make()
        before = len(seen)
        turn(run)
        assert seen[before:] == ["cut", "piece"]
        assert set(seen[:before]) == {"step"}
        turn(run)
        assert making._slices is None, "so few queues are encoded in one slice"
        assert set(seen[before + 2 :]) == {"piece"}

    run_in_virtual_time(main())


def test_closing_while_a_checkpoint_is_under_way_makes_it_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SLICE_WORK", 1)

    async def main() -> None:
        run = Run(Random(0))
        done: list[bool] = []
        run.storage._checkpoints.make(lambda: done.append(True))
        assert run.storage._checkpoints._slices is not None
        run.storage.close()
        assert done == [True]
        assert len(Storage.open(DATA, files=run.disk.restart()).queues) == len(run.queues)

    run_in_virtual_time(main())


FAULTS = [
    OSError(errno.EIO, "Input/output error"),
    OSError(errno.ENOSPC, "No space left on device"),
    KeyError("a defect"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=["EIO", "ENOSPC", "defect"])
@pytest.mark.parametrize("step", ["prepare_checkpoint", "cut_checkpoint", "store_checkpoint"])
@pytest.mark.parametrize("when", ["at work", "closing"])
def test_whatever_fails_a_checkpoint_ends_the_broker_with_the_reason_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str, when: str, fault: Exception
) -> None:
    monkeypatch.setattr(checkpoints, "SLICE_STEPS", 1)

    def failing(*_: object) -> Iterator[None]:
        raise fault

    def failing_later(*_: object) -> Iterator[None]:
        yield
        raise fault

    async def main() -> None:
        run = Run(Random(0))
        for now in range(40):
            run.step(float(now))
        queues = {name: facts(queue.log) for name, queue in run.queues.items()}
        # Acknowledgements are gathered for some milliseconds; those of a broker that ends within them come again.
        run.storage._gathered.write()
        run.committer.run()
        monkeypatch.setattr(run.storage._journal, step, failing_later if step == "prepare_checkpoint" else failing)
        if when == "closing":
            run.storage.close()
        else:
            run.storage._checkpoints.make()
            await settle()
        (failure,) = run.failures
        assert run.storage.failure is failure
        assert type(fault).__name__ in str(failure)
        assert str(fault) in str(failure)
        assert any("defect" in record.message for record in caplog.records) == isinstance(fault, KeyError)
        # No other is tried, by nobody, and the directory is let go of in good order.
        run.storage._checkpoints.make()
        run.storage._checkpoints.schedule()
        assert run.storage._checkpoints.made == 0
        if when == "at work":
            run.storage.close()
        again = Storage.open(DATA, files=run.disk.restart())
        assert {queue.name: facts(queue.log) for queue in again.queues} == queues

    run_in_virtual_time(main())
