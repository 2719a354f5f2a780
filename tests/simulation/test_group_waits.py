"""While a message waits to be tried again nobody gets what is behind it in its group: a request that gets nothing has its reason."""

from __future__ import annotations

import pytest

from tests.simulation.checker import STUCK, QueueRules
from tests.simulation.history import Crashed, Event, Released, Unseen
from tests.simulation.said_by_hand import TAKER, A, B, X, back, done, given, in_vain, kinds, put_back, sent, taken
from tests.simulation.task_rules import TaskRules

GROUPED = QueueRules(visibility=10.0, groups=True)
RETRIED = QueueRules(visibility=10.0, groups=True, tasks=TaskRules(retry_delay=5.0, retry_max_delay=60.0))
"""What has failed once waits 4 to 6 seconds."""

GOOD_DELAYS: dict[str, list[Event]] = {
    "a request that gets nothing while what was given back waits": [
        *sent(A, B),
        given(1, 0, A),
        back(2, 0, 3.0),
        in_vain(2.5, 4.5),
        given(5, 0, A, 1, 2),
        done(6, 0),
        given(6, 1, B),
        done(6, 1),
    ],
    "a request that gets nothing while what was given back as its time ended waits": [
        *sent(A, B),
        given(1, 0, A),
        back(10.995, 0, 3.0),
        in_vain(11.5, 13.5),
        given(14, 0, A, 1, 2),
        done(15, 0),
        given(15, 1, B),
        done(15, 1),
    ],
    "a request that gets nothing while what was taken, and given back as its time ended, waits": [
        *sent(A, B),
        taken(1, 0, A, 1),
        *put_back(10.995, 0, 3.0),
        Released(11, TAKER, "the taker ends"),
        in_vain(11.5, 13.5),
        given(14, 0, A, 1, 2),
        done(15, 0),
        given(15, 1, B),
        done(15, 1),
    ],
}
LAST = [given(9, 0, A, 2, 2, failures=1), given(9, 1, B, 2), done(9.5, 0, 2), done(9.5, 1, 2)]
GOOD_RETRIES: dict[str, list[Event]] = {
    "what was given back": [*sent(A, B), given(1, 0, A), back(3, 0), in_vain(5, 8.5), *LAST],
    "what was taken and given back": [*sent(A, B), taken(1, 0, A, 1), *put_back(3, 0), in_vain(5, 8.5), *LAST],
    "what was lost with its receiver": [
        *sent(A, B),
        given(1, 0, A),
        Released(3, 1, "lost"),
        in_vain(5, 8.5),
        *LAST,
    ],
    "what was given back before a crash": [
        *sent(A, B),
        given(1, 0, A),
        back(3, 0),
        Crashed(4, "power"),
        in_vain(5, 8.5),
        *LAST,
    ],
    "what somebody had for too long before a crash": [
        *sent(A, B),
        given(1, 0, A),
        Crashed(11.5, "killed"),
        in_vain(12, 15),
        given(16, 0, A, 2, 1, failures=1),
        given(16, 1, B, 2),
        done(17, 0, 2),
        done(17, 1, 2),
    ],
    "what nobody has seen for too long": [
        *sent(A, B),
        taken(1, 0, A, 1),
        Unseen(11.5, TAKER, "q", ((0, 1),)),
        in_vain(12, 15),
        given(16, 0, A, 2, 2, failures=1),
        given(16, 1, B, 2),
        done(17, 0, 2),
        done(17, 1, 2),
    ],
}
BAD_RETRIES: dict[str, list[Event]] = {
    "what was given back has waited": [*sent(A, B), given(1, 0, A), back(1.5, 0), in_vain(7, 8.5), *LAST],
    "what was given back with a delay has waited": [
        *sent(A, B),
        given(1, 0, A),
        back(3, 0, 1.0),
        in_vain(5, 7),
        *LAST,
    ],
    "what was taken, and given back with a delay, has waited": [
        *sent(A, B),
        taken(1, 0, A, 1),
        *put_back(3, 0, 1.0),
        in_vain(5, 7),
        *LAST,
    ],
    "what nobody has seen does not wait": [
        *sent(A, B),
        taken(1, 0, A, 1),
        Unseen(3, TAKER, "q", ((0, 1),)),
        in_vain(3.5, 5),
        given(5.5, 0, A, 2, 1),
        given(6, 1, B, 2),
        done(7, 0, 2),
        done(7, 1, 2),
    ],
    "a message of another group waits": [
        *sent(X, A, B),
        given(1, 0, X),
        back(3, 0),
        in_vain(3.5, 7),
        given(8, 1, A),
        given(8, 2, B),
        done(8.5, 1),
        done(8.5, 2),
        given(9, 0, X, 1, 2, failures=1),
        done(9, 0),
    ],
}


@pytest.mark.parametrize("name", GOOD_DELAYS)
def test_nothing_is_found_where_a_request_gets_nothing_while_a_delay_lasts(name: str) -> None:
    assert kinds(GOOD_DELAYS[name], GROUPED) == []


@pytest.mark.parametrize("name", GOOD_RETRIES)
def test_nothing_is_found_where_a_request_gets_nothing_while_that_waits_to_be_tried_again(name: str) -> None:
    assert kinds(GOOD_RETRIES[name], RETRIED) == []


@pytest.mark.parametrize("name", BAD_RETRIES)
def test_a_request_that_gets_nothing_though_it_could_is_found(name: str) -> None:
    assert set(kinds(BAD_RETRIES[name], RETRIED)) == {STUCK}
