"""Transactions on one queue against the model of ``test_queue_state_model``, which knows what is staged by message too.

Whatever is interleaved: a stage is published whole or not at all, once, in the place of its numbers, and what was not published is nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from actors.batch import MessageBatch
from actors.errors import DemandExceededError, TransactionCommittedError, TransactionTooLargeError
from actors.queue.state.log import QueueLog
from actors.queue.state.staged import CommittedVersions, apply_commit
from actors.queue.vocabulary.settings import ENTRY_OVERHEAD_BYTES, QueueSettings
from actors.queue.vocabulary.stages import StageKey
from tests.actors.driven import Confirm, Effect, GrantCapacity, QueueState, Refuse, Supersede
from tests.actors.test_queue_state_model import (
    DECLARATIONS,
    DELAYED,
    LARGE,
    MAX_MESSAGES,
    OPERATIONS,
    READY,
    SENDERS,
    WEIGHTED,
    QueueMachine,
    Stored,
)
from tests.examples_tried import tried

WRITERS = ("w1", "w2")
STAGE_NAMES = ("a", "b", "c")
CONNECTIONS = ("t1", "t2", "t3", "t4")
MAX_STAGED = 14
TIMEOUT = 25.0


@dataclass
class ModelStage:
    """What a stage holds: messages by number, and bytes by first number of their batch."""

    messages: dict[int, Stored] = field(default_factory=dict)
    entries: dict[int, tuple[int, int]] = field(default_factory=dict)
    delays: dict[int, float] = field(default_factory=dict)
    given_up_at: float | None = None


@dataclass
class ModelStager:
    key: StageKey
    messages: int = 0
    bytes: int = 0


MORE = {
    "attach": 20,
    "stage": 50,
    "commit": 10,
    "commit_again": 2,
    "abort": 2,
    "leave": 6,
}
"""Operations of this machine beside the other's, with their weights."""


