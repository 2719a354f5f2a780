"""A flipped bit that nobody has met is found and healed before the next fault, and what is damaged at the end is said."""

from __future__ import annotations

from random import Random

import pytest

from tests.fault.machines.cluster import NODES, Node
from tests.fault.machines.faults import CLIENTS
from tests.fault.machines.flips import CUT, GONE, MET, NOTHING, UNSEEN, Since, outcome, verified
from tests.fault.machines.machines import Machines
from tests.fault.machines.options import Options
from tests.fault.machines.processes import ProcessError
from tests.fault.machines.rounds import Rounds

LOAD = Options(rate=300.0, longest_wait=0.2, batch=10)
EARLY = 48 + 28 + 10
"""An offset within the first record of a segment: behind the headers of both."""
PLACES = ["x.segment, offset 5: a record is lost"]


def flip_early(node: Node) -> str:
    """Flip a bit of the oldest record on a node's disk; the name of its file."""
    oldest = min(node.data.glob("0*.segment"))
    return node.machine.disk.flip_bit(oldest, EARLY, 3).path.name


@pytest.mark.usefixtures("namespaces_here", "etcd_here")
def test_a_flipped_bit_that_nobody_has_met_is_healed_and_one_that_is_left_is_said_at_the_end() -> None:
    with Machines([*NODES, CLIENTS]) as machines:
        rounds = Rounds(machines, "majority", LOAD, Random(7))
        running, killed = rounds.cluster.followers()
        assert rounds.flips.end() == "", "nothing was flipped yet"

        # Who runs does not read again what it has written.
        rounds.flips.begin(running)
        name = flip_early(running)
        said = rounds.flips.end()
        assert f"{running.name}: nobody had met the damage, it was stopped and filled anew: {name}, offset " in said
        assert running.met == 0

        # Who starts reads what no checkpoint has yet.
        rounds.cluster.kill(killed)
        rounds.flips.begin(killed)
        flip_early(killed)
        rounds.flips.look()
        rounds.cluster.start(killed.name)
        assert rounds.flips.end() == f"; {killed.name}: it has met the damage, and was filled anew"
        assert killed.met == 1
        assert rounds.flips.summary() == [f"flipped bits: 1 {MET}, 1 {UNSEEN}"]

        name = flip_early(running)
        found = rounds.end()
        assert found.clean, found.summary()
        [place] = rounds.damaged()
        assert place.startswith(f"{running.name}: {name}, offset ")
        (killed.data / "newest").write_bytes(b"")
        assert verified([killed]) == {killed.name: []}, "what the next start mends is no damage"
        for path in running.data.iterdir():
            if path.is_file():
                path.unlink()
        with pytest.raises(ProcessError, match="ended with 2, and named 0 damaged places"):
            verified([running])


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
