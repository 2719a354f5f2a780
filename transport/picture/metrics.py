"""What Prometheus asks for: the totals of a broker, and the figures of each of its queues and exchanges, as text.

Everything is told as it stands when somebody asks. From one question to the next the rows of queues are kept, and the text of those that
have not changed; behind the last for a while. Nothing runs in between but a timer that measures the loop. Reading and writing go in slices.
"""

from __future__ import annotations

import asyncio
import platform
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from actors.queue.operations.counting import RECOVERED
from transport.errors import RemoteProtocolError
from transport.picture import families, process
from transport.picture.exposition import Exposition, Family, Label, Value
from transport.picture.loop_delay import LoopDelay
from transport.picture.pressure import Kind
from transport.picture.queue_texts import BLOCK, Texts, kind_label
from transport.picture.rows import COUNTED, Rows
from transport.picture.slices import Slices

if TYPE_CHECKING:
    from actors import QueueDirectory
    from transport.picture.queue_texts import Block

T = TypeVar("T")

DEFAULT_QUEUES: Final = 1_000
MOST_QUEUES: Final = 10_000
"""Queues, or exchanges, of one answer."""
MOST_FILTER: Final = 255
"""Characters of a filter, as many as a name may have."""
AT_ONCE: Final = 2
"""Answers that are being made at a time; others wait for their turn, and have nothing in memory meanwhile."""
BLOCKS: Final = 8
"""Blocks of lines that are put together before the time is looked at, some hundredths of a millisecond or so;"""
NAMES: Final = 500
"""and names, or connections, that are looked through."""
TEXT_BYTES: Final = 64 * 1024
"""Of a piece of an answer."""
HELD_BACK: Final = tuple(kind for kind in Kind if kind not in (Kind.IDLE, Kind.FLOWING))
DEFAULT_EXCHANGE_LABEL: Final = "amq.default"
"""The default exchange, whose name is empty: an empty label is none."""
UNKNOWN: Final = "unknown"
"""The role of a connection that has not said what it is for."""


class Traffic(Protocol):
    """The connections of a broker.

    Attributes:
        standing: those there are.
        numbers: how many there ever were.
        most: how many there may be.
        bytes_gone: by listener, bytes in and out of connections that are over.
    """

    numbers: int
    most: int
    bytes_gone: dict[str, tuple[int, int]]

    @property
    def standing(self) -> Mapping[int, Any]:
        """As above."""


class Standing(Protocol):
    """A node of a cluster."""

    def standing(self) -> dict[str, Any]:
        """How the cluster stands, as this node sees it."""


@dataclass(frozen=True, slots=True)
class AskedQueues:
    """Which queues, or exchanges, somebody wants the figures of.

    Attributes:
        contains: those whose name has this in it.
        after: those whose name comes behind this one.
        limit: so many at most.

    Raises:
        RemoteProtocolError: a value that cannot be.
    """

    contains: str = ""
    after: str = ""
    limit: int = DEFAULT_QUEUES

    def __post_init__(self) -> None:
        if not 1 <= self.limit <= MOST_QUEUES:
            raise RemoteProtocolError(f"limit is {self.limit}; an answer has 1 to {MOST_QUEUES} of them")
        for name in ("contains", "after"):
            if len(getattr(self, name)) > MOST_FILTER:
                raise RemoteProtocolError(
                    f"{name} has {len(getattr(self, name))} characters, {MOST_FILTER} are the most"
                )


class Page(NamedTuple):
    """An answer.

    Attributes:
        pieces: its text, in UTF-8.
        content_type: of it.
        following: what to ask for behind this page; None where it was the last.
    """

    pieces: list[bytes]
    content_type: str
    following: str | None = None


class _Pieces:
    """Text on its way to bytes, piece by piece; ``held`` is told of the size of each, and may refuse it."""

    def __init__(self, held: Callable[[int], None]) -> None:
        self.done: list[bytes] = []
        self._held = held
        self._text: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        self._text.append(text)
        self._size += len(text)
        if self._size >= TEXT_BYTES:
            self.cut()

    def cut(self) -> None:
        piece = "".join(self._text).encode()
        self._held(len(piece))
        if piece:
            self.done.append(piece)
        self._text, self._size = [], 0


