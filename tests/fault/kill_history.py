"""What the clients of a killed broker saw, and what of it must not be: a pure checker, without processes, sockets or time.

`History` is for numbered messages of several senders; `check_lines` for a file that one sender sent line by line.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

LONGEST_PADDING = 300
"""Bytes behind a payload's numbers at most: some payloads are smaller than a record's header, some larger than most log lines."""
MOST_EXAMPLES = 5
"""Violations of a kind that are described; the rest are only counted."""
UNKNOWN = -1

KINDS = ("lost", "stranded", "reordered", "unflagged duplicates", "phantoms", "renumbered")
"""What a history can show:

- lost: confirmed to its sender, never delivered;
- stranded: confirmed and delivered, but nobody was ever able to acknowledge it;
- reordered: a sender's messages have queue numbers in another order than its own, or their first deliveries reach one receiver so;
- unflagged duplicates: delivered once more without ``possibly_replayed``;
- phantoms: nobody sent it, or not with these bytes;
- renumbered: one message under two queue numbers (it was stored twice), or one queue number for two messages.
"""


def payload_of(sender: int, number: int) -> bytes:
    """The payload of a sender's message ``number``: its numbers in front, then padding that depends on both."""
    mixed = (number * 2654435761 + sender * 40503) & 0xFFFFFFFF
    padding = mixed % (LONGEST_PADDING + 1)
    return b"%d:%d:" % (sender, number) + mixed.to_bytes(4, "big") * (padding // 4)


def identify(payload: bytes) -> tuple[int, int] | None:
    """Which sender's message of what number ``payload`` is; None where it is not exactly what that sender sent."""
    sender, _, rest = payload[:40].partition(b":")
    number, _, _ = rest.partition(b":")
    if not (sender.isdigit() and number.isdigit()):
        return None
    found = int(sender), int(number)
    return found if payload_of(*found) == payload else None


@dataclass(slots=True)
class Verdict:
    """How many violations of each kind there are, and the first few in words."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    examples: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not any(self.counts.values())

    def add(self, kind: str, text: str) -> None:
        """Count one violation."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= MOST_EXAMPLES:
            self.examples.append(f"{kind}: {text}")


class _Sent:
    """One sender's messages, by number."""

    __slots__ = ("acknowledged", "confirmed", "delivered", "sequences")

    def __init__(self) -> None:
        self.confirmed = bytearray()
        self.delivered = bytearray()
        self.acknowledged = bytearray()
        self.sequences = array("q")

    def __len__(self) -> int:
        return len(self.confirmed)

    def grow(self, count: int) -> None:
        """``count`` more messages."""
        nothing = bytes(count)
        self.confirmed += nothing
        self.delivered += nothing
        self.acknowledged += nothing
        self.sequences.extend([UNKNOWN] * count)


class History:
    """Takes events in the order in which the clients met them; `verdict` judges the whole.

    Attributes:
        sent: messages handed to senders.
        confirmed: messages confirmed.
        deliveries: deliveries, repeated ones too.
        replays: deliveries that were flagged as possibly replayed.
        outstanding: messages handed to senders that nobody has acknowledged yet.
    """

    def __init__(self, senders: int) -> None:
        self._senders = [_Sent() for _ in range(senders)]
        self._holders: dict[int, tuple[int, int]] = {}
        self._newest: dict[tuple[int, int], int] = {}
        self._found = Verdict()
        self.sent = 0
        self.confirmed = 0
        self.deliveries = 0
        self.replays = 0
        self.outstanding = 0

    def hand_over(self, sender: int, count: int) -> range:
        """``count`` more messages go to ``sender``; their numbers."""
        messages = self._senders[sender]
        first = len(messages)
        messages.grow(count)
        self.sent += count
        self.outstanding += count
        return range(first, first + count)

    def confirm(self, sender: int, first: int, count: int) -> None:
        """The broker has told ``sender`` that these are stored."""
        self._senders[sender].confirmed[first : first + count] = b"\1" * count
        self.confirmed += count

    def deliver(self, receiver: int, sequence: int, payload: bytes, flagged: bool) -> tuple[int, int] | None:
        """``receiver`` got the queue's message ``sequence``; whose it is, None for a phantom."""
        self.deliveries += 1
        self.replays += flagged
        found = identify(payload)
        if found is None or found[0] >= len(self._senders) or found[1] >= len(self._senders[found[0]]):
            self._found.add("phantoms", f"queue number {sequence} holds {payload[:60]!r}, which nobody sent")
            return None
        sender, number = found
        messages = self._senders[sender]
        if not flagged:
            if messages.delivered[number]:
                self._found.add("unflagged duplicates", f"{number} of sender {sender} (queue number {sequence})")
            newest = self._newest.get((receiver, sender), UNKNOWN)
            if number < newest:
                self._found.add("reordered", f"receiver {receiver} got {number} of sender {sender} after its {newest}")
            self._newest[receiver, sender] = max(number, newest)
        messages.delivered[number] = 1
        self._note_number(found, sequence)
        return found

    def acknowledge(self, sender: int, number: int) -> None:
        """A receiver has acknowledged it on the connection on which it came."""
        acknowledged = self._senders[sender].acknowledged
        if not acknowledged[number]:
            acknowledged[number] = 1
            self.outstanding -= 1

    def verdict(self) -> Verdict:
        """Everything found, up to now; to be asked once, at the end."""
        found = self._found
        for sender, messages in enumerate(self._senders):
            highest = UNKNOWN
            for number, sequence in enumerate(messages.sequences):
                if messages.confirmed[number] and not messages.delivered[number]:
                    found.add("lost", f"{number} of sender {sender} was confirmed and never delivered")
                elif messages.confirmed[number] and not messages.acknowledged[number]:
                    found.add("stranded", f"{number} of sender {sender} (queue number {sequence})")
                if sequence == UNKNOWN:
                    continue
                if sequence < highest:
                    found.add("reordered", f"{number} of sender {sender} has queue number {sequence}, below {highest}")
                highest = max(highest, sequence)
        return found

    def _note_number(self, message: tuple[int, int], sequence: int) -> None:
        sender, number = message
        sequences = self._senders[sender].sequences
        if sequences[number] == UNKNOWN:
            sequences[number] = sequence
        elif sequences[number] != sequence:
            self._found.add("renumbered", f"{number} of sender {sender} is at {sequences[number]} and at {sequence}")
        holder = self._holders.setdefault(sequence, message)
        if holder != message:
            self._found.add("renumbered", f"queue number {sequence} names {holder} and {message} (sender, number)")


@dataclass(frozen=True, slots=True)
class Arrival:
    """One delivery of a line."""

    sequence: int
    line: bytes
    flagged: bool


LINE_KINDS = ("missing", "extra", "unflagged duplicates", "changed", "out of place")
"""What can be wrong with a file that was sent line by line:

- missing, extra: lines that arrived less often, or more often, than they were sent; a flagged duplicate does not count;
- unflagged duplicates: a queue number delivered once more without ``possibly_replayed``;
- changed: a queue number that came again with another line;
- out of place: positions at which the lines, in the order of their queue numbers, are not those of the file.
"""


def check_lines(sent: Sequence[bytes], arrived: Iterable[Arrival]) -> Verdict:
    """Hold the ``arrived`` deliveries, in the order in which they came, against the lines one sender sent."""
    found = Verdict(dict.fromkeys(LINE_KINDS, 0))
    lines: dict[int, bytes] = {}
    seen: set[int] = set()
    for one in arrived:
        earlier = lines.setdefault(one.sequence, one.line)
        if earlier != one.line:
            found.add("changed", f"queue number {one.sequence}: {earlier[:40]!r}, then {one.line[:40]!r}")
        if one.sequence in seen and not one.flagged:
            found.add("unflagged duplicates", f"queue number {one.sequence}")
        seen.add(one.sequence)
    wanted, came = Counter(sent), Counter(lines.values())
    for line, count in (wanted - came).items():
        for _ in range(count):
            found.add("missing", f"{line[:60]!r}")
    for line, count in (came - wanted).items():
        for _ in range(count):
            found.add("extra", f"{line[:60]!r}")
    for position, (line, (sequence, other)) in enumerate(zip(sent, sorted(lines.items()), strict=False)):
        if line != other:
            found.add("out of place", f"line {position} of the file is not what queue number {sequence} holds")
    return found
