"""What ``penstock bench`` refuses, how it counts, and how it draws."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from transport import Broker, BrokerConfig, Receiver
from transport.cli import _bench_run
from transport.cli._bench_report import BLOCKS, histogram, limit_of, report, sparkline
from transport.cli._bench_run import Bench, Latencies, Measured, Plan
from transport.cli.app import app
from transport.security.access import NOBODY


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--seconds", "0"], "--seconds: 0 is less than 500 ms"),
        (["--seconds", "2h"], "--seconds: 2h is more than 1 h"),
        (["--size", "7"], "--size: 7 is less than 8"),
        (["--senders", "0"], "--senders: 0 is less than 1"),
        (["--receivers", "65"], "--receivers: 65 is more than 64"),
        (["--size", "100000", "--batch", "1000"], "make batches of 100,000,000 bytes, 8,388,608 are the most"),
        (["--memory", "--data", "x"], "--memory and --data exclude one another"),
        (["--memory", "--address", "a:1"], "--address is for one that there is"),
        (["--data", "x", "--user", "ann"], "--user is for one that there is"),
        (["--memory", "--receive-address", "a:1"], "--receive-address is for one that there is"),
    ],
)
def test_what_cannot_be_measured_is_one_line(options: list[str], complaint: str) -> None:
    result = CliRunner().invoke(app, ["bench", *options], prog_name="penstock")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert complaint in line


def test_round_trips_are_bounded_and_evenly_chosen() -> None:
    latencies = Latencies(most=100)
    for number in range(10_000):
        latencies.add(number / 10_000)
    assert len(latencies.values) < 100
    assert latencies.quantile(0.5) == pytest.approx(0.5, abs=0.05)
    assert latencies.quantile(0.99) == pytest.approx(0.99, abs=0.05)
    assert Latencies().quantile(0.5) is None


def test_a_line_of_blocks_is_as_high_as_its_values() -> None:
    assert sparkline((0.0, 4.0, 8.0), BLOCKS) == " ▄█"
    assert len(sparkline(tuple(map(float, range(1, 1000))), BLOCKS)) <= 28
    assert sparkline((), BLOCKS) == sparkline((0.0, 0.0), BLOCKS) == ""


def test_a_histogram_counts_each_round_trip_once() -> None:
    latencies = Latencies()
    for value in (0.0001, 0.0002, 0.0002, 0.009):
        latencies.add(value)
    lines = histogram(latencies, "#")
    assert lines[0].split()[:4] == ["up", "to", "128", "us"]
    assert sum(int(line.split()[-1]) for line in lines) == 4
    assert histogram(Latencies(), "#") == []


@pytest.mark.parametrize(
    ("facts", "limit"),
    [
        ({"client_cpu": 0.97}, "this program, which used 97% of one processor"),
        ({"broker_cpu": 0.9}, "the broker, which used 90% of one processor"),
        ({"sync_share": 0.9}, "the broker's disk, which was synced for 90% of the time"),
        ({"client_cpu": 0.5}, "nothing that can be seen from here"),
        ({"client_cpu": 0.5, "broker_cpu": 0.4, "sync_share": 0.3}, "its disk was synced for 30% of the time"),
        ({"sent": 0}, "it was over before anything was measured under load"),
    ],
)
def test_what_limited_it_is_said_where_that_can_be_known(facts: dict[str, float], limit: str) -> None:
    measured = Measured("q", **{"sent": 1, **facts})  # type: ignore[arg-type] # counts are whole
    assert limit in limit_of(measured)


@pytest.mark.parametrize("received", [0, 7, 10, 12])
def test_a_report_fits_eighty_columns(received: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    plan = Plan("a:1", "a:2", 10.0, 1_000_000, 8, 64, 64, 1.0, NOBODY)
    measured = Measured("q", 10**9, 10**9 + received - 10, 10.0, 10.0, [(1e9, 1e9)] * 60)
    for number in range(100):
        measured.alone.add(2.0**-number)
    text = report(plan, measured)
    assert max(map(len, text.splitlines())) <= 80
    assert ("not received any more" in text) == (received < 10)


def plan_for(broker: Broker, seconds: float = 0.05) -> Plan:
    return Plan(str(broker.send_address), str(broker.receive_address), seconds, 100, 10, 2, 2, 0.1, NOBODY)


FREE = "127.0.0.1:0"


def test_messages_that_never_come_are_told_of_and_do_not_count(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(Bench):
        """Its receivers have another queue."""

        def _receiver(self) -> Receiver:
            return Receiver(self._plan.receive_address, queue="another")

    async def main() -> None:
        async with Broker(BrokerConfig(FREE, FREE)) as broker:
            measured = await Deaf(plan_for(broker)).run()
        assert measured.overdue == "one message at a time"
        assert measured.received == 0
        assert measured.alone.values == []

    monkeypatch.setattr(_bench_run, "DRAIN_SECONDS", 0.05)
    run(main)


def test_all_that_is_confirmed_when_the_time_is_over_is_waited_for(run: Any) -> None:
    class Told(Bench):
        """As if all that was confirmed at some time before the end had been received by then."""

        async def _drain(self, came: Any) -> None:
            came.set()
            await super()._drain(came)

    async def main() -> None:
        async with Broker(BrokerConfig(FREE, FREE)) as broker:
            for _ in range(5):
                measured = await Told(plan_for(broker)).run()
                assert measured.overdue is None
                assert measured.received == measured.sent > 0

    run(main)


def test_one_message_at_a_time_is_measured_from_when_the_first_has_come_back(run: Any) -> None:
    async def main() -> None:
        async with Broker(BrokerConfig(FREE, FREE)) as broker:
            # So short that the connections alone take longer.
            measured = await Bench(plan_for(broker, 0.001)).run()
        assert len(measured.alone.values) > 0

    run(main)
