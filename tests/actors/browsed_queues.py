"""A queue, and those who browse it."""

from __future__ import annotations

from actors import MessageBatch
from actors.queue.vocabulary.replies import FetchedMessages
from tests.actors.driven import QueueState

LARGE = 10**9


def payload(number: int) -> bytes:
    return b"%03d" % number


def payloads(*numbers: int) -> list[bytes]:
    return [payload(number) for number in numbers]


def store(queue: QueueState, count: int, now: float = 0.0) -> None:
    first = queue.log.next_sequence
    batch = MessageBatch.from_payloads([payload(number) for number in range(first, first + count)])
    queue.send("s", first, batch, now, round(now * 10**6))


def steps(queue: QueueState, start: int = 0, stop: int = LARGE) -> list[FetchedMessages]:
    """Everything from ``start`` on, step by step."""
    found: list[FetchedMessages] = []
    while start < stop:
        step = queue.browse(start, stop)
        assert step.end > start, "a step gets on"
        found += step.ranges
        start = step.end
    return found


def browsed(queue: QueueState, start: int = 0, stop: int = LARGE) -> list[bytes]:
    found = steps(queue, start, stop)
    for part in found:
        numbers = range(part.first, part.first + len(part.batch))
        assert part.position == part.first
        assert part.batch.payloads.tolist() == payloads(*numbers), "each message is at its number"
    return [one for part in found for one in part.batch.payloads]


def step(first: int, count: int) -> tuple[FetchedMessages, ...]:
    batch = MessageBatch.from_payloads([payload(number) for number in range(first, first + count)])
    return (FetchedMessages(first, first, batch, 0, 0, False),)
