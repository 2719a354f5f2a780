"""A flipped bit that nobody has met is found and healed before the next fault, and what is damaged at the end is said."""

from __future__ import annotations

from typing import Final

import pytest

from tests.fault.machines.cluster import Cluster, Node
from tests.fault.machines.faults import CLIENTS
from tests.fault.machines.flips import CUT, GONE, MET, NOTHING, UNSEEN, Flips, Since, left_damaged, outcome, verified
from tests.fault.machines.machines import Machines
from tests.fault.machines.processes import ProcessError

IN_STEP_SECONDS: Final = 60.0
EARLY: Final = 48 + 28 + 10
"""An offset within the first record of a segment: behind the headers of both."""
PLACES: Final = ["x.segment, offset 5: a record is lost"]


def flip_early(node: Node) -> str:
    """Flip a bit of the oldest record on a node's disk; the name of its file."""
    oldest = min(node.data.glob("0*.segment"))
    return node.machine.disk.flip_bit(oldest, EARLY, 3).path.name


@pytest.mark.usefixtures("etcd_here")
def test_a_flipped_bit_that_nobody_has_met_is_healed_and_one_that_is_left_is_said_at_the_end(
    machines: Machines,
) -> None:
    cluster = Cluster(machines, options=("--disk-floor", "0", "--auto-heal"))
    cluster.start()
    cluster.wait_whole()

    def wait_in_step() -> None:
        cluster.wait_in_step(machines[CLIENTS], IN_STEP_SECONDS)

    flips = Flips(cluster, wait_in_step)
    assert flips.end() == "", "nothing was flipped yet"
    node, other = cluster.followers()
    wait_in_step()
    flips.begin(node)
    name = flip_early(node)  # who runs does not read again what it has written
    assert f"; {node.name}: nobody had met the damage, it was stopped and filled anew: {name}, offset " in flips.end()
    assert node.met == 0
    assert flips.summary() == [f"flipped bits: 1 {UNSEEN}"]

    cluster.stop_node(other)  # so all that it has is known to have been stored, the last write too
    name = flip_early(other)
    [place] = left_damaged(cluster)
    assert place.startswith(f"{other.name}: {name}, offset ")
    (node.data / "newest").write_bytes(b"")
    for path in other.data.iterdir():
        if path.is_file():
            path.unlink()
    assert verified([node]) == {node.name: []}, "what the next start makes again is no damage"
    with pytest.raises(ProcessError, match="ended with 2, and named 0 damaged places"):
        verified([other])


def test_who_was_filled_with_what_is_damaged_is_a_failure_and_what_became_of_other_bits_is_told_apart() -> None:
    assert outcome("a", Since(met=1, aside=1, cuts=0), []) == MET
    assert outcome("a", Since(met=1, aside=0, cuts=0), []) == MET
    assert Since(met=1, aside=0, cuts=0).waits, "it was stopped before it put its journal aside"
    assert not Since(met=1, aside=1, cuts=0).waits
    assert outcome("a", Since(met=0, aside=0, cuts=1), PLACES) == UNSEEN
    assert outcome("a", Since(met=0, aside=0, cuts=1), []) == CUT
    assert outcome("a", Since(met=0, aside=0, cuts=0), []) == NOTHING
    assert outcome("a", Since(met=0, aside=0, cuts=0), [], damaged=True) == GONE
    assert outcome("a", Since(met=0, aside=0, cuts=1), [], damaged=True) == CUT
    with pytest.raises(ProcessError, match=r"a was filled anew, and its journal is damaged all the same: x\.segment"):
        outcome("a", Since(met=1, aside=1, cuts=0), PLACES)
    with pytest.raises(ProcessError, match="has not said that it has met damage"):
        outcome("a", Since(met=0, aside=1, cuts=0), [])
