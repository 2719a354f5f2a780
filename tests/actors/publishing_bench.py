"""Publishers and receivers around the exchanges of a queue directory, for tests."""

from __future__ import annotations

from typing import Any

from actors.batch import MessageBatch
from actors.queue.exchange_sender import ExchangeSender
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.distributed import RoomAwaited, StageTallied, TallyStage
from actors.queue.vocabulary.stages import StageKey
from tests.actors.stored_queues import Ref, StoredQueues, turns

LARGE = 10**9


def batch_of(*payloads: bytes) -> MessageBatch:
    return MessageBatch.from_payloads(payloads)


class Client:
    """The way back to one that publishes: it keeps what it is told, and numbers what it sends."""

    def __init__(
        self,
        bench: StoredQueues,
        exchange: str,
        key: str | None = "",
        producer: str | None = None,
        stage: StageKey | None = None,
        *,
        in_parts: bool = False,
    ) -> None:
        self.told: list[Any] = []
        self.errors: list[tuple[str, str]] = []
        self.marks = 0
        self.sequence = 0
        publishing = bench.queues.exchanges.publishing
        self.ref: Ref = ExchangeSender.start(publishing, exchange, key, producer, self, stage=stage, in_parts=in_parts)

    def tell(self, reply: Any) -> None:
        self.told.append(reply)

    def caught_up(self) -> None:
        self.marks += 1

    def refused(self, code: str, text: str, close: bool) -> None:
        assert close
        self.errors.append((code, text))

    def send(self, batch: MessageBatch, sequence: int | None = None, **timing: Any) -> None:
        number = self.sequence if sequence is None else sequence
        self.sequence = number + len(batch)
        self.ref.tell(commands.OfferBatch(number, batch, connection=self.ref, **timing))

    @property
    def granted(self) -> int:
        """The messages that it may have sent so far, all together."""
        return sum(reply.messages for reply in self.told if isinstance(reply, replies.CapacityGranted))

    @property
    def waits(self) -> list[int | None]:
        """From which numbers on it was told that what it has sent waits; None where nothing did any more."""
        return [reply.first for reply in self.told if isinstance(reply, RoomAwaited)]

    @property
    def attached(self) -> list[replies.SenderAttached]:
        return [reply for reply in self.told if isinstance(reply, replies.SenderAttached)]

    @property
    def tallied(self) -> list[StageTallied]:
        return [reply for reply in self.told if isinstance(reply, StageTallied)]

    def tally(self, request: int = 0) -> None:
        self.ref.tell(TallyStage(request))

    @property
    def confirmed(self) -> list[int]:
        return [reply.up_to for reply in self.told if isinstance(reply, replies.SentMessages) and not reply.rejected]

    @property
    def rejected(self) -> list[tuple[int, str]]:
        found = [reply for reply in self.told if isinstance(reply, replies.SentMessages)]
        return [(reply.up_to, reply.rejected) for reply in found if reply.rejected is not None]


async def client(bench: StoredQueues, exchange: str, key: str | None = "", producer: str | None = None) -> Client:
    made = Client(bench, exchange, key, producer)
    await turns()
    return made


async def stager(bench: StoredQueues, stage: StageKey, exchange: str = "x", key: str | None = None) -> Client:
    made = Client(bench, exchange, key, None, stage)
    await turns()
    return made


async def receiver(bench: StoredQueues, name: str, messages: int = 10_000) -> tuple[Ref, list[Any]]:
    """Somebody who receives from a queue, and all that it was told."""
    return await bench.connect(
        bench.queues.get_or_create(name),
        lambda ref: commands.AttachReceiver(connection=ref),
        lambda ref: commands.DemandSignalled(messages, LARGE, connection=ref),
    )


def received(told: list[Any]) -> list[bytes]:
    deliveries = [reply for reply in told if isinstance(reply, replies.ReceivedMessages)]
    return [bytes(payload) for delivery in deliveries for payload in delivery.batch.payloads]


def came(told: list[Any]) -> list[tuple[bytes, str | None, str | None]]:
    """Of each message that a receiver was told: its payload, where it was published, and its routing key."""
    return [
        (
            payload,
            each.published and each.published.exchange,
            each.published and each.published.key_of(b"" if each.batch.keys is None else each.batch.keys[index]),
        )
        for each in told
        if isinstance(each, replies.ReceivedMessages)
        for index, payload in enumerate(each.batch.payloads.tolist())
    ]


async def defined(bench: StoredQueues, *events: Any) -> None:
    """Have commands on exchanges carried out, without waiting for the disk."""
    for change in events:
        bench.queues.exchanges._definitions.change_definitions(change)
    if bench._storage is not None:
        await bench.settled()
