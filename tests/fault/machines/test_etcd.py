"""An etcd across machines lives through the death of its leader, and through a cut that leaves it on the smaller side."""

from __future__ import annotations

import pytest

from tests.fault.machines import etcd
from tests.fault.machines.etcd import Etcd, EtcdError
from tests.fault.machines.machines import Machines

NAMES = ("a", "b", "c")


@pytest.fixture
def members(machines: Machines, etcd_here: None) -> Etcd:
    made = Etcd([machines[name] for name in NAMES], machines["clients"], heartbeat=50, election=300)
    made.start()
    return made


def test_an_etcd_goes_on_without_its_leader_be_it_cut_off_or_killed_with_its_machine(
    machines: Machines, members: Etcd
) -> None:
    first = members.wait_leader()
    others = [name for name in NAMES if name != first]
    members.put(first, "key", "one")
    assert [members.get(name, "key") for name in NAMES] == ["one"] * 3

    machines.links.isolate(first, others)
    second = members.wait_leader(others)
    members.until(lambda: members.put(second, "key", "two"))
    assert members.get(first, "key", serializable=True) == "one"
    machines.links.heal()
    assert members.until(lambda: members.get(first, "key")) == "two"

    machines[second].kill()
    assert not members.process(second).running
    left = [name for name in NAMES if name != second]
    third = members.wait_leader(left)
    members.until(lambda: members.put(third, "key", "three"))
    with pytest.raises(OSError, match="refused"):
        members.get(second, "key")
    members.start(second)
    assert members.until(lambda: members.get(second, "key")) == "three"


def test_the_member_leads_that_is_told_to(members: Etcd) -> None:
    first = members.wait_leader()
    for name in (*(name for name in NAMES if name != first), first, first):
        members.lead(name)
        assert members.leader() == name


def test_an_etcd_that_lost_its_majority_stores_nothing_until_it_is_back(machines: Machines, members: Etcd) -> None:
    members.wait_leader()
    members.put("a", "key", "one")
    members.kill("b", "c")
    with pytest.raises((EtcdError, OSError)):
        members.ask("a", "/v3/kv/put", {"key": etcd.encoded("key"), "value": etcd.encoded("two")}, 1.0)
    assert members.get("a", "key", serializable=True) == "one"
    members.start("b")
    assert members.until(lambda: members.put("b", "other", "three")) > 0
    assert members.until(lambda: members.get("a", "other")) == "three"
