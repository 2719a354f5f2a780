"""The machines of replication over nodes' real directories, in virtual time: whoever leads, all that was confirmed is there, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.queue.queue_directory import QueueDirectory
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.settings import QueueSettings
from actors.replication import vocabulary as say
from actors.replication.document import ClusterDocument, Member
from actors.replication.replica import Replica
from actors.storage.node_news import NodeHooks
from actors.storage.node_storage import NodeStorage
from journal import JournalOptions, ManualCommitter
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.node_cluster import DATA, at_once, differences, state_of, until
from tests.actors.stored_queues import Connection, turns
from tests.fault.disk import SimulatedDisk
from tests.journal.replicas import on_the_wire

OPTIONS = JournalOptions(segment_bytes=4096, checkpoint_bytes=16384, checkpoint_records=100)
LARGE = 10**9
SYNC_SECONDS = 0.002
WAY_SECONDS = 0.001


class Cluster:
    """Hosts, what is between them, and the register."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.version = 1
        self.cut: set[str] = set()  # names of those that nobody reaches
        self.hosts: dict[str, Host] = {}
        self.confirmed: list[bytes] = []
        self.starts = 0
        hosts = [Host(self, name, SimulatedDisk()) for name in "abc"]
        members = {host.name: host.member() for host in hosts}
        self.document = ClusterDocument("0" * 32, 1, "a", members)
        for host in hosts:
            self.begin(host)

    def begin(self, host: Host) -> None:
        self.hosts[host.node.directory_id] = host
        host.begin()
        for other in self.hosts.values():
            if other is not host:
                host.do(host.replica.connected, other.node.directory_id)
                other.do(other.replica.connected, host.node.directory_id)

    def reach(self, one: Host, other: Host) -> bool:
        return one.alive and other.alive and not {one.name, other.name} & self.cut

    def leading(self) -> Host | None:
        return next((host for host in self.hosts.values() if host.alive and host.queues is not None), None)

    async def led(self, but: Host | None = None) -> Host:
        """Whoever leads, once it has opened."""
        for _ in range(200):
            host = self.leading()
            if host is not None and host is not but:
                return host
            await elapse(0.1)
        raise AssertionError("nobody leads")

    def kill(self, host: Host) -> None:
        host.die()
        for other in self.hosts.values():
            if other.alive:
                other.do(other.replica.lost, host.node.directory_id)

    def again(self, host: Host) -> None:
        """A host that died starts over what that has left."""
        disk = host.disk.crash(self.random) if self.random.random() < 0.5 else host.disk.restart()
        self.begin(Host(self, host.name, disk))

    def split(self, host: Host) -> None:
        """Nobody reaches it, nor does it reach anybody; they notice only that nothing comes."""
        self.cut.add(host.name)

    def heal(self) -> None:
        self.cut.clear()


