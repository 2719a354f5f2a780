"""What goes wrong, carried out; and the operator, who sees to it that the cluster has its members."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.replication.modes import rule_of
from tests.simulation.replication.disk import Disk
from tests.simulation.replication.plan import Fault
from tests.simulation.replication.program import Trigger

if TYPE_CHECKING:
    from tests.simulation.replication.host import Host
    from tests.simulation.replication.runner import Cluster

OPERATOR_SECONDS = 0.7
"""The operator looks this often."""


class Faults:
    """The faults of a plan."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self.former: Host | None = None  # who was cut off last
        self._copies: dict[str, Disk] = {}

    def begin(self) -> None:
        for fault in self._cluster.plan.faults:
            self._world.at(fault.time, self._happen, fault)
        self._world.after(OPERATOR_SECONDS, self._operate)

    def _happen(self, fault: Fault) -> None:
        host = self._cluster.named(fault.host)
        if host is None or self._cluster.peace:
            return
        KINDS[fault.kind](self, host, *fault.values)

    def heal(self) -> None:
        """Everything that was wrong is over."""
        self._world.note("peace")
        cluster = self._cluster
        cluster.network.unblock()
        cluster.register.down = False
        cluster.register.lossy = cluster.register.late = cluster.register.slow = 0.0
        cluster.register.cut_off.clear()
        for host in cluster.hosts.values():
            host.triggers = []
            host.sync_seconds = cluster.plan.sync_seconds
            host.has_room(True)
            host.resume()
            host.start()

    # Kinds

    def _crash(self, host: Host, seconds: float) -> None:
        host.crash(power=False)
        self._world.after(seconds, host.start)

    def _power(self, host: Host, seconds: float) -> None:
        host.crash(power=True)
        self._world.after(seconds, host.start)

    def _damage(self, host: Host, seconds: float) -> None:
        """Its program is killed, and its disk has damaged the last write. Of one disk at a time: with two it is lost, as promised.

        The disk that is damaged already may be again, before its node has all.
        """
        disks = self._cluster.disks.values()
        if any(disk.damaged and disk is not host.disk for disk in disks) or not self._cluster.settled():
            return
        host.crash(power=False)
        if host.disk.damage(self._world.random):
            self._world.note(f"the last write of {host.name} is damaged: end {host.disk.end} of {host.disk.had + 1}")
        self._world.after(seconds, host.start)

    def _step(self, host: Host, step: str, left: int, power: bool) -> None:
        if host.up:
            host.triggers.append(Trigger(step, left, power))

    def _step_of_others(self, host: Host, step: str, left: int, power: bool, down: float) -> None:
        for other in self._cluster.hosts.values():
            if other.up and other is not host:
                other.triggers.append(Trigger(step, left, power, down))

    def _partition(self, host: Host, shape: str, seconds: float, patience: float, drawn: float) -> None:
        self.former = host
        names = list(self._cluster.hosts)
        random = self._world.random
        others = [name for name in names if name != host.name]
        if shape in ("halves", "one way"):
            some = {host.name, *random.sample(others, int(drawn * len(others)))}
            pairs = {(one, other) for one in some for other in set(names) - some}
        elif shape == "ring":
            pairs = {(one, other) for one in names for other in names if one != other}
            for one, other in zip(names, names[1:] + names[:1], strict=True):
                pairs -= {(one, other), (other, one)}
        elif shape == "any":
            pairs = {(one, other) for one in names for other in names if one != other and random.random() < drawn}
        elif shape == "pair":
            pairs = {(host.name, random.choice(others))}
        else:
            pairs = {(host.name, other) for other in others}
        if shape in ("isolate", "halves", "pair", "deaf"):
            back = {(other, one) for one, other in pairs}
            pairs = back if shape == "deaf" else pairs | back
        self._world.note(f"nothing gets through, {shape}: {' '.join(sorted(a + b for a, b in pairs))}")
        self._cluster.network.block(pairs, patience)
        self._world.after(seconds, self._cluster.network.unblock, pairs)

    def _reset(self, host: Host, drawn: float) -> None:
        """Its connections end, and are made again at once: what was under way may still be read."""
        self._world.note(f"the connections of {host.name} end")
        self._cluster.network.host_down(host)

    def _pause(self, host: Host, seconds: float) -> None:
        host.pause()
        self._world.after(seconds, host.resume)

    def _clock(self, host: Host, seconds: float) -> None:
        self._world.note(f"the clock of {host.name} jumps by {seconds}")
        host.offset += seconds

    def _register(self, host: Host, what: str, seconds: float) -> None:
        register = self._cluster.register
        self._world.note(f"the register is {what} for {seconds:.1f}: {host.name}")
        if what == "down":
            register.down = True
        elif what == "cut off":
            register.cut_off.add(host.name)
        elif what == "slow":
            register.slow = 0.7
        else:
            register.lossy = 0.6
            register.late = 0.7 if what == "late" else 0.0
        self._world.after(seconds, self._register_back, host, what)

    def _register_back(self, host: Host, what: str) -> None:
        register = self._cluster.register
        if what == "down":
            register.down = False
        elif what == "cut off":
            register.cut_off.discard(host.name)
        elif what == "slow":
            register.slow = 0.0
        else:
            register.lossy = register.late = 0.0

    def _slow_disk(self, host: Host, sync: float, seconds: float) -> None:
        host.sync_seconds = sync
        self._world.after(seconds, setattr, host, "sync_seconds", self._cluster.plan.sync_seconds)

    def _full(self, host: Host, seconds: float) -> None:
        """Its disk has no room for more of the log."""
        host.has_room(False)
        self._world.after(seconds, host.has_room, True)

    def _stop(self, host: Host, drawn: float) -> None:
        host.stop()

    def _wipe(self, host: Host, drawn: float) -> None:
        self._lose(host, None)

    def _restore(self, host: Host, drawn: float) -> None:
        """From an older copy; the copy is taken the first time."""
        copy = self._copies.pop(host.name, None)
        if copy is None:
            self._copies[host.name] = host.disk.copy("")
        elif not self._lose(host, copy):
            self._copies[host.name] = copy

    def _lose(self, host: Host, copy: Disk | None) -> bool:
        """A disk is lost, if the cluster can afford it: a minority of what counts, and no change is under way."""
        cluster = self._cluster
        document = cluster.register.document
        rule = rule_of(document)
        lost = {each for quorum in rule.quorums for each in quorum if each not in cluster.disks} | {host.directory}
        unsettled = document.change is not None or self._world.now - cluster.operated < 12.0
        # Who is in doubt may have lost something too.
        unsettled = unsettled or any(disk.doubt for disk in cluster.disks.values())
        if unsettled or any(len(quorum & lost) > (len(quorum) - 1) // 2 for quorum in rule.quorums):
            return False
        host.crash(power=True)
        former = host.directory
        del cluster.disks[former]
        directory = former if cluster.defects.keeps_id else cluster.new_id(host.name)
        if copy is None:
            host.disk = Disk(directory)
        else:
            copy.directory = directory
            host.disk = copy
        cluster.disks[directory] = host.disk
        self._world.note(f"the disk of {host.name} is lost: {former[:3]}, now {directory[:3]}, end {host.disk.end}")
        self._world.after(0.2 + self._world.random.random(), host.start)
        return True

    def _join(self, host: Host, drawn: float) -> None:
        if host.name not in self._cluster.register.document.members:
            self._ask("add", host.name, self._cluster.member(host, learner=True))

    def _leave(self, host: Host, drawn: float) -> None:
        document = self._cluster.register.document
        rule = rule_of(document)
        if len(document.counting) > 3 and all(each in self._cluster.disks for each in rule.quorums[0]):
            self._ask("remove", host.name)

    # The operator

    def _operate(self) -> None:
        """Members whose directory is gone get another one: the host's of the same name."""
        cluster = self._cluster
        self._world.after(OPERATOR_SECONDS, self._operate)
        for name, member in cluster.register.document.members.items():
            host = cluster.hosts[name]
            if member.directory not in cluster.disks and host.up:
                self._ask("move", name, cluster.member(host))
                return
        change = cluster.register.document.change
        if change is not None and change.member is not None and change.member.directory not in cluster.disks:
            self._ask("give_up")

    def _ask(self, what: str, *values: Any) -> None:
        for host in self._cluster.hosts.values():
            replica = host.replica
            if host.up and not host.paused and replica is not None and replica.membership is not None:
                error = getattr(replica.membership, what)(*values)
                if error is None:
                    self._cluster.operated = self._world.now
                    self._world.note(f"the operator asks {host.name} to {what} {values[:1]}")


KINDS = {
    "crash": Faults._crash,
    "power": Faults._power,
    "damage": Faults._damage,
    "step": Faults._step,
    "step of others": Faults._step_of_others,
    "partition": Faults._partition,
    "reset": Faults._reset,
    "pause": Faults._pause,
    "clock": Faults._clock,
    "register": Faults._register,
    "slow disk": Faults._slow_disk,
    "full": Faults._full,
    "wipe": Faults._wipe,
    "restore": Faults._restore,
    "stop": Faults._stop,
    "join": Faults._join,
    "leave": Faults._leave,
}
