"""Three nodes of a cluster, each a directory on a simulated disk, and what the machines of replication would have them do, told by a test.

Who leads is said by the test, with the greatest log of two nodes at least. What is on half + 1 of the disks is committed. Nothing
goes on by itself: a test has records shipped, synced and committed, with whatever lag it draws.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from actors.errors import StorageError
from actors.storage.leader_storage import LeaderStorage
from actors.storage.node_storage import NodeHooks, NodeStorage
from actors.storage.snapshot import COUNTERS
from journal import JournalOptions, LogGoneError, ManualCommitter, TransferSource, TransferTarget
from tests.fault.disk import ROOT, SimulatedDisk
from tests.fault.faulty_files import WRITING
from tests.journal.replicas import on_the_wire

DATA: Final = ROOT / "data"
SMALL: Final = JournalOptions(segment_bytes=4096, checkpoint_bytes=8192, checkpoint_records=60, spare_segments=2)
WHOLE: Final = JournalOptions(checkpoint_records=10**9, checkpoint_bytes=1 << 40)
NEVER: Final = 10**9


async def at_once(function: Callable[[], Any]) -> Any:
    """What is done apart, here and now."""
    return function()


async def until(holds: Callable[[], bool]) -> None:
    """As many turns of the loop as it takes."""
    for _ in range(100_000):
        if holds():
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come to that")


class Pictured:
    """A disk of which one call in so many leaves a picture: what a process leaves that dies there, or a loss of power."""

    def __init__(self, disk: SimulatedDisk, random: Random, share: float) -> None:
        self.disk = disk
        self.pictures: list[SimulatedDisk] = []
        self._random = random
        self._share = share

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.disk, name)
        if name not in WRITING:
            return call

        def watched(*arguments: Any, **options: Any) -> Any:
            answer = call(*arguments, **options)
            if self._random.random() < self._share:
                power = self._random.random() < 0.6
                self.pictures.append(self.disk.crash(self._random) if power else self.disk.restart())
            return answer

        return watched


class Member:
    """A node over a disk."""

    def __init__(self, disk: Any = None, options: JournalOptions = SMALL, *, starts: bool = True) -> None:
        self.disk = SimulatedDisk() if disk is None else disk
        self.committers: list[ManualCommitter] = []
        self.failures: list[StorageError] = []
        self.told: Counter[str] = Counter()
        self.options = options
        self.node = NodeStorage.open(DATA, options, files=self.disk, committer=self._committer, apart=at_once)
        if starts:
            self.start()

    def start(self) -> None:
        self.node.start(NodeHooks(self._appended, self._synced, self.failures.append))

    def _committer(self) -> ManualCommitter:
        self.committers.append(ManualCommitter())
        return self.committers[-1]

    def _appended(self) -> None:
        self.told["appended"] += 1

    def _synced(self) -> None:
        self.told["synced"] += 1

    @property
    def storage(self) -> LeaderStorage:
        return self.node._storage

    def run(self) -> None:
        """All that was appended is on the disk."""
        if self.committers:
            self.committers[-1].run()
        assert not self.failures, self.failures

    async def folded(self) -> None:
        """Everything that is committed is folded, and what came of that is done."""
        await until(lambda: not self.node._followed.behind)
        await asyncio.sleep(0)

    def state(self) -> dict[str, Any]:
        return state_of(self.storage)

    def checkpoint(self) -> None:
        """One that is made whole, here and now."""
        checkpoints = self.storage.checkpoints
        checkpoints.make()
        checkpoints._advance(whole=True)

    def gone(self) -> None:
        """The process is no more."""
        self.node._stop()
        self.node.journal.abandon()


def facts(log: Any) -> dict[str, Any]:
    """Everything of a queue that is a fold of its events; what ends with time is not."""
    names = (
        "producers",
        "temporary",
        "ledgers",
        "returns",
        "stages",
        "total_discarded",
        "total_moved",
        "total_dropped",
    )
    acknowledged = list(log.unwanted()), log.deleted_epoch, log.deleted_position, log.calendar, log.staged_messages
    return {**{name: getattr(log, name) for name in (*COUNTERS, *names)}, "unwanted": acknowledged}


def state_of(storage: LeaderStorage) -> dict[str, Any]:
    """All that a store's checkpoint would have, but for what ends with time."""
    contents = storage.contents
    queues = {
        queue.number: (queue.name, queue.settings, queue.arguments, facts(queue.log)) for queue in contents.in_order()
    }
    return {
        "queues": queues,
        "store": contents.store_id,
        "next": contents.next_queue,
        "versions": list(contents.versions),
        "calendars": dict(contents.calendars),
        "map": (contents.sections.number, {section: dict(entries) for section, entries in contents.sections}),
        "definitions": (contents.definitions.number, contents.definitions.snapshot()),
    }


