"""Streams over the network that are cancelled at random moments leave nothing behind. The long form is leaks.py."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from streams import Source
from tests.transport import leaks
from tests.transport.programs import BrokerProcess
from transport import Sender
from transport.tcp import flow as tcp_flow

STREAMS = 300


def test_streams_over_the_network_that_are_cancelled_leave_nothing_behind() -> None:
    with BrokerProcess() as other:
        assert leaks.leaks(STREAMS, 1, other) == []


def forgetful(_flow: tcp_flow.TcpFlow) -> None:
    """As if nobody closed a connection."""


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_what_is_left_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []

    def some(network: leaks.Network) -> Any:
        return [("kept", lambda: keep(Source.single(b"x").to(Sender(network.brokers[0][0], queue="q"))))]

    def keep(graph: Any) -> Any:
        kept.append(graph)
        return graph

    with BrokerProcess() as other:
        connections = leaks.graphs
        monkeypatch.setattr(leaks, "graphs", some)
        monkeypatch.setattr(leaks, "MOST_ROUNDS", 1)
        found = leaks.leaks(3, 1, other)
        assert "3 x transport.clients.sender.Sender" in found
        monkeypatch.setattr(leaks, "graphs", lambda network: connections(network)[1:2])
        monkeypatch.setattr(leaks, "DEADLINE", 0.1)
        monkeypatch.setattr(tcp_flow.TcpFlow, "_finish", forgetful)
        monkeypatch.setattr(tcp_flow.TcpFlow, "close", forgetful)
        found = asyncio.run(leaks.start_and_cancel_over_the_network(20, 1, other))
        gc.collect()  # what was left on purpose is not to warn in another test
    assert "open file" in found
    assert "echoing connection" in found
