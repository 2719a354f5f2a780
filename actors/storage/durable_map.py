"""A map beside the queues: what gateways to other protocols have to remember, which so has no file of its own.

Entries have a section and a key, both names, and bytes. A change is an event like those of queues: it is recorded, then applied, and
whoever made it acts on it when it is durable. All of the map is in memory and in each checkpoint, so it is small, and has limits.

Changes are numbered from 1 on. A map that sees a change again stays as it is, and a number that is left out shows what a repair has lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from actors.errors import InvalidRequestError, MapLimitError
from actors.limits import MAX_NAME_BYTES

MAX_KEY_BYTES: Final = 1024
"""The longest key, in UTF-8: a name, or several in one, such as the address of whoever is to be told of a topic;"""
MAX_VALUE_BYTES: Final = 64 * 1024
"""and the largest value. What is larger is a message, and belongs in a queue."""
MAX_SECTION_ENTRIES: Final = 50_000
"""Entries of one section, so that one gateway leaves room for the others."""
ENTRY_OVERHEAD_BYTES: Final = 256
"""Counted for each entry beside its names and its value: about what its objects take."""
MAX_MAP_BYTES: Final = 16 * 1024 * 1024
"""Bytes of all entries. Each checkpoint writes them all: a quarter of what is written between two checkpoints at most."""

_NOTHING: Final[Mapping[str, bytes]] = MappingProxyType({})


class EntryPut(NamedTuple):
    """The event: an entry has another value, or is no more where ``value`` is None. ``number`` counts the changes of the map."""

    number: int
    section: str
    key: str
    value: bytes | None


class Sections:
    """The fold over the events of one map.

    Attributes:
        number: how many changes there were.
        bytes: what all entries take, each with ``ENTRY_OVERHEAD_BYTES``.
        last_event: the number of the last change's record; 0 where there was none since a checkpoint.
    """

    __slots__ = ("_sections", "bytes", "last_event", "number")

    def __init__(self) -> None:
        self._sections: dict[str, dict[str, bytes]] = {}
        self.number = 0
        self.bytes = 0
        self.last_event = 0

    def __iter__(self) -> Iterator[tuple[str, dict[str, bytes]]]:
        """Each section with a copy of its entries: all of them as they are when the first is asked for."""
        return iter([(name, entries.copy()) for name, entries in self._sections.items()])

    def __len__(self) -> int:
        return sum(map(len, self._sections.values()))

    def of(self, section: str) -> Mapping[str, bytes]:
        """The entries of a section, to be looked at only."""
        entries = self._sections.get(section)
        return _NOTHING if entries is None else MappingProxyType(entries)

    def change(self, section: str, key: str, value: bytes | None) -> EntryPut | None:
        """The event that gives an entry a value, or removes it; None where it is so already.

        Raises:
            InvalidRequestError: a section or a key that is no name.
            MapLimitError: there is no room for it, or it is too large.
        """
        _check_name("section", section, MAX_NAME_BYTES)
        _check_name("key", key, MAX_KEY_BYTES)
        entries = self._sections.get(section, {})
        before = entries.get(key)
        if value == before:
            return None
        if value is not None:
            if type(value) is not bytes:
                raise TypeError(f"a value is bytes, not {type(value).__name__}")
            if len(value) > MAX_VALUE_BYTES:
                advice = "keep it in a queue, or in parts under several keys"
                raise MapLimitError("bytes of a value", len(value), "MAX_VALUE_BYTES", MAX_VALUE_BYTES, advice)
            if before is None and len(entries) >= MAX_SECTION_ENTRIES:
                there = len(entries) + 1
                raise MapLimitError(
                    f"entries of section {section}", there, "MAX_SECTION_ENTRIES", MAX_SECTION_ENTRIES, _REMOVE
                )
            whole = self.bytes + _size(section, key, value) - _size(section, key, before)
            if whole > MAX_MAP_BYTES and whole > self.bytes:
                raise MapLimitError("bytes of the whole map", whole, "MAX_MAP_BYTES", MAX_MAP_BYTES, _REMOVE)
        return EntryPut(self.number + 1, section, key, value)

    def apply(self, event: EntryPut, lsn: int = 0) -> None:
        """Take in a change with its record's number; one that was taken in before changes nothing."""
        number, section, key, value = event
        if number <= self.number:
            return
        self.number = number
        self.last_event = lsn
        entries = self._sections.setdefault(section, {})
        self.bytes += _size(section, key, value) - _size(section, key, entries.pop(key, None))
        if value is not None:
            entries[key] = value
        elif not entries:
            del self._sections[section]

    def restore(self, number: int, entries: Iterator[tuple[str, str, bytes]]) -> None:
        """Have what a checkpoint has."""
        for section, key, value in entries:
            self._sections.setdefault(section, {})[key] = value
            self.bytes += _size(section, key, value)
        self.number = number


class DurableMap:
    """The map as whoever uses it sees it, over whatever makes its changes durable.

    What is read is what was put last. It may not be durable yet: tell nobody of it before ``synced`` has returned.
    """

    sections: Sections

    def put(self, section: str, key: str, value: bytes | None) -> int:
        """Give an entry a value, or remove it with None. It can be read at once.

        Await ``synced`` of what this returns before anybody acts on it.

        Returns:
            the number of the event, which is the last one of the map where the entry is so already.

        Raises:
            InvalidRequestError: a section or a key that is no name.
            MapLimitError: there is no room for it, or it is too large. Nothing has happened.
            DiskBehindError: more waits for the disk than may wait. Nothing has happened.
            StorageError: the journal takes nothing more, and the broker, which has been told, is about to end.
        """
        event = self.sections.change(section, key, value)
        if event is not None:
            self.sections.apply(event, self._record_put(event))
        return self.sections.last_event

    def get(self, section: str, key: str) -> bytes | None:
        """The value of an entry; None where there is none."""
        return self.sections.of(section).get(key)

    def section(self, section: str) -> Mapping[str, bytes]:
        """The entries of a section, to be read only. It may change with the next ``put``: ask for it again, or copy it."""
        return self.sections.of(section)

    async def synced(self, number: int | None = None) -> None:
        """Return when the event ``number`` is durable; None for everything so far."""
        raise NotImplementedError

    def _record_put(self, event: EntryPut) -> int:
        """Record a change before it is applied; returns its number."""
        raise NotImplementedError


class MemoryMap(DurableMap):
    """The map of a broker in memory: as durable as its queues, which is not at all."""

    def __init__(self) -> None:
        self.sections = Sections()

    async def synced(self, number: int | None = None) -> None:
        """See `DurableMap`: there is nothing to wait for."""

    def _record_put(self, _event: EntryPut) -> int:
        return 0


_REMOVE: Final = "remove some first"


def _size(section: str, key: str, value: bytes | None) -> int:
    if value is None:
        return 0
    return ENTRY_OVERHEAD_BYTES + len(section.encode()) + len(key.encode()) + len(value)


def _check_name(what: str, name: str, most: int) -> None:
    """Raise the error for what is no name: empty, too long, or with what nobody can read."""
    if not name or " " in name or not name.isprintable():
        raise InvalidRequestError(f"the {what} {name!r:.60} is empty, or has white space or unprintable characters")
    size = len(name.encode())
    if size > most:
        limit = "MAX_KEY_BYTES" if what == "key" else "MAX_NAME_BYTES"
        raise MapLimitError(f"bytes of a {what}", size, limit, most, "use a shorter one, or a digest of it")