class TransactionMachine(QueueMachine):
    """As the other machine, with writers."""

    declarations = DECLARATIONS

    def made(self, log: QueueLog) -> QueueState:
        if not hasattr(self, "versions"):
            self.versions = CommittedVersions()
            self.stages: dict[StageKey, ModelStage] = {}
            self.stagers: dict[str, ModelStager] = {}
            self.discarded = self.published = 0
            self.unsettled: list[Effect] = []
            self.leaving: set[str] = set()
        return QueueState(
            "q",
            7,
            self.staging_settings(),
            log=log,
            record=self.record,
            now=self.now,
            wall_us=self.wall_us(self.now),
            versions=self.versions,
            transaction_timeout=TIMEOUT,
        )

    def staging_settings(self) -> QueueSettings:
        facts = {name: getattr(self.settings, name) for name in self.settings.__slots__}
        return QueueSettings(**{**facts, "max_staged_messages": MAX_STAGED, "max_staged_bytes": LARGE})

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        feasible = [name for name in WEIGHTED if (possible := OPERATIONS[name][0]) is None or possible(self)]
        mine = [name for name, weight in MORE.items() for _ in range(weight)]
        name = data.draw(st.sampled_from(feasible + mine), label="command")
        if name in MORE:
            getattr(self, f"do_{name}")(data)
            return
        arguments = {key: data.draw(strategy, label=key) for key, strategy in OPERATIONS[name][1].items()}
        command: Any = getattr(self, name)
        if "data" in command.__code__.co_varnames[: command.__code__.co_argcount]:
            arguments["data"] = data
        command(**arguments)

    def granted(self) -> int:
        return super().granted() + sum(stager.messages for stager in self.stagers.values())

    # --- what comes out

    def is_staging(self, effect: Effect) -> bool:
        if isinstance(effect, GrantCapacity) and effect.sender in self.leaving:
            # One loser's room is granted to the next before that one is let go too.
            return True
        if isinstance(effect, GrantCapacity) and effect.sender in self.stagers:
            stager = self.stagers[str(effect.sender)]
            total = self.total_of(stager.key)
            hopeless = stager.messages == 0 and effect.messages == 1 and total >= MAX_STAGED
            stager.messages += effect.messages
            stager.bytes += effect.bytes
            granted = sum(each.messages for each in self.stagers.values())
            keeps_it_going = effect.messages == 1 and stager.messages == 1
            if effect.messages and not hopeless and not keeps_it_going:
                assert granted + self.staged_messages() <= MAX_STAGED
            statistics = self.queue.statistics(self.now)
            most = self.queue.senders_limits()[0] or LARGE
            assert statistics.stored_messages < most, "a queue that is full holds writers back"
            assert self.paused is None
            return True
        if isinstance(effect, Confirm | Refuse | Supersede) and self.named(effect) not in self.senders:
            self.unsettled.append(effect)
            return True
        return False

    @staticmethod
    def named(effect: Confirm | Refuse | Supersede) -> str:
        return str(effect.connection if isinstance(effect, Refuse) else effect.sender)

    def staged_messages(self) -> int:
        return sum(len(stage.messages) for stage in self.stages.values())

    def total_of(self, key: StageKey) -> int:
        return sum(len(stage.messages) for other, stage in self.stages.items() if other[:2] == key[:2])

    def taken(self) -> list[Effect]:
        """What came out for those who stage."""
        self.settle()
        effects, self.unsettled = self.unsettled, []
        self.leaving.clear()
        return effects

    def let_go(self, names: set[str]) -> None:
        for name in names:
            del self.stagers[name]
        self.leaving |= names

    # --- commands

    def do_attach(self, data: st.DataObject) -> None:
        free = [name for name in CONNECTIONS if name not in self.stagers]
        if not free:
            return
        name = free[0]
        writer = data.draw(st.sampled_from(WRITERS))
        last = self.versions.of(writer)
        version = data.draw(st.integers(0, 2)) if last is None else data.draw(st.integers(max(0, last - 1), last + 2))
        key = StageKey(writer, version, data.draw(st.sampled_from(STAGE_NAMES)))
        older = next((other for other, stager in self.stagers.items() if stager.key == key), None)
        facts = self.queue.attach_stage(name, key, self.now)
        assert facts.committed == (last is not None and version <= last)
        assert facts.messages == (len(self.stages[key].messages) if key in self.stages else 0)
        if older is not None:
            del self.stagers[older]
        self.stagers[name] = ModelStager(key)
        if key in self.stages:
            self.stages[key].given_up_at = None
        assert self.taken() == ([] if older is None else [Supersede(older)])
        self.queue.request_capacity(name, LARGE, LARGE)
        assert self.taken() == []

    def do_stage(self, data: st.DataObject) -> None:
        able = [name for name, stager in self.stagers.items() if stager.messages > 0]
        if not able:
            return
        name = data.draw(st.sampled_from(able))
        stager = self.stagers[name]
        key = stager.key
        sizes = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=8))[: stager.messages]
        have = len(self.stages[key].messages) if key in self.stages else 0
        again = data.draw(st.integers(0, have))
        resent = (
            [message.payload for message in list(self.stages[key].messages.values())[have - again :]] if have else []
        )
        payloads = resent + [bytes([self.next + i & 0xFF]) * size for i, size in enumerate(sizes)]
        batch = MessageBatch.from_payloads(payloads)
        priority = data.draw(st.sampled_from([0, 0, 1, 9]))
        arguments = name, have - len(resent), batch, self.now, self.wall_us(self.now), None, None, priority
        if self.versions.covers(key.writer, key.version):
            with pytest.raises(TransactionCommittedError):
                self.queue.send(*arguments)
            return
        if self.total_of(key) + len(sizes) > MAX_STAGED:
            with pytest.raises(TransactionTooLargeError, match="max_staged_messages"):
                self.queue.send(*arguments)
            return
        if len(batch) > stager.messages or batch.prefix_bytes(len(batch) - 1) >= stager.bytes:
            with pytest.raises(DemandExceededError):
                self.queue.send(*arguments)
            return
        first = self.queue.send(*arguments)
        stager.messages -= len(batch)
        stager.bytes -= batch.nbytes
        assert first == (self.next if not resent else None)
        fresh = batch.slice(len(resent), len(batch))
        stage = self.stages.setdefault(key, ModelStage())
        stage.entries[self.next] = (self.next + len(sizes), fresh.nbytes)
        ttl = self.settings.ttl
        for payload in payloads[len(resent) :]:
            expires = None if ttl is None else self.now + ttl if ttl else 0.0
            message = stage.messages[self.next] = Stored(payload, expires=expires)
            message.sent_until = self.now + self.settings.delay if self.settings.delay else 0.0
            message.level = min(priority, self.settings.max_priority or 0)
            self.next += 1
        self.unpublished += len(sizes)
        (confirm,) = self.taken()
        assert isinstance(confirm, Confirm)
        assert (confirm.sender, confirm.up_to) == (name, have + len(sizes))

    def do_commit(self, data: st.DataObject) -> None:
        transactions = sorted({key[:2] for key in self.stages})
        if not transactions:
            return
        writer, version = data.draw(st.sampled_from(transactions))
        names = [key.name for key in self.stages if key[:2] == (writer, version)]
        winners = data.draw(st.lists(st.sampled_from(names), unique=True))
        number = len(self.events) + 1
        ended = apply_commit({7: self.queue.log}, self.versions, writer, version, {7: winners}, number)[7]
        self.events.append(ended)
        older = {key for key in self.stages if key.writer == writer and key.version <= version}
        assert set(ended.published) == {StageKey(writer, version, name) for name in winners}
        assert set(ended.published) | set(ended.discarded) == older
        for key in ended.discarded:
            self.drop(key)
        for key in ended.published:
            self.publish(key)
        # The queue may fail between the record and the actor's turn: it begins with the log, where it has happened.
        if data.draw(st.integers(0, 5)) == 0:
            self.crash()
        losers = {
            name
            for name, stager in self.stagers.items()
            if self.versions.covers(*stager.key[:2]) and stager.key not in ended.published
        }
        self.let_go(losers)
        for _ in range(2):
            self.queue.end_stages(ended, number, self.now)
            refusals = self.taken()
            assert {(effect.connection, effect.code) for effect in refusals if isinstance(effect, Refuse)} == {
                (name, "transaction-committed") for name in losers
            }
            assert len(refusals) == len(losers)
            losers = set()

    def do_commit_again(self, data: st.DataObject) -> None:
        """A commit that was answered already, or one of an older version: nothing changes."""
        if not len(self.versions):
            return
        writer, last = data.draw(st.sampled_from(list(self.versions)))
        version = data.draw(st.integers(0, last))
        names = {7: list(STAGE_NAMES)}
        assert apply_commit({7: self.queue.log}, self.versions, writer, version, names, 99_999) == {}

    def do_abort(self, data: st.DataObject) -> None:
        open_ = sorted({key[:2] for key in self.stages})
        if not open_:
            return
        writer, version = data.draw(st.sampled_from(open_))
        keys = [key for key in self.stages if key[:2] == (writer, version)]
        messages = sum(len(self.stages[key].messages) for key in keys)
        for key in keys:
            self.drop(key)
        gone = {name for name, stager in self.stagers.items() if stager.key[:2] == (writer, version)}
        self.let_go(gone)
        assert self.queue.discard_transaction(writer, version, self.now) == messages
        assert {self.named(effect) for effect in self.taken() if isinstance(effect, Refuse)} == gone

    def do_leave(self, data: st.DataObject) -> None:
        if not self.stagers:
            return
        name = data.draw(st.sampled_from(sorted(self.stagers)))
        stager = self.stagers.pop(name)
        if stager.key in self.stages:
            self.stages[stager.key].given_up_at = self.now + TIMEOUT
        self.queue.detach(name, self.now)
        assert self.taken() == []

    # --- the model

    def drop(self, key: StageKey) -> None:
        self.discarded += len(self.stages.pop(key).messages)

    def publish(self, key: StageKey) -> None:
        stage = self.stages.pop(key)
        self.unpublished -= len(stage.messages)
        self.published += len(stage.messages)
        self.entries.update(stage.entries)
        for number, message in stage.messages.items():
            self.stored[number] = message
            if message.sent_until > self.now:
                message.where, message.until = DELAYED, message.sent_until
            else:
                # What has no time at all goes to who wants it as it is published.
                message.where, message.arrives = READY, self.settings.ttl == 0

    def let_time_pass(self, seconds: float) -> None:
        for key, stage in list(self.stages.items()):
            if stage.given_up_at is not None and stage.given_up_at <= self.now + seconds:
                self.drop(key)
        super().let_time_pass(seconds)

    def begin_again(self) -> None:
        self.stagers.clear()
        for stage in self.stages.values():
            stage.given_up_at = self.now + TIMEOUT
        super().begin_again()

    def more_deadlines(self) -> list[float]:
        return [stage.given_up_at for stage in self.stages.values() if stage.given_up_at is not None]

    # --- what always holds

    @invariant()
    def permits_are_bounded_whatever_is_stored(self) -> None:
        """A commit is taken whatever the limits: what it published comes on top."""
        if self.drops():
            return
        bound = MAX_MESSAGES if self.rejects() else 2 * MAX_MESSAGES + len(SENDERS)
        permits = 0 if self.rejects() else self.permits()
        assert permits + len(self.stored) <= bound + self.published
        assert permits <= MAX_MESSAGES + len(SENDERS)

    @invariant()
    def staged_numbers_agree(self) -> None:
        statistics = self.queue.statistics(self.now)
        assert statistics.staged_messages == self.staged_messages()
        assert statistics.staged_bytes == sum(
            size + ENTRY_OVERHEAD_BYTES for stage in self.stages.values() for _, size in stage.entries.values()
        )
        assert statistics.transactions == len({key[:2] for key in self.stages})
        assert statistics.total_discarded == self.discarded
        assert self.unsettled == []
        staged = sorted(number for stage in self.stages.values() for number in stage.messages)
        assert [number for part in self.queue.staged.numbers for number in range(*part)] == staged
        for key, stage in self.stages.items():
            numbers = [number for part in self.queue.log.stages[key].ranges for number in range(*part)]
            assert numbers == list(stage.messages)

    @invariant()
    def who_stages_can_go_on_or_waits_for_somebody_else(self) -> None:
        statistics = self.queue.statistics(self.now)
        most, most_bytes = (limit or LARGE for limit in self.queue.senders_limits())
        if self.paused is not None or statistics.stored_messages > most * 3 // 4:
            return
        if statistics.stored_bytes > most_bytes * 3 // 4:
            return
        for stager in self.stagers.values():
            roomy = self.staged_messages() <= MAX_STAGED * 3 // 4
            hopeless = self.total_of(stager.key) >= MAX_STAGED
            assert stager.messages > 0 or not (roomy or hopeless)


class TestTransactionsAgainstTheirModel(TransactionMachine.TestCase):  # type: ignore[name-defined,misc]  # made by hypothesis
    settings = settings(max_examples=tried(50), stateful_step_count=60)


@pytest.mark.soak
@pytest.mark.timeout(900)
class TestTransactionsAgainstTheirModelForLong(TransactionMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=1_000, stateful_step_count=60)
