"""What may be handled of a group of which a message has failed: numbers that come, in all the orders that a broker may bring them in."""

from __future__ import annotations

import random

from transport.clients.behind import Behind

GROUP = "a"


def coming(behind: Behind, *numbers: int) -> list[int]:
    """Those that may be handled; the others are given back."""
    passed = []
    for number in numbers:
        if behind.passes(GROUP, number):
            passed.append(number)
        else:
            behind.given_back(GROUP, number)
        behind.come(1)
    return passed


def test_what_was_on_its_way_goes_back_and_all_that_comes_when_the_failed_one_has_come_again_is_handled() -> None:
    behind = Behind()
    behind.failed(GROUP, 1, 100)
    behind.given_back(GROUP, 2)
    assert coming(behind, 3, 4) == []
    assert coming(behind, 1, 2, 3, 4, 5) == [1, 2, 3, 4, 5]
    assert not behind, "and then the group is forgotten"


def test_what_overtakes_others_that_go_back_goes_back_behind_them() -> None:
    behind = Behind()
    behind.failed(GROUP, 1, 100)
    behind.given_back(GROUP, 2)
    behind.given_back(GROUP, 3)
    assert coming(behind, 1, 6, 2, 7, 3, 6, 7) == [1, 2, 3, 6, 7]
    assert not behind


def test_where_the_failed_one_does_not_come_again_what_was_given_back_is_handled_all_the_same() -> None:
    behind = Behind()
    behind.failed(GROUP, 1, 100)
    assert coming(behind, 2, 3) == []
    assert coming(behind, 3, 4) == [3, 4]
    assert not behind


def test_one_that_fails_again_holds_back_what_had_come_again_behind_it() -> None:
    behind = Behind()
    behind.failed(GROUP, 1, 100)
    behind.given_back(GROUP, 2)
    behind.given_back(GROUP, 3)
    assert coming(behind, 1, 2) == [1, 2]
    behind.failed(GROUP, 1, 100)
    behind.given_back(GROUP, 2)
    assert coming(behind, 3) == []
    assert coming(behind, 1, 2, 3) == [1, 2, 3]


def test_of_two_that_fail_together_the_first_comes_first() -> None:
    behind = Behind()
    behind.failed(GROUP, 1, 100)
    behind.failed(GROUP, 3, 100)
    assert coming(behind, 4) == []
    assert coming(behind, 1, 3, 4) == [1, 3, 4]
    assert not behind


def test_a_group_is_forgotten_when_nothing_can_be_on_its_way_any_more() -> None:
    behind = Behind()
    behind.failed(GROUP, 1, 3)
    behind.come(2)
    assert behind
    assert not behind.passes(GROUP, 2)
    behind.come(1)
    assert not behind
    assert behind.passes(GROUP, 3)


def test_there_are_no_more_groups_than_twice_what_may_be_in_flight() -> None:
    behind, chance = Behind(), random.Random(1)
    for number in range(2_000):
        behind.come(1)
        behind.failed(f"group {number}", number, chance.randint(0, 10))
        assert len(behind._groups) <= 20
