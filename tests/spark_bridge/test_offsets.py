"""Offsets as Spark keeps them: JSON strings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bridge import CheckpointError
from spark_bridge.offsets import OffsetFormat, Origin, Positions
from spark_bridge.options import MAX_BROKERS

ONE = OffsetFormat("a", "q", ("x:1",))
TWO = OffsetFormat("a", "q", ("x:1", "b:2"))
MADE = {"x:1": bytes(8), "b:2": b"\xff" * 8}
POSITION = st.integers(0, 2**62)


@given(st.text(min_size=1), st.text(min_size=1), POSITION, st.binary(min_size=8, max_size=8))
def test_an_offset_survives_sparks_log_as_the_same_string(name: str, queue: str, position: int, made: bytes) -> None:
    form = OffsetFormat(name, queue, ("x:1",))
    text = json.dumps(form.encode({"x:1": position}, {"x:1": made}))
    assert text == json.dumps({"s": name, "q": queue, "id": made.hex(), "pos": position})
    read = form.decode(json.loads(text))
    assert read == Positions({"x:1": position}, queue, {"x:1": made})
    assert json.dumps(form.encode(read.at, read.made)) == text


@given(st.dictionaries(st.text(min_size=1), POSITION, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_the_offset_over_several_brokers_is_one_string_however_they_are_listed(
    positions: dict[str, int], chance: Any
) -> None:
    brokers = list(positions)
    made = {broker: chance.randbytes(8) for broker in brokers}
    text = json.dumps(OffsetFormat("a", "q", tuple(brokers)).encode(positions, made))
    chance.shuffle(brokers)
    form = OffsetFormat("a", "q", tuple(brokers))
    read = form.decode(json.loads(text))
    assert (read.at, read.made) == (positions, made)
    shuffled = [{broker: known[broker] for broker in brokers} for known in (read.at, read.made)]
    assert json.dumps(form.encode(*shuffled)) == text
    assert list(json.loads(text)["pos"]) == list(json.loads(text)["id"]) == sorted(positions)


def test_a_broker_that_has_not_joined_yet_is_not_in_the_offset() -> None:
    offset = TWO.encode({"x:1": 7}, MADE)
    assert offset == {"s": "a", "q": "q", "id": {"x:1": "0" * 16}, "pos": {"x:1": 7}}
    assert TWO.decode(offset) == Positions({"x:1": 7}, "q", {"x:1": bytes(8)})


def test_the_offset_of_one_broker_is_the_first_ones_when_there_are_several() -> None:
    assert TWO.decode(ONE.encode({"x:1": 7}, MADE)) == Positions({"x:1": 7}, "q", {"x:1": bytes(8)})


def test_the_offset_of_several_brokers_is_looked_up_by_address_when_there_is_one() -> None:
    assert ONE.decode(TWO.encode({"x:1": 7, "b:2": 9}, MADE)) == Positions({"x:1": 7, "b:2": 9}, "q", MADE)
    assert ONE.encode({"x:1": 7, "b:2": 9}, MADE) == {"s": "a", "q": "q", "id": "0" * 16, "pos": 7}


def test_an_offset_of_as_many_brokers_as_there_may_be_is_small() -> None:
    brokers = tuple(f"broker-{number}.example.org:9183" for number in range(MAX_BROKERS))
    made = dict.fromkeys(brokers, bytes(8))
    text = json.dumps(OffsetFormat("orders-to-lake", "orders", brokers).encode(dict.fromkeys(brokers, 10**12), made))
    assert len(text) < 100 * MAX_BROKERS


@pytest.mark.parametrize(
    ("form", "offset", "at"),
    [
        (ONE, {"s": "a", "pos": 7}, {"x:1": 7}),
        (TWO, {"s": "a", "pos": 7}, {"x:1": 7}),
        (TWO, {"s": "a", "pos": {"b:2": 9, "x:1": 7}}, {"x:1": 7, "b:2": 9}),
    ],
)
def test_an_offset_of_before_which_named_no_queue_is_read_and_fits_any(
    form: OffsetFormat, offset: dict[str, Any], at: dict[str, int]
) -> None:
    read = form.decode(offset)
    assert read == Positions(at)
    assert not read.origin("x:1").is_other("any", bytes(8))


def test_positions_are_of_a_queue_by_its_name_and_by_its_id_as_far_as_they_are_known() -> None:
    assert not Origin("q", bytes(8)).is_other("q", bytes(8))
    assert Origin("q", bytes(8)).is_other("r", bytes(8))
    assert Origin("q", bytes(8)).is_other("q", b"\xff" * 8)
    assert Origin("q").is_other("r", bytes(8))
    assert not Origin("q").is_other("q", bytes(8))
    assert Origin("q").differs(Origin("r", bytes(8)))
    assert Origin("q", bytes(8)).differs(Origin("q", b"\xff" * 8))
    assert not Origin("q", bytes(8)).differs(Origin("q"))
    assert not Origin(None).differs(Origin("q", bytes(8)))


def test_the_offset_of_another_subscription_is_refused() -> None:
    with pytest.raises(CheckpointError, match="that of subscription 'a', the option says 'b'"):
        OffsetFormat("b", "q", ("x:1",)).decode(ONE.encode({"x:1": 1}, MADE))


@pytest.mark.parametrize(
    "offset",
    [
        {},
        {"s": "a"},
        {"pos": 1},
        {"s": "a", "pos": "1"},
        {"s": "a", "pos": -1},
        {"s": "a", "pos": True},
        {"s": "a", "pos": {}},
        {"s": "a", "pos": {"x:1": "1"}},
        {"s": "a", "pos": {"x:1": 1, "b:2": -1}},
        {"s": "a", "pos": [1, 2]},
        {"s": "a", "q": 1, "pos": 1},
        {"s": "a", "id": 1, "pos": 1},
        {"s": "a", "id": "0" * 15, "pos": 1},
        {"s": "a", "id": {"b:2": "0" * 16}, "pos": {"x:1": 1}},
    ],
)
def test_what_is_no_offset_of_this_source_is_refused(offset: dict[str, Any]) -> None:
    for form in (ONE, TWO):
        with pytest.raises(CheckpointError, match="no offset of a penstock source"):
            form.decode(offset)
