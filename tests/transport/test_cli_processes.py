"""The command as its users run it: processes, sockets, pipes and signals."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from tests.log_lines import log_lines
from tests.preconditions import terminal
from tests.transport.programs import DEADLINE, BrokerProcess, Program
from transport import MessageBatch
from transport.clients.stage_client import StageClient
from transport.clients.subscription_client import SubscriptionClient

_names = count()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess("--visibility-timeout", "600") as running:
        yield running


@pytest.fixture
def queue() -> str:
    return f"queue-{next(_names)}"


@pytest.fixture(scope="module")
def real_lines() -> list[bytes]:
    """A web server's log."""
    return log_lines()


def numbered(amount: int) -> list[bytes]:
    return [b"line %d" % number for number in range(amount)]


# Round trips


def test_a_file_sent_and_received_is_the_same_file(
    broker: BrokerProcess, queue: str, real_lines: list[bytes], tmp_path: Path
) -> None:
    path = tmp_path / "access.log"
    path.write_bytes(b"\n".join(real_lines) + b"\n")
    code, out, err = broker.run("send", "--queue", queue, str(path))
    assert (code, out) == (0, b"")
    assert err.startswith(f"penstock send: {len(real_lines)} messages confirmed in queue {queue} at {broker.sending}")
    assert len(err.splitlines()) == 1
    code, out, err = broker.run("receive", "--queue", queue, "--count", str(len(real_lines)))
    assert (code, err) == (0, "")
    assert out == path.read_bytes()
    figures = broker.statistics(queue)
    assert (figures["ready"], figures["in_flight"], figures["total_acknowledged"]) == (0, 0, len(real_lines))


def test_two_receivers_together_get_the_whole_file_and_nothing_twice(
    broker: BrokerProcess, queue: str, real_lines: list[bytes]
) -> None:
    with (
        broker.start("receive", "--queue", queue, "--max-in-flight", "100") as first,
        broker.start("receive", "--queue", queue, "--max-in-flight", "100") as second,
    ):
        broker.until_requested_by(2, queue)
        with ThreadPoolExecutor(2) as threads:
            # Read side by side: neither may wait for the other's pipe.
            reading = [threads.submit(program.finish) for program in (first, second)]
            try:
                broker.fill(queue, real_lines)
                broker.until(queue, lambda figures: figures["total_acknowledged"] == len(real_lines))
            finally:
                # Told to stop, not left to notice the silence: on a busy machine, silence says nothing.
                for program in (first, second):
                    program.process.send_signal(signal.SIGTERM)
        (code, out, _), (other_code, other_out, _) = (read.result() for read in reading)
    assert (code, other_code) == (0, 0)
    assert Counter(out.splitlines() + other_out.splitlines()) == Counter(real_lines)
    assert out
    assert other_out


def test_a_receiver_killed_in_the_middle_leaves_the_rest_to_the_other(broker: BrokerProcess, queue: str) -> None:
    lines = [b"%06d" % number + b"x" * 1000 for number in range(3000)]
    in_flight = 500
    with broker.start("receive", "--queue", queue, "--max-in-flight", str(in_flight)) as doomed:
        broker.fill(queue, lines)
        printed = [doomed.line(doomed.stdout) for _ in range(600)]
        # Its pipe is not read further and takes no whole batch, so it stops in the middle of one that it holds.
        broker.until(queue, lambda figures: figures["in_flight"] > 0 and figures["total_acknowledged"] > 0)
        doomed.process.kill()
        # Written by itself, so whole lines but for the last.
        *killed, _ = doomed.rest(doomed.stdout).split(b"\n")
        left = broker.until(queue, lambda figures: figures["receivers"] == figures["in_flight"] == 0)
        code, out, _ = broker.run("receive", "--queue", queue, "--count", str(left["ready"]))
    assert code == 0
    union = Counter(printed + killed) + Counter(out.splitlines())
    assert not Counter(lines) - union, "a line is lost"
    twice = union - Counter(lines)
    assert sum(twice.values()) <= in_flight, "only what was written and not yet acknowledged may come twice"
    assert broker.statistics(queue)["ready"] == 0


