"""What is packed is unpacked again, and no byte of it can change unnoticed."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import FormatError
from journal.checkpoint_format import Checkpoint, LogFacts, SegmentFacts, pack_checkpoint, unpack_checkpoint
from journal.format import (
    COMPACTED,
    INDEX_HEADER_BYTES,
    LOG,
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    StreamRows,
    pack_index,
    pack_record,
    pack_segment_header,
    record_is_whole,
    summarize,
    unpack_index_header,
    unpack_record_header,
    unpack_rows,
    unpack_segment_header,
    unpack_summary,
)
from journal.items import unpack_items_prefix

U16 = st.integers(0, 2**16 - 1)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
U8 = st.integers(0, 255)
HEADERS = st.builds(
    SegmentHeader,
    U64,
    st.sampled_from([LOG, COMPACTED]),
    U64,
    st.binary(min_size=8, max_size=8),
    st.booleans(),
    st.sampled_from([1, 2]),
)
FACTS = st.builds(SegmentFacts, U64, st.sampled_from([LOG, COMPACTED]), U64, U64, U64, st.booleans())
ASCENDING = st.lists(st.integers(0, 2**40), unique=True, min_size=4, max_size=4).map(sorted)
EPOCHS = st.tuples(ASCENDING, ASCENDING, st.integers(1, 4)).map(
    lambda each: tuple(zip(*each[:2], strict=True))[: each[2]]
)
LOGS = st.builds(LogFacts, st.integers(1, 2**60), st.integers(1, 2**60), EPOCHS)
CHECKPOINTS = st.builds(
    lambda lsn, behind, *others: Checkpoint(lsn, *others, behind=lsn + behind if behind else 0),
    st.integers(0, 2**63),
    st.integers(0, 2**32),
    U32,
    U64,
    st.lists(FACTS, max_size=4).map(tuple),
    st.none() | st.binary(max_size=60),
    st.none() | LOGS,
)


@st.composite
def rows(draw: Any) -> StreamRows:
    columns = StreamRows.empty()
    first = draw(st.integers(0, 2**40))
    for _ in range(draw(st.integers(1, 8))):
        count = draw(st.integers(1, 1000))
        for column, value in zip(columns, (first, count, draw(U32), draw(st.integers(16, 2**30))), strict=True):
            column.append(value)
        first += count + draw(st.integers(0, 100))
    return columns


INDEXES = st.dictionaries(U32, rows(), max_size=4)


def unpack_index(data: bytes) -> tuple[Any, Any, Any]:
    header = unpack_index_header(data[:INDEX_HEADER_BYTES])
    summary = unpack_summary(header, data[: header.summary_bytes])
    return header, summary, unpack_rows(header, summary, data)


@given(HEADERS)
def test_a_segment_header_comes_back(header: SegmentHeader) -> None:
    packed = pack_segment_header(header)
    assert len(packed) == SEGMENT_HEADER_BYTES == 48
    assert unpack_segment_header(packed) == header
    assert header.mark == header.salt[:4]


@given(HEADERS, U64, U32, U8, U8, U16, st.binary(max_size=80))
def test_a_record_comes_back_and_is_whole_in_its_segment_only(
    header: SegmentHeader, lsn: int, epoch: int, kind: int, flags: int, group: int, payload: bytes
) -> None:
    packed = pack_record(header, lsn, epoch, kind, flags, group, payload)
    found = unpack_record_header(packed)
    assert RECORD_HEADER_BYTES == 28
    assert packed[28:] == payload
    assert found[2:] == (len(payload), kind, flags, group, epoch, lsn)
    assert record_is_whole(found, packed, header)
    elsewhere = header._replace(salt=bytes(byte ^ 1 for byte in header.salt))
    assert not record_is_whole(found._replace(mark=elsewhere.mark), packed, elsewhere)


@given(HEADERS, st.binary(max_size=20), st.data())
def test_a_flipped_bit_of_a_record_is_noticed(header: SegmentHeader, payload: bytes, data: Any) -> None:
    packed = bytearray(pack_record(header, 7, 3, 1, 0, 2, payload))
    bit = data.draw(st.integers(0, 8 * len(packed) - 1))
    packed[bit // 8] ^= 1 << bit % 8
    assert not record_is_whole(unpack_record_header(packed), packed, header)


@given(CHECKPOINTS)
def test_a_checkpoint_comes_back(checkpoint: Checkpoint) -> None:
    assert unpack_checkpoint(pack_checkpoint(checkpoint)) == checkpoint


@given(INDEXES, HEADERS, U64, U64)
def test_an_index_comes_back(streams: dict[int, StreamRows], segment: SegmentHeader, stop: int, end: int) -> None:
    data = b"".join(pack_index(segment, stop, end, streams))
    header, summary, found = unpack_index(data)
    assert header[1:5] == (segment.segment_id, segment.first_lsn, stop, end)
    assert summary == summarize(streams)
    assert found == streams
    for position, stream in enumerate(summary.stream):
        of_stream = streams[stream]
        assert summary.first[position] == of_stream.firsts[0]
        assert summary.stop[position] == of_stream.firsts[-1] + of_stream.counts[-1]
        assert summary.items[position] == sum(of_stream.counts)
        assert summary.bytes[position] == sum(of_stream.lengths) + 28 * len(of_stream.lengths)


CHECKPOINT = Checkpoint(
    9, 2, 3, (SegmentFacts(1, LOG, 1, 5, 300, True), SegmentFacts(2, LOG, 5, 0, 0, False)), b"state"
)
ROWS = StreamRows(array("Q", [5, 9]), array("I", [2, 1]), array("I", [48, 99]), array("I", [20, 20]))
FILES = [
    (pack_segment_header(SegmentHeader(1, LOG, 1, b"saltsalt")), unpack_segment_header),
    (pack_checkpoint(CHECKPOINT), unpack_checkpoint),
    (b"".join(pack_index(SegmentHeader(1, LOG, 1, b"saltsalt"), 3, 150, {7: ROWS})), unpack_index),
]


@pytest.mark.parametrize(("data", "unpack"), FILES)
def test_every_flipped_bit_is_noticed(data: bytes, unpack: Any) -> None:
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError):
            unpack(bytes(changed))


@pytest.mark.parametrize("behind", [1, 9])
def test_a_checkpoint_that_contains_less_than_what_is_before_it_is_refused(behind: int) -> None:
    with pytest.raises(FormatError, match="body does not"):
        unpack_checkpoint(pack_checkpoint(CHECKPOINT._replace(behind=behind)))


@pytest.mark.parametrize(("data", "unpack"), FILES)
def test_what_is_cut_short_is_noticed(data: bytes, unpack: Any) -> None:
    for length in range(len(data)):
        with pytest.raises(FormatError):
            unpack(data[:length])


@given(st.binary(max_size=200))
def test_garbage_is_refused_with_the_packages_error(data: bytes) -> None:
    for _, unpack in FILES:
        with pytest.raises(FormatError):
            unpack(data)


@pytest.mark.parametrize("payload", [b"", bytes(15), bytes(16), b"\xff" * 16])
def test_items_that_cannot_be_are_refused(payload: bytes) -> None:
    with pytest.raises(FormatError, match="ITEMS"):
        unpack_items_prefix(payload)
