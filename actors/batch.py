"""The columnar batch: what a sender builds, the broker moves, a receiver slices and Spark wraps.

Layout (Arrow's variable-size binary): ``offsets`` is int32 little-endian with count + 1 values, ``data`` the values end
to end. Value i is ``data[offsets[i] - offsets[0] : offsets[i + 1] - offsets[0]]``; a slice shares its buffers, so its first
offset may be greater than zero. docs/protocol.md, section "The batch", is the specification.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import msgpack

from actors.errors import BatchError
from actors.limits import DEDUPLICATION_HEADER, GROUP_HEADER

ID_BYTES = 16
OFFSET_BYTES = 4
MAX_COLUMN_BYTES = 2**31 - 1
"""Offsets are int32, so no column can be larger."""
COMPACT_SLACK, COMPACT_SHARE = 1024, 2
"""A batch is copied to be kept where it holds more than its own by so many bytes, which a queue counts for it, and by this factor."""
MAX_HEADERS_PER_MESSAGE = 64
"""Enough for tracing and routing; headers are not a second payload."""
MORE_HEADERS = 8
"""What a broker may add to them, as it does to a dead letter."""

Buffer = bytes | bytearray | memoryview
HeaderValue = str | bytes

if sys.byteorder != "little":  # pragma: no cover - no such machine in CI
    raise ImportError("penstock keeps offsets little-endian and reads them in place; this machine is big-endian")


@dataclass(frozen=True, slots=True)
class Message:
    """One message as a sender gives it.

    Attributes:
        payload: opaque bytes.
        key: optional grouping or routing key.
        headers: optional string to string or bytes map, at most ``MAX_HEADERS_PER_MESSAGE``.
        id: optional 16 bytes; the broker derives one from the sequence number otherwise.
        routing_key: the key as text, for what is published to an exchange: one of the two is given. What is received has it as ``key``.
        priority: of what is sent, 0 to 255: in a queue with priorities the higher is received first; None for what its sender says.
        deduplication_id: a queue with a ``deduplication_window`` stores one message with it within that. It is received as a header.
        group: of what is sent: one receiver at a time has what is of one, in a queue with groups. What is received says it by a header.
    """

    payload: bytes
    key: bytes | None = None
    headers: Mapping[str, HeaderValue] | None = None
    id: bytes | None = None
    routing_key: str | None = None
    priority: int | None = None
    deduplication_id: str | None = None
    group: str | None = None

    @property
    def all_headers(self) -> Mapping[str, HeaderValue] | None:
        """Its headers, with its deduplication id and its group where it has them."""
        said = self.headers
        if self.deduplication_id is not None:
            said = {**(said or {}), DEDUPLICATION_HEADER: self.deduplication_id}
        if self.group is not None:
            said = {**(said or {}), GROUP_HEADER: self.group}
        return said

    @property
    def key_column(self) -> bytes:
        """What stands in a batch's key column: empty for no key."""
        return self.key or (self.routing_key or "").encode()


