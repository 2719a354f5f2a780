"""What judges the kills of a broker with exchanges finds every kind of broken promise, and nothing in what is good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fault.exchange_judge import EXPIRED, REJECTED, WORN_OUT, Figures, judge
from tests.fault.exchange_ledger import LONG_SECONDS, US, VIOLATIONS, Ledger, Letter, Sent, State, Transaction, Word
from tests.fault.exchange_places import (
    ALIKE,
    DEAD_ALL,
    DEAD_KEPT,
    DEAD_TEA,
    LATE,
    LATE_SECONDS,
    MAX_RECEIVES,
    REFUSED_KEY,
    REFUSING,
    RETURNING,
    letters_to,
)

Act = Callable[["Run"], Any]
NOW = 1_000 * US
SHORT = 0.3


class Run:
    """A ledger, and short words for what is entered in it."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.next_number: dict[str, int] = {}

    def send(
        self, *queues: str, sender: int = 0, ttl: float | None = None, confirmed: bool = True, **given: Any
    ) -> bytes:
        number = len(self.ledger.sent)
        payload = b"%d/%d/" % (sender, number)
        key = given.get("key", "eu.tea")
        sent = Sent(sender, number, queues, key, ttl, given.get("transaction"), confirmed)
        self.ledger.sent[payload] = sent
        return payload

    def transaction(self, state: State) -> Transaction:
        transaction = Transaction(0, len(self.ledger.transactions) + 1, state)
        self.ledger.transactions.append(transaction)
        return transaction

    def take(
        self, queue: str, payload: bytes, word: Word | None = Word.ACKNOWLEDGED, number: int | None = None, **given: Any
    ) -> int:
        """It is delivered, and answered; its number there."""
        if number is None:
            number = self.next_number.get(queue, 0)
        self.next_number[queue] = max(self.next_number.get(queue, 0), number + 1)
        marked, stored_us = given.get("marked", False), given.get("stored_us", NOW)
        arrival = self.ledger.deliver(queue, number, payload, marked, stored_us)
        if word is not None:
            self.ledger.say(arrival, word)
        return number

    def letter(
        self,
        queue: str,
        source: str,
        payload: bytes,
        reason: str = REJECTED,
        after: float = LATE_SECONDS,
        number: int | None = None,
    ) -> int:
        """A queue of dead letters delivers one."""
        if number is None:
            number = self.next_number.get(queue, 0)
        self.next_number[queue] = max(self.next_number.get(queue, 0), number + 1)
        letter = Letter(payload, source, reason, NOW, NOW + int(after * US), self.ledger.life)
        self.ledger.deliver_letter(queue, number, letter, False)
        return number

    def letters(self, source: str, payload: bytes, reason: str = REJECTED, after: float = LATE_SECONDS) -> None:
        """All queues of dead letters deliver it."""
        for queue in letters_to(source, self.ledger.sent[payload].key):
            self.letter(queue, source, payload, reason, after)

    def restart(self) -> None:
        self.ledger.life += 1

    def found(self) -> tuple[list[str], Figures]:
        verdict, figures = judge(self.ledger)
        return [kind for kind, count in verdict.counts.items() if count], figures


def taken_by_all(run: Run) -> None:
    payload = run.send(*ALIKE)
    for queue in ALIKE:
        run.take(queue, payload)


def came_again(run: Run) -> None:
    payload = run.send(RETURNING)
    number = run.take(RETURNING, payload, Word.GIVEN_BACK)
    run.take(RETURNING, payload, number=number, marked=True)


def refused(run: Run) -> None:
    payload = run.send(REFUSING)
    run.take(REFUSING, payload, Word.REFUSED)
    run.letters(REFUSING, payload)


def refused_by_a_word_that_a_kill_has_lost(run: Run) -> None:
    payload = run.send(REFUSING)
    number = run.take(REFUSING, payload, Word.REFUSED)
    run.restart()
    run.take(REFUSING, payload, number=number, marked=True)


def worn_out(run: Run) -> None:
    payload = run.send(REFUSING)
    number = run.take(REFUSING, payload, Word.GIVEN_BACK)
    for _ in range(MAX_RECEIVES - 1):
        run.take(REFUSING, payload, Word.GIVEN_BACK, number, marked=True)
    run.letters(REFUSING, payload, WORN_OUT)


def expired_on_the_way(run: Run) -> None:
    """Its acknowledgement went with the broker, and its time was over when that was there again."""
    payload = run.send(REFUSING, ttl=SHORT)
    run.take(REFUSING, payload)
    run.restart()
    run.letters(REFUSING, payload, EXPIRED)


