"""How far a queue is in moving what waits in its calendar: volatile, for a start begins with what has not moved."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue.state.log import QueueLog
    from actors.queue.structures.deadlines import Due
    from actors.queue.vocabulary.published import Published


class Run(NamedTuple):
    """Consecutive messages of a stored batch with the same times: positions ``start`` <= n < ``stop`` of the slot's stream.

    ``first`` is the position of the batch's first message; ``end_us`` is until when they are of use, None for without end.
    """

    due_us: int
    start: int
    stop: int
    first: int
    batch: MessageBatch
    level: int
    end_us: int | None
    published: Published | None


class Group(NamedTuple):
    """What moves together, by one record.

    Attributes:
        width: that of the slot that it moves to; less than 0 where it moves into the queue.
        slot: which of these slots that is.
        runs: what it is of, by when it is due.
    """

    width: int
    slot: int
    runs: list[Run]


class Feeder:
    """See ``operations.calendar``. It is among the heaps of what is due at a time, of a queue whose calendar holds something.

    Attributes:
        at: when there is something to do; None for never.
        stream: the stream of the slot of which a piece is read, or was last.
        position: how far it is read, of what is below ``stop``.
        reading: whether a piece is begun, and not sorted into groups.
        opened_us: the time of day at which it was begun.
        runs: what was read of it and has not moved; ``messages`` and ``bytes`` are how much that is.
        sorted: whether that is a whole piece, by when it is due, of which ``grouped`` runs are in groups.
        forming: the groups of it, the first first; ``filled`` has the one of each kind that is being filled, with its messages and bytes.
        groups: those of a whole piece that have not moved, the first last.
        came: the identities of what was just accepted and waits in the calendar.
    """

    __slots__ = (
        "at",
        "bytes",
        "came",
        "filled",
        "forming",
        "grouped",
        "groups",
        "messages",
        "opened_us",
        "position",
        "reading",
        "runs",
        "sorted",
        "stop",
        "stream",
    )

    def __init__(self) -> None:
        self.at: float | None = None
        self.came: set[int] = set()
        self.stream = 0
        self.reading = False
        self.position = self.stop = self.opened_us = 0
        self.groups: list[Group] = []
        self.begin_piece()

    def begin_piece(self) -> None:
        """Nothing of another piece is read."""
        self.sorted = False
        self.messages = self.bytes = self.grouped = 0
        self.runs: list[Run] = []
        self.forming: list[Group] = []
        self.filled: dict[tuple[object, ...], tuple[list[Run], int, int]] = {}

    def clear(self) -> None:
        """Begin anew."""
        self.at = None
        self.reading = False
        self.position = self.stop = 0
        self.groups = []
        self.begin_piece()

    @property
    def live(self) -> int:
        """See ``Due``."""
        return self.at is not None

    def earliest(self) -> float | None:
        """See ``Due``."""
        return self.at


class Fed(Protocol):
    """What it has to do with of a queue: see ``QueueCore``."""

    feeder: Feeder | None
    heaps: tuple[Due, ...]
    log: QueueLog


def feeder_of(core: Fed) -> Feeder:
    """What moves what waits in a queue's calendar; from now on it is asked when it has something to do."""
    if core.feeder is None:
        core.feeder = Feeder()
        core.heaps = (*core.heaps, core.feeder)
    return core.feeder


def begin_feeding(core: Fed, now: float) -> None:
    """Look at once what is due of a calendar, where there is something in it."""
    if core.log.calendar is not None and core.log.calendar.messages:
        feeder_of(core).at = now
