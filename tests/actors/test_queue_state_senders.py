"""Capacity and producers of a `QueueState`."""

from __future__ import annotations

from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.errors import DemandExceededError, InvalidRequestError, SequenceGapError
from actors.queue import queue_state
from actors.queue.operations import sending
from actors.queue.state import log as log_module
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.replies import RoomGranted
from actors.queue.vocabulary.settings import ENTRY_OVERHEAD_BYTES, QueueSettings
from actors.queue.vocabulary.stages import StageKey
from tests.actors.driven import Confirm, GrantCapacity, QueueState, Supersede

LARGE = 10**9
PLENTY = 10**6


def stored_batch(queue: QueueState, first: int) -> list[bytes]:
    entry = queue.log.table.at(first)
    assert entry is not None
    return entry.batch.payloads.tolist()


def batch(count: int, size: int = 1) -> MessageBatch:
    return MessageBatch.from_payloads([b"x" * size] * count)


def queue_of(messages: int = 1000, size: int = LARGE) -> QueueState:
    return QueueState("q", 0, QueueSettings(messages, size))


def grants(queue: QueueState) -> dict[object, int]:
    """Messages granted since the last call, by sender."""
    total: dict[object, int] = {}
    for effect in queue.take_effects():
        if isinstance(effect, GrantCapacity):
            total[effect.sender] = total.get(effect.sender, 0) + effect.messages
    return total


def attach(queue: QueueState, *names: str, messages: int = 0) -> None:
    for name in names:
        queue.attach_sender(name, None)
        if messages:
            queue.request_capacity(name, messages, PLENTY)


def acknowledge_all(queue: QueueState, count: int) -> None:
    queue.attach_receiver("drain")
    queue.receive("drain", count, LARGE, 0.0)
    queue.acknowledge("drain", [(0, count)])


def test_a_sender_is_granted_what_it_asks_for_while_there_is_room() -> None:
    queue = queue_of()
    attach(queue, "s", messages=50)
    assert queue.take_effects() == [GrantCapacity("s", 50, PLENTY)]


def test_a_connection_lost_before_what_was_accepted_is_stored_makes_no_room_of_it() -> None:
    queue = queue_of(messages=10)
    attach(queue, "a", messages=8)
    attach(queue, "b", messages=8)
    assert grants(queue) == {"a": 8, "b": 2}
    queue.accept("a", 0, batch(8))
    queue.detach("a", 0.0)
    assert grants(queue) == {}
    queue.store(0.0, 0)
    assert queue.log.stored_messages == 8


def test_permits_and_stored_messages_together_stay_within_the_limit() -> None:
    queue = queue_of(messages=10)
    attach(queue, "a", messages=8)
    attach(queue, "b", messages=8)
    assert grants(queue) == {"a": 8, "b": 2}
    queue.send("a", 0, batch(8), 0.0, 0)
    queue.send("b", 0, batch(2), 0.0, 0)
    queue.request_capacity("a", 5, 0)
    assert grants(queue) == {}


def test_room_is_shared_in_turns_by_those_who_wait() -> None:
    queue = queue_of(messages=10)
    attach(queue, "first", messages=10)
    queue.send("first", 0, batch(10), 0.0, 0)
    attach(queue, "a", "b", "c", messages=20)
    assert grants(queue) == {"first": 10}
    acknowledge_all(queue, 10)
    shares = grants(queue)
    assert sum(shares.values()) == 10
    assert all(shares[name] >= 3 for name in ("a", "b", "c"))


def test_acknowledging_makes_room_for_waiting_senders_at_once() -> None:
    queue = queue_of(messages=4)
    attach(queue, "s", messages=10)
    assert grants(queue) == {"s": 4}
    queue.send("s", 0, batch(4), 0.0, 0)
    queue.attach_receiver("r")
    queue.receive("r", 4, LARGE, 0.0)
    queue.acknowledge("r", [(1, 2)])
    assert grants(queue) == {"s": 2}


def test_a_queue_that_was_full_reopens_for_a_batch_and_not_for_a_message() -> None:
    queue = queue_of(messages=80)
    attach(queue, "s", messages=200)
    assert grants(queue) == {"s": 80}
    queue.send("s", 0, batch(80), 0.0, 0)
    queue.attach_receiver("r")
    queue.receive("r", 80, LARGE, 0.0)
    for number in range(9):
        queue.acknowledge("r", [(number, 1)])
    assert grants(queue) == {}
    queue.acknowledge("r", [(9, 1)])
    assert grants(queue) == {"s": 10}, "an eighth of a small queue"
    queue.acknowledge("r", [(10, 1)])
    assert grants(queue) == {"s": 1}, "until it is full again"


