"""Browsing: a `QueueState` read by number, in steps, without changing anything."""

from __future__ import annotations

import pytest

from actors import MessageBatch
from actors.errors import InvalidRequestError
from actors.queue.operations import browsing
from actors.queue.state.log import QueueLog
from actors.queue.state.staged import CommittedVersions, apply_commit
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey
from tests.actors.browsed_queues import LARGE, browsed, payloads, steps, store
from tests.actors.driven import QueueState, Reserved

KEY = StageKey("writer", 0, "stage")


def queue_with(*sizes: int, declared: QueueSettings | None = None, log: QueueLog | None = None) -> QueueState:
    queue = QueueState("q", 0, declared or QueueSettings(), log=log)
    queue.attach_sender("s", None)
    queue.request_capacity("s", 100_000, 10**8)
    for size in sizes:
        store(queue, size)
    queue.take_effects()
    return queue


def receive(queue: QueueState, count: int, connection: str = "r", now: float = 0.0) -> None:
    queue.attach_receiver(connection)
    queue.receive(connection, count, LARGE, now)
    queue.take_effects()


def take_into_ledger(queue: QueueState, count: int) -> None:
    facts = queue.open_subscription("owner", "sub", "own", epoch=None, starting="earliest", owner_timeout=None)
    queue.reserve("owner", 1, facts.high, messages=count, size=LARGE, wait=0.0, below=None, now=0.0)
    assert any(isinstance(effect, Reserved) for effect in queue.take_effects())


def histories(queue: QueueState) -> list[tuple[int, int, int, bool]]:
    """First number, messages, deliveries and whether replayed, of each piece."""
    return [(part.first, len(part.batch), part.delivery_count, part.possibly_replayed) for part in steps(queue)]


def test_what_is_ready_held_reserved_and_delayed_is_shown_alike_and_what_is_acknowledged_is_not() -> None:
    queue = queue_with(3, 3, 4)
    receive(queue, 5)
    queue.acknowledge("r", [(1, 2)])
    queue.negative_acknowledge("r", [(4, 1)], 60.0, 0.0)
    take_into_ledger(queue, 2)
    assert browsed(queue) == payloads(0, 3, 4, 5, 6, 7, 8, 9)
    assert browsed(queue, 2, 6) == payloads(3, 4, 5)
    assert browsed(queue, 1, 3) == []


def test_what_is_staged_is_shown_once_its_commit_is_acted_on() -> None:
    queue = queue_with(2)
    queue.attach_stage("t", KEY, 0.0)
    queue.request_capacity("t", 10, LARGE)
    queue.send("t", 0, MessageBatch.from_payloads(payloads(2, 3)), 0.0, 0)
    queue.attach_sender("other", None)
    queue.request_capacity("other", 10, LARGE)
    queue.send("other", 0, MessageBatch.from_payloads(payloads(4)), 0.0, 0)
    assert browsed(queue) == payloads(0, 1, 4)
    ended = apply_commit({0: queue.log}, CommittedVersions(), KEY.writer, KEY.version, {0: [KEY.name]}, 7)[0]
    assert browsed(queue) == payloads(0, 1, 4), "nobody is shown a commit that may not be durable"
    queue.end_stages(ended, 7, 0.0)
    assert browsed(queue) == payloads(0, 1, 2, 3, 4)
    assert queue.browse(0, LARGE).after == 7


def test_browsing_changes_nothing() -> None:
    queue = queue_with(5, 5)
    receive(queue, 3)
    take_into_ledger(queue, 2)
    before, log = queue.statistics(0.0), repr(queue.log.acknowledged)
    queue.open_subscription("b", "", "browse", epoch=None, starting="earliest", owner_timeout=None)
    assert browsed(queue) == browsed(queue) == payloads(*range(10))
    assert queue.take_effects() == []
    assert (queue.statistics(0.0), repr(queue.log.acknowledged)) == (before, log)


def test_opening_says_where_what_is_stored_begins_and_ends_and_needs_no_name() -> None:
    queue = queue_with(4, 4)
    receive(queue, 3)
    queue.acknowledge("r", [(0, 2)])
    facts = queue.open_subscription("b", "", "browse", epoch=None, starting="earliest", owner_timeout=None)
    assert (facts.epoch, facts.base, facts.high, facts.high_water) == (0, 2, 8, 8)
    assert queue.log.ledgers == {}


def test_a_queue_in_strict_order_and_an_empty_one_can_be_browsed() -> None:
    assert browsed(queue_with(2, declared=QueueSettings(exclusive=True))) == payloads(0, 1)
    queue = queue_with()
    facts = queue.open_subscription("b", "", "browse", epoch=None, starting="earliest", owner_timeout=None)
    assert (facts.base, facts.high_water, browsed(queue)) == (0, 0, [])


def test_a_range_that_is_backwards_is_refused_and_one_beyond_the_end_is_empty() -> None:
    queue = queue_with(3)
    with pytest.raises(InvalidRequestError, match="backwards"):
        queue.browse(2, 1)
    assert browsed(queue, 7, 9) == []
    assert queue.browse(3, 3).end == 3


def test_a_step_is_bounded_in_messages_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = queue_with(10, 10, 10)
    monkeypatch.setattr(browsing, "BROWSE_MESSAGES", 7)
    assert [len(part.batch) for part in steps(queue)] == [7, 3, 4, 6, 1, 7, 2]
    monkeypatch.setattr(browsing, "BROWSE_MESSAGES", LARGE)
    monkeypatch.setattr(browsing, "BROWSE_BYTES", 1)
    assert [queue.browse(start, LARGE).end for start in (0, 10, 20)] == [10, 20, LARGE]
    assert browsed(queue) == payloads(*range(30))


def test_what_is_acknowledged_between_two_steps_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsing, "BROWSE_MESSAGES", 4)
    queue = queue_with(6, 6)
    receive(queue, 12)
    first = queue.browse(0, 12)
    queue.acknowledge("r", [(0, 6), (8, 2)])
    assert first.end == 4
    assert browsed(queue, first.end, 12) == payloads(6, 7, 10, 11)


def test_deliveries_are_what_the_queue_knows_of_them() -> None:
    queue = queue_with(4, 4, declared=QueueSettings(max_receives=5))
    assert histories(queue) == [(0, 4, 0, False), (4, 4, 0, False)]
    receive(queue, 3)
    queue.negative_acknowledge("r", [(1, 1)], 0.0, 0.0)
    receive(queue, 1, "second")
    queue.negative_acknowledge("r", [(2, 1)], 60.0, 0.0)
    take_into_ledger(queue, 2)
    assert histories(queue) == [
        (0, 1, 1, False),
        (1, 1, 2, True),
        (2, 1, 1, True),
        (3, 1, 1, False),
        (4, 1, 1, False),
        (5, 3, 0, False),
    ]


def test_a_queue_that_does_not_count_knows_nothing_of_what_came_back() -> None:
    queue = queue_with(2)
    receive(queue, 1)
    queue.negative_acknowledge("r", [(0, 1)], 60.0, 0.0)
    assert histories(queue) == [(0, 2, 0, False)]
