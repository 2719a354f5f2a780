"""A queue's actor, and connections that keep what they are told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from actors.batch import MessageBatch
from actors.queue.queue_actor import QueueActor
from actors.queue.queue_state import QueueState
from actors.queue.vocabulary.commands import (
    AttachReceiver,
    AttachSender,
    DemandSignalled,
    GetStatistics,
    RequestCapacity,
)
from actors.queue.vocabulary.replies import CapacityGranted, ReceiverAttached, SenderAttached
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.statistics import QueueStatistics
from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_ref import LoopActorRef
from actors.runtime.loop_registry import LoopActorRegistry
from streams.testkit import run_in_virtual_time

Ref = LoopActorRef[Any]

WALL_CLOCK = 1_700_000_000.5


class Connection(LoopActor):
    """Keeps what it is told, and lets a test wait for the next of it."""

    def __init__(self) -> None:
        super().__init__()
        self._told: asyncio.Queue[Any] = asyncio.Queue()

    def on_receive(self, message: Any) -> Any:
        if message is INBOX:
            return self._told
        if message is FAIL:
            raise RuntimeError("a defect")
        self._told.put_nowait(message)
        return None


INBOX, FAIL = object(), object()


class Probe:
    """A connection and what it was told."""

    def __init__(self, ref: Ref, told: asyncio.Queue[Any]) -> None:
        self.ref = ref
        self._told = told

    async def expect(self, kind: type[Any]) -> Any:
        """The next thing told, which must be of this kind."""
        message = await self._told.get()
        assert type(message) is kind, message
        return message

    def assert_nothing(self) -> None:
        assert self._told.empty(), self._told.get_nowait()


async def connect() -> Probe:
    ref: Ref = Connection.start()
    return Probe(ref, await ref.ask(INBOX, block=False))


def batch(*payloads: bytes) -> MessageBatch:
    return MessageBatch.from_payloads(payloads)


def start_queue(state: QueueState | None = None) -> Ref:
    return QueueActor.start(state or QueueState("q", 3, QueueSettings()), lambda: WALL_CLOCK)


async def sender_of(queue: Ref, producer: str | None = None, messages: int = 1000) -> Probe:
    probe = await connect()
    queue.tell(AttachSender(producer, connection=probe.ref))
    await probe.expect(SenderAttached)
    queue.tell(RequestCapacity(messages, 10**6, connection=probe.ref))
    await probe.expect(CapacityGranted)
    return probe


async def receiver_of(queue: Ref, demand: int = 0) -> Probe:
    probe = await connect()
    queue.tell(AttachReceiver(connection=probe.ref))
    await probe.expect(ReceiverAttached)
    if demand:
        queue.tell(DemandSignalled(demand, 8 * 2**20, connection=probe.ref))
    return probe


async def statistics(queue: Ref) -> QueueStatistics:
    facts = await queue.ask(GetStatistics(), block=False)
    assert isinstance(facts, QueueStatistics)
    return facts


Scenario = Callable[[], Coroutine[Any, Any, None]]


def virtual(scenario: Scenario) -> Callable[[], None]:
    """Run a test in virtual time, and stop the actors that it leaves."""

    async def with_end() -> None:
        await scenario()
        await LoopActorRegistry.shutdown()

    def test() -> None:
        run_in_virtual_time(with_end())

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test
