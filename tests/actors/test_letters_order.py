"""Dead letters are stored in the order in which they left their queue."""

from __future__ import annotations

from actors.batch import MessageBatch
from actors.queue.letters_order import placed
from actors.queue.vocabulary.replies import DeadLetter


def letter(start: int, stop: int) -> DeadLetter:
    return DeadLetter(None, MessageBatch.from_payloads([b"x"] * (stop - start)), ((start, stop),))


def ranges(letters: dict[int, DeadLetter]) -> list[tuple[int, int]]:
    assert list(letters) == [one.ranges[0][0] for one in letters.values()]
    return [one.ranges[0] for one in letters.values()]


def test_what_leaves_later_comes_behind_be_its_number_lower() -> None:
    first, again = placed([], [letter(7, 8), letter(3, 5)])
    assert not again
    assert ranges(first) == [(7, 8), (3, 5)]
    more, again = placed(first.values(), [letter(9, 10), letter(0, 1)])
    assert not again
    assert ranges(more) == [(7, 8), (3, 5), (9, 10), (0, 1)]


def test_what_comes_again_keeps_its_place() -> None:
    there = [letter(7, 8), letter(3, 5), letter(0, 1)]
    found, again = placed(there, [one := letter(3, 5), letter(9, 10)])
    assert again
    assert ranges(found) == [(7, 8), (3, 5), (0, 1), (9, 10)]
    assert found[3] is one, "the one that came last counts: it is of what the settings say now"


def test_what_comes_again_in_parts_or_with_others_is_where_the_first_of_it_was() -> None:
    there = [letter(20, 30), letter(0, 10), letter(12, 14)]
    in_parts, again = placed(there, [letter(26, 30), letter(22, 24)])
    assert again
    assert ranges(in_parts) == [(22, 24), (26, 30), (0, 10), (12, 14)]
    together, again = placed(there, [letter(8, 13)])
    assert again
    assert ranges(together) == [(20, 30), (8, 13)]
