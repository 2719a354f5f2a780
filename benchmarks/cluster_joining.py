"""``cluster_joining``: what senders and the brokers' memory feel of it while an empty node is filled with a live backlog."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from actors import verify_storage
from benchmarks._cluster import NODES, ClusterProcesses, leading
from benchmarks._disk import data_folder, disk_bytes
from benchmarks._memory import MemoryWatch
from benchmarks._processes import BenchmarkError, Facts, Worker
from benchmarks._report import Figure, Report
from benchmarks._watching import Samples, rate_between
from transport import Administration
from transport.errors import BrokerError, TransportError

BACKLOG: Final = "backlog"
STEADY: Final = "steady"
STEADY_BYTES: Final = 256 * 2**20
"""Of the queue that the sender and its receiver work on: it waits where the receiver does not keep up."""
MB: Final = 1_000_000
SHARE_TARGET: Final = 0.7
"""Of the sender's rate before."""
FLAT_TARGET_MB: Final = 64.0
"""What a broker's memory may grow by while a transfer runs, whatever the backlog."""
INTERVAL: Final = 0.1
"""Seconds from one count to the next."""
SETTLING: Final = 3.0
"""Seconds that do not count behind what changes how the sender works."""
LEAST_BYTES_A_SECOND: Final = 2 * MB
"""A backlog is filled, joined or received no slower, or the run is over."""
SECONDS: Final = 120.0
"""For what does not depend on the backlog."""
LOOK_SECONDS: Final = 0.5
MOST_LEADS: Final = 12
"""Of the two that can lead one does, by chance: so often is it tried until it is the one that has joined."""
FOLLOWING_SECONDS: Final = 90.0
"""A node that is filled has so long to be in step while the sender goes on. It is in step behind that at the latest."""
GIVEN: Final = "and is given a transfer"
"""In the leader's log, once for each that begins with the first record."""
IN_PLACE: Final = "is in place: this node goes on at record"
"""In the log of a node that is filled."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Load:
    """What is stored, and what goes on meanwhile.

    Attributes:
        backlog: bytes of payloads that nobody receives.
        size: bytes of a payload.
        batch: messages of a batch.
        seconds: of each part that is measured, but for the transfer.
        options: of the brokers.
    """

    backlog: int
    size: int
    batch: int
    seconds: float
    options: tuple[str, ...] = ()

    @property
    def messages(self) -> int:
        """Of the backlog, whole batches."""
        return max(1, self.backlog // (self.size * self.batch)) * self.batch

    @property
    def timeout(self) -> float:
        """Seconds for anything that is done with the whole backlog."""
        return SECONDS + self.backlog / LEAST_BYTES_A_SECOND


def run(load: Load, data: Path | None) -> Report:
    """One long run: fill, measure with three, with two, while the third is filled, and with three again; then look at what it has."""
    with data_folder(data) as folder, ExitStack() as stack:
        nodes = stack.enter_context(ClusterProcesses(folder / "nodes", options=load.options))
        joiner = nodes.followers[0]
        watch = stack.enter_context(MemoryWatch())
        for name in nodes.followers:
            watch.process(name, nodes.pid_of(name))
        watch.process("leader", nodes.pid)
        filled = _fill(nodes, load)
        with Pair(nodes, load) as pair:
            parts = {"before": _for(load.seconds)}
            nodes.end(joiner)
            shutil.rmtree(nodes.directory(joiner))
            parts["with two"] = _for(load.seconds)
            given = nodes.said(nodes.leader).count(GIVEN)
            nodes.start(joiner)
            watch.process("joiner", nodes.pid_of(joiner))
            watch.folder("joined", nodes.directory(joiner))
            parts |= _join(nodes, joiner, load.timeout)
            under_load = bool(parts["coming in step"].pop("done"))
            given = nodes.said(nodes.leader).count(GIVEN) - given
            joined_bytes = disk_bytes(nodes.directory(joiner))
            parts["after"] = _for(load.seconds)
            sent = pair.stop()
            _until(f"{joiner} is in step", load.timeout, lambda: _counts(nodes, joiner))
        if not given:
            raise BenchmarkError("the node was sent the log, and not a transfer: run longer, or with smaller segments")
        facts: dict[str, Any] = {
            "filled": filled,
            "parts": parts,
            "transfers": given,
            "under_load": under_load,
            "joined_bytes": joined_bytes,
            "sent": sent,
            "memory": watch.samples,
        }
        figures = _figures(load, watch, facts)
        facts |= _look_at_joiner(nodes, joiner, load)
    figures.append(Figure("received of the backlog when the joiner led", facts["received"], "msg"))
    return Report(
        "cluster_joining",
        "three brokers as processes on one machine and one disk, each with its own journal (mode majority), and a backlog that nobody "
        "receives. A sender at full rate, whose messages are received as they come, is measured with all three; with two, when a "
        "follower is killed and its directory removed; while that node, empty, is moved in (penstock cluster move) and takes a transfer; "
        "and with three again. Memory is what the kernel says. At the end the node that has joined leads, gives the whole backlog to a "
        "receiver, and its directory is read through.",
        "the same sender before, with all three.",
        {
            "backlog_bytes": load.messages * load.size,
            "size": load.size,
            "batch": load.batch,
            "seconds": load.seconds,
            "options": " ".join(load.options),
        },
        figures,
        [facts],
    )


class Pair:
    """The steady sender and its receiver, from when it is entered until `stop`."""

    def __init__(self, nodes: ClusterProcesses, load: Load) -> None:
        self._nodes = nodes
        self._load = load
        self._stack = ExitStack()

    def __enter__(self) -> Pair:  # noqa: PYI034 - nobody derives from it
        with ExitStack() as stack:
            nodes, load = self._nodes, self._load
            common = {"queue": STEADY, "interval": INTERVAL, "uvloop": True}
            _ask(nodes.send_address, lambda each: each.create_queue(STEADY, max_bytes=STEADY_BYTES))
            self._receiver = stack.enter_context(
                Worker("_steady:receive_steadily", address=nodes.receive_address, **common)
            )
            self._sender = stack.enter_context(
                Worker("_steady:send_steadily", address=nodes.send_address, size=load.size, batch=load.batch, **common)
            )
            for each in (self._receiver, self._sender):
                each.hear()
                each.go()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def stop(self) -> Samples:
        """What was confirmed by when; the books agree.

        Raises:
            BenchmarkError: not everything that was confirmed has been received, or something twice.
        """
        self._sender.go()
        sent = self._sender.hear(SECONDS)
        _until(
            "everything that was sent is acknowledged",
            SECONDS,
            lambda: (
                _queue(self._nodes.send_address, STEADY)["total_acknowledged"] == sent["messages"]
                and _queue(self._nodes.send_address, STEADY)["ready"] == 0
            ),
        )
        self._receiver.go()
        received = self._receiver.hear(SECONDS)
        if received["messages"] != sent["messages"]:
            raise BenchmarkError(f"{sent['messages']} were confirmed, {received['messages']} received")
        samples: Samples = sent["samples"]
        return samples


def _fill(nodes: ClusterProcesses, load: Load) -> dict[str, float]:
    """The backlog; when it was begun and done."""
    _ask(nodes.send_address, lambda each: each.create_queue(BACKLOG))
    arguments = {"messages": load.messages, "size": load.size, "batch": load.batch, "batched": True, "uvloop": True}
    with Worker("_clients:send", address=nodes.send_address, queue=BACKLOG, **arguments) as sender:
        sender.hear()
        sender.go()
        sent = sender.hear(load.timeout)
    ready = _queue(nodes.send_address, BACKLOG)["ready"]
    if not ready == sent["messages"] == load.messages:
        raise BenchmarkError(f"{load.messages} were sent, {sent['messages']} confirmed, {ready} are in the queue")
    return {"begin": sent["started"], "end": sent["ended"]}


def _for(seconds: float) -> dict[str, float]:
    """A part of so long, behind what does not count."""
    time.sleep(SETTLING)
    begin = time.monotonic()
    time.sleep(seconds)
    return {"begin": begin, "end": time.monotonic()}


def _join(nodes: ClusterProcesses, name: str, timeout: float) -> dict[str, dict[str, float]]:
    """Have an empty node take the place of the member of its name.

    Returns:
        ``joining``, from when that is begun until what was transferred is in place, and ``coming in step``, from then until the node counts
        and is in step (``done`` is 1), or it is waited for no more while the sender goes on.

    Raises:
        BenchmarkError: the transfer is not in place in time.
    """

    async def moved(administration: Administration, deadline: float) -> Facts:
        while True:
            try:
                return await administration.move_member(name)
            except BrokerError as error:
                # It has just been started, and is not met yet.
                if time.monotonic() > deadline:
                    raise BenchmarkError(f"the node {name} cannot be moved: {error}") from error
            await asyncio.sleep(LOOK_SECONDS)

    async def join() -> dict[str, dict[str, float]]:
        async with Administration(nodes.send_address) as administration:
            began = await moved(administration, time.monotonic() + SECONDS)
            begin = time.monotonic()
            while IN_PLACE not in nodes.said(name):
                if time.monotonic() - begin > timeout:
                    raise BenchmarkError(f"the node {name} is not filled within {timeout:.0f} s")
                await asyncio.sleep(LOOK_SECONDS)
            placed = time.monotonic()
            parts = {"joining": {"begin": begin, "end": placed}}
            while time.monotonic() - placed < FOLLOWING_SECONDS:
                if _stands(await administration.cluster(), name, began["directory"]):
                    return parts | {"coming in step": {"begin": placed, "end": time.monotonic(), "done": 1.0}}
                await asyncio.sleep(LOOK_SECONDS)
        return parts | {"coming in step": {"begin": placed, "end": time.monotonic(), "done": 0.0}}

    return asyncio.run(join())


def _look_at_joiner(nodes: ClusterProcesses, joiner: str, load: Load) -> dict[str, Any]:
    """Read the files of the node that has joined through. Then have it lead, and give the backlog to a receiver.

    Raises:
        BenchmarkError: something is not there.
    """
    nodes.end(joiner, signal.SIGTERM)
    directory = nodes.directory(joiner)
    if damaged := [finding for finding in verify_storage(directory) if finding.fatal]:
        raise BenchmarkError(f"{directory} is damaged: {damaged[:3]}")
    nodes.start(joiner)
    _until(f"{joiner} is in step", load.timeout, lambda: _in_step(nodes, joiner))
    leader = nodes.leader
    for attempt in range(1, MOST_LEADS + 1):
        nodes.end(leader)
        successor = leading(nodes.send_addresses)
        ready = _queue(nodes.send_addresses, BACKLOG)["ready"]
        if ready != load.messages:
            raise BenchmarkError(f"{load.messages} messages are the backlog, and {successor} has {ready}")
        if successor == joiner:
            return {"attempts": attempt, **_receive(nodes, load)}
        nodes.start(leader)
        _until("all three are in step", load.timeout, lambda: _in_step(nodes, *NODES))
        leader = successor
    raise BenchmarkError(f"{joiner} has not come to lead in {MOST_LEADS} attempts")


def _receive(nodes: ClusterProcesses, load: Load) -> dict[str, Any]:
    """The whole backlog."""
    arguments = {"messages": load.messages, "max_in_flight": load.messages, "batched": True, "uvloop": True}
    with Worker("_clients:receive", address=nodes.receive_addresses, queue=BACKLOG, **arguments) as receiver:
        receiver.hear()
        began = time.monotonic()
        receiver.go()
        received = receiver.hear(load.timeout)
    nbytes = load.messages * load.size
    if (received["messages"], received["bytes"]) != (load.messages, nbytes):
        raise BenchmarkError(
            f"{load.messages} messages of {nbytes} bytes are the backlog, and received were {received}"
        )
    return {"received": received["messages"], "received_s": received["ended"] - began}


# What is asked of the brokers


def _ask(addresses: str, call: Callable[[Administration], Coroutine[Any, Any, T]]) -> T:
    async def ask() -> T:
        async with Administration(addresses, connect_timeout=SECONDS) as administration:
            return await call(administration)

    return asyncio.run(ask())


def _queue(addresses: str, name: str) -> Facts:
    return _ask(addresses, lambda each: each.queue(name))


def _member(facts: Facts, name: str) -> Facts:
    found: Facts = next(each for each in facts["members"] if each["name"] == name)
    return found


def _stands(facts: Facts, name: str, directory: str) -> bool:
    """Whether a node lives there, counts, and is in step."""
    member = _member(facts, name)
    return member["directory"] == directory and facts["change"] is None and bool(member["in_step"])


def _counts(nodes: ClusterProcesses, name: str) -> bool:
    facts = _ask(nodes.send_addresses, lambda each: each.cluster())
    return facts["change"] is None and bool(_member(facts, name)["in_step"])


def _in_step(nodes: ClusterProcesses, *names: str) -> bool:
    facts = _ask(nodes.send_addresses, lambda each: each.cluster())
    return all(_member(facts, name)["in_step"] for name in names)


def _until(what: str, seconds: float, holds: Callable[[], bool]) -> None:
    """Look until it holds; while nobody leads nobody can be asked.

    Raises:
        BenchmarkError: it does not in time.
    """
    deadline = time.monotonic() + seconds
    last = "it is not so"
    while time.monotonic() < deadline:
        try:
            if holds():
                return
        except TransportError as error:
            last = str(error)
        time.sleep(LOOK_SECONDS)
    raise BenchmarkError(f"not within {seconds:.0f} s: {what}; {last}")


# What comes of it


def _figures(load: Load, watch: MemoryWatch, facts: dict[str, Any]) -> list[Figure]:
    parts, sent = facts["parts"], facts["sent"]
    nbytes = load.messages * load.size
    rates = {name: rate_between(sent, part["begin"], part["end"]) * load.size / MB for name, part in parts.items()}
    joining, filled = parts["joining"], facts["filled"]
    seconds = joining["end"] - joining["begin"]
    following = parts["coming in step"]
    followed = following["end"]
    leader, leader_growth = watch.growth("leader", joining["begin"], followed)
    joiner, joiner_growth = watch.growth("joiner", joining["begin"], followed)
    empty, fill_growth = watch.growth("leader", filled["begin"], filled["end"])
    return [
        Figure("backlog", nbytes / MB, "MB"),
        Figure("filled", nbytes / MB / (filled["end"] - filled["begin"]), "MB/s"),
        Figure("leader's memory, empty", empty / MB, "MB"),
        Figure("its growth while the backlog was sent", fill_growth / MB, "MB"),
        Figure("sender, before, with three", rates["before"], "MB/s"),
        Figure("sender, with two", rates["with two"], "MB/s"),
        Figure("sender, while the third is filled", rates["joining"], "MB/s"),
        Figure("sender, while the third comes in step", rates["coming in step"], "MB/s"),
        Figure("sender, with three again", rates["after"], "MB/s"),
        Figure("share of before", rates["joining"] / rates["before"], "", SHARE_TARGET),
        Figure("share of with two", rates["joining"] / rates["with two"], ""),
        Figure("share of before, coming in step", rates["coming in step"] / rates["before"], "", SHARE_TARGET),
        Figure("share of with two, coming in step", rates["coming in step"] / rates["with two"], ""),
        Figure("longest time without a confirmation, before", _longest(sent, parts["before"]), "s"),
        Figure("longest time without a confirmation, filling", _longest(sent, joining), "s"),
        Figure("longest time without a confirmation, coming in step", _longest(sent, following), "s"),
        Figure("from the command until all is in place", seconds, "s"),
        Figure("backlog a second", nbytes / MB / seconds, "MB/s"),
        Figure("transfers from the first record on", facts["transfers"], "", 1, "less"),
        Figure("in step while the sender goes on (1: yes)", float(facts["under_load"]), "", 1),
        Figure("from there until it is in step, or given up", following["end"] - following["begin"], "s"),
        Figure("leader's memory when it begins", leader / MB, "MB"),
        Figure("its growth, at most", leader_growth / MB, "MB", FLAT_TARGET_MB, "less"),
        Figure("joiner's memory when it begins", joiner / MB, "MB"),
        Figure("its growth, at most (joiner)", joiner_growth / MB, "MB", FLAT_TARGET_MB, "less"),
    ]


def _longest(sent: Samples, part: dict[str, float]) -> float:
    """The longest stretch of a part in which nothing was confirmed, to the interval of the counts."""
    news = [later[0] for earlier, later in pairwise(sent) if later[1] > earlier[1]]
    times = [part["begin"], *(when for when in news if part["begin"] <= when <= part["end"]), part["end"]]
    return max(later - earlier for earlier, later in pairwise(times))
