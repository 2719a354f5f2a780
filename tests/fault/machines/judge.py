"""What the logs of a load show that must not be: pure, over files; and how long nothing was confirmed behind each thing that was done."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from tests.fault.machines.records import (
    MARKS,
    RECEIVED,
    SENT,
    UNKNOWN,
    Acknowledged,
    Confirmed,
    Delivered,
    Event,
    Gone,
    Handed,
    Marked,
    Strange,
    read_log,
)

MOST_EXAMPLES: Final = 5
"""Violations of a kind that are described; the rest are only counted."""
SECOND: Final = 1e9
LOST, TOLD, STRANDED, REORDERED = "lost", "lost, as its sender was told", "stranded", "reordered"
UNMARKED, AGAIN = "unmarked duplicates", "acknowledged, and again unmarked"
TWICE, RENUMBERED, PHANTOMS = "stored twice", "renumbered", "phantoms"
KINDS: Final = (LOST, TOLD, STRANDED, REORDERED, UNMARKED, AGAIN, TWICE, RENUMBERED, PHANTOMS)
"""What a judgement can find:

- lost: confirmed to its sender, never delivered, though everything was drained, and its sender was told nothing;
- lost, as its sender was told: confirmed to its sender, who was told later that it is there no more, be it delivered before or not;
- stranded: confirmed and delivered, but nobody was ever able to acknowledge it, though everything was drained;
- reordered: a producer's messages have numbers of the queue in another order than its own, or their first deliveries reach one receiver so;
- unmarked duplicates: delivered once more without ``possibly_replayed``;
- acknowledged, and again unmarked: the same, after a receiver had acknowledged it;
- stored twice: one message under two numbers of the queue;
- renumbered: a number of the queue that named two messages, or another than its sender was told;
- phantoms: nobody sent it, or not with these bytes.

What its sender was told of as lost, and what that had under way then, has given its number in the queue back: another message may have it.
"""
TOLD_OF, GIVEN_UP = 1, 2
"""Of a message: its sender was told that it is lost, or had it under way when it was told of others."""


class Recovery(NamedTuple):
    """How it went on at one producer behind something that a test did.

    Attributes:
        mark: what was done.
        sender: the producer's number.
        seconds: until the first confirmation of a message that it took after the mark; None where there is none. What was under way at the
            mark may be confirmed by what the dead had sent, so it says nothing.
    """

    mark: Marked
    sender: int
    seconds: float | None


class Silence(NamedTuple):
    """The longest time between two confirmations of a producer.

    Attributes:
        sender: the producer's number.
        seconds: how long.
        began: when, in seconds after the producer's first event.
    """

    sender: int
    seconds: float
    began: float


@dataclass(slots=True)
class Judgement:
    """What was found.

    Attributes:
        counts: violations, by kind.
        examples: the first few of each kind, in words.
        facts: counts that are no violations.
        recoveries: for each mark, and each producer.
        silences: of each producer that had two confirmations.
    """

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    examples: list[str] = field(default_factory=list)
    facts: dict[str, int] = field(default_factory=dict)
    recoveries: list[Recovery] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not any(self.counts.values())

    def only(self, *kinds: str) -> bool:
        """Whether nothing but these kinds was found: what a mode does not promise."""
        return not any(count for kind, count in self.counts.items() if kind not in kinds)

    def add(self, kind: str, text: str) -> None:
        """Count a violation."""
        self.counts[kind] += 1
        if self.counts[kind] <= MOST_EXAMPLES:
            self.examples.append(f"{kind}: {text}")

    def summary(self) -> str:
        """All of it, for people."""
        lines = [f"{name}: {count:,}" for name, count in self.facts.items()]
        lines += [f"{kind}: {count:,}{' VIOLATION' if count else ''}" for kind, count in self.counts.items()]
        lines += [f"  {text}" for text in self.examples]
        for one in self.recoveries:
            after = "never" if one.seconds is None else f"{one.seconds:.3f} s"
            lines.append(f"{one.mark.text}: next confirmation at producer {one.sender} after {after}")
        lines += [f"producer {one.sender} heard nothing for {one.seconds:.3f} s at most" for one in self.silences]
        return "\n".join(lines)


class _Producer:
    """One producer's messages, by number."""

    __slots__ = ("acknowledged", "confirmations", "confirmed", "deliveries", "gone", "handed", "sequences", "told")

    def __init__(self) -> None:
        self.handed: list[Handed] = []
        self.confirmations: list[Confirmed] = []
        self.confirmed = bytearray()
        self.acknowledged = bytearray()
        self.deliveries = bytearray()
        self.gone = bytearray()
        self.sequences = array("q")
        self.told = array("q")

    def __len__(self) -> int:
        return len(self.confirmed)

    def read(self, events: Iterable[Event]) -> None:
        """What it logged."""
        for event in events:
            if isinstance(event, Handed):
                self.handed.append(event)
                more = event.first + event.messages - len(self)
                for column in (self.confirmed, self.acknowledged, self.deliveries, self.gone):
                    column.extend(bytes(more))
                self.sequences.extend([UNKNOWN] * more)
                self.told.extend([UNKNOWN] * more)
            elif isinstance(event, Confirmed):
                self.confirmations.append(event)
                self.confirmed[event.first : event.first + event.messages] = b"\1" * event.messages
                if event.sequence != UNKNOWN:
                    for place in range(event.messages):
                        self.told[event.first + place] = event.sequence + place
            elif isinstance(event, Gone):
                stop = event.first + event.messages
                self.gone[event.first : stop] = bytes([TOLD_OF]) * event.messages
                self.gone[stop:] = bytes([GIVEN_UP]) * (len(self) - stop)