class Metrics:
    """The figures of one broker, as text.

    Args:
        queues: all of them.
        traffic: its connections.
        describe: what ``stats`` says of the broker itself.

    Attributes:
        loop_delay: measures the loop while somebody asks.
        cluster: the node that the broker is a part of; None of one that is alone.
    """

    cluster: Standing | None = None

    def __init__(self, queues: QueueDirectory, traffic: Traffic, describe: Callable[[], dict[str, Any]]) -> None:
        self._queues = queues
        self._traffic = traffic
        self._describe = describe
        self.loop_delay = LoopDelay()
        self._texts = Texts()
        self._rows = Rows(queues, self._texts.clear)
        self._started_at = time.time()
        self._made = asyncio.Semaphore(AT_ONCE)

    def end(self) -> None:
        """The broker stops."""
        self.loop_delay.end()
        self._rows.end()

    async def totals(self, held: Callable[[int], None], *, openmetrics: bool = False) -> Page:
        """Everything that is not of one queue; ``held`` is told of each piece's size in memory, and may refuse it by an error."""
        async with self._made:
            self.loop_delay.asked(asyncio.get_running_loop())
            text, pieces, slices = Exposition(openmetrics=openmetrics), _Pieces(held), Slices()
            await self._of_queues(text, pieces, slices)
            self._of_exchanges(text, pieces)
            self._of_schedules(text, pieces)
            await slices.pause()
            await self._of_connections(text, pieces, slices)
            self._of_time(text, pieces)
            if self.cluster is not None:
                _of_cluster(self.cluster.standing(), text, pieces)
            await self._of_broker(text, pieces, slices)
            pieces.add(text.end)
            pieces.cut()
            return Page(pieces.done, text.content_type)

    async def each_queue(self, asked: AskedQueues, held: Callable[[int], None], *, openmetrics: bool = False) -> Page:
        """The figures of each queue that is asked for, by name; ``held`` as of `totals`."""
        async with self._made:
            text, pieces, slices = Exposition(openmetrics=openmetrics), _Pieces(held), Slices()
            await self._rows.bring_up(slices)
            found, more = await _chosen(self._rows.names, asked, slices)
            blocks: list[Block] = []
            for names in _parts(found, BLOCK):
                blocks.append(self._texts.of(names, self._rows.rows))
                await slices.pause()
            for index, family in enumerate(families.OF_A_QUEUE[:-1]):
                pieces.add(text.head(family))
                for some in _parts(blocks, BLOCKS):
                    pieces.add("".join([block.texts[index] for block in some]))
                    await slices.pause()
            pieces.add(text.head(families.OLDEST))
            for block in blocks:
                pieces.add(await block.oldest(slices))
                await slices.pause()
            pieces.add(text.head(families.QUEUE_HELD_BACK))
            for some in _parts(blocks, BLOCKS):
                pieces.add("".join([block.held_back for block in some]))
                await slices.pause()
            pieces.add(text.head(families.QUEUE_NEXT_DUE))
            for block in blocks:
                pieces.add(block.next_due())
                await slices.pause()
            pieces.add(text.end)
            pieces.cut()
            return Page(pieces.done, text.content_type, found[-1] if more else None)

    async def each_exchange(
        self, asked: AskedQueues, held: Callable[[int], None], *, openmetrics: bool = False
    ) -> Page:
        """The figures of each exchange that is asked for, by name; ``held`` as of `totals`."""
        async with self._made:
            text, pieces, slices = Exposition(openmetrics=openmetrics), _Pieces(held), Slices()
            await slices.begin()
            directory = self._queues.exchanges
            bindings, counts = directory.exchanges.binding_count_from, directory.publishing.counts.read
            waiting = directory.waiting.at
            names = sorted(each.name or DEFAULT_EXCHANGE_LABEL for each in directory.exchanges)
            found, more = await _chosen(names, asked, slices)
            samples: list[list[tuple[Sequence[Label], Value]]] = [[] for _ in families.OF_AN_EXCHANGE]
            for part in _parts(found, BLOCKS):
                for shown in part:
                    name = "" if shown == DEFAULT_EXCHANGE_LABEL else shown
                    count, label = counts(name), (("exchange", shown),)
                    figures = bindings(name), waiting(name), *(getattr(count, each) for each in families.PUBLISHED)
                    for column, figure in zip(samples, figures, strict=True):
                        column.append((label, figure))
                await slices.pause()
            for family, column in zip(families.OF_AN_EXCHANGE, samples, strict=True):
                pieces.add(text.head(family))
                for some in _parts(column, NAMES):
                    pieces.add(text.samples(family, some))
                    await slices.pause()
            pieces.add(text.end)
            pieces.cut()
            return Page(pieces.done, text.content_type, found[-1] if more else None)

    # Inside

    def _of_exchanges(self, text: Exposition, pieces: _Pieces) -> None:
        directory = self._queues.exchanges
        there, count = directory.exchanges.statistics(), directory.publishing.counts.total()
        pieces.add(text.single(families.EXCHANGES, there.exchanges))
        pieces.add(text.single(families.BINDINGS, there.bindings))
        pieces.add(text.single(families.WAITING, directory.waiting.all_messages()))
        for name, family in zip(families.PUBLISHED, families.PUBLISHED_TOTALS, strict=True):
            pieces.add(text.single(family, getattr(count, name)))

    def _of_schedules(self, text: Exposition, pieces: _Pieces) -> None:
        schedules = self._queues.schedules
        pieces.add(text.single(families.SCHEDULES, len(schedules)))
        pieces.add(text.single(families.SCHEDULES_WAITING, schedules.waiting))
        for name, family in zip(families.SCHEDULED, families.SCHEDULED_TOTALS, strict=True):
            pieces.add(text.single(family, getattr(schedules.counts, name)))

    async def _of_queues(self, text: Exposition, pieces: _Pieces, slices: Slices) -> None:
        await self._rows.bring_up(slices)
        # In the same turn of the loop, all of it.
        rows, count = self._rows, self._queues.count()
        counted = [gone + there for gone, there in zip(count.gone, rows.sums, strict=False)]
        sums, kinds, failed = rows.sums[COUNTED:], rows.kinds.copy(), rows.failed
        for family, total in zip(families.TOTALS, counted, strict=True):
            pieces.add(text.single(family, total))
        recovered = zip(RECOVERED, count.recovered, strict=False)
        pieces.add(text.family(families.RECOVERED, [((("counter", name),), had) for name, had in recovered]))
        for family, total in zip(families.SUMS, sums, strict=True):
            pieces.add(text.single(family, total))
        pieces.add(text.single(families.QUEUES, len(self._queues)))
        pieces.add(text.single(families.QUEUES_FAILED, failed))
        pieces.add(text.family(families.QUEUES_HELD_BACK, [((kind_label(kind),), kinds[kind]) for kind in HELD_BACK]))
        await slices.pause()

    async def _of_connections(self, text: Exposition, pieces: _Pieces, slices: Slices) -> None:
        traffic = self._traffic
        # In one instant: one that ends meanwhile still has its bytes, and is not yet among those that are over.
        gone = dict(traffic.bytes_gone)
        there = [(each.listener, each.role, each.connection) for each in traffic.standing.values()]
        await slices.pause()
        roles: Counter[tuple[str, str]] = Counter()
        for part in _parts(there, NAMES):
            for listener, role, shell in part:
                roles[listener, role or UNKNOWN] += 1
                if shell is not None:
                    before = gone.get(listener, (0, 0))
                    gone[listener] = before[0] + shell.bytes_in, before[1] + shell.bytes_out
            await slices.pause()
        by_role = [
            ((("listener", listener), ("role", role)), found) for (listener, role), found in sorted(roles.items())
        ]
        pieces.add(text.family(families.CONNECTIONS, by_role))
        pieces.add(text.single(families.CONNECTIONS_LIMIT, traffic.most))
        pieces.add(text.single(families.ACCEPTED, traffic.numbers))
        for index, family in enumerate((families.BYTES_RECEIVED, families.BYTES_SENT)):
            pieces.add(text.family(family, [((("listener", name),), gone[name][index]) for name in sorted(gone)]))

    def _of_time(self, text: Exposition, pieces: _Pieces) -> None:
        measures, journal = self._queues.measures, self._queues.storage_measures()
        pieces.add(text.histogram(families.CONFIRMATION, measures.confirmation))
        pieces.add(text.histogram(families.LAG, measures.lag))
        pieces.add(text.histogram(families.LOOP_DELAY, self.loop_delay.delays))
        if journal is not None:
            pieces.add(text.histogram(families.SYNC, journal.sync_seconds))
            pieces.add(text.histogram(families.WRITE, journal.write_bytes))

    async def _of_broker(self, text: Exposition, pieces: _Pieces, slices: Slices) -> None:
        facts, storage = self._describe(), self._queues.storage_statistics()
        for name, family in families.JOURNAL.items() if storage is not None else ():
            assert storage is not None, "there is a journal"
            pieces.add(text.single(family, storage[name]))
        build: Sequence[Label] = [
            ("version", str(facts["version"])),
            ("python", platform.python_version()),
            ("loop", type(asyncio.get_running_loop()).__module__.partition(".")[0]),
            ("storage", "memory" if storage is None else "journal"),
        ]
        paused = facts["paused"] or (storage or {}).get("paused")
        singles: list[tuple[Family, Value | None]] = [
            (families.STARTED, round(self._started_at, 3)),
            (families.PAUSED, int(paused is not None)),
            (families.PRESSURE, int(facts["memory_pressure"])),
            (families.WATERMARK, facts["memory_watermark_bytes"]),
            (families.RESIDENT, facts["rss_bytes"]),
            (families.CPU, time.process_time()),
            (families.OPEN_FILES, await process.open_files(slices)),
            (families.MOST_FILES, process.most_files()),
            (families.PROCESS_STARTED, round(process.started_at(), 2)),
        ]
        pieces.add(text.family(families.BUILD, [(build, 1)]))
        for family, value in singles:
            if value is not None:
                pieces.add(text.single(family, value))


