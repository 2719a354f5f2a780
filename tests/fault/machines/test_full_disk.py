"""The disk of a follower is full: it stays, the others go on, and it counts again when it has room. Real disks, brokers and etcds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fault.machines.brokers import PlainBroker
from tests.fault.machines.cluster import NODES, Cluster, Node
from tests.fault.machines.disks import ImageDisk
from tests.fault.machines.etcd import Etcd
from tests.fault.machines.load import Load
from tests.fault.machines.machines import Machines
from tests.fault.machines.options import Options

MIB = 2**20
IMAGE_BYTES = 640 * MIB
FLOOR = 64 * MIB
LEFT = 24 * MIB
"""Less than half of the floor."""
SECONDS = 60.0
NO_ROOM = "this node takes no records when it follows, until there is room"
ROOM_AGAIN = "there is room again: this node takes records when it follows"


@pytest.fixture
def full_machines(namespaces_here: None, images_here: None, etcd_here: None) -> Iterator[Machines]:
    with Machines([*NODES, "clients"], image_bytes=IMAGE_BYTES) as made:
        yield made


def started(machines: Machines, *options: str, etcd: Etcd | None = None) -> Cluster:
    """Whole, with segments that are small for these disks."""
    small = ("--disk-floor", str(FLOOR), "--segment-bytes", "4MiB", *options)
    cluster = Cluster(machines, options=small, etcd=etcd)
    cluster.start()
    cluster.wait_whole()
    return cluster


def sending(machines: Machines, cluster: Cluster, options: Options) -> Load:
    load = Load(machines["clients"], machines.folder / "load", cluster.send, cluster.receive, options)
    load.start()
    load.wait_confirmed(200)
    return load


def disk_of(node: Node) -> ImageDisk:
    disk = node.machine.disk
    assert isinstance(disk, ImageDisk)
    return disk


def wait_line(node: Node, text: str) -> None:
    """Until its log says so."""
    assert node.process is not None
    node.process.wait_line(text, SECONDS)


def nothing_lost(machines: Machines, cluster: Cluster, load: Load) -> None:
    load.drain(lambda: PlainBroker(cluster.wait_whole(SECONDS).machine).left(machines["clients"], load.options.queue))
    found = load.judge()
    assert found.clean, found.summary()


def test_a_follower_whose_disk_is_full_stays_and_counts_again_when_it_has_room(full_machines: Machines) -> None:
    cluster = started(full_machines, "--cluster-log-bytes", "32MiB")
    full, other = cluster.followers()
    load = sending(full_machines, cluster, Options(rate=200.0))

    disk = disk_of(full)
    disk.fill(LEFT)
    wait_line(full, NO_ROOM)
    load.wait_after(load.mark("a follower is full"))
    load.wait_confirmed(1_000, SECONDS)
    assert full.process is not None
    assert full.running, "\n".join(full.process.said[-25:])

    disk.unfill()
    wait_line(full, ROOM_AGAIN)
    load.wait_after(load.mark("it has room"))
    # The two go on without the third: the one that was full has all that it lacked.
    cluster.kill(other)
    load.wait_after(load.mark("another one is killed"), SECONDS)
    cluster.start(other.name)
    cluster.wait_whole(SECONDS)
    nothing_lost(full_machines, cluster, load)
    assert full.running, "\n".join(full.process.said[-25:])
    cluster.stop()


def test_a_follower_that_has_nothing_to_write_outlives_a_disk_that_is_full_to_the_last_byte(
    full_machines: Machines,
) -> None:
    cluster = started(full_machines)
    # What its leader begins with is a record too.
    cluster.wait_in_step(full_machines["clients"], SECONDS)
    full = cluster.followers()[0]
    disk = disk_of(full)
    disk.fill()
    wait_line(full, NO_ROOM)
    disk.unfill()
    wait_line(full, ROOM_AGAIN)
    assert full.running
    cluster.stop()


def test_a_leader_whose_disk_is_full_makes_way_and_leads_no_more_before_it_has_room(full_machines: Machines) -> None:
    cluster = started(full_machines)
    full = cluster.leader()
    load = sending(full_machines, cluster, Options(rate=200.0, longest_wait=0.2))

    disk = disk_of(full)
    disk.fill(LEFT)
    wait_line(full, "senders wait for its disk, and it hands over to")
    load.wait_after(load.mark("the leader's disk is full"), SECONDS)
    successor = cluster.wait_whole(SECONDS)
    assert successor is not full

    # The one that is missed now has the other two take over from it: the one of them that has room.
    successor.machine.pause()
    (other,) = (node for node in cluster.nodes.values() if node not in (full, successor))
    wait_line(other, "this node takes over")
    successor.machine.resume()
    load.wait_after(load.mark("the next leader was missed"), SECONDS)
    assert cluster.wait_whole(SECONDS) is not full
    disk.unfill()
    nothing_lost(full_machines, cluster, load)
    cluster.stop()


def test_a_leader_whose_disk_is_full_leads_on_while_there_is_no_register_for_others_to_take_over(
    full_machines: Machines,
) -> None:
    etcd = Etcd([full_machines[name] for name in NODES], full_machines["clients"])
    cluster = started(full_machines, etcd=etcd)
    full = cluster.leader()
    disk, process = disk_of(full), full.process
    assert process is not None
    load = sending(full_machines, cluster, Options(longest_wait=0.2))

    etcd.kill()
    disk.fill(LEFT)
    wait_line(full, "senders wait until there is room")
    # The register is asked before it would make way, and does not answer.
    wait_line(full, "the register does not answer")
    disk.unfill()
    load.wait_after(load.mark("it has room, and there is no register"), SECONDS)
    etcd.start()
    assert cluster.leader() is full, "\n".join(process.said[-25:])
    assert not [line for line in process.said if "leads no more" in line]
    nothing_lost(full_machines, cluster, load)
    cluster.stop()
