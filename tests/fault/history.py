"""What a program did with a journal and was told by it, and the check that what a restart finds agrees.

The program is an event-sourced one, like the broker: numbered streams whose items are added and acknowledged, and notes
that mean nothing. Its state is a fold over its records; a checkpoint holds the state. So what a restart finds must be the
state after some prefix of what was appended, and the prefix must hold everything that was reported durable.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import msgpack

from journal import Journal, Record, UnknownItemError, unpack_several

ADD, ACKNOWLEDGE, NOTE, FORGET, ADD_SEVERAL = 1, 2, 3, 4, 5
"""Kinds of the program's records: items added, items acknowledged, a note, a stream removed, items added to several streams at once."""
ITEMS_HEADER = struct.Struct("<IQI")
RANGE = struct.Struct("<IQI")

Streams: TypeAlias = dict[int, "Stream"]


class HistoryError(AssertionError):
    """The journal did not keep what it promised; the text says what."""


@dataclass(slots=True)
class Stream:
    """One numbered stream: the next number, and those not acknowledged."""

    next: int = 0
    live: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Entry:
    """One record that was appended; ``count`` is 0 unless it holds items of one stream, and ``parts`` has those of several."""

    kind: int
    payload: bytes
    stream: int = 0
    first: int = 0
    count: int = 0
    parts: tuple[Entry, ...] = ()

    @property
    def stored(self) -> bytes:
        """The payload as replay shows it."""
        header = ITEMS_HEADER.pack(self.stream, self.first, self.count) if self.count else b""
        return header + self.payload


def fold(streams: Streams, kind: int, payload: bytes) -> None:
    """Apply one record to the state."""
    if kind == ADD:
        number, first, count = ITEMS_HEADER.unpack_from(payload)
        stream = streams.setdefault(number, Stream())
        if first != stream.next:
            raise HistoryError(f"stream {number}: items from {first} on follow those before {stream.next}")
        stream.next = first + count
        stream.live.update(range(first, first + count))
    elif kind == ADD_SEVERAL:
        parts, _ = unpack_several(payload)
        for part in parts:
            fold(streams, ADD, ITEMS_HEADER.pack(*part[:3]))
    elif kind == ACKNOWLEDGE:
        number, first, count = RANGE.unpack(payload)
        streams[number].live.difference_update(range(first, first + count))
    elif kind == FORGET:
        number, _, _ = RANGE.unpack(payload)
        del streams[number]


def pack_state(lsn: int, streams: Streams) -> bytes:
    """A checkpoint's payload: the state before the record ``lsn``."""
    packed: bytes = msgpack.packb([lsn, [[n, s.next, sorted(s.live)] for n, s in sorted(streams.items())]])
    return packed


def unpack_state(payload: bytes) -> tuple[int, Streams]:
    lsn, streams = msgpack.unpackb(payload)
    return lsn, {number: Stream(following, set(live)) for number, following, live in streams}