def expired_and_gone(run: Run) -> None:
    payload = run.send(*ALIKE, ttl=SHORT)
    run.take(ALIKE[0], payload)


def expired_when_it_came_back(run: Run) -> None:
    run.take(RETURNING, run.send(RETURNING, ttl=SHORT), Word.GIVEN_BACK)


def expired_late(run: Run) -> None:
    run.letters(LATE, run.send(LATE), EXPIRED)


def whole(run: Run, state: State = State.COMMITTED) -> None:
    transaction = run.transaction(state)
    first, second = run.send(*ALIKE, transaction=transaction), run.send(LATE, transaction=transaction)
    for queue in ALIKE:
        run.take(queue, first)
    run.letters(LATE, second, EXPIRED)


def absent(run: Run, state: State) -> None:
    run.send(*ALIKE, transaction=run.transaction(state))


GOOD: dict[str, Act] = {
    "taken from each queue": taken_by_all,
    "given back, and taken then": came_again,
    "refused, and a dead letter": refused,
    "refused in vain, and taken then": refused_by_a_word_that_a_kill_has_lost,
    "given back too often": worn_out,
    "acknowledged in vain, and expired then": expired_on_the_way,
    "expired in one queue, with nowhere to go": expired_and_gone,
    "given back behind its time": expired_when_it_came_back,
    "expired, with dead letters": expired_late,
    "sent to one of the queues that are bound alike": lambda run: run.take(ALIKE[0], run.send(ALIKE[0])),
    "never confirmed, and nowhere": lambda run: run.send(*ALIKE, confirmed=False),
    "committed": whole,
    "asked for, and committed": lambda run: whole(run, State.ASKED),
    "asked for, and not committed": lambda run: absent(run, State.ASKED),
    "aborted": lambda run: absent(run, State.ABORTED),
    "given up": lambda run: absent(run, State.OPEN),
}


@pytest.mark.parametrize("name", GOOD)
def test_nothing_is_found_in_what_is_good(name: str) -> None:
    run = Run()
    GOOD[name](run)
    assert run.found()[0] == []


def test_all_of_what_is_good_is_counted() -> None:
    run = Run()
    for act in GOOD.values():
        act(run)
    kinds, figures = run.found()
    assert kinds == []
    assert figures.received == 14
    assert figures.letters == {REJECTED: 1, WORN_OUT: 1, EXPIRED: 4}
    assert figures.gone == 1
    assert figures.transactions == {State.COMMITTED: 1, State.ASKED: 2, State.ABORTED: 1, State.OPEN: 1}


# What must be found: one case at least for each kind, and for each way of it.


def in_one_queue_of_two(run: Run, confirmed: bool = True, ttl: float | None = None) -> None:
    run.take(REFUSING, run.send(REFUSING, RETURNING, confirmed=confirmed, ttl=ttl))


def in_one_of_the_queues_that_are_bound_alike(run: Run) -> None:
    run.take(ALIKE[0], run.send(*ALIKE))


def another_order(run: Run) -> None:
    """Each sender's order is right, and the two queues have not the same."""
    one, other = run.send(*ALIKE), run.send(*ALIKE, sender=1)
    for queue, order in zip(ALIKE, ((one, other), (other, one)), strict=True):
        for payload in order:
            run.take(queue, payload)


def letter_in_one_queue_of_two(run: Run, place: str = DEAD_ALL) -> None:
    payload = run.send(REFUSING)
    run.take(REFUSING, payload, Word.REFUSED)
    run.letter(place, REFUSING, payload)


def letters_of_two_records(run: Run) -> None:
    payload = run.send(REFUSING)
    run.take(REFUSING, payload, Word.REFUSED)
    run.letter(DEAD_ALL, REFUSING, payload, after=1.0)
    run.letter(DEAD_KEPT, REFUSING, payload, after=2.0)


def letters_in_another_order(run: Run) -> None:
    payloads = [run.send(REFUSING), run.send(REFUSING)]
    for payload in payloads:
        run.take(REFUSING, payload, Word.REFUSED)
    for queue, order in ((DEAD_ALL, payloads), (DEAD_KEPT, payloads[::-1])):
        for payload in order:
            run.letter(queue, REFUSING, payload)


def letter_elsewhere(run: Run) -> None:
    refused(run)
    run.letter(DEAD_TEA, REFUSING, next(iter(run.ledger.sent)))


