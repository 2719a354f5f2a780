"""What a queue remembers of its producers: those that keep a name, and those whose name was made up for one run."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from actors.batch import MessageBatch
from actors.queue.state import log as log_module
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.events import MessagesAdded
from actors.queue.vocabulary.settings import MAX_PRODUCERS, MAX_TEMPORARY_PRODUCERS
from actors.queue.vocabulary.stages import StageKey
from actors.storage import Storage, codec
from journal import ManualCommitter
from streams.testkit import run_in_virtual_time
from tests.actors.driven import QueueState

ONE = MessageBatch.from_payloads([b"x"])


def send(queue: QueueState, producer: str, number: int, temporary: bool) -> int | None:
    """Come, send one message, and go; returns the number that the queue knew of."""
    known = queue.attach_sender(producer, producer, temporary)
    queue.request_capacity(producer, 1, 100)
    queue.send(producer, number, ONE, 0.0, 1)
    queue.detach(producer, 0.0)
    queue.take_effects()
    return known


def test_a_producer_that_keeps_its_name_is_remembered_beside_a_hundred_thousand_that_do_not() -> None:
    log = QueueLog()
    log.apply(MessagesAdded(0, ONE, 1, producers=(("named", 17),)))
    first = 1
    for start in range(0, 100_000, 1_000):
        names = tuple((f"sender-{number}", 1) for number in range(start, start + 1_000))
        log.apply(MessagesAdded(first, ONE, 1, temporary=names))
        first += 1
    assert log.last_number("named") == 17
    assert len(log.temporary) == MAX_TEMPORARY_PRODUCERS
    assert len(log.producers) == 1 <= MAX_PRODUCERS


def test_a_temporary_producer_that_comes_back_is_told_where_it_was_and_duplicates_nothing() -> None:
    queue = QueueState("q", 0)
    assert send(queue, "sender-1", 0, temporary=True) is None
    for number in range(100):
        send(queue, f"named-{number}", 0, temporary=False)
    assert send(queue, "sender-1", 0, temporary=True) == 1
    assert queue.log.stored_messages == 101


def test_temporary_producers_are_forgotten_for_one_another_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "MAX_TEMPORARY_PRODUCERS", 2)
    queue = QueueState("q", 0)
    for producer in ("a", "b", "c"):
        send(queue, producer, 0, temporary=True)
    send(queue, "named", 0, temporary=False)
    assert (dict(queue.log.temporary), dict(queue.log.producers)) == ({"b": 1, "c": 1}, {"named": 1})


def test_a_name_that_changes_its_kind_is_remembered_once() -> None:
    queue = QueueState("q", 0)
    send(queue, "p", 0, temporary=True)
    assert send(queue, "p", 1, temporary=False) == 1
    assert (dict(queue.log.temporary), dict(queue.log.producers)) == ({}, {"p": 2})
    assert send(queue, "p", 2, temporary=True) == 2
    assert (dict(queue.log.temporary), dict(queue.log.producers)) == ({"p": 3}, {})


@pytest.mark.parametrize("stage", [None, StageKey("w", 1, "s")])
@pytest.mark.parametrize("temporary", [(), (("sender-1", 4), ("sender-2", 5))])
def test_a_record_has_both_kinds_and_a_stage_or_none(
    stage: StageKey | None, temporary: tuple[tuple[str, int], ...]
) -> None:
    event = MessagesAdded(7, ONE, 1, (("named", 3),), 0, None, stage, temporary)
    payload = memoryview(b"".join(bytes(part) for part in codec.encode_added(event)))
    assert codec.decode_added(7, 1, payload) == event


def test_both_kinds_come_back_after_a_restart_from_the_log_and_from_a_checkpoint(tmp_path: Path) -> None:
    async def main() -> None:
        for _ in range(3):
            committer = ManualCommitter()
            storage = Storage.open(tmp_path / "data", committer=committer).start(lambda _error: None)
            stored = storage.queues[0] if storage.queues else storage.declare("q", None)
            queue = QueueState("q", stored.number, log=stored.log, record=partial(storage.record, stored.number))
            for producer, temporary in (("sender-1", True), ("named", False)):
                number = queue.log.last_number(producer) or 0
                assert send(queue, producer, number, temporary) == (number or None)
            committer.run()
            storage.close()
        assert (dict(queue.log.temporary), dict(queue.log.producers)) == ({"sender-1": 3}, {"named": 3})

    run_in_virtual_time(main())
