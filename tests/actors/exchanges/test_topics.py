"""A topic exchange gives what its patterns say, whatever was bound and unbound before, and does not look at what cannot match."""

from __future__ import annotations

import sys
from random import Random
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.exchanges import topics
from actors.exchanges.errors import TooManyPatternsError
from actors.exchanges.topics import TopicMatcher
from actors.exchanges.vocabulary import Destination
from tests.actors.exchanges.brute_force import topic_matches
from tests.examples_tried import tried

KEYS = st.lists(st.sampled_from(["a", "b", "", "*", "#", "ab"]), max_size=6).map(".".join)
PATTERNS = st.lists(st.sampled_from(["a", "b", "", "*", "#", "#", "*", "ab"]), max_size=6).map(".".join)
BOUND = st.lists(st.tuples(PATTERNS, st.integers(0, 3)), max_size=12, unique=True)


def queue(number: int) -> Destination:
    return Destination(f"q{number}")


def found(matcher: TopicMatcher, *keys: str) -> set[Destination]:
    into: dict[Destination, Any] = {}
    matcher.match(keys, (), into)
    return set(into)


def check_against_brute_force(bound: list[tuple[str, int]], keys: list[str], data: st.DataObject) -> None:
    matcher = TopicMatcher()
    for pattern, number in bound:
        matcher.add(queue(number), pattern, {})
    gone = data.draw(st.sets(st.sampled_from(bound))) if bound else set()
    for pattern, number in gone:
        matcher.remove(queue(number), pattern, {})
    left = [one for one in bound if one not in gone]
    for key in keys:
        assert found(matcher, key) == {queue(number) for pattern, number in left if topic_matches(pattern, key)}
    assert found(matcher, *keys) == {
        queue(n) for pattern, n in left if any(topic_matches(pattern, key) for key in keys)
    }
    for pattern, number in left:
        matcher.remove(queue(number), pattern, {})
    root = matcher._root
    assert not root.leads_on()
    assert root.ends is None


@settings(max_examples=tried(900))
@given(BOUND, st.lists(KEYS, min_size=1, max_size=5), st.data())
def test_patterns_match_what_a_plain_reading_of_them_matches(
    bound: list[tuple[str, int]], keys: list[str], data: st.DataObject
) -> None:
    check_against_brute_force(bound, keys, data)


@pytest.mark.soak
@pytest.mark.timeout(900)
@settings(max_examples=10_000)
@given(BOUND, st.lists(KEYS, min_size=1, max_size=5), st.data())
def test_patterns_match_what_a_plain_reading_of_them_matches_for_long(
    bound: list[tuple[str, int]], keys: list[str], data: st.DataObject
) -> None:
    check_against_brute_force(bound, keys, data)


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("*.stock.#", "usd.stock", True),
        ("*.stock.#", "eur.stock.db", True),
        ("*.stock.#", "stock.nasdaq", False),
        ("#", "", True),
        ("*", "", False),
        ("", "", True),
        ("", ".", False),
        ("*.*", ".", True),
        ("a.*.b", "a..b", True),
        ("a.b", "a..b", False),
        ("a.#.b", "a.b", True),
        ("#.#", "", True),
        ("a*", "ab", False),
        ("a*", "a*", True),
        ("#.a.#", "b.c", False),
    ],
)
def test_words_that_stand_for_others_do_so_as_whole_words_only(pattern: str, key: str, expected: bool) -> None:
    matcher = TopicMatcher()
    matcher.add(queue(0), pattern, {})
    assert bool(found(matcher, key)) == expected
    assert topic_matches(pattern, key) == expected, "or the reading that others are judged by is wrong"


def lines_run(matcher: TopicMatcher, key: str) -> int:
    """How many lines of the matcher's module a match runs: what it costs, whatever the machine does beside it."""
    lines = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != topics.__file__:
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        matcher.match((key,), (), {})
    finally:
        sys.settrace(before)
    return lines


def test_a_key_among_ten_thousand_patterns_visits_as_many_words_as_among_ten() -> None:
    few, many = TopicMatcher(), TopicMatcher()
    for matcher, count in ((few, 10), (many, 10_000)):
        for number in range(count):
            matcher.add(queue(number), f"device.{number}.*.temperature", {})
        matcher.add(queue(0), "device.#", {})
    assert found(few, "device.7.hall.temperature") == {queue(7), queue(0)}
    assert lines_run(many, "device.7.hall.temperature") == lines_run(few, "device.7.hall.temperature") > 10


def test_patterns_that_would_take_seconds_to_match_are_refused_to_the_message_and_others_go_on() -> None:
    matcher, chance = TopicMatcher(), Random(2)
    for number in range(500):
        matcher.add(queue(number), ".".join(chance.choices(["#", "*", "a"], k=100)), {})
    with pytest.raises(
        TooManyPatternsError, match="a topic exchange take more than the 100000 steps of MAX_MATCH_STEPS"
    ) as caught:
        found(matcher, ".".join(["a"] * 128))
    assert caught.value.code == "protocol-error", "sent again it would be refused again"
    assert found(matcher, "short") == set()


def test_a_key_of_many_words_visits_each_word_of_a_pattern_at_most_once_for_each_of_its_own() -> None:
    matcher = TopicMatcher()
    matcher.add(queue(0), ".".join(["#", "a"] * 63), {})
    key = ".".join(["a"] * 128)
    assert found(matcher, key) == {queue(0)}
    assert lines_run(matcher, key) < 126 * 128 * 20, "tried in every way that it can be cut, it would never end"
