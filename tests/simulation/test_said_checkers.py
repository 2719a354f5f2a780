"""The rules of groups and of ids find what breaks them in a history made by hand, and nothing in the good ones."""

from __future__ import annotations

import pytest

from tests.simulation.checker import BEYOND, DUPLICATED, GROUP_SHARED, LOST, REORDERED, STUCK, QueueRules
from tests.simulation.history import (
    Arrived,
    CommitAnswered,
    CommitAsked,
    Confirmed,
    Crashed,
    Drained,
    Event,
    Extended,
    Offered,
    Released,
    Staged,
)
from tests.simulation.said import Saying, Says, batch_of, group_of, id_of
from tests.simulation.said_by_hand import FREE, TAKER, A, B, C, X, back, done, given, in_vain, kinds, sent, taken

GROUPED = QueueRules(visibility=10.0, groups=True)
IDENTIFIED = QueueRules(visibility=10.0, drops=True, window=5.0, most_ids=2)
ALL = sent(A, B, C, X, FREE)
GOOD_GROUPS: dict[str, list[Event]] = {
    "one receiver has all that it holds of a group": [
        *sent(A, B),
        given(1, 0, A),
        given(2, 1, B),
        done(3, 0),
        done(3, 1),
    ],
    "another has the group when all is settled": [
        *sent(A, B),
        given(1, 0, A),
        done(2, 0),
        given(2, 1, B, 2),
        done(3, 1, 2),
    ],
    "others have other groups, and what has none, in any order": [
        *sent(A, X, FREE),
        given(1, 2, FREE, 2),
        given(1, 1, X, 2),
        given(1, 0, A),
        done(2, 0),
        done(2, 1, 2),
        done(2, 2, 2),
    ],
    "what came back goes first, to another": [
        *sent(A, B),
        given(1, 0, A),
        back(2, 0),
        given(2, 0, A, 2, 2),
        done(3, 0, 2),
        given(3, 1, B),
        done(4, 1),
    ],
    "another has it when the lease is over": [
        *sent(A, B),
        given(1, 0, A),
        given(11, 0, A, 2, 2),
        given(11, 1, B, 2),
        done(12, 0, 2),
        done(12, 1, 2),
    ],
    "another has it when its receiver has ended, or the broker": [
        *sent(A, B),
        given(1, 0, A),
        Released(2, 1, "lost"),
        given(2, 0, A, 2, 2),
        Crashed(3, "killed"),
        given(4, 0, A, 3, 2),
        given(4, 1, B, 3),
        done(5, 0, 3),
        done(5, 1, 3),
    ],
    "what comes with a delay is passed": [
        *sent(A, delay=3.0),
        *sent(B),
        given(1, 1, B),
        given(4, 0, A),
        done(5, 0),
        done(5, 1),
    ],
    "a request that gets nothing while the group is another's": [
        *sent(A, B),
        given(1, 0, A),
        in_vain(1.5, 3.5),
        done(4, 0),
        given(5, 1, B),
        done(6, 1),
    ],
}
BAD_GROUPS: dict[str, tuple[str, list[Event]]] = {
    "two receivers": (
        GROUP_SHARED,
        [*sent(A, B), given(1, 0, A), given(2, 1, B, 2), done(3, 0), done(3, 1, 2)],
    ),
    "two receivers within an extension": (
        GROUP_SHARED,
        [
            *sent(A, B),
            given(1, 0, A),
            Extended(9, 1, "q", ((0, 1),), 10.0),
            given(12, 1, B, 2),
            done(13, 0),
            done(13, 1, 2),
        ],
    ),
    "a receiver and a request": (
        GROUP_SHARED,
        [*sent(A, B), given(1, 0, A), taken(2, 1, B, 1), done(3, 0), done(3, 1, TAKER)],
    ),
    "two requests of one taker": (
        GROUP_SHARED,
        [*sent(A, B), taken(1, 0, A, 1), taken(2, 1, B, 2), done(3, 0, TAKER), done(3, 1, TAKER)],
    ),
    "the second before the first": (
        REORDERED,
        [*sent(A, B), given(1, 1, B), given(2, 0, A), done(3, 0), done(3, 1)],
    ),
    "the next while the first waits to be tried again": (
        REORDERED,
        [*sent(A, B), given(1, 0, A), back(2, 0, 3.0), given(3, 1, B), given(5, 0, A, 1, 2), done(6, 0), done(6, 1)],
    ),
    "the next before what came back with its receiver's end": (
        REORDERED,
        [
            *sent(A, B),
            given(1, 0, A),
            Released(2, 1, "lost"),
            given(3, 1, B, 2),
            given(4, 0, A, 2, 2),
            done(5, 0, 2),
            done(5, 1, 2),
        ],
    ),
    "the next before what came back with a crash": (
        REORDERED,
        [
            *sent(A, B),
            given(1, 0, A),
            Crashed(2, "killed"),
            given(3, 1, B),
            given(4, 0, A, 1, 2),
            done(5, 0),
            done(5, 1),
        ],
    ),
    "a request gets nothing while another group is blocked": (
        STUCK,
        [*sent(A, X), given(1, 0, A), in_vain(1.5, 3.5), done(4, 0), given(5, 1, X), done(6, 1)],
    ),
    "a request gets nothing though there is something without a group": (
        STUCK,
        [*sent(A, FREE), given(1, 0, A), in_vain(1.5, 3.5), done(4, 0), given(5, 1, FREE), done(6, 1)],
    ),
}


@pytest.mark.parametrize("name", GOOD_GROUPS)
def test_nothing_is_found_where_a_group_has_one_receiver_and_its_order(name: str) -> None:
    assert kinds(GOOD_GROUPS[name], GROUPED) == []


