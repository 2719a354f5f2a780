"""The figures of every queue as the metrics have them, kept up by what has changed since they were asked for before.

The first question reads all queues; each one after it those that have changed, and adds the differences to the sums. For that names are
noted while questions come, and for a while behind the last; then nothing is kept any more.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from actors.queue.counts import less
from actors.queue.operations.counting import Counters, Figures, counters_of, figures_of
from transport.picture.letting_go import let_go
from transport.picture.loop_delay import LINGER_SECONDS
from transport.picture.pressure import Kind, held_back_by

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from actors import QueueDirectory
    from actors.queue.changes import Reader
    from actors.queue.queue_state import QueueState
    from transport.picture.slices import Slices

PIECE: Final = 16
"""Queues that are read before the time is looked at: a tenth of a millisecond or two."""
MOST_PASSES: Final = 10
"""Over what has changed during the pass before; each is much shorter than that."""
COUNTED: Final = len(Counters._fields)
NUMBERS: Final = Figures._fields.index("full")
"""Figures that are numbers; what is behind them says how it is."""
NO_FIGURES: Final = Figures(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, full=False, paused=None)
"""Of a queue that has failed for good: nobody has anything of it until somebody uses it again."""
LIMITS: Final = 2
"""How many limits stand at the end of a row's values."""
NO_LIMIT: Final = 0
"""Among a row's values, in the place of a limit that the queue has not."""
DELAYED: Final = COUNTED + Figures._fields.index("delayed")
"""Where in a row the messages are that wait for a delay;"""
READY: Final = COUNTED + Figures._fields.index("ready")
"""and those that are ready."""


class Row(NamedTuple):
    """A queue's figures as they were when it had changed last. Where they are the same again it is the same object.

    Attributes:
        values: its counters since the start, its figures, and its limits, in the order of `families.OF_A_QUEUE` but for the last.
        kind: what holds it back; None where nothing does.
        failed: whether it failed for good.
        state: the queue's, to read what changes with time alone.
    """

    values: tuple[int, ...]
    kind: Kind | None
    failed: bool
    state: QueueState


class Rows:
    """The rows of one broker's queues; to be looked at behind `bring_up` in the same turn of the loop.

    Args:
        queues: all of them.
        forgotten: told when nothing is kept any more.

    Attributes:
        names: of the queues, in order.
        rows: by name.
        sums: of the values of all of them but the limits, in the order of a row.
        kinds: how many are held back, by what.
        failed: how many have failed for good.
    """

    def __init__(self, queues: QueueDirectory, forgotten: Callable[[], object]) -> None:
        self._queues = queues
        self._forgotten = forgotten
        self._reader: Reader | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._one_at_a_time = asyncio.Lock()
        # Rows that others took the place of, to be freed behind the pass.
        self._replaced: list[Row] = []
        self._clear()

    @property
    def kept(self) -> bool:
        """Whether anything is."""
        return self._reader is not None

    async def bring_up(self, slices: Slices) -> None:
        """Have every row as its queue is now, and keep them so for who asks again soon."""
        async with self._one_at_a_time:
            self._keep()
            await slices.begin()
            try:
                for _ in range(MOST_PASSES):
                    self._note_changes()
                    if len(self._unread) <= PIECE:
                        break
                    await slices.pause()
                    for part in _parts(list(self._unread), PIECE):
                        self._read(part)
                        await slices.pause()
                else:
                    self._note_changes()
                # In the turn in which they are looked at: a queue that is deleted is in the sum of those that are gone from then on.
                self._read(list(self._unread))
            finally:
                let_go(self._replaced)
                self._replaced = []

    def end(self) -> None:
        """Keep nothing any more."""
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._reader is not None:
            self._reader.end()
            self._reader = None
        let_go(self.rows)
        self._clear()
        self._forgotten()

    # Inside

    def _clear(self) -> None:
        self.names: list[str] = []
        self.rows: dict[str, Row] = {}
        self.sums = [0] * (COUNTED + NUMBERS)
        self.kinds: Counter[Kind] = Counter()
        self.failed = 0
        self._first = True
        # Of queues that have changed since their row was made.
        self._unread: set[str] = set()

    def _keep(self) -> None:
        if self._reader is None:
            self._reader = self._queues.changes.read()
            self._first = True
        if self._linger is not None:
            self._linger.cancel()
        self._linger = asyncio.get_running_loop().call_later(LINGER_SECONDS, self.end)

    def _note_changes(self) -> None:
        """Have those that have changed read again; whoever asks may go away before they are, so they are kept until then."""
        if self._reader is None:
            # The broker stops, or nobody has asked for so long: what is there now is read when somebody asks again.
            return
        names = None if self._first else self._reader.take()
        self._first = False
        self._unread |= {*self._queues.names, *self.rows} if names is None else names

    def _read(self, names: Sequence[str]) -> None:
        for name in names:
            state = self._queues.state(name)
            row = None if state is None else self._row(name, state)
            before = self.rows.get(name)
            if before is None or before != row:
                self._put(name, before, row)
            self._unread.discard(name)

    def _put(self, name: str, before: Row | None, row: Row | None) -> None:
        """A queue has another row, or none any more."""
        self._add(before, -1)
        self._add(row, 1)
        if before is not None:
            self._replaced.append(before)
        if row is not None:
            self.rows[name] = row
        elif before is not None:
            del self.rows[name]
        if (before is None) != (row is None):
            self._name(name, there=row is not None)

    def _row(self, name: str, state: QueueState) -> Row:
        queue, settings = self._queues.known(name), state.settings
        failed = queue is not None and not queue.is_alive()
        counters, figures = (
            less(counters_of(state), self._queues.base(name)),
            NO_FIGURES if failed else figures_of(state),
        )
        # What is behind the numbers is none.
        limits = settings.max_messages or NO_LIMIT, settings.max_bytes or NO_LIMIT
        values = (*counters, *cast("tuple[int, ...]", figures[:NUMBERS]), *limits)
        return Row(values, held_back_by(figures), failed, state)

    def _add(self, row: Row | None, times: int) -> None:
        """Count a row, or what was counted no more."""
        if row is None:
            return
        self.sums = [total + times * value for total, value in zip(self.sums, row.values, strict=False)]
        self.failed += times * row.failed
        if row.kind is not None:
            self.kinds[row.kind] += times

    def _name(self, name: str, *, there: bool) -> None:
        """A queue is made, or is no more."""
        names = self.names
        if there and (not names or names[-1] < name):
            names.append(name)
            return
        place = bisect_left(names, name)
        if there:
            names.insert(place, name)
        else:
            del names[place]


def _parts(items: Sequence[str], size: int) -> list[Sequence[str]]:
    return [items[at : at + size] for at in range(0, len(items), size)]