def test_a_line_is_delivered_while_the_pipe_it_came_from_is_still_open(broker: BrokerProcess, queue: str) -> None:
    with broker.start("receive", "--queue", queue) as receiver, broker.start("send", "--queue", queue, "-") as sender:
        for line in (b"first", b"second", b""):
            sender.stdin.write(line + b"\n")
            assert receiver.line(receiver.stdout) == line
        sender.stdin.write(b"no newline")
        sender.stdin.close()
        assert sender.end() == 0
        assert receiver.line(receiver.stdout) == b"no newline"


def test_bytes_that_are_no_text_pass_unchanged(broker: BrokerProcess, queue: str) -> None:
    data = bytes(range(256)).replace(b"\n", b"") + b"\r\n" + b"\xff\xfe\n" + b"\0\n"
    assert broker.run("send", "--queue", queue, stdin=data)[0] == 0
    assert broker.run("receive", "--queue", queue, "--count", "3")[:2] == (0, data)


# Demand


def test_count_prints_and_acknowledges_exactly_that_many_and_requests_no_more(
    broker: BrokerProcess, queue: str
) -> None:
    lines = numbered(5000)
    broker.fill(queue, lines)
    for part, (amount, start) in enumerate(((1, 0), (1500, 1), (999, 1501))):
        code, out, err = broker.run("receive", "--queue", queue, "--count", str(amount))
        assert (code, err) == (0, "")
        assert out.splitlines() == lines[start : start + amount], f"part {part}"
    figures = broker.statistics(queue)
    assert figures["total_out"] == figures["total_acknowledged"] == 2500
    assert (figures["ready"], figures["in_flight"], figures["total_redelivered"]) == (2500, 0, 0)


def test_count_waits_for_messages_that_come_later(broker: BrokerProcess, queue: str) -> None:
    with broker.start("receive", "--queue", queue, "--count", "3") as receiver:
        broker.fill(queue, [b"a"])
        assert receiver.line(receiver.stdout) == b"a"
        broker.fill(queue, [b"b", b"c", b"d"])
        assert receiver.finish()[:2] == (0, b"b\nc\n")
    assert broker.statistics(queue)["ready"] == 1


def test_idle_exit_ends_an_empty_wait_with_success(broker: BrokerProcess, queue: str) -> None:
    assert broker.run("receive", "--queue", queue, "--idle-exit", "0.1") == (0, b"", "")


def test_a_receiver_whose_output_is_not_read_holds_no_more_than_its_limit(broker: BrokerProcess, queue: str) -> None:
    broker.fill(queue, [b"x" * 1000] * 2000)
    with broker.start("receive", "--queue", queue, "--max-in-flight", "50") as receiver:
        # 64 KiB of pipe, then it stops.
        stuck = broker.until(queue, lambda figures: figures["total_acknowledged"] >= 50)
        assert stuck["in_flight"] <= 50
        assert receiver.line(receiver.stdout) == b"x" * 1000


def test_a_full_queue_stops_the_sender_and_room_lets_it_go_on(broker: BrokerProcess, queue: str) -> None:
    lines = numbered(3000)
    assert broker.run("queue create", queue, "--max-messages", "1000")[0] == 0
    with broker.start("send", "--queue", queue, "-") as sender:
        sender.stdin.write(b"".join(line + b"\n" for line in lines))
        sender.stdin.close()
        full = broker.until(queue, lambda figures: figures["ready"] == 1000)
        assert full["total_in"] == 1000
        assert sender.process.poll() is None
        code, out, _ = broker.run("receive", "--queue", queue, "--count", "3000")
        assert code == 0
        assert out.splitlines() == lines
        assert sender.end() == 0


def peak_memory(program: Program) -> int:
    """Bytes of the largest resident memory so far."""
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


