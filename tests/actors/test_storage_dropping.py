"""What is dropped, in the journal: in the record that stores what it is dropped for, through kills and checkpoints."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from actors.batch import MessageBatch
from actors.errors import StorageError
from actors.queue.state.counted import CountedReady
from actors.queue.state.ready import unheld
from actors.queue.vocabulary.events import Event, MessagesAdded, MessagesDropped
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.settings import DROP_HEAD, QueueSettings
from actors.queue.vocabulary.stages import StageKey
from actors.storage import codec
from tests.actors.driven import QueueState
from tests.actors.storage_lives import LARGE, Life, in_loop

FACTS: tuple[dict[str, Any], ...] = (
    {},
    {"published": Published("x", "k")},
    {"producers": (("p", 7),), "temporary": (("t", 8),)},
    {"stage": StageKey("w", 1, "s")},
)


@pytest.mark.parametrize("facts", FACTS, ids=str)
def test_what_is_dropped_for_a_batch_comes_back_with_it(facts: dict[str, Any]) -> None:
    event = MessagesAdded(5, MessageBatch.from_payloads([b"x", b"yz"]), 1_000_000, dropped=((1, 3), (5, 6)), **facts)
    payload = memoryview(b"".join(map(bytes, codec.encode_added(event))))
    assert codec.decode_added(5, 2, payload) == event
    assert codec.is_newer(event)


@pytest.mark.parametrize("further", [{9: 1}, {codec.DROPPED_FACT: [1, 2], 9: None}, {codec.DROPPED_FACT: [1]}])
def test_a_fact_that_is_not_known_is_refused_and_so_is_one_that_cannot_be(further: dict[int, Any]) -> None:
    event = MessagesAdded(5, MessageBatch.from_payloads([b"x"]), 1_000_000, published=Published("x", "k"))
    header = msgpack.packb([*msgpack.unpackb(bytes(codec.encode_added(event)[0])[2:]), further])
    payload = len(header).to_bytes(2, "little") + header + b"".join(map(bytes, event.batch.buffers()))
    with pytest.raises(StorageError, match="newer version" if 9 in further else "cannot be decoded"):
        codec.decode_added(5, 1, memoryview(payload))


@in_loop
def test_a_kill_leaves_what_was_stored_and_what_was_dropped_for_it_or_nothing_of_both() -> None:
    life = Life()
    life.record(0, life.added(0, b"a", b"b"))
    life.run()
    life.record(0, life.added(0, b"c", dropped=((0, 1),)))
    assert life.held(0) == [b"b", b"c"]
    life = life.killed()
    assert (life.held(0), life.logs[0].total_dropped) == ([b"a", b"b"], 0)
    life.record(0, life.added(0, b"c", dropped=((0, 1),)))
    life.run()
    life = life.killed()
    assert (life.held(0), life.logs[0].total_dropped) == ([b"b", b"c"], 1)
    life.record(0, MessagesDropped(((1, 2),)))
    life.checkpoint()
    life = life.killed()
    assert (life.held(0), life.logs[0].total_dropped, life.logs[0].stored_messages) == ([b"c"], 2, 1)


@in_loop
def test_bytes_are_counted_as_they_come_as_a_start_counts_them() -> None:
    life = Life()
    limit = 2_000
    settings = QueueSettings(None, limit, overflow=DROP_HEAD)

    def queue() -> QueueState:
        def record(event: Event) -> int:
            return life.storage.record(0, event)

        return QueueState("a", 0, settings, log=life.logs[0], record=record)

    first = queue()
    first.attach_sender("s", None)
    first.request_capacity("s", LARGE, LARGE)
    first.attach_receiver("r")
    for number in range(60):
        sequence = first.senders["s"].expected or 0
        first.send("s", sequence, MessageBatch.from_payloads([b"x" * (number % 7 * 20)] * (1 + number % 3)), 0.0, 0)
        if number % 5 == 0:
            first.receive("r", 1, LARGE, 0.0)
        if number % 15 == 14:
            first.detach("r", 0.0)
            first.attach_receiver("r")
        life.run()
        assert isinstance(first.ready, CountedReady)
        assert first.ready.is_counted
        assert first.ready.bytes <= limit
    first.detach("r", 0.0)
    assert first.log.total_dropped > 50
    life = life.killed()
    again = CountedReady.of(unheld(life.logs[0]))
    again.count_on(LARGE)
    assert (again.is_counted, again.bytes, again.messages) == (True, first.ready.bytes, first.ready.messages)