class History:
    """Everything appended and not yet known to be lost, and what was reported.

    Attributes:
        streams: the program's state.
        durable: every record before this one was reported durable.
        epoch: of the last successful open, 0 before the first.
        lost: how many records that nobody was told were durable were not found again.
    """

    def __init__(self) -> None:
        self.streams: Streams = {}
        self.durable = 0
        self.epoch = 0
        self.lost = 0
        self._entries: dict[int, Entry] = {}
        self._next = 0
        self._checkpoints: dict[int, bytes] = {}
        self._checkpoint = -1
        """The newest checkpoint that was reported done."""

    # What the program does.

    def appended(self, lsn: int, entry: Entry) -> None:
        self._require(lsn >= self._next, f"record {lsn} was appended after {self._next - 1}")
        self._require(lsn >= self.durable, f"record {lsn} was appended, and those before {self.durable} are durable")
        self._entries[lsn] = entry
        self._next = lsn + 1
        fold(self.streams, entry.kind, entry.stored)

    def reported(self, durable: int) -> None:
        self._require(durable >= self.durable, f"durable_lsn went back from {self.durable} to {durable}")
        self.durable = durable

    def checkpointing(self, lsn: int) -> bytes:
        """The payload for a checkpoint before the record ``lsn``."""
        self._checkpoints[lsn] = pack_state(lsn, self.streams)
        return self._checkpoints[lsn]

    def checkpointed(self, lsn: int) -> None:
        self._checkpoint = max(self._checkpoint, lsn)

    def live(self, number: int, first: int, stop: int) -> int:
        """How many items of a range are not acknowledged."""
        stream = self.streams.get(number)
        return 0 if stream is None else sum(1 for item in range(first, stop) if item in stream.live)

    # What a restart finds.

    def recovered(self, journal: Journal) -> None:
        """Check a journal that was opened and not yet started; the state is then what was found."""
        self._require(journal.epoch > self.epoch, f"epoch {journal.epoch} after epoch {self.epoch}")
        self.epoch = journal.epoch
        start, streams = self._checkpoint_found(journal.checkpoint_payload)
        expected = self._after(start)
        stop = start
        for record in journal.replay():
            lsn, entry = next(expected, (-1, Entry(0, b"")))
            self._same(record, lsn, entry)
            fold(streams, record.kind, bytes(record.payload))
            stop = lsn + 1
        missing = next(expected, None)
        self._require(
            missing is None or missing[0] >= self.durable,
            f"record {missing and missing[0]} is missing, and those before {self.durable} were reported durable",
        )
        self.streams = streams
        self._forget(max(stop, start))
        self._require(journal.next_lsn >= max(self._next, self.durable), f"next_lsn is {journal.next_lsn}")
        self._require(
            journal.durable_lsn >= self._next,
            f"durable_lsn is {journal.durable_lsn}, and the records before {self._next} were replayed",
        )
        self.reported(max(self.durable, journal.durable_lsn))
        self.readable(journal)

    def readable(self, journal: Journal) -> None:
        """Check that every item that is not acknowledged can be read, and that no other can that was never added."""
        contents = self._contents()
        for number, stream in self.streams.items():
            self._readable_stream(journal, number, stream, contents)
        unknown = max(self.streams, default=0) + 1000
        self._require(journal.locate(unknown, 0) is None, f"stream {unknown} was never written, and has an item")

    def verify_honest(self, journal: Journal) -> None:
        """Check a journal that may have lost anything: what it does give is what was added."""
        contents = self._contents()
        for number in {number for number, _ in contents}:
            for located in journal.spans(number, 0, 1 << 40):
                where = f"stream {number}, items {located.first} to {located.stop - 1}"
                lsn, entry = contents.get((number, located.first), (-1, Entry(0, b"")))
                stored = journal.read(number, located.first)
                self._require(
                    stored.lsn == lsn and bytes(stored.payload) == entry.payload, f"{where}: not what was added"
                )

    def change_every_payload(self) -> None:
        """Remember another payload for every record, for a test of the check."""
        self._entries = {
            lsn: replace(
                entry,
                payload=entry.payload + b"!",
                parts=tuple(replace(part, payload=part.payload + b"!") for part in entry.parts),
            )
            for lsn, entry in self._entries.items()
        }

    def _readable_stream(
        self, journal: Journal, number: int, stream: Stream, contents: dict[tuple[int, int], tuple[int, Entry]]
    ) -> None:
        found: set[int] = set()
        last = -1
        for located in journal.spans(number, 0, stream.next + 1000):
            where = f"stream {number}, items {located.first} to {located.stop - 1}"
            lsn, entry = contents.get((number, located.first), (-1, Entry(0, b"")))
            self._require(located.first >= last, f"{where} come after item {last - 1}")
            last = located.stop
            self._require(lsn >= 0, f"{where}: nobody added these")
            self._require(located.stop == entry.first + entry.count, f"{where}: it was {entry.count} items")
            stored = journal.read(number, located.first)
            self._require(stored.lsn == lsn and stored.kind == entry.kind, f"{where}: another record")
            self._require(bytes(stored.payload) == entry.payload, f"{where}: other bytes")
            self._require(journal.locate(number, located.stop - 1) == located, f"{where}: located elsewhere")
            found.update(range(located.first, located.stop))
        lost = sorted(stream.live - found)
        self._require(not lost, f"stream {number}: live items {lost[:10]} are gone")
        self._require(journal.locate(number, stream.next) is None, f"stream {number} has an item {stream.next}")
        try:
            journal.read(number, stream.next)
        except UnknownItemError:
            return
        raise HistoryError(f"stream {number}: item {stream.next} was never added, and was read")

    def _checkpoint_found(self, payload: bytes | None) -> tuple[int, Streams]:
        if payload is None:
            self._require(self._checkpoint < 0, f"the checkpoint before record {self._checkpoint} is gone")
            return 0, {}
        start, streams = unpack_state(payload)
        self._require(start >= self._checkpoint, f"checkpoint {start} found, {self._checkpoint} was reported done")
        self._require(self._checkpoints.get(start) == payload, f"checkpoint {start} was never taken as it was found")
        return start, streams

    def _after(self, lsn: int) -> Iterator[tuple[int, Entry]]:
        return ((number, entry) for number, entry in list(self._entries.items()) if number >= lsn)

    def _same(self, record: Record, lsn: int, entry: Entry) -> None:
        self._require(record.lsn == lsn, f"record {record.lsn} was replayed where {lsn} belongs")
        self._require(record.kind == entry.kind, f"record {lsn} is of kind {record.kind}, was {entry.kind}")
        self._require(bytes(record.payload) == entry.stored, f"record {lsn} has other bytes than it was given")

    def _forget(self, stop: int) -> None:
        """The records from ``stop`` on were not found, and none of them had been promised."""
        for lsn in [number for number in self._entries if number >= stop]:
            del self._entries[lsn]
            self.lost += 1
        self._checkpoints = {lsn: payload for lsn, payload in self._checkpoints.items() if lsn <= stop}
        self._next = stop

    def _contents(self) -> dict[tuple[int, int], tuple[int, Entry]]:
        held = ((lsn, part) for lsn, entry in self._entries.items() for part in entry.parts or (entry,))
        return {(part.stream, part.first): (lsn, part) for lsn, part in held if part.count}

    def _require(self, holds: object, text: str) -> None:
        if not holds:
            raise HistoryError(text)
