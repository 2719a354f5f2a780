"""What is published in one turn is put together by its queues, and no queue has anything before what came before it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import Message, MessageBatch
from actors.queue.state.routed import Group, Routed, grouped, joined_parts
from actors.queue.state.senders import JOINED_BYTES, JOINED_MESSAGES, JOINED_NAME_BYTES, SMALL_BYTES, SMALL_MESSAGES
from actors.queue.vocabulary.published import Published


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
        (routed(0, "a"), routed(1, "a")._replace(exchange="x")),
        (
            routed(0, "a"),
            Routed("s", ("a",), MessageBatch.from_messages([Message(b"x", headers={"h": "v"})]), 2, offered=1),
        ),
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
    keyed = [
        routed(number, "a", messages=100)._replace(routing_key=bytes([65 + number % 26]).decode() * 255)
        for number in range(100)
    ]
    for parts in (many, large, named, keyed):
        groups = grouped(parts)
        assert len(groups) > 1
        assert [part.offered for group in groups for part in group.parts] == list(range(100))
        for group in groups:
            assert sum(len(part.batch) for part in group.parts) <= JOINED_MESSAGES
            assert joined_parts(group.parts)[0].nbytes <= JOINED_BYTES
            assert sum({part.sender: part.name_bytes for part in group.parts}.values()) <= JOINED_NAME_BYTES


KEYS = st.sampled_from(["", "a", "b.c", "\u00e9" * 20])
OWN = st.none() | st.lists(st.sampled_from([b"", b"x", b"y.z"]), min_size=1, max_size=4)


@given(st.lists(st.tuples(KEYS, OWN, st.integers(1, 4)), min_size=1, max_size=6), st.data())
def test_each_message_of_what_is_joined_has_the_routing_key_that_it_had(
    sent: list[tuple[str, list[bytes] | None, int]], data: st.DataObject
) -> None:
    parts, expected, payloads = [], [], []
    for number, (common, own, count) in enumerate(sent):
        keys = [None] * count if own is None else own
        messages = [Message(b"%d.%d" % (number, index), key or None) for index, key in enumerate(keys)]
        batch = (
            MessageBatch.from_messages([*messages, Message(b"more", b"more")])
            if own
            else MessageBatch.from_messages(messages)
        )
        # A part of a larger batch: its columns begin behind others.
        start = data.draw(st.integers(0, len(messages) - 1))
        batch = batch.slice(start, len(messages))
        parts.append(Routed("s", ("q",), batch, 0, exchange="x", routing_key=common))
        expected += [key.decode() if key else common for key in keys[start:]]
        payloads += [message.payload for message in messages[start:]]
    joined, common = joined_parts(parts)
    published = Published("x", common)
    keys = [b""] * len(joined) if joined.keys is None else joined.keys.tolist()
    assert [published.key_of(key) for key in keys] == expected
    assert joined.payloads.tolist() == payloads
    bare = all(part.batch.keys is None for part in parts) and len({part.routing_key for part in parts}) == 1
    assert (joined.keys is None) == bare


def test_one_routing_key_in_common_gives_no_message_a_key_of_its_own() -> None:
    own = Routed("s", ("q",), MessageBatch.from_messages([Message(b"x", b"own"), Message(b"y")]), 2, routing_key="k")
    for parts in (
        [routed(0, "q")._replace(routing_key="k"), own],
        [own, routed(0, "q")._replace(routing_key="k"), own],
    ):
        joined, common = joined_parts(parts)
        assert common == "k"
        assert [message.key for message in joined.messages()].count(None) == len(joined) - sum(
            part is own for part in parts
        )
    assert joined_parts([routed(0, "q")._replace(routing_key="k")] * 3)[0].keys is None


def test_what_has_keys_and_what_has_none_is_one_group_whatever_they_are() -> None:
    keys = [b"k%d" % number if number % 2 else None for number in range(1_000)]
    batches = [MessageBatch.from_messages([Message(b"x", key)]) for key in keys]
    parts = [Routed("s", ("a",), batch, 1, routing_key=f"r{number}") for number, batch in enumerate(batches)]
    (group,) = grouped(parts)
    joined, common = joined_parts(group.parts)
    assert common == ""
    assert joined.keys is not None
    assert joined.keys.tolist() == [key or b"r%d" % number for number, key in enumerate(keys)]
