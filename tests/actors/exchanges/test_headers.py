"""A headers exchange gives what its bindings' arguments ask for, with the types that AMQP tells apart."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.exchanges.errors import TooManyPatternsError
from actors.exchanges.headers import HeadersMatcher
from actors.exchanges.tables import frozen
from actors.exchanges.vocabulary import Destination
from tests.actors.exchanges.brute_force import headers_match
from tests.examples_tried import tried

NAMES = st.sampled_from(["a", "b", "c", "x-a", "x-b", "x-"])
PLAIN = st.sampled_from([None, True, False, 0, 1, 1.0, 2, "1", b"1", "", "a", b"a"])
VALUES = PLAIN | st.sampled_from([[], {}, [1], [True], ["a"], {"a": 1}, {"a": 1.0}, [[b"a"]], [{"a": None}]])
HEADERS = st.dictionaries(NAMES, VALUES, max_size=4)
MODES = st.sampled_from([{}, *({"x-match": how} for how in ("all", "any", "all-with-x", "any-with-x"))])
ARGUMENTS = st.builds(lambda asked, mode: {**asked, **mode}, st.dictionaries(NAMES, VALUES, max_size=3), MODES)
BOUND = st.lists(st.tuples(ARGUMENTS, st.integers(0, 3)), max_size=8)
# Each message has what some binding asks for, more or less, or most would match nothing.
MESSAGES = st.lists(st.tuples(HEADERS, st.integers(0, 7)), min_size=1, max_size=4)
Bound = list[tuple[dict[str, Any], int]]


def queue(number: int) -> Destination:
    return Destination(f"q{number}")


def found(matcher: HeadersMatcher, headers: dict[str, Any]) -> set[Destination]:
    into: dict[Destination, Any] = {}
    matcher.match((), frozen(headers), into)
    return set(into)


def check_against_brute_force(bound: Bound, messages: list[tuple[dict[str, Any], int]], data: st.DataObject) -> None:
    matcher = HeadersMatcher()
    for arguments, number in bound:
        matcher.add(queue(number), "", arguments)
    gone = data.draw(st.sets(st.integers(0, len(bound) - 1))) if bound else set()
    for place in gone:
        matcher.remove(queue(bound[place][1]), "", bound[place][0])
    left = [one for place, one in enumerate(bound) if place not in gone]
    for headers, like in messages:
        message = {**headers, **(bound[like][0] if like < len(bound) else {})}
        expected = {queue(number) for arguments, number in left if headers_match(arguments, message)}
        assert found(matcher, message) == expected
    for arguments, number in left:
        matcher.remove(queue(number), "", arguments)
    assert not matcher._patterns
    assert not matcher._by_name
    assert not matcher._by_value
    assert matcher._unasking is None


@settings(max_examples=tried(600))
@given(BOUND, MESSAGES, st.data())
def test_arguments_match_what_a_plain_reading_of_them_matches(
    bound: Bound, messages: list[tuple[dict[str, Any], int]], data: st.DataObject
) -> None:
    check_against_brute_force(bound, messages, data)


@pytest.mark.soak
@pytest.mark.timeout(900)
@settings(max_examples=10_000)
@given(BOUND, MESSAGES, st.data())
def test_arguments_match_what_a_plain_reading_of_them_matches_for_long(
    bound: Bound, messages: list[tuple[dict[str, Any], int]], data: st.DataObject
) -> None:
    check_against_brute_force(bound, messages, data)


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({}, {}, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"a": 1, "b": 2, "x-match": "any"}, {"a": 1}, True),
        ({"a": None}, {"a": "whatever"}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {}, False),
        ({"a": ""}, {"a": None}, False),
        ({"x-a": 1}, {}, True),
        ({"x-a": 1, "x-match": "any"}, {"x-a": 1}, False),
        ({"x-a": 1, "x-match": "any-with-x"}, {"x-a": 1}, True),
        ({"x-a": 1, "x-match": "all-with-x"}, {}, False),
        ({"x-match": "all-with-x"}, {}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": "é"}, {"a": "é".encode()}, True),
        ({"a": [1, {"b": "c"}]}, {"a": (1, {"b": b"c"})}, True),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}, True),
    ],
)
def test_what_counts_and_which_values_are_one(
    arguments: dict[str, Any], headers: dict[str, Any], expected: bool
) -> None:
    matcher = HeadersMatcher()
    matcher.add(queue(0), "", arguments)
    assert bool(found(matcher, headers)) == expected
    assert headers_match(arguments, headers) == expected, "or the reading that others are judged by is wrong"


def test_times_are_one_in_whatever_zone_and_decimal_numbers_by_their_digits() -> None:
    matcher = HeadersMatcher()
    noon = datetime(2026, 1, 2, 12, tzinfo=UTC)
    matcher.add(queue(0), "", {"at": noon})
    matcher.add(queue(1), "", {"price": Decimal("1.0")})
    assert found(matcher, {"at": noon.replace(tzinfo=None), "price": Decimal("1.00")}) == {queue(0)}
    assert found(matcher, {"at": int(noon.timestamp()), "price": Decimal("1.0")}) == {queue(1)}


def test_bindings_that_all_name_the_same_headers_are_refused_to_the_message_when_they_are_too_many() -> None:
    matcher = HeadersMatcher()
    common = {f"h{number}": 1 for number in range(60)}
    for number in range(2_000):
        matcher.add(queue(number), "", {**common, "device": number})
    with pytest.raises(TooManyPatternsError, match="bind by headers that tell more apart"):
        found(matcher, {**common, "device": 5})
    assert found(matcher, {"h0": 1, "device": 5}) == set()


def test_a_message_does_not_look_at_bindings_that_name_none_of_its_headers() -> None:
    matcher = HeadersMatcher()
    for number in range(5_000):
        matcher.add(queue(number), "", {"device": number})
    assert found(matcher, {"device": 17, "other": 1}) == {queue(17)}
    assert [len(patterns) for patterns in matcher._by_value.values()] == [1] * 5_000
