"""Whatever happens whenever: a start finds durable queues whole and no transient one, and nothing of such a one waits for the disk."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.queue.directory_errors import QueueExistsError
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.settings import QueueSettings
from streams.testkit import run_in_virtual_time
from tests.actors.publishing_bench import LARGE, batch_of, received, receiver
from tests.actors.storage_lives import DATA
from tests.actors.stored_queues import StoredQueues, turns
from tests.examples_tried import tried
from tests.fault.disk import SimulatedDisk

NAMES = "abcd"
EACH = st.sampled_from(NAMES)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("declare"), EACH, st.booleans()),
        st.tuples(st.just("declare"), EACH, st.booleans()),
        st.tuples(st.just("send"), EACH, st.integers(1, 3)),
        st.tuples(st.just("send"), EACH, st.integers(1, 3)),
        st.tuples(st.just("publish"), st.sets(EACH, min_size=1), st.integers(1, 3)),
        st.tuples(st.just("acknowledge"), EACH, st.integers(1, 4)),
        st.tuples(st.just("delete"), EACH, st.none()),
        st.tuples(st.just("end"), st.sampled_from(["kill", "kill", "close", "power"]), st.integers(0, 2**16)),
        st.sampled_from([("commit", 0, None), ("some", 1, None), ("some", 2, None), ("checkpoint", 0, None)]),
    ),
    max_size=40,
)

Known = tuple[bytes, Callable[[], bool]]
"""A message that was sent, and whether it is confirmed by now."""


class Lives:
    """Queues of both kinds over any number of a broker's lives, and what each of them has to hold."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.bench = StoredQueues(DATA, files=self.disk)
        self.durable: dict[str, bool] = {}
        self.declared_by: dict[str, int] = {}
        self.waits_for: dict[str, int] = {}
        # Of each queue what was sent and not acknowledged, in order.
        self.sent: dict[str, list[Known]] = {}
        # Of queues whose declaration was durable.
        self.numbers: set[int] = set()
        self.count = 0

    @property
    def recorded(self) -> int:
        return self.bench.storage.recorded

    def is_durable(self, event: int) -> bool:
        return self.bench.storage.durable >= event

    def made(self, count: int) -> list[bytes]:
        self.count += count
        return [b"%d" % number for number in range(self.count - count, self.count)]

    # Steps.

    async def declare(self, name: str, durable: bool) -> None:
        wanted = QueueSettings(durable=durable)
        if self.durable.get(name, durable) != durable:
            with pytest.raises(QueueExistsError):
                self.bench.queues.declare(name, wanted)
            return
        self.bench.queues.declare(name, wanted)
        if name not in self.durable:
            number = self.bench.queues.number_of(name)
            assert number not in self.numbers, "no number that was known outside is given twice"
            self.durable[name] = durable
            self.declared_by[name] = self.waits_for[name] = self.recorded
            self.sent[name] = []

    async def send(self, name: str, count: int) -> None:
        if name not in self.durable:
            return
        queue = self.bench.queues.get(name)
        ref, told = await self.bench.connect(
            queue,
            lambda ref: commands.AttachSender(None, connection=ref),
            lambda ref: commands.RequestCapacity(1_000, LARGE, ref),
        )
        payloads = self.made(count)
        queue.tell(commands.OfferBatch(0, batch_of(*payloads), connection=ref))
        await turns()

        def confirmed() -> bool:
            return any(isinstance(reply, replies.SentMessages) for reply in told)

        if not self.durable[name]:
            assert confirmed() == self.waits_for_nothing(name)
        self.sent[name] += [(payload, confirmed) for payload in payloads]

    async def publish(self, names: set[str], count: int) -> None:
        payloads = self.made(count)
        event = self.bench.queues.distributor.store(sorted(names), batch_of(*payloads)).event
        await turns()
        there = [name for name in names if name in self.durable]
        if not any(self.durable[name] for name in there):
            assert self.is_durable(event), "nothing waits for it"
        bench = self.bench
        for name in there:
            self.waits_for[name] = max(event, self.waits_for[name])
            self.sent[name] += [(payload, lambda: bench.storage.durable >= event) for payload in payloads]

    async def acknowledge(self, name: str, count: int) -> None:
        """Somebody takes a few messages, and acknowledges them for good."""
        if name not in self.durable:
            return
        if self.durable[name] or not self.waits_for_nothing(name):
            await self.commit()
        ref, told = await receiver(self.bench, name, count)
        await turns()
        found = received(told)
        assert found == [payload for payload, _ in self.sent[name][:count]]
        for delivery in [reply for reply in told if isinstance(reply, replies.ReceivedMessages)]:
            ranges = ((delivery.first, len(delivery.batch)),)
            self.bench.queues.get(name).tell(commands.Acknowledged(ranges, connection=ref))
        await turns()
        if self.durable[name]:
            self.bench.storage._gathered.write()
            await self.commit()
        self.sent[name] = self.sent[name][len(found) :]
        await ref.stop(block=False)
        await turns()

    async def delete(self, name: str, _: Any) -> None:
        if name in self.durable:
            self.bench.queues.delete(name)
            await turns()
            if self.durable.pop(name):
                # Until that is durable the next start may find it whole.
                await self.commit()

    async def commit(self, *_: Any) -> None:
        await self.bench.commit()

    async def some(self, groups: int, _: Any) -> None:
        self.bench.commit_groups(groups)
        await turns()

    async def checkpoint(self, *_: Any) -> None:
        self.bench.storage._checkpoints.make()
        self.bench.storage._checkpoints._advance(whole=True)
        await turns()

    def waits_for_nothing(self, name: str) -> bool:
        """Whether a transient queue's declaration is durable, and all that was published to it and to durable ones."""
        return self.is_durable(self.waits_for[name])

    async def end(self, how: str, seed: int) -> None:
        storage = self.bench.storage
        self.numbers |= {
            self.bench.queues.number_of(name) for name in self.durable if self.is_durable(self.declared_by[name])
        }
        sure = {name for name in self.durable if how == "close" or self.is_durable(self.declared_by[name])}
        must = {
            name: [payload for payload, confirmed in sent if how == "close" or confirmed()]
            for name, sent in self.sent.items()
            if name in self.durable
        }
        if how == "close":
            await self.bench.close()
        else:
            await self.bench.die()
        after = self.disk.crash(Random(seed)) if how == "power" else self.disk.restart()
        self.disk = after
        self.bench = StoredQueues(DATA, files=after)
        assert storage is not self.bench.storage
        found = set(self.bench.queues)
        assert found == {queue.name for queue in self.bench.storage.queues}
        assert found <= {name for name, durable in self.durable.items() if durable}, "transient queues are forgotten"
        assert found >= {name for name in sure if self.durable[name]}
        self.durable = dict.fromkeys(found, True)
        for name in found:
            held = await self.held(name)
            sent = [payload for payload, _ in self.sent[name]]
            assert held == sent[: len(held)], "in order, and nothing that was acknowledged"
            assert held[: len(must[name])] == must[name], "what was confirmed is there"
            self.sent[name] = [(payload, lambda: True) for payload in held]
            self.declared_by[name] = self.waits_for[name] = 0

    async def held(self, name: str) -> list[bytes]:
        ref, told = await receiver(self.bench, name)
        await self.bench.settled()
        await ref.stop(block=False)
        await turns()
        return received(told)

    async def check(self) -> None:
        await self.commit()
        for name in self.durable:
            assert await self.held(name) == [payload for payload, _ in self.sent[name]]
        await self.bench.close()


@settings(max_examples=tried(150))
@given(STEPS)
def test_a_start_finds_durable_queues_whole_and_no_transient_one(steps: list[tuple[str, Any, Any]]) -> None:
    async def main() -> None:
        lives = Lives()
        for name, durable in (("a", True), ("b", True), ("c", False), ("d", False)):
            await lives.declare(name, durable)
        for step, *arguments in steps:
            await getattr(lives, step)(*arguments)
        await lives.check()

    run_in_virtual_time(main())
