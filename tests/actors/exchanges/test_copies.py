"""CC and BCC name more routing keys, and nobody who receives sees BCC."""

from __future__ import annotations

from typing import Any

import pytest

from actors.exchanges.copies import addressed
from actors.exchanges.errors import InvalidDefinitionError
from tests.actors.exchanges.told import Told


def test_keys_of_both_are_added_to_the_messages_own_each_once() -> None:
    headers = {"CC": ["b", "a", "c"], "BCC": ("d", "b"), "other": 1}
    assert addressed("a", headers) == (("a", "b", "c", "d"), {"CC": ["b", "a", "c"], "other": 1})
    assert "BCC" in headers, "the caller's own are as they were"


@pytest.mark.parametrize("headers", [None, {}, {"cc": ["b"]}, {"Bcc": ["b"], "x": 1}])
def test_headers_without_them_are_the_same_object(headers: Any) -> None:
    keys, seen = addressed("a", headers)
    assert keys == ("a",)
    assert seen is headers


def test_what_is_in_the_array_and_is_no_text_is_left_out() -> None:
    assert addressed("", {"CC": [1, b"b", None, ["c"], "d"]})[0] == ("", "d")


@pytest.mark.parametrize("name", ["CC", "BCC"])
@pytest.mark.parametrize("value", ["b", b"b", 1, None, {"b": 1}])
def test_anything_but_an_array_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidDefinitionError, match=f"the header {name} is of type"):
        addressed("a", {name: value})


def test_a_message_goes_where_any_of_its_keys_leads() -> None:
    told = Told("q1", "q2", "q3")
    keys, _seen = addressed("q1", {"CC": ["q3", "none"]})
    assert told.route("", *keys) == ("q1", "q3")
    told.bind("amq.topic", "q2", "*.x")
    assert told.route("amq.topic", *addressed("none", {"BCC": ["a.x", "b.x"]})[0]) == ("q2",)
