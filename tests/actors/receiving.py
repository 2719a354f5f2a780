"""A queue with receivers, and what they are delivered."""

from __future__ import annotations

from actors.batch import MessageBatch
from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.driven import Deliver, QueueState

LARGE = 10**9


def queue_with(*sizes: int, receivers: str = "r") -> QueueState:
    """A queue that stores batches of these sizes, and has receivers without demand."""
    queue = QueueState("q", 0, QueueSettings(visibility_timeout=10.0))
    queue.attach_sender("s", None)
    queue.request_capacity("s", LARGE, LARGE)
    for name in receivers:
        queue.attach_receiver(name)
    for size in sizes:
        store(queue, size)
    queue.take_effects()
    return queue


def store(queue: QueueState, count: int, now: float = 0.0) -> None:
    first = queue.log.next_sequence
    queue.send("s", first, MessageBatch.from_payloads([b"%03d" % n for n in range(first, first + count)]), now, 0)


def delivered(queue: QueueState) -> list[tuple[object, range]]:
    """Who got what since the last call, each payload being its number."""
    result: list[tuple[object, range]] = []
    for effect in queue.take_effects():
        if isinstance(effect, Deliver):
            numbers = range(effect.first, effect.first + len(effect.batch))
            assert effect.batch.payloads.tolist() == [b"%03d" % n for n in numbers]
            result.append((effect.receiver, numbers))
    return result


def receive(queue: QueueState, name: str, count: int, now: float = 0.0) -> list[range]:
    queue.receive(name, count, LARGE, now)
    return [numbers for _, numbers in delivered(queue)]
