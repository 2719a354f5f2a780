"""The dashboard, and the alerts of docs/metrics.md: every expression comes to something, on what a broker that was used really says."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from streams import Sink, Source
from tests.promql import Evaluator, PromQlError, Scrape
from transport import Broker, BrokerConfig, Receiver, Sender
from transport.gateways.listeners import configured_listeners
from transport.picture import families

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = ROOT / "packaging" / "grafana" / "penstock.json"
PAGE = (ROOT / "docs" / "metrics.md").read_text("utf-8")
FREE = "127.0.0.1:0"
ADDED = (("instance", "broker:9180"), ("job", "penstock"))
"""What Prometheus adds to each sample."""


def scrape_of(*texts: str) -> Scrape:
    found: Scrape = defaultdict(dict)
    found["up"] = {frozenset(ADDED): 1.0}
    for text in texts:
        for family in text_string_to_metric_families(text):
            # A family that has no sample now is there all the same.
            found.setdefault(family.name + ("_total" if family.type == "counter" else ""), {})
            for sample in family.samples:
                found[sample.name][frozenset((*sample.labels.items(), *ADDED))] = sample.value
    return dict(found)


async def scraped(address: str) -> tuple[str, ...]:
    async with aiohttp.ClientSession(f"http://{address}") as session:
        texts = []
        for path in ("/metrics", "/metrics/queues", "/metrics/exchanges"):
            async with session.get(path) as answer:
                texts.append(await answer.text())
        return tuple(texts)


async def used(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a broker says before and after messages were sent, received and left there."""
    config = BrokerConfig(FREE, FREE, http=FREE, directory=str(folder))
    listeners = configured_listeners(config)
    async with asyncio.timeout(60), Broker(config, listeners=listeners) as broker:
        address = str(broker.addresses("http")[0])
        await Source.range(0, 10).map(lambda n: b"%d" % n).to(Sender(broker.send_address, queue="orders")).run()
        before = await scraped(address)
        await Source.range(0, 500).map(lambda n: b"%d" % n).to(Sender(broker.send_address, queue="orders")).run()
        await Receiver(broker.receive_address, queue="orders", limit=300).to(Sink.acknowledge()).run()
        return before, await scraped(address)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return asyncio.run(used(tmp_path_factory.mktemp("dashboard") / "data"))


@pytest.fixture
def evaluator(texts: tuple[tuple[str, ...], tuple[str, ...]]) -> Evaluator:
    return Evaluator(scrape_of(*texts[0]), scrape_of(*texts[1]))


def expressions(found: Any) -> list[str]:
    """Every expression anywhere in the dashboard."""
    if isinstance(found, dict):
        own = [found["expr"]] if isinstance(found.get("expr"), str) else []
        return own + [each for value in found.values() for each in expressions(value)]
    return [each for value in found for each in expressions(value)] if isinstance(found, list) else []


def filled(expression: str) -> str:
    return expression.replace("$instance", ".+").replace("$__rate_interval", "1m")


def alerts() -> list[str]:
    """The expressions of the rules on the page."""
    return [each.strip() for each in re.findall(r"^ +expr: (.*)$", PAGE, re.MULTILINE)]


def test_every_expression_of_the_dashboard_comes_to_something(evaluator: Evaluator) -> None:
    there = expressions(json.loads(DASHBOARD.read_text("utf-8")))
    assert len(there) > 50
    for expression in there:
        found = evaluator.value(filled(expression))
        # One that asks for what is not so now has nothing.
        assert found or " > 0" in expression, expression


def test_every_alert_of_the_page_can_be_evaluated_and_none_is_raised_by_a_broker_that_is_well(
    evaluator: Evaluator,
) -> None:
    assert len(alerts()) > 5
    for expression in alerts():
        assert evaluator.value(expression) == {}, expression


def test_the_dashboard_says_what_the_broker_did(evaluator: Evaluator) -> None:
    def of(expression: str) -> float:
        found = evaluator.value(filled(expression))
        assert isinstance(found, dict)
        (value,) = found.values()
        return value

    assert of("sum(rate(penstock_messages_received_total[$__rate_interval]))") == pytest.approx(500 / evaluator.seconds)
    assert of('sum(penstock_messages_ready{instance=~"$instance"})') == 210
    assert 0 < of("histogram_quantile(0.99, sum by (le) (rate(penstock_confirmation_seconds_bucket[1m])))") <= 10


