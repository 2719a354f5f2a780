"""Queues without limits of their own: they are never full, and what holds their senders is what has all senders pause."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.queue.operations.dead_letters import room_for_letters
from actors.queue.vocabulary.commands import AlterQueue, ExplainWait
from actors.queue.vocabulary.replies import WaitExplained
from actors.queue.vocabulary.settings import (
    DEFAULT_MAX_BYTES,
    DEFAULT_MAX_MESSAGES,
    REJECT,
    QueueSettings,
)
from tests.actors.driven import GrantCapacity, QueueState

LARGE = 10**12


def endless(**more: Any) -> QueueState:
    return QueueState("q", 0, QueueSettings(None, None, **more))


def granted(queue: QueueState, connection: str) -> tuple[int, int]:
    """What a sender was granted since the last call."""
    grants = [each for each in queue.take_effects() if isinstance(each, GrantCapacity) and each.sender == connection]
    return sum(each.messages for each in grants), sum(each.bytes for each in grants)


def test_a_queue_without_limits_grants_no_more_at_a_time_than_one_with_the_usual_limits() -> None:
    """When its senders are to pause, that is what can still come."""
    queue, usual = endless(), QueueState("u", 1, QueueSettings())
    for one in (queue, usual):
        one.attach_sender("s", None)
        one.request_capacity("s", LARGE, LARGE)
    at_once = granted(queue, "s")
    assert at_once == granted(usual, "s")
    assert 0 < at_once[0] <= DEFAULT_MAX_MESSAGES
    assert 0 < at_once[1] <= DEFAULT_MAX_BYTES


def test_it_is_never_full_and_grants_as_much_as_ever_however_much_it_stores() -> None:
    queue = endless()
    queue.attach_sender("s", None)
    queue.request_capacity("s", LARGE, LARGE)
    queue.take_effects()
    # As if so much were stored: nobody wants to make it.
    queue.log.stored_messages, queue.log.stored_bytes = 10**10, 2**45
    queue.attach_sender("next", None)
    queue.request_capacity("next", 1000, 1000)
    assert granted(queue, "next") == (1000, 1000)
    statistics = queue.statistics(0.0)
    assert not statistics.full
    assert statistics.waiting_senders == 0
    assert room_for_letters(queue, MessageBatch.from_payloads([b"x"] * 50)) == 50


def test_whoever_sends_to_it_pauses_when_all_senders_do() -> None:
    queue = endless()
    queue.attach_sender("s", None)
    queue.pause_senders("the disk is nearly full")
    queue.request_capacity("s", 10, 100)
    assert granted(queue, "s") == (0, 0)
    queue.pause_senders(None)
    assert granted(queue, "s") == (10, 100)


def test_one_that_rejects_rejects_nothing_but_while_its_senders_are_to_pause() -> None:
    queue = endless(overflow=REJECT)
    queue.attach_sender("s", None)
    queue.request_capacity("s", 10_000, LARGE)
    queue.take_effects()
    queue.log.stored_messages, queue.log.stored_bytes = 10**10, 2**45
    assert queue.send("s", 0, MessageBatch.from_payloads([b"x"] * 100), 0.0, 0) == 0
    queue.pause_senders("the disk is nearly full")
    assert queue.send("s", 100, MessageBatch.from_payloads([b"x"]), 0.0, 0) is None


@pytest.mark.parametrize("limits", [(None, 10_000), (10, None)])
def test_one_limit_holds_without_the_other(limits: tuple[int | None, int | None]) -> None:
    queue = QueueState("q", 0, QueueSettings(*limits))
    queue.attach_sender("s", None)
    queue.request_capacity("s", 1000, LARGE)
    sent, messages, size = 0, 0, 0
    while True:
        more = granted(queue, "s")
        messages, size = messages + more[0], size + more[1]
        if messages <= 0 or size <= 0:
            break
        one = MessageBatch.from_payloads([b"x" * 100])
        queue.send("s", sent, one, 0.0, 0)
        sent, messages, size = sent + 1, messages - 1, size - one.nbytes
    # What was granted was so before the overhead of the batches was known; each message of 100 bytes takes 108.
    assert sent == (10 if limits[0] else -(-10_000 // 108))
    assert queue.statistics(0.0).full
    queue.request_capacity("s", 1, 1)
    queue.take_effects()

    queue.execute(ExplainWait(1, "s"), 0.0, 0)  # type: ignore[arg-type]
    told: Any = queue.effects.pop()
    assert isinstance(told.reply, WaitExplained)
    assert ("messages" if limits[0] else "MiB") in told.reply.text


def test_a_queue_that_was_full_has_room_when_its_limits_are_taken_away_and_gets_them_back() -> None:
    queue = QueueState("q", 0, QueueSettings(10, LARGE))
    queue.attach_sender("s", None)
    queue.request_capacity("s", 10, LARGE)
    queue.take_effects()
    queue.send("s", 0, MessageBatch.from_payloads([b"x"] * 10), 0.0, 0)
    queue.request_capacity("s", 1000, 0)
    assert granted(queue, "s") == (0, 0)
    queue.execute(AlterQueue(replace(queue.settings, max_messages=None, max_bytes=None)), 0.0, 0)
    assert granted(queue, "s")[0] == 1000
    queue.execute(AlterQueue(replace(queue.settings, max_messages=10)), 0.0, 0)
    queue.attach_sender("next", None)
    queue.request_capacity("next", 10, LARGE)
    assert granted(queue, "next") == (0, 0)
