"""Whatever dies whenever: what a transaction has published to exchanges is in all of its queues, once and in order, or in none of them.

Tasks of transactions stage messages through an exchange, as Spark's do. They go on where the broker says after a lost connection, and begin
anew under another name where it has lost what it had confirmed. They end with a tally, by which their transaction is committed. Beside them
are the producers of ``test_exchange_publishing_model``. Sometimes nobody is there for longer than a stage stays, or a queue is bound
elsewhere, or is deleted and made anew.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.batch import Message, MessageBatch
from actors.errors import TransactionIncompleteError
from actors.queue import exchange_storing
from actors.queue.routed_stages import RoutedStages
from actors.queue.transactions import TransactionDirectory
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import EnlistedStage, StageKey
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.publishing_bench import Client, defined, received, receiver, stager
from tests.actors.stored_queues import StoredQueues, turns
from tests.actors.test_exchange_publishing_model import KEYS, PATTERNS, PRODUCERS, Programs, wanted, without_all
from tests.examples_tried import tried

EXTRA = "extra"
"""A queue that has everything while it is bound, and is deleted now and then."""
TIMEOUT = 30.0
WRITERS, TASKS = 2, 2
WHICH = st.sampled_from([0, 0, 0, 0, 1, 2, 3])
"""A task: mostly one, so that much happens to it."""
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("stage"), WHICH, st.lists(st.sampled_from(KEYS), min_size=1, max_size=5)),
        st.tuples(st.just("stage"), WHICH, st.lists(st.sampled_from(KEYS), min_size=1, max_size=3)),
        st.tuples(st.just("send"), st.integers(0, 2), st.lists(st.sampled_from(KEYS), min_size=1, max_size=2)),
        st.tuples(st.just("acknowledge"), st.sampled_from(sorted(PATTERNS)), st.integers(1, 4)),
        st.tuples(st.sampled_from(["leave", "rejoin", "away", "finish", "finish", "abort"]), WHICH, st.none()),
        st.tuples(st.just("some"), st.integers(1, 3), st.none()),
        st.tuples(st.just("time"), st.sampled_from([1, 20, 40]), st.none()),
        st.tuples(
            st.sampled_from(["turn", "commit", "commit", "kill", "checkpoint", "bind", "unbind", "delete"]),
            st.just(0),
            st.none(),
        ),
    ),
    min_size=15,
    max_size=45,
)


@dataclass
class Sent:
    """A message of a task; ``extra`` has what became of it in that queue, as far as it can be known: there, or not, or either."""

    key: str
    payload: bytes
    extra: set[bool] = field(default_factory=set)


@dataclass
class Task:
    """A task of a transaction, over any number of connections and attempts."""

    number: int
    name: str = ""
    attempt: int = 0
    messages: list[Sent] = field(default_factory=list)
    confirmed: int = 0
    client: Client | None = None
    tally: tuple[tuple[str, int], ...] | None = None
    asked: bool = False
    joined: bool = False

    def begin_anew(self) -> None:
        """Under another name, from the beginning."""
        self.attempt += 1
        self.name = f"{self.number}.{self.attempt}"
        self.confirmed = 0
        self.leave()

    def leave(self) -> None:
        self.client = self.tally = None
        self.asked = self.joined = False


@dataclass
class Transaction:
    """What a writer is at."""

    writer: str
    version: int
    tasks: list[Task]
    closed: bool = False
    commit: asyncio.Future[int] | None = None

    def enlisted(self) -> list[EnlistedStage]:
        return [EnlistedStage(queue, task.name, count) for task in self.tasks for queue, count in task.tally or ()]


class TransactionPrograms(Programs):
    """Writers of transactions beside the producers."""

    def __init__(self, folder: Path, patterns: dict[str, str], *, slow: bool = False) -> None:
        super().__init__(folder, patterns, slow=slow)
        self.bound = False
        self.made_tasks = 0
        self.committed: list[Transaction] = []
        self.open = [Transaction(f"w{number}", 0, self.tasks()) for number in range(WRITERS)]
        self.aborts: list[asyncio.Future[int]] = []

    def made(self) -> StoredQueues:
        return StoredQueues(self.folder, QueueSettings(), transaction_timeout=TIMEOUT)

    async def begin(self) -> None:
        first = self.bench is None
        await super().begin()
        if first:
            self.bench.queues.get_or_create(EXTRA)
            await self.bench.settled()

    def tasks(self) -> list[Task]:
        made = []
        for _ in range(TASKS):
            made.append(Task(self.made_tasks))
            made[-1].begin_anew()
            self.made_tasks += 1
        return made

    def task(self, which: int) -> tuple[Transaction, Task]:
        transaction = self.open[which // TASKS]
        return transaction, transaction.tasks[which % TASKS]

    # --- what the programs do

    async def join(self, transaction: Transaction, task: Task) -> None:
        """Connect, if that is of use."""
        if task.client is None and task.tally is None and transaction.commit is None:
            key = StageKey(transaction.writer, transaction.version, task.name)
            task.client = await stager(self.bench, key, "x", None)
            await self.progress()

    async def leave(self, task: Task) -> None:
        """The connection is lost, with what was said and not heard."""
        if task.client is not None:
            left = task.client.ref
            task.leave()
            await left.stop(block=False)
            await turns()

    async def stage(self, which: int, keys: list[str]) -> None:
        transaction, task = self.task(which)
        if transaction.closed:
            return
        start = len(task.messages)
        new = [Sent(key, b"t%d.%d" % (task.number, start + at)) for at, key in enumerate(keys)]
        task.messages += new
        if task.joined:
            self.deliver(task, new)
        await self.join(transaction, task)

    def deliver(self, task: Task, messages: list[Sent]) -> None:
        for message in messages:
            message.extra = {self.bound} | (message.extra if len(message.extra) > 1 else set())
        if task.client is not None and messages:
            batch = [Message(message.payload, message.key.encode()) for message in messages]
            task.client.send(MessageBatch.from_messages(batch))

    async def progress(self) -> None:
        """What has come of it so far, and what follows."""
        for transaction in list(self.open):
            for task in transaction.tasks:
                await self.hear(transaction, task)
            if transaction.commit is not None and transaction.commit.done():
                self.ended(transaction)
            elif (
                transaction.commit is None
                and transaction.closed
                and all(task.tally is not None for task in transaction.tasks)
            ):
                directory = self.bench.queues.transactions
                commit = directory.commit(transaction.writer, transaction.version, transaction.enlisted())
                transaction.commit = asyncio.ensure_future(commit)
        self.aborts = [abort for abort in self.aborts if not abort.done()]

    async def hear(self, transaction: Transaction, task: Task) -> None:
        client = task.client
        if client is None:
            return
        if client.errors:
            await self.leave(task)
            return
        if not client.attached:
            return
        if not task.joined:
            (attached,) = client.attached
            assert not attached.committed, "it is not committed but by its tally"
            last = attached.last_sequence or 0
            assert last <= len(task.messages)
            if last < task.confirmed:
                # The broker has lost what it had confirmed.
                await self.leave(task)
                task.begin_anew()
                await self.join(transaction, task)
                return
            task.joined, task.confirmed = True, last
            client.sequence = last
            self.deliver_again(task)
        if client.confirmed:
            task.confirmed = max(task.confirmed, client.confirmed[-1])
        if transaction.closed and task.confirmed == len(task.messages) and not task.asked:
            task.asked = True
            client.tally()
        if client.tallied:
            tally = client.tallied[-1].held
            await self.leave(task)
            task.tally = tally

    def deliver_again(self, task: Task) -> None:
        """What is not confirmed is sent again; of what was sent before nobody knows where it went."""
        for message in task.messages[task.confirmed :]:
            if message.extra:
                message.extra = message.extra | {self.bound}
                if len(message.extra) > 1:
                    continue
            message.extra = message.extra or {self.bound}
        messages = task.messages[task.confirmed :]
        if messages and task.client is not None:
            batch = [Message(message.payload, message.key.encode()) for message in messages]
            task.client.send(MessageBatch.from_messages(batch))

    def ended(self, transaction: Transaction) -> None:
        commit, transaction.commit = transaction.commit, None
        assert commit is not None
        try:
            commit.result()
        except TransactionIncompleteError:
            # Something was given up, or a queue deleted: all of it is staged anew.
            for task in transaction.tasks:
                task.begin_anew()
                for message in task.messages:
                    message.extra = set()
            return
        self.committed.append(transaction)
        self.open[self.open.index(transaction)] = Transaction(transaction.writer, transaction.version + 1, self.tasks())

    async def abort(self, which: int) -> None:
        transaction, _ = self.task(which)
        if transaction.commit is not None:
            return
        directory = self.bench.queues.transactions
        self.aborts.append(asyncio.ensure_future(directory.abort(transaction.writer, transaction.version)))
        await turns()
        for task in transaction.tasks:
            await self.leave(task)
        self.open[self.open.index(transaction)] = Transaction(transaction.writer, transaction.version + 1, self.tasks())

    # --- what happens to the extra queue

    def seen(self) -> None:
        """Of what is not confirmed nobody knows whether it came before or after a change of bindings."""
        for transaction in self.open:
            for task in transaction.tasks:
                for message in task.messages[task.confirmed :]:
                    if message.extra:
                        message.extra = message.extra | {self.bound}

    async def bind(self, bound: bool) -> None:
        if bound == self.bound:
            return
        decide = self.bench.queues.exchanges.exchanges.decide
        change = decide.bind("x", EXTRA, "#") if bound else decide.unbind("x", EXTRA, "#")
        self.bound = bound
        await self.progress()
        self.seen()
        await defined(self.bench, change)

    async def delete(self) -> None:
        """What it held is gone, and another comes in its place."""
        await self.progress()
        self.bench.queues.delete(EXTRA)
        for transaction in (*self.open, *self.committed):
            for task in transaction.tasks:
                for index, message in enumerate(task.messages):
                    # What is not confirmed may come again.
                    message.extra = message.extra | {False} if index >= task.confirmed else {False}
        if self.bound:
            self.bound = False
            self.bench.queues.get_or_create(EXTRA)
            await self.bind(True)
        else:
            self.bench.queues.get_or_create(EXTRA)
        await self.bench.settled()

    # --- the end of a life, and of all

    async def kill(self) -> None:
        await self.progress()
        for transaction in self.open:
            for task in transaction.tasks:
                client = task.client
                if client is not None:
                    task.leave()
            if transaction.commit is not None:
                # Whether it has happened is for the next broker to say.
                transaction.commit.cancel()
                transaction.commit = None
        for abort in self.aborts:
            abort.cancel()
        self.aborts.clear()
        await super().kill()

    async def check(self) -> None:
        for _ in range(12):
            for transaction in list(self.open):
                transaction.closed = True
                for task in transaction.tasks:
                    await self.join(transaction, task)
            await self.settled()
            await self.progress()
            await self.settled()
            if all(not task.messages for transaction in self.open for task in transaction.tasks):
                break
        assert all(not task.messages for transaction in self.open for task in transaction.tasks), "all is committed"
        for name in (*self.patterns, EXTRA):
            ref, told = await receiver(self.bench, name)
            await self.settled()
            found = [each[0] for each in self.got.get(name, [])] + received(told)
            await ref.stop(block=False)
            await turns()
            self.compare(name, found)
        await super().check()

    def compare(self, name: str, found: list[bytes]) -> None:
        tasks = [task for transaction in self.committed for task in transaction.tasks]
        known = {b"t%d" % task.number for task in tasks}
        assert {payload.split(b".")[0] for payload in found if payload.startswith(b"t")} <= known, (
            "only what is committed"
        )
        for task in tasks:
            mine = [payload for payload in found if payload.startswith(b"t%d." % task.number)]
            if name == EXTRA:
                sure = [message.payload for message in task.messages if message.extra == {True}]
                possible = [message.payload for message in task.messages if True in message.extra]
                assert [payload for payload in mine if payload in sure] == sure
                assert mine == [payload for payload in possible if payload in mine], "once, and in order"
            else:
                assert mine == [message.payload for message in task.messages if wanted(name, message.key)]


async def lived(
    folder: Path, patterns: dict[str, str], steps: list[tuple[str, Any, Any]], *, slow: bool = False
) -> None:
    programs = TransactionPrograms(folder, patterns, slow=slow)
    await programs.begin()
    for kind, which, what in steps:
        if kind == "stage":
            await programs.stage(which, what)
        elif kind == "send":
            mine = programs.sent[which]
            messages = [(key, b"%s%d" % (PRODUCERS[which].encode(), len(mine) + at)) for at, key in enumerate(what)]
            mine += messages
            programs.send(which, messages)
        elif kind == "acknowledge":
            await programs.acknowledge(which, what)
        elif kind == "leave":
            await programs.leave(programs.task(which)[1])
        elif kind == "away":
            await programs.leave(programs.task(which)[1])
            await elapse(TIMEOUT + 1)
        elif kind == "rejoin":
            await programs.leave(programs.task(which)[1])
            await programs.join(*programs.task(which))
        elif kind == "finish":
            transaction, _ = programs.task(which)
            transaction.closed = any(task.messages for task in transaction.tasks)
            for task in transaction.tasks if transaction.closed else ():
                await programs.join(transaction, task)
        elif kind == "abort":
            await programs.abort(which)
        elif kind == "time":
            await elapse(which)
        elif kind in ("bind", "unbind"):
            await programs.bind(kind == "bind")
        elif kind == "delete":
            await programs.delete()
        elif kind == "turn":
            await turns()
        elif kind == "some":
            await turns()
            programs.bench.commit_groups(which)
            await turns()
        elif kind == "commit":
            await programs.bench.commit()
        elif kind == "checkpoint":
            await programs.bench.settled()
            programs.bench.storage._checkpoints.make()
            programs.bench.storage._checkpoints._advance(whole=True)
            await programs.bench.settled()
        else:
            await programs.kill()
        await programs.progress()
    await programs.check()
    await programs.bench.close()


def live(patterns: dict[str, str], steps: list[tuple[str, Any, Any]], *, slow: bool = False) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run_in_virtual_time(lived(Path(folder) / "data", patterns, steps, slow=slow))


@settings(max_examples=tried(120))
@given(st.sampled_from([PATTERNS, without_all()]), STEPS, st.booleans())
def test_what_a_transaction_has_published_is_in_all_of_its_queues_or_in_none_whatever_dies(
    patterns: dict[str, str], steps: list[tuple[str, Any, Any]], slow: bool
) -> None:
    live(patterns, steps, slow=slow)


def discarded_in_one_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each queue gives up for itself, and only the first of them does."""
    discard = TransactionDirectory.discard

    def in_one(self: TransactionDirectory, wanted: Callable[[StageKey], bool]) -> tuple[int, int]:
        logs = {name: log for name, log in self._queues.logs().items() if any(map(wanted, log.stages))}
        first = dict(list(logs.items())[:1])
        with mock.patch.object(self._queues, "logs", return_value=first):
            return discard(self, wanted)

    monkeypatch.setattr(TransactionDirectory, "discard", in_one)


