"""Framing: every cut of a stream gives the same frames, and bytes that are no frame give one error and little memory."""

from __future__ import annotations

import errno
import mmap
import struct
from itertools import pairwise
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decoding import FrameDecoder
from transport.broker.memory import resident_bytes
from transport.errors import FrameTooLargeError, LocalProtocolError, RemoteProtocolError
from transport.wire.frames import (
    CONTROL_FRAME_BYTES,
    FIRST_PARTIAL_BYTES,
    HANDSHAKE_FRAME_BYTES,
    MAPPED_BYTES,
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    MAX_HEADER_ITEMS,
    RawFrame,
    encode_frame,
)
from transport.wire.receiving import SHARED_BUFFER_BYTES

Plain = tuple[list[Any], bytes]


def wire(header: list[Any], body: bytes = b"") -> bytes:
    return b"".join(encode_frame(header, [body]))


def prefixed(length: int, header_length: int, rest: bytes) -> bytes:
    return struct.pack(">IH", length, header_length) + rest


def around(packed: bytes, body: bytes = b"") -> bytes:
    """A well-formed frame around a header that need not be one."""
    return prefixed(6 + len(packed) + len(body), len(packed), packed + body)


def plain(frames: list[RawFrame]) -> list[Plain]:
    return [(header, bytes(body)) for header, body in frames]


def decoder(max_frame_bytes: int = MAX_FRAME_BYTES) -> FrameDecoder:
    return FrameDecoder(max_frame_bytes)


def feed(target: FrameDecoder, pieces: list[bytes]) -> list[Plain]:
    """As asyncio does: ask for a buffer, fill it as far as the piece goes, say how much."""
    frames: list[RawFrame] = []
    for piece in pieces:
        view = memoryview(piece)
        while view:
            buffer = target.get_buffer()
            assert len(buffer) > 0, "asyncio takes an empty buffer for a fatal error"
            taken = min(len(buffer), len(view))
            buffer[:taken] = view[:taken]
            view = view[taken:]
            frames += target.buffer_updated(taken)
    return plain(frames)


def cut(data: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted(edge % (len(data) + 1) for edge in at), len(data)]
    return [data[start:end] for start, end in pairwise(edges) if end > start]


EXAMPLES: list[Plain] = [
    ([4, 7], b""),
    ([17, 0, None, 1, 3, False, None, None], b"\x00\x00\x00\x00\x03\x00\x00\x00abc"),
    ([1, 1, "sender", "q", None, {}], b""),
    ([65, 1], b"x" * 70_000),
    ([65, 2], bytes(range(256)) * 1500),
]

headers = st.lists(
    st.none() | st.booleans() | st.integers(0, 2**64 - 1) | st.text(max_size=20) | st.binary(max_size=20),
    min_size=1,
    max_size=12,
)
bodies = st.binary(max_size=300) | st.integers(0, 200_000).map(lambda size: b"\xab" * size)
streams = st.lists(st.tuples(headers, bodies), min_size=1, max_size=6)


@pytest.mark.parametrize("frame", EXAMPLES, ids=lambda frame: f"type-{frame[0][0]}-body-{len(frame[1])}")
def test_a_frame_fed_whole_comes_out_as_it_went_in(frame: Plain) -> None:
    assert feed(decoder(), [wire(*frame)]) == [frame]


@pytest.mark.parametrize("frame", EXAMPLES[:3], ids=lambda frame: f"type-{frame[0][0]}")
def test_a_frame_fed_byte_by_byte_comes_out_with_its_last_byte(frame: Plain) -> None:
    data, target = wire(*frame), decoder()
    for position in range(len(data) - 1):
        assert feed(target, [data[position : position + 1]]) == []
        assert target.mid_event
    assert feed(target, [data[-1:]]) == [frame]
    assert not target.mid_event


@pytest.mark.parametrize("trailing", [b"\x00", b"\x00\x00\x00\x09\x00", wire([4, 1])[:-1]])
def test_trailing_bytes_wait_for_the_rest_of_their_frame(trailing: bytes) -> None:
    target = decoder()
    assert feed(target, [wire([4, 9]) + trailing]) == [([4, 9], b"")]
    assert target.mid_event