def test_a_long_pipe_passes_in_bounded_memory(broker: BrokerProcess, queue: str) -> None:
    block = (b"y" * 999 + b"\n") * 1000
    blocks = 150
    with (
        broker.start("receive", "--queue", queue, "--count", str(blocks * 1000), stdout=subprocess.DEVNULL) as receiver,
        broker.start("send", "--queue", queue, "-") as sender,
    ):
        for _ in range(blocks):
            sender.stdin.write(block)
        # All but a pipe's worth has been read. The peak is read while they live: what wait() tells begins with the
        # memory that this process had when it forked.
        peaks = {name: peak_memory(program) for name, program in (("sender", sender), ("receiver", receiver))}
        sender.stdin.close()
        assert (sender.process.wait(DEADLINE), receiver.process.wait(DEADLINE)) == (0, 0)
    # 150 MB have passed; an interpreter with its imports takes some 40 of what is allowed.
    assert all(peak < 120_000_000 for peak in peaks.values()), peaks


# Ends


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_receiver_in_good_order(broker: BrokerProcess, queue: str, number: signal.Signals) -> None:
    broker.fill(queue, numbered(10))
    with broker.start("receive", "--queue", queue) as receiver:
        printed = [receiver.line(receiver.stdout) for _ in range(10)]
        receiver.process.send_signal(number)
        code, out, err = receiver.finish()
    assert (code, out, err) == (0, b"", "")
    assert printed == numbered(10)
    figures = broker.statistics(queue)
    assert (figures["ready"], figures["in_flight"], figures["total_acknowledged"]) == (0, 0, 10)


def test_a_signal_before_the_count_is_reached_is_not_success(broker: BrokerProcess, queue: str) -> None:
    broker.fill(queue, [b"a"])
    with broker.start("receive", "--queue", queue, "--count", "2") as receiver:
        assert receiver.line(receiver.stdout) == b"a"
        receiver.process.send_signal(signal.SIGTERM)
        code, _, err = receiver.finish()
    assert code == 128 + signal.SIGTERM
    assert err == "penstock receive: stopped by SIGTERM after 1 of 2 messages\n"


def test_a_signal_ends_a_receiver_whose_output_is_stuck_and_nothing_unwritten_is_acknowledged(
    broker: BrokerProcess, queue: str
) -> None:
    lines = [b"%06d" % number + b"x" * 1000 for number in range(2000)]
    broker.fill(queue, lines)
    with broker.start("receive", "--queue", queue, "--max-in-flight", "100") as receiver:
        broker.until(queue, lambda figures: figures["total_acknowledged"] > 0)
        receiver.process.send_signal(signal.SIGINT)
        assert receiver.end() == 0
        whole = receiver.rest(receiver.stdout).count(b"\n")
    figures = broker.until(queue, lambda figures: figures["receivers"] == 0)
    assert figures["total_acknowledged"] <= whole
    assert figures["ready"] + figures["total_acknowledged"] == len(lines)
    assert figures["in_flight"] == 0


def test_a_reader_that_leaves_ends_the_receiver_and_what_was_not_written_stays(
    broker: BrokerProcess, queue: str
) -> None:
    broker.fill(queue, [b"x" * 1000] * 2000)
    with broker.start("receive", "--queue", queue) as receiver:
        receiver.line(receiver.stdout)
        receiver.stdout.close()
        assert receiver.end() == 0
        assert receiver.rest(receiver.stderr) == b""
    figures = broker.until(queue, lambda figures: figures["receivers"] == 0)
    assert figures["ready"] + figures["total_acknowledged"] == 2000
    assert figures["ready"] > 0
    assert figures["in_flight"] == 0


def test_a_reader_that_leaves_is_noticed_though_no_message_comes(broker: BrokerProcess, queue: str) -> None:
    with broker.start("receive", "--queue", queue) as receiver:
        broker.fill(queue, [b"a"])
        assert receiver.line(receiver.stdout) == b"a"
        receiver.stdout.close()
        assert receiver.end() == 0