def repeats_stored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks which queue has a message already."""
    begin = RoutedStages.begin
    monkeypatch.setattr(RoutedStages, "begin", lambda *args: begin(*args)._replace(by_queue={}))


def whole_as_far_as_anything_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that comes again goes on behind the last message that any queue has."""
    monkeypatch.setattr(
        exchange_storing,
        "stage_wholes",
        lambda groups, came: {group.number: group.parts[-1].up_to for group in groups},
    )


def given_up_under_its_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for which a sender may be away goes on when it has come."""
    begin = RoutedStages.begin

    def begun(self: RoutedStages, key: StageKey, sender: Any) -> Any:
        with mock.patch.object(self._absences, "forget", return_value=None):
            return begin(self, key, sender)

    monkeypatch.setattr(RoutedStages, "begin", begun)


def tally_of_targets_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies where nothing goes any more is left out."""
    tally = RoutedStages.tally

    def of_targets(self: RoutedStages, key: StageKey) -> Any:
        found, event = tally(self, key)
        targets = self._stages[key].sender._room._targets  # type: ignore[union-attr]
        return tuple(each for each in found if each[0] in targets), event

    monkeypatch.setattr(RoutedStages, "tally", of_targets)


def lost_halves_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a restart finds of a stage is what one queue has of it."""
    found = RoutedStages._found

    def in_one(self: RoutedStages, key: StageKey) -> Any:
        logs = {name: log for name, log in self._queues.logs().items() if key in log.stages}
        first = dict(list(logs.items())[:1])
        with mock.patch.object(self._queues, "logs", return_value=first):
            return found(self, key)

    monkeypatch.setattr(RoutedStages, "_found", in_one)


def steps_of(*steps: Any) -> list[tuple[str, Any, Any]]:
    """Steps from what they are about: keys that the first task stages, seconds that pass, or their kind."""
    made: list[tuple[str, Any, Any]] = []
    for step in steps:
        if isinstance(step, int):
            made.append(("time", step, None))
        elif step.islower():
            made.append((step, 1 if step == "some" else 0, None))
        else:
            made += [("stage", 0, [key.lower() for key in step.split()]), ("turn", 0, None)]
    return made


HALF = steps_of("L.2 R.2", "commit", "L.2 R.2 L.2", "some", "kill", "finish")
DEFECTS = [
    (discarded_in_one_queue, steps_of("L.2 R.2", "commit", "leave", 40, "rejoin", "R.1", "commit", "finish")),
    (repeats_stored_again, HALF),
    (whole_as_far_as_anything_is, HALF),
    (given_up_under_its_sender, steps_of("L.2", "commit", "rejoin", 40, "R.2", "commit", "finish")),
    (tally_of_targets_alone, steps_of("bind", "L.2", "commit", "unbind", "L.2", "commit", "finish")),
    (lost_halves_passed_over, steps_of("R.2 L.2", "commit", "kill", "rejoin", "commit", "finish")),
]


@pytest.mark.parametrize(("defect", "steps"), DEFECTS, ids=[defect.__name__ for defect, _ in DEFECTS])
def test_each_piece_that_is_left_out_is_found(
    monkeypatch: pytest.MonkeyPatch,
    defect: Callable[[pytest.MonkeyPatch], None],
    steps: list[tuple[str, Any, Any]],
) -> None:
    live(without_all(), steps)
    defect(monkeypatch)
    with pytest.raises((AssertionError, KeyError)):
        live(without_all(), steps)
