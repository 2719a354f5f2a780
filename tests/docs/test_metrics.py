"""docs/metrics.md: it names each metric that there is and no other, and its settings of Prometheus are what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.docs.console import free_address
from tests.docs.typed import Shell
from transport.gateways.http.exposed import ASKED, NEXT
from transport.gateways.http.gateway import TABLE
from transport.picture.families import EVERY, OF_A_QUEUE, OF_AN_EXCHANGE, QUEUE_HELD_BACK, RECOVERED
from transport.picture.loop_delay import LINGER_SECONDS
from transport.picture.metrics import DEFAULT_QUEUES, HELD_BACK, MOST_QUEUES

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs" / "metrics.md").read_text("utf-8")


def block(holding: str) -> str:
    (found,) = [each for each in re.findall(r"^```\w*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) if holding in each]
    return str(found)


def test_the_page_names_every_metric_and_no_other() -> None:
    rows = re.findall(r"^\| `((?:penstock|process)_[a-z_]+)` \|", PAGE, re.MULTILINE)
    # What a restart does to it stands in a table of its own.
    assert sorted(rows) == sorted([each.name for each in EVERY] + [RECOVERED.name])
    used = set(re.findall(r"\b(?:penstock|process)_[a-z_]+", PAGE.replace("process_max_fds", "")))
    known = {each.name for each in EVERY} | {
        f"{each.name}_{part}" for each in EVERY if each.kind == "histogram" for part in ("bucket", "sum", "count")
    }
    assert used - known == set()


def test_the_page_has_the_kinds_the_limits_and_the_times_that_there_are() -> None:
    kinds = re.findall(
        r"^\| `([a-z_]+)` \| (?!.*histogram)", PAGE.partition("The kinds")[2].partition("## Time")[0], re.MULTILINE
    )
    assert set(kinds) == {kind.value.replace(" ", "_") for kind in HELD_BACK}
    assert f"it has {len(OF_A_QUEUE) + 2} series of each" in " ".join(PAGE.split())
    assert f"`/metrics/exchanges` has {len(OF_AN_EXCHANGE)} series of each" in PAGE
    assert f"first {DEFAULT_QUEUES:,} queues" in PAGE
    assert f"{MOST_QUEUES:,}" in PAGE
    assert f"{LINGER_SECONDS:g} s behind the last question" in PAGE
    assert NEXT in PAGE
    assert all(f"`{name}`" in PAGE for name in ASKED)
    assert QUEUE_HELD_BACK.name in PAGE


def test_prometheus_is_pointed_at_routes_that_there_are() -> None:
    settings = block("scrape_configs:")
    paths = re.findall(r"metrics_path: (\S+)", settings)
    assert paths == ["/metrics/queues"]
    # The first is asked for where nothing is said.
    for path in ("/metrics", *paths):
        assert TABLE.find("GET", path)[0].operation == "stats"
    assert "127.0.0.1:9180" in settings


def test_a_broker_answers_the_curl_and_the_token_of_the_page(shell: Shell) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl: there is none on this machine")
    shell.run(*block("penstock user add prometheus").splitlines())
    http, others = free_address(), (free_address(), free_address())
    broker = shell.start(
        f"exec penstock broker --memory --users-file users.toml --http {http} --send-address {others[0]} --receive-address {others[1]}"
    )
    try:
        assert broker.stderr is not None
        assert "penstock broker: sending" in broker.stderr.readline()
        asked = block("curl -s").strip().replace("127.0.0.1:9180", http)
        token = (shell.folder / "prometheus.token").read_text().strip()
        for options, status in (("", "401"), (f' -H "Authorization: Bearer {token}"', "200")):
            done = subprocess.run(
                ["bash", "-c", f"{asked} -w '%{{http_code}}'{options}"],
                capture_output=True, text=True, timeout=60, check=True,
            )  # fmt: skip
            assert done.stdout.endswith(status)
            assert ("penstock_messages_received_total 0" in done.stdout) is (status == "200")
    finally:
        broker.terminate()
        broker.communicate()
