"""What was seen of the broker over time, and the rates that follow from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

MAX_SAMPLES = 20_000
"""Nearly three hours of them; then the oldest are forgotten."""
RATE_SAMPLES = 5
"""Samples over which the rate of the moment is taken: messages move in batches, so a shorter time shows those."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The broker's statistics at one time.

    Attributes:
        at: seconds since the demo began.
        sent: messages the broker has taken from the sender.
        counted: messages the query has acknowledged.
        backlog: messages that wait in the queue.
        reserved: messages the query has reserved and not acknowledged.
        demand: messages the sender may still send.
        rss: the broker's resident memory, bytes.
    """

    at: float
    sent: int = 0
    counted: int = 0
    backlog: int = 0
    reserved: int = 0
    demand: int = 0
    rss: int = 0

    @classmethod
    def of(cls, statistics: dict[str, Any], queue: str, at: float) -> Sample:
        """From what ``Administration.statistics`` returns; zeros while there is no such queue."""
        facts = next((facts for facts in statistics["queues"] if facts["name"] == queue), None)
        rss = statistics["broker"]["rss_bytes"]
        if facts is None:
            return cls(at, rss=rss)
        return cls(
            at,
            facts["total_in"],
            facts["total_acknowledged"],
            facts["ready"],
            facts["reserved"],
            facts["capacity_granted"],
            rss,
        )


@dataclass(frozen=True, slots=True)
class Phase:
    """Averages and extremes over a part of the run; None where too little was seen of it."""

    seconds: float
    sender_rate: float
    query_rate: float
    most_backlog: int
    least_rss: int
    most_rss: int

    @classmethod
    def over(cls, samples: Sequence[Sample]) -> Phase | None:
        """The phase of these samples."""
        if len(samples) < 2:
            return None
        first, last = samples[0], samples[-1]
        seconds = last.at - first.at
        return cls(
            seconds,
            (last.sent - first.sent) / seconds,
            (last.counted - first.counted) / seconds,
            max(sample.backlog for sample in samples),
            min(sample.rss for sample in samples),
            max(sample.rss for sample in samples),
        )


@dataclass(slots=True)
class History:
    """The run so far.

    Attributes:
        total: lines there are to count.
        limit: messages the queue stores at most.
        samples: what was seen.
        slow_from: when the query became slow, seconds since the demo began.
        slow_until: when that ended.
        sent_all: when the sender was done.
        lines: lines in the batches the query has completed.
    """

    total: int
    limit: int
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))
    slow_from: float | None = None
    slow_until: float | None = None
    sent_all: float | None = None
    lines: int = 0

    @property
    def is_slow(self) -> bool:
        """Whether the query is being slow now."""
        return self.slow_from is not None and self.slow_until is None

    def slow_span(self) -> tuple[float, float] | None:
        """From when to when the query was slow, so far."""
        if self.slow_from is None or not self.samples:
            return None
        return self.slow_from, self.slow_until if self.slow_until is not None else self.samples[-1].at

    def now(self) -> Phase | None:
        """The last moments."""
        return Phase.over(list(islice(self.samples, max(0, len(self.samples) - RATE_SAMPLES), None)))

    def rates(self) -> list[tuple[float, float, float]]:
        """For each sample its time and the rates of sender and query in the moments before it."""
        rows = []
        recent: deque[Sample] = deque(maxlen=RATE_SAMPLES)
        for sample in self.samples:
            recent.append(sample)
            phase = Phase.over(recent)
            rows.append((sample.at, phase.sender_rate, phase.query_rate) if phase else (sample.at, 0.0, 0.0))
        return rows

    def phases(self) -> dict[str, Phase | None]:
        """Before the query was slow, from the first batch it completed on; while it was; after, until the sender was done."""
        begin = next((sample.at for sample in self.samples if sample.counted), 0.0)
        end = self.samples[-1].at if self.samples else 0.0
        slow_from = self.slow_from if self.slow_from is not None else end
        slow_until = self.slow_until if self.slow_until is not None else end
        return {
            "before": self._between(begin, slow_from),
            "slow": self._between(slow_from, slow_until),
            "after": self._between(slow_until, self.sent_all if self.sent_all is not None else end),
        }

    def _between(self, start: float, end: float) -> Phase | None:
        return Phase.over([sample for sample in self.samples if start <= sample.at <= end])