def letter_of_another_queue(run: Run) -> None:
    refused(run)
    run.letter(DEAD_ALL, LATE, next(iter(run.ledger.sent)), EXPIRED)


def letter_twice(run: Run) -> None:
    refused(run)
    run.letter(DEAD_KEPT, REFUSING, next(iter(run.ledger.sent)))


def twice(run: Run) -> None:
    payload = run.send(RETURNING)
    run.take(RETURNING, payload)
    run.take(RETURNING, payload)


def in_the_wrong_order(run: Run) -> None:
    first, second = run.send(RETURNING), run.send(RETURNING)
    run.take(RETURNING, second)
    run.take(RETURNING, first)


def renumbered(run: Run) -> None:
    first, second = run.send(RETURNING), run.send(RETURNING)
    number = run.take(RETURNING, first)
    run.take(RETURNING, second)
    run.take(RETURNING, second, number=number, marked=True)


def unmarked(run: Run) -> None:
    payload = run.send(RETURNING)
    number = run.take(RETURNING, payload)
    run.take(RETURNING, payload, number=number)


def letter_unmarked(run: Run) -> None:
    refused(run)
    run.letter(DEAD_ALL, REFUSING, next(iter(run.ledger.sent)), number=0)


def half(run: Run, state: State, also: Act = lambda _: None) -> None:
    transaction = run.transaction(state)
    first, _ = run.send(RETURNING, transaction=transaction), run.send(*ALIKE, transaction=transaction)
    run.take(RETURNING, first)
    also(run)


def before_its_commit(run: Run) -> None:
    """It is committed in the end."""
    transaction = run.transaction(State.OPEN)
    run.take(RETURNING, run.send(RETURNING, transaction=transaction))
    transaction.state = State.COMMITTED


def of_an_aborted_one(run: Run) -> None:
    run.take(RETURNING, run.send(RETURNING, transaction=run.transaction(State.ABORTED)))


def letter_of_one_that_was_given_up(run: Run) -> None:
    run.letters(LATE, run.send(LATE, transaction=run.transaction(State.OPEN)), EXPIRED)


def came_late(run: Run) -> None:
    run.ledger.taken_since_us[ALIKE[0]] = NOW + US
    payload = run.send(*ALIKE, ttl=SHORT)
    run.take(ALIKE[0], payload)


def acknowledged_and_a_letter(run: Run, reason: str = REJECTED, ttl: float | None = None) -> None:
    payload = run.send(REFUSING, ttl=ttl)
    number = run.take(REFUSING, payload, Word.REFUSED)
    run.take(REFUSING, payload, number=number, marked=True)
    run.letters(REFUSING, payload, reason)


def back_behind_its_letter(run: Run) -> None:
    payload = run.send(REFUSING)
    number = run.take(REFUSING, payload, Word.REFUSED)
    run.letters(REFUSING, payload)
    run.restart()
    run.take(REFUSING, payload, Word.REFUSED, number, marked=True)


def letter_though_its_source_did_not_leave(run: Run) -> None:
    """Nobody refused it again when it came again."""
    payload = run.send(REFUSING)
    number = run.take(REFUSING, payload, Word.REFUSED)
    run.restart()
    run.take(REFUSING, payload, Word.GIVEN_BACK, number, marked=True)
    run.letters(REFUSING, payload)


def letter_without_delivery(run: Run) -> None:
    run.letters(REFUSING, run.send(REFUSING))


def worn_out_too_soon(run: Run) -> None:
    payload = run.send(REFUSING)
    run.take(REFUSING, payload, Word.GIVEN_BACK)
    run.letters(REFUSING, payload, WORN_OUT)


def acknowledged_at_last(run: Run) -> None:
    payload = run.send(REFUSING)
    number = run.take(REFUSING, payload, Word.GIVEN_BACK)
    for _ in range(MAX_RECEIVES):
        run.take(REFUSING, payload, Word.GIVEN_BACK, number, marked=True)
    run.take(REFUSING, payload, number=number, marked=True)
    run.letters(REFUSING, payload, WORN_OUT)


