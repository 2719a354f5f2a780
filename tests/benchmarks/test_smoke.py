"""Each benchmark, tiny: it runs in real processes and says something sane. What it measures is not looked at."""

from __future__ import annotations

import json
import math
import os
import pstats
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from benchmarks import _nats_cluster, _rabbitmq_server
from benchmarks._redis_server import missing
from tests.preconditions import folder_in_memory
from tests.transport.cluster import etcds

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 100.0
SPARK_DEADLINE = 280.0
"""A Spark session starts in 10 s on a machine that has nothing else to do, and in a minute on one that has."""
OUTPUT = ROOT / "benchmark-output"
"""Where journals go: the folder for temporary files may lie in memory, which is refused."""
Outcome = dict[str, Any]
Benchmark = Callable[..., Outcome]


@pytest.fixture
def benchmark(tmp_path: Path) -> Benchmark:
    """Runs one as its users do: `benchmark("latency", "--rate", "100")`; its JSON, checked for what holds of any."""

    def run(name: str, *arguments: str, deadline: float = DEADLINE) -> Outcome:
        file = tmp_path / f"{name}.json"
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks", name, *arguments, "--json", str(file)],
            cwd=ROOT,
            env=os.environ | {"COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=deadline,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        outcome: Outcome = json.loads(file.read_text("utf-8"))
        assert outcome["benchmark"] == name
        assert outcome["measures"]
        assert outcome["ceiling"]
        assert outcome["rounds"]
        for figure in outcome["figures"]:
            assert math.isfinite(figure["value"]), figure
            assert (figure["met"] is None) == (figure["target"] is None), figure
            assert figure["name"] in done.stdout
        return outcome

    return run


@pytest.fixture
def data() -> Iterator[Path]:
    """A folder on a disk."""
    OUTPUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="smoke-", dir=OUTPUT) as folder:
        yield Path(folder)


def value(outcome: Outcome, name: str) -> float:
    """The figure of that name."""
    return next(float(figure["value"]) for figure in outcome["figures"] if figure["name"] == name)


def verify_rate(outcome: Outcome, messages: int, work: str) -> None:
    """A rate stands beside three ceilings, each measured as often in turn with it."""
    kinds = ["broker", "loop relay, bytes", "blocking relay, bytes", f"loop relay, {work}"]
    rounds = len(outcome["rounds"]) // len(kinds)
    assert [one["kind"] for one in outcome["rounds"]] == kinds * rounds
    rate = value(outcome, "messages through the broker")
    assert rate == pytest.approx(
        median(messages / one["seconds"] for one in outcome["rounds"] if one["kind"] == "broker")
    )
    assert (
        0
        < value(outcome, "share of raw, same loop")
        == pytest.approx(rate / value(outcome, "ceiling: raw bytes, relay on the same loop"))
    )


@pytest.mark.soak  # seconds each, as the others so marked, and nothing but their own programs depends on them
def test_a_rate_of_single_messages_stands_beside_three_ceilings_of_the_same_run(benchmark: Benchmark) -> None:
    outcome = benchmark("single", "--messages", "20000", "--batch", "300", "--rounds", "1")
    assert len(outcome["rounds"]) == 4
    verify_rate(outcome, 20_000, "objects")


def test_rounds_alternate_and_a_profile_lists_functions_of_the_broker(benchmark: Benchmark, tmp_path: Path) -> None:
    file = tmp_path / "broker.profile"
    arguments = ("--messages", "3000", "--batch", "300", "--rounds", "2", "--no-uvloop", "--profile-broker", str(file))
    outcome = benchmark("throughput", *arguments)
    assert len(outcome["rounds"]) == 8
    verify_rate(outcome, 3_000, "batches")
    assert (outcome["parameters"]["uvloop"], outcome["parameters"]["profiled"]) == (False, True)
    profiled = {Path(module).name for module, _line, _name in pstats.Stats(str(file)).stats}  # type: ignore[attr-defined]  # not in typeshed
    assert "queue_actor.py" in profiled
    assert "function calls" in Path(f"{file}.txt").read_text("utf-8")