@given(streams, st.lists(st.integers(0, 2**31), max_size=12))
def test_wherever_a_stream_is_cut_the_same_frames_come_out(frames: list[Plain], at: list[int]) -> None:
    data = b"".join(wire(header, body) for header, body in frames)
    target = decoder()
    assert feed(target, cut(data, at)) == frames
    assert not target.mid_event


@given(streams, st.lists(st.integers(0, 2**31), max_size=4))
def test_bytes_at_hand_are_cut_as_received_ones_are(frames: list[Plain], at: list[int]) -> None:
    data = b"".join(wire(header, body) for header, body in frames)
    target = decoder()
    found = [frame for piece in cut(data, at) for frame in plain(target.receive_data(piece))]
    assert found == frames


@given(headers, bodies)
def test_encoding_then_decoding_gives_header_and_body_back(header: list[Any], body: bytes) -> None:
    assert feed(decoder(), [wire(header, body)]) == [(header, body)]


@given(st.binary(max_size=600), st.lists(st.integers(0, 2**31), max_size=6))
def test_whatever_the_bytes_the_answer_is_frames_or_our_error(data: bytes, at: list[int]) -> None:
    target = decoder(HANDSHAKE_FRAME_BYTES)
    try:
        frames = feed(target, cut(data, at))
    except RemoteProtocolError:
        return
    assert all(isinstance(header, list) and header for header, _ in frames)


@given(st.binary(min_size=1, max_size=80))
def test_whatever_the_header_the_answer_is_a_frame_or_our_error(packed: bytes) -> None:
    target = decoder()
    try:
        frames = feed(target, [around(packed)])
    except RemoteProtocolError:
        return
    assert len(frames) == 1


@given(st.data())
def test_a_frame_with_one_byte_changed_gives_frames_or_our_error(data: st.DataObject) -> None:
    good = bytearray(wire([17, 5, None, 2, 4, False, None, None], struct.pack("<3i", 0, 2, 4) + b"abcd"))
    position = data.draw(st.integers(0, len(good) - 1))
    good[position] = data.draw(st.integers(0, 255))
    try:
        frames = feed(decoder(), [bytes(good)])
    except RemoteProtocolError:
        return
    assert len(frames) <= 1


def test_bodies_own_their_memory_whatever_arrives_later() -> None:
    target = decoder()
    frames = target.receive_data(wire([65, 1], b"first") + wire([65, 2], b"second"))
    target.receive_data(wire([65, 3], b"\xff" * 2000))
    assert [bytes(frame.body) for frame in frames] == [b"first", b"second"]


@pytest.mark.parametrize(("name", "body"), [(4_000, 1), (4_000, 900), (900, 1), (20, 10_000), (3_000, 100_000)])
def test_a_body_that_is_kept_keeps_little_beside_itself_in_however_many_pieces_it_came(name: int, body: int) -> None:
    data = wire([1, "n" * name], b"b" * body)
    target = decoder()
    frames = target.receive_data(data[:50]) + target.receive_data(data[50:])
    assert plain(frames) == [([1, "n" * name], b"b" * body)]
    assert memoryview(frames[0].body.obj).nbytes <= body + max(1_100, body)


def test_two_decoders_of_one_thread_do_not_mix_their_frames() -> None:
    one, other = decoder(), decoder()
    first, second = wire([65, 1], b"a" * 5000), wire([65, 2], b"b" * 5000)
    assert feed(one, [first[:100]]) == []
    assert feed(other, [second[:3000]]) == []
    assert feed(one, [first[100:]]) == [([65, 1], b"a" * 5000)]
    assert feed(other, [second[3000:]]) == [([65, 2], b"b" * 5000)]


def partial_bytes(target: FrameDecoder) -> int:
    """Memory that the decoder itself may fill."""
    return 0 if target._partial is None else target._granted


