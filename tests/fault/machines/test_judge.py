"""The judge finds each kind of violation in logs that have it, nothing in logs that have none, and how long nothing was confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fault.machines.judge import (
    AGAIN,
    KINDS,
    LOST,
    MOST_EXAMPLES,
    PHANTOMS,
    RENUMBERED,
    REORDERED,
    STRANDED,
    TOLD,
    TWICE,
    UNMARKED,
    Judgement,
    judge,
)
from tests.fault.machines.records import (
    MARKS,
    RECEIVED,
    SENT,
    UNKNOWN,
    Acknowledged,
    BrokenLogError,
    Confirmed,
    Delivered,
    Event,
    Gone,
    Handed,
    Log,
    Marked,
    Strange,
    event_of,
    identify,
    line_of,
    payload_of,
    read_log,
    runs,
)

SECOND = 1_000_000_000
# Producer 0 sends 0 to 9 in two batches, which the queue numbers 100 to 109; producer 1 sends 0 to 4, numbered 110 to 114.
SENT_0: tuple[Event, ...] = (Handed(0, 0, 5), Handed(1, 5, 5), Confirmed(10, 0, 5, 100), Confirmed(11, 5, 5, 105))
SENT_1: tuple[Event, ...] = (Handed(2, 0, 5), Confirmed(12, 0, 5, UNKNOWN))
RECEIVED_0: tuple[Event, ...] = (
    Delivered(20, 0, 0, 5, 100, 0),
    Acknowledged(21, 0, 0, 5),
    Delivered(22, 0, 5, 5, 105, 0),
    Acknowledged(23, 0, 5, 5),
)
RECEIVED_1: tuple[Event, ...] = (Delivered(24, 1, 0, 5, 110, 0), Acknowledged(25, 1, 0, 5))


def write(path: Path, events: Sequence[Event]) -> None:
    log = Log(path, 0, aloud=False)
    log.write(*events)
    log.close()


def judged(
    folder: Path,
    received_0: Sequence[Event] = RECEIVED_0,
    received_1: Sequence[Event] = RECEIVED_1,
    *,
    drained: bool = True,
) -> Judgement:
    write(folder / SENT.format(0), SENT_0)
    write(folder / SENT.format(1), SENT_1)
    write(folder / RECEIVED.format(0), received_0)
    write(folder / RECEIVED.format(1), received_1)
    return judge(folder, drained=drained)


def assert_only(found: Judgement, kind: str, count: int = 1) -> None:
    assert found.counts == dict.fromkeys(KINDS, 0) | {kind: count}, found.examples
    assert not found.clean
    assert found.only(kind)
    assert len(found.examples) == min(count, MOST_EXAMPLES)
    assert f"{kind}: {count} VIOLATION" in found.summary()


def test_logs_of_an_honest_broker_show_nothing(tmp_path: Path) -> None:
    found = judged(tmp_path)
    assert found.clean, found.examples
    assert found.facts == {"sent": 15, "confirmed": 15, "deliveries": 15, "of them marked": 0, "acknowledged": 15}
    assert "VIOLATION" not in found.summary()


def test_what_comes_again_is_no_violation_when_it_is_marked(tmp_path: Path) -> None:
    again = (Delivered(30, 0, 0, 5, 100, 1), Acknowledged(31, 0, 0, 5))
    found = judged(tmp_path, RECEIVED_0, (*RECEIVED_1, *again))
    assert found.clean, found.examples
    assert found.facts["of them marked"] == 5


def test_what_was_never_confirmed_may_be_lost_and_may_be_delivered(tmp_path: Path) -> None:
    write(tmp_path / SENT.format(2), (Handed(0, 0, 2),))
    more = (Delivered(40, 2, 1, 1, 120, 0), Acknowledged(41, 2, 1, 1))
    assert judged(tmp_path, RECEIVED_0, (*RECEIVED_1, *more)).clean


def test_one_that_was_confirmed_and_never_came_is_lost_once_all_is_drained(tmp_path: Path) -> None:
    short = (Delivered(20, 0, 0, 5, 100, 0), Acknowledged(21, 0, 0, 5), Delivered(22, 0, 5, 4, 105, 0))
    assert_only(judged(tmp_path, (*short, Acknowledged(23, 0, 5, 4))), LOST)
    assert judge(tmp_path, drained=False).clean


def test_one_that_its_sender_was_told_of_is_lost_and_told_and_has_given_its_number_back(tmp_path: Path) -> None:
    # 3 to 9 were confirmed, and are lost; 10 and 11 were under way, and nobody knows of them. A former leader has delivered some of both.
    lost = (Confirmed(10, 0, 10, 100), Gone(30, 3, 7))
    sent = (Handed(0, 0, 5), Handed(1, 5, 5), Handed(2, 10, 2), *lost, Handed(40, 12, 2), Confirmed(50, 12, 2, 103))
    received = (
        Delivered(20, 0, 0, 5, 100, 0),
        Acknowledged(21, 0, 0, 5),
        Delivered(22, 0, 10, 1, 110, 0),
        Delivered(51, 0, 12, 2, 103, 0),
        Acknowledged(52, 0, 12, 2),
    )
    write(tmp_path / SENT.format(0), sent)
    write(tmp_path / RECEIVED.format(0), received)
    found = judge(tmp_path)
    assert_only(found, TOLD, 7)
    assert not found.only(LOST)


def test_a_loss_that_its_sender_was_not_told_of_is_one_beside_those_that_it_was_told_of(tmp_path: Path) -> None:
    write(tmp_path / SENT.format(0), (Handed(0, 0, 10), Confirmed(10, 0, 10, 100), Gone(30, 8, 2)))
    write(tmp_path / RECEIVED.format(0), (Delivered(20, 0, 0, 7, 100, 0), Acknowledged(21, 0, 0, 7)))
    found = judge(tmp_path)
    assert found.counts == dict.fromkeys(KINDS, 0) | {LOST: 1, TOLD: 2}
    assert not found.only(TOLD)


def test_one_that_nobody_could_acknowledge_is_stranded(tmp_path: Path) -> None:
    assert_only(judged(tmp_path, (*RECEIVED_0[:3], Acknowledged(23, 0, 5, 4))), STRANDED)


def test_an_order_that_a_receiver_sees_changed_is_found(tmp_path: Path) -> None:
    # The queue's numbers are right: only this receiver got the later one first.
    swapped = (Delivered(19, 0, 5, 5, 105, 0), *RECEIVED_0[:2], RECEIVED_0[3])
    assert_only(judged(tmp_path, swapped), REORDERED, 5)


def test_an_order_that_the_queues_numbers_show_changed_is_found(tmp_path: Path) -> None:
    # Two receivers, each in order by itself.
    one = (Delivered(24, 1, 0, 2, 113, 0), Acknowledged(25, 1, 0, 2))
    other = (Delivered(24, 1, 2, 3, 110, 0), Acknowledged(25, 1, 2, 3))
    assert_only(judged(tmp_path, (*RECEIVED_0, *one), other), REORDERED, 3)


@pytest.mark.parametrize("receiver", [0, 1])
def test_one_that_comes_again_unmarked_is_found_at_the_same_receiver_and_at_another(
    tmp_path: Path, receiver: int
) -> None:
    # Before anybody acknowledged it.
    again = Delivered(20, 0, 4, 1, 104, 0)
    received = [RECEIVED_0, RECEIVED_1]
    received[receiver] = (received[receiver][0], again, *received[receiver][1:])
    assert_only(judged(tmp_path, *received), UNMARKED)


def test_one_that_was_marked_the_first_time_and_is_not_the_second_is_found_at_the_same_receiver(tmp_path: Path) -> None:
    first = Delivered(19, 0, 4, 1, 104, 1)
    assert_only(judged(tmp_path, (first, *RECEIVED_0)), UNMARKED)


def test_of_two_receivers_the_one_that_was_paused_may_have_it_unmarked_later(tmp_path: Path) -> None:
    marked = (Delivered(15, 0, 0, 5, 100, 1), Acknowledged(16, 0, 0, 5))
    assert judged(tmp_path, RECEIVED_0, (*marked, *RECEIVED_1)).clean


def test_one_that_was_acknowledged_and_comes_again_unmarked_is_found(tmp_path: Path) -> None:
    assert_only(judged(tmp_path, (*RECEIVED_0, Delivered(30, 0, 2, 1, 102, 0))), AGAIN)


def test_one_that_is_under_two_numbers_was_stored_twice(tmp_path: Path) -> None:
    assert_only(judged(tmp_path, (*RECEIVED_0, Delivered(30, 0, 2, 1, 130, 1))), TWICE)


def test_a_number_that_names_two_messages_is_found(tmp_path: Path) -> None:
    renumbered = (Delivered(24, 1, 0, 5, 105, 0), RECEIVED_1[1])
    assert_only(judged(tmp_path, RECEIVED_0, renumbered), RENUMBERED, 5)


def test_a_number_that_is_not_the_one_that_the_sender_was_told_is_found(tmp_path: Path) -> None:
    moved = (*RECEIVED_0[:2], Delivered(22, 0, 5, 5, 205, 0), RECEIVED_0[3])
    assert_only(judged(tmp_path, moved), RENUMBERED, 5)


@pytest.mark.parametrize(
    "phantom", [Strange(30, 130, 7), Delivered(30, 0, 10, 1, 130, 0), Delivered(30, 7, 0, 1, 130, 0)]
)
def test_what_nobody_sent_is_found(tmp_path: Path, phantom: Event) -> None:
    assert_only(judged(tmp_path, (*RECEIVED_0, phantom)), PHANTOMS)


def test_the_time_behind_a_mark_ends_with_something_that_was_taken_after_it(tmp_path: Path) -> None:
    sent = (
        Handed(1 * SECOND, 0, 1),
        Confirmed(2 * SECOND, 0, 1, 0),
        Handed(3 * SECOND, 1, 1),
        Confirmed(5 * SECOND, 1, 1, 1),  # what the dead had confirmed before, and arrived after
        Handed(6 * SECOND, 2, 1),
        Confirmed(9 * SECOND, 2, 1, 2),
    )
    write(tmp_path / SENT.format(0), sent)
    write(tmp_path / SENT.format(1), (Handed(1, 0, 1),))
    write(tmp_path / MARKS, (Marked(4 * SECOND, "kill -9 of a"), Marked(10 * SECOND, "the end")))
    found = judge(tmp_path, drained=False)
    assert [(one.mark.text, one.sender, one.seconds) for one in found.recoveries] == [
        ("kill -9 of a", 0, 5.0),
        ("kill -9 of a", 1, None),
        ("the end", 0, None),
        ("the end", 1, None),
    ]
    assert [(one.sender, one.seconds, one.began) for one in found.silences] == [(0, 4.0, 4.0)]
    assert "kill -9 of a: next confirmation at producer 0 after 5.000 s" in found.summary()


def test_a_line_that_was_being_written_at_its_clients_death_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / SENT.format(0)
    write(path, SENT_0)
    with path.open("a") as file:
        file.write("C 13 1")
    assert tuple(read_log(path)) == SENT_0


@pytest.mark.parametrize("line", ["", "Z 1 2", "C 1 2", "C 1 2 x 4", "H", "M", "M x y"])
def test_a_line_that_no_client_wrote_is_an_error(tmp_path: Path, line: str) -> None:
    path = tmp_path / SENT.format(0)
    path.write_text(line + "\n")
    with pytest.raises(BrokenLogError):
        judge(tmp_path)


@pytest.mark.parametrize(
    "event", [*SENT_0, *RECEIVED_0, Gone(1, 2, 3), Strange(1, 2, 3), Marked(7, "kill -9 of a, then b")]
)
def test_an_event_is_read_as_it_was_written(event: Event) -> None:
    assert event_of(line_of(event).rstrip("\n")) == event


@pytest.mark.parametrize("size", [1, 8, 9, 100, 5_001])
def test_a_payload_says_whose_it_is_unless_anything_of_it_is_changed(size: int) -> None:
    payload = payload_of(3, 71, size)
    assert identify(payload) == (3, 71)
    assert len(payload) == max(size, len(b"3:71:") + len(str(size)) + 1)
    for place in {0, 2, len(payload) // 2, len(payload) - 1}:
        changed = bytearray(payload)
        changed[place] ^= 1
        assert identify(bytes(changed)) != (3, 71)
    assert identify(payload[:-1]) is None
    assert identify(payload + b"x") is None
    assert identify(b"hello") is None
    assert identify(b"1:2:99999999999:") is None


def test_a_batch_is_logged_as_runs_of_what_follows_on() -> None:
    payloads = [payload_of(0, 0, 50), payload_of(0, 1, 50), payload_of(1, 8, 50), b"?", payload_of(0, 3, 50)]
    assert runs(5, payloads, 20, True) == [
        Delivered(5, 0, 0, 2, 20, 1),
        Delivered(5, 1, 8, 1, 22, 1),
        Strange(5, 23, 1),
        Delivered(5, 0, 3, 1, 24, 1),
    ]
