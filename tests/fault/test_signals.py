"""A broker under load that is told to stop, or to read its settings again: a few times of what `make soak` does fifty times."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.fault.signals import reload_under_load, stop_under_load

STOPS = 2
RELOADS = 3
SEED = 13


def quiet(_text: str) -> None:
    """Takes lines of progress."""


def test_a_broker_that_is_stopped_under_load_ends_in_time_and_loses_nothing_that_it_confirmed(tmp_path: Path) -> None:
    outcome = asyncio.run(stop_under_load(STOPS, SEED, tmp_path / "data", quiet))
    assert outcome.verdict.clean, outcome.verdict.examples
    assert outcome.facts["stops"] == STOPS
    assert outcome.facts["confirmed"] == outcome.facts["messages sent"] > 0
    # Each end finds something delivered and not acknowledged.
    assert outcome.facts["of them possibly replayed"] > 0


def test_a_broker_that_reads_its_settings_again_under_load_ends_no_connection(tmp_path: Path) -> None:
    counts = asyncio.run(reload_under_load(RELOADS, SEED, tmp_path, quiet))
    assert counts["reloads"] == RELOADS
    assert counts["confirmed"] > 0
