"""Processes of the command line that administer a broker, and what they draw."""

from __future__ import annotations

import json
import os
import re
import select
from pathlib import Path

import pytest

from tests.preconditions import terminal
from tests.transport.programs import DEADLINE, BrokerProcess, Program
from transport import MessageBatch
from transport.clients.stage_client import StageClient
from transport.clients.subscription_client import SubscriptionClient

# What is shown


def test_no_progress_is_drawn_where_nobody_looks(broker: BrokerProcess, queue: str) -> None:
    code, out, err = broker.run("send", "--queue", queue, stdin=b"a\n" * 10_000)
    assert (code, out) == (0, b"")
    assert "\x1b" not in err
    assert "\r" not in err


def test_progress_is_drawn_on_a_terminal(broker: BrokerProcess, queue: str, tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"a\n" * 10_000)
    with terminal() as (ours, theirs):
        with broker.start("send", "--queue", queue, str(path), stderr=theirs) as sender:
            assert sender.end() == 0
        os.close(theirs)
        shown = b""
        while b"messages confirmed" not in shown:
            assert select.select([ours], [], [], DEADLINE)[0]
            shown += os.read(ours, 1 << 16)
    assert b"\x1b[" in shown


def test_stats_as_json_has_every_figure(broker: BrokerProcess, queue: str) -> None:
    broker.fill(queue, [b"a", b"b", b"c"])
    with broker.start("receive", "--queue", queue, "--max-in-flight", "10") as receiver:
        for _ in range(3):
            receiver.line(receiver.stdout)
        broker.until(queue, lambda figures: figures["total_acknowledged"] == 3)
        code, out, err = broker.run("stats", "--json")
    assert (code, err) == (0, "")
    figures = json.loads(out)
    assert set(figures) == {"broker", "storage", "exchanges", "queues", "connections"}
    assert figures["storage"] is None
    assert figures["broker"]["rss_bytes"] > 0
    (ours,) = [row for row in figures["queues"] if row["name"] == queue]
    assert ours["total_in"] == ours["total_out"] == ours["total_acknowledged"] == 3
    assert ours["receivers"] == 1
    (connection,) = [row for row in figures["connections"] if row["queue"] == queue and row["role"] == "receiver"]
    assert 0 < connection["demand"] <= 10
    assert connection["in_flight"] == 0


def test_the_tables_show_queues_and_connections_a_row_each(broker: BrokerProcess) -> None:
    name = "[red]markup[/red]"
    assert broker.run("queue create", name, "--max-messages", "12345", "--visibility-timeout", "2.5")[0] == 0
    broker.fill(name, [b"a", b"b"])
    code, out, err = broker.run("stats")
    assert (code, err) == (0, "")
    assert any(line.split()[:2] == [name, "2"] for line in out.decode().splitlines() if line)
    code, out, _ = broker.run("queue list", "--wide")
    (row,) = [line for line in out.decode().splitlines() if line.startswith(name)]
    assert "12,345" in row
    cells = re.split("  +", row)
    figures = ["2.5 s", "block", "-", "-", "0 s", "-", "no", "10,000,000", "256 MiB", "-", "yes", "-", "-", "-"]
    assert cells[-22:] == [*figures, "no", "0 s", "1 min", "no", "-", "-", "1,000,000", "no"]
    assert broker.run("queue purge", name) == (
        0,
        f"queue {name} purged of 2 messages at {broker.sending}\n".encode(),
        "",
    )
    assert broker.run("queue delete", name) == (0, f"queue {name} deleted at {broker.sending}\n".encode(), "")
    assert name not in broker.run("queue list")[1].decode()


def test_no_subscriptions_are_an_empty_table_and_releasing_one_is_refused(broker: BrokerProcess, queue: str) -> None:
    code, out, _ = broker.run("subscription list")
    assert code == 0
    assert out.startswith(b"0 subscriptions")
    broker.fill(queue, [b"a"])
    code, _, err = broker.run("subscription release", queue, "query")
    assert code == 1
    assert "not-found" in err
    assert "`penstock subscription list` shows" in err
    code, _, err = broker.run("queue move", "orders.daed", queue)
    assert code == 1
    assert err.strip().endswith(
        "there is no queue 'orders.daed'; nothing was moved; `penstock queue list` shows what there is"
    )


