"""Figures between two marks are those of what was confirmed between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.machines.figures import between, of
from tests.fault.machines.records import SENT, Confirmed, Handed, Log

SECOND = 1_000_000_000


def test_throughput_and_times_are_of_what_was_confirmed_in_between(tmp_path: Path) -> None:
    log = Log(tmp_path / SENT.format(0), 0, aloud=False)
    for number in range(10):  # taken at each second, confirmed so many tenths of a second later as the number is
        log.write(Handed(number * SECOND, number * 5, 5))
        log.write(Confirmed(number * SECOND + number * SECOND // 10, number * 5, 5, number * 5))
    # Two batches under one confirmation.
    log.write(Handed(10 * SECOND, 50, 5), Handed(11 * SECOND, 55, 5), Confirmed(15 * SECOND, 50, 10, 50))
    log.close()
    found = between(tmp_path, 2 * SECOND, 7 * SECOND)
    assert (found.confirmed, found.rate) == (25, 5.0)
    assert (found.median, found.p99, found.longest) == (0.4, 0.6, 0.6)
    last = between(tmp_path, 10 * SECOND, 20 * SECOND)
    assert (last.confirmed, last.median, last.longest) == (10, 4.0, 5.0)
    assert between(tmp_path, 30 * SECOND, 31 * SECOND) == (0, 0.0, None, None, None)
    with pytest.raises(ValueError, match="not after"):
        between(tmp_path, 1, 1)


def test_a_share_is_of_the_sorted_times() -> None:
    times = [float(number) for number in range(1, 201)]
    assert [of(times, share) for share in (0.5, 0.99, 1.0)] == [100.0, 198.0, 200.0]
    assert of([7.0], 0.5) == of([7.0], 1.0) == 7.0
