"""The lines of queues in the metrics, in blocks: a block in which no queue has changed is written once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from actors import QueueError, StorageError
from actors.queue.operations.calendar import next_due_us
from actors.queue.structures.deadlines import US_PER_SECOND
from transport.picture import families
from transport.picture.exposition import labelled
from transport.picture.rows import DELAYED, LIMITS, READY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from transport.picture.exposition import Label
    from transport.picture.pressure import Kind
    from transport.picture.rows import Row
    from transport.picture.slices import Slices

BLOCK: Final = 32
"""Queues of a block; its lines are written in some tenths of a millisecond."""
READ: Final = 4
"""Queues whose first message is looked at before the time is: it may have to be read from the disk."""
MOST_KEPT: Final = 4 * 1024 * 1024
"""Characters of all blocks that are kept: a page of as many queues as one has unless it is told otherwise has half of it."""


class Block:
    """Some queues' lines.

    Args:
        names: of the queues.
        rows: of each.

    Attributes:
        rows: as above.
        texts: lines of each of `families.OF_A_QUEUE` but the last.
        held_back: lines that say what holds them back.
    """

    def __init__(self, names: Sequence[str], rows: list[Row]) -> None:
        self.rows = rows
        self._labels = labels = [labelled([("queue", name)]) for name in names]
        columns: list[tuple[object, ...]] = list(zip(*[row.values for row in rows], strict=True))
        columns = columns or [()] * (len(families.OF_A_QUEUE) - 1)
        columns[-LIMITS:] = [tuple(value or "+Inf" for value in column) for column in columns[-LIMITS:]]
        self.texts = [
            "".join([f"{family.name}{label} {value}\n" for label, value in zip(labels, column, strict=True)])
            for family, column in zip(families.OF_A_QUEUE[:-1], columns, strict=True)
        ]
        kinds = zip(labels, [row.kind for row in rows], strict=True)
        self.held_back = "".join([_held_back(label, kind) for label, kind in kinds if kind is not None])
        self._waiting = any(row.values[READY] for row in rows)
        self._delays = any(row.values[DELAYED] for row in rows)
        self._oldest = "" if self._waiting else self._aged([0.0] * len(rows))
        self.size = sum(map(len, self.texts)) + len(self.held_back) + len(self._oldest)

    async def oldest(self, slices: Slices) -> str:
        """Lines of how old the first messages are, which changes by itself."""
        if not self._waiting:
            return self._oldest
        ages, loop = [], asyncio.get_running_loop()
        for number, row in enumerate(self.rows):
            ages.append(_age(row, loop.time()))
            if number % READ == 0:
                await slices.pause()
        return self._aged(ages)

    def next_due(self) -> str:
        """Lines of when the next messages are due, of queues in which some wait for that."""
        if not self._delays:
            return ""
        now, lines = asyncio.get_running_loop().time(), []
        for row, label in zip(self.rows, self._labels, strict=True):
            due_us = next_due_us(row.state, now) if row.values[DELAYED] else None
            if due_us is not None:
                lines.append(f"{families.QUEUE_NEXT_DUE.name}{label} {due_us / US_PER_SECOND}\n")
        return "".join(lines)

    def _aged(self, ages: list[float]) -> str:
        return "".join(
            [f"{families.OLDEST.name}{label} {age}\n" for label, age in zip(self._labels, ages, strict=True)]
        )


class Texts:
    """The blocks that are kept: of those that were asked for last."""

    def __init__(self) -> None:
        self._blocks: OrderedDict[tuple[str, ...], Block] = OrderedDict()
        self._size = 0

    def of(self, names: Sequence[str], rows: Mapping[str, Row]) -> Block:
        """The lines of these queues; one that has no row any more is passed over."""
        there = tuple([name for name in names if name in rows])
        now = [rows[name] for name in there]
        kept = self._blocks.pop(there, None)
        if kept is not None:
            self._size -= kept.size
        # A row that has not changed is the same object, so this is soon seen.
        block = kept if kept is not None and kept.rows == now else Block(there, now)
        self._blocks[there] = block
        self._size += block.size
        while self._size > MOST_KEPT:
            _, gone = self._blocks.popitem(last=False)
            self._size -= gone.size
        return block

    def clear(self) -> None:
        """Keep nothing."""
        self._blocks.clear()
        self._size = 0


def _age(row: Row, now: float) -> float:
    """Of a queue's first message, seconds."""
    if not row.values[READY]:
        return 0.0
    try:
        # It is read from the disk at most once.
        return row.state.oldest_ms(now) / 1000
    except (QueueError, StorageError):
        # The queue was deleted since the count began; or the disk failed, which the broker has been told.
        return 0.0


def kind_label(kind: Kind) -> Label:
    """What holds a queue back, as a label."""
    return "kind", kind.value.replace(" ", "_")


def _held_back(labels: str, kind: Kind) -> str:
    name, value = kind_label(kind)
    return f'{families.QUEUE_HELD_BACK.name}{labels[:-1]},{name}="{value}"}} 1\n'