def test_idle_senders_that_hold_all_room_do_not_stop_another() -> None:
    queue = queue_of(messages=10)
    attach(queue, "hog", messages=10)
    attach(queue, "busy", messages=100)
    assert grants(queue) == {"hog": 10, "busy": 1}
    for number in range(9):
        queue.send("busy", number, batch(1), 0.0, 0)
        assert grants(queue) == {"busy": 1}, "one at a time, while less than the limit is stored"
    queue.send("busy", 9, batch(1), 0.0, 0)
    assert grants(queue) == {}, "the queue is full"


def test_what_idle_senders_were_granted_can_still_come_when_the_queue_is_full() -> None:
    queue = queue_of(messages=10)
    attach(queue, "hog", messages=10)
    attach(queue, "busy", messages=100)
    for number in range(10):
        queue.send("busy", number, batch(1), 0.0, 0)
    queue.send("hog", 0, batch(10), 0.0, 0)
    assert queue.log.stored_messages == 20, "what was granted is not taken back"
    queue.request_capacity("hog", 10, PLENTY)
    assert queue.statistics(0.0).capacity_granted == 0, "nor is more granted"


def test_waiting_senders_hold_at_most_one_message_each_beyond_the_room() -> None:
    queue = queue_of(messages=10)
    attach(queue, "hog", messages=10)
    names = [f"s{n}" for n in range(50)]
    attach(queue, *names, messages=100)
    assert grants(queue) == {"hog": 10} | dict.fromkeys(names, 1)
    for name in names:
        queue.request_capacity(name, 100, LARGE)
    assert grants(queue) == {}


def test_a_sender_that_is_stuck_for_bytes_gets_no_messages_beyond_the_limit() -> None:
    queue = queue_of(messages=10)
    attach(queue, "hog", messages=7)
    queue.attach_sender("s", None)
    queue.request_capacity("s", 100, 1)
    assert grants(queue) == {"hog": 7, "s": 3}
    for number in range(3):
        queue.send("s", number, batch(1), 0.0, 0)
        queue.request_capacity("s", 0, 10)
    assert queue.statistics(0.0).capacity_granted <= 7 + 1


def test_a_sender_that_detaches_gives_back_its_permits_at_once() -> None:
    queue = queue_of(messages=10)
    attach(queue, "hog", messages=10)
    attach(queue, "s", messages=6)
    assert grants(queue) == {"hog": 10, "s": 1}
    queue.detach("hog", 0.0)
    assert grants(queue) == {"s": 5}
    queue.detach("s", 0.0)
    assert queue.statistics(0.0).capacity_granted == 0


def test_more_messages_than_granted_are_refused_and_nothing_is_changed() -> None:
    queue = queue_of(messages=5)
    attach(queue, "s", messages=5)
    before = queue.statistics(0.0)
    with pytest.raises(DemandExceededError, match="6 messages") as caught:
        queue.send("s", 0, batch(6), 0.0, 0)
    assert (caught.value.code, caught.value.granted_messages) == ("demand-exceeded", 5)
    assert queue.statistics(0.0) == before
    assert queue.send("s", 0, batch(5), 0.0, 0) == 0


def test_only_the_last_message_may_lead_beyond_the_bytes_granted() -> None:
    queue = queue_of()
    queue.attach_sender("s", None)
    queue.request_capacity("s", 10, 100)
    with pytest.raises(DemandExceededError):
        queue.send("s", 0, MessageBatch.from_payloads([b"x" * 100, b"y"]), 0.0, 0)
    assert queue.send("s", 0, MessageBatch.from_payloads([b"x", b"y" * 100_000]), 0.0, 0) == 0
    with pytest.raises(DemandExceededError):
        queue.send("s", 2, batch(1), 0.0, 0)


def test_bytes_that_led_beyond_the_permit_are_made_good_before_more_may_be_sent() -> None:
    queue = queue_of()
    queue.attach_sender("s", None)
    queue.request_capacity("s", 10, 1)
    queue.send("s", 0, MessageBatch.from_payloads([b"y" * 92]), 0.0, 0)  # 100 bytes with two offsets
    queue.request_capacity("s", 0, 99)
    with pytest.raises(DemandExceededError):
        queue.send("s", 1, batch(1), 0.0, 0)
    queue.request_capacity("s", 0, 1)
    assert queue.send("s", 1, batch(1), 0.0, 0) == 1


