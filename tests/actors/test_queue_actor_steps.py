"""The queue's actor has much to do, or comes to its end: purges in steps, portions, stopping and failing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pykka
import pytest

from actors.batch import MessageBatch
from actors.errors import StorageError
from actors.queue.connection_actor import _of
from actors.queue.operations import judging
from actors.queue.queue_actor import QueueActor
from actors.queue.queue_state import QueueState
from actors.queue.vocabulary.budgets import PURGE_BUDGET
from actors.queue.vocabulary.commands import (
    Acknowledged,
    AlterQueue,
    AttachReceiver,
    AttachSender,
    DemandSignalled,
    Left,
    OfferBatch,
    PauseSenders,
    PurgeQueue,
    RequestCapacity,
)
from actors.queue.vocabulary.events import MessagesAdded, QueuePurged
from actors.queue.vocabulary.replies import (
    QueueDeleted,
    ReceivedMessages,
    Refused,
    SentMessages,
)
from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.queue_probes import Ref, batch, receiver_of, sender_of, start_queue, statistics, virtual


class Stepping(QueueState):
    """Notes what each step of a purge drops: messages, and the ranges that its event names."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        super().__init__("q", 3, QueueSettings(), record=self._note)
        self.said(AttachSender(), "s")
        self.said(RequestCapacity(10**5, 10**6), "s")

    def said(self, command: Any, by: str) -> None:
        """Carry out a command of a connection, and all that was accepted."""
        self.execute(_of(command, cast("Any", by)), 0.0, 0)
        self.store(0.0, 0)

    def _note(self, event: object) -> int:
        if isinstance(event, QueuePurged):
            self.steps.append((sum(stop - start for start, stop in event.ranges), len(event.ranges)))
        return 0


BACKLOG = 4 * PURGE_BUDGET


def in_a_row() -> Stepping:
    """One range of messages, each a batch of its own."""
    state = Stepping()
    for number in range(BACKLOG):
        state.said(OfferBatch(number, batch(b"x")), "s")
    state.said(Left(), "s")
    state.take_effects()
    return state


def in_pieces() -> Stepping:
    """Single messages: those between them were acknowledged, and a receiver has given half of them back."""
    state = Stepping()
    state.said(OfferBatch(0, batch(*[b"x"] * 2 * BACKLOG)), "s")
    state.said(AttachReceiver(), "r")
    state.said(DemandSignalled(2 * BACKLOG, 10**6), "r")
    state.said(Acknowledged([(number, 1) for number in range(1, 2 * BACKLOG, 2)]), "r")
    state.said(Left(), "r")
    state.said(Left(), "s")
    state.take_effects()
    return state


@pytest.mark.parametrize("backlog", [in_a_row, in_pieces])
def test_a_purge_goes_in_steps_of_bounded_work_and_others_have_their_turn_between_them(
    backlog: Callable[[], Stepping],
) -> None:
    @virtual
    async def scenario() -> None:
        state = backlog()
        queue = start_queue(state)
        purged = asyncio.ensure_future(answer(queue))
        between = [(await statistics(queue)).total_purged for _ in range(3)]
        assert any(0 < purged_so_far < BACKLOG for purged_so_far in between)
        assert await purged == BACKLOG
        assert len(state.steps) == BACKLOG // PURGE_BUDGET
        assert all(messages <= PURGE_BUDGET and ranges <= PURGE_BUDGET for messages, ranges in state.steps)
        assert (await statistics(queue)).ready == 0

    async def answer(queue: Ref) -> Any:
        return await queue.ask(PurgeQueue(), block=False)

    scenario()


@virtual
async def test_a_purge_takes_what_others_have_written_to_the_log_before_it() -> None:
    state = QueueState("q", 1)
    queue = start_queue(state)
    state.log.apply(MessagesAdded(0, MessageBatch.from_payloads([b"a", b"b"]), 0))
    assert await queue.ask(PurgeQueue(), block=False) == 2
    assert (await statistics(queue)).stored_messages == 0


@virtual
async def test_what_is_sent_during_a_purge_stays_and_a_purge_that_the_queue_does_not_survive_is_answered() -> None:
    state = in_a_row()
    queue = start_queue(state)
    sender = await sender_of(queue)

    async def answer() -> Any:
        return await queue.ask(PurgeQueue(), block=False)

    purged = asyncio.ensure_future(answer())
    await statistics(queue)
    queue.tell(OfferBatch(0, batch(b"later"), connection=sender.ref))
    await sender.expect(SentMessages)
    assert await purged == BACKLOG
    assert (await statistics(queue)).ready == 1

    queue = start_queue(in_a_row())
    purged = asyncio.ensure_future(answer())
    await statistics(queue)
    queue.stop_nowait()
    with pytest.raises(pykka.ActorDeadError):
        await purged


