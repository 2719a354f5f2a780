"""The ids of the messages that a queue has stored lately: others with one of these are duplicates.

An id is remembered by a digest of 16 bytes, so that it takes the same however long it is. With ten million of them at a time the chance
that a new id is taken for another is 3e-32. When it is forgotten was said as it was stored, and is recorded with the message. So a log
that is read again has the same ids, and other settings hold for what comes from then on.
"""

from __future__ import annotations

from array import array
from collections import deque
from hashlib import blake2b
from struct import iter_unpack
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from actors.errors import InvalidRequestError
from actors.headers import readable_headers
from actors.limits import DEDUPLICATION_HEADER, MAX_DEDUPLICATION_ID_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.batch import MessageBatch

Digest: TypeAlias = bytes
DIGEST_BYTES: Final = 16
CHUNK_IDS: Final = 4_096
"""Ids in one piece of the memory, and of a checkpoint: a fraction of a millisecond's work."""
FORGOTTEN_AT_ONCE: Final = 1_024
"""Ids that are forgotten in one go: some milliseconds of work. Those that are left do not count, but for how many there are."""
MOST_LINES: Final = 16
"""Windows of which ids are remembered at a time, each shorter than the one before: what comes by others is forgotten with the last's."""
_NAME: Final = DEDUPLICATION_HEADER.encode()


class _Chunk:
    """Some ids in the order in which they came, and when each is forgotten; those before ``start`` are already."""

    __slots__ = ("digests", "dues", "start")

    def __init__(self) -> None:
        self.digests = bytearray()
        self.dues = array("q")
        self.start = 0


class Picture(NamedTuple):
    """Some ids as they were. What comes behind them, and what is forgotten of them, changes nothing here."""

    chunk: _Chunk
    start: int
    stop: int

    def stored(self) -> tuple[bytes, bytes]:
        """Their digests, and when each is forgotten, for `AcceptedIds.restore`."""
        start, stop = self.start, self.stop
        digests = self.chunk.digests[start * DIGEST_BYTES : stop * DIGEST_BYTES]
        return bytes(digests), self.chunk.dues[start:stop].tobytes()