def _of_cluster(facts: Mapping[str, Any], text: Exposition, pieces: _Pieces) -> None:
    """What a node knows of its cluster. What it does not know is left out."""
    members = facts["members"]
    own = next((each["role"] for each in members if each["name"] == facts["node"]), facts["role"])
    pieces.add(text.family(families.CLUSTER_ROLE, [((("role", role),), int(role == own)) for role in families.ROLES]))
    for name, family in families.CLUSTER.items():
        if (value := facts[name]) is not None:
            pieces.add(text.single(family, value if isinstance(value, float) else int(value)))
    pieces.add(text.single(families.CLUSTER_REGISTER, int(facts["register"] == "answers")))
    full = any(each["name"] == facts["node"] and each["full"] is not None for each in members)
    pieces.add(text.single(families.CLUSTER_FULL, int(full)))
    pieces.add(text.single(families.CLUSTER_MEMBERS, len(members)))
    for name, family in families.OF_A_MEMBER.items():
        known = [((("member", each["name"]),), each[name]) for each in members if each[name] is not None]
        if known:
            pieces.add(
                text.family(
                    family, [(label, int(value) if value in (True, False) else value) for label, value in known]
                )
            )


async def _chosen(names: Sequence[str], asked: AskedQueues, slices: Slices) -> tuple[Sequence[str], bool]:
    """The first queues by name that are asked for, and whether there are more."""
    begin = bisect_right(names, asked.after)
    if not asked.contains:
        found = list(names[begin : begin + asked.limit + 1])
    else:
        found = []
        for part in _parts(names[begin:], NAMES):
            found += [name for name in part if asked.contains in name]
            if len(found) > asked.limit:
                break
            await slices.pause()
    return found[: asked.limit], len(found) > asked.limit


def _parts(items: Iterable[T], size: int) -> Iterator[Sequence[T]]:
    left = iter(items)
    while part := list(islice(left, size)):
        yield part