def test_what_led_beyond_a_permit_is_not_room_for_others() -> None:
    queue = queue_of(size=10_000)
    queue.attach_sender("a", None)
    queue.request_capacity("a", 10, 1)
    queue.send("a", 0, batch(1, 3992), 0.0, 0)  # 4000 bytes with two offsets
    queue.take_effects()
    attach(queue, "b", messages=10)
    (grant,) = queue.take_effects()
    assert isinstance(grant, GrantCapacity)
    assert grant.bytes == 10_000 - 4000 - ENTRY_OVERHEAD_BYTES


def test_permits_end_where_the_bytes_do() -> None:
    queue = queue_of(size=2 * ENTRY_OVERHEAD_BYTES)
    attach(queue, "s", messages=100)
    (grant,) = queue.take_effects()
    assert isinstance(grant, GrantCapacity)
    assert grant.bytes == 2 * ENTRY_OVERHEAD_BYTES
    queue.send("s", 0, batch(1, ENTRY_OVERHEAD_BYTES), 0.0, 0)
    queue.send("s", 1, batch(1, 1), 0.0, 0)
    assert queue.statistics(0.0).stored_bytes >= 2 * ENTRY_OVERHEAD_BYTES
    queue.attach_sender("late", None)
    queue.request_capacity("late", 1, 1)
    assert grants(queue) == {}


def test_small_batches_count_with_what_keeping_them_takes() -> None:
    queue = queue_of()
    attach(queue, "s", messages=100)
    for number in range(10):
        queue.send("s", number, batch(1), 0.0, 0)
    assert queue.statistics(0.0).stored_bytes == 10 * (ENTRY_OVERHEAD_BYTES + batch(1).nbytes)


def test_every_batch_is_confirmed_with_the_number_it_got() -> None:
    queue = queue_of()
    attach(queue, "s", messages=100)
    queue.take_effects()
    assert queue.send("s", 5, batch(3), 0.0, 0) == 0
    assert queue.send("s", 8, batch(2), 0.0, 0) == 3
    assert queue.take_effects() == [Confirm("s", 8, 0), Confirm("s", 10, 3)]


def test_a_gap_in_a_senders_numbers_is_refused() -> None:
    queue = queue_of()
    attach(queue, "s", messages=100)
    queue.send("s", 0, batch(3), 0.0, 0)
    with pytest.raises(SequenceGapError) as caught:
        queue.send("s", 4, batch(1), 0.0, 0)
    assert (caught.value.expected, caught.value.received, caught.value.code) == (3, 4, "protocol-error")
    assert queue.log.stored_messages == 3


def test_a_producer_that_comes_back_is_told_where_it_was() -> None:
    queue = queue_of()
    assert queue.attach_sender("one", "p") is None
    queue.request_capacity("one", 10, LARGE)
    queue.send("one", 0, batch(4), 0.0, 0)
    queue.detach("one", 0.0)
    assert queue.attach_sender("two", "p") == 4


def test_a_batch_sent_again_is_confirmed_and_not_stored_again() -> None:
    queue = queue_of(messages=10)
    queue.attach_sender("one", "p")
    queue.request_capacity("one", 6, PLENTY)
    queue.send("one", 0, batch(4), 0.0, 0)
    queue.detach("one", 0.0)
    queue.attach_sender("two", "p")
    queue.request_capacity("two", 6, PLENTY)
    queue.take_effects()
    assert queue.send("two", 0, batch(4), 0.0, 0) is None
    assert queue.take_effects() == [Confirm("two", 4, None)]
    statistics = queue.statistics(0.0)
    assert (statistics.stored_messages, statistics.total_in, statistics.capacity_granted) == (4, 4, 2)
    queue.request_capacity("two", 4, 0)
    assert grants(queue) == {"two": 4}, "the permits of what was sent again are free again"


def test_of_a_batch_that_is_known_in_part_the_rest_is_stored() -> None:
    queue = queue_of()
    queue.attach_sender("one", "p")
    queue.request_capacity("one", 10, LARGE)
    queue.send("one", 0, batch(3), 0.0, 0)
    queue.detach("one", 0.0)
    queue.attach_sender("two", "p")
    queue.request_capacity("two", 10, LARGE)
    queue.take_effects()
    again = MessageBatch.from_payloads([b"0", b"1", b"2", b"3", b"4"])
    assert queue.send("two", 0, again, 0.0, 0) is None
    assert queue.take_effects() == [Confirm("two", 5, None)]
    assert stored_batch(queue, 3) == [b"3", b"4"]
    assert queue.send("two", 5, batch(1), 0.0, 0) == 5


