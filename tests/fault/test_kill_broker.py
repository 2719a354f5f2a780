"""A broker that is killed again and again loses nothing; and what finds losses is shown to find them."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fault.kill_broker import kill_under_load, kill_with_lines, read_lines
from tests.fault.kill_history import KINDS, LINE_KINDS, Arrival, History, check_lines, identify, payload_of
from tests.log_lines import log_lines

KILLS = 6
LINE_KILLS = 3
SEED = 9182


def quiet(text: str) -> None:
    """Takes lines of progress."""


@pytest.fixture(scope="module")
def lines() -> list[bytes]:
    """A web server's log, some of its lines alike."""
    return log_lines()


def test_a_broker_that_is_killed_under_load_loses_repeats_and_reorders_nothing(tmp_path: Path) -> None:
    outcome = asyncio.run(kill_under_load(KILLS, SEED, tmp_path / "data", quiet))
    assert outcome.verdict.clean, outcome.verdict.examples
    assert outcome.facts["kills"] == KILLS
    assert outcome.facts["confirmed"] == outcome.facts["messages sent"] > 0
    # Each kill finds something delivered and not acknowledged, so that much came again.
    assert outcome.facts["delivered"] > outcome.facts["messages sent"]
    assert outcome.facts["of them possibly replayed"] > 0


def test_a_file_sent_through_a_broker_that_is_killed_arrives_whole_and_in_order(
    tmp_path: Path, lines: list[bytes]
) -> None:
    outcome = asyncio.run(kill_with_lines(LINE_KILLS, SEED, tmp_path / "data", lines, quiet))
    assert outcome.verdict.clean, outcome.verdict.examples
    assert outcome.facts["kills"] == LINE_KILLS


def test_a_broker_that_keeps_nothing_is_found_out() -> None:
    outcome = asyncio.run(kill_under_load(3, SEED, None, quiet))
    assert outcome.verdict.counts["lost"] > 0
    assert not outcome.verdict.clean


def test_lines_lost_with_a_broker_that_keeps_nothing_are_found_missing(lines: list[bytes]) -> None:
    outcome = asyncio.run(kill_with_lines(2, SEED, None, lines, quiet))
    assert outcome.verdict.counts["missing"] > 0


def test_compressed_and_plain_files_give_the_same_lines(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"one\ntwo\n")
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(b"one\ntwo\n"))
    assert read_lines(tmp_path / "a.log") == read_lines(tmp_path / "a.log.gz") == [b"one", b"two"]


# The checker, on histories that are good and bad

Act = Callable[[History], Any]


def sent(history: History, sender: int, count: int, confirmed: bool = True) -> None:
    numbers = history.hand_over(sender, count)
    if confirmed:
        history.confirm(sender, numbers.start, count)


def take(history: History, receiver: int, sequence: int, sender: int, number: int, flagged: bool = False) -> None:
    """Deliver one message, and acknowledge it."""
    assert history.deliver(receiver, sequence, payload_of(sender, number), flagged) == (sender, number)
    history.acknowledge(sender, number)


def good() -> History:
    """Two senders' messages, taken by two receivers; one of them comes again, flagged."""
    history = History(2)
    sent(history, 0, 3)
    sent(history, 1, 2)
    for receiver, sequence, sender, number in ((0, 0, 0, 0), (1, 1, 1, 0), (0, 2, 0, 1), (1, 3, 0, 2), (0, 4, 1, 1)):
        take(history, receiver, sequence, sender, number)
    take(history, 1, 0, 0, 0, flagged=True)
    return history


def test_a_good_history_is_clean_and_counted() -> None:
    history = good()
    verdict = history.verdict()
    assert verdict.clean, verdict.examples
    assert set(verdict.counts) == set(KINDS)
    assert (history.sent, history.confirmed, history.deliveries, history.replays, history.outstanding) == (
        5,
        5,
        6,
        1,
        0,
    )


def test_what_was_sent_and_not_confirmed_may_be_lost() -> None:
    history = good()
    sent(history, 0, 10, confirmed=False)
    assert history.verdict().clean


def loses(history: History) -> None:
    sent(history, 0, 1)


def strands(history: History) -> None:
    sent(history, 0, 1)
    history.deliver(0, 5, payload_of(0, 3), False)


