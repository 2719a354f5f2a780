"""What has to hold, whatever goes wrong. It sees all disks and everything that hosts do, and knows no machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from actors.replication.document import ALL
from tests.simulation.replication.disk import CLOSED, OPENING, Record

if TYPE_CHECKING:
    from tests.simulation.replication.host import Host
    from tests.simulation.replication.runner import Cluster

MOST_FINDINGS = 20


class Checker:
    """The rules.

    Attributes:
        findings: what does not hold.
        truth: the committed records, by lsn: the first that says that one is committed fixes it.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.findings: list[str] = []
        self.truth: list[Record] = []
        self.openings: dict[int, str] = {}
        self.lossy: list[int] = []  # epochs whose leader has said that it may lack something that was confirmed
        self._written: dict[
            tuple[int, int], tuple[Any, int]
        ] = {}  # of each epoch and lsn the payload, and the epoch before
        self._confirmed: dict[tuple[str, int], tuple[int, int]] = {}  # lsn, epoch
        self.confirmed_to_senders = 0

    def found(self, text: str) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(f"{self._cluster.world.now:.4f} {text}")
            self._cluster.world.note(f"FOUND {text}")

    def appended(self, host: Host, records: Sequence[Record]) -> None:
        """A host has appended: an epoch has one record at an lsn, and one before it, so logs that have the same one are equal up to it."""
        before = host.disk.epoch_of(records[0].lsn - 1)
        for record in records:
            known = self._written.setdefault((record.epoch, record.lsn), (record.payload, before))
            if known != (record.payload, before):
                self.found(f"{host.name} appends {record} behind one of epoch {before}; it was {known}")
                return
            before = record.epoch

    def committed(self, host: Host, start: int, stop: int) -> None:
        """A host says that everything below ``stop`` is committed."""
        truth, records = self.truth, host.disk.records
        for lsn in range(start, stop):
            record = records[lsn - 1]
            if lsn <= len(truth):
                if truth[lsn - 1] != record:
                    self.found(f"{host.name} says that {record} is committed, where {truth[lsn - 1]} is")
                    return
            else:
                truth.append(record)

    def opened(self, host: Host, epoch: int, whole: bool) -> None:
        """A host opens its ports."""
        self._cluster.world.note(f"{host.name} opens {epoch}, whole: {whole}")
        other = self.openings.setdefault(epoch, host.directory)
        if other != host.directory or host.disk.promised > epoch:
            self.found(f"{host.name} opens epoch {epoch}, which {other} has opened")
        if not whole:
            self.lossy.append(epoch)

    def confirmed(self, host: Host, start: int, stop: int) -> None:
        """A host confirms everything below ``stop`` to its senders."""
        assert host.replica is not None
        assert host.replica.leader is not None
        epoch = host.replica.leader.epoch
        for lsn in range(start, stop):
            payload = host.disk.records[lsn - 1].payload
            if payload[0] in (OPENING, CLOSED):
                continue
            before = self._confirmed.setdefault(payload, (lsn, epoch))
            if before[0] != lsn and not self._may_be_lost(before[1]):
                self.found(f"{payload} was confirmed as {before[0]} and is now {lsn}")
            elif before[0] != lsn:
                self._confirmed[payload] = (lsn, epoch)
        if self._cluster.plan.mode == ALL:
            self._in_step(host, stop)

    def _in_step(self, host: Host, stop: int) -> None:
        """In the mode ``all`` every disk that the document lists as in step has it."""
        for name, member in self._cluster.register.document.members.items():
            disk = self._cluster.disks.get(member.directory)
            if member.in_step and not member.learner and disk is not None and disk.durable < stop and not disk.damaged:
                self.found(f"{host.name} confirms up to {stop}, and {name}, in step, has {disk.durable} on its disk")

    def _may_be_lost(self, epoch: int) -> bool:
        """Whether a leader of a later epoch has said that something may be missing."""
        return any(lossy > epoch for lossy in self.lossy)

    def diverged(self, host: Host, lsn: int) -> None:
        """A host has seen that what it knows as committed is not what its leader has."""
        self.found(f"{host.name} would have to cut what is committed, from {lsn}")

    def doubt_ended(self, host: Host) -> None:
        """A host takes its log to have all that it may have answered for: of what it had before it was damaged, all that is committed."""
        disk = host.disk
        had = [record for record in self.truth[: disk.had] if record.epoch <= disk.doubt]
        if disk.records[: len(had)] != had:
            self.found(f"{host.name} is in doubt no more, and lacks what it had: {disk.end} of {len(had) + 1}")

    def installed(self, host: Host, records: list[Record], stop: int) -> None:
        """A host has taken a transfer."""
        if records != self.truth[: stop - 1]:
            self.found(f"{host.name} is given a transfer that is not what is committed below {stop}")

    # Behind the run

    def end(self) -> None:
        """When everything is healed and quiet."""
        cluster = self._cluster
        truth = self.truth
        for disk in cluster.disks.values():
            known = min(disk.committed, disk.end) - 1
            if disk.records[:known] != truth[:known]:
                at = next(i for i in range(known) if i >= len(truth) or disk.records[i] != truth[i])
                self.found(
                    f"the log of {disk.directory[:4]} has {disk.records[at]} where {truth[at : at + 1]} is committed"
                )
        self._senders(truth)
        self._alive(truth)

    def _senders(self, truth: list[Record]) -> None:
        places: dict[tuple[Any, ...], int] = {}
        last: dict[str, int] = {}
        for record in truth:
            payload = record.payload
            if payload[0] in (OPENING, CLOSED):
                continue
            if payload in places:
                self.found(f"{payload} is there twice, as {places[payload]} and {record.lsn}")
            places[payload] = record.lsn
            producer, number = payload
            if number <= last.get(producer, 0):
                self.found(f"{payload} comes behind number {last[producer]}")
            elif number != last.get(producer, 0) + 1 and not self.lossy:
                self.found(f"{payload} comes behind number {last.get(producer, 0)}: there is a gap")
            last[producer] = number
        lost = 0
        for payload, (lsn, epoch) in self._confirmed.items():
            if places.get(payload) != lsn:
                lost += 1
                if not self._may_be_lost(epoch):
                    self.found(f"{payload} was confirmed as {lsn} in epoch {epoch}, and is {places.get(payload)}")
        self._cluster.lost = lost

    def _alive(self, truth: list[Record]) -> None:
        """Everything is confirmed again, and everybody has it."""
        cluster = self._cluster
        for sender in cluster.senders:
            if sender.waiting:
                self.found(f"{sender.name} still waits for {sender.waiting[0]} to {sender.waiting[-1]}")
        document = cluster.register.document
        if document.change is not None or any(member.learner for member in document.members.values()):
            self.found(f"the change of members is not done: {document}")
        for name, member in document.members.items():
            disk = cluster.disks.get(member.directory)
            if disk is None:
                self.found(f"{name} is a member, and its directory is gone")
            elif disk.committed != len(truth) + 1:
                self.found(f"{name} knows {disk.committed} as committed, of {len(truth) + 1}")