@pytest.mark.parametrize("name", BAD_GROUPS)
def test_a_promise_of_groups_that_is_broken_is_found(name: str) -> None:
    kind, events = BAD_GROUPS[name]
    assert set(kinds(events, GROUPED)) == {kind}


FIRST, AGAIN, OTHER, FOURTH = "d1~a", "d1~b", "d2~c", "d3~d"
GOOD_IDS: dict[str, list[Event]] = {
    "the second of an id is confirmed and not stored": [
        *sent(FIRST),
        *sent(AGAIN, time=4),
        given(5, 0, FIRST),
        done(6, 0),
    ],
    "the first is not stored, where it may have come behind": [
        *sent(FIRST, AGAIN),
        given(5, 0, AGAIN),
        done(6, 0),
    ],
    "both are stored, when the window is over": [
        *sent(FIRST),
        *sent(AGAIN, time=5.3),
        given(6, 0, FIRST),
        given(6, 1, AGAIN),
        done(7, 0),
        done(7, 1),
    ],
    "other ids are stored": [
        *sent(FIRST, OTHER),
        given(1, 0, FIRST),
        given(1, 1, OTHER),
        done(2, 0),
        done(2, 1),
    ],
    "the first has expired before anybody got it": [
        Offered(0.1, "q", "p", 0, (FIRST,)),
        Arrived(0.1, 0, "q", (FIRST,), ttl=1.0),
        Confirmed(0.2, "q", (FIRST,)),
        *sent(AGAIN, time=4),
    ],
    "what is committed counts from then": [
        *sent(FIRST),
        given(1, 0, FIRST),
        done(2, 0),
        Staged(1, "q", "s", 0, "w", 1, (AGAIN,)),
        CommitAsked(3, "w", 1, (("q", AGAIN),)),
        CommitAnswered(3.1, "w", 1),
    ],
}
BAD_IDS: dict[str, tuple[str, list[Event]]] = {
    "both are stored within the window": (
        DUPLICATED,
        [*sent(FIRST), *sent(AGAIN, time=4), given(4.5, 0, FIRST), given(4.5, 1, AGAIN), done(6, 0), done(6, 1)],
    ),
    "both are stored within the window, though the first was done, and the broker died": (
        DUPLICATED,
        [
            *sent(FIRST),
            given(1, 0, FIRST),
            done(2, 0),
            Crashed(3, "power"),
            *sent(AGAIN, time=4),
            given(4.5, 1, AGAIN),
            done(6, 1),
        ],
    ),
    "the second is not stored when the window is over": (
        LOST,
        [*sent(FIRST), given(1, 0, FIRST), done(2, 0), *sent(AGAIN, time=6.2)],
    ),
    "neither is stored": (LOST, [*sent(FIRST), *sent(AGAIN, time=4), Drained(9, "q", 0)]),
    "one is not stored that has an id of its own": (LOST, [*sent(FIRST, OTHER), given(1, 0, FIRST), done(2, 0)]),
}


@pytest.mark.parametrize("name", GOOD_IDS)
def test_nothing_is_found_where_one_message_with_an_id_is_stored_within_the_window(name: str) -> None:
    assert kinds(GOOD_IDS[name], IDENTIFIED) == []


@pytest.mark.parametrize("name", BAD_IDS)
def test_a_promise_of_ids_that_is_broken_is_found(name: str) -> None:
    kind, events = BAD_IDS[name]
    assert set(kinds(events, IDENTIFIED)) == {kind}


def test_more_ids_than_senders_may_have_been_lent_room_for_are_found() -> None:
    def with_ids(count: int, apart: float) -> list[Event]:
        """Of one program, so many messages with an id each."""
        found: list[Event] = []
        for number in range(count):
            message, time = f"d{number}~m{number}", 1 + number * apart
            found += [
                Offered(time, "q", "p", number, (message,)),
                Arrived(time, 0, "q", (message,)),
                given(time + 0.01, number, message),
                done(time + 0.02, number),
            ]
        return found

    assert kinds(with_ids(7, 0.1), IDENTIFIED) == []
    assert kinds(with_ids(8, 0.1), IDENTIFIED) == [BEYOND]
    assert kinds(with_ids(30, 1.0), IDENTIFIED) == []


def test_a_message_says_by_its_headers_what_its_payload_begins_with() -> None:
    batch = batch_of([b"g3~d1-7~p/0|x", b"p/1|y", b"d4~p/2|z", b"\xff\xfe"])
    assert batch.headers is not None
    said = [b"group-id" in packed and b"g3" in packed for packed in batch.headers.tolist()]
    assert said == [True, False, False, False]
    assert [b"x-deduplication-header" in packed for packed in batch.headers.tolist()] == [True, False, True, False]
    assert (group_of("g3~d1-7~p/0"), id_of("g3~d1-7~p/0"), group_of("p/1"), id_of("d4~p/2")) == (
        "g3",
        "d1-7",
        None,
        "d4",
    )
    assert batch_of([b"p/1|y"]).headers is None


def test_a_program_says_ids_again_in_all_its_lives_and_the_same_ones_each_time_its_seed_runs() -> None:
    says = Says(groups=3, free=0.2, again=0.5, shared=0.5)
    saying, same = Saying(says, "queue-0-producer-1", 1), Saying(says, "queue-0-producer-1", 1)
    labels = [saying.label() for _ in range(200)]
    assert labels == [same.label() for _ in range(200)]
    assert len({id_of(label) for label in labels}) < 130
    assert {group_of(label) for label in labels} == {None, "g0", "g1", "g2"}
