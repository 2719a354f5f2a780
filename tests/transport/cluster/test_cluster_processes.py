"""Three brokers as processes, and an etcd: what the command line shows of them, and how one is stopped and reloaded."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.free_ports import free_ports
from tests.transport.programs import ROOT, Program
from transport.clients.administration import Administration

if TYPE_CHECKING:
    from tests.transport.cluster.etcds import Etcds

DEADLINE = 60.0


class Brokers:
    """Three nodes of a cluster, by name."""

    def __init__(self, etcd: Etcds, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        secret, settings = folder / "secret", folder / "penstock.toml"
        secret.write_text("0123456789abcdef0123456789abcdef\n")
        secret.chmod(0o600)
        settings.write_text('[broker]\nlog_level = "info"\n')
        self.settings = settings
        found = iter(free_ports(9))
        self.ports = {name: [next(found) for _ in range(3)] for name in "abc"}
        endpoint = etcd.machines["a"].own.clients
        first = ",".join(f"{name}=127.0.0.1:{own[2]}" for name, own in self.ports.items())
        self.running: dict[str, Program] = {}
        self._stack = stack
        self._common = (
            *("broker", "--config", str(settings), "--http", "none", "--cluster-secret-file", str(secret)),
            *("--cluster", f"etcd://{endpoint}/{folder.name}", "--cluster-members", first, "--advertise", "127.0.0.1"),
        )
        for name in self.ports:
            self.start(name)

    def start(self, name: str, *more: str) -> None:
        send, receive, links = self.ports[name]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = self._stack.enter_context(
                Program(
                    *(*self._common, "--node", name, "--data", str(self.folder / name), *more),
                    *("--cluster-address", f"127.0.0.1:{links}", "--send-address", f"127.0.0.1:{send}"),
                    *("--receive-address", f"127.0.0.1:{receive}"),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                )
            )

    def address(self, *names: str) -> str:
        return ",".join(f"127.0.0.1:{self.ports[name][0]}" for name in names or self.ports)

    def said(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def until(self, holds: Any) -> dict[str, Any]:
        """How the leader says that the cluster stands, once ``holds`` of it."""

        async def watch() -> dict[str, Any]:
            async with asyncio.timeout(DEADLINE):
                while True:
                    async with Administration(self.address(), connect_timeout=DEADLINE) as administration:
                        facts = await administration.cluster()
                    if holds(facts):
                        return facts
                    await asyncio.sleep(0)

        return asyncio.run(watch())

    def until_said(self, name: str, text: str) -> None:
        until = time.monotonic() + DEADLINE
        while text not in self.said(name):
            assert time.monotonic() < until, f"{name} has not said {text!r}: {self.said(name)}"
            threading.Event().wait(0.02)


@pytest.fixture
def brokers(etcd: Etcds, tmp_path: Path) -> Iterator[Brokers]:
    with ExitStack() as stack:
        yield Brokers(etcd, tmp_path, stack)


def penstock(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "transport.cli", *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE,
    )


def test_a_cluster_is_shown_reloaded_and_handed_over(brokers: Brokers) -> None:
    facts = brokers.until(lambda facts: all(each["in_step"] for each in facts["members"]))
    leader = facts["leader"]
    first, second = sorted(set("abc") - {leader})
    assert f"penstock broker: node {leader}: sending {brokers.address(leader)}" in brokers.said(leader)
    # Whichever is asked, the leader answers.
    done = penstock("cluster", "status", "--json", "--address", brokers.address(first))
    assert (done.returncode, json.loads(done.stdout)["node"]) == (0, leader)
    done = penstock("cluster", "status", "--address", brokers.address(first))
    assert done.returncode == 0
    assert "mode majority" in done.stdout
    rows = [line.split()[:2] for line in done.stdout.splitlines() if line]
    assert [leader, "leader"] in rows
    done = penstock("cluster", "remove", leader, "--address", brokers.address(second))
    assert (done.returncode, "restart its node first" in done.stderr) == (1, True)
    # Settings are read again, wherever.
    brokers.settings.write_text('[broker]\nlog_level = "debug"\n')
    for name in (leader, first):
        brokers.running[name].process.send_signal(signal.SIGHUP)
        brokers.until_said(name, "read again: keys of the links, keys of the register, log level")
    # The leader is stopped: another one leads before anybody has missed it.
    brokers.running[leader].process.send_signal(signal.SIGTERM)
    assert brokers.running[leader].end() == 0
    assert "it hands over to" in brokers.said(leader)
    facts = brokers.until(lambda facts: facts["leader"] in (first, second))
    assert facts["epoch"] > 2
    gone = next(each for each in facts["members"] if each["name"] == leader)
    assert (gone["role"], gone["connected"]) == ("away", False)
    for name in (first, second):
        brokers.running[name].process.send_signal(signal.SIGTERM)
    assert [brokers.running[name].end() for name in (first, second)] == [0, 0]


def test_a_killed_node_whose_files_are_damaged_stays_up_and_is_filled_anew_by_command_or_by_itself(
    brokers: Brokers,
) -> None:
    def row(facts: dict[str, Any], name: str) -> dict[str, Any]:
        return next(each for each in facts["members"] if each["name"] == name)

    def filled(times: int) -> Any:
        return lambda facts: row(facts, name)["in_step"] and row(facts, name)["kept_damaged"] == times

    facts = brokers.until(lambda facts: all(each["in_step"] for each in facts["members"]))
    name = min(set("abc") - {facts["leader"]})
    for number, more in enumerate(((), ("--auto-heal",)), 1):
        brokers.running[name].process.kill()
        brokers.running[name].process.wait(DEADLINE)
        checkpoint = max((brokers.folder / name).glob("checkpoint-*"))
        data = bytearray(checkpoint.read_bytes())
        data[-1] ^= 1
        checkpoint.write_bytes(bytes(data))
        brokers.start(name, *more)
        if not more:
            facts = brokers.until(lambda facts: row(facts, name)["role"] == "damaged")
            assert str(checkpoint) in row(facts, name)["damage"]
            assert (
                f"this node has met damage, and leaves its cluster until it is filled anew (penstock cluster heal {name})"
                in (brokers.said(name))
            )
            assert brokers.running[name].process.poll() is None
            done = penstock("cluster", "heal", name, "--address", brokers.address(), "--wait", f"{DEADLINE}s")
            assert (done.returncode, f"node {name} is filled anew" in done.stdout) == (0, True), done.stderr
        facts = brokers.until(filled(number))
        assert row(facts, name)["damage"] is None
        assert (brokers.folder / name / f"damaged-{number}" / checkpoint.name).exists()
    for each in "abc":
        brokers.running[each].process.send_signal(signal.SIGTERM)
    assert [brokers.running[each].end() for each in "abc"] == [0, 0, 0]
