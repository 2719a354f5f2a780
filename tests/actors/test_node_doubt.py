"""Two nodes confirm while a third is off, one of the two has its last write damaged, and comes back with the third: nothing is lost.

The machines of replication over nodes' real directories, in virtual time, as in test_node_replica.py.
"""

from __future__ import annotations

from random import Random

import pytest

from actors.replication.takeover import Takeover
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.node_cluster import DATA
from tests.actors.stored_queues import turns
from tests.actors.test_node_replica import Cluster, Host
from tests.fault.last_write import damage_last_write

SECONDS = 40.0
"""For several attempts to lead."""


async def confirmed_by_two(cluster: Cluster) -> tuple[Host, Host, Host]:
    """Who leads, who has stored with it, and who was off, when b"last" was confirmed; all are dead then."""
    led = await cluster.led()
    led.send(b"first")
    await elapse(3.0)
    other, off = (host for host in cluster.hosts.values() if host is not led)
    assert off.node.log.end == led.node.log.end
    cluster.kill(off)
    led.send(b"last")
    led.hear()
    while b"last" not in cluster.confirmed:
        await elapse(0.002)
        led.hear()
    cluster.kill(led)
    cluster.kill(other)
    return led, other, off


def again(cluster: Cluster, host: Host) -> Host:
    cluster.begin(Host(cluster, host.name, host.disk.restart()))
    return next(each for each in cluster.hosts.values() if each.name == host.name)


async def happen(damaged_leads: bool) -> tuple[bool, list[bytes]]:
    """Whether two of three led, one of them in doubt; and what is there when all three are."""
    cluster = Cluster(Random(1))
    led, other, off = await confirmed_by_two(cluster)
    first, second = (led, other) if damaged_leads else (other, led)
    assert damage_last_write(first.disk, DATA, b"last")
    doubtful, behind = again(cluster, first), again(cluster, off)
    promised = doubtful.node.log.promised
    assert doubtful.node.log.doubt == promised > 0
    await elapse(SECONDS)
    alone = cluster.leading() is not None
    assert alone or promised < behind.node.log.promised <= promised + 1, "who knows that it cannot lead does not try"
    again(cluster, second)
    leads = await cluster.led()
    await elapse(5.0)
    held = leads.held()
    assert doubtful.node.log.doubt == 0
    assert behind.failures == doubtful.failures == []
    for host in cluster.hosts.values():
        host.die()
    await turns()
    return alone, held


@pytest.mark.parametrize("damaged_leads", [True, False])
def test_a_node_whose_last_write_is_damaged_does_not_lead_or_elect_with_one_that_lacks_it(damaged_leads: bool) -> None:
    assert run_in_virtual_time(happen(damaged_leads)) == (False, [b"first", b"last"])


def test_the_check_sees_what_is_lost_where_a_node_in_doubt_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    sealed_by = Takeover.sealed_by
    monkeypatch.setattr(Takeover, "sealed_by", lambda self, now, peer, log, **_: sealed_by(self, now, peer, log))
    alone, held = run_in_virtual_time(happen(damaged_leads=True))
    assert (alone, held) == (True, [b"first"])


async def follower_comes_back() -> None:
    cluster = Cluster(Random(2))
    led = await cluster.led()
    led.send(b"first")
    await elapse(3.0)
    other, third = (host for host in cluster.hosts.values() if host is not led)
    end = other.node.log.end
    led.send(b"last")
    while other.node.log.durable <= end:
        await elapse(0.001)
    cluster.kill(other)
    assert damage_last_write(other.disk, DATA, b"last")
    back = again(cluster, other)
    epoch = led.node.log.promised
    assert back.node.log.doubt == epoch
    await elapse(3.0)
    assert back.node.log.doubt == 0
    assert led.node.log.promised == epoch, "nobody else had to lead for that"
    cluster.kill(led)
    await cluster.led(but=led)
    for host in (back, third):
        host.die()
    await turns()


def test_the_doubt_of_a_follower_ends_under_the_leader_that_it_had_and_two_are_enough_again() -> None:
    run_in_virtual_time(follower_comes_back())
