"""``penstock broker`` with the simple message queue's ports."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from actors import QueueSettings
from tests.transport.gateways.smq_client import Sink, Source
from tests.transport.programs import Program
from transport import BrokerConfig
from transport.cli.app import app
from transport.gateways import smq
from transport.wire.address import parse_address

FREE = "127.0.0.1:0"
BROKER = ("broker", "--memory", "--send-address", FREE, "--receive-address", FREE)


def test_the_broker_says_where_sources_and_sinks_connect_and_serves_them() -> None:
    with Program(*BROKER, "--smq-source", FREE, "--smq-sink", FREE, "--smq-queue", "orders") as broker:
        line = broker.line(broker.stderr).decode()
        found = re.search(r"receiving \S+, SMQ sources (\S+), SMQ sinks (\S+), in memory only$", line)
        assert found is not None, line

        async def exchange() -> bytes:
            source = await Source.connect(parse_address(found[1]))
            sink = await Sink.connect(parse_address(found[2]))
            await source.send(b"through a process")
            payload = (await sink.receive()).payload
            await source.close()
            await sink.close()
            return payload

        assert asyncio.run(exchange()) == b"through a process"
        broker.process.send_signal(signal.SIGTERM)
        assert broker.end() == 0


def test_the_gateway_is_three_hundred_lines_and_its_protocol_half_of_them() -> None:
    """If it needed more, the door would not be right."""
    folder = Path(smq.__file__).parent
    lines = {path.name: len(path.read_text("utf-8").splitlines()) for path in folder.glob("*.py")}
    assert sum(lines.values()) <= 300
    assert lines["protocol.py"] <= 150


def test_nothing_of_it_is_on_unless_it_is_asked_for() -> None:
    config = BrokerConfig()
    assert (config.smq_source, config.smq_sink, config.declared_queues()) == (None, None, {})


@pytest.mark.parametrize(
    ("options", "exclusive"),
    [
        ({}, None),
        ({"smq_source": FREE}, None),
        ({"smq_sink": FREE}, True),
        ({"smq_source": FREE, "smq_sink": FREE}, True),
    ],
)
def test_the_queue_is_declared_as_exclusive_where_sinks_connect(
    options: dict[str, str], exclusive: bool | None
) -> None:
    declared = BrokerConfig(**options, smq_queue="q").declared_queues()  # type: ignore[arg-type]  # addresses
    assert (declared["q"].exclusive if declared else None) is exclusive


def test_what_else_is_declared_of_the_queue_holds() -> None:
    queues = {"q": QueueSettings(max_messages=7), "other": QueueSettings()}
    declared = BrokerConfig(smq_sink=FREE, smq_queue="q", queues=queues).declared_queues()
    assert declared == {"q": QueueSettings(max_messages=7, exclusive=True), "other": QueueSettings()}
    dead = BrokerConfig(smq_sink=FREE, smq_queue="dead", dead_letter_queue="dead", max_receives=3).declared_queues()
    assert (dead["dead"].exclusive, dead["dead"].max_receives) == (True, None)


def test_what_is_in_force_shows_the_queue_of_sinks_as_exclusive() -> None:
    result = CliRunner().invoke(app, ["config", "show", "--smq-sink", FREE, "--queue", "smq max_messages=5"])
    assert result.exit_code == 0
    assert re.search(r"smq\.sink +127\.0\.0\.1:0 +--smq-sink", result.stdout)
    assert re.search(r"queues\.smq\.exclusive +true", result.stdout)
    assert re.search(r"queues\.smq\.max_messages +5 +--queue", result.stdout)
