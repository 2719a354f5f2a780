"""What was published and acknowledged over HTTP survives kills of the broker; and what finds losses is shown to find them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.fault.kill_http import Seen, kill_http


def test_a_broker_that_is_killed_loses_nothing_that_was_published_and_brings_back_nothing_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    seen, violations = asyncio.run(kill_http(3, 6211, tmp_path / "data", 200))
    assert violations == []
    assert len(seen.published) == 600
    assert seen.settled


def message(payload: str, number: int, replayed: bool = False) -> dict[str, Any]:
    return {"payload": payload, "number": number, "possibly_replayed": replayed}


def test_what_is_delivered_again_before_it_is_acknowledged_is_no_violation() -> None:
    seen = Seen(published={"p0/0"})
    seen.got(message("p0/0", 0), 1)
    seen.got(message("p0/0", 0, True), 2)
    seen.settled.add(0)
    seen.got(message("p0/0", 1), 2)  # it was published twice, for the first time was not answered
    assert seen.judged() == []


@pytest.mark.parametrize(
    ("settled", "again", "what"),
    [
        (set(), [], "1 messages are lost, one of them p0/1"),
        ({0}, [message("p0/0", 0, True)], "behind the answer to its acknowledgement"),
        (set(), [message("p0/0", 0)], "not said to be possibly replayed"),
        (set(), [message("x", 7)], "nobody has sent 'x'"),
    ],
)
def test_what_must_not_be_is_found(settled: set[int], again: list[dict[str, Any]], what: str) -> None:
    seen = Seen(published={"p0/0", "p0/1"}, settled=settled)
    for each in [message("p0/0", 9), *again] if 0 in settled else [message("p0/0", 0), *again]:
        seen.got(each, 1)
    assert any(what in violation for violation in seen.judged())
