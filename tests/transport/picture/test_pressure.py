"""The judgement of a queue: one sentence, whatever the figures are, that names the one who holds the others back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.statistics import QueueStatistics
from transport.picture.pressure import DISK_BEHIND, MOST_NAMED, Kind, Party, pressure_of

SETTINGS = QueueSettings(max_messages=1000, max_bytes=2**20)
NOTHING = QueueStatistics(
    name="q",
    ready=0,
    in_flight=0,
    reserved=0,
    delayed=0,
    demand_waiting=0,
    capacity_granted=0,
    stored_messages=0,
    stored_bytes=0,
    next_sequence=0,
    total_in=0,
    total_out=0,
    total_acknowledged=0,
    total_redelivered=0,
    total_purged=0,
    oldest_ms=0,
    connections=(),
    subscriptions=(),
)


def sender(name: str, *, waits: bool = False) -> Party:
    return Party("sender", name, 0 if waits else 5, 0, waits)


def receiver(name: str, demand: int = 0, held: int = 0, *, waits: bool = False) -> Party:
    return Party("receiver", name, demand, held, waits)


FULL = {"full": True, "stored_messages": 1000, "attached_senders": 1, "waiting_senders": 1}
CASES = [
    ({}, 0, [], Kind.IDLE, "queue q is idle and empty"),
    ({"delayed": 2, "stored_messages": 2}, 0, [], Kind.IDLE, "queue q is idle: 2 waiting for a delay"),
    (
        {"demand_waiting": 3, "attached_receivers": 1},
        0,
        [receiver("a", 3)],
        Kind.IDLE,
        "queue q is idle and empty; receiver a waits for messages, and nobody sends",
    ),
    ({"ready": 1}, 0, [], Kind.NO_RECEIVER, "queue q has 1 message ready, and nobody receives: start a receiver"),
    (
        {"ready": 1, "attached_receivers": 2, "in_flight": 4},
        0,
        [receiver("a", held=1), receiver("b", held=3)],
        Kind.RECEIVER_SLOW,
        "queue q has 1 message ready: receivers a and b hold 4 messages and ask for no more",
    ),
    (
        {"ready": 1000, "attached_receivers": 1},
        0,
        [receiver("a")],
        Kind.RECEIVER_SLOW,
        "queue q has 1,000 messages ready: receiver a asks for no more",
    ),
    (
        {"ready": 2, "attached_receivers": 3, "in_flight": 1, "waiting_receivers": 2},
        0,
        [receiver("a", held=1), receiver("b", 5, waits=True), receiver("c", 5, waits=True)],
        Kind.RECEIVER_SLOW,
        "queue q has 2 messages ready: receiver a holds 1 message and asks for no more; 2 receivers stand in line",
    ),
    (
        {"ready": 2, "attached_receivers": 4},
        0,
        [receiver(name) for name in "abcd"],
        Kind.RECEIVER_SLOW,
        "queue q has 2 messages ready: 4 receivers ask for no more",
    ),
    (
        {"ready": 2, "attached_receivers": 2, "reserved": 9},
        0,
        [Party("subscription", "lake", 0, 9, False), Party("subscription", "lake", 0, 0, True)],
        Kind.RECEIVER_SLOW,
        "queue q has 2 messages ready: subscription lake holds 9 messages and asks for no more",
    ),
    (
        {"demand_waiting": 7, "attached_receivers": 1, "attached_senders": 1, "capacity_granted": 1},
        0,
        [sender("s"), receiver("a", 7)],
        Kind.SENDER_SLOW,
        "queue q has nothing ready, and receiver a wants 7 messages: sender s sends nothing, and may send 1 message",
    ),
    (
        {"demand_waiting": 7, "attached_receivers": 2, "attached_senders": 2, "delayed": 1},
        5,
        [sender("s"), sender("t"), receiver("a", 4), receiver("b", 3)],
        Kind.SENDER_SLOW,
        "queue q has nothing ready, 1 waits for a delay, and receivers a and b want 7 messages: senders s and t send less",
    ),
    (
        {**FULL, "ready": 1000, "attached_receivers": 1, "demand_waiting": 1},
        9,
        [sender("s", waits=True), receiver("a", 1)],
        Kind.LIMIT_REACHED,
        "queue q is full (1,000 of 1,000 messages): receiver a takes less than is sent; sender s waits",
    ),
    (
        {**FULL, "ready": 1000},
        0,
        [sender("s", waits=True)],
        Kind.LIMIT_REACHED,
        "queue q is full (1,000 of 1,000 messages): nobody receives; sender s waits",
    ),
    (
        {**FULL, "stored_messages": 2, "stored_bytes": 2**20, "in_flight": 2, "attached_receivers": 1},
        0,
        [sender("s", waits=True), receiver("a", held=2)],
        Kind.LIMIT_REACHED,
        "queue q is full (1.0 of 1.0 MiB): receiver a holds 2 messages and acknowledges none; sender s waits",
    ),
    (
        {"paused": "no memory", "attached_senders": 2, "waiting_senders": 1, "ready": 4},
        0,
        [sender("s", waits=True), sender("t")],
        Kind.PAUSED,
        "queue q takes nothing now: no memory; sender s waits",
    ),
    (
        {"paused": f"no memory; {DISK_BEHIND}", "ready": 4},
        0,
        [],
        Kind.DISK_BEHIND,
        f"queue q takes nothing now: no memory; {DISK_BEHIND}",
    ),
    ({"ready": 1, "demand_waiting": 1}, 5, [], Kind.FLOWING, "queue q flows: receivers take what senders send"),
    ({"ready": 1, "demand_waiting": 1}, 0, [], Kind.FLOWING, "queue q flows: 1 message is about to leave it"),
]


@pytest.mark.parametrize(("figures", "moved", "parties", "kind", "text"), CASES, ids=[case[-1] for case in CASES])
def test_the_one_who_is_slow_is_named(
    figures: dict[str, object], moved: int, parties: list[Party], kind: Kind, text: str
) -> None:
    assert pressure_of(replace(NOTHING, **figures), SETTINGS, moved, parties) == (kind, text)  # type: ignore[arg-type]


def test_without_names_there_are_numbers_in_their_place() -> None:
    figures = replace(NOTHING, ready=1, attached_receivers=1, in_flight=1)
    assert (
        pressure_of(figures, SETTINGS, 0).text
        == "queue q has 1 message ready: the receiver holds 1 message and asks for no more"
    )
    figures = replace(figures, attached_receivers=12)
    assert pressure_of(figures, SETTINGS, 0).text.endswith(": 12 receivers hold 1 message and ask for no more")


counts = st.integers(0, 10**6)
few = st.integers(0, 5)
names = st.sampled_from(["", "a", "b", "c", "d", "a b", "é", "x" * 255])
parties = st.lists(
    st.builds(Party, st.sampled_from(["sender", "receiver", "taker", "subscription"]), names, few, few, st.booleans()),
    max_size=8,
)
figures = st.builds(
    replace,
    st.just(NOTHING),
    ready=counts,
    in_flight=counts,
    reserved=counts,
    delayed=counts,
    demand_waiting=counts,
    capacity_granted=counts,
    stored_messages=counts,
    stored_bytes=counts,
    attached_senders=few,
    attached_receivers=few,
    waiting_senders=few,
    waiting_receivers=few,
    leaving=counts,
    full=st.booleans(),
    paused=st.sampled_from([None, "no memory", DISK_BEHIND]),
)


@given(figures, counts, parties)
def test_there_is_always_one_sentence_of_plain_words(found: QueueStatistics, moved: int, there: list[Party]) -> None:
    kind, text = pressure_of(found, SETTINGS, moved, there)
    assert text.startswith("queue q ")
    assert "\n" not in text
    assert "  " not in text.replace("a b", "ab")
    assert not text.endswith((" ", ":", ";", ","))
    assert 0 <= kind.rank < len(Kind)


@given(figures, counts, parties)
def test_one_does_and_several_do(found: QueueStatistics, moved: int, there: list[Party]) -> None:
    text = pressure_of(found, SETTINGS, moved, there).text
    for one in ("the receiver", "the sender", "receiver a", "sender a", "subscription a", "receiver b"):
        for verb in ("hold ", "ask ", "want ", "send ", "take ", "acknowledge ", "wait "):
            assert f"{one} {verb}" not in text
    assert " 1 messages" not in text
    assert " 1 senders" not in text
    assert " 1 receivers" not in text


@given(figures, counts, parties)
def test_nobody_is_named_who_is_not_there_and_never_more_than_a_few(
    found: QueueStatistics, moved: int, there: list[Party]
) -> None:
    text = pressure_of(found, SETTINGS, moved, there).text
    known = {party.name for party in there}
    for name in ("é", "x" * 255):
        assert (name not in text) or name in known
    assert sum(name in text for name in ("é", "x" * 255, "a b")) <= 2 * MOST_NAMED


@given(figures, counts, parties)
def test_names_change_the_words_and_not_the_judgement(found: QueueStatistics, moved: int, there: list[Party]) -> None:
    assert pressure_of(found, SETTINGS, moved, there).kind is pressure_of(found, SETTINGS, moved).kind


@given(figures, counts, parties)
def test_a_receiver_is_slow_only_where_nobody_wants_what_is_ready(
    found: QueueStatistics, moved: int, there: list[Party]
) -> None:
    kind = pressure_of(found, SETTINGS, moved, there).kind
    if kind in {Kind.RECEIVER_SLOW, Kind.NO_RECEIVER}:
        assert found.ready
        assert not found.demand_waiting
    if kind is Kind.SENDER_SLOW:
        assert found.demand_waiting
        assert not found.ready
