"""What dead letters say of themselves, where they go, and that they are stored once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.batch import MAX_HEADERS_PER_MESSAGE, MORE_HEADERS, Message, MessageBatch
from actors.limits import MAX_NAME_BYTES
from actors.queue.operations.dead_letters import (
    AGAIN_BYTES,
    MAP_BYTES,
    packed_facts,
    readdressed,
    with_facts,
)
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.deaths import (
    DEATH_HEADERS,
    DELIVERIES,
    EXCHANGE,
    HISTORY,
    KEY,
    QUEUE,
    REASON,
    SENT,
    Death,
    history_of,
)
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.replies import DeadLetter
from actors.queue.vocabulary.settings import (
    DEAD_LETTER_PART_BYTES,
    DEAD_LETTER_SUFFIX,
    DEAD_LETTER_TIMEOUT,
    QueueSettings,
    dead_letter_name,
)
from actors.runtime.loop_future import ask
from actors.runtime.loop_ref import LoopActorRef
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.driven import QueueState
from tests.actors.stored_queues import Connection, StoredQueues, turns
from transport.wire import names as transport_names
from transport.wire.frames import MAX_BODY_BYTES

LARGE = 10**9
FACTS = packed_facts("expired", "orders", 1_700_000_000_000_000, 3)
SAID = {REASON: "expired", QUEUE: "orders", SENT: "1700000000000000", DELIVERIES: "3"}


def test_messages_without_headers_get_those_that_say_why_they_are_dead() -> None:
    batch = MessageBatch.from_messages([Message(b"%d" % number, key=b"k") for number in range(5)])
    marked = with_facts(batch, FACTS)
    assert [message.headers for message in marked.messages()] == [SAID] * 5
    assert marked.payloads is batch.payloads
    assert marked.keys is batch.keys


@pytest.mark.parametrize("count", [1, 11, 12, 15, 16, MAX_HEADERS_PER_MESSAGE])
def test_a_senders_own_headers_stay(count: int) -> None:
    own = {f"h{number}": b"v" * number for number in range(count)}
    batch = MessageBatch.from_messages([Message(b"a", headers=own), Message(b"b")])
    first, second = (message.headers for message in with_facts(batch, FACTS).messages())
    assert first == own | SAID
    assert second == SAID


def test_a_letter_that_dies_again_says_so_of_its_last_death_and_counts_and_does_not_grow() -> None:
    batch = MessageBatch.from_messages([Message(b"a", headers={"own": "x", "about": REASON})])
    once = with_facts(batch, FACTS)
    again = with_facts(once, packed_facts("max-receives", "orders.dead", 5, 7))
    for _ in range(50):
        again = with_facts(again, packed_facts("max-receives", "orders.dead", 5, 7))
    headers = dict(again.message(0).headers or {})
    history = history_of(headers)
    assert history is not None
    assert history.deaths == (
        Death("orders.dead", "max-receives", "", b"orders.dead", 5, 51),
        Death("orders", "expired", "", b"orders", 5, first=True),
    )
    del headers[HISTORY]
    assert headers == {
        "own": "x",
        "about": REASON,
        REASON: "max-receives",
        QUEUE: "orders.dead",
        SENT: "5",
        DELIVERIES: "7",
    }


def test_what_came_through_an_exchange_says_which_and_at_its_next_death_by_which_key() -> None:
    batch = MessageBatch.from_messages([Message(b"a", b"own", {"h": "1"}), Message(b"b", headers={"h": "2"})])
    once = with_facts(batch, packed_facts("rejected", "q", 1, 1, published=Published("x", "common")))
    assert [(message.headers or {})[EXCHANGE] for message in once.messages()] == ["x", "x"]
    moved = readdressed(once, "other", "common")
    assert [(message.key, (message.headers or {})[KEY]) for message in moved.messages()] == [
        (b"other", b"own"),
        (b"other", b"common"),
    ]
    again = with_facts(moved, packed_facts("expired", "r", 2, 0, published=Published("y", "")))
    for message, key in zip(again.messages(), (b"own", b"common"), strict=True):
        history = history_of(message.headers or {})
        assert history is not None
        assert history.deaths == (
            Death("r", "expired", "y", b"other", own_keys=False),
            Death("q", "rejected", "x", key, 2, first=True),
        )
        assert KEY not in (message.headers or {})


def test_a_message_with_all_the_headers_that_there_may_be_is_still_read_when_it_has_died_again() -> None:
    own = {f"h{number}": "v" for number in range(MAX_HEADERS_PER_MESSAGE)}
    batch = MessageBatch.from_messages([Message(b"a", b"k", own)])
    for queue in ("a", "b", "c"):
        facts = packed_facts("expired", queue, 1, 1, published=Published("x", ""))
        batch = readdressed(with_facts(batch, facts), f"to-{queue}", "")
    headers = batch.message(0).headers
    assert headers is not None
    assert len(headers) == MAX_HEADERS_PER_MESSAGE + MORE_HEADERS


@pytest.mark.parametrize("longest", [MAX_NAME_BYTES])
def test_another_death_takes_no_more_than_is_counted_for_it(longest: int) -> None:
    """A batch of dead letters has to fit a frame."""
    batch = MessageBatch.from_messages([Message(b"a", b"k" * longest)])
    for number in range(20):
        queue = f"{number:02d}".ljust(longest, "q")
        facts = packed_facts("max-receives", queue, 2**62, 10**9, published=Published("x" * longest, ""))
        before = 0 if batch.headers is None else len(batch.headers[0])
        batch = with_facts(batch, facts)
        assert batch.headers is not None
        assert len(batch.headers[0]) - before <= len(facts.packed) + MAP_BYTES + (AGAIN_BYTES if number else 0)


def test_headers_that_are_no_map_stay_as_they_are() -> None:
    batch = MessageBatch.from_messages([Message(b"a", headers={"a": "b"})])
    assert batch.headers is not None
    for broken in (b"\xc1", b"\x93\x01\x02\x03", b"\xde\x00", b"\xdf\xff\xff\xff\xff"):
        column = type(batch.headers).from_values([broken])
        marked = with_facts(MessageBatch(batch.payloads, headers=column), FACTS)
        assert marked.headers is not None
        assert marked.headers[0] == broken


def letters(queue: QueueState) -> list[DeadLetter]:
    return [effect for effect in queue.take_effects() if isinstance(effect, DeadLetter)]


def test_both_reasons_are_said_with_queue_time_and_deliveries() -> None:
    worn = QueueState("worn", 0, QueueSettings(max_receives=2))
    late = QueueState("late", 0, QueueSettings(ttl=5.0, dead_letter_queue="x"))
    for queue in (worn, late):
        queue.attach_sender("s", None)
        queue.request_capacity("s", 10, LARGE)
        queue.send("s", 0, MessageBatch.from_payloads([b"a", b"b"]), 0.0, 1_234_567)
    worn.attach_receiver("r")
    worn.receive("r", 4, LARGE, 0.0)
    for _ in range(2):
        worn.negative_acknowledge("r", [(0, 1)], 0.0, 1.0)
    (letter,) = letters(worn)
    assert letter.batch.message(0).headers == {
        REASON: "max-receives",
        QUEUE: "worn",
        SENT: "1234567",
        DELIVERIES: "2",
    }
    late.tick(6.0)
    (letter,) = letters(late)
    assert [message.headers for message in letter.batch.messages()] == [
        {REASON: "expired", QUEUE: "late", SENT: "1234567", DELIVERIES: "0"}
    ] * 2


def test_what_would_expire_back_to_where_it_has_expired_does_not_go_there() -> None:
    queue = QueueState("b", 0, QueueSettings(ttl=5.0, dead_letter_queue="a"))
    queue.attach_sender("s", None)
    queue.request_capacity("s", 10, LARGE)
    said = {"expired": {REASON: "expired", QUEUE: "a", SENT: "1", DELIVERIES: "0"}}
    said["tried"] = said["expired"] | {REASON: "rejected"}
    batch = MessageBatch.from_messages(
        [Message(name.encode(), headers=said.get(name)) for name in ("new", "tried", "expired", "expired", "new")]
    )
    queue.send("s", 0, batch, 0.0, 1)
    queue.tick(6.0)
    assert [
        (letter.queue, letter.again, [message.payload for message in letter.batch.messages()])
        for letter in letters(queue)
    ] == [("a", False, [b"new", b"tried"]), (None, True, [b"expired", b"expired"]), ("a", False, [b"new"])]


def test_what_dies_together_and_is_tiny_goes_in_parts_that_fit_a_frame_with_their_headers() -> None:
    queue = QueueState("q" * 255, 0, QueueSettings(ttl=5.0, dead_letter_queue="x"))
    target = QueueState("x", 1)
    count = 50_000
    queue.attach_sender("s", None)
    queue.request_capacity("s", count, LARGE)
    queue.send("s", 0, MessageBatch.from_payloads([b"x"] * count), 0.0, 1)
    queue.tick(6.0)
    moved: list[int] = []
    while found := letters(queue):
        for letter in found:
            assert letter.batch.nbytes <= 2 * DEAD_LETTER_PART_BYTES < MAX_BODY_BYTES
            moved += range(*letter.ranges[0])
            queue.dead_letters_stored(letter.ranges, 6.0)
    assert moved == list(range(count))
    assert queue.log.stored_messages == 0
    del target


@pytest.mark.parametrize(
    "queue", ["orders", "o" * 250, "o" * 251, "o" * 255, "ö" * 125, "ö" * 126, "ö" * 127, "🎈" * 63, "x" + "🎈" * 63]
)
def test_every_queue_has_a_dead_letter_queue_that_can_be_named(queue: str) -> None:
    name = dead_letter_name(queue)
    assert transport_names.check_name(name) == name
    assert name.endswith(DEAD_LETTER_SUFFIX)
    short = len(queue.encode()) + len(DEAD_LETTER_SUFFIX) <= MAX_NAME_BYTES
    assert (name == queue + DEAD_LETTER_SUFFIX) == short
    assert dead_letter_name(queue[:-1] + "y") != name


def test_dead_letters_are_stored_once_on_a_disk_that_takes_minutes(tmp_path: Path) -> None:
    async def main() -> None:
        stored = StoredQueues(tmp_path / "data", QueueSettings(max_receives=1))
        queue = stored.queues.get_or_create("q")
        told: list[Any] = []
        connection: LoopActorRef[Any] = Connection.start(told)
        queue.tell(commands.AttachSender(None, connection=connection))
        queue.tell(commands.RequestCapacity(10, LARGE, connection=connection))
        queue.tell(commands.OfferBatch(0, MessageBatch.from_payloads([b"a", b"b"]), None, None, connection=connection))
        queue.tell(commands.AttachReceiver(connection=connection))
        queue.tell(commands.DemandSignalled(2, LARGE, connection=connection))
        await stored.settled()
        queue.tell(commands.Rejected(((0, 2),), 0.0, connection=connection))
        await turns()
        # Nothing that is written from here on is durable for minutes.
        await elapse(5 * DEAD_LETTER_TIMEOUT)
        await stored.settled()
        await elapse(5 * DEAD_LETTER_TIMEOUT)
        await stored.commit()
        dead = await ask(stored.queues.get("q.dead"), commands.GetStatistics())
        source = await ask(queue, commands.GetStatistics())
        assert (dead.total_in, dead.stored_messages) == (2, 2)
        assert (source.stored_messages, source.leaving, source.total_dead_lettered) == (0, 0, 2)
        await stored.close()

    run_in_virtual_time(main())


def test_the_names_of_the_headers_are_those_that_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text()
    for name in DEATH_HEADERS:
        assert f"`{name}`" in page