class BinaryColumn:
    """Immutable sequence of byte strings in Arrow's binary layout.

    Attributes:
        offsets: memoryview of format ``i``, len(self) + 1 values.
        data: memoryview of format ``B``, ``offsets[-1] - offsets[0]`` bytes.
    """

    __slots__ = ("data", "offsets")

    def __init__(self, offsets: memoryview, data: memoryview) -> None:
        self.offsets = offsets
        self.data = data

    @classmethod
    def from_values(cls, values: Sequence[Buffer], *, own: bool = False) -> BinaryColumn:
        """Join ``values``; raises BatchError above ``MAX_COLUMN_BYTES``. One that is its ``own``, nobody else's, is not copied."""
        try:
            if len(values) == 1:  # What comes alone. Bytes are not copied in any case.
                value = values[0] if own or type(values[0]) is bytes else bytes(values[0])
                return cls(memoryview(array("i", (0, len(value)))), memoryview(value))
            # Through a list: array takes twice as long to grow from an iterator.
            offsets = array("i", list(accumulate(map(len, values), initial=0)))
        except OverflowError:
            total = sum(map(len, values))
            raise BatchError(
                f"a column of {total} bytes exceeds {MAX_COLUMN_BYTES}; send the messages in smaller batches"
            ) from None
        return cls(memoryview(offsets), memoryview(b"".join(values)))

    @classmethod
    def from_parts(cls, ends: Sequence[int], parts: Sequence[Buffer]) -> BinaryColumn:
        """Join buffers that hold the values end to end; ``ends`` begins with 0 and has where each value ends."""
        return cls(memoryview(array("i", ends)), memoryview(b"".join(parts)))

    @classmethod
    def from_buffers(cls, offsets: Buffer, data: Buffer, checked: bool = False) -> BinaryColumn:
        """Wrap two buffers without copying and check them, so that no later slice can leave them.

        With ``checked`` the peer has checked that the offsets do not decrease; only their ends are looked at.

        Raises:
            BatchError: offsets that are empty, negative, decreasing, or do not span ``data``.
        """
        raw = memoryview(offsets).cast("B")
        if len(raw) % OFFSET_BYTES:
            raise BatchError(f"{len(raw)} bytes are no whole number of offsets of {OFFSET_BYTES} bytes")
        column = cls(raw.cast("i"), memoryview(data).cast("B"))
        values = [column.offsets[0], column.offsets[-1]] if checked and len(offsets) else column.offsets.tolist()
        # Sorting what is already sorted is one pass in C: the cheapest whole check there is without numpy.
        if not values or values[0] < 0 or sorted(values) != values:
            raise BatchError("a column's offsets must start at zero or more and never decrease")
        if values[-1] - values[0] != len(column.data):
            raise BatchError(f"a column's offsets span {values[-1] - values[0]} bytes, its data has {len(column.data)}")
        return column

    @classmethod
    def of_payloads(cls, body: memoryview, offsets_bytes: int, data_bytes: int, checked: bool) -> BinaryColumn:
        """The column of a body that has payloads only, as most have; errors as of `from_buffers`."""
        if offsets_bytes + data_bytes != len(body):
            raise BatchError(
                f"the header describes a body of {offsets_bytes + data_bytes} bytes, the frame has {len(body)}"
            )
        if data_bytes < 0:
            return cls.from_buffers(body[:offsets_bytes], body[offsets_bytes:], checked)
        offsets = body[:offsets_bytes].cast("i")
        first, last = offsets[0], offsets[-1]
        if last - first != data_bytes or first < 0 or (len(offsets) > 2 and not checked):
            return cls.from_buffers(body[:offsets_bytes], body[offsets_bytes:], checked)
        return cls(offsets, body[offsets_bytes:])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> bytes:
        if not 0 <= index < len(self.offsets) - 1:
            raise IndexError(f"message {index} of a batch of {len(self)}")
        base = self.offsets[0]
        return bytes(self.data[self.offsets[index] - base : self.offsets[index + 1] - base])

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.tolist())

    def tolist(self) -> list[bytes]:
        """Every value as bytes: one copy of the data, then one slice a value."""
        ends = self.offsets.tolist()
        data = bytes(self.data)
        if base := ends[0]:
            ends = [end - base for end in ends]
        return [data[start:end] for start, end in pairwise(ends)]

    def same(self) -> bytes | None:
        """The value that all of them are, of one at least; None where they differ. There is no step of Python for each."""
        data, count = bytes(self.data), len(self.offsets) - 1
        if count == 1:
            return data
        size = self.offsets[1] - self.offsets[0]
        if size * count != len(data) or data[:size] * count != data:
            return None
        first = self.offsets[0]
        even = [first] * (count + 1) if not size else list(range(first, self.offsets[-1] + 1, size))
        return data[:size] if self.offsets.tolist() == even else None

    def slice(self, start: int, stop: int) -> BinaryColumn:
        """Values start <= i < stop, sharing the buffers."""
        offsets = self.offsets
        base = offsets[0]
        return BinaryColumn(offsets[start : stop + 1], self.data[offsets[start] - base : offsets[stop] - base])

    def copy(self) -> BinaryColumn:
        """The same in memory of its own; the offsets stay as they are."""
        return BinaryColumn(memoryview(self.offsets.tobytes()).cast("i"), memoryview(bytes(self.data)))

    @property
    def nbytes(self) -> int:
        """Bytes of both buffers."""
        return len(self.offsets) * OFFSET_BYTES + len(self.data)


