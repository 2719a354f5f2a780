"""Three brokers act as one: what was confirmed is delivered, whichever of them dies or is cut off."""

from __future__ import annotations

from random import Random

import pytest

from tests.fault.machines import faults
from tests.fault.machines.cluster import NODES
from tests.fault.machines.faults import CLIENTS
from tests.fault.machines.judge import TOLD, Judgement
from tests.fault.machines.machines import Machines
from tests.fault.machines.options import Options
from tests.fault.machines.rounds import Rounds

LOAD = Options(rate=300.0, longest_wait=0.2, batch=10)


def judged(mode: str, seed: int, *names: str, backlog: int = 0, apart: bool = False) -> Judgement:
    """What is found behind these faults, one after the other."""
    with Machines([*NODES, CLIENTS]) as machines:
        rounds = Rounds(machines, mode, LOAD, Random(seed), backlog=backlog, apart=apart)
        for name in names:
            rounds.round(name)
        found = rounds.end()
        assert rounds.damaged() == []
        return found


@pytest.mark.usefixtures("namespaces_here", "etcd_here")
def test_nothing_confirmed_is_lost_when_the_leader_is_killed_and_the_next_one_is_cut_from_its_followers() -> None:
    with Machines([*NODES, CLIENTS]) as machines:
        rounds = Rounds(machines, "majority", LOAD, Random(5))
        epochs = [rounds.cluster.leader().epoch]
        for fault in ("kill-leader-and-etcds-leader", "cut-from-followers"):
            rounds.round(fault)
            epochs.append(rounds.cluster.leader().epoch)
        found = rounds.end()
    assert len(rounds.begun) == 1, "of a kill it is known when it began"
    assert epochs == sorted(set(epochs)), "each time another epoch led"
    assert found.clean, found.summary()
    assert found.facts["confirmed"] == found.facts["acknowledged"] > 500


@pytest.mark.usefixtures("namespaces_here", "etcd_here")
@pytest.mark.parametrize("fault", ["flipped-bit-of-follower", "flipped-bit-of-leader"])
def test_a_bit_that_is_flipped_in_a_replica_is_never_delivered_and_costs_nothing_confirmed(fault: str) -> None:
    found = judged("majority", 3, fault)
    assert found.clean, found.summary()
    assert found.facts["confirmed"] == found.facts["acknowledged"] > 500


@pytest.mark.usefixtures("namespaces_here", "etcd_here")
def test_what_a_replaced_leader_was_sent_into_a_cut_is_nowhere_and_a_backlog_waits_through_it_and_a_brokers_death() -> (
    None
):
    # The first cut lasts until another one leads. A broker dies alone where its machine's etcd is a process of its own.
    found = judged("majority", 0, "minority", "kill-broker-of-leader", backlog=5_000, apart=True)
    assert found.clean, found.summary()
    assert found.facts["confirmed"] == found.facts["acknowledged"] > 500


@pytest.mark.usefixtures("namespaces_here", "etcd_here")
def test_what_the_mode_async_loses_in_a_cut_is_told_to_its_senders_and_counted_where_it_is_cut_off() -> None:
    found = judged("async", 5, "cut-from-followers")  # which has counted
    assert found.counts[TOLD], found.summary()
    assert found.only(TOLD), found.summary()


def test_what_a_fault_needs_is_said_where_it_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "why_no_images", lambda: "no loop devices")
    monkeypatch.setattr(faults, "why_no_faults", lambda: "no compiler")
    missing = {name: reason for name in faults.FAULTS if (reason := faults.why_not(name, apart=False)) is not None}
    assert missing == {
        "full-disk-of-follower": "no loop devices",
        "kill-broker-of-leader": "an etcd that the broker runs dies with it: say --etcd apart",
        **dict.fromkeys(("slow-disk", "failing-disk-of-follower", "failing-disk-of-leader"), "no compiler"),
    }
    assert faults.why_not("kill-broker-of-leader", apart=True) is None
