"""Judges what the clients of ``tests.fault.kill_exchanges`` saw, when everything was received and nothing is left.

Each message that was routed to a queue has one end there: a receiver acknowledged it, or it is a dead letter in all queues that its dead
letters go to, or its time was over where there is no way for dead letters. What was confirmed or committed has such an end in each of its
queues, what was not has none, or one in each of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.fault.exchange_ledger import (
    CLOCK_SLACK_US,
    US,
    Arrival,
    Ledger,
    Letter,
    Sent,
    State,
    Transaction,
    Word,
    shown,
)
from tests.fault.exchange_places import ALIKE, DEAD, DEAD_ALL, MAX_RECEIVES, QUEUES, letters_to
from tests.fault.kill_history import Verdict

EXPIRED, REJECTED, WORN_OUT = "expired", "rejected", "max-receives"
Way = tuple[bytes, str]
"""A message, and the queue whose dead letter it is."""


@dataclass(slots=True)
class Figures:
    """Counts that are no violations: messages received from their queues, dead letters by why, and what expired and is gone."""

    received: int = 0
    letters: Counter[str] = field(default_factory=Counter)
    gone: int = 0
    transactions: Counter[State] = field(default_factory=Counter)


def judge(ledger: Ledger) -> tuple[Verdict, Figures]:
    """What must not be, and what was counted; to be asked once, at the end."""
    return _Judge(ledger).judged()


def _asked(reason: str, arrival: Arrival | None) -> bool:
    """Whether the last word of a receiver made it a dead letter for this reason."""
    if arrival is None:
        return False
    if reason == REJECTED:
        return arrival.last is Word.REFUSED
    return reason == WORN_OUT and arrival.last is Word.GIVEN_BACK and arrival.given_back >= MAX_RECEIVES


class _Judge:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._found = ledger.verdict
        self._figures = Figures()
        self._here: dict[str, dict[bytes, Arrival]] = {}
        self._letters: dict[Way, dict[str, Letter]] = {}

    def judged(self) -> tuple[Verdict, Figures]:
        for queue in QUEUES:
            self._here[queue] = self._contents(queue)
            self._figures.received += len(self._here[queue])
        orders = {queue: self._letters_of(queue) for queue in DEAD}
        for payload, sent in self._ledger.sent.items():
            self._ends(payload, sent)
        self._transactions()
        self._alike()
        for queue in DEAD:
            # The first has all of them.
            if orders[queue] != [way for way in orders[DEAD_ALL] if queue in self._letters[way]]:
                self._found.add(
                    "in some queues only", f"dead letters are in another order in {queue} than in {DEAD_ALL}"
                )
        self._figures.transactions = Counter(each.state for each in self._ledger.transactions)
        return self._found, self._figures

    # What the queues delivered.

    def _contents(self, queue: str) -> dict[bytes, Arrival]:
        """What a queue held, in its order."""
        contents: dict[bytes, Arrival] = {}
        newest: dict[int, int] = {}
        for number, arrival in sorted(self._ledger.arrivals[queue].items()):
            payload, sent = arrival.payload, self._ledger.sent.get(arrival.payload)
            if sent is None or queue not in sent.queues:
                self._found.add("astray", f"{queue}/{number} is {shown(payload)}")
                continue
            if payload in contents:
                self._found.add("doubled", f"{shown(payload)} in {queue}")
                continue
            contents[payload] = arrival
            before = newest.setdefault(sent.sender, sent.number)
            if sent.number < before:
                self._found.add("out of order", f"{shown(payload)} in {queue} is behind {before} of its sender")
            newest[sent.sender] = max(before, sent.number)
        return contents

    def _letters_of(self, queue: str) -> list[Way]:
        """What a queue of dead letters held, in its order."""
        order: list[Way] = []
        for number, letter in sorted(self._ledger.letters[queue].items()):
            sent, way = self._ledger.sent.get(letter.payload), (letter.payload, letter.source)
            right = sent is not None and letter.source in sent.queues and queue in letters_to(letter.source, sent.key)
            if not right:
                self._found.add("astray", f"{queue}/{number} is {shown(letter.payload)} of {letter.source!r}")
            elif queue in (places := self._letters.setdefault(way, {})):
                self._found.add("doubled", f"the dead letter {shown(letter.payload)} of {letter.source} in {queue}")
            else:
                places[queue] = letter
                order.append(way)
        return order

    # What became of each message.

    def _ends(self, payload: bytes, sent: Sent) -> None:
        ended = {queue: self._end(payload, sent, queue) for queue in sent.queues}
        missing = [queue for queue, there in ended.items() if there is False]
        transaction = sent.transaction
        if transaction is not None:
            # All of its messages are judged together.
            return
        if missing and (sent.wanted or any(ended.values())):
            kind = "in some queues only" if any(ended.values()) else "lost"
            self._found.add(kind, f"{shown(payload)} is missing from {', '.join(missing)} of {', '.join(sent.queues)}")

    def _end(self, payload: bytes, sent: Sent, queue: str) -> bool | None:
        """Whether a message came to its end in a queue; None where nobody can tell, for it may have expired there without a word."""
        arrival, places = self._here[queue].get(payload), self._letters.get((payload, queue))
        name = f"{shown(payload)} of {queue}"
        if places:
            self._letter(name, sent, queue, arrival, places)
            return True
        if arrival is None:
            self._figures.gone += sent.may_vanish(queue)
            return None if sent.may_vanish(queue) else False
        if arrival.last is not Word.ACKNOWLEDGED and not sent.may_vanish(queue):
            said = "not answered" if arrival.last is None else arrival.last.value
            self._found.add("stranded", f"{name} was {said} in life {arrival.life}, and did not come again")
        return True

    def _letter(self, name: str, sent: Sent, queue: str, arrival: Arrival | None, places: dict[str, Letter]) -> None:
        """A dead letter is in all of its queues, and there was a reason for it."""
        missing = [place for place in letters_to(queue, sent.key) if place not in places]
        if missing:
            self._found.add("in some queues only", f"the dead letter {name} is missing from {', '.join(missing)}")
        letter = min(places.values(), key=lambda each: each.life)
        if len({each.stored_us for each in places.values()}) > 1:
            self._found.add("in some queues only", f"the dead letter {name} was stored at different times")
        reason, life_us = letter.reason, sent.life_us(queue)
        self._figures.letters[reason] += 1
        if reason == EXPIRED:
            had = letter.stored_us - letter.sent_us
            if life_us is None:
                self._found.add("unasked letters", f"{name} has expired, and may be there for ever")
            elif had < life_us - CLOCK_SLACK_US:
                self._found.add("too early", f"{name} expired after {had / US:.3f} s of {life_us / US:.3f}")
        elif not _asked(reason, arrival):
            self._found.add("unasked letters", f"{name}, for {reason!r}")
        if arrival is None:
            return
        if arrival.life > letter.life:
            self._found.add("queue and letter", f"{name} came in life {arrival.life}, its dead letter in {letter.life}")
        elif reason == EXPIRED and arrival.last is Word.ACKNOWLEDGED and arrival.life == letter.life:
            # What a kill has lost of its acknowledgement may be followed by the end of its time; else what is acknowledged is gone.
            self._found.add("queue and letter", f"{name} was acknowledged in life {arrival.life}, and has expired then")

    # Several messages, or several queues.

    def _transactions(self) -> None:
        """Each is whole in each queue that it was routed to, or is in none."""
        there: Counter[int] = Counter()
        absent: Counter[int] = Counter()
        example: dict[int, str] = {}
        for payload, sent in self._ledger.sent.items():
            if sent.transaction is None:
                continue
            key = id(sent.transaction)
            for queue in sent.queues:
                found = payload in self._here[queue] or (payload, queue) in self._letters
                there[key] += found
                if not found:
                    absent[key] += 1
                    example[key] = f"{shown(payload)} is missing from {queue}"
        for transaction in self._ledger.transactions:
            self._transaction(
                transaction, there[id(transaction)], absent[id(transaction)], example.get(id(transaction), "")
            )

    def _transaction(self, transaction: Transaction, there: int, absent: int, example: str) -> None:
        name = f"transaction {transaction.version} of sender {transaction.sender}, which is {transaction.state.value}"
        if there and transaction.state in (State.OPEN, State.ABORTED):
            self._found.add("uncommitted", f"{name}: {there} places have messages of it")
        elif there and absent:
            self._found.add(
                "half a transaction", f"{name}: {there} places have their message, {absent} do not; {example}"
            )
        elif absent and transaction.state is State.COMMITTED:
            self._found.add("lost", f"{name}: nothing of it is anywhere; {example}")

    def _alike(self) -> None:
        """Queues that are bound alike hold the same in the same order, but for what goes to one of them, or may expire."""
        contents = [list(self._shared(self._here[queue])) for queue in ALIKE]
        if contents[0] != contents[1]:
            at = next((at for at, (one, other) in enumerate(zip(*contents, strict=False)) if one != other), -1)
            what = f"hold {len(contents[0])} and {len(contents[1])} messages that both have to have, the first other one at {at}"
            self._found.add("in some queues only", f"{' and '.join(ALIKE)} are bound alike, and {what}")

    def _shared(self, payloads: Iterable[bytes]) -> Iterable[bytes]:
        for payload in payloads:
            sent = self._ledger.sent[payload]
            if len(sent.queues) == len(ALIKE) and not sent.may_expire(ALIKE[0]):
                yield payload
