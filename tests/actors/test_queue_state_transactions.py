"""Staging, publishing and discarding on one queue, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.errors import (
    InvalidRequestError,
    QueueLimitError,
    SequenceGapError,
    TransactionCommittedError,
    TransactionTooLargeError,
)
from actors.queue.state.entries import MemoryEntryTable
from actors.queue.state.log import QueueLog
from actors.queue.state.ready import ReadyRanges
from actors.queue.state.staged import CommittedVersions, apply_commit
from actors.queue.vocabulary.events import StagesEnded
from actors.queue.vocabulary.replies import DeadLetter
from actors.queue.vocabulary.settings import DEFAULT_TRANSACTION_TIMEOUT, MAX_DELAYED, MAX_STAGE_NAME, QueueSettings
from actors.queue.vocabulary.stages import StageKey
from tests.actors.driven import Confirm, Deliver, GrantCapacity, QueueState, Refuse, Supersede, replayed

LARGE = 10**9
KEY = StageKey("w", 0, "s")


class Bench:
    """One queue and the versions that are committed, with a clock."""

    def __init__(self, log: QueueLog | None = None, **settings: Any) -> None:
        self.versions = CommittedVersions()
        self.events: list[Any] = []
        self.queue = QueueState(
            "q", 3, QueueSettings(**settings), log=log, record=self.record, versions=self.versions, now=0.0
        )
        self.now = 0.0
        self.sent = 0

    def record(self, event: Any) -> int:
        self.events.append(event)
        return len(self.events)

    def attach(self, connection: str, key: StageKey = KEY, messages: int = 1_000, size: int = 100_000) -> int:
        facts = self.queue.attach_stage(connection, key, self.now)
        self.queue.request_capacity(connection, messages, size)
        return facts.messages

    def stage(self, connection: str, *payloads: bytes, at: int = 0) -> None:
        batch = MessageBatch.from_payloads(payloads)
        self.queue.send(connection, at, batch, self.now, round(self.now * 1e6))

    def send(self, *payloads: bytes) -> None:
        if not self.sent:
            self.queue.attach_sender("plain", None)
            self.queue.request_capacity("plain", 1_000, LARGE)
        batch = MessageBatch.from_payloads(payloads)
        self.queue.send("plain", self.sent, batch, self.now, round(self.now * 1e6))
        self.sent += len(payloads)

    def commit(self, *names: str, writer: str = "w", version: int = 0) -> int:
        number = self.record("the transaction's record")
        ended = apply_commit({3: self.queue.log}, self.versions, writer, version, {3: names}, number)
        if 3 in ended:
            self.queue.end_stages(ended[3], number, self.now)
        return number

    def effects(self, kind: type) -> list[Any]:
        return [effect for effect in self.queue.take_effects() if isinstance(effect, kind)]

    def received(self, messages: int = LARGE) -> list[tuple[int, bytes]]:
        """Numbers and payloads of what a receiver gets that acknowledges it all."""
        if "r" not in {facts.connection for facts in self.queue.statistics(self.now).connections}:
            self.queue.attach_receiver("r")
        self.queue.receive("r", messages, LARGE, self.now)
        found: list[tuple[int, bytes]] = []
        while effects := self.effects(Deliver):
            for effect in effects:
                found += list(enumerate(effect.batch.payloads, effect.first))
                self.queue.acknowledge("r", [(effect.first, len(effect.batch))])
            self.queue.tick(self.now)
        self.queue.cancel_demand("r")
        return found


def test_what_is_staged_is_delivered_after_the_commit_before_what_was_sent_later() -> None:
    bench = Bench()
    bench.attach("t")
    bench.stage("t", b"a", b"b")
    bench.send(b"c")
    bench.stage("t", b"d", at=2)
    assert bench.received() == [(2, b"c")]
    bench.commit("s")
    assert bench.received() == [(0, b"a"), (1, b"b"), (3, b"d")]


def test_a_delivery_of_what_a_commit_published_waits_for_its_record() -> None:
    bench = Bench()
    bench.attach("t")
    bench.stage("t", b"a")
    bench.queue.attach_receiver("r")
    bench.queue.receive("r", 1, LARGE, 0.0)
    number = bench.commit("s")
    (delivery,) = bench.effects(Deliver)
    assert delivery.after == number


def test_so_it_does_when_the_queue_failed_before_it_acted_on_the_commit() -> None:
    bench = Bench()
    bench.attach("t")
    bench.stage("t", b"a")
    number = bench.record("the transaction's record")
    apply_commit({3: bench.queue.log}, bench.versions, "w", 0, {3: ["s"]}, number)
    bench.queue.reset(0.0)
    bench.queue.attach_receiver("r")
    bench.queue.receive("r", 1, LARGE, 0.0)
    (delivery,) = bench.effects(Deliver)
    assert delivery.after == number
    bench.queue.end_stages(StagesEnded((KEY,), (), 0), number, 0.0)
    assert bench.queue.statistics(0.0).ready == 0, "and it is not ready twice"


def test_publishing_looks_at_ranges_and_at_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(max_staged_bytes=LARGE)
    bench.attach("t", messages=LARGE, size=LARGE)
    batch = MessageBatch.from_payloads([b""] * 1_000)
    for number in range(1_000):
        bench.queue.send("t", number * 1_000, batch, 0.0, 0)
    looked: list[str] = []
    for name in ("at", "extents", "load", "discard"):
        monkeypatch.setattr(MemoryEntryTable, name, lambda *_, name=name: looked.append(name))
    published: list[tuple[int, int]] = []
    monkeypatch.setattr(ReadyRanges, "publish", lambda _ready, start, stop: published.append((start, stop)))
    bench.commit("s")
    assert published == [(0, 1_000_000)]
    assert looked == []


def test_batches_of_different_stages_are_stored_apart_though_they_arrive_together() -> None:
    bench = Bench()
    bench.attach("t", KEY, 50, 1_000)
    bench.attach("u", KEY._replace(name="other"), 50, 1_000)
    bench.queue.attach_sender("plain", None)
    bench.queue.request_capacity("plain", 100, LARGE)
    for connection in ("t", "u", "plain", "t", "t", "plain"):
        have = bench.queue.senders[connection].expected or 0
        bench.queue.accept(connection, have, MessageBatch.from_payloads([connection.encode()]))
    bench.queue.store(0.0, 0)
    assert [len(event.batch) for event in bench.events] == [1, 1, 1, 2, 1]
    assert [event.stage and event.stage.name for event in bench.events] == ["s", "other", None, "s", None]
    bench.commit("s")
    assert [payload for _, payload in bench.received()] == [b"t", b"plain", b"t", b"t", b"plain"]


def test_a_sender_that_comes_back_goes_on_with_its_stage_and_nothing_is_stored_twice() -> None:
    bench = Bench()
    assert bench.attach("t") == 0
    bench.stage("t", b"a", b"b", b"c")
    bench.queue.detach("t", 0.0)
    assert bench.attach("again") == 3
    bench.stage("again", b"b", b"c", b"d", at=1)
    confirm = bench.effects(Confirm)[-1]
    assert (confirm.sender, confirm.up_to, confirm.first) == ("again", 4, None)
    with pytest.raises(SequenceGapError):
        bench.stage("again", b"x", at=7)
    bench.commit("s")
    assert [payload for _, payload in bench.received()] == [b"a", b"b", b"c", b"d"]


def test_a_stage_numbers_its_messages_from_zero() -> None:
    bench = Bench()
    bench.attach("t")
    with pytest.raises(SequenceGapError):
        bench.stage("t", b"a", at=1)


def test_a_second_connection_of_a_stage_takes_it_over() -> None:
    bench = Bench()
    bench.attach("t")
    bench.stage("t", b"a")
    bench.queue.take_effects()
    assert bench.attach("u") == 1
    assert bench.effects(Supersede) == [Supersede("t")]
    with pytest.raises(InvalidRequestError, match="not attached"):
        bench.stage("t", b"b", at=1)


def test_stages_are_no_producers() -> None:
    bench = Bench()
    bench.attach("t")
    bench.stage("t", b"a")
    assert bench.queue.log.producers == {}


def test_a_zombie_is_told_at_the_commit_and_what_it_sends_after_it_is_refused() -> None:
    bench = Bench()
    bench.attach("winner", KEY, 50, 1_000)
    bench.attach("zombie", KEY._replace(name="other"), 50, 1_000)
    bench.attach("late", KEY._replace(name="third"), 50, 1_000)
    bench.stage("winner", b"a")
    bench.stage("zombie", b"a")
    bench.queue.take_effects()
    number = bench.commit("s")
    refusals = bench.effects(Refuse)
    assert [(effect.connection, effect.code, effect.close, effect.after) for effect in refusals] == [
        ("zombie", "transaction-committed", True, number),
        ("late", "transaction-committed", True, number),
    ]
    assert bench.queue.statistics(0.0).staged_messages == 0
    assert bench.queue.attach_stage("zombie", KEY._replace(name="other"), 0.0).committed
    with pytest.raises(TransactionCommittedError):
        bench.stage("zombie", b"b")
    assert bench.queue.last_event == number, "it is told when the commit is durable"
    assert bench.received() == [(0, b"a")]


def test_a_batch_that_was_accepted_when_its_version_was_committed_is_not_stored() -> None:
    bench = Bench()
    bench.attach("winner", KEY, 50, 1_000)
    bench.attach("zombie", KEY._replace(name="other"), 50, 1_000)
    bench.stage("winner", b"a")
    bench.queue.accept("zombie", 0, MessageBatch.from_payloads([b"b"]))
    number = bench.record("the transaction's record")
    ended = apply_commit({3: bench.queue.log}, bench.versions, "w", 0, {3: ["s"]}, number)[3]
    bench.queue.take_effects()
    bench.queue.store(0.0, 0)
    effects = bench.queue.take_effects()
    (confirm,) = [effect for effect in effects if isinstance(effect, Confirm)]
    (refuse,) = [effect for effect in effects if isinstance(effect, Refuse)]
    assert effects.index(confirm) < effects.index(refuse), "each batch is confirmed, whatever comes then"
    assert (confirm.sender, confirm.first, confirm.after) == ("zombie", None, number)
    assert confirm.rejected is not None
    assert "committed" in confirm.rejected
    assert (refuse.connection, refuse.code, refuse.after) == ("zombie", "transaction-committed", number)
    bench.queue.end_stages(ended, number, 0.0)
    assert bench.received() == [(0, b"a")]
    assert bench.queue.log.stages == {}


def test_a_commit_discards_the_writers_older_versions_and_leaves_later_ones_and_other_writers() -> None:
    bench = Bench()
    keys = [StageKey("w", 0, "s"), StageKey("w", 1, "s"), StageKey("w", 2, "s"), StageKey("v", 0, "s")]
    for name, key in zip("abcd", keys, strict=True):
        bench.attach(name, key, 50, 1_000)
        bench.stage(name, name.encode())
    bench.commit("s", version=1)
    assert bench.received() == [(1, b"b")]
    assert set(bench.queue.log.stages) == {keys[2], keys[3]}
    assert bench.queue.statistics(0.0).total_discarded == 1
    assert bench.queue.statistics(0.0).transactions == 2


def test_an_abort_drops_a_transaction_and_tells_its_senders() -> None:
    bench = Bench()
    bench.attach("t", KEY, 50, 1_000)
    bench.attach("u", KEY._replace(name="other"), 50, 1_000)
    bench.stage("t", b"a", b"b")
    bench.queue.take_effects()
    assert bench.queue.discard_transaction("w", 0, 0.0) == 2
    assert {(e.connection, e.code) for e in bench.effects(Refuse)} == {
        ("t", "transaction-incomplete"),
        ("u", "transaction-incomplete"),
    }
    assert bench.queue.discard_transaction("w", 0, 0.0) == 0
    assert bench.attach("t") == 0, "it begins anew"
    bench.stage("t", b"c")
    bench.commit("s")
    assert bench.received() == [(2, b"c")]


def test_a_stage_without_a_sender_is_dropped_after_the_timeout_and_not_before() -> None:
    bench = Bench()
    bench.attach("t")
    bench.stage("t", b"a")
    assert bench.queue.next_deadline() is None, "its sender is there"
    bench.queue.detach("t", 5.0)
    due = 5.0 + DEFAULT_TRANSACTION_TIMEOUT
    assert bench.queue.next_deadline() == due
    bench.attach("t")
    assert bench.queue.next_deadline() is None
    bench.queue.detach("t", 10.0)
    bench.queue.tick(due)
    assert bench.queue.log.staged_messages == 1
    bench.queue.tick(due + 5.0)
    assert bench.queue.log.staged_messages == 0
    assert bench.queue.next_deadline() is None
    assert bench.queue.statistics(0.0).total_discarded == 1


def test_after_a_start_from_the_log_the_time_begins_anew() -> None:
    bench = Bench()
    bench.attach("t")
    bench.stage("t", b"a")
    bench.queue.detach("t", 0.0)
    again = QueueState("q", 3, log=replayed(bench.events), now=50.0, transaction_timeout=7.0)
    assert again.next_deadline() == 57.0
    again.tick(57.0)
    assert again.log.staged_messages == 0


def test_staged_messages_take_no_room_of_the_queue_and_a_commit_is_taken_whatever_its_limits() -> None:
    bench = Bench(max_messages=8)
    bench.attach("t")
    for number in range(10):
        bench.stage("t", b"a", b"b", at=2 * number)
    bench.send(*[b"c"] * 8)
    assert bench.queue.statistics(0.0).stored_messages == 8
    bench.commit("s")
    assert bench.queue.statistics(0.0).stored_messages == 28
    assert len(bench.received()) == 28


def test_a_queue_that_is_full_grants_writers_nothing_until_its_receivers_have_made_room() -> None:
    bench = Bench(max_messages=8)
    bench.send(*[b"c"] * 8)
    bench.queue.take_effects()
    bench.attach("t", messages=10, size=1_000)
    assert bench.effects(GrantCapacity) == []
    assert len(bench.received(7)) == 7
    bench.queue.request_capacity("t", 0, 0)
    statistics = bench.queue.statistics(0.0)
    granted = {facts.connection: facts.demand for facts in statistics.connections}
    assert granted["t"] == 10


def test_writers_are_granted_nothing_while_senders_are_to_pause() -> None:
    bench = Bench(overflow="reject")
    bench.queue.pause_senders("the disk is full")
    bench.attach("t")
    assert bench.effects(GrantCapacity) == []
    bench.queue.pause_senders(None)
    assert len(bench.effects(GrantCapacity)) == 1


def test_a_transaction_that_alone_is_larger_than_what_may_be_staged_is_refused_by_limit_and_number() -> None:
    bench = Bench(max_staged_messages=4)
    bench.attach("t")
    bench.stage("t", b"a", b"b", b"c", b"d")
    with pytest.raises(TransactionTooLargeError, match=r"have 5 of max_staged_messages 4 .*smaller batches") as raised:
        bench.stage("t", b"e", at=4)
    assert raised.value.close
    bench.commit("s")
    assert len(bench.received()) == 4, "what it has is whole all the same"


def test_so_is_one_that_would_have_too_many_bytes() -> None:
    bench = Bench(max_staged_bytes=2_000)
    bench.attach("t")
    with pytest.raises(TransactionTooLargeError, match="max_staged_bytes 2000"):
        bench.stage("t", b"x" * 2_000)
    bench.stage("t", b"x" * 200)


def test_several_transactions_that_reach_the_limit_together_wait_for_one_of_them_to_end() -> None:
    bench = Bench(max_staged_messages=4)
    bench.attach("t", KEY, 2, 1_000)
    bench.attach("u", StageKey("v", 0, "s"), 2, 1_000)
    bench.stage("t", b"a", b"b")
    bench.stage("u", b"c", b"d")
    bench.queue.take_effects()
    bench.queue.request_capacity("t", 2, 1_000)
    assert bench.effects(GrantCapacity) == []
    bench.commit("s", writer="v")
    assert [grant.sender for grant in bench.effects(GrantCapacity)] == ["t"]
    bench.stage("t", b"e", b"f", at=2)


@pytest.mark.parametrize("limit", [{"max_staged_messages": 4}, {"max_staged_bytes": 4 * 780}])
def test_the_next_transaction_finds_all_of_the_room_that_the_last_one_gave_back(limit: dict[str, Any]) -> None:
    bench = Bench(**limit)
    for version in range(50):
        key = StageKey("w", version, "s")
        bench.attach("t", key, 3, 100)
        for number in range(3):
            bench.stage("t", b"x", at=number)
        if version % 3:
            bench.commit("s", version=version)
        else:
            bench.queue.discard_transaction("w", version, 0.0)
        bench.queue.detach("t", 0.0)
        bench.received()
    assert bench.queue.log.staged_bytes == 0


@pytest.mark.parametrize(("delay", "ttl"), [(1.0, None), (None, 1.0), (0.0, None)])
def test_a_staged_batch_has_no_delay_or_time_to_live_of_its_own(delay: float | None, ttl: float | None) -> None:
    bench = Bench()
    bench.attach("t")
    with pytest.raises(InvalidRequestError, match="of its own"):
        bench.queue.send("t", 0, MessageBatch.from_payloads([b"a"]), 0.0, 0, delay, ttl)


def test_the_queues_delay_counts_from_when_a_message_was_stored() -> None:
    bench = Bench(delay=10.0)
    bench.attach("t")
    bench.stage("t", b"early")
    bench.now = 6.0
    bench.stage("t", b"late", at=1)
    bench.now = 12.0
    bench.commit("s")
    assert bench.received() == [(0, b"early")]
    bench.now = 16.0
    bench.queue.tick(16.0)
    assert bench.received() == [(1, b"late")]
    assert bench.queue.log.delayed == {}


def test_only_so_many_staged_batches_may_wait_for_a_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.queue.state.staged.MAX_DELAYED", 3)
    bench = Bench(delay=10.0)
    bench.attach("t")
    for number in range(3):
        bench.stage("t", b"a", at=number)
    with pytest.raises(QueueLimitError, match="MAX_DELAYED"):
        bench.stage("t", b"a", at=3)
    assert MAX_DELAYED > 3


def test_what_has_expired_by_the_commit_expires() -> None:
    bench = Bench(ttl=10.0)
    bench.attach("t")
    bench.stage("t", b"early")
    bench.now = 6.0
    bench.stage("t", b"late", at=1)
    bench.now = 12.0
    bench.commit("s")
    assert bench.received() == [(1, b"late")]
    statistics = bench.queue.statistics(12.0)
    assert (statistics.total_expired, statistics.stored_messages) == (1, 0)


def test_what_was_published_is_counted_when_it_comes_back_and_leaves_for_the_dead_letter_queue() -> None:
    bench = Bench(max_receives=1)
    bench.attach("t")
    bench.stage("t", b"a")
    bench.commit("s")
    bench.queue.attach_receiver("r")
    bench.queue.receive("r", 1, LARGE, 0.0)
    bench.queue.negative_acknowledge("r", [(0, 1)], 0.0, 0.0)
    (letter,) = bench.effects(DeadLetter)
    assert letter.batch.payloads.tolist() == [b"a"]


def test_an_exclusive_queue_has_it_in_place() -> None:
    bench = Bench(exclusive=True)
    bench.attach("t")
    bench.stage("t", b"a")
    bench.send(b"b", b"c")
    assert bench.received(1) == [(1, b"b")]
    bench.commit("s")
    assert bench.received() == [(0, b"a"), (2, b"c")]


def test_a_purge_leaves_what_is_staged() -> None:
    bench = Bench()
    bench.attach("t")
    bench.stage("t", b"a")
    bench.send(b"b")
    bench.stage("t", b"c", at=1)
    assert bench.queue.purge() == 1
    bench.commit("s")
    assert bench.received() == [(0, b"a"), (2, b"c")]


def test_a_subscription_reserves_what_was_published_and_nothing_before() -> None:
    bench = Bench()
    bench.attach("t")
    bench.stage("t", b"a", b"b")
    bench.queue.open_subscription("own", "sub", "own", epoch=None, starting="earliest", owner_timeout=None)
    bench.queue.reserve("own", 1, 0, messages=10, size=LARGE, wait=5.0, below=None, now=0.0)
    assert bench.queue.log.reserved_messages == 0
    bench.commit("s")
    assert bench.queue.log.reserved_messages == 2


@pytest.mark.parametrize(
    "key",
    [
        StageKey("", 0, "s"),
        StageKey("w", -1, "s"),
        StageKey("w", 2**63, "s"),
        StageKey("w" * (MAX_STAGE_NAME + 1), 0, "s"),
    ],
)
def test_a_stage_that_cannot_be_is_refused(key: StageKey) -> None:
    bench = Bench()
    with pytest.raises(InvalidRequestError):
        bench.attach("t", key)


def test_only_so_many_stages_are_kept_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.queue.operations.staging.MAX_STAGES", 2)
    bench = Bench()
    for name in "ab":
        bench.attach(name, KEY._replace(name=name), 1, 100)
        bench.stage(name, b"x")
    with pytest.raises(QueueLimitError, match="MAX_STAGES"):
        bench.attach("c", KEY._replace(name="c"))
    bench.queue.detach("a", 0.0)
    assert bench.attach("a again", KEY._replace(name="a")) == 1


def test_a_plain_batch_has_nothing_to_do_with_transactions_but_for_a_field_that_is_tested() -> None:
    bench = Bench()
    bench.send(b"first")
    staged = bench.queue.staged
    looked: list[str] = []

    class Watched:
        def __getattr__(self, name: str) -> Any:
            looked.append(name)
            return getattr(staged, name)

    watched: Any = Watched()
    bench.queue.staged = watched
    bench.send(b"second")
    assert set(looked) <= {"incoming_messages", "capacity"}
    assert len(looked) <= 3
