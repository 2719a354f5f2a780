"""What can be done to a cluster, by name: context managers over `Rounds`; each gives whether the load goes on before it is mended."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.fault.machines.cluster import NODES, Node
from tests.fault.machines.disks import DiskError, ImageDisk, why_no_faults, why_no_images
from tests.fault.machines.links import Plane
from tests.fault.machines.processes import ProcessError
from tests.fault.machines.report import Pair

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fault.machines.rounds import Rounds

CLIENTS: Final = "clients"
"""The machine that the load is on."""
GO_ON_SECONDS: Final = 60.0
"""For the load to have something confirmed behind a fault, and for all nodes to be there again."""
REPLICA_FILES: Final = "data/[!dt]*[!e]"
"""All but those that have nothing of the journal: the room for a start on a full disk, etcd's, and what was put aside (``torn-...``,
``diverged-...``)."""
STOPS: Final[Mapping[float, int]] = {1.0: 4, 2.0: 4, 5.0: 4, 10.0: 4, 30.0: 1}
"""For how many seconds a leader stands still, and how often, of all times together."""
LONG_STOP_SECONDS: Final = 3.0
"""Behind which another one leads before it is over."""
CUT_SECONDS: Final = (1.0, 3.0, 6.0)
"""For how long a minority is cut off."""
LONG_CUT_SECONDS: Final = 3.0
"""From which on another one leads before it is over; if need be that is waited for."""
SLOW_SYNC_SECONDS: Final = 0.2
FULL_FLOOR_BYTES: Final = 64 * 2**20
"""The setting ``disk_floor`` of brokers whose disks can be full. A follower stands still at half of it."""
FULL_LEAVES_BYTES: Final = 24 * 2**20
"""What a full disk has left: less than that half."""
FULL_MESSAGES: Final = 1_000
"""Of each producer, that are confirmed while a follower has no room."""


@contextmanager
def _killed(rounds: Rounds, *, leader: bool, two: bool = False) -> Iterator[bool]:
    """SIGKILL for all that runs on a machine, or on two."""
    cluster = rounds.cluster
    followers = cluster.followers()
    nodes = [cluster.leader()] if leader else [rounds.random.choice(followers)]
    if two:
        nodes.append(rounds.random.choice([node for node in followers if node not in nodes]))
    elif leader:
        rounds.note_etcds_leader(nodes[0])
    rounds.strikes()
    for node in nodes:
        cluster.kill(node)
    yield not two
    for node in nodes:
        cluster.start(node.name)


@contextmanager
def _both_leaders_killed(rounds: Rounds) -> Iterator[bool]:
    """SIGKILL for all that runs on the leader's machine, which is etcd's leader's."""
    node = rounds.cluster.leader()
    rounds.etcd.lead(node.name)
    if rounds.cluster.leader() is not node:
        raise ProcessError(f"{node.name} leads no more, though nothing but etcd's leader has changed")
    rounds.strikes()
    rounds.cluster.kill(node)
    yield True
    rounds.cluster.start(node.name)


@contextmanager
def _broker_killed(rounds: Rounds) -> Iterator[bool]:
    """SIGKILL of the leader's broker alone: its machine's etcd lives on."""
    node = rounds.cluster.leader()
    rounds.strikes()
    rounds.cluster.kill_broker(node)
    if not rounds.etcd.runs(node.name):
        raise ProcessError(f"the etcd of {node.name} has ended with its broker")
    yield True
    rounds.cluster.start(node.name)


@contextmanager
def _stopped(rounds: Rounds) -> Iterator[bool]:
    """SIGSTOP of the leader's machine for a while."""
    node = rounds.cluster.leader()
    [seconds] = rounds.random.choices(list(STOPS), list(STOPS.values()))
    print(f"{node.name}: stands still for {seconds:.0f} s", flush=True)
    rounds.strikes()
    until = time.monotonic() + seconds
    node.machine.pause()
    try:
        yield seconds > LONG_STOP_SECONDS
        _sit_out(until)
    finally:
        node.machine.resume()


def _sit_out(until: float) -> None:
    """Wait until a time of the monotonic clock: for how long a fault lasts is what it is about."""
    threading.Event().wait(max(until - time.monotonic(), 0.0))


