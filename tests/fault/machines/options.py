"""What the clients of a load are told: one object, as JSON in their arguments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from transport import Backoff

GIVE_UP_SECONDS = 300.0
"""Without any connection: longer than any outage of a test."""

READY = "ready\n"
"""What a client prints when signals no longer end it."""


@dataclass(frozen=True, slots=True)
class Options:
    """Of a load.

    Attributes:
        queue: its name.
        senders: how many producers.
        first_sender: the number of the first; two loads whose messages come to one reader have different ones.
        receivers: how many receivers.
        processes: how many the producers share; the receivers share as many, at most.
        batch: messages that a producer sends at a time.
        size: bytes of a payload.
        window: messages of a producer sent and not confirmed, or of a receiver delivered and not acknowledged, at most.
        rate: messages a second of a producer; None for as many as the broker takes.
        hold: messages that a receiver keeps unanswered until the drain; less than the window.
        longest_wait: seconds between two attempts to connect, at most; what the clients' own default is.
    """

    queue: str = "load"
    senders: int = 2
    first_sender: int = 0
    receivers: int = 1
    processes: int = 1
    batch: int = 10
    size: int = 100
    window: int = 1_000
    rate: float | None = None
    hold: int = 0
    longest_wait: float = 5.0

    @property
    def producers(self) -> range:
        """Their numbers."""
        return range(self.first_sender, self.first_sender + self.senders)

    def backoff(self) -> Backoff:
        """How clients come back."""
        return Backoff(min(0.1, self.longest_wait), self.longest_wait, give_up_after=GIVE_UP_SECONDS)


@dataclass(frozen=True, slots=True)
class Order:
    """What one process of clients does.

    Attributes:
        contacts: addresses, tried in turn.
        folder: where the logs are.
        numbers: of its producers or receivers.
        options: of the whole load.
    """

    contacts: Sequence[str]
    folder: str
    numbers: Sequence[int]
    options: Options

    def text(self) -> str:
        """As an argument."""
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Order:
        """From an argument."""
        fields = json.loads(text)
        return cls(**{**fields, "options": Options(**fields["options"])})
