"""A segment's salt is found again from its records, whatever they hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from journal.format import (
    COMPACTED,
    FIRST_LSN,
    LOG,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    pack_record,
    unpack_record_header,
)
from journal.salt import header_from_records, salt_from_record

SALTS = st.tuples(st.lists(st.integers(1, 255), min_size=4, max_size=4).map(bytes), st.binary(min_size=4, max_size=4))
HEADERS = st.builds(
    lambda kind, salt: SegmentHeader(7, kind, FIRST_LSN, salt[0] + salt[1]), st.sampled_from([LOG, COMPACTED]), SALTS
)


def packed(header: SegmentHeader, payloads: list[bytes]) -> list[bytes]:
    """Records with these payloads; those of a combined segment are some numbers apart."""
    apart = 1 if header.kind == LOG else 3
    return [pack_record(header, FIRST_LSN + apart * at, 1, 1, 0, 0, payload) for at, payload in enumerate(payloads)]


@given(HEADERS, st.binary(max_size=300))
def test_one_whole_record_tells_the_salt(header: SegmentHeader, payload: bytes) -> None:
    (record,) = packed(header, [payload])
    assert salt_from_record(unpack_record_header(record), memoryview(record)) == header.salt


@given(
    HEADERS, st.lists(st.binary(max_size=60), min_size=3, max_size=9), st.binary(min_size=48, max_size=48), st.data()
)
def test_the_header_is_found_behind_any_damage_to_it_where_two_records_are_whole(
    header: SegmentHeader, payloads: list[bytes], damaged: bytes, data: st.DataObject
) -> None:
    assert len(damaged) == SEGMENT_HEADER_BYTES
    records = packed(header, payloads)
    hurt = data.draw(st.none() | st.integers(0, len(records) - 1))
    if hurt is not None:
        # Its length stays, or where the next begins would be told by the mark alone.
        records[hurt] = records[hurt][:-1] + bytes([records[hurt][-1] ^ 1])
    assert header_from_records(damaged + b"".join(records), 7, header.kind, FIRST_LSN) == header


def test_a_mark_that_payloads_hold_more_often_than_records_begin_with_one_misleads_nobody() -> None:
    header = SegmentHeader(7, LOG, FIRST_LSN, bytes([1, 1, 1, 1, 0, 0, 0, 0]))
    often = bytes([1, 1, 1, 2])
    damaged = bytes(32) + often + bytes(SEGMENT_HEADER_BYTES - 36)
    records = packed(header, [b"", 4 * often, 4 * often])
    assert header_from_records(damaged + b"".join(records), 7, LOG, FIRST_LSN) == header


def test_a_record_that_stands_in_several_payloads_confirms_no_salt() -> None:
    header = SegmentHeader(7, LOG, FIRST_LSN, bytes([1, 1, 1, 1, 0, 0, 0, 0]))
    foreign = SegmentHeader(7, LOG, FIRST_LSN, b"foreign!")
    (inner,) = packed(foreign, [b"looks like one"])
    damaged = bytes(32) + foreign.salt[:4] + bytes(SEGMENT_HEADER_BYTES - 36)
    records = packed(header, [b"first", inner + b"-", inner + b"-", inner + b"-"])
    # Two records are whole, and three copies of another's stand in payloads.
    records[2:] = [record[:-1] + end for record, end in zip(records[2:], (b"x", b"y"), strict=True)]
    assert header_from_records(damaged + b"".join(records), 7, LOG, FIRST_LSN) == header


FOREIGN = SegmentHeader(7, LOG, FIRST_LSN, b"foreign!")
OWN = SegmentHeader(7, LOG, FIRST_LSN, b"own-salt")
PIECE = b"".join(packed(FOREIGN, [b"x"] * 8))
"""A piece of another journal, which somebody has sent as a message: as many records as are asked for the salt."""


def test_a_piece_of_another_journal_in_a_payload_is_not_taken_for_the_segment() -> None:
    records = packed(OWN, [b"first", PIECE] + [b"mine"] * 30)
    damaged = bytes(32) + FOREIGN.salt[:4] + bytes(SEGMENT_HEADER_BYTES - 36)
    assert header_from_records(damaged + b"".join(records), 7, LOG, FIRST_LSN) == OWN


def test_nor_is_it_where_a_damaged_length_lets_its_records_look_like_the_next() -> None:
    first, *others = packed(OWN, [PIECE] + [b"mine"] * 30)
    length = len(PIECE).to_bytes(4, "little")
    assert first.count(length) == 1
    content = bytes(SEGMENT_HEADER_BYTES) + first.replace(length, bytes(4)) + b"".join(others)
    assert header_from_records(content, 7, LOG, FIRST_LSN) == OWN


def test_no_header_is_made_up_where_only_one_record_is_there() -> None:
    header = SegmentHeader(7, LOG, FIRST_LSN, b"saltsalt")
    (record,) = packed(header, [b"alone"])
    assert header_from_records(bytes(SEGMENT_HEADER_BYTES) + record, 7, LOG, FIRST_LSN) is None