@pytest.mark.parametrize("arrived", [6, 7, 1000, 100_000, 1_000_000, 5_000_000])
def test_memory_is_bounded_by_what_arrived_not_by_what_was_announced(arrived: int) -> None:
    target = decoder()
    head = prefixed(MAX_FRAME_BYTES, 2, msgpack.packb([65, 1]))
    feed(target, [(head + b"\x00" * arrived)[:arrived]])
    assert target.mid_event
    # Twice what is there, when the buffer has just grown; what the shared buffer took at once counts with it.
    assert partial_bytes(target) <= max(FIRST_PARTIAL_BYTES, 2 * (arrived + SHARED_BUFFER_BYTES))


def test_a_large_frame_grows_where_it_lies_and_takes_no_pages_that_nothing_was_written_to() -> None:
    head = prefixed(MAX_FRAME_BYTES, 3, msgpack.packb([65, 1]))
    targets = [decoder() for _ in range(20)]
    before = resident_bytes()
    held = []
    for target in targets:
        feed(target, [head, b"\1" * MAPPED_BYTES])
        held.append(target._partial)
        feed(target, [b"\1" * MAPPED_BYTES])
        assert target._partial is held[-1]
    came = len(targets) * 2 * MAPPED_BYTES
    # Twice what came for the pieces themselves, and what the C library keeps of them; announced was sixteen times as much.
    assert resident_bytes() - before < 3 * came
    frames = targets[0].receive_data(b"\1" * (MAX_FRAME_BYTES - 2 * MAPPED_BYTES - len(head)))
    assert [frame.body.obj for frame in frames] == held[:1], "handed on uncopied"


def test_where_nothing_more_can_be_mapped_a_large_frame_is_taken_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object, **_kwargs: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", type("mmap", (), {"__new__": full}))
    body = bytes(range(256)) * 16 * 1024
    assert feed(decoder(), [wire([65, 1], body)]) == [([65, 1], body)]


def test_the_largest_frame_is_taken_and_one_byte_more_is_not() -> None:
    packed = msgpack.packb([65, 1])
    body = b"\x00" * (MAX_FRAME_BYTES - 6 - len(packed))
    assert feed(decoder(), [wire([65, 1], body)]) == [([65, 1], body)]
    with pytest.raises(FrameTooLargeError) as caught:
        feed(decoder(), [prefixed(MAX_FRAME_BYTES + 1, len(packed), packed)])
    assert (caught.value.length, caught.value.limit) == (MAX_FRAME_BYTES + 1, MAX_FRAME_BYTES)


def test_before_hello_is_answered_a_frame_is_at_most_4_kib() -> None:
    assert HANDSHAKE_FRAME_BYTES == 4096
    fits = wire([65, 1], b"\x00" * (4096 - 6 - 3))
    assert len(fits) == 4096
    assert len(feed(FrameDecoder(), [fits])) == 1
    with pytest.raises(FrameTooLargeError, match="4097 bytes exceeds the limit of 4096"):
        feed(FrameDecoder(), [prefixed(4097, 3, b"")])


@pytest.mark.parametrize("length", [0, 1, 6])
@pytest.mark.parametrize("piece", [1, 3, 6, 100])
def test_a_length_below_the_shortest_frame_is_refused(length: int, piece: int) -> None:
    data = prefixed(length, 0, b"")
    with pytest.raises(RemoteProtocolError, match="shorter than the shortest"):
        feed(decoder(), [data[start : start + piece] for start in range(0, len(data), piece)])


@pytest.mark.parametrize("length", [2**32 - 1, 2**31, MAX_FRAME_BYTES + 1])
def test_a_length_over_the_limit_is_refused_before_anything_is_allocated(length: int) -> None:
    target = decoder()
    with pytest.raises(FrameTooLargeError):
        feed(target, [prefixed(length, 10, b"")])
    assert partial_bytes(target) <= FIRST_PARTIAL_BYTES


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        (b"GET / HTTP/1.1\r\n", "an HTTP request"),
        (b"POST / HTTP/1.1\r\n", "an HTTP request"),
        (b"PRI * HTTP/2.0\r\n", "an HTTP request"),
        (b"HTTP/1.1 400 Bad Request\r\n", "an HTTP server's answer"),
        (b"\x16\x03\x01\x02\x00\x01", "the hello of TLS, and this address is without it"),
        (b"\x15\x03\x03\x00\x02\x02", "an alert of TLS"),
        (b"SSH-2.0-OpenSSH\r\n", "the hello of SSH"),
    ],
)
@pytest.mark.parametrize("limit", [HANDSHAKE_FRAME_BYTES, CONTROL_FRAME_BYTES, MAX_FRAME_BYTES])
@pytest.mark.parametrize("piece", [1, 100])
def test_the_beginning_of_another_protocol_is_recognised(sent: bytes, what: str, limit: int, piece: int) -> None:
    with pytest.raises(RemoteProtocolError, match=f"this is no frame but {what}"):
        feed(decoder(limit), [sent[start : start + piece] for start in range(0, len(sent), piece)])