def test_a_sender_stopped_before_its_input_ends_says_what_is_confirmed_and_is_not_success(
    broker: BrokerProcess, queue: str
) -> None:
    with broker.start("send", "--queue", queue, "-") as sender:
        sender.stdin.write(b"a\nb\nc\nunfinished")
        broker.until(queue, lambda figures: figures["ready"] == 3)
        sender.process.send_signal(signal.SIGINT)
        code = sender.end()
        err = sender.rest(sender.stderr).decode()
    assert code == 128 + signal.SIGINT
    assert "messages confirmed" in err
    assert err.endswith("penstock send: stopped by SIGINT before the end of the input\n")


def test_an_input_that_breaks_in_the_middle_is_an_error_and_what_came_before_is_confirmed(
    broker: BrokerProcess, queue: str
) -> None:
    with broker.start("send", "--queue", queue, "-") as sender:
        sender.stdin.write(b"a\nb\n")
        broker.until(queue, lambda figures: figures["ready"] == 2)
        with contextlib.suppress(BrokenPipeError):
            sender.stdin.write(b"x" * (17 * 1024 * 1024))
        code = sender.end()
        err = sender.rest(sender.stderr).decode().splitlines()
    assert code == 1
    assert err[0].startswith("penstock send: 2 messages confirmed")
    assert err[1].startswith("penstock send: standard input: line 3 is longer than")


# Errors


def test_the_wrong_port_is_named_at_once(broker: BrokerProcess, queue: str) -> None:
    began = time.monotonic()
    with Program("send", "--queue", queue, "--address", broker.receiving) as sender:
        sender.stdin.write(b"a\n")
        code, _, err = sender.finish()
    assert code == 1
    assert "unknown-role" in err
    assert "check --address" in err
    assert time.monotonic() - began < 8, "a refusal is not tried again"


def test_a_refused_command_exits_with_1_and_one_line(broker: BrokerProcess, queue: str) -> None:
    code, out, err = broker.run("queue delete", queue)
    assert (code, out) == (1, b"")
    assert err.startswith("penstock queue delete: the broker answered not-found")
    assert "penstock queue list" in err
    assert len(err.splitlines()) == 1


def test_a_second_broker_on_the_same_address_says_so(broker: BrokerProcess) -> None:
    with Program("broker", "--send-address", broker.sending, "--receive-address", "127.0.0.1:0", "--memory") as second:
        code, _, err = second.finish()
    assert code == 1
    assert broker.sending in err
    assert "--send-address" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_broker_that_is_told_to_stop_ends_with_success_and_tells_its_clients(
    number: signal.Signals, queue: str
) -> None:
    with BrokerProcess() as short_lived:
        with short_lived.start("receive", "--queue", queue, "--connect-timeout", "0.2") as receiver:
            short_lived.fill(queue, [b"a"])
            assert receiver.line(receiver.stdout) == b"a"
            short_lived.process.send_signal(number)
            assert short_lived.end() == 0
            assert short_lived.rest(short_lived.stderr) == b""
            code, _, err = receiver.finish()
        assert code == 1
        assert "is the broker running there?" in err or "shutting-down" in err


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
    assert set(figures) == {"broker", "storage", "queues", "connections"}
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
    code, out, _ = broker.run("queue list")
    (row,) = [line for line in out.decode().splitlines() if line.startswith(name)]
    assert "12,345" in row
    assert row.split()[-9:] == ["2.5", "block", "-", "-", "0.0", "-", "no", "10,000,000", "268,435,456"]
    assert broker.run("queue purge", name) == (0, f"queue {name} purged of 2 messages\n".encode(), "")
    assert broker.run("queue delete", name) == (0, f"queue {name} deleted\n".encode(), "")
    assert name not in broker.run("queue list")[1].decode()