def differences(what: str, one: dict[str, Any], other: dict[str, Any]) -> str:
    """What two states differ in, as text."""
    lines = [f"{what} differ"]
    for key, value in one.items():
        if value == other[key]:
            continue
        if key != "queues":
            lines.append(f"{key}: {value} and {other[key]}")
            continue
        for number in value.keys() | other[key].keys():
            left, right = value.get(number), other[key].get(number)
            if left != right and left is not None and right is not None:
                names = [name for name in left[3] if left[3][name] != right[3][name]]
                lines += [f"queue {left[0]} {name}: {left[3][name]} and {right[3][name]}" for name in names]
                lines += [f"{left[:3]} and {right[:3]}"] if left[:3] != right[:3] else []
            elif left != right:
                lines.append(f"queue {number}: {left} and {right}")
    return "\n".join(lines)


class Trio:
    """The cluster.

    Attributes:
        members: by number.
        leader: whose turn it is; None between two leaders.
        epoch: of the last leader.
        committed: every record below it is.
        whole: a node that has the whole log, as far as it is committed, and makes no checkpoint.
        lags: which nodes get nothing for now.
        seen: what has happened.
    """

    def __init__(self, random: Random, options: JournalOptions = SMALL, share: float = 0.0, members: int = 3) -> None:
        self.random = random
        self.options = options
        self.share = share
        self.members = [Member(self.pictured(SimulatedDisk()), options) for _ in range(members)]
        self.whole = Member(SimulatedDisk(), WHOLE)
        self.leader: int | None = None
        self.epoch = 0
        self.committed = 1
        self.lags: set[int] = set()
        self.seen: Counter[str] = Counter()

    def pictured(self, disk: SimulatedDisk) -> Any:
        return Pictured(disk, self.random, self.share) if self.share else disk

    @property
    def half(self) -> int:
        return len(self.members) // 2 + 1

    @property
    def led(self) -> Member:
        assert self.leader is not None
        return self.members[self.leader]

    async def _elect(self, asked: Iterable[int] | None) -> Member:
        """The one with the greatest log of those that are asked, who have promised, begins to lead."""
        assert self.leader is None
        random = self.random
        chosen = random.sample(range(len(self.members)), self.half) if asked is None else list(asked)
        self.epoch += 1
        for number in chosen:
            self.members[number].run()
            await self.members[number].node.promise(self.epoch)
        self.answered()
        self.lags -= set(chosen)
        self.leader = max(chosen, key=lambda number: (self.members[number].node.journal.position, number))
        led = self.led
        if random.random() < 0.5:
            await led.folded()  # else it has more to fold
        if random.random() < 0.6 and led.node._started:
            led.storage.checkpoints.make()
            for _ in range(random.randrange(12)):
                led.storage.checkpoints._advance()
        led.node.lead(self.epoch)
        return led

    async def lead_in_vain(self) -> None:
        """One comes to lead, folds what its log holds, and dies before anything of its epoch is committed."""
        led = await self._elect(None)
        for _ in range(self.random.randrange(30)):
            await asyncio.sleep(0)
            if self.random.random() < 0.5:
                led.run()
        assert self.leader is not None
        self.die(self.leader)
        self.seen["led in vain"] += 1

    async def lead(self, asked: Iterable[int] | None = None) -> LeaderStorage:
        """The one with the greatest log of those that are asked leads, and has all of them have its log."""
        led = await self._elect(asked)
        await asyncio.sleep(0)
        assert led.told["appended"], "the machine was told of the first record"
        while self.committed <= led.node.journal.epoch_starts()[-1].lsn:
            await self.round()
        storage = await led.node.opened()
        assert not led.node._followed.behind
        assert led.node.folded >= led.node.journal.epoch_starts()[-1].lsn
        return storage

    async def round(self, most: int = NEVER) -> None:
        """Records are shipped, synced, and committed where half + 1 have them, which those that do not lag hear."""
        for number in range(len(self.members)):
            if number != self.leader and number not in self.lags:
                await self.ship(number, most)
        for member in self.members:
            member.run()
        await self.commit()

    async def ship(self, number: int, most: int = NEVER) -> None:
        """A node's log becomes the beginning of the leader's, and grows."""
        member, leader = self.members[number], self.led.node.journal
        mine = member.node.journal
        if mine.promised < self.epoch:
            member.run()
            await member.node.promise(self.epoch)
        last = min(mine.next_lsn, leader.next_lsn) - 1
        try:
            while mine.epoch_of(last) != leader.epoch_of(last):
                last -= 1
            records = leader.read_log(last + 1)
        except LogGoneError:
            await self.fill(number)
            return
        if last + 1 < mine.next_lsn:
            self.seen["truncated"] += 1
            gone = mine.next_lsn - last - 1
            truncated = await member.node.truncate(last + 1)
            assert truncated.records == gone
        sent = [record for record, _ in zip(records, range(most), strict=False)]
        member.node.append(on_the_wire(sent))

    def answered(self) -> None:
        """What nodes have on their disks now is relied on: they do not die before that any more."""
        for member in self.members:
            if isinstance(member.disk, Pictured):
                member.disk.pictures.clear()

    async def commit(self) -> None:
        """What half + 1 have on their disks is committed; the leader knows, and confirms."""
        led = self.led.node
        self.answered()
        ends = sorted((self.ends(number) for number in range(len(self.members))), reverse=True)
        lsn = ends[self.half - 1]
        if lsn > led.journal.epoch_starts()[-1].lsn:
            self.committed = max(self.committed, lsn)
        records = led.journal.read_log(self.whole.node.journal.next_lsn)
        self.whole.node.append(on_the_wire(record for record in records if record.lsn < self.committed))
        self.whole.run()
        led.commit(min(self.committed, led.journal.durable_lsn))
        led.confirm(self.committed)
        led.keep(min(self.ends(number) for number in range(len(self.members))))
        for number, member in enumerate(self.members):
            if number != self.leader and number not in self.lags:
                member.node.commit(max(1, min(self.committed, self.ends(number))))
        for member in self.members:
            # A checkpoint that waited for it.
            member.run()
        await asyncio.sleep(0)

    def ends(self, number: int) -> int:
        """Below which record a node has the leader's log on its disk."""
        mine, leader = self.members[number].node.journal, self.led.node.journal
        last = min(mine.durable_lsn, leader.next_lsn) - 1
        if mine.promised < self.epoch or mine.epoch_of(last) != leader.epoch_of(last):
            return 0
        return last + 1

    async def fill(self, number: int) -> None:
        """The leader's log begins too late for it: it takes a transfer."""
        led = self.led
        ready: list[TransferSource] = []
        source = led.node.give(ready.append)
        for _ in range(200):
            led.run()
            for other in range(len(self.members)):
                if other not in (self.leader, number):
                    self.members[other].node.append(
                        on_the_wire(led.node.journal.read_log(self.members[other].node.journal.next_lsn))
                    )
                    self.members[other].run()
            await self.commit()
            if ready:
                break
        assert ready, "the transfer's checkpoint is stored"
        disk = SimulatedDisk()
        target = TransferTarget(DATA, self.options, disk)
        for piece in source.records():
            target.add(on_the_wire(piece))
        for part in source.state():
            target.add_state(part)
        target.finish(source.head())
        source.release()
        self.replace(number, disk)
        await self.members[number].node.promise(self.epoch)
        self.seen["filled"] += 1

    def replace(self, number: int, disk: SimulatedDisk) -> None:
        """A node starts over a disk: the one before is no more."""
        self.members[number].gone()
        self.members[number] = Member(self.pictured(disk), self.options)

    def die(self, number: int) -> None:
        """A node dies, at a call of its disk if there is a picture of that, and starts again. A leader leads no more."""
        member = self.members[number]
        pictures = member.disk.pictures if isinstance(member.disk, Pictured) else []
        if pictures and self.random.random() < 0.8:
            # Nobody has relied on anything since.
            disk = self.random.choice(pictures)
            self.seen["died at a call"] += 1
        else:
            disk = member.disk.crash(self.random) if self.random.random() < 0.5 else member.disk.restart()
        self.seen["died"] += 1
        self.replace(number, disk)
        if number == self.leader:
            self.leader = None


def gone_all(members: Iterable[Member]) -> None:
    """All processes end."""
    for member in members:
        member.gone()
