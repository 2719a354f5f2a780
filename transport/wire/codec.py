"""Frames to bytes and back, by the fields that their classes declare. docs/protocol.md, "Frames"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any

from actors.batch import MessageBatch
from actors.errors import BatchError
from transport.errors import RemoteProtocolError
from transport.wire.field_checks import MAX_INTEGER, check_of, is_uint
from transport.wire.frames import RawFrame, encode_frame
from transport.wire.messages import FRAMES, Auth, Frame, Ranges, Result, Send, brief
from transport.wire.receiving import Part


def encode(frame: Frame) -> list[Part]:
    """The buffers of ``frame``, a batch's uncopied.

    Raises:
        LocalProtocolError: a frame over its limits.
    """
    layout = _LAYOUT[frame.TYPE]
    header = [frame.TYPE, *layout.values(frame)]
    body: tuple[Part, ...] | list[Part] = ()
    if layout.has_batch:
        batch = header.pop()
        header += batch.descriptor()
        body = batch.buffers()
        if layout.behind and layout.more(frame) != layout.nothing_more:
            more = [*layout.more(frame)]
            while more[-1] == layout.nothing_more[len(more) - 1]:
                more.pop()
            header += more
    elif layout.has_ranges:
        header[1] = [number for pair in header[1] for number in pair]
    elif layout.frame is Result:
        body = (header.pop(),)
    if layout.usual:
        while len(header) > layout.header_items and header[-1] == layout.usual[len(header) - layout.header_items - 1]:
            header.pop()
    return encode_frame(header, body)


def decode(raw: RawFrame) -> Frame:
    """The value of a raw frame.

    Raises:
        RemoteProtocolError: an unknown type, a missing field or one of the wrong type, or a body that is not as described.
        InvalidNameError: a name out of its limits.
    """
    header, body = raw
    layout = _LAYOUT.get(header[0]) if type(header[0]) is int else None
    if layout is None:
        raise RemoteProtocolError(f"a frame of unknown type {brief(header[0])}")
    cls = layout.frame
    if len(header) < layout.header_items:
        raise RemoteProtocolError(f"{cls.__name__.upper()} has {len(header)} header fields, not {layout.header_items}")
    if len(header) <= layout.plain:
        header = [*header, *layout.usual[len(header) - layout.header_items :]]
    # Numbers, which are most fields, without a call for each.
    for index in layout.numbers:
        value = header[index]
        if type(value) is not int or not 0 <= value <= MAX_INTEGER:
            raise _wrong_field(layout, header)
    for index, check in layout.others:
        if not check(header[index]):
            raise _wrong_field(layout, header)
    values = header[1 : layout.plain + 1]
    if layout.has_batch:
        descriptor = header[layout.header_items - 5 : layout.header_items]
        # What a broker delivers it has checked when it came; only a sender's batch is looked at whole.
        values.append(_decode_batch(cls, descriptor, body, header[1]))
        if layout.behind and len(header) > layout.header_items:
            values += _decode_behind(layout, header[layout.header_items :])
    elif cls is Result:
        values.append(bytes(body))
    elif body:
        raise RemoteProtocolError(f"{cls.__name__.upper()} has a body of {len(body)} bytes; it has none")
    if layout.has_ranges:
        values[0] = decode_ranges(values[0])
    frame: Frame = cls(*values)
    return frame


def _wrong_field(layout: _Layout, header: list[Any]) -> RemoteProtocolError:
    """The error for the first field that is not as it should be; one with a name has an error of its own."""
    name, value = next(
        (name, header[index]) for index, (name, check) in enumerate(layout.checks, 1) if not check(header[index])
    )
    # What was meant for a secret is not said again.
    shown = f"a value of type {type(value).__name__}" if layout.frame is Auth else f"the value {brief(value)}"
    return RemoteProtocolError(f"{layout.frame.__name__.upper()}: field {name} has {shown}")


def _decode_batch(cls: type[Any], descriptor: list[Any], body: memoryview, first: int) -> MessageBatch:
    count, data_bytes, has_ids, keys_bytes, headers_bytes = descriptor
    if not (
        is_uint(count)
        and is_uint(data_bytes)
        and type(has_ids) is bool
        and (keys_bytes is None or is_uint(keys_bytes))
        and (headers_bytes is None or is_uint(headers_bytes))
    ):
        what = [brief(item) for item in descriptor]
        raise RemoteProtocolError(f"{cls.__name__.upper()}: a batch described by {what}")
    if cls is Send and first + count > MAX_INTEGER:
        # What answers it is the number behind the last message.
        raise RemoteProtocolError(f"SEND: {count} messages from number {first} on end beyond {MAX_INTEGER}")
    try:
        return MessageBatch.from_body(
            count, data_bytes, has_ids, keys_bytes, headers_bytes, body, checked=cls is not Send
        )
    except BatchError as error:
        raise RemoteProtocolError(f"{cls.__name__.upper()}: {error}") from error


def _decode_behind(layout: _Layout, items: list[Any]) -> list[Any]:
    """The fields behind a batch, as many as there are; what a later version has behind them is passed over."""
    values = items[: len(layout.behind)]
    for value, (name, check) in zip(values, layout.behind, strict=False):
        if not check(value):
            raise RemoteProtocolError(f"{layout.frame.__name__.upper()}: field {name} has the value {brief(value)}")
    return values


def decode_ranges(flat: list[int]) -> Ranges:
    """The ranges of an ACK, NACK or EXTEND; two that touch are made one, as nothing else is kept for the second."""
    if len(flat) == 2:
        # What most clients say most often.
        first, count = flat
        if count < 1 or first + count > MAX_INTEGER:
            raise _impossible()
        return [(first, count)]
    pairs: Ranges = []
    start = end = -1
    for first, count in zip(flat[::2], flat[1::2], strict=True):
        if count < 1 or first + count > MAX_INTEGER:
            raise _impossible()
        if first == end:
            end += count
            pairs[-1] = (start, end - start)
        else:
            start, end = first, first + count
            pairs.append((first, count))
    return pairs


def _impossible() -> RemoteProtocolError:
    return RemoteProtocolError(f"a range that holds no message or ends beyond {MAX_INTEGER}")


def _nothing(_frame: Any) -> tuple[Any, ...]:
    return ()


class _Layout:
    """What encode and decode need of one frame class, read from its fields once."""

    __slots__ = (
        "behind",
        "checks",
        "frame",
        "has_batch",
        "has_ranges",
        "header_items",
        "more",
        "nothing_more",
        "numbers",
        "others",
        "plain",
        "usual",
        "values",
    )

    def __init__(self, frame: type[Any]) -> None:
        self.frame = frame
        declared = fields(frame)
        names = [each.name for each in declared]
        # A batch, or a body, stands last but for what older peers do not know, and ranges first.
        self.has_batch = "batch" in names
        behind = declared[names.index("batch") + 1 :] if self.has_batch else ()
        self.behind = [(each.name, check_of(each.name, str(each.type))) for each in behind]
        # Two or more, so that it is a tuple.
        self.more: Callable[[Any], Any] = attrgetter(*(each.name for each in behind)) if behind else _nothing
        self.nothing_more = tuple(each.default for each in behind)
        declared = declared[: len(declared) - len(behind)]
        names = names[: len(declared)]
        self.has_ranges = names[0] == "ranges"
        # All in one call; of a single field it would be given bare.
        self.values: Callable[[Any], tuple[Any, ...]] = (
            attrgetter(*names) if len(names) > 1 else lambda each: (getattr(each, names[0]),)
        )
        plain = [each for each in declared if each.name not in ("batch", "json")]
        # Annotations are strings here (from __future__ import annotations), which is what CHECKS is keyed by.
        self.checks = [(each.name, check_of(each.name, str(each.type))) for each in plain]
        self.plain = len(plain)
        self.numbers = [index for index, (_, check) in enumerate(self.checks, 1) if check is is_uint]
        self.others = [(index, check) for index, (_, check) in enumerate(self.checks, 1) if check is not is_uint]
        self.usual = [each.default for each in plain if each.metadata]
        self.header_items = 1 + len(plain) - len(self.usual) + (5 if self.has_batch else 0)


_LAYOUT: dict[int, _Layout] = {kind: _Layout(frame) for kind, frame in FRAMES.items()}
