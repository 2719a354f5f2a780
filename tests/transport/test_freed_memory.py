"""When freed memory is given back, decided from figures alone."""

from __future__ import annotations

from transport.broker.freed_memory import LOOKS_BETWEEN, WORTH_BYTES, WORTH_SHARE, FreedMemory

MIB = 2**20
WORTH = WORTH_BYTES // MIB


def looks(freed: FreedMemory, *figures: tuple[int, int | None]) -> list[bool]:
    """What each look says, of resident and kept MiB."""
    return [freed.due(used * MIB, None if kept is None else kept * MIB) for used, kept in figures]


def quiet(freed: FreedMemory, used: int, kept: int | None) -> FreedMemory:
    """As many looks without a change as must be between two times."""
    assert not any(looks(freed, *[(used, kept)] * LOOKS_BETWEEN))
    return freed


def test_what_was_freed_is_given_back_once_no_more_comes() -> None:
    freed = quiet(FreedMemory(90 * MIB, 0), 90, 0)
    assert looks(freed, (150, 0), (150, 20), (150, 40), (150, 60)) == [False] * 4, "in use, or more is on its way"
    assert looks(freed, (150, 60)) == [True]
    freed.given_back(90 * MIB, 60 * MIB)
    assert not any(looks(quiet(freed, 90, 60), (90, 60), (90, 60))), "what is kept takes no memory any more"


def test_what_comes_and_is_in_use_is_not_tried() -> None:
    freed = quiet(FreedMemory(90 * MIB, 1 * MIB), 90, 1)
    assert not any(looks(freed, *[(used, 1) for used in range(90, 900, 10)], *[(900, 1)] * 10))


def test_what_was_given_back_and_used_and_freed_again_is_seen_in_what_is_resident() -> None:
    freed = FreedMemory(90 * MIB, 0)
    freed.given_back(90 * MIB, 60 * MIB)
    # Between two looks all of it was taken and freed.
    assert looks(quiet(freed, 90, 60), (140, 60), (140, 60)) == [False, True]


def test_what_was_in_use_at_the_last_time_and_is_free_now_is_seen_in_what_is_kept() -> None:
    freed = FreedMemory(90 * MIB, 0)
    freed.given_back(500 * MIB, 2 * MIB)
    assert looks(quiet(freed, 500, 2), (500, 400), (500, 400)) == [False, True]


def test_what_python_divides_by_itself_is_seen_in_what_is_in_use_of_it() -> None:
    freed = FreedMemory(90 * MIB, 0, 20 * MIB)
    most = 20 + 10 * WORTH
    for small in (*range(20, most, WORTH), most):
        assert not freed.due((70 + small) * MIB, 0, small * MIB)
    assert not freed.due((70 + most) * MIB, 0, 30 * MIB), "it may go on"
    assert freed.due((70 + most) * MIB, 0, 30 * MIB)
    freed.given_back(140 * MIB, 0, 30 * MIB)
    assert not any(freed.due(140 * MIB, 0, 30 * MIB) for _ in range(2 * LOOKS_BETWEEN))


def test_little_is_left_and_a_large_process_leaves_more() -> None:
    assert not any(looks(quiet(FreedMemory(90 * MIB, 0), 90, 0), *[(90 + WORTH - 1, WORTH - 1)] * 10))
    large = 400 * WORTH
    assert not any(looks(quiet(FreedMemory(large * MIB, 0), large, 0), *[(large, large // WORTH_SHARE - 1)] * 10))
    assert looks(quiet(FreedMemory(large * MIB, 0), large, 0), *[(large, large // WORTH_SHARE)] * 2) == [False, True]


def test_there_is_time_between_two_times_but_for_a_process_that_has_too_much() -> None:
    freed = FreedMemory(90 * MIB, 0)
    given = 0
    for _ in range(10 * LOOKS_BETWEEN):
        if freed.due(140 * MIB, 50 * MIB):
            freed.given_back(90 * MIB, 0)
            given += 1
    assert given == 10
    assert freed.due(140 * MIB, 50 * MIB, pressed=True)
    freed.given_back(90 * MIB, 0)
    assert freed.due(140 * MIB, 50 * MIB, pressed=True)


def test_where_nobody_tells_what_is_kept_it_is_tried_when_much_has_come_or_gone() -> None:
    freed = FreedMemory(100 * MIB, None)
    assert looks(quiet(freed, 100, None), (101, None), (120, None), (120, None)) == [False, False, True]
    freed.given_back(110 * MIB, None)
    assert looks(quiet(freed, 110, None), (100, None), (100, None)) == [False, True]