@contextmanager
def _stepped(rounds: Rounds) -> Iterator[bool]:
    """SIGTERM of the leader, as for an upgrade."""
    node = rounds.cluster.leader()
    assert node.process is not None
    node.process.signal(signal.SIGTERM)
    node.process.wait_end(GO_ON_SECONDS)
    node.machine.kill()
    yield True
    rounds.cluster.start(node.name)


@contextmanager
def _all_off(rounds: Rounds) -> Iterator[bool]:
    """All are killed one after the other, and come back in another order."""
    names = list(NODES)
    rounds.random.shuffle(names)
    for name in names:
        rounds.cluster.kill(rounds.cluster.nodes[name])
    rounds.random.shuffle(names)
    yield False
    rounds.cluster.start(*names)


@contextmanager
def _cable(rounds: Rounds, *, leader: bool) -> Iterator[bool]:
    """The cable of a machine is pulled, towards its clients too."""
    cluster = rounds.cluster
    node = cluster.leader() if leader else rounds.random.choice(cluster.followers())
    rounds.strikes()
    rounds.machines.links.down(node.name)
    yield True
    rounds.machines.links.up(node.name)


@contextmanager
def _one_way(rounds: Rounds, *, outward: bool) -> Iterator[bool]:
    """What the leader says is not heard by the others, or the reverse."""
    cluster = rounds.cluster
    leader, followers = cluster.leader(), cluster.followers()
    epoch = leader.epoch
    for node in followers:
        source, target = (leader, node) if outward else (node, leader)
        rounds.machines.links.cut_one_way(source.name, target.name)
    yield True
    cluster.leader(epoch, GO_ON_SECONDS)  # in the mode async it goes on until then
    rounds.machines.links.heal()


@contextmanager
def _plane(rounds: Rounds, plane: Plane) -> Iterator[bool]:
    """The leader is cut from its followers and not from the register, or the reverse."""
    leader = rounds.cluster.leader()
    epoch = leader.epoch
    others = [node.name for node in rounds.cluster.followers()]
    rounds.machines.links.isolate(leader.name, others, plane)
    yield True
    if plane == "brokers":
        rounds.cluster.leader(epoch, GO_ON_SECONDS)  # as above
    rounds.machines.links.heal()


@contextmanager
def _minority(rounds: Rounds) -> Iterator[bool]:
    """The leader and the clients are cut from the two others; the clients reach all again when it is mended.

    One of the clients dies meanwhile, with what it had sent: where another node leads by then, none of that is anywhere afterwards.
    """
    leader = rounds.cluster.leader()
    epoch = leader.epoch
    others = [node.name for node in rounds.cluster.followers()]
    tail = rounds.tail(leader)
    seconds = rounds.random.choice(CUT_SECONDS)
    until = time.monotonic() + seconds
    rounds.machines.links.part([leader.name, CLIENTS], others)
    if tail is not None:
        tail.send_and_die()
    _sit_out(until)
    if seconds >= LONG_CUT_SECONDS:
        rounds.cluster.leader(epoch, GO_ON_SECONDS)
    # Where nobody does, it may stay the leader when it is mended, and then what it has is to be committed.
    gone = any(rounds.cluster.nodes[name].epoch > epoch for name in others)
    yield False
    rounds.machines.links.heal()
    rounds.go_on("minority, healed")
    if tail is not None:
        rounds.cluster.wait_whole(GO_ON_SECONDS)
        rounds.wait_in_step()
        if (kept := tail.look(gone=gone)) is not None:
            rounds.kept.append(kept)


@contextmanager
def _flapping(rounds: Rounds) -> Iterator[bool]:
    """The leader's cable comes and goes every second."""
    node = rounds.cluster.leader()
    with rounds.machines.links.flapping(node.name):
        threading.Event().wait(5.0)
    yield False


@contextmanager
def _slow_disk(rounds: Rounds) -> Iterator[bool]:
    """Each sync of a follower takes longer; how long confirmations take is held against a stretch before."""
    node: Node = rounds.random.choice(rounds.cluster.followers())
    disk = node.machine.disk
    rounds.wait_in_step()
    before, struck = rounds.stretch(), disk.struck
    disk.slow_syncs(SLOW_SYNC_SECONDS)
    yield True
    during = rounds.stretch()
    if disk.struck == struck:
        raise DiskError(f"{node.name} has not synced once while its syncs were slow")
    disk.mend()
    rounds.pairs.append(Pair(before, during))


