"""The history checker finds every kind of broken promise in a history made by hand, and nothing in the good ones."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.simulation.checker import (
    DUPLICATED,
    EARLY,
    EXPIRED,
    LOST,
    PHANTOM,
    REORDERED,
    RESURRECTED,
    SHARED,
    STUCK,
    QueueRules,
    Timing,
    check,
)
from tests.simulation.history import (
    Acknowledged,
    Arrived,
    Confirmed,
    Crashed,
    Delivered,
    Drained,
    Event,
    Extended,
    Handled,
    History,
    Offered,
    Refused,
    Released,
    Returned,
    Started,
)

PLAIN = QueueRules(visibility=10.0)
TIMING = Timing(commit=0.01, acknowledgement=0.1)


def offered(*messages: str, number: int = 0, producer: str = "p", queue: str = "q", time: float = 0.0) -> Offered:
    return Offered(time, queue, producer, number, messages)


def delivered(
    time: float, first: int, *messages: str, to: int = 1, count: int = 1, replayed: bool = False, queue: str = "q"
) -> Delivered:
    return Delivered(time, to, queue, first, messages, count, replayed)


def done(time: float, first: int, count: int = 1, by: int = 1, queue: str = "q") -> Acknowledged:
    return Acknowledged(time, by, queue, ((first, count),))


def confirmed(*messages: str, time: float = 0.2) -> Confirmed:
    return Confirmed(time, "q", messages)


def arrived(time: float, *messages: str, delay: float | None = None, ttl: float | None = None) -> Arrived:
    return Arrived(time, 0, "q", messages, delay, ttl)


def kinds(events: Sequence[Event], rules: dict[str, QueueRules] | QueueRules = PLAIN) -> list[str]:
    return [found.kind for found in check(events, {"q": rules} if isinstance(rules, QueueRules) else rules, TIMING)]


SENT = [offered("a", "b"), arrived(0.1, "a", "b"), confirmed("a", "b")]

RETURNED_LATE = [*SENT, delivered(1, 0, "a", "b"), Returned(10.995, 1, "q", ((0, 1),), 0.0)]
GOOD: dict[str, list[Event]] = {
    "delivered and acknowledged": [*SENT, delivered(1, 0, "a", "b"), done(2, 0, 2), Drained(3, "q", 0)],
    "never confirmed, never delivered": [offered("a"), arrived(0.1, "a"), Crashed(0.2, "power"), Drained(3, "q", 0)],
    "given back as the lease ends, when it has been given to the same receiver again, and that is becoming durable": [
        *RETURNED_LATE,
        delivered(10.999, 0, "a", count=2),
        delivered(10.999, 0, "a", count=3),
        done(12, 0, 2),
    ],
    "extended a little as the lease ends, when it has been given to the same receiver again": [
        *SENT,
        delivered(1, 0, "a", "b"),
        Extended(10.995, 1, "q", ((0, 1),), 1.0),
        delivered(10.999, 0, "a", count=2),
        delivered(12.1, 0, "a", count=3),
        done(13, 0, 2),
    ],
    "redelivered when the lease is over": [
        *SENT,
        delivered(1, 0, "a", "b"),
        delivered(11, 0, "a", "b", to=2, count=2, replayed=True),
        done(12, 0, 2, by=2),
    ],
    "redelivered when given back": [
        *SENT,
        delivered(1, 0, "a", "b"),
        Returned(2, 1, "q", ((0, 2),), 3.0),
        delivered(5, 0, "a", "b", count=2, replayed=True),
        done(6, 0, 2),
    ],
    "given back too late for its delay to count": [
        *SENT,
        delivered(1, 0, "a", "b"),
        Returned(12, 1, "q", ((0, 2),), 3.0),
        delivered(13, 0, "a", "b", count=2, replayed=True),
        done(14, 0, 2),
    ],
    "redelivered when the connection is gone": [
        *SENT,
        delivered(1, 0, "a", "b"),
        Released(2, 1, "lost"),
        delivered(2, 0, "a", "b", to=2, count=2, replayed=True),
        done(3, 0, 2, by=2),
    ],
    "redelivered when it was written to a connection that was just let go": [
        *SENT,
        Released(1, 1, "CANCEL"),
        delivered(1, 0, "a", "b"),
        delivered(2, 0, "a", "b", to=2, count=2, replayed=True),
        done(3, 0, 2, by=2),
    ],
    "redelivered after a crash, its count forgotten": [
        *SENT,
        delivered(1, 0, "a", "b"),
        Crashed(2, "killed"),
        Started(3, 2),
        delivered(3, 0, "a", "b", to=2, replayed=True),
        done(4, 0, 2, by=2),
    ],
    "an acknowledgement that a crash overtook": [
        *SENT,
        delivered(1, 0, "a", "b"),
        done(2, 0, 2),
        Crashed(2.05, "killed"),
        delivered(3, 0, "a", "b", to=2, replayed=True),
    ],
    "a late acknowledgement of what nobody holds": [*SENT, delivered(1, 0, "a", "b"), done(20, 0, 2)],
    "a late acknowledgement of what somebody else holds": [
        *SENT,
        delivered(1, 0, "a", "b"),
        delivered(11, 0, "a", "b", to=2, count=2, replayed=True),
        done(12, 0, 2, by=1),
        delivered(21, 0, "a", "b", to=1, count=3, replayed=True),
        done(22, 0, 2, by=1),
    ],
    "a late acknowledgement in the instant in which somebody else ends who holds it": [
        *SENT,
        delivered(1, 0, "a", "b"),
        delivered(11, 0, "a", "b", to=2, count=2, replayed=True),
        Released(12, 2, "aborted"),
        done(12, 0, 2, by=1),
        delivered(13, 0, "a", "b", to=1, count=3, replayed=True),
        done(14, 0, 2, by=1),
    ],
    "a late acknowledgement, said twice, of what somebody else holds": [
        *SENT,
        delivered(1, 0, "a", "b"),
        delivered(11, 0, "a", "b", to=2, count=2, replayed=True),
        Acknowledged(12, 1, "q", ((0, 2), (0, 2))),
        Released(13, 2, "lost"),
        delivered(13, 0, "a", "b", to=3, count=3, replayed=True),
        done(14, 0, 2, by=3),
    ],
    "an acknowledgement refused with its connection": [
        *SENT,
        delivered(1, 0, "a", "b"),
        done(2, 0, 2),
        Released(2, 1, "ERROR unknown-acknowledgement"),
        delivered(2.5, 0, "a", "b", to=2, count=2, replayed=True),
        done(3, 0, 2, by=2),
    ],
    "an acknowledgement in the instant in which its connection is reset": [
        *SENT,
        delivered(1, 0, "a", "b"),
        done(2, 0, 2),
        Released(2, 1, "aborted"),
        delivered(2.5, 0, "a", "b", to=2, count=2, replayed=True),
        done(3, 0, 2, by=2),
    ],
    "extended": [
        *SENT,
        delivered(1, 0, "a", "b"),
        Extended(2, 1, "q", ((0, 1),), 1.0),
        delivered(3, 0, "a", to=2, count=2, replayed=True),
        done(4, 0, by=2),
        done(4, 1),
    ],
    "refused and gone": [offered("a"), arrived(0.1, "a"), Refused(0.2, "q", ("a",)), Drained(1, "q", 0)],
}

BAD: dict[str, tuple[str, list[Event]]] = {
    "confirmed and never delivered": (LOST, [*SENT, delivered(1, 0, "a"), done(2, 0), Drained(3, "q", 0)]),
    "confirmed, delivered, gone without acknowledgement": (
        LOST,
        [*SENT, delivered(1, 0, "a", "b"), done(2, 0), Drained(30, "q", 0)],
    ),
    "confirmed, and lost in a crash": (
        LOST,
        [*SENT, Crashed(1, "power"), Started(2, 2), delivered(3, 0, "a"), done(4, 0), Drained(5, "q", 0)],
    ),
    "acknowledged, and there again after its connection was reset later": (
        RESURRECTED,
        [
            *SENT,
            delivered(1, 0, "a", "b"),
            done(2, 0, 2),
            Released(2.1, 1, "aborted"),
            delivered(2.5, 0, "a", "b", to=2, count=2, replayed=True),
            done(3, 0, 2, by=2),
        ],
    ),
    "twice, not marked": (
        DUPLICATED,
        [
            *SENT,
            delivered(1, 0, "a", "b"),
            Released(2, 1, "lost"),
            delivered(3, 0, "a", "b", to=2),
            done(4, 0, 2, by=2),
        ],
    ),
    "twice, not marked, after a crash": (
        DUPLICATED,
        [*SENT, delivered(1, 0, "a", "b"), Crashed(2, "power"), delivered(3, 0, "a", to=2), done(4, 0, 2, by=2)],
    ),
    "stored twice": (DUPLICATED, [*SENT, delivered(1, 0, "a", "b", "a"), done(2, 0, 3)]),
    "stored in another order than sent": (REORDERED, [*SENT, delivered(1, 0, "b", "a"), done(2, 0, 2)]),
    "delivered in another order than stored": (
        REORDERED,
        [*SENT, delivered(1, 1, "b"), delivered(1, 0, "a"), done(2, 0, 2)],
    ),
    "never sent": (PHANTOM, [*SENT, delivered(1, 0, "a", "b", "c"), done(2, 0, 3)]),
    "with other bytes": (PHANTOM, [offered("a#1"), delivered(1, 0, "a#2"), done(2, 0)]),
    "another message under the same number": (
        PHANTOM,
        [*SENT, delivered(1, 0, "a"), done(1, 0), delivered(2, 0, "b", count=2), delivered(3, 1, "b"), done(4, 1)],
    ),
    "refused and delivered all the same": (PHANTOM, [offered("a"), Refused(0.2, "q", ("a",)), delivered(1, 0, "a")]),
    "another message for the program than from the broker": (
        PHANTOM,
        [*SENT, delivered(1, 0, "a", "b"), Handled(1, "q", 0, "b", 1, False), done(2, 0, 2)],
    ),
    "delivered after its acknowledgement": (
        RESURRECTED,
        [*SENT, delivered(1, 0, "a", "b"), done(2, 0, 2), delivered(3, 0, "a", to=2, count=2, replayed=True)],
    ),
    "delivered after an acknowledgement that was durable": (
        RESURRECTED,
        [*SENT, delivered(1, 0, "a", "b"), done(2, 0, 2), Crashed(2.2, "power"), delivered(3, 0, "a", replayed=True)],
    ),
    "delivered after an acknowledgement and a stop in good order": (
        RESURRECTED,
        [*SENT, delivered(1, 0, "a", "b"), done(2, 0, 2), Crashed(2, "stopped"), delivered(3, 0, "a", replayed=True)],
    ),
    "delivered after a late acknowledgement": (
        RESURRECTED,
        [*SENT, delivered(1, 0, "a", "b"), done(20, 0, 2), delivered(21, 0, "a", to=2, count=2, replayed=True)],
    ),
    "delivered after a late acknowledgement behind the end of who held it": (
        RESURRECTED,
        [
            *SENT,
            delivered(1, 0, "a", "b"),
            delivered(11, 0, "a", "b", to=2, count=2, replayed=True),
            Released(12, 2, "aborted"),
            done(12.1, 0, 2, by=1),
            delivered(13, 0, "a", to=1, count=3, replayed=True),
        ],
    ),
    "redelivered before the lease is over": (
        EARLY,
        [*SENT, delivered(1, 0, "a", "b"), delivered(10.9, 0, "a", to=2, count=2, replayed=True), done(12, 0, 2, by=2)],
    ),
    "redelivered within an extension": (
        EARLY,
        [
            *SENT,
            delivered(1, 0, "a", "b"),
            Extended(9, 1, "q", ((0, 2),), 10.0),
            delivered(11, 0, "a", to=2, count=2, replayed=True),
            done(12, 0, by=2),
            done(12, 1),
        ],
    ),
    "redelivered though its lease had not ended when it was given back and delivered again": (
        EARLY,
        [
            *SENT,
            delivered(1, 0, "a", "b"),
            Returned(10.9, 1, "q", ((0, 1),), 0.0),
            delivered(10.905, 0, "a", count=2),
            delivered(10.905, 0, "a", count=3),
            done(12, 0, 2),
        ],
    ),
    "redelivered though the answer that came too late was another receiver's": (
        EARLY,
        [
            *RETURNED_LATE,
            delivered(10.999, 0, "a", to=2, count=2),
            delivered(10.999, 0, "a", count=3),
            done(12, 0, 2),
        ],
    ),
    "redelivered long after an answer that came too late": (
        EARLY,
        [
            *RETURNED_LATE,
            delivered(11.1, 0, "a", count=2),
            delivered(11.1, 0, "a", count=3),
            done(12, 0, 2),
        ],
    ),
    "redelivered twice for one answer that came too late": (
        EARLY,
        [
            *RETURNED_LATE,
            delivered(10.999, 0, "a", count=2),
            delivered(10.999, 0, "a", count=3),
            delivered(11.001, 0, "a", to=2, count=4),
            done(12, 0, by=2),
            done(12, 1),
        ],
    ),
    "redelivered before the delay it was given back with, when an answer had once come too late": (
        EARLY,
        [
            *RETURNED_LATE,
            delivered(10.999, 0, "a", count=2),
            delivered(10.999, 0, "a", count=3),
            Returned(13, 1, "q", ((0, 1),), 0.0),
            delivered(13.001, 0, "a", count=4),
            Returned(15, 1, "q", ((0, 1),), 5.0),
            delivered(15.002, 0, "a", count=5),
            done(16, 0, 2),
        ],
    ),
    "redelivered within an extension that came too late for the delivery before": (
        EARLY,
        [
            *SENT,
            delivered(1, 0, "a", "b"),
            Extended(10.995, 1, "q", ((0, 1),), 10.0),
            delivered(10.999, 0, "a", count=2),
            delivered(11.0, 0, "a", to=2, count=3),
            done(12, 0, by=2),
            done(12, 1),
        ],
    ),
    "redelivered before the delay it was given back with": (
        EARLY,
        [
            *SENT,
            delivered(1, 0, "a", "b"),
            Returned(2, 1, "q", ((0, 1),), 3.0),
            delivered(4, 0, "a", count=2),
            done(5, 0, 2),
        ],
    ),
    "delivered before the sender's delay": (
        EARLY,
        [offered("a"), arrived(0.1, "a", delay=5.0), delivered(1, 0, "a"), done(2, 0)],
    ),
    "delivered when it had expired": (
        EXPIRED,
        [offered("a"), arrived(0.1, "a", ttl=5.0), delivered(6, 0, "a"), done(7, 0)],
    ),
    "left in the queue": (STUCK, [*SENT, delivered(1, 0, "a", "b"), done(2, 0, 2), Drained(3, "q", 1)]),
}


@pytest.mark.parametrize("name", GOOD)
def test_nothing_is_found_in_a_good_history(name: str) -> None:
    assert kinds(GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_a_broken_promise_is_found_and_named(name: str) -> None:
    kind, events = BAD[name]
    assert set(kinds(events)) == {kind}


def test_strict_order_holds_whoever_receives() -> None:
    events = [*SENT, delivered(1, 1, "b", to=1), delivered(1, 0, "a", to=2), done(2, 1), done(2, 0, by=2)]
    assert kinds(events) == []
    exclusive = QueueRules(visibility=10.0, in_order=True)
    assert REORDERED in kinds(events, exclusive)
    assert SHARED in kinds(events, exclusive)
    one_after_the_other = [
        *SENT,
        delivered(1, 0, "a"),
        Released(1, 1, "lost"),
        delivered(2, 1, "b", to=2),
        done(3, 1, by=2),
        Crashed(4, "killed"),
        delivered(5, 0, "a", replayed=True),
        done(6, 0),
    ]
    assert kinds(one_after_the_other, exclusive) == []


def test_of_a_single_active_consumer_another_has_the_queue_when_that_holds_nothing() -> None:
    single = QueueRules(visibility=10.0, single=True)
    both = [*SENT, delivered(1, 0, "a"), delivered(2, 1, "b", to=2), done(3, 0), done(3, 1, by=2)]
    assert kinds(both) == []
    assert set(kinds(both, single)) == {SHARED}
    in_turn = [*SENT, delivered(1, 0, "a"), done(2, 0), delivered(3, 1, "b", to=2), done(4, 1, by=2)]
    assert kinds(in_turn, single) == []
    expired = [*SENT, delivered(1, 0, "a"), delivered(12, 0, "a", to=2, replayed=True), done(13, 0, by=2)]
    assert SHARED not in kinds(expired, single)


def test_the_queues_own_delay_and_ttl_hold_where_the_sender_says_nothing() -> None:
    events = [offered("a"), arrived(0.0, "a"), delivered(3, 0, "a"), done(4, 0)]
    assert kinds(events) == []
    assert kinds(events, QueueRules(visibility=10.0, delay=4.0)) == [EARLY]
    assert kinds(events, QueueRules(visibility=10.0, ttl=2.0)) == [EXPIRED]


def test_a_dead_letter_is_found_in_its_queue_or_is_lost() -> None:
    rules = {
        "q": QueueRules(visibility=10.0, drops=True),
        "dead": QueueRules(visibility=10.0, fed_by=("q",)),
    }
    start = [*SENT, delivered(1, 0, "a", "b"), done(2, 0), Returned(2, 1, "q", ((1, 1),), 0.0)]
    buried = [*start, delivered(3, 0, "b", to=2, queue="dead"), done(4, 0, by=2, queue="dead")]
    assert kinds(buried, rules) == []
    assert kinds([*buried, delivered(5, 1, "b", count=2)], rules) == [DUPLICATED]
    assert kinds([*start, Drained(3, "q", 0)], rules) == [LOST]


def test_a_history_has_the_digest_of_its_events_and_their_order() -> None:
    one, same, other = (History(events) for events in ([*SENT], [*SENT], [*reversed(SENT)]))
    assert one.digest() == same.digest()
    assert one.digest() != other.digest()
