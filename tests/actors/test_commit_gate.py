"""What waits for the journal, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.queue.queue_output import CommitGate
from actors.runtime.loop_future import LaterReply, LoopFuture
from actors.storage import Storage


class Durability:
    """The part of a storage that a gate looks at, moved by the test."""

    def __init__(self) -> None:
        self.durable = 0
        self.waiters: list[Callable[[], None]] = []

    def when_durable(self, waiter: Callable[[], None]) -> None:
        self.waiters.append(waiter)


class Gate(CommitGate):
    """A gate that keeps what it lets out, which a queue would tell."""

    def __init__(self, storage: Durability | None) -> None:
        self.told: list[tuple[int, Any, Any]] = []
        self._numbers: dict[Any, int] = {}
        super().__init__(cast("Storage", storage), lambda: None, self._let_out)

    def ask(self, after: int, target: Any, message: Any) -> None:
        """As a queue does: tell it now if it passes, else have it held."""
        self._numbers[message] = after
        if self.passes(after):
            self._let_out(target, message)
        else:
            self.hold(after, target, message)

    def _let_out(self, target: Any, message: Any) -> None:
        self.told.append((self._numbers[message], target, message))


def test_without_a_journal_everything_passes() -> None:
    gate = Gate(None)
    assert gate.passes(0)
    assert gate.passes(7)
    gate.release()
    assert gate.told == []


def test_what_depends_on_nothing_or_on_what_is_durable_passes() -> None:
    durability = Durability()
    gate = Gate(durability)
    durability.durable = 5
    assert [gate.passes(number) for number in (0, 4, 5, 6)] == [True, True, True, False]


TELL = st.tuples(st.integers(0, 30), st.sampled_from("abc"))
ADVANCE = st.integers(0, 6)
WAKE = st.none()


@given(st.lists(st.one_of(TELL, ADVANCE, WAKE), max_size=60))
def test_nothing_goes_out_too_early_nor_later_than_it_may_nor_past_what_is_held_and_may_go(steps: list[Any]) -> None:
    """Wake-ups come whenever they like: the disk is mostly further than the queue has heard."""
    durability = Durability()
    gate = Gate(durability)
    asked: list[tuple[int, str, int]] = []
    for place, step in enumerate(steps):
        if step is None:
            gate.release()
        elif isinstance(step, int):
            durability.durable += step
            continue
        else:
            asked.append((*step, place))
            gate.ask(*step, place)
        due = [message for message in asked if message[0] <= durability.durable]
        assert sorted(gate.told, key=lambda message: message[2]) == due, "all that may go, and nothing else"
        assert len(gate) == len(asked) - len(due)
        assert durability.waiters or not len(gate), "whoever holds something is woken"
    for number, (after, target, place) in enumerate(gate.told):
        for later_after, later_target, later_place in gate.told[number + 1 :]:
            if target == later_target and later_place < place:
                assert after < later_after, "only one that waits for less goes before one that came first"


def test_what_is_held_goes_out_before_what_passes_though_the_queue_was_not_woken() -> None:
    durability = Durability()
    gate = Gate(durability)
    gate.ask(3, "receiver", "first")
    gate.ask(4, "receiver", "second")
    durability.durable = 5
    gate.ask(5, "receiver", "third")
    assert [message for _, _, message in gate.told] == ["first", "second", "third"]


def test_what_is_told_by_letting_something_out_may_be_held_and_is_not_told_twice() -> None:
    """A reply may have whoever gets it ask for more at once."""
    durability = Durability()
    told: list[str] = []

    def tell(_target: Any, message: str) -> None:
        told.append(message)
        if message == "first":
            assert not gate.passes(9)
            gate.hold(9, "receiver", "third")
            assert gate.passes(1)

    gate = CommitGate(cast("Storage", durability), lambda: None, tell)
    for after, message in ((1, "first"), (2, "second")):
        gate.hold(after, "receiver", message)
    durability.durable = 2
    gate.release()
    assert told == ["first", "second"]
    durability.durable = 9
    gate.release()
    assert told == ["first", "second", "third"]


def test_it_asks_to_be_woken_once_for_all_that_it_holds() -> None:
    durability = Durability()
    gate = Gate(durability)
    gate.ask(1, "a", 1)
    gate.ask(2, "a", 2)
    assert len(durability.waiters) == 1
    durability.durable = 1
    gate.release()
    assert [message for _, _, message in gate.told] == [1]
    assert len(durability.waiters) == 2, "and again while something is left"


def test_clearing_tells_whoever_asked_why_and_drops_the_rest() -> None:
    durability = Durability()
    gate = Gate(durability)
    reply: LaterReply = LaterReply()
    future: LoopFuture[Any] = LoopFuture()
    reply.answer_to(future)
    gate.hold(1, reply, "value")
    gate.hold(1, "connection", "message")
    gate.clear(RuntimeError("the queue stopped"))
    with pytest.raises(RuntimeError, match="the queue stopped"):
        future.get()
    durability.durable = 1
    gate.release()
    assert gate.told == []