def test_the_dashboard_shows_every_metric_of_the_broker_but_those_that_say_the_same(evaluator: Evaluator) -> None:
    for expression in expressions(json.loads(DASHBOARD.read_text("utf-8"))):
        evaluator.value(filled(expression))
    shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in evaluator.metrics}
    # A broker that is alone has none of a cluster's.
    of_one = "penstock_queue_", "penstock_exchange_", "penstock_cluster_"
    missing = {each.name for each in families.EVERY if not each.name.startswith(of_one)} - shown
    assert missing == {
        "penstock_build_info",
        "penstock_messages_stored",
        "penstock_staged_bytes",
        "penstock_recovered_messages",
        "penstock_queues",
        "penstock_queues_failed",
        "penstock_journal_segments",
        "penstock_journal_cache_bytes",
        "process_start_time_seconds",
    }


def test_panels_have_numbers_and_places_of_their_own() -> None:
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


@pytest.mark.parametrize(
    "expression",
    [
        "sum(rate(penstock_messages_recieved_total[1m]))",
        'penstock_connections{lisener="http"}',
        "sum by (quue) (penstock_queue_messages_ready)",
        "histogram_quantile(0.9, sum(rate(penstock_confirmation_seconds_bucket[1m])))",
        "rate(penstock_messages_ready[1m])",
        "rate(penstock_messages_received_total)",
        "sum(penstock_messages_ready",
        "penstock_messages_ready / penstock_connections",
        "sum(penstock_messages_ready))",
        "predict_linear(penstock_messages_ready[1h], 3600)",
    ],
)
def test_an_expression_that_is_wrong_is_found(evaluator: Evaluator, expression: str) -> None:
    with pytest.raises((PromQlError, ValueError)):
        evaluator.value(expression)


def test_alerts_are_raised_by_what_they_are_about(evaluator: Evaluator) -> None:
    changed = {
        "penstock_senders_paused": 1.0,
        "penstock_queues_failed": 1.0,
        "penstock_messages_ready": 1e9,
        "penstock_senders_waiting": 5.0,
        "penstock_journal_free_bytes": 1.0,
        "process_open_fds": 1e9,
        "penstock_messages_dead_lettered_total": 1e6,
        "penstock_messages_rejected_total": 1e6,
        "penstock_messages_unroutable_total": 1e6,
        "penstock_messages_redelivered_total": 1e9,
        "penstock_queue_oldest_seconds": 1e9,
        "penstock_queue_messages_stored": 1e12,
        "up": 0.0,
    }
    for name, value in changed.items():
        labels = evaluator.now.get(name) or {frozenset(ADDED): 0.0}
        evaluator.now[name] = dict.fromkeys(labels, value)
        evaluator.before[name] = dict.fromkeys(labels, 0.0 if name.endswith("_total") else value)
    for name, label in (("penstock_queues_held_back", "no_receiver"),):
        for scrape in (evaluator.before, evaluator.now):
            scrape[name] = {key: 3.0 if ("kind", label) in key else value for key, value in scrape[name].items()}
    for name in ("penstock_confirmation_seconds", "penstock_loop_delay_seconds", "penstock_journal_sync_seconds"):
        series = evaluator.now[f"{name}_bucket"]
        evaluator.now[f"{name}_bucket"] = {
            key: 1e6 if ("le", "+Inf") in key else evaluator.before[f"{name}_bucket"].get(key, 0.0) for key in series
        }
    silent = [expression for expression in alerts() if not evaluator.value(expression)]
    assert silent == []


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("needs promtool (Debian: prometheus): there is none on this machine")
    return found


def checked(*command: str, text: str = "") -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_finds_nothing_wrong_with_the_text(
    promtool: str, texts: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    for text in texts[1]:
        checked(promtool, "check", "metrics", text=text)


def test_promtool_finds_nothing_wrong_with_the_alerts_and_the_dashboards_expressions(
    promtool: str, tmp_path: Path
) -> None:
    (rules,) = re.findall(r"^```yaml\n(groups:.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    alerts_file, shown_file = tmp_path / "alerts.yml", tmp_path / "shown.yml"
    alerts_file.write_text(rules)
    shown = [filled(each) for each in expressions(json.loads(DASHBOARD.read_text("utf-8")))]
    records = [{"record": f"shown:{number}", "expr": each} for number, each in enumerate(shown)]
    # JSON is YAML.
    shown_file.write_text(json.dumps({"groups": [{"name": "shown", "rules": records}]}))
    checked(promtool, "check", "rules", str(alerts_file))
    checked(promtool, "check", "rules", str(shown_file))