class Host:
    """The shell: what the effects come to."""

    def __init__(self, cluster: Cluster, name: str, disk: SimulatedDisk) -> None:
        self.cluster = cluster
        self.name = name
        self.disk = disk
        self.alive = True
        self.committers: list[ManualCommitter] = []
        self.node = NodeStorage.open(DATA, OPTIONS, files=disk, committer=self._committer, apart=at_once)
        self.queues: QueueDirectory | None = None
        self.sender: Any = None
        self.told: list[Any] = []
        self.waiting: list[tuple[int, bytes]] = []
        self.sequence = 0
        self.cuts = 0
        self.failures: list[Any] = []
        self._tick: asyncio.TimerHandle | None = None

    def _committer(self) -> ManualCommitter:
        self.committers.append(ManualCommitter())
        return self.committers[-1]

    def member(self) -> Member:
        return Member(self.node.directory_id, f"{self.name}:1", f"{self.name}:2", f"{self.name}:3")

    @property
    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def begin(self) -> None:
        self.cluster.starts += 1
        self.node.start(NodeHooks(self._appended, lambda: self.do(self.replica.synced), self.failures.append))
        self.replica = Replica(self.now, self.node.directory_id, self.node.log, f"w{self.cluster.starts}")
        self.do(self.replica.tick)

    def do(self, call: Callable[..., Any], *arguments: Any) -> None:
        """Tell the machine something, and carry out what it wants."""
        if not self.alive:
            return
        for effect in call(self.now, *arguments) or ():
            getattr(self, f"_{type(effect).__name__.lower()}")(effect)
        if self._tick is not None:
            self._tick.cancel()
        loop = asyncio.get_running_loop()
        self._tick = loop.call_at(max(self.replica.next_tick(self.now), self.now + 0.01), self.do, self.replica.tick)

    def later(self, work: Any, then: Callable[[], Any] | None = None) -> None:
        """Something that takes time; the machine is told behind it."""

        async def whole() -> None:
            await work
            if then is not None and self.alive:
                then()

        self.tasks = [task for task in getattr(self, "tasks", []) if not task.done()]
        self.tasks.append(asyncio.ensure_future(whole()))

    def _appended(self) -> None:
        self._sync_soon()
        self.do(self.replica.appended)

    def _sync_soon(self) -> None:
        asyncio.get_running_loop().call_later(SYNC_SECONDS * (1 + self.cluster.random.random()), self._run)

    def _run(self) -> None:
        if self.alive and self.committers:
            self.committers[-1].run()

    def _send(self, effect: say.Send) -> None:
        other = self.cluster.hosts.get(effect.to)
        if other is not None and self.cluster.reach(self, other):
            asyncio.get_running_loop().call_later(WAY_SECONDS, self._arrive, other, effect.message)

    def _arrive(self, other: Host, message: Any) -> None:
        if self.cluster.reach(self, other):
            other.do(other.replica.received, self.node.directory_id, message)

    def _ship(self, effect: say.Ship) -> None:
        log, records = self.node.log, []
        if effect.lsn >= log.start:
            read = self.node.journal.read_log(effect.lsn)
            records = list(on_the_wire(record for record, _ in zip(read, range(effect.records), strict=False)))
        self._send(say.Send(effect.to, effect.message._replace(records=records)))
        if not isinstance(effect.message, say.Fetched):
            size = sum(record.size for record in records)
            self.do(self.replica.shipped, effect.to, effect.lsn, effect.lsn + len(records), size)

    def _append(self, effect: say.Append) -> None:
        self.node.append(effect.records)  # type: ignore[arg-type]
        self._sync_soon()

    def _truncate(self, effect: say.Truncate) -> None:
        self.cuts += 1
        self.later(self.node.truncate(effect.lsn), lambda: self.do(self.replica.truncated))

    def _promise(self, effect: say.Promise) -> None:
        self.later(self.node.promise(effect.epoch), lambda: self.do(self.replica.promised, effect.epoch))

    def _enddoubt(self, effect: say.EndDoubt) -> None:
        self.later(self.node.end_doubt(effect.epoch), lambda: self.do(self.replica.doubt_ended))

    def _hindered(self, _effect: say.Hindered) -> None:
        """For people."""

    def _commit(self, effect: say.Commit) -> None:
        self.node.commit(effect.lsn)
        self._sync_soon()  # a checkpoint may have waited

    def _confirm(self, effect: say.Confirm) -> None:
        self.node.confirm(effect.lsn)

    def _keep(self, effect: say.Keep) -> None:
        self.node.keep(effect.lsn)

    def _lead(self, effect: say.Lead) -> None:
        self.node.lead(effect.epoch)

    def _open(self, _effect: say.Open) -> None:
        async def opens() -> None:
            storage = (await self.node.opened()).start(lambda _: None)
            self.queues = QueueDirectory(QueueSettings(), lambda: 1.0, storage=storage)
            self.sender, self.told, self.waiting, self.sequence = Connection.start(self.told), self.told, [], 0
            queue = self.queues.get_or_create("q")
            queue.tell(commands.AttachSender(None, connection=self.sender))
            queue.tell(commands.RequestCapacity(LARGE, LARGE, connection=self.sender))

        self.later(opens())

    def _stepdown(self, effect: say.StepDown) -> None:
        self.node.step_down(effect.reason)
        self.later(self._closes(), lambda: self.do(self.replica.reopened))

    async def _closes(self) -> None:
        self.hear()
        queues, self.queues = self.queues, None
        if queues is not None:
            queues.schedules.end()
            await queues.stop()
        await self.node.reopen()

    def _leaderknown(self, _effect: say.LeaderKnown) -> None:
        """For clients."""

    def _readregister(self, effect: say.ReadRegister) -> None:
        cluster = self.cluster
        asyncio.get_running_loop().call_later(
            0.005,
            lambda: self.do(self.replica.register_read, effect.number, cluster.version, cluster.document),
        )

    def _swapregister(self, effect: say.SwapRegister) -> None:
        cluster = self.cluster
        if effect.version == cluster.version:
            cluster.version, cluster.document = cluster.version + 1, effect.document
            answer, arguments = "register_swapped", (effect.number, cluster.version)
        else:
            answer, arguments = "register_moved", (effect.number,)
        asyncio.get_running_loop().call_later(0.005, lambda: self.do(getattr(self.replica, answer), *arguments))

    def send(self, *payloads: bytes) -> None:
        assert self.queues is not None
        batch = MessageBatch.from_payloads(payloads)
        first = self.sequence
        self.sequence += len(payloads)
        self.waiting += [(first + at + 1, payload) for at, payload in enumerate(payloads)]
        self.queues.get("q").tell(commands.OfferBatch(first, batch, None, None, self.sender, 0))

    def hear(self) -> None:
        """What the sender was told is confirmed."""
        for reply in self.told:
            if isinstance(reply, replies.SentMessages):
                self.cluster.confirmed += [payload for number, payload in self.waiting if number <= reply.up_to]
                self.waiting = [each for each in self.waiting if each[0] > reply.up_to]
        self.told.clear()

    def die(self) -> None:
        self.hear()
        self.alive = False
        if self._tick is not None:
            self._tick.cancel()
        self.node._stop()
        self.node.journal.abandon()
        if self.queues is not None:
            self.queues.schedules.end()

    def held(self) -> list[bytes]:
        log = self.node._storage.contents.queues[0].log
        found: list[bytes] = []
        for start, stop in log.stored():
            position = start
            while position < stop:
                entry = log.table.at(position)
                assert entry is not None
                end = min(stop, entry.stop)
                found += [bytes(payload) for payload in entry.read().part(position, end).payloads]
                position = end
        return found