@contextmanager
def _full_disk(rounds: Rounds) -> Iterator[bool]:
    """A follower's disk fills up, and has room again; then the one that was full is half of the two that are left, and so it counts."""
    cluster = rounds.cluster
    full, other = rounds.random.sample(cluster.followers(), 2)
    disk = full.machine.disk
    if not isinstance(disk, ImageDisk):
        raise DiskError("a disk that can be full is a file system of its own")
    rounds.wait_in_step()
    disk.fill(FULL_LEAVES_BYTES)
    cluster.wait_full(full, True, GO_ON_SECONDS)
    yield True
    rounds.load.wait_confirmed(FULL_MESSAGES, GO_ON_SECONDS)
    disk.unfill()
    cluster.wait_full(full, False, GO_ON_SECONDS)
    rounds.wait_in_step()
    cluster.kill(other)
    rounds.go_on("full-disk-of-follower, has room again, and another one is killed")
    cluster.start(other.name)


@contextmanager
def _failing_disk(rounds: Rounds, *, leader: bool) -> Iterator[bool]:
    """Syncs fail: the node ends, and comes back with a disk that works."""
    cluster = rounds.cluster
    node = cluster.leader() if leader else rounds.random.choice(cluster.followers())
    assert node.process is not None
    node.machine.disk.fail_syncs()
    node.process.wait_end(GO_ON_SECONDS)
    yield True
    node.machine.kill()
    node.machine.disk.mend()
    cluster.start(node.name)


@contextmanager
def _flipped(rounds: Rounds, *, leader: bool) -> Iterator[bool]:
    """A bit of any file of a replica is another one when it comes back: it is never delivered, nor given to another, and is healed.

    By the node itself, or at the end of the round by `Flips`.
    """
    cluster = rounds.cluster
    node = cluster.leader() if leader else rounds.random.choice(cluster.followers())
    cluster.kill(node)
    rounds.flips.begin(node)
    flipped = node.machine.disk.flip_some_bit(rounds.random, REPLICA_FILES, written=True)
    print(f"{node.name}: bit {flipped.bit} of byte {flipped.offset} of {flipped.path.name} is flipped", flush=True)
    yield True
    rounds.flips.look()
    cluster.start(node.name)
    rounds.wait_in_step()


FAULTS: Final[dict[str, Callable[[Rounds], AbstractContextManager[bool]]]] = {
    "kill-leader": partial(_killed, leader=True),
    "kill-leader-and-etcds-leader": _both_leaders_killed,
    "kill-broker-of-leader": _broker_killed,
    "kill-follower": partial(_killed, leader=False),
    "kill-two": partial(_killed, leader=True, two=True),
    "stop-leader": _stopped,
    "hand-over": _stepped,
    "all-off": _all_off,
    "cable-of-leader": partial(_cable, leader=True),
    "cable-of-follower": partial(_cable, leader=False),
    "leader-unheard": partial(_one_way, outward=True),
    "leader-deaf": partial(_one_way, outward=False),
    "cut-from-followers": partial(_plane, plane="brokers"),
    "cut-from-register": partial(_plane, plane="register"),
    "minority": _minority,
    "flapping": _flapping,
    "slow-disk": _slow_disk,
    "full-disk-of-follower": _full_disk,
    "failing-disk-of-follower": partial(_failing_disk, leader=False),
    "failing-disk-of-leader": partial(_failing_disk, leader=True),
    "flipped-bit-of-follower": partial(_flipped, leader=False),
    "flipped-bit-of-leader": partial(_flipped, leader=True),
}
"""What can be done, by its name on the command line."""
IMAGES: Final = frozenset({"full-disk-of-follower"})
"""For these each machine's disk is a file system of its own."""
APART: Final = frozenset({"kill-broker-of-leader"})
"""For these each etcd is a process that nobody's death takes along."""
CALLS: Final = frozenset({"slow-disk", "failing-disk-of-follower", "failing-disk-of-leader"})
"""For these calls on a disk are struck."""


def why_not(name: str, *, apart: bool) -> str | None:
    """Why a fault cannot be had here, or None.

    Args:
        name: of the fault.
        apart: whether each etcd is a process of its own.
    """
    if name in IMAGES:
        return why_no_images()
    if name in APART and not apart:
        return "an etcd that the broker runs dies with it: say --etcd apart"
    return why_no_faults() if name in CALLS else None