class AcceptedIds:
    """See the module's docstring. Times are microseconds since the epoch.

    Attributes:
        window_us: for how long an id is remembered from when its message is stored.
        limit: how many may be, before who sends has to wait.
        coming: those of what a queue that rejects has accepted and not stored yet.
    """

    __slots__ = ("_chunks", "_due", "_earlier", "_looked", "_now_us", "coming", "limit", "window_us")

    def __init__(self, window_us: int = 0, limit: int = 0) -> None:
        self.window_us = window_us
        self.limit = limit
        self.coming: set[bytes] = set()
        self._due: dict[bytes, int] = {}
        # In the order in which they are forgotten: those that come, and behind which others came by a shorter window.
        self._chunks: deque[_Chunk] = deque()
        self._earlier: list[deque[_Chunk]] = []
        self._now_us = 0
        # A batch that is about to be stored, and its ids.
        self._looked: tuple[MessageBatch, list[bytes | None]] | None = None

    def __len__(self) -> int:
        """How many ids are remembered; those that may be forgotten are among them until `forget`."""
        return len(self._due)

    def __contains__(self, digest: bytes) -> bool:
        """Whether a message with this id is a duplicate, as of the time that was last told."""
        due = self._due.get(digest)
        return due is not None and due > self._now_us

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        """The ids that count as of then, each with until when."""
        return ((digest, due) for digest, due in self._due.items() if due > self._now_us)

    @property
    def until_us(self) -> int:
        """Until when ids count whose messages are stored at the time that was last told."""
        return self._now_us + self.window_us

    @property
    def room(self) -> int:
        """How many more may be remembered; below 0 where senders had permits when there were enough."""
        return self.limit - len(self._due)

    @property
    def oldest_us(self) -> int | None:
        """When the first of them may be forgotten; None where there is none."""
        return min((line[0].dues[line[0].start] for line in self._lines() if line), default=None)

    @property
    def is_behind(self) -> bool:
        """Whether there are more that may be forgotten as of the time that was last told."""
        oldest_us = self.oldest_us
        return oldest_us is not None and oldest_us <= self._now_us

    def forget(self, now_us: int) -> None:
        """It is ``now_us``: what may be forgotten does not count any more, and some of it is.

        A time that goes back is the last one, until it has caught up.
        """
        self._now_us = max(self._now_us, now_us)
        left = FORGOTTEN_AT_ONCE
        if self._earlier:
            for line in self._earlier:
                left = self._forget(line, left)
            self._earlier = [line for line in self._earlier if line]
        self._forget(self._chunks, left)

    def _forget(self, chunks: deque[_Chunk], left: int) -> int:
        """Forget the first of a line, up to so many; returns how many may be forgotten yet."""
        due, now_us = self._due, self._now_us
        while chunks and left:
            chunk = chunks[0]
            dues, digests, start = chunk.dues, chunk.digests, chunk.start
            stop = len(dues)
            while start < stop and left and dues[start] <= now_us:
                left -= 1
                digest = bytes(digests[start * DIGEST_BYTES : (start + 1) * DIGEST_BYTES])
                # It may have come again since.
                if due.get(digest, now_us + 1) <= now_us:
                    del due[digest]
                start += 1
            chunk.start = start
            if start < stop:
                break
            chunks.popleft()
        return left

    def accept(self, batch: MessageBatch) -> None:
        """A batch is accepted for which there is room: its ids take that from now on."""
        self.coming.update(filter(None, ids_of(batch) or ()))

    def look(self, batch: MessageBatch, ids: list[bytes | None]) -> None:
        """A batch is about to be stored: it need not be looked at for its ids again."""
        self._looked = batch, ids

    def add_batch(self, batch: MessageBatch, due_us: int) -> None:
        """The same as `add` for the ids of a batch."""
        looked = self._looked
        ids = looked[1] if looked is not None and looked[0] is batch else ids_of(batch)
        self.add(filter(None, ids or ()), due_us)

    def add(self, digests: Iterable[bytes], due_us: int) -> None:
        """Messages with these ids are stored, and others are duplicates until ``due_us``."""
        self._looked = None
        chunks, due = self._line_for(due_us), self._due
        for digest in digests:
            if not chunks or len(chunks[-1].dues) >= CHUNK_IDS:
                chunks.append(_Chunk())
            chunk = chunks[-1]
            due[digest] = due_us
            chunk.digests += digest
            chunk.dues.append(due_us)

    def _lines(self) -> Iterator[deque[_Chunk]]:
        yield from self._earlier
        yield self._chunks

    def _line_for(self, due_us: int) -> deque[_Chunk]:
        """Where those go that are forgotten then: not behind others whose time is longer, which would keep them."""
        if self._chunks and due_us < self._chunks[-1].dues[-1] and len(self._earlier) < MOST_LINES - 1:
            self._earlier.append(self._chunks)
            self._chunks = deque()
        return self._chunks

    def picture(self) -> list[Picture]:
        """All of it as it is, in pieces; it costs as much as there are pieces."""
        return [Picture(chunk, chunk.start, len(chunk.dues)) for line in self._lines() for chunk in line]

    def restore(self, digests: bytes, dues: bytes) -> None:
        """Have a piece of such a picture, behind those before; raises ValueError for one that does not hold together."""
        chunk = _Chunk()
        chunk.digests += digests
        chunk.dues.frombytes(dues)
        if len(digests) != len(chunk.dues) * DIGEST_BYTES or not digests:
            raise ValueError(f"{len(digests)} bytes of ids, and {len(chunk.dues)} times")
        self._line_for(chunk.dues[0]).append(chunk)
        # Those that came together have one number for it.
        known: dict[int, int] = {}
        each = [digest for (digest,) in iter_unpack(f"{DIGEST_BYTES}s", digests)]
        self._due.update(zip(each, [known.setdefault(due_us, due_us) for due_us in chunk.dues], strict=True))


def digest_of(deduplication_id: bytes) -> bytes:
    """By what an id is remembered."""
    return blake2b(deduplication_id, digest_size=DIGEST_BYTES).digest()


def ids_of(batch: MessageBatch) -> list[bytes | None] | None:
    """The digest of each message's id, None of one that has none; None alone where no message has one."""
    headers = batch.headers
    if headers is None or _NAME not in bytes(headers.data):
        return None
    found = [_id_of(each) if _NAME in each else None for each in headers.tolist()]
    return found if any(found) else None


def check_lengths(batch: MessageBatch) -> None:
    """Raise InvalidRequestError for an id that is too long among those of what is to be stored."""
    headers = batch.headers
    if headers is None or _NAME not in bytes(headers.data):
        return
    for each in headers.tolist():
        # No id is longer than all headers of its message.
        said = _said(each) if len(each) > MAX_DEDUPLICATION_ID_BYTES and _NAME in each else b""
        if len(said) > MAX_DEDUPLICATION_ID_BYTES:
            raise InvalidRequestError(
                f"a deduplication id of {len(said)} bytes exceeds {MAX_DEDUPLICATION_ID_BYTES}: send a digest of it instead"
            )


def _id_of(packed: bytes) -> bytes | None:
    said = _said(packed)
    return digest_of(said) if said else None


def _said(packed: bytes) -> bytes:
    """The id among a message's headers; empty for none."""
    value = (readable_headers(packed) or {}).get(DEDUPLICATION_HEADER, b"")
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