class MessageBatch:
    """Immutable batch of n >= 1 messages in columns.

    Attributes:
        payloads: the payloads.
        ids: memoryview of 16 * n bytes, or None where the broker's generated ids hold.
        keys: one key a message, empty for none; None where no message has one.
        headers: one msgpack map a message, empty for none; None where no message has one.
        count: how many messages it has, which is its ``len()`` too.
        nbytes: bytes of all columns, which is the size of the batch's body on the wire.
    """

    __slots__ = ("count", "headers", "ids", "keys", "nbytes", "payloads")

    def __init__(
        self,
        payloads: BinaryColumn,
        ids: memoryview | None = None,
        keys: BinaryColumn | None = None,
        headers: BinaryColumn | None = None,
        nbytes: int | None = None,
    ) -> None:
        self.payloads = payloads
        self.ids = ids
        self.keys = keys
        self.headers = headers
        # Asked for at every station of a batch's way.
        self.count = len(payloads.offsets) - 1
        self.nbytes = self._size() if nbytes is None else nbytes

    @classmethod
    def from_payloads(cls, payloads: Sequence[bytes]) -> MessageBatch:
        """Build a batch of bare payloads."""
        if not payloads:
            raise BatchError("a batch holds at least one message")
        return cls(BinaryColumn.from_values(payloads))

    @classmethod
    def from_messages(cls, messages: Sequence[Message]) -> MessageBatch:
        """Build a batch with the columns that at least one message needs.

        Raises:
            BatchError: no message, ids on only some of them or not of 16 bytes, or too many headers on one.
        """
        if not messages:
            raise BatchError("a batch holds at least one message")
        payloads = BinaryColumn.from_values([message.payload for message in messages])
        ids, keys, headers = None, None, None
        if given := [message.id for message in messages if message.id is not None]:
            if len(given) != len(messages) or any(len(value) != ID_BYTES for value in given):
                raise BatchError(f"either every message of a batch has an id of {ID_BYTES} bytes or none has")
            ids = memoryview(b"".join(given))
        if any(message.key or message.routing_key for message in messages):
            keys = BinaryColumn.from_values([message.key_column for message in messages])
        if any(message.headers or message.group or message.deduplication_id is not None for message in messages):
            headers = BinaryColumn.from_values([pack_headers(message.all_headers) for message in messages])
        return cls(payloads, ids, keys, headers)

    def __len__(self) -> int:
        return self.count

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MessageBatch):
            return NotImplemented
        return self is other or self.messages() == other.messages()

    __hash__ = None  # type: ignore[assignment]  # equal by value over large buffers: never a key

    def __repr__(self) -> str:
        return f"MessageBatch(count={len(self)}, nbytes={self.nbytes})"

    def _size(self) -> int:
        total = self.payloads.nbytes
        if self.ids is not None:
            total += len(self.ids)
        if self.keys is not None:
            total += self.keys.nbytes
        if self.headers is not None:
            total += self.headers.nbytes
        return total

    def slice(self, start: int, stop: int) -> MessageBatch:
        """Messages start <= i < stop, sharing the buffers."""
        if start == 0 and stop == len(self):
            return self
        return MessageBatch(
            self.payloads.slice(start, stop),
            None if self.ids is None else self.ids[start * ID_BYTES : stop * ID_BYTES],
            None if self.keys is None else self.keys.slice(start, stop),
            None if self.headers is None else self.headers.slice(start, stop),
        )

    def held_bytes(self) -> int:
        """Bytes of the memory that its buffers are parts of, which is there as long as it is: a frame, a record, a larger batch."""
        return sum(memoryview(owner).nbytes for owner in {id(view.obj): view.obj for view in self.buffers()}.values())

    def compact(self) -> MessageBatch:
        """The same messages for whoever keeps them: in memory of their own, where they share one that is much larger."""
        held, size = self.held_bytes(), self.nbytes
        if held - size <= COMPACT_SLACK or held <= COMPACT_SHARE * size:
            return self
        return self._copied(self.payloads.copy())

    def without_payloads(self) -> MessageBatch:
        """Its other columns, in memory of their own, beside payloads of no bytes."""
        return self._copied(BinaryColumn(memoryview(bytes(OFFSET_BYTES * (len(self) + 1))).cast("i"), memoryview(b"")))

    def _copied(self, payloads: BinaryColumn) -> MessageBatch:
        """A copy of all but the payloads, beside these."""
        return MessageBatch(
            payloads,
            None if self.ids is None else memoryview(bytes(self.ids)),
            None if self.keys is None else self.keys.copy(),
            None if self.headers is None else self.headers.copy(),
        )

    def prefix_bytes(self, count: int) -> int:
        """Bytes of the body of ``slice(0, count)``; zero for count 0."""
        if count == 0:
            return 0
        total = self._column_prefix(self.payloads, count)
        if self.ids is not None:
            total += count * ID_BYTES
        if self.keys is not None:
            total += self._column_prefix(self.keys, count)
        if self.headers is not None:
            total += self._column_prefix(self.headers, count)
        return total

    def count_within(self, limit: int, start: int = 0) -> int:
        """How many messages from ``start`` on a byte demand of ``limit`` lets through.

        Demand lets messages through while it is not used up, so the last of them may lead beyond it: the largest k such that the first
        k - 1 take less than ``limit`` bytes; 0 when ``limit`` is 0.
        """
        if limit <= 0:
            return 0
        remaining = len(self) - start
        tail = self if start == 0 else self.slice(start, len(self))
        if tail.nbytes <= limit:
            return remaining
        return bisect_left(range(1, remaining), limit, key=tail.prefix_bytes) + 1

    def message(self, index: int) -> Message:
        """Message ``index`` as an object, its parts copied out."""
        return Message(
            self.payloads[index],
            (self.keys[index] or None) if self.keys is not None else None,
            unpack_headers(self.headers[index]) if self.headers is not None else None,
            bytes(self.ids[index * ID_BYTES : (index + 1) * ID_BYTES]) if self.ids is not None else None,
        )

    def messages(self) -> list[Message]:
        """Every message as an object."""
        return [self.message(index) for index in range(len(self))]

    def descriptor(self) -> tuple[int, int, bool, int | None, int | None]:
        """The five header fields that describe the body: count, data, ids?, keys, headers (bytes)."""
        return (
            len(self),
            len(self.payloads.data),
            self.ids is not None,
            None if self.keys is None else len(self.keys.data),
            None if self.headers is None else len(self.headers.data),
        )

    def buffers(self) -> list[memoryview]:
        """The body: the columns' buffers in wire order, as views of bytes: whoever writes them counts bytes by their length."""
        parts = [self.payloads.offsets.cast("B"), self.payloads.data]
        if self.ids is not None:
            parts.append(self.ids)
        for column in (self.keys, self.headers):
            if column is not None:
                parts += (column.offsets.cast("B"), column.data)
        return parts

    @classmethod
    def from_body(
        cls,
        count: int,
        data_bytes: int,
        has_ids: bool,
        keys_bytes: int | None,
        headers_bytes: int | None,
        body: Buffer,
        checked: bool = False,
    ) -> MessageBatch:
        """Wrap a body without copying it; ``checked`` as in `BinaryColumn.from_buffers`.

        Raises:
            BatchError: a body whose size is not what the descriptor says, or columns that do not hold together.
        """
        if count < 1:
            raise BatchError(f"a batch holds at least one message, its header says {count}")
        offsets_bytes, view = OFFSET_BYTES * (count + 1), memoryview(body)
        if not has_ids and keys_bytes is None and headers_bytes is None:
            return cls(BinaryColumn.of_payloads(view, offsets_bytes, data_bytes, checked), nbytes=len(view))
        sizes = [offsets_bytes, data_bytes, ID_BYTES * count if has_ids else 0]
        for column_bytes in (keys_bytes, headers_bytes):
            sizes += [0, 0] if column_bytes is None else [offsets_bytes, column_bytes]
        if sum(sizes) != len(view):
            raise BatchError(f"the header describes a body of {sum(sizes)} bytes, the frame has {len(view)}")
        part = [view[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]
        return cls(
            BinaryColumn.from_buffers(part[0], part[1], checked),
            part[2] if has_ids else None,
            None if keys_bytes is None else BinaryColumn.from_buffers(part[3], part[4], checked),
            None if headers_bytes is None else BinaryColumn.from_buffers(part[5], part[6], checked),
        )

    @staticmethod
    def _column_prefix(column: BinaryColumn, count: int) -> int:
        return OFFSET_BYTES * (count + 1) + column.offsets[count] - column.offsets[0]


def pack_headers(headers: Mapping[str, HeaderValue] | None) -> bytes:
    """One message's headers as a msgpack map; empty for none.

    Raises:
        BatchError: more than ``MAX_HEADERS_PER_MESSAGE``, or a name or value of the wrong type.
    """
    if not headers:
        return b""
    if len(headers) > MAX_HEADERS_PER_MESSAGE:
        raise BatchError(
            f"{len(headers)} headers on one message exceed {MAX_HEADERS_PER_MESSAGE}; put them in the payload"
        )
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str | bytes):
            raise BatchError(
                f"header {name!r} must be a string with a string or bytes value, not {type(value).__name__}"
            )
    return bytes(msgpack.packb(dict(headers)))


def unpack_headers(packed: bytes) -> dict[str, HeaderValue] | None:
    """The reverse of `pack_headers`; raises BatchError for bytes that are no such map."""
    if not packed:
        return None
    try:
        headers = msgpack.unpackb(
            packed, max_map_len=MAX_HEADERS_PER_MESSAGE + MORE_HEADERS, max_array_len=0, max_ext_len=0
        )
    except (ValueError, msgpack.UnpackException) as error:
        raise BatchError(f"headers that are not a msgpack map of strings: {error}") from error
    if not isinstance(headers, dict):
        raise BatchError(f"headers must be a msgpack map, not {type(headers).__name__}")
    for name, value in headers.items():
        if not isinstance(name, str) or not isinstance(value, str | bytes):
            raise BatchError(f"header {name!r:.40} is not a string with a string or bytes value")
    return headers
