"""What a queue refuses and is a dead letter all the same: published in bounded steps, and senders wait while much of it waits."""

from __future__ import annotations

from typing import Any
from unittest import mock

from actors.batch import Message
from actors.queue import refused_letters
from actors.queue.distribution import Distributor
from actors.queue.letters_out import STEP_RECORDS
from actors.queue.refused_letters import RefusedLetters
from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.letters_bench import Letters
from tests.actors.stored_queues import turns, with_and_without_journal

REFUSES = QueueSettings(max_messages=1, overflow="reject-dead-letter", dead_letter_exchange="x")
QUEUES = 3 * STEP_RECORDS


class Refusing(Letters):
    """The queue ``q``, which is full, and refuses what comes next to the exchange ``x``."""

    def __init__(self, folder: Any, **storage: Any) -> None:
        super().__init__(folder, REFUSES, **storage)
        self.store(b"it is full")


both = with_and_without_journal(Refusing)


@both
async def test_a_step_stores_so_many_records_though_each_message_goes_to_another_queue(bench: Refusing) -> None:
    await bench.bound("direct", **{f"q{at}": f"k{at}" for at in range(QUEUES)})
    stored: list[int] = []
    steps: list[int] = []
    step, store = RefusedLetters.step, Distributor.store

    def counted(self: RefusedLetters, *arguments: Any) -> None:
        before = len(stored)
        step(self, *arguments)
        steps.append(len(stored) - before)

    def noted(self: Distributor, *arguments: Any, **named: Any) -> Any:
        stored.append(1)
        return store(self, *arguments, **named)

    with (
        mock.patch.object(RefusedLetters, "step", counted),
        mock.patch.object(refused_letters, "STORING_SECONDS", 60.0),
        mock.patch.object(Distributor, "store", noted),
    ):
        bench.store(*[Message(b"%d" % at, key=b"k%d" % (at % QUEUES)) for at in range(2 * QUEUES)])
        await turns()
    assert bench.holds(*[f"q{at}" for at in range(QUEUES)]) == [
        [b"%d" % at, b"%d" % (at + QUEUES)] for at in range(QUEUES)
    ]
    assert steps == [STEP_RECORDS] * (QUEUES // STEP_RECORDS)


@both
async def test_while_much_waits_to_be_dead_letters_the_queues_senders_are_granted_nothing(bench: Refusing) -> None:
    await bench.bound("direct", a="k", b="l")
    state = bench.queues.state("q")
    assert state is not None
    held: list[bool] = []
    step = RefusedLetters.step

    def looked_at(self: RefusedLetters, *arguments: Any) -> None:
        step(self, *arguments)
        held.append(state.capacity.holds_back)

    with (
        mock.patch.object(RefusedLetters, "step", looked_at),
        mock.patch.object(refused_letters, "STORING_SECONDS", 0.0),
        mock.patch.object(refused_letters, "HELD_BYTES", 20),
    ):
        bench.store(*[Message(b"x" * 10, key=b"kl"[at % 2 : at % 2 + 1]) for at in range(4)])
        await turns()
    assert held == [True, True, True, False]
    assert bench.holds("a", "b") == [[b"x" * 10] * 2] * 2
