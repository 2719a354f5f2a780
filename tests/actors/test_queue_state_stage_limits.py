"""Limits of what is staged, and what queues do to it: delays, times to live, receivers, purges, subscriptions."""

from __future__ import annotations

from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.errors import (
    InvalidRequestError,
    QueueLimitError,
    TransactionTooLargeError,
)
from actors.queue.vocabulary.replies import DeadLetter
from actors.queue.vocabulary.settings import MAX_DELAYED, MAX_STAGE_NAME
from actors.queue.vocabulary.stages import StageKey
from tests.actors.driven import GrantCapacity
from tests.actors.staging_bench import KEY, LARGE, Bench


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
