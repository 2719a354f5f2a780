"""A short form of ``python -m tests.fault.exchange_limits``: a broker process is asked for bindings, and publishes to many queues."""

from __future__ import annotations

import pytest

from tests.fault import exchange_limits


def test_bindings_are_counted_as_they_were_answered_and_each_step_says_what_it_costs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange_limits, "MAX_EXCHANGE_BINDINGS", 100)
    assert exchange_limits.main(["bindings", "--count", "300"]) == 0
    told = capsys.readouterr().out
    assert "300 x done" in told
    assert "300 asked for: " in told
    assert "the longest turn" in told


def test_a_message_is_in_each_of_many_queues(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        exchange_limits.main(["fanout", "--queues", "40", "--messages", "100", "--singles", "50", "--in-memory"]) == 0
    )
    assert "50 in batches of 1: " in capsys.readouterr().out
