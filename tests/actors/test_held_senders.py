"""Senders are held back for a moment: nothing is granted meanwhile, nothing refused, and all of it is granted then."""

from __future__ import annotations

from typing import Any, cast

from actors.batch import MessageBatch
from actors.queue.operations.explaining import FULL, PAUSED
from actors.queue.queue_directory import QueueDirectory
from actors.queue.state.held import Held
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.replies import CapacityGranted, WaitExplained
from actors.queue.vocabulary.settings import REJECT, QueueSettings
from actors.runtime.loop_future import ask
from streams.testkit import run_in_virtual_time
from tests.actors.driven import QueueState
from tests.actors.stored_queues import Connection, Ref


def granted(told: list[Any]) -> int:
    return sum(each.messages for each in told if isinstance(each, CapacityGranted))


def test_a_queue_grants_nothing_while_senders_are_held_back_and_is_known_by_its_name() -> None:
    held = Held()
    queue = QueueState("q", 1, QueueSettings(), held=held)
    queue.attach_sender("s", None)
    held.on = True
    queue.request_capacity("s", 10, 1_000)
    assert not [each for each in queue.take_effects() if type(each).__name__ == "GrantCapacity"]
    assert held.take() == ["q"]
    assert held.take() == []
    held.on = False
    queue.pause_senders(None)
    assert [each.messages for each in queue.take_effects() if type(each).__name__ == "GrantCapacity"] == [10]


def test_a_queue_that_rejects_grants_what_is_asked_for_all_the_same() -> None:
    held = Held()
    held.on = True
    queue = QueueState("q", 1, QueueSettings(overflow=REJECT), held=held)
    queue.attach_sender("s", None)
    queue.request_capacity("s", 10, 1_000)
    assert [each.messages for each in queue.take_effects() if type(each).__name__ == "GrantCapacity"] == [10]


def test_all_queues_of_a_directory_hold_back_and_those_that_did_grant_when_it_is_over() -> None:
    async def body() -> None:
        queues = QueueDirectory(QueueSettings(), lambda: 0.0)
        told: list[Any] = []
        connection: Ref = Connection.start(told)
        busy = queues.get_or_create("busy")
        idle = queues.get_or_create("idle")
        busy.tell(commands.AttachSender(None, connection=connection))
        await ask(busy, commands.GetStatistics())
        queues.hold_senders(True)
        busy.tell(commands.RequestCapacity(10, 1_000, connection=connection))
        busy.tell(commands.ExplainWait(1, connection))
        statistics = await ask(busy, commands.GetStatistics())
        await ask(idle, commands.GetStatistics())
        # It is no pause: whoever cannot wait is refused nothing.
        assert statistics.paused is None
        assert granted(told) == 0
        (why,) = [each for each in told if isinstance(each, WaitExplained)]
        assert (
            why.text
            == "queue busy takes nothing now: for a moment, so that a node of the cluster that lags comes in step"
        )
        queues.hold_senders(False)
        await ask(busy, commands.GetStatistics())
        assert granted(told) == 10
        await queues.stop()

    run_in_virtual_time(body())


def test_a_queue_that_is_full_says_so_also_in_the_moment_in_which_senders_are_held_back() -> None:
    held = Held()
    queue = QueueState("q", 1, QueueSettings(max_messages=1), held=held)
    queue.attach_sender("s", None)
    queue.request_capacity("s", 10, 1_000)
    queue.send("s", 1, MessageBatch.from_payloads([b"m"]), 0.0, 0)
    held.on = True
    for paused, reason in ((None, FULL), ("the disk is nearly full", PAUSED)):
        queue.pause_senders(paused)
        assert queue._told(commands.ExplainWait(1, cast("Any", "s"))).reason == reason


def test_what_pauses_senders_beside_it_goes_on_when_it_is_over() -> None:
    async def body() -> None:
        queues = QueueDirectory(QueueSettings(), lambda: 0.0)
        told: list[Any] = []
        connection: Ref = Connection.start(told)
        queue = queues.get_or_create("q")
        queue.tell(commands.AttachSender(None, connection=connection))
        queues.hold_senders(True)
        queues.pause_senders("the disk is nearly full")
        queue.tell(commands.RequestCapacity(10, 1_000, connection=connection))
        queues.hold_senders(False)
        await ask(queue, commands.GetStatistics())
        assert granted(told) == 0
        queues.hold_senders(True)
        queues.pause_senders(None)
        await ask(queue, commands.GetStatistics())
        assert granted(told) == 0
        queues.hold_senders(False)
        await ask(queue, commands.GetStatistics())
        assert granted(told) == 10
        await queues.stop()

    run_in_virtual_time(body())
