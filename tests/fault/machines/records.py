"""What the clients of a load log: a line for each thing that they saw, with its time, in a file for each of them.

Times are nanoseconds of the monotonic clock, which all processes share. A line is written by one call before its client goes on, so it
outlives the client's death by SIGKILL; the machine that the tests run on does not lose its power, so nothing is synced.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

UNKNOWN: Final = -1
"""In the place of a number of the queue that the broker did not tell."""
LONGEST_NAME: Final = 40
"""Bytes of a payload in which its numbers are."""
SENT: Final = "sent-{}.log"
RECEIVED: Final = "received-{}.log"
MARKS: Final = "marks.log"


class Handed(NamedTuple):
    """A sender took so many numbered messages of its own, beginning with ``first``, to send them."""

    time: int
    first: int
    messages: int


class Confirmed(NamedTuple):
    """The broker told the sender that these are stored, from the queue's number ``sequence`` on, or `UNKNOWN`."""

    time: int
    first: int
    messages: int
    sequence: int


class Delivered(NamedTuple):
    """A receiver got these messages of ``sender``, numbers and the queue's numbers rising by one; ``replayed``: the broker said so."""

    time: int
    sender: int
    first: int
    messages: int
    sequence: int
    replayed: int


class Acknowledged(NamedTuple):
    """A receiver has acknowledged these messages of ``sender``."""

    time: int
    sender: int
    first: int
    messages: int


class Gone(NamedTuple):
    """The broker told the sender that it has these no more, which it had confirmed to it."""

    time: int
    first: int
    messages: int


class Strange(NamedTuple):
    """A receiver got something that nobody sent under the queue's number ``sequence``: how many bytes of it."""

    time: int
    sequence: int
    size: int


class Marked(NamedTuple):
    """A test did something at this time: the text says what."""

    time: int
    text: str


Event: TypeAlias = Handed | Confirmed | Delivered | Acknowledged | Gone | Strange | Marked
KINDS: Final[dict[str, type[Event]]] = {
    "H": Handed,
    "C": Confirmed,
    "D": Delivered,
    "A": Acknowledged,
    "G": Gone,
    "X": Strange,
    "M": Marked,
}
LETTERS: Final = {kind: letter for letter, kind in KINDS.items()}


class BrokenLogError(Exception):
    """A log holds a whole line that no client wrote."""


class Log:
    """A file that events are appended to. With ``aloud`` they are printed besides, for the test to hear, behind the client's number."""

    def __init__(self, path: Path, number: int, *, aloud: bool = True) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._begin = f"{number} " if aloud else None

    def write(self, *events: Event) -> None:
        """Append events, in one call."""
        lines = [line_of(event) for event in events]
        data = "".join(lines).encode()
        if os.write(self._file, data) != len(data):
            raise OSError("a log took only a part of its lines")
        if self._begin is not None:
            sys.stdout.write("".join(self._begin + line for line in lines))
            sys.stdout.flush()

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def now() -> int:
    """The time of an event."""
    return time.monotonic_ns()


def line_of(event: Event) -> str:
    """An event as a line."""
    return " ".join([LETTERS[type(event)], *map(str, event)]) + "\n"


def event_of(line: str) -> Event:
    """The event of a line.

    Raises:
        BrokenLogError: it is none.
    """
    letter, _, rest = line.partition(" ")
    kind = KINDS.get(letter)
    if kind is None:
        raise BrokenLogError(f"no event begins with {letter!r}")
    words = rest.split()
    try:
        if kind is Marked:
            return Marked(int(words[0]), rest.partition(" ")[2])
        return kind(*map(int, words))  # type: ignore[arg-type]  # what all but a mark's text are
    except (TypeError, ValueError, IndexError) as error:
        raise BrokenLogError(f"{line!r}: {error}") from error


def read_log(path: Path) -> Iterator[Event]:
    """The events of a log, in order. A last line without an end was being written when its client was killed: it is left out.

    Raises:
        BrokenLogError: a line is none.
    """
    with path.open() as lines:
        for line in lines:
            if line.endswith("\n"):
                yield event_of(line[:-1])


def payload_of(sender: int, number: int, size: int) -> bytes:
    """The payload of a sender's message ``number``: its numbers in front, then what depends on both, up to ``size`` bytes."""
    begin = b"%d:%d:%d:" % (sender, number, size)
    mixed = ((number * 2654435761 + sender * 40503) & 0xFFFFFFFF).to_bytes(4, "big")
    return begin + (mixed * (max(size - len(begin), 0) // 4 + 1))[: max(size - len(begin), 0)]


def identify(payload: bytes) -> tuple[int, int] | None:
    """Which sender's message of what number ``payload`` is; None where it is not exactly what that sender sent."""
    words = payload[:LONGEST_NAME].split(b":", 3)
    if len(words) < 4 or not all(word.isdigit() for word in words[:3]):
        return None
    sender, number, size = map(int, words[:3])
    return (
        (sender, number)
        if size <= max(len(payload), LONGEST_NAME) and payload_of(sender, number, size) == payload
        else None
    )


def runs(time: int, payloads: Sequence[bytes], sequence: int, replayed: bool) -> list[Delivered | Strange]:
    """What a batch that was delivered is logged as: payloads under rising numbers of the queue, those alike together."""
    found: list[Delivered | Strange] = []
    for place, payload in enumerate(payloads, sequence):
        which = identify(payload)
        if which is None:
            found.append(Strange(time, place, len(payload)))
            continue
        last = found[-1] if found else None
        if isinstance(last, Delivered) and (last.sender, last.first + last.messages) == which:
            found[-1] = last._replace(messages=last.messages + 1)
        else:
            found.append(Delivered(time, *which, 1, place, int(replayed)))
    return found
