"""Processes of `cluster status` whose node leads no more while it is asked: it is asked again, within the time to connect."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.transport.programs import Program
from tests.transport.scripted_admin import Answer, ScriptedBroker, listening, with_json
from transport.wire.messages import Command, Error, Frame

STANDS: dict[str, Any] = {
    "node": "c",
    "role": "follower",
    "cluster": "9f1c",
    "epoch": 3,
    "mode": "majority",
    "leader": None,
    "register": "is away",
    "members": [{"name": "c", "role": "follower", "counts": True}],
}
LEADS_NO_MORE = Error(
    "not-leader", "this broker does not lead its cluster; its leader is not known yet: try again soon", True
)

STOPS = Error("shutting-down", "the broker is stopping; connect again later", True)


class Closing(ScriptedBroker):
    """Ends the connection without a word where the answer is none."""

    async def hear(self, frame: Frame, writer: asyncio.StreamWriter) -> None:
        await super().hear(frame, writer)
        if isinstance(frame, Command) and len(self.commands) == 1:
            writer.close()


def status_of(broker: ScriptedBroker, *options: str) -> tuple[int, bytes, str]:
    """Exit code, standard output and standard error of `cluster status`, asked of it."""

    async def look() -> tuple[int, bytes, str]:
        async with listening(broker):
            with Program("cluster", "status", "--address", broker.address, *options) as looking:
                return await asyncio.to_thread(looking.finish)

    return asyncio.run(look())


def first(reply: list[Frame], then: Answer) -> Answer:
    """The first command is answered so, and others otherwise."""
    asked = 0

    def answer(command: Command) -> list[Frame]:
        nonlocal asked
        asked += 1
        return reply if asked == 1 else then(command)

    return answer


@pytest.mark.parametrize(
    "broker",
    [
        pytest.param(ScriptedBroker(first([LEADS_NO_MORE], with_json(STANDS))), id="says that it leads no more"),
        pytest.param(ScriptedBroker(first([STOPS], with_json(STANDS))), id="says that it stops"),
        pytest.param(Closing(first([], with_json(STANDS))), id="says nothing"),
    ],
)
def test_how_a_cluster_stands_is_asked_again_where_the_node_ends_the_connection(broker: ScriptedBroker) -> None:
    code, shown, told = status_of(broker, "--json")
    assert (code, told) == (0, "")
    assert json.loads(shown) == STANDS
    assert [name for name, _ in broker.commands] == ["cluster.status"] * 2


def test_a_node_that_ends_every_connection_is_told_of_in_the_end_without_the_advice_to_ask_as_it_was_asked() -> None:
    text = (
        "penstock cluster status: the broker answered not-leader: this broker does not lead its cluster; "
        "its leader is not known yet: try again soon\n"
    )
    for seconds in (1, 4, 16):  # a machine that stands still may end the time under an attempt to connect
        broker = ScriptedBroker(lambda _: [LEADS_NO_MORE])
        code, shown, told = status_of(broker, "--connect-timeout", f"{seconds}s")
        assert (code, shown) == (1, b"")
        if told == text and len(broker.commands) > 1:
            break
    assert told == text
    assert len(broker.commands) > 1


def test_a_refusal_of_another_kind_is_told_at_once() -> None:
    broker = ScriptedBroker(lambda _: [Error("no-cluster", "this broker is alone", close=False)])
    code, _, told = status_of(broker)
    assert (code, told) == (1, "penstock cluster status: the broker answered no-cluster: this broker is alone\n")
    assert len(broker.commands) == 1
