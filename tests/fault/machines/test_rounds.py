"""Three brokers act as one: what was confirmed is delivered, whichever of them dies or is cut off."""

from __future__ import annotations

from random import Random

import pytest

from tests.fault.machines.cluster import NODES
from tests.fault.machines.machines import Machines
from tests.fault.machines.options import Options
from tests.fault.machines.rounds import CLIENTS, Rounds

LOAD = Options(rate=300.0, longest_wait=0.2, batch=10)


@pytest.mark.usefixtures("namespaces_here", "etcd_here")
def test_nothing_confirmed_is_lost_when_the_leader_is_killed_and_the_next_one_is_cut_from_its_followers() -> None:
    with Machines([*NODES, CLIENTS]) as machines:
        rounds = Rounds(machines, "majority", LOAD, Random(5))
        epochs = [rounds.cluster.leader().epoch]
        for fault in ("kill-leader", "cut-from-followers"):
            rounds.round(fault)
            epochs.append(rounds.cluster.leader().epoch)
        found = rounds.end()
    assert epochs == sorted(set(epochs)), "each time another epoch led"
    assert found.clean, found.summary()
    assert found.facts["confirmed"] == found.facts["acknowledged"] > 500


@pytest.mark.usefixtures("namespaces_here", "etcd_here")
def test_a_bit_that_is_flipped_in_a_replica_is_never_delivered_and_costs_nothing_confirmed() -> None:
    with Machines([*NODES, CLIENTS]) as machines:
        rounds = Rounds(machines, "majority", LOAD, Random(3))
        for fault in ("flipped-bit-of-follower", "flipped-bit-of-leader"):
            rounds.round(fault)
        found = rounds.end()
    assert found.clean, found.summary()
    assert found.facts["confirmed"] == found.facts["acknowledged"] > 500
