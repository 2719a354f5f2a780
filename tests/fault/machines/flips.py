"""What has become of a flipped bit: its node has met it, or nobody has, and then it is healed before the next fault.

Neither a start nor a load reads all that is stored, so a bit in an old segment may stay unseen. A cluster of three bears one damaged disk
(docs/cluster-damage.md): a fault that comes upon a disk which is damaged still makes two. So behind each flip the node is stopped, and
`penstock journal verify` reads everything. What it finds is put aside as the node itself does it, and the node is filled anew.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from journal import OsFiles, set_aside
from tests.fault.machines.cluster import Cluster, Node
from tests.fault.machines.processes import Process, ProcessError

STOP_SECONDS: Final = 60.0
VERIFY_SECONDS: Final = 120.0
"""For a journal to be read whole."""
PLACE: Final = re.compile(r"(?:.*/)?([^/]+):(\d+): damaged: (.*)")
"""A line of `penstock journal verify`; what it calls a note is no damage: the next start mends that."""
WHOLE, DAMAGED = 0, 1
"""Exit codes of `penstock journal verify`."""
ASIDE: Final = re.compile(r"damaged-\d+")
"""The folder of a journal that was put aside whole, in a node's directory."""

MET: Final = "met by its node"
UNSEEN: Final = "found by verify alone"
CUT: Final = "cut off with a write"
GONE: Final = "gone with what was given back"
NOTHING: Final = "no damage"
OUTCOMES: Final = (MET, UNSEEN, CUT, GONE, NOTHING)


class Since(NamedTuple):
    """What a node has said and done since a bit of its disk was flipped.

    Attributes:
        met: how often it has said that it has met damage.
        aside: how many journals it has put aside.
        cuts: how often it has said that it has cut a write off the end of its log, or had at its last start.
    """

    met: int
    aside: int
    cuts: int

    @property
    def waits(self) -> bool:
        """Whether it has met damage, and was stopped before it put its journal aside."""
        return self.met > self.aside


def outcome(name: str, since: Since, places: Sequence[str], *, damaged: bool = False) -> str:
    """What has become of a flipped bit: one of `OUTCOMES`.

    Args:
        name: of the node.
        since: what it has said and done by now.
        places: what is damaged on its disk still.
        damaged: whether anything was, at once.

    Raises:
        ProcessError: it was filled anew, and what it was filled with is damaged; or it has not said why it was.
    """
    if since.aside > since.met:
        raise ProcessError(f"{name} has put its journal aside, and has not said that it has met damage")
    if places and since.aside:
        raise ProcessError(f"{name} was filled anew, and its journal is damaged all the same: {'; '.join(places)}")
    if since.met:
        return MET
    if places:
        return UNSEEN
    if since.cuts:
        return CUT
    return GONE if damaged else NOTHING


def verified(nodes: Iterable[Node]) -> dict[str, list[str]]:
    """The damaged places on the disk of each node, by its name; the nodes do not run.

    Raises:
        ProcessError: `penstock journal verify` could not read one.
    """
    running = {
        node.name: node.machine.python("transport.cli", "journal", "verify", node.data, name="verify") for node in nodes
    }
    return {name: _places(process) for name, process in running.items()}


def left_damaged(cluster: Cluster) -> list[str]:
    """What is damaged on the disks of a cluster's nodes, by node: all were in step, and each is killed, and its journal read whole.

    Raises:
        ProcessError: a journal cannot be read at all.
    """
    for node in cluster.nodes.values():
        cluster.kill(node)
    return [f"{name}: {place}" for name, places in verified(cluster.nodes.values()).items() for place in places]


def _places(process: Process) -> list[str]:
    code = process.wait_end(VERIFY_SECONDS)
    found = [f"{place[1]}, offset {place[2]}: {place[3]}" for line in process.said if (place := PLACE.fullmatch(line))]
    if code != (DAMAGED if found else WHOLE):
        raise process.failed(f"ended with {code}, and named {len(found)} damaged places")
    return found


class Flips:
    """The bits that are flipped on the disks of a cluster, one at a time.

    Args:
        cluster: the cluster, whose nodes have ``--auto-heal``.
        wait_in_step: waits until every member counts, and has everything.
    """

    def __init__(self, cluster: Cluster, wait_in_step: Callable[[], None]) -> None:
        self._cluster = cluster
        self._wait_in_step = wait_in_step
        self._node: Node | None = None
        self._before = Since(0, 0, 0)
        self._damaged = False
        self._met: dict[str, int] = {}
        self._outcomes: Counter[str] = Counter()

    def begin(self, node: Node) -> None:
        """A bit of a node's disk is about to be flipped."""
        self._node, self._damaged = node, False
        self._before = _state(node)
        self._met = {each.name: each.met for each in self._cluster.nodes.values()}

    def look(self) -> None:
        """See whether the bit is damage at all, before its node starts: it may be one that nothing is stored in."""
        assert self._node is not None
        self._damaged = bool(verified([self._node])[self._node.name])

    def end(self) -> str:
        """See what has become of the bit, and have the node filled anew where it is damaged still; a line's end for people.

        Every member runs. All of them are in step when this returns. "" where no bit was flipped since the last time.

        Raises:
            ProcessError: a node was filled with what is damaged; or one has met damage on whose disk nothing was flipped.
        """
        node, self._node = self._node, None
        if node is None:
            return ""
        self._wait_in_step()  # so the others have all that it has, and what it had alone is cut off and counted
        self._cluster.stop_node(node, STOP_SECONDS)
        now = _state(node)
        since = Since(*(after - before for after, before in zip(now, self._before, strict=True)))
        places = [] if since.waits else verified([node])[node.name]
        found = outcome(node.name, since, places, damaged=self._damaged)
        self._outcomes[found] += 1
        if places or since.waits:
            # As the node does it when it meets damage: it is filled anew by itself when it comes back.
            set_aside(OsFiles(), node.data, lambda _: None)
        self._cluster.start(node.name)
        self._wait_in_step()
        for other in self._cluster.nodes.values():
            if other is not node and other.met > self._met[other.name]:
                raise ProcessError(f"{other.name} has met damage, and the flipped bit is on the disk of {node.name}")
        return f"; {node.name}: {_text(found, since, places)}"

    def summary(self) -> list[str]:
        """A line that says what has become of all; none where no bit was flipped."""
        counts = [f"{count} {what}" for what in OUTCOMES if (count := self._outcomes[what])]
        return [f"flipped bits: {', '.join(counts)}"] if counts else []


def _state(node: Node) -> Since:
    """Of the whole run so far."""
    return Since(node.met, sum(ASIDE.fullmatch(path.name) is not None for path in node.data.iterdir()), node.cuts)


def _text(found: str, since: Since, places: Sequence[str]) -> str:
    if found == MET:
        return "it has met the damage, and was filled anew"
    if found == UNSEEN:
        return f"nobody had met the damage, it was stopped and filled anew: {'; '.join(places)}"
    if found == CUT:
        return "it has cut a write off the end of its log, and nothing is damaged"
    if found == GONE:
        return "nobody has met the damage, and what was damaged has been given back since"
    return "the bit is no damage: nothing is stored there, or a start makes it again"