def test_a_subscription_is_listed_with_what_is_ready_and_reserved_and_its_owner_and_deleted_when_that_is_gone(
    broker: BrokerProcess, queue: str
) -> None:
    broker.fill(queue, [b"a", b"b", b"c"])
    with SubscriptionClient(
        broker.receiving, queue=queue, subscription="query", mode="own", client_id="host/7"
    ) as owner:
        owner.reserve(0, 2, 1000)
        [row] = [
            re.split("  +", line)
            for line in broker.run("subscription list", "--wide")[1].decode().splitlines()
            if "query" in line
        ]
        assert row[:4] == [queue, "query", "1", "2"]
        assert row[-5:] == ["now", "host/7", "1", "0", "2"]
        code, _, err = broker.run("subscription delete", queue, "query")
        assert (code, "host/7" in err) == (1, True)
        code, _, err = broker.run("subscription release", queue, "query")
        assert (code, "host/7" in err, "--force" in err) == (1, True, True)
        told = broker.run("subscription release", queue, "query", "--force")
        warning = "penstock subscription release: a query that returns reads them again, without a word\n"
        assert told == (0, f"subscription query of queue {queue} released, 2 messages returned\n".encode(), warning)
        assert owner.reserve(2, 2, 1000).end == 4
    while b"now" in broker.run("subscription list")[1]:
        pass  # the broker has not seen the end of the connection yet; the test's deadline is this wait's
    told = broker.run("subscription delete", queue, "query")
    assert told == (0, f"subscription query of queue {queue} deleted, 2 messages returned\n".encode(), "")
    assert b"query" not in broker.run("subscription list")[1]


def test_open_transactions_are_listed_and_aborted(broker: BrokerProcess, queue: str) -> None:
    code, out, _ = broker.run("transaction list")
    assert code == 0
    assert out.startswith(b"0 open transactions")
    with StageClient(broker.sending, queue=queue, writer="spark-1", version=12, stage="0-0") as client:
        client.send(MessageBatch.from_payloads([b"a", b"b", b"c"]))
        client.finish()
    (row,) = [line for line in broker.run("transaction list")[1].decode().splitlines() if line.startswith("spark-1")]
    assert row.split()[:4] == ["spark-1", "12", queue, "3"]
    code, out, _ = broker.run("transaction abort", "spark-1", "12")
    assert (code, out) == (0, b"transaction 12 of spark-1 aborted, 3 messages discarded\n")
    assert broker.run("transaction list")[1].startswith(b"0 open transactions")
    told = broker.run("transaction abort", "spark-1", "12")
    assert told == (0, b"nothing to abort: no message is staged for transaction 12 of spark-1\n", "")


def test_a_setting_that_cannot_be_beside_the_brokers_is_wrong_usage(broker: BrokerProcess, queue: str) -> None:
    told = broker.run("queue create", queue, "--dead-letter-queue", "elsewhere", "--drop-failed")
    text = (
        "drop_failed is set, and a place for dead letters is named: what has failed too often goes there or is dropped"
    )
    assert told == (2, b"", f"penstock queue create: {text}\n")
    code, _, err = broker.run("queue create", queue, "--dead-letter-queue", queue, "--max-receives", "3")
    assert (code, "its own dead-letter queue" in err) == (2, True)
    code, _, err = broker.run("queue create", queue, "--max-staged-bytes", f"{10**20}GiB")
    assert (code, "more than 64 bits" in err, err.count("\n")) == (1, True, 1)
    assert broker.run("queue create", queue, "--max-messages", "7")[0] == 0
    assert broker.run("queue create", queue, "--max-messages", "8")[0] == 1, "a refusal, and no wrong usage"


