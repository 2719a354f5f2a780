"""What is published in one turn is put together by its queues, and no queue has anything before what came before it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import Message, MessageBatch
from actors.queue.state.routed import Group, Routed, grouped
from actors.queue.state.senders import JOINED_BYTES, JOINED_MESSAGES, JOINED_NAME_BYTES, SMALL_BYTES, SMALL_MESSAGES


def routed(number: int, queues: str, messages: int = 1, size: int = 1, sender: str = "s", **more: float) -> Routed:
    batch = MessageBatch.from_payloads([b"%d" % number + bytes(size)] * messages)
    return Routed(sender, tuple(queues), batch, number + 1, offered=number, **more)


def numbers(groups: list[Group]) -> list[tuple[str, list[int]]]:
    return [("".join(group.queues), [part.offered for part in group.parts]) for group in groups]


def test_what_goes_to_the_same_queues_is_together_though_others_come_between() -> None:
    parts = [routed(0, "a"), routed(1, "b"), routed(2, "a"), routed(3, "b"), routed(4, "a")]
    assert numbers(grouped(parts)) == [("a", [0, 2, 4]), ("b", [1, 3])]


def test_a_group_is_closed_when_another_goes_to_one_of_its_queues() -> None:
    parts = [routed(0, "a"), routed(1, "ab"), routed(2, "a"), routed(3, "b"), routed(4, "ab"), routed(5, "c")]
    assert numbers(grouped(parts)) == [("a", [0]), ("ab", [1]), ("a", [2]), ("b", [3]), ("ab", [4]), ("c", [5])]


QUEUES = st.sets(st.sampled_from("abcd"), min_size=1).map(lambda chosen: "".join(sorted(chosen)))


@given(st.lists(st.tuples(QUEUES, st.sampled_from([None, 1.0]), st.sampled_from([1, 60, 200])), max_size=40))
def test_each_queue_has_all_of_its_own_in_the_order_in_which_it_came(
    published: list[tuple[str, float | None, int]],
) -> None:
    parts = [
        Routed("s", tuple(queues), MessageBatch.from_payloads([b"x"] * count), number, delay, offered=number)
        for number, (queues, delay, count) in enumerate(published)
    ]
    groups = grouped(parts)
    for queue in "abcd":
        stored = [part.offered for group in groups if queue in group.queues for part in group.parts]
        assert stored == [number for number, (queues, _, _) in enumerate(published) if queue in queues]
    for group in groups:
        assert len({(part.queues, part.delay) for part in group.parts}) == 1
        assert sum(len(part.batch) for part in group.parts) <= JOINED_MESSAGES


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (routed(0, "a"), routed(1, "a", delay=1.0)),
        (routed(0, "a"), routed(1, "a", ttl=1.0)),
        (routed(0, "a"), Routed("s", ("a",), MessageBatch.from_messages([Message(b"x", b"key")]), 2, offered=1)),
        (routed(0, "a"), routed(1, "a", messages=SMALL_MESSAGES + 1)),
        (routed(0, "a", messages=SMALL_MESSAGES + 1), routed(1, "a")),
        (routed(0, "a"), routed(1, "a", size=SMALL_BYTES)),
    ],
)
def test_what_cannot_be_one_batch_is_two_in_order(first: Routed, second: Routed) -> None:
    assert numbers(grouped([first, second])) == [("a", [0]), ("a", [1])]


def test_no_group_is_larger_than_a_batch_may_be() -> None:
    many = [routed(number, "a", messages=100) for number in range(100)]
    large = [routed(number, "a", size=20_000) for number in range(100)]
    named = [routed(number, "a", sender=str(number))._replace(name_bytes=1_000) for number in range(100)]
    for parts in (many, large, named):
        groups = grouped(parts)
        assert len(groups) > 1
        assert [part.offered for group in groups for part in group.parts] == list(range(100))
        for group in groups:
            assert sum(len(part.batch) for part in group.parts) <= JOINED_MESSAGES
            assert sum(part.batch.nbytes for part in group.parts) <= JOINED_BYTES
            assert sum({part.sender: part.name_bytes for part in group.parts}.values()) <= JOINED_NAME_BYTES
