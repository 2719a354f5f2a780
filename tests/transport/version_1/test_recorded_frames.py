"""What clients of version 1 have said, byte by byte, is answered by this broker as it was by the one that it was recorded from.

A line of ``frames.txt`` is one step: ``open NAME send|receive`` connects, ``say`` writes the bytes, ``hear`` takes one frame, ``end``
waits for the broker to close, ``close`` closes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.transport.independent.conftest import BrokerThread
from tests.transport.version_1.wire import DEMAND, Connection, Frame, broken_promise, frame

RECORDED = Path(__file__).with_name("frames.txt").read_text().splitlines()
STEPS = [(number, line.split()) for number, line in enumerate(RECORDED, 1) if line and not line.startswith("#")]
FRAMES_OF_ROLES = {
    "sender": {17},
    "receiver": {32, 34, 35, 36, 37},
    "subscription": {48, 50, 52, 32},
    "admin": {64},
    "transaction": {80, 81, 82},
}


class Replay:
    """Takes the steps, one after another."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self._addresses = addresses
        self._open: dict[str, Connection] = {}

    def take(self, step: str, name: str, what: str = "") -> str | None:
        """What is wrong with the answer, if anything is."""
        if step == "open":
            self._open[name] = Connection(self._addresses[what])
        elif step == "say":
            self._open[name].say(bytes.fromhex(what))
        elif step == "hear":
            recorded = Frame(bytes.fromhex(what))
            heard = self._hear(name, demand_too=recorded.header[0] == DEMAND)
            return "the broker closed" if heard is None else broken_promise(recorded, heard)
        elif step == "end":
            heard = self._hear(name, demand_too=False)
            self._open.pop(name).close()
            return None if heard is None else f"{heard.header} came where the broker was to close"
        else:
            assert step == "close"
            self._open.pop(name).close()
        return None

    def close(self) -> None:
        """End what is still open."""
        for connection in self._open.values():
            connection.close()

    def _hear(self, name: str, *, demand_too: bool) -> Frame | None:
        while (heard := self._open[name].hear()) is not None and heard.header[0] == DEMAND and not demand_too:
            pass
        return heard


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "journal"])
def test_a_broker_answers_the_recorded_clients_of_version_1(
    serve: Callable[..., Any], tmp_path: Path, durable: bool
) -> None:
    broker = BrokerThread(serve(directory=str(tmp_path)) if durable else serve())
    replay = Replay({"send": broker.send_address, "receive": broker.receive_address})
    try:
        for number, (step, *rest) in STEPS:
            wrong = replay.take(step, *rest)
            assert wrong is None, f"line {number}: {wrong}"
    finally:
        replay.close()
        broker.stop()


def test_every_role_and_each_of_its_frames_is_among_the_recorded() -> None:
    # The connection x7 says what is no frame.
    said = [Frame(bytes.fromhex(rest[0])).header for _, (step, name, *rest) in STEPS if step == "say" and name != "x7"]
    roles = {header[2] for header in said if header[0] == 1}
    assert set(FRAMES_OF_ROLES) <= roles
    assert set.union(*FRAMES_OF_ROLES.values()) <= {header[0] for header in said}


@pytest.mark.parametrize(
    ("now", "why"),
    [
        ([18, 5, None], "fewer fields"),
        ([18, 5, 3, None], "None"),
        ([18, 6, None, None], "6 in place of 5"),
        ([16, 5, 3], "in place of"),
    ],
)
def test_an_answer_that_breaks_the_promise_is_found(now: list[Any], why: str) -> None:
    assert why in str(broken_promise(frame([18, 5, None, None]), frame(now)))


def test_what_a_later_version_adds_breaks_nothing() -> None:
    assert broken_promise(frame([18, 5, None, None]), frame([18, 5, None, None, "more"])) is None
    welcome = frame([2, 1, 77, {"heartbeat_ms": 5000, "last_sequence": None}])
    assert broken_promise(welcome, frame([2, 1, 99, {"heartbeat_ms": 1, "last_sequence": None, "new": 1}])) is None
    assert "last_sequence is missing" in str(broken_promise(welcome, frame([2, 1, 77, {"heartbeat_ms": 5000}])))
    assert "heartbeat_ms is 'x'" in str(
        broken_promise(welcome, frame([2, 1, 77, {"heartbeat_ms": "x", "last_sequence": None}]))
    )


def test_an_answer_to_a_command_keeps_its_keys_and_their_kinds() -> None:
    was = frame([65, 1], b'{"rows": [{"name": "a", "ready": 3}], "next": null}')
    assert broken_promise(was, frame([65, 1], b'{"rows": [{"name": "b", "ready": 9, "age": 1}], "next": "b"}')) is None
    assert "has no ready" in str(broken_promise(was, frame([65, 1], b'{"rows": [{"name": "a"}], "next": null}')))
    assert "not rows" in str(broken_promise(was, frame([65, 1], b'{"rows": [], "next": null}')))
    assert "'3'" in str(broken_promise(was, frame([65, 1], b'{"rows": [{"name": "a", "ready": "3"}], "next": null}')))
