"""The formats of messages in a pipe: what `penstock send` takes in, what `penstock receive` writes, and that one undoes the other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import BinaryColumn, Message, MessageBatch, unpack_headers
from transport.cli._input_formats import Decoder, Piece, decoder_of
from transport.cli._output_formats import encoder_of
from transport.cli._splitting import InputFormatError, LengthSplitter, WholeFile
from transport.clients.delivery import DeliveredBatch
from transport.wire.messages import Deliver
from transport.wire.timing import Timed

ID_PREFIX = b"prefixed"


class Unanswered:
    """Takes no answers: nothing here is acknowledged."""

    def acknowledge(self, *_unused: object) -> None:
        raise AssertionError

    def reject(self, *_unused: object) -> None:
        raise AssertionError

    def extend(self, *_unused: object) -> None:
        raise AssertionError


def delivered(batch: MessageBatch, first: int = 7) -> DeliveredBatch:
    return DeliveredBatch(Deliver(first, 1_700_000_000_123_456, 2, True, batch), "orders", Unanswered(), 0, ID_PREFIX)


def messages(pieces: Iterator[Piece] | list[Piece]) -> list[Message]:
    found: list[Message] = []
    for piece in pieces:
        element = piece.element.element if isinstance(piece.element, Timed) else piece.element
        assert isinstance(element, MessageBatch)
        assert len(element) == piece.messages
        found += element.messages()
    return found


def decoded(decoder: Decoder, data: bytes, cut: int) -> list[Message]:
    pieces = [piece for at in range(0, len(data), cut) for piece in decoder.feed(data[at : at + cut])]
    return messages([*pieces, *decoder.finish()])


def unwanted(text: str) -> None:
    raise AssertionError(text)


header_values = st.one_of(st.text(max_size=8), st.binary(max_size=8))
whole_messages = st.builds(
    Message,
    payload=st.binary(max_size=40),
    key=st.one_of(st.none(), st.binary(min_size=1, max_size=8)),
    headers=st.one_of(st.none(), st.dictionaries(st.text(max_size=6), header_values, min_size=1, max_size=3)),
)


@given(st.lists(whole_messages, min_size=1, max_size=8), st.booleans(), st.integers(1, 50))
def test_any_messages_go_through_jsonl_with_nothing_lost(sent: list[Message], with_ids: bool, cut: int) -> None:
    if with_ids:
        sent = [Message(each.payload, each.key, each.headers, b"%016d" % at) for at, each in enumerate(sent)]
    written = encoder_of("jsonl", unwanted)(delivered(MessageBatch.from_messages(sent)))
    assert written.count(b"\n") == len(sent)
    received = decoded(decoder_of("jsonl")(), written, cut)
    for number, (before, after) in enumerate(zip(sent, received, strict=True), 7):
        assert (after.payload, after.key, after.headers) == (before.payload, before.key, before.headers)
        assert after.id == (before.id or ID_PREFIX + number.to_bytes(8, "big"))


@pytest.mark.parametrize("name", ["null", "length-prefixed", None])
@given(payloads=st.lists(st.binary(max_size=40), min_size=1, max_size=8), cut=st.integers(1, 50))
def test_any_payloads_go_through_the_plain_formats(name: str | None, payloads: list[bytes], cut: int) -> None:
    if name != "length-prefixed":
        payloads = [payload.replace(b"\0" if name else b"\n", b"") for payload in payloads]
    written = encoder_of(name, unwanted)(delivered(MessageBatch.from_payloads(payloads)))
    decoder = decoder_of(name)()
    assert [each.payload for each in decoded(decoder, written, cut)] == payloads


def test_an_object_tells_of_its_delivery_in_fields_that_send_passes_over() -> None:
    batch = MessageBatch.from_messages([Message(b"caf\xc3\xa9\n", b"k", {"a": "b", "c": b"\xff"})])
    (line,) = encoder_of("jsonl", unwanted)(delivered(batch)).splitlines()
    assert json.loads(line) == {
        "payload": "caf\xe9\n",
        "key": "k",
        "headers": {"a": "b", "c": {"base64": "/w=="}},
        "id": (ID_PREFIX + (7).to_bytes(8, "big")).hex(),
        "number": 7,
        "queue": "orders",
        "deliveries": 2,
        "possibly_replayed": True,
        "enqueued": "2023-11-14T22:13:20.123456Z",
    }


def test_control_characters_go_into_base64_where_a_text_would_be_much_longer() -> None:
    (line,) = encoder_of("jsonl", unwanted)(delivered(MessageBatch.from_payloads([b"\1" * 3000]))).splitlines()
    assert len(line) < 2 * 3000
    assert "payload_base64" in json.loads(line)


@pytest.mark.parametrize(("name", "better"), [(None, "--null or --jsonl"), ("null", "--length-prefixed or --jsonl")])
def test_a_message_that_is_written_as_several_is_told_once(name: str | None, better: str) -> None:
    told: list[str] = []
    encode = encoder_of(name, told.append)
    separator = b"\0" if name else b"\n"
    batch = delivered(MessageBatch.from_payloads([b"one", b"two" + separator + b"three"]))
    encode(batch)
    encode(batch)
    (text,) = told
    assert text.startswith("message 8 has ")
    assert better in text


def test_headers_that_are_no_map_stand_as_they_came_and_are_not_sent_again() -> None:
    told: list[str] = []
    payload, packed = BinaryColumn.from_values([b"x"]), BinaryColumn.from_values([b"\xc1"])
    written = encoder_of("jsonl", told.append)(delivered(MessageBatch(payload, None, None, packed)))
    assert "message 7" in told[0]
    with pytest.raises(InputFormatError, match="line 1: headers_base64"):
        list(decoder_of("jsonl")().feed(written))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"payload", "it is no JSON object: "),
        (b"[1]", "it is no JSON object, but a list"),
        (b'{"payload":"\xff"}', "it is not UTF-8"),
        (b'{"paylod":"a"}', "'paylod' is no field of a message"),
        (b'{"key":"a"}', "it has neither payload nor payload_base64"),
        (b'{"payload":"a","payload_base64":"YQ=="}', "it has both payload and payload_base64"),
        (b'{"payload_base64":"a"}', "payload_base64 is no base64"),
        (b'{"payload":7}', "payload is a number, not a text"),
        (b'{"payload":"\\ud800"}', "payload has half a character"),
        (b'{"payload":"a","headers":["a"]}', "headers is a list, not an object of texts"),
        (b'{"payload":"a","headers":{"a":1}}', "the header 'a' is a number"),
        (b'{"payload":"a","headers":{"\\ud800":"a"}}', "has half a character"),
        (b'{"payload":"a","id":"12"}', "write 32 hexadecimal digits"),
        (b'{"payload":"a","delay":"soon"}', "'soon' is no duration"),
        (b'{"payload":"a","delay":NaN}', "delay is nan"),
        (b'{"payload":"a","ttl":true}', "ttl is True"),
        (b"[" * 100_000, "it is no JSON object"),
        (b'{"payload":"' + b"x" * 17_000_000 + b'"}', "its message has 17000000 bytes, and the largest "),
    ],
    ids=lambda value: value[:30] if isinstance(value, bytes) else None,
)
def test_a_line_that_holds_no_message_is_named_and_what_came_before_is_given_out(line: bytes, complaint: str) -> None:
    decoder = decoder_of("jsonl")()
    taken = list(decoder.feed(b'{"payload":"good"}\n\n'))
    with pytest.raises(InputFormatError) as refused:
        # What was given out before it raised is kept.
        taken.extend(decoder.feed(b'{"payload":"good too"}\n' + line + b'\n{"payload":"behind"}\n'))
    assert str(refused.value).startswith("line 4: ")
    assert complaint in str(refused.value)
    assert [each.payload for each in messages(taken)] == [b"good", b"good too"]


def test_neighbours_of_one_timing_are_one_batch_and_others_are_timed_by_themselves() -> None:
    lines = b"".join(
        b'{"payload":"%d"%s}\n' % (number, more)
        for number, more in enumerate((b"", b"", b',"delay":"1m"', b',"delay":60', b',"ttl":5', b""))
    )
    pieces = list(decoder_of("jsonl")().feed(lines))
    assert [piece.messages for piece in pieces] == [2, 2, 1, 1]
    timings = [(each.delay, each.ttl) if isinstance(each, Timed) else None for each in (p.element for p in pieces)]
    assert timings == [None, (60.0, None), (None, 5), None]
    assert sum(piece.size for piece in pieces) == len(lines)


@pytest.mark.parametrize("name", [None, "null", "length-prefixed", "whole-file", "jsonl"])
def test_key_and_headers_are_on_every_message_and_a_json_line_has_its_own_first(name: str | None) -> None:
    data = {
        None: b"a\nb\n",
        "null": b"a\0b\0",
        "length-prefixed": b"\0\0\0\1a\0\0\0\1b",
        "whole-file": b"a",
        "jsonl": b'{"payload":"a"}\n{"payload":"b","key":"own","headers":{"h":"own"}}\n',
    }[name]
    found = decoded(decoder_of(name, b"k", {"h": "1", "i": "2"})(), data, 100)
    facts: list[tuple[bytes | None, Mapping[str, str | bytes] | None]] = [(each.key, each.headers) for each in found]
    assert facts[0] == (b"k", {"h": "1", "i": "2"})
    assert facts[1:] == ([(b"own", {"h": "own", "i": "2"})] if name == "jsonl" else facts[:1] * (len(found) - 1))


@pytest.mark.parametrize("cut", [1, 2, 5, 100])
def test_an_input_of_lengths_that_ends_within_a_message_says_where(cut: int) -> None:
    decoder = decoder_of("length-prefixed")()
    with pytest.raises(InputFormatError, match="message 2 ends after 2 of 3 bytes"):
        decoded(decoder, b"\0\0\0\1a\0\0\0\3bc", cut)
    with pytest.raises(InputFormatError, match="message 2 ends after 3 of the 4 bytes of its length"):
        decoded(decoder_of("length-prefixed")(), b"\0\0\0\1a\0\0\0", cut)


def test_what_is_too_long_is_refused_before_it_is_kept_and_what_came_before_is_given_out() -> None:
    splitter = LengthSplitter(max_message=4)
    with pytest.raises(InputFormatError, match="message 2 is longer than the 4 bytes") as refused:
        splitter.feed(b"\0\0\0\1a\xff\xff\xff\xff")
    assert refused.value.before == [b"a"]
    with pytest.raises(InputFormatError, match="it is larger than the 4 bytes"):
        WholeFile(4).feed(b"12345")


def test_a_file_is_one_message_whatever_is_in_it_be_it_nothing() -> None:
    assert [each.payload for each in decoded(decoder_of("whole-file")(), b"a\nb\0c", 2)] == [b"a\nb\0c"]
    assert [each.payload for each in decoded(decoder_of("whole-file")(), b"", 1)] == [b""]


def test_the_headers_of_a_plain_batch_are_packed_once() -> None:
    (piece,) = decoder_of(None, None, {"a": "b"})().feed(b"1\n2\n")
    assert isinstance(piece.element, MessageBatch)
    assert piece.element.headers is not None
    assert [unpack_headers(each) for each in piece.element.headers] == [{"a": "b"}] * 2
