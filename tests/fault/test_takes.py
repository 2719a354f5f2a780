"""Callers that wait for messages over HTTP: they cost nothing, each gets its own, and who vanishes costs no delivery."""

from __future__ import annotations

import asyncio

from tests.fault.takes import stopping, waiting


def test_of_callers_that_wait_those_who_are_there_get_a_message_each_and_the_others_an_answer_in_time() -> None:
    found = asyncio.run(waiting(100, 4.0, 0.5))
    assert found.violations == []


def test_who_waits_and_who_looks_on_is_told_when_the_broker_is_told_to_stop() -> None:
    found = asyncio.run(stopping(20))
    assert found.violations == []