@pytest.mark.soak
def test_latencies_are_ordered_and_have_a_ceiling(benchmark: Benchmark) -> None:
    outcome = benchmark("latency", "--rate", "200", "--seconds", "0.5", "--warm-up", "0.1", "--rounds", "1")
    assert [one["kind"] for one in outcome["rounds"]] == ["broker", "relay"]
    for one in outcome["rounds"]:
        assert 0 < one["p50"] <= one["p90"] <= one["p99"] <= one["p99.9"] <= one["max"]
        assert one["late p50"] <= one["p50"]


@pytest.mark.soak
def test_a_durable_rate_stands_beside_one_in_memory_and_plain_appends_of_the_same_run(
    benchmark: Benchmark, data: Path
) -> None:
    outcome = benchmark(
        "durable",
        *("--messages", "20000", "--batch", "300", "--small-batch", "50", "--large-messages", "2000"),
        *("--rounds", "1", "--data", str(data)),
    )
    rounds = {one["kind"]: one for one in outcome["rounds"]}
    assert list(rounds) == [
        *("in memory", "durable", "in memory small", "durable small", "in memory large", "durable large"),
        *("append each", "append grouped", "sync=interval", "sync=never"),
    ]
    # Every batch is in a sync, and a sync may have many; without syncing there are those of new files only.
    assert 0 < rounds["durable"]["syncs"] <= 2 * 67
    assert rounds["sync=never"]["syncs"] < rounds["durable small"]["syncs"]
    assert rounds["append each"]["syncs"] == rounds["append each"]["blocks"] == 7
    assert rounds["append grouped"]["blocks"] == 7
    assert rounds["append each"]["bytes"] == rounds["append grouped"]["bytes"] == 2000 * 1024 + (2000 + 7) * 4
    share = value(outcome, "durable, 300 a batch") / value(outcome, "in memory, 300 a batch")
    assert value(outcome, "share of in memory") == pytest.approx(share)
    assert not list(data.iterdir())


@pytest.mark.soak
def test_senders_that_wait_for_each_confirmation_share_syncs(benchmark: Benchmark, data: Path) -> None:
    arguments = ("--senders", "8", "--messages", "800", "--size", "512", "--rounds", "1", "--data", str(data))
    outcome = benchmark("group_commit", *arguments)
    rounds = {one["kind"]: one for one in outcome["rounds"]}
    assert list(rounds) == ["durable", "in memory", "responder", "append grouped", "append each"]
    assert 0 < value(outcome, "syncs a message") <= 1.1
    assert rounds["append grouped"]["syncs"] == rounds["append each"]["syncs"] == 100
    assert 0 < rounds["durable"]["p50"] <= rounds["durable"]["p99"]
    assert value(outcome, "confirmed, durable") == pytest.approx(800 / rounds["durable"]["seconds"])


@pytest.mark.soak
def test_a_source_of_the_simple_message_queue_stands_beside_a_native_sender(benchmark: Benchmark) -> None:
    outcome = benchmark("smq", "--size", "100", "--size", "8192", "--messages", "50", "--warm-up", "5", "--rounds", "1")
    assert [one["size"] for one in outcome["rounds"]] == [100, 8192]
    for size in (100, 8192):
        assert value(outcome, f"times native, {size} bytes") > 0
    assert value(outcome, "p50, 8192 bytes in two writes, SMQ") > 0


@pytest.mark.soak
def test_websocket_stands_beside_tcp(benchmark: Benchmark) -> None:
    outcome = benchmark("websocket", "--messages", "1000", "--rounds", "2")
    assert [one["kind"] for one in outcome["rounds"]] == ["WebSocket", "TCP", "TCP", "WebSocket"]
    assert value(outcome, "share of TCP's") > 0
    assert value(outcome, "messages a second, WebSocket") > 0


@pytest.mark.soak
def test_a_durable_publish_over_http_stands_beside_a_handler_that_only_parses(benchmark: Benchmark, data: Path) -> None:
    arguments = ("--requests", "64", "--connections", "4", "--rounds", "1", "--data", str(data))
    outcome = benchmark("http", *arguments)
    assert [one["kind"] for one in outcome["rounds"]] == ["broker", "parser", "settle"]
    assert value(outcome, "times a handler that only parses") > 0
    assert not list(data.iterdir())


