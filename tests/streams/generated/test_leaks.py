"""Streams that are started and cancelled at random moments leave nothing behind. The long form is leaks.py."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from streams import Materialization, Publisher, Sink, Source
from streams.testkit import run_in_virtual_time
from tests.streams.generated.leaks import Remains, leaks, start_and_cancel


@pytest.mark.parametrize("virtual_time", [True, False], ids=["virtual time", "threads and files"])
def test_streams_that_are_cancelled_leave_nothing_behind(virtual_time: bool) -> None:
    assert leaks(600 if virtual_time else 150, seed=1, virtual_time=virtual_time) == []


def test_a_source_that_keeps_its_timer_is_caught() -> None:
    def create(m: Materialization) -> tuple[Publisher[int], Any]:
        asyncio.get_running_loop().call_later(1e6, list)
        return Source.never().create(m)

    kept: list[Any] = []

    def hold(m: Materialization) -> tuple[Publisher[int], Any]:
        kept.append(m)
        return Source.never().create(m)

    left = run_in_virtual_time(start_and_cancel([("timer", lambda: Source(create).to(Sink.ignore()))], 1, seed=1))
    assert [text.split()[0] for text in left] == ["timer"]
    before = Remains()
    assert run_in_virtual_time(start_and_cancel([("run", lambda: Source(hold).to(Sink.ignore()))], 3, seed=1)) == []
    assert "3 x streams.materialize.Materialization" in Remains().since(before)
    kept.clear()
    assert Remains().since(before) == []
