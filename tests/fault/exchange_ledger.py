"""What the clients of ``tests.fault.kill_exchanges`` did and saw: what was sent where, and in which transaction, what came, what was said.

It is pure: no sockets, no time of its own. What can be judged at once is (``verdict``), the rest at the end (``exchange_judge``).
Senders of transactions write to it from their threads, each what is its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tests.fault.exchange_places import DEAD, QUEUES, letters_to, life_of
from tests.fault.kill_history import Verdict

US = 1_000_000
CLOCK_SLACK_US = 50_000
"""By which two readings of the wall clock may differ from what passed in between: it is adjusted, and a broker reads it once a turn."""
LONG_SECONDS = 3_600.0
"""A time to live that is over in no run."""
SHOWN = 24

VIOLATIONS = (
    "lost",
    "in some queues only",
    "astray",
    "doubled",
    "out of order",
    "renumbered",
    "unmarked",
    "half a transaction",
    "uncommitted",
    "too early",
    "too late",
    "queue and letter",
    "unasked letters",
    "stranded",
)
"""What there can be:

- lost: confirmed, or committed, and in none of its queues, and no dead letter;
- in some queues only: a record, or a dead letter, is in some of the queues that it was routed to, or they have it in another order;
- astray: in a queue to which no binding leads, or nobody sent it;
- doubled: one message twice in a queue;
- out of order: a sender's messages in another order than its own;
- renumbered: two messages under one number of a queue;
- unmarked: it came again, and is not marked as possibly replayed;
- half a transaction: some of its messages are there, others are not;
- uncommitted: received before anybody asked for its commit, or of a transaction that was given up;
- too early: a dead letter has expired before its time;
- too late: received though its time was over before anybody received;
- queue and letter: a message was in its queue when its dead letter was elsewhere, or has expired though it was acknowledged;
- unasked letters: the last word on a message was not one that makes a dead letter, or one has expired that has no time to live;
- stranded: it was refused or given back, and neither came again nor became a dead letter.
"""


class State(Enum):
    """How far a transaction is, as its sender knows."""

    OPEN = "staged, its commit not asked for"
    ASKED = "asked for, and not answered"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Word(Enum):
    """What a receiver says of a message."""

    ACKNOWLEDGED = "acknowledged"
    GIVEN_BACK = "given back"
    REFUSED = "refused for good"


@dataclass(slots=True)
class Transaction:
    """One transaction: whose, and how far."""

    sender: int
    version: int
    state: State = State.OPEN


@dataclass(slots=True)
class Sent:
    """One message.

    Attributes:
        sender: who sent it.
        number: among that sender's.
        queues: where it was routed to.
        key: its routing key.
        ttl: seconds that its sender gave it; None for none.
        transaction: its; None for what is sent outside of any.
        confirmed: whether it was; of what is in a transaction the commit says it.
    """

    sender: int
    number: int
    queues: tuple[str, ...]
    key: str
    ttl: float | None = None
    transaction: Transaction | None = None
    confirmed: bool = False

    @property
    def wanted(self) -> bool:
        """Whether it must be in its queues."""
        if self.transaction is not None:
            return self.transaction.state is State.COMMITTED
        return self.confirmed

    def life_us(self, queue: str) -> int | None:
        """Microseconds that it has in a queue; None for ever."""
        seconds = life_of(self.ttl, queue)
        return None if seconds is None else int(seconds * US)

    def may_expire(self, queue: str) -> bool:
        """Whether its time may be over within a run."""
        seconds = life_of(self.ttl, queue)
        return seconds is not None and seconds < LONG_SECONDS

    def may_vanish(self, queue: str) -> bool:
        """Whether it may be gone from a queue without a dead letter: its time is short, and the queue has no way for dead letters."""
        return self.may_expire(queue) and not letters_to(queue, self.key)


@dataclass(slots=True)
class Arrival:
    """A message as one of the queues delivered it.

    Attributes:
        payload: its bytes.
        life: of the broker, in which it was delivered last.
        given_back: how often a receiver gave it back as failed.
        last: the last word.
    """

    payload: bytes
    life: int
    given_back: int = 0
    last: Word | None = None


@dataclass(slots=True)
class Letter:
    """A dead letter as a queue of them delivered it.

    Attributes:
        payload: its bytes.
        source: the queue that it left.
        reason: why.
        sent_us: when that queue had stored it.
        stored_us: when it became a dead letter.
        life: of the broker, in which it was delivered first.
    """

    payload: bytes
    source: str
    reason: str
    sent_us: int
    stored_us: int
    life: int


def shown(payload: bytes) -> str:
    """The beginning of a payload, which says whose it is."""
    return repr(payload[:SHOWN].rstrip(b"\0"))


@dataclass(slots=True)
class Ledger:
    """Everything of one run.

    Attributes:
        sent: messages by payload.
        transactions: all there were.
        arrivals: of each queue, by number.
        letters: of each queue of dead letters, by number.
        taken_since_us: queues that nobody received from before this time, microseconds since the epoch.
        life: which start of the broker this is.
        again: deliveries that came again, and were marked.
        verdict: what must not be, as far as it was seen.
    """

    sent: dict[bytes, Sent] = field(default_factory=dict)
    transactions: list[Transaction] = field(default_factory=list)
    arrivals: dict[str, dict[int, Arrival]] = field(default_factory=lambda: {queue: {} for queue in QUEUES})
    letters: dict[str, dict[int, Letter]] = field(default_factory=lambda: {queue: {} for queue in DEAD})
    taken_since_us: dict[str, int] = field(default_factory=dict)
    life: int = 0
    again: int = 0
    verdict: Verdict = field(default_factory=lambda: Verdict(dict.fromkeys(VIOLATIONS, 0)))

    def deliver(self, queue: str, number: int, payload: bytes, marked: bool, stored_us: int) -> Arrival:
        """A queue delivers a message."""
        arrivals = self.arrivals[queue]
        known = arrivals.get(number)
        if known is not None:
            self._again(f"{queue}/{number}", known.payload, payload, marked)
            known.life = self.life
            return known
        arrivals[number] = arrival = Arrival(payload, self.life)
        sent = self.sent.get(payload)
        if sent is None:
            return arrival
        if sent.transaction is not None and sent.transaction.state is State.OPEN:
            self.verdict.add(
                "uncommitted", f"{shown(payload)} was received from {queue} before its commit was asked for"
            )
        since, life = self.taken_since_us.get(queue), sent.life_us(queue)
        if since is not None and life is not None and stored_us + life + CLOCK_SLACK_US < since:
            late = (since - stored_us - life) / US
            self.verdict.add("too late", f"{shown(payload)} came from {queue}, {late:.2f} s or more after its time")
        return arrival

    def say(self, arrival: Arrival, word: Word) -> None:
        """A receiver says what becomes of it."""
        arrival.last = word
        arrival.given_back += word is Word.GIVEN_BACK

    def deliver_letter(self, queue: str, number: int, letter: Letter, marked: bool) -> None:
        """A queue of dead letters delivers one."""
        known = self.letters[queue].setdefault(number, letter)
        if known is not letter:
            self._again(f"{queue}/{number}", known.payload, letter.payload, marked)

    def _again(self, where: str, before: bytes, payload: bytes, marked: bool) -> None:
        if before != payload:
            self.verdict.add("renumbered", f"{where} was {shown(before)}, and is {shown(payload)}")
        elif not marked:
            self.verdict.add("unmarked", f"{where}, {shown(payload)}")
        else:
            self.again += 1
