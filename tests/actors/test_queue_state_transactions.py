"""Transactions in the queue's state: staging, commits, aborts, and senders that come back."""

from __future__ import annotations

import pytest

from actors.batch import MessageBatch
from actors.errors import (
    InvalidRequestError,
    SequenceGapError,
    TransactionCommittedError,
)
from actors.queue.state.entries import MemoryEntryTable
from actors.queue.state.ready import ReadyRanges
from actors.queue.state.staged import apply_commit
from actors.queue.vocabulary.events import StagesEnded
from actors.queue.vocabulary.settings import DEFAULT_TRANSACTION_TIMEOUT
from actors.queue.vocabulary.stages import StageKey
from tests.actors.driven import Confirm, Deliver, QueueState, Refuse, Supersede, replayed
from tests.actors.staging_bench import KEY, LARGE, Bench


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
