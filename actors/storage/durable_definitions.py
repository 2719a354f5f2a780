"""Exchanges and bindings as whoever changes them sees them, over whatever makes the changes durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.exchanges.definitions import Definitions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors.exchanges.vocabulary import Event


class DurableDefinitions:
    """The fold, with a way to record what changes it.

    Attributes:
        definitions: as they are; what was changed last may not be durable yet.
    """

    definitions: Definitions

    def change_definitions(self, events: Iterable[Event], deleted_queue: int | None = None) -> int:
        """Have events happen in one instant, and with them the end of a queue, by its number, if one is given.

        Those that have a number are recorded, together: all of them are found again, or none. Then all are applied. Answer whoever asked
        for it when ``synced`` of what this returns has returned.

        Returns:
            the number of the record; 0 where nothing was recorded, for nothing that is durable has changed.

        Raises:
            DiskBehindError: more waits for the disk than may wait, and no queue is deleted. Nothing has happened.
            StorageError: the journal takes nothing more, and the broker, which has been told, is about to end.
        """
        applied = list(events)
        numbered = [event for event in applied if event.number]
        lsn = self._record_changes(numbered, deleted_queue) if numbered or deleted_queue is not None else 0
        self._apply_changes(applied, deleted_queue)
        return lsn

    def _record_changes(self, events: Sequence[Event], deleted_queue: int | None) -> int:
        """Record them before they are applied; returns the record's number."""
        raise NotImplementedError

    def _apply_changes(self, events: Sequence[Event], deleted_queue: int | None) -> None:
        """Have them happen."""
        raise NotImplementedError


class MemoryDefinitions(DurableDefinitions):
    """Those of a broker in memory: as durable as its queues, which is not at all."""

    def __init__(self) -> None:
        self.definitions = Definitions()

    def _record_changes(self, _events: Sequence[Event], _deleted_queue: int | None) -> int:
        return 0

    def _apply_changes(self, events: Sequence[Event], _deleted_queue: int | None) -> None:
        for event in events:
            self.definitions.apply(event)
