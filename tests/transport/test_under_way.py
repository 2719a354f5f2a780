"""What one client has under way, counted by marks that come back."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from transport.broker.under_way import MARK_EVERY, MAX_UNDER_WAY, UnderWay


@given(st.lists(st.integers(1, 250) | st.just(0), max_size=400))
def test_what_is_counted_is_what_has_not_passed_the_queue_and_who_is_full_has_a_mark_on_its_way(
    steps: list[int],
) -> None:
    # 0: the queue handles everything up to the next mark.
    count, line = UnderWay(), deque[int | None]()
    truth = marks = 0
    for step in steps:
        if step and not count.full:
            line.append(step)
            truth += step
            if count.add(step) and count.mark():
                line.append(None)
                marks += 1
        while not step and line:
            units = line.popleft()
            if units is None:
                marks -= 1
                if count.handled():
                    line.append(None)
                    marks += 1
                break
            truth -= units
        assert marks <= 1, "one at a time"
        assert truth <= count.units < MAX_UNDER_WAY + 250
        assert marks or not count.full, "nobody waits for a mark that was not sent"


def test_a_steady_sender_never_has_to_wait_when_marks_come_back_in_time() -> None:
    count = UnderWay()
    assert not any(count.add(1) for _ in range(MARK_EVERY - 1))
    assert count.add(1)
    assert count.mark()
    for _ in range(MARK_EVERY - 1):
        assert not (count.add(1) and count.mark()), "one mark at a time"
        assert not count.full
    assert not count.handled(), "what came behind the mark is less than another"
    assert count.units == MARK_EVERY - 1
