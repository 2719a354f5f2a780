"""The Redis that a benchmark starts, and the clients that it measures it with."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from benchmarks import _redis_server
from benchmarks._processes import BenchmarkError, context_switches, cpu_seconds
from benchmarks._redis_server import RedisServer, missing

pytestmark = pytest.mark.timeout(60)


def redis_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a redis-server on the PATH that does what ``script`` says."""
    program = tmp_path / "bin" / "redis-server"
    program.parent.mkdir()
    program.write_text(f"#!{shutil.which('bash')}\n{script}\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))


def test_a_machine_without_redis_py_is_told_what_brings_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    redis_that(tmp_path, monkeypatch, ":")
    monkeypatch.setattr(_redis_server, "find_spec", lambda _name: None)
    assert missing() == "the comparison with Redis needs redis-py and there is none; make setup installs it"


def test_a_redis_that_ends_at_once_is_an_error_with_what_it_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    redis_that(tmp_path, monkeypatch, f"echo x >>{tmp_path}/starts; echo 'FATAL CONFIG FILE ERROR'; exit 1")
    with pytest.raises(BenchmarkError, match="ended before it was ready: FATAL CONFIG FILE ERROR"):
        RedisServer(tmp_path / "data")
    assert (tmp_path / "starts").read_text() == "x\n"


def test_a_port_that_was_taken_meanwhile_gives_way_to_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = f"""
        echo "$@" >>{tmp_path}/starts
        if [ ! -e {tmp_path}/tried ]; then
            : >{tmp_path}/tried
            echo "Could not create server TCP listening socket: bind: Address already in use"
            exit 1
        fi
        echo "* Ready to accept connections"
        """
    redis_that(tmp_path, monkeypatch, script)
    with RedisServer(tmp_path / "data") as server:
        first, second = (tmp_path / "starts").read_text().splitlines()
    assert f"--port {server.port} " in second
    assert first.startswith("--bind 127.0.0.1 --port ")
    assert "--appendonly yes --appendfsync always" in second


class Caller:
    """The process that started a role, as the role sees it."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    def say(self, **facts: Any) -> None:
        self.heard.append(facts)

    def wait(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize("one_at_a_time", [False, True])
def test_what_is_added_is_taken_acknowledged_and_forgotten(tmp_path: Path, one_at_a_time: bool) -> None:
    lacking = missing()
    if lacking is not None:
        pytest.skip(lacking)
    from benchmarks._redis_clients import add_paced, books, make_group, take_timed

    sender: Any = Caller()
    receiver: Any = Caller()
    with RedisServer(tmp_path / "data") as server:
        assert make_group(server.port)
        cpu, switches = cpu_seconds(server.pid), context_switches(server.pid)
        add_paced(sender, server.port, rate=1_000, count=20, size=100, skip=5, one_at_a_time=one_at_a_time)
        durable = {"syncs": "always", "appends": 1}
        assert books(server.port) == {"entries": 20, "pending": 0, **durable}
        take_timed(receiver, server.port, count=20, skip=5, max_in_flight=8)
        assert books(server.port) == {"entries": 0, "pending": 0, **durable}
        assert cpu_seconds(server.pid) > cpu
        assert context_switches(server.pid) > switches
    for said in (sender.heard, receiver.heard):
        assert [one.get("messages") for one in said] == [None, 20]
        assert 0 < said[1]["latency_us"]["p50"] <= said[1]["latency_us"]["max"]
