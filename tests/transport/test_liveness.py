"""Heartbeats on a clock that is handed in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from transport.wire.liveness import (
    DEFAULT_HEARTBEAT,
    ENTRANCE_TIMEOUT,
    HANDSHAKE_TIMEOUT,
    SILENT_INTERVALS,
    Liveness,
    Verdict,
)

times = st.floats(0, 1e6, allow_nan=False)


def test_a_quiet_side_pings_after_one_interval() -> None:
    liveness = Liveness(5.0, now=100.0)
    assert liveness.check(104.999) is Verdict.FINE
    assert liveness.check(105.0) is Verdict.PING


def test_what_was_said_puts_the_ping_off() -> None:
    liveness = Liveness(5.0, now=100.0)
    liveness.said = 104.0
    assert liveness.check(105.0) is Verdict.FINE
    assert liveness.next_check() == 109.0


def test_a_peer_silent_for_three_intervals_is_gone() -> None:
    liveness = Liveness(5.0, now=100.0)
    liveness.said = 114.0
    assert liveness.check(114.999) is Verdict.FINE
    assert liveness.check(115.0) is Verdict.SILENT


def test_silence_outweighs_a_ping_that_is_due() -> None:
    assert Liveness(5.0, now=0.0).check(15.0) is Verdict.SILENT


def test_a_frame_that_trickles_in_is_given_up_three_intervals_after_it_began() -> None:
    liveness = Liveness(5.0, now=0.0)
    liveness.frame_began = 2.0
    for now in (4.0, 8.0, 12.0, 16.0):
        liveness.heard = liveness.said = now
        assert liveness.check(now) is Verdict.FINE
    liveness.heard = liveness.said = 16.9
    assert liveness.check(17.0) is Verdict.SILENT


def test_a_complete_frame_ends_its_deadline() -> None:
    liveness = Liveness(5.0, now=0.0)
    liveness.frame_began = 2.0
    liveness.frame_began = None
    liveness.heard = liveness.said = 16.9
    assert liveness.check(17.0) is Verdict.FINE


@given(st.floats(0.001, 1000), times, times, st.none() | times)
def test_nothing_is_due_before_the_next_check_and_something_is_then(
    interval: float, heard: float, said: float, began: float | None
) -> None:
    liveness = Liveness(interval, now=0.0)
    liveness.heard, liveness.said, liveness.frame_began = heard, said, began
    due = liveness.next_check()
    assert liveness.check(due) is not Verdict.FINE
    assert liveness.check(due - 0.0005 - abs(due) * 1e-9) is Verdict.FINE


def test_a_peer_that_is_not_listened_to_is_not_silent_and_has_its_time_anew_when_it_is() -> None:
    liveness = Liveness(5.0, now=0.0)
    liveness.frame_began = 4.0
    liveness.stop_listening(6.0)
    liveness.stop_listening(9.0)
    for now in (15.0, 40.0):
        assert liveness.check(now) is Verdict.PING
        liveness.said = now
        assert liveness.next_check() == now + 5.0
    liveness.listen(46.0)
    liveness.said = 58.0
    # Two seconds of the frame's time had passed before.
    assert liveness.check(58.9) is Verdict.FINE
    assert liveness.check(59.0) is Verdict.SILENT


def test_a_peer_that_takes_nothing_for_three_intervals_is_stuck_whatever_it_says() -> None:
    liveness = Liveness(5.0, now=0.0)
    liveness.held_up(taken=1000, now=2.0)
    for now in (7.0, 12.0, 16.9):
        liveness.heard = now
        liveness.held_up(1000, now)
        assert liveness.check(now) is Verdict.FINE, "one that takes nothing is not asked whether it is there"
        assert now < liveness.next_check() <= now + 5.0
    liveness.held_up(1000, 17.0)
    assert liveness.check(17.0) is Verdict.STUCK


def test_the_time_of_a_peer_that_takes_nothing_begins_when_it_took_something_last_and_not_when_too_much_waits() -> None:
    liveness = Liveness(5.0, now=0.0)
    liveness.left_waiting(taken=1000, now=2.0)
    liveness.left_waiting(taken=1500, now=3.0)
    liveness.left_waiting(taken=1500, now=12.0)
    liveness.held_up(1500, 13.0)
    liveness.heard = 13.0
    assert liveness.next_check() <= 13.0, "at once, as it was not looked at lately"
    assert liveness.check(17.9) is Verdict.FINE
    assert liveness.next_check() == 18.0
    assert liveness.check(18.0) is Verdict.STUCK
    liveness.held_up(1600, 18.0)
    liveness.heard = 32.0
    assert liveness.check(32.9) is Verdict.FINE
    assert liveness.check(33.0) is Verdict.STUCK


def test_a_peer_that_takes_a_little_is_slow_and_not_stuck() -> None:
    liveness = Liveness(5.0, now=0.0)
    for step in range(20):
        now = 4.0 * step
        liveness.heard = now
        liveness.held_up(1000 + step, now)
        assert liveness.check(now) is Verdict.FINE
    liveness.keeps_up()
    liveness.heard = liveness.said = 90.0
    assert liveness.check(94.0) is Verdict.FINE


def test_the_protocols_times_are_the_constants() -> None:
    assert (DEFAULT_HEARTBEAT, SILENT_INTERVALS, HANDSHAKE_TIMEOUT, ENTRANCE_TIMEOUT) == (5.0, 3, 10.0, 5.0)


def relying(patience: float = 2.0) -> Liveness:
    """A client's side, of a broker of a cluster."""
    liveness = Liveness(5.0, 0.0)
    liveness.agree(5.0, patience)
    return liveness


