"""A program of rounds that is told to end ends behind a round, and one that is told twice ends at once."""

from __future__ import annotations

import os
import signal

import pytest

from tests.fault.machines.told_to_end import SIGNALS, told_to_end


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_the_first_signal_is_noted_and_the_second_does_what_it_did_before(number: signal.Signals) -> None:
    came: list[int] = []
    former = signal.signal(number, lambda number, _: came.append(number))
    try:
        with told_to_end() as told:
            assert not told()
            os.kill(os.getpid(), number)
            assert told()
            assert came == []
            os.kill(os.getpid(), number)
            assert came == [number]
        os.kill(os.getpid(), number)
        assert came == [number, number]
    finally:
        signal.signal(number, former)
