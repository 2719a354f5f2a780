"""`actors.queue.vocabulary.deaths`: all deaths of a message, against lists of what has happened to it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES
from actors.limits import MAX_NAME_BYTES
from actors.queue.vocabulary.deaths import (
    HISTORY,
    HISTORY_BYTES,
    MAX_REASON_BYTES,
    MAX_TIMES,
    MOST_DEATHS,
    Death,
    History,
    history_of,
)
from tests.examples_tried import tried

US = 1_700_000_000_000_000
WAYS = st.tuples(st.sampled_from([f"q{number}" for number in range(10)]), st.sampled_from(["rejected", "expired"]))
LONGEST = Death(
    "q" * MAX_NAME_BYTES,
    "r" * MAX_REASON_BYTES,
    "x" * MAX_NAME_BYTES,
    b"k" * MAX_ROUTING_KEY_BYTES,
    2**63 - 1,
    MAX_TIMES,
)


class Lived(NamedTuple):
    """One death in a list of them: where, why, and how it was addressed then."""

    queue: str
    reason: str
    exchange: str
    key: bytes


def died_of(lives: list[Lived]) -> History:
    """A message that has died so, a second after it had come each time."""
    first = lives[0]
    history = History((Death(*first, first=True),))
    for number, life in enumerate(lives[1:], 1):
        history = history.died(Death(*life), US + number)
    return history


@settings(max_examples=tried(200))
@given(st.lists(WAYS, min_size=1, max_size=60))
def test_deaths_of_one_queue_and_reason_are_one_that_counts_and_the_latest_is_the_first(
    ways: list[tuple[str, str]],
) -> None:
    lives = [Lived(*way, f"x{number}", b"k%d" % number) for number, way in enumerate(ways)]
    history = died_of(lives)
    told = list(dict.fromkeys(reversed(ways)))
    # Of more than are kept those that have not been for longest are not there, and a count begins anew.
    assert [(each.queue, each.reason) for each in history.deaths][: MOST_DEATHS - 1] == told[: MOST_DEATHS - 1]
    (first,) = [each for each in history.deaths if each.first]
    assert (first.queue, first.reason, first.exchange, first.key) == lives[0]
    if len(told) <= MOST_DEATHS:
        for each in history.deaths:
            way = (each.queue, each.reason)
            at = ways.index(way)
            assert each.times == ways.count(way)
            assert (each.exchange, each.key) == (lives[at].exchange, lives[at].key), "as it was at first"
            # When it first died is known once it dies again: the queue that it came to had stored it then.
            assert each.us == (0 if at == len(ways) - 1 else US + at + 1)
            last = len(ways) - 1 - ways[::-1].index(way)
            assert each.last_us == (0 if last in (at, len(ways) - 1) else US + last + 1)


def test_of_more_than_are_kept_the_first_death_is_there_and_the_latest() -> None:
    lives = [Lived(f"q{number}", "expired", "", b"") for number in range(3 * MOST_DEATHS)]
    deaths = died_of(lives).deaths
    assert [each.queue for each in deaths] == [life.queue for life in reversed(lives[1 - MOST_DEATHS :])] + ["q0"]
    assert [each.first for each in deaths] == [False] * (MOST_DEATHS - 1) + [True]


def test_it_says_once_and_for_all_that_its_own_keys_count_no_more() -> None:
    history = History((Death("a", "rejected", "", b"a", first=True),))
    history = history.died(Death("b", "rejected", "x", b"b"), US)
    history = history._replace(own_keys=False).died(Death("c", "rejected", "x", b"b"), US)
    assert [each.own_keys for each in history.deaths] == [False, True, True]
    again = history_of({HISTORY: history.packed()})
    assert again == history


@settings(max_examples=tried(100))
@given(st.lists(WAYS, min_size=1, max_size=40), st.booleans())
def test_what_is_packed_is_read_as_it_was(ways: list[tuple[str, str]], own_keys: bool) -> None:
    history = died_of([Lived(*way, "", b"") for way in ways])._replace(own_keys=own_keys)
    assert history_of({HISTORY: history.packed()}) == history


def test_the_longest_is_within_its_bound_and_read() -> None:
    history = History(tuple(LONGEST._replace(first=not number) for number in range(MOST_DEATHS)))
    assert len(history.packed()) <= HISTORY_BYTES
    assert history_of({HISTORY: history.packed()}) == history
    assert history.died(LONGEST, 1).deaths[0].times == MAX_TIMES


ROW = ["q", "r", 1, 1, "x", b"k", 1]


@pytest.mark.parametrize(
    "value",
    [
        "text",
        b"",
        b"\xc1",
        msgpack.packb([True, []]),
        msgpack.packb([True, [ROW[:-1]]]),
        msgpack.packb([1, [ROW]]),
        msgpack.packb([True, [ROW, ROW]]),
        msgpack.packb([True, [[*ROW[:-1], 0]] * (MOST_DEATHS + 1)]),
        msgpack.packb([True, [["q" * 256, *ROW[1:]]]]),
        msgpack.packb([True, [["q", "r" * 33, *ROW[2:]]]]),
        msgpack.packb([True, [["q", "r", 0, *ROW[3:]]]]),
        msgpack.packb([True, [["q", "r", True, *ROW[3:]]]]),
        msgpack.packb([True, [["q", "r", 1, -1, *ROW[4:]]]]),
        msgpack.packb([True, [["q", "r", 1, 1, "x", b"k" * 256, 1]]]),
        msgpack.packb([True, [["q", "r", 1, 1, "x", "k", 1]]]),
        msgpack.packb([True, [[*ROW[:-1], 4]]]),
        msgpack.packb([True, [ROW]]) + bytes(HISTORY_BYTES),
    ],
)
def test_what_cannot_be_is_as_if_it_were_not(value: Any) -> None:
    assert history_of({HISTORY: value}) is None
    assert history_of({HISTORY: msgpack.packb([True, [ROW]])}) is not None


@settings(max_examples=tried(200))
@given(st.binary(max_size=60))
def test_any_bytes_are_a_history_or_none(value: bytes) -> None:
    found = history_of({HISTORY: value})
    assert found is None or history_of({HISTORY: found.packed()}) == found