def test_a_broker_of_a_cluster_says_something_in_each_half_of_the_silence_that_it_promises_not_to_keep() -> None:
    liveness = Liveness(5.0, 0.0)
    liveness.agree(5.0, 2.0, serves=True)
    assert liveness.next_check() == 1.0
    assert liveness.check(0.9) is Verdict.FINE
    assert liveness.check(1.0) is Verdict.PING
    liveness.said = 1.0
    assert liveness.next_check() == 2.0
    # Its own patience is as ever.
    for second in range(1, 15):
        liveness.said = float(second)
        assert liveness.check(float(second)) is not Verdict.SILENT
    assert liveness.check(15.0) is Verdict.SILENT


def test_a_broker_that_breaks_that_promise_is_gone_and_one_that_keeps_it_is_not() -> None:
    liveness = relying()
    for second in range(1, 40):
        liveness.heard = liveness.said = float(second)
        assert liveness.next_check() == second + 2.0
        assert liveness.check(second + 1.9) is Verdict.FINE
    assert liveness.check(41.0) is Verdict.SILENT


def test_a_look_that_comes_late_itself_proves_no_silence_and_the_next_does() -> None:
    liveness = relying()
    # Its own program was busy: what the broker has said meanwhile may wait in the socket.
    assert liveness.check(4.0) is Verdict.FINE
    assert liveness.next_check() == 5.0
    assert liveness.check(5.0) is Verdict.SILENT


def test_a_side_that_stood_still_itself_has_a_silent_peer_heard_first_and_gives_it_half_of_its_time() -> None:
    liveness = Liveness(5.0, now=0.0)
    assert liveness.check(18.75) is Verdict.SILENT, "not late enough to matter"
    liveness = Liveness(5.0, now=0.0)
    assert liveness.check(30.0) is Verdict.PING, "for it to answer"
    liveness.said = 30.0
    assert liveness.next_check() == 35.0
    liveness.said = 37.0
    assert liveness.check(37.4) is Verdict.FINE
    assert liveness.check(37.5) is Verdict.SILENT


def test_a_side_that_stood_still_itself_gives_what_was_not_complete_half_of_its_time_too() -> None:
    liveness = Liveness(5.0, now=0.0)
    liveness.frame_began = 0.0
    liveness.heard = liveness.said = 30.0
    assert liveness.check(30.0) is Verdict.FINE
    liveness.heard = liveness.said = 37.4
    assert liveness.check(37.4) is Verdict.FINE
    assert liveness.check(37.5) is Verdict.SILENT


def test_a_client_that_listens_only_now_and_then_gives_a_broker_the_time_from_when_it_listens() -> None:
    liveness = relying()
    liveness.begin_to_listen(4.0)
    assert liveness.check(5.9) is Verdict.PING, "for the broker is told that this side is there, as ever"
    assert liveness.check(6.0) is Verdict.SILENT
    liveness.stop_listening(6.0)
    assert liveness.check(9.0) is not Verdict.SILENT


def test_what_is_not_complete_has_the_time_of_three_heartbeats_whatever_silence_is_promised() -> None:
    liveness = relying()
    liveness.frame_began = 0.0
    for second in range(1, 15):
        liveness.heard = liveness.said = float(second)
        assert liveness.check(float(second)) is Verdict.FINE
    liveness.heard = 15.0
    assert liveness.check(15.0) is Verdict.SILENT