def test_a_purge_takes_what_is_being_judged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    @virtual
    async def scenario() -> None:
        state = in_pieces()
        queue = start_queue(state)
        await queue.ask(AlterQueue(replace(state.settings, max_receives=1)), block=False)
        while state.judging is not None:
            await statistics(queue)
        assert (await statistics(queue)).leaving == BACKLOG
        # Of these most wait, and come back one by one.
        monkeypatch.setattr(judging, "JUDGE_BUDGET", 0)
        await queue.ask(AlterQueue(replace(state.settings, max_receives=9)), block=False)
        handed_over = state.outbox.sent.messages
        purged = asyncio.ensure_future(answer(queue))
        for _ in range(10):
            assert (await statistics(queue)).ready == 0
        assert not purged.done(), "what may be put back is still to come"
        monkeypatch.setattr(judging, "JUDGE_BUDGET", 2)
        assert await purged == BACKLOG - handed_over
        facts = await statistics(queue)
        assert (facts.ready, facts.leaving) == (0, handed_over)

    async def answer(queue: Ref) -> Any:
        return await queue.ask(PurgeQueue(), block=False)

    scenario()


@virtual
async def test_a_queue_that_is_stopped_tells_every_connection() -> None:
    queue = start_queue()
    sender, receiver = await sender_of(queue), await receiver_of(queue)
    queue.tell(OfferBatch(0, batch(b"x"), connection=sender.ref))
    await sender.expect(SentMessages)
    queue.stop_nowait()
    await sender.expect(QueueDeleted)
    await receiver.expect(QueueDeleted)
    assert await queue.stopped() is None


class Failing(QueueState):
    """Fails with the reason for which its senders are to pause."""

    def execute(self, command: Any, now: float, wall_us: int) -> Any:
        if isinstance(command, PauseSenders):
            raise cast("Exception", command.reason)
        return super().execute(command, now, wall_us)


def failure(error: Exception) -> PauseSenders:
    return PauseSenders(cast("Any", error))


@virtual
async def test_a_failing_handler_ends_the_connections_and_keeps_the_messages() -> None:
    queue = start_queue(Failing("q", 0))
    sender, receiver = await sender_of(queue), await receiver_of(queue, 1)
    queue.tell(OfferBatch(0, batch(b"x", b"y"), connection=sender.ref))
    await sender.expect(SentMessages)
    await receiver.expect(ReceivedMessages)
    queue.tell(failure(ZeroDivisionError()))
    for probe in (sender, receiver):
        refused = await probe.expect(Refused)
        assert (refused.code, refused.close) == ("internal-error", True)
        assert "ZeroDivisionError" in refused.text
    again = await receiver_of(queue, 10)
    received = await again.expect(ReceivedMessages)
    assert (received.first, len(received.batch), received.possibly_replayed) == (0, 2, True)
    assert [facts.connection for facts in (await statistics(queue)).connections] == [again.ref]


@virtual
async def test_an_error_of_storage_that_does_not_end_the_broker_does_not_end_the_queue() -> None:
    queue = start_queue(Failing("q", 0))
    sender = await sender_of(queue)
    queue.tell(OfferBatch(0, batch(b"x", b"y"), connection=sender.ref))
    await sender.expect(SentMessages)
    queue.tell(failure(StorageError("message 3 is stored, and its batch is not in memory")))
    assert (await sender.expect(Refused)).code == "internal-error"
    assert queue.is_alive()
    assert (await statistics(queue)).stored_messages == 2


@virtual
async def test_a_queue_that_fails_for_good_ends_its_connections() -> None:
    queue = start_queue(Failing("q", 0))
    for _ in range(QueueActor.max_restarts):
        queue.tell(failure(ZeroDivisionError()))
    receiver = await receiver_of(queue)
    queue.tell(failure(ZeroDivisionError()))
    assert (await receiver.expect(Refused)).code == "internal-error"
    assert isinstance(await queue.stopped(), ZeroDivisionError)


@virtual
async def test_a_large_backlog_goes_out_in_portions() -> None:
    queue = start_queue(QueueState("q", 0, QueueSettings(max_messages=10**7)))
    sender = await sender_of(queue, messages=120_000)
    # So large that they are not joined with their neighbours.
    for number in range(600):
        queue.tell(OfferBatch(number * 200, batch(*[b"x"] * 200), connection=sender.ref))
    receiver = await receiver_of(queue, 120_000)
    numbers = [(await receiver.expect(ReceivedMessages)).first for _ in range(600)]
    assert numbers == list(range(0, 120_000, 200))