@pytest.mark.parametrize(
    ("limit", "advice"),
    [
        (HANDSHAKE_FRAME_BYTES, "the first frame is HELLO"),
        (CONTROL_FRAME_BYTES, "in this role frames have a header only"),
        (MAX_FRAME_BYTES, "send smaller batches"),
    ],
)
def test_a_frame_over_the_limit_is_refused_with_advice_that_fits(limit: int, advice: str) -> None:
    with pytest.raises(
        FrameTooLargeError, match=f"a frame of {limit + 1} bytes exceeds the limit of {limit}; {advice}"
    ):
        feed(decoder(limit), [prefixed(limit + 1, 10, b"")])


def test_a_header_longer_than_its_frame_or_its_limit_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="does not fit its frame"):
        feed(decoder(), [prefixed(20, 15, b"\x00" * 14)])
    with pytest.raises(RemoteProtocolError, match=f"exceeds {MAX_HEADER_BYTES}"):
        feed(decoder(), [prefixed(10_000, MAX_HEADER_BYTES + 1, b"")])


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\x05",
        b"\x80",
        b"\xa1x",
        b"\x90",
        b"\x91",
        b"\x91\xc1",
        b"\x91\x04\x00",
        b"\x92\x04\xa1\xff",
        b"\x92\x04\xd4\x05x",
        b"\x92\x04\xc7\x04\x05abcd",
        b"\x92\x04\xd6\xff\x00\x00\x00\x01",
        b"\x92\x04\x81\x01\x02",
        b"\x91" * 1100 + b"\x00",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
    ],
    ids=[
        "empty",
        "integer",
        "map",
        "string",
        "no-type",
        "array-without-element",
        "reserved-byte",
        "bytes-after-it",
        "invalid-utf-8",
        "extension",
        "long-extension",
        "timestamp",
        "integer-key",
        "nested-too-deep",
        "huge-array",
        "huge-map",
        "huge-string",
        "huge-binary",
    ],
)
def test_a_header_that_is_no_bounded_msgpack_array_is_refused(packed: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        feed(decoder(), [around(packed)])


def test_an_extension_of_no_bytes_is_an_extension_too() -> None:
    with pytest.raises(RemoteProtocolError):
        feed(decoder(), [around(b"\x92\x04\xc7\x00\x05")])


def test_arrays_and_maps_in_a_header_have_at_most_1024_elements() -> None:
    assert len(feed(decoder(), [wire([34, [1] * MAX_HEADER_ITEMS])])) == 1
    with pytest.raises(RemoteProtocolError):
        feed(decoder(), [wire([34, [1] * (MAX_HEADER_ITEMS + 1)])])
    # A map of so many string keys is over the header's bytes first; a forged one announces them only.
    with pytest.raises(RemoteProtocolError):
        feed(decoder(), [around(b"\x92\x04\xde\x04\x01" + b"\xa0\x00" * 1025)])


def test_good_frames_before_a_bad_one_are_given_out_first() -> None:
    target = decoder()
    data = wire([4, 1]) + wire([4, 2]) + prefixed(0, 0, b"")
    assert feed(target, [data]) == [([4, 1], b""), ([4, 2], b"")]
    assert isinstance(target.error, RemoteProtocolError)
    with pytest.raises(RemoteProtocolError, match="shorter than the shortest"):
        feed(target, [b"x"])


def test_good_frames_before_a_bad_one_are_given_out_first_however_much_is_at_hand() -> None:
    target = decoder()
    good = wire([65, 1], b"x" * SHARED_BUFFER_BYTES)
    frames = plain(target.receive_data(good + wire([4, 2]) + prefixed(0, 0, b"") + b"x" * SHARED_BUFFER_BYTES))
    assert [header for header, _ in frames] == [[65, 1], [4, 2]]
    assert isinstance(target.error, RemoteProtocolError)


@pytest.mark.parametrize("first", range(1, 6))
def test_after_an_error_there_is_still_a_buffer_to_discard_into(first: int) -> None:
    # asyncio goes on reading while the peer takes its ERROR, and an empty buffer is a fatal error to it.
    target = decoder()
    data = prefixed(0, 0, b"")
    assert feed(target, [data[:first]]) == []
    with pytest.raises(RemoteProtocolError):
        feed(target, [data[first:]])
    assert len(target.get_buffer()) > 0


def test_what_we_send_is_within_the_limits_that_we_judge_by() -> None:
    with pytest.raises(LocalProtocolError, match="a header of"):
        encode_frame(["x" * MAX_HEADER_BYTES])
    with pytest.raises(LocalProtocolError, match="a frame of"):
        encode_frame([65, 1], [b"\x00" * MAX_FRAME_BYTES])
    with pytest.raises(LocalProtocolError, match="a number of more than 64 bits fits no frame"):
        encode_frame([65, 2**64])


def test_encoding_passes_the_body_on_uncopied() -> None:
    body = memoryview(b"abc" * 1000)
    parts = encode_frame([65, 1], [body])
    assert parts[1] is body


# One frame at a time


@given(
    st.lists(st.tuples(headers, st.binary(max_size=2000)), min_size=1, max_size=30),
    st.lists(st.integers(0, 1 << 20), max_size=8),
    st.lists(st.integers(0, 5), max_size=60),
)
def test_frames_taken_one_by_one_and_kept_between_receives_are_those_of_the_stream(
    examples: list[Plain], cuts: list[int], patience: list[int]
) -> None:
    # After each receive so many are taken and the rest is kept; the shared buffer is overwritten meanwhile, as by other connections.
    data = b"".join(wire(header, body) for header, body in examples)
    target, found, turns = decoder(), [], iter(patience)
    for piece in cut(data, cuts):
        view = memoryview(piece)
        while view:
            buffer = target.get_buffer()
            taken = min(len(buffer), len(view))
            buffer[:taken] = view[:taken]
            view = view[taken:]
            target.received(taken)
            for _ in range(next(turns, 1000)):
                raw = target.next_frame()
                if raw is None:
                    break
                found.append(raw)
            target.keep()
            FrameDecoder().get_buffer()[:] = b"\xff" * SHARED_BUFFER_BYTES
    while (raw := target.next_frame()) is not None:
        found.append(raw)
    assert plain(found) == feed(decoder(), [data])
    assert not target.waiting


def test_what_waits_is_not_decoded_and_takes_the_bytes_that_it_came_with() -> None:
    target = decoder()
    one = wire([4, 7])
    count = len(target.get_buffer()) // len(one)
    target.get_buffer()[: count * len(one)] = one * count
    target.received(count * len(one))
    assert target.next_frame() is not None
    target.keep()
    assert target.waiting
    assert sum(1 for _ in iter(target.next_frame, None)) == count - 1
    assert not target.waiting
    assert not target.mid_event


def test_bad_bytes_behind_frames_that_wait_are_found_when_they_are_reached() -> None:
    target = decoder()
    data = wire([4, 7]) + b"\x00" * 7
    target.get_buffer()[: len(data)] = data
    target.received(len(data))
    assert target.next_frame() is not None
    target.keep()
    with pytest.raises(RemoteProtocolError):
        target.next_frame()
    assert not target.waiting
    with pytest.raises(RemoteProtocolError):
        target.received(1)


def test_a_decoder_that_is_dropped_holds_nothing() -> None:
    target = decoder()
    part = wire([65, 1], bytes(100_000))[:80_000]
    target.get_buffer()[: len(part)] = part
    target.received(len(part))
    assert target.next_frame() is None
    assert target.mid_event
    target.drop()
    assert (target.mid_event, target.waiting) == (False, False)
    assert len(target.get_buffer()) == SHARED_BUFFER_BYTES
