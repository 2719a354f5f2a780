"""Routes that are kept are those that would be found; they are bounded, and a change of any definition forgets them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.exchanges.cache import RouteCache
from actors.exchanges.limits import MAX_CACHED_TOGETHER
from tests.actors.exchanges.told import Told


def misses(told: Told) -> int:
    return told.exchanges.statistics().cache_misses


def test_a_key_seen_before_is_not_looked_for_again_until_something_changes() -> None:
    told = Told("q", "r")
    told.bind("amq.topic", "q", "a.*")
    for _again in range(3):
        assert told.route("amq.topic", "a.b") == ("q",)
        assert told.route("amq.topic", "c") == (), "that nothing matches is kept too"
    assert misses(told) == 2
    told.bind("amq.topic", "r", "a.*")
    assert told.route("amq.topic", "a.b") == ("q", "r")
    told.unbind("amq.topic", "q", "a.*")
    assert told.route("amq.topic", "a.b") == ("r",)
    told.queue_deleted("r")
    assert told.route("amq.topic", "a.b") == ()
    assert misses(told) == 5


def test_a_refused_command_and_one_that_changes_nothing_forget_nothing() -> None:
    told = Told("q")
    told.bind("amq.topic", "q", "a")
    told.route("amq.topic", "a")
    told.bind("amq.topic", "q", "a")
    with pytest.raises(Exception, match="there is no queue"):
        told.bind("amq.topic", "r", "a")
    told.route("amq.topic", "a")
    assert misses(told) == 1


def test_what_headers_or_the_queues_there_are_decide_is_never_kept() -> None:
    told = Told("q", "r")
    told.declare("e", "fanout", arguments={"alternate-exchange": ""})
    told.declare("f", "fanout")
    told.bind("f", "amq.headers", to_exchange=True)
    told.bind("amq.headers", "q", "", {"a": 1})
    told.bind("amq.headers", "r", "", {"a": 2})
    expected: list[tuple[str, str, Any, tuple[str, ...]]] = [
        ("amq.headers", "k", {"a": 1}, ("q",)),
        ("amq.headers", "k", {"a": 2}, ("r",)),
        ("f", "k", {"a": 1}, ("q",)),
        ("f", "k", {"a": 2}, ("r",)),
        ("f", "k", None, ()),
        ("e", "q", None, ("q",)),
        ("", "q", None, ("q",)),
    ]
    for exchange, key, headers, queues in expected * 2:
        assert told.route(exchange, key, headers=headers) == queues
    assert told.exchanges.statistics().cached_routes == 0


def test_several_keys_are_another_route_than_each_of_them() -> None:
    told = Told("q", "r", "lost")
    told.declare("e", arguments={"alternate-exchange": "rest"})
    told.declare("rest", "fanout")
    told.bind("rest", "lost")
    told.bind("e", "q", "a")
    told.bind("e", "r", "b")
    for _again in range(2):
        assert told.route("e", "a") == ("q",)
        assert told.route("e", "a", "b") == ("q", "r")
        assert told.route("e", "a", "c") == ("q",)
        assert told.route("e", "c") == ("lost",)
    assert misses(told) == 4


def test_an_endless_row_of_new_keys_keeps_no_more_than_the_bound_and_those_that_are_used() -> None:
    told = Told("q", max_cached_keys=100)
    told.bind("amq.topic", "q", "#")
    told.route("amq.topic", "used")
    before = misses(told)
    for number in range(10_000):
        told.route("amq.topic", f"new.{number}")
        if number % 20 == 0:
            told.route("amq.topic", "used")
        assert told.exchanges.statistics().cached_routes <= 100
    assert misses(told) == before + 10_000


@given(
    st.integers(0, 12),
    st.integers(0, 20),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)), max_size=80),
)
def test_a_cache_has_no_more_routes_and_queues_than_it_may_and_never_another_route(
    keys: int, destinations: int, asked: list[tuple[int, int]]
) -> None:
    cache = RouteCache(keys, destinations)
    stored: dict[Any, tuple[str, ...]] = {}
    for number, count in asked:
        key = ("e", (str(number),))
        found = cache.get(key)
        if found is None:
            stored[key] = ("q",) * count
            cache.put(key, stored[key])
        else:
            assert found == stored[key]
        assert len(cache) <= keys
        assert cache.destinations <= destinations
        kept = [stored[one] for half in (cache._newer, cache._older) for one in half]
        assert sum(map(len, kept)) <= cache.destinations
        assert not cache._newer.keys() & cache._older.keys()
    cache.clear()
    assert (len(cache), cache.destinations) == (0, 0)


def test_a_route_to_more_queues_than_may_be_kept_is_found_each_time() -> None:
    told = Told(*[f"q{number}" for number in range(10)], max_cached_destinations=10)
    for number in range(10):
        told.bind("amq.fanout", f"q{number}")
    assert len(told.route("amq.fanout", "k")) == len(told.route("amq.fanout", "k")) == 10
    assert told.exchanges.statistics().cached_routes == 0
    assert misses(told) == 2


def test_the_route_of_a_message_with_very_many_keys_is_found_each_time() -> None:
    """Their texts would take the memory of a thousand routes each."""
    told = Told("q")
    keys = tuple(f"k{number}" for number in range(MAX_CACHED_TOGETHER))
    told.bind("amq.direct", "q", "k0")
    for _ in range(2):
        assert told.route("amq.direct", *keys) == told.route("amq.direct", *keys, "more") == ("q",)
    statistics = told.exchanges.statistics()
    assert (statistics.cached_routes, statistics.cache_misses) == (1, 1)
