"""A line in which those who bring much take turns with those who bring little."""

from __future__ import annotations

from transport.broker.shared_line import SharedLine


def taken(line: SharedLine[str]) -> list[str]:
    return [item for item in iter(line.take, None) if item is not None]


def test_whoever_has_something_there_has_every_turn_in_turn() -> None:
    line: SharedLine[str] = SharedLine(9)
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        assert line.join(item[0], item) is None
    assert len(line) == 6
    assert taken(line) == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert len(line) == 0


def test_in_a_full_line_the_last_of_who_has_most_makes_room_for_who_has_less_and_one_who_has_as_much_finds_none() -> (
    None
):
    line: SharedLine[str] = SharedLine(4)
    for item in ("a1", "a2", "a3", "a4"):
        assert line.join("a", item) is None
    assert line.join("a", "a5") == "a5"
    assert line.join("b", "b1") == "a4"
    assert line.join("b", "b2") == "a3"
    assert line.join("b", "b3") == "b3"
    assert line.join("c", "c1") in ("a2", "b2")
    assert len(line) == 4


def test_what_goes_first_has_no_place_of_others_and_passes_them() -> None:
    line: SharedLine[str] = SharedLine(1)
    line.join("a", "a1")
    line.go_first("x")
    line.go_first("y")
    assert line.join("a", "a2") == "a2"
    assert len(line) == 3
    assert taken(line) == ["x", "y", "a1"]


def test_a_line_without_places_takes_nothing() -> None:
    assert SharedLine[str](0).join("a", "a1") == "a1"
