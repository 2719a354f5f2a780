"""What a run of rounds says at its end: how long nothing was confirmed behind each fault, and beside what is wanted of it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.fault.machines.figures import Figures, between
from tests.fault.machines.judge import SECOND, Recovery

ETCDS_LEADER_TOO: Final = ", etcd's leader too"
"""Behind a fault's name, where the machine that it struck had the leader of etcd as well."""
P99_TIMES: Final = 2.0
"""What the p99 of a confirmation beside a follower whose disk is slow may be, times that of before."""


class Wanted(NamedTuple):
    """Seconds to the next confirmation; None where nothing is said of it."""

    median: float | None
    worst: float


KILLED: Final = Wanted(1.0, 2.0)
KILLED_WITH_ETCD: Final = Wanted(None, 4.0)
SILENT: Final = Wanted(None, 5.0)
WANTED: Final[Mapping[str, Wanted]] = {
    "kill-leader": KILLED,
    "kill-broker-of-leader": KILLED,
    f"kill-leader{ETCDS_LEADER_TOO}": KILLED_WITH_ETCD,
    "kill-leader-and-etcds-leader": KILLED_WITH_ETCD,
    "stop-leader": SILENT,
    "cable-of-leader": SILENT,
}
"""By the text of a mark; of no mode that waits for each member that is listed, as `all` does, for ten seconds and more."""


class Stretch(NamedTuple):
    """From one time of `records.now` to another."""

    start: int
    end: int


class Pair(NamedTuple):
    """Two stretches that are held against each other."""

    before: Stretch
    during: Stretch


def times(recoveries: Iterable[Recovery], begun: Mapping[int, int]) -> dict[str, list[float | None]]:
    """Seconds from each fault to the next confirmation, at each producer, by the text of its mark; None where there was none.

    Args:
        recoveries: of a judgement.
        begun: by a mark's time, when the fault began that it stands behind: what a kill itself takes counts too.
    """
    found: dict[str, list[float | None]] = {}
    for one in recoveries:
        before = (one.mark.time - begun.get(one.mark.time, one.mark.time)) / SECOND
        found.setdefault(one.mark.text, []).append(None if one.seconds is None else one.seconds + before)
    return found


def time_lines(
    found: Mapping[str, Sequence[float | None]], producers: int, wanted: Mapping[str, Wanted] = WANTED
) -> list[str]:
    """`times` for people: a line for each text, and what is wanted of it."""
    lines = []
    for text, each in found.items():
        known = [seconds for seconds in each if seconds is not None]
        rounds = f"{text}: {len(each) // producers} times"
        if not known:
            lines.append(f"{rounds}, and nothing was confirmed behind it")
            continue
        never = f", and never {len(each) - len(known)} times" if len(known) < len(each) else ""
        median, worst = statistics.median(known), max(known)
        lines.append(
            f"{rounds}, next confirmation after {median:.2f} s, {worst:.2f} s at most{never}"
            + _said(wanted.get(text), median, worst)
        )
    return lines


def _said(wanted: Wanted | None, median: float, worst: float) -> str:
    if wanted is None:
        return ""
    missed = worst > wanted.worst or (wanted.median is not None and median > wanted.median)
    middle = "" if wanted.median is None else f"{wanted.median:g} s, and "
    return f" (wanted: {middle}{wanted.worst:g} s at most{': MISSED' if missed else ''})"


def p99_lines(folder: Path, pairs: Iterable[Pair], most: float | None = P99_TIMES) -> list[str]:
    """How much longer confirmations took in the second stretch of each pair than in the first; a line each, and the median.

    Args:
        folder: the logs of the load.
        pairs: what is held against each other.
        most: how many times as long is wanted at most; None where nothing is said of it.

    Raises:
        ValueError: nothing was confirmed in a stretch.
    """
    lines, ratios = [], []
    for pair in pairs:
        before, during = between(folder, *pair.before), between(folder, *pair.during)
        ratios.append(_p99(during) / _p99(before))
        lines.append(
            f"p99 of a confirmation: {_p99(before) * 1e3:.1f} ms before, of {before.confirmed:,} messages; "
            f"{_p99(during) * 1e3:.1f} ms during, of {during.confirmed:,}: {ratios[-1]:.2f} times"
        )
    if ratios:
        median = statistics.median(ratios)
        missed = ": MISSED" if most is not None and median > most else ""
        wanted = "" if most is None else f" (wanted: {most:g} at most{missed})"
        lines.append(f"median of these: {median:.2f} times{wanted}")
    return lines


def _p99(figures: Figures) -> float:
    if figures.p99 is None:
        raise ValueError("nothing was confirmed in a stretch that is to be measured")
    return figures.p99