def test_no_subscriptions_are_an_empty_table_and_releasing_one_is_refused(broker: BrokerProcess, queue: str) -> None:
    code, out, _ = broker.run("subscription list")
    assert code == 0
    assert out.startswith(b"0 subscriptions")
    broker.fill(queue, [b"a"])
    code, _, err = broker.run("subscription release", queue, "query")
    assert code == 1
    assert "not-found" in err


def test_a_subscription_is_listed_with_its_backlog_and_owner_and_deleted_when_that_is_gone(
    broker: BrokerProcess, queue: str
) -> None:
    broker.fill(queue, [b"a", b"b", b"c"])
    with SubscriptionClient(
        broker.receiving, queue=queue, subscription="query", mode="own", client_id="host/7"
    ) as owner:
        owner.reserve(0, 2, 1000)
        [row] = [line.split() for line in broker.run("subscription list")[1].decode().splitlines() if "query" in line]
        assert row[:4] == [queue, "query", "3", "2"]
        assert row[-5:] == ["now", "host/7", "1", "0", "2"]
        code, _, err = broker.run("subscription delete", queue, "query")
        assert (code, "host/7" in err) == (1, True)
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
    assert row.split()[:5] == ["spark-1", "12", queue, "1", "3"]
    code, out, _ = broker.run("transaction abort", "spark-1", "12")
    assert (code, out) == (0, b"transaction 12 of spark-1 aborted, 3 messages discarded\n")
    assert broker.run("transaction list")[1].startswith(b"0 open transactions")
    told = broker.run("transaction abort", "spark-1", "12")
    assert told == (0, b"nothing to abort: no message is staged for transaction 12 of spark-1\n", "")


def test_a_setting_that_cannot_be_beside_the_brokers_is_wrong_usage(broker: BrokerProcess, queue: str) -> None:
    told = broker.run("queue create", queue, "--dead-letter-queue", "elsewhere")
    text = "a dead-letter queue is given, but neither max_receives nor ttl sends anything there"
    assert told == (2, b"", f"penstock queue create: {text}\n")
    code, _, err = broker.run("queue create", queue, "--dead-letter-queue", queue, "--max-receives", "3")
    assert (code, "its own dead-letter queue" in err) == (2, True)
    code, _, err = broker.run("queue create", queue, "--max-staged-bytes", f"{10**20}GiB")
    assert (code, "more than 64 bits" in err, err.count("\n")) == (1, True, 1)
    assert broker.run("queue create", queue, "--max-messages", "7")[0] == 0
    assert broker.run("queue create", queue, "--max-messages", "8")[0] == 1, "a refusal, and no wrong usage"


def test_deleting_a_queue_tells_how_many_connections_that_ends(broker: BrokerProcess, queue: str) -> None:
    with StageClient(broker.sending, queue=queue, writer="spark-2", version=1, stage="0-0") as client:
        client.open()
        told = broker.run("queue delete", queue)
        assert told == (0, f"queue {queue} deleted, 1 connections ended\n".encode(), "")


def test_a_millisecond_is_shown(broker: BrokerProcess, queue: str) -> None:
    assert broker.run("queue create", queue, "--ttl", "1ms", "--visibility-timeout", "20ms")[0] == 0
    (row,) = [line for line in broker.run("queue list")[1].decode().splitlines() if line.startswith(queue)]
    assert {"0.001", "0.020"} <= set(row.split())


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
    }
    arguments = [text for option in options.items() for text in option]
    assert broker.run("queue create", queue, *arguments, "--exclusive") == (0, f"queue {queue} created\n".encode(), "")
    (row,) = [line for line in broker.run("queue list")[1].decode().splitlines() if line.startswith(queue)]
    settings = ["1,000", "1,048,576", "120.0", "reject", "5", "failed", "1.0", "3,600.0", "yes", "2,000", "2,097,152"]
    assert row.split()[-len(settings) :] == settings
    code, _, err = broker.run("queue create", queue, *arguments)
    assert code == 1
    assert "already-exists" in err


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
