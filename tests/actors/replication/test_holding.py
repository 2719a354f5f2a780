"""Senders are held back for who lags and can catch up: no more than is needed, within bounds, and not for ever."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from actors.replication import holding as limits
from actors.replication.holding import Holding, Lagging, lagging
from tests.actors.replication.machines import A, B, C, append, document, follows, leading, log, stores

BEAT = 0.5
MB = 1_000_000


class Run:
    """A cluster in numbers: senders at a rate, one that lags at another; what is held back is not sent."""

    def __init__(self, sends: float, follows: Callable[[float], float], lacking: float) -> None:
        self.holding = Holding()
        self.now = 0.0
        self.held = 0.0
        self.given_up: list[tuple[float, str]] = []
        self.shares: list[float] = []
        self.lacking = lacking
        self._sends = sends
        self._follows = follows

    def go(self, seconds: float) -> Run:
        """So long, or until it is in step."""
        until = self.now + seconds
        while self.now < until:
            lags = [Lagging("c", round(self.lacking))] if self.lacking > 0 else []
            self.given_up += [(self.now, each) for each in self.holding.look(self.now, lags)]
            share = self.holding.share
            self.shares.append(share)
            self.held += share * BEAT
            self.lacking += (self._sends * (1 - share) - self._follows(self.now)) * BEAT
            self.lacking = max(0.0, self.lacking)
            self.now += BEAT
        return self

    def in_step_after(self, seconds: float) -> float:
        """When it was in step first."""
        while self.lacking > 0:
            assert self.now < seconds, f"{self.lacking / MB:.0f} MB are lacking after {self.now:.0f} s"
            self.go(BEAT)
        return self.now


def at(rate: float) -> Callable[[float], float]:
    return lambda _now: rate


def test_one_that_is_as_fast_as_the_senders_comes_in_step_by_what_these_do_not_send() -> None:
    run = Run(100 * MB, at(100 * MB), 500 * MB)
    # 30 MB/s are gained, so 17 s and the steps up to that are enough.
    assert run.in_step_after(40) < 30
    assert not run.given_up
    run.go(2 * BEAT)
    assert (run.holding.share, run.holding.directory) == (0.0, None)


def test_one_that_catches_up_by_itself_holds_nobody_back() -> None:
    run = Run(100 * MB, at(150 * MB), 500 * MB)
    run.in_step_after(20)
    assert run.held == 0.0


def test_nobody_is_held_back_for_a_lag_that_is_over_within_a_look() -> None:
    run = Run(100 * MB, at(0), 50 * MB)
    run.go(limits.WINDOW_SECONDS - BEAT)
    run.lacking = 0
    run.go(BEAT)
    assert run.held == 0.0


def test_the_share_goes_up_by_steps_and_down_when_less_will_do() -> None:
    run = Run(100 * MB, lambda now: (110 if now < 20 else 200) * MB, 2_000 * MB)
    run.go(19)
    assert run.holding.share == limits.MOST_SHARE
    assert run.holding.directory == "c"
    run.go(12)
    assert run.holding.share < limits.MOST_SHARE
    assert all(later - earlier <= limits.STEP_SHARE + 1e-9 for earlier, later in pairwise(run.shares))


def test_where_the_lag_does_not_shrink_at_all_the_share_is_the_greatest_at_once() -> None:
    run = Run(100 * MB, at(100 * MB), 500 * MB).go(limits.WINDOW_SECONDS + 2 * BEAT)
    assert [share for share in run.shares if share] == [limits.MOST_SHARE] * (len(run.shares) - 2)


def test_one_that_does_not_come_nearer_is_given_up_and_said_so_once() -> None:
    run = Run(100 * MB, at(10 * MB), 100 * MB).go(300)
    ((when, directory),) = run.given_up
    assert directory == "c"
    assert when < 4 * limits.WINDOW_SECONDS + limits.PATIENCE_SECONDS + 2 * limits.WINDOW_SECONDS
    assert run.holding.given_up == ["c"]
    assert run.holding.share == 0.0


def test_one_that_comes_nearer_too_slowly_for_the_time_that_is_left_is_given_up() -> None:
    # With 70 MB/s and 71 MB/s: of 10 GB that would take hours.
    run = Run(100 * MB, at(71 * MB), 10_000 * MB).go(600)
    assert len(run.given_up) == 1
    assert run.held < limits.MOST_HELD_SECONDS / 4


def test_a_slow_follower_costs_next_to_nothing_in_the_long_run() -> None:
    # It comes in step whenever it is helped, and lags whenever it is not.
    run = Run(100 * MB, at(90 * MB), 50 * MB)
    hours = 4
    while run.now < hours * 3600:
        run.go(BEAT)
        run.lacking = max(run.lacking, 1.0)
    assert run.held <= limits.MOST_HELD_SECONDS + hours * 3600 * limits.COMES_BACK
    assert run.given_up


def test_one_that_was_given_up_is_waited_for_again_when_its_time_has_come_back() -> None:
    run = Run(100 * MB, at(10 * MB), 100 * MB).go(120)
    assert run.given_up
    held = run.held
    back = limits.MOST_HELD_SECONDS / limits.COMES_BACK
    run.go(back - 120)
    assert run.held == held
    run.go(240)
    assert run.held > held


def test_one_that_was_given_up_is_said_to_lag_only_while_it_does() -> None:
    run = Run(100 * MB, at(10 * MB), 100 * MB).go(120)
    assert run.holding.given_up == ["c"]
    # It has come in step by itself, or is no member any more.
    run.holding.look(run.now, [])
    assert run.holding.given_up == []
    run.holding.look(run.now + BEAT, [Lagging("c", MB)])
    assert (run.holding.given_up, run.holding.share) == (["c"], 0.0)


def test_one_that_does_not_answer_is_not_waited_for_and_keeps_its_time() -> None:
    holding = Holding()
    now = 0.0
    for _ in range(40):
        holding.look(now, [Lagging("c", 100 * MB)])
        now += BEAT
    assert holding.share == limits.MOST_SHARE
    holding.look(now, [])
    assert (holding.share, holding.directory, holding.given_up) == (0.0, None, [])


@given(
    st.lists(
        st.tuples(
            st.floats(0.05, 5.0),
            st.dictionaries(st.sampled_from("abc"), st.integers(0, 10**10), max_size=3),
        ),
        max_size=300,
    )
)
def test_whoever_lags_senders_are_held_back_within_the_bounds(looks: list[tuple[float, dict[str, int]]]) -> None:
    """The share never exceeds its bound, and of no directory the time that it has, however lags come and go."""
    holding = Holding()
    now, before = 0.0, 0.0
    spent = dict.fromkeys("abc", 0.0)
    for seconds, lacks in looks:
        if holding.directory is not None:
            spent[holding.directory] += holding.share * seconds
        before, now = now, now + seconds
        gone = holding.look(now, [Lagging(*each) for each in lacks.items()])
        assert 0.0 <= holding.share <= limits.MOST_SHARE
        assert (holding.directory is None) is (holding.share == 0.0)
        assert holding.directory is None or holding.directory in lacks
        assert holding.directory not in holding.given_up
        assert set(gone) <= set(lacks) & set(holding.given_up)
        most = limits.MOST_HELD_SECONDS + now * limits.COMES_BACK + (now - before) + 5.0
        assert all(each <= most for each in spent.values())


def test_who_lags_is_one_that_stores_records_and_has_not_what_is_committed() -> None:
    disk = log(1, 1)
    leader = leading(disk, 2, document())
    for peer in (B, C):
        follows(leader, peer, log(1, 1))
    stores(leader, B, disk.end)
    stores(leader, C, 3)
    for now in (0.5, 1.0):
        stores(leader, B, disk.end, now)
        leader.tick(now)

    def found(now: float, without_room: tuple[str, ...] = ()) -> list[Lagging]:
        return lagging(leader, now, lambda stored: 100 * (disk.end - stored), without_room)

    assert found(1.0) == [Lagging(C, 100)]
    assert found(1.0, (C,)) == []
    # It answers no more.
    assert found(1.6) == []
    # It answers, and has stored nothing for long.
    stores(leader, C, 3, 6.0)
    assert found(6.0) == []
    append(disk, 2)
    stores(leader, C, 4, 6.1)
    leader.tick(6.1)
    assert [each.directory for each in found(6.1)] in ([], [C])
    leader.lost(C)
    assert found(6.1) == []
    assert A not in leader.peers


def test_nobody_lags_who_has_all_that_there_is_though_it_is_not_known_yet_what_was_committed_a_beat_ago() -> None:
    disk = log(1, 1)
    leader = leading(disk, 2, document())
    for now in (0.5, 1.0):
        leader.tick(now)
    for peer in (B, C):
        follows(leader, peer, log(1, 1), 1.1)
        stores(leader, peer, disk.end, 1.1)
    assert leader.opened
    assert not leader.caught_up(B)
    assert lagging(leader, 1.1, lambda stored: disk.end - stored, ()) == []