def test_a_newer_connection_of_a_producer_takes_over() -> None:
    queue = queue_of(messages=10)
    queue.attach_sender("old", "p")
    queue.request_capacity("old", 10, LARGE)
    queue.send("old", 0, batch(1), 0.0, 0)
    queue.take_effects()
    assert queue.attach_sender("new", "p") == 1
    assert queue.take_effects() == [Supersede("old")]
    with pytest.raises(InvalidRequestError, match="not attached"):
        queue.send("old", 1, batch(1), 0.0, 0)
    queue.request_capacity("new", 9, LARGE)
    assert grants(queue) == {"new": 9}, "what the older one held is free"
    queue.detach("old", 0.0)
    assert queue.send("new", 1, batch(1), 0.0, 0) == 1


def test_the_producers_remembered_are_bounded_and_the_latest_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "MAX_PRODUCERS", 3)
    queue = queue_of()
    for name in ("a", "b", "c", "a", "d"):
        queue.attach_sender(name, name)
        queue.request_capacity(name, 1, LARGE)
        queue.send(name, queue.log.producers.get(name, 0), batch(1), 0.0, 0)
        queue.detach(name, 0.0)
    assert dict(queue.log.producers) == {"c": 1, "a": 2, "d": 1}


def test_who_is_not_attached_can_neither_ask_nor_send() -> None:
    queue = queue_of()
    with pytest.raises(InvalidRequestError):
        queue.request_capacity("nobody", 1, 1)
    with pytest.raises(InvalidRequestError):
        queue.send("nobody", 0, batch(1), 0.0, 0)
    queue.attach_sender("s", None)
    with pytest.raises(InvalidRequestError, match="already"):
        queue.attach_sender("s", None)
    with pytest.raises(InvalidRequestError, match="negative"):
        queue.request_capacity("s", -1, 1)


def test_a_thousand_waiting_senders_cost_a_full_queue_nothing() -> None:
    queue = queue_of(messages=4)
    attach(queue, "s", messages=4)
    queue.send("s", 0, batch(4), 0.0, 0)
    names = [f"s{n}" for n in range(1000)]
    attach(queue, *names, messages=10)
    queue.attach_receiver("r")
    queue.receive("r", 4, LARGE, 0.0)
    queue.take_effects()
    queue.acknowledge("r", [(0, 1)])
    # Below the limit, everyone who holds nothing gets the one message that keeps it going.
    assert grants(queue) == dict.fromkeys(names, 1)
    queue.acknowledge("r", [(1, 1)])
    assert grants(queue) == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0, 1, 1.0), "max_messages is 0; 1 or more is possible"),
        ((1, 0, 1.0), "max_bytes is 0; 1 or more is possible"),
        ((1, 1, 0.0), "a visibility timeout of 0s is not above 0 and at most 12h"),
        ((1, 1, 1e9), "a visibility timeout of 1000000000s is not above 0 and at most 12h"),
    ],
)
def test_settings_out_of_their_limits_are_refused(arguments: tuple[int, int, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        QueueSettings(*arguments)


@pytest.mark.parametrize("stage", [None, StageKey("w", 0, "s")], ids=["plain", "staged"])
def test_a_sender_of_several_queues_that_has_asked_for_nothing_when_its_first_batch_is_stored_is_granted_room_later(
    stage: StageKey | None,
) -> None:
    queue = queue_state.QueueState("q", 0)
    connection: Any = "publisher"
    queue.execute(commands.AttachSender(stage=stage, connection=connection, shared="q"), 0.0, 0)
    batch = MessageBatch.from_payloads([b"x"])
    sending.used_beside(queue, connection, len(batch), batch.nbytes)
    queue.take_effects()
    queue.execute(commands.RequestCapacity(10, 1_000, connection), 0.0, 0)
    (told,) = queue.take_effects()
    assert told.reply == RoomGranted("q", 10, 1_000)


def test_what_others_stage_for_a_sender_is_used_of_what_it_may_stage() -> None:
    queue = queue_state.QueueState("q", 0)
    connection: Any = "publisher"
    queue.execute(commands.AttachSender(stage=StageKey("w", 0, "s"), connection=connection, shared="q"), 0.0, 0)
    queue.execute(commands.RequestCapacity(10, 1_000, connection), 0.0, 0)
    batch = MessageBatch.from_payloads([b"x"] * 4)
    sending.used_beside(queue, connection, len(batch), batch.nbytes)
    assert (queue.staged.capacity.messages, queue.staged.capacity.bytes) == (6, 1_000 - batch.nbytes)
    assert (queue.capacity.messages, queue.capacity.bytes) == (0, 0)