def judge(folder: Path, *, drained: bool = True) -> Judgement:
    """Hold what the clients in a folder logged against what must be.

    Args:
        folder: of a `Load`.
        drained: whether everything that the broker had was received and acknowledged in the end; else nothing is lost or stranded yet.

    Raises:
        BrokenLogError: a log is damaged.
    """
    producers = {number: _Producer() for number in numbers_of(folder, SENT)}
    for number, producer in producers.items():
        producer.read(read_log(folder / SENT.format(number)))
    received = {number: list(read_log(folder / RECEIVED.format(number))) for number in numbers_of(folder, RECEIVED)}
    marks = (
        [event for event in read_log(folder / MARKS) if isinstance(event, Marked)] if (folder / MARKS).exists() else []
    )
    found = Judgement()
    for receiver, events in received.items():
        _look_through(found, producers, receiver, events)
    _look_for_duplicates(found, producers, received)
    _look_for_shared_numbers(found, producers)
    for number, producer in producers.items():
        _look_at(found, number, producer, drained=drained)
        found.recoveries += [Recovery(mark, number, until_next(producer, mark.time)) for mark in marks]
        if (silence := longest_silence(number, producer)) is not None:
            found.silences.append(silence)
    found.recoveries.sort(key=lambda one: (one.mark.time, one.sender))
    found.facts = {
        "sent": sum(map(len, producers.values())),
        "confirmed": sum(sum(producer.confirmed) for producer in producers.values()),
        "deliveries": sum(one.messages for events in received.values() for one in events if isinstance(one, Delivered)),
        "of them marked": sum(
            one.messages
            for events in received.values()
            for one in events
            if isinstance(one, Delivered) and one.replayed
        ),
        "acknowledged": sum(sum(producer.acknowledged) for producer in producers.values()),
    }
    return found


def numbers_of(folder: Path, pattern: str) -> list[int]:
    """The numbers of the clients that have logs of this kind."""
    begin, end = pattern.split("{}")
    return sorted(int(path.name[len(begin) : -len(end)]) for path in folder.glob(f"{begin}*{end}"))


def until_next(producer: _Producer, since: int) -> float | None:
    """Seconds until the first confirmation of something that a producer took after a time."""
    first = next((handed.first for handed in producer.handed if handed.time > since), None)
    if first is None:
        return None
    return next(
        ((one.time - since) / SECOND for one in producer.confirmations if one.first + one.messages > first), None
    )


def longest_silence(number: int, producer: _Producer) -> Silence | None:
    """The longest time between two confirmations of a producer; None where there are no two."""
    times = [one.time for one in producer.confirmations]
    gaps = [(later - earlier, earlier) for earlier, later in pairwise(times)]
    if not gaps:
        return None
    longest, began = max(gaps)
    return Silence(number, longest / SECOND, (began - producer.handed[0].time) / SECOND)


