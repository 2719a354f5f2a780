"""What was published by a commit, and has to wait at an exchange, is looked at some of it in each turn. Counted, never timed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.batch import MessageBatch
from actors.exchanges.delayed import waiting_queue
from actors.queue.operations import passing_on
from actors.queue.operations.passing_on import MOST_UNDER_WAY, PASS_BUDGET
from actors.queue.vocabulary.budgets import EXPIRY_BUDGET
from actors.queue.vocabulary.events import MessagesAdded
from actors.queue.vocabulary.replies import DeadLetter
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.waiting import NOTHING, to_wait, waits_for
from tests.actors.driven import QueueState, empty_log

HOUR_MS = 3_600_000


def published(batches: int, messages: int, wait: Callable[[int], int | None]) -> QueueState:
    """The queue that waits for an exchange, as a commit has just published in it; each message says ``wait`` of its number."""
    settings = QueueSettings(ttl=0.0, dead_letter_exchange="x")
    log = empty_log(settings)
    for number in range(batches):
        parts = [to_wait(MessageBatch.from_payloads([b"x"]), wait(at), NOTHING) for at in range(messages)]
        batch = MessageBatch.from_messages([message for part in parts for message in part.messages()])
        log.apply(MessagesAdded(number * messages, batch, 0, ttl_us=0), number + 1)
    return QueueState(waiting_queue("x"), 1, settings, log=log)


@pytest.mark.parametrize("waits", ["an hour", "each another time", "not at all"])
@pytest.mark.parametrize(("batches", "messages"), [(2 * EXPIRY_BUDGET, 1), (40, 500), (2, 5 * PASS_BUDGET)])
def test_a_turn_looks_at_so_many_messages_whatever_was_committed(
    batches: int, messages: int, waits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = published(
        batches,
        messages,
        {
            "an hour": lambda _: HOUR_MS,
            "each another time": lambda number: HOUR_MS + 1000 * number,
            "not at all": lambda _: None,
        }[waits],
    )
    looked = 0

    def look(packed: bytes) -> int:
        nonlocal looked
        looked += 1
        return waits_for(packed)

    monkeypatch.setattr(passing_on, "waits_for", look)
    passed: list[int] = []
    steps: list[tuple[int, int]] = []
    while (due := queue.next_deadline()) is not None and due <= 0.0 and len(steps) < 1000:
        before, spans = looked, len(queue.ready.delayed)
        queue.tick(0.0)
        # One part of a batch for what is left of a go before, one for what leaves now.
        steps.append((looked - before, len(queue.ready.delayed) - spans))
        for effect in queue.take_effects():
            assert isinstance(effect, DeadLetter)
            passed += range(*effect.ranges[0])
    assert max(each for each, _ in steps) <= 3 * PASS_BUDGET
    assert max(each for _, each in steps) <= 2 * PASS_BUDGET // passing_on.PIECE_COST
    if waits == "not at all":
        assert queue.outbox.sent.messages == len(passed) <= MOST_UNDER_WAY + PASS_BUDGET
        assert passed == list(range(len(passed)))
    else:
        assert (queue.ready.delayed.messages, queue.ready.messages, passed) == (batches * messages, 0, [])