async def happen(seed: int) -> None:
    random = Random(seed)
    cluster = Cluster(random)
    count = 0
    for _ in range(5):
        led = await cluster.led()
        for _ in range(random.randrange(10, 60)):
            if led.queues is None:
                break
            count += 1
            led.send(b"%d" % count)
            if random.random() < 0.3:
                await elapse(random.choice((0.0001, 0.002, 0.01)))
        led.hear()
        draw = random.random()
        if draw < 0.4:
            cluster.kill(led)
            await cluster.led(but=led)
            cluster.again(led)
        elif draw < 0.8:
            cluster.split(led)
            for _ in range(20):
                if led.queues is None:
                    break
                count += 1
                led.send(b"%d" % count)
                await elapse(0.05)
            other = await cluster.led(but=led)
            assert other is not led
            cluster.heal()
        else:
            host = random.choice([host for host in cluster.hosts.values() if host is not led])
            cluster.kill(host)
            await elapse(0.5)
            cluster.again(host)
        await elapse(3.0)
    led = await cluster.led()
    await elapse(5.0)
    led.hear()
    held = led.held()
    missing = [payload for payload in cluster.confirmed if payload not in held]
    assert not missing, f"{missing} were confirmed, and are not there"
    assert len(held) == len(set(held))
    assert held == sorted(held, key=int)
    assert len(cluster.confirmed) > 10
    living = [host for host in cluster.hosts.values() if host.alive]
    assert len(living) == 3
    for host in living:
        await until(lambda host=host: not host.node._followed.behind)
        assert host.failures == []
        one, other = state_of(host.node._storage), state_of(led.node._storage)
        assert one == other, differences(f"{host.name} and {led.name}", one, other)
    for host in living:
        host.die()
    await turns()


@pytest.mark.parametrize("seed", range(12))
def test_all_that_was_confirmed_is_with_whoever_leads_and_all_nodes_come_to_one_state(seed: int) -> None:
    run_in_virtual_time(happen(seed))
