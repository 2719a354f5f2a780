"""A queue that remembers ids: what it stores, what it confirms without storing, and how many ids it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from actors.batch import Message, MessageBatch
from actors.errors import InvalidRequestError, TransactionTooLargeError
from actors.limits import DEDUPLICATION_HEADER, MAX_DEDUPLICATION_ID_BYTES
from actors.queue.operations import deduplicating
from actors.queue.operations.deduplicating import duplicates_of
from actors.queue.operations.settling import why_not_published
from actors.queue.state.accepted_ids import CHUNK_IDS, FORGOTTEN_AT_ONCE, MOST_LINES, AcceptedIds, digest_of, ids_of
from actors.queue.state.staged import CommittedVersions, apply_commit
from actors.queue.vocabulary.commands import AlterQueue, ExplainWait
from actors.queue.vocabulary.events import MessagesAdded, MessagesDeduplicated
from actors.queue.vocabulary.replies import WaitExplained
from actors.queue.vocabulary.settings import DROP_HEAD, REJECT, QueueSettings
from actors.queue.vocabulary.stages import StageKey
from tests.actors.driven import Confirm, Deliver, GrantCapacity, QueueState, replayed

WALL = 1_700_000_000_000_000
LARGE = 10**9
KEY = StageKey("w", 0, "s")
Said = str | tuple[str, str]
"""A payload, and its id where it has one."""


def batch_of(*said: Said) -> MessageBatch:
    return MessageBatch.from_messages(
        [
            Message(each.encode()) if isinstance(each, str) else Message(each[0].encode(), deduplication_id=each[1])
            for each in said
        ]
    )


class Bench:
    """One queue with a clock, one sender and one receiver."""

    def __init__(self, window: float | None = 10.0, **settings: Any) -> None:
        self.events: list[Any] = []
        self.now = 100.0
        self.versions = CommittedVersions()
        self.settings = QueueSettings(deduplication_window=window, **settings)
        self.queue = self._made(None)
        self.sent = 0
        self.attach("s")

    def _made(self, log: Any) -> QueueState:
        return QueueState(
            "q", 3, self.settings, log=log, record=self._record, now=self.now, wall_us=self.wall, versions=self.versions
        )

    def _record(self, event: Any) -> int:
        self.events.append(event)
        return len(self.events)

    @property
    def wall(self) -> int:
        return WALL + round(self.now * 1e6)

    def attach(self, name: str, producer: str | None = None, messages: int = 1_000) -> int | None:
        last = self.queue.attach_sender(name, producer)
        self.queue.request_capacity(name, messages, LARGE)
        return last

    def send(self, *said: Said, sender: str = "s", at: int | None = None) -> Confirm:
        """Send a batch; the confirmation."""
        first = self.sent if at is None else at
        self.queue.accept(sender, first, batch_of(*said))
        self.queue.store(self.now, self.wall)
        if at is None:
            self.sent += len(said)
        (confirm,) = self.confirmed()
        return confirm

    def confirmed(self) -> list[Confirm]:
        return [effect for effect in self.queue.take_effects() if isinstance(effect, Confirm)]

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.queue.tick(self.now)

    def received(self) -> list[str]:
        """What a receiver gets that acknowledges it all."""
        if not self.queue.receivers:
            self.queue.attach_receiver("r")
        self.queue.receive("r", LARGE, LARGE, self.now)
        found: list[str] = []
        for effect in self.queue.take_effects():
            if isinstance(effect, Deliver):
                found += [payload.decode() for payload in effect.batch.payloads]
                self.queue.acknowledge("r", [(effect.first, len(effect.batch))])
        self.queue.cancel_demand("r")
        return found

    def alter(self, **settings: Any) -> None:
        self.queue.execute(AlterQueue(QueueSettings(**settings)), self.now, self.wall)

    def restart(self) -> None:
        """From what was recorded."""
        self.queue = self._made(replayed(self.events))
        self.sent = 0
        self.attach("s")

    def commit(self, *names: str, version: int = 0, is_acted_on: bool = True) -> None:
        self.events.append("the transaction's record")
        ended = apply_commit(
            {3: self.queue.log},
            self.versions,
            "w",
            version,
            {3: names},
            len(self.events),
            lambda log, published: duplicates_of(log, published, self.wall),
        )
        self.events[-1] = ended[3]
        if is_acted_on:
            self.queue.end_stages(ended[3], len(self.events), self.now)


def test_a_message_with_a_known_id_is_confirmed_and_not_stored() -> None:
    bench = Bench()
    first = bench.send(("a", "1"))
    assert (first.first, first.numbers) == (0, None)
    again = bench.send(("b", "1"))
    assert (again.up_to, again.first, again.rejected, again.numbers) == (2, 1, None, ((None, 1),))
    assert again.after == bench.events.index(bench.events[-1]) + 1, "it waits for what the first is durable by"
    assert bench.received() == ["a"]
    assert bench.queue.statistics(bench.now).total_deduplicated == 1
    assert bench.queue.statistics(bench.now).deduplication_ids == 1


def test_of_a_batch_the_others_are_stored_in_their_order_by_one_record() -> None:
    bench = Bench()
    bench.send(("a", "1"), "plain")
    before = len(bench.events)
    sent = bench.send("b", ("c", "1"), ("d", "2"), ("e", "2"), ("f", "1"), "g")
    assert sent.numbers == ((2, 1), (None, 1), (3, 1), (None, 2), (4, 1))
    assert [type(event) for event in bench.events[before:]] == [MessagesAdded]
    assert bench.received() == ["a", "plain", "b", "d", "g"]
    assert bench.queue.total_deduplicated == 3


def test_what_comes_in_one_turn_is_judged_in_its_order_whoever_sent_it() -> None:
    bench = Bench()
    bench.attach("other")
    bench.queue.accept("s", 0, batch_of(("a", "1"), ("b", "2")))
    bench.queue.accept("other", 0, batch_of(("c", "2"), ("d", "3")))
    bench.queue.accept("s", 2, batch_of(("e", "3")))
    bench.queue.store(bench.now, bench.wall)
    assert [(each.sender, each.up_to, each.numbers) for each in bench.confirmed()] == [
        ("s", 2, ((0, 2),)),
        ("other", 2, ((None, 1), (2, 1))),
        ("s", 3, ((None, 1),)),
    ]
    assert bench.received() == ["a", "b", "d"]


def test_the_window_counts_from_the_first_and_goes_on_when_that_is_gone() -> None:
    bench = Bench(window=10.0)
    bench.send(("a", "1"))
    assert bench.received() == ["a"]
    bench.pass_time(6.0)
    bench.send(("b", "1"))
    bench.pass_time(3.9)
    bench.send(("c", "1"))
    assert bench.received() == []
    bench.pass_time(0.2)
    bench.send(("d", "1"))
    assert bench.received() == ["d"], "a duplicate makes it no longer"
    bench.pass_time(9.9)
    bench.send(("e", "1"))
    assert bench.received() == []


def test_the_ids_are_there_after_a_restart_and_no_others() -> None:
    bench = Bench()
    bench.send(("a", "1"), "x", ("b", "2"))
    bench.received()
    bench.pass_time(5.0)
    bench.send(("c", "3"))
    bench.restart()
    assert bench.send(("d", "1"), ("e", "4"), ("f", "3")).numbers == ((None, 1), (4, 1), (None, 1))
    bench.pass_time(5.0)
    bench.restart()
    assert bench.send(("g", "1"), ("h", "3")).numbers == ((5, 1), (None, 1))


def test_a_time_of_day_that_goes_back_makes_no_message_a_duplicate_that_was_none() -> None:
    bench = Bench(window=10.0)
    bench.send(("a", "1"))
    bench.pass_time(20.0)
    bench.send("x")
    bench.now -= 15.0
    assert bench.send(("b", "1")).first == 2


def test_nobody_looks_at_ids_in_a_queue_without_a_window() -> None:
    bench = Bench(window=None)
    bench.send(("a", "1"))
    sent = bench.send(("b", "1"))
    assert (sent.first, sent.numbers) == (1, None)
    assert bench.queue.log.accepted is None
    assert not any(event.ids_until_us for event in bench.events)
    assert bench.received() == ["a", "b"]


def test_a_producer_that_sends_only_duplicates_is_remembered_as_far_as_it_is() -> None:
    bench = Bench()
    bench.attach("p", "producer")
    bench.send(("a", "1"), sender="p", at=0)
    bench.send(("b", "1"), ("c", "1"), sender="p", at=1)
    assert bench.events[-1] == MessagesDeduplicated((("producer", 3),))
    bench.restart()
    assert bench.attach("p", "producer") == 3
    again = bench.send(("b", "1"), ("c", "1"), ("d", "2"), sender="p", at=1)
    assert (again.first, again.numbers) == (None, None), "what it sends again is known by its numbers"
    assert bench.queue.total_deduplicated == 0, "and counts as no duplicate"
    assert bench.received() == ["a", "d"]


def test_seen_again_a_record_of_duplicates_takes_no_producer_back() -> None:
    bench = Bench()
    bench.attach("p", "producer")
    bench.send(("a", "1"), sender="p", at=0)
    bench.send(("b", "1"), sender="p", at=1)
    bench.send(("c", "2"), sender="p", at=2)
    log = bench.queue.log
    log.apply(MessagesDeduplicated((("producer", 2),)))
    assert log.last_number("producer") == 3


def test_an_id_that_is_too_long_is_refused_and_nothing_of_its_batch_is_stored() -> None:
    bench = Bench()
    with pytest.raises(InvalidRequestError, match=r"deduplication id of 1025 bytes exceeds 1024"):
        bench.queue.accept("s", 0, batch_of(("a", "1"), ("b", "x" * (MAX_DEDUPLICATION_ID_BYTES + 1))))
    assert bench.send(("a", "1"), ("b", "x" * MAX_DEDUPLICATION_ID_BYTES)).numbers is None


def test_an_empty_id_is_none_and_a_text_is_its_bytes() -> None:
    messages = [
        Message(b"a", headers={DEDUPLICATION_HEADER: ""}),
        Message(b"b", headers={DEDUPLICATION_HEADER: "é"}),
        Message(b"c", headers={DEDUPLICATION_HEADER: "é".encode()}),
        Message(b"d", headers={"other": DEDUPLICATION_HEADER}),
    ]
    found = ids_of(MessageBatch.from_messages(messages))
    assert found == [None, digest_of("é".encode()), digest_of("é".encode()), None]
    assert ids_of(MessageBatch.from_messages([messages[0], messages[3]])) is None


# --- bounded


def granted(bench: Bench) -> int:
    return sum(effect.messages for effect in bench.queue.take_effects() if isinstance(effect, GrantCapacity))


@pytest.mark.parametrize("limits", [{}, {"max_messages": None}, {"max_messages": 5, "overflow": DROP_HEAD}])
def test_senders_wait_while_as_many_ids_are_remembered_as_may_be(limits: dict[str, Any]) -> None:
    bench = Bench(window=10.0, max_deduplication_ids=8, **limits)
    assert granted(bench) == 8
    bench.send(*((str(n), str(n)) for n in range(8)))
    assert bench.received() == [str(n) for n in range(8)[-(limits.get("max_messages") or 8) :]]
    bench.queue.request_capacity("s", 1, LARGE)
    assert granted(bench) == 0, "that they are consumed makes no room for ids"
    assert len(bench.queue.log.accepted or ()) == 8
    deadline = bench.queue.next_deadline()
    assert deadline is not None
    bench.pass_time(9.9)
    assert granted(bench) == 0
    bench.pass_time(0.2)
    assert granted(bench) > 0
    assert not bench.queue.log.accepted
    assert bench.send(("0", "0")).first == 8


def test_the_queue_wakes_when_the_oldest_may_be_forgotten_and_not_for_each() -> None:
    bench = Bench(window=10.0, max_deduplication_ids=4)
    for n in range(4):
        bench.send((str(n), str(n)))
        bench.now += 0.001
    bench.queue.request_capacity("s", 1, LARGE)
    assert granted(bench) == 0
    due = bench.queue.next_deadline()
    assert due == pytest.approx(110.0)
    bench.now = due or 0.0
    bench.queue.tick(bench.now)
    assert len(bench.queue.log.accepted or ()) == 3
    later = bench.queue.next_deadline()
    assert later is None or later >= bench.now + 0.05


def test_a_sender_is_told_that_it_waits_for_ids() -> None:
    bench = Bench(window=10.0, max_deduplication_ids=2)
    bench.send(("a", "1"), ("b", "2"))
    bench.queue.request_capacity("s", 5, LARGE)
    bench.queue.take_effects()
    bench.queue.execute(ExplainWait(7, "s"), bench.now, bench.wall)  # type: ignore[arg-type]  # any name is a connection here
    (told,) = bench.queue.effects
    assert isinstance(told.reply, WaitExplained)  # type: ignore[union-attr]  # it is no dead letter
    assert "remembers as many ids as it may (2 of 2)" in told.reply.text  # type: ignore[union-attr]
    assert bench.queue.statistics(bench.now).full


def test_a_queue_that_rejects_says_that_it_has_no_room_for_ids_and_still_answers_duplicates() -> None:
    bench = Bench(window=10.0, max_deduplication_ids=2, overflow=REJECT)
    bench.send(("a", "1"), ("b", "2"))
    assert "max_deduplication_ids 2" in str(bench.send(("c", "3"), at=2).rejected)
    assert bench.send(("d", "1"), ("e", "2"), at=2).numbers == ((None, 2),)
    assert bench.send("without", at=4).first == 2
    bench.pass_time(10.0)
    assert bench.send(("c", "3"), at=5).first == 3


def test_what_comes_in_one_turn_leads_a_queue_that_rejects_beyond_no_limit_of_ids() -> None:
    bench = Bench(window=10.0, max_deduplication_ids=2, overflow=REJECT)
    for at, name in enumerate(("1", "1", "2", "2", "3")):
        bench.queue.accept("s", at, batch_of((f"payload {at}", name)))
    bench.queue.store(bench.now, bench.wall)
    told = bench.confirmed()
    assert [each.numbers for each in told[:4]] == [((0, 1),), ((None, 1),), ((1, 1),), ((None, 1),)]
    assert "remembers 0 ids of max_deduplication_ids 2" in str(told[4].rejected)
    assert len(bench.queue.log.accepted or ()) == 2
    bench.pass_time(10.0)
    assert bench.send(("c", "3"), at=4).first == 2, "what was accepted has come"


def test_altered_settings_hold_for_what_comes_and_without_a_window_nothing_is_remembered() -> None:
    bench = Bench(window=10.0)
    bench.send(("a", "1"))
    bench.alter(deduplication_window=100.0)
    bench.send(("b", "2"))
    bench.pass_time(11.0)
    assert bench.send(("c", "1"), ("d", "2")).numbers == ((2, 1), (None, 1))
    bench.alter()
    assert bench.queue.log.accepted is None
    bench.alter(deduplication_window=100.0)
    assert bench.send(("e", "2")).first == 3


# --- transactions


def stage(bench: Bench, connection: str, key: StageKey, *said: Said) -> None:
    bench.queue.attach_stage(connection, key, bench.now)
    bench.queue.request_capacity(connection, 100, LARGE)
    bench.queue.accept(connection, 0, batch_of(*said))
    bench.queue.store(bench.now, bench.wall)
    bench.queue.take_effects()


def test_the_ids_of_a_transaction_count_at_its_commit() -> None:
    bench = Bench()
    stage(bench, "w", KEY, ("a", "1"), ("b", "2"), ("c", "2"), "d")
    assert bench.send(("x", "1")).first == 4, "what is staged is no message yet"
    bench.commit("s")
    assert bench.received() == ["b", "d", "x"], "in the place of its numbers, without what came twice"
    assert bench.queue.total_deduplicated == 2
    assert bench.send(("y", "2")).numbers == ((None, 1),)
    log = bench.queue.log
    assert log.total_in == 3
    again = replayed(bench.events)
    assert again == log
    assert dict(again.accepted or ()) == dict(log.accepted or ())


def test_a_duplicate_of_what_a_transaction_has_published_waits_until_that_is_durable() -> None:
    bench = Bench()
    stage(bench, "w", KEY, ("a", "1"))
    bench.commit("s", is_acted_on=False)
    again = bench.send(("b", "1"))
    assert again.numbers == ((None, 1),)
    assert again.after == len(bench.events), "be it that the queue has not acted on the commit"


def test_an_aborted_transaction_leaves_no_ids() -> None:
    bench = Bench()
    stage(bench, "w", KEY, ("a", "1"))
    assert bench.queue.log.staged_ids == 1
    bench.queue.discard_transaction("w", 0, bench.now)
    assert bench.queue.log.staged_ids == 0
    bench.queue.take_effects()
    assert bench.send(("x", "1")).numbers is None


def test_two_stages_of_a_transaction_are_judged_in_the_order_of_their_numbers() -> None:
    bench = Bench()
    stage(bench, "w", KEY, ("a", "1"))
    stage(bench, "v", KEY._replace(name="t"), ("b", "1"), ("c", "2"))
    bench.commit("t", "s")
    assert bench.received() == ["a", "c"]


def test_open_transactions_hold_no_more_ids_than_may_be_looked_at_in_one_instant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deduplicating, "MAX_STAGED_IDS", 3)
    bench = Bench()
    stage(bench, "w", KEY, ("a", "1"), ("b", "2"), "without")
    with pytest.raises(TransactionTooLargeError, match="MAX_STAGED_IDS 3"):
        bench.queue.accept("w", 3, batch_of(("c", "3"), ("d", "4")))


def test_a_queue_that_rejects_takes_no_transaction_whose_new_ids_have_no_room() -> None:
    bench = Bench(max_deduplication_ids=2, overflow=REJECT)
    bench.send(("a", "1"))
    stage(bench, "w", KEY, ("b", "1"), ("c", "2"), "without")
    published = [bench.queue.log.stages[KEY]]
    assert why_not_published(bench.queue, published, 0) is None
    bench.send(("d", "3"))
    assert "remembers 2 ids of max_deduplication_ids 2" in str(why_not_published(bench.queue, published, 0))
    bench.pass_time(10.0)
    assert why_not_published(bench.queue, published, 0) is None


# --- the memory of ids


def test_many_ids_are_forgotten_in_their_order_across_pieces() -> None:
    accepted = AcceptedIds(window_us=10, limit=10**6)
    digests = [digest_of(str(n).encode()) for n in range(2 * CHUNK_IDS + 5)]
    for at, digest in enumerate(digests):
        accepted.forget(at)
        accepted.add([digest], at + 100_000)
    told = 0
    while told == 0 or accepted.is_behind:
        before = len(accepted)
        accepted.forget(100_000 + CHUNK_IDS + 2)
        told += 1
        assert before - len(accepted) <= FORGOTTEN_AT_ONCE
        assert digests[CHUNK_IDS + 2] not in accepted, "it does not count, be it not forgotten yet"
    assert told > CHUNK_IDS // FORGOTTEN_AT_ONCE
    assert len(accepted) == CHUNK_IDS + 2
    assert digests[CHUNK_IDS + 2] not in accepted
    assert digests[CHUNK_IDS + 3] in accepted
    again = AcceptedIds(window_us=10, limit=10**6)
    picture = accepted.picture()
    accepted.add([b"z" * 16], 10**9)
    for piece in picture:
        again.restore(*piece.stored())
    assert b"z" * 16 not in again, "the picture is of before"
    again.forget(100_000 + CHUNK_IDS + 2)
    assert list(again) == list(accepted)[:-1]
    while accepted.is_behind or len(accepted):
        accepted.forget(10**9)
    assert (len(accepted), accepted.oldest_us, accepted.picture()) == (0, None, [])


def test_ids_of_a_shorter_window_make_room_when_that_is_over_whatever_came_before_them() -> None:
    limits: dict[str, Any] = {"max_deduplication_ids": 4, "overflow": REJECT}
    bench = Bench(window=3_600.0, **limits)
    bench.send(("a", "1"))
    bench.alter(deduplication_window=1.0, **limits)
    bench.send(("b", "2"), ("c", "3"), ("d", "4"))
    assert bench.send(("e", "5")).rejected is not None
    bench.pass_time(2.0)
    accepted = bench.queue.log.accepted
    assert accepted is not None
    assert len(accepted) == 1
    assert bench.send(("f", "1"), ("g", "2"), ("h", "5"), at=4).numbers == ((None, 1), (4, 2))


def test_ids_of_many_windows_are_forgotten_in_time_and_come_back_from_a_picture() -> None:
    accepted = AcceptedIds(limit=1_000)
    accepted.forget(WALL)
    dues = [WALL + (30 - step) * 1_000_000 for step in range(30)] + [WALL + 60_000_000]
    for number, due_us in enumerate(dues):
        accepted.add([digest_of(b"%d" % number)], due_us)
    again = AcceptedIds(limit=1_000)
    for piece in accepted.picture():
        again.restore(*piece.stored())
    for ids in (accepted, again):
        assert (len(ids), ids.oldest_us) == (len(dues), min(dues[:MOST_LINES]))
        for seconds in (5, 20, 40, 70):
            now_us = WALL + seconds * 1_000_000
            ids.forget(now_us)
            kept = [digest_of(b"%d" % number) in ids for number in range(len(dues))]
            assert kept == [due_us > now_us for due_us in dues]
            assert ids.oldest_us is None or ids.oldest_us > now_us
        assert (len(ids), ids.oldest_us) == (0, None)


def test_an_id_that_came_again_is_remembered_for_its_second_time() -> None:
    accepted = AcceptedIds(window_us=10, limit=5)
    accepted.forget(0)
    accepted.add([digest_of(b"%d" % number) for number in range(FORGOTTEN_AT_ONCE)], 5)
    accepted.add([b"y" * 16], 5)
    accepted.forget(7)
    assert len(accepted) == 1, "so many are forgotten in one go"
    assert b"y" * 16 not in accepted
    accepted.add([b"y" * 16], 17)
    accepted.forget(12)
    assert b"y" * 16 in accepted
    assert len(accepted) == 1


@pytest.mark.parametrize(("digests", "dues"), [(b"x" * 16, b""), (b"", b""), (b"x" * 15, b"\0" * 8)])
def test_a_piece_that_does_not_hold_together_is_refused(digests: bytes, dues: bytes) -> None:
    with pytest.raises(ValueError, match="bytes of ids"):
        AcceptedIds().restore(digests, dues)


def test_settings_that_cannot_be_are_refused() -> None:
    wrong: Sequence[dict[str, Any]] = (
        {"deduplication_window": 0.0},
        {"deduplication_window": 8 * 86_400.0},
        {"max_deduplication_ids": 0},
        {"max_deduplication_ids": 10_000_001},
    )
    for each in wrong:
        with pytest.raises(ValueError, match="deduplication"):
            QueueSettings(**each)