@pytest.mark.soak
def test_arrow_stands_beside_payload_objects_and_raw_bytes(benchmark: Benchmark, data: Path) -> None:
    outcome = benchmark("arrow", "--messages", "20000", "--batch", "3000", "--rounds", "2", "--data", str(data))
    arrow, objects = ["durable, Arrow", "in memory, Arrow"], ["durable, objects", "in memory, objects"]
    raw = ["loop relay, bytes"]
    assert [one["kind"] for one in outcome["rounds"]] == [*arrow, *objects, *raw, *objects, *arrow, *raw]
    assert value(outcome, "durable: Arrow / objects") > 0


@pytest.mark.soak
def test_durable_latencies_stand_beside_a_plain_append_on_the_same_schedule(benchmark: Benchmark, data: Path) -> None:
    arguments = ("--rate", "200", "--seconds", "0.5", "--warm-up", "0.1", "--rounds", "1", "--data", str(data))
    outcome = benchmark("durable_latency", *arguments)
    durable, memory, bare = outcome["rounds"]
    assert (durable["kind"], memory["kind"], bare["kind"]) == ("durable", "in memory", "bare")
    for part in ("sender to receiver", "send to confirmation"):
        assert 0 < durable[f"{part} p50"] <= durable[f"{part} p99"]
    assert 0 < bare["p50"] <= bare["p99"]
    assert 0 < bare["syncs"] <= 120
    assert durable["syncs"] > 0


@pytest.mark.soak
def test_each_figure_of_a_durable_message_stands_beside_that_of_redis(benchmark: Benchmark, data: Path) -> None:
    lacking = missing()
    if lacking is not None:
        pytest.skip(lacking)
    arguments = ("--rate", "200", "--seconds", "0.4", "--warm-up", "0.1", "--rounds", "1", "--data", str(data))
    outcome = benchmark("redis", *arguments)
    rounds = {one["kind"]: one for one in outcome["rounds"]}
    assert list(rounds) == ["penstock", "redis", "penstock, no receiver", "redis, no receiver"]
    for kind, one in rounds.items():
        assert one["broker_cpu_us"] > 0
        assert one["switches"] > 0
        for part in ("send to confirmation", *(() if "no receiver" in kind else ("sender to receiver",))):
            assert one["late p50"] <= one[f"{part} p50"] <= one[f"{part} p99"]
    for end in ("", ", no receiver"):
        share = rounds[f"penstock{end}"]["broker_cpu_us"] / rounds[f"redis{end}"]["broker_cpu_us"]
        assert value(outcome, f"broker's CPU a message{end}, times Redis's") == pytest.approx(share)
    assert not list(data.iterdir())


def test_without_redis_one_line_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "redis"],
        cwd=ROOT,
        env=os.environ | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "penstock: the comparison with Redis needs redis-server and there is none; install it "
        "(Debian, Ubuntu: sudo apt-get install redis-server)\n"
    )


TINY_AMQP = [
    *("--pika", "300", "--aio-pika", "300", "--py-amqp", "50", "--raw", "2000", "--awaiting", "300", "--rounds", "1"),
    *("--rate", "200", "--seconds", "0.3", "--warm-up", "0.1"),
]
AMQP_PARTS = ("pika", "aio-pika", "py-amqp", "prepared frames", "64 publishers", "paced")