def repeats_unflagged(history: History) -> None:
    take(history, 1, 4, 1, 1)


def repeats_to_another_unflagged(history: History) -> None:
    take(history, 0, 3, 0, 2)


def invents(history: History) -> None:
    history.deliver(0, 5, b"never sent", False)


def sends_ahead(history: History) -> None:
    history.deliver(0, 5, payload_of(0, 3), False)


def alters(history: History) -> None:
    sent(history, 0, 1, confirmed=False)
    history.deliver(0, 5, payload_of(0, 3)[:-1] + b"?", False)


def stores_twice(history: History) -> None:
    take(history, 1, 9, 0, 0, flagged=True)


def reuses_a_number(history: History) -> None:
    sent(history, 1, 1)
    take(history, 1, 4, 1, 2)


def reorders_for_one_receiver(history: History) -> None:
    sent(history, 0, 2)
    take(history, 0, 6, 0, 4)
    take(history, 0, 5, 0, 3)


def reorders_the_queue(history: History) -> None:
    sent(history, 0, 2)
    take(history, 0, 6, 0, 3)
    take(history, 1, 5, 0, 4)


@pytest.mark.parametrize(
    ("defect", "kind", "count"),
    [
        (loses, "lost", 1),
        (strands, "stranded", 1),
        (repeats_unflagged, "unflagged duplicates", 1),
        (repeats_to_another_unflagged, "unflagged duplicates", 1),
        (invents, "phantoms", 1),
        (sends_ahead, "phantoms", 1),
        (alters, "phantoms", 1),
        (stores_twice, "renumbered", 1),
        (reuses_a_number, "renumbered", 1),
        (reorders_for_one_receiver, "reordered", 1),
        (reorders_the_queue, "reordered", 1),
    ],
)
def test_each_defect_is_found_and_nothing_else(defect: Act, kind: str, count: int) -> None:
    history = good()
    defect(history)
    verdict = history.verdict()
    assert {name: found for name, found in verdict.counts.items() if found} == {kind: count}
    assert verdict.examples[0].startswith(kind)


def test_many_violations_are_counted_and_a_few_described() -> None:
    history = History(1)
    sent(history, 0, 1000)
    verdict = history.verdict()
    assert verdict.counts["lost"] == 1000
    assert len(verdict.examples) < 10


def test_payloads_tell_whose_they_are_and_differ_in_length() -> None:
    assert all(identify(payload_of(sender, number)) == (sender, number) for sender in range(8) for number in range(500))
    assert len({len(payload_of(3, number)) for number in range(500)}) > 50


@pytest.mark.parametrize("payload", [b"", b":", b"1:", b"1:2", b"1:2:x", b"-1:2:", b"1:2:" + b"x" * 400])
def test_bytes_that_nobody_made_identify_nobody(payload: bytes) -> None:
    assert identify(payload) is None


SENT = [b"a", b"b", b"b", b"c"]
ARRIVED = [Arrival(number, line, False) for number, line in enumerate(SENT)]


def test_lines_that_came_once_or_again_with_a_flag_are_whole() -> None:
    verdict = check_lines(SENT, [*ARRIVED, Arrival(1, b"b", True)])
    assert verdict.clean, verdict.examples
    assert set(verdict.counts) == set(LINE_KINDS)


@pytest.mark.parametrize(
    ("arrived", "kinds"),
    [
        (ARRIVED[:-1], {"missing"}),
        ([*ARRIVED, Arrival(4, b"c", False)], {"extra"}),
        ([*ARRIVED, Arrival(4, b"c", True)], {"extra"}),
        ([*ARRIVED, ARRIVED[1]], {"unflagged duplicates"}),
        ([*ARRIVED, Arrival(1, b"x", True)], {"changed"}),
        ([ARRIVED[0], Arrival(1, b"c", False), ARRIVED[2], Arrival(3, b"b", False)], {"out of place"}),
        ([*ARRIVED[:-1], Arrival(3, b"x", False)], {"missing", "extra", "out of place"}),
    ],
)
def test_lines_that_are_not_as_sent_are_found(arrived: list[Arrival], kinds: set[str]) -> None:
    assert {name for name, count in check_lines(SENT, arrived).counts.items() if count} == kinds
