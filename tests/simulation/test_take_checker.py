"""The checker finds every kind of broken promise to those who take, in a history made by hand, and nothing in the good ones."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.simulation.checker import check
from tests.simulation.history import (
    Arrived,
    CommitAnswered,
    CommitAsked,
    Confirmed,
    Counted,
    Crashed,
    Deleted,
    Drained,
    Event,
    Offered,
    ReceiptTold,
    Released,
    Seen,
    Settled,
    Settling,
    Started,
    TakeAnswered,
    Taken,
    Unseen,
)
from tests.simulation.judged import (
    BEYOND,
    COUNTED,
    EARLY,
    GOOD_RECEIPT,
    LOST,
    OLD_RECEIPT,
    REORDERED,
    RESURRECTED,
    STUCK,
    QueueRules,
    Timing,
)

RULES = {"q": QueueRules(visibility=10.0, taken_only=True)}
TIMING = Timing(commit=0.01, acknowledgement=0.1)
TAKER = -1


def taken(
    time: float,
    count: int = 1,
    *,
    number: int = 0,
    message: str = "a",
    visibility: float | None = None,
    replayed: bool = False,
) -> Taken:
    return Taken(time, TAKER, "q", number, (message,), count, replayed or count > 1, visibility)


def settle(
    time: float,
    delivery: int = 1,
    *,
    number: int = 0,
    how: str = "acknowledge",
    seconds: float = 0.0,
    lost: bool = False,
) -> list[Event]:
    named = ((number, delivery),)
    return [
        Settling(time, TAKER, "q", int(time * 1000), how, named, seconds),
        Settled(time, TAKER, "q", int(time * 1000), named if lost else ()),
    ]


def told(time: float, code: str | None = None, *, life: int = 1, made_in: str = "q") -> ReceiptTold:
    return ReceiptTold(time, "q", 0, 1, life, made_in, "acknowledge", code)


def answered(time: float, count: int, size: int = 1, *, messages: int = 1, most: int = 10, wait: float = 5.0) -> Event:
    return TakeAnswered(time, TAKER, "q", count, size, messages, most, 1.0, wait)


def unseen(time: float) -> Unseen:
    return Unseen(time, TAKER, "q", ((0, 1),))


def kinds(events: Sequence[Event]) -> list[str]:
    return [found.kind for found in check(events, RULES, TIMING)]


SENT: list[Event] = [
    Started(0.0, 1),
    Offered(0.1, "q", "p", 0, ("a",)),
    Arrived(0.1, 0, "q", ("a",)),
    Confirmed(0.2, "q", ("a",)),
]
BOTH: list[Event] = [
    Started(0.0, 1),
    Offered(0.1, "q", "p", 0, ("a", "b")),
    Arrived(0.1, 0, "q", ("a", "b")),
    Confirmed(0.2, "q", ("a", "b")),
]
END = Drained(60.0, "q", 0)
GOOD: dict[str, list[Event]] = {
    "taken and acknowledged": [*SENT, taken(1), *settle(2), END],
    "acknowledged again, which is too late": [*SENT, taken(1), *settle(2), *settle(3, lost=True), END],
    "returned, and taken again": [*SENT, taken(1), *settle(2, how="return"), taken(2, 2), *settle(3, 2), END],
    "an old receipt while it is with another": [
        *SENT,
        taken(1),
        *settle(2, how="return"),
        taken(2, 2),
        *settle(3, 1, lost=True),
        *settle(4, 2),
        END,
    ],
    "taken again when the time is over": [*SENT, taken(1, visibility=1.0), taken(2, 2), *settle(3, 2), END],
    "acknowledged as the time ends, either way": [*SENT, taken(1), *settle(10.995), END],
    "too late as the time ends": [*SENT, taken(1), *settle(10.995, lost=True), taken(11, 2), *settle(12, 2), END],
    "given back as the time ends, with a delay": [
        *SENT,
        taken(1),
        *settle(10.995, how="return", seconds=2),
        taken(13, 2),
        *settle(14, 2),
        END,
    ],
    "given back too late, with a delay": [
        *SENT,
        taken(1),
        *settle(10.995, how="return", seconds=2, lost=True),
        taken(11, 2),
        *settle(12, 2),
        END,
    ],
    "extended, and acknowledged beyond its first time": [
        *SENT,
        taken(1),
        *settle(10, how="extend", seconds=5),
        *settle(14),
        END,
    ],
    "seen by nobody, and taken as if for the first time": [*SENT, taken(1), unseen(2), taken(2), *settle(3), END],
    "taken again after a crash, which forgets what was not answered": [
        *SENT,
        taken(1),
        Settling(2, TAKER, "q", 1, "acknowledge", ((0, 1),), 0.0),
        Crashed(2.01, "power"),
        Started(3, 2),
        taken(4, 2),
        *settle(5, 2),
        END,
    ],
    "taken again after a stop, which turned away who was not answered": [
        *SENT,
        taken(1),
        Settling(2, TAKER, "q", 1, "acknowledge", ((0, 1),), 0.0),
        Crashed(2, "stopped"),
        Started(3, 2),
        taken(4, 1, replayed=True),
        *settle(5, 1),
        END,
    ],
    "seen by nobody, where others had been given what is behind it": [
        *BOTH,
        taken(1),
        unseen(1),
        taken(1.005, number=1, message="b"),
        taken(1.01),
        *settle(2),
        *settle(3, number=1),
        END,
    ],
    "a receipt of an earlier life": [
        *SENT,
        taken(1),
        Crashed(2, "killed"),
        Started(3, 2),
        told(4, "stale-receipt"),
        taken(4, 2),
        *settle(5, 2),
        END,
    ],
    "a receipt of another queue": [*SENT, taken(1), told(1, "foreign-receipt", made_in="r"), *settle(5), END],
    "a queue that is deleted": [*SENT, taken(1), Deleted(2, "q"), *settle(3, lost=True), END],
    "as much as was asked for": [*SENT, answered(2, 1, 99), answered(6, 0), taken(2), *settle(3), END],
    "what a queue counts": [
        *SENT,
        taken(1),
        Seen(1, TAKER, "q", 1, 0),
        Counted(2, "q", 1, 1, 0, 0, 1, 1),
        *settle(3),
        Counted(4, "q", 1, 1, 0, 1, 0, 0),
        END,
    ],
}
BAD: dict[str, tuple[str, list[Event]]] = {
    "acknowledged twice": (OLD_RECEIPT, [*SENT, taken(1), *settle(2), *settle(3), END]),
    "acknowledged by the receipt of the delivery before": (
        OLD_RECEIPT,
        [*SENT, taken(1), *settle(2, how="return"), taken(2, 2), *settle(3, 1), *settle(4, 2), END],
    ),
    "acknowledged when the time was over": (OLD_RECEIPT, [*SENT, taken(1), *settle(12), taken(12, 2), *settle(13, 2)]),
    "acknowledged and taken again": (RESURRECTED, [*SENT, taken(1), *settle(2), taken(3, 2), END]),
    "answered as acknowledged, and forgotten by a crash": (
        RESURRECTED,
        [*SENT, taken(1), *settle(2), told(2.01), Crashed(2.02, "power"), Started(3, 2), taken(4, 2), END],
    ),
    "refused though it was held": (
        GOOD_RECEIPT,
        [*SENT, taken(1), *settle(2, lost=True), taken(12, 2), *settle(13, 2)],
    ),
    "answered as acknowledged, and forgotten by a stop": (
        RESURRECTED,
        [*SENT, taken(1), *settle(2), Crashed(2, "stopped"), Started(3, 2), taken(4, 1, replayed=True), END],
    ),
    "given what is behind it when it had long come back, which nobody saw": (
        REORDERED,
        [*BOTH, taken(1), unseen(1), taken(1.1, number=1, message="b"), taken(1.2), *settle(2), *settle(3, number=1)],
    ),
    "what is behind it first": (
        REORDERED,
        [*BOTH, taken(1, number=1, message="b"), taken(2), *settle(3), *settle(4, number=1)],
    ),
    "what is behind it first, though another came back that nobody saw": (
        REORDERED,
        [
            *BOTH,
            taken(1, number=1, message="b"),
            Unseen(1, TAKER, "q", ((1, 1),)),
            taken(2),
            *settle(3),
            taken(4, number=1, message="b"),
            *settle(5, number=1),
        ],
    ),
    "taken from one who holds it": (EARLY, [*SENT, taken(1), taken(2, 2), *settle(3, 2), END]),
    "taken before its delay is over": (
        EARLY,
        [*SENT, taken(1), *settle(2, how="return", seconds=2), taken(3, 2), *settle(4, 2), END],
    ),
    "taken before the delay is over with which it was given back as its time ended": (
        EARLY,
        [*SENT, taken(1), *settle(10.995, how="return", seconds=2), taken(12, 2), *settle(13, 2), END],
    ),
    "counted though nobody saw it": (COUNTED, [*SENT, taken(1), unseen(2), taken(2, 2), *settle(3, 2), END]),
    "a number that was given before": (COUNTED, [*SENT, taken(1), *settle(2, how="return"), taken(2, 1), END]),
    "a delivery that nobody knows of": (COUNTED, [*SENT, taken(1), taken(12, 3), *settle(13, 3), END]),
    "a receipt of an earlier life that settles": (
        OLD_RECEIPT,
        [*SENT, taken(1), Crashed(2, "killed"), Started(3, 2), taken(3, 1), told(4), *settle(5), END],
    ),
    "a receipt of another queue that settles": (OLD_RECEIPT, [*SENT, taken(1), told(2, made_in="r"), *settle(3), END]),
    "a receipt of today taken for an old one": (
        GOOD_RECEIPT,
        [*SENT, taken(1), told(2, "stale-receipt"), *settle(3), END],
    ),
    "taken from a queue that was deleted": (RESURRECTED, [*SENT, Deleted(2, "q"), taken(3), *settle(3), END]),
    "more messages than were asked for": (BEYOND, [answered(2, 2, messages=1)]),
    "more bytes than were asked for": (BEYOND, [answered(2, 2, 11, messages=2)]),
    "nothing before the time is over": (EARLY, [answered(2, 0)]),
    "nothing long after": (STUCK, [answered(7, 0)]),
    "never acknowledged": (LOST, [*SENT, taken(1), END]),
    "parts that are not the whole": (COUNTED, [Counted(2, "q", 1, 0, 0, 0, 1, 2)]),
    "a message that went nowhere": (COUNTED, [Counted(2, "q", 2, 0, 0, 0, 1, 1)]),
    "a delivery counted that nobody saw": (COUNTED, [Started(0, 1), Counted(2, "q", 1, 1, 0, 0, 1, 1)]),
}


@pytest.mark.parametrize("name", GOOD)
def test_nothing_is_found_in_a_good_history(name: str) -> None:
    assert kinds(GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_a_broken_promise_is_found(name: str) -> None:
    kind, events = BAD[name]
    assert kind in kinds(events)


def test_what_nobody_saw_may_have_been_given_to_a_connection_that_has_never_written_it() -> None:
    def found(*between: Event) -> list[str]:
        rules = {"q": QueueRules(visibility=10.0)}
        return [
            each.kind
            for each in check([*SENT, taken(1), unseen(2), *between, taken(3, 2), *settle(4, 2)], rules, TIMING)
        ]

    lost = Released(2.5, 1, "aborted")
    assert found(lost) == []
    assert found() == [COUNTED]
    assert kinds([*SENT, taken(1), unseen(2), lost, taken(3, 2), *settle(4, 2), END]) == [COUNTED], "others get nothing"
    assert kinds([*SENT, lost, taken(1), unseen(2), taken(3, 2), *settle(4, 2), END]) == [COUNTED], "it was before"


def test_what_nobody_saw_may_have_been_given_to_a_request_whose_taker_ended_before_it_was_told() -> None:
    start = [*SENT, taken(1), answered(1, 1), unseen(2)]
    assert COUNTED not in kinds([*start, Released(2.5, TAKER, "the taker ends"), taken(3, 2)])
    assert COUNTED in kinds([*start, Released(2.5, TAKER - 1, "the taker ends"), taken(3, 2)]), "another queue's"


def test_the_parts_may_be_without_what_a_commit_under_way_publishes_and_no_more() -> None:
    asked, told = CommitAsked(1, "w", 0, (("q", "m~1"), ("q", "m~2"))), CommitAnswered(1.5, "w", 0)
    assert kinds([asked, Counted(2, "q", 2, 0, 0, 0, 2, 0)]) == []
    assert kinds([asked, Counted(2, "q", 3, 0, 0, 0, 3, 0)]) == [COUNTED], "more than it has for this queue"
    assert kinds([asked, Counted(2, "q", 2, 0, 0, 0, 2, 3)]) == [COUNTED], "more than the whole"
    assert COUNTED in kinds([asked, told, Counted(2, "q", 2, 0, 0, 0, 2, 0)]), "it is over"
    assert kinds([asked, Crashed(1.5, "killed"), Counted(2, "q", 2, 0, 0, 0, 2, 0)]) == [COUNTED]