@pytest.mark.soak
def test_every_part_over_amqp_is_measured_without_rabbitmq_too(
    benchmark: Benchmark, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_RABBITMQ_FOLDER", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    outcome = benchmark("amqp", *TINY_AMQP, "--data", str(data))
    assert outcome["parameters"]["rabbitmq"] == "none"
    assert [one["part"] for one in outcome["rounds"]] == ["ceiling", "ceiling", *AMQP_PARTS]
    verify_amqp(outcome)


@pytest.mark.soak
def test_every_part_over_amqp_stands_beside_rabbitmqs(benchmark: Benchmark, data: Path) -> None:
    lacking = _rabbitmq_server.missing()
    if lacking is not None:
        pytest.skip(lacking)
    outcome = benchmark("amqp", *TINY_AMQP, "--data", str(data), deadline=2 * DEADLINE)
    sides = ["Penstock", "RabbitMQ classic", "RabbitMQ quorum"]
    measured = [(one["part"], one["side"]) for one in outcome["rounds"] if one["part"] != "ceiling"]
    assert measured == [(part, side) for part in AMQP_PARTS for side in sides]
    verify_amqp(outcome)
    rates = {one["side"]: one["messages_per_s"] for one in outcome["rounds"] if one["part"] == "pika"}
    better = max(rate for side, rate in rates.items() if side != "Penstock")
    share = value(outcome, "pika: messages a second, times the better of RabbitMQ's")
    assert share == pytest.approx(rates["Penstock"] / better)
    assert not list(data.iterdir())


@pytest.mark.soak
def test_groups_are_measured_with_a_backlog_and_behind_one_that_somebody_has(benchmark: Benchmark) -> None:
    arguments = ("--backlog", "3000", "--blocked", "2000", "--groups", "10", "--messages", "2000", "--rounds", "1")
    outcome = benchmark("groups", *arguments)
    cases = {one["case"]: one for one in outcome["rounds"]}
    assert cases.keys() == {"short", "long", "behind", "plain"}
    assert all(one["messages"] >= 2_000 for one in cases.values())
    assert value(outcome, "behind them / without them") > 0


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_spark_reads_every_row_that_came_over_amqp(benchmark: Benchmark, data: Path) -> None:
    arguments = ("--rows", "5000", "--micro-batches", "3", "--rounds", "1", "--data", str(data))
    outcome = benchmark("amqp_spark", *arguments, deadline=SPARK_DEADLINE)
    assert {one["kind"]: (one["rows"], one["micro_batches"]) for one in outcome["rounds"]} == {
        "native": (5_000, 3),
        "amqp": (5_000, 3),
    }


@pytest.mark.soak
def test_an_application_of_celery_is_measured_with_rabbitmq_and_without(
    benchmark: Benchmark, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = ("--tasks", "60", "--rounds", "1", "--data", str(data))
    parts = ("Celery's defaults", "confirmed and late", "with results")
    found = {"Penstock"} if _rabbitmq_server.missing() else {"Penstock", "RabbitMQ"}
    outcomes = [(found, benchmark("celery", *tiny, deadline=2 * DEADLINE))]
    monkeypatch.setenv("PENSTOCK_RABBITMQ_FOLDER", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    outcomes.append(({"Penstock"}, benchmark("celery", *tiny)))
    for sides, outcome in outcomes:
        measured = {(one["part"], one["side"]) for one in outcome["rounds"]}
        assert measured == {(part, side) for part in parts for side in sides}
        assert all(one["tasks_per_s"] > 0 and one["broker_cpu_us"] > 0 for one in outcome["rounds"])
    assert not list(data.iterdir())


def verify_amqp(outcome: Outcome) -> None:
    """Whatever was measured is something."""
    for one in outcome["rounds"]:
        if one["part"] == "paced":
            assert one["late p50"] <= one["to consumer p50"] <= one["to consumer p99"]
        else:
            assert one["messages_per_s"] > 0
        if one["part"] != "ceiling":
            assert one["broker_cpu_us"] > 0


@pytest.mark.soak
def test_a_backlog_outlives_a_kill_and_its_disk_is_given_back(benchmark: Benchmark, data: Path) -> None:
    outcome = benchmark(
        "backlog",
        *("--messages", "30000", "--batch", "300", "--moved", "3000"),
        *("--singles", "1000", "--singles-moved", "300", "--rounds", "1", "--data", str(data)),
    )
    assert [(one["case"], one["kind"]) for one in outcome["rounds"]] == [
        (case, kind) for case in ("batches", "one by one") for kind in ("backlog", "without", "with")
    ]
    for case in ("batches", "one by one"):
        assert value(outcome, f"{case}: of it until it listens") > 0
        assert value(outcome, f"{case}: of it until it listens") < value(
            outcome, f"{case}: from restart to the first delivery"
        )
        assert value(outcome, f"{case}: broker's memory, peak") >= value(outcome, f"{case}: at the end") > 0
        # What is stored is more than its payloads.
        assert value(outcome, f"{case}: disk / payload") >= 1
    assert not list(data.iterdir())


def test_a_folder_in_memory_is_refused_where_the_disk_is_measured() -> None:
    memory = folder_in_memory()
    command = [sys.executable, "-m", "benchmarks", "durable", "--messages", "1", "--data", str(memory)]
    environment = os.environ | {"COLUMNS": "200"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert done.returncode != 0
    assert "where a sync costs nothing" in done.stderr


@pytest.mark.soak
def test_a_full_queue_slows_the_source_of_its_sender(benchmark: Benchmark) -> None:
    outcome = benchmark(
        "backpressure",
        *("--seconds", "3", "--warm-up", "1", "--interval", "0.2", "--rate", "100"),
        *("--max-queue-messages", "2000", "--max-in-flight", "20"),
    )
    pulled = outcome["rounds"][-1]["sender_pulled"]
    acknowledged = outcome["rounds"][-1]["receiver_acknowledged"]
    most_waiting = value(outcome, "messages waiting, most")
    assert 0 < most_waiting <= 2_000
    assert 0 < acknowledged[-1][1] < 2_000
    # Beyond what was acknowledged the sender has taken what the queue holds and what the broker has granted; not its whole endless source.
    assert 2_000 <= pulled[-1][1] <= 2_000 + 2_000 + acknowledged[-1][1]
    assert value(outcome, "broker's memory at the end") > 0


def test_metrics_are_asked_for_over_http_and_the_loops_turns_are_timed(benchmark: Benchmark) -> None:
    outcome = benchmark("metrics", "--queues", "30", "--queues", "60", "--rounds", "1")
    for queues in (30, 60):
        assert value(outcome, f"{queues} queues, totals: text") > 1
        assert value(outcome, f"{queues} queues, each queue: longest turn of the loop") > 0
    assert value(outcome, "one observation of a histogram") > 0


@pytest.mark.soak
def test_who_looks_is_set_beside_nobody_and_the_loops_turns_are_timed(benchmark: Benchmark) -> None:
    outcome = benchmark(
        "observed",
        *("--messages", "3000", "--batch", "300", "--queues", "5", "--queues", "30", "--watched", "30"),
        *("--change", "10", "--seconds", "0.5", "--rounds", "2", "--idle-rounds", "1"),
    )
    kinds = ["looked at", "nobody looks", "nobody looks", "looked at"]
    assert [one["kind"] for one in outcome["rounds"]][:8] == 2 * kinds
    for queues in (5, 30):
        assert value(outcome, f"{queues} queues: share of nobody looking") > 0
    assert value(outcome, "30 queues, looked at: longest turn of the loop") > 0
    looked = [one for one in outcome["rounds"] if one["kind"].endswith("looked at")]
    # Each has seen a picture, and both pages, however short it was.
    assert all(one["answers"] >= 2 and one["bytes"] > 0 for one in looked)
    assert value(outcome, "idle with HTTP: timers") == value(outcome, "idle without HTTP: timers")


@pytest.mark.soak
def test_idle_connections_are_set_beside_a_broker_without_any(benchmark: Benchmark) -> None:
    outcome = benchmark("idle", "--seconds", "0.3", "--senders", "3", "--receivers", "2")
    assert 0 <= value(outcome, "broker's share of a core, idle connections") <= 200
    assert value(outcome, "floor: a broker without connections") >= 0
    assert value(outcome, "memory of a broker without connections") > 0


@pytest.mark.soak
def test_every_message_goes_to_one_of_the_active_receivers(benchmark: Benchmark) -> None:
    arguments = ("--connected", "20", "--active", "4", "--messages", "4000", "--max-in-flight", "20", "--rounds", "1")
    outcome = benchmark("fairness", *arguments)
    crowd = next(one for one in outcome["rounds"] if one["kind"] == "crowd")
    assert len(crowd["counts"]) == 4
    assert sum(crowd["counts"]) == 4_000
    assert crowd["min"] <= crowd["mean"] == 1_000 <= crowd["max"]
    for name in ("connect 10", "connect 20", "disconnect 10", "disconnect 20"):
        assert value(outcome, name) > 0


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_both_sources_give_spark_every_row_in_as_many_micro_batches(benchmark: Benchmark, data: Path) -> None:
    outcome = benchmark(
        "spark",
        *("--rows-per-batch", "2000", "--most-rows", "5000", "--batch", "500", "--rounds", "1", "--data", str(data)),
        deadline=SPARK_DEADLINE,
    )
    own, ready = outcome["rounds"]
    assert (own["kind"], ready["kind"]) == ("penstock", "ready-made")
    assert own["rows"] == ready["rows"] == 5_000
    assert own["micro_batches"] == ready["micro_batches"] == 3


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_row_is_as_old_as_its_micro_batch_and_the_floor_lies_below(benchmark: Benchmark, data: Path) -> None:
    arguments = ("--rate", "200", "--seconds", "1", "--warm-up", "0", "--rounds", "1", "--data", str(data))
    outcome = benchmark("spark_latency", *arguments, deadline=SPARK_DEADLINE)
    assert value(outcome, "floor: p50, from planning to foreachBatch") > 0
    assert value(outcome, "p50, send to foreachBatch") <= value(outcome, "p99, send to foreachBatch")


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_slow_query_counts_every_message_once_over_a_stop(benchmark: Benchmark, data: Path) -> None:
    outcome = benchmark(
        "spark_backpressure",
        *("--seconds", "6", "--warm-up", "2", "--pause", "1", "--interval", "0.5", "--data", str(data)),
        *("--rate", "1000", "--offered", "20000", "--max-queue-messages", "5000"),
        deadline=SPARK_DEADLINE,
    )
    counted = value(outcome, "messages sent, and counted once each")
    assert counted >= 5_000
    assert counted % 1_000 == 0


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_queue_and_files_are_written_the_same_rows(benchmark: Benchmark, data: Path) -> None:
    outcome = benchmark(
        "spark_write",
        *("--rows", "5000", "--warm-up-rows", "0", "--batch", "500", "--rows-per-batch", "2000", "--rounds", "1"),
        *("--data", str(data)),
        deadline=SPARK_DEADLINE,
    )
    assert [(one["kind"], one["stored"]) for one in outcome["rounds"]] == [("penstock", 5_000), ("parquet", 5_000)]


def test_more_active_receivers_than_connected_are_refused() -> None:
    command = [sys.executable, "-m", "benchmarks", "fairness", "--connected", "2", "--active", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE, check=False)
    assert done.returncode == 2
    assert "3 active ones" in done.stderr


@pytest.mark.soak
def test_three_brokers_that_act_as_one_stand_beside_one_alone_and_a_bare_loop(benchmark: Benchmark, data: Path) -> None:
    etcds.program()
    arguments = ("--messages", "20000", "--batch", "300", "--rounds", "1", "--data", str(data))
    outcome = benchmark("cluster", *arguments)
    rates = {one["kind"]: one["messages_per_s"] for one in outcome["rounds"]}
    assert list(rates) == ["alone", "cluster", "bare"]
    assert value(outcome, "share of alone") == pytest.approx(rates["cluster"] / rates["alone"])
    assert not list(data.iterdir())


@pytest.mark.soak
def test_three_brokers_that_act_as_one_stand_beside_others_where_these_are_there(
    benchmark: Benchmark, data: Path
) -> None:
    etcds.program()
    sizes = ("--messages", "20000", "--theirs", "2000", "--large-messages", "64", "--large-theirs", "32")
    outcome = benchmark("cluster_beside", *sizes, "--rounds", "1", "--data", str(data), deadline=3 * DEADLINE)
    there = ["Penstock", "bare loop"]
    there += ["RabbitMQ quorum"] if _rabbitmq_server.missing() is None else []
    there += ["JetStream R3"] if _nats_cluster.missing() is None else []
    measured = [(one["part"], one["side"]) for one in outcome["rounds"]]
    assert measured == [(part, side) for part in ("100 B", "65536 B") for side in there]
    assert not list(data.iterdir())


@pytest.mark.soak
def test_an_empty_node_takes_a_transfer_while_a_sender_goes_on_and_gives_the_backlog_afterwards(
    benchmark: Benchmark, data: Path
) -> None:
    etcds.program()
    small = ("--bytes", "16MB", "--seconds", "2", "--segment-bytes", "1MiB", "--log-bytes", "256MiB")
    outcome = benchmark("cluster_joining", *small, "--data", str(data), deadline=3 * DEADLINE)
    (one,) = outcome["rounds"]
    assert one["received"] == 240
    assert one["joined_bytes"] >= 240 * 65_536
    assert value(outcome, "transfers from the first record on") >= 1
    for part in ("before, with three", "with two", "while the third is filled", "with three again"):
        assert value(outcome, f"sender, {part}") > 0
    share = value(outcome, "sender, while the third is filled") / value(outcome, "sender, before, with three")
    assert value(outcome, "share of before") == pytest.approx(share)
    for who in ("leader's", "joiner's"):
        assert value(outcome, f"{who} memory when it begins") > 0
    assert not list(data.iterdir())
