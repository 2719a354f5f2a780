"""Frames of WebSocket without I/O: whatever pieces a stream comes in, and whatever bytes."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.transport.gateways.http.websocket_client import BINARY, CLOSE, PING, masked
from transport.gateways.http.websocket_frames import (
    FrameReader,
    binary_head,
    close_frame,
    mask,
    mask_plainly,
    pong,
)

messages = st.lists(
    st.tuples(st.binary(max_size=200) | st.binary(min_size=126, max_size=400), st.binary(min_size=4, max_size=4)),
    max_size=8,
)


def fed(reader: FrameReader, said: bytes, cuts: list[int]) -> bytes:
    """The payload of ``said``, received in pieces."""
    found = bytearray()
    places = sorted({min(cut, len(said)) for cut in cuts} | {0, len(said)})
    for start, end in pairwise(places):
        view = memoryview(bytearray(said[start:end]))
        size = reader.unwrap(view, len(view))
        assert size <= len(view)
        found += view[:size]
    return bytes(found)


@given(messages, st.lists(st.integers(0, 3000), max_size=40), st.data())
def test_the_stream_is_the_same_in_whatever_messages_frames_and_pieces_it_comes(
    said: list[tuple[bytes, bytes]], cuts: list[int], data: st.DataObject
) -> None:
    wire = bytearray()
    pings = []
    for payload, key in said:
        places = sorted(data.draw(st.lists(st.integers(0, len(payload)), max_size=3)))
        parts = [payload[a:b] for a, b in zip([0, *places], [*places, len(payload)], strict=True)]
        for index, part in enumerate(parts):
            wire += masked(0 if index else BINARY, part, final=index == len(parts) - 1, key=key)
            if data.draw(st.booleans()):
                pings.append(key)
                wire += masked(PING, key)
    reader = FrameReader()
    assert fed(reader, bytes(wire), cuts) == b"".join(payload for payload, _ in said)
    assert reader.violation is None
    assert reader.ping == (pings[-1] if pings else None)


@given(messages)
def test_one_byte_a_receive_is_as_good_as_all_at_once(said: list[tuple[bytes, bytes]]) -> None:
    wire = b"".join(masked(BINARY, payload, key=key) for payload, key in said) + masked(CLOSE, b"\x03\xe8bye")
    whole, bit_by_bit = FrameReader(), FrameReader()
    assert fed(whole, wire, []) == fed(bit_by_bit, wire, list(range(len(wire)))) == b"".join(p for p, _ in said)
    assert whole.closed == bit_by_bit.closed == 1000


@given(st.binary(max_size=500), st.lists(st.integers(0, 500), max_size=10))
def test_any_bytes_are_a_stream_or_a_violation_and_the_same_however_they_come(said: bytes, cuts: list[int]) -> None:
    one, other = FrameReader(), FrameReader()
    assert fed(one, said, []) == fed(other, said, cuts)
    assert one.violation == other.violation
    assert one.closed == other.closed
    if one.violation is not None:
        assert one.violation.code in (1002, 1003, 1009)
        # It says no more, whatever comes.
        assert fed(one, masked(BINARY, b"more"), []) == b""


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_what_comes_behind_a_close_frame_is_not_looked_at(before: bytes, behind: bytes) -> None:
    reader = FrameReader()
    assert fed(reader, masked(BINARY, before) + masked(CLOSE, b"") + behind, []) == before
    assert (reader.closed, reader.violation) == (1005, None)


@given(st.binary(min_size=4, max_size=4), st.binary(max_size=300))
def test_a_mask_in_python_is_the_one_in_c(key: bytes, data: bytes) -> None:
    plainly, fast = bytearray(data), bytearray(data)
    mask_plainly(key, plainly)
    mask(key, fast)
    assert plainly == fast == bytes(byte ^ key[at % 4] for at, byte in enumerate(data))


def test_heads_of_a_servers_frames_are_as_short_as_they_can_be() -> None:
    assert [binary_head(size) for size in (0, 125, 126, 65535, 65536)] == [
        b"\x82\x00",
        b"\x82\x7d",
        b"\x82\x7e\x00\x7e",
        b"\x82\x7e\xff\xff",
        b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00",
    ]
    assert pong(b"x") == b"\x8a\x01x"
    assert close_frame(1005) == b"\x88\x00"
    assert close_frame(1001, "gone") == b"\x88\x06\x03\xe9gone"
    assert len(close_frame(1001, "x" * 200)) == 2 + 125
