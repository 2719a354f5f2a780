"""What a queue answers whoever asks why it gets nothing."""

from __future__ import annotations

from typing import Any

from actors.batch import MessageBatch
from actors.queue.queue_state import QueueState
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.replies import WaitExplained
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey

MANY = 1 << 20


class Queue:
    """A queue, and what it answers."""

    def __init__(self, **settings: Any) -> None:
        self.state = QueueState("orders", 1, QueueSettings(**settings))

    def do(self, command: Any) -> None:
        self.state.execute(command, 0.0, 0)

    def sender(self, connection: Any, stage: StageKey | None = None) -> None:
        self.do(commands.AttachSender(None, stage, connection=connection))
        self.do(commands.RequestCapacity(MANY, MANY, connection))

    def send(self, connection: Any, number: int, count: int = 1, size: int = 1, delay: float | None = None) -> None:
        batch = MessageBatch.from_payloads([b"x" * size] * count)
        self.do(commands.OfferBatch(number, batch, delay, None, connection))
        self.state.store(0.0, 0)

    def receiver(self, connection: Any, demand: int = 10) -> None:
        self.do(commands.AttachReceiver(connection))
        if demand:
            self.do(commands.DemandSignalled(demand, MANY, connection))

    def why(self, connection: Any) -> tuple[str | None, str]:
        self.state.take_effects()
        self.do(commands.ExplainWait(7, connection))
        ((told, answer, after),) = self.state.take_effects()
        assert isinstance(answer, WaitExplained)
        assert (told, answer.request, after) == (connection, 7, 0)
        return answer.reason, answer.text


def test_a_sender_that_may_send_waits_for_nothing_of_the_queue() -> None:
    queue = Queue()
    queue.sender("s")
    assert queue.why("s") == (None, "")
    assert queue.why("nobody that it knows") == (None, "")


def test_a_full_queue_says_how_full_it_is_in_messages_or_in_bytes() -> None:
    queue = Queue(max_messages=5)
    queue.sender("s")
    queue.send("s", 0, 5)
    assert queue.why("s") == ("full", "queue orders is full (5 of 5 messages): waiting for receivers")
    large = Queue(max_bytes=1 << 20)
    large.sender("s")
    large.send("s", 0, 1, 1 << 21)
    assert large.why("s") == ("full", "queue orders is full (2.0 of 1.0 MiB): waiting for receivers")


def test_a_queue_that_was_full_and_has_not_reopened_says_so() -> None:
    queue = Queue(max_messages=40)
    queue.sender("s")
    queue.send("s", 0, 40)
    queue.receiver("r", 1)
    queue.do(commands.Acknowledged([(0, 1)], "r"))
    reason, text = queue.why("s")
    assert reason == "full"
    assert "takes more when more of it is acknowledged (39 of 40 messages)" in text


def test_a_pause_goes_before_what_the_queue_has() -> None:
    queue = Queue(max_messages=5)
    queue.sender("s")
    queue.send("s", 0, 5)
    queue.do(commands.PauseSenders("10 MiB are free"))
    assert queue.why("s") == ("paused", "queue orders takes nothing now: 10 MiB are free")


def test_a_sender_of_a_transaction_hears_that_transactions_hold_back_enough() -> None:
    queue = Queue(max_staged_messages=5)
    queue.sender("one", StageKey("w", 1, "a"))
    queue.send("one", 0, 5)
    queue.sender("two", StageKey("w", 2, "b"))
    reason, text = queue.why("two")
    assert (reason, "open transactions hold back" in text) == ("staged", True)


def test_a_receiver_that_gives_way_hears_for_whom_and_when() -> None:
    queue = Queue(single_active_consumer=True)
    queue.sender("s")
    queue.receiver("first")
    queue.send("s", 0)
    queue.do(commands.AttachReceiver("higher", priority=1))
    queue.do(commands.DemandSignalled(1, MANY, "higher"))
    text = "queue orders goes to a receiver of a higher priority as soon as this one holds nothing"
    assert queue.why("first") == ("line", text)
    assert queue.why("higher")[1].endswith("another receiver has it: waiting in line")
    queue.do(commands.Acknowledged(((0, 1),), "first"))
    queue.state.tick(0.0)
    assert queue.why("first")[1].endswith("another receiver has it: waiting in line")


def test_a_sender_hears_that_what_was_refused_is_on_its_way() -> None:
    queue = Queue(overflow="reject-dead-letter", dead_letter_queue="late")
    queue.state.capacity.holds_back = True
    queue.sender("s")
    assert queue.why("s") == ("full", "queue orders has refused much, which waits to be dead letters: waiting for that")
    queue.state.capacity.holds_back = False
    queue.state.grant()
    assert queue.why("s") == (None, "")


def test_a_receiver_in_line_hears_that_another_has_the_queue() -> None:
    queue = Queue(exclusive=True)
    queue.receiver("first")
    queue.receiver("second")
    assert queue.why("second")[0] == "line"
    assert queue.why("first") == ("empty", "queue orders is empty: waiting for messages")


def test_a_receiver_hears_where_the_messages_are_that_are_not_ready() -> None:
    queue = Queue()
    queue.sender("s")
    queue.send("s", 0, 3)
    queue.receiver("busy", 3)
    queue.receiver("idle")
    queue.send("s", 3, 2, delay=60)
    assert queue.why("idle") == (
        "unready",
        "queue orders has no message that is ready: 3 with receivers, 2 waiting for a delay",
    )
    assert queue.why("busy") == (None, ""), "it has asked for no more"


def test_a_receiver_of_a_queue_in_order_hears_that_the_next_message_is_delayed() -> None:
    queue = Queue(exclusive=True)
    queue.sender("s")
    queue.send("s", 0, 1, delay=60)
    queue.send("s", 1, 1)
    queue.receiver("r")
    assert queue.why("r") == ("unready", "queue orders is exclusive, and its next message waits for its delay")


def test_messages_of_open_transactions_are_named_where_the_queue_is_empty() -> None:
    queue = Queue()
    queue.sender("s", StageKey("w", 1, "a"))
    queue.send("s", 0, 4)
    queue.receiver("r")
    assert (
        queue.why("r")[1] == "queue orders is empty, and 4 of open transactions are not committed: waiting for messages"
    )
