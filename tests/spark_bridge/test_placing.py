"""Loopback addresses in tasks that run elsewhere."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from spark_bridge import OptionError, PenstockDataSource
from spark_bridge.placing import check_not_elsewhere, is_loopback, planned_on
from spark_bridge.schema import source_schema


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which nobody answers, and nobody else begins to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("127.0.0.1:9183", True),
        ("127.1.2.3:9183", True),
        ("[::1]:9183", True),
        ("localhost:9183", True),
        ("LOCALHOST:9183", True),
        ("10.0.0.1:9183", False),
        ("broker.example.org:9183", False),
        ("localhost.example.org:9183", False),
    ],
)
def test_a_loopback_address_is_known(address: str, loopback: bool) -> None:
    assert is_loopback(address) is loopback
    assert planned_on((address,)) == (socket.gethostname() if loopback else "")


def test_a_loopback_address_on_another_host_is_refused_and_the_hosts_are_named(nobody: str) -> None:
    here = socket.gethostname()
    told = (
        rf"option brokers names {nobody}, .* this task runs on {here}, .* planned on driver-7\. Have the broker listen"
    )
    with pytest.raises(OptionError, match=told):
        check_not_elsewhere("brokers", (nobody,), "driver-7")


def test_a_loopback_address_at_which_somebody_answers_there_is_used(broker: Any, nobody: str) -> None:
    """A tunnel, or a broker on every node, which is another story."""
    check_not_elsewhere("brokers", (nobody, broker.receiving), "driver-7")


def test_where_the_query_was_planned_and_for_other_addresses_nothing_is_tried(nobody: str) -> None:
    check_not_elsewhere("brokers", (nobody,), socket.gethostname())
    check_not_elsewhere("brokers", (nobody,), "")
    check_not_elsewhere("brokers", ("10.255.255.1:1", nobody), "driver-7")


def test_a_task_of_a_query_on_another_host_fails_at_once(make_broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It used to seek the broker for a minute, in each attempt."""
    broker = make_broker()
    broker.send("q", [b"1"])
    options = {"queue": "q", "brokers": broker.receiving}
    stream = PenstockDataSource(options | {"subscription": "s"}).streamReader(source_schema(include_headers=False))
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadMaxRows(1))
    [task] = stream.partitions(start, end)
    batch = PenstockDataSource(options).reader(source_schema(include_headers=False))
    [stored] = batch.partitions()
    stream.stop()
    broker.stop()
    for reader, part in ((stream, task), (batch, stored)):
        with pytest.raises(OptionError, match="planned on driver-7"):
            list(reader.read(replace(part, planned_on="driver-7")))