def _look_through(found: Judgement, producers: dict[int, _Producer], receiver: int, events: Sequence[Event]) -> None:
    """What one receiver's log shows by itself, in its order; and what it tells of the messages."""
    newest: dict[int, int] = {}
    for event in events:
        if isinstance(event, Strange):
            found.add(PHANTOMS, f"queue number {event.sequence} holds {event.size} bytes that nobody sent")
        elif isinstance(event, Acknowledged) and event.sender in producers:
            messages = producers[event.sender]
            stop = min(event.first + event.messages, len(messages))
            messages.acknowledged[event.first : stop] = b"\1" * max(stop - event.first, 0)
        elif isinstance(event, Delivered):
            for place in range(event.messages):
                first_time = _look_at_delivery(found, producers, event, place)
                number = event.first + place
                if first_time and not event.replayed:
                    last = newest.get(event.sender, UNKNOWN)
                    if number < last:
                        found.add(
                            REORDERED, f"receiver {receiver} got {number} of producer {event.sender} after its {last}"
                        )
                    newest[event.sender] = max(last, number)


def _look_at_delivery(found: Judgement, producers: dict[int, _Producer], event: Delivered, place: int) -> bool:
    """Take note of a message of a run; whether nothing was known of it before."""
    number, sequence = event.first + place, event.sequence + place
    messages = producers.get(event.sender)
    if messages is None or number >= len(messages):
        found.add(PHANTOMS, f"queue number {sequence} holds {number} of producer {event.sender}, which it never sent")
        return False
    messages.deliveries[number] = min(messages.deliveries[number] + 1, 255)
    if messages.sequences[number] == UNKNOWN:
        messages.sequences[number] = sequence
    elif messages.sequences[number] != sequence:
        text = f"{number} of producer {event.sender} is at {messages.sequences[number]} and at {sequence}"
        found.add(TWICE, text)
    return messages.deliveries[number] == 1


def _look_for_shared_numbers(found: Judgement, producers: dict[int, _Producer]) -> None:
    """Numbers of the queue under which two messages came."""
    used = sorted(
        number
        for messages in producers.values()
        for number, gone in zip(messages.sequences, messages.gone, strict=True)
        if number != UNKNOWN and not gone
    )
    for one, other in pairwise(used):
        if one == other:
            found.add(RENUMBERED, f"queue number {one} named two messages")


def _look_for_duplicates(found: Judgement, producers: dict[int, _Producer], received: dict[int, list[Event]]) -> None:
    """What came more often than once, and was not marked each time but the first.

    Receivers' times do not tell which of two deliveries the broker made first: one of them may have been paused. So of two receivers one
    may have it unmarked; one receiver that had it already may not.
    """
    deliveries: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    answers: dict[tuple[int, int], int] = {}
    for receiver, events in received.items():
        for event in events:
            if not isinstance(event, Delivered | Acknowledged) or event.sender not in producers:
                continue
            messages = producers[event.sender]
            for number in range(event.first, min(event.first + event.messages, len(messages))):
                if messages.deliveries[number] < 2:
                    continue
                if isinstance(event, Delivered):
                    deliveries[event.sender, number].append((event.time, receiver, event.replayed))
                else:
                    earlier = answers.get((event.sender, number), event.time)
                    answers[event.sender, number] = min(event.time, earlier)
    for (sender, number), times in deliveries.items():
        times.sort(key=lambda one: one[0])
        plain = [index for index, one in enumerate(times) if not one[2]]
        wrong = plain[1:]
        if len(plain) == 1 and any(one[1] == times[plain[0]][1] for one in times[: plain[0]]):
            wrong = plain
        for index in wrong:
            time, receiver, _ = times[index]
            acknowledged = answers.get((sender, number), time) < time
            text = f"{number} of producer {sender}, at receiver {receiver}, its delivery {index + 1}"
            found.add(AGAIN if acknowledged else UNMARKED, text)


def _look_at(found: Judgement, sender: int, messages: _Producer, *, drained: bool) -> None:
    """What is wrong with the messages of one producer as a whole."""
    highest = UNKNOWN
    for number, sequence in enumerate(messages.sequences):
        gone = messages.gone[number]
        if gone == TOLD_OF:
            found.add(TOLD, f"{number} of producer {sender} was confirmed, and then lost")
        elif messages.confirmed[number] and drained:
            if not messages.deliveries[number]:
                found.add(LOST, f"{number} of producer {sender} was confirmed and never delivered")
            elif not messages.acknowledged[number]:
                found.add(STRANDED, f"{number} of producer {sender} (queue number {sequence})")
        if sequence == UNKNOWN or gone:
            continue
        if sequence < highest:
            found.add(REORDERED, f"{number} of producer {sender} has queue number {sequence}, below {highest}")
        highest = max(highest, sequence)
        if messages.told[number] not in {UNKNOWN, sequence}:
            text = f"{number} of producer {sender} was confirmed as {messages.told[number]} and came as {sequence}"
            found.add(RENUMBERED, text)
