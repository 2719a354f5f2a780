"""What a leader was sent that is cut off and replaced: it is nowhere afterwards, if it was never confirmed and nobody sends it again.

A client of that leader alone sends into the cut and dies there. When all is mended its queue is drained, and the bytes of the nodes' files
are searched for its messages: only the copies of what was cut off (``diverged-...``) may have them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.fault.machines.brokers import PlainBroker
from tests.fault.machines.cluster import Cluster, Node
from tests.fault.machines.load import Load
from tests.fault.machines.machines import Machine
from tests.fault.machines.options import Options
from tests.fault.machines.processes import ProcessError
from tests.fault.machines.records import RECEIVED, SENT, Confirmed, Delivered, Handed, Marked, payload_of, read_log

SIZE: Final = 1_000
"""Bytes of a message, and one more for each tail before it: no other load has messages of that size, so they are found by it."""
RATE: Final = 200.0
KNOWN: Final = 20
"""Messages that are confirmed before the cut."""
TAIL: Final = 20
"""Messages that are sent into the cut, at least."""
DIVERGED: Final = "diverged-"
"""How the names of files begin that keep what was cut off a log."""
SECONDS: Final = 60.0


class Tail:
    """A client that is on the smaller side of a cut, with the leader.

    Args:
        machine: the clients'.
        folder: for its logs; it is made.
        cluster: the whole.
        leader: the only node that it knows.
        number: of tails before it, and one.
    """

    def __init__(self, machine: Machine, folder: Path, cluster: Cluster, leader: Node, number: int) -> None:
        options = Options(queue=f"tail-{number}", senders=1, batch=1, size=SIZE + number, rate=RATE, longest_wait=0.2)
        self._machine = machine
        self._cluster = cluster
        self._leader = leader
        self._load = Load(machine, folder, [leader.send], cluster.receive, options)
        self._load.start_senders()
        self._load.wait_confirmed(KNOWN, SECONDS)
        self._cut: Marked | None = None

    def send_and_die(self) -> None:
        """The leader has just been cut off: send more, and be killed."""
        self._cut = self._load.mark("cut off")
        self._load.wait_taken(TAIL, SECONDS)
        self._load.kill()

    def look(self, *, gone: bool) -> int | None:
        """Drain the queue, and see that what was confirmed has come, and what was sent into the cut has not, if that is ``gone``.

        All is mended, and every node in step.

        Args:
            gone: whether another node led before the cut was mended.

        Returns:
            how many of those messages the former leader has kept; None where they are not gone. Where this program stood still for so
            long that the leader had stepped down before anything was sent, there are none.

        Raises:
            ProcessError: it is not so.
        """
        assert self._cut is not None
        size, queue = self._load.options.size, self._load.options.queue
        self._load.start_receivers()
        self._load.drain(lambda: PlainBroker(self._cluster.wait_whole(SECONDS).machine).left(self._machine, queue))
        found = self._load.judge()
        if not found.clean:
            raise ProcessError(f"{queue}, sent before a cut and into it:\n{found.summary()}")
        sent, confirmed, delivered = into(self._load.folder, self._cut.time)
        if not gone:
            print(
                f"{queue}: of {len(sent)} messages sent into a cut {len(delivered)} came; nobody led in the cut",
                flush=True,
            )
            return None
        if confirmed or delivered:
            raise ProcessError(
                f"{queue}: of a tail that is cut off {len(confirmed)} were confirmed, {len(delivered)} came"
            )
        files = {node.name: holding(node.machine.disk.path, size, sent) for node in self._cluster.nodes.values()}
        wrong = [str(path) for each in files.values() for path in each if not path.name.startswith(DIVERGED)]
        if wrong:
            raise ProcessError(f"{queue}: what was cut off is still in {', '.join(wrong)}")
        kept = set().union(*files[self._leader.name].values())
        print(
            f"{queue}: {len(sent)} messages sent into a cut came nowhere; {len(kept)} are kept as cut off", flush=True
        )
        return len(kept)


def into(folder: Path, cut: int) -> tuple[set[int], set[int], set[int]]:
    """The messages that a load's only producer has taken after a time: all, those that were confirmed, those that were delivered."""
    sent: set[int] = set()
    confirmed: set[int] = set()
    delivered: set[int] = set()
    for event in (*read_log(folder / SENT.format(0)), *read_log(folder / RECEIVED.format(0))):
        if isinstance(event, Handed) and event.time > cut:
            sent.update(range(event.first, event.first + event.messages))
        elif isinstance(event, Confirmed):
            confirmed.update(range(event.first, event.first + event.messages))
        elif isinstance(event, Delivered):
            delivered.update(range(event.first, event.first + event.messages))
    return sent, confirmed & sent, delivered & sent


def holding(folder: Path, size: int, numbers: set[int]) -> dict[Path, set[int]]:
    """The files below a folder that hold messages of producer 0 with this size, and the numbers of those, of ``numbers``."""
    found: dict[Path, set[int]] = {}
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        with suppress(FileNotFoundError):  # a node may give it back meanwhile; mapped, it would end this process
            if held := numbers.intersection(_numbers_in(path.read_bytes(), size)):
                found[path] = held
    return found


def _numbers_in(content: bytes, size: int) -> Iterator[int]:
    """The numbers of the messages of this size, whose bytes are all there."""
    behind = b":%d:" % size
    place = content.find(behind)
    while place >= 0:
        begin = content.rfind(b"0:", max(place - len(behind) - 20, 0), place)
        number = content[begin + 2 : place]
        if begin >= 0 and number.isdigit() and content[begin : begin + size] == payload_of(0, int(number), size):
            yield int(number)
        place = content.find(behind, place + 1)
