"""Ids of large batches of many senders: one batch of them is looked at and stored in a turn. Counted, never timed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.batch import Message, MessageBatch
from actors.limits import DEDUPLICATION_HEADER
from actors.queue.queue_state import QueueState
from actors.queue.state import accepted_ids
from actors.queue.vocabulary.budgets import IDS_BUDGET
from actors.queue.vocabulary.commands import Acknowledged, DemandSignalled, Left, OfferBatch
from actors.queue.vocabulary.replies import ReceivedMessages, SentMessages
from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.queue_probes import receiver_of, sender_of, start_queue, statistics, virtual

SENDERS = 8
LARGE = 10**9


def batch_of(sender: int, messages: int, first: int = 0) -> MessageBatch:
    return MessageBatch.from_messages(
        [Message(b"x", headers={DEDUPLICATION_HEADER: f"{sender}-{at}"}) for at in range(first, first + messages)]
    )


class Looks:
    """How many ids are looked at in each turn of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.by_turn: list[int] = [0]
        digest_of = accepted_ids.digest_of

        def counted(deduplication_id: bytes) -> bytes:
            self.by_turn[-1] += 1
            return digest_of(deduplication_id)

        monkeypatch.setattr(accepted_ids, "digest_of", counted)

    async def run(self) -> None:
        while True:
            self.by_turn.append(0)
            await asyncio.sleep(0)


@pytest.mark.parametrize("messages", [2 * IDS_BUDGET, IDS_BUDGET // 2, 50])
def test_of_eight_senders_that_send_together_a_turn_stores_as_much_as_the_budget_has_or_one_batch(
    messages: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(monkeypatch)

    @virtual
    async def scenario() -> None:
        settings = QueueSettings(deduplication_window=60.0, max_deduplication_ids=10**6)
        queue = start_queue(QueueState("q", 3, settings))
        senders = [await sender_of(queue, messages=4 * messages) for _ in range(SENDERS)]
        receiver = await receiver_of(queue)
        batches = [batch_of(sender, messages) for sender in range(SENDERS)]
        counting = asyncio.ensure_future(looks.run())
        for sender, batch in zip(senders, batches, strict=True):
            queue.tell(OfferBatch(0, batch, connection=sender.ref))
        # What others say, and they themselves, has its turn behind them.
        queue.tell(DemandSignalled(SENDERS * messages, LARGE, receiver.ref))
        for sender in senders[1:]:
            queue.tell(Left(connection=sender.ref))
        queue.tell(OfferBatch(messages, batches[0], connection=senders[0].ref))
        facts = await statistics(queue)
        counting.cancel()
        assert (facts.stored_messages, facts.total_deduplicated) == (SENDERS * messages, messages)
        assert sum(looks.by_turn) == (SENDERS + 1) * messages, "each is looked at once"
        assert max(looks.by_turn) <= IDS_BUDGET + messages
        if messages >= IDS_BUDGET:
            assert max(looks.by_turn) == messages
        told = await senders[0].expect(SentMessages)
        assert (told.up_to, told.first) == (messages, 0)
        again = await senders[0].expect(SentMessages)
        assert (again.up_to, again.first, again.numbers) == (2 * messages, SENDERS * messages, ((None, messages),))
        await all_of(receiver, queue, SENDERS * messages)

    async def all_of(receiver: Any, queue: Any, count: int) -> None:
        got = 0
        while got < count:
            part = await receiver.expect(ReceivedMessages)
            assert part.first == got
            got += len(part.batch)
            queue.tell(Acknowledged([(part.first, len(part.batch))], receiver.ref))
        assert (await statistics(queue)).stored_messages == 0

    scenario()
