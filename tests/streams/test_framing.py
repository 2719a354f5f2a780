"""Framing: decoders that do not care how the bytes are cut, and what they make of frames that are too long, false or not whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import (
    Flow,
    FrameTooLongError,
    Framing,
    FramingError,
    LineTooLongError,
    Sink,
    Source,
    TruncatedFrameError,
)
from streams.frame_decoders import ByteDelimiterDecoder, DelimiterDecoder, LengthFieldDecoder
from streams.stages.framing import Decoder, LineFraming
from streams.stages.stage import StageFlow
from streams.testkit import TestSink, TestSource, run_in_virtual_time

LIMIT = 12
few_bytes = st.binary(max_size=60).map(lambda data: bytes(b"ab\r\n"[byte % 4] for byte in data))
cuts = st.lists(st.integers(1, 7), max_size=60)


def lines(limit: int = 1000) -> StageFlow[bytes, bytes]:
    return StageFlow(lambda downstream, m: LineFraming(downstream, m, limit), "lines")


def cut(data: bytes, at: Sequence[int]) -> list[bytes]:
    blocks = []
    for size in at:
        blocks.append(data[:size])
        data = data[size:]
    return [block for block in [*blocks, data] if block]


def through(flow: Any, blocks: list[bytes]) -> list[bytes]:
    return Source.from_iterable(blocks).via(flow).to(Sink.collect()).run_blocking()  # type: ignore[no-any-return]


def outcome(decoder: Decoder, blocks: list[bytes]) -> list[bytes] | type[Exception]:
    """The frames, or how it failed."""
    frames: list[bytes] = []
    try:
        for block in blocks:
            frames += decoder.feed(block)
        frames += decoder.finish()
    except FramingError as error:
        return type(error)
    return frames


# Lines


@settings(deadline=None)
@given(few_bytes, cuts)
def test_lines_are_the_same_however_the_bytes_are_cut(data: bytes, at: list[int]) -> None:
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert through(lines(), cut(data, at)) == expected


@pytest.mark.parametrize(
    "blocks", [[b"abcd\n"], [b"ab", b"cd"], [b"x\nabcd\ny\n"], [b"ab", b"cd\n"], [b"x\nab", b"c", b"d"]]
)
def test_a_line_longer_than_the_limit_fails_the_stream_and_names_the_limit(blocks: list[bytes]) -> None:
    with pytest.raises(LineTooLongError, match="limit of 3 bytes") as caught:
        through(lines(3), blocks)
    assert caught.value.limit == 3


def test_a_line_of_exactly_the_limit_passes() -> None:
    assert through(lines(3), [b"a", b"bc\n", b"def"]) == [b"abc", b"def"]


# Delimiters


@pytest.mark.parametrize("delimiter", [b"\n", b"\r\n", b"aa", b"aba"])
@pytest.mark.parametrize("allow_truncation", [True, False])
@settings(deadline=None)
@given(data=few_bytes, at=cuts)
def test_delimited_frames_are_the_same_whole_byte_by_byte_and_cut_anywhere(
    delimiter: bytes, allow_truncation: bool, data: bytes, at: list[int]
) -> None:
    def decode(blocks: list[bytes]) -> list[bytes] | type[Exception]:
        kind = ByteDelimiterDecoder if len(delimiter) == 1 else DelimiterDecoder
        return outcome(kind(delimiter, LIMIT, allow_truncation=allow_truncation), blocks)

    *frames, rest = data.split(delimiter)
    expected: list[bytes] | type[Exception] = [*frames, rest] if rest else frames
    if any(len(frame) > LIMIT for frame in frames):
        expected = FrameTooLongError
    elif len(rest) > LIMIT:
        # Without its end, a frame too long by less than a delimiter cannot be told from one that is only cut off.
        expected = (
            FrameTooLongError if allow_truncation or len(rest) > LIMIT + len(delimiter) - 1 else TruncatedFrameError
        )
    elif rest and not allow_truncation:
        expected = TruncatedFrameError
    assert decode([data]) == expected
    assert decode([bytes([byte]) for byte in data]) == expected
    assert decode(cut(data, at)) == expected


def test_a_delimited_flow_says_what_was_too_long_and_what_is_missing() -> None:
    assert through(Framing.delimiter(b"\r\n", 3), [b"abc\r", b"\n\r\nd\r\n"]) == [b"abc", b"", b"d"]
    with pytest.raises(
        FrameTooLongError, match=r"a frame of 4 bytes or more .* limit of 3 bytes \(max_frame_bytes\)"
    ) as long:
        through(Framing.delimiter(b"|", 3), [b"ab", b"cd|"])
    assert (long.value.size, long.value.limit, long.value.setting) == (4, 3, "max_frame_bytes")
    assert "in the stage delimiter" in long.value.__notes__
    with pytest.raises(TruncatedFrameError, match=r"2 bytes had come: .*b'\|'.*allow_truncation") as short:
        through(Framing.delimiter(b"|", 3), [b"abc|ab"])
    assert short.value.held == 2
    assert through(Framing.delimiter(b"|", 3, allow_truncation=True), [b"abc|ab"]) == [b"abc", b"ab"]


def test_what_came_before_the_cut_off_frame_is_emitted_under_demand_and_then_the_failure() -> None:
    async def main() -> None:
        source, sink = TestSource[bytes](), TestSink[bytes]()
        running = source.via(Framing.delimiter(b"|", 9)).to(sink).run()
        sink.request(1)
        source.probe.send_next(b"a|b|c")
        source.probe.send_complete()
        await sink.expect_next(b"a")
        await sink.expect_no_message()
        await sink.request_next(b"b")
        await sink.expect_error(TruncatedFrameError)
        running.abandon()

    run_in_virtual_time(main())


def test_an_empty_stream_of_bytes_is_an_empty_stream_of_frames_without_being_asked() -> None:
    async def main() -> None:
        for flow in (Framing.delimiter(b"|", 9), Framing.length_field(1, max_frame_bytes=9), lines()):
            sink = TestSink[bytes]()
            running = Source.empty().via(flow).to(sink).run()
            await sink.expect_subscription()
            await sink.expect_complete()
            await running

    run_in_virtual_time(main())


# Length fields

Size = Callable[[bytes, int], int]
whole_size: Size = lambda _before, value: value  # noqa: E731 - of several in a table


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("keep", [True, False])
@settings(deadline=None)
@given(
    length=st.integers(1, 3),
    offset=st.integers(0, 3),
    counts_all=st.booleans(),
    payloads=st.lists(st.binary(max_size=9)),
    trailing=st.integers(0, 4),
    at=cuts,
)
def test_frames_with_a_length_are_the_same_whole_byte_by_byte_and_cut_anywhere(
    order: Any,
    keep: bool,
    length: int,
    offset: int,
    counts_all: bool,
    payloads: list[bytes],
    trailing: int,
    at: list[int],
) -> None:
    header = length + offset
    frames = [
        b"x" * offset + (len(payload) + counts_all * header).to_bytes(length, order) + payload for payload in payloads
    ]
    data = b"".join(frames) + b"x" * min(trailing, header - 1)

    def decode(blocks: list[bytes]) -> list[bytes] | type[Exception]:
        size = whole_size if counts_all else None
        return outcome(LengthFieldDecoder(length, offset, header + 9, order, size, keep_header=keep), blocks)

    expected: Any = frames if keep else payloads
    if min(trailing, header - 1):
        expected = TruncatedFrameError
    assert decode([data]) == expected
    assert decode([bytes([byte]) for byte in data]) == expected
    assert decode(cut(data, at)) == expected


@settings(deadline=None)
@given(st.lists(st.binary(max_size=20)), st.integers(1, 4), st.sampled_from(["big", "little"]), cuts)
def test_encoding_and_decoding_a_length_field_give_back_what_went_in(
    messages: list[bytes], length: int, order: Any, at: list[int]
) -> None:
    encode = Framing.encode_length_field(length, max_frame_bytes=24, byte_order=order)
    decode = Framing.length_field(length, max_frame_bytes=24, byte_order=order, keep_header=False)
    data = b"".join(through(encode, messages))
    assert through(decode, cut(data, at)) == messages


def test_a_frame_that_says_it_is_too_long_is_refused_before_it_is_held() -> None:
    decoder = LengthFieldDecoder(2, 0, 100, "big", None, keep_header=True)
    assert decoder.feed(b"\x00\x62" + b"x" * 98) == [b"\x00\x62" + b"x" * 98]
    with pytest.raises(FrameTooLongError, match="a frame of 101 bytes or more is longer than the limit of 100 bytes"):
        decoder.feed(b"\x00\x63")


def test_a_frame_that_says_it_is_shorter_than_its_header_is_false() -> None:
    flow = Framing.length_field(2, 1, max_frame_bytes=100, compute_frame_size=lambda _before, value: value)
    with pytest.raises(FramingError, match="2 bytes, which is less than its header's 3"):
        through(flow, [b"x\x00\x02"])


def test_the_frame_size_may_depend_on_the_header_and_a_function_that_raises_fails_the_stream() -> None:
    words = Framing.length_field(
        1, 1, max_frame_bytes=100, compute_frame_size=lambda before, value: 2 + value * (4 if before == b"w" else 1)
    )
    assert through(words, [b"b\x02xx" + b"w\x01yyyy"]) == [b"b\x02xx", b"w\x01yyyy"]
    broken = Framing.length_field(1, max_frame_bytes=9, compute_frame_size=lambda _before, value: 1 // value)
    with pytest.raises(ZeroDivisionError) as caught:
        through(broken, [b"\x00"])
    assert "in the stage length_field" in caught.value.__notes__


def test_a_frame_that_is_cut_off_says_what_was_expected() -> None:
    flow = Framing.length_field(2, max_frame_bytes=100)
    with pytest.raises(TruncatedFrameError, match="4 bytes had come: 7 bytes were expected in the frame"):
        through(flow, [b"\x00\x05ab"])
    with pytest.raises(TruncatedFrameError, match="1 bytes had come: 2 bytes were expected in the header"):
        through(flow, [b"\x00"])


def test_an_element_too_long_for_its_length_field_or_the_limit_is_refused() -> None:
    assert through(Framing.encode_length_field(1, max_frame_bytes=1000), [b"x" * 255]) == [b"\xff" + b"x" * 255]
    with pytest.raises(FrameTooLongError, match=r"257 bytes .* 256 bytes \(field_length=1\)"):
        through(Framing.encode_length_field(1, max_frame_bytes=1000), [b"x" * 256])
    with pytest.raises(FrameTooLongError, match=r"11 bytes .* 10 bytes \(max_frame_bytes\)"):
        through(Framing.encode_length_field(4, max_frame_bytes=10), [b"x" * 7])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Framing.delimiter(b"", 9),
        lambda: Framing.delimiter(b"|", 0),
        lambda: Framing.length_field(0, max_frame_bytes=9),
        lambda: Framing.length_field(1, -1, max_frame_bytes=9),
        lambda: Framing.length_field(4, 4, max_frame_bytes=7),
        lambda: Framing.length_field(1, max_frame_bytes=9, byte_order="middle"),  # type: ignore[arg-type]  # what is tested
        lambda: Framing.encode_length_field(0, max_frame_bytes=9),
        lambda: Framing.encode_length_field(4, max_frame_bytes=3),
    ],
)
def test_framing_that_makes_no_sense_is_refused_where_it_is_described(make: Callable[[], Flow[bytes, bytes]]) -> None:
    with pytest.raises(ValueError, match=r"delimiter|max_frame_bytes|field_|byte_order"):
        make()


@pytest.mark.parametrize(
    "decoder",
    [
        lambda n: ByteDelimiterDecoder(b"\n", n, allow_truncation=True),
        lambda n: DelimiterDecoder(b"\r\n", n, allow_truncation=True),
        lambda n: LengthFieldDecoder(4, 0, n, "big", None, keep_header=False),
    ],
    ids=["byte", "delimiter", "length"],
)
def test_a_long_frame_in_small_pieces_takes_a_time_that_grows_with_its_length_only(
    decoder: Callable[[int], Decoder],
) -> None:
    """A decoder that joined or looked through all it holds at each piece would copy 2 * 10^12 bytes here: many minutes."""
    pieces, piece = 500_000, b"x" * 8
    size = pieces * len(piece)
    decode = decoder(size + 4)
    if isinstance(decode, LengthFieldDecoder):
        assert decode.feed(size.to_bytes(4, "big")) == []
    whole = [frame for _ in range(pieces) for frame in decode.feed(piece)] + decode.finish()
    assert [len(frame) for frame in whole] == [size]
