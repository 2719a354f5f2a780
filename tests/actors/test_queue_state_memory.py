"""What a queue keeps in memory is what it counts: a small part of a large buffer does not keep the buffer."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from actors.batch import COMPACT_SHARE, COMPACT_SLACK, Message, MessageBatch
from actors.queue.vocabulary.events import Event, MessagesAdded
from actors.queue.vocabulary.letters import Origin
from actors.queue.vocabulary.replies import DeadLetter
from actors.queue.vocabulary.settings import QueueSettings
from actors.storage import Storage
from journal import ManualCommitter
from streams.testkit import run_in_virtual_time
from tests.actors.driven import QueueState

LARGE = 10**9
KIB = 1024


def whole(messages: int = 100, size: int = 10 * KIB) -> MessageBatch:
    """A batch whose columns are parts of one buffer, as a frame's are."""
    made = MessageBatch.from_messages(
        [
            Message(bytes([number % 256]) * size, key=b"k", headers={"h": "v"}, id=bytes(16))
            for number in range(messages)
        ]
    )
    body = b"".join(made.buffers())
    return MessageBatch.from_body(*made.descriptor(), body)


def sending(queue: QueueState, connection: str = "s") -> None:
    queue.attach_sender(connection, "producer")
    queue.request_capacity(connection, 10**6, LARGE)


def test_a_part_says_how_much_it_holds_and_is_copied_only_where_that_is_much_more_than_its_own() -> None:
    batch = whole()
    assert batch.held_bytes() == batch.nbytes
    assert batch.compact() is batch
    most = batch.slice(0, 60)
    assert most.compact() is most
    few = batch.slice(7, 9)
    assert few.held_bytes() == batch.nbytes
    copied = few.compact()
    assert copied == few
    assert copied.messages() == batch.messages()[7:9]
    assert copied.held_bytes() == copied.nbytes == few.nbytes
    assert copied.compact() is copied
    tiny = MessageBatch.from_payloads([b"x" * 100] * 8).slice(0, 1)
    assert tiny.compact() is tiny, "less than COMPACT_SLACK is not worth a copy"


@pytest.mark.parametrize("recorded", [False, True])
def test_one_new_message_behind_many_known_ones_keeps_no_more_than_itself(recorded: bool) -> None:
    stored: list[MessageBatch] = []

    def record(event: Event) -> int:
        assert isinstance(event, MessagesAdded)
        stored.append(event.batch)
        return 1

    queue = QueueState("q", 0, record=record if recorded else None)
    sending(queue)
    batch = whole()
    queue.send("s", 0, batch.slice(0, 50), 0.0, 1)
    for number in range(50, 100):
        queue.send("s", number - 49, batch.slice(number - 49, number + 1), 0.0, 1)
        entry = queue.log.table.at(number)
        assert entry is not None
        assert entry.batch.held_bytes() <= COMPACT_SHARE * entry.size + COMPACT_SLACK
        if recorded:
            assert stored[-1] is entry.batch
    assert queue.log.stored_messages == 100


def test_many_resends_that_overlap_take_the_memory_that_the_queue_counts() -> None:
    queue = QueueState("q", 0)
    sending(queue)
    rounds, known = 40, 200
    tracemalloc.start()
    try:
        queue.send("s", 0, whole(known, 10 * KIB), 0.0, 1)
        gc.collect()
        begin = tracemalloc.get_traced_memory()[0]
        for number in range(rounds):
            # Two megabytes, of which one message is new.
            queue.send("s", number + 1, whole(known, 10 * KIB), 0.0, 1)
        queue.take_effects()
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - begin
    finally:
        tracemalloc.stop()
    assert queue.log.stored_messages == known + rounds
    assert grown < 2 * rounds * 10 * KIB + 200 * KIB


def test_a_dead_letter_keeps_no_neighbours() -> None:
    queue, dead = QueueState("q", 0, QueueSettings(max_receives=1)), QueueState("q.dead", 1)
    sending(queue)
    queue.send("s", 0, whole(), 0.0, 1)
    queue.attach_receiver("r")
    queue.receive("r", 100, LARGE, 0.0)
    queue.negative_acknowledge("r", [(3, 1)], 0.0, 0.0)
    (letter,) = [effect for effect in queue.take_effects() if isinstance(effect, DeadLetter)]
    dead.store_dead_letters(letter.batch, Origin(0, letter.ranges), 0.0, 1)
    entry = dead.log.table.at(0)
    assert entry is not None
    assert entry.batch.payloads[0] == b"\x03" * 10 * KIB
    assert entry.batch.held_bytes() == entry.size


def test_what_is_read_back_keeps_no_names_of_many_senders(tmp_path: Path) -> None:
    async def main() -> None:
        committer = ManualCommitter()
        storage = Storage.open(tmp_path / "data", committer=committer, cache_bytes=0).start(lambda _error: None)
        stored = storage.declare("q", None)
        queue = QueueState(
            "q", stored.number, log=stored.log, record=lambda event: storage.record(stored.number, event)
        )
        for number in range(100):
            queue.attach_sender(number, f"{number:0255}")
            queue.request_capacity(number, 1, 1)
        for number in range(100):
            queue.accept(number, 0, MessageBatch.from_payloads([b"x"]))
        queue.store(0.0, 1)
        committer.run()
        entry = queue.log.table.at(0)
        assert entry is not None
        assert len(entry.batch) == 100
        entry.forget()
        assert entry.batch.held_bytes() == entry.size < 1_000
        storage.close()

    run_in_virtual_time(main())
