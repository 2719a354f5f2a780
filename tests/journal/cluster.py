"""Three replicas that do what a cluster's do with their journals, step by step: the cluster's own rules in as few lines as there can be.

A leader appends, ships and counts what is stored; a follower stores, applies what is committed, and makes its checkpoints. Whoever takes
over has the greatest log of two, and the others cut off what it does not have, or are filled anew. The check is that of `Cluster.judge`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from journal import JournalOptions, LogGoneError, TransferSource, TransferTarget, unpack_several
from journal.items import ITEMS_PREFIX
from tests.fault.disk import SimulatedDisk
from tests.journal.replicas import DIRECTORY, Node, Plain, log_of, on_the_wire, plain

NODES = 3
STREAMS = 3
ITEMS, SEVERAL, EVENT, ACKNOWLEDGE = 2, 3, 1, 4
ANYTHING = 1 << 40

Item = tuple[int, int]


class Cluster:
    """The nodes, and a plain list of the log that the leader's is.

    Attributes:
        log: the records of the leader's log, from the first on; record n is at n - 1.
        committed: every record below it is committed.
        seen: what has happened, to be counted.
    """

    def __init__(self, options: JournalOptions) -> None:
        self.options = options
        self.nodes = [Node(options=options) for _ in range(NODES)]
        self.epoch = 0
        self.leader = 0
        self.committed = 1
        self.log: list[Plain] = []
        self.items: dict[Item, tuple[int, bytes]] = {}
        self.acknowledged: dict[Item, int] = {}
        self.applied = [1] * NODES
        self.follows = [0] * NODES
        self.promised = [0] * NODES
        self.ids = [node.journal.directory_id for node in self.nodes]
        self.seen: set[str] = set()
        self._unique = 0
        self.take_over(0, (0, 1))

    # What the leader does.

    def append(self, kind: int, stream: int, count: int, size: int) -> None:
        node, lsn = self.nodes[self.leader], len(self.log) + 1
        self._unique += 1
        payload = b"%d." % self._unique + bytes(size)
        first = 1 + max((item for of, item in self.items if of == stream or kind == SEVERAL), default=-1)
        if kind == EVENT:
            assert node.event(payload) == lsn
        elif kind == ITEMS:
            assert node.items(stream, first, count, payload) == lsn
            self.items.update({(stream, item): (lsn, payload) for item in range(first, first + count)})
        else:
            assert node.several(range(STREAMS), first, payload) == lsn
            self.items.update({(each, first): (lsn, payload) for each in range(STREAMS)})
        self._appended()

    def acknowledge(self, item: Item) -> None:
        node = self.nodes[self.leader]
        if item in self.items and item not in self.acknowledged:
            lsn = node.journal.append(ACKNOWLEDGE, [b"%d.%d" % item])
            self.acknowledged[item] = lsn
            self._appended()

    def ship(self, number: int, most: int) -> None:
        """Send a follower what it does not have, or the first of it."""
        if number == self.leader:
            return
        self._follow(number)
        if self.follows[number] != self.epoch:
            return  # it waits to be filled
        node, leader = self.nodes[number], self.nodes[self.leader]
        try:
            records = [
                record for record, _ in zip(leader.journal.read_log(node.journal.next_lsn), range(most), strict=False)
            ]
        except LogGoneError:
            self._fill(number)
            return
        node.journal.append_shipped(on_the_wire(records))

    def count(self) -> None:
        """What two of the three have stored under a record of the leader's epoch is committed."""
        stored = []
        for number, node in enumerate(self.nodes):
            if number == self.leader or self.follows[number] == self.epoch:
                stored.append(node.journal.durable_lsn)
        if len(stored) < 2:
            return
        lsn = sorted(stored)[-2]
        if lsn > self.committed and self.log[lsn - 2][1] == self.epoch:
            self.committed = lsn
        leader = self.nodes[self.leader]
        leader.journal.committed(self.committed)
        self.applied[self.leader] = len(self.log) + 1
        for number, node in enumerate(self.nodes):
            if number != self.leader and self.follows[number] == self.epoch:
                node.journal.committed(self.committed)
                self.applied[number] = max(self.applied[number], min(self.committed, node.journal.next_lsn))

    def keep(self, lsn: int | None) -> None:
        self.nodes[self.leader].journal.keep_log(lsn)

    # What any node does.

    def run(self, number: int) -> None:
        self.nodes[number].run()

    def checkpoint(self, number: int) -> None:
        node = self.nodes[number]
        if node.journal.checkpointing or self.follows[number] != self.epoch:
            return
        if number == self.leader:
            node.journal.checkpoint(b"%d" % node.journal.next_lsn, self.live_at(ANYTHING))
        else:
            lsn = self.applied[number]
            list(node.journal.prepare_checkpoint(self.live_at(lsn), lsn))
            node.journal.cut_checkpoint(lsn)
            node.journal.store_checkpoint(b"%d" % lsn)
        self.seen.add("checkpoint")

    def die(self, number: int, random: Random | None) -> None:
        """The process dies, or with ``random`` the power fails; it starts again."""
        node = self.nodes[number]
        disk = node.disk.restart() if random is None else node.disk.crash(random)
        self._restarted(number, disk)
        if number == self.leader:
            self.take_over((number + 1) % NODES, ((number + 1) % NODES, (number + 2) % NODES))

    def stop(self, number: int) -> None:
        """A clean shutdown, and the next start."""
        node = self.nodes[number]
        before = log_of(node)
        node.journal.close()
        self._restarted(number, node.disk.restart())
        # What a checkpoint that was not stored would have given back is there again.
        start = max(self.nodes[number].journal.log_start, before[0][0] if before else 1)
        assert log_of(self.nodes[number], start) == [row for row in before if row[0] >= start], (
            "nothing is lost or added"
        )
        if number == self.leader:
            self.take_over((number + 1) % NODES, ((number + 1) % NODES, (number + 2) % NODES))

    def take_over(self, candidate: int, voters: tuple[int, ...]) -> None:
        """Seal some nodes, half + 1 at least, and have the one of them with the greatest log lead, in an epoch of its own."""
        self.epoch += 1
        for number in {candidate, *voters}:
            # Whoever led closes, and opens its directory again.
            self._restarted(number, self.nodes[number].disk.restart())
            self.nodes[number].journal.promise(self.epoch)
            self.promised[number] = self.epoch
        best = max({candidate, *voters}, key=lambda each: (self.nodes[each].journal.position, each == candidate))
        node = self.nodes[best]
        found = log_of(node)
        assert node.journal.next_lsn >= self.committed, "what is committed is in the greatest log of any half + 1"
        start = node.journal.log_start
        del self.log[node.journal.next_lsn - 1 :]
        assert found == self.log[start - 1 :] or self._parted(found, start)
        self.log[start - 1 :] = found
        self._fold()
        if not node.started:
            node.start()
        self.leader, self.follows[best] = best, self.epoch
        node.lead(self.epoch).event(b"epoch %d" % self.epoch)
        self._appended()
        self.applied[best] = len(self.log) + 1

    def _parted(self, found: list[Plain], start: int) -> bool:
        """Whether a log that is another from some record on is so behind what is committed alone."""
        return found[: self.committed - start] == self.log[start - 1 : self.committed - 1]

    # How.

    def live_at(self, lsn: int) -> Callable[[int, int, int], int]:
        """Which items a state that has applied everything below ``lsn`` wants."""

        def live(stream: int, first: int, stop: int) -> int:
            return sum(1 for item in range(first, stop) if self.wants((stream, item), lsn))

        return live

    def wants(self, item: Item, lsn: int) -> bool:
        added = self.items.get(item)
        return added is not None and added[0] < lsn and self.acknowledged.get(item, ANYTHING) >= lsn

    def _appended(self) -> None:
        (row,) = plain(self.nodes[self.leader].journal.read_log(len(self.log) + 1))
        assert row[:2] == (len(self.log) + 1, self.epoch)
        self.log.append(row)

    def _fold(self) -> None:
        """The items, and which of them were acknowledged, by what the log says."""
        self.items, self.acknowledged = {}, {}
        for lsn, _, kind, _, payload in self.log:
            if kind == ITEMS:
                stream, first, count = ITEMS_PREFIX.unpack_from(payload)
                self.items.update(
                    {(stream, n): (lsn, payload[ITEMS_PREFIX.size :]) for n in range(first, first + count)}
                )
            elif kind == SEVERAL:
                for part in unpack_several(payload)[0]:
                    self.items[part.stream, part.first] = (lsn, bytes(part.payload))
            elif kind == ACKNOWLEDGE:
                stream, item = map(int, payload.split(b"."))
                self.acknowledged[stream, item] = lsn

    def _restarted(self, number: int, disk: SimulatedDisk) -> None:
        self.nodes[number].journal.abandon()
        node = self.nodes[number] = Node(disk, self.options, starts=False)
        self.follows[number] = 0
        assert node.reports == [] or all("cut off" in line for line in node.reports)
        assert node.journal.directory_id == self.ids[number]
        assert node.journal.promised == self.promised[number]
        payload = node.journal.checkpoint_payload
        self.applied[number] = 1 if payload is None else int(payload)

    def _follow(self, number: int) -> None:
        """Have a node's log be the beginning of the leader's: what is not is cut off."""
        if self.follows[number] == self.epoch:
            return
        if self.nodes[number].started:
            self._restarted(number, self.nodes[number].disk.restart())
        node, leader = self.nodes[number].journal, self.nodes[self.leader].journal
        last = min(node.next_lsn, leader.next_lsn) - 1
        try:
            while node.epoch_of(last) != leader.epoch_of(last):
                last -= 1
        except LogGoneError:
            # The leader does not know any more how it parted.
            self._fill(number)
            return
        gone = node.next_lsn - last - 1
        truncated = node.truncate(last + 1)
        assert truncated.records == gone
        if gone:
            self.seen.add("truncated")
        self.nodes[number].start()
        self.follows[number] = self.epoch

    def _fill(self, number: int) -> None:
        """Have a node filled by the leader, as a new one; or leave it as it is, where that cannot be yet."""
        leader = self.nodes[self.leader]
        if leader.journal.checkpointing:
            leader.run()
        if leader.journal.checkpointing:
            return
        ready: list[TransferSource] = []
        source = leader.journal.begin_transfer(ready.append)
        leader.journal.checkpoint(b"%d" % leader.journal.next_lsn, self.live_at(ANYTHING))
        leader.run()
        if not ready:
            source.release()
            return
        disk = SimulatedDisk()
        target = TransferTarget(DIRECTORY, self.options, disk)
        for piece in source.records():
            target.add(on_the_wire(piece))
        for part in source.state():
            target.add_state(part)
        target.finish(source.head())
        source.release()
        self.nodes[number] = node = Node(disk, self.options)
        self.ids[number], self.promised[number] = node.journal.directory_id, 0
        self.follows[number] = self.epoch
        node.journal.committed(self.committed)
        self.applied[number] = source.lsn
        self.seen.add("filled")

    # The check.

    def judge(self) -> None:
        """Every node that follows has the leader's log as far as it goes, and every item that somebody wants of that."""
        for number, node in enumerate(self.nodes):
            journal = node.journal
            if self.follows[number] != self.epoch:
                continue
            stop, start = journal.next_lsn, journal.log_start
            assert log_of(node) == self.log[start - 1 : stop - 1], number
            last_epoch = self.log[stop - 2][1] if stop > 1 else 0
            assert journal.position == (last_epoch, stop - 1)
            assert journal.epoch_of(stop - 1) == last_epoch
            held = self.log[start - 1 : stop - 1]
            first_of = {row[1]: row[0] for row in reversed(held)}
            assert journal.epoch_starts() == sorted(first_of.items())
            for item, (lsn, payload) in self.items.items():
                if lsn >= stop or not self.wants(item, ANYTHING):
                    continue
                stored = journal.read(*item)
                assert (stored.lsn, bytes(stored.payload)) == (lsn, payload)
                assert stored.first <= item[1] < stored.stop
