"""What a run of rounds says of its times is what its logs have, beside what is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.machines.judge import Recovery
from tests.fault.machines.records import SENT, Confirmed, Handed, Log, Marked
from tests.fault.machines.report import ETCDS_LEADER_TOO, Pair, Stretch, p99_lines, time_lines, times

SECOND = 1_000_000_000


def test_a_time_counts_from_when_the_fault_began_and_each_fault_has_its_own_line() -> None:
    marks = [Marked(10 * SECOND, "kill-leader"), Marked(20 * SECOND, f"kill-leader{ETCDS_LEADER_TOO}")]
    marks.append(Marked(30 * SECOND, "kill-leader"))
    recoveries = [Recovery(mark, sender, 0.5 + sender) for mark in marks for sender in (0, 1)]
    found = times(recoveries, {30 * SECOND: 29 * SECOND})
    assert found == {"kill-leader": [0.5, 1.5, 1.5, 2.5], f"kill-leader{ETCDS_LEADER_TOO}": [0.5, 1.5]}
    assert time_lines(found, 2) == [
        "kill-leader: 2 times, next confirmation after 1.50 s, 2.50 s at most (wanted: 1 s, and 2 s at most: MISSED)",
        "kill-leader, etcd's leader too: 1 times, next confirmation after 1.00 s, 1.50 s at most (wanted: 4 s at most)",
    ]


def test_a_fault_behind_which_nothing_was_confirmed_says_so() -> None:
    mark = Marked(SECOND, "all-off, mended")
    found = times([Recovery(mark, 0, None), Recovery(mark, 1, 0.25)], {})
    assert time_lines(found, 2) == [
        "all-off, mended: 1 times, next confirmation after 0.25 s, 0.25 s at most, and never 1 times"
    ]
    assert time_lines({"kill-leader": [9.0]}, 1, {}) == [
        "kill-leader: 1 times, next confirmation after 9.00 s, 9.00 s at most"
    ]
    assert time_lines({"x": [None]}, 1) == ["x: 1 times, and nothing was confirmed behind it"]


def test_the_p99_of_each_stretch_is_held_against_that_of_the_one_before(tmp_path: Path) -> None:
    log = Log(tmp_path / SENT.format(0), 0, aloud=False)
    for number in range(40):  # of each ten seconds confirmations take 0.1, 0.3, 0.2 and 0.2 s
        took = (SECOND // 10, 3 * SECOND // 10, SECOND // 5, SECOND // 5)[number // 10]
        log.write(Handed(number * SECOND, number, 1), Confirmed(number * SECOND + took, number, 1, number))
    log.close()
    tens = [Stretch(first * SECOND, (first + 10) * SECOND) for first in (0, 10, 20, 30)]
    assert p99_lines(tmp_path, [Pair(tens[0], tens[1]), Pair(tens[2], tens[3])]) == [
        "p99 of a confirmation: 100.0 ms before, of 10 messages; 300.0 ms during, of 10: 3.00 times",
        "p99 of a confirmation: 200.0 ms before, of 10 messages; 200.0 ms during, of 10: 1.00 times",
        "median of these: 2.00 times (wanted: 2 at most)",
    ]
    assert (
        p99_lines(tmp_path, [Pair(tens[0], tens[1])])[-1] == "median of these: 3.00 times (wanted: 2 at most: MISSED)"
    )
    assert p99_lines(tmp_path, [Pair(tens[0], tens[1])], None)[-1] == "median of these: 3.00 times"
    assert p99_lines(tmp_path, []) == []
    with pytest.raises(ValueError, match="nothing was confirmed"):
        p99_lines(tmp_path, [Pair(tens[0], Stretch(50 * SECOND, 60 * SECOND))])
