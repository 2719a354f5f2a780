"""The program of all features (`features_program`) over the leader of a cluster of three, through deaths, take-overs and losses of power.

What its clients are told rests on what is confirmed. So each leader must have all of that, whoever it is. Each follower's state must be
what a node comes to that begins anew with the same log, up to the same record.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from random import Random
from typing import Any
from unittest import mock

from actors.queue.operations import calendar
from actors.queue.queue_directory import QueueDirectory
from actors.queue.vocabulary.settings import DEFAULT_TRANSACTION_TIMEOUT, QueueSettings
from actors.runtime.loop_registry import LoopActorRegistry
from actors.storage import checkpoints
from actors.storage.node_storage import NodeStorage
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.letters_bench import TO_X
from tests.actors.node_cluster import Member, Trio, differences, state_of
from tests.actors.stored_queues import turns
from tests.fault.features_model import require
from tests.fault.features_program import Broker, FeaturesProgram, Sending
from tests.fault.history import HistoryError


class LedBroker(Broker):
    """Queues over the storage of the node that leads."""

    def __init__(self, trio: Trio, program: ClusterProgram) -> None:
        self._program = program
        self.trio = trio
        self.failures = []
        self._storage = trio.led.storage.start(self.failures.append)
        self.queues = QueueDirectory(
            QueueSettings(),
            lambda: self.time_of_day,
            storage=self._storage,
            transaction_timeout=DEFAULT_TRANSACTION_TIMEOUT,
        )
        if "q" not in self.queues:
            self.queues.declare("q", TO_X)

    async def commit(self) -> None:
        """Everything so far is confirmed; meanwhile nodes lag, come back, and die."""
        trio, random, program = self.trio, self._program.random, self._program
        if random.random() < 0.3:
            trio.lags = {random.choice([n for n in range(len(trio.members)) if n != trio.leader])}
        elif random.random() < 0.5:
            trio.lags = set()
        if random.random() < 0.1:
            number = random.choice([n for n in range(len(trio.members)) if n != trio.leader])
            await trio.ship(number, random.choice((1, 5, 10**6)))
            if random.random() < 0.7:
                trio.members[number].run()
            trio.die(number)
        end = trio.led.node.journal.next_lsn
        while trio.committed < end:
            await trio.round(random.choice((3, 20, 10**6)))
        await turns()
        if random.random() < 0.15:
            await program.judge()

    async def die(self) -> None:
        for queue in self.queues.values():
            await queue.stop(block=False)


class ClusterProgram(FeaturesProgram):
    """The program; the cluster lives on through the deaths of its leaders."""

    trio: Trio

    def __init__(self, seed: int, names: Sequence[str] = (), share: float = 0.02) -> None:
        super().__init__(seed, names)
        self.share = share

    async def live_all(self, lives: int, steps: int) -> None:
        """So many leaders, one after another; the last one receives all that there is."""
        self.trio = Trio(self.random, share=self.share)
        for life in range(lives + 1):
            last = life == lives
            while life and self.random.random() < 0.3:
                await self.trio.lead_in_vain()
            await self.trio.lead()
            self.seen["taken over"] += life > 0
            await self.judge()
            await self.live(None, 0 if last else steps, last=last)
            await self.leave()
        self.seen.update(self.trio.seen)
        for member in (*self.trio.members, self.trio.whole):
            member.gone()

    async def live(self, _files: Any, steps: int, *, last: bool = False, closes: bool = False) -> None:
        """See `FeaturesProgram`."""
        self.bench = LedBroker(self.trio, self)
        self.unsure = []
        self.senders: dict[str, Sending] = {}
        self.clients: dict[str, Sending] = {}
        await self.bench.commit()
        self._found()
        await self._declare()
        if steps:
            await self._receive(self.random.choice(self.names))
        for _ in range(steps):
            await self._step()
            if self.random.random() < 0.05:
                member = self.random.choice(self.trio.members)
                if not member.storage.cluster_epoch and member.node._started:
                    self.seen["follower's checkpoint"] += 1
                    member.storage.checkpoints.make()
            if self.bench.failures:
                raise self.bench.failures[0]
        if last:
            await self._drain()
        if self.random.random() < 0.7:
            # It is on this node's own disk, of which nobody is told anything.
            self.trio.led.run()
            await turns()
            self._hear()
        for each in (*self.senders.values(), *self.clients.values()):
            each.ref.stop(block=False)
        await turns()
        self._hear()
        self.bench.queues.schedules.end()

    async def leave(self) -> None:
        """The leader dies; or leads no more, and is a follower again."""
        trio, bench = self.trio, self.bench
        number = trio.leader
        assert number is not None
        if self.random.random() < 0.5:
            # Some of what it has appended is with others.
            other = self.random.choice([n for n in range(len(trio.members)) if n != number])
            await trio.ship(other, self.random.choice((0, 1, 5, 10**6)))
        if self.random.random() < 0.6:
            await bench.die()
            trio.die(number)
        else:
            trio.led.node.step_down("the program says so")
            for each in bench.failures:
                self.seen[type(each).__name__] += 1
            await bench.die()
            bench.storage.close()
            await trio.led.node.reopen()
            trio.leader = None
            self.seen["stepped down"] += 1
        await turns()
        await asyncio.gather(*(ref.stop(block=False) for ref in LoopActorRegistry.get_all()))
        if self.random.random() < 0.3:
            trio.die(self.random.choice(range(len(trio.members))))

    async def judge(self) -> None:
        """Each follower is what a node comes to with the whole log, and what one comes to that begins anew where it is."""
        trio, whole = self.trio, self.trio.whole
        for number in sorted(range(len(trio.members)), key=lambda number: trio.members[number].node.folded):
            member = trio.members[number]
            if number == trio.leader:
                continue
            await member.folded()
            folded = member.node.folded
            if folded < whole.node.folded:
                continue
            whole.node.commit(folded)
            await whole.folded()
            self._same(whole, member, f"node {number} at record {folded}, and the whole log")
            await self._anew(number, member)

    async def _anew(self, number: int, member: Member) -> None:
        assert isinstance(member.disk, object)
        disk = getattr(member.disk, "disk", member.disk)
        anew = NodeStorage.open(self.trio_data, self.trio.options, files=disk.restart())
        followed = anew._followed
        followed.want(min(member.node.folded, anew.journal.next_lsn))
        while followed.behind:
            followed.step()
        if followed.folded == member.node.folded:
            self.seen["compared"] += 1
            other = state_of(anew._storage)
            require(other == member.state(), differences(f"node {number} begun anew", other, member.state()))
        anew.journal.abandon()

    @property
    def trio_data(self) -> Any:
        return self.trio.members[0].node.directory

    @staticmethod
    def _same(one: Member, other: Member, what: str) -> None:
        require(one.state() == other.state(), differences(what, one.state(), other.state()))


def verify_cluster(
    seed: int, names: Sequence[str] = (), *, lives: int = 3, steps: int = 60, **how: Any
) -> Counter[str]:
    """One run; returns what was seen, and HistoryError where a promise is broken."""
    program = ClusterProgram(seed, names, **how)

    async def main() -> None:
        await program.live_all(lives, steps)
        await elapse(1.0)

    small: dict[str, Any] = {"PIECE_MESSAGES": 5, "GROUPED_RUNS": 3, "MOVED_GROUPS": 2, "GROUP_MESSAGES": 3}
    pieces = small if seed % 2 else {name: getattr(calendar, name) for name in small}
    # Checkpoints are made in slices of all sizes.
    slices = {} if seed % 3 else {"SLICE_WORK": 2, "SLICE_STEPS": 1}
    with (
        mock.patch.multiple(calendar, **pieces),
        mock.patch.multiple(checkpoints, **slices) if slices else nullcontext(),
    ):
        run_in_virtual_time(main())
    return program.seen


__all__ = ["HistoryError", "Random", "verify_cluster"]
