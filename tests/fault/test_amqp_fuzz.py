"""The short form of `tests.fault.amqp_fuzz`: the same sessions in every run. And what judges them is shown to find what is wrong."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from tests.fault.amqp_fuzz import MIB, MOST_GROWTH, Outcome
from tests.fault.amqp_fuzzers import Played, Told, judged, play_all
from tests.fault.amqp_sessions import KINDS, Session, session_of
from tests.fault.kill_process import Broker, ReservedPort
from tests.transport.gateways.amqp.async_amqp import AsyncClient
from tests.transport.gateways.amqp.raw_amqp import published
from transport import parse_address
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import entity_methods as entity

SEED, SESSIONS, AT_ONCE = 5672, 300, 40


def test_bad_sessions_are_ended_with_the_right_code_and_no_defect_and_others_go_on(tmp_path: Path) -> None:
    async def main() -> tuple[Played, list[str]]:
        played = Played()
        with closing(ReservedPort()) as port:
            host, number = parse_address(port.address)
            async with Broker(("--data", str(tmp_path / "data"), "--amqp", port.address)) as broker:
                await broker.start()
                honest = await AsyncClient.open(host, number)
                await honest.ask(entity.QueueDeclare(queue="honest"), entity.QueueDeclareOk)
                await honest.ask(basic.ConfirmSelect(), basic.ConfirmSelectOk)
                await honest.ask(basic.BasicConsume(queue="honest", no_ack=True), basic.BasicConsumeOk)
                playing = asyncio.create_task(play_all(host, number, SEED, AT_ONCE, played, SESSIONS))
                answered = 0
                while not playing.done():
                    honest.transport.write(published("honest"))
                    await honest.until(basic.BasicAck)
                    answered += 1
                await playing
                assert answered > 0
                honest.transport.abort()
                await broker.stop()
                return played, broker.defects

    played, defects = asyncio.run(main())
    assert (played.found, defects) == ([], [])
    assert played.sessions.total() == SESSIONS
    assert set(played.sessions) == set(KINDS)
    assert len(played.codes) > 10


def test_a_session_of_a_seed_is_the_same_each_time() -> None:
    assert [session_of(7, number) for number in range(50)] == [session_of(7, number) for number in range(50)]
    assert session_of(7, 1) != session_of(8, 1)


NO_QUEUE = Session("wrong", "no such queue", b"", 404, closes_connection=False)
NO_FRAME = Session("wrong", "no frame", b"", 501)
GOOD = Session("tables", "fine", b"", 0)
ANY = Session("bytes", "other", b"")


@pytest.mark.parametrize(
    ("session", "told"),
    [
        (NO_QUEUE, Told([404], None, agreed=True, ended=True)),
        (NO_FRAME, Told([], 501, ended=True)),
        (GOOD, Told(agreed=True, ended=True)),
        (ANY, Told([404, 406], 504, ended=True)),
        (ANY, Told(ended=True)),
        (NO_QUEUE, Told([], 320, ended=True, late=True)),
    ],
)
def test_what_is_right_is_no_finding(session: Session, told: Told) -> None:
    assert judged(session, told) is None


@pytest.mark.parametrize(
    ("session", "told"),
    [
        (NO_QUEUE, Told([404], None, agreed=True)),
        (NO_QUEUE, Told([406], None, agreed=True, ended=True)),
        (NO_QUEUE, Told([404, 404], None, agreed=True, ended=True)),
        (NO_QUEUE, Told([], 504, ended=True)),
        (NO_QUEUE, Told([404], None, ended=True)),
        (NO_FRAME, Told([], 502, ended=True)),
        (NO_FRAME, Told([], None, ended=True)),
        (GOOD, Told([406], None, agreed=True, ended=True)),
        (GOOD, Told(ended=True)),
        (ANY, Told([], 541, ended=True)),
        (ANY, Told([], 999, ended=True)),
        (ANY, Told([541], None, ended=True)),
    ],
)
def test_what_must_not_be_is_found(session: Session, told: Told) -> None:
    assert judged(session, told) is not None
    played = Played()
    played.add(3, session, told)
    assert len(played.found) == 1
    assert played.found[0].startswith("session 3 (")


def outcome(**other: object) -> Outcome:
    figures = {"messages": 10, "p99_ms": 5.0, "handshake_ms": 20.0}
    good = Outcome(MIB, 2 * MIB, MIB, figures, figures, {"found": []})
    for name, value in other.items():
        setattr(good, name, value)
    return good


@pytest.mark.parametrize(
    ("other", "failure"),
    [
        ({"peak": 2 * MIB + MOST_GROWTH}, "the broker took 65 MiB more, 64 are allowed"),
        ({"after": 30 * MIB}, "the broker keeps 29 MiB more, 24 are allowed"),
        ({"defects": ["a defect of ours"]}, "the broker's log tells of 1 defects: a defect of ours"),
        ({"played": {"found": ["session 1"]}}, "session 1"),
        ({"fuzzed": {"messages": 0, "p99_ms": 5.0, "handshake_ms": 1.0}}, "the one that behaves got nothing"),
        (
            {"fuzzed": {"messages": 9, "p99_ms": 10.5, "handshake_ms": 1.0}},
            "its p99 is 10.5 ms, 2 times 5.0 ms is allowed",
        ),
        ({"fuzzed": {"messages": 9, "p99_ms": 5.0, "handshake_ms": 1001.0}}, "a handshake took 1001.0 ms"),
    ],
)
def test_what_does_not_hold_of_a_run_is_said(other: dict[str, object], failure: str) -> None:
    assert outcome().failures() == []
    assert outcome(**other).failures() == [failure]
