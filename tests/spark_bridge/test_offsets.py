"""Offsets as Spark keeps them: JSON strings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_bridge import CheckpointError
from spark_bridge.offsets import make_offset, position_of


@given(st.text(min_size=1), st.integers(0, 2**62))
def test_an_offset_survives_sparks_log_as_the_same_string(name: str, position: int) -> None:
    text = json.dumps(make_offset(name, position))
    read = json.loads(text)
    assert position_of(read, name) == position
    assert json.dumps(make_offset(name, position_of(read, name))) == text


def test_the_offset_of_another_subscription_is_refused() -> None:
    with pytest.raises(CheckpointError, match="that of subscription 'a', the option says 'b'"):
        position_of(make_offset("a", 1), "b")


@pytest.mark.parametrize(
    "offset", [{}, {"s": "a"}, {"pos": 1}, {"s": "a", "pos": "1"}, {"s": "a", "pos": -1}, {"s": "a", "pos": True}]
)
def test_what_is_no_offset_of_this_source_is_refused(offset: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="no offset of a penstock source"):
        position_of(offset, "a")