def test_an_output_that_cannot_have_a_name_or_a_message_has_it_escaped(
    broker: BrokerProcess, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    name = f"{queue}-\u2192"
    broker.fill(name, ["\u00fc \u2192".encode()])
    code, out, err = broker.run("queue", "peek", name)
    assert (code, err) == (0, "")
    assert b"\xfc \\u2192" in out
    code, out, err = broker.run("queue", "delete", name)
    assert (code, err) == (0, "")
    assert out.startswith(b"queue " + queue.encode() + b"-\\u2192 deleted")


def test_deleting_a_queue_tells_how_many_connections_that_ends(broker: BrokerProcess, queue: str) -> None:
    with StageClient(broker.sending, queue=queue, writer="spark-2", version=1, stage="0-0") as client:
        client.open()
        told = broker.run("queue delete", queue)
        assert told == (0, f"queue {queue} deleted at {broker.sending}, 1 connection ended\n".encode(), "")


def test_a_millisecond_is_shown(broker: BrokerProcess, queue: str) -> None:
    assert broker.run("queue create", queue, "--ttl", "1ms", "--visibility-timeout", "20ms")[0] == 0
    (row,) = [line for line in broker.run("queue list", "--wide")[1].decode().splitlines() if line.startswith(queue)]
    assert {"1 ms", "20 ms"} <= set(re.split("  +", row))


def test_a_queue_is_created_with_every_setting_and_they_are_listed(broker: BrokerProcess, queue: str) -> None:
    options = {
        "--max-messages": "1000",
        "--max-bytes": "1MiB",
        "--visibility-timeout": "2m",
        "--overflow": "reject",
        "--max-receives": "5",
        "--dead-letter-queue": "failed",
        "--delay": "1s",
        "--ttl": "1h",
        "--max-staged-messages": "2000",
        "--max-staged-bytes": "2MiB",
        "--subscription-expiry": "1d",
        "--expires": "1h",
    }
    arguments = [text for option in options.items() for text in option]
    assert broker.run("queue create", queue, *arguments, "--exclusive", "--no-durable") == (
        0,
        f"queue {queue} created at {broker.sending}\n".encode(),
        "",
    )
    (row,) = [line for line in broker.run("queue list", "--wide")[1].decode().splitlines() if line.startswith(queue)]
    settings = ["1,000", "1 MiB", "2 min", "reject", "5", "failed", "1 s", "1 h", "yes", "2,000", "2 MiB", "1 d", "no"]
    settings += ["-", "-", "1 h", "no", "0 s", "1 min", "no", "-", "-", "1,000,000", "no"]
    assert re.split("  +", row)[-len(settings) :] == settings
    code, _, err = broker.run("queue create", queue, *arguments)
    assert code == 1
    assert "already-exists" in err
    assert "exclusive is true there, false was asked for" in err


def test_a_brokers_settings_come_from_file_environment_and_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('[broker]\nmemory = true\n[queue_defaults]\nttl = "1h"\nmax_messages = 1\nvisibility_timeout = 3\n')
    monkeypatch.setenv("PENSTOCK_MAX_QUEUE_MESSAGES", "2")
    monkeypatch.setenv("PENSTOCK_VISIBILITY_TIMEOUT", "4s")
    with BrokerProcess("--config", str(path), "--visibility-timeout", "5s") as configured:
        assert configured.said.endswith(", in memory only")
        assert configured.run("queue create", "q")[0] == 0
        figures = configured.statistics("q")
    assert (figures["ttl"], figures["max_messages"], figures["visibility_timeout"]) == (3600.0, 2, 5.0)


def test_a_broker_whose_file_has_problems_names_them_all_and_does_not_start(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('[broker]\nmemmory = true\n\n[journal]\nsync = "sometimes"\n')
    with Program("broker", "--config", str(path)) as program:
        code, out, err = program.finish()
    assert (code, out) == (2, b"")
    assert err.splitlines() == [
        f"penstock broker: {path}:2: unknown key broker.memmory; did you mean memory?",
        f"penstock broker: {path}:5: journal.sync: sync is 'sometimes', not one of always, interval, never",
    ]
    assert [entry.name for entry in tmp_path.iterdir()] == ["penstock.toml"]
