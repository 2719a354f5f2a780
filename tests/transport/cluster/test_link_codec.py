"""What goes over a link comes out as it went in, or as an error: whatever is cut, flipped, lost, doubled or moved on the way."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from actors.replication import vocabulary as say
from actors.replication.document import MAX_EPOCH
from actors.replication.limits import MAX_EPOCH_STARTS
from actors.replication.positions import EpochStart, LogSummary, Position
from journal import ShippedRecord
from journal.format import MAX_PAYLOAD
from tests.transport.cluster.link_messages import ANY, MESSAGES, plain
from transport.cluster import frames
from transport.cluster import transfer_messages as of_transfers
from transport.cluster.frames import (
    BULK,
    FRAME_BYTES,
    HEADER_BYTES,
    PROMPT,
    TRANSFER,
    FrameDamagedError,
    FrameReader,
    FrameWriter,
    Whole,
    frames_of,
)
from transport.cluster.link_codec import MAX_STATE_PIECE_BYTES, SHARED_BYTES, Alive, LinkCodec
from transport.cluster.records import MAX_RECORDS, ROW, Record
from transport.errors import LocalProtocolError, RemoteProtocolError

CODEC = LinkCodec()
SEED = 77


def sent(*messages: Any, seed: int = SEED) -> list[bytes]:
    """The frames of messages, one after another."""
    writer = FrameWriter(seed)
    return [b"".join(frame) for message in messages for frame in writer.cut(*CODEC.encode(message))]


def read(data: bytes, pieces: list[int] | None = None, seed: int = SEED) -> list[Any]:
    """The messages of a stream, which comes in pieces of these sizes, and the rest at once."""
    reader = FrameReader(seed)
    found = []
    for size in [*(pieces or ()), len(data)]:
        taken, data = data[:size], data[size:]
        found += [CODEC.decode(whole) for whole in reader.feed(taken)]
    return found


def decoded(message: Any, body: bytes, lane: int | None = None) -> Any:
    """What is made of another body of a message of this kind."""
    encoded = CODEC.encode(message)
    return CODEC.decode(Whole(encoded.kind, encoded.lane if lane is None else lane, (body,)))


def body_of(message: Any) -> bytes:
    return b"".join(CODEC.encode(message).parts)


def test_each_message_of_the_vocabulary_can_be_sent() -> None:
    assert {*get_args(say.Message), *get_args(of_transfers.TransferMessage), Alive} == MESSAGES.keys()


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_message_comes_out_as_it_went_in(kind: type) -> None:
    @given(MESSAGES[kind])
    @settings(max_examples=30)
    def check(message: Any) -> None:
        (found,) = read(b"".join(sent(message)))
        assert plain(found) == plain(message)

    check()


@given(st.lists(ANY, min_size=1, max_size=5), st.lists(st.integers(1, 400), max_size=20))
def test_messages_keep_their_order_wherever_the_stream_is_cut(messages: list[Any], pieces: list[int]) -> None:
    found = read(b"".join(sent(*messages)), pieces)
    assert [plain(each) for each in found] == [plain(each) for each in messages]


@given(st.lists(ANY, min_size=1, max_size=4), st.data())
def test_a_flipped_bit_is_an_error_or_what_came_before_it(messages: list[Any], data: Any) -> None:
    stream = bytearray(b"".join(sent(*messages)))
    at = data.draw(st.integers(0, len(stream) - 1))
    stream[at] ^= 1 << data.draw(st.integers(0, 7))
    found = []
    reader = FrameReader(SEED)
    try:
        found += [CODEC.decode(whole) for whole in reader.feed(bytes(stream))]
    except FrameDamagedError:
        pass
    else:
        # A length that has become greater waits for more.
        assert reader.mid_message
    assert [plain(each) for each in found] == [plain(each) for each in messages[: len(found)]]
    assert len(found) < len(messages)


@given(st.lists(ANY, min_size=2, max_size=5), st.data())
def test_a_frame_that_is_lost_doubled_or_moved_is_an_error(messages: list[Any], data: Any) -> None:
    whole = sent(*messages)
    changed = list(whole)
    which, other = (data.draw(st.integers(0, len(whole) - 1)) for _ in range(2))
    match data.draw(st.sampled_from(["lost", "doubled", "moved"])):
        case "lost":
            assume(which < len(whole) - 1)
            del changed[which]
        case "doubled":
            changed.insert(which, whole[which])
        case _:
            changed[which], changed[other] = changed[other], changed[which]
            assume(changed != whole)
    with pytest.raises(FrameDamagedError):
        read(b"".join(changed))


@given(ANY)
def test_frames_of_another_connection_are_an_error(message: Any) -> None:
    with pytest.raises(FrameDamagedError, match="checksum"):
        read(b"".join(sent(message, seed=SEED + 1)))


@given(st.sampled_from([*MESSAGES]), st.data())
def test_whatever_a_body_is_it_is_a_message_or_one_clear_error(kind: type, data: Any) -> None:
    """Behind a checksum that holds there is a peer with a defect, at worst."""
    encoded = CODEC.encode(data.draw(MESSAGES[kind]))
    body = bytearray(b"".join(encoded.parts))
    match data.draw(st.sampled_from(["cut", "longer", "flipped", "other"])):
        case "cut":
            del body[data.draw(st.integers(0, max(len(body) - 1, 0))) :]
        case "longer":
            body += data.draw(st.binary(min_size=1, max_size=30))
        case "flipped" if body:
            body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
        case _:
            body = bytearray(data.draw(st.binary(max_size=80)))
    pieces: tuple[bytes, ...] = (bytes(body),)
    if encoded.lane != PROMPT and len(body) > 200 and data.draw(st.booleans()):
        pieces = (bytes(body[:150]), bytes(body[150:]))
    try:
        message = CODEC.decode(Whole(encoded.kind, encoded.lane, pieces))
    except RemoteProtocolError:
        return
    # What it is taken for is what its bytes say.
    again = CODEC.encode(message)
    assert (again.kind, again.lane) == (encoded.kind, encoded.lane)
    assert plain(CODEC.decode(Whole(again.kind, again.lane, (b"".join(again.parts),)))) == plain(message)


# Large messages


def large(*sizes: int) -> say.Replicate:
    payload = bytes(range(256)) * 4096
    made = [Record(10 + n, 3, 1, 0, (payload[n : n + 16], payload[:size])) for n, size in enumerate(sizes)]
    return say.Replicate(3, Position(3, 9), 7, 1.5, made)


@pytest.mark.parametrize(
    "sizes",
    [(FRAME_BYTES,), (1_000_000,), (10, 300_000, 0, 200_000), (50_000,) * 9, (500,) * 400, (10, *[900_000] * 3)],
)
def test_a_message_that_is_larger_than_a_frame_is_split_and_joined(sizes: tuple[int, ...]) -> None:
    message = large(*sizes)
    split = sent(message)
    assert len(split) == frames_of(CODEC.encode(message).size) > 1
    assert max(map(len, split)) <= HEADER_BYTES + FRAME_BYTES
    (found,) = read(b"".join(split))
    assert plain(found) == plain(message)


@pytest.mark.parametrize(("size", "pieces"), [(1_000_000, 1), (3_000_000, frames_of(3_000_000))])
def test_what_is_joined_is_in_one_piece_unless_it_is_so_large_that_memory_is_taken_as_it_comes(
    size: int, pieces: int
) -> None:
    body = bytes(size)
    (whole,) = FrameReader(SEED).feed(
        b"".join(b"".join(frame) for frame in FrameWriter(SEED).cut(BULK, 3, (body,), size))
    )
    assert len(whole.pieces) == pieces
    assert b"".join(whole.pieces) == body


def test_nothing_of_a_payload_is_copied_to_be_sent() -> None:
    payload = bytes(1_000_000)
    encoded = CODEC.encode(say.Replicate(3, Position(3, 9), 7, 1.5, [Record(10, 3, 1, 0, (payload,))]))
    parts = [part for frame in FrameWriter(SEED).cut(*encoded) for part in frame]
    assert sum(len(part) for part in parts if isinstance(part, memoryview) and part.obj is payload) == len(payload)


def test_signs_of_life_go_between_the_frames_of_a_large_record() -> None:
    writer = FrameWriter(SEED)
    message = large(600_000)
    stream = b""
    for frame in writer.cut(*CODEC.encode(message)):
        stream += b"".join(frame) + b"".join(writer.whole(*CODEC.encode(Alive())))
    found = read(stream)
    assert found[:4] == [Alive()] * 4
    assert [plain(each) for each in found if each != Alive()] == [plain(message)]


def test_a_transfer_and_the_log_are_joined_side_by_side() -> None:
    writer = FrameWriter(SEED)
    piece = of_transfers.GivenState(7, 0, b"s" * 500_000)
    both = (large(500_000), piece)
    going = [writer.cut(*CODEC.encode(each)) for each in both]
    stream = b""
    while going:
        for each in list(going):
            frame = next(each, None)
            if frame is None:
                going.remove(each)
            else:
                stream += b"".join(frame)
    assert [plain(each) for each in read(stream)] == [plain(each) for each in both]


def test_what_has_come_is_not_changed_by_what_comes_later() -> None:
    reader = FrameReader(SEED)
    message = large(1_000, 2_000)
    found = [CODEC.decode(whole) for whole in reader.feed(b"".join(sent(message)))]
    room = reader.get_buffer()
    room[:] = b"\xff" * len(room)
    assert plain(found[0]) == plain(message)


def test_records_are_made_as_the_journal_has_them() -> None:
    codec = LinkCodec(ShippedRecord)
    (whole,) = FrameReader(SEED).feed(b"".join(sent(large(20, 0))))
    records = codec.decode(whole).records
    assert [type(each) for each in records] == [ShippedRecord] * 2
    assert [each.size for each in records] == [36, 16]


def test_many_small_payloads_are_joined_and_few_or_large_ones_are_not() -> None:
    for count, size, parts in ((200, 10, 1), (5, 10, 11), (200, 5_000, 401)):
        assert len(CODEC.encode(large(*[size] * count)).parts) == parts


def test_records_are_packed_once_for_all_who_are_sent_them_and_others_are_not_taken_for_them() -> None:
    codec = LinkCodec(Record)
    message = large(5_000, 6_000)
    first, again = codec.encode(message), codec.encode(message._replace(committed=message.committed + 1))
    assert all(one is other for one, other in zip(first.parts[1:], again.parts[1:], strict=True))
    assert first.parts[0] != again.parts[0]
    for other in (message._replace(records=list(message.records[:1])), large(6_000, 5_000), large(7, 8)):
        assert b"".join(codec.encode(other).parts) == body_of(other)
    assert b"".join(codec.encode(message).parts) == b"".join(first.parts)


def test_records_that_are_larger_than_what_is_shipped_at_a_time_are_not_held() -> None:
    codec = LinkCodec(Record)
    records = [Record(10, 3, 1, 0, (bytes(SHARED_BYTES),))]
    codec.encode(say.Replicate(3, Position(3, 9), 7, 1.5, records))
    assert not codec._records


def test_the_largest_record_of_the_journal_can_be_sent() -> None:
    assert frames.MAX_PAYLOAD_BYTES == MAX_PAYLOAD
    payload = memoryview(bytes(1))  # a record of a gibibyte in views of one byte would take as long
    encoded = CODEC.encode(say.Replicate(3, Position(3, 9), 0, 0.0, [Record(10, 3, 1, 0, (payload,) * 3)]))
    assert encoded.size + MAX_PAYLOAD <= frames.MAX_MESSAGE_BYTES


# What cannot be sent


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (say.Follow(-1), "cannot be sent"),
        (say.Stored(1, 2**64, 0.0), "cannot be sent"),
        ("a text", "no message of a link"),
        (say.Fetched(1, 1, [Record(1, 2**32, 1, 0, ())]), "cannot be sent"),
        (say.Fetched(1, 1, [Record(1, 1, 256, 0, ())]), "cannot be sent"),
        (say.Fetched(1, 1, [Record(1, 1, 1, 0, ())] * (MAX_RECORDS + 1)), f"{MAX_RECORDS} and"),
        (of_transfers.GivenRecords(1, 2, []), "one record at least"),
        (of_transfers.GivenState(1, 0, b""), "1 to"),
        (of_transfers.GivenState(1, 0, bytes(MAX_STATE_PIECE_BYTES + 1)), "1 to"),
        (
            say.Sealed(1, LogSummary(1, 2, 1, 1, tuple(EpochStart(n, n) for n in range(MAX_EPOCH_STARTS + 1)))),
            "can be named",
        ),
    ],
)
def test_what_cannot_be_sent_is_an_error_of_ours(message: Any, why: str) -> None:
    with pytest.raises(LocalProtocolError, match=why):
        CODEC.encode(message)


# What a peer cannot have said


@pytest.mark.parametrize("epoch", [MAX_EPOCH + 1, 2**40, 2**63, 2**64 - 1])
@pytest.mark.parametrize(
    "make",
    [
        say.Follow,
        say.Seal,
        say.Refused,
        say.TakeOver,
        lambda epoch: say.Stored(epoch, 1, 0.0),
        lambda epoch: say.Missing(epoch, 1, Position(1, 1)),
        lambda epoch: say.Missing(1, 1, Position(epoch, 1)),
        lambda epoch: say.Missed(epoch, 1, True, Position(1, 1)),
        lambda epoch: say.Fetch(epoch, 1),
        lambda epoch: say.TakeTransfer(epoch, Position(1, 1)),
        lambda epoch: say.Replicate(epoch, Position(1, 1), 1, 0.0),
    ],
)
def test_an_epoch_for_which_a_record_has_no_room_is_refused(make: Callable[[int], Any], epoch: int) -> None:
    assert decoded(make(MAX_EPOCH), body_of(make(MAX_EPOCH))) == make(MAX_EPOCH)
    with pytest.raises(RemoteProtocolError, match="an epoch of"):
        decoded(make(epoch), body_of(make(epoch)))


SUMMARY = LogSummary(5, 20, 9, 3, (EpochStart(2, 5), EpochStart(3, 11)))


@pytest.mark.parametrize(
    "log",
    [
        SUMMARY._replace(start=0),
        SUMMARY._replace(end=4),
        SUMMARY._replace(committed=21),
        SUMMARY._replace(epoch=4),
        SUMMARY._replace(starts=(EpochStart(3, 5), EpochStart(3, 11))),
        SUMMARY._replace(starts=(EpochStart(2, 11), EpochStart(3, 11))),
        SUMMARY._replace(starts=(EpochStart(2, 3), EpochStart(3, 11))),
        SUMMARY._replace(starts=(EpochStart(2, 5), EpochStart(3, 20))),
        SUMMARY._replace(start=2**63, end=2**63),
    ],
)
def test_a_log_that_cannot_be_is_refused(log: LogSummary) -> None:
    assert decoded(say.Sealed(3, SUMMARY), body_of(say.Sealed(3, SUMMARY))).log == SUMMARY
    with pytest.raises(RemoteProtocolError, match="a log"):
        decoded(say.Sealed(3, log), body_of(say.Sealed(3, log)))


def test_a_seal_says_whether_its_node_is_in_doubt_where_a_log_has_had_a_zero() -> None:
    sure, doubted = body_of(say.Sealed(3, SUMMARY)), body_of(say.Sealed(3, SUMMARY, doubt=True))
    assert decoded(say.Sealed(3, SUMMARY), doubted) == say.Sealed(3, SUMMARY, doubt=True)
    (place,) = (at for at in range(len(sure)) if sure[at] != doubted[at])
    assert (place, sure[place], doubted[place]) == (8 + 4 * 8, 0, 1)
    with pytest.raises(RemoteProtocolError, match="a log"):
        decoded(say.Sealed(3, SUMMARY), doubted[:place] + b"\2" + doubted[place + 1 :])
    with pytest.raises(RemoteProtocolError, match="a log"):
        decoded(say.Following(3, SUMMARY), doubted)


RECORDS = [Record(10, 3, 1, 0, (b"a",)), Record(11, 4, 1, 1, (b"bc",))]
REPLICATE = say.Replicate(4, Position(3, 9), 7, 1.5, RECORDS)


@pytest.mark.parametrize(
    "message",
    [
        REPLICATE._replace(previous=Position(5, 9)),
        REPLICATE._replace(previous=Position(3, 8)),
        REPLICATE._replace(previous=Position(4, 9)),
        REPLICATE._replace(epoch=3),
        REPLICATE._replace(records=[RECORDS[0], RECORDS[1]._replace(lsn=12)]),
        REPLICATE._replace(records=[RECORDS[0], RECORDS[1]._replace(epoch=2)]),
        REPLICATE._replace(records=[RECORDS[0]._replace(kind=0)]),
        REPLICATE._replace(records=[RECORDS[0]._replace(flags=3)]),
        REPLICATE._replace(records=[RECORDS[0]._replace(flags=4)]),
        REPLICATE._replace(previous=Position(0, 9), records=[RECORDS[0]._replace(epoch=0)]),
        REPLICATE._replace(sent=float("nan")),
        REPLICATE._replace(sent=float("inf")),
        REPLICATE._replace(committed=2**63),
    ],
)
def test_records_that_do_not_follow_are_refused(message: say.Replicate) -> None:
    assert plain(decoded(REPLICATE, body_of(REPLICATE))) == plain(REPLICATE)
    with pytest.raises(RemoteProtocolError):
        decoded(message, body_of(message))


@pytest.mark.parametrize("change", [-1, 1])
def test_a_table_that_does_not_fit_its_payloads_is_refused(change: int) -> None:
    body = body_of(REPLICATE)
    with pytest.raises(RemoteProtocolError):
        decoded(REPLICATE, body[:-1] if change < 0 else body + b"x")
    at = len(body) - 3 - 2 * ROW.size + 12
    (length,) = struct.unpack_from("<I", body, at)
    changed = bytearray(body)
    struct.pack_into("<I", changed, at, length + change)
    with pytest.raises(RemoteProtocolError):
        decoded(REPLICATE, bytes(changed))


def test_records_on_the_lane_of_small_messages_are_refused() -> None:
    """There they would be views of what is received into next."""
    with pytest.raises(RemoteProtocolError):
        decoded(REPLICATE, body_of(REPLICATE), PROMPT)
    with pytest.raises(RemoteProtocolError):
        decoded(say.Fetched(3, 10, RECORDS), body_of(say.Fetched(3, 10, RECORDS)), PROMPT)


@pytest.mark.parametrize("lane", [BULK, TRANSFER])
def test_a_small_message_on_another_lane_is_refused(lane: int) -> None:
    with pytest.raises(RemoteProtocolError, match="does not know"):
        decoded(say.Seal(3), body_of(say.Seal(3)), lane)


def test_a_message_that_nobody_knows_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="kind 200"):
        CODEC.decode(Whole(200, PROMPT, (b"",)))


# Frames that no writer makes


def frame(number: int, lane: int, flags: int, body: bytes, *, kind: int = 3, length: int | None = None) -> bytes:
    checked = struct.pack("<IIBBBB", number, len(body) if length is None else length, lane, flags, kind, 0)
    return struct.pack("<I", frames.crc32c(checked + body, SEED)) + checked + body


TOTAL = struct.Struct("<Q")
BEGINS = frame(0, BULK, frames.FIRST, TOTAL.pack(FRAME_BYTES + 1) + b"x" * 10)


@pytest.mark.parametrize(
    "stream",
    [
        frame(0, PROMPT, frames.WHOLE, b"", length=FRAME_BYTES + 1),
        frame(0, PROMPT, frames.WHOLE, b"", length=2**32 - 1),
        frame(1, PROMPT, frames.WHOLE, b""),
        frame(0, 3, frames.WHOLE, b""),
        frame(0, PROMPT, 4, b""),
        frame(0, PROMPT, frames.FIRST, b"x" * 20),
        frame(0, BULK, 0, b"x"),
        frame(0, BULK, frames.LAST, b"x"),
        frame(0, BULK, frames.FIRST, b"x" * 8),
        frame(0, BULK, frames.FIRST, TOTAL.pack(10) + b"x"),
        frame(0, BULK, frames.FIRST, TOTAL.pack(2**31) + b"x"),
        frame(0, BULK, frames.FIRST, TOTAL.pack(2**64 - 1) + b"x"),
        BEGINS + BEGINS.replace(b"\0\0\0\0", b"\1\0\0\0", 1),
        BEGINS + frame(1, BULK, frames.FIRST, TOTAL.pack(FRAME_BYTES + 1) + b"x"),
        BEGINS + frame(1, BULK, frames.WHOLE, b"x"),
        BEGINS + frame(1, BULK, 0, b""),
        BEGINS + frame(1, BULK, 0, b"x", kind=9),
        BEGINS + frame(1, BULK, frames.LAST, b"x"),
        BEGINS + frame(1, BULK, 0, b"x" * (FRAME_BYTES - 9)),
        BEGINS + frame(1, BULK, 0, b"x" * (FRAME_BYTES - 8)),
    ],
)
def test_a_frame_that_no_node_sends_is_refused(stream: bytes) -> None:
    with pytest.raises(FrameDamagedError):
        list(FrameReader(SEED).feed(stream))


def test_what_a_reader_keeps_of_a_message_that_has_begun_is_what_has_come() -> None:
    reader = FrameReader(SEED)
    claims = frame(0, BULK, frames.FIRST, TOTAL.pack(frames.MAX_MESSAGE_BYTES) + b"x" * 10)
    assert list(reader.feed(claims)) == []
    assert reader.mid_message
