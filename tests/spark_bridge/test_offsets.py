"""Offsets as Spark keeps them: JSON strings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bridge import CheckpointError
from spark_bridge.offsets import OffsetFormat
from spark_bridge.options import MAX_BROKERS

ONE = OffsetFormat("a", ("x:1",))
TWO = OffsetFormat("a", ("x:1", "b:2"))
POSITION = st.integers(0, 2**62)


@given(st.text(min_size=1), POSITION)
def test_an_offset_survives_sparks_log_as_the_same_string(name: str, position: int) -> None:
    form = OffsetFormat(name, ("x:1",))
    text = json.dumps(form.encode({"x:1": position}))
    assert text == json.dumps({"s": name, "pos": position})
    read = form.decode(json.loads(text))
    assert read == {"x:1": position}
    assert json.dumps(form.encode(read)) == text


@given(st.dictionaries(st.text(min_size=1), POSITION, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_the_offset_over_several_brokers_is_one_string_however_they_are_listed(
    positions: dict[str, int], chance: Any
) -> None:
    brokers = list(positions)
    text = json.dumps(OffsetFormat("a", tuple(brokers)).encode(positions))
    chance.shuffle(brokers)
    form = OffsetFormat("a", tuple(brokers))
    read = form.decode(json.loads(text))
    assert read == positions
    assert json.dumps(form.encode({broker: read[broker] for broker in brokers})) == text
    assert list(json.loads(text)["pos"]) == sorted(positions)


def test_a_broker_that_has_not_joined_yet_is_not_in_the_offset() -> None:
    assert TWO.encode({"x:1": 7}) == {"s": "a", "pos": {"x:1": 7}}
    assert TWO.decode({"s": "a", "pos": {"x:1": 7}}) == {"x:1": 7}


def test_the_offset_of_one_broker_is_the_first_ones_when_there_are_several() -> None:
    assert TWO.decode(ONE.encode({"x:1": 7})) == {"x:1": 7}


def test_the_offset_of_several_brokers_is_looked_up_by_address_when_there_is_one() -> None:
    assert ONE.decode(TWO.encode({"x:1": 7, "b:2": 9})) == {"x:1": 7, "b:2": 9}
    assert ONE.encode({"x:1": 7, "b:2": 9}) == {"s": "a", "pos": 7}


def test_an_offset_of_as_many_brokers_as_there_may_be_is_small() -> None:
    brokers = tuple(f"broker-{number}.example.org:9183" for number in range(MAX_BROKERS))
    text = json.dumps(OffsetFormat("orders-to-lake", brokers).encode(dict.fromkeys(brokers, 10**12)))
    assert len(text) < 50 * MAX_BROKERS


def test_the_offset_of_another_subscription_is_refused() -> None:
    with pytest.raises(CheckpointError, match="that of subscription 'a', the option says 'b'"):
        OffsetFormat("b", ("x:1",)).decode(ONE.encode({"x:1": 1}))


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
    ],
)
def test_what_is_no_offset_of_this_source_is_refused(offset: dict[str, Any]) -> None:
    for form in (ONE, TWO):
        with pytest.raises(CheckpointError, match="no offset of a penstock source"):
            form.decode(offset)