BAD: dict[str, tuple[str, Act]] = {
    "confirmed, and nowhere": ("lost", lambda run: run.send(RETURNING)),
    "confirmed, and in none of two": ("lost", lambda run: run.send(*ALIKE)),
    "gone, though its time is not over": ("lost", lambda run: run.send(*ALIKE, ttl=LONG_SECONDS)),
    "expired, and no dead letter": ("lost", lambda run: run.send(LATE, ttl=SHORT)),
    "committed, and nowhere": ("lost", lambda run: absent(run, State.COMMITTED)),
    "in one queue of two": ("in some queues only", in_one_queue_of_two),
    "in one of the queues that are bound alike": ("in some queues only", in_one_of_the_queues_that_are_bound_alike),
    "not confirmed, in one queue of two": ("in some queues only", lambda run: in_one_queue_of_two(run, False)),
    "gone from one queue, though its time is not over": (
        "in some queues only",
        lambda run: in_one_queue_of_two(run, ttl=LONG_SECONDS),
    ),
    "two queues in another order": ("in some queues only", another_order),
    "a dead letter in one queue": ("in some queues only", letter_in_one_queue_of_two),
    "a dead letter in the other queue": ("in some queues only", lambda run: letter_in_one_queue_of_two(run, DEAD_KEPT)),
    "a dead letter of two records": ("in some queues only", letters_of_two_records),
    "dead letters in another order": ("in some queues only", letters_in_another_order),
    "nobody sent it": ("astray", lambda run: run.take(RETURNING, b"0/1/")),
    "in a queue to which nothing leads": ("astray", lambda run: (run.send(), run.take(RETURNING, b"0/0/"))),
    "a dead letter that nobody sent": ("astray", lambda run: run.letter(DEAD_ALL, REFUSING, b"0/1/")),
    "a dead letter where no binding leads": ("astray", letter_elsewhere),
    "a dead letter of a queue that never had it": ("astray", letter_of_another_queue),
    "twice in a queue": ("doubled", twice),
    "a dead letter twice in a queue": ("doubled", letter_twice),
    "in another order than its sender's": ("out of order", in_the_wrong_order),
    "two under one number": ("renumbered", renumbered),
    "again, and not marked": ("unmarked", unmarked),
    "a dead letter again, and not marked": ("unmarked", letter_unmarked),
    "committed, and there by half": ("half a transaction", lambda run: half(run, State.COMMITTED)),
    "asked for, and there by half": ("half a transaction", lambda run: half(run, State.ASKED)),
    "received before its commit": ("uncommitted", before_its_commit),
    "aborted, and received": ("uncommitted", of_an_aborted_one),
    "given up, and a dead letter": ("uncommitted", letter_of_one_that_was_given_up),
    "expired too early": ("too early", lambda run: run.letters(LATE, run.send(LATE), EXPIRED, LATE_SECONDS - 0.2)),
    "received behind its time": ("too late", came_late),
    "acknowledged, and a dead letter": ("unasked letters", acknowledged_and_a_letter),
    "acknowledged, and expired in the same life": (
        "queue and letter",
        lambda run: acknowledged_and_a_letter(run, EXPIRED, SHORT),
    ),
    "received again behind its dead letter": ("queue and letter", back_behind_its_letter),
    "a dead letter, and in its queue": ("unasked letters", letter_though_its_source_did_not_leave),
    "a dead letter that nobody had": ("unasked letters", letter_without_delivery),
    "a dead letter that was given back once": ("unasked letters", worn_out_too_soon),
    "acknowledged, and a dead letter that was given back often": ("unasked letters", acknowledged_at_last),
    "expired without a time": (
        "unasked letters",
        lambda run: run.letters(REFUSING, run.send(REFUSING), EXPIRED),
    ),
    "given back, and never seen again": (
        "stranded",
        lambda run: run.take(RETURNING, run.send(RETURNING), Word.GIVEN_BACK),
    ),
    "refused, and no dead letter": ("stranded", lambda run: run.take(REFUSING, run.send(REFUSING), Word.REFUSED)),
    "never answered": ("stranded", lambda run: run.take(RETURNING, run.send(RETURNING), None)),
}


@pytest.mark.parametrize("name", BAD)
def test_what_must_not_be_is_found(name: str) -> None:
    kind, act = BAD[name]
    run = Run()
    act(run)
    assert run.found()[0] == [kind]


def test_each_kind_of_violation_has_a_case() -> None:
    assert {kind for kind, _ in BAD.values()} == set(VIOLATIONS)


def test_a_key_of_dead_letters_is_no_key_of_messages() -> None:
    assert letters_to(REFUSING, "eu.tea") == letters_to(REFUSING, REFUSED_KEY) == (DEAD_ALL, DEAD_KEPT)
    assert letters_to(LATE, "eu.tea") == (DEAD_ALL, DEAD_TEA)
    assert letters_to(RETURNING, "us.tea") == ()
